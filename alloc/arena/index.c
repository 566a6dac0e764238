/* SPDX-License-Identifier: Apache-2.0 */
/* The index of free runs: see index.h. */
#include "arena/index.h"

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
