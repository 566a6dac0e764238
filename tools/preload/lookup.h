/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What our dlsym asks before it answers or steps aside: see lookup.c.
 */
#ifndef TENURE_PRELOAD_LOOKUP_H
#define TENURE_PRELOAD_LOOKUP_H

#include <stddef.h>

/* Two registers. Either the answer, or who is to answer. */
typedef struct lookup_answer {
    void *found;
    void *(*next)(void *, const char *);
} lookup_answer;

/* Called by the assembler only. */
lookup_answer preload_lookup(void *handle, const char *name, const void *caller);

/* The next function that programs asked for in a version of CUDA that we do not know, which they
 * got from the driver; null: no more. Begin with *index 0. Any thread. */
const char *lookup_newer(size_t *index, int *version);

#endif
