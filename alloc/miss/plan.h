/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan: how an arena that has no run large enough gets one, from as little new memory as
 * possible. (Steps 4, 6 and 7 of the ladder.)
 *
 *   1. Window. Free addresses come in stretches of FREE runs and HOLEs. Among all places in them
 *      where the request fits, take the one with the fewest pages without memory. A stretch that
 *      ends in the untouched end of a span always fits. So there always is a place, if need be in a
 *      new span. The window becomes PENDING, so that nobody else takes it.
 *   2. Donors. Chunks that are wholly free elsewhere are cut out of their runs (STALE) and will be
 *      mapped into the window. Of an arena's runs, those come first that keep least, compared with
 *      what they give: a hole cuts off what a run keeps. This arena's own chunks need no waiting
 *      at all, since one stream orders old use and new use. For another arena's chunks, this stream
 *      must wait for theirs, on the device. Chunks of parked blocks come after all free memory
 *      (park.h).
 *   3. New chunks for what is still missing.
 *
 * The idea of moving wholly free chunks is DALI's (cuda_vm_resource), which waits for the device.
 * Moving by a second mapping without waiting is Tenure's.
 *
 * A plan is made under the arena's lock, executed without it (execute.c), and then committed or
 * undone under it. It is owned by the thread that made it.
 */
#ifndef TNRI_MISS_PLAN_H
#define TNRI_MISS_PLAN_H

#include "memory/arena/arena.h"
#include "memory/device/chunk.h"
#include "miss/window.h"

/* A chunk on its way into the window. */
typedef struct tnri_source {
    tnri_chunk *chunk;
    size_t page;       /* where it will be mapped */
    tnri_block *stale; /* what it was cut out of, with its neighbours in this list; null: new */
    size_t page_old;   /* its page there */
    struct tnri_evicted *evicted; /* the range of a parked block that it left; null: none */
} tnri_source;

/* A stretch of pages of the window that have no memory. */
typedef struct tnri_gap {
    size_t page, pages;
} tnri_gap;

enum { TNRI_GAPS_MAX = 32, TNRI_PLAN_RECORDS = 2 * TNRI_GAPS_MAX + TNRI_CARVE_RECORDS };

/* Which chunks a plan may move. */
typedef enum tnri_moves {
    TNRI_MOVES_NONE, /* only new ones: the moving budget is used up */
    TNRI_MOVES_OWN,  /* this arena's, and those of the stream's other lanes: the arena has retired
                     * memory that will be free again soon, and to take another stream's chunks
                     * would mean to wait for all that that stream was given so far */
    TNRI_MOVES_ALL,
    TNRI_MOVES_PARKED /* what parked blocks have, all of it or nothing, and no new ones */
} tnri_moves;

typedef struct tnri_plan {
    tnri_arena *arena;
    tnri_world *world;
    const tnri_request *request;
    tnri_block *pending;
    tnri_moves moves;
    int was_refused;  /* 1: the driver has refused the request memory before */
    int is_growth;    /* 1: tnri_plan_make_growth made it */
    int is_paged;     /* 1: for pages of a range, each with a chunk of its own */
    uintptr_t at;     /* where the block is to begin in the window; 0: where it fits first */
    int is_cached;    /* 1: see cached_window.h */
    uintptr_t window; /* where it begins */
    struct tnri_parked *returns; /* the parked block that gets the memory, at its own addresses:
                                  * tnri_plan_make_return made it; null: none */
    tnri_block *grows; /* then the live block below the window; null: it had no memory yet */

    tnri_gap gaps[TNRI_GAPS_MAX];
    size_t gaps_count;
    size_t gap_at, gap_used; /* where the next chunk goes */
    size_t pages_missing;    /* still without a chunk */

    tnri_source *sources; /* sources_count used of sources_max */
    size_t sources_count, sources_max;
    size_t own_count;   /* the first so many are this arena's own */
    int own_stays;      /* 1: what these leave stays mapped: see alias.h */
    size_t lanes_count; /* the first so many are of this arena's stream */
    uint64_t began_ns;  /* for the moving budget */
} tnri_plan;

/* Steps 1 and 2 for the arena's own memory; the lock is held. Errors: TNR_ERR_HOST_MEMORY;
 * TNR_ERR_ADDRESS_SPACE means that a new span is needed. Nothing has changed then. */
tnr_status tnri_plan_make(tnri_plan *plan, tnri_arena *arena, const tnri_request *request,
                          tnri_moves moves);

/* The same for a guarded block. The window consists of whole pages, with a page without memory
 * above it, and the block lies at their end. Places are taken in the order of their addresses, over
 * and over, so a freed place comes back last. Nothing is moved there. */
tnr_status tnri_plan_make_guard(tnri_plan *plan, tnri_arena *arena, const tnri_request *request);
/* Step 1 for a window that is given. */
tnr_status tnri_plan_make_at(tnri_plan *plan, tnri_arena *arena, const tnri_request *request,
                             tnri_moves moves, const tnri_window *window);

/* The same for memory right above what the arena's growable block has: the window is given, and
 * nothing of the arena's own can be moved there. The lock is held. Errors: TNR_ERR_HOST_MEMORY;
 * TNR_ERR_BUSY if an old mapping is in the way, TNR_ERR_NOT_LIVE if the block was freed
 * meanwhile. */
tnr_status tnri_plan_make_growth(tnri_plan *plan, tnri_arena *arena, const tnri_request *request,
                                 tnri_moves moves);

/* The same for what a parked block lacks; nobody else changes that. The windows are given; the plan
 * takes as many as it has room for. The lock is held. Errors: TNR_ERR_HOST_MEMORY. */
tnr_status tnri_plan_make_return(tnri_plan *plan, struct tnri_parked *parked, tnri_request *request,
                                 tnri_moves moves);

/* Cuts donors out of `arena` into the plan, as many as it still misses; its lock is held. Returns
 * how many chunks. It takes fewer if there is no host memory for spare records; that is not an
 * error. */
size_t tnri_plan_take(tnri_plan *plan, tnri_arena *arena);

/* Takes chunks of parked blocks of `arena`, likewise. Their evicted ranges are busy until the plan
 * ends. */
size_t tnri_plan_take_parked(tnri_plan *plan, tnri_arena *arena);
/* Brings the plan's last source, which is one of them, home again. No lock is held. */
void tnri_plan_untake_parked(tnri_plan *plan);

/* 1 if the source is a new chunk. */
static inline int tnri_source_is_new(const tnri_source *source)
{
    return source->stale == NULL && source->evicted == NULL;
}

/* The pages that the next chunk may have at most; 0 when none is missing. */
size_t tnri_plan_room(const tnri_plan *plan);

/* Adds a new chunk. */
void tnri_plan_add(tnri_plan *plan, tnri_chunk *chunk);

/* Gives back the donors from number `from` on to `arena`. All of them are the arena's, and its lock
 * is held. Their old mappings are still there. */
void tnri_plan_untake(tnri_plan *plan, tnri_arena *arena, size_t from);

/* Ends the plan: the window is mapped, and becomes a block and free runs; the lock is held. May
 * fail for lack of host memory; then the window becomes free memory. */
tnri_block *tnri_plan_commit(tnri_plan *plan);

/* Ends a plan of tnri_plan_make_growth: the window becomes part of the block. Null if the block was
 * freed meanwhile; then the window becomes free memory. The lock is held. */
tnri_block *tnri_plan_commit_growth(tnri_plan *plan);

/* Ends a plan of tnri_plan_make_return: the pages are the block's. The lock is held. */
tnri_block *tnri_plan_commit_return(tnri_plan *plan);

/* Ends the plan without success: what has no memory becomes HOLE again, and what could not be
 * unmapped becomes STALE. The lock is held. */
void tnri_plan_undo(tnri_plan *plan);

/* Frees the plan's own memory. */
void tnri_plan_free(tnri_plan *plan);

#endif
