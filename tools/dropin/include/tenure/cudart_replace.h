/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/cudart_replace.h>: Tenure in a program of the CUDA runtime, by including one header.
 *
 * Include it after <cuda_runtime.h> in the files that allocate, and link with libtenure. Calls of
 *
 *   cudaMalloc, cudaMallocPitch, cudaMallocAsync, cudaFree, cudaFreeAsync, cudaMemGetInfo
 *
 * are then served by Tenure. The following calls do what they did, and also tell Tenure of it, so
 * that memory is free sooner and graphs keep theirs:
 *
 *   cudaStreamCreate, _CreateWithFlags, _CreateWithPriority, _Destroy, _Synchronize, _WaitEvent,
 *   _BeginCapture, _EndCapture; cudaEventRecord, _RecordWithFlags, _Synchronize, _Query, _Destroy;
 *   cudaDeviceSynchronize, cudaDeviceReset
 *
 * Only calls are replaced, by macros: the address of such a function is still the runtime's, and
 * (cudaMalloc)(...) calls the runtime. A file may free what other files allocated only if it
 * includes this header too. Everything of Tenure's own may be used beside it.
 *
 * Meaning. cudaMalloc's memory may be used on any stream at once, as before: all that was done with
 * the memory before is over, and the call may wait for that. cudaFree means what it did, but does
 * not stop the host. Memory of cudaMallocAsync belongs to its stream. The runtime frees pointers
 * that are not Tenure's, so a program may be moved over file by file.
 *
 * Errors are the nearest cudaError_t, and tnr_last_error() has the sentence. They are returned
 * only: cudaGetLastError and cudaPeekAtLastError do not know of them. If Tenure cannot run on this
 * device or driver, memory comes from the runtime.
 *
 * cudaDeviceReset ends Tenure, which starts again with the next allocation. While Tenure serves
 * another device too, cudaDeviceReset is refused with cudaErrorNotSupported.
 *
 * Not replaced: cudaMallocManaged, host memory, arrays, cudaMalloc3D, pools
 * (cudaMallocFromPoolAsync and everything else of cudaMemPool_t), and cudaIpcGetMemHandle, which
 * refuses Tenure's memory.
 *
 * This header takes a stream to belong to the current device. Default streams are those of the
 * file: compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM, 0 is the thread's own.
 *
 * Threads and fork: as <tenure/alloc.h> says. What the files share (a stream for each device, and
 * the captures under way) are weak symbols, so that every file of a program has the same.
 */
#ifndef TENURE_CUDART_REPLACE_H
#define TENURE_CUDART_REPLACE_H

#include <pthread.h>
#include <stdint.h>

#include <cuda_runtime_api.h>
#include <tenure/tenure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Most devices that are served, and captures that are followed at a time. */
enum { TNR_REPLACE_DEVICES = 64, TNR_REPLACE_CAPTURES = 64, TNR_REPLACE_PITCH_BYTES = 512 };

/* What all files of a program share; all of it is of the mutex. */
typedef struct tnr_replace_shared {
    cudaStream_t streams[TNR_REPLACE_DEVICES]; /* of cudaMalloc: nothing is launched on them */
    struct {
        cudaStream_t stream;
        tnr_graph graph; /* 0: the place is free */
    } captures[TNR_REPLACE_CAPTURES];
} tnr_replace_shared;

__attribute__((weak)) tnr_replace_shared tnr_replace_state;
__attribute__((weak)) pthread_mutex_t tnr_replace_mutex = PTHREAD_MUTEX_INITIALIZER;

#ifdef __cplusplus
}
#define TNR_REPLACE_DEFAULT(value) = value
#else
#define TNR_REPLACE_DEFAULT(value)
#endif

/* ---- inside --------------------------------------------------------------------------------- */

/* The nearest code of the runtime's. */
static inline cudaError_t tnr_replace_error(tnr_status status)
{
    switch (status) {
    case TNR_OK:
        return cudaSuccess;
    case TNR_ERR_OUT_OF_MEMORY:
    case TNR_ERR_LIMIT:
    case TNR_ERR_ADDRESS_SPACE:
    case TNR_ERR_HOST_MEMORY:
        return cudaErrorMemoryAllocation;
    case TNR_ERR_INVALID_ARGUMENT:
    case TNR_ERR_INVALID_SIZE:
    case TNR_ERR_INVALID_ALIGNMENT:
    case TNR_ERR_FOREIGN_POINTER:
    case TNR_ERR_INTERIOR_POINTER:
    case TNR_ERR_NOT_LIVE:
        return cudaErrorInvalidValue;
    case TNR_ERR_INVALID_DEVICE:
        return cudaErrorInvalidDevice;
    case TNR_ERR_INVALID_STREAM:
    case TNR_ERR_INVALID_EVENT:
        return cudaErrorInvalidResourceHandle;
    case TNR_ERR_CAPTURE:
        return cudaErrorStreamCaptureUnsupported;
    case TNR_ERR_CAPTURE_INVALIDATED:
        return cudaErrorStreamCaptureInvalidated;
    case TNR_ERR_AFTER_FORK:
        return cudaErrorInitializationError;
    case TNR_ERR_DRIVER: /* since CUDA 10.1 the driver's numbers are the runtime's too */
        return (cudaError_t)tnr_last_driver_result();
    default:
        return cudaErrorUnknown;
    }
}

/* 1 if Tenure can do nothing here, and the runtime is to be asked instead. */
static inline int tnr_replace_is_passed_on(tnr_status status)
{
    return status == TNR_ERR_NO_VMM || status == TNR_ERR_NO_DRIVER || status == TNR_ERR_NO_DEVICE ||
           status == TNR_ERR_DRIVER_TOO_OLD || status == TNR_ERR_SHUTDOWN;
}

static inline int tnr_replace_device(void)
{
    int device = 0;
    return cudaGetDevice(&device) == cudaSuccess ? device : 0;
}

/* The stream as Tenure knows it: 0 may be the thread's own. */
static inline tnr_stream tnr_replace_stream(cudaStream_t stream)
{
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
    return stream == NULL ? (tnr_stream)(uintptr_t)2 : (tnr_stream)stream;
#else
    return (tnr_stream)stream;
#endif
}

/* Announcements make memory free sooner. If one fails, the program could mend nothing. */
static inline void tnr_replace_told(tnr_status status)
{
    (void)status;
}

/* The stream that cudaMalloc's memory belongs to. */
static inline cudaError_t tnr_replace_own_stream(int device, cudaStream_t *stream)
{
    cudaError_t error = cudaSuccess;
    if (device >= TNR_REPLACE_DEVICES)
        return cudaErrorInvalidDevice;
    pthread_mutex_lock(&tnr_replace_mutex);
    if (tnr_replace_state.streams[device] == NULL)
        error =
            (cudaStreamCreateWithFlags)(&tnr_replace_state.streams[device], cudaStreamNonBlocking);
    *stream = tnr_replace_state.streams[device];
    pthread_mutex_unlock(&tnr_replace_mutex);
    return error;
}

/* Allocates from the stream that nothing is launched on, and returns only when that stream is
 * through with all that Tenure may have made it wait for: then no use of the memory has
 * to wait. */
static inline tnr_status tnr_replace_anywhere(void **block, size_t bytes, int device,
                                              cudaStream_t own)
{
    tnr_status status = tnr_malloc(block, bytes, device, (tnr_stream)own);
    if (status == TNR_OK && (cudaStreamQuery)(own) == cudaErrorNotReady &&
        (cudaStreamSynchronize)(own) != cudaSuccess) {
        tnr_replace_told(tnr_free(*block));
        *block = NULL;
        status = TNR_ERR_DRIVER;
    }
    return status;
}

/* ---- memory --------------------------------------------------------------------------------- */

static inline cudaError_t tnr_replace_cudaMalloc(void **address, size_t bytes)
{
    if (address == NULL)
        return (cudaMalloc)(address, bytes); /* for its own error */
    cudaStream_t own;
    void *block = NULL;
    int device = tnr_replace_device();
    /* A capture of this thread must not mind what follows. */
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaError_t error = cudaThreadExchangeStreamCaptureMode(&mode);
    if (error != cudaSuccess)
        return error;
    tnr_status status = TNR_OK;
    error = tnr_replace_own_stream(device, &own);
    if (error == cudaSuccess)
        status = tnr_replace_anywhere(&block, bytes, device, own);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    if (error != cudaSuccess)
        return error;
    if (tnr_replace_is_passed_on(status))
        return (cudaMalloc)(address, bytes);
    if (status == TNR_OK)
        *address = block;
    return tnr_replace_error(status);
}

static inline cudaError_t tnr_replace_cudaMallocPitch(void **address, size_t *pitch, size_t width,
                                                      size_t height)
{
    size_t row = TNR_REPLACE_PITCH_BYTES;
    if (width > row)
        row = (width + row - 1) & ~(row - 1);
    if (address == NULL || pitch == NULL || width == 0 || height == 0 || row < width ||
        height > TNR_BYTES_MAX / row)
        return (cudaMallocPitch)(address, pitch, width, height);
    cudaError_t error = tnr_replace_cudaMalloc(address, row * height);
    if (error == cudaSuccess)
        *pitch = row;
    return error;
}

static inline cudaError_t tnr_replace_cudaMallocAsync(void **address, size_t bytes,
                                                      cudaStream_t stream)
{
    if (address == NULL)
        return (cudaMallocAsync)(address, bytes, stream);
    void *block = NULL;
    tnr_status status = tnr_malloc(&block, bytes, tnr_replace_device(), tnr_replace_stream(stream));
    if (tnr_replace_is_passed_on(status))
        return (cudaMallocAsync)(address, bytes, stream);
    if (status == TNR_OK)
        *address = block;
    return tnr_replace_error(status);
}

static inline cudaError_t tnr_replace_cudaFree(void *address)
{
    if (address == NULL)
        return (cudaFree)(address); /* which is how programs make the runtime start */
    tnr_status status = tnr_free_sync(address);
    return status == TNR_ERR_FOREIGN_POINTER ? (cudaFree)(address) : tnr_replace_error(status);
}

static inline cudaError_t tnr_replace_cudaFreeAsync(void *address, cudaStream_t stream)
{
    if (address == NULL)
        return (cudaFreeAsync)(address, stream);
    tnr_status status = tnr_free_on(address, tnr_replace_stream(stream));
    if (status == TNR_ERR_INVALID_STREAM) /* of another device */
        status = tnr_free_sync(address);
    return status == TNR_ERR_FOREIGN_POINTER ? (cudaFreeAsync)(address, stream)
                                             : tnr_replace_error(status);
}

/* Idle memory that Tenure holds counts as free; memory beyond its limit does not. */
static inline cudaError_t tnr_replace_cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    cudaError_t error = (cudaMemGetInfo)(free_bytes, total_bytes);
    tnr_stats stats;
    stats.struct_bytes = sizeof(stats);
    if (error != cudaSuccess || tnr_stats_get(&stats, NULL, tnr_replace_device()) != TNR_OK)
        return error;
    uint64_t used = stats.allocated_bytes[TNR_WORLD_ALL].current;
    uint64_t held = stats.reserved_bytes.current;
    *free_bytes += held > used ? (size_t)(held - used) : 0;
    uint64_t left = stats.limit_bytes > used ? stats.limit_bytes - used : 0;
    if (*free_bytes > left)
        *free_bytes = (size_t)left;
    return error;
}

/* ---- streams -------------------------------------------------------------------------------- */

static inline cudaError_t tnr_replace_stream_made(cudaError_t error, const cudaStream_t *stream)
{
    if (error == cudaSuccess)
        tnr_replace_told(tnr_stream_created(tnr_replace_device(), (tnr_stream)*stream));
    return error;
}

static inline cudaError_t tnr_replace_cudaStreamCreate(cudaStream_t *stream)
{
    return tnr_replace_stream_made((cudaStreamCreate)(stream), stream);
}

static inline cudaError_t tnr_replace_cudaStreamCreateWithFlags(cudaStream_t *stream,
                                                                unsigned int flags)
{
    return tnr_replace_stream_made((cudaStreamCreateWithFlags)(stream, flags), stream);
}

static inline cudaError_t tnr_replace_cudaStreamCreateWithPriority(cudaStream_t *stream,
                                                                   unsigned int flags, int priority)
{
    return tnr_replace_stream_made((cudaStreamCreateWithPriority)(stream, flags, priority), stream);
}

static inline cudaError_t tnr_replace_cudaStreamDestroy(cudaStream_t stream)
{
    if ((uintptr_t)stream > 2)
        tnr_replace_told(tnr_stream_destroying(tnr_replace_device(), (tnr_stream)stream));
    return (cudaStreamDestroy)(stream);
}

static inline cudaError_t tnr_replace_cudaStreamSynchronize(cudaStream_t stream)
{
    tnr_moment began = tnr_moment_now();
    cudaError_t error = (cudaStreamSynchronize)(stream);
    if (error == cudaSuccess)
        tnr_replace_told(
            tnr_stream_synchronized(tnr_replace_device(), tnr_replace_stream(stream), began));
    return error;
}

static inline cudaError_t tnr_replace_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                                          unsigned int flags TNR_REPLACE_DEFAULT(0))
{
    tnr_moment before = tnr_moment_now();
    cudaError_t error = (cudaStreamWaitEvent)(stream, event, flags);
    if (error == cudaSuccess)
        tnr_replace_told(tnr_stream_waited((tnr_event)event, tnr_replace_device(),
                                           tnr_replace_stream(stream), before));
    return error;
}

static inline cudaError_t tnr_replace_cudaDeviceSynchronize(void)
{
    tnr_moment began = tnr_moment_now();
    cudaError_t error = (cudaDeviceSynchronize)();
    if (error == cudaSuccess)
        tnr_replace_told(tnr_device_synchronized(tnr_replace_device(), began));
    return error;
}

/* 1 if Tenure serves a device besides this one. */
static inline int tnr_replace_serves_another(int device)
{
    tnr_device_info info;
    info.struct_bytes = sizeof(info);
    for (int i = 0; i < TNR_REPLACE_DEVICES && tnr_device_get(&info, i) == TNR_OK; i++)
        if (i != device && info.in_use)
            return 1;
    return 0;
}

/* The device's memory is gone with its context, and Tenure's too. Tenure starts again with the next
 * call. This header ends it with tnr_shutdown, which ends it on all devices. So it refuses while
 * another device is served. */
static inline cudaError_t tnr_replace_cudaDeviceReset(void)
{
    int device = tnr_replace_device();
    if (tnr_replace_serves_another(device))
        return cudaErrorNotSupported;
    tnr_replace_told(tnr_shutdown(1));
    pthread_mutex_lock(&tnr_replace_mutex);
    for (int i = 0; i < TNR_REPLACE_CAPTURES; i++)
        tnr_replace_state.captures[i].graph = 0;
    if (device < TNR_REPLACE_DEVICES)
        tnr_replace_state.streams[device] = NULL; /* it ends with the context */
    pthread_mutex_unlock(&tnr_replace_mutex);
    return (cudaDeviceReset)();
}

/* ---- events ---------------------------------------------------------------------------------
 * A record first forgets the record before it. Otherwise, if another thread's wait came between the
 * record and its announcement, it would be taken for a wait for the old one. */

static inline cudaError_t tnr_replace_cudaEventRecord(cudaEvent_t event,
                                                      cudaStream_t stream TNR_REPLACE_DEFAULT(0))
{
    tnr_event_destroyed((tnr_event)event);
    tnr_moment before = tnr_moment_now();
    cudaError_t error = (cudaEventRecord)(event, stream);
    if (error == cudaSuccess)
        tnr_replace_told(tnr_event_recorded((tnr_event)event, tnr_replace_device(),
                                            tnr_replace_stream(stream), before));
    return error;
}

static inline cudaError_t tnr_replace_cudaEventRecordWithFlags(
    cudaEvent_t event, cudaStream_t stream TNR_REPLACE_DEFAULT(0),
    unsigned int flags TNR_REPLACE_DEFAULT(0))
{
    tnr_event_destroyed((tnr_event)event);
    tnr_moment before = tnr_moment_now();
    cudaError_t error = (cudaEventRecordWithFlags)(event, stream, flags);
    if (error == cudaSuccess)
        tnr_replace_told(tnr_event_recorded((tnr_event)event, tnr_replace_device(),
                                            tnr_replace_stream(stream), before));
    return error;
}

static inline cudaError_t tnr_replace_cudaEventSynchronize(cudaEvent_t event)
{
    tnr_moment before = tnr_moment_now();
    cudaError_t error = (cudaEventSynchronize)(event);
    if (error == cudaSuccess)
        tnr_event_synchronized((tnr_event)event, before);
    return error;
}

static inline cudaError_t tnr_replace_cudaEventQuery(cudaEvent_t event)
{
    tnr_moment before = tnr_moment_now();
    cudaError_t error = (cudaEventQuery)(event);
    if (error == cudaSuccess)
        tnr_event_synchronized((tnr_event)event, before);
    return error;
}

static inline cudaError_t tnr_replace_cudaEventDestroy(cudaEvent_t event)
{
    tnr_event_destroyed((tnr_event)event);
    return (cudaEventDestroy)(event);
}

/* ---- captures ------------------------------------------------------------------------------- */

/* Remembers which graph the capture of a stream becomes. */
static inline void tnr_replace_capture_keep(cudaStream_t stream, tnr_graph graph)
{
    pthread_mutex_lock(&tnr_replace_mutex);
    for (int i = 0; i < TNR_REPLACE_CAPTURES; i++)
        if (tnr_replace_state.captures[i].graph == 0) {
            tnr_replace_state.captures[i].stream = stream;
            tnr_replace_state.captures[i].graph = graph;
            break;
        }
    pthread_mutex_unlock(&tnr_replace_mutex);
}

/* And forgets it; 0 if it did not know. */
static inline tnr_graph tnr_replace_capture_take(cudaStream_t stream)
{
    tnr_graph graph = 0;
    pthread_mutex_lock(&tnr_replace_mutex);
    for (int i = 0; i < TNR_REPLACE_CAPTURES && graph == 0; i++)
        if (tnr_replace_state.captures[i].stream == stream) {
            graph = tnr_replace_state.captures[i].graph;
            tnr_replace_state.captures[i].graph = 0;
        }
    pthread_mutex_unlock(&tnr_replace_mutex);
    return graph;
}

static inline cudaError_t tnr_replace_cudaStreamBeginCapture(cudaStream_t stream,
                                                             enum cudaStreamCaptureMode mode)
{
    cudaError_t error = (cudaStreamBeginCapture)(stream, mode);
    if (error != cudaSuccess)
        return error;
    tnr_graph graph = 0;
    tnr_status status =
        tnr_capture_attach(&graph, tnr_replace_device(), tnr_replace_stream(stream), NULL);
    if (status == TNR_OK) {
        tnr_replace_capture_keep(stream, graph);
    } else if (!tnr_replace_is_passed_on(status)) {
        /* Its memory would not be safe. */
        cudaGraph_t none = NULL;
        if ((cudaStreamEndCapture)(stream, &none) == cudaSuccess)
            (void)cudaGraphDestroy(none);
        return tnr_replace_error(status);
    }
    return cudaSuccess;
}

static inline cudaError_t tnr_replace_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *made)
{
    tnr_graph graph = tnr_replace_capture_take(stream);
    cudaError_t error = (cudaStreamEndCapture)(stream, made);
    if (graph != 0)
        tnr_replace_told(tnr_capture_ended(
            graph, error == cudaSuccess && made != NULL ? (tnr_cuda_graph)*made : NULL));
    return error;
}

/* ---- C++: what its headers add -------------------------------------------------------------- */

#ifdef __cplusplus
template <typename T> static inline cudaError_t tnr_replace_cudaMalloc(T **address, size_t bytes)
{
    return tnr_replace_cudaMalloc(reinterpret_cast<void **>(address), bytes);
}

template <typename T>
static inline cudaError_t tnr_replace_cudaMallocPitch(T **address, size_t *pitch, size_t width,
                                                      size_t height)
{
    return tnr_replace_cudaMallocPitch(reinterpret_cast<void **>(address), pitch, width, height);
}

template <typename T>
static inline cudaError_t tnr_replace_cudaMallocAsync(T **address, size_t bytes,
                                                      cudaStream_t stream)
{
    return tnr_replace_cudaMallocAsync(reinterpret_cast<void **>(address), bytes, stream);
}

template <typename T>
static inline cudaError_t tnr_replace_cudaMallocAsync(T **address, size_t bytes, cudaMemPool_t pool,
                                                      cudaStream_t stream)
{
    return cudaMallocFromPoolAsync(reinterpret_cast<void **>(address), bytes, pool, stream);
}
#endif

/* ---- the names ------------------------------------------------------------------------------ */

/* With per-thread default streams some of them are macros already. */
#undef cudaMallocAsync
#undef cudaFreeAsync
#undef cudaStreamSynchronize
#undef cudaStreamWaitEvent
#undef cudaStreamBeginCapture
#undef cudaStreamEndCapture
#undef cudaEventRecord
#undef cudaEventRecordWithFlags

#define cudaMalloc(...) tnr_replace_cudaMalloc(__VA_ARGS__)
#define cudaMallocPitch(...) tnr_replace_cudaMallocPitch(__VA_ARGS__)
#define cudaMallocAsync(...) tnr_replace_cudaMallocAsync(__VA_ARGS__)
#define cudaFree(...) tnr_replace_cudaFree(__VA_ARGS__)
#define cudaFreeAsync(...) tnr_replace_cudaFreeAsync(__VA_ARGS__)
#define cudaMemGetInfo(...) tnr_replace_cudaMemGetInfo(__VA_ARGS__)
#define cudaStreamCreate(...) tnr_replace_cudaStreamCreate(__VA_ARGS__)
#define cudaStreamCreateWithFlags(...) tnr_replace_cudaStreamCreateWithFlags(__VA_ARGS__)
#define cudaStreamCreateWithPriority(...) tnr_replace_cudaStreamCreateWithPriority(__VA_ARGS__)
#define cudaStreamDestroy(...) tnr_replace_cudaStreamDestroy(__VA_ARGS__)
#define cudaStreamSynchronize(...) tnr_replace_cudaStreamSynchronize(__VA_ARGS__)
#define cudaStreamWaitEvent(...) tnr_replace_cudaStreamWaitEvent(__VA_ARGS__)
#define cudaStreamBeginCapture(...) tnr_replace_cudaStreamBeginCapture(__VA_ARGS__)
#define cudaStreamEndCapture(...) tnr_replace_cudaStreamEndCapture(__VA_ARGS__)
#define cudaEventRecord(...) tnr_replace_cudaEventRecord(__VA_ARGS__)
#define cudaEventRecordWithFlags(...) tnr_replace_cudaEventRecordWithFlags(__VA_ARGS__)
#define cudaEventSynchronize(...) tnr_replace_cudaEventSynchronize(__VA_ARGS__)
#define cudaEventQuery(...) tnr_replace_cudaEventQuery(__VA_ARGS__)
#define cudaEventDestroy(...) tnr_replace_cudaEventDestroy(__VA_ARGS__)
#define cudaDeviceSynchronize(...) tnr_replace_cudaDeviceSynchronize(__VA_ARGS__)
#define cudaDeviceReset(...) tnr_replace_cudaDeviceReset(__VA_ARGS__)

#endif
