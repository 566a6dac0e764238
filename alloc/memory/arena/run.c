/* SPDX-License-Identifier: Apache-2.0 */
/* Carving and merging where it is not the cached path: see run.h. */
#include "memory/arena/run.h"

#include "memory/arena/record.h"

/* Cuts off a run what lies below an address. Returns the rest, a run too. */
static TNRI_SELDOM tnri_block *run_cut_lead(tnri_world *world, tnri_block *run, size_t lead)
{
    tnri_record_leave(world, run);
    tnri_block *upper = tnri_record_split(world, run, lead);
    tnri_record_enter(world, run, TNRI_FREE);
    tnri_record_enter(world, upper, TNRI_FREE);
    return upper;
}

tnri_block *tnri_world_carve(tnri_world *world, tnri_block *run, size_t bytes, size_t alignment)
{
    tnri_assert_hot(run->state == TNRI_FREE);
    size_t lead = (0 - run->base) & (alignment - 1);
    if (tnri_unlikely(lead > 0))
        run = run_cut_lead(world, run, lead);
    tnri_run_carve(world, run, bytes, tnri_block_map_entry(&world->space->map, run->base));
    return run;
}

tnri_block *tnri_world_carve_at(tnri_world *world, tnri_block *run, uintptr_t address, size_t bytes)
{
    tnri_assert_hot(run->state == TNRI_FREE);
    if (address > run->base)
        run = run_cut_lead(world, run, address - run->base);
    tnri_run_carve(world, run, bytes, tnri_block_map_entry(&world->space->map, run->base));
    return run;
}

tnri_block *tnri_world_free(tnri_world *world, tnri_block *block)
{
    tnri_state state = (tnri_state)block->state;
    tnri_assert_hot(state == TNRI_LIVE || state == TNRI_RETIRED || state == TNRI_PENDING);
    tnri_world_unspend(world);
    return tnri_run_merge(world, block, state);
}
