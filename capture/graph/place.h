/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places: the memory of graph pools, and how captures hand it out.
 *
 * A graph pool has one arena, which belongs to no stream: inside a capture the graph's edges make
 * the order, not the streams. A block that is freed there stays RETIRED, as a *piece* that knows
 * the nodes of its last uses. A piece is handed out to a stream that comes after all of these nodes
 * (order.h). Memory that no capture under way has touched is FREE, *clean*, and good for every
 * stream.
 *
 * A request takes, in this order:
 *   1. the lowest stretch that is long enough, of clean memory and of pieces that its stream comes
 *      after; what is left of these pieces stays pieces with the same nodes
 *   2. new memory: all pieces that its stream comes after are made FREE for a moment, so that the
 *      pool needs to grow as little as possible; then what is left of them is withheld again
 * Neighbouring pieces that wait for the same nodes become one.
 * Nothing in a graph pool ever moves.
 *
 * When no capture into the place is under way any more, its pieces become clean.
 *
 * Sometimes a capture cannot tell when a block's uses end: a stream outside used the block, a
 * thread that takes no part or tnr_free_sync freed it, or its stream was seen to have lost
 * dependencies. Such a block is kept: it is freed for the program, and held until no capture into
 * the place is under way.
 *
 * A graph has one place for each device that its capture allocated on: the place that it was
 * captured into, which several graphs may share, and private ones beside it.
 *
 * All of this is done under the graph lock.
 */
#ifndef TNRI_GRAPH_PLACE_H
#define TNRI_GRAPH_PLACE_H

#include <tenure/capture.h>

#include "base/prim/thread.h"
#include "graph/order.h"
#include "memory/pool/pool.h"
#include "order/hold.h"

struct tnri_capture;
struct tnri_place;

/* A range of addresses. */
typedef struct tnri_range {
    uintptr_t base, end;
} tnri_range;

/* A use that ends with the free. */
typedef struct tnri_open_use {
    tnr_stream stream;
    uint64_t turns; /* of its view when the use was recorded */
} tnri_open_use;

/* What captures know of a block of a graph pool. The block's uses are part of this record, so that
 * a block has one record besides its own. While the block is handed out, the record is in its
 * capture's list of live blocks. A piece's record is in a list of its place, by size. After the
 * capture it is in no list. */
typedef struct tnri_captured {
    tnri_uses uses; /* uses.captured leads back here; lifetime's rules */
    struct tnri_captured *next, *prev;
    struct tnri_place *place;
    struct tnri_capture *capture; /* the one under way that handed it out or freed it; else null */
    tnr_graph graph;              /* the graph that it was handed out for */
    tnr_stream home;              /* the stream that it was handed out on */
    uintptr_t home_key;           /* tnri_stream_key(home), of the thread that was given it */
    uint64_t home_turns;          /* of the home's view when it was handed out */
    int32_t *nodes;               /* uses that end at a node */
    size_t nodes_count, nodes_room;
    tnri_open_use *open;
    size_t open_count, open_room;
    uint64_t views; /* a piece: bit v says that view v comes after all nodes */
    int is_kept;    /* handed out: its uses cannot all be told by nodes */
    int is_piece;
} tnri_captured;

enum { TNRI_PIECE_CLASSES = 128 };

typedef struct tnri_place {
    tnr_pool pool;
    tnri_arena *arena;
    struct tnri_place *next;   /* of all */
    struct tnri_place *beside; /* the next of those that its graph has beside its first */
    int is_private;            /* made for one graph: ends with it */
    size_t captures_count;     /* under way */
    size_t graphs_count;       /* alive, those under construction among them */
    size_t visitors_count;     /* threads that launch */
    tnri_captured *kept;       /* freed, and held until no capture is under way; by `next` */
    tnri_captured *spares;     /* records, through `next` */
    size_t spares_count;
    tnri_captured *pieces[TNRI_WORLDS][TNRI_PIECE_CLASSES];
    size_t pieces_count;
    tnri_mutex launching;       /* one launch at a time; taken without the graph lock */
    tnri_stream *launch_stream; /* of the latest launch, with a reference; null: none yet */
    tnri_event *launch_mark;    /* the end of that launch, recorded because its stream is captured;
                                 * else null */
} tnri_place;

/* Makes a place with its pool. */
tnr_status tnri_place_make(tnri_device *device, const tnr_pool_options *options, int is_private,
                           tnri_place **place);
/* Its pool has ended. */
void tnri_place_free(tnri_place *place);
/* A stream is about to be captured, and `event` marks the end of its work before. */
void tnri_places_note_mark(const tnri_stream *stream, tnri_event *event);
/* All places; null is the end. */
tnri_place *tnri_place_walk(const tnri_place *place);

/* Frees a record that nothing knows of. */
void tnri_captured_destroy(tnri_captured *captured);

#endif
