/* SPDX-License-Identifier: Apache-2.0 */
/* Growable blocks: see grow.h. */
#include "miss/grow.h"

#include "base/error.h"
#include "memory/arena/count.h"
#include "memory/arena/range.h"
#include "memory/arena/world_move.h"
#include "memory/device/device.h"
#include "miss/ladder.h"

static size_t pages_round(const tnri_space *space, size_t bytes)
{
    size_t page_mask = tnri_page_bytes(space) - 1;
    return (bytes + page_mask) & ~page_mask;
}

/* The record at the arena's base. */
static tnri_block *grow_block(const tnri_arena *arena)
{
    return arena->worlds[TNRI_LARGE].span_first[0];
}

/* ---- reserving ------------------------------------------------------------------------------ */

tnr_status tnri_grow_prepare(tnri_arena *arena, size_t bytes)
{
    tnri_space *space = &arena->device->space;
    tnri_world *world = &arena->worlds[TNRI_LARGE];
    tnri_span *span;
    size_t wanted = pages_round(space, bytes);
    tnr_status status = tnri_ladder_take_span(&span, arena->device, wanted, wanted);
    if (status != TNR_OK)
        return status;
    tnri_arena_enter(arena);
    int is_ready =
        tnri_world_spares(world, 1) && tnri_block_map_prepare(&space->map, span->base, 0);
    if (is_ready) {
        tnri_world_add_span(world, span);
        span->begun = span->bytes; /* of a range the map has all addresses from the start on */
        tnri_block_map_enter_start(&space->map, grow_block(arena));
        arena->growable.base = span->base;
        world->bins.max = 0; /* nothing is ever carved from it */
    }
    tnri_arena_leave(arena);
    if (is_ready)
        return TNR_OK;
    tnri_space_return(space, span);
    return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the addresses of a block.");
}

int tnri_grow_is_idle(const tnri_arena *arena, size_t bytes)
{
    const tnri_world *world = &arena->worlds[TNRI_LARGE];
    tnri_assert_held(&arena->lock);
    /* A block is not put on a span that would serve a much larger one. */
    const tnri_range *range = arena->growable.range;
    return arena->growable.base != 0 && !arena->growable.is_bare &&
           (range == NULL || range->whole.state == TNRI_UNUSED) &&
           world->bytes_in[TNRI_HOLE] == world->spans_bytes && world->spans_bytes >= bytes &&
           (world->spans_bytes / 2 < bytes || world->spans_bytes == (size_t)1
                                                                        << TNRI_SPAN_LOG2_MIN);
}

void *tnri_grow_reserve(tnri_arena *arena, size_t bytes_max)
{
    arena->growable.bytes_max = bytes_max;
    arena->growable.is_bare = 1;
    tnri_arena_count_bare(arena, 0);
    if (arena->growable.range != NULL) /* the map leads to what was reserved here before */
        tnri_block_map_enter_start(&arena->device->space.map, grow_block(arena));
    return (void *)arena->growable.base;
}

int tnri_grow_free_bare(tnri_arena *arena, uintptr_t address)
{
    tnri_assert_held(&arena->lock);
    if (!arena->growable.is_bare || arena->growable.base != address)
        return 0;
    if (tnri_range_of(arena) != NULL)
        tnri_range_close(arena);
    arena->growable.is_bare = 0;
    tnri_arena_count_bare(arena, 1);
    return 1;
}

/* ---- committing ----------------------------------------------------------------------------- */

/* What a commit asks of the block: how much must be added. 0 if it has enough already. Under the
 * lock. */
static tnr_status grow_request(tnri_arena *arena, size_t bytes, tnri_request *request)
{
    tnri_growable *growable = &arena->growable;
    tnri_block *block = grow_block(arena);
    request->bytes = 0;
    if (tnri_range_of(arena) != NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "the block at %p has memory in single pages since a tnr_commit_range, "
                          "and no more by tnr_commit.",
                          (void *)growable->base);
    if (!growable->is_bare && block->state != TNRI_LIVE)
        return tnri_error(TNR_ERR_NOT_LIVE, "the block at %p was freed before.",
                          (void *)growable->base);
    if (bytes > growable->bytes_max)
        return tnri_error(TNR_ERR_INVALID_SIZE,
                          "the block at %p was reserved for %zu bytes; %zu are too many. Reserve "
                          "for the most that it may become.",
                          (void *)growable->base, growable->bytes_max, bytes);
    if (growable->is_growing)
        return tnri_error(TNR_ERR_BUSY, "another call is committing to the block at %p.",
                          (void *)growable->base);
    size_t has = growable->is_bare ? 0 : block->bytes;
    if (bytes > has) {
        request->bytes_requested = bytes;
        request->bytes = pages_round(&arena->device->space, bytes) - has;
        request->alignment = TNR_ALIGNMENT_DEFAULT;
        growable->is_growing = 1;
    } else if (!growable->is_bare && bytes > tnri_block_requested(block)) {
        tnri_arena_count_grown(arena, block, 0, bytes); /* the last page has room for it */
    }
    return TNR_OK;
}

tnr_status tnri_grow_commit(int *was_bare, tnri_arena *arena, void *ptr, size_t bytes)
{
    tnri_request request;
    tnri_assert((uintptr_t)ptr == arena->growable.base);
    tnri_arena_enter(arena);
    *was_bare = arena->growable.is_bare;
    tnr_status status = grow_request(arena, bytes, &request);
    tnri_arena_leave(arena);
    if (status != TNR_OK || request.bytes == 0)
        return status;
    status = tnri_ladder_grow(arena, &request);
    tnri_arena_enter(arena);
    arena->growable.is_growing = 0;
    tnri_arena_leave(arena);
    return status;
}

/* ---- checking ------------------------------------------------------------------------------- */

const char *tnri_grow_validate(const tnri_arena *arena)
{
    const tnri_growable *growable = &arena->growable;
    if (growable->base == 0)
        return NULL;
    const tnri_world *world = &arena->worlds[TNRI_LARGE];
    const tnri_block *block = grow_block(arena);
    const char *broken = tnri_range_validate(arena);
    if (broken != NULL)
        return broken;
    if (world->spans_count != 1 || arena->worlds[TNRI_SMALL].spans_count != 0 ||
        block->base != growable->base)
        return "a growable block's arena does not consist of its one span";
    if (growable->range != NULL && growable->range->whole.state != TNRI_UNUSED)
        return NULL;
    if ((growable->range == NULL || growable->is_bare) &&
        tnri_block_map_at(&world->space->map, growable->base) != block)
        return "the map does not lead to a growable block";
    if (growable->is_bare && block->state != TNRI_HOLE && block->state != TNRI_PENDING &&
        block->state != TNRI_STALE)
        return "a growable block without memory has some";
    if (block->state != TNRI_LIVE)
        return NULL;
    if (world->count_in[TNRI_LIVE] != 1 || world->count_in[TNRI_FREE] != 0)
        return "a growable block is not alone in its arena";
    if (tnri_block_requested(block) > growable->bytes_max)
        return "a growable block is larger than it may be";
    return NULL;
}
