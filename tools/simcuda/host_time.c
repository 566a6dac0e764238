/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that has passed for the program. It stands still, and moves only when simcuda_time_set
 * says so. The device itself takes no notice of it. It is an atomic, so that a call that only reads
 * the time waits for nobody.
 */
#include <stdatomic.h>

#include <tenure/simcuda.h>

static _Atomic uint64_t passed_ns;

uint64_t simcuda_time_ns(void)
{
    return atomic_load(&passed_ns);
}

void simcuda_time_set(uint64_t ns)
{
    uint64_t before = atomic_load(&passed_ns);
    while (before < ns && !atomic_compare_exchange_weak(&passed_ns, &before, ns))
        ;
}
