/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture: what the calls of streams, events and graphs ask it, and what its files share.
 *
 * A capture is begun in one stream, its origin. Other streams join it by waiting for an event that
 * was recorded in it. Each of its streams has a dependency set: the nodes that its next operation
 * will depend on. An operation submitted to such a stream becomes a node of the capture's graph
 * instead of being queued, and is then the stream's dependency set. Nothing of it runs, and the
 * race detector does not see it until the graph is launched.
 *
 * A capture is active, then perhaps invalid (some call has broken its rules; only ending it is left
 * to do), then ended. Events recorded in it outlive it and keep what is left of it.
 *
 * Everything here is called with the lock held, which guards all that is declared here.
 */
#ifndef TENURE_SIM_CAPTURE_H
#define TENURE_SIM_CAPTURE_H

#include "graph.h"

struct sim_capture {
    struct sim_graph *graph;   /* null once ended */
    struct sim_stream *origin; /* null once ended */
    struct sim_stream *streams; /* all of it, through next_captured, origin included; each held */
    struct sim_capture *next;  /* among those that have not ended */
    uint64_t id;
    uint64_t thread; /* number of the thread that began it */
    uint64_t references; /* events recorded in it, and one until it ends */
    CUstreamCaptureMode mode;
    bool invalid;
    bool own_graph; /* the graph goes with a capture that fails; else it is the program's */
};

/* ---- What others ask (capture.c, capture_rules.c) ------------------------------------------- */

/*
 * Called before an operation is queued. If the stream captures, or its use is illegal because of a
 * capture, true: the operation was taken over and *result is what the call returns.
 */
bool sim_capture_take(struct sim_stream *stream, const struct sim_op *op, CUresult *result);

/* The same for a launch of what is in the graph, which becomes a child node. */
bool sim_capture_take_graph(struct sim_stream *stream, const struct sim_graph *graph,
                            CUresult *result);

/* Whether a capture is under way into this graph: it may then not be destroyed. */
bool sim_capture_into(const struct sim_graph *graph);

/*
 * For calls that a capture may forbid to a thread: an error, after the captures that forbid it were
 * invalidated, or CUDA_SUCCESS.
 */
CUresult sim_capture_unsafe(void);

#endif
