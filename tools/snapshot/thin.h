/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A history with fewer records, for the report: a browser cannot hold ten million.
 *
 * Blocks are left out whole, with all their records: those with the least bytes times time,
 * measured in records. Blocks that begin or end in the requested window of time are left out after
 * all others. Records that belong to no block stay. A block that was there before the history or is
 * there after it stays, too. One record of kind `left_out` stands for the records left out between
 * two others. It is placed at the moment when most was live among them. Every record has its sums.
 * So the amounts are exact whatever is left out, and so is every peak.
 */
#ifndef TENURE_TOOLS_THIN_H
#define TENURE_TOOLS_THIN_H

#include "course.h"

/* A window of time, both ends included. No window if it ends before it begins. */
typedef struct thin_window {
    int64_t from_ns, to_ns;
} thin_window;

typedef struct thin {
    const model *in;
    thin_window window;
    array owners;   /* uint32_t, one per record: that of its block's allocation, or UINT32_MAX */
    array ends;     /* uint32_t, of an allocation: the record that ends the block, or UINT32_MAX */
    unsigned least; /* blocks whose worth is not above it are left out */
    size_t left_out;
    array sums; /* course_sums of each device, and of none, before the first record */
} thin;

/* Chooses what to leave out so that little more than `most` records are written. Returns 0, or -1
 * without memory; to be released in both cases. */
int thin_start(thin *plan, const model *snapshot, size_t most, thin_window window);
void thin_release(thin *plan);

/* 1 if the record stays. */
int thin_keeps(const thin *plan, size_t at);

/* Calls `write` for each record that stays, and for each record that stands for others;
 * `stands_for` says for how many. The sums are those of the record's device after the record. */
typedef void thin_write(void *context, const record *one, size_t stands_for,
                        const course_sums *after);
/* Returns 0, or -1 without memory. */
int thin_run(const thin *plan, thin_write *write, void *context);

#endif
