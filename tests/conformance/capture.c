/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios: stream capture. Which calls begin, end and join one, what becomes a node, and the
 * dependency sets of its streams.
 */
#include "capture.h"

/* ---- steps ---------------------------------------------------------------------------------- */

void capture_begin(CUstream stream, CUstreamCaptureMode mode)
{
    need("begin", cu.StreamBeginCapture(stream, mode));
}

CUstreamCaptureStatus capture_status_of(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    need("is_capturing", cu.StreamIsCapturing(stream, &status));
    return status;
}

void expect_status(const char *label, CUstream stream, CUstreamCaptureStatus expected)
{
    expect_number(label, capture_status_of(stream), expected);
}

/* Ends the capture, with a graph exactly if that succeeds, which is then destroyed. */
void expect_end(const char *label, CUstream stream, CUresult expected)
{
    CUgraph graph = (CUgraph)(uintptr_t)1;
    CUresult result = cu.StreamEndCapture(stream, &graph);
    expect(label, result, expected);
    if (result == CUDA_SUCCESS)
        need("graph_destroy", cu.GraphDestroy(graph));
    else if (graph != NULL)
        observe_yes("graph_left_alone", graph == (CUgraph)(uintptr_t)1);
}

void expect_outcome(CUstream origin, int broken)
{
    expect_status("status", origin,
                  broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_end("end", origin, broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
}

/* How many nodes the stream's next operation would depend on. */
size_t capture_dependencies(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *nodes = NULL;
    const CUgraphEdgeData *edges = NULL;
    size_t count = 99;
    cuuint64_t id = 0;
    CUgraph graph = NULL;
    need("info", cu.StreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count));
    return count;
}

CUgraph capture_graph(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *nodes = NULL;
    const CUgraphEdgeData *edges = NULL;
    size_t count = 0;
    CUgraph graph = NULL;
    need("info", cu.StreamGetCaptureInfo(stream, &status, NULL, &graph, &nodes, &edges, &count));
    return graph;
}

/* The stream's latest node; it must have one. */
CUgraphNode capture_node(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *nodes = NULL;
    const CUgraphEdgeData *edges = NULL;
    size_t count = 0;
    need("info", cu.StreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, &edges, &count));
    need("a_node", count != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
    return nodes[count - 1];
}

size_t capture_node_count(CUgraph graph)
{
    size_t count = 0;
    need("nodes", cu.GraphGetNodes(graph, NULL, &count));
    return count;
}

void expect_node_type(const char *label, CUstream stream, CUgraphNodeType expected)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    need("type", cu.GraphNodeGetType(capture_node(stream), &type));
    expect_number(label, type, expected);
}

void capture_fork_to(CUstream from, CUstream to)
{
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    need("record", cu.EventRecord(event, from));
    need("wait", cu.StreamWaitEvent(to, event, 0));
}

/* ---- beginning and ending ------------------------------------------------------------------- */

static void capture_begins_and_ends(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    expect("end_none", cu.StreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    expect("begin_mode", cu.StreamBeginCapture(stream, (CUstreamCaptureMode)7),
           CUDA_ERROR_INVALID_VALUE);
    expect_status("before", stream, CU_STREAM_CAPTURE_STATUS_NONE);
    expect("begin", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    expect_status("during", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect("again", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
           CUDA_ERROR_ILLEGAL_STATE);
    expect_status("after_again", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect("end_null", cu.StreamEndCapture(stream, NULL), CUDA_SUCCESS);
    expect_status("after_end_null", stream, CU_STREAM_CAPTURE_STATUS_NONE);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect("end", cu.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
    expect_status("after", stream, CU_STREAM_CAPTURE_STATUS_NONE);
    expect_number("nodes", capture_node_count(graph), 0);
    expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
    expect("end_again", cu.StreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

static void capture_default_streams(void)
{
    CUgraph graph = NULL;
    expect("legacy", cu.StreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect("legacy_named", cu.StreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect("end_legacy", cu.StreamEndCapture(NULL, &graph), CUDA_ERROR_ILLEGAL_STATE);
    expect("per_thread",
           cu.StreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_SUCCESS);
    expect_status("during", CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_end("end", CU_STREAM_PER_THREAD, CUDA_SUCCESS);
}

static void capture_info(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    cuuint64_t id = 77;
    cuuint64_t next_id = 0;
    CUgraph graph = (CUgraph)(uintptr_t)1;
    const CUgraphNode *nodes = (const CUgraphNode *)(uintptr_t)1;
    const CUgraphEdgeData *edges = NULL;
    size_t count = 77;
    expect("none", cu.StreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count),
           CUDA_SUCCESS);
    expect_number("none_status", status, CU_STREAM_CAPTURE_STATUS_NONE);
    expect_number("none_id", id, 77);
    expect_yes("none_graph_left", graph == (CUgraph)(uintptr_t)1, 1);
    expect_number("none_count", count, 77);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("begun", cu.StreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count),
           CUDA_SUCCESS);
    expect_number("status", status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_yes("id", id != 0 && id != 77, 1);
    expect_yes("graph", graph != NULL && graph != (CUgraph)(uintptr_t)1, 1);
    expect_number("count", count, 0);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    expect("one", cu.StreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count),
           CUDA_SUCCESS);
    expect_number("one_count", count, 1);
    expect_yes("edges", edges != NULL, 1);
    expect("status_only", cu.StreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, NULL),
           CUDA_SUCCESS);
    expect("null_status", cu.StreamGetCaptureInfo(stream, NULL, &id, NULL, NULL, NULL, NULL),
           CUDA_ERROR_INVALID_VALUE);
    expect("no_edges", cu.StreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, NULL, &count),
           CUDA_SUCCESS);
    expect("no_count", cu.StreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, &edges, NULL),
           CUDA_SUCCESS);
    CUgraph ended = NULL;
    need("end", cu.StreamEndCapture(stream, &ended));
    expect_yes("same_graph", ended == graph, 1);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("info", cu.StreamGetCaptureInfo(stream, &status, &next_id, NULL, NULL, NULL, NULL));
    expect_yes("ids_differ", next_id != id, 1);
    expect_yes("next_id_is_next", next_id == id + 1, 1);
    expect_end("end_second", stream, CUDA_SUCCESS);
}

static void CUDA_CB nothing(void *data)
{
    (void)data;
}

/* What becomes a node and of which type. */
static void capture_nodes(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    void *pinned = NULL;
    need("pinned", cu.MemHostAlloc(&pinned, 64, 0));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("set", cu.MemsetD8Async(at, 1, 16, stream), CUDA_SUCCESS);
    expect_node_type("set_type", stream, CU_GRAPH_NODE_TYPE_MEMSET);
    expect("copy", cu.MemcpyDtoDAsync(at + 64, at, 16, stream), CUDA_SUCCESS);
    expect_node_type("copy_type", stream, CU_GRAPH_NODE_TYPE_MEMCPY);
    expect("up", cu.MemcpyHtoDAsync(at, pinned, 16, stream), CUDA_SUCCESS);
    expect_node_type("up_type", stream, CU_GRAPH_NODE_TYPE_MEMCPY);
    expect("down", cu.MemcpyDtoHAsync(pinned, at, 16, stream), CUDA_SUCCESS);
    expect_node_type("down_type", stream, CU_GRAPH_NODE_TYPE_MEMCPY);
    expect("host", cu.LaunchHostFunc(stream, nothing, NULL), CUDA_SUCCESS);
    expect_node_type("host_type", stream, CU_GRAPH_NODE_TYPE_HOST);
    expect_number("before_record", capture_node_count(capture_graph(stream)), 5);
    expect("record", cu.EventRecord(event, stream), CUDA_SUCCESS);
    expect("wait_own", cu.StreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    expect_number("after_record", capture_node_count(capture_graph(stream)), 5);
    expect_number("dependencies", capture_dependencies(stream), 1);
    expect("set_nothing", cu.MemsetD8Async(at, 1, 0, stream), CUDA_SUCCESS);
    expect_number("after_nothing", capture_node_count(capture_graph(stream)), 5);
    expect_end("end", stream, CUDA_SUCCESS);
}

/* Nothing happens at capture, also not behind work that was queued before. */
static void capture_runs_nothing(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    struct gate *gate = gate_new();
    need("clear", cu.MemsetD8(at, 1, 64));
    need("sync", cu.CtxSynchronize());
    gate_close(gate, stream);
    need("queued", cu.MemsetD8Async(at, 2, 64, stream));
    expect("begin_behind_work", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_SUCCESS);
    expect("set", cu.MemsetD8Async(at, 3, 64, stream), CUDA_SUCCESS);
    expect("copy", cu.MemcpyDtoDAsync(at + 64, at, 64, stream), CUDA_SUCCESS);
    gate_open(gate);
    expect("end", cu.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", byte_at(at), 2);
    expect_number("copied", byte_at(at + 64), 0);
    expect("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    expect("launch", cu.GraphLaunch(exec, other), CUDA_SUCCESS);
    expect("sync_launch", cu.StreamSynchronize(other), CUDA_SUCCESS);
    expect_number("replayed", byte_at(at), 3);
    expect_number("replayed_copy", byte_at(at + 64), 3);
}

/* ---- several streams ------------------------------------------------------------------------ */

static void capture_fork_and_join(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    expect_status("joined_before", joined, CU_STREAM_CAPTURE_STATUS_NONE);
    capture_fork_to(origin, joined);
    expect_status("joined", joined, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_number("joined_dependencies", capture_dependencies(joined), 1);
    expect_yes("one_graph", capture_graph(origin) == capture_graph(joined), 1);
    expect_yes("same_node", capture_node(origin) == capture_node(joined), 1);
    need("set", cu.MemsetD8Async(at, 2, 16, origin));
    need("set", cu.MemsetD8Async(at + 64, 2, 16, joined));
    capture_fork_to(joined, origin);
    expect_number("after_join", capture_dependencies(origin), 2);
    need("set", cu.MemsetD8Async(at, 3, 16, origin));
    expect_number("after_set", capture_dependencies(origin), 1);
    expect_number("nodes", capture_node_count(capture_graph(origin)), 4);
    expect_status("still_joined", joined, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_end("end", origin, CUDA_SUCCESS);
    expect_status("origin_after", origin, CU_STREAM_CAPTURE_STATUS_NONE);
    expect_status("joined_after", joined, CU_STREAM_CAPTURE_STATUS_NONE);
    expect("usable", cu.MemsetD8Async(at, 9, 16, joined), CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(joined), CUDA_SUCCESS);
    expect_number("byte", byte_at(at), 9);
}

/* Are dependencies dropped that others imply? */
static void capture_redundant_waits(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent first = event_new(CU_EVENT_DISABLE_TIMING);
    CUevent second = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    need("record", cu.EventRecord(first, origin));
    need("set", cu.MemsetD8Async(at, 2, 16, origin));
    need("record", cu.EventRecord(second, origin));
    expect("wait_for_own_past", cu.StreamWaitEvent(origin, first, 0), CUDA_SUCCESS);
    expect_number("own_past", capture_dependencies(origin), 2);
    expect("wait_first", cu.StreamWaitEvent(joined, first, 0), CUDA_SUCCESS);
    expect("wait_second", cu.StreamWaitEvent(joined, second, 0), CUDA_SUCCESS);
    expect_number("old_then_new", capture_dependencies(joined), 2);
    expect("wait_again", cu.StreamWaitEvent(joined, second, 0), CUDA_SUCCESS);
    expect_number("again", capture_dependencies(joined), 2);
    need("set", cu.MemsetD8Async(at + 64, 2, 16, joined));
    size_t edges = 0;
    CUgraphNode from[8];
    CUgraphNode to[8];
    edges = 8;
    expect("edges", cu.GraphGetEdges(capture_graph(origin), from, to, &edges), CUDA_SUCCESS);
    expect_number("edge_count", edges, 3);
    capture_fork_to(joined, origin);
    expect_number("end_dependencies", capture_dependencies(origin), 3);
    expect_end("end", origin, CUDA_SUCCESS);
}

static void capture_unjoined(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    capture_fork_to(origin, joined);
    need("set", cu.MemsetD8Async(at + 64, 2, 16, joined));
    expect_end("end", origin, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    expect_status("origin_after", origin, CU_STREAM_CAPTURE_STATUS_NONE);
    expect_status("joined_after", joined, CU_STREAM_CAPTURE_STATUS_NONE);
    expect("usable", cu.MemsetD8Async(at, 9, 16, joined), CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(joined), CUDA_SUCCESS);
    expect_number("byte", byte_at(at), 9);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect_end("next", origin, CUDA_SUCCESS);
}

/* Which joined streams need no joining: without work, without new work, destroyed. */
static void capture_joined_without_work(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    capture_fork_to(origin, joined);
    CUgraph graph = NULL;
    expect("end_no_work", cu.StreamEndCapture(origin, &graph), CUDA_SUCCESS);
    expect_number("origin", capture_status_of(origin), 0);
    expect_number("joined", capture_status_of(joined), 0);

    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    capture_fork_to(origin, joined);
    expect("end_nothing_at_all", cu.StreamEndCapture(origin, &graph), CUDA_SUCCESS);
    expect_number("joined", capture_status_of(joined), 0);

    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    capture_fork_to(origin, joined);
    need("set", cu.MemsetD8Async(at + 64, 2, 16, joined));
    capture_fork_to(joined, origin);
    need("record_again", cu.EventRecord(event_new(CU_EVENT_DISABLE_TIMING), joined));
    expect("end_recorded_after_join", cu.StreamEndCapture(origin, &graph), CUDA_SUCCESS);
    expect_number("joined", capture_status_of(joined), 0);

    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    capture_fork_to(origin, joined);
    need("set", cu.MemsetD8Async(at + 64, 2, 16, joined));
    capture_fork_to(joined, origin);
    need("set", cu.MemsetD8Async(at + 64, 3, 16, joined));
    expect("end_work_after_join", cu.StreamEndCapture(origin, &graph),
           CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    expect_number("joined", capture_status_of(joined), 0);
}

static void capture_end_on_joined(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    capture_fork_to(origin, joined);
    expect_end("end_joined", joined, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    expect_status("origin", origin, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    expect_status("joined", joined, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    expect("end_joined_again", cu.StreamEndCapture(joined, &(CUgraph){NULL}),
           CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    expect("begin_on_joined", cu.StreamBeginCapture(joined, CU_STREAM_CAPTURE_MODE_GLOBAL),
           CUDA_ERROR_ILLEGAL_STATE);
    expect_end("end", origin, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_status("joined_after", joined, CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Two captures that an event would tie together. */
static void capture_merge(void)
{
    CUstream first = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(first, CU_STREAM_CAPTURE_MODE_RELAXED);
    capture_begin(second, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, first));
    need("record", cu.EventRecord(event, first));
    expect("wait", cu.StreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    expect_number("first", capture_status_of(first), 2);
    expect_number("second", capture_status_of(second), 2);
    expect("end_second", cu.StreamEndCapture(second, &(CUgraph){NULL}),
           CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect("end_first", cu.StreamEndCapture(first, &(CUgraph){NULL}),
           CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* ---- dependencies by hand ------------------------------------------------------------------- */

static void capture_update_dependencies(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraphNode nodes[3];
    expect("not_capturing",
           cu.StreamUpdateCaptureDependencies(stream, NULL, NULL, 0,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES),
           CUDA_ERROR_ILLEGAL_STATE);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    nodes[0] = capture_node(stream);
    expect("clear",
           cu.StreamUpdateCaptureDependencies(stream, NULL, NULL, 0,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES),
           CUDA_SUCCESS);
    expect_number("cleared", capture_dependencies(stream), 0);
    need("set", cu.MemsetD8Async(at + 64, 1, 16, stream));
    nodes[1] = capture_node(stream);
    size_t edges = 0;
    need("edges", cu.GraphGetEdges(capture_graph(stream), NULL, NULL, &edges));
    expect_number("edges", edges, 0);
    expect("add",
           cu.StreamUpdateCaptureDependencies(stream, nodes, NULL, 1,
                                              CU_STREAM_ADD_CAPTURE_DEPENDENCIES),
           CUDA_SUCCESS);
    expect_number("added", capture_dependencies(stream), 2);
    expect("add_same",
           cu.StreamUpdateCaptureDependencies(stream, nodes, NULL, 1,
                                              CU_STREAM_ADD_CAPTURE_DEPENDENCIES),
           CUDA_SUCCESS);
    expect_number("added_same", capture_dependencies(stream), 2);
    expect("set_first",
           cu.StreamUpdateCaptureDependencies(stream, nodes, NULL, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES),
           CUDA_SUCCESS);
    expect_number("replaced", capture_dependencies(stream), 1);
    expect_yes("is_first", capture_node(stream) == nodes[0], 1);
    expect("flags", cu.StreamUpdateCaptureDependencies(stream, nodes, NULL, 1, 7),
           CUDA_ERROR_INVALID_VALUE);
    expect("null_nodes",
           cu.StreamUpdateCaptureDependencies(stream, NULL, NULL, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES),
           CUDA_ERROR_INVALID_VALUE);
    expect_status("status", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    capture_begin(second, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("foreign_node",
           cu.StreamUpdateCaptureDependencies(second, nodes, NULL, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES),
           CUDA_ERROR_INVALID_VALUE);
    expect_number("second_status", capture_status_of(second), 1);
    expect_number("stream_status", capture_status_of(stream), 1);
    expect("end_second", cu.StreamEndCapture(second, &(CUgraph){NULL}), CUDA_SUCCESS);
    expect("end_with_loose_node", cu.StreamEndCapture(stream, &(CUgraph){NULL}), CUDA_SUCCESS);
}

/* Duplicates in one call, and dependencies dropped from an origin that then ends. */
static void capture_update_dropping(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = NULL;
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    CUgraphNode twice[2] = {capture_node(stream), capture_node(stream)};
    expect("twice",
           cu.StreamUpdateCaptureDependencies(stream, twice, NULL, 2,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES),
           CUDA_SUCCESS);
    expect_number("twice_count", capture_dependencies(stream), 1);
    expect("set_after_twice", cu.MemsetD8Async(at, 2, 16, stream), CUDA_SUCCESS);
    need("clear", cu.StreamUpdateCaptureDependencies(stream, NULL, NULL, 0,
                                                     CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    expect("end", cu.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
}

/* ---- captures into a graph that is there ---------------------------------------------------- */

static void capture_to_graph(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = NULL;
    CUgraph other = NULL;
    CUgraph ended = NULL;
    CUgraphNode empty = NULL;
    CUgraphNode foreign = NULL;
    need("graph", cu.GraphCreate(&graph, 0));
    need("graph", cu.GraphCreate(&other, 0));
    need("empty", cu.GraphAddEmptyNode(&empty, graph, NULL, 0));
    need("empty", cu.GraphAddEmptyNode(&foreign, other, NULL, 0));
    expect(
        "null",
        cu.StreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED),
        CUDA_ERROR_INVALID_VALUE);
    expect("foreign",
           cu.StreamBeginCaptureToGraph(stream, graph, &foreign, NULL, 1,
                                        CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_ERROR_INVALID_VALUE);
    expect_status("not_begun", stream, CU_STREAM_CAPTURE_STATUS_NONE);
    expect("begin",
           cu.StreamBeginCaptureToGraph(stream, graph, &empty, NULL, 1,
                                        CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_SUCCESS);
    expect_yes("its_graph", capture_graph(stream) == graph, 1);
    expect_number("dependencies", capture_dependencies(stream), 1);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    expect(
        "second_capture_same_graph",
        cu.StreamBeginCaptureToGraph(second, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED),
        CUDA_ERROR_ILLEGAL_STATE);
    expect("set", cu.MemsetD8Async(at, 1, 16, stream), CUDA_SUCCESS);
    expect("end", cu.StreamEndCapture(stream, &ended), CUDA_SUCCESS);
    expect_yes("same", ended == graph, 1);
    expect_number("nodes", capture_node_count(graph), 2);
    size_t edges = 0;
    need("edges", cu.GraphGetEdges(graph, NULL, NULL, &edges));
    expect_number("edges", edges, 1);
    expect("legacy",
           cu.StreamBeginCaptureToGraph(NULL, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

/* What a failed capture leaves in the program's own graph. */
static void capture_to_graph_fails(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = NULL;
    CUgraph ended = NULL;
    need("graph", cu.GraphCreate(&graph, 0));
    need("begin", cu.StreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                               CU_STREAM_CAPTURE_MODE_RELAXED));
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    expect("query", cu.StreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_number("nodes_invalidated", capture_node_count(graph), 1);
    expect("end", cu.StreamEndCapture(stream, &ended), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_yes("graph_given", ended == graph, 0);
    expect("nodes", cu.GraphGetNodes(graph, NULL, &(size_t){0}), CUDA_ERROR_INVALID_VALUE);
    expect("add", cu.GraphAddEmptyNode(&(CUgraphNode){NULL}, graph, NULL, 0),
           CUDA_ERROR_INVALID_VALUE);
    expect("destroy", cu.GraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
}

/* And one that ends for want of a join, and one whose origin is destroyed. */
static void capture_to_graph_unjoined(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = NULL;
    need("graph", cu.GraphCreate(&graph, 0));
    need("begin", cu.StreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                               CU_STREAM_CAPTURE_MODE_RELAXED));
    capture_fork_to(stream, joined);
    need("set", cu.MemsetD8Async(at, 1, 16, joined));
    expect("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}),
           CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    expect("nodes", cu.GraphGetNodes(graph, NULL, &(size_t){0}), CUDA_ERROR_INVALID_VALUE);
    need("graph", cu.GraphCreate(&graph, 0));
    need("begin", cu.StreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                               CU_STREAM_CAPTURE_MODE_RELAXED));
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    need("destroy", cu.StreamDestroy(stream));
    expect("nodes_stream_gone", cu.GraphGetNodes(graph, NULL, &(size_t){0}),
           CUDA_ERROR_INVALID_VALUE);
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    need("graph", cu.GraphCreate(&graph, 0));
    need("begin", cu.StreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                               CU_STREAM_CAPTURE_MODE_RELAXED));
    expect("end_null", cu.StreamEndCapture(stream, NULL), CUDA_SUCCESS);
    expect("nodes_end_null", cu.GraphGetNodes(graph, NULL, &(size_t){0}), CUDA_SUCCESS);
}

/* Nodes taken out of a graph under capture, also one that the stream depends on. */
static void capture_node_destroyed(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    CUgraphNode first = capture_node(stream);
    need("set", cu.MemsetD8Async(at, 2, 16, stream));
    expect("destroy_first", cu.GraphDestroyNode(first), CUDA_ERROR_ILLEGAL_STATE);
    expect_number("status", capture_status_of(stream), 1);
    expect("destroy_last", cu.GraphDestroyNode(capture_node(stream)), CUDA_ERROR_ILLEGAL_STATE);
    expect_number("status", capture_status_of(stream), 1);
    expect_number("dependencies", capture_dependencies(stream), 1);
    expect("set", cu.MemsetD8Async(at, 3, 16, stream), CUDA_SUCCESS);
    expect("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}), CUDA_SUCCESS);
}

/* Events of destroyed or ended things: recorded in a capture whose stream is then destroyed. */
static void capture_event_of_destroyed_stream(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUevent never = event_new(CU_EVENT_DEFAULT);
    CUevent captured = event_new(CU_EVENT_DEFAULT);
    float ms = 0;
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("record", cu.EventRecord(event, stream));
    need("record", cu.EventRecord(captured, stream));
    expect("elapsed_never_first", cu.EventElapsedTime(&ms, never, captured),
           CUDA_ERROR_INVALID_HANDLE);
    expect("elapsed_captured_first", cu.EventElapsedTime(&ms, captured, never),
           CUDA_ERROR_CAPTURED_EVENT);
    expect("elapsed_untimed", cu.EventElapsedTime(&ms, event, captured), CUDA_ERROR_CAPTURED_EVENT);
    expect_number("status", capture_status_of(stream), 1);
    need("destroy", cu.StreamDestroy(stream));
    expect("query", cu.EventQuery(event), CUDA_ERROR_INVALID_VALUE);
    expect("wait", cu.StreamWaitEvent(other, event, 0), CUDA_ERROR_INVALID_VALUE);
    expect("elapsed_after", cu.EventElapsedTime(&ms, captured, captured), CUDA_ERROR_INVALID_VALUE);
    expect("destroy_event", cu.EventDestroy(event), CUDA_SUCCESS);
}

const struct scenario capture_scenarios[] = {
    {"capture_begins_and_ends", capture_begins_and_ends, 0},
    {"capture_default_streams", capture_default_streams, 0},
    {"capture_info", capture_info, 0},
    {"capture_nodes", capture_nodes, 0},
    {"capture_runs_nothing", capture_runs_nothing, 0},
    {"capture_fork_and_join", capture_fork_and_join, 0},
    {"capture_redundant_waits", capture_redundant_waits, 0},
    {"capture_unjoined", capture_unjoined, 0},
    {"capture_joined_without_work", capture_joined_without_work, 0},
    {"capture_end_on_joined", capture_end_on_joined, 0},
    {"capture_merge", capture_merge, 0},
    {"capture_update_dependencies", capture_update_dependencies, 0},
    {"capture_update_dropping", capture_update_dropping, 0},
    {"capture_to_graph", capture_to_graph, 0},
    {"capture_to_graph_fails", capture_to_graph_fails, 0},
    {"capture_to_graph_unjoined", capture_to_graph_unjoined, 0},
    {"capture_node_destroyed", capture_node_destroyed, 0},
    {"capture_event_of_destroyed_stream", capture_event_of_destroyed_stream, 0},
    {NULL, NULL, 0},
};
