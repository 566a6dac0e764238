/* SPDX-License-Identifier: Apache-2.0 */
/* What is live in an arena, and was: see count.h. */
#include "memory/arena/count.h"

#include "memory/arena/note.h"

static const tnri_world *world_of(const tnri_arena *arena, int tnr_world)
{
    return &arena->worlds[tnr_world == TNR_WORLD_SMALL ? TNRI_SMALL : TNRI_LARGE];
}

tnri_count tnri_arena_peak(const tnri_arena *arena, int tnr_world)
{
    return tnr_world == TNR_WORLD_ALL ? arena->peak : world_of(arena, tnr_world)->peak;
}

tnri_count tnri_arena_live(const tnri_arena *arena, int tnr_world)
{
    const tnri_count *headroom =
        tnr_world == TNR_WORLD_ALL ? &arena->headroom : &world_of(arena, tnr_world)->headroom;
    tnri_count live = tnri_arena_peak(arena, tnr_world);
    live.blocks -= headroom->blocks;
    live.bytes -= headroom->bytes;
    live.requested -= headroom->requested;
    return live;
}

tnri_count tnri_arena_ever(const tnri_arena *arena, int tnr_world)
{
    tnri_count ever = world_of(arena, tnr_world)->ever;
    if (tnr_world == TNR_WORLD_ALL) {
        const tnri_count *small = &arena->worlds[TNRI_SMALL].ever;
        ever.blocks += small->blocks;
        ever.bytes += small->bytes;
        ever.requested += small->requested;
    }
    return ever;
}

/* Takes from a number that comes after one that is below zero. Returns 1 if it is, or was, one. */
static inline int number_take(int is_after, uint64_t *headroom, uint64_t amount)
{
    if (is_after)
        *headroom -= amount;
    return is_after | (int)(*headroom >> 63);
}

static inline void number_raise(uint64_t *headroom, uint64_t *peak)
{
    if ((int64_t)*headroom < 0) {
        *peak -= *headroom;
        *headroom = 0;
    }
}

static inline void count_raise(tnri_count *headroom, tnri_count *peak)
{
    number_raise(&headroom->blocks, &peak->blocks);
    number_raise(&headroom->bytes, &peak->bytes);
    number_raise(&headroom->requested, &peak->requested);
}

TNRI_SELDOM void tnri_headroom_raise(tnri_arena *arena, tnri_world *world, uint64_t blocks,
                                     uint64_t bytes, uint64_t requested)
{
    int is_after = number_take(0, &world->headroom.blocks, blocks);
    is_after = number_take(is_after, &world->headroom.bytes, bytes);
    is_after = number_take(is_after, &world->headroom.requested, requested);
    is_after = number_take(is_after, &arena->headroom.blocks, blocks);
    is_after = number_take(is_after, &arena->headroom.bytes, bytes);
    (void)number_take(is_after, &arena->headroom.requested, requested);
    tnri_arena_take_back(arena);
    count_raise(&world->headroom, &world->peak);
    count_raise(&arena->headroom, &arena->peak);
}

void tnri_arena_reset_peaks(tnri_arena *arena)
{
    tnri_assert_held(&arena->lock);
    const tnri_count none = {0, 0, 0};
    arena->peak = tnri_arena_live(arena, TNR_WORLD_ALL);
    arena->headroom = none;
    for (int i = 0; i < TNRI_WORLDS; i++) {
        tnri_world *world = &arena->worlds[i];
        world->peak = tnri_arena_live(arena, i == TNRI_SMALL ? TNR_WORLD_SMALL : TNR_WORLD_LARGE);
        world->headroom = none;
    }
}

uint64_t tnri_arena_live_count(const tnri_arena *arena)
{
    return tnri_arena_live(arena, TNR_WORLD_ALL).blocks;
}

void tnri_arena_count_served(tnri_arena *arena, tnri_block *block, const tnri_request *request,
                             tnr_served served)
{
    tnri_count_served(arena, block->world, block, block->bytes, request->bytes_requested, served);
    if (tnri_is_noting())
        tnri_note_served(tnri_note_here(), tnri_ticks(), arena, block, request->bytes_requested,
                         served);
}

void tnri_arena_count_grown(tnri_arena *arena, tnri_block *block, size_t bytes, size_t requested)
{
    tnri_assert(block->state == TNRI_LIVE);
    size_t before = block->bytes - bytes - block->slack;
    tnri_live_add(arena, block->world, 0, bytes, requested - before);
    block->slack = (block->bytes - requested) & TNRI_SLACK_MASK;
    tnri_note_grown(arena, block, requested, bytes);
}

void tnri_arena_count_bare(tnri_arena *arena, int is_freed)
{
    tnri_world *world = &arena->worlds[TNRI_LARGE];
    if (is_freed) {
        tnri_live_subtract(arena, world, 1, 0, 0);
        return;
    }
    tnri_live_add(arena, world, 1, 0, 0);
    arena->served[TNR_SERVED_GROWN]++;
}

void tnri_arena_count_freed(tnri_arena *arena, tnri_block *block)
{
    if (tnri_is_noting())
        tnri_note_freed(tnri_note_here(), tnri_ticks(), arena, block);
    tnri_count_freed(arena, block);
}

void tnri_arena_count_freed_because(tnri_arena *arena, tnri_block *block, tnr_reuse reason)
{
    tnri_note_freed_because(arena, block, reason);
    tnri_count_freed(arena, block);
    block->slack = 0;
    arena->freed_because[reason]++;
}
