/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: arenas under one policy.
 *
 * Each device has a default pool; users make more. A pool has an arena for each stream that has
 * allocated from it, or several where threads meet (memory/pool/lane.h). Arenas are found through a
 * small table behind a lock; the thread's own cache (memory/pool/cache.h) spares the cached path
 * that lock.
 *
 * The handle by which callers name a pool is no address: see memory/pool/handle.h. In here a
 * tnr_pool is the address of the structure. Its memory is used again for a later pool.
 *
 * One thread ends a pool while others may look at it. A thread that looks at a pool holds it
 * (tnri_pool_resolve, tnri_pool_walk, tnri_pool_hold), and the pool's end waits for all that do.
 */
#ifndef TNRI_POOL_POOL_H
#define TNRI_POOL_POOL_H

#include "memory/pool/handle.h"
#include "memory/pool/structure.h"

/* What a pool is for. */
typedef enum tnri_pool_kind {
    TNRI_POOL_PLAIN,
    TNRI_POOL_GRAPH,         /* for captures: has its arena from the beginning */
    TNRI_POOL_GRAPH_PRIVATE, /* the same, of one graph */
    TNRI_POOL_VOUCHED,       /* for captures that the caller orders: has arenas as any other */
    TNRI_POOL_CONTENTS       /* of host memory: what is kept of sleeping pools and parked blocks */
} tnri_pool_kind;

/* The tagging of a new pool: see memory/pool/family.h. All zero: none. */
typedef struct tnri_tagging {
    struct tnri_tag *tag;
    tnr_pool family; /* whose pool it is; null: of none */
    int content;
} tnri_tagging;

/* Makes a pool and enters it in the device's list. `tagging` may be null. Under the library lock
 * for the default pool. */
tnr_status tnri_pool_make(tnri_device *device, const tnr_pool_options *options, tnri_pool_kind kind,
                          const tnri_tagging *tagging, tnr_pool *pool);

/* Takes a pool that is being ended out of the device's list. */
void tnri_pool_unpublish(tnr_pool pool);

/* The handle by which callers name the pool: null for the default pool of a device. */
tnr_pool tnri_pool_handle(const struct tnr_pool_st *pool);

/* Tells those who follow that memory came to addresses of the arena, or went from them. Under its
 * lock. */
void tnri_pool_note_mapping(const tnri_arena *arena, int is_mapped, uintptr_t base, size_t bytes);

/* A stream has ended: its arenas are given to the next new streams of their pools. The registry of
 * streams tells this (tnri_streams_listen). */
void tnri_pools_seal(tnri_stream *stream);

/* Finds or makes the arena of a stream. Errors: those of tnri_stream_find. */
tnr_status tnri_pool_arena(tnr_pool pool, tnr_stream stream, tnri_arena **arena);

/* Why chunks of a pool are not replaced by smaller ones (capture/away/compact.c); null: they may
 * be. */
const char *tnri_pool_stays(tnr_pool pool);

/* Walks the live pools of a device: null gives the first, null is the end. A walk holds the pool
 * that it stands at. A caller that stops early must drop that pool. */
tnr_pool tnri_pool_walk(tnri_device *device, tnr_pool pool);

/* Enters a new arena among those that are walked, and among the donors. 0 if there is no host
 * memory. Under the pool's lock. */
int tnri_pool_enter(tnr_pool pool, tnri_arena *arena);

/* Walks the arenas of a pool: null gives the first, null is the end. */
tnri_arena *tnri_arena_walk(tnr_pool pool, tnri_arena *arena);

#endif
