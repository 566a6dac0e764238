/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of streams, and their order: see mark.h. */
#include "memory/stream/mark.h"

#include "base/error.h"
#include "memory/stream/facts.h"

_Atomic uint64_t tnri_number_last;

uint64_t tnri_number_now(void)
{
    return atomic_load_explicit(&tnri_number_last, memory_order_acquire);
}

/* Its seal, if the stream has ended. */
static inline tnri_event *seal_of(const tnri_stream *stream)
{
    return atomic_load_explicit(&stream->seal, memory_order_acquire);
}

/* ---- recording ------------------------------------------------------------------------------ */

/* Takes the stream's lock in order to keep an event for it; 0 if that is not worth it. A thread
 * that has the stream to itself keeps as many as it will soon need, without a locked instruction.
 * Where threads share a stream, one is enough, and none is worth a wait for a thread that records:
 * that one may be waiting for the host function which this is. */
static int stream_lock_to_keep(tnri_stream *stream)
{
    return tnri_lock_try_outside(&stream->lock) ||
           (!tnri_stream_has_spare(stream) && tnri_lock_try(&stream->lock));
}

/* Keeps an event, and the caller's reference to the stream if it is offered. Returns 1 if that is
 * kept, too. */
static inline int mark_keep(tnri_stream *stream, tnri_event *event, int is_hold_offered)
{
    if (event == NULL)
        return 0;
    if (!stream->is_default && stream_lock_to_keep(stream)) {
        if (seal_of(stream) == NULL) {
            int is_kept = is_hold_offered && stream->spare_holds < TNRI_STREAM_SPARES_MAX;
            stream->spare_holds += (unsigned)is_kept;
            tnri_stream_mark_end(stream, event);
            return is_kept;
        }
        tnri_lock_release(&stream->lock);
    }
    tnri_event_drop(event);
    return 0;
}

void tnri_stream_recycle(tnri_stream *stream, tnri_event *event)
{
    (void)mark_keep(stream, event, 0);
}

int tnri_stream_recycle_held(tnri_stream *stream, tnri_event *event)
{
    return mark_keep(stream, event, 1);
}

/* The handle that the calling thread may give the driver. */
static tnr_stream stream_handle(const tnri_stream *stream)
{
    /* Only its own thread can name a per-thread default stream. But such a stream is a blocking
     * one, so the legacy stream is ordered after all that it has been given. */
    if (tnri_unlikely(stream->thread != 0 && stream->thread != tnri_thread_number()))
        return TNRI_STREAM_LEGACY;
    return stream->handle;
}

TNRI_SELDOM CUresult tnri_stream_drive_timed(tnri_stream *stream, const tnri_event *event,
                                             tnr_stream handle)
{
    stream->uncounted = 0;
    uint64_t began_ns = tnri_clock_ns();
    CUresult result = tnri_gpu_event_mark(event->handle, handle);
    tnri_driver_count(&stream->device->counters, TNR_DRIVER_EVENT, TNRI_SAMPLE,
                      (tnri_clock_ns() - began_ns) * TNRI_SAMPLE);
    return result;
}

/* The legacy stream, also in place of other threads' default streams. */
static TNRI_SELDOM CUresult legacy_drive(tnri_stream *stream, const tnri_event *event,
                                         tnr_stream handle)
{
    tnri_captures_hold_off();
    CUresult result = tnri_stream_is_capturing(handle) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                                       : tnri_stream_drive(stream, event, handle);
    tnri_captures_let_go();
    return result;
}

/* Records and numbers. An ended stream gives its seal instead, since its handle must not be named
 * any more. */
static CUresult stream_record(tnri_stream *stream, tnr_stream handle, tnri_event **event,
                              uint64_t *number)
{
    CUresult result = CUDA_SUCCESS;
    tnri_event *unused = NULL;
    tnri_lock_take(&stream->lock);
    if (tnri_unlikely(seal_of(stream) != NULL)) {
        unused = *event;
        *event = seal_of(stream);
        *number = stream->marked;
        tnri_event_hold(*event);
    } else {
        result = tnri_unlikely(stream->is_default) ? legacy_drive(stream, *event, handle)
                                                   : tnri_stream_drive(stream, *event, handle);
        if (result == CUDA_SUCCESS)
            stream->marked = *number = tnri_number_next();
    }
    tnri_lock_release(&stream->lock);
    tnri_event_drop(unused);
    return result;
}

static TNRI_SELDOM tnr_status mark_refused(const tnri_stream *stream)
{
    return tnri_error(TNR_ERR_CAPTURE,
                      "stream %p is being captured, so the end of its work cannot be marked.",
                      (void *)stream->handle);
}

/* Records one's own event. Takes over the reference; *event is null on failure. */
static tnr_status mark_with(tnri_stream *stream, tnr_stream handle, tnri_event **event,
                            uint64_t *number)
{
    CUresult result = stream_record(stream, handle, event, number);
    if (tnri_likely(result == CUDA_SUCCESS))
        return TNR_OK;
    tnri_event_drop(*event);
    *event = NULL;
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return mark_refused(stream);
    return tnri_stream_error(result, TNRI_GPU_EVENT_RECORD, stream->handle);
}

/* The mark of a default stream, or one that needs a new event: in the device's context. */
static tnr_status stream_mark_slowly(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    tnri_visit visit;
    tnr_status status = tnri_device_enter(stream->device, &visit);
    if (status != TNR_OK)
        return status;
    status = tnri_event_take(stream->device, event);
    if (status == TNR_OK)
        status = mark_with(stream, stream_handle(stream), event, number);
    tnri_device_leave(&visit);
    return status;
}

/* An ended stream's handle may not be asked, so it is asked under the lock; such a stream gives its
 * seal, whatever captures. */
static TNRI_SELDOM int stream_refuses_mark(tnri_stream *stream)
{
    tnri_lock_take(&stream->lock);
    int refuses = seal_of(stream) == NULL && tnri_stream_is_capturing(stream_handle(stream));
    tnri_lock_release(&stream->lock);
    return refuses;
}

/* A mark without a spare event of the stream's own. */
static inline tnr_status stream_mark_seldom(tnri_stream *stream, tnri_event **event,
                                            uint64_t *number)
{
    /* Only default streams, and making an event, need the context; switching to it is dear. */
    *event = stream->is_default ? NULL : tnri_event_take_spare(stream->device);
    if (*event == NULL)
        return stream_mark_slowly(stream, event, number);
    return mark_with(stream, stream->handle, event, number);
}

/* A stream may be drawn into a capture, by another thread, between the question and the record. So
 * it is asked again: it leaves a capture only with the capture's end, and of one that has ended no
 * event can be waited for. 0 if the event may be one of a capture, and is dropped. A stream that
 * has ended meanwhile gives its seal. */
static TNRI_SELDOM int mark_is_outside(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    tnri_event *unused = *event;
    tnri_lock_take(&stream->lock);
    tnri_event *seal = seal_of(stream);
    if (seal != NULL) {
        *event = seal;
        *number = stream->marked;
        tnri_event_hold(seal);
    } else if (tnri_stream_is_capturing(stream_handle(stream))) {
        *event = NULL;
    } else {
        unused = NULL;
    }
    tnri_lock_release(&stream->lock);
    tnri_event_drop(unused);
    return *event != NULL;
}

tnr_status tnri_stream_mark(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    if (tnri_unlikely(tnri_capturing()) && stream_refuses_mark(stream))
        return mark_refused(stream);
    tnr_status status = TNR_OK;
    if (tnri_stream_mark_begin(stream, event, number))
        tnri_lock_release(&stream->lock);
    else
        status = stream_mark_seldom(stream, event, number);
    if (tnri_unlikely(tnri_capturing()) && status == TNR_OK &&
        !mark_is_outside(stream, event, number))
        return mark_refused(stream);
    return status;
}

/* The capture mark, with a reference; 0 if there is none, or if the capture is over although Tenure
 * has not been told: then the stream may have worked since. */
static int capture_mark_take(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    if (tnri_likely(atomic_load_explicit(&stream->capture_mark, memory_order_relaxed) == NULL))
        return 0;
    tnri_lock_take(&stream->lock);
    const tnri_event *seal = seal_of(stream);
    *event = atomic_load_explicit(&stream->capture_mark, memory_order_relaxed);
    /* A late seal says that it was captured to its end. */
    int is_over = seal != NULL ? seal->late == 0
                               : tnri_stream_is_markable(stream) &&
                                     !tnri_stream_is_capturing(stream_handle(stream));
    if (is_over)
        *event = NULL;
    if (*event != NULL) {
        tnri_event_hold(*event);
        *number = stream->capture_number;
    }
    tnri_lock_release(&stream->lock);
    return *event != NULL;
}

tnr_status tnri_stream_mark_idle(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    tnr_status status;
    *event = NULL;
    if (capture_mark_take(stream, event, number))
        return TNR_OK;
    tnri_stream_introduce(stream);
    status = tnri_stream_mark(stream, event, number);
    if (status == TNR_ERR_CAPTURE && capture_mark_take(stream, event, number))
        return TNR_OK; /* its capture has just begun */
    if (status != TNR_ERR_INVALID_STREAM)
        return status;
    /* It was destroyed under us. What it ran is over when the context is idle. */
    *number = tnri_number_now();
    return tnri_event_context(stream->device, event);
}

tnr_status tnri_stream_mark_beside(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    if (capture_mark_take(stream, event, number))
        return TNR_OK;
    tnr_status status = tnri_stream_mark(stream, event, number);
    if (status == TNR_ERR_CAPTURE && capture_mark_take(stream, event, number))
        return TNR_OK;
    return status;
}

int tnri_stream_is_markable(const tnri_stream *stream)
{
    return stream->thread == 0 || stream->thread == tnri_thread_number() || seal_of(stream) != NULL;
}

int tnri_stream_has_mark(const tnri_stream *stream)
{
    return !tnri_capturing() || seal_of(stream) != NULL ||
           atomic_load_explicit(&stream->capture_mark, memory_order_acquire) != NULL;
}

void tnri_stream_completed(tnri_stream *stream, uint64_t number)
{
    tnri_peak_raise(&stream->completed, number);
}

/* Streams that come later have later marks, whatever object they get. */
void tnri_device_completed(tnri_device *device, uint64_t number)
{
    tnri_peak_raise(&device->gpu->completed, number);
}

/* ---- order ---------------------------------------------------------------------------------- */

int tnri_stream_is_after(tnri_stream *stream, const tnri_stream *other, uint64_t number, int waits)
{
    if (stream == other || tnri_stream_is_over(other, number))
        return 1;
    /* Work of the legacy stream waits for all earlier work of blocking streams, and the reverse. */
    if (stream->device == other->device &&
        ((stream->is_legacy && atomic_load(&other->is_blocking)) ||
         (atomic_load(&stream->is_blocking) && other->is_legacy)))
        return 1;
    /* What it was made to wait for had a lower number than the change of its clock then got. */
    if (atomic_load_explicit(&stream->waited, memory_order_relaxed) < number)
        return 0;
    if (waits)
        tnri_lock_take(&stream->lock);
    else if (!tnri_lock_try(&stream->lock))
        return 0;
    int after = tnri_clock_of(stream->clock, other->index) >= number;
    tnri_lock_release(&stream->lock);
    return after;
}

_Atomic uint64_t tnri_asked_changes;

TNRI_SELDOM void tnri_stream_ask(tnri_stream *stream)
{
    atomic_store_explicit(&stream->is_asked, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&tnri_asked_changes, 1, memory_order_release);
}

/* It knows of a stream that is asked: a stream that waits for it learns of that one. Under the
 * lock. */
static void clock_join(tnri_stream *stream, const tnri_clock *other_clock, size_t other_index,
                       uint64_t number)
{
    stream->clock = tnri_clock_join(stream->clock, other_clock, other_index, number);
    atomic_store_explicit(&stream->waited, tnri_number_next(), memory_order_relaxed);
    if (!atomic_load_explicit(&stream->is_asked, memory_order_relaxed))
        tnri_stream_ask(stream);
}

void tnri_stream_waits(tnri_stream *stream, const tnri_clock *other_clock, size_t other_index,
                       uint64_t number)
{
    tnri_lock_take(&stream->lock);
    clock_join(stream, other_clock, other_index, number);
    tnri_lock_release(&stream->lock);
}

tnr_status tnri_stream_follow(tnri_stream *stream, tnri_event *event, const tnri_stream *other,
                              uint64_t number)
{
    CUresult result = CUDA_SUCCESS;
    int is_over = atomic_load_explicit(&event->completed, memory_order_acquire);
    if (tnri_unlikely(event->late != 0) && !is_over && !tnri_event_is_over(event))
        return tnri_error(TNR_ERR_CAPTURE, "a stream that is gone can be waited for when no "
                                           "capture is under way.");
    is_over = is_over || event->late != 0;
    tnri_lock_take(&stream->lock);
    if (stream->is_legacy)
        tnri_captures_hold_off();
    tnr_status status = TNR_OK;
    if (seal_of(stream) != NULL)
        status = TNR_ERR_INVALID_STREAM;
    else if (atomic_load(&stream->capture_mark) != NULL || (stream->is_legacy && tnri_capturing()))
        status = TNR_ERR_CAPTURE;
    if (status == TNR_OK && !is_over)
        result = tnri_gpu_stream_follow(stream->handle, event->handle);
    if (stream->is_legacy)
        tnri_captures_let_go();
    if (status == TNR_OK && result == CUDA_SUCCESS)
        clock_join(stream, NULL, other->index, number);
    tnri_lock_release(&stream->lock);
    if (status != TNR_OK)
        return status;
    if (result == CUDA_SUCCESS)
        return TNR_OK;
    return tnri_driver_error(result, TNRI_GPU_STREAM_FOLLOW, "ordering one stream after another");
}

tnri_clock *tnri_stream_clock_at(tnri_stream *stream, uint64_t moment)
{
    tnri_lock_take(&stream->lock);
    uint64_t waited = atomic_load_explicit(&stream->waited, memory_order_relaxed);
    tnri_clock *clock = waited <= moment ? tnri_clock_hold(stream->clock) : NULL;
    tnri_lock_release(&stream->lock);
    return clock;
}

/* ---- captures ------------------------------------------------------------------------------- */

void tnri_stream_capture(tnri_stream *stream, tnri_event *event, uint64_t number)
{
    if (event != NULL)
        tnri_event_hold(event);
    tnri_lock_take(&stream->lock);
    tnri_event *before = atomic_exchange(&stream->capture_mark, event);
    stream->capture_number = number;
    tnri_lock_release(&stream->lock);
    tnri_event_drop(before);
}

int tnri_stream_may_capture(tnri_stream *stream)
{
    if (atomic_load_explicit(&stream->capture_mark, memory_order_acquire) != NULL)
        return 1;
    if (stream->is_legacy || (stream->thread != 0 && stream->thread != tnri_thread_number()))
        return 0;
    tnri_lock_take(&stream->lock);
    int may = seal_of(stream) == NULL && tnri_stream_is_capturing(stream->handle);
    tnri_lock_release(&stream->lock);
    return may;
}
