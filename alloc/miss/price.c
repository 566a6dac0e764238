/* SPDX-License-Identifier: Apache-2.0 */
/* The price of memory: see price.h. */
#include "miss/price.h"

#include "base/heuristics.h"
#include "memory/device/budget.h"
#include "memory/device/device.h"
#include "memory/pool/pool.h"

/* Under the arena's lock. */
static uint64_t arena_in_use(const tnri_arena *arena)
{
    uint64_t bytes = 0;
    for (int i = 0; i < TNRI_WORLDS; i++)
        bytes += tnri_world_live_bytes(&arena->worlds[i]) + arena->worlds[i].bytes_in[TNRI_RETIRED];
    return bytes;
}

/* Raises what an arena needs, and with it what all need. Returns the arena's; 0 for its first.
 * Under its lock. */
static uint64_t arena_need(tnri_arena *arena, uint64_t bytes)
{
    uint64_t before = arena->needs_bytes;
    if (bytes > before) {
        atomic_fetch_add_explicit(&arena->account->needs_bytes, bytes - before,
                                  memory_order_relaxed);
        arena->needs_bytes = bytes;
    }
    return before == 0 ? 0 : arena->needs_bytes;
}

tnri_use tnri_price_look(tnri_arena *own, const tnri_request *request)
{
    tnr_pool pool = own->pool;
    tnri_use use = {0};
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        if (++use.arenas > TNRI_PRICE_ARENAS)
            return (tnri_use){0};
        tnri_arena_enter(arena);
        uint64_t bytes = arena_in_use(arena);
        if (arena == own)
            use.own_needs = arena_need(arena, bytes + request->bytes);
        tnri_arena_leave(arena);
        use.bytes += bytes;
    }
    tnri_peak_raise(&pool->account.most_bytes, use.bytes + request->bytes);
    return use;
}

int tnri_price_may_move(tnr_pool pool, const tnri_request *request, const tnri_use *use)
{
    const tnri_account *account = &pool->account;
    uint64_t holds =
        atomic_load_explicit(&account->reserved_bytes, memory_order_relaxed) + request->bytes;
    uint64_t corners = (uint64_t)use->arenas * TNRI_WORLDS * tnri_page_bytes(account->space);
    uint64_t needs = atomic_load_explicit(&account->most_bytes, memory_order_relaxed) + corners;
    return tnri_device_may_move(pool->device, holds, needs, use->arenas == 1) ||
           atomic_load_explicit(&account->is_full, memory_order_relaxed);
}
