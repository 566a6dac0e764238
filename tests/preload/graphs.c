/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios with captures and graphs. */
#include <string.h>

#include "engine.h"
#include "scenarios.h"

enum { BYTES = 300000, LARGE = 20 << 20, OTHERS = 12 };

/* Captures: memory allocated inside, filled, copied out, freed inside. */
static CUgraph capture(CUstream stream, CUdeviceptr out, int value, CUstreamCaptureMode mode)
{
    CUgraph graph = NULL;
    CUdeviceptr inside, second;
    MUST(cu.cuStreamBeginCapture(stream, mode));
    MUST(cu.cuMemAllocAsync(&inside, BYTES, stream));
    fill(inside, value, BYTES, stream);
    MUST(cu.cuMemAllocAsync(&second, BYTES, stream));
    MUST(cu.cuMemcpyDtoDAsync(second, inside, BYTES, stream));
    MUST(cu.cuMemFreeAsync(inside, stream));
    MUST(cu.cuMemcpyDtoDAsync(out, second, BYTES, stream));
    MUST(cu.cuMemFreeAsync(second, stream));
    MUST(cu.cuStreamEndCapture(stream, &graph));
    CHECK(graph != NULL);
    return graph;
}

/* What others allocate between launches must never be memory of the graph. */
static void others_run(CUstream stream, CUgraphExec exec, CUdeviceptr out, int value)
{
    CUdeviceptr others[OTHERS];
    for (int i = 0; i < OTHERS; i++) {
        MUST(i % 2 ? cu.cuMemAlloc(&others[i], BYTES)
                   : cu.cuMemAllocAsync(&others[i], BYTES, NULL));
        fill(others[i], i + 100, BYTES, NULL);
    }
    MUST(cu.cuStreamSynchronize(NULL));
    MUST(cu.cuGraphLaunch(exec, stream));
    verify(out, value, BYTES, stream);
    for (int i = 0; i < OTHERS; i++) {
        verify(others[i], i + 100, BYTES, NULL);
        MUST(cu.cuMemFree(others[i]));
    }
}

static void capture_and_launch(CUstream stream)
{
    CUdeviceptr out;
    MUST(cu.cuMemAlloc(&out, BYTES));
    for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        CUgraphExec exec;
        CUgraph graph = capture(stream, out, mode + 1, (CUstreamCaptureMode)mode);
        MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        MUST(cu.cuGraphDestroy(graph)); /* the executable goes on without it */
        for (int launch = 0; launch < 5; launch++) {
            fill(out, 77, BYTES, stream);
            others_run(stream, exec, out, mode + 1);
        }
        MUST(cu.cuGraphExecDestroy(exec));
    }
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuMemFree(out));
}

void scenario_capture(void)
{
    CUstream stream;
    engine_start(0);
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    capture_and_launch(stream);
    MUST(cu.cuStreamDestroy(stream));
    /* The legacy stream cannot be captured; the thread's, which null may mean, can. */
    if (strstr(engine_way, "thread") != NULL)
        capture_and_launch(NULL);
}

/* Nothing is allocated inside: what any driver lets an executable be updated with. */
static CUgraph capture_between(CUstream stream, CUdeviceptr out, CUdeviceptr by_way_of, int value)
{
    CUgraph graph = NULL;
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fill(by_way_of, value, BYTES, stream);
    MUST(cu.cuMemcpyDtoDAsync(out, by_way_of, BYTES, stream));
    MUST(cu.cuStreamEndCapture(stream, &graph));
    CHECK(graph != NULL);
    return graph;
}

/* An executable that takes over what another graph does, with other memory each time. */
void scenario_update(void)
{
    CUstream stream;
    CUdeviceptr out, by_way_of[2];
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo told;
    engine_start(0);
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemAlloc(&out, BYTES));
    MUST(cu.cuMemAlloc(&by_way_of[0], BYTES));
    CUgraph graph = capture_between(stream, out, by_way_of[0], 1);
    MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cu.cuGraphDestroy(graph));
    for (int i = 2; i < 8; i++) {
        MUST(cu.cuMemAlloc(&by_way_of[1], BYTES));
        graph = capture_between(stream, out, by_way_of[1], i);
        MUST(cu.cuGraphExecUpdate(exec, graph, &told));
        MUST(cu.cuGraphDestroy(graph));
        MUST(cu.cuMemFree(by_way_of[0])); /* only launches before the update used it */
        for (int launch = 0; launch < 3; launch++)
            others_run(stream, exec, out, i);
        by_way_of[0] = by_way_of[1];
    }
    MUST(cu.cuGraphExecDestroy(exec));
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuMemFree(by_way_of[0]));
    MUST(cu.cuMemFree(out));
    MUST(cu.cuStreamDestroy(stream));
}

/*
 * The same with memory that is allocated inside, and goes over to the executable with the rest. The
 * driver alone has nodes for that memory, and refuses the update; with Tenure there are none.
 */
void scenario_update_inside(void)
{
    CUstream stream;
    CUdeviceptr out;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo told;
    engine_start(0);
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemAlloc(&out, BYTES));
    CUgraph graph = capture(stream, out, 1, CU_STREAM_CAPTURE_MODE_GLOBAL);
    MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cu.cuGraphDestroy(graph));
    for (int i = 2; i < 8; i++) {
        graph = capture(stream, out, i, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        MUST(cu.cuGraphExecUpdate(exec, graph, &told));
        MUST(cu.cuGraphDestroy(graph));
        for (int launch = 0; launch < 3; launch++)
            others_run(stream, exec, out, i);
    }
    MUST(cu.cuGraphExecDestroy(exec));
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuMemFree(out));
    MUST(cu.cuStreamDestroy(stream));
}

/* Captures that allocate nothing, which any driver can do; and events that are recorded in them. */
void scenario_capture_plain(void)
{
    CUstream streams[2];
    CUdeviceptr first, second, other;
    CUgraph graph;
    CUgraphExec exec;
    CUevent event;
    engine_start(0);
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++)
        MUST(cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemAlloc(&first, BYTES));
    MUST(cu.cuMemAllocAsync(&second, BYTES, streams[0]));
    for (int round = 0; round < 3; round++) {
        /* The one stream uses the other's memory last; only a graph orders the other after it. */
        MUST(cu.cuMemAllocAsync(&other, LARGE, streams[1]));
        MUST(cu.cuEventRecord(event, streams[1]));
        MUST(cu.cuStreamWaitEvent(streams[0], event, 0));
        fill(other, 90, LARGE, streams[0]);
        MUST(cu.cuMemFreeAsync(other, streams[0]));
        MUST(cu.cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
        fill(first, round, BYTES, streams[0]);
        MUST(cu.cuEventRecord(event, streams[0]));
        MUST(cu.cuStreamWaitEvent(streams[1], event, 0));
        MUST(cu.cuMemcpyDtoDAsync(second, first, BYTES, streams[1]));
        MUST(cu.cuEventRecord(event, streams[1]));
        MUST(cu.cuStreamWaitEvent(streams[0], event, 0));
        MUST(cu.cuStreamEndCapture(streams[0], &graph));
        MUST(cu.cuMemAllocAsync(&other, LARGE, streams[1]));
        fill(other, 92, LARGE, streams[1]);
        MUST(cu.cuMemFreeAsync(other, streams[1]));
        MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        for (int launch = 0; launch < 3; launch++) {
            MUST(cu.cuGraphLaunch(exec, streams[0]));
            verify(second, round, BYTES, streams[0]);
            MUST(cu.cuMemAllocAsync(&other, BYTES, streams[1]));
            fill(other, 91, BYTES, streams[1]);
            MUST(cu.cuMemFreeAsync(other, streams[1]));
        }
        MUST(cu.cuStreamSynchronize(streams[1]));
        MUST(cu.cuGraphExecDestroy(exec));
        MUST(cu.cuGraphDestroy(graph));
    }
    MUST(cu.cuMemFreeAsync(second, streams[0]));
    MUST(cu.cuStreamSynchronize(streams[0]));
    MUST(cu.cuMemFree(first));
    MUST(cu.cuEventDestroy(event));
    for (int i = 0; i < 2; i++)
        MUST(cu.cuStreamDestroy(streams[i]));
}

/* Streams that join a capture and end inside it, one after the other: so NCCL makes each collective
 * a part of a graph. The driver gives the next one the same handle, and no graph is broken. */
void scenario_capture_brief(void)
{
    CUstream origin, brief, others[64];
    CUdeviceptr block;
    CUevent event;
    CUgraph graph;
    CUgraphExec exec;
    engine_start(0);
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cu.cuStreamCreate(&origin, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 64; i++) /* as many as make a thread forget which it saw last */
        MUST(cu.cuStreamCreate(&others[i], CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemAlloc(&block, BYTES));
    for (int round = 0; round < 2; round++) {
        MUST(cu.cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        for (int i = 0; i < 3; i++) {
            fill(block, round + i, BYTES, origin);
            for (int k = 0; k < 64; k++)
                MUST(cu.cuEventRecord(event, others[k]));
            MUST(cu.cuStreamCreate(&brief, CU_STREAM_NON_BLOCKING));
            MUST(cu.cuEventRecord(event, origin));
            MUST(cu.cuStreamWaitEvent(brief, event, 0));
            MUST(cu.cuStreamDestroy(brief));
        }
        MUST(cu.cuStreamEndCapture(origin, &graph));
        MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        MUST(cu.cuGraphLaunch(exec, origin));
        verify(block, round + 2, BYTES, origin);
        MUST(cu.cuGraphExecDestroy(exec));
        MUST(cu.cuGraphDestroy(graph));
    }
    MUST(cu.cuMemFree(block));
    MUST(cu.cuEventDestroy(event));
    MUST(cu.cuStreamDestroy(origin));
    for (int i = 0; i < 64; i++)
        MUST(cu.cuStreamDestroy(others[i]));
}

/* Captures into graphs of the program's own, which are ended without asking for the graph. What is
 * freed meanwhile is free when the capture is over: there is room for one of the large blocks. */
void scenario_capture_given(void)
{
    enum { MOST = 160 << 20 };
    CUdeviceptr out, large;
    CUstream stream;
    engine_start(0);
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemAlloc(&out, BYTES));
    for (int i = 0; i < 3; i++) {
        CUgraph graph, same = NULL;
        CUgraphExec exec;
        MUST(cu.cuMemAlloc(&large, MOST));
        MUST(cu.cuGraphCreate(&graph, 0));
        MUST(cu.cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                            CU_STREAM_CAPTURE_MODE_RELAXED));
        fill(out, i, BYTES, stream);
        MUST(cu.cuMemFree(large));
        MUST(cu.cuStreamEndCapture(stream, i == 1 ? &same : NULL));
        CHECK(i != 1 || same == graph);
        MUST(cu.cuMemAlloc(&large, MOST));
        MUST(cu.cuMemFree(large));
        MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        MUST(cu.cuGraphDestroy(graph));
        MUST(cu.cuGraphLaunch(exec, stream));
        verify(out, i, BYTES, stream);
        MUST(cu.cuGraphExecDestroy(exec));
    }
    MUST(cu.cuMemFree(out));
    MUST(cu.cuStreamDestroy(stream));
}
