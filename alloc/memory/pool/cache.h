/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread remembers of pools: those that it is routed to, and the arenas that it used last.
 *
 * With the arena cache, finding an arena takes a comparison instead of a lock. An entry is valid as
 * long as the library's generation has not changed. It changes when a pool is destroyed, pools fall
 * asleep, a stream ends that is no thread's default stream, or the library shuts down.
 * Everything here is owned by the thread.
 */
#ifndef TNRI_POOL_CACHE_H
#define TNRI_POOL_CACHE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/gate.h"
#include "memory/arena/arena.h"
#include "memory/pool/route.h"

enum { TNRI_CACHED_ARENAS = 64 }; /* slots, a power of two: two of 16 streams seldom share one */

typedef struct tnri_cached_arena {
    tnri_arena *arena;
    uint64_t generation; /* 0: nothing is cached here */
    tnr_stream stream;   /* as the caller names it */
    tnr_pool handle;     /* of the pool; null: the default pool of `device` */
    int device;
} tnri_cached_arena;

typedef struct tnri_thread {
    tnri_cached_arena cached[TNRI_CACHED_ARENAS];
    tnri_routes *routes;         /* null: never routed; see memory/pool/route.h */
    uint64_t routes_epoch;       /* of the start that `routes` belongs to */
    int routes_count;            /* where the thread is routed */
    const tnri_arena *lane_left; /* an arena that it waited for too often; only compared */
    uintptr_t recent;            /* the arena that it allocated from last; only compared */
    int range; /* in tnri_device_ranges: of its latest free that was not in the first range */
} tnri_thread;

extern _Thread_local tnri_thread tnri_this_thread;

/* The calling thread's tnri_thread. The linker's general way to it is a call, so an operation asks
 * for it once. The quick way (initial-exec) would make dlopen refuse the library. */
static inline tnri_thread *tnri_thread_here(void)
{
    return &tnri_this_thread;
}

/*
 * The state of the library, in one word that the cached path reads: 0 while it is not running, else
 * a generation. The generation grows with every start, every pool destroyed, every sleep and every
 * end of a stream that is no thread's default stream. No value is given twice. A fork sets the word
 * to 0 in the child.
 */
extern _Atomic uint64_t tnri_generation;

/* The library runs from now on, or runs no more. */
void tnri_generation_start(void);
void tnri_generation_stop(void);
/* Invalidates every thread's cached arenas, if it runs. */
void tnri_generation_advance(void);

/* The handle of the pool that a thread is routed to on a device; null for the default pool. */
tnr_pool tnri_thread_route(tnri_thread *thread, int device);

/* The slot of the calling thread's cache for a stream of a pool. */
static inline tnri_cached_arena *tnri_cached_slot(tnri_thread *thread, int device, tnr_pool handle,
                                                  tnr_stream stream)
{
    uint64_t mixed =
        ((uint64_t)(uintptr_t)stream + (uint64_t)(uintptr_t)handle + (unsigned)device) *
        UINT64_C(0x9e3779b97f4a7c15);
    return &thread->cached[(mixed >> 40) % TNRI_CACHED_ARENAS];
}

/* The arena of a stream for a thread that is not routed, if the thread remembers it; else null. */
static inline tnri_arena *tnri_cached_arena_get(int device, tnr_stream stream)
{
    tnri_thread *thread = tnri_thread_here();
    const tnri_cached_arena *slot = tnri_cached_slot(thread, device, NULL, stream);
    uint64_t generation = atomic_load_explicit(&tnri_generation, memory_order_acquire);
    if (tnri_unlikely(slot->generation != generation || slot->stream != stream ||
                      slot->handle != NULL || slot->device != device || thread->routes_count != 0))
        return NULL;
    thread->recent = (uintptr_t)slot->arena;
    return slot->arena; /* null where nothing is cached, and the library not running */
}

/* Forgets that the calling thread allocates from the arena. The thread is to find another lane of
 * the same stream, if there is one. */
void tnri_cached_arena_leave(const tnri_arena *arena);

#endif
