/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading elfutils: see elfutils.h.
 */
#include "elfutils.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define ELFUTILS_LIBRARY "libdw.so.1"

elfutils_table elfutils;

/* Where each function goes. */
static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define ELFUTILS(result, name, arguments) {#name, offsetof(elfutils_table, name)},
#include "elfutils.def"
#undef ELFUTILS
};

/* What it lacks; null: nothing. Object pointers become function pointers the way POSIX allows. */
static const char *table_fill(void *library)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *found = dlsym(library, functions[i].name);
        if (!found)
            return functions[i].name;
        memcpy((char *)&elfutils + functions[i].offset, &found, sizeof(found));
    }
    return NULL;
}

static char sentence[512]; /* written once, by load */

static void load(void)
{
    /* It stays loaded: what it has allocated is its own. */
    void *library = dlopen(ELFUTILS_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    const char *lacks = library ? table_fill(library) : NULL;
    if (!library)
        snprintf(sentence, sizeof(sentence),
                 "elfutils' " ELFUTILS_LIBRARY " cannot be loaded (%.250s). Install libdw1 "
                 "(Debian, Ubuntu) or elfutils-libs (Fedora, RHEL)",
                 dlerror());
    else if (lacks)
        snprintf(sentence, sizeof(sentence),
                 "elfutils' " ELFUTILS_LIBRARY " lacks %s. Install elfutils 0.171 or newer", lacks);
}

const char *elfutils_missing(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return sentence[0] ? sentence : NULL;
}
