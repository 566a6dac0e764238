/* SPDX-License-Identifier: Apache-2.0 */
/* Taking returned blocks back: see returns.h. */
#include "arena/returns.h"

#include "arena/bins.h"
#include "arena/count.h"
#include "base/host_memory.h"

TNRI_SELDOM tnri_returns *tnri_returns_make(tnri_arena *arena)
{
    arena->returns = tnri_host_alloc(sizeof(*arena->returns));
    return arena->returns;
}

TNRI_SELDOM void tnri_returns_hand_over(tnri_arena *arena, uintptr_t thread)
{
    tnri_arena_take_back(arena);
    arena->allocator = thread;
}

/* The rest of a free. */
static void block_take_back(tnri_arena *arena, tnri_block *block)
{
    tnri_world *world = block->world;
    tnri_assert_hot(block->state == TNRI_BINNED && block->uses == NULL);
    tnri_live_subtract(arena, world, 1, block->bytes, tnri_block_requested(block));
    arena->freed_because[TNR_REUSE_SAME_STREAM]++;
    block->what = tnri_block_what(TNRI_LIVE, 0);
    tnri_world_free_counted(world, block);
}

void tnri_returns_take(tnri_arena *arena)
{
    tnri_returns *returns = arena->returns;
    tnri_assert_held(&arena->lock);
    size_t count = returns->count;
    size_t left = count > TNRI_RETURNS_AT_ONCE ? count - TNRI_RETURNS_AT_ONCE : 0;
    /* The other thread's processor has their records: they all come at once. */
    for (size_t i = left; i < count; i++)
        __builtin_prefetch(returns->blocks[i], 1);
    returns->count = left;
    for (size_t i = count; i-- > left;)
        block_take_back(arena, returns->blocks[i]);
}

TNRI_SELDOM void tnri_arena_take_back(tnri_arena *arena)
{
    while (tnri_returns_wait(arena))
        tnri_returns_take(arena);
}
