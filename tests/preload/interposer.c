/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another library that puts itself over dlsym, as profilers do: it counts who asks for what, and
 * hands on to the next. Says at the end how many names of the driver it has seen.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void *(*dlsym_function)(void *, const char *);

static int seen;

__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name);

void *dlsym(void *handle, const char *name)
{
    static dlsym_function next;
    if (next == NULL) {
        /* glibc has had it under two versions. */
        void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (found == NULL)
            found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        memcpy(&next, &found, sizeof(next));
    }
    if (strncmp(name, "cu", 2) == 0)
        seen++;
    return next(handle, name);
}

__attribute__((destructor)) static void seen_tell(void)
{
    fprintf(stderr, "interposer: %d names seen\n", seen);
}
