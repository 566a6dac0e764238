/* SPDX-License-Identifier: Apache-2.0 */
/* Parked blocks and their evicted ranges: see park.h. */
#include "miss/park.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "base/rest.h"
#include "memory/arena/count.h"
#include "memory/arena/note.h"
#include "memory/arena/world_move.h"
#include "memory/arena/world_spent.h"
#include "memory/device/upper.h"
#include "miss/stale.h"

/* ---- the block ------------------------------------------------------------------------------ */

/* What is kept of a block that is about to be parked; null: no host memory. Under the lock. */
static tnri_parked *parked_make(tnri_arena *arena, tnri_block *block, tnri_event *event)
{
    const tnri_space *space = tnri_arena_space(arena);
    size_t first = 0, end = 0, chunks = 0;
    if (!tnri_run_whole_chunks(space, block, &first, &end))
        first = end = 0;
    for (size_t page = first; page < end; page += space->pages[page]->pages)
        chunks++;
    size_t room = 2 * chunks;
    tnri_parked *parked = tnri_host_alloc(sizeof(*parked) + room * sizeof(parked->evicted[0]));
    if (parked == NULL)
        return NULL;
    *parked = (tnri_parked){.block = block, .arena = arena, .first = first, .end = end};
    parked->event = event;
    parked->evicted_room = room;
    for (size_t i = 0; i < room; i++)
        parked->evicted[i].is_used = 0;
    return parked;
}

/* Frees it; it is in no list. */
static void parked_destroy(tnri_parked *parked)
{
    if (parked->kept != NULL)
        tnri_upper_of(TNRI_ROOM_AWAY)->contents_end(parked->kept, parked->event);
    else
        tnri_event_drop(parked->event);
    tnri_host_free(parked, sizeof(*parked) + parked->evicted_room * sizeof(parked->evicted[0]));
}

/* Takes it out of the arena's list. Under the lock. */
static void parked_unlink(const tnri_parked *parked)
{
    tnri_parked **link = &parked->arena->parked;
    while (*link != parked)
        link = &(*link)->next;
    *link = parked->next;
    tnri_world_unpromise(parked->block->world, tnri_parked_records(parked));
    atomic_fetch_sub(&parked->arena->account->parked, 1);
}

tnr_status tnri_park(size_t *bytes, tnri_arena *arena, void *ptr, tnri_event *event, void *kept)
{
    tnr_status status = TNR_OK;
    tnri_arena_enter(arena);
    tnri_block *block = tnri_block_map_at(&tnri_arena_space(arena)->map, (uintptr_t)ptr);
    if (block == NULL || block->base != (uintptr_t)ptr || block->state != TNRI_LIVE ||
        block->world->arena != arena) {
        tnri_arena_leave(arena);
        return tnri_error(TNR_ERR_NOT_LIVE, "the block at %p was freed while it was parked.", ptr);
    }
    tnri_parked *parked = parked_make(arena, block, event);
    if (parked == NULL || !tnri_world_promise(block->world, tnri_parked_records(parked))) {
        status =
            tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for parking the block at %p.", ptr);
        if (parked != NULL)
            tnri_host_free(parked,
                           sizeof(*parked) + parked->evicted_room * sizeof(parked->evicted[0]));
    } else {
        parked->kept = kept;
        parked->since = ++arena->parkings;
        parked->next = arena->parked;
        arena->parked = parked;
        atomic_fetch_add(&arena->account->parked, 1);
        block->holds = 0; /* its canary goes with the contents */
        tnri_world_park(block->world, block);
        *bytes = (parked->end - parked->first) << tnri_arena_space(arena)->page_shift;
    }
    tnri_arena_leave(arena);
    return status;
}

/* The parked block that begins at `address`; null: none does. Under the lock. */
static tnri_parked *parked_at(const tnri_arena *arena, uintptr_t address)
{
    tnri_parked *parked = arena->parked;
    while (parked != NULL && parked->block->base != address)
        parked = parked->next;
    return parked;
}

tnr_status tnri_parked_error(const void *ptr, const char *why)
{
    return tnri_error(TNR_ERR_PARKED, "the block at %p is parked, and %s. Unpark it first.", ptr,
                      why);
}

/* 1 if a thread works on one of its evicted ranges. Under the arena's lock. */
static int parked_is_busy(const tnri_parked *parked)
{
    int is_busy = 0;
    tnri_lock_take(&tnri_parking_lock);
    for (size_t i = 0; i < parked->evicted_room && !is_busy; i++)
        is_busy = parked->evicted[i].is_used && parked->evicted[i].is_busy;
    tnri_lock_release(&tnri_parking_lock);
    return is_busy;
}

tnr_status tnri_unpark_begin(tnri_parked **found, tnri_arena *arena, void *ptr)
{
    int is_mine = 0;
    for (unsigned round = 0;; round++) {
        tnri_arena_enter(arena);
        tnri_parked *parked = parked_at(arena, (uintptr_t)ptr);
        tnr_status status = TNR_OK;
        if (parked == NULL)
            status = tnri_error(TNR_ERR_NOT_LIVE, "no parked block begins at %p.", ptr);
        else if (parked->is_returning && !is_mine)
            status = tnri_error(TNR_ERR_BUSY, "another call is unparking the block at %p.", ptr);
        else
            is_mine = parked->is_returning = 1;
        int is_busy = status == TNR_OK && parked_is_busy(parked);
        tnri_arena_leave(arena);
        *found = parked;
        if (!is_busy)
            return status;
        tnri_rest(round);
    }
}

void *tnri_unpark_end(tnri_parked *parked, int is_done)
{
    tnri_arena *arena = parked->arena;
    void *kept = is_done ? parked->kept : NULL;
    tnri_arena_enter(arena);
    parked->is_returning = 0;
    parked->since = ++arena->parkings; /* others may have used what has come back */
    if (is_done) {
        tnri_assert(parked->evicted_pages == 0);
        parked_unlink(parked);
        tnri_world_unpark(parked->block->world, parked->block);
        parked->kept = NULL;
    }
    tnri_arena_leave(arena);
    if (is_done)
        parked_destroy(parked);
    return kept;
}

/* ---- the free of a parked block ------------------------------------------------------------- */

/* Queues old mappings that lie side by side. */
static void mapping_stuck(tnri_arena *arena, tnri_block *stale, void *with)
{
    const tnri_parked *parked = with;
    const tnri_space *space = tnri_arena_space(arena);
    size_t page = tnri_page_of(space, stale->base), mappings = 0;
    size_t end = tnri_page_of(space, tnri_block_end(stale));
    for (size_t i = 0; i < parked->evicted_room; i++)
        mappings += parked->evicted[i].is_used && parked->evicted[i].page >= page &&
                    parked->evicted[i].page < end;
    stale->slack = mappings & TNRI_SLACK_MASK;
    tnri_event_hold(parked->event);
    tnri_stale_add(arena, stale, parked->event);
}

/* PARKED -> FREE, HOLE, STALE. Nobody works on it. Under the lock. */
static void parked_empty(tnri_parked *parked)
{
    tnri_arena *arena = parked->arena;
    tnri_block *block = parked->block;
    for (size_t i = 0; i < parked->evicted_room; i++) {
        tnri_evicted *evicted = &parked->evicted[i];
        if (!evicted->is_used)
            continue;
        tnri_lock_take(&tnri_parking_lock);
        tnri_evicted_forget(evicted);
        tnri_lock_release(&tnri_parking_lock);
        if (evicted->is_mapped)
            tnri_evicted_pages(evicted, &tnri_mapping_refused);
        size_t bytes = evicted->pages << tnri_arena_space(arena)->page_shift;
        tnri_note_memory(arena, TNRI_NOTED_MOVE_OUT,
                         tnri_page_address(tnri_arena_space(arena), evicted->page), bytes, bytes,
                         0);
    }
    tnri_world_unpark(block->world, block);
    parked_unlink(parked);
    if (block->uses != NULL)
        tnri_upper_of(TNRI_ROOM_ORDER)->forget(arena, block);
    tnri_arena_count_freed_because(arena, block, TNR_REUSE_SAME_STREAM);
    tnri_world_empty(block->world, block, mapping_stuck, parked);
}

int tnri_parked_free(tnri_arena *arena, void *ptr)
{
    for (unsigned round = 0;; round++) {
        tnri_arena_enter(arena);
        tnri_parked *parked = parked_at(arena, (uintptr_t)ptr);
        int is_ready = parked != NULL && !parked->is_returning && !parked_is_busy(parked);
        if (is_ready)
            parked_empty(parked);
        tnri_arena_leave(arena);
        if (is_ready)
            parked_destroy(parked);
        if (is_ready || parked == NULL)
            return is_ready;
        tnri_rest(round);
    }
}

void tnri_parked_free_all(tnri_arena *arena)
{
    for (;;) {
        tnri_arena_enter(arena);
        void *ptr = arena->parked == NULL ? NULL : (void *)arena->parked->block->base;
        tnri_arena_leave(arena);
        if (ptr == NULL)
            return;
        (void)tnri_parked_free(arena, ptr);
    }
}

int tnri_parked_is_moving(const tnri_arena *arena)
{
    int is_moving = 0;
    for (const tnri_parked *parked = arena->parked; parked != NULL && !is_moving;
         parked = parked->next)
        is_moving = parked_is_busy(parked);
    return is_moving;
}

size_t tnri_parked_away_bytes(const tnri_arena *arena)
{
    size_t pages = 0;
    for (const tnri_parked *parked = arena->parked; parked != NULL; parked = parked->next)
        pages += parked->evicted_pages;
    return pages << tnri_arena_space(arena)->page_shift;
}

size_t tnri_parked_bytes(const tnri_arena *arena)
{
    size_t pages = 0;
    for (const tnri_parked *parked = arena->parked; parked != NULL; parked = parked->next)
        pages += parked->end - parked->first;
    return pages << tnri_arena_space(arena)->page_shift;
}

const char *tnri_parked_validate(const tnri_arena *arena)
{
    const tnri_space *space = tnri_arena_space(arena);
    size_t count = arena->worlds[TNRI_SMALL].count_in[TNRI_PARKED] +
                   arena->worlds[TNRI_LARGE].count_in[TNRI_PARKED];
    for (const tnri_parked *parked = arena->parked; parked != NULL; parked = parked->next) {
        size_t away = 0, in_ranges = 0, used = 0;
        for (size_t page = parked->first; page < parked->end; page++)
            away += space->pages[page] == NULL;
        for (size_t i = 0; i < parked->evicted_room; i++) {
            in_ranges += parked->evicted[i].is_used ? parked->evicted[i].pages : 0;
            used += parked->evicted[i].is_used != 0;
        }
        if (parked->block->state != TNRI_PARKED || parked->block->world->arena != arena)
            return "what is listed as parked is not";
        if (away != parked->evicted_pages || in_ranges != away || used != parked->evicted_used)
            return "the evicted ranges of a parked block are not what it lacks";
        if (count-- == 0)
            return "a parked block is listed twice";
    }
    return count == 0 ? NULL : "a parked block is not listed";
}
