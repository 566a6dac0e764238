/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping streams known: see witness.h. */
#include "pool/witness.h"

#include "base/error.h"
#include "pool/thread.h"

/* The witness of a stream that has ended. One that is just being sealed has neither a key nor a
 * seal. Under the pool's lock. */
static tnri_arena *witness_idle(tnr_pool pool)
{
    tnri_arena *arena = NULL;
    while ((arena = tnri_arena_walk(pool, arena)) != NULL)
        if (arena->is_witness && arena->seal != NULL)
            return arena;
    return NULL;
}

/* 1 if an arena of the pool that does not go before its stream does names it. Under the pool's
 * lock. */
static int stream_is_named(tnr_pool pool, uintptr_t key)
{
    tnri_arena *arena = NULL;
    while ((arena = tnri_arena_walk(pool, arena)) != NULL)
        if (arena->key == key && arena->growable.base == 0)
            return 1;
    return 0;
}

/* Gives a witness to another stream. It has no memory, so the streams need no order. Under the
 * pool's lock. */
static void witness_pass_on(tnri_arena *arena, tnr_stream stream, uintptr_t key)
{
    tnri_arena_enter(arena);
    tnri_event *seal = arena->seal;
    arena->stream = stream;
    arena->key = key;
    arena->seal = NULL; /* last: without a seal, the stream is one that lives */
    tnri_lock_release(&arena->lock);
    tnri_event_drop(arena->device, seal);
}

tnr_status tnri_witness_stream(tnri_device *device, tnr_stream stream)
{
    tnr_pool pool = device->pool_default;
    uintptr_t key = tnri_stream_key(stream);
    /* The default streams are blocking ones: the legacy stream, which is always waited for, stands
     * for them. */
    if ((uintptr_t)stream <= 2)
        return TNR_OK;
    tnr_status status = TNR_OK;
    tnri_lock_take(&pool->lock);
    if (!stream_is_named(pool, key)) {
        tnri_arena *arena = witness_idle(pool);
        if (arena != NULL) {
            witness_pass_on(arena, stream, key);
        } else if ((arena = tnri_arena_create(device, pool, stream, key)) != NULL) {
            arena->is_witness = 1;
            atomic_store_explicit(&arena->next, atomic_load(&pool->arenas), memory_order_relaxed);
            atomic_store_explicit(&pool->arenas, arena, memory_order_release);
        } else {
            status = tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to remember a stream.");
        }
    }
    tnri_lock_release(&pool->lock);
    return status;
}
