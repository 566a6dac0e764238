/* SPDX-License-Identifier: Apache-2.0 */
/* The waiting half of the lock, and the rank check: see lock.h. */
#include "base/lock.h"

#include "base/heuristics.h"
#include "base/prim/barrier.h"
#include "base/rest.h"
#include "base/ticks.h"

enum { HELD_MAX = 8 }; /* deepest nesting of locks; the ranks allow no more */

/* Threads' addresses are multiples of this; what an owner's slot is told by. */
enum { OWNER_ALIGNMENT = 16 };

/* 1: the kernel runs barriers on all processors for us. Set before any lock is initialised that
 * matters; 0 again once it has refused one: the locks go on without owners. */
static _Atomic int owners_possible;

/* The race detectors follow stores and loads, and know nothing of the kernel's barrier. */
#if defined(__SANITIZE_THREAD__)
#define OWNERS_WANTED 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OWNERS_WANTED 0
#endif
#endif
#ifndef OWNERS_WANTED
#define OWNERS_WANTED 1
#endif

void tnri_lock_owners_start(void)
{
    if (!OWNERS_WANTED || atomic_load(&owners_possible))
        return;
    tnri_alive_start();
    if (tnri_barrier_start())
        atomic_store(&owners_possible, 1);
}

void tnri_lock_init(tnri_lock *lock, tnri_lock_rank rank)
{
    tnri_assert(rank > 0 && rank < TNRI_RANK_COUNT);
    *lock = (tnri_lock){.rank = (uint8_t)rank, .streak_wanted = TNRI_STREAK_FIRST};
    if (rank == TNRI_RANK_ARENA || rank == TNRI_RANK_STREAM || rank == TNRI_RANK_PENDING ||
        rank == TNRI_RANK_RETIRED)
        lock->is_ownable = (uint8_t)atomic_load(&owners_possible);
}

/* From now on it takes twice as many turns to own the lock, or half as many. */
static void lock_own_later(tnri_lock *lock)
{
    if (lock->streak_wanted < TNRI_STREAK_LAST)
        lock->streak_wanted *= 2;
}

static void lock_own_sooner(tnri_lock *lock)
{
    if (lock->streak_wanted > TNRI_STREAK_FIRST)
        lock->streak_wanted /= 2;
}

/* Takes the lock away from its owner, if no other thread is doing that. Without `waits`, an owner
 * that is inside keeps it. */
static void lock_disown(tnri_lock *lock, uintptr_t owner, int waits)
{
    if (!atomic_compare_exchange_strong(&lock->owner, &owner, TNRI_OWNER_LEAVING))
        return;
    if (!tnri_barrier_run())
        atomic_store_explicit(&owners_possible, 0, memory_order_relaxed); /* too dear from now on */
    uintptr_t slot = owner % OWNER_ALIGNMENT;
    _Atomic uint8_t *inside = &lock->inside[slot];
    if (!waits && atomic_load_explicit(inside, memory_order_relaxed) != 0) {
        /* The owner knows what it wrote, and another thread runs the barrier first. */
        atomic_store_explicit(&lock->owner, owner, memory_order_relaxed);
        return;
    }
    for (unsigned round = 0; atomic_load_explicit(inside, memory_order_acquire) != 0; round++)
        tnri_rest(round);
    if ((int64_t)(tnri_ticks() - lock->owned_ticks) > TNRI_OWNED_LONG_TICKS)
        lock_own_sooner(lock);
    else if (!tnri_alive_is_gone(owner - slot, lock->owner_id))
        lock_own_later(lock);
    lock->latest = 0;
    atomic_store_explicit(&lock->owner, 0, memory_order_release);
}

/* The slot of a thread that wants to be the owner: its own, an unused one, or one whose address no
 * thread has; TNRI_LOCK_OWNERS: none. Under the lock, without an owner. */
static unsigned owner_slot(const tnri_lock *lock, uintptr_t self)
{
    unsigned unused = TNRI_LOCK_OWNERS;
    for (unsigned slot = 0; slot < TNRI_LOCK_OWNERS; slot++) {
        if (lock->owners[slot] == self)
            return slot;
        if (lock->owners[slot] == 0 && unused == TNRI_LOCK_OWNERS)
            unused = slot;
    }
    for (unsigned slot = 0; slot < TNRI_LOCK_OWNERS && unused == TNRI_LOCK_OWNERS; slot++)
        if (tnri_alive_none_at(lock->owners[slot]))
            unused = slot;
    return unused;
}

/* The calling thread becomes the owner, if there may be one and there is a slot for it. Under the
 * lock. */
static void lock_own(tnri_lock *lock, uintptr_t self)
{
    tnri_assert(self % OWNER_ALIGNMENT == 0);
    unsigned slot = TNRI_LOCK_OWNERS;
    if (atomic_load_explicit(&owners_possible, memory_order_relaxed))
        slot = owner_slot(lock, self);
    if (slot == TNRI_LOCK_OWNERS) {
        lock->streak = 0;
        lock_own_later(lock); /* so that this is asked for seldom */
        return;
    }
    atomic_store_explicit(&lock->inside[slot], 0, memory_order_relaxed); /* nobody else writes */
    lock->owners[slot] = self;
    lock->owner_id = tnri_alive_id();
    lock->owned_ticks = tnri_ticks();
    /* Who takes the lock away reads both. */
    atomic_store_explicit(&lock->owner, self + slot, memory_order_release);
}

/* Under the lock, which the calling thread has got by `taken`. */
static void lock_count_turn(tnri_lock *lock)
{
    uintptr_t self = tnri_alive_self();
    lock->holder = 0;
    if (lock->latest != self) {
        lock->latest = self;
        lock->streak = 0;
    } else if (++lock->streak >= lock->streak_wanted) {
        lock_own(lock, self);
    }
}

/* Takes a lock without an owner; 0 if another thread has it, or owns it by now. */
static int lock_take_unowned(tnri_lock *lock)
{
    /* Looking before trying keeps the cache line shared among the waiters. */
    uint8_t expected = 0;
    if (atomic_load_explicit(&lock->taken, memory_order_relaxed) != 0 ||
        !atomic_compare_exchange_weak_explicit(&lock->taken, &expected, 1, memory_order_acquire,
                                               memory_order_relaxed))
        return 0;
    if (!lock->is_ownable)
        return 1;
    /* `taken` may still be from before a thread became the owner, whose last turn is then known
     * only to who took the lock away from it: that one's store is the one to acquire from. */
    if (tnri_likely(atomic_load_explicit(&lock->owner, memory_order_acquire) == 0)) {
        lock_count_turn(lock);
        return 1;
    }
    atomic_store_explicit(&lock->taken, 0, memory_order_release); /* it had just become owned */
    return 0;
}

int tnri_lock_wait(tnri_lock *lock)
{
    for (unsigned round = 0;; round++) {
        if (round > 0)
            tnri_rest(round);
        uintptr_t owner = atomic_load_explicit(&lock->owner, memory_order_acquire);
        if (owner != 0) {
            if (owner != TNRI_OWNER_LEAVING)
                lock_disown(lock, owner, 1);
            continue;
        }
        if (lock_take_unowned(lock))
            return (int)round;
    }
}

int tnri_lock_try(tnri_lock *lock)
{
    uintptr_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
    if (owner - tnri_alive_self() < TNRI_LOCK_OWNERS)
        return tnri_lock_try_outside(lock);
    if (owner != 0 && owner != TNRI_OWNER_LEAVING)
        lock_disown(lock, owner, 0);
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != 0 || !lock_take_unowned(lock))
        return 0;
#if TNR_CHECK >= 2
    tnri_lock_note_tried(lock);
#endif
    return 1;
}

/* What the calling thread holds, outermost first. Owned by the thread. */
static _Thread_local struct {
    const tnri_lock *held[HELD_MAX];
    int count;
} lock_thread;

void tnri_lock_note_tried(const tnri_lock *lock)
{
    tnri_assert(lock_thread.count < HELD_MAX);
    lock_thread.held[lock_thread.count++] = lock;
}

void tnri_lock_note_taken(const tnri_lock *lock)
{
    if (lock_thread.count > 0)
        tnri_assert(lock_thread.held[lock_thread.count - 1]->rank < lock->rank);
    tnri_lock_note_tried(lock);
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
