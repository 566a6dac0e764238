/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory: free pages of chunks that live blocks have other pages of. A chunk moves and goes
 * back to the driver only as a whole, so such pages serve nobody but their own world, where they
 * are. tnr_compact gives them back (capture/away/compact.c), and the report of a shortage tells of
 * them (miss/oom.c). Under the arena's lock.
 */
#ifndef TNRI_ARENA_PINNED_H
#define TNRI_ARENA_PINNED_H

#include "memory/arena/world.h"

struct tnri_chunk;

/* Free pages of one chunk that lie side by side, in a FREE run. */
typedef struct tnri_pinned {
    tnri_block *run;
    struct tnri_chunk *chunk;
    size_t page, pages;
} tnri_pinned;

/* Shows all pinned stretches of a world, those of one run in the order of their addresses. What is
 * in the bins is not free yet. `visit` changes nothing. */
typedef void (*tnri_pinned_visit)(const tnri_pinned *pinned, void *with);
void tnri_pinned_walk(const tnri_world *world, tnri_pinned_visit visit, void *with);

#endif
