/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks: bytes of device memory that are copied to the host in the order of a stream. The next
 * thread that comes by and sees that the copy is over judges them. Only tnri_looks_settle waits for
 * looks. The copies go to slots in pinned memory that belongs to the device. While all slots are
 * taken no more is looked at, and that is counted.
 *
 * A slot is FREE, TAKEN by the thread that fills it in, WAITING for its event, or TAKEN again by
 * the thread that asks about it or judges it. The lock of looks protects the states.
 */
#ifndef TNRI_TRAP_LOOK_H
#define TNRI_TRAP_LOOK_H

#include "memory/stream/stream.h"
#include "see/trap/story.h"

enum { TNRI_LOOK_BYTES = 32 << 10, TNRI_LOOKS_MAX = 256 };

/* Looks, at no more than TNRI_LOOK_BYTES, in the order of the stream. In the device's context, no
 * lock held. */
void tnri_look(tnri_stream *stream, const tnri_looked *looked);

/* Judges looks that are over: asks about a few, the oldest first. In the device's context. */
void tnri_looks_poll(struct tnri_device *device);
/* Waits for all and judges them; from the moment `until_ns` of tnri_clock_ns on, gives up those
 * that are not over (0: never). In the device's context. */
void tnri_looks_settle(struct tnri_device *device, uint64_t until_ns);
/* Looks that could not be made, for a reason that lies outside of this file. */
void tnri_looks_miss(uint64_t count);
/* Gives the pinned memory back; nothing waits. In the device's context. */
void tnri_looks_end(struct tnri_device *device);

/* Since the process began. */
typedef struct tnri_looks_sums {
    uint64_t made, missed, findings;
} tnri_looks_sums;
tnri_looks_sums tnri_looks_sums_get(void);

#endif
