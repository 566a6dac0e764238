/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a window: see window.h.
 *
 * Every stretch that lacks memory contains a HOLE, so stretches are found from the list of holes;
 * each is looked at once, from its lowest hole. Within a stretch the candidates are the windows
 * that start where a record starts and those that end where a record ends: moving a window between
 * two such places can only lose mapped bytes at one end as fast as it gains them at the other. For
 * the same reason, if there is an alignment, the nearest aligned places below and above are
 * candidates.
 *
 * Of places that lack as many pages, a large block of whole pages takes one that begins with a
 * page. Anywhere else it would lie across the borders of all its chunks, and when it is freed, the
 * first and the last of them could not move.
 */
#include "miss/window.h"

#include "base/heuristics.h"
#include "base/assert.h"
#include "memory/arena/arena.h"

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

/* The records of one stretch, in address order, and what is to fit there. */
typedef struct stretch {
    const tnri_world *world;
    tnri_block *records[TNRI_WINDOW_RECORDS];
    size_t count;
    uintptr_t low, high;
    size_t bytes, alignment;
} stretch;

/* Keeps the window at `base`, which lies in record number `first`, if it is better than what was
 * found before. */
static void window_offer(const stretch *self, size_t first, uintptr_t base, tnri_window *best)
{
    uintptr_t end = base + self->bytes;
    size_t missing = 0;
    for (size_t i = first; i < self->count && self->records[i]->base < end; i++)
        missing += hole_bytes(self->world->space, self->records[i], base, end);
    missing >>= self->world->space->page_shift;
    if (best->first != NULL &&
        (missing > best->pages_missing || (missing == best->pages_missing && base >= best->base)))
        return;
    best->first = self->records[first];
    best->base = base;
    best->end = end;
    best->pages_missing = missing;
}

/* Offers the places at the alignment that are nearest to `base`, which lies in record number
 * `near`, on either side. Below 0 and above the highest address nothing is in reach: an address has
 * fewer than 63 bits. */
static void stretch_offer_at(const stretch *self, size_t near, uintptr_t base, tnri_window *best)
{
    uintptr_t lower = base & ~(self->alignment - 1);
    if (lower >= self->low && self->high - lower >= self->bytes) {
        size_t first = near;
        while (self->records[first]->base > lower)
            first--;
        window_offer(self, first, lower, best);
    }
    uintptr_t upper = lower + self->alignment;
    if (lower != base && upper <= self->high && self->high - upper >= self->bytes) {
        while (tnri_block_end(self->records[near]) <= upper)
            near++;
        window_offer(self, near, upper, best);
    }
}

/* Offers all candidates of one stretch. */
static void stretch_offer(const stretch *self, tnri_window *best)
{
    if (self->high - self->low < self->bytes)
        return;
    for (size_t i = 0; i < self->count; i++)
        stretch_offer_at(self, i, self->records[i]->base, best);
    size_t first = 0;
    for (size_t i = 0; i < self->count; i++) {
        uintptr_t end = tnri_block_end(self->records[i]);
        if (end - self->low < self->bytes)
            continue;
        uintptr_t base = end - self->bytes;
        while (tnri_block_end(self->records[first]) <= base)
            first++;
        stretch_offer_at(self, first, base, best);
    }
}

/* The best place of all stretches; `first` is null if there is none. */
static void window_search(const tnri_world *world, size_t bytes, size_t alignment,
                          size_t run_bytes_max, tnri_window *window)
{
    stretch self = {.world = world, .bytes = bytes, .alignment = alignment};
    window->first = NULL;
    size_t stretches = 0;
    for (tnri_block *hole = world->holes; hole != NULL; hole = hole->next) {
        tnri_block *lowest = hole;
        if (block_is_open(lowest->below, run_bytes_max))
            lowest = lowest->below;
        if (lowest != hole && block_is_open(lowest->below, run_bytes_max))
            continue; /* a lower hole leads to this stretch */
        tnri_assert_hot(lowest == hole || lowest->state == TNRI_FREE);
        self.count = 0;
        for (tnri_block *record = lowest;
             block_is_open(record, run_bytes_max) && self.count < TNRI_WINDOW_RECORDS;
             record = record->above)
            self.records[self.count++] = record;
        self.low = lowest->base;
        self.high = tnri_block_end(self.records[self.count - 1]);
        stretch_offer(&self, window);
        if (++stretches == TNRI_WINDOW_STRETCHES && window->first != NULL)
            break;
    }
}

int tnri_window_is_whole(const tnri_world *world, uintptr_t base, size_t bytes)
{
    return ((base | bytes) & (tnri_page_bytes(world->space) - 1)) == 0 &&
           bytes >= TNRI_PLACED_BYTES && tnri_arena_may_move(world->arena);
}

int tnri_window_find(const tnri_world *world, size_t bytes, size_t alignment, size_t run_bytes_max,
                     tnri_window *window)
{
    size_t page_bytes = tnri_page_bytes(world->space);
    tnri_window whole;
    window_search(world, bytes, alignment, run_bytes_max, window);
    if (window->first == NULL || alignment >= page_bytes ||
        tnri_window_is_whole(world, window->base, bytes) ||
        !tnri_window_is_whole(world, 0, bytes))
        return window->first != NULL;
    window_search(world, bytes, page_bytes, run_bytes_max, &whole);
    if (whole.first != NULL && whole.pages_missing <= window->pages_missing)
        *window = whole;
    return 1;
}
