/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for the moment in which the least is live: see low_water.h. */
#include "memory/arena/low_water.h"

#include "base/heuristics.h"
#include "memory/arena/alias.h"
#include "memory/arena/count.h"
#include "memory/device/account.h"

/* 1 if the world takes turns with other streams: addresses of it have gone to them, or theirs have
 * come, and streams trade (miss/trade.h). */
static int world_trades(const tnri_world *world)
{
    return (world->lent != NULL || world->borrowed_bytes > 0) &&
           !atomic_load_explicit(&world->arena->account->is_apart, memory_order_relaxed);
}

static uint64_t low_step(const tnri_world *world)
{
    return world->peak.bytes / TNRI_LOW_WATER_SHARE;
}

/* The next look is when `step` less is live than now. */
static void low_bound(tnri_world *world, uint64_t step)
{
    uint64_t live = tnri_world_live_bytes(world);
    world->low_headroom =
        live == 0 ? TNRI_LOW_NEVER : world->headroom.bytes + (live > step ? step : live);
}

/* A world has its bound while its arena waits for its first low water, or has chunks that are away
 * from home and go there. */
static void world_watch(tnri_world *world, uint64_t step)
{
    const tnri_arena *arena = world->arena;
    if (!tnri_low_water_keeps(arena) || (arena->aliases_count > 0 && !world_trades(world)))
        low_bound(world, step);
}

/* The length of a window: that of all before it together, so that what was live before a program
 * had its weights is forgotten as soon as a few passes are over. */
static uint64_t window_blocks(const tnri_low_water *low)
{
    uint64_t blocks = low->window_began;
    if (blocks < TNRI_LOW_WATER_FIRST)
        return TNRI_LOW_WATER_FIRST;
    return blocks < TNRI_LOW_WATER_BLOCKS ? blocks : TNRI_LOW_WATER_BLOCKS;
}

/* What is live at the lowest: of the last window of allocations, and of this one until now. */
static size_t low_floor(tnri_world *world, size_t live)
{
    tnri_low_water *low = &world->arena->low;
    if (world->ever.blocks - low->window_began >= window_blocks(low)) {
        low->floor = low->recent;
        low->recent = SIZE_MAX;
        low->window_began = world->ever.blocks;
    }
    if (live < low->recent)
        low->recent = live;
    return low->floor < low->recent ? low->floor : low->recent;
}

void tnri_low_water_watch(tnri_arena *arena)
{
    tnri_world *world = &arena->worlds[TNRI_LARGE];
    world_watch(world, low_step(world));
}

void tnri_low_water_look(tnri_world *world)
{
    size_t live = tnri_world_live_bytes(world);
    size_t floor = low_floor(world, live);
    int is_low = live <= floor + low_step(world);
    world->low_headroom = TNRI_LOW_NEVER;
    if (!is_low) {
        world_watch(world, low_step(world));
        return;
    }
    /* The program has come through a pass. */
    atomic_store_explicit(&world->arena->low.keeps, 1, memory_order_relaxed);
    /* What could not go home is used by what the pass frees last. */
    if (!world_trades(world) && !tnri_alias_go_home(world->arena))
        world_watch(world, low_step(world) / TNRI_LOW_WATER_FINE);
}
