/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: arenas under one policy.
 *
 * Each device has a default pool; users make more. A pool has an arena for each stream that has
 * allocated from it, or several where threads meet (pool/lane.h), found through a small table that
 * is behind a lock; the thread's own cache (pool/thread.h) spares the cached path that lock.
 *
 * A tnr_pool is the address of the structure. Structures of destroyed pools are kept and marked
 * dead until shutdown, so that later use of the handle is recognised instead of being undefined;
 * they cost a few hundred bytes each. Those of private graph pools, which come and go with graphs
 * without anybody's call, are used again.
 */
#ifndef TNRI_POOL_POOL_H
#define TNRI_POOL_POOL_H

#include "arena/arena.h"
#include "base/lock.h"
#include "device/device.h"
#include "pool/asleep_state.h"

enum { TNRI_POOL_NAME_BYTES = 64, TNRI_POOL_HASH_MIN = 16 };
/* Marks a live pool and a dead one; anything else is no pool. */
#define TNRI_POOL_MAGIC_LIVE UINT64_C(0x746e725f706f6f6c)
#define TNRI_POOL_MAGIC_DEAD UINT64_C(0x746e725f64656164)

struct tnr_pool_st {
    _Atomic uint64_t magic;

    /* Constant while the pool lives. */
    struct tnri_device *device;
    unsigned id; /* 0 for the default pool of the device */
    char name[TNRI_POOL_NAME_BYTES];
    tnr_handle_type handle_type;
    int gpu_direct_rdma;
    int is_graph;   /* its memory is for captures: one arena, of no stream; nothing in it moves */
    int is_private; /* of one graph: when it is dead, its structure is used for the next */
    void *captures; /* of a graph pool: the upper layer's; set before the pool is used */

    /* In the device's list, dead or alive, until shutdown; the device's lock. */
    struct tnr_pool_st *next;
    unsigned visitors_count; /* walks that stand at this pool; the device's lock */

    tnri_lock lock;     /* protects the table */
    tnri_arena **table; /* hash of streams */
    size_t table_slots; /* a power of two */
    size_t arenas_count;
    size_t sealed_count;        /* arenas of destroyed streams that wait for a new one */
    tnri_arena *_Atomic arenas; /* all arenas, newest first; read without the lock */

    /* Synchronisation: atomics. */
    _Atomic uint64_t limit_bytes;             /* UINT64_MAX: none */
    _Atomic uint64_t release_threshold_bytes; /* UINT64_MAX: the setting */
    _Atomic uint64_t reserved_bytes, reserved_peak_bytes;
    _Atomic uint64_t reserved_total_bytes; /* ever taken from the driver */
    _Atomic uint64_t chunks_created, chunks_released, chunks_peak;
    _Atomic uint32_t routed_threads;
    tnri_asleep asleep;            /* see pool/asleep.h */
    _Atomic uint64_t asleep_bytes; /* of chunks that have given their memory back */
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

/* The stream with this key is about to be captured, and `event` marks the end of its work before;
 * or, with null, its capture is over: tnri_arena_capture for its arenas in all pools. */
void tnri_pools_capture(tnri_device *device, uintptr_t key, tnri_event *event);

/* 1: graphs need memory of the pool, and they are all that does: no block of it is live. */
int tnri_pool_is_kept(tnr_pool pool);

/* Ends a pool: waits for its work and gives everything back. TNR_ERR_BUSY if blocks are live,
 * unless `force`. In the device's context. The structure stays, marked dead. */
tnr_status tnri_pool_end(tnr_pool pool, int force);

/* Frees the structure of a dead pool. */
void tnri_pool_forget(tnr_pool pool);

/* TNR_OK if the handle is a live pool. */
tnr_status tnri_pool_check(tnr_pool pool);

/* The stream with this key is about to be destroyed, and `event` marks the end of its work: its
 * arena is sealed, and given to the next new stream of the pool. */
void tnri_pool_seal(tnr_pool pool, uintptr_t key, tnri_event *event);

/* Finds or makes the arena of a stream. */
tnr_status tnri_pool_arena(tnr_pool pool, tnr_stream stream, tnri_arena **arena);

/* Walks the live pools of a device: null gives the first, null is the end. The pool that a walk
 * stands at does not go away; a walk that stops early says so with tnri_pool_walk_end. */
tnr_pool tnri_pool_walk(tnri_device *device, tnr_pool pool);
void tnri_pool_walk_end(tnri_device *device, tnr_pool pool);

/* Walks the arenas of a pool: null gives the first, null is the end. */
tnri_arena *tnri_arena_walk(tnr_pool pool, tnri_arena *arena);

#endif
