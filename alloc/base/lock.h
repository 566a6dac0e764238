/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of every structure in the library: one byte, spun on, then yielded for.
 *
 * Why not pthread_mutex_t: the cached path takes one lock per call and its whole budget is twenty
 * nanoseconds. Nothing long happens under one of these: no driver call, no user callback, no system
 * call (growth and moves go through an intermediate block state instead), so a waiter hardly ever
 * waits longer than a few list operations. A release is a plain store.
 *
 * Order. Every lock has a rank, the ranks below are the global order, outermost first, and a
 * thread may only take a lock of a higher rank than all those that it holds. Two locks of one rank
 * never nest. From TNR_CHECK=2 each thread keeps the list of what it holds and asserts this.
 */
#ifndef TNRI_BASE_LOCK_H
#define TNRI_BASE_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/assert.h"

typedef enum tnri_lock_rank {
    TNRI_RANK_LIBRARY = 1, /* start, shutdown, configuration */
    TNRI_RANK_DEVICE,      /* a device's list of pools */
    TNRI_RANK_POOL,        /* a pool's table of arenas */
    TNRI_RANK_STREAMS,     /* the registry of streams */
    TNRI_RANK_STREAM,      /* a stream's marks, clock and pending uses */
    TNRI_RANK_RETIRED,     /* an arena's list of retired blocks */
    TNRI_RANK_ARENA,       /* an arena: blocks, bins, index, spans */
    TNRI_RANK_SPACE,       /* a device's address ranges */
    TNRI_RANK_EVENTS,      /* a device's spare events and stale mappings */
    TNRI_RANK_HISTORY,     /* the ring's pages, and the tables of texts, places and stacks */
    TNRI_RANK_HOST,        /* metadata slabs: a leaf */
    TNRI_RANK_COUNT
} tnri_lock_rank;

typedef struct tnri_lock {
    _Atomic uint8_t taken; /* 1 while some thread is inside */
    uint8_t rank;          /* tnri_lock_rank; constant after tnri_lock_init */
} tnri_lock;

void tnri_lock_init(tnri_lock *lock, tnri_lock_rank rank);

/* The slow half of tnri_lock_take: spins, then yields, then naps. */
void tnri_lock_wait(tnri_lock *lock);

/* Book-keeping of what the calling thread holds, for the rank check. */
void tnri_lock_note_taken(const tnri_lock *lock);
void tnri_lock_note_released(const tnri_lock *lock);
int tnri_lock_is_held(const tnri_lock *lock);
/* 1 if the calling thread holds nothing at all: asserted before every driver call and callback. */
int tnri_lock_none_held(void);

static inline void tnri_lock_take(tnri_lock *lock)
{
    uint8_t expected = 0;
    if (tnri_unlikely(!atomic_compare_exchange_strong_explicit(
            &lock->taken, &expected, 1, memory_order_acquire, memory_order_relaxed)))
        tnri_lock_wait(lock);
#if TNR_CHECK >= 2
    tnri_lock_note_taken(lock);
#endif
}

static inline void tnri_lock_release(tnri_lock *lock)
{
#if TNR_CHECK >= 2
    tnri_lock_note_released(lock);
#endif
    atomic_store_explicit(&lock->taken, 0, memory_order_release);
}

#if TNR_CHECK >= 2
#define tnri_assert_held(lock) tnri_assert(tnri_lock_is_held(lock))
#define tnri_assert_none_held() tnri_assert(tnri_lock_none_held())
#else
#define tnri_assert_held(lock) ((void)(lock))
#define tnri_assert_none_held() ((void)0)
#endif

#endif
