/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pending uses of a stream, lowest mark first: a pairing heap (Fredman, Sedgewick, Sleator, Tarjan
 * 1986). Blocks are seldom freed in the order in which their uses were recorded, so a plain queue
 * would not do. Insertion takes constant time, removal logarithmic time in the mean. The links are
 * in the uses themselves, so nothing is allocated and nothing can fail. Under the lock of
 * the stream's pending uses.
 */
#ifndef TNRI_LIFETIME_PENDING_H
#define TNRI_LIFETIME_PENDING_H

#include "order/uses.h"

void tnri_pending_insert(tnri_use **heap, tnri_use *use);
/* Removes any use of the heap. */
void tnri_pending_remove(tnri_use **heap, tnri_use *use);

/* Removes one of a stream's heap, and counts it. Under the lock. */
void tnri_pending_leave(tnri_stream *stream, tnri_use *use);

/* Both take the stream's lock, which the caller must not hold, and keep its count. As soon as a use
 * pends, it may be over, so the caller must make sure that the stream's object stays. The second
 * returns 0 if the use did not pend any more. */
void tnri_pending_add(tnri_stream *stream, tnri_use *use);
int tnri_pending_withdraw(tnri_stream *stream, tnri_use *use);

#endif
