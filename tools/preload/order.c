/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events: the driver is called, and what it has done is announced to Tenure, which
 * learns from it what is ordered after what. Announcements never fail a call of the program.
 *
 * Streams are known from their creation. Those of contexts that are not served are strangers: what
 * they do is announced nowhere, and frees of memory that they may use wait for them on the host.
 */
#include "order.h"

#include <pthread.h>
#include <stdlib.h>

#include "check/check.h"
#include "handles.h"

static handles streams = HANDLES_INIT; /* of served devices: stream -> device + 1 */
static _Atomic int is_given_up;

static int is_default(CUstream stream)
{
    return (uintptr_t)stream <= 2;
}

static int stream_index(CUstream stream)
{
    static _Thread_local handles_memory memory;
    uint64_t value;
    return handles_recall(&streams, &memory, stream, &value) ? (int)value - 1 : -1;
}

service_device *order_device(CUstream stream)
{
    if (is_default(stream))
        return service_here();
    int index = stream_index(stream);
    if (index < 0)
        return NULL;
    service_device *device = service_device_at(index);
    return atomic_load_explicit(&device->is_on, memory_order_acquire) ? device : service_here();
}

service_device *order_device_started(CUstream stream)
{
    if (is_default(stream))
        return service_here_started();
    int index = stream_index(stream);
    if (index < 0)
        return NULL;
    service_device *device = service_device_at(index);
    return atomic_load_explicit(&device->is_on, memory_order_acquire) ? device : NULL;
}

void order_give_up(void)
{
    atomic_store(&is_given_up, 1);
}

/* ---- strangers ------------------------------------------------------------------------------ */

typedef struct stranger {
    CUstream stream;
    const void *context; /* with which it ends; of a part of a device, the green context */
} stranger;

/* Streams that Tenure does not know. The mutex is held while they are waited for, so that none is
 * destroyed meanwhile. */
static struct {
    pthread_mutex_t mutex;
    stranger *list; /* under the mutex */
    size_t count, room;
    _Atomic int is_any;
} strangers = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void stranger_add(CUstream stream, const void *context)
{
    pthread_mutex_lock(&strangers.mutex);
    if (strangers.count == strangers.room) {
        size_t room = strangers.room * 2 + 8;
        stranger *grown = realloc(strangers.list, room * sizeof(*grown));
        if (grown != NULL) {
            strangers.list = grown;
            strangers.room = room;
        }
    }
    if (strangers.count < strangers.room)
        strangers.list[strangers.count++] = (stranger){stream, context};
    atomic_store(&strangers.is_any, 1);
    pthread_mutex_unlock(&strangers.mutex);
}

/* A stream that captures may not be waited for: to try ends the capture. */
static void stranger_wait(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    (void)REAL(cuStreamIsCapturing, (stream, &status));
    if (status == CU_STREAM_CAPTURE_STATUS_NONE)
        (void)REAL(cuStreamSynchronize, (stream));
}

/* Forgets a stream, or all of a context. Their work may go on, and cannot be waited for any more:
 * so it is now. What a stranger did before it joined a capture, in which it then ends, is the one
 * thing that nothing can wait for. */
static void strangers_remove(CUstream stream, const void *context)
{
    if (!atomic_load(&strangers.is_any))
        return;
    pthread_mutex_lock(&strangers.mutex);
    for (size_t i = strangers.count; i-- > 0;) {
        stranger *one = &strangers.list[i];
        if (one->stream != stream && (context == NULL || one->context != context))
            continue;
        stranger_wait(one->stream);
        *one = strangers.list[--strangers.count];
    }
    atomic_store(&strangers.is_any, strangers.count > 0);
    pthread_mutex_unlock(&strangers.mutex);
}

void order_context_ends(const void *context)
{
    if (context == NULL || !service_enter())
        return;
    strangers_remove(NULL, context);
    service_leave();
}

void order_wait_for_strangers(void)
{
    if (!atomic_load_explicit(&strangers.is_any, memory_order_relaxed))
        return;
    CUstreamCaptureMode before = service_relaxed();
    pthread_mutex_lock(&strangers.mutex);
    for (size_t i = 0; i < strangers.count; i++)
        stranger_wait(strangers.list[i].stream);
    pthread_mutex_unlock(&strangers.mutex);
    service_relaxed_end(before);
}

/* ---- streams -------------------------------------------------------------------------------- */

static void stream_made(CUstream stream)
{
    if (service_only_watches() || !service_enter())
        return;
    service_device *device = service_here();
    if (device != NULL && tnr_stream_created(device->index, stream) == TNR_OK) {
        handles_set(&streams, stream, (uint64_t)device->index + 1);
        service_count_one(COUNT_STREAMS);
    } else {
        CUcontext context = NULL;
        (void)REAL(cuCtxGetCurrent, (&context));
        stranger_add(stream, context);
    }
    service_leave();
}

CUresult CUDAAPI replace_cuStreamCreate(CUstream *stream, unsigned flags)
{
    CUresult result = REAL(cuStreamCreate, (stream, flags));
    if (result != CUDA_SUCCESS)
        return result;
    stream_made(*stream);
    CHECK_TELL(check_stream_made(*stream, flags));
    return result;
}

CUresult CUDAAPI replace_cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CUresult result = REAL(cuStreamCreateWithPriority, (stream, flags, priority));
    if (result != CUDA_SUCCESS)
        return result;
    stream_made(*stream);
    CHECK_TELL(check_stream_made(*stream, flags));
    return result;
}

CUresult CUDAAPI replace_cuGreenCtxStreamCreate(CUstream *stream, void *context, unsigned flags,
                                                int priority)
{
    CUresult result = REAL(cuGreenCtxStreamCreate, (stream, context, flags, priority));
    if (result == CUDA_SUCCESS && service_enter()) {
        stranger_add(*stream, context); /* of a part of the device: a context of its own */
        service_leave();
        CHECK_TELL(check_stream_made(*stream, flags));
    }
    return result;
}

static void stream_ends(CUstream stream)
{
    if (is_default(stream) || !service_enter())
        return;
    service_device *device = order_device_started(stream);
    /* If that fails, the stream's memory waits for the end of its work all the same. */
    tnr_status told = device == NULL ? TNR_OK : tnr_stream_destroying(device->index, stream);
    (void)told;
    if (!handles_take(&streams, stream, NULL))
        strangers_remove(stream, NULL);
    service_leave();
}

CUresult CUDAAPI replace_cuStreamDestroy_v2(CUstream stream)
{
    CHECK_TELL(check_stream_ends(stream));
    stream_ends(stream);
    return REAL(cuStreamDestroy_v2, (stream));
}

CUresult CUDAAPI replace_cuStreamDestroy(CUstream stream)
{
    CHECK_TELL(check_stream_ends(stream));
    stream_ends(stream);
    return REAL(cuStreamDestroy, (stream));
}

void order_forget(int device)
{
    handles_clear(&streams, (uint64_t)device + 1);
}

/* ---- the host learns ------------------------------------------------------------------------ */

/* The host has seen all work of a stream end, by a call that began at a moment. */
static void stream_seen(CUstream stream, tnr_moment began)
{
    if (!service_enter())
        return;
    service_device *device = order_device_started(stream);
    if (device != NULL && tnr_stream_synchronized(device->index, stream, began) == TNR_OK)
        service_count_one(COUNT_SYNCHRONISED);
    service_leave();
}

CUresult CUDAAPI replace_cuStreamSynchronize(CUstream stream)
{
    uint64_t moment = check_is_on() ? check_stream_moment(stream) : 0;
    tnr_moment began = tnr_moment_now();
    CUresult result = REAL(cuStreamSynchronize, (stream));
    if (result != CUDA_SUCCESS)
        return result;
    stream_seen(stream, began);
    CHECK_TELL(check_stream_seen(stream, moment));
    return result;
}

CUresult CUDAAPI replace_cuStreamSynchronize_ptsz(CUstream stream)
{
    return replace_cuStreamSynchronize(stream_of_thread(stream));
}

CUresult CUDAAPI replace_cuStreamQuery(CUstream stream)
{
    uint64_t moment = check_is_on() ? check_stream_moment(stream) : 0;
    tnr_moment began = tnr_moment_now();
    CUresult result = REAL(cuStreamQuery, (stream));
    if (result != CUDA_SUCCESS)
        return result;
    stream_seen(stream, began);
    CHECK_TELL(check_stream_seen(stream, moment));
    return result;
}

CUresult CUDAAPI replace_cuStreamQuery_ptsz(CUstream stream)
{
    return replace_cuStreamQuery(stream_of_thread(stream));
}

static void event_seen(CUevent event, tnr_moment began)
{
    if (service_only_watches() || !service_enter())
        return;
    tnr_event_synchronized(event, began);
    service_count_one(COUNT_SYNCHRONISED);
    service_leave();
}

CUresult CUDAAPI replace_cuEventSynchronize(CUevent event)
{
    void *moment = check_is_on() ? check_event_moment(event) : NULL;
    tnr_moment began = tnr_moment_now();
    CUresult result = REAL(cuEventSynchronize, (event));
    CHECK_TELL(check_event_seen(moment, result == CUDA_SUCCESS));
    if (result == CUDA_SUCCESS)
        event_seen(event, began);
    return result;
}

CUresult CUDAAPI replace_cuEventQuery(CUevent event)
{
    void *moment = check_is_on() ? check_event_moment(event) : NULL;
    tnr_moment began = tnr_moment_now();
    CUresult result = REAL(cuEventQuery, (event));
    CHECK_TELL(check_event_seen(moment, result == CUDA_SUCCESS));
    if (result == CUDA_SUCCESS)
        event_seen(event, began);
    return result;
}

CUresult CUDAAPI replace_cuCtxSynchronize(void)
{
    tnr_moment began = tnr_moment_now();
    CUresult result = REAL(cuCtxSynchronize, ());
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_device_seen());
    if (result != CUDA_SUCCESS || !service_enter())
        return result;
    service_device *device = service_here_started();
    if (device != NULL && tnr_device_synchronized(device->index, began) == TNR_OK)
        service_count_one(COUNT_SYNCHRONISED);
    service_leave();
    return result;
}

/* ---- the device is ordered ------------------------------------------------------------------ */

/* Before a record: what was announced of the event does not hold for much longer. */
static tnr_moment record_begins(CUevent event)
{
    tnr_moment before = tnr_moment_now();
    if (event != NULL && !service_only_watches() && service_enter()) {
        tnr_event_destroyed(event);
        service_leave();
    }
    return before;
}

static void record_made(CUevent event, CUstream stream, tnr_moment before)
{
    if (atomic_load_explicit(&is_given_up, memory_order_relaxed) || !service_enter())
        return;
    service_device *device = order_device_started(stream);
    if (device != NULL && tnr_event_recorded(event, device->index, stream, before) == TNR_OK)
        service_count_one(COUNT_RECORDS);
    service_leave();
}

CUresult CUDAAPI replace_cuEventRecord(CUevent event, CUstream stream)
{
    tnr_moment before = record_begins(event);
    CUresult result = REAL(cuEventRecord, (event, stream));
    if (result == CUDA_SUCCESS)
        record_made(event, stream, before);
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_event_recorded(event, stream));
    return result;
}

CUresult CUDAAPI replace_cuEventRecord_ptsz(CUevent event, CUstream stream)
{
    return replace_cuEventRecord(event, stream_of_thread(stream));
}

CUresult CUDAAPI replace_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    tnr_moment before = record_begins(event);
    CUresult result = REAL(cuEventRecordWithFlags, (event, stream, flags));
    if (result == CUDA_SUCCESS)
        record_made(event, stream, before);
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_event_recorded(event, stream));
    return result;
}

CUresult CUDAAPI replace_cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags)
{
    return replace_cuEventRecordWithFlags(event, stream_of_thread(stream), flags);
}

CUresult CUDAAPI replace_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    tnr_moment before = tnr_moment_now();
    CUresult result = REAL(cuStreamWaitEvent, (stream, event, flags));
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_event_waited(stream, event));
    if (result != CUDA_SUCCESS || atomic_load_explicit(&is_given_up, memory_order_relaxed) ||
        !service_enter())
        return result;
    service_device *device = order_device_started(stream);
    if (device != NULL && tnr_stream_waited(event, device->index, stream, before) == TNR_OK)
        service_count_one(COUNT_WAITS);
    service_leave();
    return result;
}

CUresult CUDAAPI replace_cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags)
{
    return replace_cuStreamWaitEvent(stream_of_thread(stream), event, flags);
}

static void event_ends(CUevent event)
{
    if (event == NULL || service_only_watches() || !service_enter())
        return;
    tnr_event_destroyed(event);
    service_leave();
}

CUresult CUDAAPI replace_cuEventDestroy_v2(CUevent event)
{
    CHECK_TELL(check_event_ends(event));
    event_ends(event);
    return REAL(cuEventDestroy_v2, (event));
}

CUresult CUDAAPI replace_cuEventDestroy(CUevent event)
{
    CHECK_TELL(check_event_ends(event));
    event_ends(event);
    return REAL(cuEventDestroy, (event));
}
