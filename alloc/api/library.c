/* SPDX-License-Identifier: Apache-2.0 */
/* Start, shutdown, fork, and finding arenas: see library.h. */
#include "api/library.h"

#include "api/single_copy.h"
#include "api/control.h"
#include "api/graph_end.h"
#include "api/pool_end.h"
#include "base/plural.h"
#include "base/prim/alive.h"
#include "base/prim/calm.h"
#include "base/conf/conf.h"
#include "base/conf/environment.h"
#include "base/error.h"
#include "base/prim/thread.h"
#include "base/ticks.h"
#include "log/nvtx.h"
#include "memory/arena/count.h"
#include "memory/arena/find.h"
#include "memory/device/cgroup.h"
#include "memory/device/allocated.h"
#include "memory/device/group.h"
#include "memory/device/segment.h"
#include "memory/device/start.h"
#include "memory/device/upper.h"
#include "memory/pool/family.h"
#include "memory/pool/handle.h"
#include "memory/pool/peers.h"
#include "memory/stream/idle.h"
#include "miss/oom.h"
#include "miss/reclaim.h"
#include "see/snapshot/trigger.h"
#include "see/trap/ending.h"
#include "see/trap/trap.h"

tnri_lock tnri_library_lock = {.rank = TNRI_RANK_LIBRARY};

static _Atomic int library_forked; /* set in a child, and never cleared */
static _Atomic int driver_touched; /* set before the driver is first called, and never cleared */
static tnri_once fork_once = TNRI_ONCE_INIT;

static void library_mark_forked(void)
{
    if (!atomic_load(&driver_touched))
        return; /* the child may start afresh */
    atomic_store(&library_forked, 1);
    tnri_generation_stop();
    tnri_gate_set(0, TNRI_GATE_STOPPED);
    tnri_captures_forget();
}

static void library_watch_forks(void)
{
    tnri_forks_watch(NULL, NULL, library_mark_forked);
}

int tnri_library_is_forked(void)
{
    return atomic_load_explicit(&library_forked, memory_order_relaxed);
}

tnr_status tnri_forked_error(void)
{
    return tnri_error(TNR_ERR_AFTER_FORK,
                      "this process was forked from one that had started Tenure, and CUDA does not "
                      "survive fork. Start workers with exec or spawn, or fork before the first "
                      "GPU call.");
}

/* Does what the settings say, or fails and changes nothing. */
static tnr_status library_follow(const tnri_conf *before, const tnri_conf *after)
{
    tnr_status status = tnri_seeing_follow(before, after);
    if (status != TNR_OK)
        return status;
    status = tnri_control_follow(before, after);
    if (status != TNR_OK) {
        tnri_error_aside aside;
        tnri_error_take(&aside);
        (void)tnri_seeing_follow(after, before); /* it was so before, so it can be again */
        tnri_error_restore(&aside);
    }
    return status;
}

tnr_status tnri_library_configure(const char *text, const char *origin, int running)
{
    tnri_conf *read;
    tnr_status status = tnri_conf_read(&read, text, origin, running);
    if (status != TNR_OK)
        return status;
    status = library_follow(tnri_conf_get(), read); /* last, because it takes effect */
    if (status == TNR_OK)
        tnri_conf_adopt(read);
    else
        tnri_conf_drop(read);
    return status;
}

/* The steps of a start, under the library lock. */
static tnr_status library_start_locked(void)
{
    const char *text = tnri_environment_conf();
    tnri_ticks_start();
    tnri_alive_start();
    tnri_lock_owners_start();
    tnri_streams_listen(tnri_pools_seal);
    tnr_status status = tnri_library_configure(text == NULL ? "" : text, "TENURE_CONF", 0);
    if (status == TNR_OK) {
        atomic_store(&driver_touched, 1); /* a shutdown does not undo cuInit */
        status = tnri_driver_load();
    }
    if (status == TNR_OK)
        status = tnri_devices_find();
    if (status != TNR_OK)
        return status;
    atomic_fetch_add(&tnri_library_epoch, 1);
    tnri_generation_start();
    tnri_gate_set(TNRI_GATE_STOPPED, 0);
    tnri_nvtx_start();
    return TNR_OK;
}

static tnr_status library_start_alone(void)
{
    tnr_status status = tnri_single_copy_claim();
    if (status != TNR_OK)
        return status;
    status = library_start_locked();
    if (status != TNR_OK)
        tnri_single_copy_release();
    return status;
}

tnr_status tnri_library_start(void)
{
    if (tnri_likely(atomic_load_explicit(&tnri_generation, memory_order_acquire) != 0))
        return TNR_OK;
    TNRI_CALM;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_once_run(&fork_once, library_watch_forks);
    tnr_status status = TNR_OK;
    tnri_lock_take(&tnri_library_lock);
    if (atomic_load(&tnri_generation) == 0)
        status = library_start_alone();
    tnri_lock_release(&tnri_library_lock);
    tnri_control_reap(0);
    return status;
}

/* 1 if tools know its range as a heap: they know of allocations themselves. */
static int device_is_heap(const tnri_device *device)
{
    return !device->is_allocated && !tnri_device_is_host(device);
}

/* Puts a device into use, with its default pool. Under the library lock. */
static tnr_status library_start_device(tnri_device *device)
{
    tnr_status status = tnri_device_start(device);
    if (status != TNR_OK)
        return status;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = "default";
    status = tnri_pool_make(device, &options, TNRI_POOL_PLAIN, NULL, &device->pool_default);
    if (status != TNR_OK)
        tnri_device_abandon(device);
    else
        tnri_device_publish(device);
    if (status == TNR_OK && tnri_nvtx_listens() && device_is_heap(device))
        tnri_nvtx_heap(device->range_base, device->range_bytes);
    if (status == TNR_OK && tnri_device_is_watched(device))
        (void)tnri_uppers_device(device, TNRI_DEVICE_IS_LIMITED);
    return status;
}

tnr_status tnri_library_device(int index, tnri_device **found)
{
    tnr_status status = tnri_library_start();
    if (status != TNR_OK)
        return status;
    tnri_device *device = tnri_device_at(index);
    if (device == NULL)
        return tnri_error(TNR_ERR_INVALID_DEVICE, "there is no device %d; the driver reports %d.",
                          index, tnri_devices_count());
    if (tnri_unlikely(!atomic_load_explicit(&device->has_met, memory_order_acquire))) {
        TNRI_CALM;
        if (tnri_device_is_host(device))
            status = tnri_library_device(device->gpu->index, found);
        if (status != TNR_OK)
            return status;
        tnri_lock_take(&tnri_library_lock);
        if (!atomic_load(&device->in_use))
            status = library_start_device(device);
        tnri_lock_release(&tnri_library_lock);
        if (status == TNR_OK)
            status = tnri_peers_meet(device);
        if (status != TNR_OK)
            return status;
        atomic_store_explicit(&device->has_met, 1, memory_order_release);
    }
    *found = device;
    return status;
}

tnr_status tnri_library_find(const void *ptr, tnri_device **device)
{
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (tnri_library_space_of(ptr, device) != NULL)
        return TNR_OK;
    return tnri_error(TNR_ERR_FOREIGN_POINTER, "%p was not allocated by Tenure.", ptr);
}

tnr_status tnri_library_live(const void *ptr, tnri_device **device, tnri_block **block)
{
    tnr_status status = tnri_library_find(ptr, device);
    if (status != TNR_OK)
        return status;
    *block = tnri_live_find(*device, (uintptr_t)ptr);
    if (*block != NULL)
        return TNR_OK;
    return tnri_error(TNR_ERR_NOT_LIVE, "%p lies in no live block of device %d.", ptr,
                      (*device)->index);
}

/* The pool that a family has on a device. */
static tnr_status family_pool(tnr_pool handle, int device_index, tnr_pool *pool)
{
    tnri_device *device;
    tnr_status status = tnri_library_device(device_index, &device);
    if (status != TNR_OK)
        return status;
    *pool = tnri_family_find(device, handle);
    if (*pool != NULL)
        return TNR_OK;
    tnri_lock_take(&tnri_library_lock);
    status = tnri_family_pool(device, handle, pool);
    tnri_lock_release(&tnri_library_lock);
    return status;
}

tnr_status tnri_library_pool_named(tnr_pool handle, int device_index, tnr_pool *pool)
{
    tnri_device *device;
    tnr_status status;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (handle == NULL) {
        status = tnri_library_device(device_index, &device);
        if (status == TNR_OK)
            status = tnri_pool_resolve(device->pool_default->handle, pool);
        return status;
    }
    if (tnri_unlikely(tnri_family_is(handle)))
        return family_pool(handle, device_index, pool);
    status = tnri_pool_resolve(handle, pool);
    if (status != TNR_OK || (*pool)->device->index == device_index)
        return status;
    status = tnri_error(TNR_ERR_INVALID_DEVICE, "pool \"%s\" is on device %d, not on %d.",
                        (*pool)->account.name, (*pool)->device->index, device_index);
    tnri_pool_drop(*pool);
    return status;
}

TNRI_SELDOM tnr_status tnri_library_arena_find(tnri_cached_arena *slot, int device, tnr_pool handle,
                                               tnr_stream stream, tnri_arena **arena)
{
    TNRI_CALM;
    tnr_pool pool;
    tnr_status status = tnri_library_pool_named(handle, device, &pool);
    if (status != TNR_OK)
        return status;
    uint64_t generation = atomic_load_explicit(&tnri_generation, memory_order_acquire);
    status = tnri_pool_arena(pool, stream, arena);
    if (status == TNR_OK && tnri_likely(tnri_conf_get()->lanes_forced == 0)) /* else one in turn */
        *slot = (tnri_cached_arena){*arena, generation, stream, handle, device};
    tnri_pool_drop(pool);
    return status;
}

tnr_status tnri_library_pool(int device, tnr_pool *pool)
{
    tnri_thread *thread = tnri_thread_here();
    tnr_pool handle = thread->routes_count == 0 ? NULL : tnri_thread_route(thread, device);
    return tnri_library_pool_named(handle, device, pool);
}

/* ---- shutdown ------------------------------------------------------------------------------- */

/* Refuses if a block of the device is live. */
static tnr_status device_check_idle(tnri_device *device)
{
    uint64_t live = 0;
    tnr_pool pool = NULL;
    tnr_status status = tnri_graph_end_await_device(device);
    if (status == TNR_OK)
        status = tnri_upper_device(TNRI_ROOM_SHARE, device, TNRI_DEVICE_MAY_END);
    if (status != TNR_OK)
        return status;
    while ((pool = tnri_pool_walk(device, pool)) != NULL)
        for (tnri_arena *arena = NULL; (arena = tnri_arena_walk(pool, arena)) != NULL;) {
            tnri_arena_enter(arena);
            live += pool->account.is_contents ? 0 : tnri_arena_live_count(arena);
            tnri_arena_leave(arena);
        }
    if (live > 0)
        return tnri_error(TNR_ERR_BUSY,
                          "device %d still has %llu live block%s. Free %s, or shut down with "
                          "force.",
                          device->index, (unsigned long long)live, tnri_plural(live),
                          live == 1 ? "it" : "them");
    return TNR_OK;
}

/* The host memory near a GPU, which ends first, because it uses the GPU's streams; of host memory,
 * itself. */
static tnri_device *device_host(const tnri_device *device)
{
    return tnri_device_at(TNR_HOST(device->gpu->index));
}

static tnr_status device_end(tnri_device *device);

/* Ends the host memory near a GPU that is to end. All blocks of the GPU are freed before, since the
 * contents of those that sleep or are parked are there. */
static tnr_status device_end_host(tnri_device *gpu)
{
    tnr_status status = TNR_OK;
    for (tnr_pool pool = NULL; (pool = tnri_pool_walk(gpu, pool)) != NULL;) {
        status = tnri_pool_free_all(pool);
        if (status != TNR_OK) {
            tnri_pool_drop(pool);
            return status;
        }
    }
    status = tnri_uppers_device(gpu, TNRI_DEVICE_ENDS_CONTENTS);
    return status == TNR_OK ? device_end(device_host(gpu)) : status;
}

/* Ends all pools of a device and withdraws it. The default pool is the last of them, so a failure
 * on the way leaves a device that serves. */
static tnr_status device_end_pools(tnri_device *device)
{
    tnri_visit visit;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    status = tnri_uppers_device(device, TNRI_DEVICE_ENDS_HOLDS);
    tnri_trap_device_ending(device);
    if (tnri_nvtx_listens() && device_is_heap(device))
        tnri_nvtx_heap_end(device->range_base);
    if (status == TNR_OK && !tnri_device_is_host(device))
        status = device_end_host(device);
    tnr_pool pool = NULL;
    while (status == TNR_OK && (pool = tnri_pool_walk(device, NULL)) != NULL) {
        status = tnri_pool_end(pool, 1);
        if (status != TNR_OK)
            tnri_pool_drop(pool);
    }
    /* Here, while the context is at hand: entering it once more could fail. */
    if (status == TNR_OK && !tnri_device_is_host(device))
        status = tnri_uppers_device(device, TNRI_DEVICE_ENDS_USES);
    if (status == TNR_OK)
        tnri_streams_forget(device);
    tnri_device_leave(&visit);
    if (status != TNR_OK)
        return status;
    tnri_device_withdraw(device);
    return TNR_OK;
}

/* Ends the captures that need memory of a device. */
static tnr_status device_end_captures(tnri_device *device)
{
    return atomic_load(&device->in_use) ? tnri_uppers_device(device, TNRI_DEVICE_ENDS_CAPTURES)
                                        : TNR_OK;
}

/* All that a device that is in use, or was, has of the driver, a GPU with the host memory near it.
 * No capture needs its memory. */
static tnr_status device_end(tnri_device *device)
{
    tnr_status status = TNR_OK;
    if (atomic_load(&device->in_use))
        status = device_end_pools(device);
    else if (!tnri_device_is_host(device))
        status = device_end(device_host(device)); /* what an earlier call could not */
    if (status == TNR_OK && tnri_device_is_host(device))
        status = tnri_idle_end(device);
    return status == TNR_OK ? tnri_device_stop(device) : status;
}

tnr_status tnr_device_end(int index, int force)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (atomic_load(&tnri_generation) == 0)
        return TNR_OK;
    tnr_status status = tnri_segment_outside("tnr_device_end");
    if (status != TNR_OK)
        return status;
    tnri_device *device = tnri_device_at(index);
    if (device == NULL)
        return tnri_error(TNR_ERR_INVALID_DEVICE, "there is no device %d; the driver reports %d.",
                          index, tnri_devices_count());
    tnri_device *host = device_host(device);
    if (atomic_load(&host->in_use) && !force)
        status = device_check_idle(host);
    if (status == TNR_OK && host != device && atomic_load(&device->in_use) && !force)
        status = device_check_idle(device);
    if (status != TNR_OK)
        return status;
    (void)tnri_uppers_device(NULL, TNRI_DEVICE_PAUSES);
    (void)tnri_uppers_device(device, TNRI_DEVICE_PAUSES);
    tnri_watcher_pause();
    tnri_routes_forget_device(host->index);
    tnri_routes_forget_device(index);
    status = device_end_captures(host);
    if (status == TNR_OK)
        status = device_end_captures(device);
    if (status == TNR_OK && host == device)
        status = tnri_uppers_device(device->gpu, TNRI_DEVICE_ENDS_CONTENTS);
    if (status == TNR_OK)
        status = device_end(device);
    if (status == TNR_OK)
        device->peers = 0; /* of pools that will be made */
    tnri_watcher_resume();
    (void)tnri_uppers_device(device, TNRI_DEVICE_RESUMES);
    (void)tnri_uppers_device(NULL, TNRI_DEVICE_RESUMES);
    return status;
}

/* Has all that threads of the library do by themselves rest, or go on. */
static void devices_pause(tnri_device_step step)
{
    (void)tnri_uppers_device(NULL, step);
    for (int i = 0; i < tnri_devices_count(); i++)
        (void)tnri_uppers_device(tnri_device_at(i), step);
}

tnr_status tnr_shutdown(int force)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (atomic_load(&tnri_generation) == 0) {
        tnri_control_reap(1);
        tnri_lock_take(&tnri_library_lock);
        tnri_seeing_end();
        tnri_conf_reset(); /* what tnr_configure set before any start */
        tnri_lock_release(&tnri_library_lock);
        return TNR_OK;
    }
    tnr_status status = tnri_segment_outside("tnr_shutdown");
    tnri_device *device;
    for (int i = 0; (device = tnri_device_nth(i)) != NULL && status == TNR_OK && !force; i++)
        if (atomic_load(&device->in_use))
            status = device_check_idle(device);
    int is_paused = status == TNR_OK;
    if (is_paused) {
        devices_pause(TNRI_DEVICE_PAUSES);
        tnri_seeing_pause();
    }
    /* First those of all devices: none is proved idle while another one captures. */
    for (int i = 0; (device = tnri_device_nth(i)) != NULL && status == TNR_OK; i++)
        status = device_end_captures(device);
    for (int i = 0; i < tnri_devices_count() && status == TNR_OK; i++)
        status = device_end(tnri_device_at(i));
    if (status != TNR_OK) {
        if (is_paused) { /* it goes on for now */
            tnri_seeing_resume();
            devices_pause(TNRI_DEVICE_RESUMES);
        }
        return status;
    }
    tnri_control_reap(1);
    tnri_trap_sums_tell();
    tnri_lock_take(&tnri_library_lock);
    tnri_gate_set(0, TNRI_GATE_STOPPED);
    tnri_nvtx_end();
    tnri_generation_stop();
    atomic_fetch_add(&tnri_library_epoch, 1); /* threads still routed somewhere are so no more */
    tnri_routes_forget();
    tnri_pools_forget();
    tnri_devices_forget();
    tnri_driver_unload();
    tnri_seeing_end();
    tnri_conf_reset();
    tnri_single_copy_release();
    tnri_lock_release(&tnri_library_lock);
    return TNR_OK;
}
