/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting what is live in an arena, on the cached path: see tnri_arena_live. Under its lock.
 */
#ifndef TNRI_ARENA_COUNT_H
#define TNRI_ARENA_COUNT_H

#include "arena/arena.h"
#include "base/assert.h"

/* Takes what becomes live from the headroom below a peak, which it raises if need be. */
static inline void tnri_headroom_take(uint64_t *room, uint64_t *peak, uint64_t amount)
{
    if (tnri_unlikely(__builtin_sub_overflow(*room, amount, room))) {
        *peak -= *room; /* which is below zero */
        *room = 0;
    }
}

/* What becomes live in a world, in its own headroom and in that of both. */
static inline void tnri_live_add(tnri_arena *arena, tnri_world *world, uint64_t blocks,
                                 uint64_t bytes, uint64_t requested)
{
    tnri_headroom_take(&world->room.blocks, &world->peak.blocks, blocks);
    tnri_headroom_take(&world->room.bytes, &world->peak.bytes, bytes);
    tnri_headroom_take(&world->room.requested, &world->peak.requested, requested);
    tnri_headroom_take(&arena->room.blocks, &arena->peak.blocks, blocks);
    tnri_headroom_take(&arena->room.bytes, &arena->peak.bytes, bytes);
    tnri_headroom_take(&arena->room.requested, &arena->peak.requested, requested);
    world->ever.blocks += blocks;
    world->ever.bytes += bytes;
    world->ever.requested += requested;
}

static inline void tnri_live_subtract(tnri_arena *arena, tnri_world *world, uint64_t blocks,
                                      uint64_t bytes, uint64_t requested)
{
    world->room.blocks += blocks;
    world->room.bytes += bytes;
    world->room.requested += requested;
    arena->room.blocks += blocks;
    arena->room.bytes += bytes;
    arena->room.requested += requested;
}

static inline __attribute__((always_inline)) void tnri_count_served(tnri_arena *arena,
                                                                    tnri_world *world,
                                                                    tnri_block *block, size_t bytes,
                                                                    size_t requested,
                                                                    tnr_served served)
{
    tnri_assert_hot(block->state == TNRI_LIVE && block->bytes == bytes && block->world == world);
    block->what = tnri_block_what(TNRI_LIVE, bytes - requested);
    tnri_live_add(arena, world, 1, bytes, requested);
    arena->served[served]++;
}

/* Keeps whether the block is stamped, and of one that is to wait what was asked for: a picture
 * tells both. */
static inline void tnri_count_freed(tnri_arena *arena, tnri_block *block)
{
    tnri_assert_hot(block->state == TNRI_LIVE);
    tnri_live_subtract(arena, block->world, 1, block->bytes, tnri_block_requested(block));
    block->content = 0;
}

#endif
