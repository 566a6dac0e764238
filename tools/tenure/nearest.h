/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Did you mean": finds the known word that is nearest to the typed one.
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

/* Offers one of the known words. */
void nearest_offer(nearest *self, const char *word);

#endif
