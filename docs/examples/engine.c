/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small engine that takes its device memory from Tenure: weights in a pool of their own,
 * scratch memory on the compute stream, uploads on a copy stream, a cache that gives way when
 * memory runs out.
 *
 *   cc engine.c -o engine $(pkg-config --cflags --libs tenure tenure-simcuda)
 *
 * That is for the simulated device. docs/install.md has the line for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/alloc.h>

enum { DEVICE = 0, STEPS = 100, VALUES = 1 << 16, BYTES = VALUES * 4 };

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

/* Asked when an allocation would fail. Frees the cache; 1 means: try again. If a pool has
 * reached its own limit, freeing the cache would not help: it is in the default pool. */
static int cache_drop(const tnr_oom_info *info, void *user)
{
    void **cache = user;
    if (*cache == NULL || (info->reason == TNR_OOM_POOL_LIMIT && info->pool != NULL))
        return 0;
    must(tnr_free(*cache), "freeing the cache");
    *cache = NULL;
    return 1;
}

/* Weights live long: in their own pool they do not sit between short-lived blocks. */
static void *weights_load(tnr_pool pool, CUstream stream, unsigned *host)
{
    void *weights;
    must(tnr_pool_push(pool), "routing this thread to the pool");
    must(tnr_malloc(&weights, BYTES, DEVICE, stream), "allocating the weights");
    must(tnr_pool_pop(pool), "ending the routing");
    for (unsigned i = 0; i < VALUES; i++)
        host[i] = i * 2654435761u;
    must_cu(cuMemcpyHtoDAsync((CUdeviceptr)weights, host, BYTES, stream), "uploading");
    must_cu(cuStreamSynchronize(stream), "waiting for the upload");
    return weights;
}

/* One step. The input is allocated on the copy stream and used on the compute stream. */
static void step_run(CUstream copy, CUstream compute, CUevent event, void *weights, void *output)
{
    void *input, *scratch;
    must(tnr_malloc(&input, BYTES, DEVICE, copy), "allocating the input");
    must_cu(cuMemcpyDtoDAsync((CUdeviceptr)input, (CUdeviceptr)weights, BYTES, copy), "copying");
    must_cu(cuEventRecord(event, copy), "marking the upload");
    must_cu(cuStreamWaitEvent(compute, event, 0), "ordering compute after copy");

    must(tnr_malloc(&scratch, BYTES, DEVICE, compute), "allocating scratch memory");
    must_cu(cuMemcpyDtoDAsync((CUdeviceptr)scratch, (CUdeviceptr)input, BYTES, compute), "work");
    must_cu(cuMemcpyDtoDAsync((CUdeviceptr)output, (CUdeviceptr)scratch, BYTES, compute), "work");
    /* Used only on its own stream: free it at once, though the work has not run yet. */
    must(tnr_free(scratch), "freeing scratch memory");

    /* Used on another stream than its own: its own must wait for that use before the free. */
    must_cu(cuEventRecord(event, compute), "marking the last use of the input");
    must_cu(cuStreamWaitEvent(copy, event, 0), "ordering copy after compute");
    must(tnr_free(input), "freeing the input");
}

/* Compares what the device computed with what went in. */
static int output_check(CUstream compute, void *output, const unsigned *expected, unsigned *host)
{
    must_cu(cuMemcpyDtoHAsync(host, (CUdeviceptr)output, BYTES, compute), "reading back");
    must_cu(cuStreamSynchronize(compute), "waiting for the result");
    for (unsigned i = 0; i < VALUES; i++)
        if (host[i] != expected[i])
            return 0;
    return 1;
}

static void statistics_print(void)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    must(tnr_stats_get(&stats, NULL, DEVICE), "asking for statistics");
    printf("live %llu bytes, reserved %llu, %llu of %llu allocations from a bin\n",
           (unsigned long long)stats.bytes_live, (unsigned long long)stats.reserved_bytes.current,
           (unsigned long long)stats.served[TNR_SERVED_BIN],
           (unsigned long long)stats.allocation[TNR_WORLD_ALL].allocated);
}

/* Allocates until the limit is reached, which costs the cache its memory, and lets go again. */
static void pressure_survive(CUstream compute)
{
    enum { BLOCKS = 4 };
    void *blocks[BLOCKS];
    size_t limit_before;
    must(tnr_limit_get(&limit_before, DEVICE), "asking for the limit");
    must(tnr_limit_set(96u << 20, DEVICE), "setting a limit");
    for (int i = 0; i < BLOCKS; i++)
        must(tnr_malloc(&blocks[i], 16u << 20, DEVICE, compute), "allocating under pressure");
    void *too_much;
    if (tnr_malloc(&too_much, 128u << 20, DEVICE, compute) == TNR_ERR_LIMIT)
        printf("refused, as it must be: 128 MiB above a limit of 96 MiB\n");
    for (int i = 0; i < BLOCKS; i++)
        must(tnr_free(blocks[i]), "freeing");
    must(tnr_limit_set(limit_before, DEVICE), "setting the limit back");
}

int main(void)
{
    static unsigned expected[VALUES], host[VALUES];
    CUdevice device;
    CUcontext context;
    CUstream copy, compute;
    CUevent event;
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "retaining the primary context");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must_cu(cuStreamCreate(&copy, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    must(tnr_init(), "starting Tenure");

    tnr_pool pool;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = "weights";
    must(tnr_pool_create(&pool, DEVICE, &options), "making a pool");
    void *weights = weights_load(pool, compute, expected);
    void *output, *cache;
    must(tnr_malloc(&output, BYTES, DEVICE, compute), "allocating the output");
    must(tnr_malloc(&cache, 64u << 20, DEVICE, compute), "allocating the cache");
    tnr_oom_callback_set(cache_drop, &cache);

    for (int i = 0; i < STEPS; i++)
        step_run(copy, compute, event, weights, output);
    int is_right = output_check(compute, output, expected, host);
    statistics_print();
    pressure_survive(compute);
    printf("the cache was %s\n", cache == NULL ? "given up" : "kept");

    tnr_oom_callback_set(NULL, NULL);
    must(tnr_free(cache), "freeing the cache");
    must(tnr_free(output), "freeing the output");
    must(tnr_free(weights), "freeing the weights");
    size_t released;
    must(tnr_trim(&released, 0, DEVICE), "giving memory back");
    must(tnr_pool_destroy(pool), "ending the pool");
    must(tnr_shutdown(0), "ending Tenure");
    cuEventDestroy(event);
    cuStreamDestroy(copy);
    cuStreamDestroy(compute);
    cuDevicePrimaryCtxRelease(device);
    printf("%zu bytes given back; the result is %s\n", released, is_right ? "right" : "WRONG");
    return is_right && cache == NULL ? 0 : 1;
}
