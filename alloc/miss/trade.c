/* SPDX-License-Identifier: Apache-2.0 */
/* Whether streams trade: see trade.h. */
#include "miss/trade.h"

#include "base/heuristics.h"
#include "memory/arena/trough.h"
#include "memory/device/device.h"
#include "memory/pool/lane.h"

/* Raises what the arena needs, and with it what all need. Returns the arena's; 0 for its first. */
static uint64_t arena_need(tnri_arena *arena, uint64_t bytes)
{
    tnri_arena_enter(arena);
    bytes += tnri_arena_in_use(arena);
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

int tnri_trade_pays(tnri_arena *arena, const tnri_request *request, tnri_use use)
{
    tnri_account *account = arena->account;
    uint64_t own = arena_need(arena, request->bytes);
    if (own == 0)
        return 1;
    uint64_t needs = atomic_load_explicit(&account->needs_bytes, memory_order_relaxed);
    uint64_t most = atomic_load_explicit(&account->most_bytes, memory_order_relaxed);
    /* What parked blocks have is in use and can be had nevertheless. Lanes of one stream lend to
     * each other without a price. */
    int saves_nothing = needs > own && use.arenas > 0 && tnri_trough_keeps(arena) &&
                        needs <= most + most / TNRI_TRADE_SAVES && !tnri_lane_has_others(arena) &&
                        atomic_load_explicit(&account->parked, memory_order_relaxed) == 0;
    atomic_store_explicit(&account->trade_saves_nothing, saves_nothing, memory_order_relaxed);
    return !saves_nothing;
}
