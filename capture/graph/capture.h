/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures under way: what is known of each, from its beginning or attachment to its end. Under the
 * graph lock, except where it says otherwise.
 *
 * Threads. Several threads may take part in one capture, each on streams of its own. A stream's
 * frontier lies in the driver's memory and changes with the next call on the stream. So only a
 * thread that works on streams of the capture asks for it: one that began the capture, attached to
 * it, allocated in it or recorded a use in it. What other threads free of the capture is kept until
 * it ends.
 */
#ifndef TNRI_GRAPH_CAPTURE_H
#define TNRI_GRAPH_CAPTURE_H

#include "graph/graph.h"
#include "graph/place.h"

typedef struct tnri_capture {
    struct tnri_capture *next;
    uint64_t serial; /* grows with each capture, never given again */
    cuuint64_t id;   /* the driver's */
    tnri_device *device;
    tnri_place *place;
    tnri_graph *graph;
    tnr_stream origin;
    tnri_stream *origin_object; /* with a reference; null if attached without host memory */
    tnr_capture_mode mode;
    int is_attached;
    int is_vouched;    /* its memory comes from a vouched pool, and none from `place` */
    uint64_t *threads; /* that take part; the first began it */
    size_t threads_count, threads_room;
    tnri_order order;
    tnri_captured *live; /* handed out in it */
    tnri_set kept;       /* of tnri_uses: blocks freed while it went on, and held; none that it
                          * handed out */
} tnri_capture;

/* Where a stream stands: its capture and its frontier. The frontier lies in the driver's memory and
 * is valid until the next call on the stream. */
typedef struct tnri_standing {
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    const CUgraphNode *frontier;
    const CUgraphEdgeData *edges;
    size_t count;
} tnri_standing;

/* Asks the driver. The stream is not the legacy one. The first leaves it to the caller to call what
 * went wrong an error, by the second. */
CUresult tnri_standing_look(tnr_stream stream, tnri_standing *standing);
tnr_status tnri_standing_error(CUresult result);
tnr_status tnri_standing_ask(tnr_stream stream, tnri_standing *standing);

/* TNR_OK if the driver has what this layer needs. */
tnr_status tnri_captures_supported(void);

/* The capture with the driver's id; null: not one that Tenure was told of. */
tnri_capture *tnri_capture_find(cuuint64_t id);
/* The capture that began on a stream; null: none. */
tnri_capture *tnri_capture_begun_on(const tnri_device *device, tnr_stream stream);
/* The capture that makes a graph; null: it is over. */
tnri_capture *tnri_capture_of(const tnri_graph *graph);
/* 1 if the program has told the end of the stream that the capture began on: the capture ends with
 * it, and the driver is not asked about the stream any more. */
int tnri_capture_is_stranded(const tnri_capture *capture);
/* All captures; null is the end. */
tnri_capture *tnri_capture_walk(const tnri_capture *capture);

/* A capture with its graph, not under way yet. */
tnr_status tnri_capture_make(tnri_device *device, tnr_stream stream, tnri_place *place,
                             const tnr_capture_options *options, tnri_capture **capture);
/* Frees a capture that never began, and its graph. */
void tnri_capture_unmake(tnri_capture *capture);
/* The driver has begun it. */
void tnri_capture_enter(tnri_capture *capture, cuuint64_t id);

/* The calling thread takes part from now on. 0 if there is no host memory. */
int tnri_capture_join(tnri_capture *capture);
int tnri_capture_has_thread(const tnri_capture *capture);
/* 0 if the calling thread takes part in no capture under way; 1 if it may. Any thread. */
int tnri_thread_may_capture(void);

/* 1 if the capture, which is under way, handed the block out. Under its arena's lock. */
static inline int tnri_captured_is_of(const tnri_block *block, const tnri_capture *capture)
{
    const tnri_captured *captured = block->uses == NULL ? NULL : block->uses->captured;
    return captured != NULL && captured->capture == capture;
}

/* Holds a block, live or about to be freed, until the capture ends. Under the arena's lock. */
tnr_status tnri_capture_keep(tnri_capture *capture, tnri_arena *arena, tnri_block *block);

/* The first takes a capture that is over out of those under way; the second frees it. */
void tnri_capture_leave(tnri_capture *capture);
void tnri_capture_free(tnri_capture *capture);

#endif
