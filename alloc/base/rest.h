/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a thread waits for another that will be done soon: the longer it waits, the more it leaves
 * the processor to others.
 *
 * Each rest is twice as long as the one before. Where many threads want one lock, the thread that
 * has the arena in its cache does the work fastest. It takes the lock again and again while the
 * others rest, and later each of them gets such a long turn. If they looked more often, they would
 * only take the cache line away from it. But rests do not double for long: most waits are for a few
 * list operations, and a rest that is too long becomes the tail of the waiter's latency.
 */
#ifndef TNRI_BASE_REST_H
#define TNRI_BASE_REST_H

/* Rests for the time `round`, 0 first: spins, then yields, then naps. Any rest may end at once (the
 * kernel may refuse), so the caller looks again. */
void tnri_rest(unsigned round);

#endif
