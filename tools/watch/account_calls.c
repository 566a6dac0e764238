/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that are replaced for the account alone (group ACCOUNT of entries.def): those that make
 * contexts, load code when it is first asked about, or give memory back. With the account off, a
 * program gets these replacements only if it is linked with the driver. Then they only call the
 * driver.
 */
#include "entries.h"
#include "service.h"
#include "watch/account.h"

#define MEASURED(kind, symbol, parameters, arguments)                                              \
    CUresult CUDAAPI replace_##symbol parameters                                                   \
    {                                                                                              \
        CUresult result;                                                                           \
        ACCOUNTED(kind, result = REAL(symbol, arguments));                                         \
        return result;                                                                             \
    }

/* Asked for again and again; what it takes, it takes the first time. */
#define MEASURED_FIRST(kind, symbol, parameters, arguments, handle)                                \
    CUresult CUDAAPI replace_##symbol parameters                                                   \
    {                                                                                              \
        CUresult result;                                                                           \
        ACCOUNTED_FIRST(kind, handle, ACCOUNT_ASKED, result = REAL(symbol, arguments));            \
        return result;                                                                             \
    }

/* ---- contexts ------------------------------------------------------------------------------- */

/* The runtime retains it again and again; only the first time makes it. */
CUresult CUDAAPI replace_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    unsigned flags;
    int is_active = 0;
    CUresult result;
    if (!account_is_on() ||
        REAL(cuDevicePrimaryCtxGetState, (device, &flags, &is_active)) != CUDA_SUCCESS || is_active)
        return REAL(cuDevicePrimaryCtxRetain, (context, device));
    ACCOUNTED_ON(ACCOUNT_CONTEXT, device,
                 result = REAL(cuDevicePrimaryCtxRetain, (context, device)));
    return result;
}

#define CONTEXT_CREATE(symbol, parameters, arguments)                                              \
    CUresult CUDAAPI replace_##symbol parameters                                                   \
    {                                                                                              \
        CUresult result;                                                                           \
        ACCOUNTED_ON(ACCOUNT_CONTEXT, device, result = REAL(symbol, arguments));                   \
        return result;                                                                             \
    }

CONTEXT_CREATE(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device),
               (context, flags, device))
CONTEXT_CREATE(cuCtxCreate_v3,
               (CUcontext * context, CUexecAffinityParam *parameters, int count, unsigned flags,
                CUdevice device),
               (context, parameters, count, flags, device))
CONTEXT_CREATE(cuCtxCreate_v4,
               (CUcontext * context, void *parameters, unsigned flags, CUdevice device),
               (context, parameters, flags, device))

/* Stacks and heaps of kernels are the context's. */
MEASURED(ACCOUNT_CONTEXT, cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))

/* ---- code ----------------------------------------------------------------------------------- */

MEASURED(ACCOUNT_MODULES, cuModuleGetFunction,
         (CUfunction * function, CUmodule module, const char *name), (function, module, name))
MEASURED(ACCOUNT_MODULES, cuModuleGetGlobal_v2,
         (CUdeviceptr * address, size_t *bytes, CUmodule module, const char *name),
         (address, bytes, module, name))
MEASURED(ACCOUNT_MODULES, cuLibraryGetModule, (CUmodule * module, CUlibrary library),
         (module, library))
MEASURED(ACCOUNT_MODULES, cuLibraryGetGlobal,
         (CUdeviceptr * address, size_t *bytes, CUlibrary library, const char *name),
         (address, bytes, library, name))
MEASURED(ACCOUNT_MODULES, cuFuncLoad, (CUfunction function), (function))
MEASURED_FIRST(ACCOUNT_MODULES, cuKernelGetFunction, (CUfunction * function, CUkernel kernel),
               (function, kernel), kernel)
MEASURED_FIRST(ACCOUNT_MODULES, cuFuncGetAttribute,
               (int *value, CUfunction_attribute attribute, CUfunction function),
               (value, attribute, function), function)
MEASURED_FIRST(ACCOUNT_MODULES, cuFuncSetAttribute,
               (CUfunction function, CUfunction_attribute attribute, int value),
               (function, attribute, value), function)
MEASURED_FIRST(ACCOUNT_MODULES, cuKernelGetAttribute,
               (int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device),
               (value, attribute, kernel, device), kernel)
MEASURED_FIRST(ACCOUNT_MODULES, cuKernelSetAttribute,
               (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),
               (attribute, value, kernel, device), kernel)
MEASURED_FIRST(ACCOUNT_MODULES, cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache config),
               (function, config), function)
MEASURED_FIRST(ACCOUNT_MODULES, cuOccupancyMaxActiveBlocksPerMultiprocessor,
               (int *blocks, CUfunction function, int threads, size_t bytes),
               (blocks, function, threads, bytes), function)
MEASURED_FIRST(ACCOUNT_MODULES, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
               (int *blocks, CUfunction function, int threads, size_t bytes, unsigned flags),
               (blocks, function, threads, bytes, flags), function)
MEASURED_FIRST(ACCOUNT_MODULES, cuOccupancyMaxActiveClusters,
               (int *clusters, CUfunction function, const CUlaunchConfig *config),
               (clusters, function, config), function)
MEASURED_FIRST(ACCOUNT_MODULES, cuOccupancyMaxPotentialClusterSize,
               (int *blocks, CUfunction function, const CUlaunchConfig *config),
               (blocks, function, config), function)

/* ---- graphs --------------------------------------------------------------------------------- */

CUresult CUDAAPI replace_cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    CUresult result;
    ACCOUNTED(ACCOUNT_GRAPHS, result = REAL(cuGraphUpload, (exec, stream)));
    return result;
}

CUresult CUDAAPI replace_cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
    return replace_cuGraphUpload(exec, stream_of_thread(stream));
}

/* ---- what gives memory back ----------------------------------------------------------------- */

MEASURED(ACCOUNT_MAPPED, cuMemRelease, (CUmemGenericAllocationHandle handle), (handle))
MEASURED(ACCOUNT_MAPPED, cuMemUnmap, (CUdeviceptr address, size_t bytes), (address, bytes))
MEASURED(ACCOUNT_DRIVER, cuArrayDestroy, (CUarray array), (array))
MEASURED(ACCOUNT_DRIVER, cuMipmappedArrayDestroy, (CUmipmappedArray array), (array))
