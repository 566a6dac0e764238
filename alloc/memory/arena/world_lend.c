/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The geometry of a world, lending: see world_lend.h.
 *
 * A borrowed range is a range of addresses of its own, like a span: records tile it. The lowest and
 * the highest record have no neighbour outside, so nothing merges with what other worlds have. Two
 * borrowed ranges of one span that touch become one.
 */
#include "memory/arena/world_lend.h"

#include <string.h>

#include "base/host_memory.h"
#include "memory/arena/record.h"

/* ---- places for borrowed ranges ------------------------------------------------------------- */

static size_t borrows_count(const tnri_world *world)
{
    return world->spans_count - world->spans_own;
}

/* Doubles the table. All spans that there may be have room in it besides. */
static int borrows_grow(tnri_world *world)
{
    size_t room = world->borrows_room == 0 ? 16 : world->borrows_room * 2;
    tnri_block **table = tnri_host_alloc((TNRI_SPANS_MAX + room) * sizeof(table[0]));
    if (table == NULL)
        return 0;
    memcpy(table, world->span_first, world->spans_count * sizeof(table[0]));
    if (world->borrows_room > 0)
        tnri_host_free(world->span_first,
                       (TNRI_SPANS_MAX + world->borrows_room) * sizeof(table[0]));
    world->span_first = table;
    world->borrows_room = room;
    return 1;
}

int tnri_world_promise_borrow(tnri_world *world)
{
    if (borrows_count(world) + world->borrows_promised >= world->borrows_room &&
        !borrows_grow(world))
        return 0;
    world->borrows_promised++;
    return 1;
}

void tnri_world_unpromise_borrow(tnri_world *world)
{
    tnri_assert(world->borrows_promised > 0);
    world->borrows_promised--;
}

static void borrow_add(tnri_world *world, tnri_block *first)
{
    tnri_assert(borrows_count(world) < world->borrows_room);
    world->span_first[world->spans_count++] = first;
}

/* The place of the borrowed range whose lowest record this is. */
static size_t borrow_of(const tnri_world *world, const tnri_block *first)
{
    size_t i = world->spans_own;
    while (i < world->spans_count && world->span_first[i] != first)
        i++;
    tnri_assert(i < world->spans_count);
    return i;
}

static void borrow_remove(tnri_world *world, size_t i)
{
    world->span_first[i] = world->span_first[--world->spans_count];
}

/* ---- lending -------------------------------------------------------------------------------- */

int tnri_world_owns(const tnri_world *world, uintptr_t address)
{
    for (const tnri_span *span = world->spans; span != NULL; span = span->next)
        if (address - span->base < span->bytes)
            return 1;
    return 0;
}

static void record_drop(tnri_world *world, tnri_block *block)
{
    block->state = TNRI_UNUSED;
    block->next = world->spares;
    world->spares = block;
    world->spares_count++;
}

/* Takes a record, which is in no list, out of the borrowed range that it is part of. What is below
 * it and above it become ranges of their own. */
static void borrow_cut(tnri_world *world, tnri_block *block)
{
    if (block->below == NULL) {
        size_t i = borrow_of(world, block);
        if (block->above == NULL)
            borrow_remove(world, i);
        else
            world->span_first[i] = block->above;
    } else if (block->above != NULL) {
        borrow_add(world, block->above);
    }
    if (block->below != NULL)
        block->below->above = NULL;
    if (block->above != NULL)
        block->above->below = NULL;
    world->borrowed_bytes -= block->bytes;
    record_drop(world, block);
}

void tnri_world_lend(tnri_world *world, tnri_block *pending)
{
    tnri_assert(pending->state == TNRI_PENDING);
    tnri_block_map_clear(&world->space->map, pending->base, pending->bytes);
    tnri_record_leave(world, pending);
    if (tnri_world_owns(world, pending->base))
        (void)tnri_record_merge(world, pending, TNRI_LENT);
    else
        borrow_cut(world, pending);
}

/* ---- borrowing, and getting back ------------------------------------------------------------ */

/* Part of what this world has lent is back: FREE, or HOLE. */
static tnri_block *receive_own(tnri_world *world, uintptr_t base, size_t bytes, tnri_state state)
{
    tnri_block *lent = world->lent;
    while (lent != NULL && (base < lent->base || base >= tnri_block_end(lent)))
        lent = lent->next;
    tnri_assert(lent != NULL && base + bytes <= tnri_block_end(lent));
    tnri_record_leave(world, lent);
    if (base > lent->base) {
        tnri_block *upper = tnri_record_split(world, lent, base - lent->base);
        tnri_record_enter(world, lent, TNRI_LENT);
        lent = upper;
    }
    if (bytes < lent->bytes) {
        tnri_block *rest = tnri_record_split(world, lent, bytes);
        tnri_record_enter(world, rest, TNRI_LENT);
    }
    return tnri_record_merge(world, lent, state);
}

/* The highest record of a borrowed range. */
static tnri_block *range_last(const tnri_world *world, size_t i)
{
    tnri_block *last = world->span_first[i];
    while (last->above != NULL)
        last = last->above;
    return last;
}

/* 1 if a span may begin at the address. Ranges do not join there: what is lent out of one, or goes
 * home, must lie in one span. */
static int is_span_border(const tnri_world *world, uintptr_t address)
{
    size_t mask = ((size_t)1 << TNRI_SPAN_LOG2_MIN) - 1;
    return ((address - world->space->base) & (mask | (tnri_page_bytes(world->space) - 1))) == 0;
}

/* Joins a record that is in no list, and has no neighbour, with the borrowed ranges that it
 * touches; without one, it becomes a range. */
static void borrow_join(tnri_world *world, tnri_block *block)
{
    uintptr_t end = tnri_block_end(block);
    size_t joined = SIZE_MAX; /* the place of the range that it is in */
    for (size_t i = world->spans_own; i < world->spans_count && joined == SIZE_MAX; i++) {
        if (world->span_first[i]->base > block->base || is_span_border(world, block->base))
            continue;
        tnri_block *last = range_last(world, i);
        if (tnri_block_end(last) != block->base)
            continue;
        last->above = block;
        block->below = last;
        joined = i;
    }
    for (size_t i = world->spans_own; i < world->spans_count; i++) {
        tnri_block *first = world->span_first[i];
        if (first->base != end || is_span_border(world, end))
            continue;
        block->above = first;
        first->below = block;
        if (joined != SIZE_MAX)
            borrow_remove(world, i);
        else
            world->span_first[i] = block;
        return;
    }
    if (joined == SIZE_MAX)
        borrow_add(world, block);
}

tnri_block *tnri_world_receive(tnri_world *world, uintptr_t base, size_t bytes)
{
    if (tnri_world_owns(world, base))
        return receive_own(world, base, bytes, TNRI_FREE);
    tnri_assert(world->spares_count > 0);
    tnri_block *block = world->spares;
    world->spares = block->next;
    world->spares_count--;
    block->base = base;
    block->bytes = bytes;
    block->slack = 0;
    block->below = NULL;
    block->above = NULL;
    world->borrowed_bytes += bytes;
    borrow_join(world, block);
    /* When the record merges with a lower one, the range begins with that already. */
    return tnri_record_merge(world, block, TNRI_FREE);
}

/* ---- foreign segments ----------------------------------------------------------------------- */

tnri_block *tnri_world_segment_add(tnri_world *world, uintptr_t base, size_t bytes)
{
    tnri_block *block = tnri_world_spare_take(world);
    block->base = base;
    block->bytes = bytes;
    block->slack = 0;
    block->below = NULL;
    block->above = NULL;
    world->borrowed_bytes += bytes;
    borrow_add(world, block);
    tnri_record_enter(world, block, TNRI_FREE);
    return block;
}

void tnri_world_segment_remove(tnri_world *world, tnri_block *stale)
{
    tnri_assert(stale->state == TNRI_STALE && stale->below == NULL && stale->above == NULL);
    tnri_block_map_wipe(&world->space->map, stale->base, stale->bytes);
    tnri_record_leave(world, stale);
    borrow_cut(world, stale);
}

/* ---- giving back what is empty -------------------------------------------------------------- */

/* 1 if a hole can go home without cutting a range in two. */
static int hole_is_borrowed(const tnri_world *world, const tnri_block *hole)
{
    return (hole->below == NULL || hole->above == NULL) && !tnri_world_owns(world, hole->base);
}

size_t tnri_world_holes_claim(tnri_world *world, size_t most, tnri_block **claimed)
{
    size_t found = 0, count = 0;
    if (borrows_count(world) == 0)
        return 0;
    for (tnri_block *hole = world->holes; hole != NULL && found < most; hole = hole->next)
        if (hole_is_borrowed(world, hole))
            claimed[found++] = hole;
    /* Meanwhile more may be borrowed beside them: each needs a place for what it cuts in two. */
    while (count < found && tnri_world_promise_borrow(world)) {
        tnri_record_leave(world, claimed[count]);
        tnri_record_enter(world, claimed[count++], TNRI_PENDING);
    }
    return count;
}

void tnri_world_hole_unclaim(tnri_world *world, tnri_block *pending)
{
    tnri_assert(pending->state == TNRI_PENDING);
    tnri_world_unpromise_borrow(world);
    tnri_record_leave(world, pending);
    (void)tnri_record_merge(world, pending, TNRI_HOLE);
}

void tnri_world_give_back(tnri_world *world, tnri_block *pending)
{
    tnri_assert(pending->state == TNRI_PENDING && !tnri_world_owns(world, pending->base));
    tnri_world_unpromise_borrow(world);
    tnri_block_map_clear(&world->space->map, pending->base, pending->bytes);
    tnri_record_leave(world, pending);
    borrow_cut(world, pending);
}

void tnri_world_take_back(tnri_world *world, uintptr_t base, size_t bytes)
{
    (void)receive_own(world, base, bytes, TNRI_HOLE);
}
