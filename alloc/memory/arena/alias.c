/* SPDX-License-Identifier: Apache-2.0 */
/* Old mappings that stay: see alias.h. */
#include "memory/arena/alias.h"

#include "memory/arena/bins.h"
#include "memory/arena/note.h"
#include "memory/arena/record.h"
#include "memory/arena/world_move.h"
#include "memory/arena/world_spent.h"
#include "memory/device/chunk.h"

uint64_t tnri_alias_look(void)
{
    static _Atomic uint64_t looks;
    return atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed) + 1;
}

/* ---- what is free --------------------------------------------------------------------------- */

static void run_mark(const tnri_space *space, tnri_block *run, uint64_t look)
{
    size_t page, end;
    if (!tnri_run_whole_chunks(space, run, &page, &end))
        return;
    while (page < end) {
        tnri_chunk *chunk = space->pages[page];
        chunk->free_run = run;
        atomic_store_explicit(&chunk->free_look, look, memory_order_relaxed);
        page += chunk->pages;
    }
}

void tnri_alias_mark(tnri_world *world, uint64_t look)
{
    tnri_index_walk walk = {tnri_index_class(tnri_page_bytes(world->space)), NULL};
    tnri_block *run;
    while ((run = tnri_index_next(world->index, &walk)) != NULL)
        run_mark(world->space, run, look);
}

/* ---- coming and going ----------------------------------------------------------------------- */

void tnri_alias_keep(tnri_block *stale, int is_forgotten)
{
    tnri_world *world = stale->world;
    tnri_assert(stale->state == TNRI_STALE);
    world->arena->aliases_count += stale->slack;
    tnri_record_leave(world, stale);
    tnri_record_enter(world, stale, TNRI_ALIAS);
    stale->holds = 0;
    if (!is_forgotten)
        stale->slack = 0;
}

void tnri_alias_note(tnri_space *space, tnri_chunk *chunk, size_t page)
{
    for (size_t p = 0; p < chunk->pages; p++)
        space->aliases[page + p] = chunk;
    atomic_fetch_add_explicit(&chunk->aliases, 1, memory_order_relaxed);
}

void tnri_alias_take(tnri_space *space, tnri_chunk *chunk, size_t page)
{
    for (size_t p = 0; p < chunk->pages; p++) {
        tnri_assert_hot(space->aliases[page + p] == chunk);
        space->aliases[page + p] = NULL;
    }
    atomic_fetch_sub_explicit(&chunk->aliases, 1, memory_order_release);
}

/* Number of mappings of an ALIAS record. */
static size_t alias_mappings(const tnri_space *space, const tnri_block *alias)
{
    size_t count = 0;
    size_t page = tnri_page_of(space, alias->base);
    size_t end = tnri_page_of(space, tnri_block_end(alias));
    if (space->aliases[page] == NULL)
        return alias->slack;
    for (; page < end; page += space->aliases[page]->pages)
        count++;
    return count;
}

/* Of one record: the pages know no chunk any more. */
static void record_forget(tnri_space *space, tnri_block *alias)
{
    size_t page = tnri_page_of(space, alias->base);
    size_t end = tnri_page_of(space, tnri_block_end(alias));
    if (space->aliases[page] == NULL)
        return;
    alias->slack = alias_mappings(space, alias) & TNRI_SLACK_MASK;
    while (page < end) {
        tnri_chunk *chunk = space->aliases[page];
        size_t pages = chunk->pages;
        tnri_alias_take(space, chunk, page);
        page += pages;
    }
}

void tnri_alias_forget(tnri_world *world)
{
    for (tnri_block *alias = world->aliases; alias != NULL; alias = alias->next)
        record_forget(world->space, alias);
}

tnri_block *tnri_alias_release(tnri_arena *arena, size_t keep)
{
    tnri_block *records = NULL;
    for (int i = TNRI_WORLDS; i-- > 0;) {
        tnri_world *world = &arena->worlds[i];
        while (arena->aliases_count > keep && world->aliases_last != NULL) {
            tnri_block *alias = world->aliases_last;
            record_forget(world->space, alias);
            tnri_assert(arena->aliases_count >= alias->slack);
            arena->aliases_count -= alias->slack;
            uint64_t mappings = alias->slack;
            tnri_record_leave(world, alias);
            tnri_record_enter(world, alias, TNRI_STALE);
            alias->slack = mappings & TNRI_SLACK_MASK;
            alias->holds = 0;
            alias->event = NULL;
            alias->next = records;
            records = alias;
        }
    }
    return records;
}

/* ALIAS -> STALE for one mapping of a record. Returns the part of the record above it, or null. */
static tnri_block *mapping_release(tnri_block *alias, tnri_chunk *chunk, size_t page,
                                   tnri_block **released)
{
    tnri_world *world = alias->world;
    uintptr_t base = tnri_page_address(world->space, page);
    uintptr_t end = tnri_page_address(world->space, page + chunk->pages);
    int has_more = tnri_block_end(alias) > end;
    tnri_alias_take(world->space, chunk, page);
    world->arena->aliases_count--;
    tnri_block *stale = tnri_world_claim(world, alias, base, end);
    tnri_record_leave(world, stale);
    tnri_record_enter(world, stale, TNRI_STALE);
    stale->slack = 1;
    stale->holds = 0;
    stale->event = NULL;
    stale->next = *released;
    *released = stale;
    return has_more ? stale->above : NULL;
}

tnri_block *tnri_alias_release_of(tnri_arena *arena, const tnri_chunk *wanted)
{
    tnri_block *released = NULL;
    for (int i = 0; i < TNRI_WORLDS; i++) {
        tnri_world *world = &arena->worlds[i];
        tnri_block *next;
        for (tnri_block *alias = world->aliases; alias != NULL; alias = next) {
            next = alias->next;
            size_t page = tnri_page_of(world->space, alias->base);
            tnri_chunk *chunk;
            while (alias != NULL && page < tnri_page_of(world->space, tnri_block_end(alias)) &&
                   (chunk = world->space->aliases[page]) != NULL) {
                size_t above = page + chunk->pages;
                if (chunk == wanted && tnri_world_spares(world, TNRI_CARVE_RECORDS))
                    alias = mapping_release(alias, chunk, page, &released);
                else if (chunk == wanted)
                    record_forget(world->space, alias);
                page = above;
            }
        }
    }
    return released;
}

void tnri_alias_put_back(tnri_block *records)
{
    while (records != NULL) {
        tnri_block *stale = records;
        tnri_world *world = stale->world;
        uint64_t mappings = stale->slack;
        records = stale->next;
        tnri_record_leave(world, stale);
        tnri_record_enter(world, stale, TNRI_ALIAS);
        stale->slack = mappings & TNRI_SLACK_MASK;
        world->arena->aliases_count += mappings;
    }
}

/* ---- home ----------------------------------------------------------------------------------- */

tnri_block *tnri_alias_leave(tnri_chunk *chunk)
{
    /* Runs have only been cut since they were marked, so it lies at or above the one noted. */
    tnri_block *run = chunk->free_run;
    tnri_world *world = run->world;
    tnri_space *space = world->space;
    uintptr_t base = tnri_page_address(space, chunk->page);
    while (tnri_block_end(run) <= base)
        run = run->above;
    tnri_block *stale = tnri_world_cut(world, run, chunk->page, chunk->pages, 1);
    stale->holds = 0;
    tnri_note_memory(world->arena, TNRI_NOTED_MOVE_OUT, stale->base, stale->bytes, stale->bytes, 0);
    for (size_t p = 0; p < chunk->pages; p++)
        space->pages[chunk->page + p] = NULL;
    return stale;
}

/* The chunks of an arena that go home, in a list; each with the record that its home is in. */
typedef struct journey {
    uint64_t look;
    tnri_chunk *list;
    size_t count;
    size_t stay; /* chunks that are away and cannot go */
} journey;

/* Takes those out that have their home in one record. */
static void record_depart(journey *of, tnri_world *world, tnri_block *alias)
{
    const tnri_space *space = world->space;
    size_t end = tnri_page_of(space, tnri_block_end(alias));
    size_t page = tnri_page_of(space, alias->base);
    tnri_chunk *chunk;
    for (; page < end && (chunk = space->aliases[page]) != NULL; page += chunk->pages) {
        if (atomic_load_explicit(&chunk->home, memory_order_relaxed) != page)
            continue;
        size_t records = (of->count + 1) * TNRI_CARVE_RECORDS + TNRI_CUT_RECORDS;
        if (atomic_load_explicit(&chunk->free_look, memory_order_relaxed) != of->look ||
            !tnri_world_spares(world, records) ||
            !tnri_world_spares(chunk->free_run->world, records)) {
            of->stay++;
            continue;
        }
        tnri_alias_keep(tnri_alias_leave(chunk), 0);
        tnri_alias_note(world->space, chunk, chunk->page);
        chunk->free_run = alias;
        chunk->next = of->list;
        of->list = chunk;
        of->count++;
    }
}

/* The alias at a chunk's home becomes memory again. */
static void chunk_arrive(tnri_chunk *chunk)
{
    tnri_block *alias = chunk->free_run;
    tnri_world *world = alias->world;
    tnri_space *space = world->space;
    size_t home = atomic_load_explicit(&chunk->home, memory_order_relaxed);
    uintptr_t base = tnri_page_address(space, home);
    uintptr_t end = tnri_page_address(space, home + chunk->pages);
    /* Chunks arrive from above: what is left of the record is below. */
    tnri_assert(alias->state == TNRI_ALIAS && alias->base <= base && tnri_block_end(alias) >= end);
    tnri_alias_take(space, chunk, home);
    world->arena->aliases_count--;
    tnri_block *claim = tnri_world_claim(world, alias, base, end);
    for (size_t p = 0; p < chunk->pages; p++)
        space->pages[home + p] = chunk;
    tnri_chunk_enter(chunk, world->is_small);
    chunk->page = home;
    tnri_chunk_placed(chunk);
    tnri_note_memory(world->arena, TNRI_NOTED_MOVE_IN, base, end - base, end - base, 0);
    (void)tnri_world_free(world, claim);
}

/* Enters the free runs of a world anew, by their addresses. Of runs that fit equally well the index
 * gives the one that came last, so the order in which a pass freed them would decide where the next
 * one puts its blocks. */
static void world_order(tnri_world *world)
{
    for (size_t i = 0; i < world->spans_count; i++)
        for (tnri_block *record = world->span_first[i]; record != NULL; record = record->above)
            if (tnri_block_state_near(record) == TNRI_FREE) {
                tnri_index_remove(world->index, record);
                tnri_index_insert(world->index, record);
            }
}

int tnri_alias_go_home(tnri_arena *arena)
{
    journey of = {tnri_alias_look(), NULL, 0, 0};
    for (int i = 0; i < TNRI_WORLDS; i++) {
        (void)tnri_world_flush(&arena->worlds[i]);
        tnri_alias_mark(&arena->worlds[i], of.look);
    }
    for (int i = 0; i < TNRI_WORLDS; i++) /* new records come before those that are looked at */
        for (tnri_block *alias = arena->worlds[i].aliases; alias != NULL; alias = alias->next)
            record_depart(&of, &arena->worlds[i], alias);
    while (of.list != NULL) {
        tnri_chunk *chunk = of.list;
        of.list = chunk->next;
        chunk->next = NULL;
        chunk_arrive(chunk);
    }
    for (int i = 0; i < TNRI_WORLDS; i++)
        world_order(&arena->worlds[i]);
    return of.stay == 0;
}
