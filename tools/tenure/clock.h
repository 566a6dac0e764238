/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock for all times here, and the cost of reading it.
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

/* The median time between two readings with nothing in between: the clock's own share of a
 * measurement around a single call. */
uint64_t clock_overhead_ns(void);

#endif
