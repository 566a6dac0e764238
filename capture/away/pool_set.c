/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of pools, and what comes first for all that is done to a pool as a whole: see pool_set.h. */
#include "away/pool_set.h"

#include "api/library.h"
#include "away/register.h"
#include "away/sleep_callback.h"
#include "away/staging.h"
#include "base/array.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "gpu/capturing.h"
#include "memory/pool/asleep.h"
#include "memory/pool/family.h"
#include "memory/pool/peers.h"
#include "miss/park.h"
#include "miss/reclaim.h"
#include "miss/stale.h"

/* Holds a pool and adds it, if it is not there. A pool that is just ending is left out. */
static tnr_status set_add(tnri_pool_set *set, tnr_pool pool)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->pools[i] == pool)
            return TNR_OK;
    if (!TNRI_ARRAY_GROW(set->pools, set->room, set->count + 1))
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a list of pools.");
    if (tnri_pool_hold(pool))
        set->pools[set->count++] = pool;
    return TNR_OK;
}

void tnri_pool_set_free(tnri_pool_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        tnri_pool_drop(set->pools[i]);
    tnri_host_free(set->pools, set->room * sizeof(set->pools[0]));
}

/* 1 while the thread has a device's turn. A callback that wanted another one, of any device, might
 * wait for a thread whose callback waits for this one. */
static _Thread_local int is_in_turn;

/* Refuses a pool that is none (null is one), before anything waits or starts for it. It may have
 * ended when the turn has come: a thread that waits for its turn holds no pool. */
static tnr_status handle_check(tnr_pool handle, int device)
{
    tnr_pool pool;
    if (handle == NULL)
        return TNR_OK;
    tnr_status status = tnri_library_pool_named(handle, device, &pool);
    if (status == TNR_OK)
        tnri_pool_drop(pool);
    return status;
}

tnr_status tnri_pool_set_check(const tnri_device *device)
{
    if (tnri_likely(!tnri_device_is_host(device)))
        return TNR_OK;
    return tnri_error(TNR_ERR_INVALID_DEVICE,
                      "device %d is host memory, which neither sleeps nor moves away: the host may "
                      "use it at any time. Give what is idle back with tnr_trim.",
                      device->index);
}

tnr_status tnri_pool_set_turn_begin(int device_index, tnr_pool handle, tnri_device **device)
{
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (is_in_turn)
        return tnri_error(TNR_ERR_BUSY, "this is a callback of a sleep or wake, which goes on when "
                                        "the callback returns. Sleep or wake after it.");
    tnr_status status = handle_check(handle, device_index);
    if (status == TNR_OK)
        status = tnri_library_device(device_index, device);
    if (status == TNR_OK)
        status = tnri_pool_set_check(*device);
    if (status != TNR_OK)
        return status;
    tnri_staging_turn_begin(*device);
    is_in_turn = 1;
    return TNR_OK;
}

void tnri_pool_set_turn_end(tnri_device *device)
{
    is_in_turn = 0;
    tnri_staging_turn_end(device);
}

/* Adds the pool that a handle names. */
static tnr_status set_add_named(tnri_pool_set *set, tnr_pool handle)
{
    tnr_pool pool;
    tnr_status status = tnri_library_pool_named(handle, set->device->index, &pool);
    if (status != TNR_OK)
        return status;
    status = set_add(set, pool);
    tnri_pool_drop(pool);
    return status;
}

/* Adds all pools of the device that can sleep, or of those the ones with a tag. */
static tnr_status set_add_all(tnri_pool_set *set, const tnri_tag *tag)
{
    tnr_status status = TNR_OK;
    for (tnr_pool each = NULL;
         status == TNR_OK && (each = tnri_pool_walk(set->device, each)) != NULL;) {
        if (!tnri_account_is_foreign(&each->account) && (tag == NULL || each->account.tag == tag))
            status = set_add(set, each);
        if (status != TNR_OK)
            tnri_pool_drop(each);
    }
    return status;
}

tnr_status tnri_pool_set_make(tnri_pool_set *set, tnri_device *device, const tnri_wanted *wanted)
{
    tnr_status status = TNR_OK;
    *set = (tnri_pool_set){.device = device, .is_all = wanted->kind == TNRI_WANTED_ALL};
    if (wanted->kind == TNRI_WANTED_POOL)
        status = set_add_named(set, wanted->pool);
    else if (wanted->kind == TNRI_WANTED_ALL)
        status = set_add_all(set, NULL);
    for (size_t i = 0; i < wanted->tags_count && status == TNR_OK; i++)
        status = set_add_all(set, wanted->tags[i]);
    if (status != TNR_OK)
        tnri_pool_set_free(set);
    return status;
}

void tnri_pool_set_state(tnr_pool pool, tnri_sleep_state to)
{
    int from = atomic_load(&pool->asleep.state);
    tnri_assert(tnri_staging_is_my_turn(pool->device));
    tnri_assert((int)to == (from + 1) % 4 || (from % 2 == 1 && (int)to == from - 1));
    tnri_assert(to != TNRI_AWAKE || atomic_load(&pool->account.asleep_bytes) == 0);
    atomic_store(&pool->asleep.state, to);
}

void tnri_pool_set_select(tnri_pool_set *set, tnri_sleep_state from, tnri_sleep_state to)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        tnr_pool pool = set->pools[i];
        if (atomic_load(&pool->asleep.state) == (int)from) {
            tnri_pool_set_state(pool, to);
            set->pools[kept++] = pool;
        } else {
            tnri_pool_drop(pool);
        }
    }
    set->count = kept;
}

void tnri_pool_set_notify(const tnri_pool_set *set, tnr_sleep_event event, tnri_sleep_state state)
{
    for (size_t i = 0; i < set->count; i++)
        if (atomic_load(&set->pools[i]->asleep.state) == (int)state)
            tnri_sleep_notify(event, set->pools[i]);
}

/* From here on nobody finds an arena of the set's pools, which are not awake any more; returns when
 * nobody works on them. Nothing is claimed. */
static void set_quiet(const tnri_pool_set *set)
{
    tnri_generation_advance();
    /* Before the claim, which a worker may wait for: it may end a graph's pool that has slept. */
    for (size_t i = 0; i < set->count; i++)
        tnri_pool_work_wait(set->pools[i]);
}

tnr_status tnri_pool_set_do(tnri_pool_set *set, tnri_pool_set_work work, void *with)
{
    tnri_visit visit;
    tnri_pool_set_notify(set, TNR_SLEEP_GOING, TNRI_AWAKE);
    tnri_pool_set_select(set, TNRI_AWAKE, TNRI_FALLING_ASLEEP);
    set_quiet(set);
    tnri_away_register();
    tnri_staging_claim(set->device);
    tnr_status status = tnri_device_enter(set->device, &visit);
    if (status == TNR_OK) {
        status = work(set, with);
        tnri_device_leave(&visit);
    } else {
        for (size_t i = 0; i < set->count; i++)
            tnri_pool_set_state(set->pools[i], TNRI_AWAKE);
    }
    tnri_staging_unclaim(set->device);
    return status;
}

tnr_status tnri_pool_set_drain(const tnri_pool_set *set)
{
    tnri_device *device = set->device;
    if (tnri_capturing())
        return tnri_error(TNR_ERR_BUSY, "a stream capture is under way; it forbids waiting for the "
                                        "device. Do this before or after it.");
    atomic_fetch_add_explicit(&device->syncs_count, 1, memory_order_relaxed);
    CUresult result = tnri_gpu_context_await();
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_CONTEXT_AWAIT, "waiting for the device's work");
    for (size_t i = 0; i < set->count; i++) {
        tnr_status finished =
            tnri_peers_finish(&set->pools[i]->account.access, "waiting for a peer before a sleep");
        if (finished != TNR_OK)
            return finished;
        tnr_status settled = tnri_parked_settle(set->pools[i]);
        if (settled != TNR_OK)
            return settled;
        (void)tnri_collect_pool(set->pools[i], SIZE_MAX, TNRI_COLLECT_WAIT);
        for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(set->pools[i], arena)) != NULL;) {
            size_t released = 0;
            tnr_status status = tnri_stale_drain(arena, 0, 1, &released);
            if (status != TNR_OK)
                return status;
        }
    }
    return TNR_OK;
}
