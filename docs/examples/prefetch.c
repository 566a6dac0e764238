/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights that do not fit: a copy stream brings each layer's weights over while the compute stream
 * works on the layer before. The weights belong to the copy stream and are used on the compute
 * stream, so that use is recorded. When memory is short the copy stream is made to wait for it, on
 * the device (reuse:wait, the default): the host may run ahead as far as it likes.
 *
 *   cc prefetch.c -o prefetch $(pkg-config --cflags --libs tenure tenure-simcuda)
 *
 * That is for the simulated device. docs/install.md has the line for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/lifetime.h>

enum { DEVICE = 0, STEPS = 20, LAYERS = 8, AHEAD = 2, VALUES = 1 << 19, BYTES = VALUES * 4 };

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

/* Weights on their way to the device, or there. */
typedef struct layer {
    void *weights;
    CUevent arrived;
} layer;

/* Brings the weights of one layer over. */
static void layer_fetch(layer *fetched, const unsigned *host, CUstream copy)
{
    must(tnr_malloc(&fetched->weights, BYTES, DEVICE, copy), "allocating weights");
    must_cu(cuMemcpyHtoDAsync((CUdeviceptr)fetched->weights, host, BYTES, copy), "fetching");
    must_cu(cuEventRecord(fetched->arrived, copy), "marking the arrival");
}

/* Uses them: the last value of each layer's weights goes to `result`. */
static void layer_use(layer *used, CUstream compute, CUdeviceptr result)
{
    CUdeviceptr last = (CUdeviceptr)used->weights + BYTES - 4;
    must_cu(cuStreamWaitEvent(compute, used->arrived, 0), "ordering compute after the copy");
    must_cu(cuMemcpyDtoDAsync(result, last, 4, compute), "computing");
    must(tnr_record_use(used->weights, compute), "recording the use");
    must(tnr_free(used->weights), "freeing the weights");
}

/* All steps. No call in here waits for the device. */
static void model_run(unsigned *host[LAYERS], CUstream copy, CUstream compute, CUdeviceptr results)
{
    layer ring[AHEAD + 1];
    for (int i = 0; i <= AHEAD; i++)
        must_cu(cuEventCreate(&ring[i].arrived, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    for (int i = 0; i < STEPS * LAYERS + AHEAD; i++) {
        if (i < STEPS * LAYERS)
            layer_fetch(&ring[i % (AHEAD + 1)], host[i % LAYERS], copy);
        int ready = i - AHEAD;
        if (ready >= 0)
            layer_use(&ring[ready % (AHEAD + 1)], compute, results + (CUdeviceptr)ready * 4);
    }
    for (int i = 0; i <= AHEAD; i++)
        must_cu(cuEventDestroy(ring[i].arrived), "cuEventDestroy");
}

int main(void)
{
    static unsigned answers[STEPS * LAYERS];
    unsigned *host[LAYERS];
    CUdevice device;
    CUcontext context;
    CUstream copy, compute;
    CUdeviceptr results;
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "retaining the primary context");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must_cu(cuStreamCreate(&copy, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(cuMemAlloc(&results, sizeof(answers)), "cuMemAlloc");
    for (unsigned i = 0; i < LAYERS; i++) {
        void *pinned;
        must_cu(cuMemHostAlloc(&pinned, BYTES, 0), "allocating pinned memory");
        host[i] = pinned;
        for (unsigned k = 0; k < VALUES; k++)
            host[i][k] = 100 + i;
    }

    model_run(host, copy, compute, results);
    must_cu(cuMemcpyDtoHAsync(answers, results, sizeof(answers), compute), "reading back");
    must_cu(cuStreamSynchronize(compute), "waiting for the answers");

    int wrong = 0;
    for (unsigned i = 0; i < STEPS * LAYERS; i++)
        wrong += answers[i] != 100 + i % LAYERS;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    must(tnr_stats_get(&stats, NULL, DEVICE), "asking for statistics");
    printf("%d layers of %d bytes fetched, %llu bytes of memory, %d wrong\n", STEPS * LAYERS,
           (int)BYTES, (unsigned long long)stats.reserved_bytes.peak, wrong);

    must(tnr_stream_destroying(DEVICE, copy), "announcing the end of a stream");
    must(tnr_stream_destroying(DEVICE, compute), "announcing the end of a stream");
    must(tnr_shutdown(0), "ending Tenure");
    for (int i = 0; i < LAYERS; i++)
        cuMemFreeHost(host[i]);
    cuMemFree(results);
    cuStreamDestroy(copy);
    cuStreamDestroy(compute);
    cuDevicePrimaryCtxRelease(device);
    return wrong == 0 && stats.reserved_bytes.peak <= (uint64_t)LAYERS * BYTES ? 0 : 1;
}
