/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The geometry of a world, lending: addresses that go to another world with their memory, and come
 * back. See miss/lend.h for the whole. Under the locks of the arenas.
 */
#ifndef TNRI_ARENA_WORLD_LEND_H
#define TNRI_ARENA_WORLD_LEND_H

#include "memory/arena/world.h"

/* Sets a place aside for a range that is borrowed, or cut in two by a loan; 0 if there is no host
 * memory. tnri_world_unpromise_borrow makes it usable. */
int tnri_world_promise_borrow(tnri_world *world);
void tnri_world_unpromise_borrow(tnri_world *world);

/* PENDING -> LENT. If the addresses are borrowed themselves: PENDING -> no record of this world.
 * Whole pages that tnri_world_claim has taken out of a run leave the world, with their memory. The
 * block map forgets them. Needs a place for a borrowed range. */
void tnri_world_lend(tnri_world *world, tnri_block *pending);

/* -> FREE: takes over what tnri_world_lend of another world has let go. Addresses of one of this
 * world's own spans are back; others are borrowed. Returns the run. Needs TNRI_RECEIVE_RECORDS
 * spares and a place for a borrowed range. */
tnri_block *tnri_world_receive(tnri_world *world, uintptr_t base, size_t bytes);

/* HOLE -> PENDING: up to `most` holes in borrowed ranges, to be given back. Returns their
 * number. */
size_t tnri_world_holes_claim(tnri_world *world, size_t most, tnri_block **claimed);
/* The reverse. */
void tnri_world_hole_unclaim(tnri_world *world, tnri_block *pending);
/* PENDING -> no record of this world: the addresses go back to the world in whose span they lie. */
void tnri_world_give_back(tnri_world *world, tnri_block *pending);
/* LENT -> HOLE: takes over what tnri_world_give_back of another world has let go. Needs
 * TNRI_RECEIVE_RECORDS spares. */
void tnri_world_take_back(tnri_world *world, uintptr_t base, size_t bytes);

/* -> FREE: a foreign segment (memory/device/segment.h) becomes a range of its own, as if it were
 * borrowed from its owner; it is joined with no other. Returns the run. Needs a spare and a place
 * for a borrowed range. */
tnri_block *tnri_world_segment_add(tnri_world *world, uintptr_t base, size_t bytes);
/* STALE -> no record of this world: all of a segment leaves. Needs the device's look
 * (tnri_device_look_begin): the block map forgets its addresses, tables included. */
void tnri_world_segment_remove(tnri_world *world, tnri_block *stale);

/* 1 if the address lies in a span of the world's own, lent or not. */
int tnri_world_owns(const tnri_world *world, uintptr_t address);

#endif
