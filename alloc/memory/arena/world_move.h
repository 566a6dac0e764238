/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The geometry of a world, moving memory: addresses that get some, and runs that lose theirs. Under
 * the arena's lock.
 */
#ifndef TNRI_ARENA_WORLD_MOVE_H
#define TNRI_ARENA_WORLD_MOVE_H

#include "memory/arena/world.h"

/* Adds a span as one HOLE. Needs one spare record. */
void tnri_world_add_span(tnri_world *world, tnri_span *span);

/* FREE -> FREE + STALE + FREE: takes `pages` pages from `page_first` on out of use. All lie inside
 * the run, and consist of `mappings` mappings. Needs TNRI_CUT_RECORDS spares. Returns the STALE
 * record, which waits for no event yet. */
tnri_block *tnri_world_cut(tnri_world *world, tnri_block *run, size_t page_first, size_t pages,
                           size_t mappings);

/* STALE -> FREE: takes a cut back; its chunks are still mapped. */
void tnri_world_uncut(tnri_world *world, tnri_block *stale);

/* STALE -> HOLE: its mappings are gone. */
void tnri_world_hole(tnri_world *world, tnri_block *stale);

/* FREE and HOLE records that together span [base, end) -> one PENDING record. What sticks out of
 * the outermost two stays as it was. Needs TNRI_CARVE_RECORDS spares. */
tnri_block *tnri_world_claim(tnri_world *world, tnri_block *first, uintptr_t base, uintptr_t end);

/* PENDING -> FREE and HOLE again, by what the page table says is mapped. Pages marked with
 * tnri_mapping_refused become STALE records, which are passed to `stuck`. Needs a spare for each
 * change between the three. Returns the record that the first page is part of now. */
typedef void (*tnri_stuck)(struct tnri_arena *arena, tnri_block *stale, void *with);
tnri_block *tnri_world_unclaim(tnri_world *world, tnri_block *pending, tnri_stuck stuck,
                               void *with);

/* LIVE -> PARKED, and back. Neither changes what is mapped. */
void tnri_world_park(tnri_world *world, tnri_block *block);
void tnri_world_unpark(tnri_world *world, tnri_block *block);

/* LIVE -> FREE, HOLE and STALE, as tnri_world_unclaim. */
void tnri_world_empty(tnri_world *world, tnri_block *block, tnri_stuck stuck, void *with);

/* PENDING -> LIVE: the memory above a live block becomes part of it; with no block (null), the
 * memory becomes one. Returns the live block, whose slack the caller sets. */
tnri_block *tnri_world_extend(tnri_world *world, tnri_block *block, tnri_block *pending);

/* PENDING -> LIVE + PENDING: the first `bytes` become a block of their own, which is not in the
 * map. Needs a spare record if anything is left. */
void tnri_world_page(tnri_world *world, tnri_block *pending, size_t bytes);

#endif
