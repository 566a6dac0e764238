/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that graphs and captures keep: see hold.h. */
#include "hold.h"

#include "base/error.h"
#include "base/ticks.h"
#include "retire.h"

/* Freed blocks without a hold whose retirement could not go on. */
static struct {
    tnri_lock lock;
    tnri_uses *first; /* through batch_next */
    _Atomic size_t count;
} stuck = {.lock = {.rank = TNRI_RANK_RETIRED}};

tnr_status tnri_hold_add(tnri_arena *arena, tnri_block *block, tnri_uses **uses)
{
    tnri_assert_held(&arena->lock);
    tnri_assert(block->state == TNRI_LIVE || block->state == TNRI_RETIRED);
    tnr_status status = tnri_uses_prepare(arena, block);
    if (status != TNR_OK)
        return status;
    block->uses->holds++;
    *uses = block->uses;
    return TNR_OK;
}

int tnri_hold_free(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync)
{
    tnri_arena_enter(arena);
    int is_held = block->state == TNRI_LIVE && block->base == (uintptr_t)ptr &&
                  block->uses != NULL && block->uses->holds > 0;
    if (is_held) {
        tnri_uses *uses = block->uses;
        uses->bytes = block->bytes;
        uses->is_freed = 1;
        uses->freed_ticks = tnri_ticks();
        uses->is_sync = is_sync;
        arena->held_count++;
        tnri_arena_count_freed(arena, block);
        tnri_world_retire(block->world, block);
    }
    tnri_lock_release(&arena->lock);
    return is_held;
}

/* The retirement of a freed block that nothing holds any more; only this thread knows of it. */
static void hold_go_on(tnri_uses *uses)
{
    if (tnri_retire_freed(uses) == TNR_OK)
        return;
    tnri_lock_take(&stuck.lock);
    uses->batch_next = stuck.first;
    stuck.first = uses;
    atomic_fetch_add(&stuck.count, 1);
    tnri_lock_release(&stuck.lock);
}

void tnri_hold_end(tnri_uses *uses)
{
    tnri_arena *arena = uses->arena;
    tnri_arena_enter(arena);
    tnri_assert(uses->holds > 0);
    uses->holds--;
    int goes_on = uses->holds == 0 && uses->is_freed;
    tnri_lock_release(&arena->lock);
    if (goes_on)
        hold_go_on(uses);
}

void tnri_holds_retry(void)
{
    if (tnri_likely(atomic_load_explicit(&stuck.count, memory_order_relaxed) == 0))
        return;
    tnri_lock_take(&stuck.lock);
    tnri_uses *list = stuck.first;
    stuck.first = NULL;
    atomic_store(&stuck.count, 0);
    tnri_lock_release(&stuck.lock);
    while (list != NULL) {
        tnri_uses *uses = list;
        list = uses->batch_next;
        hold_go_on(uses);
    }
}

void tnri_holds_forget(const tnri_device *device)
{
    tnri_lock_take(&stuck.lock);
    for (tnri_uses **link = &stuck.first; *link != NULL;) {
        tnri_uses *uses = *link;
        if (uses->arena->device != device) {
            link = &uses->batch_next;
            continue;
        }
        *link = uses->batch_next;
        atomic_fetch_sub(&stuck.count, 1);
    }
    tnri_lock_release(&stuck.lock);
}
