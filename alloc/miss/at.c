/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block at an address that the caller chooses: see at.h. Of the stream's arenas, Tenure takes the
 * one whose world for blocks of that size has the address in a span. The bins of that world are
 * emptied first, so that free memory side by side is one run. The block is cut out of that run.
 * Nothing is mapped or moved. The one arena of a graph pool belongs to no stream.
 */
#include "miss/at.h"

#include "base/error.h"
#include "memory/arena/bins.h"
#include "memory/arena/count.h"
#include "memory/arena/note.h"
#include "memory/arena/serve.h"
#include "memory/arena/world_retired.h"
#include "memory/pool/graph_lock.h"
#include "memory/stream/idle.h"
#include "miss/reclaim.h"

/* What is at the address in an arena: tries to take it. TNR_ERR_FOREIGN_POINTER: it is not the
 * arena's; TNR_ERR_BUSY: it is not free. No text is left. Under the lock. */
static tnr_status arena_take_at(tnri_arena *arena, uintptr_t address, const tnri_request *request)
{
    tnri_world *world = tnri_arena_world(arena, request->bytes);
    if (tnri_world_find(world, NULL, address) == NULL)
        return TNR_ERR_FOREIGN_POINTER;
    (void)tnri_world_flush(world);
    tnri_block *run = tnri_world_find(world, NULL, address);
    if (run->state != TNRI_FREE || tnri_block_end(run) - address < request->bytes)
        return TNR_ERR_BUSY;
    tnri_block *block = tnri_serve_at(world, run, address, request->bytes);
    if (block == NULL)
        return TNR_ERR_HOST_MEMORY;
    tnri_arena_count_served(arena, block, request, TNR_SERVED_INDEX);
    return TNR_OK;
}

/* Tries all arenas of the stream; of none, in a graph pool. In that one no capture may be in the
 * middle of looking for memory. */
static tnr_status pool_take_at(tnr_pool pool, uintptr_t address, const tnri_request *request,
                               const tnri_stream *stream)
{
    tnr_status status = TNR_ERR_FOREIGN_POINTER;
    if (pool->account.is_graph)
        (void)tnri_graph_lock();
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        uint32_t began = tnri_note_begin();
        tnri_arena_enter(arena);
        if (status == TNR_ERR_FOREIGN_POINTER && arena->growable.base == 0 && !arena->is_guard &&
            atomic_load(&arena->stream) == stream)
            status = arena_take_at(arena, address, request);
        tnri_arena_leave(arena);
        tnri_note_end(began);
    }
    if (pool->account.is_graph)
        tnri_graph_unlock();
    return status;
}

tnr_status tnri_malloc_at(tnr_pool pool, uintptr_t address, const tnri_request *request,
                          tnr_stream handle)
{
    tnri_visit visit;
    tnri_stream *stream = NULL;
    tnr_status status =
        pool->account.is_graph ? TNR_OK : tnri_stream_for(pool->device, handle, &stream);
    if (status != TNR_OK)
        return status;
    status = pool_take_at(pool, address, request, stream);
    if (status == TNR_ERR_BUSY && tnri_device_enter(pool->device, &visit) == TNR_OK) {
        (void)tnri_collect_pool(pool, SIZE_MAX, TNRI_COLLECT_WAIT);
        tnri_device_leave(&visit);
        status = pool_take_at(pool, address, request, stream);
    }
    if (status == TNR_ERR_FOREIGN_POINTER)
        return tnri_error(status,
                          "%p was never memory of stream %p in pool \"%s\" for blocks of "
                          "%zu bytes.",
                          (void *)address, (void *)handle, pool->account.name, request->bytes);
    if (status == TNR_ERR_BUSY)
        return tnri_error(status,
                          "the %zu bytes at %p of pool \"%s\" are not all free and mapped: "
                          "free what is live there first.",
                          request->bytes, (void *)address, pool->account.name);
    if (status == TNR_ERR_HOST_MEMORY)
        return tnri_error(status, "no host memory for the record of a block.");
    return status;
}
