/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Donors: the arenas of a pool that may have memory for another one.
 *
 * A request that its own arena cannot serve looks for memory in others (miss/lend.h,
 * miss/execute.c). There may be thousands, and nearly all have nothing to give: no whole chunk of
 * theirs is free. So a bit for each world says whether it may have one. A thread that has looked at
 * a world under its arena's lock, and found nothing, clears the world's bit (tnri_world_spend). A
 * thread that makes memory of it free sets the bit, under the same lock. So a thread that knows of
 * memory freed before finds the bit set; a thread that comes at the same moment may miss a chance.
 * To give memory back to the driver, Tenure looks in all arenas (miss/reclaim.h), always before
 * it says that memory is out.
 *
 * The bits lie in sets of 32 arenas each. Arenas are walked newest first, as tnri_arena_walk does,
 * and a set without a donor costs one load.
 */
#ifndef TNRI_POOL_DONORS_H
#define TNRI_POOL_DONORS_H

#include "memory/arena/arena.h"

enum { TNRI_DONOR_SET_ARENAS = 32 };

typedef struct tnri_donor_set {
    struct tnri_donor_set *older; /* null: the oldest. Constant */
    _Atomic uint64_t giving;      /* two bits for each arena, by its slot: its worlds */
    struct tnri_arena *_Atomic arenas[TNRI_DONOR_SET_ARENAS]; /* by slot; set once */
} tnri_donor_set;

/* Enters an arena that is about to enter the pool's list. 0 if there is no host memory. Under the
 * pool's lock. */
int tnri_donors_add(tnr_pool pool, tnri_arena *arena);

/* Walks the arenas that may have something to give: null gives the first, null is the end. The
 * arena that the walk stands at may have nothing by now. No lock. */
tnri_arena *tnri_donors_walk(tnr_pool pool, const tnri_arena *arena);

/* Frees the sets of a pool whose arenas are gone. */
void tnri_donors_free(tnr_pool pool);

#endif
