/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: the registry of all that Tenure has met, from their first sight to their end. What is
 * known of one is in its object (object.h), and marks at the end of its work are in mark.h.
 *
 * Identity. A stream is known by its device and key, and by the driver's own id for it: handles are
 * given again to new streams, ids never. Default streams need no id: the driver has them for ever,
 * and the key of a per-thread default stream has the thread's number in it.
 *
 * The end. tnr_stream_destroying ends an object; a handle whose id has changed without it is
 * noticed when the thread's cache misses, and treated as destroyed then. The per-thread default
 * stream ends with its thread: nobody says so, so the kernel is asked (tnri_streams_reap). An ended
 * stream has a seal, an event at the end of its work, and is marked no more.
 *
 * References. `holders` counts those who may still look at the object; one is the registry's, as
 * long as the stream lives. With the last reference it becomes a spare for another stream. The
 * memory stays until the device is put out of use, so a pointer that was read without a reference
 * may be compared, and its atomics may be looked at as a hint.
 */
#ifndef TNRI_STREAM_STREAM_H
#define TNRI_STREAM_STREAM_H

#include "stream/mark.h"

/* ---- finding -------------------------------------------------------------------------------- */

/* The object for a stream of a device; made, and checked with the driver, if it is new. It is valid
 * as long as the stream is, which the caller's program sees to. No lock is held. Errors:
 * TNR_ERR_INVALID_STREAM: no such stream, or one of another context; TNR_ERR_CAPTURE: it is
 * captured and was not known before; TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. */
tnr_status tnri_stream_find(tnri_device *device, tnr_stream handle, tnri_stream **stream);

/* The same for a stream that is in a capture, which may not be asked who it is. So it is known
 * later, to whoever waits for all streams. */
tnr_status tnri_stream_find_captured(tnri_device *device, tnr_stream handle, tnri_stream **stream);

/* 1 if the stream has an object. The driver is not asked: the handle may be one that is gone. */
int tnri_stream_is_known(const tnri_device *device, tnr_stream handle);

/* The object that a stream has, with a reference; null: none. Nor is the driver asked here. */
tnri_stream *tnri_stream_look(const tnri_device *device, tnr_stream handle);

/* A reference of someone who looks at the stream only. */
static inline void tnri_stream_keep(tnri_stream *stream)
{
    atomic_fetch_add_explicit(&stream->holders, 1, memory_order_relaxed);
}

/* A reference of someone who will ask what is ordered after the stream's work: of its memory, of a
 * use, of a graph. */
static inline void tnri_stream_hold(tnri_stream *stream)
{
    if (tnri_unlikely(!atomic_load_explicit(&stream->is_asked, memory_order_relaxed)))
        tnri_stream_ask(stream);
    tnri_stream_keep(stream);
}

/* tnri_stream_idle: nobody refers to the object any more. Any lock may be held. */
void tnri_stream_idle(tnri_stream *stream);
static inline void tnri_stream_drop(tnri_stream *stream)
{
    if (tnri_unlikely(atomic_fetch_sub_explicit(&stream->holders, 1, memory_order_acq_rel) == 1))
        tnri_stream_idle(stream);
}

/* Walks the streams of a device that are in use: those that live, and ended ones whose work, or
 * whose uses, are not known to be over. Null gives the first, null is the end. The one that a walk
 * stands at is held. */
tnri_stream *tnri_stream_walk(const tnri_device *device, tnri_stream *stream);

/* The same of those that have pending uses. tnri_stream_poll_enter makes a stream one of them,
 * after its first use has become pending; no lock is held. */
tnri_stream *tnri_stream_walk_pending(const tnri_device *device, tnri_stream *stream);
void tnri_stream_poll_enter(tnri_stream *stream);

/* Hands in the driver calls of all streams of a device. */
void tnri_streams_count(tnri_device *device);

/* ---- ends ----------------------------------------------------------------------------------- */

/* The stream is being destroyed, or `is_gone` already: seals it. For one that is gone the host
 * waits, because its handle may be another stream's now. No lock is held. */
tnr_status tnri_stream_end(tnri_stream *stream, int is_gone);

/* Ends the default streams of threads that are gone, looking at no more than `looks` of those that
 * there are, the next ones each time. One mark on the legacy stream, which is ordered after all of
 * them, seals them all; so nothing is done while a capture is under way, which it would break. Best
 * effort. Returns how many ended. No lock is held. */
size_t tnri_streams_reap(tnri_device *device, size_t looks);

/* Asks about the ends of at most so many streams, oldest first, so that their objects can go. In
 * the device's context, no lock held. */
void tnri_streams_settle(size_t looks);

/* Told of every stream that has ended, by whoever ended it, with no lock held: the layer above
 * passes on what the stream had. Set once, when the library starts. */
typedef void (*tnri_stream_listener)(tnri_stream *stream);
void tnri_streams_listen(tnri_stream_listener listener);

/* Forgets all streams of a device that is put out of use; nothing refers to them any more. */
void tnri_streams_forget(const tnri_device *device);

#endif
