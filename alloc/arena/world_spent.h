/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds of which nothing can be given: see pool/givers.h.
 *
 * While a world is spent its bins are shut: they are empty, none may be put in, and the large
 * world's bin counts as tried. So the first block that is freed finds no bin, and comes where it
 * is seen (tnri_world_bin), and nothing is added to the way of all others. What the bins knew is as
 * it was from then on, so that the same blocks are handed out as if nobody had looked.
 */
#ifndef TNRI_ARENA_WORLD_SPENT_H
#define TNRI_ARENA_WORLD_SPENT_H

#include "arena/world.h"

/* The whole chunks inside a FREE run: its pages [*first, *end). 0 if there are none. */
int tnri_run_whole_chunks(const tnri_space *space, const tnri_block *run, size_t *first,
                          size_t *end);

/* 1 if a free run has a whole chunk, or if that would take more than `looks_max` looks at runs. */
int tnri_world_has_whole(const tnri_world *world, int looks_max);

/* Somebody has flushed the bins and looked for memory in vain: notes that the world is spent, if it
 * is. From then on nobody looks at it until something of it is free again. */
void tnri_world_spend(tnri_world *world);

#endif
