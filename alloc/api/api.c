/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions of <tenure/alloc.h>, except those of the cached path (cached.c) and of
 * growable blocks (growable.c): checking arguments and finding the way. The header has what they
 * promise.
 */
#include <tenure/alloc.h>
#include <tenure/cgroup.h>

#include <string.h>

#include "api/cached.h"
#include "api/control.h"
#include "api/graph_end.h"
#include "api/library.h"
#include "api/pool_end.h"
#include "base/prim/calm.h"
#include "base/conf/conf.h"
#include "base/error.h"
#include "memory/arena/find.h"
#include "memory/arena/free.h"
#include "memory/arena/range.h"
#include "memory/device/segment.h"
#include "memory/device/upper.h"
#include "memory/pool/family.h"
#include "miss/reclaim.h"

unsigned tnr_version(void)
{
    return TNR_VERSION_NUMBER;
}

tnr_status tnr_init(void)
{
    TNRI_CALM_CALL;
    return tnri_library_start();
}

tnr_status tnr_configure(const char *settings)
{
    TNRI_CALM_CALL;
    if (settings == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_configure: settings is null.");
    if (tnri_library_is_forked())
        return tnri_forked_error();
    int running = 0;
    for (int i = 0; i < tnri_devices_count(); i++)
        running |= atomic_load(&tnri_device_at(i)->in_use);
    tnri_lock_take(&tnri_library_lock);
    tnr_status status = tnri_library_configure(settings, "tnr_configure", running);
    tnri_lock_release(&tnri_library_lock);
    tnri_control_reap(0);
    return status;
}

tnr_status tnr_setting_get(tnr_setting_info *info, size_t index)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    return tnri_conf_describe(info, index);
}

/* The foreign segment that a block lies in, if it does. Under the arena's lock. */
static void segment_describe(tnr_block_info *info, const tnri_arena *arena, const tnri_block *block)
{
    const tnri_space *space = tnri_arena_space(arena);
    info->segment = NULL;
    info->segment_bytes = 0;
    if (!tnri_account_is_owners(arena->account))
        return;
    const tnri_chunk *segment = tnri_page_chunk(space, tnri_page_of(space, block->base));
    info->segment = (void *)tnri_page_address(space, segment->page);
    info->segment_bytes = segment->pages << space->page_shift;
}

/* The checker asks of each block that was freed, so the sentence waits for who reads it. */
static tnr_status not_live_error(const tnri_device *device, const void *ptr)
{
    return tnri_error_at(TNR_ERR_NOT_LIVE, "%p lies in no live block of device %d.", ptr,
                         device->index);
}

tnr_status tnr_block_get(tnr_block_info *info, const void *ptr)
{
    TNRI_CALM_CALL;
    if (info == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_block_get: info is null.");
    tnri_device *device;
    if (tnri_library_space_of(ptr, &device) == NULL)
        return tnri_foreign_error(ptr);
    tnri_block *near;
    tnri_arena *arena = tnri_arena_find_begin(device, (uintptr_t)ptr, &near);
    tnri_block *block = arena == NULL ? NULL : tnri_arena_containing(arena, (uintptr_t)ptr);
    int is_bare = arena != NULL && block == NULL && arena->growable.is_bare &&
                  arena->growable.base == (uintptr_t)ptr;
    if (is_bare)
        block = near; /* the addresses of a block without memory */
    if (block != NULL) {
        int is_range = tnri_range_is_whole(arena, block);
        info->base = (void *)block->base;
        info->bytes = is_bare ? 0 : is_range ? tnri_range_bytes(arena) : block->bytes;
        info->bytes_requested = is_bare ? 0 : is_range ? info->bytes : tnri_block_requested(block);
        info->bytes_reserved = arena->growable.base != 0 ? arena->growable.bytes_max : info->bytes;
        info->device = device->index;
        info->stream = tnri_arena_is_graph(arena) ? tnri_upper_of(TNRI_ROOM_GRAPH)->home(block)
                                                  : tnri_arena_handle(arena);
        info->pool = tnri_pool_handle(arena->pool);
        segment_describe(info, arena, block);
        memset(info->reserved, 0, sizeof(info->reserved));
    }
    tnri_arena_find_end(device, arena);
    if (block == NULL)
        return not_live_error(device, ptr);
    return TNR_OK;
}

tnr_status tnr_memory_registered(const void *ptr)
{
    TNRI_CALM_CALL;
    tnri_device *device;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (tnri_library_space_of(ptr, &device) == NULL)
        return tnri_foreign_error(ptr);
    const tnri_block *block = tnri_live_find(device, (uintptr_t)ptr);
    if (block == NULL)
        return not_live_error(device, ptr);
    /* The block is live, so its memory does not move now; later everybody sees this first. */
    atomic_store_explicit(&block->world->arena->account->is_registered, 1, memory_order_release);
    tnri_live_leave(device, block);
    return TNR_OK;
}

tnr_status tnri_free_outside(void *ptr)
{
    tnri_device *device;
    const tnri_space *space = tnri_library_space_of(ptr, &device);
    if (space == NULL)
        return tnri_foreign_error(ptr);
    tnri_block *block = tnri_block_map_at(&space->map, (uintptr_t)ptr);
    return block == NULL ? tnri_free_refused(device, ptr) : tnri_free_found(block, ptr);
}

/* ---- pools ---------------------------------------------------------------------------------- */

tnr_status tnr_pool_create(tnr_pool *handle, int device, const tnr_pool_options *options)
{
    TNRI_CALM_CALL;
    static const tnr_pool_options defaults = TNR_POOL_OPTIONS_INIT;
    if (handle == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_pool_create: pool is null.");
    *handle = NULL;
    if (options == NULL)
        options = &defaults;
    if (options->struct_bytes != sizeof(*options) || (int)options->handle_type < 0 ||
        options->handle_type > TNR_HANDLE_FABRIC || options->is_shared < 0 ||
        options->is_shared > 1)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_pool_create: options are not of this version. Start from "
                          "TNR_POOL_OPTIONS_INIT.");
    tnri_device *found;
    tnr_status status = tnri_library_device(device, &found);
    if (status != TNR_OK)
        return status;
    tnr_pool pool;
    tnri_tagging tagging = {tnri_tag_here(), NULL, 0};
    status = tnri_pool_make(found, options, TNRI_POOL_PLAIN, &tagging, &pool);
    if (status == TNR_OK)
        *handle = pool->handle;
    return status;
}

/* Ends a pool that is held, if nothing speaks against it. */
static tnr_status pool_destroy(tnr_pool pool)
{
    tnri_visit visit;
    if (pool == pool->device->pool_default)
        return tnri_error(TNR_ERR_INVALID_POOL, "the default pool cannot be destroyed.");
    if (pool->is_private)
        return tnri_error(TNR_ERR_INVALID_POOL, "pool \"%s\" belongs to a graph and ends with it.",
                          pool->account.name);
    if (pool->account.is_contents)
        return tnri_error(
            TNR_ERR_INVALID_POOL,
            "pool \"%s\" is Tenure's, for what sleeping pools and parked blocks keep. "
            "tnr_sleep_prepare gives back what is idle of it.",
            pool->account.name);
    if (pool->family != NULL)
        return tnri_error(TNR_ERR_INVALID_POOL,
                          "pool \"%s\" is a tag's, to which threads may be routed, and ends with "
                          "its device. Trim it instead.",
                          pool->account.name);
    tnr_status status =
        tnri_account_is_foreign(&pool->account) ? tnri_segment_outside("tnr_pool_destroy") : TNR_OK;
    if (status != TNR_OK)
        return status;
    tnri_graph_end_await(pool);
    if (atomic_load(&pool->routed_threads) > 0)
        tnri_routes_sweep();
    status = tnri_pool_check_routed(pool);
    if (status != TNR_OK)
        return status;
    status = tnri_device_enter(pool->device, &visit);
    if (status == TNR_OK) {
        status = tnri_pool_end(pool, 0);
        tnri_device_leave(&visit);
    }
    return status;
}

tnr_status tnr_pool_destroy(tnr_pool handle)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    if (handle == NULL)
        return tnri_error(TNR_ERR_INVALID_POOL, "the default pool cannot be destroyed.");
    tnr_pool pool;
    tnr_status status = tnri_pool_resolve(handle, &pool);
    if (status != TNR_OK)
        return status;
    status = pool_destroy(pool);
    if (status != TNR_OK)
        tnri_pool_drop(pool);
    return status;
}

/* Routes the calling thread to a pool that is held, or, with null, to a family or to the default
 * pools. */
static tnr_status pool_push(tnr_pool handle, tnr_pool pool)
{
    if (pool != NULL && pool->account.is_graph)
        return tnri_error(TNR_ERR_INVALID_POOL,
                          "pool \"%s\" is a graph pool: capture into it instead of routing "
                          "a thread to it.",
                          pool->account.name);
    tnri_thread *thread = tnri_thread_here();
    uint64_t epoch = atomic_load(&tnri_library_epoch);
    if (thread->routes_epoch != epoch) {
        thread->routes_count = 0;
        thread->routes = NULL; /* freed by the shutdown */
        thread->routes_epoch = epoch;
    }
    if (thread->routes_count == TNRI_ROUTES_MAX)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_pool_push nests at most %d deep.",
                          TNRI_ROUTES_MAX);
    if (thread->routes == NULL && (thread->routes = tnri_routes_make()) == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to route a thread.");
    tnri_route *route = &thread->routes->at[thread->routes_count++];
    route->handle = handle;
    route->device = pool != NULL ? pool->device->index : TNRI_ROUTE_ANY;
    if (pool != NULL)
        atomic_fetch_add(&pool->routed_threads, 1);
    atomic_store(&route->pool, pool);
    return TNR_OK;
}

tnr_status tnr_pool_push(tnr_pool handle)
{
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnr_pool pool = NULL;
    int is_anywhere = handle == NULL || tnri_family_is(handle);
    tnr_status status = is_anywhere ? tnri_library_start() : tnri_pool_resolve(handle, &pool);
    if (status != TNR_OK)
        return status;
    status = pool_push(handle, pool);
    if (pool != NULL)
        tnri_pool_drop(pool);
    return status;
}

tnr_status tnr_pool_pop(tnr_pool handle)
{
    if (tnri_library_is_forked())
        return tnri_forked_error();
    tnri_thread *thread = tnri_thread_here();
    int routed =
        thread->routes_epoch == atomic_load(&tnri_library_epoch) ? thread->routes_count : 0;
    if (routed == 0 || thread->routes->at[routed - 1].handle != handle)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_pool_pop: %p is not the pool that this thread pushed last.",
                          (void *)handle);
    tnri_route_end(&thread->routes->at[--thread->routes_count]);
    return TNR_OK;
}

/* ---- limits and giving back ----------------------------------------------------------------- */

/* Gives idle memory of a pool back, or with null of all pools of the device. */
static tnr_status trim(tnri_device *device, tnr_pool pool, size_t keep_bytes, size_t *released)
{
    (void)tnri_uppers_settle(device, 0);
    uint64_t mapped =
        atomic_load(pool != NULL ? &pool->account.reserved_bytes : &device->reserved_bytes);
    if (mapped <= keep_bytes && keep_bytes > 0)
        return TNR_OK;
    tnri_visit visit;
    tnr_status status = tnri_device_enter(device, &visit);
    if (status != TNR_OK)
        return status;
    if (pool != NULL)
        (void)tnri_collect_pool(pool, SIZE_MAX, TNRI_COLLECT_WAIT);
    else
        tnri_collect_all(device);
    size_t most = (size_t)(mapped - keep_bytes);
    size_t given_back = tnri_release_idle(device, pool, most, 1, &status);
    if (given_back < most)
        given_back += tnri_release_parked(device, pool, most - given_back, &status);
    if (keep_bytes == 0) {
        tnr_status drained = tnri_drain_idle(device, pool, &given_back);
        status = status == TNR_OK ? drained : status;
    }
    tnri_streams_settle(SIZE_MAX);
    tnri_device_leave(&visit);
    tnri_dissolve_all(device);
    if (released != NULL)
        *released = given_back;
    return status;
}

tnr_status tnr_trim(size_t *released, size_t keep_bytes, int device)
{
    TNRI_CALM_CALL;
    tnri_device *found;
    if (released != NULL)
        *released = 0;
    tnr_status status = tnri_library_device(device, &found);
    uint64_t before = status == TNR_OK ? atomic_load(&found->reserved_bytes) : 0;
    if (status == TNR_OK && tnri_device_is_host(found) && before > keep_bytes)
        status = tnri_uppers_device(found->gpu, TNRI_DEVICE_TRIMS_CONTENTS);
    if (status != TNR_OK)
        return status;
    uint64_t after = atomic_load(&found->reserved_bytes);
    status = trim(found, NULL, keep_bytes, released);
    if (released != NULL && after < before)
        *released += (size_t)(before - after);
    return status;
}

tnr_status tnr_pool_trim(size_t *released, tnr_pool handle, size_t keep_bytes, int device)
{
    TNRI_CALM_CALL;
    tnr_pool pool;
    if (released != NULL)
        *released = 0;
    tnr_status status = tnri_library_pool_named(handle, device, &pool);
    if (status != TNR_OK)
        return status;
    if (tnri_account_is_foreign(&pool->account))
        status = tnri_segment_outside("tnr_pool_trim");
    if (status == TNR_OK)
        status = trim(pool->device, pool, keep_bytes, released);
    tnri_pool_drop(pool);
    return status;
}

tnr_status tnr_limit_set(size_t limit_bytes, int device)
{
    TNRI_CALM_CALL;
    tnri_device *found;
    tnr_status status = tnri_library_device(device, &found);
    if (status == TNR_OK)
        tnri_device_limit(found, limit_bytes, "tnr_limit_set, in Python tenure.set_limit");
    return status;
}

tnr_status tnr_pool_limit_set(tnr_pool handle, size_t limit_bytes, int device)
{
    TNRI_CALM_CALL;
    tnr_pool pool;
    tnr_status status = tnri_library_pool_named(handle, device, &pool);
    if (status != TNR_OK)
        return status;
    atomic_store(&pool->account.limit_bytes, limit_bytes == SIZE_MAX ? UINT64_MAX : limit_bytes);
    tnri_pool_drop(pool);
    return TNR_OK;
}

tnr_status tnr_limit_get(size_t *limit_bytes, int device)
{
    TNRI_CALM_CALL;
    if (limit_bytes == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_limit_get: limit_bytes is null.");
    tnri_device *found;
    tnr_status status = tnri_library_device(device, &found);
    if (status == TNR_OK)
        *limit_bytes = (size_t)atomic_load(&found->limit_bytes);
    return status;
}

/* ---- what is in force ----------------------------------------------------------------------- */

tnr_status tnr_driver_get(tnr_driver_info *info)
{
    TNRI_CALM_CALL;
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_driver_get: set info->struct_bytes to sizeof(tnr_driver_info).");
    tnr_status status = tnri_library_start();
    if (status != TNR_OK)
        return status;
    info->path = tnri_driver_loaded.path;
    info->version = tnri_driver_loaded.version;
    info->simulated = tnri_driver_loaded.simulated;
    info->devices_count = tnri_devices_count();
    return TNR_OK;
}

tnr_status tnr_device_get(tnr_device_info *info, int device)
{
    TNRI_CALM_CALL;
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_device_get: set info->struct_bytes to sizeof(tnr_device_info).");
    tnr_status status = tnri_library_start();
    if (status != TNR_OK)
        return status;
    tnri_device *found = tnri_device_at(device);
    if (found == NULL)
        return tnri_error(TNR_ERR_INVALID_DEVICE, "there is no device %d; the driver reports %d.",
                          device, tnri_devices_count());
    const tnri_capabilities *can = &found->capabilities;
    memcpy(info->name, can->name, sizeof(info->name));
    info->memory_bytes = can->memory_bytes;
    info->granularity_bytes = can->granularity_bytes;
    info->compute_major = can->compute_major;
    info->compute_minor = can->compute_minor;
    info->has_vmm = can->has_vmm;
    info->has_posix_fd = can->has_posix_fd;
    info->has_fabric = can->has_fabric;
    info->has_gpu_direct_rdma = can->has_gpu_direct_rdma;
    info->in_use = atomic_load_explicit(&found->in_use, memory_order_acquire);
    info->address_base = info->in_use ? found->space.base : 0;
    info->address_bytes = info->in_use ? found->space.bytes : 0;
    return TNR_OK;
}

static size_t cgroup_limit(char file[256], size_t *used, const tnri_dmem_limit *limit)
{
    memcpy(file, limit->file, sizeof(limit->file));
    *used = (size_t)limit->used;
    return limit->left == INT64_MAX ? SIZE_MAX : (size_t)limit->limit;
}

tnr_status tnr_cgroup_get(tnr_cgroup_info *info, int device)
{
    TNRI_CALM_CALL;
    tnri_dmem dmem;
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_cgroup_get: set info->struct_bytes to sizeof(tnr_cgroup_info).");
    tnr_status status = tnri_library_start();
    if (status != TNR_OK)
        return status;
    tnri_device *found = tnri_device_at(device);
    if (found == NULL || tnri_device_is_host(found))
        return tnri_error(TNR_ERR_INVALID_DEVICE,
                          "tnr_cgroup_get: there is no GPU %d; the driver reports %d.", device,
                          tnri_devices_count());
    tnri_dmem_read(&dmem, &found->capabilities.pci, tnri_conf_get()->cgroup);
    info->hard_bytes = cgroup_limit(info->hard_file, &info->hard_used_bytes, &dmem.hard);
    info->soft_bytes = cgroup_limit(info->soft_file, &info->soft_used_bytes, &dmem.soft);
    info->given_bytes = (size_t)atomic_load(&found->cgroup_given_bytes);
    return TNR_OK;
}
