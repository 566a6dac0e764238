/* SPDX-License-Identifier: Apache-2.0 */
/* Vector clocks: see clock.h. */
#include "memory/stream/clock.h"

#include <string.h>

#include "base/assert.h"
#include "base/host_memory.h"

static size_t clock_bytes(size_t count)
{
    return sizeof(tnri_clock) + count * sizeof(tnri_clock_entry);
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

uint64_t tnri_clock_of(const tnri_clock *clock, size_t index)
{
    size_t from = 0;
    size_t end = clock == NULL ? 0 : clock->count;
    while (from < end) {
        size_t middle = (from + end) / 2;
        if (clock->entries[middle].index == index)
            return clock->entries[middle].number;
        if (clock->entries[middle].index < index)
            from = middle + 1;
        else
            end = middle;
    }
    return 0;
}

/* 1 if `clock` knows all of the other already. */
static int clock_covers(const tnri_clock *clock, const tnri_clock *other)
{
    for (size_t i = 0; other != NULL && i < other->count; i++)
        if (tnri_clock_of(clock, other->entries[i].index) < other->entries[i].number)
            return 0;
    return 1;
}

/* Entries on their way into a clock: twice as many as it may have, and one. */
typedef struct gathered {
    size_t count;
    tnri_clock_entry entries[2 * TNRI_CLOCK_ENTRIES_MAX + 1];
} gathered;

static void gather(gathered *all, tnri_clock_entry entry)
{
    all->entries[all->count++] = entry;
}

/* Merges two lists by index; of two entries of one stream the later one counts. */
static void clocks_merge(gathered *all, const tnri_clock *clock, const tnri_clock *other)
{
    size_t mine_count = clock == NULL ? 0 : clock->count;
    size_t their_count = other == NULL ? 0 : other->count;
    size_t i = 0;
    size_t k = 0;
    while (i < mine_count || k < their_count) {
        const tnri_clock_entry *mine = i < mine_count ? &clock->entries[i] : NULL;
        const tnri_clock_entry *theirs = k < their_count ? &other->entries[k] : NULL;
        int take_mine = theirs == NULL || (mine != NULL && mine->index <= theirs->index);
        int take_theirs = mine == NULL || (theirs != NULL && theirs->index <= mine->index);
        i += (size_t)take_mine;
        k += (size_t)take_theirs;
        if (take_mine && take_theirs)
            gather(all, mine->number > theirs->number ? *mine : *theirs);
        else
            gather(all, take_mine ? *mine : *theirs);
    }
}

/* Enters one more, in its place. */
static void gathered_enter(gathered *all, size_t index, uint64_t number)
{
    size_t at = 0;
    while (at < all->count && all->entries[at].index < index)
        at++;
    if (at < all->count && all->entries[at].index == index) {
        if (all->entries[at].number < number)
            all->entries[at].number = number;
        return;
    }
    memmove(&all->entries[at + 1], &all->entries[at], (all->count - at) * sizeof(all->entries[0]));
    all->entries[at] = (tnri_clock_entry){number, index};
    all->count++;
}

/* Drops the lowest number. */
static void gathered_forget_oldest(gathered *all)
{
    size_t oldest = 0;
    for (size_t i = 1; i < all->count; i++)
        if (all->entries[i].number < all->entries[oldest].number)
            oldest = i;
    all->count--;
    memmove(&all->entries[oldest], &all->entries[oldest + 1],
            (all->count - oldest) * sizeof(all->entries[0]));
}

tnri_clock *tnri_clock_join(tnri_clock *clock, const tnri_clock *other, size_t index,
                            uint64_t number)
{
    if (tnri_clock_of(clock, index) >= number && clock_covers(clock, other))
        return clock;
    gathered all;
    all.count = 0;
    clocks_merge(&all, clock, other);
    if (number > 0)
        gathered_enter(&all, index, number);
    while (all.count > TNRI_CLOCK_ENTRIES_MAX)
        gathered_forget_oldest(&all);
    tnri_clock *joined = tnri_host_alloc(clock_bytes(all.count));
    if (joined == NULL)
        return clock;
    atomic_init(&joined->holders, 1);
    joined->count = (uint32_t)all.count;
    memcpy(joined->entries, all.entries, all.count * sizeof(all.entries[0]));
    tnri_clock_drop(clock);
    return joined;
}
