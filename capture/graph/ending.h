/* SPDX-License-Identifier: Apache-2.0 */
/* The end of captures, in the driver and here. Under the graph lock. */
#ifndef TNRI_GRAPH_ENDING_H
#define TNRI_GRAPH_ENDING_H

#include "graph/capture.h"

/* How a capture has ended. */
typedef enum tnri_ending {
    TNRI_ENDING_NO_GRAPH, /* nothing came of it */
    TNRI_ENDING_READ,     /* the graph's nodes have been read: what they refer to is held */
    TNRI_ENDING_UNREAD    /* there may be a graph: all that was kept is kept for it */
} tnri_ending;

/* The capture is over: its live blocks become ordinary ones, and it is freed. Without a graph, its
 * graph's record ends too. No lock held; not in the context. */
void tnri_capture_finish(tnri_capture *capture, tnri_ending ending);

/* The caller orders all that uses the place's memory from now on: graphs keep nothing of it, and
 * blocks that have outlived their capture wait for nothing when they are freed. In the context. */
void tnri_place_vouch(tnri_place *place);

/* Ends captures that were attached to and are over without a word. */
void tnri_captures_check(void);

/* Ties the graph's record to the driver's graph and holds what that refers to. What was freed
 * during the capture is kept as a whole if not all nodes could be read. */
tnr_status tnri_graph_keep(tnri_graph *graph, CUgraph cuda_graph, tnri_ending *ending);

/* 1 if the calling thread may end the capture: Tenure began it, and the driver lets it. */
int tnri_capture_may_end(const tnri_capture *capture);

/* What becomes of a capture that ends. */
typedef enum tnri_wish {
    TNRI_WISH_KEEP,   /* the graph is kept */
    TNRI_WISH_ABORT,  /* it is thrown away */
    TNRI_WISH_GIVE_UP /* it is, and Tenure lets go of the capture though the driver may not */
} tnri_wish;

/* Ends the capture in the driver. The graph, if it is kept, comes back in *cuda_graph. */
tnr_status tnri_capture_end(tnri_capture *capture, tnr_stream stream, tnri_wish wish,
                            CUgraph *cuda_graph);

/* Ends a capture, in the driver too, and throws its graph away. */
void tnri_capture_abort(tnri_capture *capture);

#endif
