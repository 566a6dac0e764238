/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of free runs: best fit in constant time.
 *
 * Sizes, in units of 512 bytes, fall into classes: exact up to 128 units, then 64 classes to each
 * doubling (1.6 % apart). Each class is a doubly linked list; a two-level bitmap finds the next
 * class that is not empty. In the request's own class, where some runs are too small, and in the
 * first larger class the best of the first few runs is taken; what is lost against an exact best
 * fit is below 1.6 % of the run's size. This is the idea of TLSF (Masmano et al., ECRTS 2004) with
 * finer classes.
 *
 * Runs of one class are kept newest first. Everything is under the arena's lock.
 */
#ifndef TNRI_ARENA_INDEX_H
#define TNRI_ARENA_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "arena/block.h"
#include "base/assert.h"

enum {
    TNRI_INDEX_SUB_BITS = 6,                     /* 64 classes to a doubling */
    TNRI_INDEX_EXACT = 2 << TNRI_INDEX_SUB_BITS, /* classes of a single size below this */
    TNRI_INDEX_DOUBLINGS = 29,                   /* up to 2^36 units: 32 TiB */
    TNRI_INDEX_CLASSES = TNRI_INDEX_EXACT + (TNRI_INDEX_DOUBLINGS << TNRI_INDEX_SUB_BITS),
    TNRI_INDEX_WORDS = (TNRI_INDEX_CLASSES + 63) / 64,
    TNRI_INDEX_LOOKS = 16 /* runs looked at in one class */
};
_Static_assert(TNRI_INDEX_WORDS <= 64, "one word sums up the bitmap");

typedef struct tnri_index {
    uint64_t summary;                 /* bit w: words[w] is not zero */
    uint64_t words[TNRI_INDEX_WORDS]; /* bit c: classes[c] is not empty */
    tnri_block *classes[TNRI_INDEX_CLASSES];
    size_t bytes; /* sum over all runs in the index */
    size_t count;
} tnri_index;

/* The class of a size: that of the largest class bound not above it. The last one has no upper end:
 * callers may ask for up to an EiB. */
unsigned tnri_index_class(size_t bytes);

void tnri_index_insert(tnri_index *index, tnri_block *run);
void tnri_index_remove(tnri_index *index, tnri_block *run);

/* The run to carve `bytes` from: the smallest that was found, not above `bytes_max`; null if there
 * is none. Leaves it in the index. */
tnri_block *tnri_index_find(const tnri_index *index, size_t bytes, size_t bytes_max);

/* The first run of the first class from `class` on that is not empty; null past the last. For walks
 * by size: the next run of the same class is run->next, the next class is one above. */
tnri_block *tnri_index_from(const tnri_index *index, unsigned class_first, unsigned *class_found);

#endif
