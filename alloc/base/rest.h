/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a thread waits for another that will be done soon: it leaves the processor to others, the
 * longer the more.
 *
 * Each rest is twice as long as the one before, because where many threads want one lock the work
 * is done fastest by whoever has the arena in his cache: he takes the lock again and again while
 * the others rest, and each of them gets a long turn in turn. Looking more often would only take
 * the cache line away from him. But not for long: most waits are for a few list operations, and
 * what a rest is too long is the tail of the waiter's latency.
 */
#ifndef TNRI_BASE_REST_H
#define TNRI_BASE_REST_H

/* Rests for the time `round`, 0 first: spins, then yields, then naps. Any of it may end at once
 * (a kernel that refuses): whoever rests looks again. */
void tnri_rest(unsigned round);

#endif
