/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stash, and the line that replaces it. Sharded training gathers a shard into a full buffer on
 * a communication stream and uses it on the compute stream. To be sure that the buffer outlives its
 * use, such programs keep a list of buffers with an event each, and at every step wait on the host
 * for the oldest event before they let the buffer go:
 *
 *   stash_push(buffer, event_of(compute))          keeps it alive ...
 *   if (stash_is_full()) {                         ... until the host has waited
 *       cuEventSynchronize(stash_oldest()->event);
 *       free(stash_pop());
 *   }
 *
 * Here the same program runs twice, with the stash and with tnr_record_use in its place. Results
 * and memory are compared; only the stash makes the host wait.
 *
 *   cc stash.c -o stash $(pkg-config --cflags --libs tenure tenure-simcuda)
 *
 * That is for the simulated device. docs/install.md has the line for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/lifetime.h>

enum { DEVICE = 0, ROUNDS = 100, STASH = 2, VALUES = 1 << 19, BYTES = VALUES * 4 };

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

/* The stash: buffers in the order of their use. */
typedef struct stash {
    void *buffers[STASH];
    CUevent events[STASH];
    unsigned pushed, popped;
    unsigned host_waits;
} stash;

static void stash_pop(stash *kept)
{
    unsigned oldest = kept->popped++ % STASH;
    must_cu(cuEventSynchronize(kept->events[oldest]), "waiting for the oldest use");
    kept->host_waits++;
    must(tnr_free(kept->buffers[oldest]), "freeing what was kept");
}

static void stash_push(stash *kept, void *buffer, CUstream compute)
{
    if (kept->pushed - kept->popped == STASH)
        stash_pop(kept);
    unsigned newest = kept->pushed++ % STASH;
    kept->buffers[newest] = buffer;
    must_cu(cuEventRecord(kept->events[newest], compute), "marking the use");
}

/* One run; `kept` is null if uses are recorded instead. Values go to results. */
static void training_run(stash *kept, CUstream gather, CUstream compute, CUevent gathered,
                         CUdeviceptr results)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *full;
        must(tnr_malloc(&full, BYTES, DEVICE, gather), "allocating the full buffer");
        must_cu(cuMemsetD32Async((CUdeviceptr)full, i + 1, VALUES, gather), "gathering");
        must_cu(cuEventRecord(gathered, gather), "marking the gather");
        must_cu(cuStreamWaitEvent(compute, gathered, 0), "ordering compute after gather");
        must_cu(cuMemcpyDtoDAsync(results + i * 4, (CUdeviceptr)full + BYTES - 4, 4, compute),
                "computing");
        if (kept != NULL) {
            stash_push(kept, full, compute);
        } else {
            must(tnr_record_use(full, compute), "recording the use"); /* the line */
            must(tnr_free(full), "freeing the full buffer");
        }
    }
    while (kept != NULL && kept->popped < kept->pushed)
        stash_pop(kept);
}

/* Reads back and clears the results, and says how many are wrong and how much memory it took. */
static int run_report(const char *name, unsigned host_waits, CUstream compute, CUdeviceptr results)
{
    static unsigned host[ROUNDS];
    must_cu(cuMemcpyDtoHAsync(host, results, sizeof(host), compute), "reading back");
    must_cu(cuMemsetD32Async(results, 0, ROUNDS, compute), "clearing the results");
    must_cu(cuStreamSynchronize(compute), "waiting for the results");
    int wrong = 0;
    for (unsigned i = 0; i < ROUNDS; i++)
        wrong += host[i] != i + 1;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    must(tnr_stats_get(&stats, NULL, DEVICE), "asking for statistics");
    printf("%s: %u host waits, %llu bytes of memory, %d wrong\n", name, host_waits,
           (unsigned long long)stats.reserved_bytes.peak, wrong);
    must(tnr_trim(NULL, 0, DEVICE), "giving memory back");
    must(tnr_stats_reset_peaks(DEVICE), "resetting the peaks");
    return wrong > 0 || stats.reserved_bytes.peak > (uint64_t)8 * BYTES;
}

int main(void)
{
    stash kept = {.pushed = 0};
    CUdevice device;
    CUcontext context;
    CUstream gather, compute;
    CUevent gathered;
    CUdeviceptr results;
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "retaining the primary context");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must_cu(cuStreamCreate(&gather, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(cuEventCreate(&gathered, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    for (int i = 0; i < STASH; i++)
        must_cu(cuEventCreate(&kept.events[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    must_cu(cuMemAlloc(&results, ROUNDS * 4), "cuMemAlloc");

    training_run(&kept, gather, compute, gathered, results);
    int wrong = run_report("stash", kept.host_waits, compute, results);
    training_run(NULL, gather, compute, gathered, results);
    wrong |= run_report("record_use", 0, compute, results);

    must(tnr_stream_destroying(DEVICE, gather), "announcing the end of a stream");
    must(tnr_stream_destroying(DEVICE, compute), "announcing the end of a stream");
    must(tnr_shutdown(0), "ending Tenure");
    cuMemFree(results);
    cuEventDestroy(gathered);
    for (int i = 0; i < STASH; i++)
        cuEventDestroy(kept.events[i]);
    cuStreamDestroy(gather);
    cuStreamDestroy(compute);
    cuDevicePrimaryCtxRelease(device);
    return wrong;
}
