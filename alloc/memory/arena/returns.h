/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Returns: blocks that were freed by a thread that does not allocate from their arena.
 *
 * If one thread allocates and another frees, a whole free by the second thread would take some ten
 * cache lines that the first one works with to another processor: its lock, counts, bins, the
 * records of neighbours. So the freeing thread only notes the block in a list. The block's record
 * says so from then on (BINNED, with its slack and a mark). Everything else is left to the thread
 * that allocates. When no bin holds what that thread is asked for, it takes some of the blocks
 * back. They go to the bins or are merged, as with any other free.
 *
 * The list has a lock of its own, and the freeing thread takes no other. So a thread that allocates
 * keeps the arena's lock as its owner, whichever thread frees (base/lock.h). One line changes sides
 * with each block: its record.
 *
 * Code that takes the lock to look at the arena or to change it (tnri_arena_enter) has both locks,
 * and takes all returned blocks back first. So only the cached path, which has the arena's lock
 * alone, ever sees one: what is free, what is live, and what a picture shows are as if each free
 * had been finished at once. So are peaks: before a peak is raised, all returned blocks are taken
 * back (tnri_headroom_raise).
 *
 * Returns are not meant for threads that allocate in turn, as PyTorch's forward and backward passes
 * do. When one thread follows another, it takes all returned blocks back first. Then it chooses
 * from all that is free, merged, as if there were one thread.
 *
 * The only test is which thread allocated last, so with one thread nothing is ever returned. A
 * block that has marks is not returned, nor is a block whose world is spent.
 *
 * Two frees of one block at the same moment are the caller's mistake. If one of them returns the
 * block, and the other one, on the cached path, saw it live before, then both are told that all is
 * well, and the block is freed once: the record's word is compared and changed in one step, and an
 * entry counts only while the record has the mark. So an entry is a hint.
 */
#ifndef TNRI_ARENA_RETURNS_H
#define TNRI_ARENA_RETURNS_H

#include "base/heuristics.h"
#include "memory/arena/arena.h"

/* Makes the list of an arena that had none yet; 0 if there is no host memory. No lock is held. */
int tnri_returns_make(tnri_arena *arena);

/* Takes some of them back, if there are any; there is a list. Under the arena's lock alone. */
void tnri_returns_take(tnri_arena *arena);

/* 1 if there are some. Under the arena's lock. */
static inline int tnri_returns_wait(tnri_arena *arena)
{
    tnri_returns *returns = tnri_arena_returns(arena);
    return returns != NULL && atomic_load_explicit(&returns->count, memory_order_relaxed) > 0;
}

/* Another thread allocates from the arena from now on. Under the arena's lock. */
void tnri_returns_hand_over(tnri_arena *arena, uintptr_t thread);

/* The calling thread allocates from the arena. Under the arena's lock. */
static inline void tnri_returns_allocating(tnri_arena *arena)
{
    uintptr_t self = tnri_alive_self();
    /* Stored only if need be: the line is shared. */
    if (tnri_unlikely(atomic_load_explicit(&arena->allocator, memory_order_relaxed) != self))
        tnri_returns_hand_over(arena, self);
}

/* LIVE, without uses and marks, -> BINNED, and returned; else 0, and nothing has changed. */
static inline int tnri_block_return(tnri_block *block, const void *ptr)
{
    uint64_t what = __atomic_load_n(&block->what, __ATOMIC_RELAXED);
    size_t slack = what & TNRI_SLACK_MASK;
    return what == tnri_block_what(TNRI_LIVE, slack) && block->base == (uintptr_t)ptr &&
           block->uses == NULL && !__atomic_load_n(&block->world->is_spent, __ATOMIC_RELAXED) &&
           __atomic_compare_exchange_n(&block->what, &what, tnri_block_what_returned(slack), 0,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Frees the live block at `ptr` by returning it, if another thread allocates from its arena; else
 * 0, and nothing has changed. `block` is what the block map says. No lock is held. */
static inline int tnri_returns_put(tnri_arena *arena, tnri_block *block, const void *ptr)
{
    uintptr_t allocator = atomic_load_explicit(&arena->allocator, memory_order_relaxed);
    if (allocator == 0 || allocator == tnri_alive_self() ||
        (tnri_unlikely(tnri_arena_returns(arena) == NULL) && !tnri_returns_make(arena)))
        return 0;
    tnri_returns *returns = tnri_arena_returns(arena);
    tnri_lock_take(&returns->lock);
    size_t count = atomic_load_explicit(&returns->count, memory_order_relaxed);
    int is_returned = count < TNRI_RETURNS_MAX && tnri_block_return(block, ptr);
    if (is_returned) {
        returns->blocks[count] = block;
        atomic_store_explicit(&returns->count, count + 1, memory_order_relaxed);
    }
    tnri_lock_release(&returns->lock);
    return is_returned;
}

#endif
