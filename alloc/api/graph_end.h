/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for the end of graphs that were destroyed a moment ago. The driver lets go of a graph on
 * a thread of its own. That may happen after cuGraphExecDestroy has returned and the device is idle
 * (seen on an H200: once in some hundred programs of the fuzzer). Code that is about to refuse
 * because a graph needs memory waits here first, so that a program need not try again.
 */
#ifndef TNRI_API_GRAPH_END_H
#define TNRI_API_GRAPH_END_H

#include "memory/pool/pool.h"

/* Settles what has ended, until no graph needs memory of the pool, or graph_end_ms have passed.
 * Does not wait while a capture is under way, nor for a pool with live blocks. No lock is held. */
void tnri_graph_end_await(tnr_pool pool);

/* The same until no graph needs memory of the device. TNR_ERR_BUSY: a graph or a capture does. */
tnr_status tnri_graph_end_await_device(tnri_device *device);

#endif
