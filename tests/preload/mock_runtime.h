/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small CUDA runtime, to stand in for libcudart where the simulated device does: linked
 * statically and dynamically, it finds the driver as the real one does. Names and types are the
 * real one's.
 */
#ifndef TENURE_TESTS_PRELOAD_MOCK_RUNTIME_H
#define TENURE_TESTS_PRELOAD_MOCK_RUNTIME_H

#include <stddef.h>

#define MOCK_API __attribute__((visibility("default")))

enum { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;

enum {
    cudaMemoryTypeUnregistered,
    cudaMemoryTypeHost,
    cudaMemoryTypeDevice,
    cudaMemoryTypeManaged
};
typedef struct cudaPointerAttributes {
    int type;
    int device;
    void *devicePointer;
    void *hostPointer;
} cudaPointerAttributes;

MOCK_API cudaError_t cudaMalloc(void **block, size_t bytes);
MOCK_API cudaError_t cudaFree(void *block);
MOCK_API cudaError_t cudaMallocAsync(void **block, size_t bytes, cudaStream_t stream);
MOCK_API cudaError_t cudaFreeAsync(void *block, cudaStream_t stream);
MOCK_API cudaError_t cudaMemsetAsync(void *block, int value, size_t bytes, cudaStream_t stream);
MOCK_API cudaError_t cudaMemcpyToHost(void *to, const void *from, size_t bytes,
                                      cudaStream_t stream);
MOCK_API cudaError_t cudaStreamCreate(cudaStream_t *stream);
MOCK_API cudaError_t cudaStreamDestroy(cudaStream_t stream);
MOCK_API cudaError_t cudaStreamSynchronize(cudaStream_t stream);
MOCK_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *told, const void *address);
MOCK_API cudaError_t cudaGetLastError(void);
MOCK_API cudaError_t cudaDeviceReset(void);

#endif
