/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sole stream that has memory: see sole.c. Any thread, outside of check_enter.
 */
#ifndef TENURE_PRELOAD_CHECK_SOLE_H
#define TENURE_PRELOAD_CHECK_SOLE_H

#include "check/streams.h"

/* The key of the sole stream. Null: no memory was handed out yet. CHECK_SOLE_NONE: there is no sole
 * stream any more, or there never will be one. */
extern _Atomic(const void *) check_sole_key;
#define CHECK_SOLE_NONE ((const void *)&check_sole_key)

/* 1 if the stream is the sole one: its work needs no record. */
static inline int check_sole_is(const check_name *name)
{
    return atomic_load_explicit(&check_sole_key, memory_order_relaxed) == name->key;
}

/* 1 if there is one: what was handed out in the order of a stream is not followed. */
static inline int check_sole_is_there(void)
{
    const void *key = atomic_load_explicit(&check_sole_key, memory_order_acquire);
    return key != NULL && key != CHECK_SOLE_NONE;
}

/* Memory was handed out in the order of the stream. 1: it is the sole one, or has become it. 0: it
 * is not, and there is none from now on. */
static inline int check_sole_takes(const check_name *name);

/* There is none from now on, and the blocks that it has are followed. */
void check_sole_ends(void);

/* The same if the stream of that handle is about to end; or a device, whose memory is no more. */
void check_sole_stream_ends(CUstream stream);
void check_sole_device_ends(int device);

/* A block of no stream's order, which is followed, is about to be freed in the order of a stream:
 * the sole one's uses of it were not recorded. Between check_enter and check_leave. */
void check_sole_record(CUdeviceptr address);

/* Launches of the sole stream: the first counts one, the second says how many there were. */
void check_sole_count(void);
uint64_t check_sole_launches(void);

int check_sole_takes_more(const check_name *name);

static inline int check_sole_takes(const check_name *name)
{
    return atomic_load_explicit(&check_sole_key, memory_order_relaxed) != CHECK_SOLE_NONE &&
           check_sole_takes_more(name);
}

#endif
