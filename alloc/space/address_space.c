/* SPDX-License-Identifier: Apache-2.0 */
/* Dealing out a device's addresses: see address_space.h. */
#include "space/address_space.h"

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
        return 1;
    tnri_block_map_destroy(&space->map);
    return 0;
}

void tnri_space_destroy(tnri_space *space)
{
    for (unsigned log2 = 0; log2 <= TNRI_SPAN_LOG2_MAX; log2++) {
        while (space->returned[log2] != NULL) {
            tnri_span *span = space->returned[log2];
            space->returned[log2] = span->next;
            tnri_host_free(span, sizeof(*span));
        }
    }
    tnri_host_unreserve(space->pages, pages_table_bytes(space));
    space->pages = NULL;
    tnri_block_map_destroy(&space->map);
}

static unsigned span_log2(const tnri_space *space, size_t bytes)
{
    unsigned log2 = space->page_shift > TNRI_SPAN_LOG2_MIN ? space->page_shift : TNRI_SPAN_LOG2_MIN;
    while (log2 < TNRI_SPAN_LOG2_MAX && (size_t)1 << log2 < bytes)
        log2++;
    return log2;
}

/* Cuts a returned span in two halves until one of size 2^log2 is on its list. Uses `half` as the
 * record of each upper half; gives up when there is no host memory for one. Under the lock. */
static int span_split(tnri_space *space, unsigned log2)
{
    unsigned larger = log2 + 1;
    while (larger <= TNRI_SPAN_LOG2_MAX && space->returned[larger] == NULL)
        larger++;
    if (larger > TNRI_SPAN_LOG2_MAX)
        return 0;
    for (; larger > log2; larger--) {
        tnri_span *upper = tnri_host_alloc(sizeof(*upper));
        if (upper == NULL)
            return space->returned[log2] != NULL;
        tnri_span *lower = space->returned[larger];
        space->returned[larger] = lower->next;
        lower->bytes /= 2;
        upper->bytes = lower->bytes;
        upper->base = lower->base + lower->bytes;
        upper->next = space->returned[larger - 1];
        lower->next = upper;
        space->returned[larger - 1] = lower;
    }
    return 1;
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
    if (space->returned[log2] != NULL || span_split(space, log2)) {
        span = space->returned[log2];
        space->returned[log2] = span->next;
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
    return span;
}

void tnri_space_return(tnri_space *space, tnri_span *span)
{
    tnri_block_map_wipe(&space->map, span->base, span->bytes);
    unsigned log2 = (unsigned)__builtin_ctzll(span->bytes);
    tnri_lock_take(&space->lock);
    span->next = space->returned[log2];
    space->returned[log2] = span;
    tnri_lock_release(&space->lock);
}
