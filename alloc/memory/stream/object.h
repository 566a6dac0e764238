/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object of a stream: one for each CUDA stream that Tenure has met.
 *
 * Everything that needs to know something of a stream has a pointer to its object: arenas, uses,
 * captures, announcements. The object tells who the stream is, whether it lives, is captured or has
 * ended, and what its work is ordered after. The object is made on slow paths, when the stream is
 * first met (stream.h). mark.h marks and orders the stream's work.
 */
#ifndef TNRI_STREAM_OBJECT_H
#define TNRI_STREAM_OBJECT_H

#include "base/thread_number.h"
#include "memory/device/device.h"
#include "memory/stream/clock.h"

struct tnri_use;

/* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD as values; null is the legacy stream too. */
#define TNRI_STREAM_LEGACY ((tnr_stream)(uintptr_t)1)
#define TNRI_STREAM_PER_THREAD ((tnr_stream)(uintptr_t)2)

/*
 * The key identifies a stream that lives. It is the handle, with two exceptions: the legacy default
 * stream has two handles, and the one handle of the per-thread default stream means another stream
 * in each thread. Real handles are addresses, so a value with its lowest bits set is no handle.
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
    uint64_t number;          /* in the order of first sights; none is given twice */
    uint64_t thread;          /* of a per-thread default stream: its thread's number; else 0 */
    uintptr_t thread_address; /* of that thread, and its kernel id: see base/prim/alive.h */
    uint32_t thread_id;
    int is_legacy;
    int is_default; /* only to be marked in the device's context */

    /* What the driver says. A stream that is first met while it is captured cannot be asked then;
     * it is asked when it is first marked. Written once, under the lock. */
    _Atomic uint64_t id;     /* 0: not asked yet, or a default stream */
    _Atomic int is_blocking; /* 1: ordered with the legacy stream; 0: not, or not known */

    /* What the program calls it: a text of the history; 0: nothing. has_origins: 1 once the history
     * has written the stream down. See alloc/log/origins.h. */
    _Atomic uint32_t name;
    _Atomic int has_origins;

    /* Links of the registry's lists; its lock. */
    struct tnri_stream *hash_next, *all_next, *poll_next, *ended_next, *thread_next;
    unsigned poll_walks;   /* walks of the polled list that are at this stream; the registry's
                            * lock */
    _Atomic int is_polled; /* 1: in that list; the registry's lock to write */
    struct tnri_stream *_Atomic idle_next; /* among those without a reference; no lock */
    _Atomic uint32_t holders;
    _Atomic int is_dead;
    _Atomic int is_asked; /* 1: held by tnri_stream_hold, or had a clock, now or before */

    tnri_lock lock;          /* protects what follows */
    uint64_t marked;         /* number of the latest mark */
    tnri_clock *clock;       /* null: waits for nothing known */
    unsigned uncounted;      /* marks whose driver calls have not been handed in */
    uint64_t capture_number; /* of capture_mark */
    unsigned spares_count;   /* of `spare` */
    unsigned spare_holds;    /* of `holders`, those that the object has of itself, for the next
                              * uses; 0 for one that has ended */

    /* Written under the lock; may be looked at without it. */
    _Atomic uint64_t waited; /* number of the latest change of the clock */
    /* Events for the next marks, linked by tnri_event.link.next; the list has the only reference
     * to each. Null: none, as always for a default stream and for one that has ended. */
    tnri_event *_Atomic spare;
    tnri_event *_Atomic seal; /* of an ended stream: the end of its work, with the number
                               * `marked` */
    /* While the stream is being captured, and cannot be marked: the end of its work before; else
     * null. */
    tnri_event *_Atomic capture_mark;
    _Atomic uint64_t completed; /* highest number known to be over */

    /* The uses of retired blocks; they belong to the layer above. They have a lock of their own,
     * because the other is held while the driver records, which takes long with many threads. */
    tnri_lock pending_lock;
    struct tnri_use *pending;     /* a heap */
    _Atomic size_t pending_count; /* the lock to write; may be looked at without it */
} tnri_stream;

#endif
