/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other processes. The simulated driver has none of this by itself; under `tenure run`
 * Tenure answers, whose memory can be handed on.
 */
#include "rt.h"

#include <string.h>

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "one handle for both");

static cudaError_t answer(CUresult result)
{
    return result == CUDA_ERROR_NOT_SUPPORTED ? rt_unserved("memory of other processes")
                                              : rt_end(result);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
    CUipcMemHandle made;
    RT_BEGIN();
    if (handle == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuIpcGetMemHandle(&made, (CUdeviceptr)(uintptr_t)devPtr);
    if (result == CUDA_SUCCESS)
        memcpy(handle, &made, sizeof(made));
    return answer(result);
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUdeviceptr address = 0;
    CUipcMemHandle given;
    RT_BEGIN();
    if (devPtr == NULL)
        return rt_fail(cudaErrorInvalidValue);
    memcpy(&given, &handle, sizeof(given));
    CUresult result = rt.cuIpcOpenMemHandle(&address, given, flags);
    if (result == CUDA_SUCCESS)
        *devPtr = (void *)(uintptr_t)address;
    return answer(result);
}

cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
    RT_BEGIN();
    return answer(rt.cuIpcCloseMemHandle((CUdeviceptr)(uintptr_t)devPtr));
}
