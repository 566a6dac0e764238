/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds: reasons, other than a use by a stream, why a block must not be handed out again. A CUDA
 * graph that refers to a block holds it. A capture holds what is freed while it goes on. An export
 * holds its block as long as another process may have it.
 *
 * A held block may be freed: its record is then RETIRED and waits. When the last hold is given up,
 * the block's retirement goes on where it would have begun at the free: uses that end with the free
 * are marked now. That is later than necessary, and safe. The hold itself ends only after that, so
 * each moment finds the block among those that are held or among those that are retired.
 *
 * Going on can fail (marking calls the driver, and no stream that captures can be marked). The
 * block then waits, with the hold, in a list that is tried again when memory is collected. So does
 * one whose free comes from a host function, in which the driver permits no call.
 */
#ifndef TNRI_LIFETIME_HOLD_H
#define TNRI_LIFETIME_HOLD_H

#include "order/uses.h"

/* Adds a hold to a block that is live, or freed and held. Under the arena's lock. Only host memory
 * can lack. */
tnr_status tnri_hold_add(tnri_arena *arena, tnri_block *block, tnri_uses **uses);

/* Gives a hold up. The last one lets a freed block go on. In the context, no lock held. */
void tnri_hold_end(tnri_uses *uses);

/* Frees a block that is held. Returns 1 if it was held and is freed now; 0 if it was not, or if it
 * is no live block that starts at `ptr` (the usual way of freeing finds that out). No lock held. */
int tnri_hold_free(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync);

/* Frees a block with uses that cannot be marked now: later, as if something had held it until now.
 * 0 if it is no live block that starts at `ptr`. No lock held. */
int tnri_free_later(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync);

/* Offers whose blocks have been freed and that have not been closed (exported.h). */
extern _Atomic uint32_t tnri_offers_freed;

/* Tries again what could not go on; if another thread does, waits for it. In the context, no lock
 * but that of the graphs held. */
void tnri_holds_retry(void);

/* Makes the stream wait for the uses of all blocks of the arena that were freed and are held.
 * Reason: if such a block was handed out in a graph, each launch of that graph writes to it. Errors
 * as those of tnri_collect_order_after. In the context, no lock held. */
tnr_status tnri_holds_order_after(tnri_arena *arena, const struct tnri_stream *stream);

/* Forgets a device's blocks that wait; they have been freed by force. */
void tnri_holds_forget(const tnri_device *device);

#endif
