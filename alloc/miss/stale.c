/* SPDX-License-Identifier: Apache-2.0 */
/* Removing old mappings, with proof: see stale.h. */
#include "miss/stale.h"

#include <string.h>

#include "memory/arena/alias.h"
#include "memory/arena/bins.h"
#include "memory/arena/note.h"
#include "memory/arena/world_move.h"
#include "memory/arena/world_spent.h"
#include "memory/arena/world_lend.h"
#include "memory/device/access.h"
#include "memory/device/chunk.h"
#include "memory/device/segment.h"
#include "miss/evicted.h"
#include "memory/pool/asleep.h"
#include "memory/pool/pool.h"

void tnri_stale_add(tnri_arena *arena, tnri_block *stale, tnri_event *event)
{
    tnri_assert_held(&arena->lock);
    tnri_assert(stale->state == TNRI_STALE);
    stale->event = event;
    stale->next = NULL;
    if (arena->stale_last == NULL)
        arena->stale_first = stale;
    else
        arena->stale_last->next = stale;
    arena->stale_last = stale;
    arena->stale_count++;
}

void tnri_stale_add_done(tnri_arena *arena, tnri_block *stale, void *unused)
{
    (void)unused;
    tnri_stale_add(arena, stale, NULL);
}

/* Takes the oldest record out of the queue if more than `keep` wait. It stays STALE, and out of
 * everybody's reach, until stale_finish or stale_put_back. */
static tnri_block *stale_take_first(tnri_arena *arena, size_t keep)
{
    tnri_arena_enter(arena);
    tnri_block *stale = arena->stale_count > keep ? arena->stale_first : NULL;
    if (stale != NULL) {
        arena->stale_first = stale->next;
        if (stale->next == NULL)
            arena->stale_last = NULL;
        arena->stale_count--;
    }
    tnri_arena_leave(arena);
    return stale;
}

/* 1 if there are more than `keep` records. */
static int stale_is_due(tnri_arena *arena, size_t keep)
{
    tnri_arena_enter(arena);
    int is_due = arena->stale_count > keep;
    tnri_arena_leave(arena);
    return is_due;
}

static void stale_put_back(tnri_arena *arena, tnri_block *stale)
{
    tnri_arena_enter(arena);
    stale->next = arena->stale_first;
    arena->stale_first = stale;
    if (arena->stale_last == NULL)
        arena->stale_last = stale;
    arena->stale_count++;
    tnri_arena_leave(arena);
}

/* Proof that the record's work is over: 1 yes, 0 not yet. */
static int stale_is_over(const tnri_block *stale)
{
    return stale->event == NULL || tnri_event_is_over(stale->event);
}

/* Gives the chunks that are still at their pages back to the driver; returns their bytes. The pages
 * are unmapped and nobody else can reach the record, but their entries may be looked at under the
 * arena's lock: so stale_finish clears them. */
static size_t stale_release_chunks(tnri_arena *arena, const tnri_block *stale)
{
    const tnri_space *space = tnri_arena_space(arena);
    size_t bytes = 0;
    size_t end = tnri_page_of(space, tnri_block_end(stale));
    for (size_t page = tnri_page_of(space, stale->base); page < end;) {
        tnri_chunk *chunk = space->pages[page];
        size_t pages = chunk == NULL ? 1 : chunk->pages;
        if (chunk != NULL) {
            bytes += pages << space->page_shift;
            tnri_evicted_unmap_all(arena->device, chunk);
            tnri_chunk_release(arena->device, chunk);
        }
        page += pages;
    }
    return bytes;
}

/* Removes the record's mappings, of which proof is there that nothing uses them. In a pool that
 * sleeps, or is being woken, chunks are in any state; each remembers how far it is. */
static tnr_status stale_unmap(tnri_arena *arena, const tnri_block *stale)
{
    const tnri_space *space = tnri_arena_space(arena);
    size_t page = tnri_page_of(space, stale->base);
    size_t end = page + (stale->bytes >> space->page_shift);
    int state = atomic_load(&arena->pool->asleep.state);
    if (state != TNRI_ASLEEP && state != TNRI_WAKING)
        return tnri_pages_unmap(arena->device, page, end - page, stale->slack);
    for (; page < end; page += space->pages[page]->pages) {
        tnr_status status = tnri_chunk_unplace(arena->device, space->pages[page]);
        if (status != TNR_OK)
            return status;
    }
    return TNR_OK;
}

/* `released` is what was given back to the driver with it. */
static void stale_finish(tnri_arena *arena, tnri_block *stale, size_t released)
{
    tnri_space *space = tnri_arena_space(arena);
    tnri_event_drop(stale->event);
    tnri_arena_enter(arena);
    memset(&space->pages[tnri_page_of(space, stale->base)], 0,
           (stale->bytes >> space->page_shift) * sizeof(space->pages[0]));
    if (released > 0)
        tnri_note_memory(arena, TNRI_NOTED_UNMAP, stale->base, stale->bytes, stale->bytes, 0);
    tnri_pool_note_mapping(arena, 0, stale->base, stale->bytes);
    tnri_world_hole(stale->world, stale);
    tnri_arena_leave(arena);
}

/* Gives a foreign segment, of which the record is all, back to its owner: nothing is mapped by us,
 * and its addresses are no more the arena's. Returns its bytes. */
static size_t stale_give_back(tnri_arena *arena, tnri_block *stale)
{
    const tnri_space *space = tnri_arena_space(arena);
    size_t bytes = stale->bytes;
    tnri_event_drop(stale->event);
    tnri_device_look_begin(arena->device);
    tnri_arena_enter(arena);
    tnri_chunk *segment = space->pages[tnri_page_of(space, stale->base)];
    tnri_assert(segment->pages << space->page_shift == bytes);
    tnri_note_memory(arena, TNRI_NOTED_UNMAP, stale->base, bytes, bytes, 0);
    tnri_world_segment_remove(stale->world, stale);
    tnri_arena_leave(arena);
    tnri_device_look_end(arena->device);
    tnri_segment_release(segment);
    return bytes;
}

/* Queues what were aliases. */
static tnr_status stale_add_released(tnri_arena *arena, tnri_block *records)
{
    if (records == NULL)
        return TNR_OK;
    tnri_event *event = NULL;
    tnr_status status = tnri_arena_mark_other(arena, &event);
    tnri_arena_enter(arena);
    if (status != TNR_OK) {
        tnri_alias_put_back(records);
        records = NULL;
    }
    while (records != NULL) {
        tnri_block *stale = records;
        records = stale->next;
        if (event != NULL)
            tnri_event_hold(event);
        tnri_stale_add(arena, stale, event);
    }
    tnri_arena_leave(arena);
    tnri_event_drop(event);
    return status;
}

tnr_status tnri_stale_expire(tnri_arena *arena, size_t keep)
{
    tnri_arena_enter(arena);
    tnri_block *records = arena->aliases_count > keep ? tnri_alias_release(arena, keep) : NULL;
    tnri_arena_leave(arena);
    return stale_add_released(arena, records);
}

/* Removes what were aliases of a chunk that is seen to be idle. What the driver refuses is tried
 * again. */
static void released_unmap(tnri_arena *arena, tnri_block *records)
{
    while (records != NULL) {
        tnri_block *stale = records;
        records = stale->next;
        if (stale_unmap(arena, stale) == TNR_OK)
            stale_finish(arena, stale, 0);
        else
            stale_put_back(arena, stale);
    }
}

int tnri_stale_forget_aliases(tnr_pool pool, const tnri_chunk *chunk)
{
    tnri_arena *other = NULL;
    while (atomic_load_explicit(&chunk->aliases, memory_order_acquire) != 0 &&
           (other = tnri_arena_walk(pool, other)) != NULL) {
        tnri_arena_enter(other);
        tnri_block *records = tnri_alias_release_of(other, chunk);
        tnri_arena_leave(other);
        released_unmap(other, records);
    }
    return atomic_load_explicit(&chunk->aliases, memory_order_acquire) == 0;
}

/* The same for all chunks that a record holds. */
static int stale_forget_aliases(const tnri_arena *arena, const tnri_block *stale)
{
    const tnri_space *space = tnri_arena_space(arena);
    int are_gone = 1;
    size_t end = tnri_page_of(space, tnri_block_end(stale));
    for (size_t page = tnri_page_of(space, stale->base); page < end && stale->holds; page++) {
        const tnri_chunk *chunk = space->pages[page];
        if (chunk != NULL && chunk->page == page)
            are_gone &= tnri_stale_forget_aliases(arena->pool, chunk);
    }
    return are_gone;
}

/* Records that must stay for now, linked through next. */
static void stale_list_put_back(tnri_arena *arena, tnri_block *list)
{
    while (list != NULL) {
        tnri_block *stale = list;
        list = stale->next;
        stale_put_back(arena, stale);
    }
}

/* Removes mappings until the work of one is not over: *open is its event, with a reference, else
 * null. */
static tnr_status stale_drain(tnri_arena *arena, size_t keep, size_t *released, tnri_event **open)
{
    tnri_block *wanted = NULL;
    *open = NULL;
    tnr_status status = TNR_OK;
    int is_over = 1;
    while (is_over && status == TNR_OK) {
        tnri_block *stale = stale_take_first(arena, keep);
        if (stale == NULL)
            break;
        is_over = stale_is_over(stale);
        if (is_over && tnri_account_is_foreign(arena->account)) {
            *released += stale_give_back(arena, stale);
            continue;
        }
        if (is_over && !stale_forget_aliases(arena, stale)) {
            stale->next = wanted;
            wanted = stale;
            continue;
        }
        if (is_over)
            status = stale_unmap(arena, stale);
        if (!is_over) {
            tnri_event_hold(stale->event);
            *open = stale->event;
        }
        if (!is_over || status != TNR_OK) {
            stale_put_back(arena, stale);
            continue;
        }
        size_t given_back = stale_release_chunks(arena, stale);
        *released += given_back;
        stale_finish(arena, stale, given_back);
    }
    stale_list_put_back(arena, wanted);
    return status;
}

tnr_status tnri_stale_drain(tnri_arena *arena, size_t keep, int wait, size_t *released)
{
    int is_foreign = tnri_account_is_foreign(arena->account);
    tnri_assert_none_held();
    if (wait && keep == 0) {
        tnr_status status = tnri_stale_expire(arena, 0);
        if (status != TNR_OK && status != TNR_ERR_CAPTURE)
            return status;
    }
    if (is_foreign && tnri_segment_is_inside())
        return TNR_OK;
    tnr_status status = TNR_OK;
    for (int again = 1; again && stale_is_due(arena, keep);) {
        tnri_event *open;
        if (!is_foreign)
            tnri_handling_enter(&arena->device->handling);
        status = stale_drain(arena, keep, released, &open);
        if (!is_foreign)
            tnri_handling_leave(&arena->device->handling);
        again = wait && open != NULL && !tnri_handling_is_alone();
        if (again) /* with nothing in hand: the work may wait for a thread that wants memory */
            status = tnri_event_wait(open);
        again = again && status == TNR_OK;
        tnri_event_drop(open);
    }
    return status;
}

/* Takes the records out of the queue that hold chunks at [base, end). */
static tnri_block *stale_take_at(tnri_arena *arena, uintptr_t base, uintptr_t end)
{
    tnri_block *taken = NULL;
    tnri_arena_enter(arena);
    for (tnri_block *stale = arena->stale_first, *before = NULL; stale != NULL;) {
        tnri_block *next = stale->next;
        if (!stale->holds || stale->base >= end || tnri_block_end(stale) <= base) {
            before = stale;
        } else {
            *(before == NULL ? &arena->stale_first : &before->next) = next;
            if (next == NULL)
                arena->stale_last = before;
            arena->stale_count--;
            stale->next = taken;
            taken = stale;
        }
        stale = next;
    }
    tnri_arena_leave(arena);
    return taken;
}

/* Who changed access since the record came to the queue has passed it by. */
static tnr_status stale_open(tnri_arena *arena, const tnri_block *stale)
{
    const tnri_space *space = tnri_arena_space(arena);
    size_t page = tnri_page_of(space, stale->base);
    size_t end = page + (stale->bytes >> space->page_shift);
    tnr_status status = TNR_OK;
    for (; status == TNR_OK && page < end; page += space->pages[page]->pages)
        status = tnri_pages_access_again(arena->device, &arena->account->access, page,
                                         space->pages[page]->pages);
    return status;
}

void tnri_stale_take_back(tnri_arena *arena, uintptr_t base, uintptr_t end)
{
    tnri_access *access = &arena->account->access;
    unsigned epoch = tnri_placing_begin(access);
    tnri_block *back = stale_take_at(arena, base, end);
    int is_returned = 0;
    while (back != NULL) {
        tnri_block *stale = back;
        back = stale->next;
        if (stale_open(arena, stale) != TNR_OK) {
            stale_put_back(arena, stale);
            continue;
        }
        tnri_arena_enter(arena);
        tnri_event_drop(stale->event);
        tnri_world_uncut(stale->world, stale);
        tnri_arena_leave(arena);
        is_returned = 1;
    }
    if (is_returned) /* who changes access now did not see it */
        atomic_fetch_add(&access->returned, 1);
    tnri_placing_end(access, epoch);
}

/* ---- cutting what is idle -------------------------------------------------------------------- */

/* Wholly free chunks that were cut out of an arena's runs, to be given back. */
typedef struct cuttings {
    tnri_block *list; /* STALE records, through next */
    size_t pages, pages_max;
    unsigned epoch; /* what is put back counts as placed: who changes access did not see it */
} cuttings;

/* Cuts whole chunks off the upper end of [first, end), as many as are still wanted. */
static void run_cut_idle(cuttings *cut, tnri_world *world, tnri_block *run, size_t first,
                         size_t end)
{
    size_t page = end;
    size_t mappings = 0;
    while (page > first && cut->pages < cut->pages_max) {
        const tnri_chunk *chunk = world->space->pages[page - 1];
        page = chunk->page;
        cut->pages += chunk->pages;
        mappings++;
    }
    tnri_block *stale = tnri_world_cut(world, run, page, end - page, mappings);
    stale->next = cut->list;
    cut->list = stale;
}

/* The same for all runs of a world. Returns 0 when host memory for records has run out. */
static int world_cut_idle(cuttings *cut, tnri_world *world)
{
    tnri_index_walk walk = {tnri_index_class(tnri_page_bytes(world->space)), NULL};
    tnri_block *run;
    while (cut->pages < cut->pages_max && (run = tnri_index_next(world->index, &walk)) != NULL) {
        size_t first, end;
        if (!tnri_run_whole_chunks(world->space, run, &first, &end))
            continue;
        if (!tnri_world_spares(world, TNRI_CUT_RECORDS))
            return 0;
        run_cut_idle(cut, world, run, first, end);
    }
    return 1;
}

/* The same for an arena, whose bins are flushed first. To be followed by cuttings_end. */
static void arena_cut_idle(cuttings *cut, tnri_arena *arena)
{
    tnri_handling_enter(&arena->device->handling);
    cut->epoch = tnri_placing_begin(&arena->account->access);
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++)
        tnri_world_flush(&arena->worlds[i]);
    for (int i = 0; i < TNRI_WORLDS; i++)
        if (!world_cut_idle(cut, &arena->worlds[i]))
            break;
    tnri_arena_leave(arena);
}

/* Queues what was cut to wait for an event, or puts it back where it was. */
static void cuttings_end(cuttings *cut, tnri_arena *arena, int is_queued, tnri_event *event)
{
    tnri_access *access = &arena->account->access;
    int is_returned = cut->list != NULL && !is_queued;
    tnri_arena_enter(arena);
    while (cut->list != NULL) {
        tnri_block *stale = cut->list;
        cut->list = stale->next;
        if (!is_queued) {
            tnri_world_uncut(stale->world, stale);
            continue;
        }
        if (event != NULL)
            tnri_event_hold(event);
        tnri_stale_add(arena, stale, event);
    }
    tnri_arena_leave(arena);
    if (is_returned)
        atomic_fetch_add(&access->returned, 1);
    tnri_placing_end(access, cut->epoch);
    tnri_handling_leave(&arena->device->handling);
}

/* Marks the end of the work that may use what was cut, if anything was. */
static tnr_status cuttings_mark(const cuttings *cut, tnri_arena *arena, tnri_event **event)
{
    *event = NULL;
    return cut->list == NULL ? TNR_OK : tnri_arena_mark_other(arena, event);
}

tnr_status tnri_stale_release(tnri_arena *arena, size_t bytes, size_t *queued)
{
    const tnri_space *space = tnri_arena_space(arena);
    size_t pages = (bytes >> space->page_shift) + ((bytes & (tnri_page_bytes(space) - 1)) != 0);
    cuttings cut = {.pages_max = pages};
    tnri_event *event;
    *queued = 0;
    arena_cut_idle(&cut, arena);
    tnr_status status = cuttings_mark(&cut, arena, &event);
    cuttings_end(&cut, arena, status == TNR_OK, event);
    if (status == TNR_OK) {
        tnri_event_drop(event);
        *queued = cut.pages << space->page_shift;
    }
    /* What cannot be proved idle during a capture stays where it is; that is no failure. */
    return status == TNR_ERR_CAPTURE ? TNR_OK : status;
}

size_t tnri_stale_held_bytes(const tnri_arena *arena)
{
    size_t bytes = 0;
    for (const tnri_block *stale = arena->stale_first; stale != NULL; stale = stale->next)
        if (stale->holds)
            bytes += stale->bytes;
    return bytes;
}
