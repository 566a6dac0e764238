/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of a range: see range.h. */
#include "memory/arena/range.h"

#include <string.h>

#include "base/host_memory.h"
#include "memory/arena/count.h"
#include "memory/arena/note.h"
#include "memory/arena/run.h"
#include "memory/arena/world_move.h"
#include "memory/arena/world_retired.h"
#include "memory/device/device.h"

static tnri_world *range_world(tnri_arena *arena)
{
    return &arena->worlds[TNRI_LARGE];
}

/* The number of the page at an address. */
static size_t range_page(const tnri_arena *arena, uintptr_t address)
{
    return (address - arena->growable.base) >> tnri_arena_space(arena)->page_shift;
}

/* ---- the whole ------------------------------------------------------------------------------ */

int tnri_range_open(tnri_arena *arena)
{
    tnri_assert_held(&arena->lock);
    tnri_growable *growable = &arena->growable;
    tnri_space *space = tnri_arena_space(arena);
    size_t page_mask = tnri_page_bytes(space) - 1;
    size_t pages = range_world(arena)->spans_bytes >> space->page_shift;
    tnri_range *range = growable->range;
    if (range == NULL) {
        size_t bytes = sizeof(*range) + pages * sizeof(range->live[0]);
        range = tnri_host_alloc(bytes);
        if (range == NULL)
            return 0;
        memset(range, 0, bytes);
        range->pages = pages;
        growable->range = range;
        growable->range_bytes = bytes;
    }
    tnri_block *whole = &range->whole;
    whole->base = growable->base;
    whole->bytes = (growable->bytes_max + page_mask) & ~page_mask;
    whole->what = tnri_block_what(TNRI_LIVE, whole->bytes - growable->bytes_max);
    whole->world = range_world(arena);
    tnri_block_map_enter_start(&space->map, whole);
    tnri_block_map_extend(&space->map, whole, whole->base);
    return 1;
}

void tnri_range_close(tnri_arena *arena)
{
    tnri_range *range = arena->growable.range;
    tnri_assert_held(&arena->lock);
    tnri_assert(arena->growable.is_bare);
    range->whole.what = tnri_block_what(TNRI_UNUSED, 0);
    range->whole.uses = NULL;
    range->whole.content = 0;
    memset(range->live, 0, range->pages * sizeof(range->live[0]));
    tnri_block_map_enter_start(&tnri_arena_space(arena)->map, range_world(arena)->span_first[0]);
}

/* ---- pages ---------------------------------------------------------------------------------- */

tnri_block *tnri_range_record(const tnri_arena *arena, size_t page)
{
    const tnri_range *range = arena->growable.range;
    tnri_assert_held(&arena->lock);
    tnri_assert(page < range->pages);
    size_t below = page + 1;
    while (below > 0 && range->live[below - 1] == NULL)
        below--;
    tnri_block *record =
        below > 0 ? range->live[below - 1] : arena->worlds[TNRI_LARGE].span_first[0];
    while (range_page(arena, tnri_block_end(record)) <= page)
        record = record->above;
    return record;
}

tnri_block *tnri_range_settle(tnri_arena *arena, tnri_block *pending)
{
    tnri_range *range = arena->growable.range;
    tnri_world *world = range_world(arena);
    size_t page_bytes = tnri_page_bytes(world->space);
    const tnri_request request = {page_bytes, page_bytes, TNR_ALIGNMENT_DEFAULT};
    uintptr_t end = tnri_block_end(pending);
    tnri_block *first = pending;
    tnri_assert_held(&arena->lock);
    tnri_world_unpromise(world, range->promised);
    range->promised = 0;
    for (tnri_block *page = pending; page != NULL && page->base < end; page = page->above) {
        tnri_world_page(world, page, page_bytes);
        range->live[range_page(arena, page->base)] = page;
        tnri_arena_count_served(arena, page, &request, TNR_SERVED_GROWN);
    }
    return first;
}

size_t tnri_range_take_free(tnri_arena *arena, tnri_block *run, size_t page, size_t end)
{
    tnri_world *world = range_world(arena);
    unsigned shift = world->space->page_shift;
    size_t run_end = range_page(arena, tnri_block_end(run));
    size_t pages = (run_end < end ? run_end : end) - page;
    uintptr_t base = arena->growable.base + (page << shift);
    if (!tnri_world_spares(world, TNRI_CARVE_RECORDS + pages))
        return 0;
    tnri_block *claim = tnri_world_claim(world, run, base, base + (pages << shift));
    (void)tnri_range_settle(arena, claim);
    return pages;
}

void tnri_range_drop(tnri_arena *arena, size_t page)
{
    tnri_world *world = range_world(arena);
    tnri_block *block = arena->growable.range->live[page];
    arena->growable.range->live[page] = NULL;
    tnri_arena_count_freed_because(arena, block, TNR_REUSE_SAME_STREAM);
    (void)tnri_world_free(world, block);
    tnri_world_look_trough(world);
}

/* ---- the free of the whole ------------------------------------------------------------------ */

void tnri_range_retire(tnri_arena *arena)
{
    tnri_range *range = arena->growable.range;
    tnri_assert(range->whole.state == TNRI_LIVE);
    for (size_t page = 0; page < range->pages; page++) {
        tnri_block *block = range->live[page];
        if (block == NULL)
            continue;
        block->uses = range->whole.uses; /* what it waits for, for the history and pictures */
        tnri_arena_count_freed(arena, block);
        tnri_world_retire(range_world(arena), block);
        range->live[page] = NULL;
    }
    tnri_arena_count_bare(arena, 1);
    arena->growable.is_bare = 0;
    range->whole.content = 0;
    range->whole.state = TNRI_RETIRED;
}

void tnri_range_unretire(tnri_arena *arena, tnr_reuse reason)
{
    tnri_range *range = arena->growable.range;
    tnri_world *world = range_world(arena);
    const struct tnri_uses *uses = range->whole.uses;
    for (tnri_block *block = world->span_first[0]; block != NULL; block = block->above) {
        if (block->state != TNRI_RETIRED || block->uses != uses)
            continue;
        block->uses = NULL;
        arena->freed_because[reason]++;
        tnri_note_reuse(arena, block, reason);
        block = tnri_world_free(world, block);
    }
    range->whole.what = tnri_block_what(TNRI_UNUSED, 0);
    range->whole.uses = NULL;
}

/* ---- checking ------------------------------------------------------------------------------- */

const char *tnri_range_validate(const tnri_arena *arena)
{
    const tnri_range *range = tnri_range_of(arena);
    if (range == NULL)
        return NULL;
    const tnri_world *world = &arena->worlds[TNRI_LARGE];
    size_t count = 0, page_bytes = tnri_page_bytes(world->space);
    if (!arena->growable.is_bare || range->whole.uses == NULL)
        return "a range is not counted apart from its pages, or has no list of uses";
    if (tnri_block_map_at(&world->space->map, range->whole.base) != &range->whole)
        return "the map does not lead to a range";
    for (size_t page = 0; page < range->pages; page++) {
        const tnri_block *block = range->live[page];
        if (block == NULL)
            continue;
        count++;
        if (block->state != TNRI_LIVE || block->bytes != page_bytes || block->uses != NULL ||
            range_page(arena, block->base) != page)
            return "a page of a range is not what its table says";
    }
    return count == world->count_in[TNRI_LIVE] ? NULL : "a range has pages that its table lacks";
}
