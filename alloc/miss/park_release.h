/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of parked blocks that goes back to the driver: for another pool, another process, or a
 * trim. Its chunks are idle as an arena's free memory is: once the arena's stream has come to the
 * point where it was when they were seen at rest. Only chunks at home go from here; a chunk that
 * has left is somebody else's.
 *
 * When the block is unparked it gets other chunks, which are new then. So this comes after all free
 * memory of a pool, and only if somebody asks for memory explicitly, or an allocation would fail:
 * never for release_threshold_mb or garbage_collection_threshold.
 */
#ifndef TNRI_MISS_PARK_RELEASE_H
#define TNRI_MISS_PARK_RELEASE_H

#include "miss/park.h"

/* Gives back chunks of an arena's parked blocks, at most `bytes` and the rest of a chunk, and waits
 * for work that may still use them. Chunks that cannot be proved idle during a capture stay. Adds
 * to *released. Errors are the driver's; what was done stays done. In the device's context, the
 * pool is worked on, no lock is held. */
tnr_status tnri_parked_release(tnri_arena *arena, size_t bytes, size_t *released);

#endif
