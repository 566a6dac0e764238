/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel is and needs, as its machine code says, and how many of its blocks a
 * multiprocessor of the simulated device has room for.
 *
 * Nothing runs, so occupancy is a matter of sizes: registers, shared memory, threads and blocks.
 */
#include "function.h"

#include <string.h>

enum { WARP = 32, REGISTER_UNIT = 256, SHARED_UNIT = 128, SHARED_DEFAULT = 48 << 10 };

static int attribute_of(CUdevice_attribute attribute)
{
    int value = 0;
    (void)rt.cuDeviceGetAttribute(&value, attribute, rt_device());
    return value;
}

int rt_multiprocessors(void)
{
    return attribute_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
}

int rt_dynamic_bytes_max(const rt_kernel *kernel, const rt_code_kernel *code)
{
    int own = code == NULL ? 0 : (int)code->shared_bytes;
    return kernel->dynamic_bytes_max != 0 ? kernel->dynamic_bytes_max : SHARED_DEFAULT - own;
}

static cudaError_t kernel_get(const void *entry, rt_kernel **kernel, const rt_code_kernel **code)
{
    RT_BEGIN();
    *kernel = rt_kernel_find(entry);
    if (*kernel == NULL)
        return rt_fail(cudaErrorInvalidDeviceFunction);
    *code = rt_kernel_code(*kernel);
    return cudaSuccess;
}

/* ---- attributes ----------------------------------------------------------------------------- */

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    rt_kernel *kernel = NULL;
    const rt_code_kernel *code = NULL;
    cudaError_t error = kernel_get(func, &kernel, &code);
    if (error != cudaSuccess)
        return error;
    if (attr == NULL)
        return rt_fail(cudaErrorInvalidValue);
    memset(attr, 0, sizeof(*attr));
    int threads = attribute_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    attr->maxThreadsPerBlock = code != NULL && code->threads_max != 0 ? code->threads_max : threads;
    if (code != NULL) {
        attr->sharedSizeBytes = code->shared_bytes;
        attr->localSizeBytes = code->local_bytes;
        attr->numRegs = code->registers;
    }
    attr->binaryVersion = 10 * attribute_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                          attribute_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    attr->ptxVersion = code != NULL ? code->architecture : attr->binaryVersion;
    attr->maxDynamicSharedSizeBytes = rt_dynamic_bytes_max(kernel, code);
    attr->preferredShmemCarveout = kernel->carveout;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    rt_kernel *kernel = NULL;
    const rt_code_kernel *code = NULL;
    cudaError_t error = kernel_get(func, &kernel, &code);
    if (error != cudaSuccess)
        return error;
    int room = attribute_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) -
               (code == NULL ? 0 : (int)code->shared_bytes);
    if (attr < cudaFuncAttributeMaxDynamicSharedMemorySize || attr >= cudaFuncAttributeMax)
        return rt_fail(cudaErrorInvalidValue);
    if (attr == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || value > room)
            return rt_fail(cudaErrorInvalidValue);
        kernel->dynamic_bytes_max = value;
    }
    if (attr == cudaFuncAttributePreferredSharedMemoryCarveout)
        kernel->carveout = value;
    return cudaSuccess;
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attr,
                                            int value, int device)
{
    (void)device; /* they are alike */
    return cudaFuncSetAttribute((const void *)kernel, attr, value);
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
    rt_kernel *kernel = NULL;
    const rt_code_kernel *code = NULL;
    (void)cacheConfig;
    return kernel_get(func, &kernel, &code);
}

cudaError_t cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
    rt_kernel *kernel = NULL;
    const rt_code_kernel *code = NULL;
    (void)config;
    return kernel_get(func, &kernel, &code);
}

cudaError_t cudaFuncGetName(const char **name, const void *func)
{
    rt_kernel *kernel = NULL;
    const rt_code_kernel *code = NULL;
    cudaError_t error = kernel_get(func, &kernel, &code);
    if (error != cudaSuccess)
        return error;
    if (name == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *name = kernel->name;
    return cudaSuccess;
}

cudaError_t cudaFuncGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset,
                                 size_t *paramSize)
{
    CUfunction function = NULL;
    RT_BEGIN();
    cudaError_t error = rt_function(func, &function);
    if (error != cudaSuccess)
        return error;
    return rt_end(rt.cuFuncGetParamInfo(function, paramIndex, paramOffset, paramSize));
}

/* ---- occupancy ------------------------------------------------------------------------------ */

static int at_most(int a, int b)
{
    return a < b ? a : b;
}

static int blocks_that_fit(const rt_code_kernel *code, int threads, size_t dynamic_bytes)
{
    int warps = (threads + WARP - 1) / WARP;
    int blocks = attribute_of(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    blocks = at_most(blocks, attribute_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) /
                                 WARP / warps);
    int registers = code == NULL ? 0 : code->registers * WARP;
    if (registers != 0) {
        int of_warp = (registers + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
        int room = attribute_of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
        blocks = at_most(blocks, room / of_warp / 4 * 4 / warps); /* four parts, each whole warps */
    }
    size_t shared = dynamic_bytes + (code == NULL ? 0 : code->shared_bytes) +
                    (size_t)attribute_of(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    shared = (shared + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT;
    size_t room = (size_t)attribute_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    return shared == 0 ? blocks : at_most(blocks, (int)(room / shared));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func,
                                                                   int blockSize,
                                                                   size_t dynamicSMemSize,
                                                                   unsigned int flags)
{
    rt_kernel *kernel = NULL;
    const rt_code_kernel *code = NULL;
    cudaError_t error = kernel_get(func, &kernel, &code);
    if (error != cudaSuccess)
        return error;
    if (numBlocks == NULL || blockSize <= 0 ||
        (flags & ~(unsigned)cudaOccupancyDisableCachingOverride) != 0)
        return rt_fail(cudaErrorInvalidValue);
    int threads = attribute_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    if (code != NULL && code->threads_max != 0)
        threads = code->threads_max;
    *numBlocks = blockSize > threads ? 0 : blocks_that_fit(code, blockSize, dynamicSMemSize);
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
                                                          int blockSize, size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                  dynamicSMemSize, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func,
                                                      int numBlocks, int blockSize)
{
    rt_kernel *kernel = NULL;
    const rt_code_kernel *code = NULL;
    cudaError_t error = kernel_get(func, &kernel, &code);
    if (error != cudaSuccess)
        return error;
    if (dynamicSmemSize == NULL || numBlocks <= 0 || blockSize <= 0)
        return rt_fail(cudaErrorInvalidValue);
    int room = attribute_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / numBlocks /
               SHARED_UNIT * SHARED_UNIT;
    room -= attribute_of(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    room = at_most(room, attribute_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
    room -= code == NULL ? 0 : (int)code->shared_bytes;
    *dynamicSmemSize = room > 0 ? (size_t)room : 0;
    return cudaSuccess;
}
