/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ladder: how Tenure serves a request that the cached path could not serve.
 *
 *   1. exact bins            memory/arena/serve.h, no driver call
 *   2. index                 memory/arena/serve.c, no driver call
 *      flush                 the bins are merged into the index, which is asked once more
 *   3. retired blocks        the layer above ends them (upper.h); this stream may be made to wait
 *   4. moved chunks          plan.c; this arena's own, nothing waits
 *   5. lent runs             lend.c; another arena's free run as it is, if more than one chunk
 *                            would have to move; this stream waits for that one on the device
 *   6. other arenas' chunks  execute.c; this stream waits for theirs on the device
 *   7. new chunks            from the driver, within the limits
 *   8. reclaim               retired blocks are waited for, idle memory of other pools and streams
 *                            goes back to the driver, the user's callback is asked
 *   9. out of memory         a report; nothing has changed
 *
 * Tenure calls the driver without any lock. Meanwhile the window that is being given memory is
 * PENDING, and the chunks on their way to it are STALE where they were. So no other thread can take
 * either. Every failure unwinds to exactly the state before, with two exceptions: bins have been
 * flushed, and a mapping that the driver refuses to remove is left for later.
 */
#ifndef TNRI_MISS_LADDER_H
#define TNRI_MISS_LADDER_H

#include "memory/arena/arena.h"

/* Serves the request by steps 2 (flush) to 9. No lock is held. */
tnr_status tnri_ladder_malloc(tnri_arena *arena, const tnri_request *request, void **ptr);

/* Gives a growable block `request->bytes` more, a multiple of the page, by steps 6 to 9. In all the
 * block then has the `request->bytes_requested` that its owner asked for. The block is marked as
 * growing. No lock is held. */
tnr_status tnri_ladder_grow(tnri_arena *arena, const tnri_request *request);

/* Serves a request with a guarded block, in new memory of an arena for such blocks: see
 * see/trap/guard.h. Nobody is asked for memory. No lock is held. */
tnr_status tnri_ladder_guard(tnri_arena *arena, const tnri_request *request, void **ptr);

/* Takes a span of `wanted` bytes for an arena of the device, or of a half, a quarter and so on, but
 * of no less than `least`: addresses may run short before memory does. When no addresses are left,
 * Tenure first gives back those without memory; that may wait for work on old mappings. No lock is
 * held. */
tnr_status tnri_ladder_take_span(tnri_span **span, tnri_device *device, size_t wanted,
                                 size_t least);

#endif
