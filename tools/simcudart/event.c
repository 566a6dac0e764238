/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events.
 */
#include "rt.h"

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    RT_BEGIN();
    return rt_end(event == NULL ? CUDA_ERROR_INVALID_VALUE : rt.cuEventCreate(event, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    RT_BEGIN();
    return rt_end(rt.cuEventDestroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    RT_BEGIN();
    return rt_end(rt.cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    RT_BEGIN();
    return rt_end(rt.cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    RT_BEGIN();
    return rt_end(rt.cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    RT_BEGIN();
    return rt_end(rt.cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    RT_BEGIN();
    return rt_end(rt.cuEventElapsedTime(ms, start, end));
}
