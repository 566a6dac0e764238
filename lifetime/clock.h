/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks: what a stream's next work is ordered after.
 *
 * A mark is a point in a stream; marks are numbered from one counter of the process, so that the
 * numbers of each stream grow. A stream's clock holds, for every other stream (by its index), the
 * number of the latest mark there that this stream already waits for. Since numbers are never used
 * again, neither are they confused when an index is.
 *
 * A clock is immutable and counted by reference: announcing an event keeps the clock of its
 * stream as it was, without copying it. Running out of host memory loses knowledge, never safety:
 * the old clock stays.
 */
#ifndef TNRI_LIFETIME_CLOCK_H
#define TNRI_LIFETIME_CLOCK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tnri_clock {
    _Atomic uint32_t holders;
    size_t count;       /* constant */
    uint64_t numbers[]; /* constant; streams from `count` on have 0 */
} tnri_clock;

/* The number for a stream; 0 for a null clock. */
static inline uint64_t tnri_clock_of(const tnri_clock *clock, size_t index)
{
    return clock != NULL && index < clock->count ? clock->numbers[index] : 0;
}

/* The clock that knows what both know, and `number` of the stream `index`. Takes over the
 * reference to `clock` and returns one to the result, which may be the same. `other` may be
 * null. */
tnri_clock *tnri_clock_join(tnri_clock *clock, const tnri_clock *other, size_t index,
                            uint64_t number);

tnri_clock *tnri_clock_hold(tnri_clock *clock);
void tnri_clock_drop(tnri_clock *clock);

#endif
