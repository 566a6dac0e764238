/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping pools: see asleep.h. */
#include "memory/pool/asleep.h"

#include "base/error.h"
#include "base/prim/clock.h"

tnr_status tnri_asleep_error(tnr_pool pool)
{
    return tnri_error(TNR_ERR_ASLEEP,
                      "pool \"%s\" of device %d is asleep. Wake it with tnr_pool_wake or "
                      "tnr_device_wake.",
                      pool->account.name, pool->device->index);
}

int tnri_pool_work_begin(tnr_pool pool)
{
    /* Either this thread sees the new state, or who set it sees this worker: all are in one
     * order. */
    atomic_fetch_add(&pool->asleep.workers, 1);
    if (atomic_load(&pool->asleep.state) == TNRI_AWAKE || atomic_load(&pool->live) == NULL)
        return 1;
    atomic_fetch_sub(&pool->asleep.workers, 1);
    return 0;
}

void tnri_pool_work_end(tnr_pool pool)
{
    atomic_fetch_sub(&pool->asleep.workers, 1);
}

void tnri_pool_work_wait(tnr_pool pool)
{
    tnri_assert(atomic_load(&pool->asleep.state) != TNRI_AWAKE);
    tnri_assert_none_held();
    while (atomic_load(&pool->asleep.workers) != 0)
        tnri_yield();
}
