/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime: see mock_runtime.h. MOCK_RUNTIME=old in the environment makes it find the driver's
 * functions as the one of CUDA 11.2 did, all by dlsym; otherwise it asks cuGetProcAddress, for the
 * versions that it was compiled with. Its error state is its own, and must not notice Tenure.
 */
#include "mock_runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cudaTypedefs.h>

static struct {
    PFN_cuInit_v2000 init;
    PFN_cuDevicePrimaryCtxRetain_v7000 retain;
    PFN_cuDevicePrimaryCtxReset_v11000 reset;
    PFN_cuCtxGetCurrent_v4000 get_current;
    PFN_cuCtxSetCurrent_v4000 set_current;
    PFN_cuMemAlloc_v3020 alloc;
    PFN_cuMemFree_v3020 release;
    PFN_cuMemAllocAsync_v11020 alloc_async;
    PFN_cuMemFreeAsync_v11020 free_async;
    PFN_cuMemsetD8Async_v3020 set;
    PFN_cuMemcpyDtoHAsync_v3020 copy;
    PFN_cuStreamCreate_v2000 stream_create;
    PFN_cuStreamDestroy_v4000 stream_destroy;
    PFN_cuStreamSynchronize_v2000 stream_synchronize;
    PFN_cuPointerGetAttributes_v7000 attributes;
} cu;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local cudaError_t last;

typedef struct wanted {
    const char *name, *symbol;
    int version;
    void *function;
} wanted;

static void driver_load(void)
{
    const wanted all[] = {
        {"cuInit", "cuInit", 2000, &cu.init},
        {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000, &cu.retain},
        {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2", 11000, &cu.reset},
        {"cuCtxGetCurrent", "cuCtxGetCurrent", 4000, &cu.get_current},
        {"cuCtxSetCurrent", "cuCtxSetCurrent", 4000, &cu.set_current},
        {"cuMemAlloc", "cuMemAlloc_v2", 3020, &cu.alloc},
        {"cuMemFree", "cuMemFree_v2", 3020, &cu.release},
        {"cuMemAllocAsync", "cuMemAllocAsync", 11020, &cu.alloc_async},
        {"cuMemFreeAsync", "cuMemFreeAsync", 11020, &cu.free_async},
        {"cuMemsetD8Async", "cuMemsetD8Async", 3020, &cu.set},
        {"cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", 3020, &cu.copy},
        {"cuStreamCreate", "cuStreamCreate", 2000, &cu.stream_create},
        {"cuStreamDestroy", "cuStreamDestroy_v2", 4000, &cu.stream_destroy},
        {"cuStreamSynchronize", "cuStreamSynchronize", 2000, &cu.stream_synchronize},
        {"cuPointerGetAttributes", "cuPointerGetAttributes", 7000, &cu.attributes},
    };
    const char *kind = getenv("MOCK_RUNTIME");
    int is_old = kind != NULL && strcmp(kind, "old") == 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library == NULL ? NULL : dlsym(library, "cuGetProcAddress_v2");
    PFN_cuGetProcAddress_v12000 look_up;
    memcpy(&look_up, &symbol, sizeof(look_up));
    for (size_t i = 0; library != NULL && i < sizeof(all) / sizeof(all[0]); i++) {
        void *found = NULL;
        CUdriverProcAddressQueryResult status;
        if (is_old || look_up == NULL)
            found = dlsym(library, all[i].symbol);
        else if (look_up(all[i].name, &found, all[i].version, CU_GET_PROC_ADDRESS_DEFAULT,
                         &status) != CUDA_SUCCESS)
            found = NULL;
        memcpy(all[i].function, &found, sizeof(found));
    }
}

/* The driver, with device 0's context current, as every call of the runtime begins. */
static CUresult driver_ready(void)
{
    CUcontext context = NULL;
    (void)pthread_once(&once, driver_load);
    if (cu.init == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = cu.get_current(&context);
    if (result == CUDA_SUCCESS && context != NULL)
        return CUDA_SUCCESS;
    result = cu.init(0);
    if (result == CUDA_SUCCESS)
        result = cu.retain(&context, 0);
    return result == CUDA_SUCCESS ? cu.set_current(context) : result;
}

static cudaError_t said(CUresult result)
{
    if (result != CUDA_SUCCESS)
        last = (cudaError_t)result;
    return (cudaError_t)result;
}

#define CALL(function, arguments)                                                                  \
    do {                                                                                           \
        CUresult ready_ = driver_ready();                                                          \
        return said(ready_ != CUDA_SUCCESS ? ready_ : cu.function arguments);                      \
    } while (0)

cudaError_t cudaMalloc(void **block, size_t bytes)
{
    CALL(alloc, ((CUdeviceptr *)block, bytes));
}

cudaError_t cudaFree(void *block)
{
    if (block == NULL)
        return said(driver_ready());
    CALL(release, ((CUdeviceptr)(uintptr_t)block));
}

cudaError_t cudaMallocAsync(void **block, size_t bytes, cudaStream_t stream)
{
    CALL(alloc_async, ((CUdeviceptr *)block, bytes, stream));
}

cudaError_t cudaFreeAsync(void *block, cudaStream_t stream)
{
    CALL(free_async, ((CUdeviceptr)(uintptr_t)block, stream));
}

cudaError_t cudaMemsetAsync(void *block, int value, size_t bytes, cudaStream_t stream)
{
    CALL(set, ((CUdeviceptr)(uintptr_t)block, (unsigned char)value, bytes, stream));
}

cudaError_t cudaMemcpyToHost(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CALL(copy, (to, (CUdeviceptr)(uintptr_t)from, bytes, stream));
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    CALL(stream_create, (stream, CU_STREAM_DEFAULT));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    CALL(stream_destroy, (stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    CALL(stream_synchronize, (stream));
}

/* As the real one: the driver's answers go into variables that were not set before, and a flag is
 * read as the four bytes that the driver writes. */
static CUresult describe(cudaPointerAttributes *told, const void *address)
{
    struct {
        unsigned type, managed;
        int device;
        CUdeviceptr device_address;
        void *host_address;
    } said;
    CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *data[] = {&said.type, &said.managed, &said.device, &said.device_address,
                    &said.host_address};
    memset(&said, 0xAB, sizeof(said)); /* what a stack holds, but always the same */
    CUresult result = cu.attributes(5, asked, data, (CUdeviceptr)(uintptr_t)address);
    if (result != CUDA_SUCCESS)
        return result;
    told->type = said.managed != 0                   ? cudaMemoryTypeManaged
                 : said.type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                 : said.type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                                                     : cudaMemoryTypeUnregistered;
    told->device = said.device;
    told->devicePointer = (void *)(uintptr_t)said.device_address;
    told->hostPointer = said.host_address;
    return CUDA_SUCCESS;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *told, const void *address)
{
    CUresult ready = driver_ready();
    return said(ready != CUDA_SUCCESS ? ready : describe(told, address));
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t result = last;
    last = cudaSuccess;
    return result;
}

cudaError_t cudaDeviceReset(void)
{
    CALL(reset, (0));
}
