/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking for other copies: see single_copy.h.
 *
 * The loader lists the objects of the process. A copy is an object with our soname at another
 * place; its own tnr_is_running says whether it runs. The claim is set before the look. So if two
 * copies look at once, at least one sees the other. Copies in other namespaces of the loader
 * (dlmopen) have a C library of their own, too, and are not seen.
 */
#include "api/single_copy.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <tenure/alloc.h>

#include "base/error.h"
#include "base/prim/loader.h"
#include "base/prim/process.h"

enum { COPIES_MAX = 8 };
static const char SONAME[] = "libtenure.so.";

static _Atomic int is_claimed;

int tnr_is_running(void)
{
    return atomic_load(&is_claimed);
}

typedef struct copies {
    int count;
    char paths[COPIES_MAX][TNRI_PATH_BYTES];
} copies;

/* Notes an object that is a copy. */
static int copy_note(const tnri_loaded_file *file, void *user)
{
    copies *found = user;
    if (found->count == COPIES_MAX || tnri_loaded_has(file, &is_claimed))
        return 0;
    const char *soname = tnri_loaded_name(file);
    if (soname == NULL || strncmp(soname, SONAME, sizeof(SONAME) - 1) != 0)
        return 0;
    int length = snprintf(found->paths[found->count], TNRI_PATH_BYTES, "%s", file->path);
    found->count += length > 0 && length < TNRI_PATH_BYTES;
    return 0;
}

/* 1 if the copy runs. One from before tnr_is_running cannot tell. */
static int copy_runs(const char *path)
{
    int (*ask)(void) = NULL;
    void *handle = tnri_loader_open(path, TNRI_LOADER_LOADED);
    if (handle == NULL)
        return 0; /* gone meanwhile */
    int is_running = tnri_loader_function(handle, "tnr_is_running", &ask) && ask();
    tnri_loader_close(handle);
    return is_running;
}

tnr_status tnri_single_copy_claim(void)
{
    static copies found; /* under the library lock */
    tnri_loaded_at self;
    atomic_store(&is_claimed, 1);
    found.count = 0;
    (void)tnri_loader_each(copy_note, &found);
    for (int i = 0; i < found.count; i++) {
        if (!copy_runs(found.paths[i]))
            continue;
        tnri_single_copy_release();
        (void)tnri_loader_find((uintptr_t)&is_claimed, &self);
        return tnri_error(
            TNR_ERR_SECOND_COPY,
            "%s runs in this process already, and %s is a second copy, which would "
            "know nothing of the first one's memory. Let all load one file: uninstall "
            "one, or name the same for each (TENURE_LIBRARY for Python, "
            "LD_LIBRARY_PATH).",
            found.paths[i], self.path == NULL ? "this" : self.path);
    }
    return TNR_OK;
}

void tnri_single_copy_release(void)
{
    atomic_store(&is_claimed, 0);
}
