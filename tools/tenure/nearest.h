/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Did you mean": which of the words that there are is the one that was typed.
 */
#ifndef TENURE_TOOLS_NEAREST_H
#define TENURE_TOOLS_NEAREST_H

#include <stddef.h>

typedef struct nearest {
    const char *typed;
    const char *word; /* the best so far; null: none is like it */
    size_t changes;   /* how far it is */
} nearest;

/* `typed` stays the caller's, as all words do. */
void nearest_start(nearest *self, const char *typed);

/* One of the words that there are. */
void nearest_offer(nearest *self, const char *word);

#endif
