/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two streams: one makes batches, the other uses them. A batch belongs to the producer's stream, so
 * the consumer's use of it is recorded, where it ends, and the batch is freed at once. The host
 * never waits inside, and memory does not grow with the number of batches.
 *
 *   cc producer_consumer.c -o producer_consumer $(pkg-config --cflags --libs tenure tenure-simcuda)
 *
 * That is for the simulated device. docs/install.md has the line for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/lifetime.h>

enum { DEVICE = 0, BATCHES = 200, VALUES = 1 << 18, BYTES = VALUES * 4 };

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

/* One batch: made on one stream, used on the other, its number written into results[number]. */
static void batch_run(unsigned number, CUstream producer, CUstream consumer, CUevent made,
                      CUdeviceptr results)
{
    void *batch;
    must(tnr_malloc(&batch, BYTES, DEVICE, producer), "allocating a batch");
    CUdeviceptr address = (CUdeviceptr)batch;
    must_cu(cuMemsetD32Async(address, number, VALUES, producer), "making the batch");

    /* The consumer must not start before the batch is there: that is the program's own order. */
    must_cu(cuEventRecord(made, producer), "marking the batch");
    must_cu(cuStreamWaitEvent(consumer, made, 0), "ordering the consumer");
    must_cu(cuMemcpyDtoDAsync(results + number * 4, address + BYTES - 4, 4, consumer), "using it");

    /* The last use has been enqueued. Say so, right behind it, and free. Later work of the consumer
     * does not delay the batch's memory. The host waits for nothing here. */
    must(tnr_record_use(batch, consumer), "recording the use");
    must(tnr_free(batch), "freeing the batch");
}

int main(void)
{
    static unsigned host[BATCHES];
    CUdevice device;
    CUcontext context;
    CUstream producer, consumer;
    CUevent made;
    CUdeviceptr results;
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "retaining the primary context");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must_cu(cuStreamCreate(&producer, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(cuStreamCreate(&consumer, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    must_cu(cuMemAlloc(&results, sizeof(host)), "cuMemAlloc");

    for (unsigned i = 0; i < BATCHES; i++)
        batch_run(i, producer, consumer, made, results);
    must_cu(cuMemcpyDtoHAsync(host, results, sizeof(host), consumer), "reading back");
    must_cu(cuStreamSynchronize(consumer), "waiting for the results");

    int wrong = 0;
    for (unsigned i = 0; i < BATCHES; i++)
        wrong += host[i] != i;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    must(tnr_stats_get(&stats, NULL, DEVICE), "asking for statistics");
    printf("%d batches of %d bytes, %llu bytes of memory, %d wrong\n", (int)BATCHES, (int)BYTES,
           (unsigned long long)stats.reserved_bytes.peak, wrong);

    /* A stream that Tenure has seen is announced before it is destroyed. */
    must(tnr_stream_destroying(DEVICE, producer), "announcing the end of a stream");
    must(tnr_stream_destroying(DEVICE, consumer), "announcing the end of a stream");
    must(tnr_shutdown(0), "ending Tenure");
    cuMemFree(results);
    cuEventDestroy(made);
    cuStreamDestroy(producer);
    cuStreamDestroy(consumer);
    cuDevicePrimaryCtxRelease(device);
    return wrong == 0 && stats.reserved_bytes.peak < (uint64_t)BATCHES * BYTES / 2 ? 0 : 1;
}
