/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking for other copies: see alone.h.
 *
 * The loader lists the objects of the process. A copy is an object with our soname at another
 * place; its own tnr_is_running says whether it runs. The claim is set before the look. So if two
 * copies look at once, at least one sees the other. Copies in other namespaces of the loader
 * (dlmopen) have a C library of their own, too, and are not seen.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr, dladdr */
#endif

#include "api/alone.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <tenure/alloc.h>

#include "base/error.h"

enum { COPIES_MAX = 8 };
static const char SONAME[] = "libtenure.so.";

static _Atomic int is_claimed;

int tnr_is_running(void)
{
    return atomic_load(&is_claimed);
}

typedef struct copies {
    int count;
    char paths[COPIES_MAX][PATH_MAX];
} copies;

/* The name by which other objects ask for this one; null: it has none. */
static const char *object_soname(const struct dl_phdr_info *info)
{
    const char *texts = NULL;
    ElfW(Xword) place = 0;
    int has_name = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) {
            if (entry->d_tag == DT_SONAME) {
                place = entry->d_un.d_val;
                has_name = 1;
            } else if (entry->d_tag == DT_STRTAB) {
                /* Where the section cannot be written to, it is not relocated. */
                uintptr_t address = entry->d_un.d_ptr;
                texts =
                    (const char *)(address < info->dlpi_addr ? address + info->dlpi_addr : address);
            }
        }
    }
    return has_name && texts != NULL ? texts + place : NULL;
}

static int object_has(const struct dl_phdr_info *info, const void *address)
{
    uintptr_t offset = (uintptr_t)address - info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && offset >= info->dlpi_phdr[i].p_vaddr &&
            offset - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return 1;
    return 0;
}

/* Notes an object that is a copy. The loader's lock is held: it cannot be asked more here. */
static int copy_note(struct dl_phdr_info *info, size_t bytes, void *user)
{
    copies *found = user;
    (void)bytes;
    if (found->count == COPIES_MAX || object_has(info, &is_claimed))
        return 0;
    const char *soname = object_soname(info);
    if (soname == NULL || strncmp(soname, SONAME, sizeof(SONAME) - 1) != 0)
        return 0;
    int length = snprintf(found->paths[found->count], PATH_MAX, "%s", info->dlpi_name);
    found->count += length > 0 && length < PATH_MAX;
    return 0;
}

/* 1 if the copy runs. One from before tnr_is_running cannot tell. */
static int copy_runs(const char *path)
{
    int (*ask)(void) = NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == NULL)
        return 0; /* gone meanwhile */
    void *symbol = dlsym(handle, "tnr_is_running");
    memcpy(&ask, &symbol, sizeof(ask));
    int is_running = ask != NULL && ask();
    (void)dlclose(handle);
    return is_running;
}

tnr_status tnri_alone_claim(void)
{
    static copies found; /* under the library lock */
    Dl_info self = {0};
    atomic_store(&is_claimed, 1);
    found.count = 0;
    (void)dl_iterate_phdr(copy_note, &found);
    for (int i = 0; i < found.count; i++) {
        if (!copy_runs(found.paths[i]))
            continue;
        tnri_alone_release();
        (void)dladdr(&is_claimed, &self);
        return tnri_error(
            TNR_ERR_SECOND_COPY,
            "%s runs in this process already, and %s is a second copy, which would "
            "know nothing of the first one's memory. Let all load one file: uninstall "
            "one, or name the same for each (TENURE_LIBRARY for Python, "
            "LD_LIBRARY_PATH).",
            found.paths[i], self.dli_fname == NULL ? "this" : self.dli_fname);
    }
    return TNR_OK;
}

void tnri_alone_release(void)
{
    atomic_store(&is_claimed, 0);
}
