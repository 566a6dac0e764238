/* SPDX-License-Identifier: Apache-2.0 */
/* Puts records of a world into a state and takes them out, cuts and merges them. For this folder
 * alone. */
#ifndef TNRI_ARENA_RECORD_H
#define TNRI_ARENA_RECORD_H

#include "memory/arena/world.h"

/* Puts a record that is in no list into a state: its sums and its list. */
void tnri_record_enter(tnri_world *world, tnri_block *block, tnri_state state);
/* The reverse: afterwards the record is in no list and in no sum. */
void tnri_record_leave(tnri_world *world, tnri_block *block);

/* Cuts a record that is in no list at `bytes` from its base. Returns the upper part, which is in
 * no list either. Needs a spare record. */
tnri_block *tnri_record_split(tnri_world *world, tnri_block *block, size_t bytes);

/* Makes a record reach over its upper neighbour, which is in no list and becomes a spare. */
void tnri_record_absorb_above(tnri_world *world, tnri_block *block);

/* Puts a record that is in no list into a state (FREE or HOLE), and merges it with neighbours of
 * the same state. Returns the record that remains. */
tnri_block *tnri_record_merge(tnri_world *world, tnri_block *block, tnri_state state);

#endif
