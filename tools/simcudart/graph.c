/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: making them, by hand and by capture, what is in them, and what they keep alive. The
 * handles are the driver's, and so are the numbers of the enumerations.
 */
#include "rt.h"

_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "edges are the driver's");

static const CUgraphEdgeData *edge_of(const cudaGraphEdgeData *edge)
{
    return (const CUgraphEdgeData *)(const void *)edge;
}

/* ---- capture -------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies,
                                          const cudaGraphEdgeData *dependencyData,
                                          size_t numDependencies, enum cudaStreamCaptureMode mode)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamBeginCaptureToGraph(stream, graph, dependencies,
                                                 edge_of(dependencyData), numDependencies,
                                                 (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamEndCapture(stream, pGraph));
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     enum cudaStreamCaptureStatus *captureStatus_out,
                                     unsigned long long *id_out, cudaGraph_t *graph_out,
                                     const cudaGraphNode_t **dependencies_out,
                                     const cudaGraphEdgeData **edgeData_out,
                                     size_t *numDependencies_out)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    RT_BEGIN();
    if (captureStatus_out == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuStreamGetCaptureInfo(
        stream, &status, &id, graph_out, dependencies_out,
        (const CUgraphEdgeData **)(const void **)edgeData_out, numDependencies_out);
    if (result == CUDA_SUCCESS) {
        *captureStatus_out = (enum cudaStreamCaptureStatus)status;
        if (id_out != NULL)
            *id_out = id;
    }
    return rt_end(result);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                                const cudaGraphEdgeData *dependencyData,
                                                size_t numDependencies, unsigned int flags)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamUpdateCaptureDependencies(
        stream, dependencies, edge_of(dependencyData), numDependencies, flags));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    RT_BEGIN();
    if (mode == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUstreamCaptureMode exchanged = (CUstreamCaptureMode)*mode;
    CUresult result = rt.cuThreadExchangeStreamCaptureMode(&exchanged);
    if (result == CUDA_SUCCESS)
        *mode = (enum cudaStreamCaptureMode)exchanged;
    return rt_end(result);
}

/* ---- graphs --------------------------------------------------------------------------------- */

cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphCreate(pGraph, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphDestroy(graph));
}

cudaError_t cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphClone(pGraphClone, originalGraph));
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode,
                                     cudaGraph_t clonedGraph)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphNodeFindInClone(pNode, originalNode, clonedGraph));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphDebugDotPrint(graph, path, flags));
}

/* ---- what is in one ------------------------------------------------------------------------- */

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphGetNodes(graph, nodes, numNodes));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes,
                                  size_t *pNumRootNodes)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes));
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                              cudaGraphEdgeData *edgeData, size_t *numEdges)
{
    RT_BEGIN();
    return rt_end(
        rt.cuGraphGetEdges(graph, from, to, (CUgraphEdgeData *)(void *)edgeData, numEdges));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *pDependencies,
                                         cudaGraphEdgeData *edgeData, size_t *pNumDependencies)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphNodeGetDependencies(
        node, pDependencies, (CUgraphEdgeData *)(void *)edgeData, pNumDependencies));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes,
                                           cudaGraphEdgeData *edgeData, size_t *pNumDependentNodes)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphNodeGetDependentNodes(
        node, pDependentNodes, (CUgraphEdgeData *)(void *)edgeData, pNumDependentNodes));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, const cudaGraphEdgeData *edgeData,
                                     size_t numDependencies)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphAddDependencies(graph, from, to, edge_of(edgeData), numDependencies));
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                        const cudaGraphNode_t *to,
                                        const cudaGraphEdgeData *edgeData, size_t numDependencies)
{
    RT_BEGIN();
    return rt_end(
        rt.cuGraphRemoveDependencies(graph, from, to, edge_of(edgeData), numDependencies));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
    RT_BEGIN();
    if (pType == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuGraphNodeGetType(node, &type);
    if (result == CUDA_SUCCESS)
        *pType = (enum cudaGraphNodeType)type;
    return rt_end(result);
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphDestroyNode(node));
}

/* ---- what they keep alive ------------------------------------------------------------------- */

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy,
                                 unsigned int initialRefcount, unsigned int flags)
{
    RT_BEGIN();
    return rt_end(rt.cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags));
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
    RT_BEGIN();
    return rt_end(rt.cuUserObjectRetain(object, count));
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
    RT_BEGIN();
    return rt_end(rt.cuUserObjectRelease(object, count));
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count, unsigned int flags)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphRetainUserObject(graph, object, count, flags));
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                       unsigned int count)
{
    RT_BEGIN();
    return rt_end(rt.cuGraphReleaseUserObject(graph, object, count));
}
