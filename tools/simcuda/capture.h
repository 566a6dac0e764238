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
 * A capture is active, then perhaps invalid (a call has broken its rules, and it can only be
 * ended), then ended. Events recorded in it may outlive it: they then stand for nothing.
 *
 * Everything here is called with the lock held, which guards all that is declared here.
 */
#ifndef TENURE_SIM_CAPTURE_H
#define TENURE_SIM_CAPTURE_H

#include "graph.h"

struct sim_capture {
    struct sim_graph *graph;    /* null once ended */
    struct sim_stream *origin;  /* null once ended */
    struct sim_stream *streams; /* all of it, through next_captured, origin included; each held */
    struct sim_capture *next;   /* among those that have not ended */
    uint64_t id;
    uint64_t thread;     /* number of the thread that began it */
    uint64_t references; /* events recorded in it, and one until it ends */
    CUstreamCaptureMode mode;
    int is_invalid;
    int is_given; /* the graph is one that the program had made */
};

/* ---- what calls ask (capture_rules.c) ------------------------------------------------------- */

/* Called before an operation is queued. Returns 1 if the stream captures, or if its use is illegal
 * because of a capture. Then the operation was taken over, and *result is what the call returns. */
int sim_capture_take(struct sim_stream *stream, const struct sim_op *op, CUresult *result);

/* For calls that a capture may forbid to a thread. If captures forbid it, they are invalidated and
 * the result is an error; otherwise CUDA_SUCCESS. */
CUresult sim_capture_unsafe(void);

/* Whether work may be submitted to the stream. An error if that breaks a capture; the capture is
 * then broken. */
CUresult sim_capture_check(struct sim_stream *stream);

/* The same for what a capturing stream never allows: synchronous calls, launches of graphs. */
CUresult sim_capture_check_outside(struct sim_stream *stream);

/* The same for asking or waiting for the stream. A capture's mode may forbid that for any
 * stream. */
CUresult sim_capture_check_asked(struct sim_stream *stream);

/* The same for waiting for everything in a context. */
CUresult sim_capture_check_context(const struct sim_context *context);

/* The same for asking or waiting for an event. */
CUresult sim_capture_check_event(const struct sim_event *event);

/* The same for measuring between events, which breaks nothing. */
CUresult sim_capture_check_elapsed(const struct sim_event *event);

/* Whether a use of the legacy stream would tie a capture to it. Breaks nothing. */
int sim_capture_implicit(const struct sim_stream *stream);

/* A stream's record or wait, if a capture has to do with it; else 0. */
int sim_capture_record(struct sim_stream *stream, struct sim_event *event, CUresult *result);
int sim_capture_wait(struct sim_stream *stream, const struct sim_event *event, CUresult *result);

/* Forgets that the event was recorded in a capture. */
void sim_capture_forget(struct sim_event *event);

int sim_nodes_add(struct sim_nodes *set, const struct sim_nodes *more);
void sim_nodes_clear(struct sim_nodes *set);
CUresult sim_capture_join(struct sim_capture *capture, struct sim_stream *stream,
                          const struct sim_nodes *nodes);

/* ---- beginning and end (capture.c) ---------------------------------------------------------- */

/* Whether a capture is under way into this graph: it may then not be destroyed. */
int sim_capture_into(const struct sim_graph *graph);

void sim_capture_drop(struct sim_capture *capture);
void sim_capture_stream_gone(struct sim_stream *stream); /* its handle is being destroyed */
void sim_capture_context_end(const struct sim_context *context);
void sim_capture_reset(void);

#endif
