/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver from the future, over the simulated one: cuMemAlloc has a version of CUDA 99 with
 * arguments that nobody knows yet.
 */
#include <dlfcn.h>
#include <string.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#undef cuGetProcAddress

#define EXPORT(type, name) extern __typeof__(*(type)0) name

EXPORT(PFN_cuInit_v2000, cuInit);
EXPORT(PFN_cuDriverGetVersion_v2020, cuDriverGetVersion);
EXPORT(PFN_cuGetProcAddress_v12000, cuGetProcAddress_v2);
CUresult cuMemAlloc_v3(CUdeviceptr *address, size_t bytes, unsigned what);

/* A function of the simulated device, by the C library's own dlsym: another one takes whoever asks
 * for what is there underneath. */
static void *simulated(const char *symbol)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void *(*look_up)(void *, const char *) = NULL;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]) && look_up == NULL; i++) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        memcpy(&look_up, &found, sizeof(found));
    }
    return look_up(dlopen("libtenure_simcuda.so", RTLD_NOW | RTLD_NOLOAD), symbol);
}

CUresult CUDAAPI cuInit(unsigned flags)
{
    PFN_cuInit_v2000 init;
    void *symbol = simulated("cuInit");
    memcpy(&init, &symbol, sizeof(init));
    return init(flags);
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    *version = 99000;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v3(CUdeviceptr *address, size_t bytes, unsigned what)
{
    PFN_cuMemAlloc_v3020 second;
    void *symbol = simulated("cuMemAlloc_v2");
    memcpy(&second, &symbol, sizeof(second));
    return what != 7 ? CUDA_ERROR_INVALID_VALUE : second(address, bytes);
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    CUresult (*third)(CUdeviceptr *, size_t, unsigned) = cuMemAlloc_v3;
    PFN_cuGetProcAddress_v12000 second;
    void *own = simulated("cuGetProcAddress_v2");
    memcpy(&second, &own, sizeof(second));
    if (strcmp(symbol, "cuMemAlloc") != 0 || version < 99000)
        return second(symbol, function, version, flags, status);
    memcpy(function, &third, sizeof(third));
    return CUDA_SUCCESS;
}
