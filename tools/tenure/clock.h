/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock that everything here is timed with, and what reading it costs.
 */
#ifndef TENURE_TOOLS_CLOCK_H
#define TENURE_TOOLS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The median time between two readings with nothing in between: what a measurement around a
 * single call contains of the clock itself. */
uint64_t clock_overhead_ns(void);

#endif
