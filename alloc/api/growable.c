/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas of growable blocks, and the public functions for them: see growable.h. */
#include "api/growable.h"

#include "api/library.h"
#include "base/plural.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "log/nvtx.h"
#include "memory/arena/note.h"
#include "memory/device/segment.h"
#include "memory/pool/asleep.h"
#include "memory/stream/idle.h"
#include "miss/grow.h"
#include "miss/stale.h"
#include "see/snapshot/trigger.h"

/* ---- arenas --------------------------------------------------------------------------------- */

/* Removes old mappings from arenas whose block is gone, as far as they may be, so that they can
 * serve again. Best effort: what cannot be removed now is left for later. */
static void growables_drain(tnr_pool pool)
{
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        if (arena->growable.base == 0)
            continue;
        tnri_arena_enter(arena);
        int is_waiting = arena->stale_count > 0;
        tnri_arena_leave(arena);
        tnri_visit visit;
        if (!is_waiting || tnri_device_enter(pool->device, &visit) != TNR_OK)
            continue;
        size_t released = 0;
        if (tnri_pool_work_begin(pool)) {
            (void)tnri_stale_drain(arena, 0, 0, &released);
            tnri_pool_work_end(pool);
        }
        tnri_device_leave(&visit);
    }
}

/* Takes an arena that is all addresses and no memory for a new block of `stream`. Nothing of what
 * it was used for is left, so the streams need no order. Null if there is none. */
static void *growable_reuse(tnr_pool pool, size_t bytes_max, tnri_stream *stream)
{
    void *ptr = NULL;
    tnri_lock_take(&pool->lock);
    for (tnri_arena *arena = NULL; ptr == NULL && (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        if (tnri_grow_is_idle(arena, bytes_max)) {
            tnri_arena_pass_on(arena, stream);
            ptr = tnri_grow_reserve(arena, bytes_max);
        }
        tnri_arena_leave(arena);
    }
    tnri_lock_release(&pool->lock);
    return ptr;
}

/* Reserves a growable block of a pool for a stream. */
static tnr_status pool_reserve(tnr_pool pool, size_t bytes_max, tnr_stream handle, void **ptr)
{
    tnri_stream *stream;
    if (!tnri_pool_is_awake(pool))
        return tnri_asleep_error(pool);
    tnr_status status = tnri_stream_for(pool->device, handle, &stream);
    if (status != TNR_OK)
        return status;
    growables_drain(pool);
    *ptr = growable_reuse(pool, bytes_max, stream);
    if (*ptr != NULL)
        return TNR_OK;
    tnri_arena *arena = tnri_arena_create(&pool->account, pool, stream);
    if (arena == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the arena of a block.");
    status = tnri_grow_prepare(arena, bytes_max);
    if (status == TNR_OK) {
        void *reserved = tnri_grow_reserve(arena, bytes_max);
        tnri_lock_take(&pool->lock);
        if (tnri_pool_enter(pool, arena))
            *ptr = reserved;
        tnri_lock_release(&pool->lock);
        if (*ptr != NULL)
            return TNR_OK;
        status = tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the arena of a block.");
    }
    tnri_arena_destroy(arena);
    return status;
}

/* ---- public functions ----------------------------------------------------------------------- */

tnr_status tnr_reserve(void **ptr, size_t bytes_max, int device, tnr_stream stream)
{
    TNRI_CALM_CALL;
    if (ptr == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "the place for the address (first argument) is null.");
    *ptr = NULL;
    if (bytes_max > TNR_BYTES_MAX)
        return tnri_error(TNR_ERR_INVALID_SIZE,
                          "%zu bytes were to be reserved; the most is 1 EiB. Was it computed from "
                          "a negative number?",
                          bytes_max);
    tnr_pool pool;
    tnr_status status = tnri_library_pool(device, &pool);
    if (status != TNR_OK)
        return status;
    if (bytes_max > 0)
        status = tnri_segment_refuse(&pool->account, "it gets no more addresses than it has");
    if (bytes_max > 0 && status == TNR_OK)
        status = pool_reserve(pool, bytes_max, stream, ptr);
    tnri_pool_drop(pool);
    return status;
}

/* Tells tools what a growable block has now. */
static void commit_annotate(const tnri_arena *arena, const void *ptr, size_t bytes, int is_first)
{
    if (is_first)
        tnri_nvtx_block(arena->device->range_base, arena->account->name, (uintptr_t)ptr, bytes);
    else
        tnri_nvtx_block_grown((uintptr_t)ptr, bytes);
}

/* The arena whose growable block begins at an address; null: none does. It stays as long as the
 * block is reserved. */
static tnri_arena *growable_at(const tnri_space *space, tnri_device *device, uintptr_t address)
{
    tnri_device_look_begin(device);
    const tnri_block *block = tnri_block_map_at(&space->map, address);
    tnri_arena *arena = block == NULL ? NULL : block->world->arena;
    int is_growable = arena != NULL && arena->growable.base == address;
    tnri_device_look_end(device);
    return is_growable ? arena : NULL;
}

/* The error for an address that no growable block begins at. */
static tnr_status growable_refused(const void *ptr)
{
    tnr_block_info info;
    tnr_status status = tnr_block_get(&info, ptr);
    if (status != TNR_OK)
        return status;
    if (info.base != ptr)
        return tnri_error(TNR_ERR_INTERIOR_POINTER,
                          "%p lies %zu byte%s inside the block at %p. Give the block's start.", ptr,
                          (size_t)((uintptr_t)ptr - (uintptr_t)info.base),
                          tnri_plural((uintptr_t)ptr - (uintptr_t)info.base), info.base);
    return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                      "the block at %p came from tnr_malloc; only a block of tnr_reserve gets "
                      "memory later.",
                      ptr);
}

tnr_status tnri_growable_find(tnri_arena **arena, const void *ptr)
{
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_device *device;
    const tnri_space *space = tnri_library_space_of(ptr, &device);
    if (space == NULL)
        return tnri_error(TNR_ERR_FOREIGN_POINTER, "%p was not reserved by Tenure.", ptr);
    *arena = growable_at(space, device, (uintptr_t)ptr);
    return *arena != NULL ? TNR_OK : growable_refused(ptr);
}

tnr_status tnr_commit(void *ptr, size_t bytes)
{
    TNRI_CALM_CALL;
    if (ptr == NULL)
        return bytes == 0 ? TNR_OK
                          : tnri_error(TNR_ERR_INVALID_ARGUMENT,
                                       "a null pointer has no addresses to commit memory to.");
    tnri_arena *arena;
    tnr_status status = tnri_growable_find(&arena, ptr);
    if (status != TNR_OK)
        return status;
    int was_bare;
    uint32_t began = tnri_note_begin();
    status = tnri_grow_commit(&was_bare, arena, ptr, bytes);
    status = tnri_snapshot_oom(status, arena, bytes);
    tnri_note_end(began);
    if (tnri_unlikely(tnri_nvtx_listens()) && status == TNR_OK && bytes > 0)
        commit_annotate(arena, ptr, bytes, was_bare);
    return status;
}
