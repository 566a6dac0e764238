/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what is live in an arena, and what was. Inline, for the cached path. Under its lock.
 */
#ifndef TNRI_ARENA_COUNT_H
#define TNRI_ARENA_COUNT_H

#include "base/assert.h"
#include "memory/arena/arena.h"

/* Takes what becomes live in a world from its headroom and from that of both worlds. Returns 0 if a
 * peak must be raised first: tnri_headroom_raise does that, with the same arguments. */
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

/* Goes on where tnri_headroom_take ended: one number is below zero, those before it have been taken
 * from, and those after it have not. Returned blocks (returns.h) are not live, so they are taken
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

/* Counts a block that is handed out, except in the headroom, which comes last. */
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

/* The same, and counts it in the headroom. */
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

/* Keeps two facts that a picture tells: whether the block is stamped, and, if the block must wait,
 * how much was asked for. */
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

/* Counts a live block that has grown by `bytes`; in all, `requested` bytes of it are asked for now.
 * Under the lock. */
void tnri_arena_count_grown(tnri_arena *arena, tnri_block *block, size_t bytes, size_t requested);

/* Counts a block without memory: when it is reserved, and if it is freed before it has memory.
 * Under the lock. */
void tnri_arena_count_bare(tnri_arena *arena, int is_freed);

/* What is live in a world, or in both: the peak less the headroom below it. So a block that becomes
 * live takes from the headroom, and a peak changes only if there is not enough. One count serves
 * for what is live and for the peaks. Under the lock. */
tnri_count tnri_arena_live(const tnri_arena *arena, int tnr_world);
/* The most that was live, and what became live in all. Under the lock. */
tnri_count tnri_arena_peak(const tnri_arena *arena, int tnr_world);
tnri_count tnri_arena_ever(const tnri_arena *arena, int tnr_world);
/* Peaks start anew from what is live now. Under the lock. */
void tnri_arena_reset_peaks(tnri_arena *arena);
/* The number of live blocks; under the lock. */
uint64_t tnri_arena_live_count(const tnri_arena *arena);

/* Counts a live block that is about to be freed; under the lock. */
void tnri_arena_count_freed(tnri_arena *arena, tnri_block *block);
/* The same for a block whose memory may be handed out again at once, for `reason`. */
void tnri_arena_count_freed_because(tnri_arena *arena, tnri_block *block, tnr_reuse reason);

#endif
