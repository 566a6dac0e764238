/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: which there are, which one a thread uses, what can be set for one, and peers.
 */
#include "rt.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { LIMITS_MAX = 16 };

/* What the program has set, by device: nothing depends on it. Under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t limits[RT_DEVICES_MAX][LIMITS_MAX];
static int has_limit[RT_DEVICES_MAX][LIMITS_MAX];
static unsigned device_flags[RT_DEVICES_MAX];
static enum cudaFuncCache cache_config = cudaFuncCachePreferNone;
static enum cudaSharedMemConfig bank_size = cudaSharedMemBankSizeFourByte;

static cudaError_t device_check(int device)
{
    int count = 0;
    cudaError_t error = rt_open();
    if (error == cudaSuccess)
        error = rt_end(rt.cuDeviceGetCount(&count));
    if (error != cudaSuccess)
        return error;
    return rt_fail(device < 0 || device >= count ? cudaErrorInvalidDevice : cudaSuccess);
}

/* ---- which device --------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = rt_open();
    if (count != NULL)
        *count = 0;
    if (error != cudaSuccess)
        return error;
    error = rt_end(count == NULL ? CUDA_ERROR_INVALID_VALUE : rt.cuDeviceGetCount(count));
    return error == cudaSuccess && *count == 0 ? rt_fail(cudaErrorNoDevice) : error;
}

cudaError_t cudaSetDevice(int device)
{
    CUcontext context = NULL;
    cudaError_t error = device_check(device);
    if (error != cudaSuccess)
        return error;
    rt_device_choose(device);
    CUresult result = rt_primary(device, &context);
    return rt_end(result == CUDA_SUCCESS ? rt.cuCtxSetCurrent(context) : result);
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    CUcontext context = NULL;
    (void)deviceFlags;
    cudaError_t error = device_check(device);
    if (error != cudaSuccess)
        return error;
    return rt_end((flags & ~(unsigned)cudaInitDeviceFlagsAreValid) != 0
                      ? CUDA_ERROR_INVALID_VALUE
                      : rt_primary(device, &context));
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    if (device == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *device = rt_device();
    return cudaSuccess;
}

cudaError_t cudaSetValidDevices(int *device_arr, int len)
{
    for (int i = 0; i < len; i++) {
        cudaError_t error = device_check(device_arr[i]);
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}

cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    if (device == NULL || prop == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *device = 0; /* they are alike */
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    RT_BEGIN();
    return rt_end(rt.cuCtxSynchronize());
}

/* Work that is queued is done before, as programs rely on that print from kernels. */
cudaError_t cudaDeviceReset(void)
{
    unsigned flags = 0;
    int is_active = 0;
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    if (rt.cuDevicePrimaryCtxGetState(rt_device(), &flags, &is_active) == CUDA_SUCCESS && is_active)
        (void)cudaDeviceSynchronize();
    CUresult result = rt.cuDevicePrimaryCtxReset(rt_device());
    rt_managed_forget_all();
    rt_arrays_forget_all();
    rt_errors_clear();
    return rt_end(result);
}

/* ---- names ---------------------------------------------------------------------------------- */

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    int bus = 0, slot = 0, domain = 0;
    cudaError_t error = device_check(device);
    if (error != cudaSuccess)
        return error;
    if (pciBusId == NULL || len < 13)
        return rt_fail(cudaErrorInvalidValue);
    (void)rt.cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
    (void)rt.cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device);
    (void)rt.cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device);
    snprintf(pciBusId, (size_t)len, "%04x:%02x:%02x.0", domain & 0xffff, bus & 0xff, slot & 0xff);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
    int count = 0;
    unsigned domain = 0, bus = 0, slot = 0;
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    if (device == NULL || pciBusId == NULL)
        return rt_fail(cudaErrorInvalidValue);
    if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) != 3) {
        domain = 0;
        if (sscanf(pciBusId, "%x:%x", &bus, &slot) != 2)
            return rt_fail(cudaErrorInvalidValue);
    }
    (void)rt.cuDeviceGetCount(&count);
    for (int i = 0; i < count; i++) {
        char name[16], wanted[16];
        snprintf(wanted, sizeof(wanted), "%04x:%02x:%02x.0", domain & 0xffff, bus & 0xff,
                 slot & 0xff);
        if (cudaDeviceGetPCIBusId(name, sizeof(name), i) == cudaSuccess &&
            strcmp(name, wanted) == 0) {
            *device = i;
            return cudaSuccess;
        }
    }
    return rt_fail(cudaErrorInvalidDevice);
}

/* ---- what can be set ------------------------------------------------------------------------ */

static size_t limit_default(enum cudaLimit limit)
{
    switch (limit) {
    case cudaLimitStackSize:
        return 1024;
    case cudaLimitPrintfFifoSize:
        return (size_t)7 << 20;
    case cudaLimitMallocHeapSize:
        return (size_t)8 << 20;
    case cudaLimitDevRuntimeSyncDepth:
        return 2;
    case cudaLimitDevRuntimePendingLaunchCount:
        return 2048;
    case cudaLimitMaxL2FetchGranularity:
        return 64;
    default:
        return 0;
    }
}

static int limit_is_known(enum cudaLimit limit)
{
    return (int)limit >= 0 && limit <= cudaLimitPersistingL2CacheSize;
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    RT_BEGIN();
    if (!limit_is_known(limit))
        return rt_fail(cudaErrorUnsupportedLimit);
    int device = rt_device();
    pthread_mutex_lock(&lock);
    limits[device][limit] = value;
    has_limit[device][limit] = 1;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit)
{
    RT_BEGIN();
    if (pValue == NULL)
        return rt_fail(cudaErrorInvalidValue);
    if (!limit_is_known(limit))
        return rt_fail(cudaErrorUnsupportedLimit);
    int device = rt_device();
    pthread_mutex_lock(&lock);
    *pValue = has_limit[device][limit] ? limits[device][limit] : limit_default(limit);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig)
{
    RT_BEGIN();
    if (pCacheConfig == NULL)
        return rt_fail(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    *pCacheConfig = cache_config;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig)
{
    RT_BEGIN();
    pthread_mutex_lock(&lock);
    cache_config = cacheConfig;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *pConfig)
{
    RT_BEGIN();
    if (pConfig == NULL)
        return rt_fail(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    *pConfig = bank_size;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    RT_BEGIN();
    pthread_mutex_lock(&lock);
    bank_size = config;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    if ((flags & ~(unsigned)cudaDeviceMask) != 0)
        return rt_fail(cudaErrorInvalidValue);
    int device = rt_device();
    pthread_mutex_lock(&lock);
    device_flags[device] = flags;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    RT_BEGIN();
    if (flags == NULL)
        return rt_fail(cudaErrorInvalidValue);
    int device = rt_device();
    pthread_mutex_lock(&lock);
    *flags = device_flags[device] | cudaDeviceMapHost;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    RT_BEGIN();
    return rt_end(rt.cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    RT_BEGIN();
    return cudaSuccess;
}

/* ---- peers ---------------------------------------------------------------------------------- */

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    return rt_end(rt.cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice));
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
    CUcontext peer = NULL;
    cudaError_t error = device_check(peerDevice);
    if (error != cudaSuccess)
        return error;
    RT_BEGIN();
    CUresult result = rt_primary(peerDevice, &peer);
    return rt_end(result == CUDA_SUCCESS ? rt.cuCtxEnablePeerAccess(peer, flags) : result);
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
    CUcontext peer = NULL;
    cudaError_t error = device_check(peerDevice);
    if (error != cudaSuccess)
        return error;
    RT_BEGIN();
    CUresult result = rt_primary(peerDevice, &peer);
    return rt_end(result == CUDA_SUCCESS ? rt.cuCtxDisablePeerAccess(peer) : result);
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice,
                                      int dstDevice)
{
    cudaError_t error = device_check(srcDevice);
    if (error == cudaSuccess)
        error = device_check(dstDevice);
    if (error != cudaSuccess)
        return error;
    if (value == NULL || srcDevice == dstDevice)
        return rt_fail(cudaErrorInvalidValue);
    *value = 0;
    if (attr == cudaDevP2PAttrAccessSupported)
        return rt_end(rt.cuDeviceCanAccessPeer(value, srcDevice, dstDevice));
    return cudaSuccess;
}
