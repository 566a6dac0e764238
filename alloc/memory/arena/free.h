/* SPDX-License-Identifier: Apache-2.0 */
/* Frees outside the cached path: those of retired blocks, and those that are refused. */
#ifndef TNRI_ARENA_FREE_H
#define TNRI_ARENA_FREE_H

#include "memory/arena/arena.h"

/* The error for an address of the device that no block starts at. */
tnr_status tnri_free_refused(struct tnri_device *device, void *ptr);

/* LIVE -> RETIRED: keeps block->uses. Counts the free. Under the lock. */
void tnri_arena_retire(tnri_arena *arena, tnri_block *block);

/* RETIRED -> FREE: the block's uses are over or ordered. `reason` is counted. */
void tnri_arena_unretire(tnri_arena *arena, tnri_block *block, tnr_reuse reason);

#endif
