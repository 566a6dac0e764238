/* SPDX-License-Identifier: Apache-2.0 */
/* Which clock, and how fast it runs: see ticks.h. */
#include "base/ticks.h"

#include "base/prim/clock.h"

int tnri_ticks_counter;
uint64_t tnri_ticks_zero;

/* Both clocks at the moment 0. Constant after the first tnri_ticks_start. */
static struct {
    int is_started;
    uint64_t system_ns, epoch_us;
} zero;

void tnri_ticks_start(void)
{
    if (zero.is_started)
        return;
    tnri_ticks_counter = tnri_counter_is_good();
    zero.system_ns = tnri_clock_ns();
    tnri_ticks_zero = tnri_ticks();
    zero.epoch_us = tnri_clock_epoch_ns() / 1000;
    zero.is_started = 1;
}

tnri_ticks_scale tnri_ticks_scale_make(void)
{
    tnri_ticks_scale scale = {tnri_ticks_zero, 1.0, 0, zero.epoch_us};
    uint64_t system_ns = tnri_clock_ns();
    scale.now = tnri_ticks();
    if (scale.now > tnri_ticks_zero && system_ns > zero.system_ns)
        scale.ns_per_tick =
            (double)(system_ns - zero.system_ns) / (double)(scale.now - tnri_ticks_zero);
    return scale;
}
