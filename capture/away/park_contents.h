/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of parked blocks. They lie in pinned buffers of the staging, and the stream that the
 * call names copies them, so that nobody waits. While a block is parked its contents own the
 * buffers. The buffers go back to the staging late, when an event says that no copy uses them.
 */
#ifndef TNRI_AWAY_PARK_CONTENTS_H
#define TNRI_AWAY_PARK_CONTENTS_H

#include "away/staging.h"

typedef tnri_late tnri_contents; /* what the contents become when they end */

/* Makes room for `bytes`, for copies by `stream`. In the context, no lock held. TNR_ERR_HOST_MEMORY
 * if so much cannot be pinned; TNR_ERR_BUSY while a capture is under way, because captures forbid
 * pinning. */
tnr_status tnri_contents_make(tnri_contents **contents, tnri_device *device, size_t bytes,
                              tnri_stream *stream);
/* Queues copies of them from, or to, the block at `ptr`. After a failure some copies may be under
 * way. */
tnr_status tnri_contents_copy(const tnri_contents *contents, void *ptr, CUstream stream,
                              int is_out);
/* Undoes tnri_contents_make; no copy is under way. */
void tnri_contents_unmake(tnri_contents *contents);
/* Ends them; takes the reference to `event` over, which tells when no copy is under way. Calls no
 * driver. */
void tnri_contents_end(void *contents, tnri_event *event);
/* The same if the copies have been put on `stream`; `event` is the mark `number` of that stream. */
void tnri_contents_end_after(tnri_contents *contents, tnri_event *event, tnri_stream *stream,
                             uint64_t number);

#endif
