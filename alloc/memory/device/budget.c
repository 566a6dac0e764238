/* SPDX-License-Identifier: Apache-2.0 */
/* The moving budget: see budget.h. */
#include "memory/device/budget.h"

#include "base/conf/conf.h"
#include "base/heuristics.h"

/* What may have been spent until now, counted from the device's start: a burst, and a share of the
 * running time. */
typedef struct allowance {
    uint64_t burst_ns, allowed_ns;
} allowance;

static allowance budget_allowance(const tnri_device *device)
{
    const tnri_conf *conf = tnri_conf_get();
    uint64_t burst_ns = conf->move_burst_ms * 1000000;
    uint64_t elapsed_ns = tnri_decision_ns() - device->started_ns;
    return (allowance){burst_ns, burst_ns + elapsed_ns / 100 * conf->move_percent};
}

/* How many times what a pool may spend that holds no more than it needs. */
static uint64_t price_times(uint64_t holds, uint64_t needs)
{
    if (needs == 0 || holds <= needs)
        return 1;
    uint64_t over = holds - needs;
    return over > needs ? 1 + TNRI_PRICE_TIMES : 1 + over * TNRI_PRICE_TIMES / needs;
}

int tnri_device_may_move(const tnri_device *device, uint64_t holds, uint64_t needs, int is_alone)
{
    uint64_t allowed_ns = budget_allowance(device).allowed_ns;
    uint64_t spent_ns = atomic_load_explicit(&device->move_spent_ns, memory_order_relaxed);
    uint64_t took_ns = atomic_load_explicit(&device->move_took_ns, memory_order_relaxed);
    return spent_ns / price_times(holds, needs) < allowed_ns && !(is_alone && took_ns > allowed_ns);
}

static void budget_charge(const tnri_device *device, _Atomic uint64_t *sum, uint64_t ns)
{
    allowance may = budget_allowance(device);
    uint64_t spent_ns = atomic_load_explicit(sum, memory_order_relaxed);
    uint64_t raised_ns;
    do {
        /* What was not used in a long quiet time is not saved up beyond one burst. */
        uint64_t least_ns = may.allowed_ns - may.burst_ns;
        raised_ns = (spent_ns < least_ns ? least_ns : spent_ns) + ns;
    } while (!atomic_compare_exchange_weak_explicit(sum, &spent_ns, raised_ns, memory_order_relaxed,
                                                    memory_order_relaxed));
}

void tnri_device_moved(tnri_device *device, size_t chunks, size_t chunks_all, uint64_t began_ns)
{
    uint64_t least_ns = (uint64_t)chunks * TNRI_MOVE_NS;
    uint64_t took_ns = (tnri_decision_ns() - began_ns) / chunks_all * chunks;
    uint64_t unmaps_ns = took_ns / 2; /* which come later */
    budget_charge(device, &device->move_took_ns, took_ns);
    budget_charge(device, &device->move_spent_ns,
                  took_ns + unmaps_ns > least_ns ? took_ns + unmaps_ns : least_ns);
}

void tnri_device_lent(tnri_device *device, uint64_t began_ns)
{
    uint64_t took_ns = tnri_decision_ns() - began_ns;
    budget_charge(device, &device->move_spent_ns, took_ns > TNRI_LOAN_NS ? took_ns : TNRI_LOAN_NS);
}
