/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every form in which C++ calls what the drop-in header replaces: typed pointers, overloads and
 * default arguments of <cuda_runtime.h>. Compiled only, see check_headers.sh.
 */
#include <cuda_runtime.h>

#include <tenure/cudart_replace.h>
#include <tenure/cudart_replace.h> /* once */

static_assert(cudaSuccess == 0, "what the calls return");

cudaError_t every_form(cudaStream_t stream, cudaEvent_t event, cudaMemPool_t pool);

cudaError_t every_form(cudaStream_t stream, cudaEvent_t event, cudaMemPool_t pool)
{
    float *values = nullptr;
    void *raw = nullptr;
    std::size_t pitch = 0, total = 0;
    int sum = cudaMalloc(&values, 16) + cudaMalloc(&raw, 16);
    sum += cudaMallocPitch(&values, &pitch, 16, 16);
    sum += cudaMallocAsync(&values, 16, stream) + cudaMallocAsync(&raw, 16, stream);
    sum += cudaMallocAsync(&values, 16, pool, stream);
    sum += cudaFreeAsync(values, stream) + cudaFree(raw) + cudaFree(values);
    sum += cudaMemGetInfo(&pitch, &total);
    sum += cudaEventRecord(event) + cudaEventRecord(event, stream);
    sum += cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
    sum += cudaStreamWaitEvent(stream, event) + cudaStreamWaitEvent(stream, event, 0);
    sum += cudaEventQuery(event) + cudaEventSynchronize(event) + cudaEventDestroy(event);
    sum += cudaStreamSynchronize(stream) + cudaDeviceSynchronize() + cudaDeviceReset();
    cudaError_t (*address)(void **, std::size_t) = cudaMalloc;
    return sum == 0 ? address(&raw, 16) : cudaErrorUnknown;
}
