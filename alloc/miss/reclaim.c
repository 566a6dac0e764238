/* SPDX-License-Identifier: Apache-2.0 */
/* Giving idle memory back: see reclaim.h. */
#include "miss/reclaim.h"

#include "base/conf/conf.h"
#include "memory/device/cgroup.h"
#include "memory/device/chunk.h"
#include "memory/device/host.h"
#include "memory/device/tag.h"
#include "memory/device/upper.h"
#include "memory/pool/asleep.h"
#include "miss/give_back.h"
#include "miss/park_release.h"
#include "miss/stale.h"

tnr_status tnri_drain_pool(tnr_pool pool, int wait, size_t *released)
{
    tnr_status first_error = TNR_OK;
    if (!tnri_pool_work_begin(pool))
        return TNR_OK; /* what sleeps has no old mappings */
    for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
        tnr_status status = tnri_stale_drain(arena, 0, wait, released);
        if (first_error == TNR_OK)
            first_error = status;
    }
    tnri_pool_work_end(pool);
    return first_error;
}

/* A chunk that went back while an old mapping of it had to stay is off the books, and its memory
 * comes back with that mapping, which nobody counts. So the device is asked: what it has left, */
static size_t device_left(const tnri_device *device)
{
    size_t left = 0;
    size_t total = 0;
    if (tnri_device_in_host(device)) /* of which others take and give all the time */
        return 0;
    return tnri_gpu_memory_left(&left, &total) == CUDA_SUCCESS ? left : 0;
}

/* and what it has more now. */
static size_t device_gained(const tnri_device *device, size_t left_before)
{
    size_t left = device_left(device);
    return left > left_before ? left - left_before : 0;
}

tnr_status tnri_drain_idle(tnri_device *device, tnr_pool pool, size_t *released)
{
    tnr_status first_error = TNR_OK;
    size_t left_before = device_left(device);
    if (pool != NULL) {
        first_error = tnri_drain_pool(pool, 1, released);
    } else {
        while ((pool = tnri_pool_walk(device, pool)) != NULL) {
            tnr_status status = TNR_OK;
            if (!tnri_account_is_kept(&pool->account))
                status = tnri_drain_pool(pool, 1, released);
            if (first_error == TNR_OK)
                first_error = status;
        }
    }
    if (*released == 0)
        *released = device_gained(device, left_before);
    return first_error;
}

/* Queues up to `bytes` of a pool's idle memory to be given back, then removes the mappings that
 * may be removed. Returns the bytes given back. */
static size_t pool_release(tnr_pool pool, size_t bytes, int wait, tnr_status *first_error)
{
    size_t released = 0;
    size_t promised = 0; /* queued here, given back now or later */
    tnri_arena *arena = NULL;
    if ((pool->account.is_graph && atomic_load(&pool->keepers) > 0) || !tnri_pool_work_begin(pool))
        return 0;
    tnri_turnover_goes(&pool->account.turnover, atomic_load(&pool->account.reserved_bytes));
    while (released < bytes && promised < bytes && (arena = tnri_arena_walk(pool, arena)) != NULL) {
        size_t queued;
        tnr_status status = tnri_stale_release(arena, bytes - promised, &queued);
        promised += queued;
        if (status == TNR_OK)
            status = tnri_stale_drain(arena, 0, wait, &released);
        if (status != TNR_OK && *first_error == TNR_OK)
            *first_error = status;
    }
    if (released > 0) {
        tnr_status status = tnri_drain_pool(pool, 0, &released);
        if (*first_error == TNR_OK)
            *first_error = status;
    }
    tnri_pool_work_end(pool);
    return released;
}

size_t tnri_release_idle(tnri_device *device, tnr_pool pool, size_t bytes, int wait,
                         tnr_status *status)
{
    tnr_status first_error = TNR_OK;
    size_t released = 0;
    /* What the driver refused before is off the books, so it does not count towards `bytes`; but it
     * may be what is needed. */
    size_t refused = 0;
    (void)tnri_chunks_release_refused(device, &refused);
    if (pool != NULL) {
        released = pool_release(pool, bytes, wait, &first_error);
    } else {
        while ((pool = tnri_pool_walk(device, pool)) != NULL)
            if (released < bytes && !tnri_account_is_kept(&pool->account))
                released += pool_release(pool, bytes - released, wait, &first_error);
    }
    if (status != NULL)
        *status = first_error;
    return released + refused;
}

/* Gives what parked blocks of a pool have back to the driver. */
static size_t pool_release_parked(tnr_pool pool, size_t bytes, tnr_status *first_error)
{
    size_t released = 0;
    tnri_arena *arena = NULL;
    if (atomic_load(&pool->account.parked) == 0 || tnri_account_is_kept(&pool->account) ||
        !tnri_pool_work_begin(pool))
        return 0;
    while (released < bytes && (arena = tnri_arena_walk(pool, arena)) != NULL) {
        tnr_status status = tnri_parked_release(arena, bytes - released, &released);
        if (status != TNR_OK && *first_error == TNR_OK)
            *first_error = status;
    }
    tnri_pool_work_end(pool);
    return released;
}

size_t tnri_release_parked(tnri_device *device, tnr_pool pool, size_t bytes, tnr_status *status)
{
    tnr_status first_error = TNR_OK;
    size_t released = 0;
    if (pool != NULL) {
        released = pool_release_parked(pool, bytes, &first_error);
    } else {
        while ((pool = tnri_pool_walk(device, pool)) != NULL) /* to the end: it holds one */
            if (released < bytes)
                released += pool_release_parked(pool, bytes - released, &first_error);
    }
    if (status != NULL && *status == TNR_OK)
        *status = first_error;
    return released;
}

size_t tnri_collect_pool(tnr_pool pool, size_t bytes, tnri_collect how)
{
    size_t freed = 0;
    tnri_arena *arena = NULL;
    while (tnri_upper_collects() && freed < bytes && (arena = tnri_arena_walk(pool, arena)) != NULL)
        freed += tnri_upper_collect(arena, bytes - freed, how);
    return freed;
}

/* The same for all pools of a device. */
static size_t collect_device(tnri_device *device, size_t bytes, tnri_collect how)
{
    size_t freed = 0;
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;)
        if (freed < bytes)
            freed += tnri_collect_pool(pool, bytes - freed, how);
    return freed;
}

void tnri_collect_all(tnri_device *device)
{
    (void)tnri_streams_reap(device, SIZE_MAX);
    (void)collect_device(device, SIZE_MAX, TNRI_COLLECT_WAIT);
}

void tnri_dissolve_all(tnri_device *device)
{
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
        if (tnri_pool_work_begin(pool)) {
            (void)tnri_give_back(pool);
            tnri_pool_work_end(pool);
        }
        for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;)
            tnri_arena_dissolve(arena);
    }
}

void tnri_reclaim_addresses(tnri_device *device)
{
    tnri_visit visit;
    size_t released = 0;
    if (tnri_device_enter(device, &visit) == TNR_OK) {
        for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;)
            (void)tnri_drain_pool(pool, 1, &released);
        tnri_device_leave(&visit);
    }
    tnri_dissolve_all(device);
}

/* What is mapped above a limit, which may have been lowered since: all of it must go before
 * anything more can be mapped. */
static size_t limit_excess(uint64_t limit, const _Atomic uint64_t *reserved)
{
    uint64_t now = atomic_load_explicit(reserved, memory_order_relaxed);
    return now > limit ? (size_t)(now - limit) : 0;
}

static size_t tag_limit_excess(const tnri_account *account)
{
    if (account->tag == NULL)
        return 0;
    const tnri_tag_sum *sum = &account->tag->on[account->device->index];
    return limit_excess(atomic_load(&sum->limit_bytes), &sum->reserved_bytes);
}

/* Gives idle memory of other pools with the tag of a pool back, or what their parked blocks have:
 * what others have is of no use where the tag's limit is reached. */
static size_t tag_release(tnr_pool pool, size_t bytes, int is_parked)
{
    size_t released = 0;
    tnri_device *device = pool->device;
    if (pool->account.tag == NULL)
        return 0;
    for (tnr_pool other = NULL; (other = tnri_pool_walk(device, other)) != NULL;)
        if (other != pool && other->account.tag == pool->account.tag && released < bytes &&
            !tnri_account_is_kept(&other->account))
            released += is_parked ? tnri_release_parked(device, other, bytes - released, NULL)
                                  : tnri_release_idle(device, other, bytes - released, 1, NULL);
    return released;
}

/* Gives back what parked blocks have: the pool's own, those of its tag, and all others, in this
 * order. */
static size_t parked_release(tnr_pool pool, size_t bytes)
{
    size_t released = tnri_release_parked(pool->device, pool, bytes, NULL);
    if (released < bytes)
        released += tag_release(pool, bytes - released, 1);
    if (released < bytes)
        released += tnri_release_parked(pool->device, NULL, bytes - released, NULL);
    return released;
}

/* What waiting and giving back has made free, counted by who gave it. */
static size_t reclaim_counted(tnri_arena *arena, size_t bytes, int thorough)
{
    tnri_device *device = arena->device;
    size_t let_go = 0;
    /* Graphs may have ended that nobody has looked for. Not for contents: what sleeps may end with
     * them, and the caller works on that; and it waits for no lock of the graphs, since the thread
     * that has it may wait for the caller. */
    if (!arena->account->is_contents)
        let_go = tnri_uppers_settle(device, 1);
    (void)tnri_streams_reap(device, SIZE_MAX); /* nor for threads */
    /* What the last chunk of the request misses may be as large as a page on either side. */
    size_t excess = limit_excess(tnri_device_most(device), &device->reserved_bytes);
    size_t pool_excess = limit_excess(atomic_load(&arena->pool->account.limit_bytes),
                                      &arena->pool->account.reserved_bytes);
    size_t lack = tnri_chunk_headroom_lack(device, bytes);
    excess = excess > pool_excess ? excess : pool_excess;
    size_t tag_excess = tag_limit_excess(&arena->pool->account);
    excess = excess > tag_excess ? excess : tag_excess;
    size_t wanted = bytes + 2 * tnri_page_bytes(&device->space) + (excess > lack ? excess : lack);
    /* Retired blocks first, of this pool, then of the device: only as many are waited for as the
     * request needs, and the caller looks again. */
    size_t collected = let_go + tnri_collect_pool(arena->pool, wanted, TNRI_COLLECT_WAIT);
    if (collected > 0 && !thorough)
        return collected; /* giving idle memory back waits for more than that */
    /* What other pools collect must be given back before it is of use here. */
    collected += collect_device(device, wanted, TNRI_COLLECT_WAIT);
    size_t released = 0;
    const tnri_account *account = &arena->pool->account;
    /* Who asks the owner of segments for a new one offers him his idle ones, unless somebody else
     * knows them by their addresses. */
    if (!tnri_account_is_kept(account) || (tnri_account_is_foreign(account) &&
                                           !tnri_account_is_known(account) && !account->is_vouched))
        released = tnri_release_idle(device, arena->pool, wanted, 1, NULL);
    if (released < wanted)
        released += tag_release(arena->pool, wanted - released, 0);
    if (released < wanted)
        released += tnri_release_idle(device, NULL, wanted - released, 1, NULL);
    if (released < wanted)
        released += parked_release(arena->pool, wanted - released);
    return collected + released;
}

size_t tnri_reclaim(tnri_arena *arena, size_t bytes, int thorough)
{
    if (tnri_chunk_check(&arena->pool->account, bytes) != TNR_OK)
        return 0;
    size_t left_before = device_left(arena->device);
    size_t reclaimed = reclaim_counted(arena, bytes, thorough);
    return reclaimed > 0 ? reclaimed : device_gained(arena->device, left_before);
}

/* Removes old mappings in all pools of a device. Returns what went back; in *held what is on its
 * way yet. */
static size_t device_drain(tnri_device *device, int wait, size_t *held)
{
    size_t released = 0;
    *held = 0;
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(device, pool)) != NULL;) {
        (void)tnri_drain_pool(pool, wait, &released);
        for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
            tnri_arena_enter(arena);
            *held += tnri_stale_held_bytes(arena);
            tnri_arena_leave(arena);
        }
    }
    return released;
}

/* One pass: what is on its way goes first, and counts. */
static size_t give_pass(tnri_device *device, size_t bytes, size_t floor, int wait, size_t *held)
{
    size_t released = device_drain(device, wait, held);
    uint64_t mapped = atomic_load_explicit(&device->reserved_bytes, memory_order_relaxed);
    size_t kept = floor + *held, promised = released + *held;
    size_t spare = mapped > kept ? (size_t)mapped - kept : 0;
    size_t more = bytes > promised ? bytes - promised : 0;
    if (spare == 0 || more == 0)
        return released;
    (void)collect_device(device, more, wait ? TNRI_COLLECT_WAIT : TNRI_COLLECT_OVER);
    size_t most = more < spare ? more : spare;
    size_t idle = tnri_release_idle(device, NULL, most, wait, NULL);
    if (wait && idle < most)
        idle += tnri_release_parked(device, NULL, most - idle, NULL);
    released += idle;
    released += device_drain(device, 0, held);
    return released;
}

size_t tnri_reclaim_for_others(tnri_device *device, size_t bytes, size_t floor, int wait,
                               size_t *held)
{
    tnri_visit visit;
    *held = 0;
    if (tnri_device_enter(device, &visit) != TNR_OK)
        return 0;
    (void)tnri_streams_reap(device, SIZE_MAX);
    size_t released = 0;
    (void)tnri_chunks_release_refused(device, &released); /* which are off the books */
    released += give_pass(device, bytes, floor, 0, held);
    if (wait && released < bytes)
        released += give_pass(device, bytes - released, floor, 1, held);
    tnri_device_leave(&visit);
    return released;
}

int tnri_reclaim_above_groups(tnri_device *device, uint64_t apart_ns)
{
    size_t held = 0, over = 0, released = 0;
    if (!tnri_cgroup_over(device, apart_ns, &over)) /* what was found then, by whichever thread */
        return atomic_load_explicit(&device->cgroup_is_coming, memory_order_relaxed);
    if (over > 0) {
        (void)tnri_uppers_settle(device, 0); /* graphs may have ended that nobody has looked for */
        released = tnri_reclaim_for_others(device, over, 0, 0, &held);
        atomic_fetch_add_explicit(&device->cgroup_given_bytes, released, memory_order_relaxed);
    }
    /* A host under pressure wants all there is, which is never enough. */
    int is_little = over != SIZE_MAX && released > 0 && released < over;
    int is_coming = held > 0 || is_little;
    atomic_store_explicit(&device->cgroup_is_coming, is_coming, memory_order_relaxed);
    return is_coming;
}

void tnri_reclaim_above_threshold(tnr_pool pool, size_t bytes)
{
    tnri_device *device = pool->device;
    double threshold = tnri_conf_get()->garbage_collection_threshold;
    if (threshold <= 0 || tnri_chunk_check(&pool->account, bytes) != TNR_OK)
        return;
    uint64_t limit = tnri_device_most(device);
    uint64_t memory = device->capabilities.memory_bytes;
    uint64_t mark = (uint64_t)(threshold * (double)(limit < memory ? limit : memory));
    uint64_t now = atomic_load_explicit(&device->reserved_bytes, memory_order_relaxed);
    if (now + bytes > mark)
        (void)tnri_release_idle(device, NULL, (size_t)(now + bytes - mark), 0, NULL);
}

/* Free memory of a pool, in blocks of any size. */
static size_t pool_idle_bytes(tnr_pool pool)
{
    size_t idle = 0;
    tnri_arena *arena = NULL;
    while ((arena = tnri_arena_walk(pool, arena)) != NULL) {
        tnri_arena_enter(arena);
        for (int i = 0; i < TNRI_WORLDS; i++)
            idle += arena->worlds[i].bytes_in[TNRI_FREE] + arena->worlds[i].bytes_in[TNRI_BINNED];
        tnri_arena_leave(arena);
    }
    return idle;
}

void tnri_reclaim_idle(tnr_pool pool)
{
    uint64_t threshold = atomic_load_explicit(&pool->release_threshold_bytes, memory_order_relaxed);
    if (tnri_account_is_kept(&pool->account))
        return;
    if (threshold == UINT64_MAX) {
        uint64_t mb = tnri_conf_get()->release_threshold_mb;
        if (mb >= 1048576) /* the default: keep all, without counting */
            return;
        threshold = mb << 20;
    }
    size_t idle = pool_idle_bytes(pool);
    if (idle > threshold)
        (void)tnri_release_idle(pool->device, pool, (size_t)(idle - threshold), 0, NULL);
}
