/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a stack begins for its reader: at the program's own frame. The rule is that of all stacks
 * that are shown, and the library's own: alloc/see/snapshot/whose.h.
 */
#ifndef TENURE_PRELOAD_BETWEEN_H
#define TENURE_PRELOAD_BETWEEN_H

#include "../../alloc/see/snapshot/whose.h"

/* 1 for a frame that lies between the program and its memory. `file` is the last part of its file's
 * path; either may be empty, or null where it is not known. */
static inline int between_is(const char *file, const char *function)
{
    return tnri_frame_is_between(function, file);
}

/* 1 for a frame that tells a reader nothing of the program: of the C library, the loader, the C++
 * library, an interpreter, a framework's dispatcher, or what starts a program. */
static inline int between_is_outside(const char *file, const char *function)
{
    return (tnri_frame_whose(function, NULL, file) &
            (TNRI_WHOSE_MACHINERY | TNRI_WHOSE_ALLOCATOR)) != 0;
}

#endif
