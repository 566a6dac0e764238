/* SPDX-License-Identifier: Apache-2.0 */
/* The price of memory: see price.h. */
#include "miss/price.h"

#include "base/heuristics.h"
#include "memory/device/budget.h"
#include "memory/device/device.h"
#include "memory/pool/pool.h"

uint64_t tnri_arena_in_use(const tnri_arena *arena)
{
    uint64_t bytes = 0;
    for (int i = 0; i < TNRI_WORLDS; i++)
        bytes += tnri_world_live_bytes(&arena->worlds[i]) + arena->worlds[i].bytes_in[TNRI_RETIRED];
    return bytes;
}

tnri_use tnri_price_look(tnr_pool pool, const tnri_request *request)
{
    tnri_use use = {0, 0};
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        if (++use.arenas > TNRI_PRICE_ARENAS)
            return (tnri_use){0, 0};
        tnri_arena_enter(arena);
        use.bytes += tnri_arena_in_use(arena);
        tnri_arena_leave(arena);
    }
    tnri_peak_raise(&pool->account.most_bytes, use.bytes + request->bytes);
    return use;
}

int tnri_price_may_move(tnr_pool pool, const tnri_request *request, tnri_use use)
{
    const tnri_account *account = &pool->account;
    uint64_t holds =
        atomic_load_explicit(&account->reserved_bytes, memory_order_relaxed) + request->bytes;
    uint64_t corners = (uint64_t)use.arenas * TNRI_WORLDS * tnri_page_bytes(account->space);
    uint64_t needs = atomic_load_explicit(&account->most_bytes, memory_order_relaxed) + corners;
    return tnri_device_may_move(pool->device, holds, needs, use.arenas == 1) ||
           atomic_load_explicit(&account->is_full, memory_order_relaxed);
}
