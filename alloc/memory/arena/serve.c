/* SPDX-License-Identifier: Apache-2.0 */
/* Serving where it is not the cached path: see serve.h. */
#include "memory/arena/serve.h"

#include "base/heuristics.h"
#include "memory/arena/world_spent.h"
#include "memory/device/chunk.h"

/* Not of host memory: a slab is made large so that it is split, and one that may not be would keep
 * all but its first block. */
size_t tnri_run_bytes_max(const tnri_arena *arena, size_t bytes)
{
    size_t max_split = (size_t)tnri_conf_get()->max_split_size_mb << 20;
    if (tnri_likely(max_split == 0 || bytes >= max_split) || tnri_device_is_host(arena->device))
        return SIZE_MAX;
    return max_split - TNR_ALIGNMENT_DEFAULT;
}

TNRI_SELDOM tnri_block *tnri_serve_aligned(tnri_world *world, tnri_block *run, size_t bytes,
                                           size_t alignment)
{
    uintptr_t base = (run->base + alignment - 1) & ~(alignment - 1);
    tnri_assert_hot(tnri_block_end(run) - base >= bytes);
    if (!tnri_world_spares(world, TNRI_CARVE_RECORDS) ||
        !tnri_block_map_prepare(&world->space->map, base, world->is_small))
        return NULL;
    return tnri_world_carve(world, run, bytes, alignment);
}

tnri_block *tnri_serve_at(tnri_world *world, tnri_block *run, uintptr_t address, size_t bytes)
{
    tnri_assert_hot(address >= run->base && tnri_block_end(run) - address >= bytes);
    if (!tnri_world_spares(world, TNRI_CARVE_RECORDS) ||
        !tnri_block_map_prepare(&world->space->map, address, world->is_small))
        return NULL;
    return tnri_world_carve_at(world, run, address, bytes);
}

/* The bytes of what is in use beside a run; 0 if nothing is: the end of the span, or a hole. */
static size_t run_beside(const tnri_block *neighbour)
{
    return neighbour != NULL && tnri_block_state_near(neighbour) < TNRI_HOLE ? neighbour->bytes : 0;
}

/* Takes a block out of one end of a run; null: no host memory. */
static tnri_block *run_serve_end(tnri_block *run, size_t bytes)
{
    tnri_world *world = run->world;
    if (bytes >= TNRI_PLACED_BYTES && tnri_arena_may_move(world->arena) &&
        run_beside(run->above) > run_beside(run->below))
        return tnri_serve_at(world, run, tnri_block_end(run) - bytes, bytes);
    return tnri_serve_run(world, run, bytes, TNR_ALIGNMENT_DEFAULT);
}

TNRI_SELDOM tnri_block *tnri_serve_index_placed(tnri_world *world, size_t bytes, int *no_host)
{
    tnri_block *run = tnri_index_find(world->index, bytes, SIZE_MAX);
    if (run == NULL || run->bytes > tnri_run_bytes_max(world->arena, bytes))
        return NULL;
    tnri_block *block = run_serve_end(run, bytes);
    *no_host = block == NULL;
    return block;
}

tnri_block *tnri_arena_carve(tnri_arena *arena, tnri_block *run, const tnri_request *request)
{
    tnri_assert_held(&arena->lock);
    if (request->alignment != TNR_ALIGNMENT_DEFAULT)
        return tnri_serve_aligned(run->world, run, request->bytes, request->alignment);
    return run_serve_end(run, request->bytes);
}

TNRI_SELDOM tnri_block *tnri_serve_index_aligned(tnri_world *world, size_t bytes, size_t alignment,
                                                 int *no_host)
{
    tnri_block *run = tnri_index_find_aligned(world->index, bytes, alignment,
                                              tnri_run_bytes_max(world->arena, bytes));
    if (run == NULL)
        return NULL;
    tnri_block *block = tnri_serve_aligned(world, run, bytes, alignment);
    *no_host = block == NULL;
    return block;
}

tnri_block *tnri_arena_serve_index(tnri_arena *arena, const tnri_request *request, int *no_host)
{
    tnri_assert_held(&arena->lock);
    return tnri_serve_index(tnri_arena_world(arena, request->bytes), request->bytes,
                            request->alignment, no_host);
}

__attribute__((noinline)) tnri_block *tnri_serve_fresh(tnri_arena *arena,
                                                       const tnri_request *request, int *no_host)
{
    return tnri_serve_unbinned(tnri_arena_world(arena, request->bytes), request->bytes,
                               request->alignment, no_host);
}

tnri_block *tnri_arena_serve_cached(tnri_arena *arena, const tnri_request *request,
                                    tnr_served *served, int *no_host)
{
    tnri_assert_held(&arena->lock);
    tnri_block *block = tnri_serve_bin(arena, request);
    *served = block != NULL ? TNR_SERVED_BIN : TNR_SERVED_INDEX;
    return block != NULL ? block : tnri_serve_fresh(arena, request, no_host);
}
