/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing lanes, and borrowing between them: see lane.h. */
#include "memory/pool/lane.h"

#include "base/heuristics.h"
#include "memory/arena/bins.h"
#include "memory/arena/count.h"
#include "memory/arena/serve.h"
#include "base/prim/alive.h"
#include "base/ticks.h"
#include "base/conf/conf.h"
#include "base/prim/process.h"
#include "gpu/capturing.h"
#include "memory/pool/cache.h"
#include "memory/pool/structure.h"

/* ---- who goes where -------------------------------------------------------------------------- */

/* The most lanes that a stream may have now. All processors count, not those that the calling
 * thread may run on: threads that keep to one processor each want lanes most of all. */
static size_t lanes_most(void)
{
    static _Atomic long processors; /* 0: not counted yet */
    uint64_t most = tnri_conf_get()->lanes_max;
    if (most > 0)
        return (size_t)most;
    long count = atomic_load_explicit(&processors, memory_order_relaxed);
    if (count == 0) {
        count = tnri_processors();
        count = count > 0 ? count : TNRI_LANES_DEFAULT;
        atomic_store_explicit(&processors, count, memory_order_relaxed);
    }
    return count < TNRI_LANES_DEFAULT ? (size_t)count : TNRI_LANES_DEFAULT;
}

static uint32_t waits_most(const tnri_arena *arena)
{
    uint32_t wanted = atomic_load_explicit(&arena->lane.waits_wanted, memory_order_relaxed);
    if (wanted != 0)
        return wanted;
    return tnri_lane_has_others(arena) ? TNRI_LANE_WAITS_NEXT : TNRI_LANE_WAITS_FIRST;
}

/* The shortest rests of a lock that so many rounds of waiting are, about. */
static uint32_t rests_of(int rounds)
{
    if (rounds == 0)
        return 0;
    return 1u << (rounds < TNRI_LANE_ROUNDS ? rounds : TNRI_LANE_ROUNDS);
}

TNRI_SELDOM void tnri_lane_waited(tnri_arena *arena, int rounds)
{
    tnri_assert_held(&arena->lock);
    tnri_lane *lane = &arena->lane;
    uint64_t now = tnri_ticks();
    if (now - lane->waited_ticks > TNRI_LANE_WINDOW_TICKS) {
        lane->waited_ticks = now;
        lane->waited = 0;
    }
    lane->waited += rests_of(rounds);
    if (lane->waited < waits_most(arena))
        return;
    lane->waited = 0;
    tnri_cached_arena_leave(arena);
}

static size_t tenants_count(const tnri_arena *arena)
{
    size_t count = 0;
    for (int i = 0; i < TNRI_LANE_TENANTS; i++)
        count += arena->lane.tenants[i].number != 0;
    return count;
}

/* Strikes those off that are gone, which takes a system call for each; who stays waits as at first
 * for a place elsewhere. */
static void tenants_check(tnri_arena *arena)
{
    for (int i = 0; i < TNRI_LANE_TENANTS; i++) {
        tnri_tenant *tenant = &arena->lane.tenants[i];
        if (tenant->number == 0 || !tnri_alive_is_gone(tenant->address, tenant->id))
            continue;
        *tenant = (tnri_tenant){0};
        atomic_store_explicit(&arena->lane.waits_wanted, 0, memory_order_relaxed);
    }
}

/* The place of a thread among the tenants; null if it has none. With 0, a free one. */
static tnri_tenant *tenant_slot(tnri_arena *arena, uint64_t thread)
{
    for (int i = 0; i < TNRI_LANE_TENANTS; i++)
        if (arena->lane.tenants[i].number == thread)
            return &arena->lane.tenants[i];
    return NULL;
}

static void tenant_leave(tnri_arena *arena)
{
    tnri_tenant *place = tenant_slot(arena, tnri_thread_number());
    if (place != NULL)
        *place = (tnri_tenant){0};
}

void tnri_lane_settle(tnri_arena *arena)
{
    uint64_t thread = tnri_thread_number();
    tnri_assert_held(&arena->pool->lock);
    if (tenant_slot(arena, thread) != NULL)
        return;
    tnri_tenant *place = tenant_slot(arena, 0);
    if (place == NULL)
        place = &arena->lane.tenants[arena->lane.tenants_ever % TNRI_LANE_TENANTS];
    *place = (tnri_tenant){thread, tnri_alive_self(), tnri_alive_id()};
    arena->lane.tenants_ever++;
}

/* 1 if the first has fewer tenants; of two with as many, had fewer. But of two with none, had more:
 * threads that come one after the other find the memory of those before. */
static int is_emptier(const tnri_arena *one, const tnri_arena *other)
{
    size_t of_one = tenants_count(one);
    size_t of_other = tenants_count(other);
    if (of_one != of_other)
        return of_one < of_other;
    return of_one == 0 ? one->lane.tenants_ever > other->lane.tenants_ever
                       : one->lane.tenants_ever < other->lane.tenants_ever;
}

/* The lane that has the fewest tenants, among `first` and the others. */
static tnri_arena *emptiest(tnri_arena *first, tnri_arena *const *lanes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_emptier(lanes[i], first))
            first = lanes[i];
    return first;
}

static void lanes_check(tnri_arena *first, tnri_arena *const *lanes, size_t count)
{
    tenants_check(first);
    for (size_t i = 0; i < count; i++)
        tenants_check(lanes[i]);
}

/* Where a thread goes that has waited too often at `left`; null: to a lane that is to be opened. */
static tnri_arena *lane_move_on(tnri_arena *left, tnri_arena *const *lanes, size_t count)
{
    tenant_leave(left);
    lanes_check(left, lanes, count);
    size_t others = tenants_count(left);
    tnri_arena *best = count > 0 ? emptiest(lanes[0], lanes + 1, count - 1) : left;
    if (others > 0) { /* else those that it waited for free blocks, or borrow: they would follow */
        if (best != left && tenants_count(best) == 0)
            return best;
        if (count + 1 < lanes_most() && !tnri_capturing())
            return NULL;
    }
    uint32_t wanted = waits_most(left);
    if (wanted < TNRI_LANE_WAITS_LAST)
        atomic_store_explicit(&left->lane.waits_wanted, wanted * 2, memory_order_relaxed);
    /* Tenants may live and never come again: of two lanes with as many, one may be free. */
    return others > 0 && tenants_count(best) <= others ? best : left;
}

/* The next lane in turn, for tests; null: one that is to be opened. The lanes of a stream are told
 * apart by how many threads they ever had, which is one more each time. */
static tnri_arena *lane_in_turn(tnri_arena *first, tnri_arena *const *lanes, size_t count)
{
    if (count + 1 < tnri_conf_get()->lanes_forced && !tnri_capturing())
        return NULL;
    tnri_arena *next = first;
    for (size_t i = 0; i < count; i++)
        if (lanes[i]->lane.tenants_ever < next->lane.tenants_ever ||
            (lanes[i]->lane.tenants_ever == next->lane.tenants_ever &&
             lanes[i]->number < next->number))
            next = lanes[i];
    tenant_leave(next);
    return next;
}

tnri_arena *tnri_lane_choose(tnri_arena *first)
{
    tnri_assert_held(&first->pool->lock);
    tnri_thread *thread = tnri_thread_here();
    const tnri_arena *left = thread->lane_left;
    tnri_arena *lanes[TNRI_LANES_MAX];
    int is_forced = tnri_conf_get()->lanes_forced != 0;
    if (!tnri_lane_has_others(first) && left != first && !is_forced)
        return first;
    size_t count = tnri_lane_others(first, lanes);
    if (is_forced)
        return lane_in_turn(first, lanes, count);
    for (size_t i = 0; i < count && left != first; i++)
        if (lanes[i] == left) {
            tnri_arena *lane = lanes[i];
            lanes[i] = first;
            first = lane;
        }
    if (left == first) {
        thread->lane_left = NULL;
        return lane_move_on(first, lanes, count);
    }
    uint64_t number = tnri_thread_number();
    if (tenant_slot(first, number) != NULL)
        return first;
    for (size_t i = 0; i < count; i++)
        if (tenant_slot(lanes[i], number) != NULL)
            return lanes[i];
    lanes_check(first, lanes, count);
    return emptiest(first, lanes, count);
}

void tnri_lane_join(tnri_arena *first, tnri_arena *arena)
{
    tnri_assert_held(&first->pool->lock);
    tnri_arena *next = atomic_load(&first->lane.next);
    atomic_store(&arena->lane.next, next != NULL ? next : first);
    atomic_store(&first->lane.next, arena);
}

void tnri_lane_part(tnri_arena *arena)
{
    tnri_assert_held(&arena->pool->lock);
    tnri_arena *next = atomic_load(&arena->lane.next);
    tnri_arena *before = arena;
    for (tnri_arena *at = next; at != NULL && at != arena; at = atomic_load(&at->lane.next))
        before = at;
    if (before != arena)
        atomic_store(&before->lane.next, next == before ? NULL : next);
    atomic_store(&arena->lane.next, NULL);
    for (int i = 0; i < TNRI_LANE_TENANTS; i++)
        arena->lane.tenants[i] = (tnri_tenant){0};
    atomic_store(&arena->lane.waits_wanted, 0);
}

/* ---- memory of lanes ----------------------------------------------------------------------- */

size_t tnri_lane_others(const tnri_arena *arena, tnri_arena *lanes[TNRI_LANES_MAX])
{
    const tnri_arena *lender = atomic_load_explicit(&arena->lane.lender, memory_order_relaxed);
    size_t count = 0;
    tnri_arena *at = atomic_load_explicit(&arena->lane.next, memory_order_acquire);
    while (at != NULL && at != arena && count < TNRI_LANES_MAX) {
        if (at == lender && count > 0) {
            lanes[count++] = lanes[0];
            lanes[0] = at;
        } else {
            lanes[count++] = at;
        }
        at = atomic_load_explicit(&at->lane.next, memory_order_acquire);
    }
    return count;
}

/* What another lane has for the request, if it still is one. Its index is asked even if nothing was
 * flushed: another thread may have done that since this one was there. Under its lock. */
static tnri_block *lane_serve(tnri_arena *arena, tnri_arena *other, const tnri_request *request,
                              tnr_served *served)
{
    int no_host;
    if (!tnri_lane_is_other(arena, other))
        return NULL;
    if (*served == TNR_SERVED_BIN)
        return tnri_arena_serve_cached(other, request, served, &no_host);
    for (int i = 0; i < TNRI_WORLDS && *served == TNR_SERVED_FLUSH; i++)
        tnri_world_flush(&other->worlds[i]);
    return tnri_arena_serve_index(other, request, &no_host);
}

int tnri_lane_borrow(tnri_arena *arena, const tnri_request *request, tnr_served served, void **ptr)
{
    tnri_arena *lanes[TNRI_LANES_MAX];
    size_t count = tnri_lane_others(arena, lanes);
    uint32_t waited = 0;
    int is_served = 0;
    for (size_t i = 0; i < count && !is_served; i++) {
        tnr_served how = served;
        waited += rests_of(tnri_arena_enter(lanes[i]));
        tnri_block *block = lane_serve(arena, lanes[i], request, &how);
        if (block != NULL) {
            tnri_arena_count_served(lanes[i], block, request, how);
            *ptr = (void *)block->base;
        }
        tnri_arena_leave(lanes[i]);
        if (block != NULL)
            atomic_store_explicit(&arena->lane.lender, lanes[i], memory_order_relaxed);
        is_served = block != NULL;
    }
    waited += (uint32_t)is_served; /* it has cost that much, wait or not */
    if (waited > 0)
        atomic_fetch_add_explicit(&arena->lane.borrowing, waited, memory_order_relaxed);
    return is_served;
}

int tnri_lane_is_starved(tnri_arena *arena, const tnri_request *request, int *may_grow)
{
    tnri_lane *lane = &arena->lane;
    if (tnri_conf_get()->lanes_forced != 0)
        atomic_fetch_add_explicit(&lane->borrowing, TNRI_LANE_FORCED_BORROWING,
                                  memory_order_relaxed);
    if (atomic_load_explicit(&lane->borrowing, memory_order_relaxed) < TNRI_LANE_WAITS_BORROWING)
        return 0;
    atomic_store_explicit(&lane->borrowing, 0, memory_order_relaxed);
    tnri_arena_enter(arena);
    const tnri_world *world = tnri_arena_world(arena, request->bytes);
    uint64_t mapped =
        world->bytes_in[TNRI_LIVE] + world->bytes_in[TNRI_FREE] + world->bytes_in[TNRI_RETIRED];
    tnri_arena_leave(arena);
    uint64_t page = tnri_page_bytes(world->space);
    uint64_t part =
        atomic_load_explicit(&arena->pool->account.reserved_bytes, memory_order_relaxed);
    part = part / TNRI_LANE_OWN_PART > page ? part / TNRI_LANE_OWN_PART : page;
    uint64_t wanted = (request->bytes + page - 1) & ~(page - 1);
    *may_grow = mapped + wanted <= part;
    return 1;
}
