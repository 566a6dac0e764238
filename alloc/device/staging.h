/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging: pinned host memory that the contents of sleeping pools are kept in, and the stream that
 * copies them.
 *
 * Pinning costs far more than copying (a second for some GiB), so pieces of one size are kept and
 * used again, and can be had ahead of time. Everything here belongs to one thread at a time: the
 * one that has claimed the device's staging. Who holds the claim may take long, so a claim is
 * waited for with naps, with no lock held.
 */
#ifndef TNRI_DEVICE_STAGING_H
#define TNRI_DEVICE_STAGING_H

#include <stddef.h>

#include "driver/driver.h"

struct tnri_device;

/* Large enough for a copy to run at the link's full speed. */
#define TNRI_PIECE_BYTES ((size_t)32 << 20)

/* A piece of pinned memory. Owned by whoever holds the list that it is in. */
typedef struct tnri_piece {
    unsigned char *memory;
    struct tnri_piece *next;
} tnri_piece;

typedef struct tnri_staging {
    _Atomic int is_in_turn; /* 1: a thread sleeps or wakes */
    _Atomic int is_claimed; /* 1: a thread has it */

    /* The claiming thread's. */
    tnri_piece *spares;
    size_t spares_count;
    size_t pieces_count; /* that exist */
    size_t kept_count;   /* that tnri_staging_prepare asked for: not freed below that */
    CUstream stream;
    int has_stream;
    int is_busy; /* 1: copies may be under way, because waiting for them failed */
} tnri_staging;

/* A turn is all of a sleep or a wake, the user's callbacks included, so that what they are told
 * comes in order. Nothing else is held when it begins, and it is waited for with naps. */
void tnri_staging_turn_begin(struct tnri_device *device);
void tnri_staging_turn_end(struct tnri_device *device);

void tnri_staging_claim(struct tnri_device *device);
void tnri_staging_unclaim(struct tnri_device *device);

/* What follows is for the thread with the claim, in the device's context, with no lock held. */

/* The stream for copies, idle. */
tnr_status tnri_staging_stream(struct tnri_device *device, CUstream *stream);
/* Waits for what was put on it. After a failure the staging is busy: nothing that it copies from
 * or to may go, until this succeeds. */
tnr_status tnri_staging_wait(struct tnri_device *device);

/* Pieces for `bytes`, all or none. */
tnr_status tnri_staging_take(struct tnri_device *device, size_t bytes, tnri_piece **pieces);
/* Takes a list of pieces back; frees what is not to be kept, unless `keep_all`. What the driver
 * refuses to free is kept. */
void tnri_staging_give(struct tnri_device *device, tnri_piece *pieces, int keep_all);
/* Has pinned memory for `bytes` ready for the future, no more and no less. */
tnr_status tnri_staging_prepare(struct tnri_device *device, size_t bytes);

/* Gives everything back, when the device is put out of use. On a refusal *call says of what. */
CUresult tnri_staging_empty(struct tnri_device *device, const char **call);

#endif
