/* SPDX-License-Identifier: Apache-2.0 */
/* The waiting half of the lock, and the rank check: see lock.h. */
#include "base/lock.h"

#include <sched.h>
#include <time.h>

enum {
    SPINS_MAX = 200,  /* some microseconds: longer than any critical section that is running */
    YIELDS_MAX = 100, /* then the holder has been preempted: let it run */
    NAP_NS = 50000,   /* then it is starved: get out of its way */
    HELD_MAX = 8      /* deepest nesting of locks; the ranks allow no more */
};

void tnri_lock_init(tnri_lock *lock, tnri_lock_rank rank)
{
    tnri_assert(rank > 0 && rank < TNRI_RANK_COUNT);
    atomic_init(&lock->taken, 0);
    lock->rank = (uint8_t)rank;
}

static inline void lock_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void tnri_lock_wait(tnri_lock *lock)
{
    for (unsigned round = 0;; round++) {
        if (round < SPINS_MAX) {
            lock_pause();
        } else if (round < SPINS_MAX + YIELDS_MAX) {
            sched_yield();
        } else {
            struct timespec nap = {0, NAP_NS};
            nanosleep(&nap, NULL);
        }
        /* Looking before trying keeps the cache line shared among the waiters. */
        if (atomic_load_explicit(&lock->taken, memory_order_relaxed) != 0)
            continue;
        uint8_t expected = 0;
        if (atomic_compare_exchange_weak_explicit(&lock->taken, &expected, 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return;
    }
}

/* What the calling thread holds, outermost first. Owned by the thread. */
static _Thread_local struct {
    const tnri_lock *held[HELD_MAX];
    int count;
} lock_thread;

void tnri_lock_note_taken(const tnri_lock *lock)
{
    int count = lock_thread.count;
    tnri_assert(count < HELD_MAX);
    if (count > 0)
        tnri_assert(lock_thread.held[count - 1]->rank < lock->rank);
    lock_thread.held[count] = lock;
    lock_thread.count = count + 1;
}

void tnri_lock_note_released(const tnri_lock *lock)
{
    tnri_assert(lock_thread.count > 0);
    tnri_assert(lock_thread.held[lock_thread.count - 1] == lock);
    lock_thread.count--;
}

int tnri_lock_is_held(const tnri_lock *lock)
{
    for (int i = 0; i < lock_thread.count; i++)
        if (lock_thread.held[i] == lock)
            return 1;
    return 0;
}

int tnri_lock_none_held(void)
{
    return lock_thread.count == 0;
}
