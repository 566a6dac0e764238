/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds of which nothing can be given: see world_spent.h. */
#include "memory/arena/world_spent.h"

#include "base/heuristics.h"
#include "memory/device/chunk.h"

int tnri_run_whole_chunks(const tnri_space *space, const tnri_block *run, size_t *first,
                          size_t *end)
{
    uintptr_t page_mask = tnri_page_bytes(space) - 1;
    size_t page = tnri_page_of(space, (run->base + page_mask) & ~page_mask);
    size_t stop = tnri_page_of(space, tnri_block_end(run) & ~page_mask);
    /* A chunk that began below the run, or ends above it, is not whole. */
    while (page < stop && space->pages[page]->page != page)
        page++;
    while (stop > page) {
        const tnri_chunk *last = space->pages[stop - 1];
        if (last->page + last->pages == stop)
            break;
        stop = last->page > page ? last->page : page;
    }
    *first = page;
    *end = stop;
    return stop > page;
}

int tnri_world_has_whole(const tnri_world *world, int looks_max)
{
    tnri_index_walk walk = {tnri_index_class(tnri_page_bytes(world->space)), NULL};
    const tnri_block *run;
    while ((run = tnri_index_next(world->index, &walk)) != NULL) {
        size_t first, end;
        if (looks_max-- == 0 || tnri_run_whole_chunks(world->space, run, &first, &end))
            return 1;
    }
    return 0;
}

void tnri_world_spend(tnri_world *world)
{
    tnri_bins *bins = &world->bins;
    if (world->giving == NULL || world->is_spent || world->count_in[TNRI_BINNED] > 0 ||
        tnri_world_has_whole(world, TNRI_SPENT_LOOKS))
        return;
    world->is_spent = 1;
    world->spent_max = bins->max;
    world->spent_misses = bins->misses;
    bins->max = 0;
    bins->misses = 0;
    atomic_fetch_and_explicit(world->giving, ~world->giving_bit, memory_order_relaxed);
}
