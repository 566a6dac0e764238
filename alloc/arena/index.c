/* SPDX-License-Identifier: Apache-2.0 */
/* The index of free runs: see index.h. */
#include "arena/index.h"

unsigned tnri_index_class(size_t bytes)
{
    size_t units = bytes / TNR_ALIGNMENT_DEFAULT;
    if (units < TNRI_INDEX_EXACT)
        return (unsigned)units;
    unsigned log2 = 63u - (unsigned)__builtin_clzll(units);
    if (tnri_unlikely(log2 >= TNRI_INDEX_SUB_BITS + 1 + TNRI_INDEX_DOUBLINGS))
        return TNRI_INDEX_CLASSES - 1; /* a request that no device can serve */
    unsigned doubling = log2 - (TNRI_INDEX_SUB_BITS + 1);
    unsigned sub =
        (unsigned)(units >> (log2 - TNRI_INDEX_SUB_BITS)) & ((1u << TNRI_INDEX_SUB_BITS) - 1);
    unsigned class_index = TNRI_INDEX_EXACT + (doubling << TNRI_INDEX_SUB_BITS) + sub;
    tnri_assert_hot(class_index < TNRI_INDEX_CLASSES);
    return class_index;
}

void tnri_index_insert(tnri_index *index, tnri_block *run)
{
    tnri_assert_hot(run->state == TNRI_FREE);
    unsigned class_index = tnri_index_class(run->bytes);
    tnri_block *head = index->classes[class_index];
    run->prev = NULL;
    run->next = head;
    if (head != NULL)
        head->prev = run;
    index->classes[class_index] = run;
    index->words[class_index / 64] |= (uint64_t)1 << class_index % 64;
    index->summary |= (uint64_t)1 << class_index / 64;
    index->bytes += run->bytes;
    index->count++;
}

void tnri_index_remove(tnri_index *index, tnri_block *run)
{
    tnri_assert_hot(run->state == TNRI_FREE);
    index->bytes -= run->bytes;
    index->count--;
    if (run->next != NULL)
        run->next->prev = run->prev;
    if (run->prev != NULL) {
        run->prev->next = run->next;
        return;
    }
    unsigned class_index = tnri_index_class(run->bytes);
    tnri_assert_hot(index->classes[class_index] == run);
    index->classes[class_index] = run->next;
    if (run->next != NULL)
        return;
    index->words[class_index / 64] &= ~((uint64_t)1 << class_index % 64);
    if (index->words[class_index / 64] == 0)
        index->summary &= ~((uint64_t)1 << class_index / 64);
}

tnri_block *tnri_index_from(const tnri_index *index, unsigned class_first, unsigned *class_found)
{
    if (class_first >= TNRI_INDEX_CLASSES)
        return NULL;
    unsigned word = class_first / 64;
    uint64_t bits = index->words[word] & ~(uint64_t)0 << class_first % 64;
    if (bits == 0) {
        uint64_t above = word == 63 ? 0 : index->summary & ~(uint64_t)0 << (word + 1);
        if (above == 0)
            return NULL;
        word = (unsigned)__builtin_ctzll(above);
        bits = index->words[word];
    }
    *class_found = word * 64 + (unsigned)__builtin_ctzll(bits);
    return index->classes[*class_found];
}

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

tnri_block *tnri_index_find(const tnri_index *index, size_t bytes, size_t bytes_max)
{
    unsigned class_index = tnri_index_class(bytes);
    unsigned found;
    tnri_block *head = tnri_index_from(index, class_index, &found);
    if (head != NULL && found == class_index) {
        tnri_block *run = index_best_of(head, bytes);
        if (run != NULL)
            return run->bytes <= bytes_max ? run : NULL;
        head = tnri_index_from(index, class_index + 1, &found);
    }
    if (head == NULL)
        return NULL;
    tnri_block *run = index_best_of(head, bytes);
    return run->bytes <= bytes_max ? run : NULL;
}
