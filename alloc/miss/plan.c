/* SPDX-License-Identifier: Apache-2.0 */
/* Making, committing and undoing a plan: see plan.h. */
#include "miss/plan.h"

#include "base/conf/conf.h"
#include "base/error.h"
#include "base/heuristics.h"
#include "base/host_memory.h"
#include "memory/arena/alias.h"
#include "memory/arena/count.h"
#include "memory/arena/trough.h"
#include "memory/arena/note.h"
#include "memory/arena/range.h"
#include "memory/arena/run.h"
#include "memory/arena/serve.h"
#include "memory/arena/world_move.h"
#include "memory/arena/world_spent.h"
#include "memory/device/budget.h"
#include "miss/park.h"
#include "miss/stale.h"
#include "miss/window.h"

/* ---- the window ----------------------------------------------------------------------------- */

/* Lists the unmapped stretches of the pages [page, end). */
static int gaps_list(tnri_plan *plan, size_t page, size_t end)
{
    struct tnri_chunk *const *pages = plan->world->space->pages;
    while (page < end) {
        size_t stop = page;
        while (stop < end && pages[stop] == NULL)
            stop++;
        if (stop > page) {
            if (plan->gaps_count == TNRI_GAPS_MAX)
                return 0;
            plan->gaps[plan->gaps_count++] = (tnri_gap){page, stop - page};
            plan->pages_missing += stop - page;
        }
        page = stop + 1;
    }
    return 1;
}

/* The pages of a window that lie in holes: those whose first byte is in it or in a hole that it
 * touches. A page at the edge that is mapped belongs to a FREE record and is skipped as mapped. */
static int window_gaps(tnri_plan *plan, const tnri_window *window, uintptr_t *end)
{
    const tnri_space *space = plan->world->space;
    uintptr_t page_mask = tnri_page_bytes(space) - 1;
    size_t first = tnri_page_of(space, window->base);
    size_t last = tnri_page_of(space, (window->end + page_mask) & ~page_mask);
    plan->gaps_count = 0;
    plan->pages_missing = 0;
    plan->gap_at = 0;
    plan->gap_used = 0;
    if (!gaps_list(plan, first, last))
        return 0;
    *end = window->end;
    if (plan->gaps_count > 0) {
        const tnri_gap *gap = &plan->gaps[plan->gaps_count - 1];
        uintptr_t gap_end = tnri_page_address(space, gap->page + gap->pages);
        if (gap_end > *end)
            *end = gap_end;
    }
    return 1;
}

/* The start of the claim: a gap page is claimed whole. */
static uintptr_t window_claim_base(const tnri_plan *plan, const tnri_window *window)
{
    if (plan->gaps_count == 0)
        return window->base;
    uintptr_t gap_base = tnri_page_address(plan->world->space, plan->gaps[0].page);
    return gap_base < window->base ? gap_base : window->base;
}

static void plan_begin(tnri_plan *plan, tnri_arena *arena, tnri_world *world,
                       const tnri_request *request, tnri_moves moves)
{
    plan->arena = arena;
    plan->world = world;
    plan->request = request;
    plan->moves = moves;
    plan->is_growth = 0;
    plan->is_paged = 0;
    plan->at = 0;
    plan->is_cached = 0;
    plan->window = 0;
    plan->grows = NULL;
    plan->returns = NULL;
    plan->sources_count = 0;
    plan->own_count = 0;
    plan->own_stays = 0;
    plan->lanes_count = 0;
    plan->began_ns = tnri_decision_ns();
}

/* Makes room for as many sources as there may be. */
static tnr_status plan_sources(tnri_plan *plan)
{
    if (plan->sources_max < plan->pages_missing) {
        tnri_plan_free(plan);
        plan->sources = tnri_host_alloc(plan->pages_missing * sizeof(plan->sources[0]));
        if (plan->sources == NULL)
            return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for moving %zu pages.",
                              plan->pages_missing);
        plan->sources_max = plan->pages_missing;
    }
    return TNR_OK;
}

/* That, and claims the window from [base, end), which begins in `first`. */
static tnr_status plan_claim(tnri_plan *plan, tnri_block *first, uintptr_t base, uintptr_t end)
{
    tnri_world *world = plan->world;
    tnr_status status = plan_sources(plan);
    if (status != TNR_OK)
        return status;
    /* Room for the claim besides what is promised to its undoing. */
    if (!tnri_world_spares(world, TNRI_CARVE_RECORDS + TNRI_PLAN_RECORDS) ||
        !tnri_world_promise(world, TNRI_PLAN_RECORDS))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for the records of a block.");
    plan->pending = tnri_world_claim(world, first, base, end);
    return TNR_OK;
}

tnr_status tnri_plan_make_at(tnri_plan *plan, tnri_arena *arena, const tnri_request *request,
                             tnri_moves moves, const tnri_window *window)
{
    tnri_assert_held(&arena->lock);
    uintptr_t end;
    plan_begin(plan, arena, tnri_arena_world(arena, request->bytes), request, moves);
    plan->window = window->base;
    if (tnri_window_is_whole(plan->world, window->base, request->bytes))
        plan->at = window->base;
    if (!window_gaps(plan, window, &end))
        return TNR_ERR_ADDRESS_SPACE;
    return plan_claim(plan, window->first, window_claim_base(plan, window), end);
}

tnr_status tnri_plan_make(tnri_plan *plan, tnri_arena *arena, const tnri_request *request,
                          tnri_moves moves)
{
    tnri_assert_held(&arena->lock);
    tnri_window window;
    if (!tnri_window_find(tnri_arena_world(arena, request->bytes), request->bytes,
                          request->alignment, tnri_run_bytes_max(arena, request->bytes), &window))
        return TNR_ERR_ADDRESS_SPACE;
    tnr_status status = tnri_plan_make_at(plan, arena, request, moves, &window);
    if (status != TNR_OK)
        return status;
    if (moves != TNRI_MOVES_NONE)
        tnri_plan_take(plan, arena);
    plan->own_count = plan->sources_count;
    return TNR_OK;
}

/* The window of a guarded block in a hole, not below `least`: its base, or 0. */
static uintptr_t guard_window(const tnri_space *space, const tnri_block *hole, uintptr_t least,
                              size_t bytes)
{
    uintptr_t base = hole->base > least ? hole->base : least;
    uintptr_t end = tnri_block_end(hole);
    return base < end && end - base >= bytes + tnri_page_bytes(space) ? base : 0;
}

/* The lowest window from `least` on. */
static uintptr_t guard_lowest(const tnri_world *world, uintptr_t least, size_t bytes,
                              tnri_block **first)
{
    uintptr_t lowest = 0;
    for (tnri_block *hole = world->holes; hole != NULL; hole = hole->next) {
        uintptr_t base = guard_window(world->space, hole, least, bytes);
        if (base != 0 && (lowest == 0 || base < lowest)) {
            lowest = base;
            *first = hole;
        }
    }
    return lowest;
}

tnr_status tnri_plan_make_guard(tnri_plan *plan, tnri_arena *arena, const tnri_request *request)
{
    tnri_assert_held(&arena->lock);
    tnri_world *world = &arena->worlds[TNRI_LARGE];
    const tnri_space *space = world->space;
    size_t page_mask = tnri_page_bytes(space) - 1;
    size_t bytes = (tnri_request_span(request) + page_mask) & ~page_mask;
    tnri_block *first = NULL;
    plan_begin(plan, arena, world, request, TNRI_MOVES_NONE);
    uintptr_t base = guard_lowest(world, arena->guard_next, bytes, &first);
    if (base == 0)
        base = guard_lowest(world, 0, bytes, &first);
    if (base == 0)
        return TNR_ERR_ADDRESS_SPACE;
    plan->gaps[0] = (tnri_gap){tnri_page_of(space, base), bytes >> space->page_shift};
    plan->gaps_count = 1;
    plan->gap_at = 0;
    plan->gap_used = 0;
    plan->pages_missing = plan->gaps[0].pages;
    plan->at = (base + bytes - request->bytes) & ~(request->alignment - 1);
    tnr_status status = plan_claim(plan, first, base, base + bytes);
    if (status == TNR_OK)
        arena->guard_next = base + bytes + tnri_page_bytes(space);
    return status;
}

tnr_status tnri_plan_make_growth(tnri_plan *plan, tnri_arena *arena, const tnri_request *request,
                                 tnri_moves moves)
{
    tnri_assert_held(&arena->lock);
    tnri_world *world = &arena->worlds[TNRI_LARGE];
    plan_begin(plan, arena, world, request, moves);
    plan->is_growth = 1;
    tnri_block *first = world->span_first[0];
    uintptr_t base = 0;
    if (arena->growable.range != NULL && arena->growable.range->promised > 0) {
        base = arena->growable.range->at;
        if (tnri_range_of(arena) == NULL)
            return tnri_error(TNR_ERR_NOT_LIVE, "the block at %p was freed while it grew.",
                              (void *)arena->growable.base);
        first = tnri_range_record(arena, (base - arena->growable.base) >> world->space->page_shift);
        plan->is_paged = 1;
    } else if (!arena->growable.is_bare) {
        if (first->state != TNRI_LIVE)
            return tnri_error(TNR_ERR_NOT_LIVE, "the block at %p was freed while it grew.",
                              (void *)arena->growable.base);
        plan->grows = first;
        first = first->above;
    }
    if (base == 0 && first != NULL)
        base = first->base;
    if (first == NULL || first->state != TNRI_HOLE || tnri_block_end(first) - base < request->bytes)
        return tnri_error(TNR_ERR_BUSY,
                          "the addresses above the block at %p are still mapped, because the "
                          "driver refused to unmap them. Try again.",
                          (void *)arena->growable.base);
    plan->gaps[0] =
        (tnri_gap){tnri_page_of(world->space, base), request->bytes >> world->space->page_shift};
    plan->gaps_count = 1;
    plan->gap_at = 0;
    plan->gap_used = 0;
    plan->pages_missing = plan->gaps[0].pages;
    return plan_claim(plan, first, base, base + request->bytes);
}

tnr_status tnri_plan_make_return(tnri_plan *plan, tnri_parked *parked, tnri_request *request,
                                 tnri_moves moves)
{
    tnri_arena *arena = parked->arena;
    tnri_world *world = parked->block->world;
    tnri_assert_held(&arena->lock);
    plan_begin(plan, arena, world, request, moves);
    plan->returns = parked;
    plan->gaps_count = 0;
    plan->pages_missing = 0;
    plan->gap_at = 0;
    plan->gap_used = 0;
    (void)gaps_list(plan, parked->first, parked->end); /* what does not fit comes next */
    request->bytes = request->bytes_requested = plan->pages_missing << world->space->page_shift;
    request->alignment = TNR_ALIGNMENT_DEFAULT;
    tnr_status status = plan_sources(plan);
    if (status != TNR_OK)
        return status;
    if (moves != TNRI_MOVES_PARKED)
        tnri_plan_take(plan, arena);
    plan->own_count = plan->sources_count;
    return TNR_OK;
}

void tnri_plan_free(tnri_plan *plan)
{
    tnri_host_free(plan->sources, plan->sources_max * sizeof(plan->sources[0]));
    plan->sources = NULL;
    plan->sources_max = 0;
}

/* ---- chunks --------------------------------------------------------------------------------- */

size_t tnri_plan_room(const tnri_plan *plan)
{
    if (plan->pages_missing == 0)
        return 0;
    if (plan->is_paged) /* not asked of the range: that may be freed meanwhile */
        return 1;       /* each page can go back alone */
    return plan->gaps[plan->gap_at].pages - plan->gap_used;
}

/* Gives a chunk its place in the window. */
static void plan_place(tnri_plan *plan, tnri_chunk *chunk, tnri_block *stale, size_t page_old)
{
    tnri_gap *gap = &plan->gaps[plan->gap_at];
    tnri_assert(chunk->pages <= tnri_plan_room(plan));
    tnri_assert(plan->sources_count < plan->sources_max);
    plan->sources[plan->sources_count++] =
        (tnri_source){chunk, gap->page + plan->gap_used, stale, page_old, NULL};
    plan->gap_used += chunk->pages;
    plan->pages_missing -= chunk->pages;
    if (plan->gap_used == gap->pages) {
        plan->gap_at++;
        plan->gap_used = 0;
    }
}

void tnri_plan_add(tnri_plan *plan, tnri_chunk *chunk)
{
    plan_place(plan, chunk, NULL, 0);
}

/* ---- donors --------------------------------------------------------------------------------- */

/* Takes chunks from the upper end of a run, as they fit. Returns how many. The memory is gone from
 * there from now on, for the history as for a picture, which finds it in the window that grows. */
static size_t run_donate(tnri_plan *plan, tnri_world *donor, tnri_block *run)
{
    const tnri_space *space = donor->space;
    size_t first, end;
    if (!tnri_run_whole_chunks(space, run, &first, &end))
        return 0;
    size_t from = plan->sources_count;
    size_t page = end;
    while (page > first && plan->pages_missing > 0) {
        tnri_chunk *chunk = space->pages[page - 1];
        if (chunk->pages > tnri_plan_room(plan))
            break;
        plan_place(plan, chunk, NULL, chunk->page);
        page = chunk->page;
    }
    if (page == end)
        return 0;
    tnri_block *stale = tnri_world_cut(donor, run, page, end - page, plan->sources_count - from);
    stale->holds = 0;
    tnri_note_memory(donor->arena, TNRI_NOTED_MOVE_OUT, stale->base, stale->bytes, stale->bytes, 0);
    for (size_t i = from; i < plan->sources_count; i++) {
        plan->sources[i].stale = stale;
        for (size_t p = 0; p < plan->sources[i].chunk->pages; p++)
            space->pages[plan->sources[i].page_old + p] = NULL;
    }
    return plan->sources_count - from;
}

/* A run with whole chunks, and what it keeps if they all go. */
typedef struct donor_run {
    tnri_block *run;
    size_t pages, rest_bytes;
} donor_run;

/* 1 if a run keeps less than another, beside what they give. */
static int run_keeps_less(const donor_run *one, const donor_run *other)
{
    return one->rest_bytes * other->pages < other->rest_bytes * one->pages;
}

/* Lists the runs of a world that keep least; returns how many. */
static size_t runs_list(const tnri_world *donor, size_t bytes_max, donor_run *list)
{
    size_t count = 0;
    tnri_index_walk walk = {tnri_index_class(tnri_page_bytes(donor->space)), NULL};
    tnri_block *run;
    while ((run = tnri_index_next(donor->index, &walk)) != NULL) {
        size_t first, end;
        if (run->bytes > bytes_max || !tnri_run_whole_chunks(donor->space, run, &first, &end))
            continue;
        size_t pages = end - first;
        donor_run one = {run, pages, run->bytes - (pages << donor->space->page_shift)};
        if (count == TNRI_DONOR_RUNS && !run_keeps_less(&one, &list[count - 1]))
            continue;
        size_t at = count < TNRI_DONOR_RUNS ? count++ : count - 1;
        for (; at > 0 && run_keeps_less(&one, &list[at - 1]); at--)
            list[at] = list[at - 1];
        list[at] = one;
    }
    return count;
}

/* Takes chunks from the runs of a world, those first that keep least beside what they give: what
 * lies below a run's first whole chunk and above its last one is cut off by a hole then, and
 * little fits there at the next peak. */
static size_t world_donate(tnri_plan *plan, tnri_world *donor)
{
    donor_run list[TNRI_DONOR_RUNS];
    size_t bytes_max = tnri_run_bytes_max(donor->arena, plan->request->bytes);
    size_t taken = 0;
    size_t before;
    do {
        before = taken;
        size_t count = runs_list(donor, bytes_max, list);
        for (size_t i = 0; i < count && plan->pages_missing > 0; i++)
            if (tnri_world_spares(donor, TNRI_CUT_RECORDS))
                taken += run_donate(plan, donor, list[i].run);
    } while (taken > before && plan->pages_missing > 0);
    return taken;
}

size_t tnri_plan_take(tnri_plan *plan, tnri_arena *arena)
{
    tnri_assert_held(&arena->lock);
    size_t taken = 0;
    for (int i = TNRI_WORLDS; i-- > 0;)
        taken += world_donate(plan, &arena->worlds[i]);
    return taken;
}

/* Takes chunks from the upper end of a parked block, as they fit. */
static void parked_donate(tnri_plan *plan, tnri_parked *parked)
{
    const tnri_space *space = tnri_arena_space(parked->arena);
    size_t page = parked->end;
    while (page > parked->first && plan->pages_missing > 0) {
        tnri_chunk *chunk = space->pages[page - 1];
        page = chunk == NULL ? page - 1 : chunk->page;
        if (chunk == NULL || chunk->pages > tnri_plan_room(plan))
            continue;
        tnri_evicted *evicted = tnri_evict(parked, chunk);
        if (evicted == NULL)
            break;
        plan_place(plan, chunk, NULL, page);
        plan->sources[plan->sources_count - 1].evicted = evicted;
    }
}

/* Who was parked last is first in the list: of blocks that are used in turn it is the last that is
 * needed again. */
size_t tnri_plan_take_parked(tnri_plan *plan, tnri_arena *arena)
{
    size_t from = plan->sources_count;
    tnri_assert_held(&arena->lock);
    for (tnri_parked *parked = arena->parked; parked != NULL && plan->pages_missing > 0;
         parked = parked->next)
        if (!parked->is_returning)
            parked_donate(plan, parked);
    return plan->sources_count - from;
}

void tnri_plan_untake_parked(tnri_plan *plan)
{
    tnri_source *source = &plan->sources[--plan->sources_count];
    tnri_arena *arena = source->evicted->parked->arena;
    tnri_arena_enter(arena);
    tnri_evicted_restore(source->evicted, source->chunk);
    tnri_arena_leave(arena);
}

/* Makes a donor's record free memory again, which the chunks have come back to. */
static void stale_untake(tnri_arena *arena, tnri_block *stale)
{
    tnri_note_memory(arena, TNRI_NOTED_MOVE_IN, stale->base, stale->bytes, stale->bytes, 0);
    tnri_world_uncut(stale->world, stale);
}

void tnri_plan_untake(tnri_plan *plan, tnri_arena *arena, size_t from)
{
    tnri_assert_held(&arena->lock);
    tnri_space *space = plan->world->space;
    tnri_block *stale = NULL;
    for (size_t i = from; i < plan->sources_count; i++) {
        const tnri_source *source = &plan->sources[i];
        tnri_assert(source->stale != NULL);
        source->chunk->page = source->page_old;
        for (size_t p = 0; p < source->chunk->pages; p++)
            space->pages[source->page_old + p] = source->chunk;
        if (stale != NULL && stale != source->stale)
            stale_untake(arena, stale);
        stale = source->stale;
    }
    if (stale != NULL)
        stale_untake(arena, stale);
    plan->sources_count = from;
}

/* ---- the end -------------------------------------------------------------------------------- */

tnri_block *tnri_plan_commit(tnri_plan *plan)
{
    tnri_world *world = plan->world;
    tnri_assert_held(&plan->arena->lock);
    tnri_assert(plan->pages_missing == 0);
    tnri_world_unpromise(world, TNRI_PLAN_RECORDS);
    tnri_block *run = tnri_world_free(world, plan->pending);
    plan->pending = NULL;
    if (plan->at != 0)
        return tnri_serve_at(world, run, plan->at, plan->request->bytes);
    return tnri_arena_carve(plan->arena, run, plan->request);
}

tnri_block *tnri_plan_commit_growth(tnri_plan *plan)
{
    tnri_arena *arena = plan->arena;
    tnri_world *world = plan->world;
    tnri_assert_held(&arena->lock);
    tnri_assert(plan->pages_missing == 0);
    tnri_world_unpromise(world, TNRI_PLAN_RECORDS);
    tnri_block *pending = plan->pending;
    plan->pending = NULL;
    if (tnri_range_of(arena) != NULL)
        return tnri_range_settle(arena, pending);
    if (plan->grows == NULL ? !arena->growable.is_bare : plan->grows->state != TNRI_LIVE) {
        (void)tnri_world_free(world, pending);
        return NULL;
    }
    arena->growable.is_bare = 0;
    tnri_block *block = tnri_world_extend(world, plan->grows, pending);
    tnri_arena_count_grown(arena, block, plan->request->bytes, plan->request->bytes_requested);
    return block;
}

/* The evicted ranges of a parked block whose addresses are in a gap: none are, any more. */
static void gap_drop(tnri_parked *parked, const tnri_gap *gap)
{
    for (size_t i = 0; i < parked->evicted_room; i++) {
        tnri_evicted *evicted = &parked->evicted[i];
        if (evicted->is_used && evicted->page >= gap->page &&
            evicted->page < gap->page + gap->pages)
            tnri_evicted_drop(evicted);
    }
}

tnri_block *tnri_plan_commit_return(tnri_plan *plan)
{
    tnri_assert_held(&plan->arena->lock);
    tnri_assert(plan->pages_missing == 0);
    for (size_t i = 0; i < plan->gaps_count; i++)
        gap_drop(plan->returns, &plan->gaps[i]);
    return plan->returns->block;
}

/* The addresses are without memory again. Where the driver has refused to remove a mapping that was
 * just made, an evicted range has it: there is one for each of two halves of a gap, since after a
 * refusal none is removed. */
static void plan_undo_return(const tnri_plan *plan)
{
    tnri_space *space = plan->world->space;
    for (size_t i = 0; i < plan->gaps_count; i++) {
        const tnri_gap *gap = &plan->gaps[i];
        gap_drop(plan->returns, gap);
        size_t end = gap->page + gap->pages;
        for (size_t page = gap->page, stop; page < end; page = stop) {
            int is_mapped = space->pages[page] != NULL;
            for (stop = page + 1; stop < end && (space->pages[stop] != NULL) == is_mapped;)
                stop++;
            tnri_evicted_make(plan->returns, page, stop - page, is_mapped);
        }
    }
}

void tnri_plan_undo(tnri_plan *plan)
{
    tnri_assert_held(&plan->arena->lock);
    if (plan->returns != NULL) {
        plan_undo_return(plan);
        return;
    }
    tnri_world_unpromise(plan->world, TNRI_PLAN_RECORDS);
    (void)tnri_world_unclaim(plan->world, plan->pending, tnri_stale_add_done, NULL);
    plan->pending = NULL;
}
