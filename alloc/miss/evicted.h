/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evicted ranges of parked blocks: addresses that a chunk has left, and its old mapping there. See
 * park.h.
 *
 * Locks: what says so below is under the arena's lock. What ranges know of chunks, and chunks of
 * ranges, is under the parking lock, which is taken inside the arena's. A thread that calls the
 * driver about a range marks it as busy. A thread that wants to end a range rests until it is not
 * busy.
 */
#ifndef TNRI_MISS_EVICTED_H
#define TNRI_MISS_EVICTED_H

#include "memory/arena/arena.h"
#include "memory/device/chunk.h"
#include "memory/pool/structure.h"

typedef struct tnri_evicted {
    struct tnri_parked *parked; /* constant */
    size_t page, pages;         /* the addresses; the arena's lock */
    tnri_chunk *chunk;          /* the one mapped there; null: none, or one that is gone */
    struct tnri_evicted *next;  /* of the chunk's */
    int is_used;                /* 0: stands for nothing; the arena's lock */
    int is_mapped;              /* 1: a mapping is there */
    int is_busy;                /* 1: a thread works on it without a lock */
    uint32_t epoch; /* of the pool's access, when the chunk left: a later change of access has not
                     * changed the old mapping. Constant while the range is used */
} tnri_evicted;

/* A parked block. Under the arena's lock, except what is constant. */
typedef struct tnri_parked {
    tnri_block *block; /* constant, as are the arena and the pages */
    tnri_arena *arena;
    size_t first, end;        /* pages: of its whole chunks when it was parked */
    struct tnri_parked *next; /* of the arena's */
    size_t evicted_pages;     /* of those, without memory */
    tnri_event *event;        /* once over, nothing uses the addresses; constant */
    int is_returning;         /* 1: a thread unparks it, and nothing is taken */
    uint64_t since;           /* number of the arena's parking by which its chunks came to rest */
    void *kept;               /* its contents: the layer above's; null: they are dropped */
    size_t evicted_room;      /* constant */
    /* Chunks leave only while half of them is left: a failed return may need two for one. */
    size_t evicted_used;
    tnri_evicted evicted[];
} tnri_parked;

extern tnri_lock tnri_parking_lock;

/* Takes a chunk away from its home in the block. The range that it leaves is busy until
 * tnri_evicted_settle. Null if the block has none left. Under the arena's lock. */
tnri_evicted *tnri_evict(tnri_parked *parked, tnri_chunk *chunk);
/* The chunk comes home after all: nobody has had it. Under the arena's lock. */
void tnri_evicted_restore(tnri_evicted *evicted, tnri_chunk *chunk);
/* The chunk has gone: the range is not busy any more. */
void tnri_evicted_settle(tnri_evicted *evicted);
/* Makes a range for addresses that have no memory; the block must have one left. Under the arena's
 * lock. */
tnri_evicted *tnri_evicted_make(tnri_parked *parked, size_t page, size_t pages, int is_mapped);
/* Ends a range: its addresses have memory again. Under the arena's lock. */
void tnri_evicted_drop(tnri_evicted *evicted);

/* The block's range where the chunk is still mapped, or null. From then on the chunk does not know
 * the range. */
tnri_evicted *tnri_evicted_claim(tnri_chunk *chunk, const tnri_parked *parked);
/* The chunk knows the range again. */
void tnri_evicted_unclaim(tnri_evicted *evicted, tnri_chunk *chunk);

/* Makes sure that no chunk comes back to a mapping that other devices reach differently from the
 * rest of the pool. The calling thread places memory (memory/device/access.h), and unparks the
 * block. */
void tnri_evicted_forget_old(tnri_parked *parked);

/* Makes its chunk forget the range. Under the parking lock. */
void tnri_evicted_forget(tnri_evicted *evicted);
/* Enters a chunk, or none, at the pages of a range. Under the arena's lock. */
void tnri_evicted_pages(const tnri_evicted *evicted, tnri_chunk *chunk);

/* Gives a chunk that was evicted back to the driver; nothing uses it. If the driver
 * refuses to unmap it, it comes home again. In the context, no lock held. */
tnr_status tnri_evicted_release(tnri_evicted *evicted, tnri_chunk *chunk);
/* Removes all old mappings of a chunk that is given back. What the driver refuses to remove stays
 * with its block. In the context, no lock held. */
void tnri_evicted_unmap_all(tnri_device *device, tnri_chunk *chunk);
/* Removes the mapping of a range, if it has one: nothing uses it. In the context, no lock held. */
tnr_status tnri_evicted_unmap(tnri_evicted *evicted);
/* Removes all that parked blocks of a pool still have mapped elsewhere. All work of the device is
 * over, and nobody works on the pool. */
tnr_status tnri_parked_settle(tnr_pool pool);

#endif
