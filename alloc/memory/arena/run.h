/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two changes that an allocation and a free without a bin make: a block out of the front of a
 * free run, and a free run out of a block and its free neighbours. Inline, for the cached path;
 * tnri_world_carve and tnri_world_free do the same for everyone else. Under the arena's lock.
 *
 * Each sum is changed once, and a run leaves or enters the index once.
 */
#ifndef TNRI_ARENA_RUN_H
#define TNRI_ARENA_RUN_H

#include "memory/arena/world.h"

/* The place in the block map for a block that begins where a run does; null if there is no host
 * memory for it. For large blocks one load often finds the place: it is empty, or it is the run's
 * own, from when the run was live. */
static inline tnri_map_entry *tnri_run_entry(const tnri_world *world, const tnri_block *run)
{
    tnri_block_map *map = &world->space->map;
    tnri_map_entry *entry = &tnri_granule_of(map, run->base)->start;
    uintptr_t start = atomic_load_explicit(entry, memory_order_relaxed);
    int is_own = (start == (uintptr_t)run) | (start == 0);
    if (!world->is_small && (is_own || (!world->has_many && (start & 1) == 0)))
        return entry;
    return tnri_block_map_entry_make(map, run->base, world->is_small);
}

/* FREE -> LIVE: takes `bytes` from the front of a run that is large enough. Needs a spare record
 * and the place for its base. The caller sets the slack. */
static inline __attribute__((always_inline)) void tnri_run_carve(tnri_world *world, tnri_block *run,
                                                                 size_t bytes,
                                                                 tnri_map_entry *entry)
{
    tnri_assert_hot(run->state == TNRI_FREE && run->bytes >= bytes);
    size_t left = run->bytes - bytes;
    tnri_index_remove(world->index, run);
    world->bytes_in[TNRI_FREE] -= bytes;
    world->bytes_in[TNRI_LIVE] += bytes;
    world->count_in[TNRI_LIVE]++;
    if (tnri_likely(left != 0)) {
        tnri_block *rest = tnri_world_spare_take(world);
        tnri_block *above = run->above;
        rest->base = run->base + bytes;
        rest->bytes = left;
        rest->below = run;
        rest->above = above;
        run->above = rest;
        run->bytes = bytes;
        if (tnri_likely(above != NULL))
            above->below = rest;
        tnri_index_insert(world->index, rest);
    } else {
        world->count_in[TNRI_FREE]--;
    }
    run->what = tnri_block_what(TNRI_LIVE, 0);
    run->uses = NULL;
    tnri_block_map_put(&world->space->map, entry, run);
}

static inline int tnri_run_is_free(const tnri_block *block)
{
    return block != NULL && tnri_block_state_near(block) == TNRI_FREE;
}

/* `state` -> FREE, merged with free neighbours. `state` is the state of the block, which is in no
 * list. Returns the resulting run. */
static inline __attribute__((always_inline)) tnri_block *tnri_run_merge(tnri_world *world,
                                                                        tnri_block *block,
                                                                        tnri_state state)
{
    tnri_assert_hot(block->state == state);
    tnri_block *above = block->above;
    tnri_block *below = block->below;
    size_t bytes = block->bytes;
    world->bytes_in[state] -= bytes;
    world->count_in[state]--;
    world->bytes_in[TNRI_FREE] += bytes;
    world->count_in[TNRI_FREE]++;
    if (tnri_run_is_free(above)) {
        tnri_index_remove(world->index, above);
        world->count_in[TNRI_FREE]--;
        bytes += above->bytes;
        tnri_world_spare_give(world, above);
        above = above->above;
        block->above = above;
        if (tnri_likely(above != NULL))
            above->below = block;
    }
    if (tnri_run_is_free(below)) {
        tnri_index_remove(world->index, below);
        world->count_in[TNRI_FREE]--;
        bytes += below->bytes;
        block->what = tnri_block_what(TNRI_UNUSED, 0);
        tnri_world_spare_give(world, block);
        block = below;
        block->above = above;
        if (tnri_likely(above != NULL))
            above->below = block;
    }
    block->bytes = bytes;
    tnri_index_insert(world->index, block);
    return block;
}

/* ---- for everyone else ---------------------------------------------------------------------- */

/* FREE -> LIVE: takes `bytes` at `alignment` from a run that is large enough. Needs
 * TNRI_CARVE_RECORDS spares and a prepared map entry. The caller sets the slack. */
tnri_block *tnri_world_carve(tnri_world *world, tnri_block *run, size_t bytes, size_t alignment);

/* The same at an address inside the run. */
tnri_block *tnri_world_carve_at(tnri_world *world, tnri_block *run, uintptr_t address,
                                size_t bytes);

/* LIVE, RETIRED or PENDING -> FREE, merged with free neighbours. Returns the resulting run. */
tnri_block *tnri_world_free(tnri_world *world, tnri_block *block);

#endif
