/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parked blocks: live blocks whose memory serves others for a while. (<tenure/park.h>)
 *
 * A parked block keeps its addresses and its record, which is PARKED. The whole chunks inside it
 * may go to other addresses of the pool by a second mapping, as any chunk that moves: the plan of a
 * request takes them last, before new ones are made (plan.h). Where one has gone, a *slot* stands
 * for the addresses that it left, and its old mapping stays:
 *
 *     at home     the page table has the chunk; nobody has taken it
 *     vacated     the page table has nothing. The slot knows the chunk whose mapping is still there
 *                 (also the chunk knows it: tnri_chunk.slots), or that there is none any more
 *
 * Nobody uses a vacated mapping: the block's owner has said so. It stays because that costs
 * nothing, and because the same chunk is had back without a call of the driver, in stream order: if
 * it is free, or parked at home in another block, unparking takes it from there (unpark.c). Only
 * where another chunk must come must the old mapping go first, and for that all work that was given
 * to the block's stream before it was parked must be over (tnri_parked.event): by then it usually
 * is, otherwise the host waits, which is counted.
 *
 * The driver keeps memory while it is mapped anywhere. So whoever gives a chunk back removes its
 * old mappings first (tnri_slots_unmap). He needs no other proof than what he has for the chunk:
 * each arena that got it was ordered after the one before.
 *
 * Order. When a block is parked its arena's stream has been made to wait for all its uses, so from
 * then on its chunks are as free memory of the arena. Memory that comes back is ordered before what
 * that stream gets next.
 */
#ifndef TNRI_LADDER_PARK_H
#define TNRI_LADDER_PARK_H

#include "ladder/slot.h"

/* How many records more than one a parked block's free may need. */
static inline size_t tnri_parked_records(const tnri_parked *parked)
{
    return 2 * parked->slots_room + 1;
}

/* ---- the block ------------------------------------------------------------------------------ */

/* LIVE -> PARKED. `event` tells when nothing uses its addresses any more; its reference is taken
 * over. Its arena's stream is ordered after that. TNR_ERR_HOST_MEMORY, or TNR_ERR_NOT_LIVE if no
 * live block begins at `ptr`: nothing has changed. *bytes: of the whole chunks. No lock is held. */
tnr_status tnri_park(size_t *bytes, tnri_arena *arena, void *ptr, tnri_event *event, void *kept);

/* The parked block that begins at `address`; null: none does. Under the lock. */
tnri_parked *tnri_parked_at(const tnri_arena *arena, uintptr_t address);

/* Begins to bring one back: nothing is taken from it any more. TNR_ERR_NOT_LIVE if none begins
 * there, TNR_ERR_BUSY if another thread does the same. No lock is held. */
tnr_status tnri_unpark_begin(tnri_parked **parked, tnri_arena *arena, void *ptr);
/* Has memory under all of it. In the device's context; the pool is worked on. Some may have come
 * back if it fails. */
tnr_status tnri_unpark_fill(tnri_parked *parked);
/* PARKED -> LIVE if it `is_done`: returns what was kept of its contents. Else it stays parked, and
 * they stay there: null. */
void *tnri_unpark_end(tnri_parked *parked, int is_done);

/* The error for what cannot be done to a block because it is parked, and why not. */
tnr_status tnri_parked_error(const void *ptr, const char *why);

/* Frees the parked block that begins at `ptr`; 0 if none does. No lock is held. */
int tnri_parked_free(tnri_arena *arena, void *ptr);
/* Frees all of an arena, for a forced end. */
void tnri_parked_free_all(tnri_arena *arena);

/* Bytes of an arena's parked blocks that have no memory. Under the lock. */
size_t tnri_parked_away_bytes(const tnri_arena *arena);
/* Bytes of whole chunks in parked blocks. Under the lock. */
size_t tnri_parked_bytes(const tnri_arena *arena);

/* 1 if a thread has a chunk of its parked blocks in hand. Under the lock. */
int tnri_parked_is_moving(const tnri_arena *arena);

/* Null, or what is wrong with an arena's parked blocks. Under the lock. */
const char *tnri_parked_validate(const tnri_arena *arena);

/* Told of the contents of a parked block that was freed; `event`, with a reference, is over when
 * nothing is copied from the block any more. Set before the first block with contents is parked. No
 * lock is held; it calls no driver. */
extern void (*_Atomic tnri_parked_forgotten)(tnri_device *device, void *kept, tnri_event *event);

#endif
