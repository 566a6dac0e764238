/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks: what a stream's next work is ordered after.
 *
 * A mark is a point in a stream. One counter of the process numbers all marks, so that the numbers
 * of each stream grow. A stream's clock holds, for other streams (by their index), the number of
 * the latest mark there that this stream already waits for. Indexes are used again, but numbers
 * never are, so marks of two streams that had the same index are not confused.
 *
 * A clock lists only streams that it knows something of, in the order of their indexes, and of
 * these only the TNRI_CLOCK_ENTRIES_MAX with the highest numbers: a mark that was waited for long
 * ago is most likely over. So a clock's size does not grow with the number of streams that exist. A
 * dropped entry costs precision, never safety.
 *
 * A clock is immutable and counted by reference. So an announcement of an event keeps the clock of
 * the event's stream as it was, without a copy. A lack of host memory loses knowledge, never
 * safety: the old clock stays.
 */
#ifndef TNRI_STREAM_CLOCK_H
#define TNRI_STREAM_CLOCK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { TNRI_CLOCK_ENTRIES_MAX = 96 };

typedef struct tnri_clock_entry {
    uint64_t number; /* of the mark; above 0 */
    uint64_t index;  /* of the stream */
} tnri_clock_entry;

typedef struct tnri_clock {
    _Atomic uint32_t holders;
    uint32_t count;             /* constant; at least 1 */
    tnri_clock_entry entries[]; /* constant; by rising index */
} tnri_clock;

/* The number for a stream; 0 for one that is not listed, and for a null clock. */
uint64_t tnri_clock_of(const tnri_clock *clock, size_t index);

/* The clock that knows what both know, and also `number` of the stream `index`. Takes over the
 * reference to `clock` and returns one to the result, which may be the same. `other` may be
 * null. */
tnri_clock *tnri_clock_join(tnri_clock *clock, const tnri_clock *other, size_t index,
                            uint64_t number);

tnri_clock *tnri_clock_hold(tnri_clock *clock);
void tnri_clock_drop(tnri_clock *clock);

#endif
