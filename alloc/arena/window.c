/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a window: see window.h.
 *
 * Every stretch that lacks memory contains a HOLE, so stretches are found from the list of holes;
 * each is looked at once, from its lowest hole. Within a stretch the candidates are the windows
 * that start where a record starts and those that end where a record ends: moving a window between
 * two such places can only lose mapped bytes at one end as fast as it gains them at the other.
 */
#include "arena/window.h"

#include "base/assert.h"

enum {
    STRETCHES_MAX = 512, /* looked at for one request */
    RECORDS_MAX = 64     /* of one stretch; what lies above them is not considered */
};

static int block_is_open(const tnri_block *block, size_t run_bytes_max)
{
    return block != NULL && ((block->state == TNRI_FREE && block->bytes <= run_bytes_max) ||
                             block->state == TNRI_HOLE);
}

/* Bytes of hole pages that [base, end) touches within one record. */
static size_t hole_bytes(const tnri_space *space, const tnri_block *block, uintptr_t base,
                         uintptr_t end)
{
    if (block->state != TNRI_HOLE || block->base >= end || tnri_block_end(block) <= base)
        return 0;
    uintptr_t page_mask = tnri_page_bytes(space) - 1;
    uintptr_t from = base > block->base ? base & ~page_mask : block->base;
    uintptr_t to =
        end < tnri_block_end(block) ? (end + page_mask) & ~page_mask : tnri_block_end(block);
    return to - from;
}

/* Keeps the window at `base` if it is better than what was found before. */
static void window_offer(const tnri_world *world, tnri_block *const *records, size_t count,
                         size_t first, uintptr_t base, size_t bytes, tnri_window *best)
{
    uintptr_t end = base + bytes;
    size_t missing = 0;
    for (size_t i = first; i < count && records[i]->base < end; i++)
        missing += hole_bytes(world->space, records[i], base, end);
    missing >>= world->space->page_shift;
    if (best->first != NULL &&
        (missing > best->pages_missing || (missing == best->pages_missing && base >= best->base)))
        return;
    best->first = records[first];
    best->base = base;
    best->end = end;
    best->pages_missing = missing;
}

/* Offers all candidates of one stretch, given by its records in address order. */
static void stretch_offer(const tnri_world *world, tnri_block *const *records, size_t count,
                          size_t bytes, tnri_window *best)
{
    uintptr_t low = records[0]->base;
    uintptr_t high = tnri_block_end(records[count - 1]);
    if (high - low < bytes)
        return;
    for (size_t i = 0; i < count; i++)
        if (high - records[i]->base >= bytes)
            window_offer(world, records, count, i, records[i]->base, bytes, best);
    size_t first = 0;
    for (size_t i = 0; i < count; i++) {
        uintptr_t end = tnri_block_end(records[i]);
        if (end - low < bytes)
            continue;
        uintptr_t base = end - bytes;
        while (tnri_block_end(records[first]) <= base)
            first++;
        window_offer(world, records, count, first, base, bytes, best);
    }
}

int tnri_window_find(const tnri_world *world, size_t bytes, size_t run_bytes_max,
                     tnri_window *window)
{
    window->first = NULL;
    size_t stretches = 0;
    for (tnri_block *hole = world->holes; hole != NULL; hole = hole->next) {
        tnri_block *lowest = hole;
        if (block_is_open(lowest->below, run_bytes_max))
            lowest = lowest->below;
        if (lowest != hole && block_is_open(lowest->below, run_bytes_max))
            continue; /* a lower hole leads to this stretch */
        tnri_assert_hot(lowest == hole || lowest->state == TNRI_FREE);
        tnri_block *records[RECORDS_MAX];
        size_t count = 0;
        for (tnri_block *record = lowest;
             block_is_open(record, run_bytes_max) && count < RECORDS_MAX; record = record->above)
            records[count++] = record;
        stretch_offer(world, records, count, bytes, window);
        if (++stretches == STRETCHES_MAX && window->first != NULL)
            break;
    }
    return window->first != NULL;
}
