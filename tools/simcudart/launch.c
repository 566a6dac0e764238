/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of kernels. `f<<<...>>>(...)` pushes its configuration, calls f's function on the host,
 * and that pops the configuration and launches.
 */
#include "rt.h"

#include <string.h>

#include "function.h"
#include "module.h"

/* ---- configurations ------------------------------------------------------------------------- */

typedef struct configuration {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
} configuration;

enum { NESTED_MAX = 32 };

static _Thread_local configuration stack[NESTED_MAX];
static _Thread_local size_t stack_depth;

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                     struct CUstream_st *stream)
{
    if (stack_depth == NESTED_MAX)
        return 1;
    stack[stack_depth++] = (configuration){gridDim, blockDim, sharedMem, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                       void *stream)
{
    if (stack_depth == 0)
        return rt_fail(cudaErrorMissingConfiguration);
    const configuration *one = &stack[--stack_depth];
    *gridDim = one->grid;
    *blockDim = one->block;
    *sharedMem = one->shared_bytes;
    memcpy(stream, &one->stream, sizeof(one->stream));
    return cudaSuccess;
}

/* ---- launches ------------------------------------------------------------------------------- */

int rt_shape_is_valid(dim3 grid, dim3 block)
{
    enum { THREADS_MAX = 1024, BLOCK_Z_MAX = 64, GRID_X_MAX = 2147483647, GRID_YZ_MAX = 65535 };
    return grid.x != 0 && grid.y != 0 && grid.z != 0 && block.x != 0 && block.y != 0 &&
           block.z != 0 && grid.x <= GRID_X_MAX && grid.y <= GRID_YZ_MAX && grid.z <= GRID_YZ_MAX &&
           block.x <= THREADS_MAX && block.y <= THREADS_MAX && block.z <= BLOCK_Z_MAX &&
           (uint64_t)block.x * block.y * block.z <= THREADS_MAX;
}

cudaError_t rt_launch(rt_kernel *kernel, CUfunction function, const CUlaunchConfig *config,
                      void **parameters)
{
    const dim3 grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const dim3 block = {config->blockDimX, config->blockDimY, config->blockDimZ};
    const rt_code_kernel *code = rt_kernel_code(kernel);
    if (!rt_shape_is_valid(grid, block))
        return rt_fail(cudaErrorInvalidConfiguration);
    if (code != NULL && code->threads_max != 0 &&
        (uint64_t)block.x * block.y * block.z > (uint64_t)code->threads_max)
        return rt_fail(cudaErrorLaunchOutOfResources);
    if (config->sharedMemBytes > (size_t)rt_dynamic_bytes_max(kernel, code))
        return rt_fail(cudaErrorInvalidValue);
    return rt_end(rt.cuLaunchKernelEx(config, function, parameters, NULL));
}

static CUlaunchConfig config_make(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream)
{
    return (CUlaunchConfig){.gridDimX = grid.x,
                            .gridDimY = grid.y,
                            .gridDimZ = grid.z,
                            .blockDimX = block.x,
                            .blockDimY = block.y,
                            .blockDimZ = block.z,
                            .sharedMemBytes =
                                (unsigned)(shared_bytes > UINT32_MAX ? UINT32_MAX : shared_bytes),
                            .hStream = stream};
}

static cudaError_t entry_launch(const void *entry, const CUlaunchConfig *config, void **parameters)
{
    CUfunction function = NULL;
    RT_BEGIN();
    rt_kernel *kernel = rt_kernel_find(entry);
    if (kernel == NULL)
        return rt_fail(cudaErrorInvalidDeviceFunction);
    if (!rt_shape_is_valid((dim3){config->gridDimX, config->gridDimY, config->gridDimZ},
                           (dim3){config->blockDimX, config->blockDimY, config->blockDimZ}))
        return rt_fail(cudaErrorInvalidConfiguration);
    cudaError_t error = rt_kernel_function(kernel, &function);
    return error != cudaSuccess ? error : rt_launch(kernel, function, config, parameters);
}

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                             size_t sharedMem, cudaStream_t stream)
{
    const CUlaunchConfig config = config_make(gridDim, blockDim, sharedMem, stream);
    return entry_launch(func, &config, args);
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                        size_t sharedMem, cudaStream_t stream)
{
    int blocks = 0;
    cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, func, (int)(blockDim.x * blockDim.y * blockDim.z), sharedMem);
    if (error != cudaSuccess)
        return error;
    if ((uint64_t)gridDim.x * gridDim.y * gridDim.z >
        (uint64_t)blocks * (uint64_t)rt_multiprocessors())
        return rt_fail(cudaErrorCooperativeLaunchTooLarge);
    return cudaLaunchKernel(func, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    _Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "the driver's");
    if (config == NULL || (config->numAttrs != 0 && config->attrs == NULL))
        return rt_fail(cudaErrorInvalidValue);
    CUlaunchConfig made =
        config_make(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
    made.attrs = (CUlaunchAttribute *)(void *)config->attrs; /* the same numbers and layout */
    made.numAttrs = config->numAttrs;
    return entry_launch(func, &made, args);
}

/* ---- by handle ------------------------------------------------------------------------------ */

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *entry)
{
    rt_kernel *found = rt_kernel_find(entry);
    *kernel = (cudaKernel_t)(void *)found;
    return found == NULL ? rt_fail(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
    return kernelPtr == NULL ? rt_fail(cudaErrorInvalidValue)
                             : __cudaGetKernel(kernelPtr, entryFuncAddr);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                               size_t sharedMem, cudaStream_t stream)
{
    return cudaLaunchKernel((const void *)kernel, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                    size_t sharedMem, cudaStream_t stream)
{
    return __cudaLaunchKernel(kernel, gridDim, blockDim, args, sharedMem, rt_own(stream));
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
    RT_BEGIN();
    return functionPtr == NULL ? rt_fail(cudaErrorInvalidValue)
                               : rt_function(symbolPtr, functionPtr);
}
