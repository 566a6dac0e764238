/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device is: its attributes and properties, as the driver has them.
 */
#include "rt.h"

#include <string.h>

/* Managed memory is the runtime's here (managed.c), so the driver does not know of it. */
static int is_own(CUdevice_attribute attribute)
{
    return attribute == CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY ||
           attribute == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
}

static int attribute_of(int device, CUdevice_attribute attribute)
{
    int value = 0;
    if (is_own(attribute))
        return 1;
    (void)rt.cuDeviceGetAttribute(&value, attribute, device);
    return value;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    CUdevice_attribute attribute = (CUdevice_attribute)attr;
    CUresult result = value == NULL ? CUDA_ERROR_INVALID_VALUE
                                    : rt.cuDeviceGetAttribute(value, attribute, device);
    if (result == CUDA_SUCCESS && is_own(attribute))
        *value = 1;
    return rt_end(result);
}

typedef struct field {
    CUdevice_attribute attribute;
    uint16_t offset;
    uint16_t is_size; /* a size_t, not an int */
} field;

#define INT_FIELD(attribute, name)                                                                 \
    {                                                                                              \
        CU_DEVICE_ATTRIBUTE_##attribute, offsetof(rt_properties, name), 0                          \
    }
#define SIZE_FIELD(attribute, name)                                                                \
    {                                                                                              \
        CU_DEVICE_ATTRIBUTE_##attribute, offsetof(rt_properties, name), 1                          \
    }

typedef struct cudaDeviceProp rt_properties;

static const field fields[] = {
    SIZE_FIELD(MAX_SHARED_MEMORY_PER_BLOCK, sharedMemPerBlock),
    INT_FIELD(MAX_REGISTERS_PER_BLOCK, regsPerBlock),
    INT_FIELD(WARP_SIZE, warpSize),
    SIZE_FIELD(MAX_PITCH, memPitch),
    INT_FIELD(MAX_THREADS_PER_BLOCK, maxThreadsPerBlock),
    INT_FIELD(MAX_BLOCK_DIM_X, maxThreadsDim[0]),
    INT_FIELD(MAX_BLOCK_DIM_Y, maxThreadsDim[1]),
    INT_FIELD(MAX_BLOCK_DIM_Z, maxThreadsDim[2]),
    INT_FIELD(MAX_GRID_DIM_X, maxGridSize[0]),
    INT_FIELD(MAX_GRID_DIM_Y, maxGridSize[1]),
    INT_FIELD(MAX_GRID_DIM_Z, maxGridSize[2]),
    SIZE_FIELD(TOTAL_CONSTANT_MEMORY, totalConstMem),
    INT_FIELD(COMPUTE_CAPABILITY_MAJOR, major),
    INT_FIELD(COMPUTE_CAPABILITY_MINOR, minor),
    SIZE_FIELD(TEXTURE_ALIGNMENT, textureAlignment),
    SIZE_FIELD(TEXTURE_PITCH_ALIGNMENT, texturePitchAlignment),
    INT_FIELD(MULTIPROCESSOR_COUNT, multiProcessorCount),
    INT_FIELD(INTEGRATED, integrated),
    INT_FIELD(CAN_MAP_HOST_MEMORY, canMapHostMemory),
    INT_FIELD(CONCURRENT_KERNELS, concurrentKernels),
    INT_FIELD(ECC_ENABLED, ECCEnabled),
    INT_FIELD(PCI_BUS_ID, pciBusID),
    INT_FIELD(PCI_DEVICE_ID, pciDeviceID),
    INT_FIELD(PCI_DOMAIN_ID, pciDomainID),
    INT_FIELD(ASYNC_ENGINE_COUNT, asyncEngineCount),
    INT_FIELD(UNIFIED_ADDRESSING, unifiedAddressing),
    INT_FIELD(GLOBAL_MEMORY_BUS_WIDTH, memoryBusWidth),
    INT_FIELD(L2_CACHE_SIZE, l2CacheSize),
    INT_FIELD(MAX_THREADS_PER_MULTIPROCESSOR, maxThreadsPerMultiProcessor),
    INT_FIELD(STREAM_PRIORITIES_SUPPORTED, streamPrioritiesSupported),
    INT_FIELD(GLOBAL_L1_CACHE_SUPPORTED, globalL1CacheSupported),
    INT_FIELD(LOCAL_L1_CACHE_SUPPORTED, localL1CacheSupported),
    SIZE_FIELD(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, sharedMemPerMultiprocessor),
    INT_FIELD(MAX_REGISTERS_PER_MULTIPROCESSOR, regsPerMultiprocessor),
    INT_FIELD(MANAGED_MEMORY, managedMemory),
    INT_FIELD(CONCURRENT_MANAGED_ACCESS, concurrentManagedAccess),
    INT_FIELD(COMPUTE_PREEMPTION_SUPPORTED, computePreemptionSupported),
    INT_FIELD(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, canUseHostPointerForRegisteredMem),
    INT_FIELD(COOPERATIVE_LAUNCH, cooperativeLaunch),
    SIZE_FIELD(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, sharedMemPerBlockOptin),
    INT_FIELD(MAX_BLOCKS_PER_MULTIPROCESSOR, maxBlocksPerMultiProcessor),
    SIZE_FIELD(RESERVED_SHARED_MEMORY_PER_BLOCK, reservedSharedMemPerBlock),
    INT_FIELD(HOST_REGISTER_SUPPORTED, hostRegisterSupported),
    INT_FIELD(MEMORY_POOLS_SUPPORTED, memoryPoolsSupported),
    INT_FIELD(MAX_PERSISTING_L2_CACHE_SIZE, persistingL2CacheMaxSize),
    INT_FIELD(MAX_ACCESS_POLICY_WINDOW_SIZE, accessPolicyMaxWindowSize),
    SIZE_FIELD(SURFACE_ALIGNMENT, surfaceAlignment),
    INT_FIELD(MAXIMUM_TEXTURE1D_WIDTH, maxTexture1D),
    INT_FIELD(MAXIMUM_TEXTURE2D_WIDTH, maxTexture2D[0]),
    INT_FIELD(MAXIMUM_TEXTURE2D_HEIGHT, maxTexture2D[1]),
    INT_FIELD(MAXIMUM_TEXTURE2D_LINEAR_WIDTH, maxTexture2DLinear[0]),
    INT_FIELD(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, maxTexture2DLinear[1]),
    INT_FIELD(MAXIMUM_TEXTURE2D_LINEAR_PITCH, maxTexture2DLinear[2]),
    INT_FIELD(MAXIMUM_TEXTURE3D_WIDTH, maxTexture3D[0]),
    INT_FIELD(MAXIMUM_TEXTURE3D_HEIGHT, maxTexture3D[1]),
    INT_FIELD(MAXIMUM_TEXTURE3D_DEPTH, maxTexture3D[2]),
    INT_FIELD(MAXIMUM_TEXTURE1D_LAYERED_WIDTH, maxTexture1DLayered[0]),
    INT_FIELD(MAXIMUM_TEXTURE1D_LAYERED_LAYERS, maxTexture1DLayered[1]),
    INT_FIELD(MAXIMUM_TEXTURE2D_LAYERED_WIDTH, maxTexture2DLayered[0]),
    INT_FIELD(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, maxTexture2DLayered[1]),
    INT_FIELD(MAXIMUM_TEXTURE2D_LAYERED_LAYERS, maxTexture2DLayered[2]),
};

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    CUuuid uuid;
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    if (prop == NULL)
        return rt_fail(cudaErrorInvalidValue);
    memset(prop, 0, sizeof(*prop));
    CUresult result = rt.cuDeviceGetName(prop->name, sizeof(prop->name), device);
    if (result == CUDA_SUCCESS)
        result = rt.cuDeviceTotalMem(&prop->totalGlobalMem, device);
    if (result == CUDA_SUCCESS)
        result = rt.cuDeviceGetUuid(&uuid, device);
    if (result != CUDA_SUCCESS)
        return rt_end(result);
    memcpy(&prop->uuid, &uuid, sizeof(uuid));
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        int value = attribute_of(device, fields[i].attribute);
        char *at = (char *)prop + fields[i].offset;
        size_t size = (size_t)value;
        memcpy(at, fields[i].is_size ? (void *)&size : (void *)&value,
               fields[i].is_size ? sizeof(size) : sizeof(value));
    }
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    cudaError_t error = rt_open();
    if (error != cudaSuccess)
        return error;
    return rt_end(rt.cuDriverGetVersion(driverVersion));
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    if (runtimeVersion == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *runtimeVersion = RT_VERSION;
    return cudaSuccess;
}
