/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping pools, as this layer sees them. Putting to sleep is the business of a layer above, and
 * changes nothing but chunks: their memory goes back to the driver, and comes back at the same
 * addresses. Records of blocks and free runs stay as they are; so a free is the same as ever.
 *
 * What must not happen meanwhile:
 *   - a chunk being mapped, moved, unmapped or released. Whoever does that to a pool's chunks works
 *     between tnri_pool_work_begin and tnri_pool_work_end, which is refused while the pool is not
 *     awake; and who puts it to sleep waits for those that are at work.
 *   - memory being handed out. Finding an arena of the pool is refused, and the arenas that threads
 *     have cached are forgotten when the sleep begins (tnri_generation_advance). An allocation that
 *     had found its arena before comes before the sleep; its block wakes with the others.
 */
#ifndef TNRI_POOL_ASLEEP_H
#define TNRI_POOL_ASLEEP_H

#include "pool/structure.h"

static inline int tnri_pool_is_awake(tnr_pool pool)
{
    return atomic_load_explicit(&pool->asleep.state, memory_order_acquire) == TNRI_AWAKE;
}

/* The error for a pool that is not awake. */
tnr_status tnri_asleep_error(tnr_pool pool);

/* Between these two the pool does not fall asleep. 0, and nothing is to be ended, if it is not
 * awake. They nest. A pool that is being ended is always worked on. No user's callback in
 * between. */
int tnri_pool_work_begin(tnr_pool pool);
void tnri_pool_work_end(tnr_pool pool);
/* Waits until nobody works on a pool that is no longer awake. */
void tnri_pool_work_wait(tnr_pool pool);

/* The end of a pool that sleeps, or has slept: see tnri_sleeper_ops. */
tnr_status tnri_asleep_settle(tnr_pool pool);
void tnri_asleep_end(tnr_pool pool);

#endif
