/* SPDX-License-Identifier: Apache-2.0 */
/* Evicted ranges of parked blocks: see evicted.h. */
#include "miss/evicted.h"

#include "base/rest.h"
#include "log/mappings.h"
#include "memory/pool/pool.h"

tnri_lock tnri_parking_lock = {.rank = TNRI_RANK_PARKING};

static tnri_evicted *evicted_spare(tnri_parked *parked)
{
    for (size_t i = 0; i < parked->evicted_room; i++)
        if (!parked->evicted[i].is_used)
            return &parked->evicted[i];
    return NULL;
}

void tnri_evicted_pages(const tnri_evicted *evicted, tnri_chunk *chunk)
{
    const tnri_arena *arena = evicted->parked->arena;
    tnri_space *space = tnri_arena_space(arena);
    tnri_assert_held(&arena->lock);
    for (size_t p = 0; p < evicted->pages; p++)
        space->pages[evicted->page + p] = chunk;
}

tnri_evicted *tnri_evicted_make(tnri_parked *parked, size_t page, size_t pages, int is_mapped)
{
    tnri_evicted *evicted = evicted_spare(parked);
    tnri_assert_held(&parked->arena->lock);
    tnri_assert(evicted != NULL);
    *evicted = (tnri_evicted){.parked = parked, .page = page, .pages = pages, .is_used = 1};
    evicted->is_mapped = is_mapped;
    parked->evicted_pages += pages;
    parked->evicted_used++;
    tnri_evicted_pages(evicted, NULL);
    return evicted;
}

void tnri_evicted_drop(tnri_evicted *evicted)
{
    tnri_assert_held(&evicted->parked->arena->lock);
    evicted->parked->evicted_pages -= evicted->pages;
    evicted->parked->evicted_used--;
    evicted->is_used = 0;
}

tnri_evicted *tnri_evict(tnri_parked *parked, tnri_chunk *chunk)
{
    if (parked->evicted_used >= parked->evicted_room / 2)
        return NULL;
    tnri_evicted *evicted = tnri_evicted_make(parked, chunk->page, chunk->pages, 1);
    evicted->is_busy = 1;
    evicted->epoch = atomic_load(&parked->arena->pool->account.access.epoch);
    tnri_evicted_unclaim(evicted, chunk);
    return evicted;
}

void tnri_evicted_restore(tnri_evicted *evicted, tnri_chunk *chunk)
{
    tnri_evicted *claimed = tnri_evicted_claim(chunk, evicted->parked);
    tnri_assert(claimed == evicted);
    (void)claimed;
    tnri_evicted_pages(evicted, chunk);
    chunk->page = evicted->page;
    tnri_evicted_drop(evicted);
}

void tnri_evicted_settle(tnri_evicted *evicted)
{
    tnri_lock_take(&tnri_parking_lock);
    evicted->is_busy = 0;
    tnri_lock_release(&tnri_parking_lock);
}

tnri_evicted *tnri_evicted_claim(tnri_chunk *chunk, const tnri_parked *parked)
{
    tnri_lock_take(&tnri_parking_lock);
    tnri_evicted **link = &chunk->evicted;
    while (*link != NULL && (*link)->parked != parked)
        link = &(*link)->next;
    tnri_evicted *evicted = *link;
    if (evicted != NULL) {
        *link = evicted->next;
        evicted->chunk = NULL;
    }
    tnri_lock_release(&tnri_parking_lock);
    return evicted;
}

void tnri_evicted_unclaim(tnri_evicted *evicted, tnri_chunk *chunk)
{
    tnri_lock_take(&tnri_parking_lock);
    evicted->chunk = chunk;
    evicted->next = chunk->evicted;
    chunk->evicted = evicted;
    tnri_lock_release(&tnri_parking_lock);
}

/* A change that begins from here on waits for the caller, and then changes what has come back.
 * While one is under way nothing comes: it may have passed by already. */
void tnri_evicted_forget_old(tnri_parked *parked)
{
    const tnri_access *access = &parked->arena->pool->account.access;
    int is_changing = atomic_load(&access->is_changing);
    uint32_t epoch = atomic_load(&access->epoch);
    tnri_lock_take(&tnri_parking_lock);
    for (size_t i = 0; i < parked->evicted_room; i++)
        if (parked->evicted[i].is_used && (is_changing || parked->evicted[i].epoch != epoch))
            tnri_evicted_forget(&parked->evicted[i]);
    tnri_lock_release(&tnri_parking_lock);
}

void tnri_evicted_forget(tnri_evicted *evicted)
{
    if (evicted->chunk == NULL)
        return;
    tnri_evicted **link = &evicted->chunk->evicted;
    while (*link != evicted)
        link = &(*link)->next;
    *link = evicted->next;
    evicted->chunk = NULL;
}

/* Removes the mapping, and tells who follows. */
static tnr_status evicted_unmap_told(const tnri_evicted *evicted)
{
    tnri_arena *arena = evicted->parked->arena;
    tnr_status status = tnri_pages_unmap(arena->device, evicted->page, evicted->pages, 1);
    if (status == TNR_OK && tnri_is_following()) {
        tnri_arena_enter(arena);
        tnri_pool_note_mapping(arena, 0, tnri_page_address(tnri_arena_space(arena), evicted->page),
                               evicted->pages << tnri_arena_space(arena)->page_shift);
        tnri_arena_leave(arena);
    }
    return status;
}

/* Removes the mapping of a range that the calling thread has made busy. */
static tnr_status evicted_unmap_busy(tnri_evicted *evicted)
{
    tnr_status status = evicted_unmap_told(evicted);
    tnri_lock_take(&tnri_parking_lock);
    evicted->is_mapped = status != TNR_OK;
    evicted->is_busy = 0;
    tnri_lock_release(&tnri_parking_lock);
    return status;
}

tnr_status tnri_evicted_release(tnri_evicted *evicted, tnri_chunk *chunk)
{
    tnri_arena *arena = evicted->parked->arena;
    tnr_status status = evicted_unmap_told(evicted);
    if (status != TNR_OK) {
        tnri_arena_enter(arena);
        tnri_evicted_restore(evicted, chunk);
        tnri_arena_leave(arena);
        return status;
    }
    tnri_lock_take(&tnri_parking_lock);
    tnri_evicted_forget(evicted);
    evicted->is_mapped = 0;
    evicted->is_busy = 0;
    tnri_lock_release(&tnri_parking_lock);
    tnri_evicted_unmap_all(arena->device, chunk);
    tnri_chunk_release(arena->device, chunk);
    return TNR_OK;
}

void tnri_evicted_unmap_all(tnri_device *device, tnri_chunk *chunk)
{
    (void)device;
    for (;;) {
        tnri_lock_take(&tnri_parking_lock);
        tnri_evicted *evicted = chunk->evicted;
        if (evicted != NULL) {
            tnri_evicted_forget(evicted);
            evicted->is_busy = 1;
        }
        tnri_lock_release(&tnri_parking_lock);
        if (evicted == NULL)
            return;
        (void)evicted_unmap_busy(evicted);
    }
}

tnr_status tnri_evicted_unmap(tnri_evicted *evicted)
{
    for (unsigned round = 0;; round++) {
        tnri_lock_take(&tnri_parking_lock);
        int is_mine = evicted->is_mapped && !evicted->is_busy;
        int is_done = !evicted->is_mapped && !evicted->is_busy;
        if (is_mine) {
            tnri_evicted_forget(evicted);
            evicted->is_busy = 1;
        }
        tnri_lock_release(&tnri_parking_lock);
        if (is_done)
            return TNR_OK;
        if (is_mine)
            return evicted_unmap_busy(evicted);
        tnri_rest(round);
    }
}

/* A range of the arena that has a mapping and that nobody works on, made busy; null: there is
 * none. */
static tnri_evicted *arena_evicted(tnri_arena *arena)
{
    tnri_evicted *found = NULL;
    tnri_arena_enter(arena);
    tnri_lock_take(&tnri_parking_lock);
    for (tnri_parked *parked = arena->parked; parked != NULL && found == NULL;
         parked = parked->next)
        for (size_t i = 0; i < parked->evicted_room && found == NULL; i++)
            if (parked->evicted[i].is_used && parked->evicted[i].is_mapped &&
                !parked->evicted[i].is_busy)
                found = &parked->evicted[i];
    if (found != NULL) {
        tnri_evicted_forget(found);
        found->is_busy = 1;
    }
    tnri_lock_release(&tnri_parking_lock);
    tnri_arena_leave(arena);
    return found;
}

tnr_status tnri_parked_settle(tnr_pool pool)
{
    tnr_status status = TNR_OK;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnri_evicted *evicted;
        while (status == TNR_OK && (evicted = arena_evicted(arena)) != NULL)
            status = evicted_unmap_busy(evicted);
    }
    return status;
}
