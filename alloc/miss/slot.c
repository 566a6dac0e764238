/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of parked blocks: see slot.h. */
#include "miss/slot.h"

#include "base/rest.h"
#include "log/mappings.h"
#include "memory/pool/pool.h"

tnri_lock tnri_parking_lock = {.rank = TNRI_RANK_PARKING};

static tnri_slot *slot_spare(tnri_parked *parked)
{
    for (size_t i = 0; i < parked->slots_room; i++)
        if (!parked->slots[i].is_used)
            return &parked->slots[i];
    return NULL;
}

void tnri_slot_pages(const tnri_slot *slot, tnri_chunk *chunk)
{
    const tnri_arena *arena = slot->parked->arena;
    tnri_space *space = tnri_arena_space(arena);
    tnri_assert_held(&arena->lock);
    for (size_t p = 0; p < slot->pages; p++)
        space->pages[slot->page + p] = chunk;
}

tnri_slot *tnri_slot_make(tnri_parked *parked, size_t page, size_t pages, int is_mapped)
{
    tnri_slot *slot = slot_spare(parked);
    tnri_assert_held(&parked->arena->lock);
    tnri_assert(slot != NULL);
    *slot = (tnri_slot){.parked = parked, .page = page, .pages = pages, .is_used = 1};
    slot->is_mapped = is_mapped;
    parked->away_pages += pages;
    parked->slots_used++;
    tnri_slot_pages(slot, NULL);
    return slot;
}

void tnri_slot_drop(tnri_slot *slot)
{
    tnri_assert_held(&slot->parked->arena->lock);
    slot->parked->away_pages -= slot->pages;
    slot->parked->slots_used--;
    slot->is_used = 0;
}

tnri_slot *tnri_slot_vacate(tnri_parked *parked, tnri_chunk *chunk)
{
    if (parked->slots_used >= parked->slots_room / 2)
        return NULL;
    tnri_slot *slot = tnri_slot_make(parked, chunk->page, chunk->pages, 1);
    slot->is_busy = 1;
    slot->epoch = atomic_load(&parked->arena->pool->account.access.epoch);
    tnri_slot_unclaim(slot, chunk);
    return slot;
}

void tnri_slot_restore(tnri_slot *slot, tnri_chunk *chunk)
{
    tnri_slot *claimed = tnri_slot_claim(chunk, slot->parked);
    tnri_assert(claimed == slot);
    (void)claimed;
    tnri_slot_pages(slot, chunk);
    chunk->page = slot->page;
    tnri_slot_drop(slot);
}

void tnri_slot_settle(tnri_slot *slot)
{
    tnri_lock_take(&tnri_parking_lock);
    slot->is_busy = 0;
    tnri_lock_release(&tnri_parking_lock);
}

tnri_slot *tnri_slot_claim(tnri_chunk *chunk, const tnri_parked *parked)
{
    tnri_lock_take(&tnri_parking_lock);
    tnri_slot **link = &chunk->slots;
    while (*link != NULL && (*link)->parked != parked)
        link = &(*link)->next;
    tnri_slot *slot = *link;
    if (slot != NULL) {
        *link = slot->next;
        slot->chunk = NULL;
    }
    tnri_lock_release(&tnri_parking_lock);
    return slot;
}

void tnri_slot_unclaim(tnri_slot *slot, tnri_chunk *chunk)
{
    tnri_lock_take(&tnri_parking_lock);
    slot->chunk = chunk;
    slot->next = chunk->slots;
    chunk->slots = slot;
    tnri_lock_release(&tnri_parking_lock);
}

/* A change that begins from here on waits for the caller, and then changes what has come back.
 * While one is under way nothing comes: it may have passed by already. */
void tnri_slots_forget_old(tnri_parked *parked)
{
    const tnri_access *access = &parked->arena->pool->account.access;
    int is_changing = atomic_load(&access->is_changing);
    uint32_t epoch = atomic_load(&access->epoch);
    tnri_lock_take(&tnri_parking_lock);
    for (size_t i = 0; i < parked->slots_room; i++)
        if (parked->slots[i].is_used && (is_changing || parked->slots[i].epoch != epoch))
            tnri_slot_forget(&parked->slots[i]);
    tnri_lock_release(&tnri_parking_lock);
}

void tnri_slot_forget(tnri_slot *slot)
{
    if (slot->chunk == NULL)
        return;
    tnri_slot **link = &slot->chunk->slots;
    while (*link != slot)
        link = &(*link)->next;
    *link = slot->next;
    slot->chunk = NULL;
}

/* Removes the mapping, and tells who follows. */
static tnr_status slot_unmap_told(const tnri_slot *slot)
{
    tnri_arena *arena = slot->parked->arena;
    tnr_status status = tnri_pages_unmap(arena->device, slot->page, slot->pages, 1);
    if (status == TNR_OK && tnri_is_following()) {
        tnri_arena_enter(arena);
        tnri_pool_note_mapping(arena, 0, tnri_page_address(tnri_arena_space(arena), slot->page),
                               slot->pages << tnri_arena_space(arena)->page_shift);
        tnri_arena_leave(arena);
    }
    return status;
}

/* Removes the mapping of a slot that the calling thread has made busy. */
static tnr_status slot_unmap_busy(tnri_slot *slot)
{
    tnr_status status = slot_unmap_told(slot);
    tnri_lock_take(&tnri_parking_lock);
    slot->is_mapped = status != TNR_OK;
    slot->is_busy = 0;
    tnri_lock_release(&tnri_parking_lock);
    return status;
}

tnr_status tnri_slot_release(tnri_slot *slot, tnri_chunk *chunk)
{
    tnri_arena *arena = slot->parked->arena;
    tnr_status status = slot_unmap_told(slot);
    if (status != TNR_OK) {
        tnri_arena_enter(arena);
        tnri_slot_restore(slot, chunk);
        tnri_arena_leave(arena);
        return status;
    }
    tnri_lock_take(&tnri_parking_lock);
    tnri_slot_forget(slot);
    slot->is_mapped = 0;
    slot->is_busy = 0;
    tnri_lock_release(&tnri_parking_lock);
    tnri_slots_unmap(arena->device, chunk);
    tnri_chunk_release(arena->device, chunk);
    return TNR_OK;
}

void tnri_slots_unmap(tnri_device *device, tnri_chunk *chunk)
{
    (void)device;
    for (;;) {
        tnri_lock_take(&tnri_parking_lock);
        tnri_slot *slot = chunk->slots;
        if (slot != NULL) {
            tnri_slot_forget(slot);
            slot->is_busy = 1;
        }
        tnri_lock_release(&tnri_parking_lock);
        if (slot == NULL)
            return;
        (void)slot_unmap_busy(slot);
    }
}

tnr_status tnri_slot_unmap(tnri_slot *slot)
{
    for (unsigned round = 0;; round++) {
        tnri_lock_take(&tnri_parking_lock);
        int is_mine = slot->is_mapped && !slot->is_busy;
        int is_done = !slot->is_mapped && !slot->is_busy;
        if (is_mine) {
            tnri_slot_forget(slot);
            slot->is_busy = 1;
        }
        tnri_lock_release(&tnri_parking_lock);
        if (is_done)
            return TNR_OK;
        if (is_mine)
            return slot_unmap_busy(slot);
        tnri_rest(round);
    }
}

/* A slot of the arena that has a mapping and that nobody works on, made busy; null: there is
 * none. */
static tnri_slot *arena_slot(tnri_arena *arena)
{
    tnri_slot *found = NULL;
    tnri_arena_enter(arena);
    tnri_lock_take(&tnri_parking_lock);
    for (tnri_parked *parked = arena->parked; parked != NULL && found == NULL;
         parked = parked->next)
        for (size_t i = 0; i < parked->slots_room && found == NULL; i++)
            if (parked->slots[i].is_used && parked->slots[i].is_mapped && !parked->slots[i].is_busy)
                found = &parked->slots[i];
    if (found != NULL) {
        tnri_slot_forget(found);
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
        tnri_slot *slot;
        while (status == TNR_OK && (slot = arena_slot(arena)) != NULL)
            status = slot_unmap_busy(slot);
    }
    return status;
}
