/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retirement: from the free of a block that other streams have used to the moment when its memory
 * is free again.
 *
 *   1. tnr_free marks the uses that tnr_record_stream left open (free.h), and retires the block.
 *   2. Uses that are over, or that the block's stream is ordered after, are dropped at once; if
 *      none is left, the block is free now.
 *   3. Each other use waits in the heap of its stream, lowest mark first: if the first is over, so
 *      may be the next; if not, none is.
 *   4. When a request finds no room, the ladder collects (collect.h): asks about the oldest of the
 *      arena's own blocks, then the heaps (poll), looks at what the clock knows by now (follow),
 *      makes the block's stream wait (wait), and, before giving up, waits on the host for as many
 *      blocks as are needed, oldest first.
 *
 * Who ends a block. `pending` counts its uses not over, plus one for each thread that is looking at
 * it; whoever brings it to 0 ends it. A thread may begin to look only while it is not 0, under the
 * lock of the arena's life, and ending takes the block off the life's list, and makes it free,
 * under the same lock. So a life without blocks in its list or on their way there (`coming`)
 * belongs to an arena without retired blocks.
 */
#ifndef TNRI_LIFETIME_RETIRE_H
#define TNRI_LIFETIME_RETIRE_H

#include "uses.h"

/* LIVE -> RETIRED, and on: a block that is freed, with a list and no use still to be marked.
 * `fenced`: it also waits for its batch. Takes the arena's lock over. */
void tnri_retire(tnri_arena *arena, tnri_block *block, int fenced);

/* Goes on with the retirement of a block that was freed while it was held, and is not held any
 * more. On failure nothing has changed but that some uses are marked. No lock held. */
tnr_status tnri_retire_freed(tnri_uses *uses);

/* So many uses of a retired block are over, or no longer looked at: ends it if they were the last.
 * Returns the bytes that became free. No lock is held. */
size_t tnri_uses_over(tnri_uses *uses, uint32_t count, tnr_reuse reason);

#endif
