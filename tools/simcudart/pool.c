/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools: the driver's, and those of managed memory, which it has not.
 */
#include "rt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    return rt_end(rt.cuDeviceGetDefaultMemPool(memPool, device));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    return rt_end(rt.cuDeviceGetMemPool(memPool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    return rt_end(rt.cuDeviceSetMemPool(device, memPool));
}

/* ---- of managed memory ---------------------------------------------------------------------- */

/* The driver's pools that stand for pools of managed memory: what comes from them is noted as such
 * (managed.c). A device's first one is its default. Under the lock. */
typedef struct managed_pool {
    cudaMemPool_t pool;
    int default_of; /* a device; -1: made by the program */
    struct managed_pool *next;
} managed_pool;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static managed_pool *managed_pools;
static cudaMemPool_t managed_chosen[RT_DEVICES_MAX]; /* cudaMemSetMemPool; null: the default */

/* -2: it is none of these; -1: the program's; else the device whose default it is. */
static int managed_owner(cudaMemPool_t pool)
{
    pthread_mutex_lock(&lock);
    const managed_pool *one = managed_pools;
    while (one != NULL && one->pool != pool)
        one = one->next;
    int owner = one == NULL ? -2 : one->default_of;
    pthread_mutex_unlock(&lock);
    return owner;
}

int rt_pool_is_managed(cudaMemPool_t pool)
{
    return managed_owner(pool) > -2;
}

/* Under the lock. */
static CUresult managed_make(cudaMemPool_t *pool, CUmemPoolProps props, int default_of)
{
    managed_pool *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    if (props.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        props.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = rt_device()};
    CUresult result = rt.cuMemPoolCreate(pool, &props);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    *made = (managed_pool){*pool, default_of, managed_pools};
    managed_pools = made;
    return CUDA_SUCCESS;
}

static void managed_forget(cudaMemPool_t pool)
{
    pthread_mutex_lock(&lock);
    managed_pool **at = &managed_pools;
    while (*at != NULL && (*at)->pool != pool)
        at = &(*at)->next;
    managed_pool *gone = *at;
    if (gone != NULL)
        *at = gone->next;
    for (int i = 0; i < RT_DEVICES_MAX; i++)
        if (managed_chosen[i] == pool)
            managed_chosen[i] = NULL;
    pthread_mutex_unlock(&lock);
    free(gone);
}

static CUresult managed_default(cudaMemPool_t *pool, int device)
{
    const CUmemPoolProps props = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    const managed_pool *one = managed_pools;
    while (one != NULL && one->default_of != device)
        one = one->next;
    if (one != NULL)
        *pool = one->pool;
    else
        result = managed_make(pool, props, device);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- by place and kind ---------------------------------------------------------------------- */

/* What is asked for: a device's pool of either kind. Another place has none here. */
static cudaError_t place_check(const struct cudaMemLocation *location,
                               enum cudaMemAllocationType type, int *device)
{
    int count = 0;
    if (location == NULL ||
        (type != cudaMemAllocationTypePinned && type != cudaMemAllocationTypeManaged))
        return rt_fail(cudaErrorInvalidValue);
    *device = location->id;
    if (type == cudaMemAllocationTypeManaged && location->type == cudaMemLocationTypeNone)
        *device = rt_device();
    else if (location->type != cudaMemLocationTypeDevice)
        return rt_unserved("memory pools on the host");
    (void)rt.cuDeviceGetCount(&count);
    return rt_fail(*device >= 0 && *device < count ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                                     enum cudaMemAllocationType type)
{
    int device = 0;
    RT_BEGIN();
    cudaError_t error =
        memPool == NULL ? rt_fail(cudaErrorInvalidValue) : place_check(location, type, &device);
    if (error != cudaSuccess)
        return error;
    return rt_end(type == cudaMemAllocationTypeManaged
                      ? managed_default(memPool, device)
                      : rt.cuDeviceGetDefaultMemPool(memPool, device));
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                              enum cudaMemAllocationType type)
{
    int device = 0;
    RT_BEGIN();
    cudaError_t error =
        memPool == NULL ? rt_fail(cudaErrorInvalidValue) : place_check(location, type, &device);
    if (error != cudaSuccess)
        return error;
    if (type == cudaMemAllocationTypePinned)
        return rt_end(rt.cuDeviceGetMemPool(memPool, device));
    pthread_mutex_lock(&lock);
    *memPool = managed_chosen[device];
    pthread_mutex_unlock(&lock);
    return *memPool != NULL ? cudaSuccess : rt_end(managed_default(memPool, device));
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
                              cudaMemPool_t memPool)
{
    int device = 0;
    RT_BEGIN();
    cudaError_t error = place_check(location, type, &device);
    if (error != cudaSuccess)
        return error;
    if (type == cudaMemAllocationTypePinned)
        return rt_end(rt.cuDeviceSetMemPool(device, memPool));
    if (!rt_pool_is_managed(memPool))
        return rt_fail(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    managed_chosen[device] = memPool;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

/* ---- of the program ------------------------------------------------------------------------- */

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
    RT_BEGIN();
    if (poolProps == NULL || memPool == NULL)
        return rt_fail(cudaErrorInvalidValue);
    if (poolProps->location.type == cudaMemLocationTypeHost ||
        poolProps->location.type == cudaMemLocationTypeHostNuma)
        return rt_unserved("memory pools on the host");
    CUmemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.allocType = (CUmemAllocationType)poolProps->allocType;
    props.handleTypes = (CUmemAllocationHandleType)poolProps->handleTypes;
    props.location.type = (CUmemLocationType)poolProps->location.type;
    props.location.id = poolProps->location.id;
    props.maxSize = poolProps->maxSize;
    if (poolProps->allocType != cudaMemAllocationTypeManaged)
        return rt_end(rt.cuMemPoolCreate(memPool, &props));
    pthread_mutex_lock(&lock);
    CUresult result = managed_make(memPool, props, -1);
    pthread_mutex_unlock(&lock);
    return rt_end(result);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool)
{
    RT_BEGIN();
    if (managed_owner(memPool) >= 0)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuMemPoolDestroy(memPool);
    if (result == CUDA_SUCCESS)
        managed_forget(memPool);
    return rt_end(result);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
    RT_BEGIN();
    return rt_end(rt.cuMemPoolTrimTo(memPool, minBytesToKeep));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
    RT_BEGIN();
    return rt_end(rt.cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
    RT_BEGIN();
    return rt_end(rt.cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList,
                                 size_t count)
{
    RT_BEGIN();
    for (size_t i = 0; descList != NULL && i < count; i++) {
        const CUmemAccessDesc one = {
            .location = {.type = (CUmemLocationType)descList[i].location.type,
                         .id = descList[i].location.id},
            .flags = (CUmemAccess_flags)descList[i].flags};
        CUresult result = rt.cuMemPoolSetAccess(memPool, &one, 1);
        if (result != CUDA_SUCCESS)
            return rt_end(result);
    }
    return rt_fail(descList == NULL && count != 0 ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
                                 struct cudaMemLocation *location)
{
    CUmemAccess_flags found = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    RT_BEGIN();
    if (flags == NULL || location == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUmemLocation where = {.type = (CUmemLocationType)location->type, .id = location->id};
    CUresult result = rt.cuMemPoolGetAccess(&found, memPool, &where);
    if (result == CUDA_SUCCESS)
        *flags = (enum cudaMemAccessFlags)found;
    return rt_end(result);
}
