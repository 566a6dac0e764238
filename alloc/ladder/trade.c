/* SPDX-License-Identifier: Apache-2.0 */
/* Whether streams trade: see trade.h. */
#include "ladder/trade.h"

#include "arena/low_water.h"
#include "base/heuristics.h"
#include "device/device.h"
#include "pool/lane.h"
#include "pool/pool.h"

static uint64_t arena_in_use(const tnri_arena *arena)
{
    uint64_t bytes = 0;
    for (int i = 0; i < TNRI_WORLDS; i++)
        bytes += tnri_world_live_bytes(&arena->worlds[i]) + arena->worlds[i].bytes_in[TNRI_RETIRED];
    return bytes;
}

/* Raises what the arena needs, and with it what all need. Returns the arena's; 0 for its first. */
static uint64_t arena_need(tnri_arena *arena, uint64_t bytes)
{
    tnri_arena_enter(arena);
    bytes += arena_in_use(arena);
    int is_first = arena->needs_bytes == 0;
    if (bytes > arena->needs_bytes) {
        atomic_fetch_add_explicit(&arena->account->needs_bytes, bytes - arena->needs_bytes,
                                  memory_order_relaxed);
        arena->needs_bytes = bytes;
    }
    bytes = is_first ? 0 : arena->needs_bytes;
    tnri_arena_leave(arena);
    return bytes;
}

int tnri_trade_in_use(uint64_t *bytes, tnr_pool pool)
{
    int arenas = 0;
    *bytes = 0;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        if (++arenas > TNRI_TRADE_ARENAS)
            return 0;
        tnri_arena_enter(arena);
        *bytes += arena_in_use(arena);
        tnri_arena_leave(arena);
    }
    return arenas;
}

/* The most that the arenas of the request's pool had in use together, with it. */
static uint64_t pool_most(tnri_arena *arena, const tnri_request *request)
{
    uint64_t now;
    if (tnri_trade_in_use(&now, arena->pool) > 0)
        tnri_peak_raise(&arena->account->most_bytes, now + request->bytes);
    return atomic_load_explicit(&arena->account->most_bytes, memory_order_relaxed);
}

int tnri_trade_pays(tnri_arena *arena, const tnri_request *request)
{
    tnri_account *account = arena->account;
    uint64_t own = arena_need(arena, request->bytes);
    if (own == 0)
        return 1;
    uint64_t needs = atomic_load_explicit(&account->needs_bytes, memory_order_relaxed);
    uint64_t most = atomic_load_explicit(&account->most_bytes, memory_order_relaxed);
    /* What parked blocks have is in use and can be had nevertheless. Lanes of one stream lend to
     * each other without a price. */
    int is_apart = needs > own && !tnri_lane_has_others(arena) &&
                   atomic_load_explicit(&account->parked, memory_order_relaxed) == 0;
    if (is_apart && needs > most + most / TNRI_TRADE_SAVES)
        most = pool_most(arena, request);
    is_apart = is_apart && tnri_low_water_was(arena) && needs <= most + most / TNRI_TRADE_SAVES;
    atomic_store_explicit(&account->is_apart, is_apart, memory_order_relaxed);
    return !is_apart;
}
