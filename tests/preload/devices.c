/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios with several devices, several contexts, and contexts that end. */
#include "engine.h"
#include "scenarios.h"

enum { BYTES = 200000 };

static int ordinal_of(CUdeviceptr block)
{
    int ordinal = -1;
    MUST(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
    return ordinal;
}

void scenario_devices(void)
{
    /* A context of its own first: the next one may get its handle. */
    CUcontext own, contexts[2];
    CUdeviceptr block;
    contexts[0] = engine_start(0);
    MUST(cu.cuCtxCreate(&own, 0, 0));
    MUST(cu.cuMemAlloc(&block, BYTES));
    MUST(cu.cuMemFree(block));
    MUST(cu.cuCtxDestroy(own));
    contexts[1] = engine_start(1);
    CUdeviceptr blocks[2][8];
    CUstream streams[2];
    for (int d = 0; d < 2; d++) {
        MUST(cu.cuCtxSetCurrent(contexts[d]));
        MUST(cu.cuStreamCreate(&streams[d], CU_STREAM_NON_BLOCKING));
    }
    for (int i = 0; i < 8; i++)
        for (int d = 0; d < 2; d++) {
            MUST(cu.cuCtxSetCurrent(contexts[d]));
            MUST(i % 2 ? cu.cuMemAllocAsync(&blocks[d][i], BYTES, streams[d])
                       : cu.cuMemAlloc(&blocks[d][i], BYTES));
            fill(blocks[d][i], d * 8 + i, BYTES, streams[d]);
            CHECK(ordinal_of(blocks[d][i]) == d);
        }
    /* Freed with the other device's context current. */
    for (int i = 0; i < 8; i++)
        for (int d = 0; d < 2; d++) {
            MUST(cu.cuCtxSetCurrent(contexts[d]));
            verify(blocks[d][i], d * 8 + i, BYTES, streams[d]);
            MUST(cu.cuCtxSetCurrent(contexts[1 - d]));
            MUST(cu.cuMemFree(blocks[d][i]));
        }
}

/* A context of the program's own, in which the driver allocates. */
void scenario_contexts(void)
{
    CUcontext primary = engine_start(0), own;
    CUdeviceptr first, second, third;
    CUstream stream;
    MUST(cu.cuMemAlloc(&first, BYTES));
    for (int i = 0; i < 3; i++) {
        MUST(cu.cuCtxCreate(&own, 0, 0));
        MUST(cu.cuMemAlloc(&second, BYTES));
        MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cu.cuMemAllocAsync(&third, BYTES, stream));
        fill(second, 5, BYTES, stream);
        fill(third, 6, BYTES, stream);
        verify(second, 5, BYTES, stream);
        verify(third, 6, BYTES, stream);
        MUST(cu.cuMemFreeAsync(third, stream));
        MUST(cu.cuStreamSynchronize(stream));
        MUST(cu.cuStreamDestroy(stream));
        MUST(cu.cuMemFree(second));
        MUST(cu.cuCtxDestroy(own));
        MUST(cu.cuCtxSetCurrent(primary));
        MUST(cu.cuMemAlloc(&second, BYTES));
        MUST(cu.cuMemFree(second));
    }
    MUST(cu.cuMemFree(first));
}

/* Memory of the primary context, in use on a stream of another one when it is freed. */
void scenario_strangers(void)
{
    enum { ROUNDS = 40 };
    CUcontext primary = engine_start(0), own;
    CUdeviceptr block;
    CUstream far, near;
    MUST(cu.cuStreamCreate(&near, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuCtxCreate(&own, 0, 0));
    MUST(cu.cuStreamCreate(&far, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuCtxSetCurrent(primary));
    for (int i = 0; i < ROUNDS; i++) {
        MUST(cu.cuMemAlloc(&block, BYTES));
        fill(block, i, BYTES, near);
        verify(block, i, BYTES, near);
        MUST(cu.cuCtxSetCurrent(own));
        fill(block, i + 1, BYTES, far);
        MUST(cu.cuCtxSetCurrent(primary));
        MUST(i % 2 ? cu.cuMemFree(block) : cu.cuMemFreeAsync(block, far));
    }
    MUST(cu.cuStreamDestroy(near));
    MUST(cu.cuCtxDestroy(own)); /* and the stream with it */
    MUST(cu.cuMemAlloc(&block, BYTES));
    MUST(cu.cuMemFree(block));
}

void scenario_reset(void)
{
    for (int i = 0; i < 3; i++) {
        CUdeviceptr block, kept;
        CUstream stream;
        engine_start(0);
        MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cu.cuMemAlloc(&kept, BYTES));
        MUST(cu.cuMemAllocAsync(&block, BYTES, stream));
        fill(block, i, BYTES, stream);
        verify(block, i, BYTES, stream);
        MUST(cu.cuMemFreeAsync(block, stream));
        MUST(cu.cuCtxSynchronize());
        MUST(cu.cuDevicePrimaryCtxReset(0)); /* takes `kept` and the stream along */
    }
    scenario_basic();
}
