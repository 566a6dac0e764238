/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools: each device's default one, and those that the program makes. The simulation knows a
 * pool's device, how much memory it may have, and which other devices reach its memory. A pool's
 * blocks are those of alloc.c, and a pool keeps nothing that was freed.
 *
 * Blocks may outlive their pool. What is known of the pool lives on with them.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

static struct sim_pool *pool_get(CUmemoryPool handle)
{
    return handle == NULL ? NULL : sim_slot_get(handle, SIM_POOL, "memory pool");
}

static struct sim_pool *pool_new(struct sim_device *device)
{
    struct sim_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL || (pool->slot = sim_slot_new(SIM_POOL, pool)) == NULL) {
        free(pool);
        return NULL;
    }
    pool->device = device;
    pool->next = sim.pools;
    sim.pools = pool;
    return pool;
}

int sim_pool_open(struct sim_device *device)
{
    device->pool_default = device->pool = pool_new(device);
    return device->pool != NULL;
}

void sim_pool_reset(void)
{
    while (sim.pools != NULL) {
        struct sim_pool *pool = sim.pools;
        sim.pools = pool->next;
        free(pool);
    }
}

/* ---- pools of devices ----------------------------------------------------------------------- */

static CUresult device_pool(CUmemoryPool *out, CUdevice ordinal, int is_default)
{
    const struct sim_device *device = sim_device(ordinal);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = (CUmemoryPool)(is_default ? device->pool_default : device->pool)->slot;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetDefaultMemPool, SIM_NEEDS_INIT);
    return sim_leave(device_pool(pool_out, dev, 1));
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetMemPool, SIM_NEEDS_INIT);
    return sim_leave(device_pool(pool, dev, 0));
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    SIM_ENTER(cuDeviceSetMemPool, SIM_NEEDS_INIT);
    struct sim_device *device = sim_device(dev);
    struct sim_pool *wanted = pool_get(pool);
    if (device == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    if (wanted == NULL || wanted->device != device)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    device->pool = wanted;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- pools of the program ------------------------------------------------------------------- */

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    SIM_ENTER(cuMemPoolCreate, SIM_NEEDS_INIT);
    if (pool == NULL || poolProps == NULL || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    struct sim_device *device = sim_device(poolProps->location.id);
    if (device == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    struct sim_pool *made = pool_new(device);
    if (made == NULL)
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    made->bytes_max = poolProps->maxSize;
    *pool = (CUmemoryPool)made->slot;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
    SIM_ENTER(cuMemPoolDestroy, SIM_NEEDS_INIT);
    struct sim_pool *gone = pool_get(pool);
    if (gone == NULL || gone == gone->device->pool_default)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (gone->device->pool == gone)
        gone->device->pool = gone->device->pool_default;
    sim_slot_free(gone->slot);
    gone->slot = NULL;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- attributes ----------------------------------------------------------------------------- */

static const CUmemPool_attribute flag_attributes[SIM_POOL_FLAGS] = {
    CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
    CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES};

/* -1: it is no flag. */
static int flag_find(CUmemPool_attribute attribute)
{
    for (int i = 0; i < SIM_POOL_FLAGS; i++)
        if (flag_attributes[i] == attribute)
            return i;
    return -1;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    SIM_ENTER(cuMemPoolSetAttribute, SIM_NEEDS_INIT);
    struct sim_pool *changed = pool_get(pool);
    int flag = flag_find(attr);
    if (changed == NULL || value == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (flag >= 0) {
        int is_off = 0;
        memcpy(&is_off, value, sizeof(is_off));
        changed->is_flag_off[flag] = is_off == 0;
        return sim_leave(CUDA_SUCCESS);
    }
    uint64_t number = 0;
    memcpy(&number, value, sizeof(number));
    if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        changed->keep_bytes = number; /* it keeps nothing all the same */
        return sim_leave(CUDA_SUCCESS);
    }
    if ((attr != CU_MEMPOOL_ATTR_USED_MEM_HIGH && attr != CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) ||
        number != 0)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    changed->peak_bytes = changed->used_bytes;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    SIM_ENTER(cuMemPoolGetAttribute, SIM_NEEDS_INIT);
    const struct sim_pool *asked = pool_get(pool);
    int flag = flag_find(attr);
    uint64_t number = 0;
    if (asked == NULL || value == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (flag >= 0) {
        int is_on = !asked->is_flag_off[flag];
        memcpy(value, &is_on, sizeof(is_on));
        return sim_leave(CUDA_SUCCESS);
    }
    if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        number = asked->keep_bytes;
    else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH || attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        number = asked->peak_bytes;
    else if (attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ||
             attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        number = asked->used_bytes;
    else
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(value, &number, sizeof(number));
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    SIM_ENTER(cuMemPoolTrimTo, SIM_NEEDS_INIT);
    (void)minBytesToKeep; /* nothing is kept */
    return sim_leave(pool_get(pool) == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

/* ---- access --------------------------------------------------------------------------------- */

static CUresult access_check(const struct sim_pool *pool, const CUmemAccessDesc *wanted)
{
    if (wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (sim_device(wanted->location.id) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (wanted->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        wanted->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    if (wanted->location.id != pool->device->ordinal)
        return sim.settings.peers ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    /* Its own device always reaches it. */
    return wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? CUDA_ERROR_INVALID_DEVICE
                                                          : CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    SIM_ENTER(cuMemPoolSetAccess, SIM_NEEDS_INIT);
    struct sim_pool *changed = pool_get(pool);
    if (changed == NULL || (map == NULL && count > 0))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        CUresult result = access_check(changed, &map[i]);
        if (result != CUDA_SUCCESS)
            return sim_leave(result);
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t bit = UINT32_C(1) << map[i].location.id;
        changed->peers &= ~bit;
        if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            changed->peers |= bit;
    }
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
                                    CUmemLocation *location)
{
    SIM_ENTER(cuMemPoolGetAccess, SIM_NEEDS_INIT);
    const struct sim_pool *pool = pool_get(memPool);
    if (flags == NULL || location == NULL || pool == NULL ||
        location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim_device(location->id) == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    int is_open = location->id == pool->device->ordinal || (pool->peers >> location->id & 1) != 0;
    *flags = is_open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- allocating ----------------------------------------------------------------------------- */

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                         CUstream hStream)
{
    SIM_ENTER(cuMemAllocFromPoolAsync, SIM_NEEDS_CLEAN);
    struct sim_pool *from = pool_get(pool);
    if (from == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(sim_block_alloc_async(dptr, bytesize, from, hStream));
}
