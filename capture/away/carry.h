/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying contents between the device and the buffers of host memory that they are kept in.
 *
 * Contents are carried in parts, one after the other. A part in a pinned buffer is everything that
 * the buffer has, and the device copies it by itself. A part in ordinary memory goes through a slot
 * of the staging's ring. The device has half of the slots, with copies queued in all of them, while
 * a crew of threads empties or fills the other half. So neither waits for the other, and the thread
 * that carries has time to make or remove chunks meanwhile.
 *
 * A carry belongs to the thread that has claimed the device's staging; no lock is held.
 */
#ifndef TNRI_AWAY_CARRY_H
#define TNRI_AWAY_CARRY_H

#include "away/crew.h"
#include "away/staging.h"
#include "memory/device/event.h"

/* A slot is large enough for a copy at the link's speed. Tests make it smaller. */
#define TNRI_SLOT_BYTES_MAX ((size_t)8 << 20)
extern size_t tnri_slot_bytes;

enum {
    TNRI_SLOTS = TNRI_RING * (int)(TNRI_BUFFER_BYTES / TNRI_SLOT_BYTES_MAX),
    TNRI_SLOTS_AHEAD = TNRI_SLOTS / 2 /* the device's; the others are the crew's */
};

/* How far one has come in the contents. */
typedef struct tnri_carry_place {
    const tnri_buffer *buffer; /* of the next part */
    size_t at;                 /* bytes of it that are passed */
    size_t left;               /* bytes of the contents that are not */
} tnri_carry_place;

typedef struct tnri_carry_slot {
    tnri_event *event;    /* end of the device's copies, one reference; null: none, or waited for */
    unsigned char *paged; /* out: where the bytes go */
    size_t bytes;
} tnri_carry_slot;

typedef struct tnri_carry {
    tnri_device *device;
    int is_out;             /* 1: from the device */
    tnri_crew *crew;        /* null: none is needed, or to be had */
    tnri_carry_place place; /* of the next part to be opened */
    size_t out;             /* way out: contents up to here are in ordinary memory */
    int is_open;            /* 1: the last part opened lies in a slot that has no event yet */
    /* Parts that went through the ring are numbered; each lies in the slot of its number. */
    unsigned turns;         /* opened */
    unsigned given;         /* given to the crew */
    unsigned finished;      /* way out: done by the crew */
    tnri_carry_place ahead; /* way in: of the next part to be given */
    tnri_carry_slot slots[TNRI_SLOTS];
} tnri_carry;

/* Begins to carry so many bytes from or to a list of buffers; those in ordinary memory come first.
 * On an error there is nothing to end. */
tnr_status tnri_carry_begin(tnri_carry *carry, tnri_device *device, const tnri_buffer *buffers,
                            size_t bytes, int is_out);

/* Opens the next part. The caller puts copies to or from *memory, *bytes in all, on the staging's
 * stream before it opens the part after that. On the way in, *memory is still being filled; the
 * contents are there after tnri_carry_filled. *is_paged is 1 if the part goes through the ring. */
tnr_status tnri_carry_open(tnri_carry *carry, unsigned char **memory, size_t *bytes, int *is_paged);

/* Waits until the opened part can be copied in. */
void tnri_carry_filled(tnri_carry *carry);

/* Ends it, after a success (1) or an error. Then the caller waits with tnri_staging_wait. */
tnr_status tnri_carry_end(tnri_carry *carry, int is_whole);

#endif
