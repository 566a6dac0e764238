/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: what their files share, and what captures make graphs with.
 *
 * A graph is a list of nodes in the order in which they were added. A node holds one operation, as
 * a queue does, or a child graph. An executable graph is a copy of a graph and a plan: the copy's
 * nodes, children's included, in paths along its edges. A launch queues each path as a stream of
 * its own, but for the first, which goes into the stream launched in; what is between the paths is
 * event waits. So a launch is operations in streams like any other, to the schedule and to the race
 * detector, and nothing of either knows of graphs.
 *
 * Everything here is called with the lock held, which guards all that is declared here.
 */
#ifndef TENURE_SIM_GRAPH_H
#define TENURE_SIM_GRAPH_H

#include "sim.h"

struct sim_graph;
struct sim_node;

/* ---- Objects -------------------------------------------------------------------------------- */

/* Nodes at the other ends of edges, in the order in which the edges were made. */
struct sim_edges {
    struct sim_node **node;
    size_t count;
    size_t room;
};

struct sim_node {
    struct sim_slot *slot; /* null in an executable graph's copy */
    struct sim_graph *graph;
    struct sim_node *previous; /* in the graph's list */
    struct sim_node *next;
    struct sim_context *context; /* where it runs; null: where the graph is launched */
    struct sim_op op;            /* what it does; never queued itself, copies of it are */
    struct sim_graph *child;     /* owned; the operation is then SIM_OP_EMPTY */
    struct sim_edges before;     /* the nodes that it depends on */
    struct sim_edges after;      /* those that depend on it */
    uint64_t id;                 /* never used twice */
    uint64_t origin;             /* of the node that it was copied from, or 0 */
    uint64_t mark;               /* sim_graph_mark, of the latest walk that saw it */
    size_t number;               /* in the list, as the latest sim_graph_number counted */
};

/* Operations that only nodes have: SIM_OP_WAIT_EVENT, with the event in op.record.event. */

/* Another's references to a user object. */
struct sim_user_object;
struct sim_hold {
    struct sim_user_object *object;
    uint64_t count;
};

struct sim_graph {
    struct sim_slot *slot;    /* null in an executable graph's copy */
    struct sim_node *parent;  /* of a child graph: the node whose it is */
    struct sim_node *first;
    struct sim_node *last;
    size_t node_count;
    struct sim_hold *hold; /* references to user objects */
    size_t hold_count;
    size_t hold_room;
    uint64_t id;
    uint64_t origin; /* id of the graph it was cloned from, or 0 */
};

/* ---- Graphs (graph.c) ----------------------------------------------------------------------- */

struct sim_graph *sim_graph_new(void);          /* with a handle; null when memory is short */
void sim_graph_free(struct sim_graph *graph);   /* and its nodes, and what they hold */
struct sim_graph *sim_graph_get(CUgraph handle, const char *what);
CUgraph sim_graph_handle(const struct sim_graph *graph);
struct sim_graph *sim_graph_copy(const struct sim_graph *graph, bool handles);
uint64_t sim_graph_mark(void); /* a new mark, that no node bears */
void sim_graph_number(const struct sim_graph *graph); /* sets every node's number, from 0 */

/* ---- Nodes (graph_node.c) ------------------------------------------------------------------- */

/*
 * Adds a node that does what the operation says. It takes over what the operation owns, also when
 * it fails. Dependencies are nodes of the graph; those given twice count once. The context is where
 * the node will run; null for nodes that do not care (empty, host).
 */
CUresult sim_node_add(struct sim_graph *graph, struct sim_context *context, const struct sim_op *op,
                      struct sim_node *const *dependencies, size_t count, struct sim_node **node);

/* Adds a node that runs a copy of another graph. */
CUresult sim_node_add_child(struct sim_graph *graph, const struct sim_graph *child,
                            struct sim_node *const *dependencies, size_t count,
                            struct sim_node **node);
struct sim_node *sim_node_get(CUgraphNode handle, const char *what);
CUgraphNode sim_node_handle(const struct sim_node *node);
void sim_node_free(struct sim_node *node); /* takes it, and its edges, out of its graph */
CUgraphNodeType sim_node_type(const struct sim_node *node);

/* An edge; adding one that is there, or taking away one that is not, is an error. */
CUresult sim_edge_add(struct sim_node *from, struct sim_node *to);
CUresult sim_edge_remove(struct sim_node *from, struct sim_node *to);

/* ---- Executable graphs (graph_launch.c) ----------------------------------------------------- */

struct sim_exec;
struct sim_exec *sim_exec_get(CUgraphExec handle);
const struct sim_graph *sim_exec_graph(const struct sim_exec *exec); /* what it runs */
void sim_exec_free(struct sim_exec *exec); /* the handle's reference; launches hold others */
void sim_exec_drop(struct sim_exec *exec); /* a launch has ended */

/* ---- User objects (user_object.c) ----------------------------------------------------------- */

struct sim_user_object *sim_user_object_get(CUuserObject handle);
bool sim_holds_copy(const struct sim_graph *from, struct sim_graph *to);
void sim_holds_drop(struct sim_graph *graph);
bool sim_user_object_run(void); /* runs one destructor that is due; gives up the lock meanwhile */
void sim_user_object_reset(void);

#endif
