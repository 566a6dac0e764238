/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of graphs and the edges between them, and the calls that add, change and remove nodes.
 *
 * graph_params.c makes an operation of what a node is asked to do. Here the operation becomes a
 * node, or replaces the operation that a node had.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

/* ---- edges ---------------------------------------------------------------------------------- */

static const CUgraphEdgeData plain;

static int edges_room(struct sim_edges *edges)
{
    if (edges->count < edges->room)
        return 1;
    size_t room = edges->room == 0 ? 4 : edges->room * 2;
    struct sim_node **nodes = realloc(edges->node, room * sizeof(struct sim_node *));
    edges->node = nodes == NULL ? edges->node : nodes;
    CUgraphEdgeData *data = realloc(edges->data, room * sizeof(*data));
    edges->data = data == NULL ? edges->data : data;
    if (nodes == NULL || data == NULL)
        return 0;
    edges->room = room;
    return 1;
}

static void edges_append(struct sim_edges *edges, struct sim_node *node,
                         const CUgraphEdgeData *data)
{
    edges->node[edges->count] = node;
    edges->data[edges->count++] = data == NULL ? plain : *data;
}

int sim_edge_link(struct sim_node *from, struct sim_node *to, const CUgraphEdgeData *data)
{
    if (!edges_room(&from->after) || !edges_room(&to->before))
        return 0;
    edges_append(&from->after, to, data);
    edges_append(&to->before, from, data);
    return 1;
}

/* The index of a node among edges, or their count. */
static size_t edges_find(const struct sim_edges *edges, const struct sim_node *node)
{
    size_t i = 0;
    while (i < edges->count && edges->node[i] != node)
        i++;
    return i;
}

static void edges_remove(struct sim_edges *edges, size_t at)
{
    edges->count--;
    memmove(&edges->node[at], &edges->node[at + 1],
            (edges->count - at) * sizeof(struct sim_node *));
    memmove(&edges->data[at], &edges->data[at + 1], (edges->count - at) * sizeof(CUgraphEdgeData));
}

static int edge_there(const struct sim_node *from, const struct sim_node *to)
{
    return from->after.count < to->before.count ? edges_find(&from->after, to) != from->after.count
                                                : edges_find(&to->before, from) != to->before.count;
}

static int is_kernel(const struct sim_node *node)
{
    return node->op.kind == SIM_OP_KERNEL;
}

/* Kernels alone have ports, and programmatic edges lead from one to another. */
static int edge_fits(const struct sim_node *from, const struct sim_node *to,
                     const CUgraphEdgeData *data)
{
    return (data->from_port == 0 || is_kernel(from)) &&
           (data->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT || is_kernel(to));
}

CUresult sim_edge_add(struct sim_node *from, struct sim_node *to, const CUgraphEdgeData *data)
{
    if (edge_there(from, to) || (data != NULL && !edge_fits(from, to, data)))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_edge_link(from, to, data) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_edge_remove(struct sim_node *from, struct sim_node *to, const CUgraphEdgeData *data)
{
    size_t at = edges_find(&from->after, to);
    if (at == from->after.count ||
        memcmp(&from->after.data[at], data == NULL ? &plain : data, sizeof(plain)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    edges_remove(&from->after, at);
    edges_remove(&to->before, edges_find(&to->before, from));
    return CUDA_SUCCESS;
}

int sim_edges_plain(const CUgraphEdgeData *data, size_t count)
{
    for (size_t i = 0; data != NULL && i < count; i++)
        if (memcmp(&data[i], &plain, sizeof(plain)) != 0)
            return 0;
    return 1;
}

static int edge_valid(const CUgraphEdgeData *data)
{
    return data->to_port == 0 && data->from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER &&
           data->type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
           (data->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT || data->from_port != 0) &&
           memcmp(data->reserved, plain.reserved, sizeof(plain.reserved)) == 0;
}

CUresult sim_edge_data_check(const CUgraphEdgeData *data, size_t count)
{
    for (size_t i = 0; data != NULL && i < count; i++)
        if (!edge_valid(&data[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Appends a node that does nothing yet; with a handle if its graph has one. */
static struct sim_node *node_new(struct sim_graph *graph)
{
    struct sim_node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    if (graph->slot != NULL) {
        node->slot = sim_slot_new(SIM_NODE, node);
        if (node->slot == NULL) {
            free(node);
            return NULL;
        }
    }
    node->id = ++sim.graph_id;
    node->op.kind = SIM_OP_EMPTY;
    node->graph = graph;
    node->previous = graph->last;
    if (graph->last != NULL)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    graph->node_count++;
    return node;
}

void sim_node_free(struct sim_node *node)
{
    struct sim_graph *graph = node->graph;
    for (size_t i = node->before.count; i-- > 0;) {
        struct sim_edges *after = &node->before.node[i]->after;
        edges_remove(after, edges_find(after, node));
    }
    for (size_t i = node->after.count; i-- > 0;) {
        struct sim_edges *before = &node->after.node[i]->before;
        edges_remove(before, edges_find(before, node));
    }
    *(node->previous != NULL ? &node->previous->next : &graph->first) = node->next;
    *(node->next != NULL ? &node->next->previous : &graph->last) = node->previous;
    graph->node_count--;
    if (node->child != NULL)
        sim_graph_free(node->child);
    sim_op_dispose(&node->op);
    if (node->slot != NULL)
        sim_slot_free(node->slot);
    free(node->before.node);
    free(node->before.data);
    free(node->after.node);
    free(node->after.data);
    free(node);
}

struct sim_node *sim_node_copy(const struct sim_node *node, struct sim_graph *graph)
{
    struct sim_op op;
    if (!sim_op_copy(&node->op, &op))
        return NULL;
    struct sim_node *copy = node_new(graph);
    if (copy == NULL) {
        sim_op_dispose(&op);
        return NULL;
    }
    copy->op = op;
    memcpy(copy->operand, node->operand, sizeof(copy->operand));
    copy->context = node->context;
    copy->origin = node->id;
    if (node->child != NULL) {
        copy->child = sim_graph_copy(node->child, graph->slot != NULL);
        if (copy->child == NULL) {
            sim_node_free(copy);
            return NULL;
        }
        copy->child->parent = copy;
    }
    return copy;
}

struct sim_node *sim_node_get(CUgraphNode handle, const char *what)
{
    return sim_slot_get(handle, SIM_NODE, what);
}

CUgraphNode sim_node_handle(const struct sim_node *node)
{
    return (CUgraphNode)node->slot;
}

CUgraphNodeType sim_node_type(const struct sim_node *node)
{
    switch (node->op.kind) {
    case SIM_OP_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case SIM_OP_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case SIM_OP_SET:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case SIM_OP_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case SIM_OP_RECORD:
        return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case SIM_OP_WAIT_EVENT:
        return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case SIM_OP_WAIT_VALUE:
    case SIM_OP_WRITE_VALUE:
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    default:
        return node->child != NULL ? CU_GRAPH_NODE_TYPE_GRAPH : CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

/* ---- adding --------------------------------------------------------------------------------- */

CUresult sim_node_add(struct sim_graph *graph, struct sim_context *context, const struct sim_op *op,
                      const struct sim_nodes *dependencies, struct sim_node **node)
{
    struct sim_node *added = node_new(graph);
    if (added == NULL) {
        struct sim_op refused = *op;
        sim_op_dispose(&refused);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    added->op = *op;
    added->context = context;
    sim_operands_find(&added->op, added->operand);
    uint64_t mark = sim_graph_mark();
    for (size_t i = 0; i < dependencies->count; i++) {
        struct sim_node *from = dependencies->node[i];
        const CUgraphEdgeData *data = dependencies->edge == NULL ? &plain : &dependencies->edge[i];
        if (from->mark == mark)
            continue;
        from->mark = mark;
        int fits = edge_fits(from, added, data);
        if (!fits || !sim_edge_link(from, added, data)) {
            sim_node_free(added);
            return fits ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
        }
    }
    *node = added;
    return CUDA_SUCCESS;
}

CUresult sim_node_add_child(struct sim_graph *graph, const struct sim_graph *child,
                            const struct sim_nodes *dependencies, struct sim_node **node)
{
    const struct sim_op nothing = {.kind = SIM_OP_EMPTY};
    struct sim_graph *copy = sim_graph_copy(child, graph->slot != NULL);
    if (copy == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sim_node_add(graph, NULL, &nothing, dependencies, node);
    if (result != CUDA_SUCCESS) {
        sim_graph_free(copy);
        return result;
    }
    (*node)->child = copy;
    copy->parent = *node;
    return CUDA_SUCCESS;
}

/* Where a call wants its node: handles, and what they stand for once looked up. */
struct place {
    CUgraphNode *out;
    CUgraph graph_handle;
    const CUgraphNode *dependencies;
    const CUgraphEdgeData *data;
    size_t count;
    struct sim_graph *graph;
    struct sim_nodes nodes; /* owns its nodes, not their edges */
};

/* Looks the dependencies up: nodes of the graph, none twice. */
static CUresult place_find(struct place *place)
{
    place->nodes = (struct sim_nodes){0};
    place->graph = sim_graph_get(place->graph_handle, "graph");
    if (place->graph == NULL || place->out == NULL ||
        (place->dependencies == NULL && place->count != 0))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_edge_data_check(place->data, place->count);
    if (result != CUDA_SUCCESS || place->count == 0)
        return result;
    place->nodes.node = calloc(place->count, sizeof(struct sim_node *));
    if (place->nodes.node == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    place->nodes.edge = (CUgraphEdgeData *)place->data; /* is only read */
    uint64_t mark = sim_graph_mark();
    for (size_t i = 0; i < place->count; i++) {
        struct sim_node *node = sim_node_get(place->dependencies[i], "node");
        if (node == NULL || node->graph != place->graph || node->mark == mark)
            return CUDA_ERROR_INVALID_VALUE;
        node->mark = mark;
        place->nodes.node[place->nodes.count++] = node;
    }
    return CUDA_SUCCESS;
}

/* Adds the work, whose making gave made; it is taken over. */
static CUresult place_work(struct place *place, CUresult made, struct sim_work *work)
{
    struct sim_node *node = NULL;
    if (made != CUDA_SUCCESS)
        return made;
    CUresult result = place_find(place);
    if (result == CUDA_SUCCESS)
        result = sim_node_add(place->graph, work->context, &work->op, &place->nodes, &node);
    else
        sim_op_dispose(&work->op);
    free(place->nodes.node);
    if (result == CUDA_SUCCESS)
        *place->out = sim_node_handle(node);
    return result;
}

static CUresult place_child(struct place *place, CUgraph child_handle)
{
    struct sim_node *node = NULL;
    const struct sim_graph *child = sim_graph_get(child_handle, "graph");
    CUresult result = place_find(place);
    if (result == CUDA_SUCCESS && (child == NULL || child == place->graph))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = sim_node_add_child(place->graph, child, &place->nodes, &node);
    free(place->nodes.node);
    if (result == CUDA_SUCCESS)
        *place->out = sim_node_handle(node);
    return result;
}

static CUresult place_any(struct place *place, const CUgraphNodeParams *params)
{
    struct sim_work work;
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE
                   ? place_child(place, params->graph.graph)
                   : CUDA_ERROR_NOT_SUPPORTED;
    return place_work(place, sim_work_any(params, &work), &work);
}

/* ---- calls that add ------------------------------------------------------------------------- */

#define PLACE_DATA(edge_data)                                                                      \
    struct place place = {.out = phGraphNode,                                                      \
                          .graph_handle = hGraph,                                                  \
                          .dependencies = dependencies,                                            \
                          .data = (edge_data),                                                     \
                          .count = numDependencies}
#define PLACE PLACE_DATA(NULL)

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                      const CUgraphNode *dependencies, size_t numDependencies,
                                      const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    SIM_ENTER(cuGraphAddKernelNode, SIM_NEEDS_INIT);
    PLACE;
    struct sim_work work;
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUresult made = sim_params_upgrade(nodeParams, &params);
    made = made == CUDA_SUCCESS ? sim_work_kernel(&params, &work) : made;
    return sim_leave(place_work(&place, made, &work));
}

CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                         const CUgraphNode *dependencies, size_t numDependencies,
                                         const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    SIM_ENTER(cuGraphAddKernelNode_v2, SIM_NEEDS_INIT);
    PLACE;
    struct sim_work work;
    return sim_leave(place_work(&place, sim_work_kernel(nodeParams, &work), &work));
}

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                      const CUgraphNode *dependencies, size_t numDependencies,
                                      const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    SIM_ENTER(cuGraphAddMemcpyNode, SIM_NEEDS_INIT);
    PLACE;
    struct sim_work work;
    return sim_leave(place_work(&place, sim_work_memcpy(copyParams, ctx, &work), &work));
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                      const CUgraphNode *dependencies, size_t numDependencies,
                                      const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    SIM_ENTER(cuGraphAddMemsetNode, SIM_NEEDS_INIT);
    PLACE;
    struct sim_work work;
    CUresult made = CUDA_ERROR_INVALID_VALUE;
    if (memsetParams != NULL) {
        const CUDA_MEMSET_NODE_PARAMS *ask = memsetParams;
        made = sim_work_memset(&(CUDA_MEMSET_NODE_PARAMS_v2){ask->dst, ask->pitch, ask->value,
                                                             ask->elementSize, ask->width,
                                                             ask->height, ctx},
                               &work);
    }
    return sim_leave(place_work(&place, made, &work));
}

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                    const CUgraphNode *dependencies, size_t numDependencies,
                                    const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphAddHostNode, SIM_NEEDS_INIT);
    PLACE;
    struct sim_work work;
    return sim_leave(place_work(&place, sim_work_host(nodeParams, &work), &work));
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                     const CUgraphNode *dependencies, size_t numDependencies)
{
    SIM_ENTER(cuGraphAddEmptyNode, SIM_NEEDS_INIT);
    PLACE;
    struct sim_work work = {.op = {.kind = SIM_OP_EMPTY}, .context = NULL};
    return sim_leave(place_work(&place, CUDA_SUCCESS, &work));
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                           const CUgraphNode *dependencies, size_t numDependencies,
                                           CUevent event)
{
    SIM_ENTER(cuGraphAddEventRecordNode, SIM_NEEDS_INIT);
    PLACE;
    struct sim_work work;
    return sim_leave(place_work(&place, sim_work_event(event, SIM_OP_RECORD, &work), &work));
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                         const CUgraphNode *dependencies, size_t numDependencies,
                                         CUevent event)
{
    SIM_ENTER(cuGraphAddEventWaitNode, SIM_NEEDS_INIT);
    PLACE;
    struct sim_work work;
    return sim_leave(place_work(&place, sim_work_event(event, SIM_OP_WAIT_EVENT, &work), &work));
}

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                          const CUgraphNode *dependencies, size_t numDependencies,
                                          CUgraph childGraph)
{
    SIM_ENTER(cuGraphAddChildGraphNode, SIM_NEEDS_INIT);
    PLACE;
    return sim_leave(place_child(&place, childGraph));
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                const CUgraphNode *dependencies, size_t numDependencies,
                                CUgraphNodeParams *nodeParams)
{
    SIM_ENTER(cuGraphAddNode, SIM_NEEDS_INIT);
    PLACE;
    return sim_leave(place_any(&place, nodeParams));
}

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                   const CUgraphNode *dependencies,
                                   const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                   CUgraphNodeParams *nodeParams)
{
    SIM_ENTER(cuGraphAddNode_v2, SIM_NEEDS_INIT);
    PLACE_DATA(dependencyData);
    return sim_leave(place_any(&place, nodeParams));
}

/* ---- calls on nodes ------------------------------------------------------------------------- */

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode hNode)
{
    SIM_ENTER(cuGraphDestroyNode, SIM_NEEDS_INIT);
    struct sim_node *node = sim_node_get(hNode, "node");
    if (node == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim_capture_into(node->graph))
        return sim_leave(CUDA_ERROR_ILLEGAL_STATE); /* its dependency sets are made of nodes */
    sim_node_free(node);
    sim_schedule_dropped();
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    SIM_ENTER(cuGraphNodeGetType, SIM_NEEDS_INIT);
    const struct sim_node *node = sim_node_get(hNode, "node");
    if (node == NULL || type == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *type = sim_node_type(node);
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    SIM_ENTER(cuGraphChildGraphNodeGetGraph, SIM_NEEDS_INIT);
    const struct sim_node *node = sim_node_get(hNode, "node");
    if (node == NULL || phGraph == NULL || node->child == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *phGraph = sim_graph_handle(node->child);
    return sim_leave(CUDA_SUCCESS);
}
