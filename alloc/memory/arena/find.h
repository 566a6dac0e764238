/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the arena that may have a block at an address of a device; nothing need be live there. The
 * cached path has a shorter way, since it is told where a block starts.
 */
#ifndef TNRI_ARENA_FIND_H
#define TNRI_ARENA_FIND_H

#include "memory/arena/arena.h"

/* Returns the arena, entered, and in *near a record of the arena that begins at or below the
 * address; null if no block was ever there. The caller passes the result, even if it is null, to
 * tnri_arena_find_end. Until then no arena gives addresses or records back. Takes the device's
 * lock. */
tnri_arena *tnri_arena_find_begin(struct tnri_device *device, uintptr_t address, tnri_block **near);
void tnri_arena_find_end(struct tnri_device *device, tnri_arena *arena);

/* The live block that contains the address, with its arena's lock and the device's, which
 * tnri_live_leave releases; null: none, and no lock. */
tnri_block *tnri_live_find(struct tnri_device *device, uintptr_t address);
void tnri_live_leave(struct tnri_device *device, const tnri_block *block);

/* The live block of the arena that begins at the address, with the arena's lock; null: none, or it
 * is parked, and no lock. It looks at that place alone, so without the device's lock: for an
 * address that the caller says is a live block's. */
static inline tnri_block *tnri_live_start(tnri_arena *arena, uintptr_t address)
{
    tnri_arena_enter(arena);
    tnri_block *block = tnri_block_map_at(&tnri_arena_space(arena)->map, address);
    if (tnri_likely(block != NULL && block->base == address && block->state == TNRI_LIVE &&
                    block->world->arena == arena))
        return block;
    tnri_arena_leave(arena);
    return NULL;
}

#endif
