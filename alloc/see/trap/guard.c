/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded blocks and their arenas: see guard.h. */
#include "see/trap/guard.h"

#include "base/conf/conf.h"
#include "memory/device/upper.h"
#include "memory/pool/asleep.h"
#include "memory/pool/pool.h"
#include "miss/ladder.h"
#include "miss/stale.h"

_Atomic uint64_t tnri_guarded_count, tnri_unguarded_count;

/* 1 if nothing is in the arena but addresses, so that any stream can have it. Under the lock. */
static int guard_is_idle(const tnri_arena *arena)
{
    const tnri_world *world = &arena->worlds[TNRI_LARGE];
    return arena->is_guard && world->bytes_in[TNRI_HOLE] == world->spans_bytes;
}

/* The pool's arena for guarded blocks of a stream, or one that it can have; null: there is none.
 * Under the pool's lock. */
static tnri_arena *guard_find(tnr_pool pool, tnri_stream *stream)
{
    tnri_arena *idle = NULL;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        if (!arena->is_guard)
            continue;
        if (atomic_load(&arena->stream) == stream)
            return arena;
        tnri_arena_enter(arena);
        if (idle == NULL && guard_is_idle(arena) && atomic_load(&arena->stream->seal) != NULL)
            idle = arena;
        tnri_arena_leave(arena);
    }
    if (idle == NULL)
        return NULL;
    tnri_arena_enter(idle);
    int is_taken = guard_is_idle(idle);
    if (is_taken)
        tnri_arena_pass_on(idle, stream);
    tnri_arena_leave(idle);
    return is_taken ? idle : NULL;
}

/* What the pool's guarded blocks have mapped. Those of streams that have ended are looked after on
 * the way: no other thread comes by. */
static size_t guards_look(tnr_pool pool)
{
    size_t mapped = 0;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        if (!arena->is_guard)
            continue;
        tnri_arena_enter(arena);
        const tnri_world *world = &arena->worlds[TNRI_LARGE];
        mapped += world->spans_bytes - world->bytes_in[TNRI_HOLE];
        int is_left = arena->stale_count > 0 && atomic_load(&arena->stream->seal) != NULL;
        tnri_arena_leave(arena);
        if (is_left)
            tnri_guard_sweep(arena, 0);
    }
    return mapped;
}

/* guard_find, made if need be; null: no host memory. */
static tnri_arena *guard_arena(tnr_pool pool, tnri_stream *stream)
{
    tnri_lock_take(&pool->lock);
    tnri_arena *arena = guard_find(pool, stream);
    if (arena == NULL && (arena = tnri_arena_create(&pool->account, pool, stream)) != NULL) {
        arena->is_guard = 1;
        arena->worlds[TNRI_LARGE].bins.max = 0; /* nothing freed is handed out again as it is */
        if (!tnri_pool_enter(pool, arena)) {
            tnri_arena_destroy(arena);
            arena = NULL;
        }
    }
    tnri_lock_release(&pool->lock);
    return arena;
}

tnr_status tnri_guard_malloc(tnri_arena *arena, const tnri_request *request, void **ptr)
{
    size_t page = tnri_page_bytes(tnri_arena_space(arena));
    size_t most = (size_t)tnri_conf_get()->guard_mb << 20;
    tnri_stream *stream = tnri_arena_stream(arena);
    tnri_arena *guard = NULL;
    tnr_status status = TNR_ERR_LIMIT;
    size_t needed = (tnri_request_span(request) + page - 1) & ~(page - 1);
    if (guards_look(arena->pool) + needed <= most)
        guard = guard_arena(arena->pool, stream);
    if (guard != NULL)
        status = tnri_ladder_guard(guard, request, ptr);
    tnri_stream_drop(stream);
    atomic_fetch_add(status == TNR_OK ? &tnri_guarded_count : &tnri_unguarded_count, 1);
    return status;
}

void tnri_guard_sweep(tnri_arena *arena, int wait)
{
    tnri_visit visit;
    size_t queued;
    size_t released = 0;
    /* Network cards may have come to know the pool's memory since. */
    if (tnri_account_is_kept(arena->account) || tnri_device_enter(arena->device, &visit) != TNR_OK)
        return;
    if (tnri_pool_work_begin(arena->pool)) {
        (void)tnri_upper_collect(arena, SIZE_MAX, wait ? TNRI_COLLECT_WAIT : TNRI_COLLECT_OVER);
        (void)tnri_stale_release(arena, SIZE_MAX, &queued);
        (void)tnri_stale_drain(arena, 0, wait, &released);
        tnri_pool_work_end(arena->pool);
    }
    tnri_device_leave(&visit);
}
