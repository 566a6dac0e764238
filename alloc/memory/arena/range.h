/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges: blocks of tnr_reserve whose pages have memory or not, each by itself.
 * (<tenure/range.h>)
 *
 * A growable block that is first given memory by tnr_commit_range becomes a range. Its arena's span
 * is then tiled like this:
 *
 *     LIVE    one page that has memory. Each such page is a record and counts as a block
 *     HOLE    pages without memory
 *     FREE, RETIRED, STALE
 *             pages that were taken out, as the memory of any block that was freed
 *
 * No page is in the block map. The map leads to `whole` instead, from every address of the range: a
 * record that is in no world's list and is LIVE as long as the range is reserved. So uses, holds
 * and frees of the range are those of an ordinary block, whatever pages have memory, and nobody
 * outside these files has to know which ones do. `whole` always has a list of uses, so that its
 * free never takes the cached path.
 *
 * The free of a range is the free of all its pages, in one piece: they become RETIRED with the
 * range's own list of uses, and free memory when the range is retired no longer. A page that was
 * taken out before has a list of its own.
 *
 * All under the arena's lock. The functions that work on pages take page numbers from the range's
 * start on.
 */
#ifndef TNRI_ARENA_RANGE_H
#define TNRI_ARENA_RANGE_H

#include "memory/arena/arena.h"

typedef struct tnri_range {
    tnri_block whole;   /* what the map leads to; UNUSED: nothing is reserved */
    size_t pages;       /* in the span: constant */
    uintptr_t at;       /* where the plan that is being made is to begin */
    size_t promised;    /* spare records for the pages of that plan */
    tnri_block *live[]; /* the LIVE record of each page; null: it has none */
} tnri_range;

/* Makes a range of the arena's growable block, which is reserved and has no memory. 0: no host
 * memory, and nothing has changed. The caller then gives `whole` its list of uses. */
int tnri_range_open(tnri_arena *arena);

/* The range is over, and its pages are nobody's: it was freed by force, or has had none. */
void tnri_range_close(tnri_arena *arena);

/* 1 if the record is a range's `whole`. */
static inline int tnri_range_is_whole(const tnri_arena *arena, const tnri_block *block)
{
    return tnri_unlikely(arena->growable.range != NULL) && block == &arena->growable.range->whole;
}

/* The range that is reserved in the arena; null: none. */
static inline tnri_range *tnri_range_of(const tnri_arena *arena)
{
    tnri_range *range = arena->growable.range;
    return range != NULL && range->whole.state == TNRI_LIVE ? range : NULL;
}

/* What the owner of a live block wants of a sleep: of a page, what that of its range does. */
static inline unsigned tnri_range_content(const tnri_arena *arena, const tnri_block *block)
{
    const tnri_range *range = tnri_range_of(arena);
    return tnri_likely(range == NULL) ? block->content : range->whole.content;
}

/* Bytes that have memory. */
static inline size_t tnri_range_bytes(const tnri_arena *arena)
{
    return arena->worlds[TNRI_LARGE].bytes_in[TNRI_LIVE];
}

/* The record that has a page. */
tnri_block *tnri_range_record(const tnri_arena *arena, size_t page);

/* PENDING -> LIVE, page by page: counts them. Gives up what was promised for them. Returns the
 * first. */
tnri_block *tnri_range_settle(tnri_arena *arena, tnri_block *pending);

/* FREE -> LIVE: takes what is free of the pages [page, end), which begin in `run`. Returns how
 * many; 0: no host memory. */
size_t tnri_range_take_free(tnri_arena *arena, tnri_block *run, size_t page, size_t end);

/* LIVE -> FREE: a page whose last use is over, or ordered before the arena's stream. */
void tnri_range_drop(tnri_arena *arena, size_t page);

/* What happens to `whole` happens to its pages: LIVE -> RETIRED, counted; RETIRED -> FREE. */
void tnri_range_retire(tnri_arena *arena);
void tnri_range_unretire(tnri_arena *arena, tnr_reuse reason);

/* Null, or what is wrong with the arena's range. */
const char *tnri_range_validate(const tnri_arena *arena);

#endif
