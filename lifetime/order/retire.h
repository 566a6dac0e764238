/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retirement: what happens to a block that other streams have used, from its free to the moment
 * when its memory is free again.
 *
 *   1. tnr_free marks the uses that tnr_record_stream left open (free.h), and retires the block.
 *   2. A use that is over, or that the block's stream is ordered after, is dropped at once. If none
 *      is left, the block is free now.
 *   3. Each other use waits in the heap of its stream, lowest mark first. If the first is not over,
 *      none is. If it is, the next may be too.
 *   4. When a request finds no room, the ladder collects (collect.h). It asks about the oldest of
 *      the arena's own blocks, then about the heaps (poll). It looks at what the clock knows by now
 *      (follow). It makes the block's stream wait (wait). Before it gives up, it waits on the host
 *      for as many blocks as are needed, oldest first.
 *
 * Who ends a block. `pending` counts the block's uses that are not over, plus one for each thread
 * that is looking at the block. The thread that brings it to 0 ends the block. A thread may begin
 * to look only while `pending` is not 0, under the lock of the arena's life. The end takes the
 * block off the life's list and makes it free under the same lock. So if a life has no blocks in
 * its list and none on their way there (`coming`), its arena has no retired blocks.
 */
#ifndef TNRI_LIFETIME_RETIRE_H
#define TNRI_LIFETIME_RETIRE_H

#include "order/uses.h"

/* LIVE -> RETIRED, and on: for a block that is freed, has a list, and has no use that must still be
 * marked. `fenced`: it also waits for its batch. Takes the arena's lock over. */
void tnri_retire(tnri_arena *arena, tnri_block *block, int fenced);

/* Gives up a hold of a block that was freed, and goes on with its retirement, unless it is held
 * otherwise. On failure some uses may be marked; nothing else has changed. No lock held. */
tnr_status tnri_retire_freed(tnri_uses *uses);

/* So many uses of a retired block are over, or so many threads look at it no longer. Ends the block
 * if these were the last. Returns the bytes that became free. No lock is held. */
size_t tnri_uses_over(tnri_uses *uses, uint32_t count, tnr_reuse reason);

#endif
