/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of captures: what becomes of operations, records and waits in capturing streams, and
 * which calls break a capture. Each rule was observed on an H200 with a driver of CUDA 13.0.
 */
#include "capture.h"

#include <stdlib.h>

/* ---- sets of nodes -------------------------------------------------------------------------- */

/* The node's index, or their count. */
static size_t nodes_find(const struct sim_nodes *set, const struct sim_node *node)
{
    size_t at = 0;
    while (at < set->count && set->node[at] != node)
        at++;
    return at;
}

/* Of two edges to one node the plain one says more. */
static void node_enter(struct sim_nodes *set, struct sim_node *node, CUgraphEdgeData edge)
{
    size_t at = nodes_find(set, node);
    if (at == set->count)
        set->count++;
    else if (!sim_edges_plain(&edge, 1))
        return;
    set->node[at] = node;
    set->edge[at] = edge;
}

/* Adds what is not there yet; 0, with nothing changed, when memory is short. */
int sim_nodes_add(struct sim_nodes *set, const struct sim_nodes *more)
{
    size_t room = set->room;
    size_t need = set->count + more->count + 1;
    CUgraphEdgeData *edges = sim_grow(set->edge, &room, need, sizeof(*edges));
    set->edge = edges == NULL ? set->edge : edges;
    struct sim_node **nodes =
        edges == NULL ? NULL : sim_grow(set->node, &set->room, need, sizeof(*nodes));
    if (nodes == NULL)
        return 0;
    set->node = nodes;
    for (size_t i = 0; i < more->count; i++)
        node_enter(set, more->node[i], more->edge == NULL ? (CUgraphEdgeData){0} : more->edge[i]);
    return 1;
}

void sim_nodes_clear(struct sim_nodes *set)
{
    free(set->node);
    free(set->edge);
    *set = (struct sim_nodes){0};
}

/* ---- joining -------------------------------------------------------------------------------- */

/* The stream, which is in no capture, becomes part of this one. */
CUresult sim_capture_join(struct sim_capture *capture, struct sim_stream *stream,
                          const struct sim_nodes *nodes)
{
    if (!sim_nodes_add(&stream->depends, nodes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_stream_hold(stream);
    stream->capture = capture;
    stream->next_captured = capture->streams;
    capture->streams = stream;
    return CUDA_SUCCESS;
}

/* ---- what breaks a capture ------------------------------------------------------------------ */

static int uses_legacy(const struct sim_capture *capture, const struct sim_context *context)
{
    for (const struct sim_stream *stream = capture->streams; stream != NULL;
         stream = stream->next_captured)
        if (stream->is_blocking && stream->context == context)
            return 1;
    return 0;
}

int sim_capture_implicit(const struct sim_stream *stream)
{
    for (struct sim_capture *capture = sim.captures; capture && stream->kind == SIM_LEGACY;
         capture = capture->next)
        if (uses_legacy(capture, stream->context))
            return 1;
    return 0;
}

/* The legacy stream waits for blocking streams, so a captured one would get a dependency on it. */
static CUresult break_implicit(const struct sim_stream *legacy)
{
    for (struct sim_capture *capture = sim.captures; capture != NULL; capture = capture->next)
        capture->is_invalid = capture->is_invalid || uses_legacy(capture, legacy->context);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult sim_capture_check(struct sim_stream *stream)
{
    if (sim_capture_implicit(stream))
        return break_implicit(stream);
    return stream->capture != NULL && stream->capture->is_invalid
               ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
               : CUDA_SUCCESS;
}

CUresult sim_capture_check_outside(struct sim_stream *stream)
{
    if (sim_capture_implicit(stream))
        return break_implicit(stream);
    if (stream->capture != NULL) {
        stream->capture->is_invalid = 1;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult sim_capture_check_asked(struct sim_stream *stream)
{
    CUresult result = sim_capture_check_outside(stream);
    return result != CUDA_SUCCESS ? result : sim_capture_unsafe();
}

CUresult sim_capture_check_context(const struct sim_context *context)
{
    CUresult result = sim_capture_unsafe();
    for (struct sim_capture *capture = sim.captures; capture != NULL; capture = capture->next) {
        for (struct sim_stream *stream = capture->streams; stream != NULL;
             stream = stream->next_captured) {
            if (stream->context == context) {
                capture->is_invalid = 1;
                result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            }
        }
    }
    return result;
}

/* An event of a capture under way may not be asked about, and asking breaks that capture. One of
 * an earlier capture stands for nothing. */
CUresult sim_capture_check_event(const struct sim_event *event)
{
    struct sim_capture *capture = event->capture;
    if (capture != NULL && capture->graph != NULL && !capture->is_invalid) {
        capture->is_invalid = 1;
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    CUresult result = sim_capture_unsafe();
    return result == CUDA_SUCCESS && capture != NULL ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult sim_capture_check_elapsed(const struct sim_event *event)
{
    const struct sim_capture *capture = event->capture;
    return capture == NULL                                  ? CUDA_SUCCESS
           : capture->graph != NULL && !capture->is_invalid ? CUDA_ERROR_CAPTURED_EVENT
                                                            : CUDA_ERROR_INVALID_VALUE;
}

/* A relaxed thread is forbidden nothing. Others are by captures that they began themselves and that
 * are not relaxed, and a thread in global mode also by global captures of others. */
CUresult sim_capture_unsafe(void)
{
    if (sim.captures == NULL)
        return CUDA_SUCCESS;
    const struct sim_thread *thread = sim_thread();
    CUresult result = CUDA_SUCCESS;
    for (struct sim_capture *capture = sim.captures; capture != NULL; capture = capture->next) {
        int own = capture->thread == thread->number;
        int everywhere = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                         thread->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (thread->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
            capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && (own || everywhere)) {
            capture->is_invalid = 1;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

/* ---- operations ----------------------------------------------------------------------------- */

/* The new node is all that the stream's next one depends on. */
static void follow(struct sim_stream *stream, struct sim_node *node)
{
    stream->depends.node[0] = node; /* there is always room for one */
    stream->depends.edge[0] = (CUgraphEdgeData){0};
    stream->depends.count = 1;
}

/* What a kernel that may begin early depends on: kernels by their programmatic ports. */
static int depends_loosely(struct sim_nodes *loose, const struct sim_nodes *depends)
{
    static const CUgraphEdgeData programmatic = {.from_port =
                                                     CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                                 .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    if (!sim_nodes_add(loose, depends))
        return 0;
    for (size_t i = 0; i < loose->count; i++)
        if (loose->node[i]->op.kind == SIM_OP_KERNEL && sim_edges_plain(&loose->edge[i], 1))
            loose->edge[i] = programmatic;
    return 1;
}

/* Makes a node of the operation. What the simulation has no node for breaks the capture. */
static CUresult add_node(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_node *node = NULL;
    struct sim_nodes loose = {0};
    const struct sim_nodes *depends = &stream->depends;
    switch (op->kind) {
    case SIM_OP_RECORD:
    case SIM_OP_WAIT_EVENT:
    case SIM_OP_SET:
    case SIM_OP_COPY:
    case SIM_OP_HOST:
    case SIM_OP_KERNEL:
        break;
    default:
        sim_op_dispose(op);
        stream->capture->is_invalid = 1;
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (op->kind == SIM_OP_KERNEL && op->launch->call.is_programmatic) {
        depends = &loose;
        if (!depends_loosely(&loose, &stream->depends)) {
            sim_nodes_clear(&loose);
            sim_op_dispose(op);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    CUresult result = sim_node_add(stream->capture->graph, stream->context, op, depends, &node);
    sim_nodes_clear(&loose);
    if (result == CUDA_SUCCESS)
        follow(stream, node);
    return result;
}

int sim_capture_take(struct sim_stream *stream, const struct sim_op *op, CUresult *result)
{
    if (sim.captures == NULL)
        return 0;
    *result = sim_capture_check(stream);
    if (*result == CUDA_SUCCESS && stream->capture == NULL)
        return 0;
    struct sim_op taken = *op;
    if (*result == CUDA_SUCCESS)
        *result = add_node(stream, &taken);
    else
        sim_op_dispose(&taken);
    return 1;
}

/* ---- events --------------------------------------------------------------------------------- */

void sim_capture_forget(struct sim_event *event)
{
    if (event->capture != NULL) {
        sim_nodes_clear(&event->nodes);
        sim_capture_drop(event->capture);
        event->capture = NULL;
    }
}

/* A captured event stands for the stream's dependency set as it is now. No node is made. */
int sim_capture_record(struct sim_stream *stream, struct sim_event *event, CUresult *result)
{
    if (sim.captures == NULL)
        return 0;
    *result = sim_capture_check(stream);
    if (*result != CUDA_SUCCESS || stream->capture == NULL)
        return *result != CUDA_SUCCESS;
    struct sim_nodes now = {0};
    if (!sim_nodes_add(&now, &stream->depends)) {
        *result = CUDA_ERROR_OUT_OF_MEMORY;
        return 1;
    }
    stream->capture->references++;
    sim_capture_forget(event);
    sim_event_mark(event, (struct sim_point){0});
    event->capture = stream->capture;
    event->nodes = now;
    return 1;
}

/* A wait in a capturing stream for an event that is not of its capture. */
static CUresult wait_across(struct sim_capture *here, const struct sim_event *event)
{
    struct sim_capture *there = event->capture;
    if (there == NULL && event->point.stream == NULL)
        return CUDA_SUCCESS; /* never recorded: nothing to wait for */
    here->is_invalid = 1;
    if (there == NULL)
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (there->graph == NULL || there->is_invalid)
        return CUDA_ERROR_INVALID_VALUE;
    there->is_invalid = 1;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
}

/* A wait outside of captures for an event that was recorded in one: the stream joins it. */
static CUresult wait_join(struct sim_stream *stream, const struct sim_event *event)
{
    struct sim_capture *capture = event->capture;
    if (capture->graph == NULL || capture->is_invalid)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->kind == SIM_LEGACY) {
        capture->is_invalid = 1;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return sim_capture_join(capture, stream, &event->nodes);
}

int sim_capture_wait(struct sim_stream *stream, const struct sim_event *event, CUresult *result)
{
    if (sim.captures == NULL && event->capture == NULL)
        return 0;
    *result = sim_capture_check(stream);
    if (*result != CUDA_SUCCESS)
        return 1;
    if (stream->capture == NULL) {
        *result = event->capture == NULL ? CUDA_SUCCESS : wait_join(stream, event);
        return event->capture != NULL;
    }
    if (event->capture != stream->capture)
        *result = wait_across(stream->capture, event);
    else if (!sim_nodes_add(&stream->depends, &event->nodes))
        *result = CUDA_ERROR_OUT_OF_MEMORY;
    return 1;
}
