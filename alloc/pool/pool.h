/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: arenas under one policy.
 *
 * Each device has a default pool; users make more. A pool has an arena for each stream that has
 * allocated from it, or several where threads meet (pool/lane.h), found through a small table that
 * is behind a lock; the thread's own cache (pool/cache.h) spares the cached path that lock.
 *
 * What callers name a pool by is no address: see pool/handle.h. In here a tnr_pool is the address
 * of the structure, whose memory is used again for a later pool.
 *
 * A pool is ended by one thread while others may look at it: who does holds it
 * (tnri_pool_resolve, tnri_pool_walk, tnri_pool_hold), and its end waits for them.
 */
#ifndef TNRI_POOL_POOL_H
#define TNRI_POOL_POOL_H

#include "arena/arena.h"
#include "base/lock.h"
#include "device/account.h"
#include "device/device.h"
#include "pool/asleep_state.h"

enum { TNRI_POOL_HASH_MIN = 16 };

struct tnr_pool_st {
    /* Of the structure, whichever pool it is; a late look at one that has ended reads no more. */
    _Atomic(tnr_pool) live;          /* its handle; null while it is none, or is being ended */
    _Atomic uint32_t visitors_count; /* threads that hold the pool */
    uint32_t index;                  /* in the table of structures; constant */
    struct tnr_pool_st *spare_next;  /* see pool/handle.c */

    /* Constant while the pool lives. */
    struct tnri_device *device; /* first of what is zero in a new pool */
    tnr_pool handle;
    tnri_account account; /* with its own synchronisation */
    int is_private;       /* of one graph, with which it ends */
    void *captures;       /* of a graph pool: the upper layer's; set before the pool is used */

    /* In the device's list of live pools; the device's lock. */
    struct tnr_pool_st *next, **link;

    tnri_lock lock;     /* protects the table */
    tnri_arena **table; /* arenas of living streams, by stream */
    size_t table_slots; /* a power of two */
    size_t arenas_count;
    tnri_arena *sealed;         /* of ended streams, waiting for a new one; through hash_next */
    tnri_arena *_Atomic arenas; /* all arenas, newest first; read without the lock */
    struct tnri_ward
        *_Atomic wards;  /* who of them may give; read without the lock: pool/givers.h */
    size_t wards_places; /* given in them */

    /* Synchronisation: atomics. */
    _Atomic uint64_t release_threshold_bytes; /* UINT64_MAX: the setting */
    _Atomic uint32_t routed_threads;
    tnri_asleep asleep;       /* see pool/asleep.h */
    _Atomic uint32_t keepers; /* graphs and captures that need its addresses: none is given back */
};

/* What a pool is for. */
typedef enum tnri_pool_kind {
    TNRI_POOL_PLAIN,
    TNRI_POOL_GRAPH,        /* for captures: has its arena from the beginning */
    TNRI_POOL_GRAPH_PRIVATE /* the same, of one graph */
} tnri_pool_kind;

/* Makes a pool and enters it in the device's list. Under the library lock for the default pool. */
tnr_status tnri_pool_make(tnri_device *device, const tnr_pool_options *options, tnri_pool_kind kind,
                          tnr_pool *pool);

/* Takes a pool that is being ended out of the device's list. */
void tnri_pool_unpublish(tnr_pool pool);

/* What callers name the pool by: null for the default pool of a device. */
tnr_pool tnri_pool_handle(const struct tnr_pool_st *pool);

/* Keeps a pool, which the caller knows to be one, from being ended; 0 if it is being ended. */
int tnri_pool_hold(tnr_pool pool);
void tnri_pool_drop(tnr_pool pool);

/* A stream has ended: its arenas are given to the next new streams of their pools. What the
 * registry of streams tells (tnri_streams_listen). */
void tnri_pools_seal(tnri_stream *stream);

/* Finds or makes the arena of a stream. Errors: those of tnri_stream_find. */
tnr_status tnri_pool_arena(tnr_pool pool, tnr_stream stream, tnri_arena **arena);

/* Walks the live pools of a device: null gives the first, null is the end. A walk holds the pool
 * that it stands at; one that stops early drops it. */
tnr_pool tnri_pool_walk(tnri_device *device, tnr_pool pool);

/* Walks the arenas of a pool: null gives the first, null is the end. */
tnri_arena *tnri_arena_walk(tnr_pool pool, tnri_arena *arena);

#endif
