/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping pools, as this layer sees them. A layer above puts pools to sleep. A sleep changes only
 * chunks: their memory goes back to the driver, and comes back at the same addresses. Records of
 * blocks and free runs stay as they are, so a free does what it does in any pool.
 *
 * What must not happen meanwhile:
 *   - a chunk being mapped, moved, unmapped or released. A thread that does that to a pool's chunks
 *     works between tnri_pool_work_begin and tnri_pool_work_end. This is refused while the pool is
 *     not awake. A thread that puts the pool to sleep waits for the threads that are at work.
 *   - memory being handed out. Tenure refuses to find an arena of the pool. When the sleep begins,
 *     the arenas that threads have cached are forgotten (tnri_generation_advance). If an allocation
 *     had found its arena before, it comes before the sleep, and its block wakes with the others.
 */
#ifndef TNRI_POOL_ASLEEP_H
#define TNRI_POOL_ASLEEP_H

#include "memory/pool/structure.h"

static inline int tnri_pool_is_awake(tnr_pool pool)
{
    return atomic_load_explicit(&pool->asleep.state, memory_order_acquire) == TNRI_AWAKE;
}

/* The error for a pool that is not awake. */
tnr_status tnri_asleep_error(tnr_pool pool);

/* Between these two the pool does not fall asleep. If it is not awake, tnri_pool_work_begin returns
 * 0, and there is nothing to end. They nest. In a pool that is being ended, work is never refused.
 * No user's callback in between. */
int tnri_pool_work_begin(tnr_pool pool);
void tnri_pool_work_end(tnr_pool pool);
/* Waits until no thread works on a pool that is no longer awake. */
void tnri_pool_work_wait(tnr_pool pool);

#endif
