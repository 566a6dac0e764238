/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: what their files share, and what captures make graphs with.
 *
 * A graph is a list of nodes in the order in which they were added. A node holds one operation, as
 * a queue does, or a child graph. An executable graph is a copy of a graph and a plan: the copy's
 * nodes, children's included, in paths along its edges. A launch queues the first path into the
 * stream launched in, and each other path as a stream of its own. Event waits connect the paths. So
 * to the schedule and to the race detector a launch is operations in streams like any other, and
 * neither knows of graphs.
 *
 * Everything here is called with the lock held, which guards all that is declared here.
 */
#ifndef TENURE_SIM_GRAPH_H
#define TENURE_SIM_GRAPH_H

#include "sim.h"

struct sim_graph;
struct sim_node;

/* ---- objects -------------------------------------------------------------------------------- */

/* Nodes at the other ends of edges, and the edges' data, in the order in which they were made. */
struct sim_edges {
    struct sim_node **node;
    CUgraphEdgeData *data;
    size_t count;
    size_t room;
};

/* Memory that a copy or a set is about, as it was when the node was given it. */
struct sim_operand {
    int kind;            /* 0: memory that the simulation does not know; else sim_region_kind + 1 */
    int device;          /* ordinal; of a mapping: of the memory mapped */
    uint64_t context_id; /* in which it was allocated, or 0 */
};

struct sim_node {
    struct sim_slot *slot; /* null in an executable graph's copy */
    struct sim_graph *graph;
    struct sim_node *previous; /* in the graph's list */
    struct sim_node *next;
    struct sim_context *context;   /* where it runs; null: where the graph is launched */
    struct sim_op op;              /* what it does; never queued itself, copies of it are */
    struct sim_operand operand[2]; /* of a copy: where to and where from; of a set: where to */
    struct sim_graph *child;       /* owned; the operation is then SIM_OP_EMPTY */
    struct sim_edges before;       /* the nodes that it depends on */
    struct sim_edges after;        /* those that depend on it */
    uint64_t id;                   /* never used twice */
    uint64_t origin;               /* of the node that it was copied from, or 0 */
    uint64_t mark;                 /* sim_graph_mark, of the latest walk that saw it */
    size_t number;                 /* in the list, as the latest sim_graph_number counted */
    size_t first_step;             /* in an executable graph's copy: of the plan */
    size_t last_step;              /* the same but for a child graph, and a kernel with ports */
    int is_disabled;               /* in an executable graph's copy: does nothing */
};

/* Operations that only nodes have: SIM_OP_WAIT_EVENT, with the event in op.record.event. */

/* Another's references to a user object. */
struct sim_user_object;
struct sim_hold {
    struct sim_user_object *object;
    uint64_t count;
};

struct sim_graph {
    struct sim_slot *slot;   /* null in an executable graph's copy */
    struct sim_node *parent; /* of a child graph: the node whose it is */
    struct sim_node *first;
    struct sim_node *last;
    size_t node_count;
    struct sim_hold *hold; /* references to user objects */
    size_t hold_count;
    size_t hold_room;
    uint64_t id;
    uint64_t origin; /* id of the graph it was cloned from, or 0 */
};

/* ---- graphs (graph.c) ----------------------------------------------------------------------- */

struct sim_graph *sim_graph_new(void);        /* with a handle; null when memory is short */
void sim_graph_free(struct sim_graph *graph); /* and its nodes, and what they hold */
struct sim_graph *sim_graph_get(CUgraph handle, const char *what);
CUgraph sim_graph_handle(const struct sim_graph *graph);
struct sim_graph *sim_graph_copy(const struct sim_graph *graph, int handles);
uint64_t sim_graph_mark(void);                        /* a new mark, that no node bears */
uint64_t sim_graph_count(void);                       /* alive, without children */
void sim_graph_number(const struct sim_graph *graph); /* sets every node's number, from 0 */

/* ---- nodes (graph_node.c) ------------------------------------------------------------------- */

/* Adds a node that does what the operation says. Takes over what the operation owns, also when it
 * fails. Dependencies are nodes of the graph; one that is given twice counts once. The context is
 * where the node will run; null for nodes that need none (empty, host). */
CUresult sim_node_add(struct sim_graph *graph, struct sim_context *context, const struct sim_op *op,
                      const struct sim_nodes *dependencies, struct sim_node **node);

/* Adds a node that runs a copy of another graph. */
CUresult sim_node_add_child(struct sim_graph *graph, const struct sim_graph *child,
                            const struct sim_nodes *dependencies, struct sim_node **node);
struct sim_node *sim_node_get(CUgraphNode handle, const char *what);
CUgraphNode sim_node_handle(const struct sim_node *node);
void sim_node_free(struct sim_node *node); /* takes it, and its edges, out of its graph */
CUgraphNodeType sim_node_type(const struct sim_node *node);

/* An edge. Adding one that exists, or removing one that does not, is an error. Data may be null:
 * that of a plain edge. */
int sim_edge_link(struct sim_node *from, struct sim_node *to,
                  const CUgraphEdgeData *data); /* known not to be there, and right */
CUresult sim_edge_add(struct sim_node *from, struct sim_node *to, const CUgraphEdgeData *data);
CUresult sim_edge_remove(struct sim_node *from, struct sim_node *to, const CUgraphEdgeData *data);
/* Whether there can be such edges, from the ports of any nodes. */
CUresult sim_edge_data_check(const CUgraphEdgeData *data, size_t count);
/* Whether all of them are plain: what comes after waits for the end of what comes before. */
int sim_edges_plain(const CUgraphEdgeData *data, size_t count);

/* A node that does the same in another graph, without edges; null when memory is short. */
struct sim_node *sim_node_copy(const struct sim_node *node, struct sim_graph *graph);

/* ---- what nodes are asked to do (graph_params.c) -------------------------------------------- */

/* An operation with its context, as a call's parameters describe them. */
struct sim_work {
    struct sim_op op;
    struct sim_context *context;
};

CUresult sim_params_upgrade(const CUDA_KERNEL_NODE_PARAMS_v1 *old,
                            CUDA_KERNEL_NODE_PARAMS_v2 *params);
CUresult sim_work_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct sim_work *work);
CUresult sim_work_memcpy(const CUDA_MEMCPY3D *params, CUcontext context, struct sim_work *work);
CUresult sim_work_memset(const CUDA_MEMSET_NODE_PARAMS_v2 *params, struct sim_work *work);
CUresult sim_work_host(const CUDA_HOST_NODE_PARAMS *params, struct sim_work *work);
CUresult sim_work_event(CUevent event, enum sim_op_kind kind, struct sim_work *work);
CUresult sim_work_any(const CUgraphNodeParams *params, struct sim_work *work);
CUresult sim_work_change(struct sim_node *node, struct sim_work *work); /* takes over the work */

/* ---- changes of executable graphs (graph_update.c) ------------------------------------------ */

void sim_operands_find(const struct sim_op *op, struct sim_operand operand[2]);

/* ---- plans (graph_plan.c) ------------------------------------------------------------------- */

/* One operation of a launch. Child graphs begin and end with a step without a node. */
struct sim_step {
    struct sim_node *node;
    uint32_t number; /* of the node, from 1: in its graph, in the order in which it was added */
    uint32_t path;
    uint32_t position; /* in the path, from 1 */
    uint32_t before;   /* how many steps it depends on */
    uint32_t after;    /* how many depend on it */
    uint32_t waits;
    size_t first_wait; /* steps of other paths to wait for: plan->wait[first_wait ...] */
    int is_marked;     /* others wait for it */
};

/* A way through the graph along its edges: its steps are ordered as in a stream. */
struct sim_path {
    struct sim_context *context; /* null: any will do */
    size_t room;                 /* operations that a launch queues in it, at most */
    size_t tail;                 /* its last step */
    uint32_t length;
};

struct sim_plan {
    struct sim_step *step;
    size_t step_count;
    struct sim_path *path;
    size_t path_count;
    size_t path_room;
    uint32_t *order; /* steps, each after those that it depends on */
    uint32_t *wait;
    size_t wait_count;
    size_t end_count; /* steps that nothing comes after */
};

CUresult sim_plan_make(struct sim_graph *graph, struct sim_plan *plan); /* graph: a private copy */
void sim_plan_free(struct sim_plan *plan);

/* ---- executable graphs (graph_launch.c, graph_update.c) ------------------------------------- */

struct sim_exec {
    struct sim_slot *slot; /* null once destroyed */
    struct sim_graph *graph;
    struct sim_plan plan;
    struct sim_stream **lane; /* by path: a stream of its own, made when first needed */
    struct sim_point last;    /* where the latest launch ends; held */
    uint64_t references;      /* the handle's, and one for each launch that has not ended */
    uint64_t flags;
    struct sim_device *uploaded; /* where it takes memory: from its first launch on */
    struct sim_graph **stale;    /* what an update replaced while launches had not ended */
    size_t stale_count;
    size_t stale_room;
    struct sim_op *op;       /* by step, during a launch: what is to be queued */
    struct sim_point *point; /* by step, the same: what others wait for, if it is marked */
};

struct sim_exec *sim_exec_get(CUgraphExec handle);
void sim_exec_drop(struct sim_exec *exec);
void sim_exec_release(const struct sim_exec *exec, struct sim_graph *graph);
void sim_graph_reset(void);

/* ---- user objects (user_object.c) ----------------------------------------------------------- */

struct sim_user_object *sim_user_object_get(CUuserObject handle);
int sim_holds_copy(const struct sim_graph *from, struct sim_graph *to);
void sim_holds_drop(struct sim_graph *graph);
/* A launch of the graph, or the last of several, has this end. */
void sim_holds_ended(const struct sim_graph *graph, struct sim_point end);
int sim_user_object_run(void); /* runs one destructor that is due; gives up the lock meanwhile */
void sim_user_object_reset(void);

#endif
