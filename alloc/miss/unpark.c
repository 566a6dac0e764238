/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for a parked block that is needed again, at its own addresses: see park.h.
 *
 *   1. Chunks whose old mapping is still there, and that are free or parked at home elsewhere, come
 *      back as they are. Only the order of streams needs calls of the driver. From other arenas
 *      they are taken as a plan takes donors: cut, or evicted, under that arena's lock; then this
 *      arena's stream waits for that one on the device.
 *   2. Where others must come, old mappings go, with proof.
 *   3. A plan gives the addresses other chunks. If other parked blocks have enough, it takes
 *      theirs: blocks that are parked in turn share chunks from then on. Free chunks were freed by
 *      streams that will want as much again. If the plan took those, such a stream would take
 *      parked chunks, and wait for copies of their contents, each time. If other parked blocks have
 *      not enough, it takes free chunks, then those of parked blocks, then new ones.
 *
 * A failure leaves the block parked, with what has come back until then.
 */
#include "miss/park.h"

#include "base/conf/conf.h"
#include "base/error.h"
#include "base/heuristics.h"
#include "base/host_memory.h"
#include "memory/arena/bins.h"
#include "memory/arena/note.h"
#include "memory/arena/world_move.h"
#include "memory/arena/world_spent.h"
#include "memory/pool/pool.h"
#include "miss/execute.h"
#include "miss/reclaim.h"
#include "miss/stale.h"

/* ---- the same chunks ------------------------------------------------------------------------ */

/* A chunk on its way home. */
typedef struct homing {
    tnri_chunk *chunk;
    tnri_evicted *evicted; /* where it is still mapped */
    tnri_block *stale;     /* what it was cut out of, with its neighbours in the list; null: */
    tnri_evicted *left;    /* where it was parked */
} homing;

typedef struct homings {
    tnri_parked *parked;
    homing *at;
    size_t count, room;
} homings;

/* Cuts the chunks from `page` on, as many as are to come home, out of a run. 0: none is. */
static int run_send(homings *self, tnri_world *world, tnri_block *run, size_t page, size_t end)
{
    const tnri_space *space = world->space;
    size_t from = self->count, first = page;
    tnri_chunk *chunk;
    tnri_evicted *evicted;
    if (!tnri_world_spares(world, TNRI_CUT_RECORDS))
        return 0;
    for (; page < end && self->count < self->room; page += chunk->pages) {
        chunk = space->pages[page];
        evicted = tnri_evicted_claim(chunk, self->parked);
        if (evicted == NULL)
            break;
        self->at[self->count++] = (homing){chunk, evicted, NULL, NULL};
    }
    if (self->count == from)
        return 0;
    tnri_block *stale = tnri_world_cut(world, run, first, page - first, self->count - from);
    stale->holds = 0;
    tnri_note_memory(world->arena, TNRI_NOTED_MOVE_OUT, stale->base, stale->bytes, stale->bytes, 0);
    for (size_t i = from; i < self->count; i++)
        self->at[i].stale = stale;
    for (size_t p = first; p < page; p++)
        space->pages[p] = NULL;
    return 1;
}

/* Cuts one stretch out of the free runs of a world; 0: there is none. */
static int world_send(homings *self, tnri_world *world)
{
    const tnri_space *space = world->space;
    tnri_index_walk walk = {tnri_index_class(tnri_page_bytes(space)), NULL};
    tnri_block *run;
    while ((run = tnri_index_next(world->index, &walk)) != NULL) {
        size_t first, end;
        if (!tnri_run_whole_chunks(space, run, &first, &end))
            continue;
        for (size_t page = first; page < end; page += space->pages[page]->pages)
            if (run_send(self, world, run, page, end))
                return 1;
    }
    return 0;
}

/* Takes what another parked block has at home. */
static void parked_send(homings *self, tnri_parked *other)
{
    const tnri_space *space = tnri_arena_space(other->arena);
    for (size_t page = other->first; page < other->end && self->count < self->room;) {
        tnri_chunk *chunk = space->pages[page];
        page += chunk == NULL ? 1 : chunk->pages;
        tnri_evicted *evicted = chunk == NULL ? NULL : tnri_evicted_claim(chunk, self->parked);
        if (evicted == NULL)
            continue;
        tnri_evicted *left = tnri_evict(other, chunk);
        if (left == NULL) {
            tnri_evicted_unclaim(evicted, chunk);
            return;
        }
        self->at[self->count++] = (homing){chunk, evicted, NULL, left};
    }
}

/* Gives back to an arena what was taken from it. */
static void homings_return(homings *self, tnri_arena *donor)
{
    const tnri_space *space = tnri_arena_space(donor);
    tnri_arena_enter(donor);
    while (self->count > 0) {
        const homing *one = &self->at[--self->count];
        tnri_evicted_unclaim(one->evicted, one->chunk);
        if (one->left != NULL) {
            tnri_evicted_restore(one->left, one->chunk);
            continue;
        }
        for (size_t p = 0; p < one->chunk->pages; p++)
            space->pages[one->chunk->page + p] = one->chunk;
        if (self->count > 0 && self->at[self->count - 1].stale == one->stale)
            continue;
        tnri_note_memory(donor, TNRI_NOTED_MOVE_IN, one->stale->base, one->stale->bytes,
                         one->stale->bytes, 0);
        tnri_world_uncut(one->stale->world, one->stale);
    }
    atomic_fetch_add(&donor->pool->account.access.returned, 1);
    tnri_arena_leave(donor);
}

/* Leaves the arena what it had of the chunks: mappings that are to go, and evicted ranges. */
static void homings_leave(const homings *self, tnri_arena *donor, tnri_event *event)
{
    const tnri_block *before = NULL;
    tnri_arena_enter(donor);
    for (size_t i = 0; i < self->count; i++) {
        tnri_block *stale = self->at[i].stale;
        if (stale != NULL && stale != before) {
            if (event != NULL)
                tnri_event_hold(event);
            tnri_stale_add(donor, stale, event);
        }
        before = stale;
    }
    tnri_arena_leave(donor);
}

/* Enters the chunks at their addresses. */
static void homings_settle(const homings *self)
{
    tnri_arena *arena = self->parked->arena;
    tnri_space *space = tnri_arena_space(arena);
    tnri_arena_enter(arena);
    for (size_t i = 0; i < self->count; i++) {
        tnri_evicted *evicted = self->at[i].evicted;
        tnri_chunk_enter(self->at[i].chunk, self->parked->block->world->is_small);
        self->at[i].chunk->page = evicted->page;
        /* What it has left is not kept, so this is its home again. */
        atomic_store_explicit(&self->at[i].chunk->home, evicted->page, memory_order_relaxed);
        tnri_chunk_placed(self->at[i].chunk);
        for (size_t p = 0; p < evicted->pages; p++)
            space->pages[evicted->page + p] = self->at[i].chunk;
        tnri_evicted_drop(evicted);
    }
    tnri_arena_leave(arena);
    for (size_t i = 0; i < self->count; i++)
        if (self->at[i].left != NULL)
            tnri_evicted_settle(self->at[i].left);
}

/* Makes the block's stream safe to use what `donor` had. */
static tnr_status homings_order(const homings *self, tnri_arena *donor, tnri_event **event,
                                int *refused)
{
    tnri_arena *arena = self->parked->arena;
    *refused = 0;
    *event = NULL;
    if (donor == arena)
        return tnri_arena_mark(arena, event);
    return tnri_execute_order(arena, donor, tnri_cross_policy(), event, refused);
}

/* Has the chunks come home that one arena has. */
static tnr_status homings_take(homings *self, tnri_arena *donor)
{
    self->count = 0;
    tnri_arena_enter(donor);
    for (int i = 0; i < TNRI_WORLDS; i++) {
        tnri_world_flush(&donor->worlds[i]);
        while (self->count < self->room && world_send(self, &donor->worlds[i]))
            ;
    }
    for (tnri_parked *other = donor->parked; other != NULL; other = other->next)
        if (other != self->parked && !other->is_returning)
            parked_send(self, other);
    tnri_arena_leave(donor);
    if (self->count == 0)
        return TNR_OK;
    tnri_event *event;
    int refused;
    tnr_status status = homings_order(self, donor, &event, &refused);
    if (status == TNR_OK && !refused) {
        homings_leave(self, donor, event);
        homings_settle(self);
    } else {
        homings_return(self, donor);
    }
    tnri_event_drop(event);
    return status;
}

/* Evicted ranges whose chunk may come home. */
static size_t parked_wanted(const tnri_parked *parked)
{
    size_t wanted = 0;
    tnri_lock_take(&tnri_parking_lock);
    for (size_t i = 0; i < parked->evicted_room; i++)
        wanted += parked->evicted[i].is_used && parked->evicted[i].chunk != NULL;
    tnri_lock_release(&tnri_parking_lock);
    return wanted;
}

/* Step 1. Not where peers were opened or closed since: old mappings know nothing of that. */
static tnr_status unpark_same(tnri_parked *parked)
{
    tnri_arena *arena = parked->arena;
    tnri_evicted_forget_old(parked);
    homings self = {.parked = parked, .room = parked_wanted(parked)};
    if (self.room == 0)
        return TNR_OK;
    size_t bytes = self.room * sizeof(self.at[0]);
    self.at = tnri_host_alloc(bytes);
    if (self.at == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for unparking the block at %p.",
                          (void *)parked->block->base);
    const tnri_stream *stream = atomic_load(&arena->stream);
    int is_shared = tnri_cross_policy() != TNRI_CROSS_OFF;
    tnr_status status = homings_take(&self, arena);
    tnri_arena *donor = NULL;
    while (status == TNR_OK && parked_wanted(parked) > 0 &&
           (donor = tnri_arena_walk(arena->pool, donor)) != NULL)
        if (donor != arena &&
            (atomic_load(&donor->stream) == stream || (is_shared && tnri_arena_is_markable(donor))))
            status = homings_take(&self, donor);
    tnri_host_free(self.at, bytes);
    return status;
}

/* ---- other chunks --------------------------------------------------------------------------- */

/* 1 if work from before may still use old mappings. */
static int unpark_is_early(const tnri_parked *parked)
{
    int has_old = 0;
    for (size_t i = 0; i < parked->evicted_room; i++)
        has_old |= parked->evicted[i].is_used;
    return has_old && !tnri_event_is_over(parked->event);
}

/* Step 2. */
static tnr_status unpark_unmap(tnri_parked *parked)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; i < parked->evicted_room && status == TNR_OK; i++)
        if (parked->evicted[i].is_used)
            status = tnri_evicted_unmap(&parked->evicted[i]);
    return status;
}

/* Step 3, once: a plan has room for so many gaps. */
static tnr_status unpark_plan(tnri_parked *parked, tnri_moves moves)
{
    tnri_plan plan = {0};
    tnri_request request;
    void *ptr;
    tnri_arena_enter(parked->arena);
    tnr_status status = tnri_plan_make_return(&plan, parked, &request, moves);
    tnri_arena_leave(parked->arena);
    if (status == TNR_OK)
        status = tnri_execute(&plan, 0, &ptr);
    tnri_plan_free(&plan);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Pages without memory: this thread alone fills them. */
static size_t evicted_pages(const tnri_parked *parked)
{
    tnri_arena_enter(parked->arena);
    size_t pages = parked->evicted_pages;
    tnri_arena_leave(parked->arena);
    return pages;
}

/* All steps, as far as they go without a wait for work: then *is_early is 1. */
static tnr_status unpark_steps(tnri_parked *parked, int *is_early)
{
    tnri_access *access = &parked->arena->pool->account.access;
    tnri_handling_enter(&parked->arena->device->handling);
    unsigned epoch = tnri_placing_begin(access);
    tnr_status status = unpark_same(parked);
    *is_early = status == TNR_OK && evicted_pages(parked) > 0 && unpark_is_early(parked);
    if (status == TNR_OK && !*is_early && evicted_pages(parked) > 0)
        status = unpark_unmap(parked);
    tnri_moves moves = TNRI_MOVES_PARKED;
    size_t away;
    while (status == TNR_OK && !*is_early && (away = evicted_pages(parked)) > 0) {
        status = unpark_plan(parked, moves);
        if (status == TNR_OK && evicted_pages(parked) == away)
            moves = TNRI_MOVES_ALL;
    }
    tnri_placing_end(access, epoch);
    tnri_handling_leave(&parked->arena->device->handling);
    return status;
}

/* Waits with nothing in hand: the work may itself wait for a thread that wants memory. */
static tnr_status unpark_climb(tnri_parked *parked)
{
    size_t released = 0;
    int is_early;
    (void)tnri_stale_drain(parked->arena, 0, 0, &released);
    tnr_status status = unpark_steps(parked, &is_early);
    while (is_early && status == TNR_OK) {
        atomic_fetch_add_explicit(&parked->arena->device->park_waits, 1, memory_order_relaxed);
        status = tnri_event_wait(parked->event);
        if (status == TNR_OK)
            status = unpark_steps(parked, &is_early);
    }
    return status;
}

static size_t unpark_reclaim(tnri_parked *parked, int thorough)
{
    size_t bytes = evicted_pages(parked) << parked->arena->device->space.page_shift;
    tnri_error_aside aside;
    tnri_error_take(&aside);
    size_t reclaimed = tnri_reclaim(parked->arena, bytes, thorough);
    tnri_error_restore(&aside);
    return reclaimed;
}

tnr_status tnri_unpark_fill(tnri_parked *parked)
{
    tnri_handling *handling = &parked->arena->device->handling;
    uint32_t others = tnri_handling_others(handling);
    if (evicted_pages(parked) == 0)
        return TNR_OK;
    tnr_status status = unpark_climb(parked);
    for (int i = 0; i < TNRI_RECLAIMS && tnri_is_shortage(status); i++) {
        if (unpark_reclaim(parked, i > 0) == 0)
            break;
        status = unpark_climb(parked);
    }
    /* As ladder_climb_alone. */
    for (int i = 0; i < 2 * TNRI_RECLAIMS && tnri_is_shortage(status); i++) {
        if (i % 2 == 0 && !tnri_handling_was_met(handling, others))
            break;
        others = i % 2 == 0 ? tnri_handling_others(handling) : others;
        int is_early;
        (void)unpark_reclaim(parked, 1);
        tnri_handling_alone_begin(handling);
        status = unpark_steps(parked, &is_early);
        tnri_handling_alone_end(handling);
        if (is_early)
            status = unpark_climb(parked);
    }
    return status;
}
