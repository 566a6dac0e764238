/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parked blocks: live blocks whose memory serves others for a while. (<tenure/park.h>)
 *
 * A parked block keeps its addresses and its record, which is PARKED. The whole chunks inside it
 * may go to other addresses of the pool by a second mapping, as any chunk that moves. The plan of a
 * request takes them last, before new ones are made (plan.h). When a chunk has gone, an *evicted
 * range* stands for the addresses that it left, and its old mapping stays:
 *
 *     at home     the page table has the chunk; nobody has taken it
 *     evicted     the page table has nothing. The range knows the chunk whose mapping is still
 *                 there (the chunk knows the range, too: tnri_chunk.evicted), or that there is
 *                 none any more
 *
 * Nobody uses an evicted mapping: the block's owner has said so. The mapping stays because that
 * costs nothing, and because the same chunk can come back without a driver call, in stream order:
 * if the chunk is free, or parked at home in another block, unparking takes it from there
 * (unpark.c). Only if another chunk must come, the old mapping must go first. For that, all work
 * that was given to the block's stream before the block was parked must be over
 * (tnri_parked.event). By then it usually is; otherwise the host waits, and the wait is counted.
 *
 * The driver keeps memory while it is mapped anywhere. So before a chunk is given back, its old
 * mappings are removed (tnri_evicted_unmap_all). That needs no other proof than the one for the
 * chunk: each arena that got it was ordered after the one before.
 *
 * Order. When a block is parked, its arena's stream has been made to wait for all its uses. So from
 * then on its chunks are like free memory of the arena. Memory that comes back is ordered before
 * what that stream gets next.
 */
#ifndef TNRI_MISS_PARK_H
#define TNRI_MISS_PARK_H

#include "miss/evicted.h"

/* How many records besides one the free of a parked block may need. */
static inline size_t tnri_parked_records(const tnri_parked *parked)
{
    return 2 * parked->evicted_room + 1;
}

/* ---- the block ------------------------------------------------------------------------------ */

/* LIVE -> PARKED. `event` tells when nothing uses the block's addresses any more; the function
 * takes over its reference. The arena's stream is ordered after the event. On an error nothing has
 * changed: TNR_ERR_HOST_MEMORY, or TNR_ERR_NOT_LIVE if no live block begins at `ptr`. *bytes: the
 * bytes of the whole chunks. No lock is held. */
tnr_status tnri_park(size_t *bytes, tnri_arena *arena, void *ptr, tnri_event *event, void *kept);

/* Begins to bring a parked block back: nothing is taken from it any more. TNR_ERR_NOT_LIVE if none
 * begins there, TNR_ERR_BUSY if another thread does the same. No lock is held. */
tnr_status tnri_unpark_begin(tnri_parked **parked, tnri_arena *arena, void *ptr);
/* Puts memory under all of the block. In the device's context; the pool is worked on. If it fails,
 * some memory may have come back. */
tnr_status tnri_unpark_fill(tnri_parked *parked);
/* With `is_done`, PARKED -> LIVE: returns what was kept of the block's contents. Else the block
 * stays parked and keeps its contents: returns null. */
void *tnri_unpark_end(tnri_parked *parked, int is_done);

/* The error for what cannot be done to a block because it is parked, and why not. */
tnr_status tnri_parked_error(const void *ptr, const char *why);

/* Frees the parked block that begins at `ptr`; 0 if none does. No lock is held. */
int tnri_parked_free(tnri_arena *arena, void *ptr);
/* Frees all parked blocks of an arena, for a forced end. */
void tnri_parked_free_all(tnri_arena *arena);

/* Bytes of an arena's parked blocks that have no memory. Under the lock. */
size_t tnri_parked_away_bytes(const tnri_arena *arena);
/* Bytes of whole chunks in parked blocks. Under the lock. */
size_t tnri_parked_bytes(const tnri_arena *arena);

/* 1 if a thread has a chunk of the arena's parked blocks in hand. Under the lock. */
int tnri_parked_is_moving(const tnri_arena *arena);

/* Null, or what is wrong with an arena's parked blocks. Under the lock. */
const char *tnri_parked_validate(const tnri_arena *arena);

#endif
