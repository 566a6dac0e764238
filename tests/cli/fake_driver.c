/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver libraries that are no good, for the tests of `tenure doctor` and of start-up errors.
 *
 * Compiled several times with FAKE_KIND set to one of:
 *   FAKE_EMPTY      a library with no driver functions at all
 *   FAKE_OLD        a driver that says it is CUDA 10.1 and lacks what is newer
 *   FAKE_NO_DEVICE  a driver that starts with CUDA_ERROR_NO_DEVICE, as on a machine without a GPU
 */
#include <string.h>

#include <cuda.h>

#define FAKE_EMPTY 1
#define FAKE_OLD 2
#define FAKE_NO_DEVICE 3

/* Something to be in the library in any case. */
int fake_driver_kind(void);
int fake_driver_kind(void)
{
    return FAKE_KIND;
}

#if FAKE_KIND != FAKE_EMPTY

/* The newest entry point that the old driver has came with CUDA 10.1. */
#define FAKE_VERSION (FAKE_KIND == FAKE_OLD ? 10010 : 13000)

CUresult cuDriverGetVersion(int *version)
{
    *version = FAKE_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    (void)flags;
    return CUDA_ERROR_NO_DEVICE;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = 0;
    return CUDA_ERROR_NO_DEVICE;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_NO_DEVICE ? "no CUDA-capable device is detected" : "unknown error";
    return CUDA_SUCCESS;
}

/* Stands for every entry point that nobody gets as far as calling. */
static CUresult never_called(void)
{
    return CUDA_ERROR_UNKNOWN;
}

static void pointer_copy(void **pfn, const void *function)
{
    memcpy(pfn, function, sizeof(*pfn));
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *found)
{
    (void)flags;
    CUresult (*never)(void) = never_called;
    CUresult (*get_version)(int *) = cuDriverGetVersion;
    CUresult (*init)(unsigned int) = cuInit;
    CUresult (*count)(int *) = cuDeviceGetCount;
    CUresult (*name)(CUresult, const char **) = cuGetErrorName;
    CUresult (*string)(CUresult, const char **) = cuGetErrorString;
    if (version > FAKE_VERSION) {
        *pfn = NULL;
        if (found)
            *found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        return FAKE_KIND == FAKE_OLD ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
    }
    if (strcmp(symbol, "cuDriverGetVersion") == 0)
        pointer_copy(pfn, &get_version);
    else if (strcmp(symbol, "cuInit") == 0)
        pointer_copy(pfn, &init);
    else if (strcmp(symbol, "cuDeviceGetCount") == 0)
        pointer_copy(pfn, &count);
    else if (strcmp(symbol, "cuGetErrorName") == 0)
        pointer_copy(pfn, &name);
    else if (strcmp(symbol, "cuGetErrorString") == 0)
        pointer_copy(pfn, &string);
    else
        pointer_copy(pfn, &never);
    if (found)
        *found = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

#endif
