/* SPDX-License-Identifier: Apache-2.0 */
/*
 * History, read backwards from the picture.
 *
 * A history may begin late, and records of different arenas may be stored in an order in which they
 * did not happen. The picture at the end is certain. So the code starts from it and takes back one
 * record after the other: an `alloc` must find its block there, a `free` must not, and so on.
 * Records that contradict what is known by then are marked. What is left after the first record has
 * been taken back is what was there before it.
 */
#ifndef TENURE_TOOLS_REWIND_H
#define TENURE_TOOLS_REWIND_H

#include "model.h"

/* A block that was there before the first record. */
typedef struct early_block {
    uint64_t address, bytes, requested_bytes;
    int32_t pool, stream;
    uint32_t stack;
    unsigned char retired;
} early_block;

/* A part of the memory that a record says was mapped. PyTorch's viewer then has the part in a
 * segment of its own: memory of a stream that ended may have become another stream's, in part. */
typedef struct memory_part {
    size_t record;
    uint64_t from, bytes;
    int32_t stream;
} memory_part;

typedef struct rewind_result {
    budget *limits;
    array contradicts; /* unsigned char, one per record: 1 if it does not fit */
    array early;       /* early_block, in the order of addresses */
    array parts; /* memory_part: of records that are not one of their own stream; the last first */
    size_t contradictions_count;
} rewind_result;

/* Returns 0, or -1 without memory. The result is to be released in both cases. */
int rewind_run(const model *snapshot, rewind_result *result);
void rewind_release(rewind_result *result);

#endif
