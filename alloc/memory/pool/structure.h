/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structure of a pool: what the modules of this folder share. pool.h has what is done to a
 * pool; handle.h, donors.h, asleep.h and lane.h each have it for a part of the pool.
 */
#ifndef TNRI_POOL_STRUCTURE_H
#define TNRI_POOL_STRUCTURE_H

#include "base/lock.h"
#include "memory/arena/arena.h"
#include "memory/device/account.h"
#include "memory/device/device.h"
#include "memory/pool/asleep_state.h"

enum { TNRI_POOL_HASH_MIN = 16 };

struct tnr_pool_st {
    /* Of the structure, whichever pool it is. A late look at a pool that has ended reads only
     * these. */
    _Atomic(tnr_pool) live;          /* its handle; null while it is no pool, or is being ended */
    _Atomic uint32_t visitors_count; /* threads that hold the pool */
    uint32_t index;                  /* in the table of structures; constant */
    struct tnr_pool_st *spare_next;  /* see memory/pool/handle.c */

    /* Constant while the pool lives. */
    struct tnri_device *device; /* the first field that is zero in a new pool */
    tnr_pool handle;
    tnri_account account; /* with its own synchronisation */
    int is_private;       /* of one graph, with which it ends */
    tnr_pool family;      /* whose pool it is on its device; null: of none. See family.h */
    int content;          /* what becomes of contents in a sleep that says nothing; tnr_content */
    void *captures;       /* of a graph pool: the upper layer's; set before the pool is used */

    /* In the device's list of live pools; the device's lock. */
    struct tnr_pool_st *next, **link;

    tnri_lock lock;     /* protects the table */
    tnri_arena **table; /* arenas of living streams, by stream */
    size_t table_slots; /* a power of two */
    size_t arenas_count;
    tnri_arena *sealed;         /* of ended streams, waiting for a new one; through hash_next */
    tnri_arena *_Atomic arenas; /* all arenas, newest first; read without the lock */
    struct tnri_donor_set *_Atomic
        donor_sets;     /* which of them may give; read without the lock: memory/pool/donors.h */
    size_t donor_slots; /* taken in them */

    /* Synchronisation: atomics. */
    _Atomic uint64_t release_threshold_bytes; /* UINT64_MAX: the setting */
    _Atomic uint32_t routed_threads;
    tnri_asleep asleep;       /* see memory/pool/asleep.h */
    _Atomic uint32_t keepers; /* graphs and captures that need its addresses: none is given back */
};

#endif
