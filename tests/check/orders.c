/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in which programs order work with the host and with other streams, one each: loops that
 * ask, chunks on several streams, copies of the host's, a device's end of work. The kinds are
 * those of the race zoo of CuSan (TU Darmstadt).
 */
#include <string.h>

#include "zoo.h"

/* The host asks until a stream is done: in the wrong program, another one. */
void animal_stream_asked_for(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    touch(block, the.b);
    while (cuStreamQuery(the.is_wrong ? the.c : the.b) == CUDA_ERROR_NOT_READY)
        continue;
    MUST(cuMemFreeAsync(block, the.a));
}

/* The same of an event, which was recorded before the use. */
void animal_event_asked_for(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    if (the.is_wrong)
        MUST(cuEventRecord(the.event, the.b));
    touch(block, the.b);
    if (!the.is_wrong)
        MUST(cuEventRecord(the.event, the.b));
    while (cuEventQuery(the.event) == CUDA_ERROR_NOT_READY)
        continue;
    MUST(cuMemFreeAsync(block, the.a));
}

/* Chunks of one block on three streams, of which the last is forgotten. */
void animal_chunk_forgotten(void)
{
    CUstream streams[] = {the.a, the.b, the.c};
    CUdeviceptr block = make(the.a);
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            wait_for(the.a, streams[i]);
        MUST(cuMemsetD8Async(block + (CUdeviceptr)i * 4096, 1, 4096, streams[i]));
    }
    for (int i = 1; i < 3 - the.is_wrong; i++)
        wait_for(streams[i], the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* A copy between two places of the host's is over when the call returns, if they are pageable. */
void animal_copy_of_the_host(void)
{
    static char from[4096], to[4096];
    void *pinned;
    CUdeviceptr block = make(the.a);
    MUST(cuMemHostAlloc(&pinned, sizeof(to), 0));
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)(the.is_wrong ? pinned : (void *)to);
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (the.is_wrong)
        wait_for(the.a, the.c);
    MUST(cuMemcpyAsync(at, (CUdeviceptr)(uintptr_t)from, sizeof(to), the.is_wrong ? the.c : the.b));
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuStreamSynchronize(the.is_wrong ? the.c : the.b));
    MUST(cuMemFreeHost(pinned));
}

/* The host waits for a device: in the wrong program, for another one. */
void animal_device_waited_for(void)
{
    CUdevice second;
    CUcontext elsewhere;
    CUdeviceptr block = make(the.a);
    MUST(cuDeviceGet(&second, 1));
    MUST(cuDevicePrimaryCtxRetain(&elsewhere, second));
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (the.is_wrong)
        MUST(cuCtxSetCurrent(elsewhere));
    MUST(cuCtxSynchronize());
    MUST(cuCtxSetCurrent(the.context));
    MUST(cuMemFreeAsync(block, the.a));
}

/* The default stream waits for blocking streams alone: what comes after it is not ordered after the
 * others, however often it comes. */
void animal_default_stream_twice(void)
{
    CUstream own;
    CUdeviceptr block, other;
    MUST(cuStreamCreate(&own, the.is_wrong ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    MUST(cuMemAlloc(&other, BYTES));
    MUST(cuMemAllocAsync(&block, BYTES, NULL));
    wait_for(NULL, own);
    touch(block, own);
    touch(other, NULL);
    touch(other, NULL);
    MUST(cuMemFreeAsync(block, NULL));
    MUST(cuMemFree(other));
    MUST(cuStreamDestroy(own));
}

/* Parts of one live block, which overlap by a byte. */
void animal_race_of_parts(void)
{
    CUdeviceptr block;
    MUST(cuMemAlloc(&block, BYTES));
    MUST(cuMemsetD8Async(block, 1, 4096 + (size_t)the.is_wrong, the.a));
    MUST(cuMemsetD8Async(block + 4096, 2, 4096, the.b));
    MUST(cuMemFree(block));
}
