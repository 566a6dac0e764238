/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA runtime for tests, over the driver's functions: see cuda_runtime_api.h. As the real one it
 * starts at the first call, on the primary context of the thread's device, and remembers the last
 * error of each thread.
 */
#include "cuda_runtime_api.h"

#include <cuda.h>
#include <pthread.h>

static _Thread_local cudaError_t last_error;
static _Thread_local int device_of_thread;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static CUcontext contexts[8]; /* of mutex */

/* Since CUDA 10.1 the driver's numbers are the runtime's. */
static cudaError_t result(CUresult code)
{
    if (code != CUDA_SUCCESS)
        last_error = (cudaError_t)code;
    return (cudaError_t)code;
}

/* Makes the primary context of the thread's device current. */
static CUresult start(void)
{
    CUresult code = cuInit(0);
    pthread_mutex_lock(&mutex);
    if (code == CUDA_SUCCESS && contexts[device_of_thread] == NULL)
        code = cuDevicePrimaryCtxRetain(&contexts[device_of_thread], device_of_thread);
    if (code == CUDA_SUCCESS)
        code = cuCtxSetCurrent(contexts[device_of_thread]);
    pthread_mutex_unlock(&mutex);
    return code;
}

/* The body of a function that is one call of the driver's. */
#define FORWARD(call)                                                                              \
    do {                                                                                           \
        CUresult code = start();                                                                   \
        return result(code == CUDA_SUCCESS ? (call) : code);                                       \
    } while (0)

/* ---- devices and errors --------------------------------------------------------------------- */

cudaError_t cudaGetDevice(int *device)
{
    *device = device_of_thread;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    int count = 0;
    CUresult code = cuInit(0);
    if (code == CUDA_SUCCESS)
        code = cuDeviceGetCount(&count);
    if (code == CUDA_SUCCESS && (device < 0 || device >= count || device >= 8))
        code = CUDA_ERROR_INVALID_DEVICE;
    if (code == CUDA_SUCCESS) {
        device_of_thread = device;
        code = start();
    }
    return result(code);
}

cudaError_t cudaDeviceSynchronize(void)
{
    FORWARD(cuCtxSynchronize());
}

cudaError_t cudaDeviceReset(void)
{
    CUresult code = start();
    pthread_mutex_lock(&mutex);
    if (code == CUDA_SUCCESS)
        code = cuDevicePrimaryCtxReset(device_of_thread);
    if (code == CUDA_SUCCESS)
        code = cuDevicePrimaryCtxRelease(device_of_thread);
    contexts[device_of_thread] = NULL;
    pthread_mutex_unlock(&mutex);
    return result(code);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    const char *text = NULL;
    return cuGetErrorString((CUresult)error, &text) == CUDA_SUCCESS && text != NULL
               ? text
               : "an unknown error";
}

/* ---- memory --------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **address, size_t bytes)
{
    FORWARD(cuMemAlloc((CUdeviceptr *)address, bytes));
}

cudaError_t cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t height)
{
    if (address == NULL || pitch == NULL || width == 0 || height == 0)
        return result(CUDA_ERROR_INVALID_VALUE);
    *pitch = (width + 511) & ~(size_t)511;
    return cudaMalloc(address, *pitch * height);
}

cudaError_t cudaMallocAsync(void **address, size_t bytes, cudaStream_t stream)
{
    FORWARD(cuMemAllocAsync((CUdeviceptr *)address, bytes, stream));
}

cudaError_t cudaMallocFromPoolAsync(void **address, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    (void)address;
    (void)bytes;
    (void)pool;
    (void)stream;
    return result(CUDA_ERROR_NOT_SUPPORTED); /* the simulated device has no pools of the driver's */
}

cudaError_t cudaFree(void *address)
{
    CUresult code = start();
    if (code == CUDA_SUCCESS && address != NULL)
        code = cuMemFree((CUdeviceptr)address);
    return result(code);
}

cudaError_t cudaFreeAsync(void *address, cudaStream_t stream)
{
    FORWARD(cuMemFreeAsync((CUdeviceptr)address, stream));
}

cudaError_t cudaMallocHost(void **address, size_t bytes)
{
    FORWARD(cuMemAllocHost(address, bytes));
}

cudaError_t cudaFreeHost(void *address)
{
    FORWARD(cuMemFreeHost(address));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    FORWARD(cuMemGetInfo(free_bytes, total_bytes));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind;
    FORWARD(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream));
}

cudaError_t cudaMemsetAsync(void *address, int value, size_t bytes, cudaStream_t stream)
{
    FORWARD(cuMemsetD8Async((CUdeviceptr)address, (unsigned char)value, bytes, stream));
}

/* ---- streams -------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    FORWARD(cuStreamCreate(stream, CU_STREAM_DEFAULT));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    FORWARD(cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    FORWARD(cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    FORWARD(cuStreamDestroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    FORWARD(cuStreamSynchronize(stream));
}

/* Not ready is an answer, not an error. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    CUresult code = start();
    if (code == CUDA_SUCCESS)
        code = cuStreamQuery(stream);
    return code == CUDA_ERROR_NOT_READY ? cudaErrorNotReady : result(code);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    FORWARD(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    FORWARD(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    FORWARD(cuStreamEndCapture(stream, graph));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    CUstreamCaptureMode wanted = (CUstreamCaptureMode)*mode;
    CUresult code = start();
    if (code == CUDA_SUCCESS)
        code = cuThreadExchangeStreamCaptureMode(&wanted);
    *mode = (enum cudaStreamCaptureMode)wanted;
    return result(code);
}

/* ---- events --------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    FORWARD(cuEventCreate(event, flags));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    FORWARD(cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    FORWARD(flags == 0 ? cuEventRecord(event, stream) : CUDA_ERROR_NOT_SUPPORTED);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    FORWARD(cuEventSynchronize(event));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    CUresult code = start();
    if (code == CUDA_SUCCESS)
        code = cuEventQuery(event);
    return code == CUDA_ERROR_NOT_READY ? cudaErrorNotReady : result(code);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    FORWARD(cuEventDestroy(event));
}

/* ---- graphs --------------------------------------------------------------------------------- */

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags)
{
    FORWARD(cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    FORWARD(cuGraphLaunch(exec, stream));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    FORWARD(cuGraphExecDestroy(exec));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    FORWARD(cuGraphDestroy(graph));
}
