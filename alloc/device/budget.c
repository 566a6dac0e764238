/* SPDX-License-Identifier: Apache-2.0 */
/* The moving budget: see budget.h. */
#include "device/budget.h"

#include "base/heuristics.h"
#include "conf/conf.h"

/* Time that moves and loans may have taken until now, counted from the device's start. */
static uint64_t move_allowed_ns(const tnri_device *device, uint64_t *burst_ns)
{
    const tnri_conf *conf = tnri_conf_get();
    uint64_t elapsed_ns = tnri_decision_ns() - device->started_ns;
    *burst_ns = conf->move_burst_ms * 1000000;
    return *burst_ns + elapsed_ns / 100 * conf->move_percent;
}

int tnri_device_may_move(tnri_device *device)
{
    uint64_t burst_ns;
    if (atomic_load_explicit(&device->move_spent_ns, memory_order_relaxed) <
        move_allowed_ns(device, &burst_ns))
        return 1;
    uint32_t granted = atomic_load_explicit(&device->moves_granted, memory_order_relaxed);
    while (granted > 0 &&
           !atomic_compare_exchange_weak_explicit(&device->moves_granted, &granted, granted - 1,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    return granted > 0;
}

void tnri_device_short(tnri_device *device)
{
    atomic_store_explicit(&device->moves_granted, TNRI_SHORT_GRANT, memory_order_relaxed);
}

static void move_charge(tnri_device *device, uint64_t ns)
{
    uint64_t burst_ns;
    uint64_t allowed_ns = move_allowed_ns(device, &burst_ns);
    uint64_t spent_ns = atomic_load_explicit(&device->move_spent_ns, memory_order_relaxed);
    uint64_t raised_ns;
    do {
        /* What was not used in a long quiet time is not saved up beyond one burst. */
        raised_ns = spent_ns < allowed_ns - burst_ns ? allowed_ns - burst_ns : spent_ns;
        raised_ns += ns;
    } while (!atomic_compare_exchange_weak_explicit(&device->move_spent_ns, &spent_ns, raised_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
}

void tnri_device_moved(tnri_device *device, size_t chunks, size_t chunks_all, uint64_t began_ns)
{
    uint64_t least_ns = (uint64_t)chunks * TNRI_MOVE_NS;
    uint64_t took_ns = (tnri_decision_ns() - began_ns) / chunks_all * chunks / 2 * 3;
    move_charge(device, took_ns > least_ns ? took_ns : least_ns);
}

void tnri_device_lent(tnri_device *device, uint64_t began_ns)
{
    uint64_t took_ns = tnri_decision_ns() - began_ns;
    move_charge(device, took_ns > TNRI_LOAN_NS ? took_ns : TNRI_LOAN_NS);
}
