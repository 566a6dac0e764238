/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of streams: events at the end of a stream's work, and what its next work is ordered after.
 *
 * Marks. Under the stream's lock an event is recorded and then given the next number of the
 * process. So if a numbered mark of the stream is over, all lower marks of the stream are over.
 *
 * Naming. A handle may be given to the driver only while its stream lives. Code that names a stream
 * other than its caller's does so under the stream's lock, after a look at `seal`. The end of the
 * stream sets the seal under the same lock. These short calls (record, wait, ask) are the only
 * driver calls that are made under a lock.
 */
#ifndef TNRI_STREAM_MARK_H
#define TNRI_STREAM_MARK_H

#include "memory/device/event.h"
#include "memory/stream/object.h"

/* ---- numbers -------------------------------------------------------------------------------- */

/* The number of the latest mark of any stream. */
uint64_t tnri_number_now(void);
/* A number above all that were given so far. */
extern _Atomic uint64_t tnri_number_last;
static inline uint64_t tnri_number_next(void)
{
    return atomic_fetch_add_explicit(&tnri_number_last, 1, memory_order_acq_rel) + 1;
}

/* ---- marks ---------------------------------------------------------------------------------- */

/* Records an event at the end of the stream's work; the caller gets one reference. No lock is held.
 * For an ended stream the event is its seal. TNR_ERR_CAPTURE if the stream is being captured, also
 * if another thread has begun that just now: an event of a capture would draw in whatever waits for
 * it, and is never over. */
tnr_status tnri_stream_mark(tnri_stream *stream, tnri_event **event, uint64_t *number);

/* The same for memory that the stream has let go of. If the stream is captured, it let go of the
 * memory before the capture, so the event is its capture mark. If it was destroyed without a word
 * to Tenure, waits for the whole context. In the device's context. */
tnr_status tnri_stream_mark_idle(tnri_stream *stream, tnri_event **event, uint64_t *number);

/* The same while a capture is under way, and without a wait for the context. TNR_ERR_CAPTURE: the
 * stream is in a capture, and the end of its work before that was not marked. */
tnr_status tnri_stream_mark_beside(tnri_stream *stream, tnri_event **event, uint64_t *number);

/* 1 if the calling thread may mark the stream under its own handle: the stream has ended, or it is
 * not another thread's default stream (only a mark on the legacy stream covers that one). */
int tnri_stream_is_markable(const tnri_stream *stream);

/* 1 if the stream may be marked although a capture may be under way: see tnri_stream_mark_idle. */
int tnri_stream_has_mark(const tnri_stream *stream);

/* tnri_stream_mark in two halves for the usual case, with the stream's lock held in between,
 * because between two launches each locked instruction counts. If the usual way fails, the first
 * returns 0 and has done nothing. The second gives up the reference to an event that the mark has
 * made superfluous (may be null) and keeps that event for the next mark, as tnri_stream_recycle
 * does. */
static inline int tnri_stream_mark_begin(tnri_stream *stream, tnri_event **event, uint64_t *number);
static inline void tnri_stream_mark_end(tnri_stream *stream, tnri_event *superfluous);

/* Gives up a reference to the event of one of the stream's marks. If it was the last one, the event
 * is kept for the stream's next mark. Takes the stream's lock. */
void tnri_stream_recycle(tnri_stream *stream, tnri_event *event);

/* The same. Returns 1 if the caller's reference to the stream is kept too, for its next use: then
 * the object may be another stream's from now on. 0: the caller still has it. */
int tnri_stream_recycle_held(tnri_stream *stream, tnri_event *event);

/* Records an event and times the call; one call in TNRI_SAMPLE is timed and stands for all. Under
 * the lock. */
CUresult tnri_stream_drive_timed(tnri_stream *stream, const tnri_event *event, tnr_stream handle);
static inline CUresult tnri_stream_drive(tnri_stream *stream, const tnri_event *event,
                                         tnr_stream handle)
{
    if (tnri_likely(++stream->uncounted < TNRI_SAMPLE))
        return tnri_gpu_event_mark(event->handle, handle);
    return tnri_stream_drive_timed(stream, event, handle);
}

/* The host has learnt that marks up to `number` are over: those of the stream, or of all streams
 * that the device had when that number was the latest. */
void tnri_stream_completed(tnri_stream *stream, uint64_t number);
void tnri_device_completed(tnri_device *device, uint64_t number);

/* 1 if the mark is over, as far as is known without asking. */
static inline int tnri_stream_is_over(const tnri_stream *stream, uint64_t number)
{
    return atomic_load_explicit(&stream->completed, memory_order_acquire) >= number ||
           atomic_load_explicit(&stream->device->completed, memory_order_acquire) >= number;
}

/* ---- order ---------------------------------------------------------------------------------- */

/* 1 if `stream`'s next work is ordered after the mark `number` of `other`. Takes the stream's lock.
 * Without `waits`, 0 also if a thread is inside of that: it may be in a driver call that waits for
 * a host function, and the caller in that function. */
int tnri_stream_is_after(tnri_stream *stream, const tnri_stream *other, uint64_t number, int waits);

/* A stream is asked if somebody will want to know what comes after its work. For a stream that is
 * not asked, Tenure learns nothing from marks and waits. tnri_stream_ask makes a stream an asked
 * one, for the life of its object. tnri_asked_changes grows each time; while it is the same, a
 * stream that was found unasked need not be looked at again. */
extern _Atomic uint64_t tnri_asked_changes;
void tnri_stream_ask(tnri_stream *stream);

/* `stream` was made to wait for the mark `number` of `other`, where `other_clock` (may be null) was
 * its clock then. */
void tnri_stream_waits(tnri_stream *stream, const tnri_clock *other_clock, size_t other_index,
                       uint64_t number);

/* Makes later work of `stream` wait, on the device, for the event of mark `number` of `other`. No
 * lock is held. Errors, without a sentence: TNR_ERR_INVALID_STREAM if `stream` has ended, because
 * it gets no later work; TNR_ERR_CAPTURE if it is being captured, or is the legacy stream, which
 * would break any capture. */
tnr_status tnri_stream_follow(tnri_stream *stream, tnri_event *event, const tnri_stream *other,
                              uint64_t number);

/* The stream's clock, with a reference, if it has not changed since the moment; else null. */
tnri_clock *tnri_stream_clock_at(tnri_stream *stream, uint64_t moment);

/* ---- captures ------------------------------------------------------------------------------- */

/* The stream is about to be captured, and `event` is its mark `number` before that; with null, its
 * capture is over. After the return only the code that captures the stream names it. */
void tnri_stream_capture(tnri_stream *stream, tnri_event *event, uint64_t number);

/* 1 if the stream may be in a capture. The legacy stream, and other threads' default streams, are
 * not asked. No lock is held. */
int tnri_stream_may_capture(tnri_stream *stream);

/* ---- the two halves of a mark --------------------------------------------------------------- */

enum { TNRI_STREAM_SPARES_MAX = 64 };

static inline int tnri_stream_has_spare(const tnri_stream *stream)
{
    return atomic_load_explicit(&stream->spare, memory_order_relaxed) != NULL;
}

/* Takes the spare event that comes next out of the list, or puts one into it. Under the lock. */
static inline void tnri_stream_spare_pop(tnri_stream *stream, const tnri_event *spare)
{
    atomic_store_explicit(&stream->spare, (tnri_event *)(void *)spare->link.next,
                          memory_order_relaxed);
    stream->spares_count--;
}

static inline void tnri_stream_spare_push(tnri_stream *stream, tnri_event *event)
{
    tnri_assert_hot(event->device == stream->device);
    event->link.next =
        (tnri_spare *)(void *)atomic_load_explicit(&stream->spare, memory_order_relaxed);
    atomic_store_explicit(&stream->spare, event, memory_order_relaxed);
    stream->spares_count++;
}

static inline int tnri_stream_mark_begin(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    if (tnri_unlikely(!tnri_stream_has_spare(stream)))
        return 0; /* the lock may be held for long */
    tnri_lock_take(&stream->lock);
    tnri_event *fresh = atomic_load_explicit(&stream->spare, memory_order_relaxed);
    if (tnri_likely(fresh != NULL)) {
        atomic_store_explicit(&fresh->completed, 0, memory_order_relaxed);
        if (tnri_likely(tnri_stream_drive(stream, fresh, stream->handle) == CUDA_SUCCESS)) {
            tnri_stream_spare_pop(stream, fresh);
            stream->marked = *number = tnri_number_next();
            *event = fresh;
            return 1;
        }
    }
    tnri_lock_release(&stream->lock);
    return 0;
}

static inline void tnri_stream_mark_end(tnri_stream *stream, tnri_event *superfluous)
{
    if (tnri_likely(superfluous != NULL && stream->spares_count < TNRI_STREAM_SPARES_MAX &&
                    atomic_load_explicit(&superfluous->holders, memory_order_acquire) == 1)) {
        tnri_stream_spare_push(stream, superfluous);
        superfluous = NULL;
    }
    tnri_lock_release(&stream->lock);
    tnri_event_drop(superfluous);
}

#endif
