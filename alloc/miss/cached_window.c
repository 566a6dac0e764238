/* SPDX-License-Identifier: Apache-2.0 */
/* A window that was made before: see cached_window.h. */
#include "miss/cached_window.h"

#include "base/conf/conf.h"
#include "base/heuristics.h"
#include "memory/arena/alias.h"
#include "memory/arena/window_cache.h"
#include "memory/arena/world_retired.h"

/* The chunk whose mapping, an alias, begins at a page of a window; else null. */
static tnri_chunk *alias_at(const tnri_space *space, size_t page, size_t first)
{
    tnri_chunk *chunk = space->aliases[page];
    if (chunk == NULL)
        return NULL;
    if (page == first && page > 0 && space->aliases[page - 1] == chunk)
        return NULL; /* most likely it begins below */
    return chunk;
}

/* The end of the window's pages, behind `end` if its last chunk reaches over it, if each has
 * memory, or is an alias of a chunk that this look has seen free in the arena. Else 0. */
static size_t window_has_chunks(const tnri_space *space, size_t first, size_t end, uint64_t look)
{
    size_t page = first;
    while (page < end) {
        if (space->pages[page] != NULL) {
            page++;
            continue;
        }
        const tnri_chunk *chunk = alias_at(space, page, first);
        if (chunk == NULL || atomic_load_explicit(&chunk->free_look, memory_order_relaxed) != look)
            return 0;
        page += chunk->pages;
    }
    return page;
}

/* 1 if all is free or an alias from a record on up to the end of a window. */
static int window_is_open(const tnri_block *record, uintptr_t end)
{
    for (;; record = record->above) {
        if (record == NULL || (record->state != TNRI_FREE && record->state != TNRI_ALIAS))
            return 0;
        if (tnri_block_end(record) >= end)
            return 1;
    }
}

/* Marks what is free in the arena; returns the look. */
static uint64_t arena_look(tnri_arena *arena)
{
    uint64_t look = tnri_alias_look();
    for (int i = 0; i < TNRI_WORLDS; i++)
        tnri_alias_mark(&arena->worlds[i], look);
    return look;
}

/* Takes the chunks that are to come back, each to its page. 0: one lay in the window itself, which
 * is claimed by now, or is mapped there twice, or there is no host memory. */
static int window_take(tnri_plan *plan)
{
    const tnri_space *space = plan->world->space;
    uint64_t look = arena_look(plan->arena);
    plan->is_cached = 1;
    for (size_t i = 0; i < plan->gaps_count; i++) {
        size_t end = plan->gaps[i].page + plan->gaps[i].pages;
        for (size_t page = plan->gaps[i].page; page < end;) {
            tnri_chunk *chunk = space->aliases[page];
            if (atomic_load_explicit(&chunk->free_look, memory_order_relaxed) != look ||
                !tnri_world_spares(chunk->free_run->world, TNRI_CUT_RECORDS))
                return 0;
            size_t from = chunk->page;
            plan->sources[plan->sources_count++] =
                (tnri_source){chunk, page, tnri_alias_leave(chunk), from, NULL};
            atomic_store_explicit(&chunk->free_look, 0, memory_order_relaxed);
            plan->pages_missing -= chunk->pages;
            page += chunk->pages;
        }
    }
    return 1;
}

/* A cached window if it can be had now; else its `first` is null. */
static tnri_window cached_window_now(const tnri_world *world, tnri_cached_window *cached,
                                     uint64_t look)
{
    const tnri_space *space = world->space;
    uintptr_t end = cached->base + cached->bytes;
    tnri_window none = {0};
    /* First: addresses that were lent since are another arena's, whose lock is not held. */
    tnri_block *record = tnri_window_cache_record(world, cached);
    if (record == NULL || !window_is_open(record, end))
        return none;
    size_t last = tnri_page_of(space, end - 1) + 1;
    size_t over = window_has_chunks(space, tnri_page_of(space, cached->base), last, look);
    if (over == 0)
        return none;
    if (over > last) /* the last chunk's record is one alias up to there */
        end = tnri_page_address(space, over);
    return (tnri_window){record, cached->base, end, 0};
}

/* The oldest cached window that the arena's own chunks are enough for. */
static tnri_window window_cached(const tnri_world *world, size_t bytes, uint64_t look)
{
    tnri_window window = {0};
    tnri_cached_window *cached = NULL;
    for (int looks = 0; looks < TNRI_CACHED_WINDOW_LOOKS && window.first == NULL; looks++) {
        cached = tnri_window_cache_find(world, bytes, cached);
        if (cached == NULL)
            break;
        window = cached_window_now(world, cached, look);
    }
    return window;
}

tnr_status tnri_cached_window_make(tnri_plan *plan, tnri_arena *arena, const tnri_request *request)
{
    tnri_world *world = tnri_arena_world(arena, request->bytes);
    if (request->alignment != TNR_ALIGNMENT_DEFAULT || tnri_conf_get()->max_split_size_mb != 0 ||
        tnri_window_cache_find(world, request->bytes, NULL) == NULL)
        return TNR_ERR_NOT_LIVE;
    tnri_window window = window_cached(world, request->bytes, arena_look(arena));
    if (window.first == NULL ||
        tnri_plan_make_at(plan, arena, request, TNRI_MOVES_OWN, &window) != TNR_OK)
        return TNR_ERR_NOT_LIVE;
    int is_whole = window_take(plan);
    plan->own_count = plan->sources_count;
    if (is_whole)
        return TNR_OK;
    tnri_plan_untake(plan, arena, 0);
    tnri_plan_undo(plan);
    return TNR_ERR_NOT_LIVE;
}
