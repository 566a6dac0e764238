/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of graphs: adding them, and what they do.
 */
#include "graph_params.h"

#include <string.h>

/* ---- in the driver's words ------------------------------------------------------------------ */

CUcontext rt_node_context(void)
{
    CUcontext context = NULL;
    (void)rt.cuCtxGetCurrent(&context);
    return context;
}

cudaError_t rt_node_kernel(const struct cudaKernelNodeParams *from, CUDA_KERNEL_NODE_PARAMS *to)
{
    CUfunction function = NULL;
    if (from == NULL)
        return rt_fail(cudaErrorInvalidValue);
    if (!rt_shape_is_valid(from->gridDim, from->blockDim))
        return rt_fail(cudaErrorInvalidConfiguration);
    cudaError_t error = rt_function(from->func, &function);
    if (error != cudaSuccess)
        return error;
    *to = (CUDA_KERNEL_NODE_PARAMS){.func = function,
                                    .gridDimX = from->gridDim.x,
                                    .gridDimY = from->gridDim.y,
                                    .gridDimZ = from->gridDim.z,
                                    .blockDimX = from->blockDim.x,
                                    .blockDimY = from->blockDim.y,
                                    .blockDimZ = from->blockDim.z,
                                    .sharedMemBytes = from->sharedMemBytes,
                                    .kernelParams = from->kernelParams,
                                    .extra = from->extra};
    return cudaSuccess;
}

cudaError_t rt_node_memset(const struct cudaMemsetParams *from, CUDA_MEMSET_NODE_PARAMS *to)
{
    if (from == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *to = (CUDA_MEMSET_NODE_PARAMS){.dst = (CUdeviceptr)(uintptr_t)from->dst,
                                    .pitch = from->pitch,
                                    .value = from->value,
                                    .elementSize = from->elementSize,
                                    .width = from->width,
                                    .height = from->height};
    return cudaSuccess;
}

cudaError_t rt_node_host(const struct cudaHostNodeParams *from, CUDA_HOST_NODE_PARAMS *to)
{
    if (from == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *to = (CUDA_HOST_NODE_PARAMS){.fn = from->fn, .userData = from->userData};
    return cudaSuccess;
}

cudaError_t rt_node_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                         CUDA_MEMCPY3D *box)
{
    const struct cudaMemcpy3DParms whole = {
        .srcPtr = {(void *)(uintptr_t)from, bytes, bytes, 1},
        .dstPtr = {to, bytes, bytes, 1},
        .extent = {bytes, 1, 1},
        .kind = kind,
    };
    return rt_box_make(&whole, box);
}

/* ---- kernels -------------------------------------------------------------------------------- */

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                   const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    RT_BEGIN();
    cudaError_t error = rt_node_kernel(pNodeParams, &params);
    if (error != cudaSuccess)
        return error;
    return rt_end(
        rt.cuGraphAddKernelNode(pGraphNode, graph, pDependencies, numDependencies, &params));
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                         struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    RT_BEGIN();
    if (pNodeParams == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuGraphKernelNodeGetParams(node, &params);
    if (result != CUDA_SUCCESS)
        return rt_end(result);
    const rt_kernel *kernel = rt_kernel_of(params.func);
    const void *entry = kernel == NULL ? (const void *)params.func : kernel->entry;
    *pNodeParams = (struct cudaKernelNodeParams){
        .func = (void *)(uintptr_t)entry,
        .gridDim = {params.gridDimX, params.gridDimY, params.gridDimZ},
        .blockDim = {params.blockDimX, params.blockDimY, params.blockDimZ},
        .sharedMemBytes = params.sharedMemBytes,
        .kernelParams = params.kernelParams,
        .extra = params.extra};
    return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    RT_BEGIN();
    cudaError_t error = rt_node_kernel(pNodeParams, &params);
    return error != cudaSuccess ? error : rt_end(rt.cuGraphKernelNodeSetParams(node, &params));
}

/* ---- copies --------------------------------------------------------------------------------- */

static cudaError_t copy_add(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                            size_t count, const CUDA_MEMCPY3D *box)
{
    return rt_end(rt.cuGraphAddMemcpyNode(node, graph, after, count, box, rt_node_context()));
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                   const struct cudaMemcpy3DParms *pCopyParams)
{
    CUDA_MEMCPY3D box;
    RT_BEGIN();
    cudaError_t error = rt_box_make(pCopyParams, &box);
    return error != cudaSuccess ? error
                                : copy_add(pGraphNode, graph, pDependencies, numDependencies, &box);
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                     void *dst, const void *src, size_t count,
                                     enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D box;
    RT_BEGIN();
    cudaError_t error = rt_node_copy(dst, src, count, kind, &box);
    return error != cudaSuccess ? error
                                : copy_add(pGraphNode, graph, pDependencies, numDependencies, &box);
}

/* The memory of a symbol, from an offset on; null after an error. */
static void *symbol_memory(const void *symbol, size_t offset, size_t bytes, cudaError_t *error)
{
    CUdeviceptr address = 0;
    size_t room = 0;
    *error = rt_variable(symbol, &address, &room);
    if (*error == cudaSuccess && (offset > room || bytes > room - offset))
        *error = rt_fail(cudaErrorInvalidValue);
    return *error == cudaSuccess ? (void *)(uintptr_t)(address + offset) : NULL;
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                           const cudaGraphNode_t *pDependencies,
                                           size_t numDependencies, const void *symbol,
                                           const void *src, size_t count, size_t offset,
                                           enum cudaMemcpyKind kind)
{
    cudaError_t error = cudaSuccess;
    RT_BEGIN();
    void *memory = symbol_memory(symbol, offset, count, &error);
    return memory == NULL ? error
                          : cudaGraphAddMemcpyNode1D(pGraphNode, graph, pDependencies,
                                                     numDependencies, memory, src, count, kind);
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                             const cudaGraphNode_t *pDependencies,
                                             size_t numDependencies, void *dst, const void *symbol,
                                             size_t count, size_t offset, enum cudaMemcpyKind kind)
{
    cudaError_t error = cudaSuccess;
    RT_BEGIN();
    const void *memory = symbol_memory(symbol, offset, count, &error);
    return memory == NULL ? error
                          : cudaGraphAddMemcpyNode1D(pGraphNode, graph, pDependencies,
                                                     numDependencies, dst, memory, count, kind);
}

static enum cudaMemcpyKind kind_of(const CUDA_MEMCPY3D *box)
{
    int from_host = box->srcMemoryType == CU_MEMORYTYPE_HOST;
    int to_host = box->dstMemoryType == CU_MEMORYTYPE_HOST;
    if (box->srcMemoryType == CU_MEMORYTYPE_UNIFIED || box->dstMemoryType == CU_MEMORYTYPE_UNIFIED)
        return cudaMemcpyDefault;
    if (from_host)
        return to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
    return to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                         struct cudaMemcpy3DParms *pNodeParams)
{
    CUDA_MEMCPY3D box;
    RT_BEGIN();
    if (pNodeParams == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuGraphMemcpyNodeGetParams(node, &box);
    if (result != CUDA_SUCCESS)
        return rt_end(result);
    void *from = box.srcMemoryType == CU_MEMORYTYPE_HOST ? (void *)(uintptr_t)box.srcHost
                                                         : (void *)(uintptr_t)box.srcDevice;
    void *to =
        box.dstMemoryType == CU_MEMORYTYPE_HOST ? box.dstHost : (void *)(uintptr_t)box.dstDevice;
    *pNodeParams =
        (struct cudaMemcpy3DParms){.srcPos = {box.srcXInBytes, box.srcY, box.srcZ},
                                   .srcPtr = {from, box.srcPitch, box.WidthInBytes, box.srcHeight},
                                   .dstPos = {box.dstXInBytes, box.dstY, box.dstZ},
                                   .dstPtr = {to, box.dstPitch, box.WidthInBytes, box.dstHeight},
                                   .extent = {box.WidthInBytes, box.Height, box.Depth},
                                   .kind = kind_of(&box)};
    return cudaSuccess;
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaMemcpy3DParms *pNodeParams)
{
    CUDA_MEMCPY3D box;
    RT_BEGIN();
    cudaError_t error = rt_box_make(pNodeParams, &box);
    return error != cudaSuccess ? error : rt_end(rt.cuGraphMemcpyNodeSetParams(node, &box));
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src,
                                           size_t count, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D box;
    RT_BEGIN();
    cudaError_t error = rt_node_copy(dst, src, count, kind, &box);
    return error != cudaSuccess ? error : rt_end(rt.cuGraphMemcpyNodeSetParams(node, &box));
}

/* ---- sets ----------------------------------------------------------------------------------- */

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                   const struct cudaMemsetParams *pMemsetParams)
{
    CUDA_MEMSET_NODE_PARAMS params;
    RT_BEGIN();
    cudaError_t error = rt_node_memset(pMemsetParams, &params);
    if (error != cudaSuccess)
        return error;
    return rt_end(rt.cuGraphAddMemsetNode(pGraphNode, graph, pDependencies, numDependencies,
                                          &params, rt_node_context()));
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *pNodeParams)
{
    CUDA_MEMSET_NODE_PARAMS params;
    RT_BEGIN();
    if (pNodeParams == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuGraphMemsetNodeGetParams(node, &params);
    if (result == CUDA_SUCCESS)
        *pNodeParams = (struct cudaMemsetParams){.dst = (void *)(uintptr_t)params.dst,
                                                 .pitch = params.pitch,
                                                 .value = params.value,
                                                 .elementSize = params.elementSize,
                                                 .width = params.width,
                                                 .height = params.height};
    return rt_end(result);
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaMemsetParams *pNodeParams)
{
    CUDA_MEMSET_NODE_PARAMS params;
    RT_BEGIN();
    cudaError_t error = rt_node_memset(pNodeParams, &params);
    return error != cudaSuccess ? error : rt_end(rt.cuGraphMemsetNodeSetParams(node, &params));
}

/* ---- functions of the host, events, graphs -------------------------------------------------- */

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                 const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                 const struct cudaHostNodeParams *pNodeParams)
{
    CUDA_HOST_NODE_PARAMS params;
    RT_BEGIN();
    cudaError_t error = rt_node_host(pNodeParams, &params);
    if (error != cudaSuccess)
        return error;
    return rt_end(
        rt.cuGraphAddHostNode(pGraphNode, graph, pDependencies, numDependencies, &params));
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *pNodeParams)
{
    CUDA_HOST_NODE_PARAMS params;
    RT_BEGIN();
    if (pNodeParams == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuGraphHostNodeGetParams(node, &params);
    if (result == CUDA_SUCCESS)
        *pNodeParams = (struct cudaHostNodeParams){.fn = params.fn, .userData = params.userData};
    return rt_end(result);
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                       const struct cudaHostNodeParams *pNodeParams)
{
    CUDA_HOST_NODE_PARAMS params;
    RT_BEGIN();
    cudaError_t error = rt_node_host(pNodeParams, &params);
    return error != cudaSuccess ? error : rt_end(rt.cuGraphHostNodeSetParams(node, &params));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                  const cudaGraphNode_t *pDependencies, size_t numDependencies)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies));
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                        const cudaGraphNode_t *pDependencies,
                                        size_t numDependencies, cudaEvent_t event)
{
    RT_BEGIN();
    return rt_end(
        rt.cuGraphAddEventRecordNode(pGraphNode, graph, pDependencies, numDependencies, event));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                      const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                      cudaEvent_t event)
{
    RT_BEGIN();
    return rt_end(
        rt.cuGraphAddEventWaitNode(pGraphNode, graph, pDependencies, numDependencies, event));
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphEventRecordNodeGetEvent(node, event_out));
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphEventRecordNodeSetEvent(node, event));
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphEventWaitNodeGetEvent(node, event_out));
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphEventWaitNodeSetEvent(node, event));
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                       cudaGraph_t childGraph)
{
    RT_BEGIN();
    return rt_end(
        rt.cuGraphAddChildGraphNode(pGraphNode, graph, pDependencies, numDependencies, childGraph));
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *pGraph)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphChildGraphNodeGetGraph(node, pGraph));
}
