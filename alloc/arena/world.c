/* SPDX-License-Identifier: Apache-2.0 */
/* The geometry of a world, serving and freeing: see world.h. The other half is in world_move.c. */
#include "arena/world_internal.h"

#include <string.h>

#include "arena/run.h"
#include "base/host_memory.h"

const char *tnri_state_name(unsigned state)
{
    static const char *const names[TNRI_STATE_COUNT] = {
        "unused", "free", "live", "binned", "retired", "hole", "stale", "pending", "lent"};
    return state < TNRI_STATE_COUNT ? names[state] : "?";
}

tnri_world_tables tnri_world_nothing;

static void tables_use(tnri_world *world, tnri_world_tables *tables)
{
    world->tables = tables;
    world->index = &tables->index;
    world->bins.words = tables->words;
    world->bins.slots = tables->slots;
    if (world->borrows_room == 0)
        world->span_first = tables->spans_few;
}

void tnri_world_create(tnri_world *world, struct tnri_arena *arena, tnri_space *space, int is_small,
                       size_t bin_blocks)
{
    world->arena = arena;
    world->space = space;
    world->is_small = is_small;
    world->has_many = 1;
    world->bins.max = bin_blocks;
    tables_use(world, &tnri_world_nothing);
}

void tnri_world_destroy(tnri_world *world)
{
    while (world->spans != NULL) {
        tnri_span *span = world->spans;
        world->spans = span->next;
        tnri_space_return(world->space, span);
    }
    while (world->slabs != NULL) {
        tnri_slab *slab = world->slabs;
        world->slabs = slab->next;
        tnri_host_free(slab, sizeof(*slab));
    }
    if (world->tables != &tnri_world_nothing)
        tnri_host_free(world->tables, sizeof(*world->tables));
    if (world->borrows_room > 0)
        tnri_host_free(world->span_first,
                       (TNRI_SPANS_MAX + world->borrows_room) * sizeof(world->span_first[0]));
    world->borrows_room = 0;
}

/* 1 if all that a world has is addresses. */
static int world_is_bare(const tnri_world *world)
{
    for (int state = TNRI_FREE; state < TNRI_STATE_COUNT; state++)
        if (state != TNRI_HOLE && world->count_in[state] > 0)
            return 0;
    return world->slabs != NULL && world->spans_count == world->spans_own &&
           world->spares_promised == 0 && world->borrows_promised == 0;
}

int tnri_world_dissolve(tnri_world *world)
{
    if (!world_is_bare(world))
        return 0;
    tnri_world_destroy(world);
    tables_use(world, &tnri_world_nothing);
    world->bytes_in[TNRI_HOLE] = 0;
    world->count_in[TNRI_HOLE] = 0;
    world->holes = NULL;
    world->spares = NULL;
    world->spares_count = 0;
    world->slabs_count = 0;
    world->spans_bytes = 0;
    world->spans_count = world->spans_own = 0;
    return 1;
}

int tnri_world_promise(tnri_world *world, size_t count)
{
    if (!tnri_world_spares(world, count))
        return 0;
    world->spares_promised += count;
    return 1;
}

void tnri_world_unpromise(tnri_world *world, size_t count)
{
    tnri_assert(world->spares_promised >= count);
    world->spares_promised -= count;
}

int tnri_world_spares_more(tnri_world *world, size_t count)
{
    if (world->tables == &tnri_world_nothing) {
        tnri_world_tables *tables = tnri_host_alloc(sizeof(*tables));
        if (tables == NULL)
            return 0;
        tables_use(world, tables);
    }
    while (world->spares_count < count + world->spares_promised) {
        tnri_slab *slab = tnri_host_alloc(sizeof(*slab));
        if (slab == NULL)
            return 0;
        slab->next = world->slabs;
        world->slabs = slab;
        world->slabs_count++;
        for (size_t i = TNRI_SLAB_RECORDS; i-- > 0;) {
            slab->records[i].world = world;
            slab->records[i].next = world->spares;
            world->spares = &slab->records[i];
        }
        world->spares_count += TNRI_SLAB_RECORDS;
    }
    return 1;
}

/* ---- records -------------------------------------------------------------------------------- */

void tnri_record_enter(tnri_world *world, tnri_block *block, tnri_state state)
{
    world->bytes_in[state] += block->bytes;
    world->count_in[state]++;
    if (state == TNRI_FREE) {
        tnri_world_unspend(world);
        tnri_index_insert(world->index, block);
        return;
    }
    block->state = state;
    if (state == TNRI_HOLE || state == TNRI_LENT) {
        tnri_block **list = state == TNRI_HOLE ? &world->holes : &world->lent;
        block->prev = NULL;
        block->next = *list;
        if (*list != NULL)
            (*list)->prev = block;
        *list = block;
    }
}

void tnri_record_leave(tnri_world *world, tnri_block *block)
{
    unsigned state = block->state;
    world->bytes_in[state] -= block->bytes;
    world->count_in[state]--;
    if (state == TNRI_FREE) {
        tnri_index_remove(world->index, block);
    } else if (state == TNRI_HOLE || state == TNRI_LENT) {
        if (block->next != NULL)
            block->next->prev = block->prev;
        if (block->prev != NULL)
            block->prev->next = block->next;
        else if (state == TNRI_HOLE)
            world->holes = block->next;
        else
            world->lent = block->next;
        block->state = TNRI_UNUSED; /* in no list: nothing may merge with it now */
    }
}

tnri_block *tnri_record_split(tnri_world *world, tnri_block *block, size_t bytes)
{
    tnri_assert(bytes > 0 && bytes < block->bytes);
    tnri_block *upper = world->spares;
    tnri_assert(upper != NULL);
    world->spares = upper->next;
    world->spares_count--;
    upper->base = block->base + bytes;
    upper->bytes = block->bytes - bytes;
    upper->slack = 0;
    upper->state = TNRI_UNUSED;
    upper->below = block;
    upper->above = block->above;
    if (block->above != NULL)
        block->above->below = upper;
    block->above = upper;
    block->bytes = bytes;
    return upper;
}

void tnri_record_absorb_above(tnri_world *world, tnri_block *block)
{
    tnri_block *upper = block->above;
    tnri_assert_hot(upper->base == tnri_block_end(block));
    block->bytes += upper->bytes;
    block->above = upper->above;
    if (upper->above != NULL)
        upper->above->below = block;
    upper->state = TNRI_UNUSED;
    upper->next = world->spares;
    world->spares = upper;
    world->spares_count++;
}

tnri_block *tnri_record_merge(tnri_world *world, tnri_block *block, tnri_state state)
{
    if (block->above != NULL && block->above->state == state) {
        tnri_record_leave(world, block->above);
        tnri_record_absorb_above(world, block);
    }
    if (block->below != NULL && block->below->state == state) {
        tnri_block *lower = block->below;
        tnri_record_leave(world, lower);
        tnri_record_absorb_above(world, lower);
        block = lower;
    }
    tnri_record_enter(world, block, state);
    return block;
}

void tnri_world_add_span(tnri_world *world, tnri_span *span)
{
    tnri_assert(world->spares_count > 0);
    tnri_assert(world->spans_own < TNRI_SPANS_MAX);
    tnri_block *hole = world->spares;
    world->spares = hole->next;
    world->spares_count--;
    hole->base = span->base;
    hole->bytes = span->bytes;
    hole->slack = 0;
    hole->below = NULL;
    hole->above = NULL;
    span->next = world->spans;
    world->spans = span;
    world->spans_bytes += span->bytes;
    world->span_first[world->spans_count++] = world->span_first[world->spans_own];
    world->span_first[world->spans_own++] = hole; /* before what is borrowed */
    tnri_record_enter(world, hole, TNRI_HOLE);
}

/* ---- serving and freeing -------------------------------------------------------------------- */

/* Cuts off a run what lies below the first address of an alignment. Returns the rest, a run too. */
static TNRI_SELDOM tnri_block *run_cut_lead(tnri_world *world, tnri_block *run, size_t lead)
{
    tnri_record_leave(world, run);
    tnri_block *upper = tnri_record_split(world, run, lead);
    tnri_record_enter(world, run, TNRI_FREE);
    tnri_record_enter(world, upper, TNRI_FREE);
    return upper;
}

tnri_block *tnri_world_carve(tnri_world *world, tnri_block *run, size_t bytes, size_t alignment)
{
    tnri_assert_hot(run->state == TNRI_FREE);
    size_t lead = (0 - run->base) & (alignment - 1);
    if (tnri_unlikely(lead > 0))
        run = run_cut_lead(world, run, lead);
    tnri_run_carve(world, run, bytes, tnri_block_map_entry(&world->space->map, run->base));
    return run;
}

void tnri_world_retire(tnri_world *world, tnri_block *block)
{
    tnri_assert(block->state == TNRI_LIVE);
    tnri_record_leave(world, block);
    tnri_record_enter(world, block, TNRI_RETIRED);
}

tnri_block *tnri_world_free(tnri_world *world, tnri_block *block)
{
    tnri_state state = (tnri_state)block->state;
    tnri_assert_hot(state == TNRI_LIVE || state == TNRI_RETIRED || state == TNRI_PENDING);
    tnri_world_unspend(world);
    return tnri_run_merge(world, block, state);
}

/* The first slot from `slot` on that is not empty, going round. There is one. A block that is
 * handed out again leaves its slot's bit behind; it goes here. One that is merged does not: else
 * each second slot that is looked at would be empty, and nothing could predict which. */
static inline __attribute__((always_inline)) unsigned bins_next(const tnri_bins *bins,
                                                                unsigned slot)
{
    uint64_t *words = bins->words;
    tnri_block **slots = bins->slots;
    unsigned word = slot / 64;
    uint64_t bits = words[word] & ~(uint64_t)0 << slot % 64;
    for (;;) {
        while (bits == 0) {
            word = (word + 1) % (TNRI_BIN_SLOTS / 64);
            bits = words[word];
        }
        slot = word * 64 + (unsigned)__builtin_ctzll(bits);
        if (tnri_likely(slots[slot] != NULL))
            return slot;
        bits &= bits - 1;
        words[word] &= ~((uint64_t)1 << slot % 64);
    }
}

/* BINNED -> FREE for the first block of a slot. */
static void slot_evict(tnri_world *world, unsigned slot)
{
    tnri_bins *bins = &world->bins;
    tnri_block *block = tnri_bin_pop(world, slot);
    uint64_t emptied = bins->slots[slot] == NULL;
    bins->words[slot / 64] &= ~(emptied << slot % 64);
    (void)tnri_run_merge(world, block, TNRI_LIVE);
}

void tnri_world_evict(tnri_world *world)
{
    tnri_bins *bins = &world->bins;
    bins->hand = bins_next(bins, (bins->hand + 1) % TNRI_BIN_SLOTS);
    slot_evict(world, bins->hand);
}

int tnri_world_flush(tnri_world *world)
{
    int flushed = world->count_in[TNRI_BINNED] > 0;
    unsigned slot = 0;
    while (world->count_in[TNRI_BINNED] > 0) {
        slot = bins_next(&world->bins, slot);
        slot_evict(world, slot);
    }
    return flushed;
}
