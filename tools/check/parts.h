/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a graph whose nodes record events, or wait for events.
 *
 * Such a graph is not one piece of work. An event that a node records stands for what comes before
 * the node in the graph, and a node that waits for one holds up what comes after it. So nodes are
 * of one part if they come after the same waits and before the same records. Each part does its
 * share of a launch as a stream of its own would (check_stream_part): after what the launch comes
 * after, and after the events of its waits. The launch's stream comes after all parts.
 *
 * Where the order of the nodes is not known there are no parts: then a wait is one for the launch's
 * beginning, and a record one of its end. That is more order than there is.
 */
#ifndef TENURE_PRELOAD_CHECK_PARTS_H
#define TENURE_PRELOAD_CHECK_PARTS_H

#include "check/streams.h"

/* A node that records an event or waits for one; its place in the list is its bit. */
typedef struct check_node_event {
    CUgraphNode node;
    CUevent event;
    int is_wait;
} check_node_event;

typedef struct check_part {
    uint64_t waits, records; /* that come before it; that come after it */
    check_stream *stream;
} check_part;

typedef struct check_part_of {
    CUgraphNode node;
    size_t part;
} check_part_of;

/* All zero: of a graph that has no such nodes. */
typedef struct check_parts {
    check_node_event *events;
    check_part *list;     /* null: none */
    check_part_of *nodes; /* by address: the part of each node */
    size_t events_count, events_room, count, nodes_count;
} check_parts;

/* The nodes of a graph, to be freed by the caller. Null: there are none, which has a count of 0, or
 * they could not be read. */
CUgraphNode *check_graph_nodes(CUgraph graph, size_t *count);

/* The first: a node records the event or waits for it. 0: no memory. The second: it is another
 * event from now on. */
int check_parts_event(check_parts *self, CUgraphNode node, CUevent event, int is_wait);
void check_parts_event_set(check_parts *self, CUgraphNode node, CUevent event);

/* Reads the order of the nodes, once all events are there. Before check_enter. */
void check_parts_read(check_parts *self, CUgraph graph);

/* The rest is called between check_enter and check_leave. The parts' streams are there from the
 * first one on, if there are parts. */
void check_parts_make(check_parts *self);
void check_parts_end(check_parts *self);

/* The part of a node. Null: there are none. */
const check_part *check_parts_find(const check_parts *self, CUgraphNode node);

/* Around a launch on a stream. The first: the stream has taken over what the launch waits for, and
 * is given its number next. The second: it has been given that, and events are recorded. */
void check_parts_begin(const check_parts *self, check_stream *stream);
void check_parts_record(const check_parts *self, const check_stream *stream);

#endif
