/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that code of this process was loaded from, as the dynamic linker knows them, each with
 * its build id. That is a number that the linker gave the file when it was built. A tool that looks
 * names up later can see by it that a file is still the one that ran. Build ids are read from
 * memory; no file is opened.
 */
#ifndef TNRI_SNAPSHOT_MODULES_H
#define TNRI_SNAPSHOT_MODULES_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prim/loader.h"
#include "base/prim/process.h"

typedef struct tnri_module {
    uintptr_t base;         /* of its first page */
    const char *path;       /* the dynamic linker's text, or tnri_modules.program */
    uint8_t build_id_bytes; /* 0: there is none */
    uint8_t is_used;        /* 1 if a frame is in it */
    unsigned char build_id[TNRI_BUILD_ID_BYTES];
} tnri_module;

/* The list of one picture; only the thread that makes the picture uses it. */
typedef struct tnri_modules {
    tnri_module *list;
    size_t count, room;
    size_t latest; /* found last: neighbours are in the same one most of the time */
    char *program; /* the path of the program, TNRI_PATH_BYTES bytes */
} tnri_modules;

/* Lists what is loaded now. 0: no host memory. */
int tnri_modules_make(tnri_modules *modules);
void tnri_modules_free(tnri_modules *modules);

/* The module whose first page is there, null if there is none. */
tnri_module *tnri_modules_find(tnri_modules *modules, uintptr_t base);

#endif
