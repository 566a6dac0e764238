/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures on the simulated device: what begins, joins and ends one, what becomes a node, what
 * events stand for, and what is left after every way to fail. Which calls a capture forbids is in
 * test_capture_calls.c; that a real device has the same rules is for the conformance scenarios.
 *
 * Seen to fail when these lines were taken out or turned, one at a time: in capture_rules.c what
 * sets `invalid` for implicit uses (test_implicit), for asked streams (test_invalid), for either
 * side of a wait across (test_isolation, test_merge), the look-up of nodes that a set has already
 * (test_fork_and_join), `depends.count = 1` (seven tests), the set that a record keeps
 * (test_event_is_a_set); in capture.c the unjoined case (test_unjoined), the end with the origin's
 * stream (test_destroyed), `given` (test_to_graph); sim_capture_take in sim_submit (ten tests);
 * the rule for pageable sources (test_runs_nothing); sim_capture_forget in sim_event_mark
 * (test_event_afterwards); what a wait adds to a set (test_fork_and_join); what a wait for no event
 * breaks (test_asked); the check of events measured between (test_event_asked). Without
 * sim_capture_reset in simcuda_reset the program crashes in test_reset_during_capture.
 */
#include "fixture.h"

#include <string.h>

static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                            CU_STREAM_CAPTURE_MODE_RELAXED};

/* ---- steps ---------------------------------------------------------------------------------- */

struct capture {
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    const CUgraphNode *nodes;
    const CUgraphEdgeData *edges;
    size_t count;
};

static struct capture info(CUstream stream)
{
    struct capture capture;
    memset(&capture, 0, sizeof(capture));
    assert_ok(cuStreamGetCaptureInfo_v3(stream, &capture.status, &capture.id, &capture.graph,
                                        &capture.nodes, &capture.edges, &capture.count));
    return capture;
}

static void begin(CUstream stream)
{
    assert_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static CUresult end(CUstream stream)
{
    CUgraph graph = (CUgraph)(uintptr_t)1;
    CUresult result = cuStreamEndCapture(stream, &graph);
    if (result == CUDA_SUCCESS)
        assert_ok(cuGraphDestroy(graph));
    else
        assert_null(graph);
    return result;
}

static CUgraph ended(CUstream stream)
{
    CUgraph graph = NULL;
    assert_ok(cuStreamEndCapture(stream, &graph));
    return graph;
}

static CUstreamCaptureStatus status(CUstream stream)
{
    return info(stream).status;
}

static void set(CUstream stream, CUdeviceptr at, unsigned char value)
{
    assert_ok(cuMemsetD8Async(at, value, 16, stream));
}

static void fork_to(CUstream from, CUstream to)
{
    CUevent event = event_new();
    assert_ok(cuEventRecord(event, from));
    assert_ok(cuStreamWaitEvent(to, event, 0));
    assert_ok(cuEventDestroy(event));
}

static size_t node_count(CUgraph graph)
{
    size_t count = 0;
    assert_ok(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

static unsigned byte_at(CUdeviceptr at)
{
    unsigned char byte = 0;
    assert_ok(cuMemcpyDtoH(&byte, at, 1));
    return byte;
}

static void launch(CUgraph graph, CUstream stream)
{
    CUgraphExec exec = NULL;
    assert_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuGraphExecDestroy(exec));
}

/* ---- beginning and ending ------------------------------------------------------------------- */

static void test_begin_and_end(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
        assert_int_equal(end(stream), CUDA_ERROR_ILLEGAL_STATE);
        assert_ok(cuStreamBeginCapture(stream, modes[i]));
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        assert_int_equal(cuStreamBeginCapture(stream, modes[i]), CUDA_ERROR_ILLEGAL_STATE);
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        assert_ok(end(stream));
    }
    assert_int_equal(cuStreamBeginCapture(stream, (CUstreamCaptureMode)3),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    begin(CU_STREAM_PER_THREAD);
    assert_ok(end(CU_STREAM_PER_THREAD));
    begin(stream);
    assert_ok(cuStreamEndCapture(stream, NULL)); /* and nobody wants the graph */
    assert_int_equal(simcuda_violations(), 0);
}

static void test_info(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUstreamCaptureStatus only = CU_STREAM_CAPTURE_STATUS_NONE;
    struct capture none = info(stream);
    assert_null(none.graph); /* untouched */
    begin(stream);
    struct capture first = info(stream);
    assert_int_equal(first.count, 0);
    assert_non_null(first.graph);
    set(stream, at, 1);
    struct capture second = info(stream);
    assert_true(second.graph == first.graph && second.id == first.id);
    assert_int_equal(second.count, 1);
    assert_non_null(second.nodes[0]);
    assert_int_equal(second.edges[0].type, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
    assert_ok(cuStreamGetCaptureInfo_v3(stream, &only, NULL, NULL, NULL, NULL, NULL));
    assert_int_equal(only, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(cuStreamGetCaptureInfo_v3(stream, NULL, NULL, NULL, NULL, NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    CUgraph graph = ended(stream);
    assert_ptr_equal(graph, first.graph);
    begin(stream);
    assert_true(info(stream).id != first.id);
    assert_ok(end(stream));
    assert_ok(cuGraphDestroy(graph));
}

/* Nothing runs when it is captured, and everything when the graph is launched. */
static void test_runs_nothing(void **state)
{
    (void)state;
    fixture_start("SCHEDULE=eager", NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    static unsigned char source[16];
    static unsigned char target[16];
    volatile uint32_t *gate = gate_new();
    set(stream, at, 9);
    gate_close(stream, gate);
    set(stream, at, 1);
    begin(stream); /* behind queued work */
    set(stream, at, 2);
    assert_ok(cuMemcpyDtoDAsync(at + 64, at, 16, stream));
    source[0] = 3; /* pageable memory: read and written by launches */
    assert_ok(cuMemcpyHtoDAsync(at + 128, source, 16, stream));
    assert_ok(cuMemcpyDtoHAsync(target, at + 128, 16, stream));
    source[0] = 4;
    assert_int_equal(simcuda_pending(), 2);
    CUgraph graph = ended(stream);
    assert_int_equal(node_count(graph), 4);
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(byte_at(at), 1);
    assert_int_equal(byte_at(at + 64), 0);
    assert_int_equal(target[0], 0);
    launch(graph, stream);
    assert_int_equal(byte_at(at), 2);
    assert_int_equal(byte_at(at + 64), 2);
    assert_int_equal(byte_at(at + 128), 4);
    assert_int_equal(target[0], 4);
    assert_ok(cuGraphDestroy(graph));
}

/* ---- several streams ------------------------------------------------------------------------ */

static void test_fork_and_join(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined[4];
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    begin(origin);
    set(origin, at, 1);
    for (int i = 0; i < 4; i++) {
        joined[i] = stream_new(CU_STREAM_NON_BLOCKING);
        fork_to(origin, joined[i]);
        assert_int_equal(status(joined[i]), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        assert_int_equal(info(joined[i]).id, info(origin).id);
        assert_ptr_equal(info(joined[i]).nodes[0], info(origin).nodes[0]);
        set(joined[i], at + 64 * (size_t)(i + 1), 2);
    }
    for (int i = 0; i < 4; i++) {
        fork_to(joined[i], origin);
        assert_int_equal(info(origin).count, 2 + i); /* its own past stays in the set */
    }
    fork_to(joined[0], origin); /* once more changes nothing */
    assert_int_equal(info(origin).count, 5);
    set(origin, at, 3);
    assert_int_equal(info(origin).count, 1);
    CUgraph graph = ended(origin);
    size_t edges = 0;
    assert_int_equal(node_count(graph), 6);
    assert_ok(cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &edges));
    assert_int_equal(edges, 9);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(status(joined[i]), CU_STREAM_CAPTURE_STATUS_NONE);
        set(joined[i], at, 4); /* runs again */
        assert_ok(cuStreamSynchronize(joined[i]));
    }
    assert_int_equal(byte_at(at), 4);
    assert_ok(cuGraphDestroy(graph));
}

/* What a stream ends with must come before what the origin ends with. */
static void test_unjoined(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    begin(origin);
    set(origin, at, 1);
    fork_to(origin, joined);
    assert_ok(end(origin)); /* without work there is nothing to join */
    begin(origin);
    fork_to(origin, joined);
    set(joined, at, 1);
    assert_int_equal(end(origin), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_int_equal(status(origin), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(status(joined), CU_STREAM_CAPTURE_STATUS_NONE);
    begin(origin);
    fork_to(origin, joined);
    set(joined, at, 1);
    fork_to(joined, origin);
    set(joined, at + 64, 1); /* after the join */
    assert_int_equal(end(origin), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    begin(origin);
    fork_to(origin, joined);
    set(joined, at, 1);
    assert_ok(cuStreamDestroy(joined)); /* the work is still not joined */
    assert_int_equal(status(origin), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(end(origin), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    begin(origin);
    assert_ok(end(origin));
}

static void test_end_elsewhere(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    begin(origin);
    fork_to(origin, joined);
    assert_int_equal(end(joined), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_int_equal(status(origin), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(end(joined), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_int_equal(cuStreamBeginCapture(joined, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(end(origin), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(status(joined), CU_STREAM_CAPTURE_STATUS_NONE);
}

/* 10,000 nodes in a row: the walk at the end must not be one of nested calls. */
static void test_long_capture(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    begin(origin);
    for (int i = 0; i < 5000; i++) {
        set(origin, at, 1);
        fork_to(origin, joined);
        set(joined, at, 2);
        fork_to(joined, origin);
    }
    CUgraph graph = ended(origin);
    assert_int_equal(node_count(graph), 10000);
    assert_ok(cuGraphDestroy(graph));
}

/* ---- waits across --------------------------------------------------------------------------- */

static void test_isolation(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new();
    for (int i = 0; i < 3; i++) {
        CUevent never = event_new();
        assert_ok(cuEventRecord(event, i == 0 ? stream : other)); /* before, also in the same */
        assert_ok(cuCtxSynchronize());
        assert_ok(cuStreamBeginCapture(stream, modes[i]));
        assert_ok(cuStreamWaitEvent(stream, never, 0));
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        assert_int_equal(end(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

static void test_merge(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream first = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new();
    begin(first);
    begin(second);
    assert_ok(cuEventRecord(event, first));
    assert_int_equal(cuStreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    assert_int_equal(status(first), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(end(second), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(end(first), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* ---- events --------------------------------------------------------------------------------- */

static void test_event_asked(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    float ms = 0;
    for (int i = 0; i < 6; i++) {
        CUevent event = event_new();
        assert_ok(cuEventRecord(event, stream));
        assert_ok(cuStreamBeginCapture(stream, modes[i % 3]));
        assert_ok(cuEventRecord(event, stream));
        CUevent never = event_new();
        assert_int_equal(cuEventElapsedTime_v2(&ms, event, event), CUDA_ERROR_CAPTURED_EVENT);
        assert_int_equal(cuEventElapsedTime_v2(&ms, event, never), CUDA_ERROR_CAPTURED_EVENT);
        assert_int_equal(cuEventElapsedTime_v2(&ms, never, event), CUDA_ERROR_INVALID_HANDLE);
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        assert_int_equal(i < 3 ? cuEventQuery(event) : cuEventSynchronize(event),
                         CUDA_ERROR_CAPTURED_EVENT);
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        assert_int_equal(cuEventElapsedTime_v2(&ms, event, event), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(end(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_ok(cuEventDestroy(event));
    }
}

/* After its capture a captured event stands for nothing, until it is recorded again. */
static void test_event_afterwards(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUevent event = event_new();
    begin(stream);
    set(stream, at, 1);
    assert_ok(cuEventRecord(event, stream));
    assert_ok(end(stream));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuEventSynchronize(event), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWaitEvent(other, event, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(status(other), CU_STREAM_CAPTURE_STATUS_NONE);
    begin(stream);
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(end(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_ok(cuEventRecord(event, other));
    assert_ok(cuEventSynchronize(event));
    assert_ok(cuEventQuery(event));
    begin(stream);
    assert_ok(cuEventRecord(event, stream));
    assert_ok(cuEventRecord(event, other)); /* takes it out of the capture, which goes on */
    assert_ok(cuEventSynchronize(event));
    assert_ok(end(stream));
}

/* An event keeps the set of its record; destroying it takes nothing from who waited. */
static void test_event_is_a_set(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUevent empty = event_new();
    CUevent event = event_new();
    begin(origin);
    assert_ok(cuEventRecord(empty, origin));
    set(origin, at, 1);
    CUgraphNode first = info(origin).nodes[0];
    assert_ok(cuEventRecord(event, origin));
    set(origin, at, 2);
    assert_ok(cuStreamWaitEvent(joined, empty, 0));
    assert_int_equal(info(joined).count, 0);
    assert_ok(cuStreamWaitEvent(joined, event, 0));
    assert_ok(cuEventDestroy(event));
    assert_int_equal(info(joined).count, 1);
    assert_ptr_equal(info(joined).nodes[0], first);
    assert_ok(end(origin));
    assert_ok(cuEventDestroy(empty));
}

/* External records and waits are nodes, and nothing else than nodes. */
static void test_external_events(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent before = event_new();
    CUevent after = event_new();
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    assert_ok(cuEventRecord(before, other));
    assert_int_equal(cuEventRecordWithFlags(after, stream, CU_EVENT_RECORD_EXTERNAL),
                     CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(cuStreamWaitEvent(stream, before, CU_EVENT_WAIT_EXTERNAL),
                     CUDA_ERROR_ILLEGAL_STATE);
    begin(stream);
    assert_ok(cuStreamWaitEvent(stream, before, CU_EVENT_WAIT_EXTERNAL));
    assert_ok(cuGraphNodeGetType(info(stream).nodes[0], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    assert_ok(cuEventRecordWithFlags(after, stream, CU_EVENT_RECORD_EXTERNAL));
    assert_ok(cuGraphNodeGetType(info(stream).nodes[0], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    assert_ok(cuEventQuery(after)); /* never recorded so far */
    CUgraph graph = ended(stream);
    volatile uint32_t *gate = gate_new();
    gate_close(other, gate);
    assert_ok(cuEventRecord(before, other));
    CUgraphExec exec = NULL;
    assert_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(cuGraphLaunch(exec, stream));
    assert_int_equal(cuEventQuery(after), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuEventSynchronize(after));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(graph));
}

/* ---- the legacy stream ---------------------------------------------------------------------- */

static void test_implicit(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUstreamCaptureStatus asked = CU_STREAM_CAPTURE_STATUS_NONE;
    for (int call = 0; call < 7; call++) {
        CUstream stream = call == 6 ? CU_STREAM_PER_THREAD : stream_new(CU_STREAM_DEFAULT);
        CUevent event = event_new();
        begin(stream);
        assert_int_equal(cuStreamIsCapturing(NULL, &asked), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        CUresult result = call == 0   ? cuMemsetD8Async(at, 1, 16, NULL)
                          : call == 1 ? cuEventRecord(event, NULL)
                          : call == 2 ? cuStreamWaitEvent(NULL, event, 0)
                          : call == 3 ? cuStreamQuery(NULL)
                          : call == 4 ? cuStreamSynchronize(CU_STREAM_LEGACY)
                          : call == 5 ? cuMemcpyDtoD(at, at + 64, 16)
                                      : cuMemsetD8(at, 1, 16);
        assert_int_equal(result, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        assert_int_equal(end(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    /* A stream that does not wait for the legacy one leaves it free. */
    CUstream separate = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new();
    begin(separate);
    assert_ok(cuMemsetD8Async(at, 1, 16, NULL));
    assert_ok(cuStreamQuery(separate == NULL ? separate : CU_STREAM_PER_THREAD));
    assert_int_equal(status(separate), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(cuEventRecord(event, separate));
    assert_int_equal(cuStreamWaitEvent(NULL, event, 0), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(end(separate), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* Joined streams count like the origin. */
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    begin(separate);
    fork_to(separate, blocking);
    assert_int_equal(cuMemsetD8Async(at, 1, 16, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(end(separate), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_ok(cuMemsetD8Async(at, 1, 16, NULL));
}

/* ---- invalid captures ----------------------------------------------------------------------- */

static void test_invalid(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUevent event = event_new();
    CUevent fresh = event_new();
    begin(origin);
    set(origin, at, 1);
    assert_ok(cuEventRecord(event, origin));
    assert_ok(cuStreamWaitEvent(joined, event, 0));
    assert_int_equal(cuStreamQuery(joined), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    for (int i = 0; i < 2; i++) {
        CUstream stream = i == 0 ? origin : joined;
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        assert_null(info(stream).graph);
        assert_int_equal(cuMemsetD8Async(at, 1, 16, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_int_equal(cuEventRecord(fresh, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_int_equal(cuStreamWaitEvent(stream, event, 0),
                         CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_int_equal(cuStreamUpdateCaptureDependencies_v2(stream, NULL, NULL, 0,
                                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                         CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    assert_ok(cuEventQuery(fresh));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(end(origin), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    set(joined, at, 9);
    assert_ok(cuStreamSynchronize(joined));
    assert_int_equal(byte_at(at), 9);
}

/* Questions and calls that a capturing stream does not stand, and some that it does. */
static void test_asked(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    unsigned long long id = 0;
    unsigned flags = 0;
    int priority = 0;
    CUcontext context = NULL;
    CUdevice device = 0;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    assert_ok(cuGraphCreate(&graph, 0));
    assert_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int call = 0; call < 5; call++) {
        begin(stream);
        CUresult result = call == 0   ? cuStreamGetId(stream, &id)
                          : call == 1 ? cuStreamGetFlags(stream, &flags)
                          : call == 2 ? cuStreamGetDevice(stream, &device)
                          : call == 3 ? cuGraphLaunch(exec, stream)
                                      : cuStreamWaitEvent(stream, NULL, 0);
        assert_int_equal(result, call == 4 ? CUDA_ERROR_INVALID_HANDLE
                                           : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert_int_equal(end(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    begin(stream);
    assert_ok(cuStreamGetPriority(stream, &priority));
    assert_ok(cuStreamGetCtx(stream, &context));
    assert_int_equal(cuEventRecord(NULL, stream), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD32Async(at + 2, 1, 4, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoDAsync(at, reserve(CHUNK), 16, stream), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemsetD8Async(reserve(CHUNK), 1, 16, stream)); /* only looked at when it runs */
    assert_ok(end(stream));
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(graph));
}

/* What the simulation has no nodes for is refused, and not only half. */
static void test_unsupported(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUdeviceptr block = 0;
    assert_ok(cuMemAllocAsync(&block, 4096, stream));
    for (int call = 0; call < 3; call++) {
        begin(stream);
        CUdeviceptr more = 0;
        assert_int_equal(call == 0   ? cuMemAllocAsync(&more, 4096, stream)
                         : call == 1 ? cuStreamWriteValue32(stream, at, 1, 0)
                                     : cuStreamWaitValue32(stream, at, 1, 0),
                         CUDA_ERROR_NOT_SUPPORTED);
        assert_int_equal(end(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    begin(stream);
    assert_int_equal(cuMemFreeAsync(block, stream), CUDA_ERROR_INVALID_VALUE);
    assert_ok(end(stream));
    assert_ok(cuMemFreeAsync(block, stream)); /* still there */
}

/* ---- things destroyed ----------------------------------------------------------------------- */

static void test_destroyed(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    begin(origin);
    set(origin, at, 1);
    fork_to(origin, joined);
    assert_int_equal(cuGraphDestroy(info(origin).graph), CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(status(origin), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(cuStreamDestroy(origin));
    assert_int_equal(status(joined), CU_STREAM_CAPTURE_STATUS_NONE);
    set(joined, at, 5);
    assert_ok(cuStreamSynchronize(joined));
    assert_int_equal(byte_at(at), 5);
    CUdeviceptr block = 0;
    assert_ok(cuMemAlloc(&block, 64)); /* nothing forbids it any more */
    assert_ok(cuMemFree(block));
}

/* A reset, and the end of a context, with captures in every state: ASan sees what is left. */
static void test_reset_during_capture(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        fixture_start(NULL);
        CUstream streams[4];
        CUdeviceptr at = chunk_mapped(CHUNK, NULL);
        CUevent event = event_new();
        for (int i = 0; i < 4; i++)
            streams[i] = stream_new(CU_STREAM_NON_BLOCKING);
        begin(streams[0]);
        begin(streams[1]);
        set(streams[0], at, 1);
        (void)info(streams[0]);
        assert_ok(cuEventRecord(event, streams[0]));
        assert_ok(cuStreamWaitEvent(streams[2], event, 0));
        assert_ok(cuStreamWaitEvent(streams[3], event, 0));
        assert_ok(cuStreamDestroy(streams[3]));
        assert_int_equal(cuStreamQuery(streams[1]), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        if (how == 1) {
            assert_ok(cuDevicePrimaryCtxReset(0));
            assert_ok(cuDevicePrimaryCtxRetain(&(CUcontext){NULL}, 0));
            CUdeviceptr block = 0;
            assert_ok(cuMemAlloc(&block, 64));
        }
        assert_true(simcuda_reset() > 0);
        fixture_start(NULL);
        assert_int_equal(simcuda_reset(), 1); /* the fixture's reference to the context */
    }
}

/* ---- dependencies by hand ------------------------------------------------------------------- */

static void test_update_dependencies(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraphNode nodes[2];
    size_t edges = 0;
    const unsigned add = CU_STREAM_ADD_CAPTURE_DEPENDENCIES;
    const unsigned replace = CU_STREAM_SET_CAPTURE_DEPENDENCIES;
    assert_int_equal(cuStreamUpdateCaptureDependencies_v2(stream, NULL, NULL, 0, replace),
                     CUDA_ERROR_ILLEGAL_STATE);
    begin(stream);
    set(stream, at, 1);
    nodes[0] = info(stream).nodes[0];
    assert_ok(cuStreamUpdateCaptureDependencies_v2(stream, NULL, NULL, 0, replace));
    assert_int_equal(info(stream).count, 0);
    set(stream, at + 64, 1); /* a second root */
    nodes[1] = info(stream).nodes[0];
    assert_ok(cuGraphGetEdges_v2(info(stream).graph, NULL, NULL, NULL, &edges));
    assert_int_equal(edges, 0);
    assert_ok(cuStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, 1, add));
    assert_int_equal(info(stream).count, 2);
    assert_ok(cuStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, 2, add));
    assert_int_equal(info(stream).count, 2);
    assert_ok(cuStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, 1, replace));
    assert_int_equal(info(stream).count, 1);
    assert_ptr_equal(info(stream).nodes[0], nodes[0]);
    assert_int_equal(cuStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, 1, 2),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamUpdateCaptureDependencies_v2(stream, NULL, NULL, 1, replace),
                     CUDA_ERROR_INVALID_VALUE);
    begin(other);
    assert_int_equal(cuStreamUpdateCaptureDependencies_v2(other, nodes, NULL, 1, replace),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(end(other));
    assert_ok(end(stream)); /* what was taken out of a set need not be joined */
}

static void test_to_graph(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = NULL;
    CUgraph foreign = NULL;
    CUgraphNode root = NULL;
    CUgraphNode outside = NULL;
    const CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    assert_ok(cuGraphCreate(&graph, 0));
    assert_ok(cuGraphCreate(&foreign, 0));
    assert_ok(cuGraphAddEmptyNode(&root, graph, NULL, 0));
    assert_ok(cuGraphAddEmptyNode(&outside, foreign, NULL, 0));
    assert_int_equal(cuStreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, mode),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBeginCaptureToGraph(stream, graph, &outside, NULL, 1, mode),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBeginCaptureToGraph(NULL, graph, NULL, NULL, 0, mode),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_ok(cuStreamBeginCaptureToGraph(stream, graph, &root, NULL, 1, mode));
    assert_int_equal(cuStreamBeginCaptureToGraph(other, graph, NULL, NULL, 0, mode),
                     CUDA_ERROR_ILLEGAL_STATE);
    assert_ptr_equal(info(stream).graph, graph);
    assert_ptr_equal(info(stream).nodes[0], root);
    set(stream, at, 7);
    assert_ptr_equal(ended(stream), graph);
    assert_int_equal(node_count(graph), 2);
    launch(graph, stream);
    assert_int_equal(byte_at(at), 7);
    assert_ok(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, mode));
    assert_ok(cuStreamEndCapture(stream, NULL)); /* the program still has it */
    assert_int_equal(node_count(graph), 2);
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuStreamBeginCaptureToGraph(stream, foreign, NULL, NULL, 0, mode));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(end(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cuGraphDestroy(foreign), CUDA_ERROR_INVALID_VALUE); /* it went along */
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_begin_and_end),
        CASE(test_info),
        CASE(test_runs_nothing),
        CASE(test_fork_and_join),
        CASE(test_unjoined),
        CASE(test_end_elsewhere),
        CASE(test_long_capture),
        CASE(test_isolation),
        CASE(test_merge),
        CASE(test_event_asked),
        CASE(test_event_afterwards),
        CASE(test_event_is_a_set),
        CASE(test_external_events),
        CASE(test_implicit),
        CASE(test_invalid),
        CASE(test_asked),
        CASE(test_unsupported),
        CASE(test_destroyed),
        CASE(test_reset_during_capture),
        CASE(test_update_dependencies),
        CASE(test_to_graph),
    };
    return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
