/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure run --check=host`: the host touches pinned memory while a copy uses it: see pinned.c.
 *
 * Between check_enter and check_leave unless said otherwise.
 */
#ifndef TENURE_PRELOAD_CHECK_PINNED_H
#define TENURE_PRELOAD_CHECK_PINNED_H

#include <stdatomic.h>

#include "check/blocks.h"

/* 1 if the program is run that way. Set before the program runs. */
extern int check_is_host_watched;

/* Asks the environment; takes the signal; tells the simulated device, if it is the driver. The
 * second as soon as the driver is found. Without locks. */
void check_pinned_begin(void);
void check_pinned_driver(void);

/* A copy that is under way reads this memory of the host's, or writes it. */
void check_pinned_copied(const check_touch *copy, check_span at, int is_written);

/* The memory goes away: nothing of it is watched any more. Any thread, without the lock, before the
 * driver is told. */
void check_pinned_gone(const void *base);

/* Ends what the host has seen to be over, and makes findings of touches. */
void check_pinned_settle(void);

/* 1 if there may be something to do for check_pinned_settle. */
extern _Atomic size_t check_pinned_count;
static inline int check_pinned_are_there(void)
{
    size_t count = atomic_load_explicit(&check_pinned_count, memory_order_relaxed);
    return __builtin_expect(count > 0, 0) != 0;
}

#endif
