/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Returns: blocks that were freed by a thread that does not allocate from their arena.
 *
 * If one thread allocates and another frees, a whole free by the second thread would take some ten
 * cache lines that the first one works with to another processor: counts, bins, the records of
 * neighbours. So the freeing thread only notes the block; from then on the block's record says so
 * (BINNED, with its slack). The freeing thread leaves everything else to the thread that allocates.
 * When no bin holds what that thread is asked for, it takes some of the blocks back. They go to the
 * bins or are merged, as with any other free.
 *
 * Code that takes the lock to look at the arena or to change it (tnri_arena_enter) takes all
 * returned blocks back first. So only the cached path ever sees one: what is free, what is live,
 * and what a picture shows are as if each free had been finished at once. So are peaks: before a
 * peak is raised, all returned blocks are taken back (tnri_headroom_raise).
 *
 * Returns are not meant for threads that allocate in turn, as PyTorch's forward and backward passes
 * do. When one thread follows another, it takes all returned blocks back first. Then it chooses
 * from all that is free, merged, as if there were one thread.
 *
 * All of this is done under the arena's lock. The only test is which thread allocated last, so with
 * one thread nothing is ever returned. A block that has marks is not returned, nor is a block whose
 * world is spent.
 */
#ifndef TNRI_ARENA_RETURNS_H
#define TNRI_ARENA_RETURNS_H

#include "arena/arena.h"

enum { TNRI_RETURNS_AT_ONCE = 8 }; /* that an allocation takes back: what a cache line lists */

/* Makes the list of an arena that had none yet; null if there is no host memory. Under the lock. */
tnri_returns *tnri_returns_make(tnri_arena *arena);

/* Takes some of them back; there is one. Under the lock. */
void tnri_returns_take(tnri_arena *arena);

/* 1 if there are some. Under the lock. */
static inline int tnri_returns_wait(const tnri_arena *arena)
{
    return arena->returns != NULL && arena->returns->count > 0;
}

/* Another thread allocates from the arena from now on. Under the lock. */
void tnri_returns_hand_over(tnri_arena *arena, uintptr_t thread);

/* The calling thread allocates from the arena. Under the lock. */
static inline void tnri_returns_allocating(tnri_arena *arena)
{
    uintptr_t self = tnri_alive_self();
    if (tnri_unlikely(arena->allocator != self)) /* stored only if need be: the line is shared */
        tnri_returns_hand_over(arena, self);
}

/* LIVE, without uses, -> BINNED among the returns if another thread allocates here; else 0, and
 * nothing has changed. Under the lock. */
static inline int tnri_returns_put(tnri_arena *arena, tnri_block *block)
{
    tnri_assert_hot(block->state == TNRI_LIVE && block->uses == NULL);
    size_t slack = block->what & TNRI_SLACK_MASK;
    if (arena->allocator == tnri_alive_self() || arena->allocator == 0 || block->world->is_spent ||
        block->what != tnri_block_what(TNRI_LIVE, slack))
        return 0;
    tnri_returns *returns = arena->returns != NULL ? arena->returns : tnri_returns_make(arena);
    if (returns == NULL || returns->count == TNRI_RETURNS_MAX)
        return 0;
    block->what = tnri_block_what(TNRI_BINNED, slack);
    returns->blocks[returns->count++] = block;
    return 1;
}

#endif
