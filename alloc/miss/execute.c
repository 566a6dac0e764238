/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executing a plan, without any lock while the driver is called:
 *
 *   1. donors of the pool's other arenas: cut under that arena's lock, then an event on its stream.
 *      This arena's stream is made to wait for the event (cross_stream:wait), or the event must be
 *      over already (cross_stream:idle). Other lanes of the same stream come first; nobody waits
 *      for them, and the event only tells when the old mapping may go. Then come chunks of parked
 *      blocks (park.h), of this stream or of others in the same way
 *   2. new chunks, as large as chunk_share and the gap allow
 *   3. map each chunk, give access to each gap
 *   4. an event on this arena's stream, for the old mappings of its own chunks
 *   5. commit, and queue the old mappings to be removed
 *
 * Each step can fail; the ladder of labels at the end undoes the steps before it in reverse.
 */
#include "miss/execute.h"

#include <string.h>

#include "memory/arena/alias.h"
#include "memory/arena/bins.h"
#include "memory/arena/count.h"
#include "memory/arena/trough.h"
#include "memory/arena/note.h"
#include "memory/arena/window_cache.h"
#include "memory/arena/world_spent.h"
#include "base/error.h"
#include "base/conf/conf.h"
#include "log/mappings.h"
#include "memory/device/budget.h"
#include "miss/chunk_size.h"
#include "miss/park.h"
#include "miss/stale.h"
#include "memory/pool/structure.h"
#include "memory/pool/donors.h"
#include "memory/pool/lane.h"
#include "memory/pool/pool.h"

/* ---- donors of other arenas ----------------------------------------------------------------- */

static tnri_arena *source_arena(const tnri_source *source)
{
    return source->stale->world->arena;
}

/* The end of the group of sources that begins at `from` and comes from one arena. */
static size_t sources_group_end(const tnri_plan *plan, size_t from)
{
    size_t end = from;
    while (end < plan->sources_count && plan->sources[end].stale != NULL &&
           source_arena(&plan->sources[end]) == source_arena(&plan->sources[from]))
        end++;
    return end;
}

/* The event of a group of donors is kept in their STALE records until the plan ends. Every record
 * holds one reference. */
static void group_set_event(tnri_plan *plan, size_t from, size_t end, tnri_event *event)
{
    tnri_block *before = NULL;
    for (size_t i = from; i < end; i++) {
        tnri_block *stale = plan->sources[i].stale;
        if (stale == before)
            continue;
        stale->event = event;
        if (event != NULL)
            tnri_event_hold(event);
        before = stale;
    }
}

tnr_status tnri_execute_order(tnri_arena *arena, tnri_arena *donor, int policy, tnri_event **event,
                              int *refused)
{
    *event = NULL;
    uint64_t number = 0;
    tnri_stream *own = atomic_load(&arena->stream); /* lives as long as the caller's stream does */
    tnri_stream *giver = tnri_arena_stream(donor);
    int is_lane = giver == own;
    tnr_status status = is_lane || tnri_stream_has_mark(giver)
                            ? tnri_stream_mark_idle(giver, event, &number)
                            : TNR_ERR_CAPTURE;
    *refused =
        status == TNR_OK && !is_lane && policy == TNRI_CROSS_IDLE && !tnri_event_is_over(*event);
    if (status == TNR_OK && !*refused && !is_lane)
        status = tnri_stream_follow(own, *event, giver, number);
    tnri_stream_drop(giver);
    /* Another thread has just begun to capture, or a growable block's stream has just ended. */
    if (status != TNR_ERR_CAPTURE && status != TNR_ERR_INVALID_STREAM)
        return status;
    *refused = 1;
    return TNR_OK;
}

/* Makes the plan's stream safe to use what `donor` gave from number `from` on. */
static tnr_status donor_order(tnri_plan *plan, tnri_arena *donor, size_t from, int policy,
                              int *refused)
{
    tnri_event *event;
    tnr_status status = tnri_execute_order(plan->arena, donor, policy, &event, refused);
    if (status == TNR_OK && !*refused)
        group_set_event(plan, from, plan->sources_count, event);
    tnri_event_drop(event);
    return status;
}

/* The places that a plan had before it took from an arena whose chunks have gone back. They are
 * given in order, so this is all there is to restore. */
static void places_restore(tnri_plan *plan, const tnri_plan *before)
{
    memcpy(plan->gaps, before->gaps, sizeof(plan->gaps));
    plan->gap_at = before->gap_at;
    plan->gap_used = before->gap_used;
    plan->pages_missing = before->pages_missing;
}

/* Takes what one other arena can give. */
static tnr_status donor_take(tnri_plan *plan, tnri_arena *donor, int policy)
{
    size_t from = plan->sources_count;
    tnri_plan before = *plan;
    tnri_arena_enter(donor);
    for (int i = 0; i < TNRI_WORLDS; i++)
        tnri_world_flush(&donor->worlds[i]);
    size_t taken = tnri_plan_take(plan, donor);
    for (int i = 0; i < TNRI_WORLDS && taken == 0; i++)
        tnri_world_spend(&donor->worlds[i]);
    tnri_arena_leave(donor);
    if (taken == 0)
        return TNR_OK;
    int refused = 0;
    tnr_status status = donor_order(plan, donor, from, policy, &refused);
    if (status != TNR_OK || refused) {
        tnri_arena_enter(donor);
        tnri_plan_untake(plan, donor, from);
        atomic_fetch_add(&donor->pool->account.access.returned, 1);
        tnri_arena_leave(donor);
        places_restore(plan, &before);
    }
    return status;
}

/* The same from all lanes of the plan's own stream. */
static tnr_status lanes_take(tnri_plan *plan)
{
    tnri_arena *lanes[TNRI_LANES_MAX];
    tnr_status status = TNR_OK;
    if (plan->moves == TNRI_MOVES_NONE || plan->moves == TNRI_MOVES_PARKED ||
        !tnri_lane_has_others(plan->arena))
        return TNR_OK;
    size_t count = tnri_lane_others(plan->arena, lanes);
    for (size_t i = 0; i < count && plan->pages_missing > 0 && status == TNR_OK; i++)
        if (tnri_lane_is_other(plan->arena, lanes[i]))
            status = donor_take(plan, lanes[i], TNRI_CROSS_WAIT);
    return status;
}

int tnri_cross_policy(void)
{
    const tnri_conf *conf = tnri_conf_get();
    int policy = conf->cross_stream;
    if (policy == TNRI_CROSS_WAIT && conf->reuse != TNRI_REUSE_WAIT)
        policy = TNRI_CROSS_IDLE;
    return policy;
}

static tnr_status donors_take(tnri_plan *plan)
{
    int policy = tnri_cross_policy();
    if (policy == TNRI_CROSS_OFF || plan->moves != TNRI_MOVES_ALL)
        return TNR_OK;
    tnri_arena *donor = NULL;
    while (plan->pages_missing > 0 &&
           (donor = tnri_donors_walk(plan->arena->pool, donor)) != NULL) {
        if (donor == plan->arena || tnri_lane_is_other(plan->arena, donor) ||
            !tnri_arena_is_markable(donor))
            continue;
        tnr_status status = donor_take(plan, donor, policy);
        if (status != TNR_OK)
            return status;
    }
    return TNR_OK;
}

/* Takes what parked blocks of one arena can give. */
static tnr_status parked_donor_take(tnri_plan *plan, tnri_arena *donor, int policy)
{
    size_t from = plan->sources_count;
    tnri_plan before = *plan;
    tnri_arena_enter(donor);
    size_t taken = tnri_plan_take_parked(plan, donor);
    tnri_arena_leave(donor);
    if (taken == 0 || atomic_load(&donor->stream) == atomic_load(&plan->arena->stream))
        return TNR_OK;
    tnri_event *event;
    int refused;
    tnr_status status = tnri_execute_order(plan->arena, donor, policy, &event, &refused);
    tnri_event_drop(event);
    if (status != TNR_OK || refused) {
        while (plan->sources_count > from)
            tnri_plan_untake_parked(plan);
        atomic_fetch_add(&donor->pool->account.access.returned, 1);
        places_restore(plan, &before);
    }
    return status;
}

/* The same from all arenas of the pool. The moving budget does not count: that memory is to serve
 * others is what its owner asked for. */
static tnr_status parked_take(tnri_plan *plan)
{
    tnri_arena *arena = plan->arena;
    const tnri_stream *stream = atomic_load(&arena->stream);
    int policy = tnri_cross_policy();
    tnr_status status = TNR_OK;
    if (tnri_likely(atomic_load(&arena->account->parked) == 0) || stream == NULL ||
        arena->is_guard || tnri_account_is_fixed(arena->account))
        return TNR_OK;
    tnri_arena *donor = NULL;
    while (status == TNR_OK && plan->pages_missing > 0 &&
           (donor = tnri_arena_walk(arena->pool, donor)) != NULL) {
        int is_own = atomic_load(&donor->stream) == stream;
        if (is_own || (policy != TNRI_CROSS_OFF && plan->moves != TNRI_MOVES_OWN &&
                       tnri_arena_is_markable(donor)))
            status = parked_donor_take(plan, donor, policy);
    }
    return status;
}

/* ---- new chunks ----------------------------------------------------------------------------- */

static tnr_status chunks_create(tnri_plan *plan)
{
    tnr_status status = TNR_OK;
    if (plan->was_refused || plan->pages_missing > tnri_chunk_size_pages(plan))
        status = tnri_chunk_foresee(plan->arena->account,
                                    plan->pages_missing << plan->world->space->page_shift,
                                    plan->was_refused);
    while (status == TNR_OK && tnri_plan_room(plan) > 0) {
        tnri_chunk *chunk;
        status = tnri_chunk_create(plan->arena->account, tnri_chunk_size_pages(plan),
                                   plan->world->is_small, &chunk);
        if (status != TNR_OK)
            break;
        tnri_plan_add(plan, chunk);
        atomic_store_explicit(&plan->arena->account->is_full, 0, memory_order_relaxed);
    }
    return status;
}

/* ---- mapping -------------------------------------------------------------------------------- */

static tnr_status sources_map(tnri_plan *plan, size_t *mapped)
{
    for (*mapped = 0; *mapped < plan->sources_count; ++*mapped) {
        const tnri_source *source = &plan->sources[*mapped];
        tnr_status status = tnri_chunk_map(plan->arena->device, source->chunk, source->page);
        if (status != TNR_OK)
            return status;
    }
    return TNR_OK;
}

static tnr_status gaps_access(tnri_plan *plan)
{
    for (size_t i = 0; i < plan->gaps_count; i++) {
        tnr_status status =
            tnri_pages_access(plan->arena->device, &plan->arena->pool->account.access,
                              plan->gaps[i].page, plan->gaps[i].pages);
        if (status != TNR_OK)
            return status;
    }
    return TNR_OK;
}

/* Removes the first so many new mappings. Nobody has used them, so no proof is needed. What the
 * driver refuses to unmap is marked, and becomes STALE when the plan is undone. After one refusal
 * all others are left for then too: marks must not alternate with holes, because undoing has a
 * bounded number of records. */
static void sources_unmap(tnri_plan *plan, size_t mapped)
{
    tnri_device *device = plan->arena->device;
    int refused = 0;
    for (size_t i = 0; i < mapped; i++) {
        const tnri_source *source = &plan->sources[i];
        if (!refused)
            refused = tnri_pages_unmap(device, source->page, source->chunk->pages, 1) != TNR_OK;
        if (!refused)
            continue;
        tnri_arena_enter(plan->arena);
        for (size_t p = 0; p < source->chunk->pages; p++)
            device->space.pages[source->page + p] = &tnri_mapping_refused;
        tnri_arena_leave(plan->arena);
    }
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Gives back everything that the plan took, in reverse order of taking. */
static void sources_return(tnri_plan *plan)
{
    while (plan->sources_count > 0 && plan->sources[plan->sources_count - 1].stale == NULL) {
        if (plan->sources[plan->sources_count - 1].evicted != NULL)
            tnri_plan_untake_parked(plan);
        else
            tnri_chunk_release(plan->arena->device, plan->sources[--plan->sources_count].chunk);
    }
    while (plan->sources_count > 0) {
        tnri_arena *donor = source_arena(&plan->sources[plan->sources_count - 1]);
        size_t from = plan->sources_count;
        while (from > 0 && source_arena(&plan->sources[from - 1]) == donor)
            from--;
        tnri_block *before = NULL;
        for (size_t i = from; i < plan->sources_count; i++) {
            if (plan->sources[i].stale != before)
                tnri_event_drop(plan->sources[i].stale->event);
            before = plan->sources[i].stale;
        }
        tnri_arena_enter(donor);
        tnri_plan_untake(plan, donor, from);
        tnri_arena_leave(donor);
    }
}

void tnri_execute_not(tnri_plan *plan)
{
    sources_return(plan);
    tnri_arena_enter(plan->arena);
    tnri_plan_undo(plan);
    tnri_arena_leave(plan->arena);
}

/* Whether the old mappings of an arena's chunks stay as aliases, or are to be unmapped. The answer
 * may change meanwhile: for one group of donors it is asked once. */
static int arena_keeps_aliases(const tnri_arena *arena)
{
    return tnri_conf_get()->aliases_max > 0 && arena->growable.base == 0 && !arena->is_guard &&
           tnri_trough_keeps(arena);
}

/* Makes a chunk's new page its home, where the one that it had is not kept. */
static void source_settles_down(tnri_source *source)
{
    atomic_store_explicit(&source->chunk->home, source->page, memory_order_relaxed);
}

/* Enters the chunks at their new pages. Under the arena's lock, although the window is PENDING and
 * of no interest to anybody: an audit asks about any address. */
static void sources_settle(tnri_plan *plan)
{
    tnri_assert_held(&plan->arena->lock);
    tnri_space *space = plan->world->space;
    for (size_t i = 0; i < plan->sources_count; i++) {
        tnri_source *source = &plan->sources[i];
        if (plan->is_cached) {
            tnri_alias_take(space, source->chunk, source->page);
            tnri_chunk_placed(source->chunk);
            plan->arena->aliases_count--;
        } else if (source->stale == NULL || (i < plan->own_count && !plan->own_stays)) {
            source_settles_down(source);
        }
        tnri_chunk_enter(source->chunk, plan->world->is_small);
        source->chunk->page = source->page;
        for (size_t p = 0; p < source->chunk->pages; p++)
            space->pages[source->page + p] = source->chunk;
    }
}

/* Keeps the old mappings of one arena's donors; its lock is held. While the access of the pool
 * changes nothing comes back to them: they have what was before. */
static void group_keep(tnri_plan *plan, size_t from, size_t end)
{
    tnri_space *space = plan->world->space;
    int is_forgotten = atomic_load(&plan->arena->pool->account.access.is_changing) != 0;
    tnri_block *before = NULL;
    for (size_t i = from; i < end; i++) {
        const tnri_source *source = &plan->sources[i];
        if (source->stale != before)
            tnri_alias_keep(source->stale, is_forgotten);
        if (!is_forgotten)
            tnri_alias_note(space, source->chunk, source->page_old);
        before = source->stale;
    }
}

/* The events of one arena's donors are not needed for aliases; no lock is held. */
static void group_drop_event(tnri_plan *plan, size_t from, size_t end)
{
    tnri_block *before = NULL;
    for (size_t i = from; i < end; i++) {
        tnri_block *stale = plan->sources[i].stale;
        if (stale != before)
            tnri_event_drop(stale->event);
        stale->event = NULL;
        before = stale;
    }
}

/* Queues the old mappings of one arena's donors, or keeps them; its lock is held. */
static void group_queue(tnri_plan *plan, size_t from, size_t end, int stays)
{
    if (stays) {
        group_keep(plan, from, end);
        return;
    }
    tnri_block *before = NULL;
    for (size_t i = from; i < end; i++) {
        tnri_block *stale = plan->sources[i].stale;
        if (stale != before)
            tnri_stale_add(source_arena(&plan->sources[i]), stale, stale->event);
        before = stale;
    }
}

/* Tells the history, and who follows, what memory has come to the plan's arena: a record for each
 * stretch of pages that came the same way. Under its lock. */
static void sources_note(const tnri_plan *plan)
{
    const tnri_space *space = plan->world->space;
    size_t end;
    for (size_t from = 0; from < plan->sources_count; from = end) {
        const tnri_source *first = &plan->sources[from];
        size_t pages = first->chunk->pages;
        int is_new = tnri_source_is_new(first);
        for (end = from + 1;
             end < plan->sources_count && tnri_source_is_new(&plan->sources[end]) == is_new &&
             plan->sources[end].page == first->page + pages;
             end++)
            pages += plan->sources[end].chunk->pages;
        size_t bytes = pages << space->page_shift;
        /* To the history a parked block never lost its memory. */
        if (plan->returns == NULL)
            tnri_note_memory(plan->arena, is_new ? TNRI_NOTED_MAP : TNRI_NOTED_MOVE_IN,
                             tnri_page_address(space, first->page), bytes, bytes, 0);
        if (!plan->is_cached) /* what comes back was mapped there all the time */
            tnri_pool_note_mapping(plan->arena, 1, tnri_page_address(space, first->page), bytes);
    }
}

/* The evicted ranges that chunks have left are nobody's business any more. */
static void sources_settle_parked(const tnri_plan *plan)
{
    size_t moved = 0;
    for (size_t i = 0; i < plan->sources_count; i++)
        if (plan->sources[i].evicted != NULL) {
            tnri_evicted_settle(plan->sources[i].evicted);
            moved++;
        }
    if (moved > 0)
        atomic_fetch_add_explicit(&plan->arena->device->chunks_moved, moved, memory_order_relaxed);
}

static tnri_block *plan_commit(tnri_plan *plan)
{
    if (plan->returns != NULL)
        return tnri_plan_commit_return(plan);
    return plan->is_growth ? tnri_plan_commit_growth(plan) : tnri_plan_commit(plan);
}

/* The plan's success: queues old mappings, then commits the block. */
static tnr_status plan_succeed(tnri_plan *plan, tnr_served served, void **ptr)
{
    size_t end;
    size_t from = plan->own_count;
    for (; from < plan->sources_count && plan->sources[from].stale != NULL; from = end) {
        end = sources_group_end(plan, from);
        tnri_arena *donor = source_arena(&plan->sources[from]);
        int stays = arena_keeps_aliases(donor);
        for (size_t i = from; i < end && !stays; i++)
            source_settles_down(&plan->sources[i]);
        if (stays)
            group_drop_event(plan, from, end);
        tnri_arena_enter(donor);
        group_queue(plan, from, end, stays);
        tnri_arena_leave(donor);
    }
    if (from > 0 && !plan->is_cached) {
        atomic_fetch_add_explicit(&plan->arena->device->chunks_moved, from, memory_order_relaxed);
        tnri_device_moved(plan->arena->device, from, plan->sources_count, plan->began_ns);
        atomic_store_explicit(&plan->arena->account->has_moved, 1, memory_order_relaxed);
    }

    tnri_arena *arena = plan->arena;
    tnri_arena_enter(arena);
    sources_settle(plan);
    group_queue(plan, 0, plan->own_count, plan->own_stays && plan->own_count > 0);
    if (tnri_is_noting() || tnri_is_following())
        sources_note(plan);
    if (!plan->is_growth && plan->returns == NULL && !plan->is_cached &&
        plan->moves != TNRI_MOVES_NONE && plan->request->alignment == TNR_ALIGNMENT_DEFAULT &&
        arena_keeps_aliases(arena) &&
        atomic_load_explicit(&arena->account->has_moved, memory_order_relaxed))
        tnri_window_cache_note(plan->world, plan->pending, plan->window, plan->request->bytes);
    tnri_block *block = plan_commit(plan);
    if (block != NULL) {
        if (!plan->is_growth && plan->returns == NULL)
            tnri_arena_count_served(arena, block, plan->request, served);
        *ptr = (void *)block->base;
    }
    tnri_arena_leave(arena);
    sources_settle_parked(plan);
    if (block == NULL && plan->is_growth)
        return tnri_error(TNR_ERR_NOT_LIVE, "the block at %p was freed while it grew.",
                          (void *)arena->growable.base);
    if (block == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the record of a block.");
    return TNR_OK;
}

/* How the request was served: by the dearest thing that it needed. */
static tnr_served plan_served(const tnri_plan *plan, int reclaimed)
{
    if (reclaimed)
        return TNR_SERVED_RECLAIMED;
    if (plan->is_cached)
        return TNR_SERVED_MOVED;
    if (plan->sources_count > 0 && tnri_source_is_new(&plan->sources[plan->sources_count - 1]))
        return TNR_SERVED_GROWN;
    return plan->sources_count > plan->lanes_count ? TNR_SERVED_SHARED : TNR_SERVED_MOVED;
}

tnr_status tnri_execute(tnri_plan *plan, int reclaimed, void **ptr)
{
    tnri_arena *arena = plan->arena;
    tnri_event *event = NULL;
    size_t mapped = 0;
    tnri_assert_none_held();
    group_set_event(plan, 0, plan->own_count, NULL);
    plan->own_stays = plan->is_cached || arena_keeps_aliases(arena);
    if (plan->is_cached) /* nothing is created or mapped */
        return plan_succeed(plan, plan_served(plan, reclaimed), ptr);
    tnr_status status = lanes_take(plan);
    plan->lanes_count = plan->sources_count;
    if (status == TNR_OK)
        status = donors_take(plan);
    if (status == TNR_OK)
        status = parked_take(plan);
    if (status != TNR_OK || (plan->moves == TNRI_MOVES_PARKED && plan->pages_missing > 0))
        goto fail_sources;
    status = chunks_create(plan);
    if (status != TNR_OK)
        goto fail_sources;
    status = sources_map(plan, &mapped);
    if (status != TNR_OK)
        goto fail_map;
    status = gaps_access(plan);
    if (status != TNR_OK)
        goto fail_map;
    if (plan->own_count > 0 && !plan->own_stays) {
        status = tnri_arena_mark(arena, &event);
        if (status != TNR_OK)
            goto fail_map;
        group_set_event(plan, 0, plan->own_count, event);
        tnri_event_drop(event);
    }
    return plan_succeed(plan, plan_served(plan, reclaimed), ptr);

fail_map:
    sources_unmap(plan, mapped);
fail_sources:
    tnri_execute_not(plan);
    return status;
}
