/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending arenas, and what they are to a stream: see arena.h. */
#include "memory/arena/arena.h"

#include "base/conf/conf.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "log/origins.h"
#include "memory/device/device.h"

void (*_Atomic tnri_arena_copier)(tnri_arena *arena);

TNRI_SELDOM void tnri_arena_copy_now(tnri_arena *arena)
{
    atomic_load_explicit(&tnri_arena_copier, memory_order_acquire)(arena);
}

tnri_arena *tnri_arena_create(tnri_account *account, struct tnr_pool_st *pool, tnri_stream *stream)
{
    tnri_arena *arena = tnri_host_alloc(sizeof(*arena));
    if (arena == NULL)
        return NULL;
    static _Atomic uint32_t last_number;
    const tnri_conf *conf = tnri_conf_get();
    tnri_lock_init(&arena->lock, TNRI_RANK_ARENA);
    arena->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    arena->born = tnri_gate() >> TNRI_GATE_NUMBER_SHIFT;
    if (stream != NULL)
        tnri_stream_hold(stream);
    atomic_init(&arena->stream, stream);
    tnri_device *device = account->device;
    arena->device = device;
    arena->pool = pool;
    arena->account = account;
    int keeps = conf->aliases_from == TNRI_ALIASES_FROM_FIRST;
    atomic_init(&arena->trough.keeps, keeps);
    arena->small_limit_bytes = (size_t)conf->small_limit_kb << 10;
    size_t bin_blocks = stream == NULL ? 0 : conf->bin_blocks;
    tnri_world_create(&arena->worlds[TNRI_SMALL], arena, account->space, 1, bin_blocks);
    tnri_world_create(&arena->worlds[TNRI_LARGE], arena, account->space, 0, bin_blocks > 0);
    /* Blocks larger than a granule do not share one, nor does a growable block its span. */
    arena->worlds[TNRI_LARGE].has_many = arena->small_limit_bytes < TNRI_GRANULE_BYTES;
    return arena;
}

int tnri_arena_may_move(const tnri_arena *arena)
{
    const tnri_conf *conf = tnri_conf_get();
    return !tnri_arena_is_graph(arena) && !tnri_account_is_fixed(arena->account) &&
           (conf->move_burst_ms > 0 || conf->move_percent > 0);
}

void tnri_arena_dissolve(tnri_arena *arena)
{
    if (arena->growable.base != 0 || tnri_arena_is_graph(arena))
        return;
    tnri_device_look_begin(arena->device);
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++)
        (void)tnri_world_dissolve(&arena->worlds[i]);
    tnri_arena_leave(arena);
    tnri_device_look_end(arena->device);
}

void tnri_arena_destroy(tnri_arena *arena)
{
    tnri_stream *stream = atomic_load(&arena->stream);
    tnri_arena_origin_over(arena);
    tnri_origin_gone(arena->origin_last); /* it records nothing any more */
    if (stream != NULL)
        tnri_stream_drop(stream);
    /* One without addresses nobody finds, and it may be ended under the pool's lock. */
    tnri_device *device = arena->device;
    int is_found =
        arena->worlds[TNRI_SMALL].spans != NULL || arena->worlds[TNRI_LARGE].spans != NULL;
    if (is_found)
        tnri_device_look_begin(device);
    for (int i = 0; i < TNRI_WORLDS; i++)
        tnri_world_destroy(&arena->worlds[i]);
    tnri_host_free(arena->growable.range, arena->growable.range_bytes);
    tnri_host_free(tnri_arena_returns(arena), sizeof(tnri_returns));
    tnri_host_free(arena, sizeof(*arena));
    if (is_found)
        tnri_device_look_end(device);
}

/* ---- the stream ----------------------------------------------------------------------------- */

tnri_stream *tnri_arena_stream(tnri_arena *arena)
{
    tnri_arena_enter(arena);
    tnri_stream *stream = atomic_load_explicit(&arena->stream, memory_order_relaxed);
    if (stream != NULL)
        tnri_stream_hold(stream);
    tnri_arena_leave(arena);
    return stream;
}

tnr_status tnri_arena_mark(tnri_arena *arena, tnri_event **event)
{
    uint64_t number;
    tnri_stream *stream = tnri_arena_stream(arena);
    tnr_status status = tnri_stream_mark_idle(stream, event, &number);
    tnri_stream_drop(stream);
    return status;
}

int tnri_arena_is_markable(const tnri_arena *arena)
{
    const tnri_stream *stream = atomic_load_explicit(&arena->stream, memory_order_acquire);
    return stream == NULL || (tnri_stream_is_markable(stream) && tnri_stream_has_mark(stream));
}

tnr_status tnri_arena_mark_other(tnri_arena *arena, tnri_event **event)
{
    *event = NULL;
    if (tnri_arena_is_graph(arena))
        return TNR_OK;
    if (!tnri_capturing())
        return tnri_arena_mark(arena, event);
    uint64_t number;
    tnri_stream *stream = tnri_arena_stream(arena);
    tnr_status status = tnri_stream_mark_beside(stream, event, &number);
    /* One that is gone has no mark, and the context cannot be waited for. */
    if (status == TNR_ERR_CAPTURE || status == TNR_ERR_INVALID_STREAM)
        status = tnri_error(TNR_ERR_CAPTURE,
                            "the idle memory of stream %p cannot be proved idle while a capture is "
                            "under way. Trim before or after it.",
                            (void *)stream->handle);
    tnri_stream_drop(stream);
    return status;
}

void tnri_arena_pass_on(tnri_arena *arena, tnri_stream *stream)
{
    tnri_assert_held(&arena->lock);
    tnri_arena_origin_over(arena);
    tnri_stream_hold(stream);
    tnri_stream_drop(atomic_exchange(&arena->stream, stream));
}

void tnri_arena_origin_over(tnri_arena *arena)
{
    tnri_origin_end(arena->origin);
    arena->origin = 0;
}
