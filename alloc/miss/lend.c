/* SPDX-License-Identifier: Apache-2.0 */
/* Lending free runs between the worlds of a pool: see lend.h. */
#include "miss/lend.h"

#include "base/heuristics.h"
#include "memory/arena/bins.h"
#include "memory/arena/count.h"
#include "memory/arena/note.h"
#include "memory/arena/run.h"
#include "memory/arena/serve.h"
#include "memory/arena/world_lend.h"
#include "memory/arena/world_move.h"
#include "memory/arena/world_spent.h"
#include "base/error.h"
#include "base/conf/conf.h"
#include "memory/device/budget.h"
#include "memory/device/chunk.h"
#include "miss/execute.h"
#include "miss/plan.h"
#include "memory/pool/donors.h"
#include "memory/pool/lane.h"
#include "memory/pool/structure.h"

/* ---- finding what to take ------------------------------------------------------------------- */

static size_t request_pages(const tnri_space *space, const tnri_request *request)
{
    return (request->bytes + tnri_page_bytes(space) - 1) >> space->page_shift;
}

/* The pages [*first, *end) of whole chunks at the upper end of a run that have room for the
 * request; 0 if there are none, or only much more than that. A rest that is no more than a few
 * times as large goes along: it will serve the next such request there, and what streams with
 * blocks of other sizes have is not cut up. If the run is borrowed, all of it goes along. */
static int run_offer(const tnri_space *space, const tnri_block *run, const tnri_request *request,
                     int is_borrowed, size_t *first, size_t *end)
{
    size_t lowest;
    size_t pages = request_pages(space, request);
    if (!tnri_run_whole_chunks(space, run, &lowest, end) || *end - lowest < pages)
        return 0;
    uintptr_t base = (tnri_page_address(space, *end) - request->bytes) & ~(request->alignment - 1);
    if (base < tnri_page_address(space, lowest))
        return 0;
    size_t most = pages * (1 + TNRI_LEND_ALONG);
    *first = lowest;
    if (is_borrowed || *end - lowest <= most)
        return 1;
    size_t page = *end;
    while (tnri_page_address(space, page) > base)
        page = space->pages[page - 1]->page;
    /* An alignment may leave chunks above the block. */
    while (tnri_page_address(space, space->pages[*end - 1]->page) >= base + request->bytes)
        *end = space->pages[*end - 1]->page;
    *first = page;
    return *end - page <= most; /* a chunk may be far too large for the request */
}

/* The smallest run of a world, or of what it has borrowed, that has what the request needs, in the
 * pages [*first, *end); null if none has. Under the arena's lock. */
static tnri_block *world_run(const tnri_world *world, const tnri_request *request, int is_borrowed,
                             size_t *first, size_t *end)
{
    const tnri_space *space = world->space;
    size_t bytes_max = tnri_run_bytes_max(world->arena, request->bytes);
    tnri_index_walk walk = {tnri_index_class(request_pages(space, request) << space->page_shift),
                            NULL};
    tnri_block *run;
    if (is_borrowed && world->borrowed_bytes < request->bytes)
        return NULL;
    for (int looks = 0; (run = tnri_index_next(world->index, &walk)) != NULL;) {
        if (++looks > TNRI_LEND_LOOKS || run->bytes > bytes_max)
            return NULL;
        if (is_borrowed && tnri_world_owns(world, run->base))
            continue;
        if (run_offer(space, run, request, is_borrowed, first, end))
            return run;
    }
    return NULL;
}

/* Takes it out of that run: PENDING. Null if there is none, or no host memory is there. Under the
 * arena's lock. */
static tnri_block *world_offer(tnri_world *world, const tnri_request *request, int is_borrowed)
{
    size_t first, end;
    tnri_block *run = world_run(world, request, is_borrowed, &first, &end);
    if (run == NULL || !tnri_world_spares(world, TNRI_CARVE_RECORDS) ||
        !tnri_world_promise_borrow(world))
        return NULL;
    return tnri_world_claim(world, run, tnri_page_address(world->space, first),
                            tnri_page_address(world->space, end));
}

/* ---- the two halves ------------------------------------------------------------------------- */

/* What is on its way from one world to another. */
typedef struct loan {
    uintptr_t base;
    size_t bytes;
} loan;

/* The giving world lets go. Under its arena's lock. */
static loan loan_give(tnri_block *pending)
{
    tnri_world *world = pending->world;
    loan given = {pending->base, pending->bytes};
    tnri_note_memory(world->arena, TNRI_NOTED_MOVE_OUT, given.base, given.bytes, given.bytes, 0);
    tnri_world_unpromise_borrow(world);
    tnri_world_lend(world, pending);
    return given;
}

/* The chunks that came with a loan count for the size of the world's blocks. */
static void loan_chunks_enter(const tnri_world *world, loan given)
{
    const tnri_space *space = world->space;
    size_t page = tnri_page_of(space, given.base);
    size_t end = tnri_page_of(space, given.base + given.bytes);
    while (page < end) {
        tnri_chunk *chunk = space->pages[page];
        tnri_chunk_enter(chunk, world->is_small);
        page += chunk->pages;
    }
}

/* The receiving world takes over, and serves the request. Null: no host memory for the record; the
 * run stays. Under its arena's lock. */
static tnri_block *loan_take(tnri_arena *arena, loan given, const tnri_request *request)
{
    tnri_world *world = tnri_arena_world(arena, request->bytes);
    tnri_world_unpromise(world, TNRI_RECEIVE_RECORDS);
    tnri_world_unpromise_borrow(world);
    tnri_block *run = tnri_world_receive(world, given.base, given.bytes);
    loan_chunks_enter(world, given);
    tnri_note_memory(arena, TNRI_NOTED_MOVE_IN, given.base, given.bytes, given.bytes, 0);
    tnri_block *block = tnri_arena_carve(arena, run, request);
    if (block != NULL)
        tnri_arena_count_served(arena, block, request, TNR_SERVED_LENT);
    return block;
}

/* Sets aside in the receiving world what loan_take needs; 0 if there is no host memory. Under the
 * lock. */
static int loan_prepare(tnri_world *world)
{
    if (!tnri_world_promise(world, TNRI_RECEIVE_RECORDS))
        return 0;
    if (tnri_world_promise_borrow(world))
        return 1;
    tnri_world_unpromise(world, TNRI_RECEIVE_RECORDS);
    return 0;
}

static void loan_unprepare(tnri_world *world)
{
    tnri_world_unpromise_borrow(world);
    tnri_world_unpromise(world, TNRI_RECEIVE_RECORDS);
}

/* It does not come about: the pending record becomes free memory again. Under the lender's lock. */
static void loan_undo(tnri_block *pending)
{
    tnri_world_unpromise_borrow(pending->world);
    (void)tnri_world_free(pending->world, pending);
}

/* ---- lenders -------------------------------------------------------------------------------- */

/* 1 if the world has at least as much without the run that it offers. */
static int world_keeps_half(const tnri_block *pending)
{
    const size_t *bytes_in = pending->world->bytes_in;
    return bytes_in[TNRI_LIVE] + bytes_in[TNRI_FREE] + bytes_in[TNRI_RETIRED] >= pending->bytes;
}

/* What another arena has for the request: PENDING, or null. What other streams have borrowed goes
 * on first, and whole. Most of it is the borrower's own that comes home, and for one wait all of a
 * run does, instead of a wait for each block. */
static tnri_block *lender_offer(tnri_arena *lender, const tnri_request *request, int must_keep_half)
{
    tnri_block *pending = NULL;
    tnri_arena_enter(lender);
    for (int i = 0; i < TNRI_WORLDS; i++)
        tnri_world_flush(&lender->worlds[i]);
    for (int i = TNRI_WORLDS; i-- > 0 && pending == NULL && !must_keep_half;)
        pending = world_offer(&lender->worlds[i], request, 1);
    for (int i = TNRI_WORLDS; i-- > 0 && pending == NULL;) {
        pending = world_offer(&lender->worlds[i], request, 0);
        if (pending != NULL && must_keep_half && !world_keeps_half(pending)) {
            loan_undo(pending);
            pending = NULL;
        }
    }
    for (int i = 0; i < TNRI_WORLDS && pending == NULL; i++)
        tnri_world_spend(&lender->worlds[i]);
    tnri_arena_leave(lender);
    return pending;
}

/* Serves the request from one other arena; loan_prepare has been called. *is_over: nothing is left
 * to be tried, and what was prepared is used up. */
static tnr_status lend_from(tnri_arena *arena, tnri_arena *lender, const tnri_request *request,
                            int policy, int must_keep_half, int *is_over, void **ptr)
{
    if (atomic_load(&arena->pool->account.access.is_changing)) /* see memory/device/access.h */
        return TNR_OK;
    tnri_block *pending = lender_offer(lender, request, must_keep_half);
    if (pending == NULL)
        return TNR_OK;
    int refused = 0;
    tnri_event *event = NULL;
    tnr_status status = TNR_OK;
    int is_lane = tnri_lane_is_other(arena, lender); /* one stream, which has its order */
    if (!is_lane)
        status = tnri_execute_order(arena, lender, policy, &event, &refused);
    tnri_event_drop(event);
    if (status != TNR_OK || refused) {
        tnri_arena_enter(lender);
        loan_undo(pending);
        tnri_arena_leave(lender);
        return status;
    }
    tnri_arena_enter(lender);
    loan given = loan_give(pending);
    tnri_arena_leave(lender);
    tnri_arena_enter(arena);
    tnri_block *block = loan_take(arena, given, request);
    if (block != NULL)
        *ptr = (void *)block->base;
    tnri_arena_leave(arena);
    *is_over = 1;
    if (block == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a block.");
    return TNR_OK;
}

/* 1 if an arena may lend to another: its stream can be marked, and its addresses are nobody's
 * promise. */
static int arena_may_lend(const tnri_arena *lender)
{
    return lender->growable.base == 0 && !lender->is_guard && !tnri_arena_is_graph(lender) &&
           tnri_arena_is_markable(lender);
}

/* Tries the lanes of the arena's own stream. With `must_keep_half` none gives what it would be the
 * next to lack: two that share one chunk would take it from each other without end. */
static tnr_status lanes_lend(tnri_arena *arena, const tnri_request *request, int must_keep_half,
                             int *is_over, void **ptr)
{
    tnri_arena *lanes[TNRI_LANES_MAX];
    tnr_status status = TNR_OK;
    size_t count = tnri_lane_others(arena, lanes);
    for (size_t i = 0; i < count && !*is_over && status == TNR_OK; i++)
        if (tnri_lane_is_other(arena, lanes[i]))
            status =
                lend_from(arena, lanes[i], request, TNRI_CROSS_WAIT, must_keep_half, is_over, ptr);
    return status;
}

/* 1 if an arena of another stream may lend to this one. */
static int arena_is_lender(const tnri_arena *arena, const tnri_arena *lender)
{
    return lender != arena && !tnri_lane_is_other(arena, lender) && arena_may_lend(lender);
}

/* Tries the arenas of other streams. A loan is charged with the search for it, which takes their
 * locks. */
static tnr_status others_lend(tnri_arena *arena, const tnri_request *request, int *is_over,
                              void **ptr)
{
    int policy = tnri_cross_policy();
    uint64_t began_ns = tnri_decision_ns();
    tnr_status status = TNR_OK;
    tnri_arena *lender = NULL;
    if (policy == TNRI_CROSS_OFF)
        return TNR_OK;
    while (!*is_over && status == TNR_OK &&
           (lender = tnri_donors_walk(arena->pool, lender)) != NULL)
        if (arena_is_lender(arena, lender))
            status = lend_from(arena, lender, request, policy, 0, is_over, ptr);
    if (*is_over)
        tnri_device_lent(arena->device, began_ns);
    return status;
}

/* Tries the other lanes of the stream, then, unless `lanes_only`, other streams. */
static tnr_status lend(tnri_arena *arena, const tnri_request *request, int lanes_only, void **ptr)
{
    tnri_world *world = tnri_arena_world(arena, request->bytes);
    tnri_assert_none_held();
    if (!tnri_conf_get()->lend)
        return TNR_OK;
    tnri_arena_enter(arena);
    int is_over = !loan_prepare(world);
    tnri_arena_leave(arena);
    if (is_over)
        return TNR_OK;
    tnr_status status = TNR_OK;
    if (tnri_lane_has_others(arena))
        status = lanes_lend(arena, request, lanes_only, &is_over, ptr);
    if (status == TNR_OK && !lanes_only && !is_over)
        status = others_lend(arena, request, &is_over, ptr);
    if (!is_over) {
        tnri_arena_enter(arena);
        loan_unprepare(world);
        tnri_arena_leave(arena);
    }
    return status;
}

tnr_status tnri_lend(tnri_arena *arena, const tnri_request *request, void **ptr)
{
    return lend(arena, request, 0, ptr);
}

tnr_status tnri_lend_lanes(tnri_arena *arena, const tnri_request *request, void **ptr)
{
    return lend(arena, request, 1, ptr);
}
