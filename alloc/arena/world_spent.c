/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds of which nothing can be given: see world.h.
 *
 * While a world is spent its bins are shut: they are empty, none may be put in, and the large
 * world's bin counts as tried. So the first block that is freed finds no bin, and comes where it
 * is seen (tnri_world_bin), and nothing is added to the way of all others. What the bins knew is as
 * it was from then on, so that the same blocks are handed out as if nobody had looked.
 */
#include "arena/world_internal.h"
#include "device/chunk.h"

enum { SPENT_LOOKS_MAX = 64 }; /* free runs that are looked at before a world is left as it is */

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
    unsigned class_index = tnri_index_class(tnri_page_bytes(world->space));
    unsigned found;
    const tnri_block *run;
    for (; (run = tnri_index_from(world->index, class_index, &found)) != NULL;
         class_index = found + 1)
        for (; run != NULL; run = run->next) {
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
        tnri_world_has_whole(world, SPENT_LOOKS_MAX))
        return;
    world->is_spent = 1;
    world->spent_max = bins->max;
    world->spent_misses = bins->misses;
    bins->max = 0;
    bins->misses = 0;
    atomic_fetch_and_explicit(world->giving, ~world->giving_bit, memory_order_relaxed);
}

TNRI_SELDOM void tnri_world_unspend_now(tnri_world *world)
{
    tnri_bins *bins = &world->bins;
    world->is_spent = 0;
    bins->max = world->spent_max;
    if (bins->misses == 0) /* else a size came again meanwhile, and the bin gets another try */
        bins->misses = world->spent_misses;
    atomic_fetch_or_explicit(world->giving, world->giving_bit, memory_order_relaxed);
}

TNRI_SELDOM int tnri_world_bin_spent(tnri_world *world, tnri_block *block)
{
    tnri_world_unspend_now(world);
    return tnri_world_bin(world, block);
}
