/* SPDX-License-Identifier: Apache-2.0 */
/* The geometry of a world, moving memory: see world_move.h. */
#include "memory/arena/world_move.h"

#include "memory/arena/record.h"
#include "memory/device/chunk.h"

void tnri_world_add_span(tnri_world *world, tnri_span *span)
{
    tnri_assert(world->spans_own < TNRI_SPANS_MAX);
    tnri_block *hole = tnri_world_spare_take(world);
    hole->base = span->base;
    hole->bytes = span->bytes;
    hole->slack = 0;
    hole->below = NULL;
    hole->above = NULL;
    span->begun = 0;
    span->next = world->spans;
    world->spans = span;
    world->spans_bytes += span->bytes;
    world->span_first[world->spans_count++] = world->span_first[world->spans_own];
    world->span_first[world->spans_own++] = hole; /* before what is borrowed */
    tnri_record_enter(world, hole, TNRI_HOLE);
}

/* Cuts a record that is in no list so that it starts at `base`; the part below goes back into
 * `state`. Returns the part that starts at `base`. */
static tnri_block *record_trim_below(tnri_world *world, tnri_block *block, uintptr_t base,
                                     tnri_state state)
{
    if (block->base == base)
        return block;
    tnri_block *upper = tnri_record_split(world, block, base - block->base);
    tnri_record_enter(world, block, state);
    return upper;
}

/* The same at the other end. Returns the part that ends at `end`. */
static tnri_block *record_trim_above(tnri_world *world, tnri_block *block, uintptr_t end,
                                     tnri_state state)
{
    if (tnri_block_end(block) == end)
        return block;
    tnri_block *upper = tnri_record_split(world, block, end - block->base);
    tnri_record_enter(world, upper, state);
    return block;
}

tnri_block *tnri_world_cut(tnri_world *world, tnri_block *run, size_t page_first, size_t pages,
                           size_t mappings)
{
    uintptr_t base = tnri_page_address(world->space, page_first);
    uintptr_t end = tnri_page_address(world->space, page_first + pages);
    tnri_assert(run->state == TNRI_FREE);
    tnri_assert(run->base <= base);
    tnri_assert(end <= tnri_block_end(run));
    tnri_record_leave(world, run);
    tnri_block *stale = record_trim_below(world, run, base, TNRI_FREE);
    stale = record_trim_above(world, stale, end, TNRI_FREE);
    tnri_record_enter(world, stale, TNRI_STALE);
    stale->slack = mappings & TNRI_SLACK_MASK;
    stale->holds = 1;
    stale->event = NULL;
    return stale;
}

void tnri_world_uncut(tnri_world *world, tnri_block *stale)
{
    tnri_assert(stale->state == TNRI_STALE);
    tnri_record_leave(world, stale);
    stale->slack = 0;
    tnri_record_merge(world, stale, TNRI_FREE);
}

void tnri_world_hole(tnri_world *world, tnri_block *stale)
{
    tnri_assert(stale->state == TNRI_STALE);
    tnri_record_leave(world, stale);
    stale->slack = 0;
    tnri_record_merge(world, stale, TNRI_HOLE);
}

/* Memory comes to addresses below `end`. A range that is borrowed had memory before. */
static void spans_begin(const tnri_world *world, uintptr_t end)
{
    tnri_span *span = world->spans;
    while (span != NULL && end - 1 - span->base >= span->bytes)
        span = span->next;
    if (span != NULL && span->begun < end - span->base)
        span->begun = end - span->base;
}

tnri_block *tnri_world_claim(tnri_world *world, tnri_block *first, uintptr_t base, uintptr_t end)
{
    tnri_assert(base >= first->base && base < tnri_block_end(first));
    tnri_state state = (tnri_state)first->state;
    spans_begin(world, end);
    tnri_record_leave(world, first);
    tnri_block *claim = record_trim_below(world, first, base, state);
    while (tnri_block_end(claim) < end) {
        tnri_block *upper = claim->above;
        tnri_assert(upper != NULL);
        state = (tnri_state)upper->state;
        tnri_assert(state == TNRI_FREE || state == TNRI_HOLE || state == TNRI_ALIAS);
        tnri_record_leave(world, upper);
        if (tnri_block_end(upper) > end)
            record_trim_above(world, upper, end, state);
        tnri_record_absorb_above(world, claim);
    }
    if (tnri_block_end(claim) > end)
        claim = record_trim_above(world, claim, end, state);
    tnri_record_enter(world, claim, TNRI_PENDING);
    return claim;
}

/* What a page of a claim is: 0 without memory, 1 mapped, 2 mapped and not to be used, 3 mapped to
 * a chunk that is elsewhere. */
static int page_kind(const tnri_space *space, size_t page)
{
    const tnri_chunk *chunk = space->pages[page];
    if (chunk == NULL)
        return space->aliases[page] == NULL ? 0 : 3;
    return chunk == &tnri_mapping_refused ? 2 : 1;
}

/* Ends one stretch of a claim, which is in no list, as what its pages are. Returns the record that
 * it is part of. */
static tnri_block *stretch_unclaim(tnri_world *world, tnri_block *stretch, int kind,
                                   tnri_stuck stuck, void *with)
{
    if (kind == 3) {
        tnri_record_enter(world, stretch, TNRI_ALIAS);
        stretch->slack = 0;
        return stretch;
    }
    if (kind != 2)
        return tnri_record_merge(world, stretch, kind == 1 ? TNRI_FREE : TNRI_HOLE);
    tnri_space *space = world->space;
    size_t end = tnri_page_of(space, tnri_block_end(stretch));
    for (size_t page = tnri_page_of(space, stretch->base); page < end; page++)
        space->pages[page] = NULL;
    tnri_record_enter(world, stretch, TNRI_STALE);
    stretch->slack = 1;
    stretch->holds = 0;
    stuck(world->arena, stretch, with);
    return stretch;
}

/* A record, stretch by stretch, as what its pages are. Returns the record that its first page is
 * part of: two stretches side by side are of two kinds, so no later one takes that in. */
static tnri_block *record_unclaim(tnri_world *world, tnri_block *rest, tnri_stuck stuck, void *with)
{
    tnri_block *first = NULL;
    const tnri_space *space = world->space;
    tnri_record_leave(world, rest);
    while (rest != NULL) {
        uintptr_t end = tnri_block_end(rest);
        size_t page = tnri_page_of(space, rest->base);
        int kind = page_kind(space, page);
        while (tnri_page_address(space, page + 1) < end && page_kind(space, page + 1) == kind)
            page++;
        uintptr_t stretch_end = tnri_page_address(space, page + 1);
        tnri_block *upper = NULL;
        if (stretch_end < end)
            upper = tnri_record_split(world, rest, stretch_end - rest->base);
        tnri_block *record = stretch_unclaim(world, rest, kind, stuck, with);
        if (first == NULL)
            first = record;
        rest = upper;
    }
    return first;
}

tnri_block *tnri_world_unclaim(tnri_world *world, tnri_block *pending, tnri_stuck stuck, void *with)
{
    tnri_assert(pending->state == TNRI_PENDING);
    return record_unclaim(world, pending, stuck, with);
}

void tnri_world_empty(tnri_world *world, tnri_block *block, tnri_stuck stuck, void *with)
{
    tnri_assert(block->state == TNRI_LIVE);
    (void)record_unclaim(world, block, stuck, with);
}

void tnri_world_park(tnri_world *world, tnri_block *block)
{
    tnri_assert(block->state == TNRI_LIVE);
    tnri_record_leave(world, block);
    tnri_record_enter(world, block, TNRI_PARKED);
}

void tnri_world_unpark(tnri_world *world, tnri_block *block)
{
    tnri_assert(block->state == TNRI_PARKED);
    tnri_record_leave(world, block);
    tnri_record_enter(world, block, TNRI_LIVE);
}

tnri_block *tnri_world_extend(tnri_world *world, tnri_block *block, tnri_block *pending)
{
    tnri_assert(pending->state == TNRI_PENDING);
    uintptr_t from = pending->base;
    tnri_record_leave(world, pending);
    if (block == NULL) {
        block = pending;
        block->slack = 0;
        block->holds = 0;
        block->stamped = 0;
        block->uses = NULL;
        tnri_record_enter(world, block, TNRI_LIVE);
    } else {
        tnri_assert(block->state == TNRI_LIVE && block->above == pending);
        tnri_record_leave(world, block);
        tnri_record_absorb_above(world, block);
        tnri_record_enter(world, block, TNRI_LIVE);
    }
    tnri_block_map_extend(&world->space->map, block, from);
    return block;
}

void tnri_world_page(tnri_world *world, tnri_block *pending, size_t bytes)
{
    tnri_assert(pending->state == TNRI_PENDING);
    tnri_record_leave(world, pending);
    if (pending->bytes > bytes)
        tnri_record_enter(world, tnri_record_split(world, pending, bytes), TNRI_PENDING);
    pending->what = tnri_block_what(TNRI_LIVE, 0);
    pending->uses = NULL;
    tnri_record_enter(world, pending, TNRI_LIVE);
}
