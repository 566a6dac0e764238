/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Low water: the moment in which the least is live. A program that repeats itself comes by it with
 * every step; what is free then goes home (alias.h), so that each step finds the addresses as the
 * one before did.
 *
 * Until an arena has been there for the first time it keeps no aliases: an old mapping takes
 * addresses that a later window of fewer missing pages could have, so a first pass is tighter
 * without, and who never comes back to little has no use for them. Nor are they kept where trying
 * has cost TNRI_KEEP_TRIAL moved chunks more than came back: what moves is another each time.
 *
 * An arena looks for low water from a miss on, for the first time or while it has chunks that are
 * not at home. One that lends or borrows sends none home: streams that take turns with the same
 * memory are through with it just when the next one wants it, and what had gone home would have to
 * be moved for each turn.
 *
 * The end of a pass is not one moment: a training program frees its activations, and then, with the
 * next step, its gradients. So an arena whose chunks cannot all go home at low water looks on, in
 * steps that are finer.
 *
 * What is live is counted down from a peak, so a free that merges compares that one number with a
 * bound, which is out of reach where nobody looks; frees that a bin takes compare nothing. Each
 * time the bound is met it goes down by a step, and only a miss raises it again: so misses, not
 * frees, bound how often chunks are looked at. Under the arena's lock.
 */
#ifndef TNRI_ARENA_LOW_WATER_H
#define TNRI_ARENA_LOW_WATER_H

#include "arena/arena.h"

/* A request of the arena has missed. */
void tnri_low_water_watch(tnri_arena *arena);

/* So many chunks have moved into a window of the arena: into one that is made again, or not. */
void tnri_low_water_moved(tnri_arena *arena, size_t chunks, int is_again);

/* Whether what moves out of the arena now stays mapped where it was. Needs no lock: who asks twice
 * may get two answers. */
static inline int tnri_low_water_keeps(const tnri_arena *arena)
{
    return atomic_load_explicit(&arena->low.keeping, memory_order_relaxed) == TNRI_KEEPS;
}

#endif
