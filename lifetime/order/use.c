/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls about uses, and the frees that need them: see uses.h. The mark is made first, without
 * the arena's lock, then entered: a block that turns out not to be live costs an event and nothing
 * else.
 */
#include <tenure/lifetime.h>

#include "api/cached.h"
#include "api/library.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "log/nvtx.h"
#include "memory/arena/find.h"
#include "memory/arena/free.h"
#include "memory/arena/note.h"
#include "memory/device/upper.h"
#include "memory/stream/facts.h"
#include "miss/park.h"
#include "order/announced.h"
#include "order/free.h"
#include "order/register.h"
#include "order/uses.h"
#include "see/trap/trap.h"

/* ---- finding the block ---------------------------------------------------------------------- */

/* arena_of for an address that no block starts at, or in a foreign segment. */
static TNRI_SELDOM tnr_status arena_of_slowly(const void *ptr, tnri_arena **arena)
{
    if (ptr == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "there is no use of a null pointer to record.");
    tnri_device *device;
    tnri_block *block;
    tnr_status status = tnri_library_live(ptr, &device, &block);
    if (status != TNR_OK)
        return status;
    *arena = block->world->arena;
    tnri_live_leave(device, block);
    return TNR_OK;
}

/* The arena whose span `ptr` lies in, with no promise about the block. */
static inline tnr_status arena_of(const void *ptr, tnri_arena **arena)
{
    tnri_device *device = tnri_library_device_of(ptr);
    tnri_block *block = NULL;
    if (tnri_likely(device != NULL))
        block = tnri_block_map_at(&device->space.map, (uintptr_t)ptr);
    if (tnri_unlikely(block == NULL))
        return arena_of_slowly(ptr, arena);
    *arena = block->world->arena;
    return TNR_OK;
}

static tnr_status not_live_error(const tnri_arena *arena, const void *ptr)
{
    return tnri_error(TNR_ERR_NOT_LIVE,
                      "%p lies in no live block of device %d: it was freed before. Record a use "
                      "before the free.",
                      ptr, arena->device->index);
}

/* Where the live block begins that contains `ptr`. */
static tnr_status start_find(const tnri_arena *arena, const void *ptr, uintptr_t *base)
{
    const tnri_block *block = tnri_live_find(arena->device, (uintptr_t)ptr);
    if (block == NULL)
        return not_live_error(arena, ptr);
    int is_parked = block->state == TNRI_PARKED;
    *base = block->base;
    tnri_live_leave(arena->device, block);
    return is_parked ? tnri_parked_error(ptr, "no stream uses it") : TNR_OK;
}

/* The live block that contains `ptr`, with its arena's lock taken; or an error, without it. */
static tnr_status block_lock(tnri_arena *arena, const void *ptr, tnri_block **block)
{
    uintptr_t base = 0;
    *block = tnri_live_start(arena, (uintptr_t)ptr);
    if (tnri_likely(*block != NULL)) /* the usual case: the block's start */
        return TNR_OK;
    tnr_status status = start_find(arena, ptr, &base);
    if (status == TNR_OK)
        *block = tnri_live_start(arena, base);
    if (status == TNR_OK && *block == NULL)
        status = not_live_error(arena, ptr); /* freed just now */
    return status;
}

/* Whether a use of the block could be entered now: for calls that would make or mark something
 * first. The use of the block's own stream is no more than this, because its free is ordered after
 * it anyway. */
static TNRI_SELDOM tnr_status block_check(tnri_arena *arena, const void *ptr)
{
    tnri_block *block;
    tnr_status status = block_lock(arena, ptr, &block);
    if (status == TNR_OK)
        tnri_arena_leave(arena);
    return status;
}

/* Enters a mark (or, with a null event, an intention); takes over the event. */
static tnr_status use_enter(tnri_arena *arena, const void *ptr, tnri_stream *stream,
                            uint64_t number, tnri_event *event)
{
    tnri_block *block;
    tnri_lifetime_register();
    tnr_status status = block_lock(arena, ptr, &block);
    if (status == TNR_OK) {
        status = tnri_use_add(arena, block, stream, number, &event);
        tnri_arena_leave(arena);
    }
    tnri_stream_recycle(stream, event);
    return status;
}

/* Enters a mark if `ptr` is the start of a live block; 0 if it is not. As tnri_use_begin,
 * whose outcome is in *status. Most often the stream has used the block before. */
static inline int use_enter_at_start(tnri_arena *arena, const void *ptr, tnri_stream *stream,
                                     uint64_t number, tnri_event **event, tnr_status *status)
{
    tnri_use *use = NULL;
    tnri_arena_enter(arena);
    tnri_block *block = tnri_block_map_at(&tnri_arena_space(arena)->map, (uintptr_t)ptr);
    int is_start = block != NULL && block->base == (uintptr_t)ptr && block->state == TNRI_LIVE;
    if (tnri_likely(is_start && block->uses != NULL))
        use = tnri_uses_find(block->uses, stream);
    if (tnri_likely(use != NULL)) {
        *event = tnri_use_advance(use, number, *event);
    } else if (is_start && block->world->arena == arena) {
        tnri_lifetime_register();
        *status = tnri_use_begin(arena, block, stream, number, event);
    } else {
        is_start = 0;
    }
    tnri_arena_leave(arena);
    return is_start;
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* What tnr_record_use and tnr_record_stream begin with: the block's arena and the stream's object,
 * which is null for the block's own stream once the block is known to be live, and for a stream
 * that is being captured, of which the layer above has taken note. */
static inline __attribute__((always_inline)) tnr_status use_begin(const void *ptr,
                                                                  tnr_stream handle, int until_free,
                                                                  tnri_arena **arena,
                                                                  tnri_stream **stream)
{
    *stream = NULL;
    tnr_status status = arena_of(ptr, arena);
    if (status != TNR_OK)
        return status;
    if (tnri_unlikely(tnri_capturing()) &&
        tnri_upper_of(TNRI_ROOM_GRAPH)->use(*arena, ptr, handle, until_free, &status))
        return status;
    status = tnri_stream_find((*arena)->device, handle, stream);
    if (status != TNR_OK ||
        atomic_load_explicit(&(*arena)->stream, memory_order_relaxed) != *stream)
        return status;
    *stream = NULL;
    return block_check(*arena, ptr);
}

/* A mark where the usual way failed, or the first of a stream on a block. */
static TNRI_SELDOM tnr_status record_use_slowly(tnri_arena *arena, const void *ptr,
                                                tnri_stream *stream)
{
    TNRI_CALM;
    tnri_event *event;
    uint64_t number;
    tnr_status status = tnri_stream_mark(stream, &event, &number);
    return status == TNR_OK ? use_enter(arena, ptr, stream, number, event) : status;
}

/* A use by a stream of another device, which the block's device refused just now: its proxy waits
 * for the end of it. Lists of uses know of one device only. */
static TNRI_SELDOM tnr_status record_use_of_peer(tnri_arena *arena, const void *ptr,
                                                 tnr_stream handle)
{
    TNRI_CALM;
    tnri_device *peer;
    if (tnr_last_driver_result() != CUDA_SUCCESS ||
        tnri_facts_device(handle, &peer) != CUDA_SUCCESS || peer == NULL)
        return TNR_ERR_INVALID_STREAM; /* with the sentence of the refusal */
    tnri_stream *stream, *proxy = NULL;
    tnri_event *end, *mark = NULL;
    uint64_t number;
    tnri_lifetime_register();
    tnr_status status = block_check(arena, ptr);
    if (status == TNR_OK)
        status = tnri_stream_find(peer, handle, &stream);
    if (status == TNR_OK)
        status = tnri_stream_mark(stream, &end, &number);
    if (status != TNR_OK)
        return status;
    status = tnri_proxy_mark(arena->device, end->handle, &proxy, &mark, &number);
    tnri_stream_recycle(stream, end);
    return status == TNR_OK ? use_enter(arena, ptr, proxy, number, mark) : status;
}

tnr_status tnr_record_use(const void *ptr, tnr_stream handle)
{
    tnri_arena *arena;
    tnri_stream *stream;
    tnr_status status = use_begin(ptr, handle, 0, &arena, &stream);
    if (tnri_unlikely(status == TNR_ERR_INVALID_STREAM))
        return record_use_of_peer(arena, ptr, handle);
    if (status != TNR_OK || stream == NULL)
        return status;
    tnri_event *event;
    uint64_t number;
    if (tnri_unlikely(!tnri_stream_mark_begin(stream, &event, &number)))
        return record_use_slowly(arena, ptr, stream);
    /* The arena's lock is taken under the stream's: one locked instruction less than keeping the
     * event that is not needed any more afterwards. */
    int is_entered = use_enter_at_start(arena, ptr, stream, number, &event, &status);
    tnri_stream_mark_end(stream, is_entered ? event : NULL);
    return tnri_likely(is_entered) ? status : use_enter(arena, ptr, stream, number, event);
}

tnr_status tnr_record_stream(const void *ptr, tnr_stream handle)
{
    tnri_arena *arena;
    tnri_stream *stream;
    tnr_status status = use_begin(ptr, handle, 1, &arena, &stream);
    if (status != TNR_OK || stream == NULL)
        return status;
    return use_enter(arena, ptr, stream, 0, NULL);
}

tnr_status tnr_keep_until(const void *ptr, tnr_event event)
{
    TNRI_CALM_CALL;
    tnri_arena *arena;
    tnr_status status = arena_of(ptr, &arena);
    if (status != TNR_OK)
        return status;
    tnri_stream *proxy;
    tnri_event *mark;
    uint64_t number;
    status = block_check(arena, ptr);
    if (status == TNR_OK)
        status = tnri_announced_mark(arena->device, event, &proxy, &mark, &number);
    if (status != TNR_OK)
        return status;
    return use_enter(arena, ptr, proxy, number, mark);
}

tnr_status tnr_free_on(void *ptr, tnr_stream stream)
{
    if (ptr == NULL)
        return TNR_OK;
    tnri_arena *arena;
    tnr_status status = arena_of(ptr, &arena);
    if (status != TNR_OK)
        return status;
    /* The free's own checks come first: nothing may be recorded for a free that is refused. */
    tnri_block *block;
    status = block_lock(arena, ptr, &block);
    if (status == TNR_ERR_PARKED) /* no stream uses it: it is freed as it is */
        return tnr_free(ptr);
    if (status != TNR_OK)
        return status;
    int is_start = block->base == (uintptr_t)ptr;
    tnri_arena_leave(arena);
    if (is_start)
        status = tnr_record_use(ptr, stream);
    return status == TNR_OK ? tnr_free(ptr) : status;
}

tnr_status tnr_free_sync(void *ptr)
{
    TNRI_CALM_CALL;
    if (ptr == NULL)
        return TNR_OK;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_device *device;
    const tnri_space *space = tnri_library_space_of(ptr, &device);
    if (space == NULL)
        return tnr_free(ptr); /* says what is wrong */
    tnri_block *block = tnri_block_map_at(&space->map, (uintptr_t)ptr);
    if (block == NULL)
        return tnri_free_refused(device, ptr);
    tnri_lifetime_register();
    tnri_arena *arena = block->world->arena;
    int is_trapped = (tnri_gate() & TNRI_GATE_TRAPS) != 0;
    uint32_t began = tnri_note_begin();
    if (tnri_unlikely(tnri_nvtx_listens()))
        tnri_free_annotate(block, ptr);
    if (is_trapped)
        (void)tnri_trap_freeing(block, ptr, 1);
    tnr_status status = tnri_free_sync(block, ptr, 1);
    if (is_trapped && status == TNR_OK)
        tnri_trap_freed(arena);
    tnri_note_end(began);
    return status;
}
