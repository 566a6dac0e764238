/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: instantiating, launching and changing them.
 */
#include "graph_params.h"

_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) &&
                   sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo),
               "answers are the driver's");

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                          unsigned long long flags)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    return cudaGraphInstantiateWithFlags(pGraphExec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *instantiateParams)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphInstantiateWithParams(
        pGraphExec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)(void *)instantiateParams));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphExecDestroy(graphExec));
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags)
{
    cuuint64_t found = 0;
    RT_BEGIN();
    if (flags == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuGraphExecGetFlags(graphExec, &found);
    if (result == CUDA_SUCCESS)
        *flags = found;
    return rt_end(result);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphUpload(graphExec, stream));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphLaunch(graphExec, stream));
}

/* ---- changes -------------------------------------------------------------------------------- */

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                cudaGraphExecUpdateResultInfo *resultInfo)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphExecUpdate(hGraphExec, hGraph,
                                       (CUgraphExecUpdateResultInfo *)(void *)resultInfo));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    RT_BEGIN();
    cudaError_t error = rt_node_kernel(pNodeParams, &params);
    return error != cudaSuccess
               ? error
               : rt_end(rt.cuGraphExecKernelNodeSetParams(hGraphExec, node, &params));
}

static cudaError_t copy_set(cudaGraphExec_t exec, cudaGraphNode_t node, const CUDA_MEMCPY3D *box)
{
    return rt_end(rt.cuGraphExecMemcpyNodeSetParams(exec, node, box, rt_node_context()));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *pNodeParams)
{
    CUDA_MEMCPY3D box;
    RT_BEGIN();
    cudaError_t error = rt_box_make(pNodeParams, &box);
    return error != cudaSuccess ? error : copy_set(hGraphExec, node, &box);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                               void *dst, const void *src, size_t count,
                                               enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D box;
    RT_BEGIN();
    cudaError_t error = rt_node_copy(dst, src, count, kind, &box);
    return error != cudaSuccess ? error : copy_set(hGraphExec, node, &box);
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const struct cudaMemsetParams *pNodeParams)
{
    CUDA_MEMSET_NODE_PARAMS params;
    RT_BEGIN();
    cudaError_t error = rt_node_memset(pNodeParams, &params);
    return error != cudaSuccess ? error
                                : rt_end(rt.cuGraphExecMemsetNodeSetParams(
                                      hGraphExec, node, &params, rt_node_context()));
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                           const struct cudaHostNodeParams *pNodeParams)
{
    CUDA_HOST_NODE_PARAMS params;
    RT_BEGIN();
    cudaError_t error = rt_node_host(pNodeParams, &params);
    return error != cudaSuccess
               ? error
               : rt_end(rt.cuGraphExecHostNodeSetParams(hGraphExec, node, &params));
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                 cudaGraph_t childGraph)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphExecChildGraphNodeSetParams(hGraphExec, node, childGraph));
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                                 cudaEvent_t event)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event));
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                               cudaEvent_t event)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, event));
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                    unsigned int isEnabled)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled));
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                    unsigned int *isEnabled)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled));
}
