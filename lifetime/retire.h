/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retirement: from the free of a block that other streams have used to the moment when its memory
 * is free again.
 *
 *   1. tnr_free marks the uses that tnr_record_stream left open, and retires the block.
 *   2. Uses that are over, or that the block's stream is ordered after, are dropped at once; if
 * none
 *      is left, the block is free now.
 *   3. Each other use waits in the heap of its stream, lowest mark first. Only the first of a heap
 * is
 *      ever asked about: if it is over, so may be the next; if not, none is.
 *   4. When a request finds no room, the ladder collects: asks the heaps (poll), looks at what the
 *      clock has come to know (follow), makes the block's stream wait (wait), and, before giving
 * up,
 *      waits on the host for as many blocks as are needed, oldest first.
 *
 * Who ends a block. `pending` counts its uses not over, plus one for each thread that is looking at
 * it; whoever brings it to 0 ends it. A thread may begin to look only while it is not 0, under the
 * lock of the arena's life, and ending takes the block off the life's list, and makes it free,
 * under the same lock. So a life without blocks in its list or on their way there (`coming`)
 * belongs to an arena without retired blocks.
 *
 * Batches. tnr_free_sync only puts the block into the device's batch. When memory is collected, one
 * fence is made for the whole batch: a mark on the device's proxy stream, which is first made to
 * wait for all other streams. So many such frees cost one set of events.
 */
#ifndef TNRI_LIFETIME_RETIRE_H
#define TNRI_LIFETIME_RETIRE_H

#include "use.h"

/* An arena's part in retirement. Lives as long as the arena. */
typedef struct tnri_life {
    tnri_lock lock;
    tnri_uses *oldest, *newest; /* retired blocks, in the order of their frees; the lock */
    _Atomic uint32_t coming; /* retired blocks not in the list yet; raised under the arena's lock */
} tnri_life;

/* Goes on with the retirement of a block that was freed while it was held, and is not held any
 * more. On failure nothing has changed but that some uses are marked. No lock held. */
tnr_status tnri_retire_freed(tnri_uses *uses);

/* Registers this layer with the one below. Before the first use is recorded. */
void tnri_retire_register(void);

#endif
