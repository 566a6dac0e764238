/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of CUDA 12.8 to 13.3, on the driver that plays them: see newer_driver.c. */
#include <dlfcn.h>
#include <string.h>

#include "boxes.h"
#include "engine.h"
#include "scenarios.h"

enum { BYTES = 300000, COPIES = 3 };

/* As entries.h of the preloaded library has them: the headers here may lack these types. */
static struct {
    CUresult (*begin_recapture)(CUstream, CUstreamCaptureMode, CUgraph, void *, void *);
    CUresult (*begin_graphics)(CUstream, void *);
    CUresult (*end_graphics)(CUstream);
    CUresult (*copy_attributes)(CUdeviceptr, CUdeviceptr, size_t, void *, CUstream);
    CUresult (*copy_batch)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t,
                           CUstream);
    CUresult (*copy_batch_first)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *,
                                 size_t, size_t *, CUstream);
    CUresult (*box_batch)(size_t, box *, unsigned long long, CUstream);
    CUresult (*box_batch_first)(size_t, box *, size_t *, unsigned long long, CUstream);
    CUresult (*host_function)(CUstream, CUhostFn, void *, unsigned);
} newer;

static void find(void *to, const char *name, int version)
{
    PFN_cuGetProcAddress_v12000 look_up;
    CUdriverProcAddressQueryResult status;
    void *found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
    memcpy(&look_up, &found, sizeof(look_up));
    MUST(look_up(name, &found, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status));
    memcpy(to, &found, sizeof(found));
}

/* A graph that is captured twice, with memory of its own each time; others' is apart from it. */
static void recapture(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr inside, later[2];
    MUST(cu.cuGraphCreate(&graph, 0));
    MUST(cu.cuMemAllocAsync(&inside, BYTES, stream)); /* a warm-up */
    MUST(cu.cuMemFreeAsync(inside, stream));
    MUST(cu.cuStreamSynchronize(stream));
    MUST(newer.begin_recapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED, graph, &exec, NULL));
    MUST(cu.cuMemAllocAsync(&inside, BYTES, stream));
    fill(inside, 0xab, BYTES, stream);
    MUST(cu.cuMemFreeAsync(inside, stream));
    MUST(cu.cuStreamEndCapture(stream, NULL));
    MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        MUST(cu.cuMemAllocAsync(&later[i], BYTES, stream));
        fill(later[i], i, BYTES, stream);
    }
    MUST(cu.cuGraphLaunch(exec, stream));
    for (int i = 0; i < 2; i++) {
        verify(later[i], i, BYTES, stream);
        MUST(cu.cuMemFreeAsync(later[i], stream));
    }
    MUST(cu.cuGraphExecDestroy(exec));
    MUST(cu.cuGraphDestroy(graph));
}

/* Copies between devices that do not reach each other, which the driver makes all the same. */
static void copies(CUcontext contexts[2], CUstream stream)
{
    CUdeviceptr to[COPIES], from[COPIES];
    size_t bytes[COPIES], first = 0, failed;
    int attributes[16] = {1}; /* the source is read in the stream's order */
    for (int i = 0; i < COPIES; i++) {
        bytes[i] = BYTES;
        MUST(cu.cuCtxSetCurrent(contexts[1]));
        MUST(cu.cuMemAlloc(&from[i], BYTES));
        fill(from[i], 10 + i, BYTES, NULL);
        MUST(cu.cuCtxSynchronize());
        MUST(cu.cuCtxSetCurrent(contexts[0]));
        MUST(cu.cuMemAlloc(&to[i], BYTES));
    }
    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < COPIES; i++)
            fill(to[i], 99, BYTES, stream);
        if (way == 0)
            MUST(newer.copy_batch(to, from, bytes, COPIES, attributes, &first, 1, stream));
        else if (way == 1)
            MUST(newer.copy_batch_first(to, from, bytes, COPIES, attributes, &first, 1, &failed,
                                        stream));
        for (int i = 0; i < COPIES && way == 2; i++)
            MUST(newer.copy_attributes(to[i], from[i], BYTES, attributes, stream));
        for (int i = 0; i < COPIES; i++)
            verify(to[i], 10 + i, BYTES, stream);
    }
    MUST_BE(newer.copy_batch(to, to, bytes, COPIES, attributes, &first, 0, stream),
            CUDA_ERROR_INVALID_VALUE); /* the driver's own error */
    for (int i = 0; i < COPIES; i++) {
        MUST(cu.cuMemFree(from[i]));
        MUST(cu.cuMemFree(to[i]));
    }
}

/* Batches of copies, and of boxes, on memory that was freed: the error is planted. `is_wrong` 0: it
 * is freed after them. */
static void batches(CUstream stream, int is_wrong)
{
    enum { ROW = 256 };
    int attributes[16] = {1};
    size_t bytes[] = {BYTES, BYTES}, first = 0, failed;
    for (int way = 0; way < 4; way++) {
        CUdeviceptr to[2], from[2];
        for (int i = 0; i < 2; i++) {
            MUST(cu.cuMemAllocAsync(&to[i], BYTES, stream));
            MUST(cu.cuMemAllocAsync(&from[i], BYTES, stream));
        }
        box boxes[2] = {{.from = {1, from[0], ROW, 0, 0},
                         .to = {1, to[0], ROW, 0, 0},
                         .width = 16,
                         .height = 4,
                         .depth = 1},
                        {.from = {1, from[1], ROW, 0, 0},
                         .to = {1, to[1], ROW, 0, 0},
                         .width = 16,
                         .height = BYTES / ROW,
                         .depth = 1}};
        CUdeviceptr *early = is_wrong ? way % 2 == 0 ? &from[1] : &to[1] : NULL;
        if (early != NULL)
            MUST(cu.cuMemFreeAsync(*early, stream));
        if (way == 0)
            MUST(newer.copy_batch(to, from, bytes, 2, attributes, &first, 1, stream));
        else if (way == 1)
            MUST(
                newer.copy_batch_first(to, from, bytes, 2, attributes, &first, 1, &failed, stream));
        else if (way == 2)
            MUST(newer.box_batch(2, boxes, 0, stream));
        else
            MUST(newer.box_batch_first(2, boxes, &failed, 0, stream));
        for (int i = 0; i < 2; i++) {
            if (&to[i] != early)
                MUST(cu.cuMemFreeAsync(to[i], stream));
            if (&from[i] != early)
                MUST(cu.cuMemFreeAsync(from[i], stream));
        }
    }
}

static void batches_of(int is_wrong)
{
    CUstream stream;
    (void)engine_start(0);
    find(&newer.copy_batch, "cuMemcpyBatchAsync", 13000);
    find(&newer.copy_batch_first, "cuMemcpyBatchAsync", 12080);
    find(&newer.box_batch, "cuMemcpy3DBatchAsync", 13000);
    find(&newer.box_batch_first, "cuMemcpy3DBatchAsync", 12080);
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    batches(stream, is_wrong);
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuStreamDestroy(stream));
}

void scenario_batches(void)
{
    batches_of(0);
}

void scenario_batches_late(void)
{
    batches_of(1);
}

static void CUDA_CB count(void *data)
{
    ++*(int *)data;
}

void scenario_newer(void)
{
    CUcontext contexts[2];
    CUstream stream;
    int counted = 0;
    for (int i = 2; i-- > 0;)
        contexts[i] = engine_start(i);
    find(&newer.begin_recapture, "cuStreamBeginRecaptureToGraph", 13030);
    find(&newer.begin_graphics, "cuStreamBeginCaptureToCig", 13020);
    find(&newer.end_graphics, "cuStreamEndCaptureToCig", 13020);
    find(&newer.copy_attributes, "cuMemcpyWithAttributesAsync", 13020);
    find(&newer.copy_batch, "cuMemcpyBatchAsync", 13000);
    find(&newer.copy_batch_first, "cuMemcpyBatchAsync", 12080);
    find(&newer.host_function, "cuLaunchHostFunc", 13020);
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    recapture(stream);
    copies(contexts, stream);
    MUST(newer.begin_graphics(stream, contexts));
    MUST(newer.end_graphics(stream));
    MUST(newer.host_function(stream, count, &counted, 1));
    MUST(cu.cuStreamSynchronize(stream));
    CHECK(counted == 1);
    MUST_BE(newer.host_function(stream, count, &counted, 7), CUDA_ERROR_INVALID_VALUE);
    MUST(cu.cuStreamDestroy(stream));
}
