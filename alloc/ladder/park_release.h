/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of parked blocks that goes back to the driver: for another pool, another process, or who
 * trims. Its chunks are idle as an arena's free memory is: once the arena's stream has come to
 * where it was when they were seen at rest. Only what is at home goes from here; what has left is
 * somebody else's.
 *
 * The block gets other chunks when it is unparked, which are new then. So this comes after all free
 * memory of a pool, and only where somebody asks for memory in so many words, or an allocation
 * would fail: never for release_threshold_mb or garbage_collection_threshold.
 */
#ifndef TNRI_LADDER_PARK_RELEASE_H
#define TNRI_LADDER_PARK_RELEASE_H

#include "ladder/park.h"

/* Gives chunks of an arena's parked blocks back, at most `bytes` and the rest of a chunk, and waits
 * for work that may still use them. What cannot be proved idle during a capture stays. Adds to
 * *released. Errors are the driver's; what was done stays done. In the device's context, the pool
 * is worked on, no lock is held. */
tnr_status tnri_parked_release(tnri_arena *arena, size_t bytes, size_t *released);

#endif
