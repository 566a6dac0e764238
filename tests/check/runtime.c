/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime: see runtime.h. Its frames are there in any build, and one has an internal name. */
#include "runtime.h"

#include <cuda.h>

static int runtime_is_open;

static void runtime_open(void)
{
    CUcontext context;
    if (runtime_is_open++ > 0)
        return;
    (void)cuInit(0);
    (void)cuDevicePrimaryCtxRetain(&context, 0);
    (void)cuCtxSetCurrent(context);
}

int cudaStreamCreate(struct CUstream_st **stream)
{
    runtime_open();
    return (int)cuStreamCreate(stream, CU_STREAM_NON_BLOCKING);
}

static __attribute__((noinline)) CUresult __cudart17(CUdeviceptr *address, size_t bytes,
                                                     CUstream stream)
{
    CUresult result = cuMemAllocAsync(address, bytes, stream);
    __asm__ volatile("");
    return result;
}

__attribute__((noinline)) int cudaMallocAsync(void **address, size_t bytes,
                                              struct CUstream_st *stream)
{
    CUdeviceptr made = 0;
    int result = (int)__cudart17(&made, bytes, stream);
    __asm__ volatile("");
    *address = (void *)(size_t)made;
    return result;
}

__attribute__((noinline)) int cudaMemsetAsync(void *address, int value, size_t bytes,
                                              struct CUstream_st *stream)
{
    int result = (int)cuMemsetD8Async((CUdeviceptr)address, (unsigned char)value, bytes, stream);
    __asm__ volatile("");
    return result;
}

__attribute__((noinline)) int cudaFreeAsync(void *address, struct CUstream_st *stream)
{
    int result = (int)cuMemFreeAsync((CUdeviceptr)address, stream);
    __asm__ volatile("");
    return result;
}

int cudaDeviceSynchronize(void)
{
    return (int)cuCtxSynchronize();
}
