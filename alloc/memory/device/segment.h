/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign segments: memory that a pool gets from functions of its owner (tnr_segment_alloc in
 * <tenure/alloc.h>) instead of the driver.
 *
 * A segment is a chunk that Tenure did not make: it has one address, which the owner chose, and no
 * handle. So such pools have a space of their own, which covers all addresses there are; its tables
 * cost only what is used of them. The page table of that space tells whether an address lies in a
 * segment. An entry is written when the segment comes and when it goes, under the space's lock, and
 * is read without the lock.
 *
 * In a world a segment is a range like a borrowed one (memory/arena/world_lend.h), and never
 * joined.
 */
#ifndef TNRI_DEVICE_SEGMENT_H
#define TNRI_DEVICE_SEGMENT_H

#include "memory/device/chunk.h"

/* Asks the owner for a segment, within the limits, and enters it in the page table. In the device's
 * context, no lock held. Errors: TNR_ERR_OUT_OF_MEMORY, TNR_ERR_LIMIT, TNR_ERR_HOST_MEMORY,
 * TNR_ERR_BUSY (in a callback of an owner's), TNR_ERR_FOREIGN_SEGMENT (it gave what cannot be
 * used).
 */
tnr_status tnri_segment_create(tnri_account *account, size_t pages, int is_small, tnr_stream stream,
                               tnri_chunk **segment);

/* Gives a segment back to its owner. No arena has it any more, and nothing uses it. In the device's
 * context, no lock held. */
void tnri_segment_release(tnri_chunk *segment);

/* 1 in a callback of an owner. The owner may hold locks of its own, so no other callback is called
 * then. */
int tnri_segment_is_inside(void);
/* TNR_ERR_BUSY in such a callback, for `call`, which may need another callback. */
tnr_status tnri_segment_outside(const char *call);

/* The heap that tools know for memory at an address of the pool; 0: they know of none, and are not
 * told of blocks. */
uintptr_t tnri_heap_of(const tnri_account *account, uintptr_t address);

/* TNR_ERR_FOREIGN_SEGMENT if a pool is over foreign segments; `what` cannot be had there. */
tnr_status tnri_segment_refuse(const tnri_account *account, const char *what);

#endif
