/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of the CUDA runtime as c10 and tools/python/tenure/native call, over the simulated
 * device. The program's own definitions come before those of libcudart.so, which finds no driver
 * here.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>

namespace
{

thread_local int current = 0;

cudaError_t result_of(CUresult result)
{
    return static_cast<cudaError_t>(result);
}

cudaError_t context_use(int device)
{
    CUcontext context = nullptr;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_SUCCESS)
        result = cuCtxSetCurrent(context);
    return result_of(result);
}

} // namespace

#define STUB extern "C" __attribute__((visibility("default")))

STUB cudaError_t cudaGetDeviceCount(int *count)
{
    CUresult result = cuInit(0);
    return result_of(result == CUDA_SUCCESS ? cuDeviceGetCount(count) : result);
}

STUB cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

STUB cudaError_t cudaSetDevice(int device)
{
    current = device;
    return context_use(device);
}

STUB cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}

STUB const char *cudaGetErrorString(cudaError_t)
{
    return "an error of the simulated device";
}

/* PyTorch's own allocator asks; none of its answers matters here. */
STUB cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int)
{
    *properties = {};
    return cudaSuccess;
}

STUB cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    return result_of(cuMemGetInfo(free, total));
}

STUB cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = cuStreamIsCapturing(stream, &found);
    *status = static_cast<cudaStreamCaptureStatus>(found);
    return result_of(result);
}

STUB cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = 0;
    return cudaSuccess;
}

STUB cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
    CUdeviceptr address = 0;
    CUresult result = cuMemAlloc(&address, bytes);
    *ptr = reinterpret_cast<void *>(address);
    return result_of(result);
}

STUB cudaError_t cudaFree(void *ptr)
{
    return result_of(cuMemFree(reinterpret_cast<CUdeviceptr>(ptr)));
}

STUB cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                 cudaStream_t stream)
{
    return result_of(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                   reinterpret_cast<CUdeviceptr>(from), bytes, stream));
}

STUB cudaError_t cudaDeviceSynchronize()
{
    return result_of(cuCtxSynchronize());
}
