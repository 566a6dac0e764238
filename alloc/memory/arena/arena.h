/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arena: what one stream of one pool allocates from. It has its own lock, so threads that work
 * on different streams never meet. If threads meet on one stream, the stream has several arenas
 * (memory/pool/lane.h).
 *
 * An arena serves from its bins and its index (memory/arena/serve.h) and takes blocks back, without
 * a driver call. What it cannot serve goes to miss/ladder.h. The cached path is api/cached.c:
 * it does both with as few instructions as possible.
 *
 * Stream order makes a free cheap: memory freed on this arena's stream is handed out only to later
 * work of the same stream, so no event is needed. Code that takes memory out of the arena for
 * another stream, or removes its mapping, records an event on this stream first.
 */
#ifndef TNRI_ARENA_ARENA_H
#define TNRI_ARENA_ARENA_H

#include "base/gate.h"
#include "base/lock.h"
#include "gpu/backend.h"
#include "memory/arena/world.h"
#include "memory/device/account.h"
#include "memory/device/event.h"
#include "memory/stream/stream.h"

struct tnri_arena_copy;
struct tnri_device;
struct tnri_range;
struct tnr_pool_st;

enum { TNRI_SMALL = 0, TNRI_LARGE = 1, TNRI_WORLDS = 2 };

/* What an arena knows of the growable block that has it for itself: see miss/grow.h. */
typedef struct tnri_growable {
    uintptr_t base;   /* of the arena's one span; 0: the arena is a stream's. Constant */
    size_t bytes_max; /* what the latest block may grow to; the lock */
    /* 1: reserved, and no memory committed yet, or in single pages; so it has no record. The
     * lock */
    int is_bare;
    int is_growing;           /* 1: a thread is committing memory, or taking it out; the lock */
    struct tnri_range *range; /* its pages (range.h); null: it never had single ones; the lock */
    size_t range_bytes;       /* of host memory for them; set with it */
} tnri_growable;

/* The least that is live of an arena's large blocks: see trough.h. All under the lock, except
 * that `keeps` is read without it. */
typedef struct tnri_trough {
    size_t floor;          /* in the window of allocations before this one, */
    size_t recent;         /* and in this one until now */
    uint64_t window_began; /* number of blocks allocated before it */
    _Atomic int keeps;     /* 1: a chunk that moves out of the arena stays mapped where it was */
} tnri_trough;

enum { TNRI_LANE_TENANTS = 8 };

/* A thread that allocates from an arena. */
typedef struct tnri_tenant {
    uint64_t number;   /* the thread's; 0: a free place */
    uintptr_t address; /* of the thread, and its kernel id: see base/prim/alive.h */
    uint32_t id;
} tnri_tenant;

/* An arena as one of several of its stream: see memory/pool/lane.h. */
typedef struct tnri_lane {
    struct tnri_arena *_Atomic next;   /* the next in the ring of the stream's arenas; null: it is
                                        * the only one; the pool's lock to write */
    struct tnri_arena *_Atomic lender; /* the lane that lent last: where to ask first; no lock */
    tnri_tenant tenants[TNRI_LANE_TENANTS]; /* the latest, in any order; the pool's lock */
    uint64_t tenants_ever;                  /* the pool's lock */
    /* Rests at other lanes' locks, and blocks borrowed from them, since this lane last asked for
     * memory. No lock. */
    _Atomic uint32_t borrowing;
    /* A thread moves on when `waited` reaches this; 0: the first value. No lock. */
    _Atomic uint32_t waits_wanted;
    uint32_t waited;       /* rests that allocations made since waited_ticks; the lock */
    uint64_t waited_ticks; /* the lock */
} tnri_lane;

enum { TNRI_RETURNS_MAX = 127 }; /* with their number, 16 cache lines */

/* Blocks that were freed and not taken back yet: see returns.h. */
typedef struct tnri_returns {
    _Alignas(64) tnri_lock lock; /* protects what follows */
    _Atomic size_t count;        /* a hint without the lock */
    tnri_block *blocks[TNRI_RETURNS_MAX];
} tnri_returns;

typedef struct tnri_arena {
    tnri_lock lock; /* a cache line. The next one, up to `headroom`, is hardly written to */

    size_t small_limit_bytes;      /* constant */
    tnri_returns *_Atomic returns; /* null: none so far; set once, under the lock */
    _Atomic uintptr_t allocator;   /* thread that allocated last and did not own the lock; it to
                                    * write */
    /* With a reference. Null: the one arena of a graph pool, which belongs to no stream. When this
     * stream has ended, another may adopt the arena. To write: the lock and the pool's. */
    tnri_stream *_Atomic stream;
    struct tnr_pool_st *pool;
    tnri_account *account; /* the pool's */
    struct tnri_device *device;
    void *_Atomic life; /* the layer above's; set once */

    /* Under the lock: like `headroom` and `peak` of a world, for both worlds together. */
    tnri_count headroom;
    tnri_count peak;
    uint64_t served[TNR_SERVED_COUNT];
    uint64_t freed_because[TNR_REUSE_COUNT];

    struct tnri_arena *_Atomic next;  /* in the pool's list, newest first; set once */
    struct tnri_donor_set *donor_set; /* where the pool notes whether it may give; null: it is the
                                       * only one. Constant, like its place there */
    unsigned donor_slot;
    struct tnri_arena *hash_next; /* in the pool's table, or among its sealed arenas; the pool's
                                      * lock */

    /* Under the lock. */
    size_t held_count; /* RETIRED records that graphs or captures keep */
    tnri_trough trough;
    tnri_world worlds[TNRI_WORLDS];
    tnri_block *stale_first, *stale_last; /* STALE records in the order of their events */
    size_t stale_count;
    struct tnri_parked *parked; /* its parked blocks: see miss/park.h */
    uint64_t parkings;          /* how often one came to rest: tnri_parked.since */
    size_t aliases_count;       /* mappings that ALIAS records have */
    tnri_growable growable;
    int is_guard;         /* 1: for guarded blocks alone (see/trap/guard.h). Constant */
    uintptr_t guard_next; /* where the next of them is looked for; the lock */
    uint64_t needs_bytes; /* the most that was in use: miss/trade.h; the lock */
    tnri_lane lane;

    /* For history and snapshots. */
    uint32_t number;             /* no other arena's, ever; constant */
    uint32_t origin;             /* whose its records are: log/origins.h; 0: not written */
    uint32_t origin_last;        /* the latest, also after it is over; 0: there was none */
    uint32_t order;              /* of its next record */
    uint64_t born;               /* picture that was being taken when it was made; 0: none */
    struct tnri_arena_copy *cut; /* what to copy it to before it changes; null: no need */
} tnri_arena;

/* Copies an arena into the picture that is being taken, if the arena is not in it yet; under its
 * lock. Set before the gate tells of a picture for the first time. */
extern void (*_Atomic tnri_arena_copier)(tnri_arena *arena);

/* The list of returned blocks; null: no block was ever returned. */
static inline tnri_returns *tnri_arena_returns(tnri_arena *arena)
{
    return atomic_load_explicit(&arena->returns, memory_order_acquire);
}

/* Takes the arena's lock. All code that may change something takes the lock like this. Takes back
 * the blocks that were returned to the arena (returns.h), and lets no thread return another one
 * until tnri_arena_leave. If a picture is being taken and this arena is not in it yet, copies the
 * arena before the caller changes it. Returns what tnri_lock_take does. */
void tnri_arena_copy_now(tnri_arena *arena);
void tnri_arena_returns_shut(tnri_arena *arena);
static inline int tnri_arena_enter(tnri_arena *arena)
{
    int waited = tnri_lock_take(&arena->lock);
    if (tnri_unlikely(tnri_arena_returns(arena) != NULL))
        tnri_arena_returns_shut(arena); /* they were freed before */
    if (tnri_unlikely((tnri_gate() & TNRI_GATE_CUT) != 0))
        tnri_arena_copy_now(arena);
    return waited;
}

/* Releases what tnri_arena_enter took. */
static inline void tnri_arena_leave(tnri_arena *arena)
{
    tnri_returns *returns = tnri_arena_returns(arena);
    if (tnri_unlikely(returns != NULL))
        tnri_lock_release(&returns->lock);
    tnri_lock_release(&arena->lock);
}

/* Takes all returned blocks back. Under the arena's lock. A thread that has entered finds none. */
void tnri_arena_take_back(tnri_arena *arena);

/* Makes the arena of a stream, or, with null, of a graph pool; null if there is no host memory. */
tnri_arena *tnri_arena_create(tnri_account *account, struct tnr_pool_st *pool, tnri_stream *stream);

/* 1 for the arena of a graph pool. */
static inline int tnri_arena_is_graph(const tnri_arena *arena)
{
    return atomic_load_explicit(&arena->stream, memory_order_relaxed) == NULL;
}

/* 1 if chunks of the arena may move to where they are needed. Where they may not, blocks are best
 * packed from below. */
int tnri_arena_may_move(const tnri_arena *arena);

/* The handle of its stream; null for a graph pool's arena too, and for one of host memory, whose
 * stream no caller knows. Only a hint unless the lock is held. */
static inline tnr_stream tnri_arena_handle(const tnri_arena *arena)
{
    const tnri_stream *stream = atomic_load_explicit(&arena->stream, memory_order_acquire);
    return stream == NULL || tnri_device_is_host(arena->device) ? NULL : stream->handle;
}

/* The arena's stream, with a reference; null for a graph pool's. A caller that takes memory out of
 * the arena asks for the stream afterwards. Then its mark comes after all work that used the
 * memory, since a stream that adopts an arena is ordered after the one before. Takes the lock. */
tnri_stream *tnri_arena_stream(tnri_arena *arena);

/* Marks with an event the end of what the arena's stream has let go of; see tnri_stream_mark_idle.
 * The caller holds one reference to the event. In the device's context, no lock held. */
tnr_status tnri_arena_mark(tnri_arena *arena, tnri_event **event);

/* The same for a stream that the caller was not asked to work on. While a capture is under way, it
 * may draw in such a stream at any moment: see tnri_stream_mark_beside. TNR_ERR_CAPTURE: it has, or
 * the stream is gone. The idle memory of a graph pool needs no mark: *event is null. */
tnr_status tnri_arena_mark_other(tnri_arena *arena, tnri_event **event);

/* 1 if tnri_arena_mark_other will not be refused, as far as can be told without the driver, and the
 * calling thread can name the stream. */
int tnri_arena_is_markable(const tnri_arena *arena);

/* Passes the arena to another stream, or to none that lives, and gives up the reference to the one
 * before. Under the arena's lock and the pool's. */
void tnri_arena_pass_on(tnri_arena *arena, tnri_stream *stream);

/* The arena goes to another stream, or its stream is destroyed, or the arena ends: records of it
 * have another origin from now on. Under its lock, or while nobody else knows it. */
void tnri_arena_origin_over(tnri_arena *arena);

/* Gives back what the worlds of an arena have, if it has no memory: see tnri_world_dissolve. Not
 * for a growable block's arena, whose addresses are its own, and not for a graph pool's. No lock is
 * held. */
void tnri_arena_dissolve(tnri_arena *arena);

/* Frees the host memory. Nothing is mapped or live in it any more. */
void tnri_arena_destroy(tnri_arena *arena);

/* A request, made from the caller's arguments. */
typedef struct tnri_request {
    size_t bytes_requested;
    size_t bytes;     /* rounded to the size of the block */
    size_t alignment; /* at least TNR_ALIGNMENT_DEFAULT */
} tnri_request;

/* The size of a block for so many bytes. */
static inline size_t tnri_bytes_rounded(size_t bytes)
{
    return (bytes + TNR_ALIGNMENT_DEFAULT - 1) & ~(TNR_ALIGNMENT_DEFAULT - 1);
}

static inline tnri_world *tnri_arena_world(tnri_arena *arena, size_t bytes)
{
    return &arena->worlds[bytes > arena->small_limit_bytes];
}

/* The space where all its memory lies: the device's, or that of foreign segments. */
static inline tnri_space *tnri_arena_space(const tnri_arena *arena)
{
    return arena->worlds[TNRI_SMALL].space;
}

/* The live block that contains an address; null: none. Under the lock. */
static inline tnri_block *tnri_arena_containing(const tnri_arena *arena, uintptr_t address)
{
    return tnri_block_map_containing(&tnri_arena_space(arena)->map, &arena->worlds[TNRI_SMALL],
                                     &arena->worlds[TNRI_LARGE], address);
}

/* The number of bytes of addresses in which a request finds room wherever they begin. The request
 * needs memory only for its bytes: its place is chosen at the alignment first. */
static inline size_t tnri_request_span(const tnri_request *request)
{
    return request->bytes + (request->alignment - TNR_ALIGNMENT_DEFAULT);
}

#endif
