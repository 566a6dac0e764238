/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting retired blocks: step 3 of the ladder. See retire.h for the whole. */
#ifndef TNRI_LIFETIME_COLLECT_H
#define TNRI_LIFETIME_COLLECT_H

#include "retire.h"

/* tnri_upper.collect. */
size_t tnri_collect_arena(tnri_arena *arena, size_t bytes, tnri_collect how);

/* Puts a retired block into its device's batch (tnr_free_sync). */
void tnri_batch_add(tnri_device *device, tnri_uses *uses);

/* So many uses of a retired block are over, or no longer looked at: ends it if they were the last.
 * Returns the bytes that became free. No lock is held. */
size_t tnri_uses_over(tnri_uses *uses, uint32_t count, tnr_reuse reason);

/* The life of an arena, made if there is none; null: no host memory. */
tnri_life *tnri_life_of(tnri_arena *arena);

/* Makes a stream wait, on the device, for all uses of the arena's retired blocks that it is not
 * ordered after. On failure some waits may have been made; TNR_ERR_CAPTURE, maybe without a
 * sentence, says that a capture under way leaves no way. In the context, no lock held. */
tnr_status tnri_collect_order_after(tnri_arena *arena, tnri_stream *stream);

#endif
