/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world: the spans of an arena that hold blocks of one kind, small or large, and their free
 * memory. Small and large blocks live apart so that a long-lived small block does not pin a large
 * piece of memory.
 *
 * A world does geometry: it carves a block out of a free run, merges neighbours (run.h), keeps
 * freed blocks by size (bins.h), cuts whole chunks out of free runs, turns holes into memory and
 * back (world_move.h), and lends addresses (world_lend.h). Most of it changes records by the few
 * operations of record.h; run.h and bins.h also change them directly. A world calls no driver and
 * decides no policy (miss/plan.h, miss/ladder.h do).
 *
 * Equations, checked by tnri_world_validate:
 *   records tile each span and each borrowed range, in address order, without gap or overlap
 *   the index holds the FREE records; bytes_in[s] == sum of records in state s, except that the sum
 *   of LIVE includes the BINNED records: so a block that goes between the two changes one sum
 *   every page of a FREE, LIVE, BINNED or RETIRED record is mapped; no page of a HOLE or an ALIAS
 *   has memory; a page of a PENDING, STALE or PARKED record may have some; pages of LENT records
 *   are another arena's business
 *
 * Everything here is under the arena's lock.
 */
#ifndef TNRI_ARENA_WORLD_H
#define TNRI_ARENA_WORLD_H

#include "memory/arena/index.h"
#include "memory/space/address_space.h"

enum {
    TNRI_BIN_SLOTS = 1024,   /* hash slots for exact sizes */
    TNRI_SLAB_RECORDS = 63,  /* records to a slab, so that a slab is 4 KiB */
    TNRI_SLABS_SINGLE = 128, /* that lie in no sheet; a sheet has four times as many */
    TNRI_CARVE_RECORDS = 2,  /* new records that one carve can need */
    TNRI_CUT_RECORDS = 2,    /* new records that one cut can need */
    TNRI_SPANS_MAX = 48,     /* spans of a world; Tenure asks for twice what it has */
    TNRI_RECEIVE_RECORDS = 2 /* new records that tnri_world_receive can need */
};

/* A slab of records. Returned only when the world has no memory: see tnri_world_dissolve. The
 * first ones are allocated one by one, the others lie in sheets of host memory. */
typedef struct tnri_slab {
    struct tnri_slab *next;
    uint64_t unused[7];
    tnri_block records[TNRI_SLAB_RECORDS];
} tnri_slab;

/*
 * Recently freed blocks by exact size. A slot of the hash holds blocks of one size only. If another
 * size has taken the slot of a freed block, the block is merged at once. When the bins are full, a
 * block of the next slot in turn is merged, so a free never does the work of many.
 *
 * The large world has a single bin, for the block freed last. A block that is allocated and freed
 * again and again is then not merged and carved each time. As soon as another size is asked for,
 * the block in the bin is merged. So large runs are as large as possible when one is chosen. A
 * program that never asks for the same size again would pay for both. So after some misses only the
 * size of the block freed last is kept, until the next request of any size. If that request is for
 * the kept size, the bin gets another try.
 */
typedef struct tnri_bins {
    size_t max;          /* BINNED records; constant, but 0 while the world is spent */
    unsigned hand;       /* the slot of the last block that was put out */
    unsigned misses;     /* of the large world's bin, in a row */
    size_t passed_bytes; /* size of the block freed last since it misses; 0: none */
    uint64_t *words;     /* bit s: slots[s] may hold a block; 0: it is empty */
    tnri_block **slots;
} tnri_bins;

/* The large tables of a world. Most streams have memory of one kind, and many have none for now, so
 * a world gets its tables with its first record. Until then it has tnri_world_nothing, which is
 * only read: it says that nothing is there. */
typedef struct tnri_world_tables {
    tnri_index index;
    uint64_t words[TNRI_BIN_SLOTS / 64];
    tnri_block *slots[TNRI_BIN_SLOTS];
    tnri_block *spans_few[TNRI_SPANS_MAX]; /* what span_first is while nothing is borrowed */
} tnri_world_tables;
extern tnri_world_tables tnri_world_nothing;

/* A value of `trough_headroom`: out of reach. */
#define TNRI_TROUGH_NEVER UINT64_MAX

/* See window_cache.h. */
typedef struct tnri_window_cache tnri_window_cache;
struct tnri_world;

/* Forgets the cached windows of a world; in window_cache.c. */
void tnri_window_cache_free(struct tnri_world *world);

/* Numbers of blocks, of their bytes, and of the bytes that were asked for. */
typedef struct tnri_count {
    uint64_t blocks, bytes, requested;
} tnri_count;

typedef struct tnri_world {
    /* A cache line that is hardly written to: a thread that frees for another one reads it. */
    _Alignas(64) struct tnri_arena *arena; /* constant */
    tnri_space *space;                     /* constant */
    int is_small;                          /* constant */
    int has_many; /* several of its blocks may begin in a granule; constant */
    tnri_world_tables *tables;
    tnri_index *index; /* of the tables */
    /* Whether another arena may find a whole chunk that is free here: see memory/pool/donors.h. */
    _Atomic uint64_t *giving; /* has its bit; null: nobody looks. Constant, like the bit */
    uint64_t giving_bit;
    int is_spent;          /* 1: there is none; the bit is 0, and the bins are shut: */
    unsigned spent_misses; /* what bins.misses was, */

    /* The arena's statistics of this world: see tnri_arena_live. */
    tnri_count headroom; /* what may become live before more is live than ever was */
    tnri_count ever;     /* what became live, in all */
    tnri_count peak;     /* the most that was live */

    size_t bytes_in[TNRI_STATE_COUNT]; /* by state; LIVE: those of LIVE and BINNED */
    size_t count_in[TNRI_STATE_COUNT];

    tnri_bins bins;                     /* with its part of the tables */
    tnri_block *holes;                  /* HOLE records, doubly linked, newest first */
    tnri_block *lent;                   /* LENT records, likewise */
    tnri_block *aliases, *aliases_last; /* ALIAS records, likewise */
    tnri_window_cache *cached_windows;  /* windows that were made; null: none yet */
    uint64_t trough_headroom;           /* from so much headroom on, frees look: see trough.h */
    tnri_block *spares;
    size_t spares_count;
    size_t spares_promised; /* of these, to plans that may have to be undone */
    tnri_slab *slabs;
    size_t slabs_count;
    tnri_span *spans;
    size_t spans_bytes;
    /* The lowest record of each range of addresses that the world has: first its own spans,
     * spans_own of them, then the ranges borrowed from other worlds, borrowed_bytes in all. */
    tnri_block **span_first;
    size_t spans_count, spans_own;
    size_t borrowed_bytes;
    size_t borrows_promised; /* places for more, besides those for all spans that there may be */
    size_t borrows_room;
    size_t spent_max; /* what bins.max was before it was spent */
} tnri_world;

/* Prepares a zeroed world. */
void tnri_world_create(tnri_world *world, struct tnri_arena *arena, tnri_space *space, int is_small,
                       size_t bin_blocks);
/* Frees the host memory and returns the spans; everything in them is a HOLE. */
void tnri_world_destroy(tnri_world *world);

/* Gives back all that a world without memory has: addresses, records, tables. Returns 0, and
 * nothing has changed, if something is mapped, lent, borrowed or promised, or if the world has
 * nothing. A later search for an address that was in it finds no block. */
int tnri_world_dissolve(tnri_world *world);

/* Makes sure that there are at least `count` spare records besides those promised. 0 if there is no
 * host memory. */
int tnri_world_spares_more(tnri_world *world, size_t count);
static inline int tnri_world_spares(tnri_world *world, size_t count)
{
    return tnri_likely(world->spares_count >= count + world->spares_promised) ||
           tnri_world_spares_more(world, count);
}
/* Takes a spare record (there must be one); gives one back. */
static inline tnri_block *tnri_world_spare_take(tnri_world *world)
{
    tnri_block *record = world->spares;
    tnri_assert(record != NULL);
    world->spares = record->next;
    world->spares_count--;
    return record;
}
static inline void tnri_world_spare_give(tnri_world *world, tnri_block *record)
{
    record->next = world->spares;
    world->spares = record;
    world->spares_count++;
}
/* Sets `count` spare records aside for a later change that must not fail; 0 if there is no host
 * memory. tnri_world_unpromise makes them usable. */
int tnri_world_promise(tnri_world *world, size_t count);
void tnri_world_unpromise(tnri_world *world, size_t count);

/* Something of the world is about to be free. */
void tnri_world_unspend_now(tnri_world *world);
static inline void tnri_world_unspend(tnri_world *world)
{
    if (tnri_unlikely(world->is_spent))
        tnri_world_unspend_now(world);
}

/* The bound of memory/arena/trough.h is met. */
void tnri_trough_look(tnri_world *world);

/* A block was freed and merged. */
static inline void tnri_world_look_trough(tnri_world *world)
{
    if (tnri_unlikely(world->headroom.bytes >= world->trough_headroom))
        tnri_trough_look(world);
}

/* What is live. */
static inline size_t tnri_world_live_bytes(const tnri_world *world)
{
    return world->bytes_in[TNRI_LIVE] - world->bytes_in[TNRI_BINNED];
}

static inline size_t tnri_world_live_count(const tnri_world *world)
{
    return world->count_in[TNRI_LIVE] - world->count_in[TNRI_BINNED];
}

#endif
