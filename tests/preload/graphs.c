/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios with captures and graphs. */
#include <string.h>

#include "engine.h"
#include "scenarios.h"

enum { BYTES = 300000, OTHERS = 12 };

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
