/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded blocks: each lies at the end of pages of its own, before a page without memory. So an
 * overrun of 512 bytes and more faults. A free gives the pages back to the driver as soon as the
 * block's stream is through with them (guard:on), or waits for that (guard:wait). The addresses
 * come back last of all that the arena has, so a late access faults as well.
 *
 * A guarded block lives in an arena of its stream that holds nothing else and that no request finds
 * (tnri_arena.is_guard). Its pages are new chunks, mapped and unmapped like any others. This file
 * only chooses the place (miss/plan.h) and gives the pages back at once (miss/stale.h).
 */
#ifndef TNRI_TRAP_GUARD_H
#define TNRI_TRAP_GUARD_H

#include "memory/arena/arena.h"

/* Serves a request of the arena's pool and stream with a guarded block. An error means that it can
 * be served without a guard. No lock is held. */
tnr_status tnri_guard_malloc(tnri_arena *arena, const tnri_request *request, void **ptr);

/* Blocks that were handed out with a guard, and that could not be, since the process began. */
extern _Atomic uint64_t tnri_guarded_count, tnri_unguarded_count;

/* Unmaps free memory in an arena of guarded blocks: that whose work is over, or, with `wait`, all.
 * No lock is held. */
void tnri_guard_sweep(tnri_arena *arena, int wait);

#endif
