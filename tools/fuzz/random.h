/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generator of random numbers that everything drawn comes from: SplitMix64. Its state is a
 * counter, so a program is a function of its seed and nothing else.
 */
#ifndef TENURE_FUZZ_RANDOM_H
#define TENURE_FUZZ_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* From 0, below `bound`, which must not be 0 and should be far below 2^32. */
static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return (random_next(state) >> 32) * bound >> 32;
}

#endif
