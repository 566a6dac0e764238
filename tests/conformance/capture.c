/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios: stream capture. Which calls begin, end and join one, what becomes a node, what an
 * event stands for, and above all which calls fail how and what state they leave behind.
 *
 * Which calls are forbidden to a thread because of captures is in capture_calls.c.
 */
#include "capture.h"

#include <stdio.h>

/* ---- Steps ---------------------------------------------------------------------------------- */

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
    if (result == CUDA_SUCCESS) {
        need("graph_destroy", cu.GraphDestroy(graph));
    } else if (graph != NULL) {
        observe_yes("graph_left_alone", graph == (CUgraph)(uintptr_t)1);
    }
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

static CUgraph capture_graph(CUstream stream)
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
static CUgraphNode capture_node(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *nodes = NULL;
    const CUgraphEdgeData *edges = NULL;
    size_t count = 0;
    need("info", cu.StreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, &edges, &count));
    need("a_node", count != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
    return nodes[count - 1];
}

static size_t node_count(CUgraph graph)
{
    size_t count = 0;
    need("nodes", cu.GraphGetNodes(graph, NULL, &count));
    return count;
}

static void expect_type(const char *label, CUstream stream, CUgraphNodeType expected)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    need("type", cu.GraphNodeGetType(capture_node(stream), &type));
    expect_number(label, type, expected);
}

static void fork_to(CUstream from, CUstream to)
{
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    need("record", cu.EventRecord(event, from));
    need("wait", cu.StreamWaitEvent(to, event, 0));
}

/* ---- Beginning and ending ------------------------------------------------------------------- */

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
    expect("end_null", cu.StreamEndCapture(stream, NULL), CUDA_ERROR_INVALID_VALUE);
    expect_status("after_end_null", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect("end", cu.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
    expect_status("after", stream, CU_STREAM_CAPTURE_STATUS_NONE);
    expect_number("nodes", node_count(graph), 0);
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
    observe("end_legacy", cu.StreamEndCapture(NULL, &graph));
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
    observe_number("none_id", id);
    observe_yes("none_graph_left", graph == (CUgraph)(uintptr_t)1);
    observe_number("none_count", count);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("begun", cu.StreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count),
           CUDA_SUCCESS);
    expect_number("status", status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_yes("id", id != 0 && id != 77, true);
    expect_yes("graph", graph != NULL && graph != (CUgraph)(uintptr_t)1, true);
    expect_number("count", count, 0);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    expect("one", cu.StreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count),
           CUDA_SUCCESS);
    expect_number("one_count", count, 1);
    observe_yes("edges", edges != NULL);
    expect("status_only", cu.StreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, NULL),
           CUDA_SUCCESS);
    expect("null_status", cu.StreamGetCaptureInfo(stream, NULL, &id, NULL, NULL, NULL, NULL),
           CUDA_ERROR_INVALID_VALUE);
    observe("no_edges", cu.StreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, NULL, &count));
    observe("no_count", cu.StreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, &edges, NULL));
    CUgraph ended = NULL;
    need("end", cu.StreamEndCapture(stream, &ended));
    expect_yes("same_graph", ended == graph, true);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("info", cu.StreamGetCaptureInfo(stream, &status, &next_id, NULL, NULL, NULL, NULL));
    expect_yes("ids_differ", next_id != id, true);
    observe_yes("next_id_is_next", next_id == id + 1);
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
    expect_type("set_type", stream, CU_GRAPH_NODE_TYPE_MEMSET);
    expect("copy", cu.MemcpyDtoDAsync(at + 64, at, 16, stream), CUDA_SUCCESS);
    expect_type("copy_type", stream, CU_GRAPH_NODE_TYPE_MEMCPY);
    expect("up", cu.MemcpyHtoDAsync(at, pinned, 16, stream), CUDA_SUCCESS);
    expect_type("up_type", stream, CU_GRAPH_NODE_TYPE_MEMCPY);
    expect("down", cu.MemcpyDtoHAsync(pinned, at, 16, stream), CUDA_SUCCESS);
    expect_type("down_type", stream, CU_GRAPH_NODE_TYPE_MEMCPY);
    expect("host", cu.LaunchHostFunc(stream, nothing, NULL), CUDA_SUCCESS);
    expect_type("host_type", stream, CU_GRAPH_NODE_TYPE_HOST);
    expect_number("before_record", node_count(capture_graph(stream)), 5);
    expect("record", cu.EventRecord(event, stream), CUDA_SUCCESS);
    expect("wait_own", cu.StreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    expect_number("after_record", node_count(capture_graph(stream)), 5);
    expect_number("dependencies", capture_dependencies(stream), 1);
    expect("set_nothing", cu.MemsetD8Async(at, 1, 0, stream), CUDA_SUCCESS);
    observe_number("after_nothing", node_count(capture_graph(stream)));
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

/* ---- Several streams ------------------------------------------------------------------------ */

static void capture_fork_and_join(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    expect_status("joined_before", joined, CU_STREAM_CAPTURE_STATUS_NONE);
    fork_to(origin, joined);
    expect_status("joined", joined, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_number("joined_dependencies", capture_dependencies(joined), 1);
    expect_yes("one_graph", capture_graph(origin) == capture_graph(joined), true);
    expect_yes("same_node", capture_node(origin) == capture_node(joined), true);
    need("set", cu.MemsetD8Async(at, 2, 16, origin));
    need("set", cu.MemsetD8Async(at + 64, 2, 16, joined));
    fork_to(joined, origin);
    expect_number("after_join", capture_dependencies(origin), 2);
    need("set", cu.MemsetD8Async(at, 3, 16, origin));
    expect_number("after_set", capture_dependencies(origin), 1);
    expect_number("nodes", node_count(capture_graph(origin)), 4);
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
    observe_number("own_past", capture_dependencies(origin));
    expect("wait_first", cu.StreamWaitEvent(joined, first, 0), CUDA_SUCCESS);
    expect("wait_second", cu.StreamWaitEvent(joined, second, 0), CUDA_SUCCESS);
    observe_number("old_then_new", capture_dependencies(joined));
    expect("wait_again", cu.StreamWaitEvent(joined, second, 0), CUDA_SUCCESS);
    observe_number("again", capture_dependencies(joined));
    need("set", cu.MemsetD8Async(at + 64, 2, 16, joined));
    size_t edges = 0;
    CUgraphNode from[8];
    CUgraphNode to[8];
    edges = 8;
    observe("edges", cu.GraphGetEdges(capture_graph(origin), from, to, &edges));
    observe_number("edge_count", edges);
    fork_to(joined, origin);
    observe_number("end_dependencies", capture_dependencies(origin));
    expect_end("end", origin, CUDA_SUCCESS);
}

static void capture_unjoined(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    fork_to(origin, joined);
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
    fork_to(origin, joined);
    CUgraph graph = NULL;
    observe("end_no_work", cu.StreamEndCapture(origin, &graph));
    observe_number("origin", capture_status_of(origin));
    observe_number("joined", capture_status_of(joined));

    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    fork_to(origin, joined);
    observe("end_nothing_at_all", cu.StreamEndCapture(origin, &graph));
    observe_number("joined", capture_status_of(joined));

    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    fork_to(origin, joined);
    need("set", cu.MemsetD8Async(at + 64, 2, 16, joined));
    fork_to(joined, origin);
    need("record_again", cu.EventRecord(event_new(CU_EVENT_DISABLE_TIMING), joined));
    observe("end_recorded_after_join", cu.StreamEndCapture(origin, &graph));
    observe_number("joined", capture_status_of(joined));

    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    fork_to(origin, joined);
    need("set", cu.MemsetD8Async(at + 64, 2, 16, joined));
    fork_to(joined, origin);
    need("set", cu.MemsetD8Async(at + 64, 3, 16, joined));
    observe("end_work_after_join", cu.StreamEndCapture(origin, &graph));
    observe_number("joined", capture_status_of(joined));
}

static void capture_end_on_joined(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    fork_to(origin, joined);
    expect_end("end_joined", joined, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    expect_status("origin", origin, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    expect_status("joined", joined, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    observe("end_joined_again", cu.StreamEndCapture(joined, &(CUgraph){NULL}));
    observe("begin_on_joined", cu.StreamBeginCapture(joined, CU_STREAM_CAPTURE_MODE_GLOBAL));
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
    observe_number("first", capture_status_of(first));
    observe_number("second", capture_status_of(second));
    observe("end_second", cu.StreamEndCapture(second, &(CUgraph){NULL}));
    observe("end_first", cu.StreamEndCapture(first, &(CUgraph){NULL}));
}

/* ---- Events --------------------------------------------------------------------------------- */

/* An event recorded in a capture may not be asked about, whatever the mode. */
static void capture_event_asked(void)
{
    static const char *const names[] = {"global", "local", "relaxed"};
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (int mode = 0; mode < 3; mode++) {
        for (int call = 0; call < 3; call++) {
            CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
            CUevent event = event_new(CU_EVENT_DEFAULT);
            CUevent before = event_new(CU_EVENT_DEFAULT);
            float ms = 0;
            char label[64];
            static const char *const calls[] = {"query", "sync", "elapsed"};
            need("record_before", cu.EventRecord(before, stream));
            need("sync_before", cu.StreamSynchronize(stream));
            capture_begin(stream, (CUstreamCaptureMode)mode);
            need("set", cu.MemsetD8Async(at, 1, 16, stream));
            need("record", cu.EventRecord(event, stream));
            snprintf(label, sizeof label, "%s_%s", names[mode], calls[call]);
            CUresult result = call == 0   ? cu.EventQuery(event)
                              : call == 1 ? cu.EventSynchronize(event)
                                          : cu.EventElapsedTime(&ms, before, event);
            expect(label, result, CUDA_ERROR_CAPTURED_EVENT);
            observe_number("status", capture_status_of(stream));
            observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
        }
    }
}

/* What a captured event is after its capture has ended. */
static void capture_event_afterwards(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = NULL;
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    need("record", cu.EventRecord(event, stream));
    need("end", cu.StreamEndCapture(stream, &graph));
    expect("query", cu.EventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    expect("sync", cu.EventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
    observe("wait", cu.StreamWaitEvent(other, event, 0));
    observe_number("other_status", capture_status_of(other));
    observe("stream_sound", cu.StreamSynchronize(other));
    need("graph_destroy", cu.GraphDestroy(graph));
    observe("query_graph_gone", cu.EventQuery(event));
    observe("wait_graph_gone", cu.StreamWaitEvent(other, event, 0));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    observe("wait_in_next_capture", cu.StreamWaitEvent(stream, event, 0));
    observe_number("next_status", capture_status_of(stream));
    observe("next_end", cu.StreamEndCapture(stream, &graph));
    expect("record_outside", cu.EventRecord(event, other), CUDA_SUCCESS);
    expect("sync_recorded", cu.EventSynchronize(event), CUDA_SUCCESS);
    expect("query_recorded", cu.EventQuery(event), CUDA_SUCCESS);
}

/* Recording outside makes a captured event an ordinary one again, the capture stays valid. */
static void capture_event_recorded_outside(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    need("record", cu.EventRecord(event, stream));
    expect("record_outside", cu.EventRecord(event, other), CUDA_SUCCESS);
    expect("sync", cu.EventSynchronize(event), CUDA_SUCCESS);
    expect_status("status", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_end("end", stream, CUDA_SUCCESS);
}

/* An event that was pending outside and is then recorded inside. */
static void capture_event_pending_then_captured(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    struct gate *gate = gate_new();
    gate_close(gate, other);
    need("record_outside", cu.EventRecord(event, other));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("record", cu.EventRecord(event, stream), CUDA_SUCCESS);
    expect("query", cu.EventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    observe_number("status", capture_status_of(stream));
    gate_open(gate);
    observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
}

/* A captured stream may not wait for what happened outside. */
static void capture_waits_for_outside(void)
{
    static const char *const names[] = {"global", "local", "relaxed"};
    for (int mode = 0; mode < 3; mode++) {
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
        CUevent done = event_new(CU_EVENT_DISABLE_TIMING);
        CUevent never = event_new(CU_EVENT_DISABLE_TIMING);
        need("record", cu.EventRecord(done, other));
        need("sync", cu.StreamSynchronize(other));
        capture_begin(stream, (CUstreamCaptureMode)mode);
        observe("never_recorded", cu.StreamWaitEvent(stream, never, 0));
        observe_number("status", capture_status_of(stream));
        expect(names[mode], cu.StreamWaitEvent(stream, done, 0),
               CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        observe_number("status", capture_status_of(stream));
        observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
    }
}

/* Recorded in the same stream before its capture began. */
static void capture_waits_for_own_past(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    need("record", cu.EventRecord(event, stream));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    observe("wait", cu.StreamWaitEvent(stream, event, 0));
    observe_number("status", capture_status_of(stream));
    observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
}

/* External records and waits are nodes, and only legal in a capture. */
static void capture_external_events(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUevent outside = event_new(CU_EVENT_DISABLE_TIMING);
    need("record", cu.EventRecord(outside, other));
    observe("record_no_capture", cu.EventRecordWithFlags(event, other, CU_EVENT_RECORD_EXTERNAL));
    observe("wait_no_capture", cu.StreamWaitEvent(other, outside, CU_EVENT_WAIT_EXTERNAL));
    expect("record_flags", cu.EventRecordWithFlags(event, other, 2), CUDA_ERROR_INVALID_VALUE);
    expect("wait_flags", cu.StreamWaitEvent(other, event, 2), CUDA_ERROR_INVALID_VALUE);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("record_flags_in", cu.EventRecordWithFlags(event, stream, 2), CUDA_ERROR_INVALID_VALUE);
    expect_status("after_flags", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect("wait", cu.StreamWaitEvent(stream, outside, CU_EVENT_WAIT_EXTERNAL), CUDA_SUCCESS);
    expect_type("wait_type", stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    expect("record", cu.EventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL),
           CUDA_SUCCESS);
    expect_type("record_type", stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    expect("query", cu.EventQuery(event), CUDA_SUCCESS);
    observe("wait_inside_for_external", cu.StreamWaitEvent(stream, event, 0));
    observe_number("status", capture_status_of(stream));
    observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("record_inside", cu.EventRecord(event, stream));
    observe("wait_external_for_captured",
            cu.StreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL));
    observe_number("status", capture_status_of(stream));
    observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
}

static void capture_event_destroyed(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    need("record", cu.EventRecord(event, origin));
    need("wait", cu.StreamWaitEvent(joined, event, 0));
    expect("destroy", cu.EventDestroy(event), CUDA_SUCCESS);
    expect_status("origin", origin, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_status("joined", joined, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    need("set", cu.MemsetD8Async(at, 2, 16, joined));
    fork_to(joined, origin);
    expect_end("end", origin, CUDA_SUCCESS);
}

/* The event carries the dependencies of its record, not later ones. */
static void capture_event_is_a_set(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUevent empty = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("record_empty", cu.EventRecord(empty, origin));
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    CUgraphNode first = capture_node(origin);
    need("record", cu.EventRecord(event, origin));
    need("set", cu.MemsetD8Async(at, 2, 16, origin));
    expect("wait_empty", cu.StreamWaitEvent(joined, empty, 0), CUDA_SUCCESS);
    expect_status("joined", joined, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_number("empty_dependencies", capture_dependencies(joined), 0);
    expect("wait", cu.StreamWaitEvent(joined, event, 0), CUDA_SUCCESS);
    expect_number("dependencies", capture_dependencies(joined), 1);
    expect_yes("first_node", capture_node(joined) == first, true);
    expect_end("end", origin, CUDA_SUCCESS);
}

/* ---- The legacy stream ---------------------------------------------------------------------- */

enum legacy_call {
    LEGACY_SET,
    LEGACY_RECORD,
    LEGACY_WAIT,
    LEGACY_QUERY,
    LEGACY_SYNC,
    LEGACY_COPY,
    LEGACY_STATUS,
    LEGACY_INFO,
    LEGACY_CALLS
};

static CUresult legacy_use(enum legacy_call call, CUdeviceptr at, CUevent event)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    switch (call) {
    case LEGACY_SET:
        return cu.MemsetD8Async(at, 1, 16, NULL);
    case LEGACY_RECORD:
        return cu.EventRecord(event, NULL);
    case LEGACY_WAIT:
        return cu.StreamWaitEvent(NULL, event, 0);
    case LEGACY_QUERY:
        return cu.StreamQuery(NULL);
    case LEGACY_SYNC:
        return cu.StreamSynchronize(NULL);
    case LEGACY_COPY:
        return cu.MemcpyDtoD(at, at + 64, 16);
    case LEGACY_STATUS:
        return cu.StreamIsCapturing(NULL, &status);
    default:
        return cu.StreamGetCaptureInfo(NULL, &status, NULL, NULL, NULL, NULL, NULL);
    }
}

/* Use of the legacy stream while a stream captures; the capture's state after each. */
static void legacy_uses(unsigned flags, CUstreamCaptureMode mode)
{
    static const char *const names[] = {"set",  "record", "wait",   "query",
                                        "sync", "copy",   "status", "info"};
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (int call = 0; call < LEGACY_CALLS; call++) {
        CUstream stream = stream_new(flags);
        CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
        need("record", cu.EventRecord(event, NULL));
        need("sync", cu.CtxSynchronize());
        capture_begin(stream, mode);
        observe(names[call], legacy_use((enum legacy_call)call, at, event));
        observe_number("status", capture_status_of(stream));
        observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
    }
}

static void capture_legacy_blocking_global(void)
{
    legacy_uses(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void capture_legacy_blocking_relaxed(void)
{
    legacy_uses(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void capture_legacy_other_global(void)
{
    legacy_uses(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void capture_legacy_other_relaxed(void)
{
    legacy_uses(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* The legacy stream cannot be joined, blocking or not; the per-thread one can. */
static void capture_legacy_joins(void)
{
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (int blocking = 0; blocking < 2; blocking++) {
        CUstream stream = stream_new(blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
        CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
        capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        need("set", cu.MemsetD8Async(at, 1, 16, stream));
        need("record", cu.EventRecord(event, stream));
        observe(blocking ? "blocking_wait" : "other_wait", cu.StreamWaitEvent(NULL, event, 0));
        observe_number("status", capture_status_of(stream));
        observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
    }
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    fork_to(stream, CU_STREAM_PER_THREAD);
    expect_status("per_thread", CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    need("set", cu.MemsetD8Async(at, 2, 16, CU_STREAM_PER_THREAD));
    observe("legacy_set", cu.MemsetD8Async(at, 2, 16, NULL));
    observe_number("status", capture_status_of(stream));
    observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
}

/* ---- Invalidated captures ------------------------------------------------------------------- */

/* What streams of an invalidated capture still answer. */
static void capture_invalidated(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUevent fresh = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 77;
    CUgraph graph = (CUgraph)(uintptr_t)1;
    size_t count = 77;
    const CUgraphNode *nodes = NULL;
    const CUgraphEdgeData *edges = NULL;
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    need("record", cu.EventRecord(event, origin));
    need("wait", cu.StreamWaitEvent(joined, event, 0));
    expect("query", cu.StreamQuery(joined), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_status("origin", origin, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    expect_status("joined", joined, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    expect("set", cu.MemsetD8Async(at, 1, 16, origin), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect("set_joined", cu.MemsetD8Async(at, 1, 16, joined),
           CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    observe("record", cu.EventRecord(fresh, joined));
    observe("query_fresh", cu.EventQuery(fresh));
    observe("query_captured", cu.EventQuery(event));
    observe("wait", cu.StreamWaitEvent(origin, event, 0));
    observe("wait_from_other", cu.StreamWaitEvent(other, event, 0));
    observe_number("other_status", capture_status_of(other));
    observe("sync", cu.StreamSynchronize(origin));
    observe("query_origin", cu.StreamQuery(origin));
    observe("begin", cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
    observe("info", cu.StreamGetCaptureInfo(origin, &status, &id, &graph, &nodes, &edges, &count));
    observe_yes("info_id_given", id != 77);
    observe_yes("info_graph_given", graph != (CUgraph)(uintptr_t)1);
    observe_number("info_count", count);
    observe("update", cu.StreamUpdateCaptureDependencies(origin, NULL, NULL, 0,
                                                         CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    expect_end("end", origin, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_status("origin_after", origin, CU_STREAM_CAPTURE_STATUS_NONE);
    expect_status("joined_after", joined, CU_STREAM_CAPTURE_STATUS_NONE);
    expect("usable", cu.MemsetD8Async(at, 9, 16, joined), CUDA_SUCCESS);
    expect("usable_sync", cu.StreamSynchronize(joined), CUDA_SUCCESS);
    observe("event_after", cu.EventQuery(event));
}

/* Asking or waiting for a capturing stream is never allowed. */
static void capture_stream_asked(void)
{
    static const char *const names[] = {"global", "local", "relaxed"};
    char label[64];
    for (int mode = 0; mode < 3; mode++) {
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        capture_begin(stream, (CUstreamCaptureMode)mode);
        snprintf(label, sizeof label, "%s_query", names[mode]);
        expect(label, cu.StreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        observe_number("status", capture_status_of(stream));
        expect_end("end", stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        capture_begin(stream, (CUstreamCaptureMode)mode);
        snprintf(label, sizeof label, "%s_sync", names[mode]);
        expect(label, cu.StreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        observe_number("status", capture_status_of(stream));
        expect_end("end", stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

/* The simple questions about a stream are all allowed. */
static void capture_stream_described(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    unsigned long long before = 0;
    unsigned long long during = 0;
    int priority = 1;
    need("id", cu.StreamGetId(stream, &before));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect("id", cu.StreamGetId(stream, &during), CUDA_SUCCESS);
    expect_yes("same", before == during, true);
    expect("priority", cu.StreamGetPriority(stream, &priority), CUDA_SUCCESS);
    expect_status("status", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_end("end", stream, CUDA_SUCCESS);
}

/* ---- Things destroyed ----------------------------------------------------------------------- */

static void capture_destroys_origin(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    fork_to(origin, joined);
    CUresult destroyed = cu.StreamDestroy(origin);
    observe("destroy", destroyed);
    observe_number("joined", capture_status_of(joined));
    observe("set_joined", cu.MemsetD8Async(at, 2, 16, joined));
    if (destroyed != CUDA_SUCCESS) {
        observe_number("origin", capture_status_of(origin));
        observe("end", cu.StreamEndCapture(origin, &(CUgraph){NULL}));
    } else {
        observe("end_joined", cu.StreamEndCapture(joined, &(CUgraph){NULL}));
    }
    observe_number("joined_after", capture_status_of(joined));
    observe("allocates", cu.MemAlloc(&at, 64));
}

static void capture_destroys_joined(void)
{
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (int work = 0; work < 2; work++) {
        CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
        CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
        capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
        need("set", cu.MemsetD8Async(at, 1, 16, origin));
        fork_to(origin, joined);
        if (work) {
            need("set", cu.MemsetD8Async(at + 64, 1, 16, joined));
        }
        observe(work ? "destroy_with_work" : "destroy_without", cu.StreamDestroy(joined));
        observe_number("origin", capture_status_of(origin));
        observe("end", cu.StreamEndCapture(origin, &(CUgraph){NULL}));
    }
}

/* The graph of a capture under way belongs to the capture. */
static void capture_graph_in_use(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    CUgraph clone = NULL;
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    CUgraph graph = capture_graph(stream);
    observe("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
    observe_number("status", capture_status_of(stream));
    observe("clone", cu.GraphClone(&clone, graph));
    observe("add_empty", cu.GraphAddEmptyNode(&node, graph, NULL, 0));
    observe_number("dependencies", capture_dependencies(stream));
    CUresult destroyed = cu.GraphDestroy(graph);
    observe("destroy", destroyed);
    if (destroyed != CUDA_SUCCESS) {
        observe_number("status", capture_status_of(stream));
        observe("end", cu.StreamEndCapture(stream, &graph));
    }
}

/* ---- Dependencies by hand ------------------------------------------------------------------- */

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
    observe_number("added_same", capture_dependencies(stream));
    expect("set_first",
           cu.StreamUpdateCaptureDependencies(stream, nodes, NULL, 1,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES),
           CUDA_SUCCESS);
    expect_number("replaced", capture_dependencies(stream), 1);
    expect_yes("is_first", capture_node(stream) == nodes[0], true);
    expect("flags", cu.StreamUpdateCaptureDependencies(stream, nodes, NULL, 1, 7),
           CUDA_ERROR_INVALID_VALUE);
    observe("null_nodes", cu.StreamUpdateCaptureDependencies(stream, NULL, NULL, 1,
                                                             CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    expect_status("status", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    capture_begin(second, CU_STREAM_CAPTURE_MODE_RELAXED);
    observe("foreign_node", cu.StreamUpdateCaptureDependencies(second, nodes, NULL, 1,
                                                               CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    observe_number("second_status", capture_status_of(second));
    observe_number("stream_status", capture_status_of(stream));
    observe("end_second", cu.StreamEndCapture(second, &(CUgraph){NULL}));
    observe("end_with_loose_node", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
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
    observe("twice", cu.StreamUpdateCaptureDependencies(stream, twice, NULL, 2,
                                                        CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    observe_number("twice_count", capture_dependencies(stream));
    observe("set_after_twice", cu.MemsetD8Async(at, 2, 16, stream));
    need("clear", cu.StreamUpdateCaptureDependencies(stream, NULL, NULL, 0,
                                                     CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    expect("end", cu.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
}

/* ---- Captures into a graph that is there ---------------------------------------------------- */

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
    observe("foreign", cu.StreamBeginCaptureToGraph(stream, graph, &foreign, NULL, 1,
                                                    CU_STREAM_CAPTURE_MODE_RELAXED));
    if (capture_status_of(stream) != CU_STREAM_CAPTURE_STATUS_NONE) {
        observe("end_foreign", cu.StreamEndCapture(stream, &ended));
    }
    expect("begin",
           cu.StreamBeginCaptureToGraph(stream, graph, &empty, NULL, 1,
                                        CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_SUCCESS);
    expect_yes("its_graph", capture_graph(stream) == graph, true);
    expect_number("dependencies", capture_dependencies(stream), 1);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    CUresult twice =
        cu.StreamBeginCaptureToGraph(second, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
    observe("second_capture_same_graph", twice);
    if (twice == CUDA_SUCCESS) {
        observe("end_second_capture", cu.StreamEndCapture(second, &ended));
    }
    expect("set", cu.MemsetD8Async(at, 1, 16, stream), CUDA_SUCCESS);
    expect("end", cu.StreamEndCapture(stream, &ended), CUDA_SUCCESS);
    expect_yes("same", ended == graph, true);
    expect_number("nodes", node_count(graph), 2);
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
    observe_number("nodes_invalidated", node_count(graph));
    expect("end", cu.StreamEndCapture(stream, &ended), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    observe_yes("graph_given", ended == graph);
    observe_number("nodes", node_count(graph));
    expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
}

/* ---- Operations that are special in captures ------------------------------------------------ */

/* Pageable memory in captured copies: taken at the capture or at the launch? */
static void capture_pageable(void)
{
    static unsigned char source[64];
    static unsigned char target[64];
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    source[0] = 1;
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUresult up = cu.MemcpyHtoDAsync(at, source, 16, stream);
    observe("up", up);
    observe_number("status", capture_status_of(stream));
    CUresult down = cu.MemcpyDtoHAsync(target, at, 16, stream);
    observe("down", down);
    observe_number("status", capture_status_of(stream));
    source[0] = 2;
    CUresult ended = cu.StreamEndCapture(stream, &graph);
    observe("end", ended);
    if (ended == CUDA_SUCCESS && up == CUDA_SUCCESS && down == CUDA_SUCCESS) {
        source[0] = 3;
        need("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
        source[0] = 4;
        need("launch", cu.GraphLaunch(exec, stream));
        need("sync", cu.StreamSynchronize(stream));
        observe_number("byte", target[0]);
    }
}

static void capture_values(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUresult wrote = cu.StreamWriteValue32(stream, at, 1, 0);
    observe("write", wrote);
    observe_number("status", capture_status_of(stream));
    if (wrote == CUDA_SUCCESS) {
        expect_type("write_type", stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    }
    observe("wait", cu.StreamWaitValue32(stream, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    observe_number("status", capture_status_of(stream));
    observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
}

/* Allocations in stream order become nodes; the simulated device does not do that. */
static void capture_alloc_async(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = 0;
    CUdeviceptr before = 0;
    need("before", cu.MemAllocAsync(&before, 4096, stream));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUresult result = cu.MemAllocAsync(&at, 4096, stream);
    observe("alloc", result);
    if (result == CUDA_SUCCESS) {
        expect_type("type", stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
        observe("free", cu.MemFreeAsync(at, stream));
        expect_type("type", stream, CU_GRAPH_NODE_TYPE_MEM_FREE);
    }
    observe_number("status", capture_status_of(stream));
    observe("free_outside_block", cu.MemFreeAsync(before, stream));
    observe_number("status", capture_status_of(stream));
    observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
}

static void capture_graph_launch(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph inner = NULL;
    CUgraph outer = NULL;
    CUgraphExec inner_exec = NULL;
    CUgraphExec outer_exec = NULL;
    need("clear", cu.MemsetD8(at, 0, 64));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 5, 16, stream));
    need("end", cu.StreamEndCapture(stream, &inner));
    need("instantiate", cu.GraphInstantiateWithFlags(&inner_exec, inner, 0));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect("launch", cu.GraphLaunch(inner_exec, stream), CUDA_SUCCESS);
    expect_status("status", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_type("type", stream, CU_GRAPH_NODE_TYPE_GRAPH);
    expect("end", cu.StreamEndCapture(stream, &outer), CUDA_SUCCESS);
    expect_number("nodes", node_count(outer), 1);
    expect("inner_exec_destroy", cu.GraphExecDestroy(inner_exec), CUDA_SUCCESS);
    expect("inner_destroy", cu.GraphDestroy(inner), CUDA_SUCCESS);
    expect("instantiate", cu.GraphInstantiateWithFlags(&outer_exec, outer, 0), CUDA_SUCCESS);
    expect("launch", cu.GraphLaunch(outer_exec, stream), CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", byte_at(at), 5);
}

/* Bad arguments of captured calls: does the capture survive? */
static void capture_bad_arguments(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUdeviceptr unmapped = reserve(CHUNK);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("null_event", cu.EventRecord(NULL, stream), CUDA_ERROR_INVALID_HANDLE);
    expect("null_wait", cu.StreamWaitEvent(stream, NULL, 0), CUDA_ERROR_INVALID_HANDLE);
    expect("null_host", cu.LaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    observe_number("status", capture_status_of(stream));
    observe("misaligned", cu.MemsetD32Async(at + 2, 1, 4, stream));
    observe_number("status", capture_status_of(stream));
    observe("set_unmapped", cu.MemsetD8Async(unmapped, 1, 16, stream));
    observe_number("status", capture_status_of(stream));
    observe("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}));
}

const struct scenario capture_scenarios[] = {
    {NULL, NULL, false},
};

const struct scenario capture_device_scenarios[] = {
    {"capture_begins_and_ends", capture_begins_and_ends, false},
    {"capture_default_streams", capture_default_streams, false},
    {"capture_info", capture_info, false},
    {"capture_nodes", capture_nodes, false},
    {"capture_runs_nothing", capture_runs_nothing, false},
    {"capture_fork_and_join", capture_fork_and_join, false},
    {"capture_redundant_waits", capture_redundant_waits, false},
    {"capture_unjoined", capture_unjoined, false},
    {"capture_joined_without_work", capture_joined_without_work, false},
    {"capture_end_on_joined", capture_end_on_joined, false},
    {"capture_merge", capture_merge, false},
    {"capture_event_asked", capture_event_asked, false},
    {"capture_event_afterwards", capture_event_afterwards, false},
    {"capture_event_recorded_outside", capture_event_recorded_outside, false},
    {"capture_event_pending", capture_event_pending_then_captured, false},
    {"capture_waits_for_outside", capture_waits_for_outside, false},
    {"capture_waits_for_own_past", capture_waits_for_own_past, false},
    {"capture_external_events", capture_external_events, false},
    {"capture_event_destroyed", capture_event_destroyed, false},
    {"capture_event_is_a_set", capture_event_is_a_set, false},
    {"capture_legacy_blocking_global", capture_legacy_blocking_global, false},
    {"capture_legacy_blocking_relaxed", capture_legacy_blocking_relaxed, false},
    {"capture_legacy_other_global", capture_legacy_other_global, false},
    {"capture_legacy_other_relaxed", capture_legacy_other_relaxed, false},
    {"capture_legacy_joins", capture_legacy_joins, false},
    {"capture_invalidated", capture_invalidated, false},
    {"capture_stream_asked", capture_stream_asked, false},
    {"capture_stream_described", capture_stream_described, false},
    {"capture_destroys_origin", capture_destroys_origin, false},
    {"capture_destroys_joined", capture_destroys_joined, false},
    {"capture_graph_in_use", capture_graph_in_use, false},
    {"capture_update_dependencies", capture_update_dependencies, false},
    {"capture_update_dropping", capture_update_dropping, false},
    {"capture_to_graph", capture_to_graph, false},
    {"capture_to_graph_fails", capture_to_graph_fails, false},
    {"capture_pageable", capture_pageable, false},
    {"capture_values", capture_values, false},
    {"capture_alloc_async", capture_alloc_async, false},
    {"capture_graph_launch", capture_graph_launch, false},
    {"capture_bad_arguments", capture_bad_arguments, false},
    {NULL, NULL, false},
};
