/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order inside a capture: which nodes come before the next work of a stream.
 *
 * A graph under construction only grows. The next node of a stream depends on the stream's
 * *frontier*: the set of nodes that cuStreamGetCaptureInfo tells. So a use is over for a stream if
 * all of its nodes are in the frontier or are ancestors of it. A *view* remembers, for one stream,
 * which nodes were found to be so. When a view moves on, it walks back from the new frontier and
 * stops at nodes that it knows, so that each stream visits each node once. The driver is asked for
 * the edges of each node once, whatever the number of streams.
 *
 * A kernel that was launched to begin early (programmatic dependent launch) comes after another by
 * an edge from the other's programmatic port. Then the other has *begun*, but may not be over. So
 * whatever it comes after by full edges is over; nothing is known of the other itself. But such an
 * edge does not take away what a stream knew. What the stream's own frontier once was comes before
 * the later work of the stream, as it does outside of captures: a kernel that begins early sees to
 * its own order, and those after it come after all that the stream was given. (The manual of PTX
 * demands it, at griddepcontrol: where a kernel lets the next begin early, that one must wait for
 * it, so it is not over before the other is.) Edges from other ports order nothing here.
 *
 * A program may also drop nodes from a frontier (cuStreamUpdateCaptureDependencies). The walk
 * notices this because it does not meet the old frontier on its way. The view then begins again. It
 * counts such *turns*: what was known of a stream before a turn does not hold after it.
 *
 * Owned by a capture; under the graph lock.
 */
#ifndef TNRI_GRAPH_ORDER_H
#define TNRI_GRAPH_ORDER_H

#include "gpu/backend.h"

enum {
    TNRI_VIEWS_MAX = 64, /* streams of one capture that are told apart */
    TNRI_NODE_NONE = -1
};

/* An entry of a list of edges or of a frontier is a node's number; for a node that has begun, and
 * may not be over, it is -2 less the number. */
static inline int32_t tnri_entry_begun(int32_t node)
{
    return -2 - node;
}

static inline int32_t tnri_entry_node(int32_t entry)
{
    return entry < TNRI_NODE_NONE ? -2 - entry : entry;
}

typedef struct tnri_order_node {
    CUgraphNode handle;
    uint32_t edges_first; /* in tnri_order.edges */
    uint32_t edges_count;
    int is_known; /* 1: its edges have been asked for */
} tnri_order_node;

typedef struct tnri_view {
    uintptr_t key;     /* of the stream: tnri_stream_key */
    int32_t *frontier; /* entries */
    size_t frontier_count, frontier_room;
    uint64_t *seen; /* two bits for each node: it comes before; the walk has passed it */
    size_t seen_words;
    uint64_t turns; /* how often the stream was found to have lost nodes that it came after */
} tnri_view;

typedef struct tnri_order {
    tnri_order_node *nodes;
    size_t nodes_count, nodes_room;
    int32_t *slots; /* hash of handles: the node's number, or TNRI_NODE_NONE */
    size_t slots_count;
    int32_t *edges; /* entries of the nodes that a node depends on */
    size_t edges_count, edges_room;
    int32_t *stack; /* of a walk */
    size_t stack_room;
    tnri_view views[TNRI_VIEWS_MAX];
    size_t views_count;
} tnri_order;

void tnri_order_free(tnri_order *order);

/* What moving a view on found. */
typedef enum tnri_moved {
    TNRI_MOVED_NOT,  /* the frontier is what it was */
    TNRI_MOVED_ON,   /* nodes have been added to what the view has seen */
    TNRI_MOVED_ANEW, /* nodes have been taken away too */
    TNRI_MOVED_ERROR /* *status says why, and the view has seen nothing */
} tnri_moved;

/* The number of the view of the stream with a key; makes the view if there is none. -1: there are
 * too many. */
int tnri_order_view(tnri_order *order, uintptr_t key);

/* Moves a view to a frontier, as cuStreamGetCaptureInfo tells it; `edges` may be null. */
tnri_moved tnri_order_move(tnri_order *order, int view, const CUgraphNode *frontier,
                           const CUgraphEdgeData *edges, size_t count, tnr_status *status);

/* 1 if the node comes before the next work of the view's stream. */
static inline int tnri_order_seen(const tnri_order *order, int view, int32_t node)
{
    const tnri_view *of = &order->views[view];
    size_t word = (size_t)node >> 5;
    return word < of->seen_words && (of->seen[word] >> (node & 31) * 2 & 1);
}

#endif
