/* SPDX-License-Identifier: Apache-2.0 */
/* What a world has, from its making to its end: see world.h. */
#include "memory/arena/world.h"

#include "base/host_memory.h"

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
    world->trough_headroom = TNRI_TROUGH_NEVER;
    tables_use(world, &tnri_world_nothing);
}

enum { SHEET_SLABS = TNRI_HOST_SHEET_BYTES / sizeof(tnri_slab) };

/* 1 if the slab with this number, counted from 0, begins a sheet. */
static int is_sheet_first(size_t number)
{
    return number >= TNRI_SLABS_SINGLE && (number - TNRI_SLABS_SINGLE) % SHEET_SLABS == 0;
}

/* The next one, zeroed; null: no host memory. In a sheet they lie in order. */
static tnri_slab *slab_make(const tnri_world *world)
{
    if (world->slabs_count < TNRI_SLABS_SINGLE)
        return tnri_host_alloc(sizeof(tnri_slab));
    return is_sheet_first(world->slabs_count) ? tnri_host_sheet_alloc() : world->slabs + 1;
}

static void slabs_free(tnri_world *world)
{
    tnri_slab *slab = world->slabs;
    for (size_t number = world->slabs_count; number-- > 0;) {
        tnri_slab *next = slab->next;
        if (number < TNRI_SLABS_SINGLE)
            tnri_host_free(slab, sizeof(*slab));
        else if (is_sheet_first(number))
            tnri_host_sheet_free(slab);
        slab = next;
    }
    world->slabs = NULL;
}

void tnri_world_destroy(tnri_world *world)
{
    while (world->spans != NULL) {
        tnri_span *span = world->spans;
        world->spans = span->next;
        tnri_space_return(world->space, span);
    }
    slabs_free(world);
    if (world->tables != &tnri_world_nothing)
        tnri_host_free(world->tables, sizeof(*world->tables));
    tnri_window_cache_free(world);
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
        tnri_slab *slab = slab_make(world);
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

TNRI_SELDOM void tnri_world_unspend_now(tnri_world *world)
{
    tnri_bins *bins = &world->bins;
    __atomic_store_n(&world->is_spent, 0, __ATOMIC_RELAXED); /* who returns a block may read it */
    bins->max = world->spent_max;
    if (bins->misses == 0) /* else a size came again meanwhile, and the bin gets another try */
        bins->misses = world->spent_misses;
    atomic_fetch_or_explicit(world->giving, world->giving_bit, memory_order_relaxed);
}
