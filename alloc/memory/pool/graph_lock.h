/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph lock: the one lock of captures and graphs.
 *
 * Captures are rare and short, and what happens in one is a sequence. So capture/graph works one
 * thread at a time: captures of several devices take turns. Unlike the library's other locks, the
 * graph lock is kept during driver calls, and while memory is taken from the device. So a thread
 * takes it before any other lock, with none held. A thread that does not capture takes it only to
 * free a block that a capture may need, for a picture of all memory, and to take a given address of
 * a graph pool.
 *
 * A thread that is inside may come in again: the out-of-memory callback may free.
 */
#ifndef TNRI_POOL_GRAPH_LOCK_H
#define TNRI_POOL_GRAPH_LOCK_H

#include <tenure/status.h>

/* Returns how often the calling thread was inside before: 0, unless a callback calls back. */
unsigned tnri_graph_lock(void);
void tnri_graph_unlock(void);
/* How often the calling thread is inside. */
unsigned tnri_graph_lock_depth(void);

/* TNR_ERR_BUSY, for calls that a callback may not make. */
tnr_status tnri_graph_lock_error(const char *call);

#endif
