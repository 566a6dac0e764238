/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of every structure in the library: spun on, then yielded for.
 *
 * Why not pthread_mutex_t: the cached path takes one lock per call and its whole budget is twenty
 * nanoseconds. Nothing long happens under one of these locks: no driver call, no user callback, no
 * system call except the few that ask for owners. (Growth and moves go through an intermediate
 * block state instead.) So a waiter hardly ever waits longer than a few list operations. A release
 * is a plain store.
 *
 * Owners. A locked instruction waits until all earlier stores are done, which is a third of the
 * cached path. So a lock that one thread takes again and again becomes that thread's own. The owner
 * says with a plain store that it is inside, and then looks whether it is still the owner. Another
 * thread that wants in takes the lock away first: it clears the owner, lets the kernel run a full
 * barrier on all processors that run this process (membarrier), and waits until the owner is
 * outside. From the barrier on, either the owner sees that it is the owner no more, or the other
 * thread sees it inside. This is Dekker's algorithm, and the thread that comes seldom pays the
 * price. To take a lock away costs some microseconds. So each time, it afterwards takes twice as
 * many turns in a row to own the lock again, or half as many if the owner had it for long. Thus a
 * lock that threads share has no owner. Only both locks of an arena (its own, and that of its
 * retired blocks) may have an owner, and both of a stream. After Dice, Huang and Yang, "Asymmetric
 * Dekker Synchronization" (2001), and the biased locks of the Java machines.
 *
 * The scheduler may stop an owner between its first look and its plain store, for as long as it
 * likes, so that the store comes when the thread is no owner any more. That is why each owner that
 * a lock ever had keeps a slot of its own in `inside`, which it alone writes. When the slots are
 * used up, another thread gets one only after the kernel has said that no thread lives at the slot
 * owner's address any more (base/prim/alive.h). The address must be free; it is not enough that the
 * thread is gone. The reason: a later thread with the same address is the owner as well, without a
 * word, and may be stopped at the same point. If the threads of all slots live, only they can be
 * owners again.
 *
 * If the kernel has no membarrier, there are no owners. If it refuses one later, each lock that has
 * an owner by then is taken away once, at the price of milliseconds (base/prim/barrier.h), and no
 * lock gets an owner any more.
 *
 * If the owner is gone when a lock is taken away, the lock was not shared. So owning it again takes
 * no more turns than before.
 *
 * Who is inside: the owner with slot `k` if `holder` is k + 1; another thread, which has set
 * `taken` and seen then that there is no owner, if `holder` is 0.
 *
 * tests/lock_model checks that all this holds under the memory model of C11. It runs this code in
 * every way that the model allows and says for each order and fence why it is needed.
 *
 * Order. Every lock has a rank. The ranks below are the global order, outermost first. A thread may
 * only take a lock of a higher rank than all those that it holds. Two locks of one rank never nest.
 * From TNR_CHECK=2 each thread keeps the list of what it holds and asserts this.
 */
#ifndef TNRI_BASE_LOCK_H
#define TNRI_BASE_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/prim/alive.h"
#include "base/assert.h"

typedef enum tnri_lock_rank {
    TNRI_RANK_LIBRARY = 1, /* start, shutdown, settings, putting devices into use */
    TNRI_RANK_DEVICE,      /* a device's list of pools; the table of handles; the list of routes */
    TNRI_RANK_POOL,        /* a pool's table of arenas */
    TNRI_RANK_STREAM,      /* a stream's marks and clock, and what the driver says of it */
    TNRI_RANK_CAPTURES,    /* the beginning of a capture, and calls that name the legacy stream */
    TNRI_RANK_STREAMS,     /* the registry of streams */
    TNRI_RANK_PENDING,     /* a stream's pending uses */
    TNRI_RANK_RETIRED,     /* an arena's list of retired blocks; the batches of tnr_free_sync */
    TNRI_RANK_ARENA,       /* an arena: blocks, bins, index, spans */
    TNRI_RANK_RETURNS,     /* an arena's list of returned blocks */
    TNRI_RANK_PARKING,     /* old mappings of parked blocks, and the chunks that have them */
    TNRI_RANK_SPACE,       /* a device's address ranges */
    TNRI_RANK_EVENTS,      /* a device's spare events */
    TNRI_RANK_HISTORY,     /* the ring's pages, and the tables of texts, origins and stacks */
    TNRI_RANK_TRAPS,       /* which memory is poisoned; looks that are under way */
    TNRI_RANK_HOST,        /* leaves: metadata, the user's callback */
    TNRI_RANK_COUNT
} tnri_lock_rank;

enum { TNRI_LOCK_OWNERS = 4 }; /* threads that have been the owner of a lock, and may live */

/* tnri_lock.owner while somebody takes the lock away from its owner; no thread's. */
#define TNRI_OWNER_LEAVING ((uintptr_t)1)

typedef struct tnri_lock {
    _Atomic uint8_t taken; /* 1 while some thread other than the owner is inside, or looks */
    uint8_t rank;          /* tnri_lock_rank; constant after tnri_lock_init */
    uint8_t is_ownable;    /* constant after tnri_lock_init */
    uint8_t holder;        /* how its holder got in, see above; under the lock */
    _Atomic uint8_t inside[TNRI_LOCK_OWNERS]; /* 1: that owner is inside, or looks; its owner's */
    _Atomic uintptr_t owner;                  /* thread, plus its slot in `inside`; 0: none */
    /* Under the lock while there is no owner, or by the thread that takes it away. */
    union {
        uint32_t streak;   /* turns in a row of `latest`; */
        uint32_t owner_id; /* while there is an owner: its kernel id, when it became the owner */
    };
    uint32_t streak_wanted; /* that make it the owner */
    union {
        uintptr_t latest;     /* thread that had the last turn; */
        uint64_t owned_ticks; /* while there is an owner: when it became the owner */
    };
    uintptr_t owners[TNRI_LOCK_OWNERS]; /* threads, by slot; 0: free */
} tnri_lock;

void tnri_lock_init(tnri_lock *lock, tnri_lock_rank rank);

/* Lets locks that are initialised from now on have owners, if the kernel can do its part. Further
 * calls do nothing. */
void tnri_lock_owners_start(void);

/* The slow half of tnri_lock_take: takes the lock away from its owner, spins, then yields, then
 * naps. Returns how many rounds of that were needed. */
int tnri_lock_wait(tnri_lock *lock);

/* Takes a lock that no thread is inside of; 0, and nothing is taken, if one is, the calling thread
 * among them. It never waits, so it may come in any order of ranks. */
int tnri_lock_try(tnri_lock *lock);

/* Book-keeping of what the calling thread holds, for the rank check. */
void tnri_lock_note_taken(const tnri_lock *lock);
void tnri_lock_note_tried(const tnri_lock *lock);
void tnri_lock_note_released(const tnri_lock *lock);
int tnri_lock_is_held(const tnri_lock *lock);
/* 1 if the calling thread holds nothing at all: asserted before every driver call and callback. */
int tnri_lock_none_held(void);

/* The owner's way in: 0 if the calling thread is not the owner. */
static inline int tnri_lock_take_own(tnri_lock *lock)
{
    uintptr_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
    uintptr_t slot = owner - tnri_alive_self();
    if (slot >= TNRI_LOCK_OWNERS)
        return 0;
    atomic_store_explicit(&lock->inside[slot], 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the processor's barrier is the other thread's */
    if (tnri_unlikely(atomic_load_explicit(&lock->owner, memory_order_acquire) != owner)) {
        atomic_store_explicit(&lock->inside[slot], 0, memory_order_release);
        return 0;
    }
    lock->holder = (uint8_t)(slot + 1);
    return 1;
}

/* Returns 0, or how many rounds it waited because another thread was in the way. At first each
 * round is about twice as long as the one before. */
static inline int tnri_lock_take(tnri_lock *lock)
{
    uint8_t expected = 0;
    int waited = 0;
    if (!tnri_lock_take_own(lock) &&
        (lock->is_ownable ||
         tnri_unlikely(!atomic_compare_exchange_strong_explicit(
             &lock->taken, &expected, 1, memory_order_acquire, memory_order_relaxed))))
        waited = tnri_lock_wait(lock);
#if TNR_CHECK >= 2
    tnri_lock_note_taken(lock);
#endif
    return waited;
}

/* Takes a lock that the calling thread owns; 0, and nothing is taken, if it does not. */
static inline int tnri_lock_try_own(tnri_lock *lock)
{
    int is_taken = tnri_lock_take_own(lock);
#if TNR_CHECK >= 2
    if (is_taken)
        tnri_lock_note_taken(lock);
#endif
    return is_taken;
}

/* The same for a thread that may be inside: as the owner, or by `taken`, in the turn in which it
 * became the owner. Then nothing is taken either. */
static inline int tnri_lock_try_outside(tnri_lock *lock)
{
    uintptr_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
    uintptr_t slot = owner - tnri_alive_self();
    if (slot >= TNRI_LOCK_OWNERS ||
        atomic_load_explicit(&lock->inside[slot], memory_order_relaxed) != 0 ||
        atomic_load_explicit(&lock->taken, memory_order_relaxed) != 0 || !tnri_lock_take_own(lock))
        return 0;
#if TNR_CHECK >= 2
    tnri_lock_note_tried(lock);
#endif
    return 1;
}

static inline void tnri_lock_release(tnri_lock *lock)
{
#if TNR_CHECK >= 2
    tnri_lock_note_released(lock);
#endif
    uint8_t holder = lock->holder;
    if (tnri_likely(holder != 0))
        atomic_store_explicit(&lock->inside[holder - 1], 0, memory_order_release);
    else
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
