/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: allocating it, freeing it, and what a pointer is.
 */
#include "rt.h"

#include <string.h>

enum { PITCH = 512 };

/* ---- of the device -------------------------------------------------------------------------- */

static CUresult device_alloc(void **out, size_t bytes)
{
    CUdeviceptr address = 0;
    CUresult result = out == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && bytes != 0) /* nothing, successfully */
        result = rt.cuMemAlloc(&address, bytes);
    if (result == CUDA_SUCCESS)
        *out = (void *)(uintptr_t)address;
    return result;
}

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    RT_BEGIN();
    return rt_end(device_alloc(devPtr, size));
}

cudaError_t cudaFree(void *devPtr)
{
    RT_BEGIN();
    rt_managed_forget(devPtr);
    return rt_end(devPtr == NULL ? CUDA_SUCCESS : rt.cuMemFree((CUdeviceptr)(uintptr_t)devPtr));
}

cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
    RT_BEGIN();
    if (devPtr == NULL || size == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
        return rt_fail(cudaErrorInvalidValue);
    return rt_end(rt_managed_alloc(devPtr, size));
}

cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
    RT_BEGIN();
    if (devPtr == NULL || pitch == NULL || width > SIZE_MAX - PITCH)
        return rt_fail(cudaErrorInvalidValue);
    size_t row = (width + PITCH - 1) / PITCH * PITCH;
    if (height != 0 && row > SIZE_MAX / height)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = device_alloc(devPtr, row * height);
    if (result == CUDA_SUCCESS)
        *pitch = row;
    return rt_end(result);
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
    void *block = NULL;
    size_t pitch = 0;
    if (pitchedDevPtr == NULL || (extent.depth != 0 && extent.height > SIZE_MAX / extent.depth))
        return rt_fail(cudaErrorInvalidValue);
    cudaError_t error = cudaMallocPitch(&block, &pitch, extent.width, extent.height * extent.depth);
    if (error == cudaSuccess)
        *pitchedDevPtr = (struct cudaPitchedPtr){
            .ptr = block, .pitch = pitch, .xsize = extent.width, .ysize = extent.height};
    return error;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    RT_BEGIN();
    return rt_end(rt.cuMemGetInfo(free, total));
}

/* ---- in the order of a stream --------------------------------------------------------------- */

static CUresult stream_alloc(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    CUdeviceptr address = 0;
    CUresult result = out == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = pool == NULL ? rt.cuMemAllocAsync(&address, bytes, stream)
                              : rt.cuMemAllocFromPoolAsync(&address, bytes, pool, stream);
    if (result == CUDA_SUCCESS && pool != NULL && rt_pool_is_managed(pool) &&
        !rt_managed_add(address, bytes)) {
        (void)rt.cuMemFreeAsync(address, stream);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS)
        *out = (void *)(uintptr_t)address;
    return result;
}

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
    RT_BEGIN();
    return rt_end(stream_alloc(devPtr, size, NULL, hStream));
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
                                    cudaStream_t stream)
{
    RT_BEGIN();
    if (memPool == NULL)
        return rt_fail(cudaErrorInvalidValue);
    return rt_end(stream_alloc(ptr, size, memPool, stream));
}

cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
    RT_BEGIN();
    rt_managed_forget(devPtr);
    return rt_end(rt.cuMemFreeAsync((CUdeviceptr)(uintptr_t)devPtr, hStream));
}

/* ---- of the host ---------------------------------------------------------------------------- */

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    RT_BEGIN();
    return rt_end(rt.cuMemHostAlloc(pHost, size, flags));
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
    return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *ptr)
{
    RT_BEGIN();
    return rt_end(ptr == NULL ? CUDA_SUCCESS : rt.cuMemFreeHost(ptr));
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
    RT_BEGIN();
    return rt_end(rt.cuMemHostRegister(ptr, size, flags));
}

cudaError_t cudaHostUnregister(void *ptr)
{
    RT_BEGIN();
    return rt_end(rt.cuMemHostUnregister(ptr));
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
    CUdeviceptr address = 0;
    RT_BEGIN();
    if (pDevice == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuMemHostGetDevicePointer(&address, pHost, flags);
    if (result == CUDA_SUCCESS)
        *pDevice = (void *)(uintptr_t)address;
    return rt_end(result);
}

cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
    RT_BEGIN();
    return rt_end(rt.cuMemHostGetFlags(pFlags, pHost));
}

/* ---- what a pointer is ---------------------------------------------------------------------- */

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    CUmemorytype type = 0;
    int device = 0;
    CUdeviceptr on_device = 0;
    void *on_host = NULL;
    CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *answers[] = {&type, &device, &on_device, &on_host};
    RT_BEGIN();
    if (attributes == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuPointerGetAttributes(sizeof(asked) / sizeof(asked[0]), asked, answers,
                                                (CUdeviceptr)(uintptr_t)ptr);
    if (result != CUDA_SUCCESS)
        return rt_end(result);
    memset(attributes, 0, sizeof(*attributes));
    attributes->type = (enum cudaMemoryType)type;
    attributes->device = type == 0 ? cudaInvalidDeviceId : device;
    attributes->devicePointer = (void *)(uintptr_t)on_device;
    attributes->hostPointer = on_host;
    if (type == CU_MEMORYTYPE_DEVICE)
        attributes->hostPointer = NULL;
    if (type == 0) { /* memory of the program's own */
        attributes->hostPointer = (void *)(uintptr_t)ptr;
        attributes->devicePointer = NULL;
    }
    if (rt_managed_is(ptr)) {
        attributes->type = cudaMemoryTypeManaged;
        attributes->hostPointer = attributes->devicePointer;
    }
    return cudaSuccess;
}
