/* SPDX-License-Identifier: Apache-2.0 */
/* See loader.h. */
#include "base/prim/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

/* ---- libraries ------------------------------------------------------------------------------ */

void *tnri_loader_open(const char *path, unsigned flags)
{
    return dlopen(path, ((flags & TNRI_LOADER_LATE) != 0 ? RTLD_LAZY : RTLD_NOW) |
                            ((flags & TNRI_LOADER_LOADED) != 0 ? RTLD_NOLOAD : 0) | RTLD_LOCAL);
}

void tnri_loader_close(void *library)
{
    (void)dlclose(library);
}

/* ISO C has no cast between pointers to objects and to functions, so the bits are copied. */
int tnri_loader_function(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

const char *tnri_loader_error(void)
{
    return dlerror();
}

/* ---- addresses ------------------------------------------------------------------------------ */

int tnri_loader_find(uintptr_t address, tnri_loaded_at *at)
{
    Dl_info info;
    memset(at, 0, sizeof(*at));
    memset(&info, 0, sizeof(info));
    if (dladdr((const void *)address, &info) == 0)
        return 0;
    at->path = info.dli_fname;
    at->base = (uintptr_t)info.dli_fbase;
    at->symbol = info.dli_sname;
    at->symbol_address = (uintptr_t)info.dli_saddr;
    return 1;
}

int tnri_loader_is_program(uintptr_t address)
{
    Dl_info info;
    void *map = NULL;
    if (dladdr1((const void *)address, &info, &map, RTLD_DL_LINKMAP) == 0)
        return 0;
    const struct link_map *loaded = map;
    return loaded != NULL && (loaded->l_name == NULL || loaded->l_name[0] == '\0');
}

/* ---- files ---------------------------------------------------------------------------------- */

typedef struct visitor {
    int (*each)(const tnri_loaded_file *file, void *user);
    void *user;
} visitor;

static int file_visit(struct dl_phdr_info *info, size_t bytes, void *context)
{
    const visitor *self = context;
    tnri_loaded_file file = {info->dlpi_name == NULL ? "" : info->dlpi_name, info};
    (void)bytes;
    return self->each(&file, self->user);
}

int tnri_loader_each(int (*each)(const tnri_loaded_file *file, void *user), void *user)
{
    visitor self = {each, user};
    return dl_iterate_phdr(file_visit, &self);
}

uintptr_t tnri_loaded_base(const tnri_loaded_file *file)
{
    const struct dl_phdr_info *info = file->own;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            return info->dlpi_addr + (info->dlpi_phdr[i].p_vaddr & ~(page - 1));
    }
    return 0;
}

const char *tnri_loaded_name(const tnri_loaded_file *file)
{
    const struct dl_phdr_info *info = file->own;
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

int tnri_loaded_has(const tnri_loaded_file *file, const void *address)
{
    const struct dl_phdr_info *info = file->own;
    uintptr_t offset = (uintptr_t)address - info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && offset >= info->dlpi_phdr[i].p_vaddr &&
            offset - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return 1;
    return 0;
}

/* ---- build ids ------------------------------------------------------------------------------ */

/* 1 if the range is in a part of the file that was loaded and can be read. Not every file's notes
 * are. */
static int range_is_loaded(const struct dl_phdr_info *info, const ElfW(Phdr) * range)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_R) != 0 &&
            range->p_vaddr >= part->p_vaddr && range->p_filesz <= part->p_filesz &&
            range->p_vaddr - part->p_vaddr <= part->p_filesz - range->p_filesz)
            return 1;
    }
    return 0;
}

static size_t padded(size_t bytes, size_t to)
{
    return (bytes + to - 1) & ~(to - 1);
}

/* Looks for the build id among the notes from `at` on, and returns its length. A description, and
 * the next note, begin at the alignment, counted from where the note begins. */
static size_t notes_read(unsigned char build_id[TNRI_BUILD_ID_BYTES], const unsigned char *at,
                         size_t left, size_t alignment)
{
    ElfW(Nhdr) head;
    while (left >= sizeof(head)) {
        memcpy(&head, at, sizeof(head));
        size_t text = padded(sizeof(head) + head.n_namesz, alignment);
        if (text > left || head.n_descsz > left - text)
            return 0;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
            memcmp(at + sizeof(head), "GNU", 4) == 0 && head.n_descsz <= TNRI_BUILD_ID_BYTES) {
            memcpy(build_id, at + text, head.n_descsz);
            return head.n_descsz;
        }
        size_t bytes = text + padded(head.n_descsz, alignment);
        if (bytes > left) /* the last one is not padded */
            return 0;
        at += bytes;
        left -= bytes;
    }
    return 0;
}

size_t tnri_loaded_build_id(const tnri_loaded_file *file,
                            unsigned char build_id[TNRI_BUILD_ID_BYTES])
{
    const struct dl_phdr_info *info = file->own;
    size_t length = 0;
    for (size_t i = 0; i < info->dlpi_phnum && length == 0; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_NOTE && range_is_loaded(info, part))
            length = notes_read(build_id, (const unsigned char *)(info->dlpi_addr + part->p_vaddr),
                                part->p_filesz, part->p_align == 8 ? 8 : 4);
    }
    return length;
}
