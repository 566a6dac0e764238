/* SPDX-License-Identifier: Apache-2.0 */
/* Whether streams trade: see trade.h. */
#include "miss/trade.h"

#include "base/heuristics.h"
#include "memory/arena/trough.h"
#include "memory/device/device.h"
#include "memory/pool/lane.h"

int tnri_trade_pays(const tnri_arena *arena, const tnri_use *use)
{
    tnri_account *account = arena->account;
    if (use->own_needs == 0 && use->arenas > 0)
        return 1;
    uint64_t needs = atomic_load_explicit(&account->needs_bytes, memory_order_relaxed);
    uint64_t most = atomic_load_explicit(&account->most_bytes, memory_order_relaxed);
    /* What parked blocks have is in use and can be had nevertheless. Lanes of one stream lend to
     * each other without a price. */
    int saves_nothing = use->arenas > 0 && needs > use->own_needs && tnri_trough_keeps(arena) &&
                        needs <= most + most / TNRI_TRADE_SAVES && !tnri_lane_has_others(arena) &&
                        atomic_load_explicit(&account->parked, memory_order_relaxed) == 0;
    atomic_store_explicit(&account->trade_saves_nothing, saves_nothing, memory_order_relaxed);
    return !saves_nothing;
}
