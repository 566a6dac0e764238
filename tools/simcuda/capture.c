/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures from their beginning to their end, and the calls that begin, end, describe and steer
 * them. What happens in between is in capture_rules.c.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ----------------------------------------------------------------------------------- */

void sim_capture_drop(struct sim_capture *capture)
{
    if (--capture->references == 0)
        free(capture);
}

int sim_capture_into(const struct sim_graph *graph)
{
    const struct sim_capture *capture = sim.captures;
    while (capture != NULL && capture->graph != graph)
        capture = capture->next;
    return capture != NULL;
}

static void stream_leave(struct sim_stream *stream)
{
    stream->capture = NULL;
    stream->next_captured = NULL;
    sim_nodes_clear(&stream->depends);
    free(stream->capture_told);
    stream->capture_told = NULL;
    sim_stream_drop(stream);
}

/* All its streams leave it. The graph is the caller's from here on. */
static struct sim_graph *capture_end(struct sim_capture *capture)
{
    struct sim_graph *graph = capture->graph;
    struct sim_capture **link = &sim.captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    while (capture->streams != NULL) {
        struct sim_stream *stream = capture->streams;
        capture->streams = stream->next_captured;
        stream_leave(stream);
    }
    capture->origin = NULL;
    capture->graph = NULL;
    sim_capture_drop(capture);
    return graph;
}

/* A capture that comes to nothing takes its graph along, also one that the program had made. */
static void capture_abandon(struct sim_capture *capture)
{
    sim_graph_free(capture_end(capture));
}

/* Without its origin a capture cannot end; other streams stay in it until it does. */
void sim_capture_stream_gone(struct sim_stream *stream)
{
    if (stream->capture != NULL && stream->capture->origin == stream)
        capture_abandon(stream->capture);
}

void sim_capture_context_end(const struct sim_context *context)
{
    for (struct sim_capture *capture = sim.captures; capture != NULL;) {
        const struct sim_stream *stream = capture->streams;
        struct sim_capture *next = capture->next;
        while (stream != NULL && stream->context != context)
            stream = stream->next_captured;
        if (stream != NULL)
            capture_abandon(capture);
        capture = next;
    }
}

/* Ends all of them; their graphs are still there. */
void sim_capture_reset(void)
{
    while (sim.captures != NULL)
        capture_abandon(sim.captures);
}

/* ---- beginning ------------------------------------------------------------------------------ */

static CUresult begin_check(struct sim_stream *stream, CUstreamCaptureMode mode)
{
    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL && mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
        mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->kind == SIM_LEGACY) {
        CUresult result = sim_capture_check(stream);
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return stream->capture != NULL ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

/* Begins a capture into the graph, after these of its nodes. */
static CUresult capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode,
                              struct sim_graph *graph, int given, const struct sim_nodes *after)
{
    struct sim_capture *capture = calloc(1, sizeof(*capture));
    if (capture == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sim_capture_join(capture, stream, after);
    if (result != CUDA_SUCCESS) {
        free(capture);
        return result;
    }
    capture->graph = graph;
    capture->origin = stream;
    capture->id = ++sim.next_capture;
    capture->thread = sim_thread()->number;
    capture->mode = mode;
    capture->is_given = given;
    capture->references = 1;
    capture->next = sim.captures;
    sim.captures = capture;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    SIM_ENTER(cuStreamBeginCapture_v2, SIM_NEEDS_CLEAN);
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_sound(hStream, &result);
    if (stream != NULL)
        result = begin_check(stream, mode);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    struct sim_graph *graph = sim_graph_new();
    if (graph == NULL)
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    result = capture_begin(stream, mode, graph, 0, &(struct sim_nodes){0});
    if (result != CUDA_SUCCESS)
        sim_graph_free(graph);
    return sim_leave(result);
}

/* The nodes behind handles, which must all be of the graph, with what the edges from them say. */
static CUresult nodes_get(const struct sim_graph *graph, const CUgraphNode *handles,
                          const CUgraphEdgeData *edges, size_t count, struct sim_nodes *nodes)
{
    if (count != 0 && handles == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_edge_data_check(edges, count);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        struct sim_node *node = sim_node_get(handles[i], "node");
        CUgraphEdgeData edge = edges == NULL ? (CUgraphEdgeData){0} : edges[i];
        if (node == NULL || node->graph != graph ||
            (edge.from_port != 0 && node->op.kind != SIM_OP_KERNEL))
            result = CUDA_ERROR_INVALID_VALUE;
        else if (!sim_nodes_add(nodes, &(struct sim_nodes){&node, &edge, 1, 1}))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                             const CUgraphNode *dependencies,
                                             const CUgraphEdgeData *dependencyData,
                                             size_t numDependencies, CUstreamCaptureMode mode)
{
    SIM_ENTER(cuStreamBeginCaptureToGraph, SIM_NEEDS_CLEAN);
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_sound(hStream, &result);
    struct sim_graph *graph = hGraph == NULL ? NULL : sim_graph_get(hGraph, "graph");
    struct sim_nodes after = {0};
    if (stream != NULL)
        result = begin_check(stream, mode);
    if (result == CUDA_SUCCESS && graph == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && sim_capture_into(graph))
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result == CUDA_SUCCESS)
        result = nodes_get(graph, dependencies, dependencyData, numDependencies, &after);
    if (result == CUDA_SUCCESS)
        result = capture_begin(stream, mode, graph, 1, &after);
    sim_nodes_clear(&after);
    return sim_leave(result);
}

/* ---- ending --------------------------------------------------------------------------------- */

/* Marks the nodes that these depend on, themselves included; 0 when memory is short. */
static int mark_before(const struct sim_nodes *from, size_t node_count, uint64_t mark)
{
    struct sim_node **open = malloc((node_count + 1) * sizeof(struct sim_node *));
    size_t count = 0;
    if (open == NULL)
        return 0;
    for (size_t i = 0; i < from->count; i++) {
        from->node[i]->mark = mark;
        open[count++] = from->node[i];
    }
    while (count != 0) {
        const struct sim_node *node = open[--count];
        for (size_t i = 0; i < node->before.count; i++) {
            if (node->before.node[i]->mark != mark) {
                node->before.node[i]->mark = mark;
                open[count++] = node->before.node[i];
            }
        }
    }
    free(open);
    return 1;
}

/* What every stream of it ends with must come before what its origin ends with. */
static CUresult check_joined(const struct sim_capture *capture)
{
    uint64_t mark = sim_graph_mark();
    if (!mark_before(&capture->origin->depends, capture->graph->node_count, mark))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (const struct sim_stream *stream = capture->streams; stream != NULL;
         stream = stream->next_captured) {
        for (size_t i = 0; i < stream->depends.count; i++)
            if (stream->depends.node[i]->mark != mark)
                return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    return CUDA_SUCCESS;
}

/* Ends the capture of an origin, whatever comes of it. */
static CUresult end_origin(struct sim_capture *capture, CUgraph *out)
{
    CUresult result = CUDA_SUCCESS;
    if (capture->is_invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
             capture->thread != sim_thread()->number)
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    else
        result = check_joined(capture);
    if (result != CUDA_SUCCESS || (out == NULL && !capture->is_given)) {
        capture_abandon(capture);
        return result;
    }
    const struct sim_graph *graph = capture_end(capture);
    if (out != NULL)
        *out = sim_graph_handle(graph);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    SIM_ENTER(cuStreamEndCapture, SIM_NEEDS_INIT);
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_get(hStream, &result);
    if (phGraph != NULL)
        *phGraph = NULL;
    if (stream == NULL)
        return sim_leave(result);
    if (stream->capture == NULL) {
        result = sim_capture_check(stream);
        return sim_leave(result != CUDA_SUCCESS ? result : CUDA_ERROR_ILLEGAL_STATE);
    }
    if (stream->capture->origin != stream) {
        stream->capture->is_invalid = 1;
        return sim_leave(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    return sim_leave(end_origin(stream->capture, phGraph));
}

/* ---- what a stream captures ----------------------------------------------------------------- */

static CUstreamCaptureStatus status_of(const struct sim_stream *stream)
{
    return stream->capture == NULL       ? CU_STREAM_CAPTURE_STATUS_NONE
           : stream->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    SIM_ENTER(cuStreamIsCapturing, SIM_NEEDS_INIT);
    CUresult result = CUDA_SUCCESS;
    const struct sim_stream *stream = sim_stream_get(hStream, &result);
    if (stream == NULL || captureStatus == NULL)
        return sim_leave(stream == NULL ? result : CUDA_ERROR_INVALID_VALUE);
    if (sim_capture_implicit(stream))
        return sim_leave(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    *captureStatus = status_of(stream);
    return sim_leave(CUDA_SUCCESS);
}

struct told {
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **nodes;
    const CUgraphEdgeData **edges;
    size_t *count;
};

/* Handles of the stream's dependencies and, after them, their edges. */
static int tell_nodes(struct sim_stream *stream, const struct told *told)
{
    size_t count = stream->depends.count;
    CUgraphNode *handles = calloc(count + 1, sizeof(CUgraphNode) + sizeof(CUgraphEdgeData));
    if (handles == NULL)
        return 0;
    for (size_t i = 0; i < count; i++)
        handles[i] = sim_node_handle(stream->depends.node[i]);
    if (count != 0)
        memcpy(handles + count + 1, stream->depends.edge, count * sizeof(CUgraphEdgeData));
    free(stream->capture_told);
    stream->capture_told = handles;
    if (told->nodes != NULL)
        *told->nodes = handles;
    if (told->edges != NULL)
        *told->edges = (const CUgraphEdgeData *)(const void *)(handles + count + 1);
    return 1;
}

/* All but the status is only told of active captures. */
static CUresult capture_tell(CUstream handle, const struct told *told)
{
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_get(handle, &result);
    if (stream == NULL || told->status == NULL)
        return stream == NULL ? result : CUDA_ERROR_INVALID_VALUE;
    if (sim_capture_implicit(stream))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    CUstreamCaptureStatus status = status_of(stream);
    if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (told->nodes != NULL && told->edges == NULL &&
            !sim_edges_plain(stream->depends.edge, stream->depends.count))
            return CUDA_ERROR_LOSSY_QUERY;
        if ((told->nodes != NULL || told->edges != NULL) && !tell_nodes(stream, told))
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (told->id != NULL)
            *told->id = stream->capture->id;
        if (told->graph != NULL)
            *told->graph = sim_graph_handle(stream->capture->graph);
        if (told->count != NULL)
            *told->count = stream->depends.count;
    }
    *told->status = status;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream hStream,
                                           CUstreamCaptureStatus *captureStatus_out,
                                           cuuint64_t *id_out, CUgraph *graph_out,
                                           const CUgraphNode **dependencies_out,
                                           size_t *numDependencies_out)
{
    SIM_ENTER(cuStreamGetCaptureInfo_v2, SIM_NEEDS_INIT);
    struct told told = {.status = captureStatus_out,
                        .id = id_out,
                        .graph = graph_out,
                        .nodes = dependencies_out,
                        .count = numDependencies_out};
    return sim_leave(capture_tell(hStream, &told));
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream hStream,
                                           CUstreamCaptureStatus *captureStatus_out,
                                           cuuint64_t *id_out, CUgraph *graph_out,
                                           const CUgraphNode **dependencies_out,
                                           const CUgraphEdgeData **edgeData_out,
                                           size_t *numDependencies_out)
{
    SIM_ENTER(cuStreamGetCaptureInfo_v3, SIM_NEEDS_INIT);
    struct told told = {.status = captureStatus_out,
                        .id = id_out,
                        .graph = graph_out,
                        .nodes = dependencies_out,
                        .edges = edgeData_out,
                        .count = numDependencies_out};
    return sim_leave(capture_tell(hStream, &told));
}

/* ---- steering ------------------------------------------------------------------------------- */

static CUresult capture_update(CUstream handle, const CUgraphNode *dependencies,
                               const CUgraphEdgeData *edges, size_t count, unsigned flags)
{
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_get(handle, &result);
    struct sim_nodes nodes = {0};
    if (stream == NULL)
        return result;
    result = sim_capture_check(stream);
    if (result == CUDA_SUCCESS && stream->capture == NULL)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result != CUDA_SUCCESS)
        return result;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    /* Room for all of it is made first, so that a failure changes nothing. */
    result = nodes_get(stream->capture->graph, dependencies, edges, count, &nodes);
    if (result == CUDA_SUCCESS && flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES) {
        result = sim_nodes_add(&stream->depends, &nodes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    } else if (result == CUDA_SUCCESS) {
        struct sim_nodes old = stream->depends;
        if (nodes.room == 0 && !sim_nodes_add(&nodes, &(struct sim_nodes){0}))
            return CUDA_ERROR_OUT_OF_MEMORY;
        stream->depends = nodes;
        nodes = old;
    }
    sim_nodes_clear(&nodes);
    return result;
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
                                                   size_t numDependencies, unsigned int flags)
{
    SIM_ENTER(cuStreamUpdateCaptureDependencies, SIM_NEEDS_INIT);
    return sim_leave(capture_update(hStream, dependencies, NULL, numDependencies, flags));
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                                      const CUgraphEdgeData *dependencyData,
                                                      size_t numDependencies, unsigned int flags)
{
    SIM_ENTER(cuStreamUpdateCaptureDependencies_v2, SIM_NEEDS_INIT);
    return sim_leave(capture_update(hStream, dependencies, dependencyData, numDependencies, flags));
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SIM_ENTER(cuThreadExchangeStreamCaptureMode, SIM_NEEDS_INIT);
    if (mode == NULL ||
        (*mode != CU_STREAM_CAPTURE_MODE_GLOBAL && *mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
         *mode != CU_STREAM_CAPTURE_MODE_RELAXED))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    struct sim_thread *thread = sim_thread();
    CUstreamCaptureMode before = thread->mode;
    thread->mode = *mode;
    *mode = before;
    return sim_leave(CUDA_SUCCESS);
}
