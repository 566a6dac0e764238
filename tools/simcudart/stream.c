/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, and functions of the host in them.
 */
#include "rt.h"

#include <stdlib.h>
#include <string.h>

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
    RT_BEGIN();
    if (pStream == NULL || (flags & ~(unsigned)cudaStreamNonBlocking) != 0)
        return rt_fail(cudaErrorInvalidValue);
    return rt_end(rt.cuStreamCreateWithPriority(pStream, flags, priority));
}

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
    return cudaStreamCreateWithPriority(pStream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    return cudaStreamCreateWithPriority(pStream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    RT_BEGIN();
    if (stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        return rt_fail(cudaErrorInvalidResourceHandle);
    return rt_end(rt.cuStreamDestroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamSynchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamQuery(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamWaitEvent(stream, event, flags));
}

/* ---- what a stream is ----------------------------------------------------------------------- */

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamGetPriority(hStream, priority));
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamGetFlags(hStream, flags));
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamGetId(hStream, streamId));
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
    RT_BEGIN();
    return rt_end(rt.cuStreamGetDevice(hStream, device));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    RT_BEGIN();
    if (pCaptureStatus == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuStreamIsCapturing(stream, &status);
    if (result == CUDA_SUCCESS)
        *pCaptureStatus = (enum cudaStreamCaptureStatus)status;
    return rt_end(result);
}

/* Hints of caches and of order among kernels: nothing here depends on them. */
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attr,
                                   const cudaStreamAttrValue *param)
{
    unsigned flags = 0;
    (void)attr;
    RT_BEGIN();
    return rt_end(param == NULL ? CUDA_ERROR_INVALID_VALUE : rt.cuStreamGetFlags(stream, &flags));
}

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attr,
                                   cudaStreamAttrValue *value)
{
    unsigned flags = 0;
    (void)attr;
    RT_BEGIN();
    if (value == NULL)
        return rt_fail(cudaErrorInvalidValue);
    CUresult result = rt.cuStreamGetFlags(stream, &flags);
    if (result == CUDA_SUCCESS)
        memset(value, 0, sizeof(*value)); /* each attribute's default */
    return rt_end(result);
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t dstStream, cudaStream_t srcStream)
{
    unsigned flags = 0;
    RT_BEGIN();
    CUresult result = rt.cuStreamGetFlags(dstStream, &flags);
    return rt_end(result == CUDA_SUCCESS ? rt.cuStreamGetFlags(srcStream, &flags) : result);
}

/* ---- functions of the host ------------------------------------------------------------------ */

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
    RT_BEGIN();
    return rt_end(rt.cuLaunchHostFunc(stream, fn, userData));
}

typedef struct callback {
    cudaStreamCallback_t function;
    cudaStream_t stream;
    void *user;
} callback;

static void callback_run(void *data)
{
    callback *one = data;
    one->function(one->stream, cudaSuccess, one->user);
    free(one);
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                  void *userData, unsigned int flags)
{
    RT_BEGIN();
    if (function == NULL || flags != 0)
        return rt_fail(cudaErrorInvalidValue);
    callback *one = malloc(sizeof(*one));
    if (one == NULL)
        return rt_fail(cudaErrorMemoryAllocation);
    *one = (callback){function, stream, userData};
    CUresult result = rt.cuLaunchHostFunc(stream, callback_run, one);
    if (result != CUDA_SUCCESS)
        free(one);
    return rt_end(result);
}
