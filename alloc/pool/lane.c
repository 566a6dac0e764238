/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing lanes, and borrowing between them: see lane.h. */
#include "pool/lane.h"

#include <unistd.h>

#include "base/heuristics.h"
#include "arena/bins.h"
#include "arena/count.h"
#include "arena/serve.h"
#include "base/alive.h"
#include "base/ticks.h"
#include "conf/conf.h"
#include "driver/capturing.h"
#include "pool/cache.h"
#include "pool/structure.h"

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
        count = sysconf(_SC_NPROCESSORS_ONLN);
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
    return tnri_lane_has_sisters(arena) ? TNRI_LANE_WAITS_NEXT : TNRI_LANE_WAITS_FIRST;
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
static tnri_tenant *tenant_place(tnri_arena *arena, uint64_t thread)
{
    for (int i = 0; i < TNRI_LANE_TENANTS; i++)
        if (arena->lane.tenants[i].number == thread)
            return &arena->lane.tenants[i];
    return NULL;
}

static void tenant_leave(tnri_arena *arena)
{
    tnri_tenant *place = tenant_place(arena, tnri_thread_number());
    if (place != NULL)
        *place = (tnri_tenant){0};
}

void tnri_lane_settle(tnri_arena *arena)
{
    uint64_t thread = tnri_thread_number();
    tnri_assert_held(&arena->pool->lock);
    if (tenant_place(arena, thread) != NULL)
        return;
    tnri_tenant *place = tenant_place(arena, 0);
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

/* The lane that has the fewest tenants, among `first` and the sisters. */
static tnri_arena *emptiest(tnri_arena *first, tnri_arena *const *sisters, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_emptier(sisters[i], first))
            first = sisters[i];
    return first;
}

static void lanes_check(tnri_arena *first, tnri_arena *const *sisters, size_t count)
{
    tenants_check(first);
    for (size_t i = 0; i < count; i++)
        tenants_check(sisters[i]);
}

/* Where a thread goes that has waited too often at `left`; null: to a lane that is to be opened. */
static tnri_arena *lane_move_on(tnri_arena *left, tnri_arena *const *sisters, size_t count)
{
    tenant_leave(left);
    lanes_check(left, sisters, count);
    size_t others = tenants_count(left);
    tnri_arena *best = count > 0 ? emptiest(sisters[0], sisters + 1, count - 1) : left;
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
static tnri_arena *lane_in_turn(tnri_arena *first, tnri_arena *const *sisters, size_t count)
{
    if (count + 1 < tnri_conf_get()->lanes_forced && !tnri_capturing())
        return NULL;
    tnri_arena *next = first;
    for (size_t i = 0; i < count; i++)
        if (sisters[i]->lane.tenants_ever < next->lane.tenants_ever ||
            (sisters[i]->lane.tenants_ever == next->lane.tenants_ever &&
             sisters[i]->number < next->number))
            next = sisters[i];
    tenant_leave(next);
    return next;
}

tnri_arena *tnri_lane_choose(tnri_arena *first)
{
    tnri_assert_held(&first->pool->lock);
    tnri_thread *thread = tnri_thread_here();
    const tnri_arena *left = thread->lane_left;
    tnri_arena *sisters[TNRI_LANES_MAX];
    int is_forced = tnri_conf_get()->lanes_forced != 0;
    if (!tnri_lane_has_sisters(first) && left != first && !is_forced)
        return first;
    size_t count = tnri_lane_sisters(first, sisters);
    if (is_forced)
        return lane_in_turn(first, sisters, count);
    for (size_t i = 0; i < count && left != first; i++)
        if (sisters[i] == left) {
            tnri_arena *lane = sisters[i];
            sisters[i] = first;
            first = lane;
        }
    if (left == first) {
        thread->lane_left = NULL;
        return lane_move_on(first, sisters, count);
    }
    uint64_t number = tnri_thread_number();
    if (tenant_place(first, number) != NULL)
        return first;
    for (size_t i = 0; i < count; i++)
        if (tenant_place(sisters[i], number) != NULL)
            return sisters[i];
    lanes_check(first, sisters, count);
    return emptiest(first, sisters, count);
}

void tnri_lane_join(tnri_arena *first, tnri_arena *arena)
{
    tnri_assert_held(&first->pool->lock);
    tnri_arena *next = atomic_load(&first->lane.sister);
    atomic_store(&arena->lane.sister, next != NULL ? next : first);
    atomic_store(&first->lane.sister, arena);
}

void tnri_lane_part(tnri_arena *arena)
{
    tnri_assert_held(&arena->pool->lock);
    tnri_arena *next = atomic_load(&arena->lane.sister);
    tnri_arena *before = arena;
    for (tnri_arena *at = next; at != NULL && at != arena; at = atomic_load(&at->lane.sister))
        before = at;
    if (before != arena)
        atomic_store(&before->lane.sister, next == before ? NULL : next);
    atomic_store(&arena->lane.sister, NULL);
    for (int i = 0; i < TNRI_LANE_TENANTS; i++)
        arena->lane.tenants[i] = (tnri_tenant){0};
    atomic_store(&arena->lane.waits_wanted, 0);
}

/* ---- memory of sisters ----------------------------------------------------------------------- */

size_t tnri_lane_sisters(const tnri_arena *arena, tnri_arena *sisters[TNRI_LANES_MAX])
{
    const tnri_arena *lender = atomic_load_explicit(&arena->lane.lender, memory_order_relaxed);
    size_t count = 0;
    tnri_arena *at = atomic_load_explicit(&arena->lane.sister, memory_order_acquire);
    while (at != NULL && at != arena && count < TNRI_LANES_MAX) {
        if (at == lender && count > 0) {
            sisters[count++] = sisters[0];
            sisters[0] = at;
        } else {
            sisters[count++] = at;
        }
        at = atomic_load_explicit(&at->lane.sister, memory_order_acquire);
    }
    return count;
}

/* What a sister has for the request, if she still is one. Under her lock. */
static tnri_block *sister_serve(tnri_arena *arena, tnri_arena *sister, const tnri_request *request,
                                tnr_served *served)
{
    int no_host;
    if (!tnri_lane_is_sister(arena, sister))
        return NULL;
    if (*served == TNR_SERVED_BIN)
        return tnri_arena_serve_cached(sister, request, served, &no_host);
    int flushed = *served == TNR_SERVED_RETIRED;
    for (int i = 0; i < TNRI_WORLDS && *served == TNR_SERVED_FLUSH; i++)
        flushed |= tnri_world_flush(&sister->worlds[i]);
    return flushed ? tnri_arena_serve_index(sister, request, &no_host) : NULL;
}

int tnri_lane_borrow(tnri_arena *arena, const tnri_request *request, tnr_served served, void **ptr)
{
    tnri_arena *sisters[TNRI_LANES_MAX];
    size_t count = tnri_lane_sisters(arena, sisters);
    uint32_t waited = 0;
    int is_served = 0;
    for (size_t i = 0; i < count && !is_served; i++) {
        tnr_served how = served;
        waited += rests_of(tnri_arena_enter(sisters[i]));
        tnri_block *block = sister_serve(arena, sisters[i], request, &how);
        if (block != NULL) {
            tnri_arena_count_served(sisters[i], block, request, how);
            *ptr = (void *)block->base;
        }
        tnri_lock_release(&sisters[i]->lock);
        if (block != NULL)
            atomic_store_explicit(&arena->lane.lender, sisters[i], memory_order_relaxed);
        is_served = block != NULL;
    }
    waited += (uint32_t)is_served; /* it has cost that much, wait or not */
    if (waited > 0)
        atomic_fetch_add_explicit(&arena->lane.borrowing, waited, memory_order_relaxed);
    return is_served;
}

int tnri_lane_is_poor(tnri_arena *arena, const tnri_request *request, int *may_grow)
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
    tnri_lock_release(&arena->lock);
    uint64_t page = tnri_page_bytes(world->space);
    uint64_t part =
        atomic_load_explicit(&arena->pool->account.reserved_bytes, memory_order_relaxed);
    part = part / TNRI_LANE_OWN_PART > page ? part / TNRI_LANE_OWN_PART : page;
    uint64_t wanted = (request->bytes + page - 1) & ~(page - 1);
    *may_grow = mapped + wanted <= part;
    return 1;
}
