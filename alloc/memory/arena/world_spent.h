/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds that have nothing to give: see memory/pool/donors.h.
 *
 * While a world is spent its bins are shut: they are empty, no block may be put in, and the large
 * world's bin counts as tried. So the first block that is freed finds no bin, and is seen on that
 * path (tnri_world_bin). The path of all other frees gets no longer. Afterwards the bins know what
 * they knew before, so the same blocks are handed out as without the look.
 */
#ifndef TNRI_ARENA_WORLD_SPENT_H
#define TNRI_ARENA_WORLD_SPENT_H

#include "memory/arena/world.h"

/* The whole chunks inside a FREE run: its pages [*first, *end). 0 if there are none. */
int tnri_run_whole_chunks(const tnri_space *space, const tnri_block *run, size_t *first,
                          size_t *end);

/* 1 if a free run has a whole chunk, or if it would take more than `looks_max` looks at runs to
 * tell. */
int tnri_world_has_whole(const tnri_world *world, int looks_max);

/* The caller has flushed the bins, looked for memory and found none. Notes that the world is spent,
 * if it is. From then on it is passed by until something of it is free again. */
void tnri_world_spend(tnri_world *world);

#endif
