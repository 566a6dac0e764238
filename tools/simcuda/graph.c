/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as wholes: their life, copies of them, and what they answer about nodes and edges.
 */
#include "capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ----------------------------------------------------------------------------------- */

static struct sim_graph *graph_create(int handle)
{
    struct sim_graph *graph = calloc(1, sizeof(*graph));
    if (graph == NULL)
        return NULL;
    if (handle) {
        graph->slot = sim_slot_new(SIM_GRAPH, graph);
        if (graph->slot == NULL) {
            free(graph);
            return NULL;
        }
    }
    graph->id = ++sim.graph_id;
    return graph;
}

struct sim_graph *sim_graph_new(void)
{
    return graph_create(1);
}

void sim_graph_free(struct sim_graph *graph)
{
    while (graph->last != NULL)
        sim_node_free(graph->last);
    sim_holds_drop(graph);
    if (graph->slot != NULL)
        sim_slot_free(graph->slot);
    free(graph);
}

struct sim_graph *sim_graph_get(CUgraph handle, const char *what)
{
    return sim_slot_get(handle, SIM_GRAPH, what);
}

CUgraph sim_graph_handle(const struct sim_graph *graph)
{
    return (CUgraph)graph->slot;
}

uint64_t sim_graph_mark(void)
{
    static uint64_t mark;
    return ++mark;
}

static uint64_t counted;

static void graph_counted(void *object)
{
    counted += ((const struct sim_graph *)object)->parent == NULL;
}

uint64_t sim_graph_count(void)
{
    counted = 0;
    sim_slot_each(SIM_GRAPH, NULL, graph_counted);
    return counted;
}

void sim_graph_number(const struct sim_graph *graph)
{
    size_t number = 0;
    for (struct sim_node *node = graph->first; node != NULL; node = node->next)
        node->number = number++;
}

/* ---- copies --------------------------------------------------------------------------------- */

static int edges_copy(const struct sim_node *from, struct sim_node *to, struct sim_node **copies)
{
    for (size_t i = 0; i < from->before.count; i++)
        if (!sim_edge_link(copies[from->before.node[i]->number], to, &from->before.data[i]))
            return 0;
    return 1;
}

/* Copies the nodes of one graph into another, an empty one. */
static int nodes_copy(const struct sim_graph *from, struct sim_graph *to)
{
    struct sim_node **copies = calloc(from->node_count + 1, sizeof(struct sim_node *));
    int good = copies != NULL;
    sim_graph_number(from);
    for (const struct sim_node *node = from->first; good && node != NULL; node = node->next) {
        copies[node->number] = sim_node_copy(node, to);
        good = copies[node->number] != NULL;
    }
    /* Edges may lead to nodes that were added later. */
    for (const struct sim_node *node = from->first; good && node != NULL; node = node->next)
        good = edges_copy(node, copies[node->number], copies);
    free(copies);
    return good;
}

/* A copy with children and references to user objects; null when memory is short. */
struct sim_graph *sim_graph_copy(const struct sim_graph *graph, int handles)
{
    struct sim_graph *copy = graph_create(handles);
    if (copy == NULL)
        return NULL;
    copy->origin = graph->id;
    if (!nodes_copy(graph, copy) || !sim_holds_copy(graph, copy)) {
        sim_graph_free(copy);
        return NULL;
    }
    return copy;
}

/* ---- calls: graphs -------------------------------------------------------------------------- */

CUresult CUDAAPI cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    SIM_ENTER(cuGraphCreate, SIM_NEEDS_INIT);
    if (phGraph == NULL || flags != 0)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    struct sim_graph *graph = sim_graph_new();
    if (graph == NULL)
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *phGraph = sim_graph_handle(graph);
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph)
{
    SIM_ENTER(cuGraphDestroy, SIM_NEEDS_INIT);
    struct sim_graph *graph = sim_graph_get(hGraph, "graph");
    if (graph == NULL || graph->parent != NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim_capture_into(graph))
        return sim_leave(CUDA_ERROR_ILLEGAL_STATE);
    sim_graph_free(graph);
    sim_schedule_dropped();
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    SIM_ENTER(cuGraphClone, SIM_NEEDS_INIT);
    const struct sim_graph *graph = sim_graph_get(originalGraph, "graph");
    if (phGraphClone == NULL || graph == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    struct sim_graph *clone = sim_graph_copy(graph, 1);
    if (clone == NULL)
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *phGraphClone = sim_graph_handle(clone);
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
                                        CUgraph hClonedGraph)
{
    SIM_ENTER(cuGraphNodeFindInClone, SIM_NEEDS_INIT);
    const struct sim_node *original = sim_node_get(hOriginalNode, "node");
    const struct sim_graph *clone = sim_graph_get(hClonedGraph, "graph");
    if (phNode == NULL || original == NULL || clone == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    for (const struct sim_node *node = clone->first; node != NULL; node = node->next) {
        if (node->origin == original->id) {
            *phNode = sim_node_handle(node);
            return sim_leave(CUDA_SUCCESS);
        }
    }
    return sim_leave(CUDA_ERROR_INVALID_VALUE);
}

/* ---- calls: nodes --------------------------------------------------------------------------- */

/* How many there are, without an array; with one, as many as fit, the rest of it null. */
static void nodes_give(struct sim_node *const *nodes, size_t found, CUgraphNode *out, size_t *count)
{
    if (out == NULL) {
        *count = found;
        return;
    }
    for (size_t i = 0; i < *count; i++)
        out[i] = i < found ? sim_node_handle(nodes[i]) : NULL;
    *count = *count < found ? *count : found;
}

/* The same for the nodes of a graph: all, or those that depend on nothing. */
static CUresult graph_give(CUgraph handle, int roots, CUgraphNode *out, size_t *count)
{
    const struct sim_graph *graph = sim_graph_get(handle, "graph");
    if (graph == NULL || count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    size_t found = 0;
    size_t room = out == NULL ? 0 : *count;
    for (const struct sim_node *node = graph->first; node != NULL; node = node->next) {
        if (roots && node->before.count != 0)
            continue;
        if (found < room)
            out[found] = sim_node_handle(node);
        found++;
    }
    for (size_t i = found; i < room; i++)
        out[i] = NULL;
    *count = out != NULL && room < found ? room : found;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    SIM_ENTER(cuGraphGetNodes, SIM_NEEDS_INIT);
    return sim_leave(graph_give(hGraph, 0, nodes, numNodes));
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    SIM_ENTER(cuGraphGetRootNodes, SIM_NEEDS_INIT);
    return sim_leave(graph_give(hGraph, 1, rootNodes, numRootNodes));
}

/* What edges say: it would be lost where nobody asks for it. */
static CUresult data_give(const CUgraphEdgeData *from, size_t found, CUgraphEdgeData *data,
                          size_t room)
{
    size_t given = found < room ? found : room;
    if (data == NULL)
        return sim_edges_plain(from, given) ? CUDA_SUCCESS : CUDA_ERROR_LOSSY_QUERY;
    memset(data, 0, room * sizeof(*data));
    if (given != 0)
        memcpy(data, from, given * sizeof(*data));
    return CUDA_SUCCESS;
}

static CUresult neighbours(CUgraphNode handle, int before, CUgraphNode *out, CUgraphEdgeData *data,
                           size_t *count)
{
    const struct sim_node *node = sim_node_get(handle, "node");
    if (node == NULL || count == NULL || (out == NULL && data != NULL))
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_edges *edges = before ? &node->before : &node->after;
    CUresult result = data_give(edges->data, edges->count, data, out == NULL ? 0 : *count);
    if (result == CUDA_SUCCESS)
        nodes_give(edges->node, edges->count, out, count);
    return result;
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                                            size_t *numDependencies)
{
    SIM_ENTER(cuGraphNodeGetDependencies, SIM_NEEDS_INIT);
    return sim_leave(neighbours(hNode, 1, dependencies, NULL, numDependencies));
}

CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                               CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    SIM_ENTER(cuGraphNodeGetDependencies_v2, SIM_NEEDS_INIT);
    return sim_leave(neighbours(hNode, 1, dependencies, edgeData, numDependencies));
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                              size_t *numDependentNodes)
{
    SIM_ENTER(cuGraphNodeGetDependentNodes, SIM_NEEDS_INIT);
    return sim_leave(neighbours(hNode, 0, dependentNodes, NULL, numDependentNodes));
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                                 CUgraphEdgeData *edgeData,
                                                 size_t *numDependentNodes)
{
    SIM_ENTER(cuGraphNodeGetDependentNodes_v2, SIM_NEEDS_INIT);
    return sim_leave(neighbours(hNode, 0, dependentNodes, edgeData, numDependentNodes));
}

/* ---- calls: edges --------------------------------------------------------------------------- */

static CUresult edges_give(CUgraph handle, CUgraphNode *from, CUgraphNode *to,
                           CUgraphEdgeData *data, size_t *count)
{
    const struct sim_graph *graph = sim_graph_get(handle, "graph");
    if (graph == NULL || count == NULL || (from == NULL) != (to == NULL) ||
        (from == NULL && data != NULL))
        return CUDA_ERROR_INVALID_VALUE;
    size_t found = 0;
    size_t room = from == NULL ? 0 : *count;
    for (const struct sim_node *node = graph->first; node != NULL; node = node->next) {
        for (size_t i = 0; i < node->after.count; i++, found++) {
            if (found >= room)
                continue;
            from[found] = sim_node_handle(node);
            to[found] = sim_node_handle(node->after.node[i]);
            CUresult result =
                data_give(&node->after.data[i], 1, data == NULL ? NULL : &data[found], 1);
            if (result != CUDA_SUCCESS)
                return result;
        }
    }
    for (size_t i = found; i < room; i++) {
        from[i] = NULL;
        to[i] = NULL;
        (void)data_give(NULL, 0, data == NULL ? NULL : &data[i], 1);
    }
    *count = from != NULL && room < found ? room : found;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                                 size_t *numEdges)
{
    SIM_ENTER(cuGraphGetEdges, SIM_NEEDS_INIT);
    return sim_leave(edges_give(hGraph, from, to, NULL, numEdges));
}

CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                                    CUgraphEdgeData *edgeData, size_t *numEdges)
{
    SIM_ENTER(cuGraphGetEdges_v2, SIM_NEEDS_INIT);
    return sim_leave(edges_give(hGraph, from, to, edgeData, numEdges));
}

/* Both ends of an edge that a call names; 0 unless they are two nodes of the graph. */
static int edge_ends(const struct sim_graph *graph, CUgraphNode from, CUgraphNode to,
                     struct sim_node **ends)
{
    ends[0] = sim_node_get(from, "node");
    ends[1] = sim_node_get(to, "node");
    return ends[0] != NULL && ends[1] != NULL && ends[0] != ends[1] && ends[0]->graph == graph &&
           ends[1]->graph == graph;
}

/* Adds or takes away edges, as the driver does up to the first that is wrong. */
static CUresult edges_change(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                             const CUgraphEdgeData *data, size_t count, int add)
{
    const struct sim_graph *graph = sim_graph_get(handle, "graph");
    if (graph == NULL || (count != 0 && (from == NULL || to == NULL)))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_edge_data_check(data, count);
    struct sim_node *ends[2];
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        if (!edge_ends(graph, from[i], to[i], ends)) {
            result = CUDA_ERROR_INVALID_VALUE;
        } else {
            const CUgraphEdgeData *one = data == NULL ? NULL : &data[i];
            result =
                add ? sim_edge_add(ends[0], ends[1], one) : sim_edge_remove(ends[0], ends[1], one);
        }
    }
    return result;
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from,
                                        const CUgraphNode *to, size_t numDependencies)
{
    SIM_ENTER(cuGraphAddDependencies, SIM_NEEDS_INIT);
    return sim_leave(edges_change(hGraph, from, to, NULL, numDependencies, 1));
}

CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                           const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                           size_t numDependencies)
{
    SIM_ENTER(cuGraphAddDependencies_v2, SIM_NEEDS_INIT);
    return sim_leave(edges_change(hGraph, from, to, edgeData, numDependencies, 1));
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
                                           const CUgraphNode *to, size_t numDependencies)
{
    SIM_ENTER(cuGraphRemoveDependencies, SIM_NEEDS_INIT);
    return sim_leave(edges_change(hGraph, from, to, NULL, numDependencies, 0));
}

CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                              const CUgraphNode *to,
                                              const CUgraphEdgeData *edgeData,
                                              size_t numDependencies)
{
    SIM_ENTER(cuGraphRemoveDependencies_v2, SIM_NEEDS_INIT);
    return sim_leave(edges_change(hGraph, from, to, edgeData, numDependencies, 0));
}

/* ---- calls: a picture ----------------------------------------------------------------------- */

static void dot_print(FILE *file, const struct sim_graph *graph, const char *prefix)
{
    for (const struct sim_node *node = graph->first; node != NULL; node = node->next) {
        const char *what = node->child != NULL ? "a child graph" : sim_op_name(node->op.kind);
        fprintf(file, "    \"%s%llu\" [label=\"%s%llu\\n%s\"];\n", prefix,
                (unsigned long long)node->id, prefix, (unsigned long long)node->id, what);
        for (size_t i = 0; i < node->after.count; i++)
            fprintf(file, "    \"%s%llu\" -> \"%s%llu\";\n", prefix, (unsigned long long)node->id,
                    prefix, (unsigned long long)node->after.node[i]->id);
        if (node->child != NULL) {
            char inner[64];
            snprintf(inner, sizeof(inner), "%.40s%llu.", prefix, (unsigned long long)node->id);
            dot_print(file, node->child, inner);
        }
    }
}

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    SIM_ENTER(cuGraphDebugDotPrint, SIM_NEEDS_INIT);
    (void)flags; /* which details are wanted; there is one picture */
    const struct sim_graph *graph = sim_graph_get(hGraph, "graph");
    if (graph == NULL || path == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return sim_leave(CUDA_ERROR_OPERATING_SYSTEM);
    fprintf(file, "digraph graph_%llu {\n", (unsigned long long)graph->id);
    dot_print(file, graph, "");
    fprintf(file, "}\n");
    return sim_leave(fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM);
}
