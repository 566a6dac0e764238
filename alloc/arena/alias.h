/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aliases: old mappings that stay.
 *
 * A chunk that moves is mapped at its new address at once; what it had before need not go. It
 * stays as an ALIAS record, and the table of aliases says which chunk is mapped there. Whenever
 * that chunk is wholly free again it can come back without a driver call: the alias becomes FREE,
 * and the place that it leaves an ALIAS. So a program that repeats itself moves the same chunks
 * between the same addresses for ever, and the driver is asked once (ladder/again.h).
 *
 * Work on one address of a chunk is ordered before work on another by the streams' order, as for
 * every move: the same stream, or one that waits. Only an unmap needs more, and so does a chunk
 * that goes back to the driver, or whose access changes: see ladder/stale.h and pool/peers.c.
 *
 * A chunk's home is where it was first put, or where it last came to while what it left was not
 * kept. When little is live, chunks that are free go home
 * (arena/low_water.c): every pass of a program then begins as the one before did, so that it needs
 * the same moves, of which all are there.
 *
 * Everything here is under the arena's lock. A chunk is freed only when its count of aliases is 0.
 */
#ifndef TNRI_ARENA_ALIAS_H
#define TNRI_ARENA_ALIAS_H

#include "arena/arena.h"

struct tnri_chunk;

/* A number for one look at what is free: see tnri_alias_mark. */
uint64_t tnri_alias_look(void);

/* Marks the chunks that are wholly free in a world, each with its run, for one look. */
void tnri_alias_mark(tnri_world *world, uint64_t look);

/* Takes a chunk, which the latest look found free, out of its run. The place, which stays mapped,
 * is STALE. Needs TNRI_CUT_RECORDS spares. */
tnri_block *tnri_alias_leave(struct tnri_chunk *chunk);

/* STALE -> ALIAS: the chunks that were mapped at the record's pages have moved away. Each of them
 * is then noted at its page; if none is, they are forgotten, and the record only waits for its
 * unmapping. `stale->slack` is the number of mappings. */
void tnri_alias_keep(tnri_block *stale, int is_forgotten);
void tnri_alias_note(tnri_space *space, struct tnri_chunk *chunk, size_t page);

/* The chunk's mapping at a page is the one that counts again: the page is no alias. What becomes of
 * the record is the caller's business. */
void tnri_alias_take(tnri_space *space, struct tnri_chunk *chunk, size_t page);

/* Number of mappings of an ALIAS record. */
size_t tnri_alias_mappings(const tnri_space *space, const tnri_block *alias);

/* No chunk comes back to an arena's aliases any more: to those of one world. */
void tnri_alias_forget(tnri_world *world);

/* ALIAS -> STALE for the oldest records, until at most `keep` mappings are left in the arena.
 * Returns the records, through `next`; they are in no queue. */
tnri_block *tnri_alias_release(tnri_arena *arena, size_t keep);
/* The same for all mappings of one chunk, which is on its way to the driver. */
tnri_block *tnri_alias_release_of(tnri_arena *arena, const struct tnri_chunk *chunk);
/* STALE -> ALIAS for such records that cannot go yet: forgotten ones. */
void tnri_alias_put_back(tnri_block *records);

/* All chunks of the arena that are free, and can, go home. Returns 1 if all that are away did. */
int tnri_alias_go_home(tnri_arena *arena);

#endif
