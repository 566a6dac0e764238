/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting what is live in an arena, and was. Inline, for the cached path. Under its lock.
 */
#ifndef TNRI_ARENA_COUNT_H
#define TNRI_ARENA_COUNT_H

#include "arena/arena.h"
#include "base/assert.h"

/* Takes what becomes live in a world from its headroom and from that of both. 0: a peak is to be
 * raised first, which tnri_headroom_raise does with the same arguments. */
static inline int tnri_headroom_take(tnri_arena *arena, tnri_world *world, uint64_t blocks,
                                     uint64_t bytes, uint64_t requested)
{
    return !(
        __builtin_sub_overflow(world->headroom.blocks, blocks, &world->headroom.blocks) ||
        __builtin_sub_overflow(world->headroom.bytes, bytes, &world->headroom.bytes) ||
        __builtin_sub_overflow(world->headroom.requested, requested, &world->headroom.requested) ||
        __builtin_sub_overflow(arena->headroom.blocks, blocks, &arena->headroom.blocks) ||
        __builtin_sub_overflow(arena->headroom.bytes, bytes, &arena->headroom.bytes) ||
        __builtin_sub_overflow(arena->headroom.requested, requested, &arena->headroom.requested));
}

/* Goes on where tnri_headroom_take ended: one number is below zero, those before it have been
 * taken from, and those after it have not. What was returned (returns.h) is not live: it is taken
 * back before a peak is raised. */
void tnri_headroom_raise(tnri_arena *arena, tnri_world *world, uint64_t blocks, uint64_t bytes,
                         uint64_t requested);

static inline void tnri_live_add(tnri_arena *arena, tnri_world *world, uint64_t blocks,
                                 uint64_t bytes, uint64_t requested)
{
    world->ever.blocks += blocks;
    world->ever.bytes += bytes;
    world->ever.requested += requested;
    if (tnri_unlikely(!tnri_headroom_take(arena, world, blocks, bytes, requested)))
        tnri_headroom_raise(arena, world, blocks, bytes, requested);
}

static inline void tnri_live_subtract(tnri_arena *arena, tnri_world *world, uint64_t blocks,
                                      uint64_t bytes, uint64_t requested)
{
    world->headroom.blocks += blocks;
    world->headroom.bytes += bytes;
    world->headroom.requested += requested;
    arena->headroom.blocks += blocks;
    arena->headroom.bytes += bytes;
    arena->headroom.requested += requested;
}

/* Counts a block that is handed out, but for the headroom, which comes last. */
static inline __attribute__((always_inline)) void tnri_count_handed(tnri_arena *arena,
                                                                    tnri_world *world,
                                                                    tnri_block *block, size_t bytes,
                                                                    size_t requested,
                                                                    tnr_served served)
{
    tnri_assert_hot(block->state == TNRI_LIVE && block->bytes == bytes && block->world == world);
    block->what = tnri_block_what(TNRI_LIVE, bytes - requested);
    world->ever.blocks++;
    world->ever.bytes += bytes;
    world->ever.requested += requested;
    arena->served[served]++;
}

/* Counts it whole. */
static inline __attribute__((always_inline)) void tnri_count_served(tnri_arena *arena,
                                                                    tnri_world *world,
                                                                    tnri_block *block, size_t bytes,
                                                                    size_t requested,
                                                                    tnr_served served)
{
    tnri_count_handed(arena, world, block, bytes, requested, served);
    if (tnri_unlikely(!tnri_headroom_take(arena, world, 1, bytes, requested)))
        tnri_headroom_raise(arena, world, 1, bytes, requested);
}

/* Keeps whether the block is stamped, and of one that is to wait what was asked for: a picture
 * tells both. */
static inline void tnri_count_freed(tnri_arena *arena, tnri_block *block)
{
    tnri_assert_hot(block->state == TNRI_LIVE);
    tnri_live_subtract(arena, block->world, 1, block->bytes, tnri_block_requested(block));
    block->content = 0;
}

/* ---- for everyone else ---------------------------------------------------------------------- */

/* Counts a block that became live; under the lock. */
void tnri_arena_count_served(tnri_arena *arena, tnri_block *block, const tnri_request *request,
                             tnr_served served);

/* Counts a live block that has grown by `bytes`, and of which `requested` are asked for now; under
 * the lock. */
void tnri_arena_count_grown(tnri_arena *arena, tnri_block *block, size_t bytes, size_t requested);

/* Counts a block that has no memory yet, when it is reserved and when it is freed so; under the
 * lock. */
void tnri_arena_count_bare(tnri_arena *arena, int is_freed);

/* What is live in a world, or in both: the peak, less what there is room for below it. So a block
 * that becomes live takes from the headroom, and only where there is not enough does a peak change:
 * what is live and the peaks are counted in one. Under the lock. */
tnri_count tnri_arena_live(const tnri_arena *arena, int tnr_world);
/* The most that was live, and what became live in all. Under the lock. */
tnri_count tnri_arena_peak(const tnri_arena *arena, int tnr_world);
tnri_count tnri_arena_ever(const tnri_arena *arena, int tnr_world);
/* From here on: the most that is live. Under the lock. */
void tnri_arena_reset_peaks(tnri_arena *arena);
/* The number of live blocks; under the lock. */
uint64_t tnri_arena_live_count(const tnri_arena *arena);

/* Counts a live block that is about to be freed; under the lock. */
void tnri_arena_count_freed(tnri_arena *arena, tnri_block *block);
/* The same for one whose memory may be handed out again at once, for the reason. */
void tnri_arena_count_freed_because(tnri_arena *arena, tnri_block *block, tnr_reuse reason);

#endif
