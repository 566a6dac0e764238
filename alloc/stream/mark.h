/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of streams: events at the end of a stream's work, and what its next work is ordered after.
 *
 * Marks. Under the stream's lock an event is recorded and then given the next number of the
 * process. So if a numbered mark of the stream is over, all of its lower ones are.
 *
 * Naming. A handle may be given to the driver only while its stream lives. Whoever names a stream
 * that is not his caller's does so under the stream's lock, after a look at `seal`; the end of the
 * stream sets the seal under the same lock. These short calls (record, wait, ask) are the only ones
 * that are made under a lock.
 */
#ifndef TNRI_STREAM_MARK_H
#define TNRI_STREAM_MARK_H

#include "device/event.h"
#include "stream/object.h"

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

/* Records an event at the end of the stream's work; the caller holds one reference. No lock is
 * held. An ended stream gives its seal. TNR_ERR_CAPTURE if it is being captured. */
tnr_status tnri_stream_mark(tnri_stream *stream, tnri_event **event, uint64_t *number);

/* The same for memory that the stream has let go of, which is all that it had before a capture: a
 * stream that is captured gives its capture mark, and for one that was destroyed without a word the
 * whole context is waited for. In the device's context. */
tnr_status tnri_stream_mark_idle(tnri_stream *stream, tnri_event **event, uint64_t *number);

/* 1 if the calling thread may mark the stream as what it is: it is not another thread's default
 * stream, of which only the legacy stream can tell, or it has ended. */
int tnri_stream_is_markable(const tnri_stream *stream);

/* 1 if the stream may be marked although a capture may be under way: see tnri_stream_mark_idle. */
int tnri_stream_has_mark(const tnri_stream *stream);

/* The same in two halves, with the stream's lock held in between, for the usual case: between two
 * launches each locked instruction counts. The first returns 0, and has done nothing, if the usual
 * way fails. The second gives up the reference to an event that the mark has made superfluous (may
 * be null) and keeps it for the next mark, as tnri_stream_recycle does. */
static inline int tnri_stream_mark_begin(tnri_stream *stream, tnri_event **event, uint64_t *number);
static inline void tnri_stream_mark_end(tnri_stream *stream, tnri_event *superfluous);

/* Gives up a reference to the event of one of the stream's marks. If it was the last one, the event
 * is kept for the stream's next mark. Takes the stream's lock. */
void tnri_stream_recycle(tnri_stream *stream, tnri_event *event);

/* Records an event; one call in TNRI_SAMPLE is timed, which stands for all. Under the lock. */
CUresult tnri_stream_drive_timed(tnri_stream *stream, const tnri_event *event, tnr_stream handle);
static inline CUresult tnri_stream_drive(tnri_stream *stream, const tnri_event *event,
                                         tnr_stream handle)
{
    if (tnri_likely(++stream->uncounted < TNRI_SAMPLE))
        return tnri_drive_uncounted(cuEventRecord, (event->handle, handle));
    return tnri_stream_drive_timed(stream, event, handle);
}

/* What the host has learnt: marks up to `number` are over. */
void tnri_stream_completed(tnri_stream *stream, uint64_t number);

/* 1 if the mark is over, as far as is known without asking. */
static inline int tnri_stream_is_over(const tnri_stream *stream, uint64_t number)
{
    return atomic_load_explicit(&stream->completed, memory_order_acquire) >= number;
}

/* ---- order ---------------------------------------------------------------------------------- */

/* 1 if `stream`'s next work is ordered after the mark `number` of `other`. Takes a lock. */
int tnri_stream_is_after(tnri_stream *stream, const tnri_stream *other, uint64_t number);

/* Of a stream that is not asked, marks and waits teach nothing: nobody will want to know what comes
 * after them. tnri_stream_ask makes it one that is, for its object's life. The number grows each
 * time, so who has found a stream unasked need not look again while it is the same. */
extern _Atomic uint64_t tnri_asked_changes;
void tnri_stream_ask(tnri_stream *stream);

/* `stream` was made to wait for the mark `number` of `other`, where `other_clock` (may be null) was
 * its clock then. */
void tnri_stream_waits(tnri_stream *stream, const tnri_clock *other_clock, size_t other_index,
                       uint64_t number);

/* Makes later work of `stream` wait, on the device, for the event of mark `number` of `other`. No
 * lock is held. Without a sentence: TNR_ERR_INVALID_STREAM if `stream` has ended, since nothing of
 * it comes any more; TNR_ERR_CAPTURE if it is being captured, or is the legacy stream, which would
 * break any capture. */
tnr_status tnri_stream_follow(tnri_stream *stream, tnri_event *event, const tnri_stream *other,
                              uint64_t number);

/* The stream's clock, with a reference, if it has not changed since the moment; else null. */
tnri_clock *tnri_stream_clock_at(tnri_stream *stream, uint64_t moment);

/* ---- captures ------------------------------------------------------------------------------- */

/* The stream is about to be captured, and `event` is its mark `number` before; or, with null, its
 * capture is over. From the return on nobody names the stream but who captures it. */
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
    atomic_store_explicit(&stream->spare, (tnri_event *)(void *)spare->thing.next,
                          memory_order_relaxed);
    stream->spares_count--;
}

static inline void tnri_stream_spare_push(tnri_stream *stream, tnri_event *event)
{
    event->thing.next =
        (tnri_thing *)(void *)atomic_load_explicit(&stream->spare, memory_order_relaxed);
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
    tnri_event_drop(stream->device, superfluous);
}

#endif
