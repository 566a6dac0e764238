/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program must keep to: see rules.c. Between check_enter and check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_RULES_H
#define TENURE_PRELOAD_CHECK_RULES_H

#include "check/blocks.h"

/* Work on a stream, with the stream's clock at that moment. */
typedef struct check_work {
    check_stream *stream;
    check_touch touch;
} check_work;

/* Begins a piece of work on a stream: numbered, and after all that the stream waits for. 0: no
 * memory for what is known of the stream, and nothing is noted. */
int check_work_begin(check_work *work, const check_name *name, const check_place *place);

/* The calling thread, as the system numbers it. */
pid_t check_thread(void);

/* 1 if an address of Tenure's memory is in a live block, whether it is followed or not. */
int check_is_live(CUdeviceptr address);

/* Where the memory around an address ends: that of a live block, followed or not, or of an import.
 * 0: it is in neither. */
CUdeviceptr check_memory_end(CUdeviceptr address);

/* The work uses the memory at an address, which is Tenure's; `block`: what check_block_at says of
 * it. */
static inline void check_use_in(const check_work *work, check_block *block, CUdeviceptr address,
                                int is_certain);

/* With --waste: work on the stream of that handle uses the block now. */
void check_use_idle(check_block *block, const void *handle);

/* The work uses all of this, as a copy or a set does. */
void check_use_span(const check_work *work, check_span span);

/* The work writes there, where the host can read it. */
void check_span_polled(const check_work *work, check_span to);

/* What engines have freed: memory is about to leave the process, or the program has ended. */
void check_memory_leaves(void);
void check_memory_left(void);

/* Work that is captured uses it: with auto_record:seen alone. */
void check_use_captured(CUdeviceptr address, CUstream stream);

/* The work uses a block that its graph was given when it was made. */
void check_use_of_graph(const check_work *work, CUdeviceptr address, uint64_t serial,
                        int is_certain);

/* ---- most uses ------------------------------------------------------------------------------- */

void check_use_otherwise(const check_work *work, check_block *block, CUdeviceptr address,
                         int is_certain);

/* 1 if the live block was allocated in the order of this stream: the work comes after the
 * allocation, and Tenure knows of the stream. 0 for another stream that has its index now. */
static inline int check_use_is_own(const check_work *work, const check_block *block)
{
    return block != NULL && block->is_live && block->own == work->touch.stream;
}

static inline void check_use_in(const check_work *work, check_block *block, CUdeviceptr address,
                                int is_certain)
{
    if (!check_use_is_own(work, block))
        check_use_otherwise(work, block, address, is_certain);
    else if (work->touch.number > 0) /* it is numbered where findings are said */
        check_block_use(block, &work->touch, is_certain);
}

#endif
