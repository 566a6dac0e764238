/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios: what breaks a capture and what it is then, things destroyed under one, and operations
 * that are special in one.
 */
#include "capture.h"
#include "graph.h"

#include <stdio.h>

/* ---- invalidated captures ------------------------------------------------------------------- */

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
    expect("record", cu.EventRecord(fresh, joined), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect("query_fresh", cu.EventQuery(fresh), CUDA_SUCCESS);
    expect("query_captured", cu.EventQuery(event), CUDA_ERROR_INVALID_VALUE);
    expect("wait", cu.StreamWaitEvent(origin, event, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect("wait_from_other", cu.StreamWaitEvent(other, event, 0), CUDA_ERROR_INVALID_VALUE);
    expect_number("other_status", capture_status_of(other), 0);
    expect("sync", cu.StreamSynchronize(origin), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect("query_origin", cu.StreamQuery(origin), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect("begin", cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_ERROR_ILLEGAL_STATE);
    expect("info", cu.StreamGetCaptureInfo(origin, &status, &id, &graph, &nodes, &edges, &count),
           CUDA_SUCCESS);
    expect_yes("info_id_given", id != 77, 0);
    expect_yes("info_graph_given", graph != (CUgraph)(uintptr_t)1, 0);
    expect_number("info_count", count, 77);
    expect("update",
           cu.StreamUpdateCaptureDependencies(origin, NULL, NULL, 0,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES),
           CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_end("end", origin, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_status("origin_after", origin, CU_STREAM_CAPTURE_STATUS_NONE);
    expect_status("joined_after", joined, CU_STREAM_CAPTURE_STATUS_NONE);
    expect("usable", cu.MemsetD8Async(at, 9, 16, joined), CUDA_SUCCESS);
    expect("usable_sync", cu.StreamSynchronize(joined), CUDA_SUCCESS);
    expect("event_after", cu.EventQuery(event), CUDA_ERROR_INVALID_VALUE);
}

/* Asking or waiting for a capturing stream is never allowed. */
static void capture_stream_asked(void)
{
    static const char *const names[] = {"global", "local", "relaxed"};
    char label[64];
    for (int mode = 0; mode < 3; mode++) {
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        capture_begin(stream, (CUstreamCaptureMode)mode);
        snprintf(label, sizeof(label), "%s_query", names[mode]);
        expect(label, cu.StreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_outcome(stream, 1);
        capture_begin(stream, (CUstreamCaptureMode)mode);
        snprintf(label, sizeof(label), "%s_sync", names[mode]);
        expect(label, cu.StreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_outcome(stream, 1);
    }
}

/* Some questions about a capturing stream break its capture, in every mode; others do not. */
static void described(int question, CUstream stream, const char *label)
{
    int broken = question == 0 || question == 2 || question == 4;
    unsigned long long id = 0;
    int priority = 0;
    unsigned flags = 0;
    CUcontext context = NULL;
    CUdevice device = 0;
    expect(label,
           question == 0   ? cu.StreamGetId(stream, &id)
           : question == 1 ? cu.StreamGetPriority(stream, &priority)
           : question == 2 ? cu.StreamGetFlags(stream, &flags)
           : question == 3 ? cu.StreamGetCtx(stream, &context)
                           : cu.StreamGetDevice(stream, &device),
           broken ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
    expect_outcome(stream, broken);
}

static void capture_stream_questions(void)
{
    static const char *const labels[] = {"id", "priority", "flags", "context", "device"};
    for (int question = 0; question < 5; question++) {
        for (int mode = 0; mode < 3; mode++) {
            CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
            capture_begin(stream, (CUstreamCaptureMode)mode);
            described(question, stream, labels[question]);
        }
    }
    unsigned long long id = 0;
    CUstream stream = stream_new(CU_STREAM_DEFAULT);
    CUstream other = stream_new(CU_STREAM_DEFAULT);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect("other_id", cu.StreamGetId(other, &id), CUDA_SUCCESS);
    expect_status("status", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect("legacy_id", cu.StreamGetId(NULL, &id), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_outcome(stream, 1);
}

/* ---- things destroyed ----------------------------------------------------------------------- */

static void capture_destroys_origin(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    capture_fork_to(origin, joined);
    expect("destroy", cu.StreamDestroy(origin), CUDA_SUCCESS);
    expect_status("joined", joined, CU_STREAM_CAPTURE_STATUS_NONE);
    expect("set_joined", cu.MemsetD8Async(at, 2, 16, joined), CUDA_SUCCESS);
    expect_end("end_joined", joined, CUDA_ERROR_ILLEGAL_STATE);
    expect("allocates", cu.MemAlloc(&at, 64), CUDA_SUCCESS);
}

static void capture_destroys_joined(void)
{
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (int work = 0; work < 2; work++) {
        CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
        CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
        capture_begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
        need("set", cu.MemsetD8Async(at, 1, 16, origin));
        capture_fork_to(origin, joined);
        if (work)
            need("set", cu.MemsetD8Async(at + 64, 1, 16, joined));
        expect(work ? "destroy_with_work" : "destroy_without", cu.StreamDestroy(joined),
               CUDA_SUCCESS);
        expect_status("origin", origin, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        expect_end("end", origin, work ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_SUCCESS);
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
    expect("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    expect_number("status", capture_status_of(stream), 1);
    expect("clone", cu.GraphClone(&clone, graph), CUDA_SUCCESS);
    expect("add_empty", cu.GraphAddEmptyNode(&node, graph, NULL, 0), CUDA_SUCCESS);
    expect_number("dependencies", capture_dependencies(stream), 1);
    CUresult destroyed = cu.GraphDestroy(graph);
    expect("destroy", destroyed, CUDA_ERROR_ILLEGAL_STATE);
    if (destroyed != CUDA_SUCCESS) {
        expect_number("status", capture_status_of(stream), 1);
        expect("end", cu.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
    }
}

static void CUDA_CB tell(void *flag)
{
    __atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
}

/* A user object given to the graph while it is being captured, into a capture that gives a graph or
 * one that does not. */
static void capture_user_object(void)
{
    static int destroyed[2];
    for (int joins = 0; joins < 2; joins++) {
        CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
        CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
        CUdeviceptr at = chunk_mapped(CHUNK, NULL);
        CUuserObject object = NULL;
        CUgraph graph = NULL;
        destroyed[joins] = 0;
        capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
        need("set", cu.MemsetD8Async(at, 1, 16, origin));
        capture_fork_to(origin, joined);
        need("set", cu.MemsetD8Async(at + 64, 1, 16, joined));
        expect("create",
               cu.UserObjectCreate(&object, &destroyed[joins], tell, 1,
                                   CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
               CUDA_SUCCESS);
        expect(
            "retain",
            cu.GraphRetainUserObject(capture_graph(origin), object, 1, CU_GRAPH_USER_OBJECT_MOVE),
            CUDA_SUCCESS);
        expect_status("status", origin, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        if (joins)
            capture_fork_to(joined, origin);
        CUresult ended = cu.StreamEndCapture(origin, &graph);
        expect("end", ended, joins ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        expect_yes("destroyed", flag_awaited(&destroyed[joins], joins ? 50 : RETURNS_MS), !joins);
        if (ended == CUDA_SUCCESS) {
            expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
            expect_yes("destroyed_with_it", flag_awaited(&destroyed[joins], RETURNS_MS), 1);
        }
    }
}

/* ---- operations that are special in captures ------------------------------------------------ */

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
    expect("up", up, CUDA_SUCCESS);
    expect_number("status", capture_status_of(stream), 1);
    CUresult down = cu.MemcpyDtoHAsync(target, at, 16, stream);
    expect("down", down, CUDA_SUCCESS);
    expect_number("status", capture_status_of(stream), 1);
    source[0] = 2;
    CUresult ended = cu.StreamEndCapture(stream, &graph);
    expect("end", ended, CUDA_SUCCESS);
    if (ended == CUDA_SUCCESS && up == CUDA_SUCCESS && down == CUDA_SUCCESS) {
        source[0] = 3;
        need("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
        source[0] = 4;
        need("launch", cu.GraphLaunch(exec, stream));
        need("sync", cu.StreamSynchronize(stream));
        expect_number("byte", target[0], 4);
    }
}

static void capture_values(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUresult wrote = cu.StreamWriteValue32(stream, at, 1, 0);
    expect("write", wrote, CUDA_SUCCESS);
    expect_number("status", capture_status_of(stream), 1);
    if (wrote == CUDA_SUCCESS)
        expect_node_type("write_type", stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    expect("wait", cu.StreamWaitValue32(stream, at, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    expect_number("status", capture_status_of(stream), 1);
    expect("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}), CUDA_SUCCESS);
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
    expect("alloc", result, CUDA_SUCCESS);
    if (result == CUDA_SUCCESS) {
        expect_node_type("type", stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
        expect("free", cu.MemFreeAsync(at, stream), CUDA_SUCCESS);
        expect_node_type("type", stream, CU_GRAPH_NODE_TYPE_MEM_FREE);
    }
    expect_number("status", capture_status_of(stream), 1);
    expect("free_outside_block", cu.MemFreeAsync(before, stream), CUDA_ERROR_INVALID_VALUE);
    expect_number("status", capture_status_of(stream), 1);
    expect("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}), CUDA_SUCCESS);
}

/* Bad arguments of captured calls, each in a capture of its own. All but two leave it valid. What a
 * captured memset will write to is not looked at. */
static CUresult bad_call(int number, CUstream stream, CUdeviceptr at, CUdeviceptr unmapped)
{
    switch (number) {
    case 0:
        return cu.EventRecord(NULL, stream);
    case 1:
        return cu.StreamWaitEvent(stream, NULL, 0);
    case 2:
        return cu.LaunchHostFunc(stream, NULL, NULL);
    case 3:
        return cu.MemsetD32Async(at + 2, 1, 4, stream);
    case 4:
        return cu.MemsetD8Async(unmapped, 1, 16, stream);
    case 5:
        return cu.MemcpyDtoDAsync(at, unmapped, 16, stream);
    case 6:
        return cu.MemcpyHtoDAsync(at, NULL, 16, stream);
    case 7:
        return cu.StreamWaitEvent(stream, event_new(CU_EVENT_DISABLE_TIMING), 9);
    case 8:
        return cu.StreamWriteValue32(stream, at + 2, 1, 0);
    case 9:
        return cu.MemsetD8Async(at + CHUNK - 8, 1, 16, stream);
    default:
        return cu.GraphLaunch(NULL, stream);
    }
}

static void capture_bad_arguments(void)
{
    static const char *const names[] = {"null_event", "null_wait",      "null_host",
                                        "misaligned", "set_unmapped",   "copy_unmapped",
                                        "null_copy",  "bad_wait_flags", "bad_write_value",
                                        "overrun",    "null_launch"};
    static const CUresult answers[] = {CUDA_ERROR_INVALID_HANDLE,
                                       CUDA_ERROR_INVALID_HANDLE,
                                       CUDA_ERROR_INVALID_VALUE,
                                       CUDA_ERROR_INVALID_VALUE,
                                       CUDA_SUCCESS,
                                       CUDA_ERROR_INVALID_VALUE,
                                       CUDA_ERROR_INVALID_VALUE,
                                       CUDA_ERROR_INVALID_VALUE,
                                       CUDA_ERROR_INVALID_VALUE,
                                       CUDA_SUCCESS,
                                       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUdeviceptr unmapped = reserve(CHUNK);
    for (int call = 0; call < 11; call++) {
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        expect(names[call], bad_call(call, stream, at, unmapped), answers[call]);
        expect_outcome(stream, call == 1 || call == 10);
    }
}

/* Launching a graph cannot be captured, whatever was done with the graph before. */
static void capture_graph_launches(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph inner = NULL;
    CUgraphExec exec = NULL;
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 5, 16, stream));
    need("end", cu.StreamEndCapture(stream, &inner));
    need("instantiate", cu.GraphInstantiateWithFlags(&exec, inner, 0));
    for (int step = 0; step < 3; step++) {
        capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        expect(step == 0   ? "relaxed"
               : step == 1 ? "uploaded"
                           : "launched",
               cu.GraphLaunch(exec, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_outcome(stream, 1);
        need("upload_or_launch",
             step == 0 ? cu.GraphUpload(exec, stream) : cu.GraphLaunch(exec, stream));
        need("sync", cu.StreamSynchronize(stream));
    }
}

const struct scenario capture_end_scenarios[] = {
    {"capture_invalidated", capture_invalidated, 0},
    {"capture_stream_asked", capture_stream_asked, 0},
    {"capture_stream_questions", capture_stream_questions, 0},
    {"capture_destroys_origin", capture_destroys_origin, 0},
    {"capture_destroys_joined", capture_destroys_joined, 0},
    {"capture_graph_in_use", capture_graph_in_use, 0},
    {"capture_user_object", capture_user_object, 0},
    {"capture_pageable", capture_pageable, 0},
    {"capture_graph_launches", capture_graph_launches, 0},
    {"capture_bad_arguments", capture_bad_arguments, 0},
    {NULL, NULL, 0},
};

/* What the simulated device refuses to capture. */
const struct scenario capture_device_scenarios[] = {
    {"capture_values", capture_values, 0},
    {"capture_alloc_async", capture_alloc_async, 0},
    {NULL, NULL, 0},
};
