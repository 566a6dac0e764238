/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. An event is the point of its latest record: a stream and a ticket. An event that was
 * never recorded counts as finished. Recording again replaces the point at the call. Work that
 * already waits for the earlier point goes on waiting for that point.
 */
#include "capture.h"

#include <stdlib.h>

#define EVENT_FLAGS                                                                                \
    (unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

static struct sim_event *event_get(CUevent handle)
{
    return sim_slot_get(handle, SIM_EVENT, "event");
}

/* A point that was never set is allowed, here and below. */
void sim_point_hold(struct sim_point point)
{
    if (point.stream != NULL) {
        sim_stream_hold(point.stream);
        sim_race_point_hold(point);
    }
}

void sim_point_drop(struct sim_point point)
{
    if (point.stream != NULL) {
        sim_stream_drop(point.stream);
        sim_race_point_drop(point);
    }
}

void sim_event_drop(struct sim_event *event)
{
    if (--event->references == 0) {
        sim_point_drop(event->point);
        sim_capture_forget(event);
        free(event);
    }
}

/* The event now stands for this point, and for nothing captured. */
void sim_event_mark(struct sim_event *event, struct sim_point point)
{
    sim_capture_forget(event);
    sim_point_hold(point);
    sim_point_drop(event->point);
    event->point = point;
}

static CUresult event_create(CUevent *out, unsigned flags)
{
    int interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
    if (out == NULL || (flags & ~EVENT_FLAGS) != 0 ||
        (interprocess && (flags & CU_EVENT_DISABLE_TIMING) == 0))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = calloc(1, sizeof(*event));
    struct sim_slot *slot = event == NULL ? NULL : sim_slot_new(SIM_EVENT, event);
    if (slot == NULL || !sim_overhead_take(sim_current()->device, SIM_OVERHEAD_EVENT)) {
        if (slot != NULL)
            sim_slot_free(slot);
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->slot = slot;
    event->context = sim_current();
    event->flags = flags;
    event->references = 1;
    *out = (CUevent)slot;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    SIM_ENTER(cuEventCreate, SIM_NEEDS_CLEAN);
    return sim_leave(event_create(phEvent, Flags));
}

/* Legal while a record or a wait is queued: those keep what they need. */
CUresult CUDAAPI cuEventDestroy_v2(CUevent hEvent)
{
    SIM_ENTER(cuEventDestroy_v2, SIM_NEEDS_INIT);
    struct sim_event *event = event_get(hEvent);
    if (event == NULL)
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    sim_overhead_give(event->context->device, SIM_OVERHEAD_EVENT);
    sim_slot_free(event->slot);
    event->slot = NULL;
    sim_event_drop(event);
    return sim_leave(CUDA_SUCCESS);
}

CUresult sim_event_record(CUevent handle, CUstream stream_handle, unsigned flags)
{
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_sound(stream_handle, &result);
    struct sim_event *event = event_get(handle);
    if (flags > CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == NULL || event == NULL)
        return stream == NULL ? result : CUDA_ERROR_INVALID_HANDLE;
    if (event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    int external = flags == CU_EVENT_RECORD_EXTERNAL;
    if (external && stream->capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!external && sim_capture_record(stream, event, &result))
        return result;
    struct sim_op op = {.kind = SIM_OP_RECORD, .record = {.event = event}};
    event->references++;
    return sim_submit(stream, &op);
}

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream)
{
    SIM_ENTER(cuEventRecord, SIM_NEEDS_INIT);
    return sim_leave(sim_event_record(hEvent, hStream, 0));
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    SIM_ENTER(cuEventRecordWithFlags, SIM_NEEDS_INIT);
    return sim_leave(sim_event_record(hEvent, hStream, flags));
}

static int event_done(const struct sim_event *event)
{
    return event->point.stream == NULL || sim_point_done(event->point);
}

/* The host has been told that the event is done. */
static void event_known(const struct sim_event *event)
{
    if (event->point.stream != NULL)
        sim_race_waited(event->point);
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent)
{
    SIM_ENTER(cuEventQuery, SIM_NEEDS_INIT);
    struct sim_event *event = event_get(hEvent);
    if (event == NULL)
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    CUresult result = sim_capture_check_event(event);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    event->references++; /* running host functions lets other threads in */
    if (!event_done(event) || sim.due != 0)
        sim_schedule_queried();
    result = event->context->error;
    if (result == CUDA_SUCCESS && !event_done(event))
        result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS)
        event_known(event);
    sim_event_drop(event);
    return sim_leave(result);
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent)
{
    SIM_ENTER(cuEventSynchronize, SIM_NEEDS_INIT);
    const struct sim_event *event = event_get(hEvent);
    if (event == NULL)
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    CUresult result = sim_capture_check_event(event);
    if (result == CUDA_SUCCESS)
        result = event->context->error;
    if (result != CUDA_SUCCESS || event->point.stream == NULL)
        return sim_leave(result);
    return sim_leave(sim_wait(event->point, "cuEventSynchronize"));
}

/* Whether the event stands for a time, that is for a record. */
static CUresult elapsed_check(const struct sim_event *event)
{
    CUresult result = event == NULL ? CUDA_ERROR_INVALID_HANDLE : sim_capture_check_elapsed(event);
    return result == CUDA_SUCCESS && event->point.stream == NULL ? CUDA_ERROR_INVALID_HANDLE
                                                                 : result;
}

/* A loop that asks until both are done ends. */
static int are_done(struct sim_event *start, struct sim_event *end)
{
    start->references++; /* running host functions lets other threads in */
    end->references++;
    if (!event_done(start) || !event_done(end) || sim.due != 0)
        sim_schedule_queried();
    int is_done = event_done(start) && event_done(end);
    if (is_done) {
        event_known(start);
        event_known(end);
    }
    return is_done;
}

static CUresult event_elapsed(float *milliseconds, CUevent start_handle, CUevent end_handle)
{
    struct sim_event *start = event_get(start_handle);
    struct sim_event *end = event_get(end_handle);
    if (milliseconds == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = elapsed_check(start);
    if (result == CUDA_SUCCESS)
        result = elapsed_check(end);
    if (result != CUDA_SUCCESS)
        return result;
    if (start->context->device != end->context->device ||
        ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->context->error != CUDA_SUCCESS)
        return start->context->error;
    result = are_done(start, end) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS)
        *milliseconds = (float)((double)(int64_t)(end->time_ns - start->time_ns) / 1e6);
    sim_event_drop(start);
    sim_event_drop(end);
    return result;
}

CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    SIM_ENTER(cuEventElapsedTime, SIM_NEEDS_INIT);
    return sim_leave(event_elapsed(pMilliseconds, hStart, hEnd));
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    SIM_ENTER(cuEventElapsedTime_v2, SIM_NEEDS_INIT);
    return sim_leave(event_elapsed(pMilliseconds, hStart, hEnd));
}
