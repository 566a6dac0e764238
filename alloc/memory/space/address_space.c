/* SPDX-License-Identifier: Apache-2.0 */
/* Dealing out a device's addresses: see address_space.h. */
#include "memory/space/address_space.h"

#include "base/assert.h"
#include "base/host_memory.h"

static size_t pages_table_bytes(const tnri_space *space)
{
    return (space->bytes >> space->page_shift) * sizeof(space->pages[0]);
}

int tnri_space_create(tnri_space *space, uintptr_t base, size_t bytes, unsigned page_shift)
{
    tnri_assert(page_shift >= TNRI_GRANULE_SHIFT && page_shift <= TNRI_SPAN_LOG2_MAX);
    tnri_lock_init(&space->lock, TNRI_RANK_SPACE);
    space->base = base;
    space->bytes = bytes;
    space->page_shift = page_shift;
    space->used_bytes = 0;
    if (!tnri_block_map_create(&space->map, base, bytes))
        return 0;
    space->pages = tnri_host_reserve(pages_table_bytes(space));
    if (space->pages != NULL)
        space->aliases = tnri_host_reserve(pages_table_bytes(space));
    if (space->pages != NULL && space->aliases != NULL)
        return 1;
    if (space->pages != NULL)
        tnri_host_unreserve(space->pages, pages_table_bytes(space));
    space->pages = NULL;
    tnri_block_map_destroy(&space->map);
    return 0;
}

void tnri_space_destroy(tnri_space *space)
{
    while (space->returned != NULL) {
        tnri_span *range = space->returned;
        space->returned = range->next;
        tnri_host_free(range, sizeof(*range));
    }
    tnri_host_unreserve(space->pages, pages_table_bytes(space));
    tnri_host_unreserve(space->aliases, pages_table_bytes(space));
    space->pages = space->aliases = NULL;
    tnri_block_map_destroy(&space->map);
}

static unsigned span_log2(const tnri_space *space, size_t bytes)
{
    unsigned log2 = space->page_shift > TNRI_SPAN_LOG2_MIN ? space->page_shift : TNRI_SPAN_LOG2_MIN;
    while (log2 < TNRI_SPAN_LOG2_MAX && (size_t)1 << log2 < bytes)
        log2++;
    return log2;
}

/* Where the smallest returned range of at least `bytes` hangs, the lowest of several; null if there
 * is none. A range at the end of what was dealt out grows into what was not, if none fits and that
 * is enough. Under the lock. */
static tnri_span **returned_find(tnri_space *space, size_t bytes)
{
    tnri_span **best = NULL;
    tnri_span **last = NULL;
    for (tnri_span **link = &space->returned; *link != NULL; link = &(*link)->next) {
        if ((*link)->bytes >= bytes && (best == NULL || (*link)->bytes < (*best)->bytes))
            best = link;
        last = link;
    }
    if (best != NULL || last == NULL ||
        (*last)->base + (*last)->bytes != space->base + space->used_bytes ||
        space->bytes - space->used_bytes < bytes - (*last)->bytes)
        return best;
    space->used_bytes += bytes - (*last)->bytes;
    (*last)->bytes = bytes;
    return last;
}

/* A span of exactly `bytes` from the lower end of a returned range; null if there is no host memory
 * for the record of the rest. Under the lock. */
static tnri_span *returned_cut(tnri_span **link, size_t bytes)
{
    tnri_span *range = *link;
    if (range->bytes == bytes) {
        *link = range->next;
        return range;
    }
    tnri_span *span = tnri_host_alloc(sizeof(*span));
    if (span == NULL)
        return NULL;
    span->base = range->base;
    span->bytes = bytes;
    range->base += bytes;
    range->bytes -= bytes;
    return span;
}

/* Joins a range with the one above if they touch. Under the lock. */
static void returned_join(tnri_span *range)
{
    tnri_span *above = range->next;
    if (above == NULL || range->base + range->bytes != above->base)
        return;
    range->bytes += above->bytes;
    range->next = above->next;
    tnri_host_free(above, sizeof(*above));
}

tnri_span *tnri_space_take(tnri_space *space, size_t bytes, int *addresses_left)
{
    *addresses_left = 1;
    unsigned log2 = span_log2(space, bytes);
    size_t span_bytes = (size_t)1 << log2;
    if (span_bytes < bytes) {
        *addresses_left = 0;
        return NULL;
    }
    tnri_lock_take(&space->lock);
    tnri_span *span = NULL;
    tnri_span **returned = returned_find(space, span_bytes);
    if (returned != NULL) {
        span = returned_cut(returned, span_bytes);
    } else if (space->bytes - space->used_bytes >= span_bytes) {
        span = tnri_host_alloc(sizeof(*span));
        if (span != NULL) {
            span->base = space->base + space->used_bytes;
            span->bytes = span_bytes;
            space->used_bytes += span_bytes;
        }
    } else {
        *addresses_left = 0;
    }
    tnri_lock_release(&space->lock);
    if (span != NULL)
        span->begun = span->bytes;
    return span;
}

/* Puts a range among the returned ones. Under the lock. */
static void returned_put(tnri_space *space, tnri_span *span)
{
    tnri_span *below = NULL;
    tnri_span **link = &space->returned;
    while (*link != NULL && (*link)->base < span->base) {
        below = *link;
        link = &below->next;
    }
    span->next = *link;
    *link = span;
    returned_join(span);
    if (below != NULL)
        returned_join(below);
}

void tnri_space_return(tnri_space *space, tnri_span *span)
{
    size_t begun = (span->begun + TNRI_GRANULE_BYTES - 1) & ~(TNRI_GRANULE_BYTES - 1);
    tnri_block_map_wipe(&space->map, span->base, begun);
    tnri_lock_take(&space->lock);
    returned_put(space, span);
    tnri_lock_release(&space->lock);
}

/* ---- at an address -------------------------------------------------------------------------- */

/* Has everything below `end` dealt out or returned. 0: no host memory. Under the lock. */
static int used_reach(tnri_space *space, uintptr_t end)
{
    uintptr_t used_end = space->base + space->used_bytes;
    if (end <= used_end)
        return 1;
    tnri_span *rest = tnri_host_alloc(sizeof(*rest));
    if (rest == NULL)
        return 0;
    rest->base = used_end;
    rest->bytes = end - used_end;
    space->used_bytes = end - space->base;
    returned_put(space, rest);
    return 1;
}

/* Cuts a span out of the middle of a returned range. Null: no host memory. Under the lock. */
static tnri_span *returned_cut_at(tnri_span **link, uintptr_t base, size_t bytes)
{
    tnri_span *range = *link;
    size_t below = base - range->base;
    if (below == 0)
        return returned_cut(link, bytes);
    tnri_span *upper = tnri_host_alloc(sizeof(*upper));
    if (upper == NULL)
        return NULL;
    upper->base = base;
    upper->bytes = range->bytes - below;
    upper->next = range->next;
    range->bytes = below;
    range->next = upper;
    tnri_span *span = returned_cut(&range->next, bytes);
    if (span == NULL)
        returned_join(range);
    return span;
}

tnri_span *tnri_space_take_at(tnri_space *space, uintptr_t base, size_t bytes, int *is_free)
{
    tnri_span *span = NULL;
    tnri_assert(base - space->base <= space->bytes - bytes);
    tnri_lock_take(&space->lock);
    *is_free = 1;
    if (used_reach(space, base + bytes)) {
        tnri_span **link = &space->returned;
        while (*link != NULL && (*link)->base + (*link)->bytes < base + bytes)
            link = &(*link)->next;
        *is_free = *link != NULL && (*link)->base <= base;
        if (*is_free)
            span = returned_cut_at(link, base, bytes);
    }
    tnri_lock_release(&space->lock);
    if (span != NULL)
        span->begun = span->bytes;
    return span;
}

tnri_span *tnri_space_take_far(tnri_space *space, size_t bytes, uint64_t salt)
{
    enum { PLACES_MAX = 4096 };
    size_t span_bytes = (size_t)1 << span_log2(space, bytes);
    size_t half = space->bytes / 2 & ~(tnri_page_bytes(space) - 1);
    size_t places = span_bytes < bytes ? 0 : half / span_bytes;
    tnri_span *span = NULL;
    int is_free = 0;
    if (places > PLACES_MAX)
        places = PLACES_MAX;
    for (size_t i = 0; i < places && !is_free; i++) {
        size_t place = (size_t)((salt + i) % places);
        span = tnri_space_take_at(space, space->base + space->bytes - half + place * span_bytes,
                                  span_bytes, &is_free);
    }
    return span;
}
