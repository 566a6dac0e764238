/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions, for programs that ask the runtime for them; and the profiler's calls.
 */
#include "entry.h"
#include "rt.h"

static cudaError_t entry_get(const char *symbol, void **function, int version,
                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    RT_BEGIN();
    if (symbol == NULL || function == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuGetProcAddress(symbol, function, version, flags, &found);
    if (status != NULL)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    /* That there is none such is an answer, where there is a place for it. */
    return rt_end(result == CUDA_ERROR_NOT_FOUND && status != NULL ? CUDA_SUCCESS : result);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
                                             unsigned int cudaVersion, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_get(symbol, funcPtr, (int)cudaVersion, flags, driverStatus);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_get(symbol, funcPtr, RT_VERSION, flags, driverStatus);
}

static unsigned long long own_stream(unsigned long long flags)
{
    return flags == cudaEnableDefault ? cudaEnablePerThreadDefaultStream : flags;
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(
    const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_get(symbol, funcPtr, (int)cudaVersion, own_stream(flags), driverStatus);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr,
                                         unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_get(symbol, funcPtr, RT_VERSION, own_stream(flags), driverStatus);
}

cudaError_t cudaProfilerStart(void)
{
    RT_BEGIN();
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
    RT_BEGIN();
    return cudaSuccess;
}
