/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an address of a device, at which nothing need be live, to the arena that may have a block
 * there. The cached path knows of a shorter way: it is told where a block starts.
 */
#ifndef TNRI_ARENA_FIND_H
#define TNRI_ARENA_FIND_H

#include "arena/arena.h"

/* The arena, entered, and in *near a record of its that begins at the address or below; null if no
 * block was ever there. Until tnri_arena_find_end, to which the arena or null is given, no arena
 * gives addresses or records back. Takes the device's lock. */
tnri_arena *tnri_arena_find_begin(struct tnri_device *device, uintptr_t address, tnri_block **near);
void tnri_arena_find_end(struct tnri_device *device, tnri_arena *arena);

#endif
