/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures under way: from the beginning, or the attachment, to the end. Inside the room, except
 * where it says otherwise.
 */
#ifndef TNRI_CAPTURE_CAPTURE_H
#define TNRI_CAPTURE_CAPTURE_H

#include "graph.h"
#include "place.h"

typedef struct tnri_capture {
    struct tnri_capture *next;
    cuuint64_t id; /* the driver's */
    tnri_device *device;
    tnri_place *place;
    tnri_graph *graph;
    tnr_stream origin;
    tnri_stream *origin_object; /* with a reference; null if attached */
    uint64_t thread;            /* that began or attached it */
    tnr_capture_mode mode;
    int is_attached;
    tnri_order order;
    tnri_captured *live; /* handed out in it */
    /* Freed while it went on, and held: ordinary blocks, and its own that it cannot tell the end
     * of. */
    tnri_uses **kept;
    size_t kept_count, kept_room;
} tnri_capture;

/* Where a stream stands: its capture and its frontier, which is the driver's and valid until its
 * next call on the stream. */
typedef struct tnri_standing {
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    const CUgraphNode *frontier;
    const CUgraphEdgeData *edges;
    size_t count;
} tnri_standing;

/* Asks the driver. */
tnr_status tnri_standing_ask(tnr_stream stream, tnri_standing *standing);

/* The capture with the driver's id; null: not one that Tenure was told of. */
tnri_capture *tnri_capture_find(cuuint64_t id);

/* Holds a block, live or about to be freed, until the capture ends. Under the arena's lock. */
tnr_status tnri_capture_keep(tnri_capture *capture, tnri_arena *arena, tnri_block *block);

/* Ends captures that were attached to and whose end was not told; `device` null: on all. */
void tnri_captures_check(const tnri_device *device);

/* Registers this layer with the one below; any thread. */
void tnri_captures_register(void);

/* TNR_OK if the driver has what this layer needs. */
tnr_status tnri_captures_supported(void);

/* A capture has ended: with `cuda_graph`, or with none (null). Fails only if the graph's blocks
 * could not be found or kept; the capture is over in any case. */
tnr_status tnri_capture_finish(tnri_capture *capture, CUgraph cuda_graph);

/* Any capture under way on the device; null if none. */
tnri_capture *tnri_capture_on(const tnri_device *device);

#endif
