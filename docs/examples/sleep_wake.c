/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine that lends its memory out while it has nothing to do. Its pool sleeps: the weights are
 * kept in host memory, the cache is not worth keeping. Somebody else uses the device meanwhile.
 * After the wake everything is at its old address, and the graph captured before runs as it is.
 *
 *   cc sleep_wake.c -o sleep_wake $(pkg-config --cflags --libs tenure) -lcuda
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/sleep.h>

enum { DEVICE = 0, WORDS = 1 << 12 };
static const size_t weights_bytes = (size_t)24 << 20, cache_bytes = (size_t)16 << 20;

/* Ends the program with the reason if a call failed. */
static void must(tnr_status status, const char *what)
{
    if (status != TNR_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, tnr_status_name(status), tnr_last_error());
        exit(1);
    }
}

static void must_cu(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s: driver error %d\n", what, (int)result);
        exit(1);
    }
}

/* Here an engine takes its registrations of the pool's memory back, and makes them again. */
static void on_sleep(tnr_sleep_event event, tnr_pool pool, int device, uint64_t generation,
                     void *user)
{
    static const char *const names[] = {"goes to sleep", "stays awake after all", "is awake"};
    (void)pool;
    (void)user;
    printf("the engine's pool on device %d %s (generation %llu)\n", device, names[event],
           (unsigned long long)generation);
}

static size_t device_free(void)
{
    size_t available, total;
    must_cu(cuMemGetInfo(&available, &total), "cuMemGetInfo");
    return available;
}

/* The graph copies the head of the weights to the cache. */
static CUgraphExec step_capture(CUdeviceptr weights, CUdeviceptr cache, CUstream stream)
{
    CUgraph graph;
    CUgraphExec step;
    must_cu(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "beginning a capture");
    must_cu(cuMemcpyDtoDAsync(cache, weights, WORDS * 4, stream), "capturing a copy");
    must_cu(cuStreamEndCapture(stream, &graph), "ending a capture");
    must_cu(cuGraphInstantiateWithFlags(&step, graph, 0), "instantiating");
    must_cu(cuGraphDestroy(graph), "destroying the graph");
    return step;
}

/* Runs the step and counts what is wrong in its result. */
static int step_run(CUgraphExec step, CUdeviceptr cache, unsigned expected, CUstream stream)
{
    static unsigned host[WORDS];
    int wrong = 0;
    must_cu(cuMemsetD32Async(cache, 0, WORDS, stream), "clearing the result");
    must_cu(cuGraphLaunch(step, stream), "launching");
    must_cu(cuMemcpyDtoHAsync(host, cache, WORDS * 4, stream), "reading back");
    must_cu(cuStreamSynchronize(stream), "waiting");
    for (int i = 0; i < WORDS; i++)
        wrong += host[i] != expected;
    return wrong;
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUstream stream;
    tnr_pool pool;
    void *weights, *cache, *none;
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "retaining the primary context");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must(tnr_pool_create(&pool, DEVICE, NULL), "making a pool");
    must(tnr_sleep_callback_add(on_sleep, NULL), "adding a callback");
    must(tnr_pool_malloc(&weights, weights_bytes, pool, DEVICE, stream), "weights");
    must(tnr_pool_malloc(&cache, cache_bytes, pool, DEVICE, stream), "cache");
    must(tnr_block_content_set(cache, TNR_CONTENT_DISCARD), "saying what the cache is worth");
    must_cu(cuMemsetD32Async((CUdeviceptr)weights, 42, weights_bytes / 4, stream), "loading");
    CUgraphExec step = step_capture((CUdeviceptr)weights, (CUdeviceptr)cache, stream);
    int wrong = step_run(step, (CUdeviceptr)cache, 42, stream);

    size_t before = device_free();
    must(tnr_pool_sleep(pool, DEVICE, NULL), "sleeping");
    printf("%zu bytes came back\n", device_free() - before);
    if (tnr_pool_malloc(&none, 1, pool, DEVICE, stream) != TNR_ERR_ASLEEP)
        wrong++;
    CUdeviceptr lent; /* somebody else's */
    must_cu(cuMemAlloc(&lent, device_free() / 4 * 3), "lending the memory out");
    must_cu(cuMemFree(lent), "taking it back");
    must(tnr_pool_wake(pool, DEVICE), "waking");
    wrong += step_run(step, (CUdeviceptr)cache, 42, stream);
    printf("%d wrong\n", wrong);

    must_cu(cuGraphExecDestroy(step), "destroying the step");
    must(tnr_free(weights), "freeing the weights");
    must(tnr_free(cache), "freeing the cache");
    must(tnr_shutdown(0), "ending Tenure");
    cuStreamDestroy(stream);
    cuDevicePrimaryCtxRelease(device);
    return wrong != 0;
}
