/* SPDX-License-Identifier: Apache-2.0 */
/* Growing anew: see regrow.h. */
#include "ladder/regrow.h"

#include "arena/low_water.h"
#include "base/heuristics.h"
#include "conf/conf.h"
#include "device/budget.h"
#include "device/device.h"
#include "ladder/execute.h"
#include "ladder/reclaim.h"
#include "ladder/stale.h"
#include "pool/lane.h"
#include "pool/pool.h"

/* 1 if streams of the arena's pool may take memory from each other, and its idle memory may go
 * back. Lanes of one stream take from each other without a price. A first pass is left alone. */
static int pool_may_drift(tnri_arena *arena)
{
    const tnri_account *account = arena->account;
    return tnri_conf_get()->regrow && tnri_low_water_keeps(arena) && !account->is_graph &&
           !tnri_account_is_fixed(account) && tnri_cross_policy() != TNRI_CROSS_OFF &&
           !tnri_lane_has_others(arena);
}

static void raise(uint64_t *most, uint64_t value)
{
    if (*most < value)
        *most = value;
}

/* Takes note of what is there now. Returns 1 if the pool drifts and is low. */
static int rounds_look(tnri_rounds *rounds, uint64_t reserved, uint64_t in_use)
{
    uint64_t idle = reserved - in_use;
    rounds->idle_most -= rounds->idle_most / TNRI_REGROW_FORGETS;
    raise(&rounds->idle_most, idle);
    raise(&rounds->in_use_most, in_use);
    rounds->has_grown |= reserved > rounds->reserved_most;
    raise(&rounds->reserved_most, reserved);
    int was_low = rounds->is_low;
    rounds->is_low = idle >= rounds->idle_most / TNRI_REGROW_IDLE;
    if (rounds->is_low && !was_low) {
        rounds->grown += (unsigned)rounds->has_grown;
        rounds->has_grown = 0;
    }
    return rounds->is_low && rounds->grown >= TNRI_REGROW_ROUNDS &&
           reserved > rounds->in_use_most + rounds->in_use_most / TNRI_REGROW_OVER;
}

/* Gives back what no stream of the pool uses any more. */
static void pool_give_back(tnr_pool pool)
{
    uint64_t began_ns = tnri_decision_ns();
    uint64_t before = atomic_load(&pool->account.chunks.gone);
    size_t released = 0;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;)
        released += tnri_stale_release_over(arena);
    if (released > 0)
        (void)tnri_drain_pool(pool, 0, &released);
    uint64_t chunks = atomic_load(&pool->account.chunks.gone) - before;
    tnri_device_regrew(pool->device, (size_t)chunks, began_ns);
}

/* How many of the pool's chunks may be idle. */
static uint64_t pool_idle_chunks(const tnri_account *account, uint64_t reserved, uint64_t in_use)
{
    return tnri_flow_now(&account->chunks) * (reserved - in_use) / reserved;
}

void tnri_regrow_look(tnri_arena *arena, tnri_use use)
{
    tnr_pool pool = arena->pool;
    const tnri_account *account = &pool->account;
    tnri_rounds *rounds = &pool->rounds;
    if (use.arenas < 2 || !pool_may_drift(arena) ||
        atomic_exchange_explicit(&rounds->is_taken, 1, memory_order_acquire))
        return;
    uint64_t reserved = atomic_load_explicit(&account->reserved_bytes, memory_order_relaxed);
    reserved = reserved < use.bytes ? use.bytes : reserved; /* they are not of one moment */
    if (rounds_look(rounds, reserved, use.bytes) &&
        tnri_device_may_regrow(arena->device, pool_idle_chunks(account, reserved, use.bytes)))
        pool_give_back(pool);
    atomic_store_explicit(&rounds->is_taken, 0, memory_order_release);
}
