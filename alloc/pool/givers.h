/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Givers: the arenas of a pool that may have memory for another one.
 *
 * A request that its own arena cannot serve looks for memory in others (ladder/lend.h,
 * ladder/execute.c). There may be thousands, nearly all of which have nothing to give: no whole
 * chunk of theirs is free. So a bit for each world says whether it may have one. Who has looked at
 * a world in vain, under its arena's lock, clears its bit (tnri_world_spend); who makes memory of
 * it free sets it, under the same lock. Whoever knows of memory that was freed before therefore
 * finds the bit set; who comes at the same moment may miss a chance. Memory that is given back to
 * the driver is looked for in all arenas (ladder/reclaim.h), always before memory is said to be
 * out.
 *
 * The bits lie in wards of 32 arenas each. Arenas are walked newest first, as tnri_arena_walk
 * does, and a ward without a giver is one load.
 */
#ifndef TNRI_POOL_GIVERS_H
#define TNRI_POOL_GIVERS_H

#include "arena/arena.h"

enum { TNRI_WARD_ARENAS = 32 };

typedef struct tnri_ward {
    struct tnri_ward *older; /* null: the oldest. Constant */
    _Atomic uint64_t giving; /* two bits for each arena, by its slot: its worlds */
    struct tnri_arena *_Atomic arenas[TNRI_WARD_ARENAS]; /* by slot; set once */
} tnri_ward;

/* Enters an arena that is about to enter the pool's list. 0 if there is no host memory. Under the
 * pool's lock. */
int tnri_givers_add(tnr_pool pool, tnri_arena *arena);

/* Walks the arenas that may have something to give: null gives the first, null is the end. The
 * arena that the walk stands at may have none by now. No lock. */
tnri_arena *tnri_givers_walk(tnr_pool pool, const tnri_arena *arena);

/* Frees the wards of a pool whose arenas are gone. */
void tnri_givers_free(tnr_pool pool);

#endif
