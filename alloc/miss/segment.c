/* SPDX-License-Identifier: Apache-2.0 */
/* New foreign segments: see segment.h. */
#include "miss/segment.h"

#include "base/error.h"
#include "base/heuristics.h"
#include "memory/arena/count.h"
#include "memory/arena/note.h"
#include "memory/arena/serve.h"
#include "memory/arena/world_lend.h"
#include "memory/device/segment.h"
#include "miss/oom.h"

static size_t pages_of(const tnri_space *space, size_t bytes)
{
    return (bytes + tnri_page_bytes(space) - 1) >> space->page_shift;
}

/* Sets aside what a segment needs to be entered: that must not fail once it is there. */
static tnr_status segment_promise(tnri_arena *arena, tnri_world *world)
{
    tnri_arena_enter(arena);
    int has_record = tnri_world_promise(world, 1);
    int has_place = has_record && tnri_world_promise_borrow(world);
    if (has_record && !has_place)
        tnri_world_unpromise(world, 1);
    tnri_arena_leave(arena);
    return has_place ? TNR_OK
                     : tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a "
                                                       "segment.");
}

/* The reverse, under the lock. */
static void segment_unpromise(tnri_world *world)
{
    tnri_world_unpromise(world, 1);
    tnri_world_unpromise_borrow(world);
}

/* How large a slab of host memory is, which is Tenure's own. Blocks leave a corner in each into
 * which none fits, of about a MiB, and the last one is half empty: both together are least where
 * the square of a slab is twice its pool times a MiB. It is a whole number of the blocks that are
 * asked for, since many programs have one size alone; of such numbers, the one that leaves least of
 * its last page. */
static size_t slab_bytes(const tnri_account *account, const tnri_request *request)
{
    const size_t mib = (size_t)1 << 20, page = tnri_page_bytes(account->space);
    size_t pool = (size_t)atomic_load_explicit(&account->reserved_bytes, memory_order_relaxed);
    size_t bytes = account->foreign.bytes_least, span = tnri_request_span(request);
    while (bytes / mib * bytes < TNRI_SLAB_POOLS * pool)
        bytes += mib;
    size_t first = bytes > span ? bytes / span : 1, count = first;
    for (size_t more = first; more <= first + first / TNRI_SLAB_MORE; more++)
        if ((-(more * span) & (page - 1)) * count < (-(count * span) & (page - 1)) * more)
            count = more;
    return count * span;
}

/* The least that the owner is asked for. Not so of contents, whose large blocks are slabs. */
static size_t segment_bytes(const tnri_account *account, const tnri_request *request)
{
    int is_slab = account->foreign.is_own && tnri_device_is_host(account->device) &&
                  !account->is_contents;
    return is_slab ? slab_bytes(account, request) : account->foreign.bytes_least;
}

/* A segment as large as that, or, if there is no such one, just large enough. Small blocks
 * have small ones, so that they do not keep a large one. */
static tnr_status segment_ask(tnri_arena *arena, const tnri_world *world,
                              const tnri_request *request, tnri_chunk **segment)
{
    tnri_account *account = arena->account;
    tnr_stream stream = tnri_oom_stream(arena);
    size_t least = pages_of(world->space, tnri_request_span(request));
    size_t wanted = pages_of(world->space, world->is_small ? 1 : segment_bytes(account, request));
    tnr_status status = TNR_ERR_OUT_OF_MEMORY;
    if (wanted > least)
        status = tnri_segment_create(account, wanted, world->is_small, stream, segment);
    if (status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT)
        status = tnri_segment_create(account, least, world->is_small, stream, segment);
    return status;
}

tnr_status tnri_segment_serve(tnri_arena *arena, const tnri_request *request, int reclaimed,
                              void **ptr)
{
    tnri_world *world = tnri_arena_world(arena, request->bytes);
    tnri_chunk *segment;
    tnr_status status = segment_promise(arena, world);
    if (status != TNR_OK)
        return status;
    status = segment_ask(arena, world, request, &segment);
    tnri_arena_enter(arena);
    segment_unpromise(world);
    if (status != TNR_OK) {
        tnri_arena_leave(arena);
        return status;
    }
    uintptr_t base = tnri_page_address(world->space, segment->page);
    size_t bytes = segment->pages << world->space->page_shift;
    tnri_note_memory(arena, TNRI_NOTED_MAP, base, bytes, bytes, 0);
    tnri_block *run = tnri_world_segment_add(world, base, bytes);
    tnri_block *block = tnri_arena_carve(arena, run, request);
    if (block != NULL) {
        tnri_arena_count_served(arena, block, request,
                                reclaimed ? TNR_SERVED_RECLAIMED : TNR_SERVED_GROWN);
        *ptr = (void *)block->base;
    }
    tnri_arena_leave(arena);
    return block != NULL
               ? TNR_OK
               : tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a block.");
}
