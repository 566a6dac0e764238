/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the host can read: see visible.h. A list in the order of addresses. */
#include "check/visible.h"

#include <stdlib.h>
#include <string.h>

typedef struct range {
    uintptr_t base;
    size_t bytes;
    int is_pinned;
} range;

uintptr_t check_visible_low, check_visible_span;
static range *ranges;
static size_t count, room;
static int is_incomplete; /* one found no host memory */

/* The place of the first range that begins above the address. */
static size_t place_above(uintptr_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void bounds_grow(uintptr_t base, size_t bytes)
{
    uintptr_t end = check_visible_low + check_visible_span;
    if (check_visible_span == 0 || base < check_visible_low)
        check_visible_low = base;
    if (check_visible_span == 0 || base + bytes > end)
        end = base + bytes;
    check_visible_span = end - check_visible_low;
}

void check_visible_add(uintptr_t base, size_t bytes, int is_pinned)
{
    if (base == 0 || bytes == 0)
        return;
    bounds_grow(base, bytes);
    if (count == room) {
        size_t more = room * 2 + 16;
        range *grown = realloc(ranges, more * sizeof(*grown));
        is_incomplete |= grown == NULL;
        if (grown == NULL)
            return;
        ranges = grown;
        room = more;
    }
    size_t at = place_above(base);
    memmove(&ranges[at + 1], &ranges[at], (count++ - at) * sizeof(ranges[0]));
    ranges[at] = (range){base, bytes, is_pinned};
}

void check_visible_remove(uintptr_t base)
{
    size_t at = place_above(base);
    if (at == 0 || ranges[at - 1].base != base)
        return;
    memmove(&ranges[at - 1], &ranges[at], (count - at) * sizeof(ranges[0]));
    if (--count == 0 && !is_incomplete)
        check_visible_span = 0;
}

/* Null: the address is in none. */
static const range *range_at(uintptr_t address)
{
    size_t at = place_above(address);
    return at > 0 && address - ranges[at - 1].base < ranges[at - 1].bytes ? &ranges[at - 1] : NULL;
}

int check_visible_find(uintptr_t address)
{
    return is_incomplete || range_at(address) != NULL;
}

int check_is_pinned(uintptr_t address)
{
    const range *found = range_at(address);
    return found != NULL && found->is_pinned;
}

int check_visible_range(uintptr_t address, uintptr_t *base, uintptr_t *end)
{
    const range *found = range_at(address);
    if (found == NULL)
        return 0;
    *base = found->base;
    *end = found->base + found->bytes;
    return 1;
}
