/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread remembers: the pools that it is routed to, the arenas that it used last, and its
 * part in the history.
 *
 * The arena cache is what makes finding an arena a comparison instead of a lock. An entry is valid
 * as long as the library's generation has not changed, which destroying a pool and shutting down
 * do. Everything here is owned by the thread.
 */
#ifndef TNRI_POOL_THREAD_H
#define TNRI_POOL_THREAD_H

#include <stdatomic.h>
#include <stdint.h>

#include "arena/arena.h"
#include "history/ring.h"
#include "pool/route.h"

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
    tnri_routes *routes;   /* null: never routed; see pool/route.h */
    uint64_t routes_epoch; /* of the start that `routes` belongs to */
    int routes_count;      /* where the thread is routed */
    uint64_t number;       /* tnri_thread_number, once records are written; 0: not yet */
    const tnri_arena *lane_left; /* an arena that it waited for too often; only compared */
    uintptr_t recent;            /* the arena that it allocated from last; only compared */
    tnr_stream asks_on;   /* while it asks for memory of a graph: the stream that it is for */
    tnr_oom_reason lacks; /* what its latest climb met: see arena/ladder.h */
    int range; /* in tnri_device_ranges: that of its latest free but for those in the first */

    /* Its part in the history: */
    tnri_writer writer;
    uint32_t stack;      /* of the call that it is in; 0: not taken */
    uint32_t mark;       /* a text: what tnr_mark said last */
    uint64_t mark_epoch; /* of the start that `mark` belongs to */
} tnri_thread;

extern _Thread_local tnri_thread tnri_this_thread;

/* The calling thread's. The linker's general way to it is a call, so it is asked for once in an
 * operation. The quick way (initial-exec) would make dlopen refuse the library. */
static inline tnri_thread *tnri_thread_here(void)
{
    return &tnri_this_thread;
}

/*
 * The state of the library, in one word that the cached path reads: 0 while it is not running,
 * else a generation that grows with every pool destroyed and every start. Forking sets it to 0 in
 * the child.
 */
extern _Atomic uint64_t tnri_generation;

#endif
