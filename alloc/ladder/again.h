/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same window again: how a request is served that was served by moving chunks before.
 *
 * If a window that was made for a request of the size (arena/recipe.h) has no live block in it, and
 * each of the chunks that lay there is free, wherever it is now, then they come back without a
 * driver call: they are still mapped there (arena/alias.h). Chunks that another stream had need its
 * order, which is an event and a wait, as ever. This is a plan like others, executed by execute.c;
 * only that each chunk has its page, and that one that lacks a chunk comes to nothing.
 */
#ifndef TNRI_LADDER_AGAIN_H
#define TNRI_LADDER_AGAIN_H

#include "ladder/plan.h"

/* Makes such a plan; the lock is held. Unless `moves` is TNRI_MOVES_ALL, from the arena's own
 * chunks alone. TNR_ERR_NOT_LIVE: there is none, and nothing has changed. */
tnr_status tnri_again_make(tnri_plan *plan, tnri_arena *arena, const tnri_request *request,
                           tnri_moves moves);

#endif
