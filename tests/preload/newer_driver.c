/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver from the future: cuMemAlloc has a version of CUDA 99 with arguments that nobody knows
 * yet. Only its look-up works.
 */
#include <string.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#undef cuMemAlloc
#undef cuGetProcAddress

#define EXPORT(type, name) extern __typeof__(*(type)0) name

EXPORT(PFN_cuInit_v2000, cuInit);
EXPORT(PFN_cuDriverGetVersion_v2020, cuDriverGetVersion);
EXPORT(PFN_cuMemAlloc_v3020, cuMemAlloc_v2);
EXPORT(PFN_cuGetProcAddress_v12000, cuGetProcAddress_v2);
CUresult cuMemAlloc_v3(CUdeviceptr *address, size_t bytes, unsigned what);

CUresult CUDAAPI cuInit(unsigned flags)
{
    (void)flags;
    return CUDA_ERROR_NO_DEVICE;
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    *version = 99000;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    (void)address;
    (void)bytes;
    return CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuMemAlloc_v3(CUdeviceptr *address, size_t bytes, unsigned what)
{
    (void)address;
    (void)bytes;
    (void)what;
    return CUDA_ERROR_NOT_INITIALIZED;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    (void)flags;
    (void)status;
    CUresult (*third)(CUdeviceptr *, size_t, unsigned) = cuMemAlloc_v3;
    PFN_cuMemAlloc_v3020 second = cuMemAlloc_v2;
    *function = NULL;
    if (strcmp(symbol, "cuMemAlloc") == 0 && version >= 99000)
        memcpy(function, &third, sizeof(third));
    else if (strcmp(symbol, "cuMemAlloc") == 0)
        memcpy(function, &second, sizeof(second));
    return *function == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
