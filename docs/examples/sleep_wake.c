/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine that lends its memory out while it has nothing to do. All its pools sleep: the weights
 * are kept in host memory, and so is the graph's own memory; the cache is not worth keeping.
 * Another program uses the device meanwhile, and launching the graph is an error. After the wake
 * everything is at its old address, and the graph captured before runs as it is.
 *
 *   cc sleep_wake.c -o sleep_wake $(pkg-config --cflags --libs tenure tenure-simcuda)
 *
 * That is for the simulated device. docs/install.md has the line for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/capture.h>
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
static void on_sleep(tnr_pool pool, int device, tnr_sleep_event event, uint64_t generation,
                     void *user)
{
    static const char *const names[] = {"goes to sleep", "stays awake after all", "is awake"};
    (void)pool;
    (void)user;
    printf("a pool of the engine's on device %d %s (generation %llu)\n", device, names[event],
           (unsigned long long)generation);
}

static size_t device_free(void)
{
    size_t available, total;
    must_cu(cuMemGetInfo(&available, &total), "cuMemGetInfo");
    return available;
}

/* A step of the engine, captured. */
typedef struct step {
    tnr_graph number;
    tnr_cuda_graph graph;
    CUgraphExec exec;
} step;

/* The graph copies the head of the weights to memory of its own, and from there to the cache. */
static step step_capture(CUdeviceptr weights, CUdeviceptr cache, CUstream stream)
{
    step self;
    void *scratch;
    must(tnr_capture_begin(DEVICE, stream, NULL), "beginning a capture");
    must(tnr_malloc(&scratch, WORDS * 4, DEVICE, stream), "scratch"); /* of the graph's pool */
    must_cu(cuMemcpyDtoDAsync((CUdeviceptr)scratch, weights, WORDS * 4, stream), "a copy");
    must_cu(cuMemcpyDtoDAsync(cache, (CUdeviceptr)scratch, WORDS * 4, stream), "another");
    must(tnr_free(scratch), "freeing the scratch");
    must(tnr_capture_end(&self.graph, &self.number, DEVICE, stream), "ending a capture");
    must_cu(cuGraphInstantiateWithFlags(&self.exec, self.graph, 0), "instantiating");
    return self;
}

/* Runs the step and counts what is wrong in its result. */
static int step_run(const step *self, CUdeviceptr cache, unsigned expected, CUstream stream)
{
    static unsigned host[WORDS];
    int wrong = 0;
    must_cu(cuMemsetD32Async(cache, 0, WORDS, stream), "clearing the result");
    must(tnr_graph_launch(self->number, self->exec, stream), "launching");
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
    must(tnr_pool_malloc(&weights, pool, weights_bytes, DEVICE, stream), "weights");
    must(tnr_pool_malloc(&cache, pool, cache_bytes, DEVICE, stream), "cache");
    must(tnr_block_content_set(cache, TNR_CONTENT_DISCARD), "saying what the cache is worth");
    must_cu(cuMemsetD32Async((CUdeviceptr)weights, 42, weights_bytes / 4, stream), "loading");
    step captured = step_capture((CUdeviceptr)weights, (CUdeviceptr)cache, stream);
    int wrong = step_run(&captured, (CUdeviceptr)cache, 42, stream);

    size_t before = device_free();
    must(tnr_device_sleep(DEVICE, NULL), "sleeping");
    printf("%zu bytes came back\n", device_free() - before);
    wrong += tnr_pool_malloc(&none, pool, 1, DEVICE, stream) != TNR_ERR_ASLEEP;
    wrong += tnr_graph_launch(captured.number, captured.exec, stream) != TNR_ERR_ASLEEP;
    CUdeviceptr lent; /* another program's */
    must_cu(cuMemAlloc(&lent, device_free() / 4 * 3), "lending the memory out");
    must_cu(cuMemFree(lent), "taking it back");
    must(tnr_device_wake(DEVICE), "waking");
    wrong += step_run(&captured, (CUdeviceptr)cache, 42, stream);
    printf("%d wrong\n", wrong);

    must_cu(cuGraphExecDestroy(captured.exec), "destroying the executable");
    must_cu(cuGraphDestroy(captured.graph), "destroying the graph");
    must(tnr_free(weights), "freeing the weights");
    must(tnr_free(cache), "freeing the cache");
    must(tnr_shutdown(1),
         "ending Tenure"); /* the driver may not have told yet of the graph's end */
    cuStreamDestroy(stream);
    cuDevicePrimaryCtxRelease(device);
    return wrong != 0;
}
