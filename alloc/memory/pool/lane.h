/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: several arenas for one stream of a pool, where threads meet.
 *
 * One arena is one lock, so threads that share a stream wait for each other. An arena counts how
 * long allocations had to wait. A thread that waits too long in too short a time leaves for another
 * arena of the same stream, and stays there: a lane of its own, as long as the stream has fewer
 * than lanes_max (by default one for each processor, 16 at most). Threads that seldom meet, and a
 * thread alone, never see a second lane.
 *
 * Lanes of one stream are in a ring. Memory that is freed in one may be handed out by another at
 * once: the order of the stream is the same. So a lane that lacks memory borrows a block of another
 * lane. The block is served from that lane's arena, belongs to it, and goes back to it when it is
 * freed. Tenure takes more memory only if no other lane can serve, so lanes cost what their borders
 * cost. A lane that borrows much meets the others at their locks. When it has done so for some
 * time, another lane lends it a run (miss/lend.h); or it gets a new chunk, if it has next to
 * nothing. A lane that lends keeps at least as much as it gives: otherwise it would be the next.
 *
 * A block, a use or an event knows only its arena, so lanes need no more. What is done to a stream
 * (end, capture) is done to its object, which all its lanes share.
 *
 * A thread's tenancy is a hint. Threads end without telling Tenure. So when a thread chooses among
 * lanes, Tenure asks the kernel about all tenants, and strikes off those that are gone
 * (base/prim/alive.h). A thread that comes to the stream then goes to a lane without a living
 * tenant. There may be tenants that live and never come again. So a thread that waits too often,
 * and finds tenants everywhere, tries another lane.
 */
#ifndef TNRI_POOL_LANE_H
#define TNRI_POOL_LANE_H

#include "memory/arena/arena.h"

enum { TNRI_LANES_MAX = 64 };

/* ---- who goes where -------------------------------------------------------------------------- */

/* An allocation had to wait for the arena's lock: `rounds` is what tnri_lock_take has returned. The
 * calling thread has the lock now. */
void tnri_lane_waited(tnri_arena *arena, int rounds);

/* The lane of a stream for the calling thread, `first` being one of them; null if one more should
 * be opened. Under the pool's lock. */
tnri_arena *tnri_lane_choose(tnri_arena *first);

/* The calling thread allocates from the arena from now on. Under the pool's lock. */
void tnri_lane_settle(tnri_arena *arena);

/* Enters a new arena of the same stream into the ring of `first`, or takes one out whose stream
 * ends. Under the pool's lock. */
void tnri_lane_join(tnri_arena *first, tnri_arena *arena);
void tnri_lane_part(tnri_arena *arena);

/* ---- memory of lanes ----------------------------------------------------------------------- */

/* 1 if the arena's stream has others. */
static inline int tnri_lane_has_others(const tnri_arena *arena)
{
    return atomic_load_explicit(&arena->lane.next, memory_order_acquire) != NULL;
}

/* 1 if both are lanes of one stream. */
static inline int tnri_lane_is_other(const tnri_arena *arena, const tnri_arena *other)
{
    return tnri_lane_has_others(arena) && tnri_lane_has_others(other) &&
           atomic_load_explicit(&arena->stream, memory_order_relaxed) ==
               atomic_load_explicit(&other->stream, memory_order_relaxed);
}

/* Lists the other lanes of the stream, the one that lent last first. Returns how many. They may
 * have changed by the time they are looked at, but no arena goes before its pool. */
size_t tnri_lane_others(const tnri_arena *arena, tnri_arena *lanes[TNRI_LANES_MAX]);

/* Serves a request from another lane's memory: with TNR_SERVED_BIN as that lane would itself, with
 * TNR_SERVED_FLUSH after flushing its bins, with TNR_SERVED_RETIRED from its index, to which
 * retired blocks have just come. Returns 1 if one could. No lock is held. */
int tnri_lane_borrow(tnri_arena *arena, const tnri_request *request, tnr_served served, void **ptr);

/* 1 if the lane has waited for others so long that it should have memory of its own. Then *may_grow
 * says whether it has so little that a new chunk may be made for that. To be asked once for each
 * request that the lane cannot serve. No lock is held. */
int tnri_lane_is_starved(tnri_arena *arena, const tnri_request *request, int *may_grow);

#endif
