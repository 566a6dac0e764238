/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as objects: who a stream is, its marks, its clock, and the uses that wait for it.
 *
 * Identity. A stream is known by its device and key (pool/thread.h), and the driver's own id for
 * it: handles are given again to new streams, ids never. tnr_stream_destroying ends an object; a
 * handle whose id has changed without it is noticed when the thread's cache misses, and treated as
 * destroyed then.
 *
 * Marks. Under the stream's lock an event is recorded and then given the next number of the
 * process. So if a numbered mark of the stream is over, all of its lower ones are.
 *
 * An object lives until it is dead and nothing refers to it any more; then it is used again.
 */
#ifndef TNRI_LIFETIME_STREAM_H
#define TNRI_LIFETIME_STREAM_H

#include "clock.h"
#include "device/device.h"

struct tnri_use;

typedef struct tnri_stream {
    /* Constant while the object is in use. */
    tnri_device *device;
    tnr_stream handle;
    uintptr_t key;
    unsigned long long id;
    size_t index;    /* in clocks */
    uint64_t thread; /* of a per-thread default stream: its thread's number; else 0 */
    int is_legacy, is_blocking;
    int is_default; /* only to be marked in the device's context */

    struct tnri_stream *hash_next, *all_next; /* the registry's lock */
    _Atomic uint32_t holders;                 /* uses, announcements, lives */
    _Atomic int is_dead;

    tnri_lock lock;           /* protects what follows */
    uint64_t marked;          /* number of the latest mark */
    uint64_t waited;          /* number of the latest change of the clock */
    tnri_clock *clock;        /* null: waits for nothing known */
    struct tnri_use *pending; /* heap of the uses of retired blocks */
    unsigned uncounted;       /* marks whose driver calls have not been handed in */
    tnri_event *seal;         /* of a dead stream: the end of its work */
    tnri_event *spare;        /* for the next mark, with the only reference; null: none */

    _Atomic size_t pending_count; /* changed under the lock */
    _Atomic uint64_t completed;   /* highest number known to be over */
} tnri_stream;

/* The number of the latest mark of any stream. */
uint64_t tnri_number_now(void);
/* A number above all that were given so far. */
extern _Atomic uint64_t tnri_number_last;
static inline uint64_t tnri_number_next(void)
{
    return atomic_fetch_add_explicit(&tnri_number_last, 1, memory_order_acq_rel) + 1;
}

/* The object for a stream of a device; made and checked with the driver if it is new. Errors:
 * TNR_ERR_INVALID_STREAM, TNR_ERR_HOST_MEMORY, TNR_ERR_DRIVER. No lock is held. */
tnr_status tnri_stream_find(tnri_device *device, tnr_stream handle, tnri_stream **stream);
/* The same if it is known already; null if not. */
tnri_stream *tnri_stream_known(tnri_device *device, uintptr_t key);

/* Records an event at the end of the stream's work; the caller holds one reference. No lock is
 * held. A dead stream gives its seal. */
tnr_status tnri_stream_mark(tnri_stream *stream, tnri_event **event, uint64_t *number);

/* Hands in the driver calls of all streams of a device: tnri_upper.count. */
void tnri_streams_count(tnri_device *device);

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

/* The stream is being destroyed, or `is_gone` already: seals it and all arenas of its key. For one
 * that is gone the host waits, because its handle may be another stream's now. */
tnr_status tnri_stream_end(tnri_stream *stream, int is_gone);

/* What the host has learnt: marks up to `number` are over. */
void tnri_stream_completed(tnri_stream *stream, uint64_t number);

/* 1 if the mark is over, as far as is known without asking. */
static inline int tnri_stream_is_over(const tnri_stream *stream, uint64_t number)
{
    return atomic_load_explicit(&stream->completed, memory_order_acquire) >= number;
}

/* 1 if `stream`'s next work is ordered after the mark `number` of `other`. Takes a lock. */
int tnri_stream_is_after(tnri_stream *stream, const tnri_stream *other, uint64_t number);
/* `stream` was made to wait for the mark `number` of `other`, where `other_clock` (may be null) was
 * its clock then. */
void tnri_stream_waits(tnri_stream *stream, const tnri_clock *other_clock, size_t other_index,
                       uint64_t number);

/* The stream's clock, with a reference, if it has not changed since the moment; else null. */
tnri_clock *tnri_stream_clock_at(tnri_stream *stream, uint64_t moment);

/* Walks the streams of a device that are in use, the dead ones with pending uses among them. Null
 * gives the first, null is the end. The one that a walk stands at is held. */
tnri_stream *tnri_stream_walk(const tnri_device *device, tnri_stream *stream);

void tnri_stream_hold(tnri_stream *stream);
void tnri_stream_drop(tnri_stream *stream);

/* Forgets all streams of a device that is put out of use. */
void tnri_streams_forget(const tnri_device *device);

/* ---- the two halves of a mark --------------------------------------------------------------- */

static inline int tnri_stream_mark_begin(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    tnri_lock_take(&stream->lock);
    tnri_event *recorded = stream->spare;
    if (tnri_likely(recorded != NULL && stream->seal == NULL && !stream->is_default)) {
        atomic_store_explicit(&recorded->completed, 0, memory_order_relaxed);
        if (tnri_likely(tnri_stream_drive(stream, recorded, stream->handle) == CUDA_SUCCESS)) {
            stream->spare = NULL;
            stream->marked = *number = tnri_number_next();
            *event = recorded;
            return 1;
        }
    }
    tnri_lock_release(&stream->lock);
    return 0;
}

static inline void tnri_stream_mark_end(tnri_stream *stream, tnri_event *superfluous)
{
    if (tnri_likely(superfluous != NULL && stream->spare == NULL &&
                    atomic_load_explicit(&superfluous->holders, memory_order_acquire) == 1)) {
        stream->spare = superfluous;
        superfluous = NULL;
    }
    tnri_lock_release(&stream->lock);
    tnri_event_drop(stream->device, superfluous);
}

#endif
