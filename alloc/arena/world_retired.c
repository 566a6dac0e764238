/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Geometry of RETIRED records, for captures: see world.h. Inside a capture, freed memory is not
 * free for everyone at once, so it stays RETIRED and is cut, joined and handed out as that.
 */
#include "arena/world_internal.h"

tnri_block *tnri_world_revive(tnri_world *world, tnri_block *block, uintptr_t base, size_t bytes,
                              tnri_block **below, tnri_block **above)
{
    tnri_assert(block->state == TNRI_RETIRED);
    tnri_assert(base >= block->base && base + bytes <= tnri_block_end(block));
    tnri_record_leave(world, block);
    block->stamped = 0;
    *below = NULL;
    *above = NULL;
    if (base > block->base) {
        tnri_block *upper = tnri_record_split(world, block, base - block->base);
        block->uses = NULL;
        tnri_record_enter(world, block, TNRI_RETIRED);
        *below = block;
        block = upper;
        block->stamped = 0;
    }
    if (block->bytes > bytes) {
        *above = tnri_record_split(world, block, bytes);
        (*above)->uses = NULL;
        (*above)->stamped = 0;
        tnri_record_enter(world, *above, TNRI_RETIRED);
    }
    block->uses = NULL;
    tnri_record_enter(world, block, TNRI_LIVE);
    tnri_block_map_enter(&world->space->map, block);
    return block;
}

void tnri_world_join(tnri_world *world, tnri_block *block)
{
    tnri_assert(block->state == TNRI_RETIRED && block->above != NULL &&
                block->above->state == TNRI_RETIRED);
    tnri_record_leave(world, block->above);
    tnri_record_leave(world, block);
    tnri_record_absorb_above(world, block);
    tnri_record_enter(world, block, TNRI_RETIRED);
}

tnri_block *tnri_world_withhold(tnri_world *world, tnri_block *run, uintptr_t base, uintptr_t end)
{
    tnri_assert(run->state == TNRI_FREE);
    tnri_assert(base >= run->base && end <= tnri_block_end(run) && base < end);
    tnri_record_leave(world, run);
    if (base > run->base) {
        tnri_block *upper = tnri_record_split(world, run, base - run->base);
        tnri_record_enter(world, run, TNRI_FREE);
        run = upper;
    }
    if (end < tnri_block_end(run)) {
        tnri_block *rest = tnri_record_split(world, run, end - run->base);
        tnri_record_enter(world, rest, TNRI_FREE);
    }
    run->uses = NULL;
    run->stamped = 0;
    tnri_record_enter(world, run, TNRI_RETIRED);
    return run;
}
