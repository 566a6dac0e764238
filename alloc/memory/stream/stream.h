/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: the registry of all streams that Tenure has met, from first sight to end. A stream's
 * object has what is known of it (object.h); marks at the end of its work are in mark.h.
 *
 * Identity. A stream is known by its device and key, and by the driver's own id for it: the driver
 * gives handles again to new streams, but never ids. Default streams need no id: the driver has
 * them until the process ends, and the key of a per-thread default stream has the thread's number
 * in it.
 *
 * The end. tnr_stream_destroying ends an object. If a handle's id has changed without that call,
 * Tenure notices it when the thread's cache misses, and then treats the former stream as destroyed.
 * The per-thread default stream ends with its thread, without a call, so Tenure asks the kernel
 * (tnri_streams_reap). An ended stream has a seal, an event at the end of its work, and is marked
 * no more.
 *
 * References. `holders` counts the references of all that may still look at the object; the
 * registry has one as long as the stream lives. When the last reference goes, the object becomes a
 * spare for another stream. The memory stays until the device is put out of use. So a pointer that
 * was read without a reference may be compared, and its atomics may be looked at as a hint.
 */
#ifndef TNRI_STREAM_STREAM_H
#define TNRI_STREAM_STREAM_H

#include "memory/stream/mark.h"

/* ---- finding -------------------------------------------------------------------------------- */

/* What follows takes host memory for the GPU that it is near, whose streams use it. */

/* The object for a stream of a device. If the stream is new, makes the object and checks the stream
 * with the driver. The object is valid as long as the stream is; the caller's program sees to that.
 * No lock is held. Errors: TNR_ERR_INVALID_STREAM: no such stream, or one of another context;
 * TNR_ERR_CAPTURE: it is captured and was not known before; TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. */
tnr_status tnri_stream_find(tnri_device *device, tnr_stream handle, tnri_stream **stream);

/* The same for a stream that is in a capture. It may not be asked who it is, but from now on it is
 * known to code that waits for all streams. */
tnr_status tnri_stream_find_captured(tnri_device *device, tnr_stream handle, tnri_stream **stream);

/* 1 if the stream has an object. Does not ask the driver: the stream of that handle may be gone. */
int tnri_stream_is_known(const tnri_device *device, tnr_stream handle);

/* The object that a stream has, with a reference; null: none. Does not ask the driver either. */
tnri_stream *tnri_stream_look(const tnri_device *device, tnr_stream handle);

/* Adds a reference for code that only looks at the stream. */
static inline void tnri_stream_keep(tnri_stream *stream)
{
    atomic_fetch_add_explicit(&stream->holders, 1, memory_order_relaxed);
}

/* Adds a reference for what will ask what is ordered after the stream's work: its memory, a use, a
 * graph. */
static inline void tnri_stream_hold(tnri_stream *stream)
{
    if (tnri_unlikely(!atomic_load_explicit(&stream->is_asked, memory_order_relaxed)))
        tnri_stream_ask(stream);
    tnri_stream_keep(stream);
}

/* The same, under the stream's lock: from its spare ones, without a locked instruction. */
static inline void tnri_stream_hold_spare(tnri_stream *stream)
{
    if (tnri_likely(stream->spare_holds > 0))
        stream->spare_holds--; /* a use had it before, so the stream is asked */
    else
        tnri_stream_hold(stream);
}

/* tnri_stream_idle: nothing refers to the object any more. Any lock may be held. */
void tnri_stream_idle(tnri_stream *stream);
static inline void tnri_stream_drop(tnri_stream *stream)
{
    if (tnri_unlikely(atomic_fetch_sub_explicit(&stream->holders, 1, memory_order_acq_rel) == 1))
        tnri_stream_idle(stream);
}

/* Gives up a reference, and one to the event of a mark (null: none): those of a use. */
static inline void tnri_stream_let_go(tnri_stream *stream, tnri_event *event)
{
    if (!tnri_stream_recycle_held(stream, event))
        tnri_stream_drop(stream);
}

/* The host has learnt that all marks of a clock (may be null) are over. */
void tnri_streams_completed(const tnri_clock *clock);

/* Walks the streams of a device that are in use: those that live, and ended ones whose work or uses
 * are not known to be over. Null gives the first, null is the end. The walk holds the stream that
 * it is at. */
tnri_stream *tnri_stream_walk(const tnri_device *device, tnri_stream *stream);

/* The same for streams that have pending uses. tnri_stream_poll_enter makes a stream one of them,
 * after its first use has become pending; no lock is held. */
tnri_stream *tnri_stream_walk_pending(const tnri_device *device, tnri_stream *stream);
void tnri_stream_poll_enter(tnri_stream *stream);

/* Hands in the driver calls of all streams of a device. */
void tnri_streams_count(tnri_device *device);

/* ---- ends ----------------------------------------------------------------------------------- */

/* The stream is being destroyed, or is gone already (`is_gone`): seals it. For one that is gone the
 * host waits, because another stream may have its handle now. No lock is held. */
tnr_status tnri_stream_end(tnri_stream *stream, int is_gone);

/* Ends the default streams of threads that are gone. Looks at no more than `looks` of these
 * streams, the next ones each time. The legacy stream is ordered after all of them, so one mark on
 * it seals them all. That mark would break a capture, so nothing is done while one is under way.
 * Best effort. Returns how many ended. No lock is held. */
size_t tnri_streams_reap(tnri_device *device, size_t looks);

/* Asks about the ends of at most so many streams, oldest first, so that their objects can go. In
 * the device's context, no lock held. */
void tnri_streams_settle(size_t looks);

/* Called for every stream that has ended, by the thread that ended it, with no lock held. The layer
 * above then passes on what the stream had. Set once, when the library starts. */
typedef void (*tnri_stream_listener)(tnri_stream *stream);
void tnri_streams_listen(tnri_stream_listener listener);

/* Forgets all streams of a device that is put out of use; nothing refers to them any more. */
void tnri_streams_forget(const tnri_device *device);

#endif
