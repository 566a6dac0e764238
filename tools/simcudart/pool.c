/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools: the driver's.
 */
#include "rt.h"

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

static int is_of_device(const struct cudaMemLocation *location, enum cudaMemAllocationType type)
{
    return location != NULL && location->type == cudaMemLocationTypeDevice &&
           type == cudaMemAllocationTypePinned;
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                                     enum cudaMemAllocationType type)
{
    if (!is_of_device(location, type))
        return rt_unserved("memory pools on the host");
    return cudaDeviceGetDefaultMemPool(memPool, location->id);
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                              enum cudaMemAllocationType type)
{
    if (!is_of_device(location, type))
        return rt_unserved("memory pools on the host");
    return cudaDeviceGetMemPool(memPool, location->id);
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
                              cudaMemPool_t memPool)
{
    if (!is_of_device(location, type))
        return rt_unserved("memory pools on the host");
    return cudaDeviceSetMemPool(location->id, memPool);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
    RT_BEGIN();
    if (poolProps == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUmemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.allocType = (CUmemAllocationType)poolProps->allocType;
    props.handleTypes = (CUmemAllocationHandleType)poolProps->handleTypes;
    props.location.type = (CUmemLocationType)poolProps->location.type;
    props.location.id = poolProps->location.id;
    props.maxSize = poolProps->maxSize;
    return rt_end(rt.cuMemPoolCreate(memPool, &props));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool)
{
    RT_BEGIN();
    return rt_end(rt.cuMemPoolDestroy(memPool));
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
