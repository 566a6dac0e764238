/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trough is the moment in which the least is live. A program that repeats itself reaches it in
 * every step. The chunks that are free then go home (alias.h). So each step finds the addresses as
 * the step before did.
 *
 * Until an arena has reached its trough for the first time, it keeps no aliases, unless the setting
 * aliases_from is `first`. An old mapping takes addresses that a later window with fewer missing
 * pages could have, so a first pass is tighter without aliases. A program that never comes back to
 * its trough has no use for them.
 *
 * An arena looks for the trough from a miss on, if it has not reached it before, or while it has
 * chunks that are not at home. An arena that lends or borrows sends no chunk home. If streams take
 * turns with the same memory, one is through with it just when the next one wants it. Chunks that
 * had gone home would have to be moved for each turn.
 *
 * A pass does not end in one moment: a training program frees its activations, and then, with the
 * next step, its gradients. So if some chunks of an arena cannot go home at the trough, the arena
 * looks on, in finer steps.
 *
 * What is live is counted down from a peak. So a free that merges compares that one number with a
 * bound; the bound is out of reach while nobody looks for the trough. A free that a bin takes
 * compares nothing. Each time the bound is met it goes down by a step, and only a miss raises it
 * again. So misses, not frees, limit how often chunks are looked at. Under the arena's lock.
 */
#ifndef TNRI_ARENA_TROUGH_H
#define TNRI_ARENA_TROUGH_H

#include "memory/arena/arena.h"

/* A request of the arena has missed. */
void tnri_trough_watch(tnri_arena *arena);

/* 1 if the arena has been at the trough, so that its program has come through a pass: a chunk that
 * moves out of it now stays mapped where it was. Needs no lock, so a caller that asks twice may get
 * two answers. */
static inline int tnri_trough_keeps(const tnri_arena *arena)
{
    return atomic_load_explicit(&arena->trough.keeps, memory_order_relaxed);
}

#endif
