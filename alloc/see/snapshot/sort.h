/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting by a 64-bit key, stable and in linear time: least significant digit first, eleven bits at
 * a time. Digits that all keys share are passed over. A million keys take some ten milliseconds.
 */
#ifndef TNRI_SNAPSHOT_SORT_H
#define TNRI_SNAPSHOT_SORT_H

#include <stddef.h>
#include <stdint.h>

typedef struct tnri_sorted {
    uint64_t key;
    uint64_t index; /* the caller's */
} tnri_sorted;

/* Sorts `count` entries; `spare` has room for as many. Returns `entries` or `spare`, whichever has
 * the result. */
tnri_sorted *tnri_sort(tnri_sorted *entries, tnri_sorted *spare, size_t count);

#endif
