/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serving from what an arena has: bins, then the index. Steps 1 and 2 of miss/ladder.h, inlined
 * into the cached path. Under the arena's lock; no driver call.
 */
#ifndef TNRI_ARENA_SERVE_H
#define TNRI_ARENA_SERVE_H

#include "base/conf/conf.h"
#include "memory/arena/arena.h"
#include "memory/arena/bins.h"

/* Steps 1 and 2 alone, under the lock. `served` tells which. Null: neither could. *no_host is set
 * if host memory was missing. */
tnri_block *tnri_arena_serve_cached(tnri_arena *arena, const tnri_request *request,
                                    tnr_served *served, int *no_host);

/* The largest run of the arena that may be split for a block of `bytes`: see max_split_size_mb. */
size_t tnri_run_bytes_max(const tnri_arena *arena, size_t bytes);

/* Takes a run of the index for the request, under the lock. */
tnri_block *tnri_arena_serve_index(tnri_arena *arena, const tnri_request *request, int *no_host);

/* Carves the request out of a run that has room for it, under the lock. Null: no host memory. */
tnri_block *tnri_arena_carve(tnri_arena *arena, tnri_block *run, const tnri_request *request);

/* Rare, and so not inlined. */
tnri_block *tnri_serve_aligned(tnri_world *world, tnri_block *run, size_t bytes, size_t alignment);
/* The same at an address inside the run. */
tnri_block *tnri_serve_at(tnri_world *world, tnri_block *run, uintptr_t address, size_t bytes);
tnri_block *tnri_serve_index_aligned(tnri_world *world, size_t bytes, size_t alignment,
                                     int *no_host);
/* tnri_serve_index for large blocks, and where max_split_size_mb is set. A block of
 * TNRI_PLACED_BYTES or more comes out of the end of a run which is beside the larger of the two
 * blocks between which the run lies. If there is only one, what is left of the run lies beside a
 * hole, and a window can reach into it from there (miss/window.h). What lies between two blocks
 * waits until one of them is freed. Where nothing moves, blocks are best packed from below. */
tnri_block *tnri_serve_index_placed(tnri_world *world, size_t bytes, int *no_host);
/* tnri_serve_unbinned, for all but the quickest way. */
tnri_block *tnri_serve_fresh(tnri_arena *arena, const tnri_request *request, int *no_host);

/* Takes a block out of a run that has room for it; null if there is no host memory. */
static inline __attribute__((always_inline)) tnri_block *tnri_serve_run(tnri_world *world,
                                                                        tnri_block *run,
                                                                        size_t bytes,
                                                                        size_t alignment)
{
    tnri_assert_hot(run->world == world);
    if (tnri_unlikely(alignment != TNR_ALIGNMENT_DEFAULT))
        return tnri_serve_aligned(world, run, bytes, alignment);
    if (tnri_unlikely(!tnri_world_spares(world, TNRI_CARVE_RECORDS)))
        return NULL;
    tnri_map_entry *entry = tnri_run_entry(world, run);
    if (tnri_unlikely(entry == NULL))
        return NULL;
    tnri_run_carve(world, run, bytes, entry);
    return run;
}

static inline __attribute__((always_inline)) tnri_block *tnri_serve_index(tnri_world *world,
                                                                          size_t bytes,
                                                                          size_t alignment,
                                                                          int *no_host)
{
    if (tnri_unlikely(alignment != TNR_ALIGNMENT_DEFAULT))
        return tnri_serve_index_aligned(world, bytes, alignment, no_host);
    if (tnri_unlikely(bytes >= tnri_conf_get()->placed_from)) {
        int lacks_host = 0; /* of its own: who has no large block keeps no_host in a register */
        tnri_block *block = tnri_serve_index_placed(world, bytes, &lacks_host);
        *no_host = lacks_host;
        return block;
    }
    tnri_block *run = tnri_index_find(world->index, bytes, SIZE_MAX);
    if (tnri_unlikely(run == NULL))
        return NULL;
    tnri_block *block = tnri_serve_run(world, run, bytes, TNR_ALIGNMENT_DEFAULT);
    *no_host = block == NULL;
    return block;
}

/* A block of the bins, or null. */
static inline tnri_block *tnri_serve_bin(tnri_arena *arena, const tnri_request *request)
{
    if (request->alignment != TNR_ALIGNMENT_DEFAULT)
        return NULL;
    return tnri_world_unbin(tnri_arena_world(arena, request->bytes), request->bytes);
}

/* Serves what the bins could not. If the large world's bin holds its single block, that block is
 * merged first, so that a run is chosen from all there is. */
static inline __attribute__((always_inline)) tnri_block *tnri_serve_unbinned(tnri_world *world,
                                                                             size_t bytes,
                                                                             size_t alignment,
                                                                             int *no_host)
{
    if (!world->is_small) {
        if (tnri_unlikely(world->count_in[TNRI_BINNED] > 0)) {
            world->bins.misses++;
            tnri_world_evict(world);
        }
        if (tnri_unlikely(bytes == world->bins.passed_bytes))
            world->bins.misses = TNRI_BIN_MISSES - 1; /* it would have been a hit: once more */
        world->bins.passed_bytes = 0;
    }
    return tnri_serve_index(world, bytes, alignment, no_host);
}

#endif
