/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cached windows: how to serve a request that was served by moving chunks before.
 *
 * A window was made for a request of this size before (memory/arena/window_cache.h). If the window
 * has no live block in it, and each chunk that lay there is free in the arena, wherever it is now,
 * then the chunks come back without a driver call: they are still mapped there
 * (memory/arena/alias.h). This is a plan like others, executed by execute.c, but it is complete
 * when it is made.
 */
#ifndef TNRI_MISS_CACHED_WINDOW_H
#define TNRI_MISS_CACHED_WINDOW_H

#include "miss/plan.h"

/* Makes such a plan; the lock is held. TNR_ERR_NOT_LIVE: there is no such plan, and nothing has
 * changed. */
tnr_status tnri_cached_window_make(tnri_plan *plan, tnri_arena *arena, const tnri_request *request);

#endif
