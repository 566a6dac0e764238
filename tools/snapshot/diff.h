/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two snapshots beside each other: what grew, by the stack that allocated it.
 *
 * Stacks of two files are the same if all their frames are the same: function, file and line, or,
 * if those are not known, module and offset. Blocks without a stack are told apart by size: by the
 * smallest power of two that holds what was asked for.
 */
#ifndef TENURE_TOOLS_DIFF_H
#define TENURE_TOOLS_DIFF_H

#include "model.h"

typedef struct diff_side {
    uint64_t bytes, count; /* of live blocks */
} diff_side;

typedef struct diff_row {
    int32_t stack_before, stack_after; /* in either snapshot; -1: not there */
    int32_t size_class;                /* -1: told apart by stack */
    diff_side before, after;
    uint64_t new_bytes, new_count; /* live after; not live before at that address */
} diff_row;

typedef struct diff_totals {
    uint64_t reserved, live, live_count, retired, cached;
} diff_totals;

typedef struct diff {
    budget *limits;
    diff_totals before, after;
    array rows; /* diff_row, largest growth first */
} diff;

/* Both are counted against the budget of `before`. Returns 0, or -1 without memory; the result is
 * to be released in both cases. */
int diff_run(const model *before, const model *after, diff *result);
void diff_release(diff *result);

#endif
