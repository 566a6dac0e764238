/* SPDX-License-Identifier: Apache-2.0 */
/* The ladder's order and its unwinding: see ladder.h. What each step does to the arena is in
 * plan.c; the driver's part of a plan is in execute.c. */
#include "miss/ladder.h"

#include "base/prim/calm.h"
#include "base/heuristics.h"
#include "memory/arena/bins.h"
#include "memory/arena/count.h"
#include "memory/arena/trough.h"
#include "memory/arena/serve.h"
#include "memory/arena/world_move.h"
#include "base/error.h"
#include "base/conf/conf.h"
#include "base/prim/process.h"
#include "memory/device/cgroup.h"
#include "memory/device/budget.h"
#include "memory/device/group.h"
#include "memory/device/upper.h"
#include "gpu/capturing.h"
#include "miss/cached_window.h"
#include "miss/execute.h"
#include "miss/give_back.h"
#include "miss/lend.h"
#include "miss/oom.h"
#include "miss/plan.h"
#include "miss/price.h"
#include "miss/reclaim.h"
#include "miss/segment.h"
#include "miss/stale.h"
#include "miss/trade.h"
#include "miss/turn.h"
#include "miss/window.h"
#include "memory/pool/asleep.h"
#include "memory/pool/lane.h"
#include "memory/pool/pool.h"

tnr_status tnri_ladder_take_span(tnri_span **span, tnri_device *device, size_t wanted, size_t least)
{
    int addresses_left;
    int is_thorough = 0;
    while ((*span = tnri_space_take(&device->space, wanted, &addresses_left)) == NULL) {
        if (addresses_left)
            return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a range of addresses.");
        if (wanted / 2 >= least) {
            wanted /= 2;
        } else if (!is_thorough) {
            is_thorough = 1;
            tnri_reclaim_addresses(device);
        } else {
            return tnri_error(TNR_ERR_ADDRESS_SPACE,
                              "device %d has no %zu contiguous addresses left in its range of %zu "
                              "bytes. Raise address_space_gb.",
                              device->index, least, device->space.bytes);
        }
    }
    return TNR_OK;
}

/* A span for an arena: of a pool that is shared, where other processes have nothing yet. The place
 * depends on the process, so that what two of them share can be had by a third. */
static tnr_status ladder_take(tnri_span **span, tnri_arena *arena, size_t wanted, size_t least)
{
    if (arena->account->is_shared) {
        uint64_t salt = (uint64_t)tnri_process_id() * UINT64_C(0x9e3779b97f4a7c15) >> 32;
        *span = tnri_space_take_far(&arena->device->space, least, salt);
        if (*span != NULL)
            return TNR_OK;
    }
    return tnri_ladder_take_span(span, arena->device, wanted, least);
}

/* The least that a new span of a world has: all of the device's memory, while a quarter of its
 * addresses is enough for that. There may be thousands of graph pools, most of them small; and
 * guarded blocks go over all addresses that they have, whatever memory they need. */
static size_t span_bytes_least(const tnri_arena *arena, const tnri_world *world)
{
    const tnri_space *space = &arena->device->space;
    size_t memory = arena->device->capabilities.memory_bytes;
    size_t least = (size_t)1 << 30;
    if (world->is_small || arena->account->is_graph)
        return least / 16;
    return arena->is_guard || memory < least ||
                   memory + atomic_load(&space->used_bytes) > space->bytes / 4
               ? least
               : memory;
}

/* Adds a span with room for the request, twice as large as all that the world has. A guarded block
 * needs a page more, and is in the large world whatever its size. */
static tnr_status ladder_add_span(tnri_arena *arena, const tnri_request *request)
{
    tnri_world *world =
        arena->is_guard ? &arena->worlds[TNRI_LARGE] : tnri_arena_world(arena, request->bytes);
    size_t least =
        tnri_request_span(request) + tnri_page_bytes(world->space) * (arena->is_guard ? 2 : 1);
    tnri_arena_enter(arena);
    size_t wanted = world->spans_bytes * 2;
    tnri_arena_leave(arena);
    if (wanted < span_bytes_least(arena, world))
        wanted = span_bytes_least(arena, world);
    while (wanted < least)
        wanted *= 2;
    tnri_span *span;
    tnr_status status = ladder_take(&span, arena, wanted, least);
    if (status != TNR_OK)
        return status;
    tnri_arena_enter(arena);
    if (world->spans_own == TNRI_SPANS_MAX)
        status = tnri_error(TNR_ERR_ADDRESS_SPACE,
                            "a stream of device %d has used up its %d ranges of addresses.",
                            arena->device->index, TNRI_SPANS_MAX);
    else if (!tnri_world_spares(world, 1))
        status = tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a range of addresses.");
    else
        tnri_world_add_span(world, span);
    tnri_arena_leave(arena);
    if (status != TNR_OK)
        tnri_space_return(world->space, span);
    return status;
}

/* Flushes the bins and asks the index once more, even if they were empty: since it was asked,
 * others may have freed memory or flushed what was freed, as giving idle memory back does. A plan
 * would not find a run that no hole is beside. Under the lock. */
static tnri_block *ladder_flush(tnri_arena *arena, const tnri_request *request)
{
    int no_host;
    for (int i = 0; i < TNRI_WORLDS; i++)
        tnri_world_flush(&arena->worlds[i]);
    return tnri_arena_serve_index(arena, request, &no_host);
}

/* Has addresses come home that the arena has lent and that hold no memory now; 0 if none did. */
static int ladder_gets_addresses_back(tnri_arena *arena, const tnri_request *request)
{
    tnri_arena_enter(arena);
    int has_lent = tnri_arena_world(arena, request->bytes)->lent != NULL;
    tnri_arena_leave(arena);
    return has_lent && tnri_give_back(arena->pool) > 0;
}

/* Unmaps all aliases of a pool where its device's addresses are running out; 0 if it has none, or
 * there are enough. */
static int ladder_gets_aliases_back(tnri_arena *wanting)
{
    const tnri_space *space = &wanting->device->space;
    size_t released = 0;
    size_t aliases = 0;
    if (!atomic_load_explicit(&wanting->account->has_moved, memory_order_relaxed) ||
        atomic_load(&space->used_bytes) < space->bytes / 2)
        return 0;
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(wanting->pool, arena)) != NULL;) {
        tnri_arena_enter(arena);
        aliases += arena->aliases_count;
        tnri_arena_leave(arena);
    }
    if (aliases == 0)
        return 0;
    (void)tnri_drain_pool(wanting->pool, 1, &released);
    return 1;
}

/* Serves from what is there (flush, or what was reclaimed), or makes a plan. *ptr is set in the
 * first case. */
static tnr_status ladder_plan(tnri_plan *plan, tnri_arena *arena, const tnri_request *request,
                              tnri_moves moves, int reclaimed, void **ptr)
{
    tnr_served served = reclaimed ? TNR_SERVED_RECLAIMED : TNR_SERVED_FLUSH;
    tnr_status status = TNR_ERR_ADDRESS_SPACE;
    for (int spans = 0; status == TNR_ERR_ADDRESS_SPACE && spans < TNRI_SPANS_PER_REQUEST;
         spans++) {
        int has_more = spans == 1 && ladder_gets_aliases_back(arena);
        if (spans > 0 && spans <= 2 && !has_more)
            has_more = ladder_gets_addresses_back(arena, request);
        if (spans > 0 && !has_more) {
            status = ladder_add_span(arena, request);
            if (status != TNR_OK)
                return status;
        }
        tnri_arena_enter(arena);
        tnri_block *block = arena->is_guard ? NULL : ladder_flush(arena, request);
        if (block != NULL) {
            tnri_arena_count_served(arena, block, request, served);
            *ptr = (void *)block->base;
            status = TNR_OK;
        } else if (arena->is_guard) {
            status = tnri_plan_make_guard(plan, arena, request);
        } else {
            status = tnri_plan_make(plan, arena, request, moves);
        }
        tnri_arena_leave(arena);
    }
    if (status == TNR_ERR_ADDRESS_SPACE)
        return tnri_error(status, "new addresses were taken by other threads %d times in a row.",
                          TNRI_SPANS_PER_REQUEST);
    return status;
}

static size_t arena_retired_bytes(tnri_arena *arena)
{
    size_t retired = 0;
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++)
        retired += arena->worlds[i].bytes_in[TNRI_RETIRED];
    tnri_arena_leave(arena);
    return retired;
}

/* The most that an arena may move into itself: chunks of other streams only if its own can be made
 * to wait for them. A growable block grows for any thread, when its stream is gone, and while it is
 * captured. Graphs know the addresses of a graph pool and of a vouched one, network cards those of
 * a pool for them, and owners those of foreign segments, so no chunk of these moves, ever. */
static tnri_moves ladder_moves_max(const tnri_arena *arena)
{
    const tnri_stream *stream = atomic_load(&arena->stream);
    if (stream == NULL || arena->is_guard || tnri_account_is_fixed(arena->account))
        return TNRI_MOVES_NONE;
    if (arena->growable.base != 0 &&
        (atomic_load(&stream->is_dead) || tnri_capturing() || !tnri_stream_is_markable(stream)))
        return TNRI_MOVES_NONE;
    return TNRI_MOVES_ALL;
}

/* The same of all lanes of the arena's stream. */
static size_t stream_retired_bytes(tnri_arena *arena)
{
    size_t retired = arena_retired_bytes(arena);
    if (tnri_likely(!tnri_lane_has_others(arena)))
        return retired;
    tnri_arena *lanes[TNRI_LANES_MAX];
    for (size_t i = tnri_lane_others(arena, lanes); i-- > 0;)
        retired += arena_retired_bytes(lanes[i]);
    return retired;
}

/* The memory that must be mapped at once for a request to be served, whatever is free: all pages of
 * the block. */
static size_t request_least(const tnri_arena *arena, const tnri_request *request)
{
    size_t page = tnri_page_bytes(tnri_arena_space(arena));
    size_t bytes = arena->growable.base != 0 ? request->bytes_requested : request->bytes;
    return (bytes + page - 1) & ~(page - 1);
}

/* What a request may move, and whether the driver has refused it memory before. */
typedef struct ladder_means {
    tnri_moves moves;
    int was_refused;
} ladder_means;

/* Chunks of other streams would come after all that those were given so far; the stream's own
 * retired blocks come sooner, if they are enough. */
static ladder_means ladder_moves(tnri_arena *arena, const tnri_request *request,
                                 const tnri_use *use)
{
    if (ladder_moves_max(arena) == TNRI_MOVES_NONE)
        return (ladder_means){TNRI_MOVES_NONE, 0};
    int trades = tnri_trade_pays(arena, use);
    if (!tnri_price_may_move(arena->pool, request, use))
        return (ladder_means){TNRI_MOVES_NONE, 0};
    tnri_moves most =
        trades && stream_retired_bytes(arena) < request->bytes ? TNRI_MOVES_ALL : TNRI_MOVES_OWN;
    return (ladder_means){most, 0};
}

/* Has retired blocks of an arena become free, as far as the settings allow. Returns their bytes. */
static size_t retired_collect(tnri_arena *arena, const tnri_request *request, size_t retired)
{
    const tnri_conf *conf = tnri_conf_get();
    uint64_t mapped =
        atomic_load_explicit(&arena->pool->account.reserved_bytes, memory_order_relaxed);
    const tnri_upper *order = tnri_upper_of(TNRI_ROOM_ORDER);
    size_t freed = order->collect(arena, SIZE_MAX, TNRI_COLLECT_OVER);
    if (conf->reuse == TNRI_REUSE_WAIT && retired > mapped / 100 * conf->reuse_mark_percent)
        freed += order->collect(arena, request->bytes, TNRI_COLLECT_ORDER);
    return freed;
}

/* The same for the other lanes of its stream that have some. */
static size_t lanes_collect(tnri_arena *arena, const tnri_request *request, size_t retired)
{
    tnri_arena *lanes[TNRI_LANES_MAX];
    size_t freed = 0;
    for (size_t i = tnri_lane_others(arena, lanes); i-- > 0;)
        if (tnri_lane_is_other(arena, lanes[i]) && arena_retired_bytes(lanes[i]) > 0)
            freed += retired_collect(lanes[i], request, retired);
    return freed;
}

/* Serves from what retired blocks have become; 0 if it cannot. */
static int retired_serve(tnri_arena *arena, const tnri_request *request, void **ptr)
{
    int no_host;
    tnri_arena_enter(arena);
    tnri_block *block = tnri_arena_serve_index(arena, request, &no_host);
    if (block != NULL) {
        tnri_arena_count_served(arena, block, request, TNR_SERVED_RETIRED);
        *ptr = (void *)block->base;
    }
    tnri_arena_leave(arena);
    return block != NULL;
}

/* Step 3: serves from retired blocks, as far as the settings allow. First from the oldest that are
 * the arena's own, for which a few streams are asked. Blocks whose uses are over, or ordered
 * already, cost nothing more; to make this stream wait is worth it when much is retired. Host
 * memory is freed by copies, most of it at once, and to pin more costs more than to ask: there all
 * that is over comes back before any of it is cut, so that neighbours are one run again. */
static int ladder_retired(tnri_arena *arena, const tnri_request *request, int reclaimed, void **ptr)
{
    const tnri_upper *order = tnri_upper_of(TNRI_ROOM_ORDER);
    if (order->collect == NULL)
        return 0;
    if (!tnri_device_is_host(arena->device) &&
        order->collect(arena, request->bytes, TNRI_COLLECT_OWN) > 0 &&
        retired_serve(arena, request, ptr))
        return 1;
    int has_lanes = tnri_lane_has_others(arena);
    size_t retired = stream_retired_bytes(arena);
    size_t freed = retired_collect(arena, request, retired);
    if (has_lanes)
        freed += lanes_collect(arena, request, retired);
    if (freed == 0 && !reclaimed) /* reclaiming may have ended some before */
        return 0;
    return retired_serve(arena, request, ptr) ||
           (has_lanes && tnri_lane_borrow(arena, request, TNR_SERVED_RETIRED, ptr));
}

/* 1 if a run of another arena is worth a wait of this arena's stream for that one's: memory is
 * missing that the arena's own chunks do not have, and to grow by it costs more. */
static int plan_would_borrow(const tnri_plan *plan)
{
    return plan->moves == TNRI_MOVES_ALL && plan->pages_missing > 0 && !plan->is_growth;
}

/* Steps 4 to 7 for a request with a plan. */
static tnr_status ladder_lend_or_execute(tnri_plan *plan, int reclaimed, void **ptr)
{
    if (plan_would_borrow(plan)) {
        tnr_status status = tnri_lend(plan->arena, plan->request, ptr);
        if (status != TNR_OK || *ptr != NULL) {
            tnri_execute_not(plan);
            return status;
        }
    }
    return tnri_execute(plan, reclaimed, ptr);
}

/* Places memory where a request of the size had it before, if all that it needs for it is free;
 * else *ptr stays null. Not while the access of peers changes: who changes it goes over what is
 * mapped and forgets old mappings, and sees neither in a window that is being made. */
static tnr_status ladder_cached(tnri_plan *plan, tnri_arena *arena, const tnri_request *request,
                                int reclaimed, void **ptr)
{
    if (arena->growable.base != 0 || ladder_moves_max(arena) == TNRI_MOVES_NONE ||
        tnri_conf_get()->aliases_max == 0 || atomic_load(&arena->account->access.is_changing) ||
        !atomic_load_explicit(&arena->account->has_moved, memory_order_relaxed))
        return TNR_OK;
    tnri_arena_enter(arena);
    tnri_trough_watch(arena);
    tnr_status status =
        tnri_trough_keeps(arena) ? tnri_cached_window_make(plan, arena, request) : TNR_ERR_NOT_LIVE;
    tnri_arena_leave(arena);
    return status == TNR_OK ? tnri_execute(plan, reclaimed, ptr) : TNR_OK;
}

/* Places memory for a request: a plan, and a loan or the plan's execution. */
static tnr_status ladder_place(tnri_arena *arena, const tnri_request *request, ladder_means means,
                               int reclaimed, void **ptr)
{
    tnri_access *access = &arena->pool->account.access;
    tnri_plan plan = {.was_refused = means.was_refused};
    tnri_handling_enter(&arena->device->handling);
    int has_turn = tnri_turn_begin(arena->account); /* who has it is inside, and always leaves */
    unsigned epoch = tnri_placing_begin(access);
    tnr_status status = ladder_cached(&plan, arena, request, reclaimed, ptr);
    if (status == TNR_OK && *ptr == NULL && arena->growable.base != 0) {
        tnri_arena_enter(arena);
        status = tnri_plan_make_growth(&plan, arena, request, means.moves);
        tnri_arena_leave(arena);
    } else if (status == TNR_OK && *ptr == NULL) {
        status = ladder_plan(&plan, arena, request, means.moves, reclaimed, ptr);
    }
    if (status == TNR_OK && *ptr == NULL)
        status = ladder_lend_or_execute(&plan, reclaimed, ptr);
    tnri_placing_end(access, epoch);
    tnri_turn_end(arena->account, has_turn);
    tnri_plan_free(&plan);
    tnri_handling_leave(&arena->device->handling);
    return status;
}

/* Serves by flushing alone, which needs no driver. Returns 1 if that was enough. */
static int ladder_serve_flushed(tnri_arena *arena, const tnri_request *request, void **ptr)
{
    tnri_arena_enter(arena);
    tnri_block *block = ladder_flush(arena, request);
    if (block != NULL) {
        tnri_arena_count_served(arena, block, request, TNR_SERVED_FLUSH);
        *ptr = (void *)block->base;
    }
    tnri_arena_leave(arena);
    return block != NULL;
}

/* The same, and else by a segment of its owner's. */
static tnr_status ladder_segment(tnri_arena *arena, const tnri_request *request, int reclaimed,
                                 void **ptr)
{
    int has_turn = tnri_turn_begin(arena->account);
    tnr_status status = ladder_serve_flushed(arena, request, ptr)
                            ? TNR_OK
                            : tnri_segment_serve(arena, request, reclaimed, ptr);
    tnri_turn_end(arena->account, has_turn);
    return status;
}

/* One climb: flush, plan, execute. TNR_ERR_OUT_OF_MEMORY and TNR_ERR_LIMIT mean that reclaiming
 * might help. */
static tnr_status ladder_climb(tnri_arena *arena, const tnri_request *request, ladder_means means,
                               int reclaimed, void **ptr)
{
    const tnri_conf *conf = tnri_conf_get();
    size_t released = 0;
    tnri_chunk_lacks = TNR_OOM_DEVICE; /* until a limit refuses a chunk */
    tnr_status status = tnri_chunk_check(&arena->pool->account, request_least(arena, request));
    if (status != TNR_OK)
        return status;
    /* Old mappings go when they can; what the driver says about one of them is no reason to refuse
     * this request. */
    if (atomic_load_explicit(&arena->account->has_moved, memory_order_relaxed))
        (void)tnri_stale_expire(arena, tnri_trough_keeps(arena) ? (size_t)conf->aliases_max : 0);
    (void)tnri_stale_drain(arena, 0, 0, &released);
    (void)tnri_stale_drain(arena, (size_t)conf->stale_mappings_max, 1, &released);
    if (released > 0)
        (void)tnri_drain_pool(arena->pool, 0, &released);
    *ptr = NULL;
    if (arena->growable.base == 0 && !arena->is_guard &&
        ladder_retired(arena, request, reclaimed, ptr))
        return TNR_OK;
    if (tnri_account_is_foreign(arena->account))
        return ladder_segment(arena, request, reclaimed, ptr);
    return ladder_place(arena, request, means, reclaimed, ptr);
}

/* What other threads had in hand since the request began (`others` had left then) may be all
 * that it lacks. What they have put down is given back, which may wait for work, and then this
 * thread climbs with the device to itself. Twice, since what it waited for may have been put down
 * as an old mapping whose work was not over; and again as often as others were at it meanwhile, a
 * few times. */
static tnr_status ladder_climb_alone(tnri_arena *arena, const tnri_request *request,
                                     ladder_means most, uint32_t others, tnr_status status,
                                     void **ptr)
{
    tnri_handling *handling = &arena->device->handling;
    if (tnri_account_is_foreign(arena->account))
        return status;
    for (int i = 0; i < 2 * TNRI_RECLAIMS && tnri_is_shortage(status); i++) {
        if (i % 2 == 0 && !tnri_handling_was_met(handling, others))
            break;
        others = i % 2 == 0 ? tnri_handling_others(handling) : others;
        (void)tnri_reclaim(arena, request->bytes, 1);
        tnri_handling_alone_begin(handling);
        status = ladder_climb(arena, request, most, 1, ptr);
        tnri_handling_alone_end(handling);
    }
    return status;
}

/* Then other processes of the device's group give up what is idle there, as long as that helps. At
 * a limit of this process they cannot help, but what it is giving to them may have gone by then. */
static tnr_status ladder_ask_group(tnri_arena *arena, const tnri_request *request,
                                   ladder_means most, tnr_status status, void **ptr)
{
    size_t wanted = request->bytes + 2 * tnri_page_bytes(tnri_arena_space(arena));
    tnri_asking asking = {0};
    while (tnri_is_shortage(status) && !tnri_account_is_foreign(arena->account) &&
           tnri_chunk_check(arena->account, request_least(arena, request)) == TNR_OK &&
           tnri_group_ask(arena->device, status == TNR_ERR_LIMIT ? 0 : wanted, &asking))
        status = ladder_climb(arena, request, most, 1, ptr);
    return status;
}

/* The end of step 8: asks the user's callback, and climbs again as often as it has freed something.
 * Not for what could not be had if everything were given back. TNR_ERR_ASLEEP: the callback has put
 * the pool to sleep, and the caller's work there has ended. */
static tnr_status ladder_ask(tnri_arena *arena, const tnri_request *request, ladder_means most,
                             tnr_status status, void **ptr)
{
    for (int i = 0; tnri_is_shortage(status) && !arena->account->is_contents && i < TNRI_CALLBACKS;
         i++) {
        if (tnri_chunk_check(&arena->pool->account, request_least(arena, request)) != TNR_OK)
            break;
        tnri_pool_work_end(arena->pool);
        int is_freed = tnri_oom_callback_run(arena, request);
        if (!tnri_pool_work_begin(arena->pool))
            return tnri_asleep_error(arena->pool);
        if (!is_freed)
            break;
        (void)tnri_reclaim(arena, request->bytes, 1);
        status = ladder_climb(arena, request, most, 1, ptr);
    }
    return status;
}

/* The steps that need the driver. */
static tnr_status ladder_ascend(tnri_arena *arena, const tnri_request *request, void **ptr)
{
    tnri_device *device = arena->device;
    tnri_visit visit;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    if (!tnri_pool_work_begin(arena->pool)) {
        tnri_device_leave(&visit);
        return tnri_asleep_error(arena->pool);
    }
    uint32_t others = tnri_handling_others(&device->handling);
    (void)tnri_streams_reap(device, TNRI_STREAM_REAP_LOOKS);
    tnri_reclaim_above_threshold(arena->pool, request->bytes);
    tnri_use use = tnri_price_look(arena, request);
    ladder_means means = ladder_moves(arena, request, &use);
    status = ladder_climb(arena, request, means, 0, ptr);
    ladder_means most = {ladder_moves_max(arena), tnri_chunk_was_refused(status)};
    if (tnri_is_shortage(status))
        atomic_store_explicit(&arena->account->is_full, 1, memory_order_relaxed);
    if (tnri_is_shortage(status) &&
        means.moves != most.moves) /* what cannot grow moves at any price */
        status = ladder_climb(arena, request, most, 0, ptr);
    if (tnri_is_shortage(status)) {
        atomic_fetch_add_explicit(&device->retries_count, 1, memory_order_relaxed);
        /* The first time may have ended retired blocks that this stream cannot use as they are;
         * they are idle memory for the next. */
        for (int i = 0; tnri_is_shortage(status) && i < TNRI_RECLAIMS; i++) {
            if (tnri_reclaim(arena, request->bytes, i > 0) == 0)
                break;
            status = ladder_climb(arena, request, most, 1, ptr);
        }
        status = ladder_climb_alone(arena, request, most, others, status, ptr);
        status = ladder_ask_group(arena, request, most, status, ptr);
        status = ladder_ask(arena, request, most, status, ptr);
        if (status == TNR_ERR_ASLEEP) {
            tnri_device_leave(&visit);
            return status;
        }
        if (tnri_is_shortage(status) && !arena->account->is_contents) {
            atomic_fetch_add_explicit(&device->ooms_count, 1, memory_order_relaxed);
            status = tnri_oom_report(arena, request, status);
        }
    }
    tnri_reclaim_idle(arena->pool);
    (void)tnri_reclaim_above_groups(device, TNRI_CGROUP_APART_NS);
    tnri_pool_work_end(arena->pool);
    tnri_device_leave(&visit);
    return status;
}

/* Gives a lane that waits where it borrows memory of its own: a run of another lane, or else a new
 * chunk if that is next to nothing. Serves the request with it; returns 0 if nothing came of it,
 * which costs the request nothing. */
static int ladder_enrich(tnri_arena *arena, const tnri_request *request, int may_grow, void **ptr)
{
    tnri_plan plan = {0};
    tnri_visit visit;
    *ptr = NULL;
    if (tnri_account_is_foreign(arena->account) || !tnri_pool_work_begin(arena->pool))
        return 0;
    tnri_handling_enter(&arena->device->handling);
    unsigned epoch = tnri_placing_begin(&arena->pool->account.access);
    tnr_status status = tnri_lend_lanes(arena, request, ptr);
    if (status == TNR_OK && *ptr == NULL && may_grow && !tnri_capturing() &&
        tnri_chunk_check(&arena->pool->account, request->bytes) == TNR_OK &&
        tnri_device_enter(arena->device, &visit) == TNR_OK) {
        status = ladder_plan(&plan, arena, request, TNRI_MOVES_NONE, 0, ptr);
        if (status == TNR_OK && *ptr == NULL)
            status = tnri_execute(&plan, 0, ptr);
        tnri_plan_free(&plan);
        tnri_device_leave(&visit);
    }
    tnri_placing_end(&arena->pool->account.access, epoch);
    tnri_handling_leave(&arena->device->handling);
    tnri_pool_work_end(arena->pool);
    return *ptr != NULL;
}

/* Serves from other lanes of the arena's stream: see memory/pool/lane.h. */
static int ladder_serve_lanes(tnri_arena *arena, const tnri_request *request, void **ptr)
{
    int may_grow;
    if (tnri_lane_is_starved(arena, request, &may_grow) &&
        ladder_enrich(arena, request, may_grow, ptr))
        return 1;
    return tnri_lane_borrow(arena, request, TNR_SERVED_BIN, ptr) ||
           tnri_lane_borrow(arena, request, TNR_SERVED_FLUSH, ptr);
}

/* Pages that the arena's best place for the request lacks: all of them if it has none, or is no
 * arena of the stream any more. */
static size_t pages_lacking(tnri_arena *arena, const tnri_stream *stream,
                            const tnri_request *request)
{
    tnri_window window = {0};
    tnri_arena_enter(arena);
    int has_place =
        atomic_load(&arena->stream) == stream && !atomic_load(&stream->is_dead) &&
        tnri_window_find(tnri_arena_world(arena, request->bytes), request->bytes,
                         request->alignment, tnri_run_bytes_max(arena, request->bytes), &window);
    tnri_arena_leave(arena);
    if (has_place)
        return window.pages_missing;
    const tnri_space *space = tnri_arena_space(arena);
    return (request->bytes + tnri_page_bytes(space) - 1) >> space->page_shift;
}

/* The lane that serves the request with the fewest pages, whether they move or are new. */
static tnri_arena *ladder_lane(tnri_arena *arena, const tnri_request *request)
{
    tnri_arena *lanes[TNRI_LANES_MAX];
    tnri_arena *best = arena;
    const tnri_stream *stream = atomic_load(&arena->stream);
    size_t fewest = pages_lacking(arena, stream, request);
    for (size_t i = tnri_lane_others(arena, lanes); i-- > 0 && fewest > 1;) {
        size_t lacking = pages_lacking(lanes[i], stream, request);
        if (lacking < fewest) {
            fewest = lacking;
            best = lanes[i];
        }
    }
    return best;
}

tnr_status tnri_ladder_malloc(tnri_arena *arena, const tnri_request *request, void **ptr)
{
    TNRI_CALM;
    if (ladder_serve_flushed(arena, request, ptr))
        return TNR_OK;
    if (tnri_unlikely(tnri_lane_has_others(arena))) {
        if (ladder_serve_lanes(arena, request, ptr))
            return TNR_OK;
        arena = ladder_lane(arena, request);
    }
    return ladder_ascend(arena, request, ptr);
}

tnr_status tnri_ladder_grow(tnri_arena *arena, const tnri_request *request)
{
    void *ptr;
    return ladder_ascend(arena, request, &ptr);
}

tnr_status tnri_ladder_guard(tnri_arena *arena, const tnri_request *request, void **ptr)
{
    tnri_visit visit;
    *ptr = NULL;
    tnr_status status = tnri_device_enter(arena->device, &visit);
    if (status != TNR_OK)
        return status;
    if (tnri_pool_work_begin(arena->pool)) {
        status = ladder_climb(arena, request, (ladder_means){TNRI_MOVES_NONE, 0}, 0, ptr);
        tnri_pool_work_end(arena->pool);
    } else {
        status = tnri_asleep_error(arena->pool);
    }
    tnri_device_leave(&visit);
    return status;
}
