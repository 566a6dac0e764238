/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: one object for each CUDA stream that Tenure has met.
 *
 * Whoever needs to know something of a stream has a pointer to its object: arenas, uses, captures,
 * announcements. The object tells who the stream is, whether it lives, is captured or has ended,
 * and what its work is ordered after. It is made on slow paths, when the stream is first met.
 *
 * Identity. A stream is known by its device and key, and by the driver's own id for it: handles are
 * given again to new streams, ids never. Default streams need no id: the driver has them for ever,
 * and the key of a per-thread default stream has the thread's number in it.
 *
 * Marks. Under the stream's lock an event is recorded and then given the next number of the
 * process. So if a numbered mark of the stream is over, all of its lower ones are.
 *
 * Naming. A handle may be given to the driver only while its stream lives. Whoever names a stream
 * that is not his caller's does so under the stream's lock, after a look at `seal`; the end of the
 * stream sets the seal under the same lock. These short calls (record, wait, ask) are the only ones
 * that are made under a lock.
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

#include "base/thread_number.h"
#include "device/device.h"
#include "stream/clock.h"

struct tnri_use;

/* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD as values; null is the legacy stream too. */
#define TNRI_STREAM_LEGACY ((tnr_stream)(uintptr_t)1)
#define TNRI_STREAM_PER_THREAD ((tnr_stream)(uintptr_t)2)

/*
 * What identifies a stream that lives: its handle, except that the legacy default stream has two
 * handles, and that the one handle of the per-thread default stream means another stream in each
 * thread. Real handles are addresses, so a value with its lowest bits set is none.
 */
static inline uintptr_t tnri_stream_key(tnr_stream stream)
{
    uintptr_t key = (uintptr_t)stream;
    if (tnri_likely(key > 2))
        return key;
    return key == 2 ? (uintptr_t)tnri_thread_number() << 3 | 7 : 0;
}

typedef struct tnri_stream {
    /* Constant while the object is in use. */
    tnri_device *device;
    tnr_stream handle;
    uintptr_t key;
    size_t index;             /* in clocks */
    uint64_t thread;          /* of a per-thread default stream: its thread's number; else 0 */
    uintptr_t thread_address; /* of that thread, and its kernel id: see base/alive.h */
    uint32_t thread_id;
    int is_legacy;
    int is_default; /* only to be marked in the device's context */

    /* What the driver says. A stream that is first met while it is captured cannot be asked; it is
     * when it is first marked. The registry's lock to write, once. */
    _Atomic uint64_t id;     /* 0: not asked yet, or a default stream */
    _Atomic int is_blocking; /* 1: ordered with the legacy stream; 0: not, or not known */

    /* Links of the registry's lists; its lock. */
    struct tnri_stream *hash_next, *all_next, *poll_next, *ended_next, *thread_next;
    unsigned poll_walks;   /* walks of the polled list that stand here; the registry's lock */
    _Atomic int is_polled; /* 1: in that list; the registry's lock to write */
    struct tnri_stream *_Atomic idle_next; /* among those without a reference; no lock */
    _Atomic uint32_t holders;
    _Atomic int is_dead;

    tnri_lock lock;           /* protects what follows */
    uint64_t marked;          /* number of the latest mark */
    uint64_t waited;          /* number of the latest change of the clock */
    tnri_clock *clock;        /* null: waits for nothing known */
    struct tnri_use *pending; /* the layer above's: heap of the uses of retired blocks */
    unsigned uncounted;       /* marks whose driver calls have not been handed in */
    tnri_event *spare; /* for the next mark, with the only reference; null: none, as always for
                               * a default stream and for one that has ended */
    uint64_t capture_number; /* of capture_mark */

    /* Written under the lock; may be looked at without it. */
    tnri_event *_Atomic seal; /* of an ended stream: the end of its work, which `marked` numbers */
    /* The stream is being captured, and cannot be marked: the end of its work before; else null. */
    tnri_event *_Atomic capture_mark;
    _Atomic size_t pending_count;
    _Atomic uint64_t completed; /* highest number known to be over */
} tnri_stream;

/* ---- numbers -------------------------------------------------------------------------------- */

/* The number of the latest mark of any stream. */
uint64_t tnri_number_now(void);
/* A number above all that were given so far. */
extern _Atomic uint64_t tnri_number_last;
static inline uint64_t tnri_number_next(void)
{
    return atomic_fetch_add_explicit(&tnri_number_last, 1, memory_order_acq_rel) + 1;
}

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

static inline void tnri_stream_hold(tnri_stream *stream)
{
    atomic_fetch_add_explicit(&stream->holders, 1, memory_order_relaxed);
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

/* Hands in the driver calls of all streams of a device. */
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

/* ---- captures and ends ---------------------------------------------------------------------- */

/* The stream is about to be captured, and `event` is its mark `number` before; or, with null, its
 * capture is over. From the return on nobody names the stream but who captures it. */
void tnri_stream_capture(tnri_stream *stream, tnri_event *event, uint64_t number);

/* 1 if the stream may be in a capture. The legacy stream, and other threads' default streams, are
 * not asked. No lock is held. */
int tnri_stream_may_capture(tnri_stream *stream);

/* The stream is being destroyed, or `is_gone` already: seals it. For one that is gone the host
 * waits, because its handle may be another stream's now. No lock is held. */
tnr_status tnri_stream_end(tnri_stream *stream, int is_gone);

/* Threads that are asked about when a new thread's stream is met, and at a miss: so those that are
 * gone never outnumber the living by much, and neither pays for thousands. */
enum { TNRI_REAP_LOOKS = 16 };

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

/* ---- the two halves of a mark --------------------------------------------------------------- */

static inline int tnri_stream_mark_begin(tnri_stream *stream, tnri_event **event, uint64_t *number)
{
    tnri_lock_take(&stream->lock);
    tnri_event *fresh = stream->spare;
    if (tnri_likely(fresh != NULL)) {
        atomic_store_explicit(&fresh->completed, 0, memory_order_relaxed);
        if (tnri_likely(tnri_stream_drive(stream, fresh, stream->handle) == CUDA_SUCCESS)) {
            stream->spare = NULL;
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
    if (tnri_likely(superfluous != NULL && stream->spare == NULL &&
                    atomic_load_explicit(&superfluous->holders, memory_order_acquire) == 1)) {
        stream->spare = superfluous;
        superfluous = NULL;
    }
    tnri_lock_release(&stream->lock);
    tnri_event_drop(stream->device, superfluous);
}

#endif
