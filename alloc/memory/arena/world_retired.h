/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RETIRED records: blocks that are freed, and not free yet. A capture cuts and joins the records of
 * what was freed inside it, and hands the results out again. Under the arena's lock.
 */
#ifndef TNRI_ARENA_WORLD_RETIRED_H
#define TNRI_ARENA_WORLD_RETIRED_H

#include "memory/arena/world.h"

/* LIVE -> RETIRED: keeps block->uses. */
void tnri_world_retire(tnri_world *world, tnri_block *block);

/* The record, of any state, that contains an address of the world; null if the address is in none
 * of its spans. `hint` is a record of the world, or null. If it lies below the address in the same
 * span, the walk goes up from there; else from the span's start. */
tnri_block *tnri_world_find(const tnri_world *world, tnri_block *hint, uintptr_t address);

/* RETIRED + RETIRED -> RETIRED: a record takes in its upper neighbour, and keeps its own uses. */
void tnri_world_join(tnri_world *world, tnri_block *block);

/* FREE -> FREE + RETIRED + FREE: takes [base, end) of a run out of everyone's reach. Needs
 * TNRI_CUT_RECORDS spares. */
tnri_block *tnri_world_withhold(tnri_world *world, tnri_block *run, uintptr_t base, uintptr_t end);

#endif
