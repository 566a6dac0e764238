/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches. tnr_free_sync only puts the block into the device's batch. When memory is collected, one
 * fence is made for the whole batch: a mark on the device's proxy stream, which is first made to
 * wait for all other streams. So many such frees cost one set of events.
 */
#ifndef TNRI_LIFETIME_BATCH_H
#define TNRI_LIFETIME_BATCH_H

#include "uses.h"

/* Puts a retired block into its device's batch. */
void tnri_batch_add(tnri_device *device, tnri_uses *uses);

/* Fences the device's batch: every block in it gets one use, of the proxy's mark. On failure the
 * blocks stay in the batch. TNR_ERR_CAPTURE, without a sentence: a capture is under way, and then
 * not every stream can be marked. */
tnr_status tnri_batch_fence(tnri_device *device);

#endif
