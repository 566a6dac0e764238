/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting what is live in an arena, and was. Inline, for the cached path. Under its lock.
 */
#ifndef TNRI_ARENA_COUNT_H
#define TNRI_ARENA_COUNT_H

#include "arena/arena.h"
#include "base/assert.h"

/* Takes what becomes live from the headroom below a peak, which it raises if need be. */
static inline void tnri_headroom_take(uint64_t *headroom, uint64_t *peak, uint64_t amount)
{
    if (tnri_unlikely(__builtin_sub_overflow(*headroom, amount, headroom))) {
        *peak -= *headroom; /* which is below zero */
        *headroom = 0;
    }
}

/* What becomes live in a world, in its own headroom and in that of both. */
static inline void tnri_live_add(tnri_arena *arena, tnri_world *world, uint64_t blocks,
                                 uint64_t bytes, uint64_t requested)
{
    tnri_headroom_take(&world->headroom.blocks, &world->peak.blocks, blocks);
    tnri_headroom_take(&world->headroom.bytes, &world->peak.bytes, bytes);
    tnri_headroom_take(&world->headroom.requested, &world->peak.requested, requested);
    tnri_headroom_take(&arena->headroom.blocks, &arena->peak.blocks, blocks);
    tnri_headroom_take(&arena->headroom.bytes, &arena->peak.bytes, bytes);
    tnri_headroom_take(&arena->headroom.requested, &arena->peak.requested, requested);
    world->ever.blocks += blocks;
    world->ever.bytes += bytes;
    world->ever.requested += requested;
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
