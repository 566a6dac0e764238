/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for the moment in which the least is live: see trough.h. */
#include "memory/arena/trough.h"

#include "base/heuristics.h"
#include "memory/arena/alias.h"
#include "memory/arena/count.h"
#include "memory/device/account.h"

/* 1 if the world takes turns with other streams: addresses of it have gone to them, or theirs have
 * come, and streams trade (miss/trade.h). */
static int world_trades(const tnri_world *world)
{
    return (world->lent != NULL || world->borrowed_bytes > 0) &&
           !atomic_load_explicit(&world->arena->account->trade_saves_nothing, memory_order_relaxed);
}

static uint64_t trough_step(const tnri_world *world)
{
    return world->peak.bytes / TNRI_TROUGH_SHARE;
}

/* The next look is when `step` less is live than now. */
static void trough_bound(tnri_world *world, uint64_t step)
{
    uint64_t live = tnri_world_live_bytes(world);
    world->trough_headroom =
        live == 0 ? TNRI_TROUGH_NEVER : world->headroom.bytes + (live > step ? step : live);
}

/* A world has its bound while its arena waits for its first trough, or has chunks that are away
 * from home and go there. */
static void world_watch(tnri_world *world, uint64_t step)
{
    const tnri_arena *arena = world->arena;
    if (!tnri_trough_keeps(arena) || (arena->aliases_count > 0 && !world_trades(world)))
        trough_bound(world, step);
}

/* The length of a window: that of all before it together, so that what was live before a program
 * had its weights is forgotten as soon as a few passes are over. */
static uint64_t window_blocks(const tnri_trough *trough)
{
    uint64_t blocks = trough->window_began;
    if (blocks < TNRI_TROUGH_FIRST)
        return TNRI_TROUGH_FIRST;
    return blocks < TNRI_TROUGH_BLOCKS ? blocks : TNRI_TROUGH_BLOCKS;
}

/* What is live at the lowest: of the last window of allocations, and of this one until now. */
static size_t trough_floor(tnri_world *world, size_t live)
{
    tnri_trough *trough = &world->arena->trough;
    if (world->ever.blocks - trough->window_began >= window_blocks(trough)) {
        trough->floor = trough->recent;
        trough->recent = SIZE_MAX;
        trough->window_began = world->ever.blocks;
    }
    if (live < trough->recent)
        trough->recent = live;
    return trough->floor < trough->recent ? trough->floor : trough->recent;
}

void tnri_trough_watch(tnri_arena *arena)
{
    tnri_world *world = &arena->worlds[TNRI_LARGE];
    world_watch(world, trough_step(world));
}

void tnri_trough_look(tnri_world *world)
{
    size_t live = tnri_world_live_bytes(world);
    size_t floor = trough_floor(world, live);
    int is_trough = live <= floor + trough_step(world);
    world->trough_headroom = TNRI_TROUGH_NEVER;
    if (!is_trough) {
        world_watch(world, trough_step(world));
        return;
    }
    /* The program has come through a pass. */
    atomic_store_explicit(&world->arena->trough.keeps, 1, memory_order_relaxed);
    /* What could not go home is used by what the pass frees last. */
    if (!world_trades(world) && !tnri_alias_go_home(world->arena))
        world_watch(world, trough_step(world) / TNRI_TROUGH_FINE);
}
