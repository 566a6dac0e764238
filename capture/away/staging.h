/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: the host memory that keeps the contents of sleeping pools, and the stream that copies
 * them.
 *
 * Pinning costs far more than copying (a second for some GiB), so buffers of one size are kept and
 * used again, and can be made ahead of time. Pinned ones are blocks of a pool of their own of the
 * host memory near the device (memory/device/host.h): limits, sums and snapshots of that have them.
 * If the caller does not want so much pinned memory, or the system refuses it, ordinary memory is
 * filled through a ring of two pinned buffers (away/carry.h). Tenure does not even ask for memory
 * that the machine or a control group has no room for (base/host_limit.h). Contents that are to lie
 * on a disk are in buffers that are files (away/disk.h): ordinary memory, which goes as soon as its
 * contents are not needed.
 *
 * Everything here belongs to one thread at a time: the one that has claimed the device's staging.
 * It may keep the claim for long, so others wait for the claim with naps, with no lock held.
 *
 * Everything is given back before that host memory is put out of use (tnri_staging_empty).
 */
#ifndef TNRI_AWAY_STAGING_H
#define TNRI_AWAY_STAGING_H

#include <stddef.h>

#include "away/disk.h"
#include "memory/device/device.h"
#include "memory/stream/stream.h"

/* Large enough for a copy to run at the link's full speed. */
#define TNRI_BUFFER_BYTES ((size_t)32 << 20)

/* A buffer of host memory for contents. The owner of the list that it is in owns it. */
typedef struct tnri_buffer {
    unsigned char *memory;
    size_t bytes; /* TNRI_BUFFER_BYTES; less: a short one; or a file's */
    struct tnri_buffer *next;
    tnri_disk_file *file; /* that the memory is; null: none */
    int is_paged;         /* 1: ordinary memory, which the device reaches through the ring alone */
} tnri_buffer;

/* Buffers of one kind. */
typedef struct tnri_buffers {
    tnri_buffer *spares;
    size_t spares_count;
    size_t count; /* that exist */
} tnri_buffers;

/* Buffers that copies of a parked block's contents may still use: see away/park_contents.h. */
typedef struct tnri_late {
    tnri_device *device; /* whose staging they go back to; constant */
    tnri_buffer *buffers;
    size_t bytes;        /* of the contents */
    int is_fresh;        /* 1: its buffers were taken by this call, not taken over */
    size_t made;         /* then: whole ones that did not exist before */
    tnri_event *event;   /* when it is over, no copy uses them */
    tnri_stream *stream; /* with a reference: the event is its mark `number`; null: not known */
    uint64_t number;
    struct tnri_late *next;
} tnri_late;

enum { TNRI_RING = 2 }; /* buffers that it takes */

typedef struct tnri_staging {
    /* Numbers of threads; 0: none. */
    _Atomic uint64_t turn_of;    /* sleeps or wakes */
    _Atomic uint64_t claimed_by; /* has what follows */
    _Atomic int is_used;         /* 1: it was claimed once */

    /* The claiming thread's. */
    tnri_buffers pinned, paged;
    tnr_pool pool;      /* of host memory near the device, for the pinned ones; null: none yet */
    size_t files_count; /* buffers that are files */
    size_t short_bytes; /* of short ones: pinned, for parked blocks, never spare */
    size_t kept_count;  /* pinned ones that tnri_staging_prepare asked for; not freed */
    tnri_late *late;    /* buffers on their way back; the lock of all of these */
    tnri_buffer *ring[TNRI_RING]; /* pinned; there while paged buffers are in use, otherwise null */
    CUstream stream;              /* all copies' */
    int has_stream;
    int is_busy; /* 1: copies may be under way, because waiting for them failed */
} tnri_staging;

extern tnri_staging tnri_stagings[TNRI_DEVICE_NUMBERS];

static inline tnri_staging *tnri_staging_of(const tnri_device *device)
{
    return &tnri_stagings[device->index];
}

/* A turn is all of a sleep or a wake, the user's callbacks included, so that what they are told
 * comes in order. Nothing else is held when it begins, and it is waited for with naps. */
void tnri_staging_turn_begin(tnri_device *device);
void tnri_staging_turn_end(tnri_device *device);
int tnri_staging_is_my_turn(const tnri_device *device);

/* Waits for the claim, also while the caller works on a pool (tnri_pool_work_begin): the thread
 * that has the claim waits for no worker. */
void tnri_staging_claim(tnri_device *device);
void tnri_staging_unclaim(tnri_device *device);
/* 1 if the calling thread has claimed it. */
int tnri_staging_is_mine(const tnri_device *device);

/* Gives back what is spare beyond tnr_sleep_prepare, or at the end everything, if anything was ever
 * here. With no claim, in the context or not. At the end TNR_ERR_BUSY: contents are kept. */
tnr_status tnri_staging_empty(tnri_device *device, int is_end);

/* Takes a list of buffers back when copies are over, and `late` with it. Any thread, with no claim;
 * never calls the driver. */
void tnri_staging_give_late(tnri_late *late);
/* Takes one over that has room for `bytes`, and not for more than twice as much, and that is over
 * already or that `stream` comes after. So a host that runs ahead pins no more memory. Null: there
 * is none. */
tnri_late *tnri_staging_take_late(tnri_device *device, size_t bytes, tnri_stream *stream);

/* What follows is for the thread with the claim, in the device's context, with no lock held. */

/* Makes sure that the stream exists and is idle. */
tnr_status tnri_staging_open(tnri_device *device);
/* Waits for what was put on the stream. After a failure the staging is busy: nothing that it copies
 * from or to may go until this succeeds. */
tnr_status tnri_staging_wait(tnri_device *device);

/* How many buffers so many bytes fill. */
size_t tnri_buffers_for(size_t bytes);
/* And how many bytes so many buffers have; SIZE_MAX: more than there can be. */
size_t tnri_buffers_bytes(size_t count);
/* TNR_ERR_HOST_MEMORY if `bytes`, less what is spare, would leave less than tnri_host_rest() of the
 * memory that the machine or a control group has left. Called once for all pools of a sleep,
 * because the system counts a buffer only when something is written to it. */
tnr_status tnri_staging_check(tnri_device *device, size_t bytes);
/* Takes buffers for `bytes`, all or none; in the list the ordinary ones come first. `pinned_max`,
 * if not 0, is the most pinned memory to have in use afterwards, but the ring is always made when
 * it is needed. If the system refuses to pin more, the other buffers are ordinary ones, provided
 * there is enough for the ring. */
tnr_status tnri_staging_take(tnri_device *device, size_t bytes, size_t pinned_max,
                             tnri_buffer **buffers);
/* Takes pinned buffers for `bytes` of a parked block, all or none. If not enough are spare, the
 * last one is short, no larger than is needed: many small blocks may be parked at once. */
tnr_status tnri_staging_take_pinned(tnri_device *device, size_t bytes, tnri_buffer **buffers);
/* Takes buffers for `bytes` that are files, and the ring, or nothing. */
tnr_status tnri_staging_take_files(tnri_device *device, size_t bytes, tnri_buffer **buffers);
/* Takes a list of buffers back, and frees those that are not to be kept, unless `keep_all`. If the
 * driver refuses to free one, it is kept. */
void tnri_staging_give(tnri_device *device, tnri_buffer *buffers, int keep_all);
/* Takes a list back from a call that fails, and frees spares until there are at most so many
 * buffers of each kind, as before the call. */
void tnri_staging_undo(tnri_device *device, tnri_buffer *buffers, size_t pinned, size_t paged);
/* Keeps pinned memory for `bytes` ready for the future, no more and no less, and nothing else. */
tnr_status tnri_staging_prepare(tnri_device *device, size_t bytes);

#endif
