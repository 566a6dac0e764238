/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that graphs and captures keep: see hold.h. */
#include "order/hold.h"

#include "base/error.h"
#include "base/host_memory.h"
#include "base/prim/thread.h"
#include "base/ticks.h"
#include "memory/arena/free.h"
#include "order/retire.h"

/* Freed blocks whose retirement could not go on, each with one hold for that. One thread at a time
 * tries them again, and they count until it has: a thread that lacks memory meanwhile waits for it,
 * and does not take the list for empty. */
static struct {
    tnri_lock lock;
    tnri_uses *first; /* through batch_next */
    _Atomic size_t count;
    tnri_mutex retrying;
} stuck = {.lock = {.rank = TNRI_RANK_RETIRED}, .retrying = TNRI_MUTEX_INIT};

_Atomic uint32_t tnri_offers_freed;

tnr_status tnri_hold_add(tnri_arena *arena, tnri_block *block, tnri_uses **uses)
{
    tnri_assert_held(&arena->lock);
    tnri_assert(block->state == TNRI_LIVE || block->state == TNRI_RETIRED ||
                block->state == TNRI_PARKED);
    tnr_status status = tnri_uses_prepare(arena, block);
    if (status != TNR_OK)
        return status;
    block->uses->holds++;
    *uses = block->uses;
    return TNR_OK;
}

/* Notes that a block with uses is freed, if it is live, begins at `ptr` and is held, also by the
 * holds that are added now. Returns its uses, else null. */
static tnri_uses *freed_note(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync,
                             uint32_t added)
{
    tnri_uses *uses = NULL;
    tnri_arena_enter(arena);
    if (block->state == TNRI_LIVE && block->base == (uintptr_t)ptr && block->uses != NULL &&
        block->uses->holds + added > 0) {
        uses = block->uses;
        uses->holds += added;
        uses->bytes = block->bytes;
        uses->is_freed = 1;
        uses->freed_ticks = tnri_ticks();
        uses->is_sync = is_sync;
        if (uses->offer != NULL) {
            atomic_store(&uses->offer->is_freed, 1);
            atomic_fetch_add(&tnri_offers_freed, 1);
        }
        arena->held_count++;
        tnri_arena_retire(arena, block);
    }
    tnri_arena_leave(arena);
    return uses;
}

int tnri_hold_free(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync)
{
    return freed_note(arena, block, ptr, is_sync, 0) != NULL;
}

static void stuck_add(tnri_uses *uses)
{
    tnri_lock_take(&stuck.lock);
    uses->batch_next = stuck.first;
    stuck.first = uses;
    atomic_fetch_add(&stuck.count, 1);
    tnri_lock_release(&stuck.lock);
}

int tnri_free_later(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync)
{
    tnri_uses *uses = freed_note(arena, block, ptr, is_sync, 1);
    if (uses != NULL)
        stuck_add(uses);
    return uses != NULL;
}

/* The retirement of a freed block, which gives up the caller's hold. Until it has, launches find
 * the block among those that are held. */
static void hold_go_on(tnri_uses *uses)
{
    if (tnri_retire_freed(uses) != TNR_OK)
        stuck_add(uses);
}

void tnri_hold_end(tnri_uses *uses)
{
    tnri_arena *arena = uses->arena;
    tnri_arena_enter(arena);
    tnri_assert(uses->holds > 0);
    int goes_on = uses->holds == 1 && uses->is_freed;
    if (!goes_on)
        uses->holds--;
    tnri_arena_leave(arena);
    if (goes_on)
        hold_go_on(uses);
}

void tnri_holds_retry(void)
{
    if (tnri_likely(atomic_load_explicit(&stuck.count, memory_order_relaxed) == 0))
        return;
    tnri_mutex_lock(&stuck.retrying);
    tnri_lock_take(&stuck.lock);
    tnri_uses *list = stuck.first;
    stuck.first = NULL;
    tnri_lock_release(&stuck.lock);
    while (list != NULL) {
        tnri_uses *uses = list;
        list = uses->batch_next;
        hold_go_on(uses);
        atomic_fetch_sub(&stuck.count, 1);
    }
    tnri_mutex_unlock(&stuck.retrying);
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

/* ---- ordering a launch ---------------------------------------------------------------------- */

/* Where a use of a held block ends; with a reference to the stream and, if it is marked, to the
 * event. */
typedef struct held_use {
    tnri_stream *stream; /* null: freed as by tnr_free_sync, so any stream may use it */
    tnri_event *event;
} held_use;

static size_t held_uses_of(const tnri_uses *uses, held_use *found, size_t count, size_t room)
{
    if ((uses->is_sync || uses->is_orphaned) && count++ < room)
        found[count - 1] = (held_use){NULL, NULL};
    for (const tnri_use *use = uses->first; use != NULL; use = use->next) {
        if (count++ >= room)
            continue;
        int is_marked = use->until_free != TNRI_UNTIL_FREE_OPEN;
        found[count - 1] = (held_use){use->stream, is_marked ? use->event : NULL};
        tnri_stream_hold(use->stream);
        if (is_marked)
            tnri_event_hold(use->event);
    }
    return count;
}

/* The uses of the arena's blocks that were freed and are held. Returns how many there are; those
 * that fit are stored. */
static size_t held_uses(tnri_arena *arena, held_use *found, size_t room)
{
    size_t count = 0;
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS && arena->held_count > 0; i++) {
        const tnri_world *world = &arena->worlds[i];
        for (size_t s = 0; s < world->spans_count; s++)
            for (const tnri_block *block = world->span_first[s]; block != NULL;
                 block = block->above)
                if (block->state == TNRI_RETIRED && block->uses != NULL && block->uses->is_freed &&
                    block->uses->holds > 0)
                    count = held_uses_of(block->uses, found, count, room);
    }
    tnri_arena_leave(arena);
    return count;
}

static void held_uses_drop(const held_use *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tnri_event_drop(found[i].event);
        if (found[i].stream != NULL)
            tnri_stream_drop(found[i].stream);
    }
}

/* Waits for all that a device was given, which may be another than the one whose context is
 * current. */
static tnr_status device_wait(tnri_device *device, tnri_event **event)
{
    tnri_visit visit;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    status = tnri_event_context(device, event);
    tnri_device_leave(&visit);
    return status;
}

/* Makes the stream wait for one use. What is open is marked now, after the free: later than need
 * be, and safe. */
static tnr_status held_use_order(tnri_device *device, held_use *use, const tnri_stream *stream)
{
    uint64_t number;
    tnr_status status = TNR_OK;
    if (use->stream == stream)
        return TNR_OK;
    if (use->stream == NULL)
        return device_wait(device, &use->event);
    if (use->event == NULL)
        status = tnri_stream_mark(use->stream, &use->event, &number);
    return status == TNR_OK ? tnri_event_order(use->event, stream->handle) : status;
}

tnr_status tnri_holds_order_after(tnri_arena *arena, const tnri_stream *stream)
{
    held_use *found = NULL;
    size_t room = 0;
    size_t count;
    while ((count = held_uses(arena, found, room)) > room) {
        held_uses_drop(found, room);
        if (found != NULL)
            tnri_host_free(found, room * sizeof(found[0]));
        room = count;
        found = tnri_host_alloc(room * sizeof(found[0]));
        if (found == NULL)
            return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to order a launch.");
    }
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < count && status == TNR_OK; i++)
        status = held_use_order(arena->device, &found[i], stream);
    held_uses_drop(found, count);
    if (found != NULL)
        tnri_host_free(found, room * sizeof(found[0]));
    return status;
}
