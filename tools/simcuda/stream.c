/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: their handles, the default streams, and the calls that make, end, order and query them.
 *
 * A stream lives as long as something refers to it: its handle, queued work, events recorded in it.
 * Destroying one with work queued is legal, as with the driver: the work still runs.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ----------------------------------------------------------------------------------- */

struct sim_stream *sim_stream_new(struct sim_context *context, enum sim_stream_kind kind,
                                  unsigned flags, int priority)
{
    struct sim_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->context = context;
    stream->kind = kind;
    stream->flags = flags;
    stream->priority = priority;
    stream->is_blocking = kind != SIM_LEGACY && (flags & CU_STREAM_NON_BLOCKING) == 0;
    stream->id = ++sim.next_id;
    stream->references = 1;
    return stream;
}

void sim_stream_hold(struct sim_stream *stream)
{
    stream->references++;
}

void sim_stream_drop(struct sim_stream *stream)
{
    if (--stream->references == 0) {
        sim_race_stream_gone(stream);
        free(stream->ring);
        free(stream);
    }
}

/* Forgets queued work without running it. */
void sim_stream_discard(struct sim_stream *stream)
{
    sim_stream_hold(stream);
    while (stream->head != stream->tail) {
        struct sim_op op = *sim_stream_head(stream);
        sim_stream_pop(stream);
        sim_op_dispose(&op);
    }
    sim_stream_drop(stream);
}

/* ---- handles -------------------------------------------------------------------------------- */

/* The calling thread's default stream in a context; made when first asked for. */
static struct sim_stream *per_thread_stream(struct sim_context *context)
{
    uint64_t thread = sim_thread()->number;
    struct sim_stream *stream = context->per_thread;
    while (stream != NULL && stream->thread != thread)
        stream = stream->next_default;
    if (stream == NULL) {
        stream = sim_stream_new(context, SIM_PER_THREAD, CU_STREAM_DEFAULT, 0);
        if (stream != NULL) {
            stream->thread = thread;
            stream->next_default = context->per_thread;
            context->per_thread = stream;
        }
    }
    return stream;
}

/* The stream behind a handle; null with *error said. Default streams are the current context's. */
struct sim_stream *sim_stream_get(CUstream handle, CUresult *error)
{
    struct sim_stream *stream = NULL;
    *error = CUDA_ERROR_INVALID_HANDLE;
    if (handle != NULL && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        stream = sim_slot_get(handle, SIM_STREAM, "stream");
    } else {
        struct sim_context *context = sim_current();
        if (context == NULL || context->slot == NULL) {
            *error = context == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
        } else if (handle == CU_STREAM_PER_THREAD) {
            stream = per_thread_stream(context);
            *error = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            stream = context->legacy;
        }
    }
    if (stream != NULL)
        *error = CUDA_SUCCESS;
    return stream;
}

/* The same for calls that queue or ask: not if a fault has poisoned the stream's context. A handle
 * says which context it belongs to, so none needs to be current. */
struct sim_stream *sim_stream_sound(CUstream handle, CUresult *error)
{
    struct sim_stream *stream = sim_stream_get(handle, error);
    if (stream != NULL)
        *error = stream->context->error;
    return *error == CUDA_SUCCESS ? stream : NULL;
}

/* ---- making and ending ---------------------------------------------------------------------- */

static CUresult stream_create(CUstream *out, unsigned flags, int priority)
{
    if (out == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_stream *stream = sim_stream_new(sim_current(), SIM_CREATED, flags, priority);
    if (stream == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->slot = sim_slot_new(SIM_STREAM, stream);
    if (stream->slot == NULL) {
        sim_stream_drop(stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUstream)stream->slot;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    SIM_ENTER(cuStreamCreate, SIM_NEEDS_CLEAN);
    return sim_leave(stream_create(phStream, Flags, 0));
}

/* A priority out of range is moved into it, as the driver does. */
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    SIM_ENTER(cuStreamCreateWithPriority, SIM_NEEDS_CLEAN);
    int clamped = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    return sim_leave(stream_create(phStream, flags, clamped));
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream hStream)
{
    SIM_ENTER(cuStreamDestroy_v2, SIM_NEEDS_INIT);
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_get(hStream, &result);
    if (stream == NULL || stream->slot == NULL)
        return sim_leave(result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE);
    sim_slot_free(stream->slot);
    stream->slot = NULL;
    sim_capture_stream_gone(stream);
    sim_stream_drop(stream);
    return sim_leave(CUDA_SUCCESS);
}

/* ---- waiting and asking --------------------------------------------------------------------- */

/* Where "all work of this stream so far" ends. The legacy stream's includes the earlier work of all
 * blocking streams, since a marker queued in it now would wait for them. */
static CUresult stream_wait(struct sim_stream *stream)
{
    struct sim_op marker = {.kind = SIM_OP_WAIT};
    if (stream->kind != SIM_LEGACY)
        return sim_wait((struct sim_point){stream, stream->last_ticket, NULL},
                        "cuStreamSynchronize");
    marker.wait = (struct sim_point){stream, 0, NULL};
    sim_stream_hold(stream);
    CUresult result = sim_submit(stream, &marker);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_wait((struct sim_point){stream, stream->last_ticket, NULL}, "cuStreamSynchronize");
}

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream)
{
    SIM_ENTER(cuStreamSynchronize, SIM_NEEDS_INIT);
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_sound(hStream, &result);
    if (stream != NULL)
        result = sim_capture_check_asked(stream);
    return sim_leave(result != CUDA_SUCCESS ? result : stream_wait(stream));
}

static int stream_idle(const struct sim_stream *stream)
{
    if (stream->head != stream->tail)
        return 0;
    for (size_t i = 0; stream->kind == SIM_LEGACY && i < sim.busy_count; i++)
        if (sim.busy[i]->is_blocking && sim.busy[i]->context == stream->context)
            return 0;
    return 1;
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream)
{
    SIM_ENTER(cuStreamQuery, SIM_NEEDS_INIT);
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_sound(hStream, &result);
    if (stream != NULL)
        result = sim_capture_check_asked(stream);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    sim_stream_hold(stream); /* running host functions lets other threads in */
    if (!stream_idle(stream) || sim.due != 0)
        sim_schedule_queried();
    result = stream->context->error;
    if (result == CUDA_SUCCESS && !stream_idle(stream))
        result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS)
        sim_race_idle(stream);
    sim_stream_drop(stream);
    return sim_leave(result);
}

/* A wait that a graph is to make at each launch: only while the stream captures one. */
static CUresult wait_external(struct sim_stream *stream, struct sim_event *event)
{
    if (stream->capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sim_op op = {.kind = SIM_OP_WAIT_EVENT, .record = {.event = event}};
    event->references++;
    return sim_submit(stream, &op);
}

/* Waits for what the event stands for now; a later record does not change that. */
static CUresult wait_event(struct sim_stream *stream, const struct sim_event *event)
{
    CUresult result = CUDA_SUCCESS;
    if (sim_capture_wait(stream, event, &result) || event->point.stream == NULL)
        return result;
    struct sim_op op = {.kind = SIM_OP_WAIT, .wait = event->point};
    sim_point_hold(op.wait);
    return sim_submit(stream, &op);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    SIM_ENTER(cuStreamWaitEvent, SIM_NEEDS_INIT);
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_sound(hStream, &result);
    struct sim_event *event = sim_slot_get(hEvent, SIM_EVENT, "event");
    if (Flags > CU_EVENT_WAIT_EXTERNAL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream != NULL && event == NULL && stream->capture != NULL)
        stream->capture->is_invalid = 1;
    if (stream == NULL || event == NULL)
        return sim_leave(stream == NULL ? result : CUDA_ERROR_INVALID_HANDLE);
    return sim_leave(Flags == CU_EVENT_WAIT_EXTERNAL ? wait_external(stream, event)
                                                     : wait_event(stream, event));
}

/* ---- what a stream is ----------------------------------------------------------------------- */

/* A capturing stream may be asked for some of it and breaks its capture when asked for the rest:
 * that is how the driver has it, in every mode. */
#define STREAM_GETTER(function, check, argument, expression)                                       \
    SIM_ENTER(function, SIM_NEEDS_INIT);                                                           \
    CUresult result = CUDA_SUCCESS;                                                                \
    struct sim_stream *stream = sim_stream_get(hStream, &result);                                  \
    if (stream != NULL)                                                                            \
        result = (argument) == NULL ? CUDA_ERROR_INVALID_VALUE : check(stream);                    \
    if (result == CUDA_SUCCESS)                                                                    \
        *(argument) = (expression);                                                                \
    return sim_leave(result)

CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    STREAM_GETTER(cuStreamGetId, sim_capture_check_outside, streamId, stream->id);
}

CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    STREAM_GETTER(cuStreamGetCtx, sim_capture_check, pctx, (CUcontext)stream->context->slot);
}

CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    STREAM_GETTER(cuStreamGetFlags, sim_capture_check_outside, flags, stream->flags);
}

CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int *priority)
{
    STREAM_GETTER(cuStreamGetPriority, sim_capture_check, priority, stream->priority);
}

CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    STREAM_GETTER(cuStreamGetDevice, sim_capture_check_outside, device,
                  stream->context->device->ordinal);
}
