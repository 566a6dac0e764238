/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ticks: the cheapest clock there is, for the history, which looks at it with every operation.
 *
 * On x86-64 it is the time stamp counter, if the processor says that it runs at one rate in all
 * states; on arm64 the virtual counter; else the system's monotonic clock. Ticks are turned into
 * nanoseconds when a snapshot is written, by two looks at both clocks: one when the library is
 * started and one then. The counter is read without a barrier, so the ticks of two threads may be
 * some tens of nanoseconds out of order. Code that needs an order numbers its operations.
 */
#ifndef TNRI_BASE_TICKS_H
#define TNRI_BASE_TICKS_H

#include <stdint.h>

#include "base/assert.h"
#include "base/prim/clock.h"

/* 1: the processor's counter is good. Constant after tnri_ticks_start. */
extern int tnri_ticks_counter;
/* The moment 0. Constant after tnri_ticks_start. */
extern uint64_t tnri_ticks_zero;

static inline uint64_t tnri_ticks(void)
{
    return tnri_likely(tnri_ticks_counter) ? tnri_counter() : tnri_clock_ns();
}

/* Sets the moment 0; further calls do nothing. Under the library lock. */
void tnri_ticks_start(void);

/* How to turn ticks into nanoseconds since the moment 0. */
typedef struct tnri_ticks_scale {
    uint64_t zero;          /* ticks at the moment 0 */
    double ns_per_tick;     /* as measured until now */
    uint64_t now;           /* ticks when the scale was made */
    uint64_t zero_epoch_us; /* the moment 0 in microseconds since 1970 */
} tnri_ticks_scale;

tnri_ticks_scale tnri_ticks_scale_make(void);

static inline uint64_t tnri_ticks_ns(const tnri_ticks_scale *scale, uint64_t ticks)
{
    if (ticks <= scale->zero)
        return 0;
    return (uint64_t)((double)(ticks - scale->zero) * scale->ns_per_tick);
}

#endif
