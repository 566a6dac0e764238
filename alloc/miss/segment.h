/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps 4 to 7 of the ladder for a pool over foreign segments: there is nothing to move, and
 * nothing to lend, so a request that no run serves gets a new segment. See memory/device/segment.h
 * for what that is.
 */
#ifndef TNRI_MISS_SEGMENT_H
#define TNRI_MISS_SEGMENT_H

#include "memory/arena/arena.h"

/* Asks the owner for a segment and serves the request from it. `reclaimed` as for tnri_execute. In
 * the device's context, no lock held. On an error nothing has changed, with one exception: if host
 * memory for the block was missing, the segment is free memory of the arena. */
tnr_status tnri_segment_serve(tnri_arena *arena, const tnri_request *request, int reclaimed,
                              void **ptr);

#endif
