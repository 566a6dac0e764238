/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of calls for programs that are built with --default-stream per-thread: 0 is the calling
 * thread's own stream. A synchronous one is the asynchronous call there, waited for.
 */
#include "rt.h"

#define FORM(name, parameters)                                                                     \
    cudaError_t name parameters;                                                                   \
    cudaError_t name parameters

static cudaError_t waited(cudaError_t error)
{
    return error != cudaSuccess ? error : cudaStreamSynchronize(cudaStreamPerThread);
}

/* ---- synchronous ---------------------------------------------------------------------------- */

FORM(cudaMemcpy_ptds, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind))
{
    return waited(cudaMemcpyAsync(dst, src, count, kind, cudaStreamPerThread));
}

FORM(cudaMemcpy2D_ptds, (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind))
{
    return waited(
        cudaMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, cudaStreamPerThread));
}

FORM(cudaMemcpy3D_ptds, (const struct cudaMemcpy3DParms *p))
{
    return waited(cudaMemcpy3DAsync(p, cudaStreamPerThread));
}

FORM(cudaMemcpy3DPeer_ptds, (const struct cudaMemcpy3DPeerParms *p))
{
    return waited(cudaMemcpy3DPeerAsync(p, cudaStreamPerThread));
}

FORM(cudaMemcpy2DToArray_ptds,
     (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t width,
      size_t height, enum cudaMemcpyKind kind))
{
    return waited(cudaMemcpy2DToArrayAsync(dst, wOffset, hOffset, src, spitch, width, height, kind,
                                           cudaStreamPerThread));
}

FORM(cudaMemcpy2DFromArray_ptds,
     (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width,
      size_t height, enum cudaMemcpyKind kind))
{
    return waited(cudaMemcpy2DFromArrayAsync(dst, dpitch, src, wOffset, hOffset, width, height,
                                             kind, cudaStreamPerThread));
}

/* It has no form with a stream: after the thread's work, and before what follows. */
FORM(cudaMemcpy2DArrayToArray_ptds,
     (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
      size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height, enum cudaMemcpyKind kind))
{
    cudaError_t error = cudaStreamSynchronize(cudaStreamPerThread);
    return error != cudaSuccess
               ? error
               : cudaMemcpy2DArrayToArray(dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc,
                                          width, height, kind);
}

FORM(cudaMemcpyToSymbol_ptds,
     (const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind))
{
    return waited(cudaMemcpyToSymbolAsync(symbol, src, count, offset, kind, cudaStreamPerThread));
}

FORM(cudaMemcpyFromSymbol_ptds,
     (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind))
{
    return waited(cudaMemcpyFromSymbolAsync(dst, symbol, count, offset, kind, cudaStreamPerThread));
}

FORM(cudaMemset_ptds, (void *devPtr, int value, size_t count))
{
    return waited(cudaMemsetAsync(devPtr, value, count, cudaStreamPerThread));
}

FORM(cudaMemset2D_ptds, (void *devPtr, size_t pitch, int value, size_t width, size_t height))
{
    return waited(cudaMemset2DAsync(devPtr, pitch, value, width, height, cudaStreamPerThread));
}

FORM(cudaMemset3D_ptds, (struct cudaPitchedPtr ptr, int value, struct cudaExtent extent))
{
    return waited(cudaMemset3DAsync(ptr, value, extent, cudaStreamPerThread));
}

/* ---- copies and sets ------------------------------------------------------------------------ */

FORM(cudaMemcpyAsync_ptsz,
     (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream))
{
    return cudaMemcpyAsync(dst, src, count, kind, rt_own(stream));
}

FORM(cudaMemcpyBatchAsync_ptsz,
     (void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
      struct cudaMemcpyAttributes *attrs, size_t *indices, size_t attr_count, cudaStream_t stream))
{
    return cudaMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, indices, attr_count,
                                rt_own(stream));
}

FORM(cudaMemcpy2DAsync_ptsz,
     (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
      enum cudaMemcpyKind kind, cudaStream_t stream))
{
    return cudaMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, rt_own(stream));
}

FORM(cudaMemcpy3DAsync_ptsz, (const struct cudaMemcpy3DParms *p, cudaStream_t stream))
{
    return cudaMemcpy3DAsync(p, rt_own(stream));
}

FORM(cudaMemcpy3DPeerAsync_ptsz, (const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream))
{
    return cudaMemcpy3DPeerAsync(p, rt_own(stream));
}

FORM(cudaMemcpyToSymbolAsync_ptsz, (const void *symbol, const void *src, size_t count,
                                    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream))
{
    return cudaMemcpyToSymbolAsync(symbol, src, count, offset, kind, rt_own(stream));
}

FORM(cudaMemcpyFromSymbolAsync_ptsz, (void *dst, const void *symbol, size_t count, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream))
{
    return cudaMemcpyFromSymbolAsync(dst, symbol, count, offset, kind, rt_own(stream));
}

FORM(cudaMemsetAsync_ptsz, (void *devPtr, int value, size_t count, cudaStream_t stream))
{
    return cudaMemsetAsync(devPtr, value, count, rt_own(stream));
}

FORM(cudaMemset2DAsync_ptsz,
     (void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream))
{
    return cudaMemset2DAsync(devPtr, pitch, value, width, height, rt_own(stream));
}

FORM(cudaMemset3DAsync_ptsz,
     (struct cudaPitchedPtr ptr, int value, struct cudaExtent extent, cudaStream_t stream))
{
    return cudaMemset3DAsync(ptr, value, extent, rt_own(stream));
}

/* ---- memory --------------------------------------------------------------------------------- */

FORM(cudaMallocAsync_ptsz, (void **devPtr, size_t size, cudaStream_t stream))
{
    return cudaMallocAsync(devPtr, size, rt_own(stream));
}

FORM(cudaMallocFromPoolAsync_ptsz,
     (void **ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream))
{
    return cudaMallocFromPoolAsync(ptr, size, pool, rt_own(stream));
}

FORM(cudaFreeAsync_ptsz, (void *devPtr, cudaStream_t stream))
{
    return cudaFreeAsync(devPtr, rt_own(stream));
}

FORM(cudaMemcpy2DToArrayAsync_ptsz,
     (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t width,
      size_t height, enum cudaMemcpyKind kind, cudaStream_t stream))
{
    return cudaMemcpy2DToArrayAsync(dst, wOffset, hOffset, src, spitch, width, height, kind,
                                    rt_own(stream));
}

FORM(cudaMemcpy2DFromArrayAsync_ptsz,
     (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width,
      size_t height, enum cudaMemcpyKind kind, cudaStream_t stream))
{
    return cudaMemcpy2DFromArrayAsync(dst, dpitch, src, wOffset, hOffset, width, height, kind,
                                      rt_own(stream));
}

FORM(cudaMemPrefetchBatchAsync_ptsz,
     (void **dptrs, size_t *sizes, size_t count, struct cudaMemLocation *prefetchLocs,
      size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
      cudaStream_t stream))
{
    return cudaMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                     numPrefetchLocs, flags, rt_own(stream));
}

FORM(cudaMemDiscardBatchAsync_ptsz,
     (void **dptrs, size_t *sizes, size_t count, unsigned long long flags, cudaStream_t stream))
{
    return cudaMemDiscardBatchAsync(dptrs, sizes, count, flags, rt_own(stream));
}

FORM(cudaMemDiscardAndPrefetchBatchAsync_ptsz,
     (void **dptrs, size_t *sizes, size_t count, struct cudaMemLocation *prefetchLocs,
      size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
      cudaStream_t stream))
{
    return cudaMemDiscardAndPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                               numPrefetchLocs, flags, rt_own(stream));
}

FORM(cudaMemPrefetchAsync_ptsz, (const void *devPtr, size_t count, struct cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream))
{
    return cudaMemPrefetchAsync(devPtr, count, location, flags, rt_own(stream));
}

FORM(cudaStreamAttachMemAsync_ptsz,
     (cudaStream_t stream, void *devPtr, size_t length, unsigned int flags))
{
    return cudaStreamAttachMemAsync(rt_own(stream), devPtr, length, flags);
}

/* ---- launches ------------------------------------------------------------------------------- */

FORM(cudaLaunchKernel_ptsz, (const void *func, dim3 gridDim, dim3 blockDim, void **args,
                             size_t sharedMem, cudaStream_t stream))
{
    return cudaLaunchKernel(func, gridDim, blockDim, args, sharedMem, rt_own(stream));
}

FORM(cudaLaunchCooperativeKernel_ptsz, (const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                        size_t sharedMem, cudaStream_t stream))
{
    return cudaLaunchCooperativeKernel(func, gridDim, blockDim, args, sharedMem, rt_own(stream));
}

FORM(cudaLaunchKernelExC_ptsz, (const cudaLaunchConfig_t *config, const void *func, void **args))
{
    cudaLaunchConfig_t own;
    if (config == NULL)
        return rt_fail(cudaErrorInvalidValue);
    own = *config;
    own.stream = rt_own(config->stream);
    return cudaLaunchKernelExC(&own, func, args);
}

FORM(cudaLaunchHostFunc_ptsz, (cudaStream_t stream, cudaHostFn_t fn, void *userData))
{
    return cudaLaunchHostFunc(rt_own(stream), fn, userData);
}

/* ---- streams and events --------------------------------------------------------------------- */

FORM(cudaStreamSynchronize_ptsz, (cudaStream_t stream))
{
    return cudaStreamSynchronize(rt_own(stream));
}

FORM(cudaStreamQuery_ptsz, (cudaStream_t stream))
{
    return cudaStreamQuery(rt_own(stream));
}

FORM(cudaStreamWaitEvent_ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags))
{
    return cudaStreamWaitEvent(rt_own(stream), event, flags);
}

FORM(cudaStreamAddCallback_ptsz,
     (cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int flags))
{
    return cudaStreamAddCallback(rt_own(stream), callback, userData, flags);
}

FORM(cudaStreamGetPriority_ptsz, (cudaStream_t stream, int *priority))
{
    return cudaStreamGetPriority(rt_own(stream), priority);
}

FORM(cudaStreamGetFlags_ptsz, (cudaStream_t stream, unsigned int *flags))
{
    return cudaStreamGetFlags(rt_own(stream), flags);
}

FORM(cudaStreamGetId_ptsz, (cudaStream_t stream, unsigned long long *id))
{
    return cudaStreamGetId(rt_own(stream), id);
}

FORM(cudaStreamGetDevice_ptsz, (cudaStream_t stream, int *device))
{
    return cudaStreamGetDevice(rt_own(stream), device);
}

FORM(cudaStreamIsCapturing_ptsz, (cudaStream_t stream, enum cudaStreamCaptureStatus *status))
{
    return cudaStreamIsCapturing(rt_own(stream), status);
}

FORM(cudaStreamSetAttribute_ptsz,
     (cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue *value))
{
    return cudaStreamSetAttribute(rt_own(stream), attribute, value);
}

FORM(cudaStreamGetAttribute_ptsz,
     (cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue *value))
{
    return cudaStreamGetAttribute(rt_own(stream), attribute, value);
}

FORM(cudaStreamCopyAttributes_ptsz, (cudaStream_t to, cudaStream_t from))
{
    return cudaStreamCopyAttributes(rt_own(to), rt_own(from));
}

FORM(cudaEventRecord_ptsz, (cudaEvent_t event, cudaStream_t stream))
{
    return cudaEventRecord(event, rt_own(stream));
}

FORM(cudaEventRecordWithFlags_ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned int flags))
{
    return cudaEventRecordWithFlags(event, rt_own(stream), flags);
}

/* ---- captures and graphs -------------------------------------------------------------------- */

FORM(cudaStreamBeginCapture_ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode))
{
    return cudaStreamBeginCapture(rt_own(stream), mode);
}

FORM(cudaStreamBeginCaptureToGraph_ptsz,
     (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *after,
      const cudaGraphEdgeData *edges, size_t count, enum cudaStreamCaptureMode mode))
{
    return cudaStreamBeginCaptureToGraph(rt_own(stream), graph, after, edges, count, mode);
}

FORM(cudaStreamEndCapture_ptsz, (cudaStream_t stream, cudaGraph_t *graph))
{
    return cudaStreamEndCapture(rt_own(stream), graph);
}

FORM(cudaStreamGetCaptureInfo_ptsz,
     (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
      cudaGraph_t *graph, const cudaGraphNode_t **after, const cudaGraphEdgeData **edges,
      size_t *count))
{
    return cudaStreamGetCaptureInfo(rt_own(stream), status, id, graph, after, edges, count);
}

FORM(cudaStreamUpdateCaptureDependencies_ptsz,
     (cudaStream_t stream, cudaGraphNode_t *after, const cudaGraphEdgeData *edges, size_t count,
      unsigned int flags))
{
    return cudaStreamUpdateCaptureDependencies(rt_own(stream), after, edges, count, flags);
}

FORM(cudaGraphInstantiateWithParams_ptsz,
     (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams *params))
{
    cudaGraphInstantiateParams own;
    if (params == NULL)
        return rt_fail(cudaErrorInvalidValue);
    own = *params;
    own.uploadStream = rt_own(params->uploadStream);
    cudaError_t error = cudaGraphInstantiateWithParams(exec, graph, &own);
    params->errNode_out = own.errNode_out;
    params->result_out = own.result_out;
    return error;
}

FORM(cudaGraphUpload_ptsz, (cudaGraphExec_t exec, cudaStream_t stream))
{
    return cudaGraphUpload(exec, rt_own(stream));
}

FORM(cudaGraphLaunch_ptsz, (cudaGraphExec_t exec, cudaStream_t stream))
{
    return cudaGraphLaunch(exec, rt_own(stream));
}
