/* SPDX-License-Identifier: Apache-2.0 */
/* A radix sort: see sort.h. */
#include "see/snapshot/sort.h"

#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 6, DIGIT_VALUES = 1 << DIGIT_BITS };

static size_t digit_of(uint64_t key, unsigned digit)
{
    return (size_t)(key >> digit * DIGIT_BITS) & (DIGIT_VALUES - 1);
}

tnri_sorted *tnri_sort(tnri_sorted *entries, tnri_sorted *spare, size_t count)
{
    uint64_t all = UINT64_MAX;
    uint64_t any = 0;
    for (size_t i = 0; i < count; i++) {
        all &= entries[i].key;
        any |= entries[i].key;
    }
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        size_t starts[DIGIT_VALUES] = {0};
        if (digit_of(all ^ any, digit) == 0)
            continue;
        for (size_t i = 0; i < count; i++)
            starts[digit_of(entries[i].key, digit)]++;
        size_t start = 0;
        for (size_t value = 0; value < DIGIT_VALUES; value++) {
            size_t here = starts[value];
            starts[value] = start;
            start += here;
        }
        for (size_t i = 0; i < count; i++)
            spare[starts[digit_of(entries[i].key, digit)]++] = entries[i];
        tnri_sorted *sorted = spare;
        spare = entries;
        entries = sorted;
    }
    return entries;
}
