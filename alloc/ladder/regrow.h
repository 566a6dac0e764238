/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing anew: what becomes of a pool that never settles.
 *
 * Most programs that repeat themselves settle after some passes: each request finds the place that
 * it had in the pass before. But streams that take memory from each other leave it elsewhere in
 * each pass. The next pass begins with that, needs other pieces, and the pool grows by a little,
 * for ever. A first pass holds least, because nothing lies in its way. So where a pool drifts, what
 * is idle goes back to the driver while little is in use, and the pool grows anew.
 *
 *   low     what is idle is at least 1/TNRI_REGROW_IDLE of the most that was lately idle
 *   round   from where the pool becomes low to where it becomes low again; a pool in which nothing
 *           was idle yet is low, so the first load of a program belongs to the first round
 *
 * A pool drifts if it has grown in TNRI_REGROW_ROUNDS rounds and holds more than the goal, which is
 * 1/TNRI_REGROW_OVER above the most that was in use (price.h). Moves come first: a pool grows anew
 * only while hardly anything of the moving budget is used up, and what it takes is charged there.
 * Nothing is waited for: what a stream may still use stays where it is.
 *
 * All this is looked at when a request misses. A program that has settled does not miss.
 *
 * Until the pool has grown again, another process may take what went back. The setting regrow:off
 * keeps it.
 */
#ifndef TNRI_LADDER_REGROW_H
#define TNRI_LADDER_REGROW_H

#include "ladder/price.h"

/* For a request of the arena that has missed. In the device's context, no lock held. */
void tnri_regrow_look(tnri_arena *arena, tnri_use use);

#endif
