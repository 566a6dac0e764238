/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches. tnr_free_sync only puts the block into the device's batch. When memory is collected, the
 * whole batch gets one fence: the device's proxy stream is made to wait for all other streams, and
 * is then marked. So many such frees together cost one set of events.
 */
#ifndef TNRI_LIFETIME_BATCH_H
#define TNRI_LIFETIME_BATCH_H

#include "order/uses.h"

/* Puts a retired block into its device's batch. */
void tnri_batch_add(tnri_device *device, tnri_uses *uses);

/* Fences the device's batch: every block in it gets one use, of the proxy's mark. On failure the
 * blocks stay in the batch. TNR_ERR_CAPTURE, perhaps without a sentence: a capture is under way,
 * and not every stream can be marked meanwhile. None can if a blocking stream is captured. Another
 * one can unless it was drawn into a capture, or captured by an engine: then the end of what it did
 * before that has no mark. */
tnr_status tnri_batch_fence(tnri_device *device);

#endif
