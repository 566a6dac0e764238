/* SPDX-License-Identifier: Apache-2.0 */
/* Freeing: see free.h. */
#include "memory/arena/free.h"

#include "base/error.h"
#include "base/plural.h"
#include "memory/arena/count.h"
#include "memory/arena/find.h"
#include "memory/arena/note.h"
#include "memory/arena/range.h"
#include "memory/arena/run.h"
#include "memory/arena/world_retired.h"
#include "memory/device/device.h"

tnr_status tnri_free_refused(tnri_device *device, void *ptr)
{
    uintptr_t address = (uintptr_t)ptr;
    const tnri_block *block = tnri_live_find(device, address);
    if (block == NULL)
        return tnri_error(TNR_ERR_NOT_LIVE,
                          "%p is not a live block of device %d: it was freed before, or never "
                          "handed out. Nothing was changed.",
                          ptr, device->index);
    uintptr_t base = block->base;
    tnri_live_leave(device, block);
    return tnri_error(TNR_ERR_INTERIOR_POINTER,
                      "%p lies %zu byte%s inside the block at %p. Free the block's start. Nothing "
                      "was changed.",
                      ptr, (size_t)(address - base), tnri_plural(address - base), (void *)base);
}

void tnri_arena_retire(tnri_arena *arena, tnri_block *block)
{
    if (tnri_range_is_whole(arena, block)) {
        tnri_range_retire(arena);
        return;
    }
    tnri_arena_count_freed(arena, block);
    tnri_world_retire(block->world, block);
}

void tnri_arena_unretire(tnri_arena *arena, tnri_block *block, tnr_reuse reason)
{
    tnri_arena_enter(arena);
    tnri_assert(block->state == TNRI_RETIRED);
    if (tnri_range_is_whole(arena, block)) {
        tnri_range_unretire(arena, reason);
        tnri_arena_leave(arena);
        return;
    }
    block->uses = NULL;
    arena->freed_because[reason]++;
    tnri_note_reuse(arena, block, reason);
    tnri_world *world = block->world;
    tnri_world_free(world, block);
    tnri_world_look_trough(world);
    tnri_arena_leave(arena);
}
