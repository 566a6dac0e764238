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

/* Takes the graph's latest place away again: what it was made for could not be served. No lock
 * held; not in the context. */
void tnri_capture_leave_place(tnri_capture *capture);

/* From now on the caller orders everything that uses the place's memory. So graphs keep nothing of
 * it, and blocks that have outlived their capture wait for nothing when they are freed. In the
 * context. */
void tnri_place_vouch(tnri_place *place);

typedef enum tnri_checked {
    TNRI_CHECKED_ATTACHED, /* those that engines begin and end */
    TNRI_CHECKED_ALL
} tnri_checked;

/* Ends captures that are over without a word to Tenure: another thread tried to end one, its stream
 * was destroyed, or the program has ended it past Tenure. */
void tnri_captures_check(tnri_checked which);

/* Lets go of what was freed in captures that the calling thread takes part in, and that no node
 * refers to so far: what has been freed will be in no later one. Reads all nodes. Returns how many
 * bytes it let go of, which other graphs may still hold. */
size_t tnri_captures_read(void);

/* Ties the graph's record to the driver's graph and holds what the driver's graph refers to. If not
 * all nodes could be read, everything that was freed during the capture is kept. */
tnr_status tnri_graph_keep(tnri_graph *graph, CUgraph cuda_graph, tnri_ending *ending);

/* 1 if the calling thread may end the capture: Tenure began it, and the driver lets it. */
int tnri_capture_may_end(const tnri_capture *capture);

/* What becomes of a capture that ends. */
typedef enum tnri_wish {
    TNRI_WISH_KEEP,   /* the graph is kept */
    TNRI_WISH_ABORT,  /* it is thrown away */
    TNRI_WISH_GIVE_UP /* the same, and Tenure lets go of the capture even if the driver does not */
} tnri_wish;

/* Ends the capture in the driver. Returns the graph in *cuda_graph if it is kept. */
tnr_status tnri_capture_end(tnri_capture *capture, tnr_stream stream, tnri_wish wish,
                            CUgraph *cuda_graph);

/* Ends a capture, in the driver too, and throws its graph away. */
void tnri_capture_abort(tnri_capture *capture);

#endif
