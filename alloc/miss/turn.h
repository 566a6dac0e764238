/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: threads that grow one pool of host memory do so one after the other.
 *
 * Threads on a device have streams, and each stream an arena, so they seldom grow one arena at
 * once. All threads of a pool of host memory share one. Its memory is pinned while it is taken, at
 * a second for some GiB, so those that grow do meet; and while a window waits for its chunks, or a
 * slab is on its way, nobody can begin in the corner that it will leave. Each would then begin at a
 * page or a slab of its own, and those corners stay. So a thread waits until the one before it has
 * its memory, and then looks again at what is free.
 *
 * Not for the pool that keeps contents, which one thread at a time grows, and not for segments of
 * an owner, whose functions may wait for anything. A turn is thrift and nothing depends on it: a
 * thread that has waited for about a second goes on without.
 */
#ifndef TNRI_MISS_TURN_H
#define TNRI_MISS_TURN_H

#include "memory/device/account.h"

/* Waits for the pool's turn. Returns 1 if the thread has it and is to end it. No lock is held. */
int tnri_turn_begin(tnri_account *account);
void tnri_turn_end(tnri_account *account, int has_turn);

#endif
