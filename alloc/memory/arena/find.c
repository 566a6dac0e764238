/* SPDX-License-Identifier: Apache-2.0 */
/* Finding arenas by address: see find.h. */
#include "memory/arena/find.h"

#include "memory/device/device.h"

tnri_arena *tnri_arena_find_begin(tnri_device *device, uintptr_t address, tnri_block **near)
{
    tnri_device *of;
    tnri_device_look_begin(device);
    const tnri_space *space = tnri_space_of(address, &of);
    *near = space == NULL ? NULL : tnri_block_map_near(&space->map, address);
    if (*near == NULL)
        return NULL;
    tnri_arena *arena = (*near)->world->arena;
    tnri_arena_enter(arena);
    return arena;
}

tnri_block *tnri_live_find(tnri_device *device, uintptr_t address)
{
    tnri_block *near;
    tnri_arena *arena = tnri_arena_find_begin(device, address, &near);
    tnri_block *block = arena == NULL ? NULL : tnri_arena_containing(arena, address);
    if (block == NULL)
        tnri_arena_find_end(device, arena);
    return block;
}

void tnri_live_leave(tnri_device *device, const tnri_block *block)
{
    tnri_arena_find_end(device, block->world->arena);
}

void tnri_arena_find_end(tnri_device *device, tnri_arena *arena)
{
    if (arena != NULL)
        tnri_arena_leave(arena);
    tnri_device_look_end(device);
}
