/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aliases: old mappings that stay.
 *
 * When a chunk moves, it is mapped at its new address at once. Its old mapping need not be removed:
 * it stays as an ALIAS record, and the table of aliases says which chunk is mapped there. When that
 * chunk is wholly free again, it can come back without a driver call: the alias becomes FREE, and
 * the place that the chunk leaves becomes an ALIAS. So a program that repeats itself moves the same
 * chunks between the same addresses each time, and Tenure asks the driver once
 * (miss/cached_window.h).
 *
 * The streams' order puts work on one address of a chunk before work on another, as for every move:
 * the same stream, or one that waits. Three things need more: to unmap, to give a chunk back to the
 * driver, and to change its access. See miss/stale.h and memory/pool/peers.c.
 *
 * A chunk's home is where it was first put. If it moves later and its old mapping is not kept, its
 * new place becomes its home. When little is live, free chunks go home (memory/arena/trough.c).
 * Then every pass of a program begins as the pass before did. So it needs the same moves, and the
 * mappings for all of them are there.
 *
 * Everything here is under the arena's lock. A chunk is freed only when its count of aliases is 0.
 */
#ifndef TNRI_ARENA_ALIAS_H
#define TNRI_ARENA_ALIAS_H

#include "memory/arena/arena.h"

struct tnri_chunk;

/* A number for one look at what is free: see tnri_alias_mark. */
uint64_t tnri_alias_look(void);

/* For one look, marks each chunk of a world that is wholly free, and notes its run. */
void tnri_alias_mark(tnri_world *world, uint64_t look);

/* Takes a chunk that the latest look found free out of its run. The place stays mapped, and is
 * STALE. Needs TNRI_CUT_RECORDS spares. */
tnri_block *tnri_alias_leave(struct tnri_chunk *chunk);

/* STALE -> ALIAS: the chunks that were mapped at the record's pages have moved away. The caller
 * then notes each of them at its page. With `is_forgotten` it notes none: the chunks are forgotten,
 * and the record only waits to be unmapped. `stale->slack` is the number of mappings. */
void tnri_alias_keep(tnri_block *stale, int is_forgotten);
void tnri_alias_note(tnri_space *space, struct tnri_chunk *chunk, size_t page);

/* The chunk's mapping at a page counts again: the page is no alias. The caller decides what becomes
 * of the record. */
void tnri_alias_take(tnri_space *space, struct tnri_chunk *chunk, size_t page);

/* From now on no chunk comes back to the aliases of this world of an arena. */
void tnri_alias_forget(tnri_world *world);

/* ALIAS -> STALE for the oldest records, until at most `keep` mappings are left in the arena.
 * Returns the records, linked through `next`; they are in no queue. */
tnri_block *tnri_alias_release(tnri_arena *arena, size_t keep);
/* The same for all mappings of one chunk that is on its way back to the driver. */
tnri_block *tnri_alias_release_of(tnri_arena *arena, const struct tnri_chunk *chunk);
/* STALE -> ALIAS for such records, if they cannot be unmapped yet. Their chunks stay forgotten. */
void tnri_alias_put_back(tnri_block *records);

/* Sends home all chunks of the arena that are free and can go. Returns 1 if none is left away. */
int tnri_alias_go_home(tnri_arena *arena);

#endif
