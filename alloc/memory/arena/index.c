/* SPDX-License-Identifier: Apache-2.0 */
/* The index of free runs: see index.h. */
#include "memory/arena/index.h"

/* The smallest of the first few runs of a list that has room for `bytes`; null if none has. */
static tnri_block *index_best_of(tnri_block *run, size_t bytes)
{
    tnri_block *best = NULL;
    for (int look = 0; run != NULL && look < TNRI_INDEX_LOOKS; look++, run = run->next) {
        if (run->bytes < bytes)
            continue;
        if (run->bytes == bytes)
            return run;
        if (best == NULL || run->bytes < best->bytes)
            best = run;
    }
    return best;
}

tnri_block *tnri_index_choose(const tnri_index *index, size_t bytes)
{
    unsigned class_index = tnri_index_class(bytes);
    unsigned found;
    tnri_block *head = tnri_index_from(index, class_index, &found);
    if (head != NULL && found == class_index) {
        tnri_block *run = index_best_of(head, bytes);
        if (run != NULL)
            return run;
        head = tnri_index_from(index, class_index + 1, &found);
    }
    return head != NULL ? index_best_of(head, bytes) : NULL;
}

/* 1 if a run has a place for `bytes` at the alignment. */
static int run_has_place(const tnri_block *run, size_t bytes, size_t alignment)
{
    uintptr_t base = (run->base + alignment - 1) & ~(alignment - 1);
    uintptr_t end = tnri_block_end(run);
    return base <= end && end - base >= bytes;
}

tnri_block *tnri_index_find_aligned(const tnri_index *index, size_t bytes, size_t alignment,
                                    size_t bytes_max)
{
    unsigned found;
    unsigned class_index = tnri_index_class(bytes);
    tnri_block *best = NULL;
    tnri_block *run;
    for (int looks = 0; best == NULL && looks < TNRI_INDEX_ALIGNED_LOOKS &&
                        (run = tnri_index_from(index, class_index, &found)) != NULL;
         class_index = found + 1)
        for (; run != NULL && looks < TNRI_INDEX_ALIGNED_LOOKS; run = run->next, looks++)
            if (run_has_place(run, bytes, alignment) && (best == NULL || run->bytes < best->bytes))
                best = run;
    if (best == NULL) /* many small runs, and perhaps a large one */
        return tnri_index_find(index, bytes + (alignment - TNR_ALIGNMENT_DEFAULT), bytes_max);
    return best->bytes <= bytes_max ? best : NULL;
}
