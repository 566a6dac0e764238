/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An account: what a device knows of a pool. Which pool it is, what its chunks are like, how much
 * it may have, and how much it has. It is part of the pool (memory/pool/pool.h).
 */
#ifndef TNRI_DEVICE_ACCOUNT_H
#define TNRI_DEVICE_ACCOUNT_H

#include <stdatomic.h>
#include <stdint.h>

#include <tenure/alloc.h>

#include "memory/device/access.h"
#include "memory/device/held.h"
#include "memory/device/turnover.h"

enum { TNRI_POOL_NAME_BYTES = 64 };

/* Whose memory a pool has: see memory/device/segment.h. */
typedef struct tnri_foreign {
    tnr_segment_alloc alloc; /* null: the driver's */
    tnr_segment_free free;
    void *user;
    size_t bytes_least; /* of a segment for large blocks */
    int is_own;         /* the owner is Tenure: memory/device/allocated.h */
} tnri_foreign;

typedef struct tnri_account {
    /* Constant while the pool lives. */
    struct tnri_device *device;
    struct tnri_tag *tag;     /* that it carries; null: none */
    struct tnri_space *space; /* where its memory lies: the device's, or that of foreign segments */
    tnri_foreign foreign;
    unsigned id; /* 0 for the default pool of the device */
    char name[TNRI_POOL_NAME_BYTES];
    int is_graph; /* its memory is for captures: one arena, of no stream; nothing in it moves */
    tnr_handle_type handle_type;
    /* 1: its blocks are Tenure's own, and keep contents of memory that sleeps or is parked. Where
     * none can be had the layer above has another way, so no user's callback is asked, and it is no
     * case of memory that is out. */
    int is_contents;
    /* 1: a network card may know its chunks by their addresses, also when their blocks are freed.
     * So no chunk moves, and none goes back unless the pool is named. */
    int gpu_direct_rdma;
    /* 1: its addresses should be free in other processes too, and its chunks as large as
     * possible. */
    int is_shared;
    /* 1: graphs that the caller orders know its addresses. So the same holds as for
     * gpu_direct_rdma, and no stream's memory goes to another stream. Stays 1. A graph pool's is
     * set under the graph lock. */
    _Atomic int is_vouched;

    tnri_access access; /* which other devices reach the memory; with its own synchronisation */

    /* Synchronisation: atomics. */
    _Atomic int is_registered;    /* 1, for good: see tnr_memory_registered */
    _Atomic uint64_t limit_bytes; /* UINT64_MAX: none */
    _Atomic uint64_t reserved_bytes, reserved_peak_bytes;
    _Atomic uint64_t reserved_total_bytes; /* ever taken from the driver */
    tnri_flow chunks;
    tnri_held held[TNRI_HELD_SIZES]; /* the same by the size of blocks */
    _Atomic uint32_t has_moved;      /* 1: a chunk has moved: memory/arena/trough.h */
    _Atomic uint64_t most_bytes;     /* the most that was in use at a miss: miss/price.h */
    _Atomic uint64_t needs_bytes;    /* the sum of the most of each arena: miss/trade.h */
    _Atomic int trade_saves_nothing; /* 1: each stream keeps the memory that it has: likewise */
    _Atomic int is_full;             /* 1: it could not grow when it last wanted to: miss/price.h */
    _Atomic int is_growing;          /* 1: a thread grows it, and others wait: miss/turn.h */
    _Atomic uint64_t asleep_bytes;   /* of chunks that have given their memory back */
    _Atomic uint32_t exports;        /* exports of its blocks that are open here or in other
                                    * processes */
    _Atomic uint32_t parked;         /* its blocks that are parked */
    _Atomic uint32_t importers; /* importers that have one open: the pool does not fall asleep */
    tnri_turnover turnover;
} tnri_account;

/* 1: its memory comes in foreign segments. */
static inline int tnri_account_is_foreign(const tnri_account *account)
{
    return account->foreign.alloc != NULL;
}

/* 1: these are an owner's, and not slabs of Tenure's own. */
static inline int tnri_account_is_owners(const tnri_account *account)
{
    return tnri_account_is_foreign(account) && !account->foreign.is_own;
}

/* 1: its memory may be known to network cards, or to others that are not told when it changes. */
static inline int tnri_account_is_known(const tnri_account *account)
{
    return account->gpu_direct_rdma ||
           atomic_load_explicit(&account->is_registered, memory_order_acquire);
}

/* 1: somebody outside knows its memory by the address, so the memory stays, and goes back only when
 * the pool is named. */
static inline int tnri_account_is_kept(const tnri_account *account)
{
    return tnri_account_is_known(account) || account->is_vouched || tnri_account_is_owners(account);
}

/* 1: its memory stays at its addresses, and with its streams. */
static inline int tnri_account_is_fixed(const tnri_account *account)
{
    return tnri_account_is_foreign(account) || tnri_account_is_kept(account);
}

#endif
