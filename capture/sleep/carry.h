/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying contents between the device and the buffers of host memory that they are kept in.
 *
 * To and from a pinned buffer the device copies by itself. What is in ordinary memory goes through
 * the staging's ring of two pinned buffers: while the device copies one, a crew of threads empties
 * or fills the other.
 *
 * A carry belongs to the thread that has claimed the device's staging; no lock is held.
 */
#ifndef TNRI_SLEEP_CARRY_H
#define TNRI_SLEEP_CARRY_H

#include "sleep/crew.h"
#include "sleep/staging.h"

/* One buffer of the ring. */
typedef struct tnri_carry_slot {
    tnri_buffer *buffer; /* what it stands for, while the device copies it; or null */
    size_t bytes;
} tnri_carry_slot;

typedef struct tnri_carry {
    tnri_device *device;
    int is_out; /* 1: from the device */
    tnri_crew *crew;
    unsigned turns; /* buffers that went through the ring */
    tnri_carry_slot slots[TNRI_RING];
} tnri_carry;

/* Has streams and, if the ring is there, a crew. On an error there is nothing to end. */
tnr_status tnri_carry_begin(tnri_carry *carry, tnri_device *device, int is_out);

/* Opens a buffer of which `bytes` are used: the caller puts copies to or from *memory on *stream
 * before it opens the next one. On the way in, what is at *memory is being filled meanwhile: it is
 * there after tnri_carry_filled. */
tnr_status tnri_carry_open(tnri_carry *carry, tnri_buffer *buffer, size_t bytes,
                           unsigned char **memory, CUstream *stream);

/* Waits until the opened buffer can be copied in. */
void tnri_carry_filled(tnri_carry *carry);

/* Ends it, after a success (1) or an error. Then the caller waits with tnri_staging_wait. */
tnr_status tnri_carry_end(tnri_carry *carry, int is_whole);

#endif
