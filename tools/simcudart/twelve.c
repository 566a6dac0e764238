/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libcudart.so.12 has and libcudart.so.13 has no more: older forms of calls, by those of now.
 * The headers of CUDA 13 do not declare them.
 */
#include "rt.h"

#include <string.h>

#undef cudaMemPrefetchAsync
#undef cudaMemPrefetchAsync_ptsz
#undef cudaMemAdvise
#undef cudaGraphAddDependencies
#undef cudaGraphRemoveDependencies
#undef cudaGraphGetEdges
#undef cudaGraphNodeGetDependencies
#undef cudaGraphNodeGetDependentNodes
#undef cudaStreamUpdateCaptureDependencies
#undef cudaStreamUpdateCaptureDependencies_ptsz
#undef cudaEventElapsedTime
#undef cudaPointerGetAttributes
#undef cudaMemcpyBatchAsync
#undef cudaMemcpyBatchAsync_ptsz

#define OLDER(name, parameters)                                                                    \
    cudaError_t name parameters;                                                                   \
    cudaError_t name parameters

/* ---- memory --------------------------------------------------------------------------------- */

static struct cudaMemLocation location_of(int device)
{
    return (struct cudaMemLocation){.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost
                                                                      : cudaMemLocationTypeDevice,
                                    .id = device == cudaCpuDeviceId ? 0 : device};
}

OLDER(cudaMemPrefetchAsync, (const void *devPtr, size_t count, int device, cudaStream_t stream))
{
    return cudaMemPrefetchAsync_v2(devPtr, count, location_of(device), 0, stream);
}

OLDER(cudaMemPrefetchAsync_ptsz,
      (const void *devPtr, size_t count, int device, cudaStream_t stream))
{
    return cudaMemPrefetchAsync_v2(devPtr, count, location_of(device), 0, rt_own(stream));
}

OLDER(cudaMemAdvise, (const void *devPtr, size_t count, enum cudaMemoryAdvise advice, int device))
{
    return cudaMemAdvise_v2(devPtr, count, advice, location_of(device));
}

/* Without what CUDA 13 keeps behind it. */
typedef struct pointer_attributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer;
    void *hostPointer;
} pointer_attributes;

OLDER(cudaPointerGetAttributes, (pointer_attributes * attributes, const void *ptr))
{
    struct cudaPointerAttributes whole;
    cudaError_t error = rt_pointer_of_13(attributes == NULL ? NULL : &whole, ptr);
    if (error == cudaSuccess)
        *attributes =
            (pointer_attributes){whole.type, whole.device, whole.devicePointer, whole.hostPointer};
    return error;
}

OLDER(cudaMemcpyBatchAsync, (void **dsts, const void *const *srcs, size_t *sizes, size_t count,
                             struct cudaMemcpyAttributes *attrs, size_t *indices, size_t attr_count,
                             size_t *failed, cudaStream_t stream))
{
    if (failed != NULL)
        *failed = SIZE_MAX; /* it is not known which */
    return rt_batch_of_13(dsts, srcs, sizes, count, attrs, indices, attr_count, stream);
}

OLDER(cudaMemcpyBatchAsync_ptsz, (void **dsts, const void *const *srcs, size_t *sizes, size_t count,
                                  struct cudaMemcpyAttributes *attrs, size_t *indices,
                                  size_t attr_count, size_t *failed, cudaStream_t stream))
{
    return cudaMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, indices, attr_count, failed,
                                rt_own(stream));
}

OLDER(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end))
{
    return cudaEventElapsedTime_v2(ms, start, end);
}

/* ---- graphs: edges without data ------------------------------------------------------------- */

OLDER(cudaGraphAddDependencies,
      (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count))
{
    return cudaGraphAddDependencies_v2(graph, from, to, NULL, count);
}

OLDER(cudaGraphRemoveDependencies,
      (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count))
{
    return cudaGraphRemoveDependencies_v2(graph, from, to, NULL, count);
}

OLDER(cudaGraphGetEdges,
      (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count))
{
    return cudaGraphGetEdges_v2(graph, from, to, NULL, count);
}

OLDER(cudaGraphNodeGetDependencies, (cudaGraphNode_t node, cudaGraphNode_t *before, size_t *count))
{
    return cudaGraphNodeGetDependencies_v2(node, before, NULL, count);
}

OLDER(cudaGraphNodeGetDependentNodes, (cudaGraphNode_t node, cudaGraphNode_t *after, size_t *count))
{
    return cudaGraphNodeGetDependentNodes_v2(node, after, NULL, count);
}

OLDER(cudaStreamUpdateCaptureDependencies,
      (cudaStream_t stream, cudaGraphNode_t *after, size_t count, unsigned flags))
{
    return cudaStreamUpdateCaptureDependencies_v2(stream, after, NULL, count, flags);
}

OLDER(cudaStreamUpdateCaptureDependencies_ptsz,
      (cudaStream_t stream, cudaGraphNode_t *after, size_t count, unsigned flags))
{
    return cudaStreamUpdateCaptureDependencies_v2(rt_own(stream), after, NULL, count, flags);
}

OLDER(cudaStreamGetCaptureInfo_v2,
      (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
       cudaGraph_t *graph, const cudaGraphNode_t **after, size_t *count))
{
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, after, NULL, count);
}

OLDER(cudaStreamGetCaptureInfo_v2_ptsz,
      (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
       cudaGraph_t *graph, const cudaGraphNode_t **after, size_t *count))
{
    return cudaStreamGetCaptureInfo_v3(rt_own(stream), status, id, graph, after, NULL, count);
}

/* ---- properties ----------------------------------------------------------------------------- */

/* As driver_types.h of CUDA 12 has it. */
typedef struct properties {
    char name[256];
    char uuid[16];
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory,
        computeMode;
    int textures[40];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver,
        asyncEngineCount, unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize,
        persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported,
        globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID,
        hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio, pageableMemoryAccess,
        concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem,
        cooperativeLaunch, cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost,
        maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported,
        timelineSemaphoreInteropSupported, memoryPoolsSupported, others[71];
} properties;

_Static_assert(sizeof(properties) == 1032, "as CUDA 12 has it");

#define SAME(field) to->field = from->field

static void properties_copy(properties *to, const struct cudaDeviceProp *from)
{
    memset(to, 0, sizeof(*to));
    memcpy(to->name, from->name, sizeof(to->name));
    memcpy(to->uuid, &from->uuid, sizeof(to->uuid));
    memcpy(to->maxThreadsDim, from->maxThreadsDim, sizeof(to->maxThreadsDim));
    memcpy(to->maxGridSize, from->maxGridSize, sizeof(to->maxGridSize));
    SAME(totalGlobalMem);
    SAME(sharedMemPerBlock);
    SAME(regsPerBlock);
    SAME(warpSize);
    SAME(memPitch);
    SAME(maxThreadsPerBlock);
    SAME(totalConstMem);
    SAME(major);
    SAME(minor);
    SAME(textureAlignment);
    SAME(texturePitchAlignment);
    SAME(multiProcessorCount);
    SAME(canMapHostMemory);
    SAME(concurrentKernels);
    SAME(pciBusID);
    SAME(pciDeviceID);
    SAME(pciDomainID);
    SAME(asyncEngineCount);
    SAME(unifiedAddressing);
    SAME(memoryBusWidth);
    SAME(l2CacheSize);
    SAME(maxThreadsPerMultiProcessor);
    SAME(streamPrioritiesSupported);
    SAME(sharedMemPerMultiprocessor);
    SAME(regsPerMultiprocessor);
    SAME(managedMemory);
    SAME(concurrentManagedAccess);
    SAME(computePreemptionSupported);
    SAME(canUseHostPointerForRegisteredMem);
    SAME(cooperativeLaunch);
    SAME(sharedMemPerBlockOptin);
    SAME(maxBlocksPerMultiProcessor);
    SAME(reservedSharedMemPerBlock);
    SAME(hostRegisterSupported);
    SAME(memoryPoolsSupported);
    SAME(ECCEnabled);
    SAME(globalL1CacheSupported);
    SAME(localL1CacheSupported);
    SAME(surfaceAlignment);
    SAME(persistingL2CacheMaxSize);
    SAME(accessPolicyMaxWindowSize);
    to->deviceOverlap = from->asyncEngineCount > 0;
}

OLDER(cudaGetDeviceProperties_v2, (properties * prop, int device))
{
    struct cudaDeviceProp whole;
    cudaError_t error = rt_properties_of_13(prop == NULL ? NULL : &whole, device);
    if (error != cudaSuccess)
        return error;
    properties_copy(prop, &whole);
    /* CUDA 13 has these as attributes alone. */
    (void)rt.cuDeviceGetAttribute(&prop->clockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device);
    (void)rt.cuDeviceGetAttribute(&prop->memoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
                                  device);
    (void)rt.cuDeviceGetAttribute(&prop->singleToDoublePrecisionPerfRatio,
                                  CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
                                  device);
    return cudaSuccess;
}
