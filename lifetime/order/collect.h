/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting retired blocks: step 3 of the ladder. See retire.h for the whole. */
#ifndef TNRI_LIFETIME_COLLECT_H
#define TNRI_LIFETIME_COLLECT_H

#include "memory/device/upper.h"
#include "order/uses.h"

/* tnri_upper.collect. */
size_t tnri_collect_arena(tnri_arena *arena, size_t bytes, tnri_collect how);

/* Makes a stream wait, on the device, for all uses of the arena's retired blocks that it is not
 * ordered after. On failure some waits may have been made. TNR_ERR_CAPTURE, maybe without a
 * sentence: a capture under way makes it impossible. In the context, no lock held. */
tnr_status tnri_collect_order_after(tnri_arena *arena, tnri_stream *stream);

#endif
