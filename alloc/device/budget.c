/* SPDX-License-Identifier: Apache-2.0 */
/* The moving budget: see budget.h. */
#include "device/budget.h"

#include "base/heuristics.h"
#include "conf/conf.h"

/* What may have been spent until now, counted from the device's start: a burst, and a share of the
 * running time. */
typedef struct allowance {
    uint64_t burst_ns, allowed_ns;
} allowance;

static allowance budget_allowance(const tnri_device *device, uint64_t percent)
{
    uint64_t burst_ns = tnri_conf_get()->move_burst_ms * 1000000;
    uint64_t elapsed_ns = tnri_decision_ns() - device->started_ns;
    return (allowance){burst_ns, burst_ns + elapsed_ns / 100 * percent};
}

/* Of moves and loans. */
static allowance move_allowance(const tnri_device *device)
{
    return budget_allowance(device, tnri_conf_get()->move_percent);
}

/* Of loans alone. */
static allowance loan_allowance(const tnri_device *device)
{
    return budget_allowance(device, tnri_conf_get()->move_percent * TNRI_LOAN_TIMES);
}

int tnri_device_may_move(tnri_device *device, int is_much)
{
    allowance may = move_allowance(device);
    if (is_much)
        may.allowed_ns += (TNRI_MUCH_BURSTS - 1) * may.burst_ns;
    if (atomic_load_explicit(&device->move_spent_ns, memory_order_relaxed) < may.allowed_ns)
        return 1;
    uint32_t granted = atomic_load_explicit(&device->moves_granted, memory_order_relaxed);
    while (granted > 0 &&
           !atomic_compare_exchange_weak_explicit(&device->moves_granted, &granted, granted - 1,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    return granted > 0;
}

int tnri_device_may_regrow(tnri_device *device, uint64_t chunks)
{
    allowance may = move_allowance(device);
    uint64_t spent_ns = atomic_load_explicit(&device->move_spent_ns, memory_order_relaxed);
    uint64_t left_ns = may.burst_ns - may.burst_ns / TNRI_REGROW_BURST;
    return spent_ns + left_ns < may.allowed_ns &&
           spent_ns + chunks * TNRI_REGROW_TIMES * TNRI_MOVE_NS < may.allowed_ns;
}

int tnri_device_may_lend(tnri_device *device)
{
    return atomic_load_explicit(&device->loan_spent_ns, memory_order_relaxed) <
           loan_allowance(device).allowed_ns;
}

void tnri_device_short(tnri_device *device)
{
    atomic_store_explicit(&device->moves_granted, TNRI_SHORT_GRANT, memory_order_relaxed);
}

static void budget_charge(_Atomic uint64_t *budget, uint64_t ns, allowance may)
{
    uint64_t spent_ns = atomic_load_explicit(budget, memory_order_relaxed);
    uint64_t raised_ns;
    do {
        /* What was not used in a long quiet time is not saved up beyond one burst. */
        uint64_t least_ns = may.allowed_ns - may.burst_ns;
        raised_ns = (spent_ns < least_ns ? least_ns : spent_ns) + ns;
    } while (!atomic_compare_exchange_weak_explicit(budget, &spent_ns, raised_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
}

void tnri_device_moved(tnri_device *device, size_t chunks, size_t chunks_all, uint64_t began_ns)
{
    uint64_t least_ns = (uint64_t)chunks * TNRI_MOVE_NS;
    uint64_t took_ns = (tnri_decision_ns() - began_ns) / chunks_all * chunks / 2 * 3;
    budget_charge(&device->move_spent_ns, took_ns > least_ns ? took_ns : least_ns,
                  move_allowance(device));
}

void tnri_device_regrew(tnri_device *device, size_t chunks, uint64_t began_ns)
{
    size_t moves = 1 + chunks * TNRI_REGROW_TIMES; /* to ask costs as much as a move, or less */
    tnri_device_moved(device, moves, moves, began_ns);
}

void tnri_device_lent(tnri_device *device, uint64_t began_ns)
{
    uint64_t took_ns = tnri_decision_ns() - began_ns;
    uint64_t ns = took_ns > TNRI_LOAN_NS ? took_ns : TNRI_LOAN_NS;
    budget_charge(&device->move_spent_ns, ns, move_allowance(device));
    budget_charge(&device->loan_spent_ns, ns, loan_allowance(device));
}
