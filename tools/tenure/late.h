/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that a trace's program has freed while other streams still used them, by the index of
 * their free: trace_op.is_late. They come back when the trace says that the free is complete, or
 * all at once where somebody waits for the streams.
 */
#ifndef TENURE_TOOLS_LATE_H
#define TENURE_TOOLS_LATE_H

#include <stddef.h>

typedef struct late_block {
    size_t free_op;
    void *block; /* null: it has come back */
} late_block;

typedef struct late_list {
    late_block *at; /* in the order of their frees */
    size_t count, capacity;
} late_list;

/* The frees come in order. Returns 0, or -1 without host memory. */
int late_add(late_list *late, size_t free_op, void *block);

/* The block of that free, which leaves the list; null: it is not, or no longer, in it. */
void *late_take(late_list *late, size_t free_op);

/* Any block, which leaves the list; null: it is empty. */
void *late_take_any(late_list *late);

void late_release(late_list *late);

#endif
