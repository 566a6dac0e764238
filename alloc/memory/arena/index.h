/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of free runs: best fit in constant time.
 *
 * Sizes, in units of 512 bytes, fall into classes: exact up to 256 units, then 128 classes to each
 * doubling (0.8 % apart). Each class is a list; a two-level bitmap finds the next class that is not
 * empty. Tenure takes the best of the first few runs in two classes: the request's own, where some
 * runs are too small, and the first larger one. The loss against an exact best fit is below 0.8 %
 * of the run's size. This is the idea of TLSF (Masmano et al., ECRTS 2004) with finer classes.
 *
 * Runs of one class are kept newest first. Each has the address of the pointer that leads to it.
 * Whatever comes and goes at random is handled without branches, since nothing could predict them.
 * Everything is under the arena's lock.
 */
#ifndef TNRI_ARENA_INDEX_H
#define TNRI_ARENA_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/heuristics.h"
#include "base/assert.h"
#include "memory/space/block.h"

enum {
    TNRI_INDEX_EXACT = 2 << TNRI_INDEX_SUB_BITS, /* classes of a single size below this */
    TNRI_INDEX_DOUBLINGS = 28,                   /* up to 2^36 units: 32 TiB */
    TNRI_INDEX_CLASSES = TNRI_INDEX_EXACT + (TNRI_INDEX_DOUBLINGS << TNRI_INDEX_SUB_BITS),
    TNRI_INDEX_WORDS = (TNRI_INDEX_CLASSES + 63) / 64
};
_Static_assert(TNRI_INDEX_WORDS < 64, "one word sums up the bitmap");
_Static_assert(TNRI_INDEX_CLASSES <= UINT16_MAX, "a class is read as 16 bits");

typedef struct tnri_index {
    uint64_t summary;   /* bit w: words[w] is not zero */
    uint64_t words[64]; /* bit c: classes[c] is not empty; some are never set */
    tnri_block *classes[TNRI_INDEX_CLASSES];
    tnri_block nobody; /* written to if there is no neighbour; never read */
} tnri_index;

/* The class of a size: the one with the largest bound that is not above the size. The last class
 * has no upper end: callers may ask for up to an EiB. Above the exact classes, the highest bits of
 * the size number the classes, and each doubling has as many. */
static inline unsigned tnri_index_class(size_t bytes)
{
    size_t units = bytes / TNR_ALIGNMENT_DEFAULT;
    unsigned log2 = 63u - (unsigned)__builtin_clzll(units | 1u << TNRI_INDEX_SUB_BITS);
    unsigned shift = log2 - TNRI_INDEX_SUB_BITS;
    size_t class_index = (units >> shift) + ((size_t)shift << TNRI_INDEX_SUB_BITS);
    /* More is a request that no device can serve. */
    return class_index < TNRI_INDEX_CLASSES ? (unsigned)class_index : TNRI_INDEX_CLASSES - 1;
}

/*
 * tnri_index_insert makes a record a FREE run. tnri_index_remove does the reverse: afterwards the
 * record is UNUSED, so nothing merges with it. If there is no neighbour, both write to the record
 * `nobody`. A run keeps its class, so the class is computed once.
 */
static inline void tnri_index_insert(tnri_index *index, tnri_block *run)
{
    unsigned class_index = tnri_index_class(run->bytes);
    unsigned word = class_index / 64;
    tnri_block **first = &index->classes[class_index];
    tnri_block *head = *first;
    tnri_block *after = head != NULL ? head : &index->nobody;
    run->what = tnri_block_what(TNRI_FREE, class_index);
    run->link = first;
    run->next = head;
    after->link = &run->next;
    *first = run;
    uint64_t bits = index->words[word];
    index->words[word] = bits | (uint64_t)1 << class_index % 64;
    if (tnri_unlikely(bits == 0))
        index->summary |= (uint64_t)1 << word;
}

static inline void tnri_index_remove(tnri_index *index, tnri_block *run)
{
    tnri_assert_hot(run->state == TNRI_FREE && run->slack == tnri_index_class(run->bytes));
    unsigned class_index = (unsigned)(uint16_t)run->what;
    unsigned word = class_index / 64;
    tnri_block *next = run->next;
    tnri_block **link = run->link;
    tnri_assert_hot(*link == run);
    tnri_block *after = next != NULL ? next : &index->nobody;
    run->what = tnri_block_what(TNRI_UNUSED, 0);
    *link = next;
    after->link = link;
    uint64_t emptied = index->classes[class_index] == NULL;
    uint64_t bits = index->words[word] & ~(emptied << class_index % 64);
    index->words[word] = bits;
    if (tnri_unlikely(bits == 0))
        index->summary &= ~((uint64_t)1 << word);
}

/* The first run of the first class from `class_first` on that is not empty; null past the last. For
 * walks by size: the next run of the same class is run->next, the next class is one above. */
static inline tnri_block *tnri_index_from(const tnri_index *index, unsigned class_first,
                                          unsigned *class_found)
{
    if (tnri_unlikely(class_first >= TNRI_INDEX_CLASSES))
        return NULL;
    unsigned word = class_first / 64;
    uint64_t bits = index->words[word] & ~(uint64_t)0 << class_first % 64;
    uint64_t above = index->summary & ~(uint64_t)1 << word;
    if (tnri_unlikely((bits | above) == 0))
        return NULL;
    /* Compute both, choose one by arithmetic: from anything simpler a compiler makes a branch. */
    unsigned word_above = (unsigned)__builtin_ctzll(above | (uint64_t)1 << 63);
    uint64_t choice = (uint64_t)0 - (uint64_t)(bits == 0);
    bits |= index->words[word_above] & choice;
    word ^= (word ^ word_above) & (unsigned)choice;
    *class_found = word * 64 + (unsigned)__builtin_ctzll(bits);
    return index->classes[*class_found];
}

/* A walk over the runs of a class and of all classes above. The caller may change a run that the
 * walk has given, and put it back in its class or a lower one: the walk only goes up. */
typedef struct tnri_index_walk {
    unsigned class_next;
    tnri_block *run_next; /* in the class before; null: none is left there */
} tnri_index_walk;

static inline tnri_block *tnri_index_next(const tnri_index *index, tnri_index_walk *walk)
{
    tnri_block *run = walk->run_next;
    if (run == NULL) {
        run = tnri_index_from(index, walk->class_next, &walk->class_next);
        if (run == NULL)
            return NULL;
        walk->class_next++;
    }
    walk->run_next = run->next;
    return run;
}

/* tnri_index_find where there are several runs to choose from, or one that may be too small. */
tnri_block *tnri_index_choose(const tnri_index *index, size_t bytes);

/* The run to carve `bytes` from: the smallest that was found, not above `bytes_max`; null if there
 * is none. Leaves it in the index. */
static inline tnri_block *tnri_index_find(const tnri_index *index, size_t bytes, size_t bytes_max)
{
    unsigned found;
    tnri_block *run = tnri_index_from(index, tnri_index_class(bytes), &found);
    if (tnri_unlikely(run == NULL))
        return NULL;
    int is_best = (run->bytes >= bytes) &
                  ((run->next == NULL) | (found < TNRI_INDEX_EXACT) | (run->bytes == bytes));
    if (!is_best)
        run = tnri_index_choose(index, bytes);
    return run != NULL && run->bytes <= bytes_max ? run : NULL;
}

/* The same for a block at a multiple of `alignment`, which is above the default one: the smallest
 * run that has such a place. Looks at a bounded number of runs, and then at one so large that any
 * place in it will do. */
tnri_block *tnri_index_find_aligned(const tnri_index *index, size_t bytes, size_t alignment,
                                    size_t bytes_max);

#endif
