/* SPDX-License-Identifier: Apache-2.0 */
/* Vector clocks: see clock.h. */
#include "clock.h"

#include "base/host_memory.h"

static size_t clock_bytes(size_t count)
{
    return sizeof(tnri_clock) + count * sizeof(uint64_t);
}

tnri_clock *tnri_clock_hold(tnri_clock *clock)
{
    if (clock != NULL)
        atomic_fetch_add_explicit(&clock->holders, 1, memory_order_relaxed);
    return clock;
}

void tnri_clock_drop(tnri_clock *clock)
{
    if (clock != NULL && atomic_fetch_sub_explicit(&clock->holders, 1, memory_order_acq_rel) == 1)
        tnri_host_free(clock, clock_bytes(clock->count));
}

/* 1 if `clock` knows all of it already. */
static int clock_covers(const tnri_clock *clock, const tnri_clock *other)
{
    for (size_t i = 0; other != NULL && i < other->count; i++)
        if (tnri_clock_of(clock, i) < other->numbers[i])
            return 0;
    return 1;
}

tnri_clock *tnri_clock_join(tnri_clock *clock, const tnri_clock *other, size_t index,
                            uint64_t number)
{
    if (tnri_clock_of(clock, index) >= number && clock_covers(clock, other))
        return clock;
    size_t count = index + 1;
    if (clock != NULL && clock->count > count)
        count = clock->count;
    if (other != NULL && other->count > count)
        count = other->count;
    tnri_clock *joined = tnri_host_alloc(clock_bytes(count));
    if (joined == NULL)
        return clock;
    atomic_init(&joined->holders, 1);
    joined->count = count;
    for (size_t i = 0; i < count; i++) {
        uint64_t mine = tnri_clock_of(clock, i);
        uint64_t theirs = tnri_clock_of(other, i);
        joined->numbers[i] = mine > theirs ? mine : theirs;
    }
    if (joined->numbers[index] < number)
        joined->numbers[index] = number;
    tnri_clock_drop(clock);
    return joined;
}
