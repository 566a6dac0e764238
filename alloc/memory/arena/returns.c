/* SPDX-License-Identifier: Apache-2.0 */
/* Taking returned blocks back: see returns.h. */
#include "memory/arena/returns.h"

#include "base/host_memory.h"
#include "memory/arena/bins.h"
#include "memory/arena/count.h"

TNRI_SELDOM int tnri_returns_make(tnri_arena *arena)
{
    tnri_lock_take(&arena->lock);
    tnri_returns *returns = tnri_arena_returns(arena);
    if (returns == NULL) {
        returns = tnri_host_alloc(sizeof(*returns));
        if (returns != NULL)
            tnri_lock_init(&returns->lock, TNRI_RANK_RETURNS);
        atomic_store_explicit(&arena->returns, returns, memory_order_release);
    }
    tnri_lock_release(&arena->lock);
    return returns != NULL;
}

/* The rest of a free. Another entry may have been for the same block: see returns.h. */
static void block_take_back(tnri_arena *arena, tnri_block *block)
{
    uint64_t what = __atomic_load_n(&block->what, __ATOMIC_RELAXED);
    if (tnri_unlikely(what != tnri_block_what_returned(what & TNRI_SLACK_MASK)))
        return;
    tnri_world *world = block->world;
    tnri_assert_hot(block->uses == NULL);
    tnri_live_subtract(arena, world, 1, block->bytes, tnri_block_requested(block));
    arena->freed_because[TNR_REUSE_SAME_STREAM]++;
    block->what = tnri_block_what(TNRI_LIVE, 0);
    tnri_world_free_counted(world, block);
}

/* Takes at most `count` entries from the list's end. Returns how many. Under the list's lock. */
static size_t entries_take(tnri_returns *returns, tnri_block **blocks, size_t count)
{
    size_t listed = atomic_load_explicit(&returns->count, memory_order_relaxed);
    if (count > listed)
        count = listed;
    for (size_t i = 0; i < count; i++)
        blocks[i] = returns->blocks[listed - 1 - i];
    atomic_store_explicit(&returns->count, listed - count, memory_order_relaxed);
    return count;
}

/* The list's lock is released again before the blocks are looked at: a thread that frees waits for
 * no more than a few entries. */
void tnri_returns_take(tnri_arena *arena)
{
    tnri_returns *returns = tnri_arena_returns(arena);
    tnri_block *blocks[TNRI_RETURNS_AT_ONCE];
    tnri_assert_held(&arena->lock);
    tnri_lock_take(&returns->lock);
    size_t count = entries_take(returns, blocks, TNRI_RETURNS_AT_ONCE);
    tnri_lock_release(&returns->lock);
    /* The other thread's processor has their records: they all come at once. */
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(blocks[i], 1);
    for (size_t i = 0; i < count; i++)
        block_take_back(arena, blocks[i]);
}

TNRI_SELDOM void tnri_arena_take_back(tnri_arena *arena)
{
    while (tnri_returns_wait(arena))
        tnri_returns_take(arena);
}

TNRI_SELDOM void tnri_arena_returns_shut(tnri_arena *arena)
{
    tnri_returns *returns = tnri_arena_returns(arena);
    tnri_block *block;
    tnri_lock_take(&returns->lock);
    while (entries_take(returns, &block, 1) > 0)
        block_take_back(arena, block);
}

TNRI_SELDOM void tnri_returns_hand_over(tnri_arena *arena, uintptr_t thread)
{
    tnri_arena_take_back(arena);
    atomic_store_explicit(&arena->allocator, thread, memory_order_relaxed);
}
