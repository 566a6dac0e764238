/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of keys and values that grows while a graph uses it. The graph knows the cache's address,
 * so the cache must not move: it is reserved for the longest conversation there can be, and given
 * memory as the conversation gets longer. The graph is captured once.
 *
 *   cc growing_cache.c -o growing_cache $(pkg-config --cflags --libs tenure tenure-simcuda)
 *
 * That is for the simulated device. docs/install.md has the line for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/alloc.h>

enum { DEVICE = 0, TOKENS_MAX = 4096, TOKEN_BYTES = 16 << 10, STEP_TOKENS = 512, HEAD = 1 << 12 };

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

/* A step of the model, as far as memory goes: it reads the head of the cache. */
static CUgraphExec step_capture(CUdeviceptr cache, CUdeviceptr out, CUstream stream)
{
    CUgraph graph;
    CUgraphExec step;
    must_cu(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "beginning a capture");
    must_cu(cuMemcpyDtoDAsync(out, cache, HEAD * 4, stream), "capturing a copy");
    must_cu(cuStreamEndCapture(stream, &graph), "ending a capture");
    must_cu(cuGraphInstantiateWithFlags(&step, graph, 0), "instantiating");
    must_cu(cuGraphDestroy(graph), "destroying the graph");
    return step;
}

/* 1 if the words of a block are all `value`. */
static int holds(CUdeviceptr block, unsigned value, size_t words, CUstream stream)
{
    static unsigned host[HEAD];
    must_cu(cuMemcpyDtoHAsync(host, block, words * 4, stream), "reading back");
    must_cu(cuStreamSynchronize(stream), "waiting");
    for (size_t i = 0; i < words; i++)
        if (host[i] != value)
            return 0;
    return 1;
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUstream stream;
    void *cache, *out;
    int wrong = 0;
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "retaining the primary context");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");

    /* Addresses for the longest conversation, memory for the first tokens. */
    must(tnr_reserve(&cache, (size_t)TOKENS_MAX * TOKEN_BYTES, DEVICE, stream), "reserving");
    must(tnr_commit(cache, (size_t)STEP_TOKENS * TOKEN_BYTES), "committing");
    must(tnr_malloc(&out, HEAD * 4, DEVICE, stream), "allocating");
    CUdeviceptr base = (CUdeviceptr)cache;
    CUgraphExec step = step_capture(base, (CUdeviceptr)out, stream);

    for (unsigned tokens = STEP_TOKENS; tokens <= TOKENS_MAX; tokens += STEP_TOKENS) {
        must(tnr_commit(cache, (size_t)tokens * TOKEN_BYTES), "committing");
        /* New tokens at the end; the head says how many there are. */
        CUdeviceptr end = base + (CUdeviceptr)(tokens - STEP_TOKENS) * TOKEN_BYTES;
        must_cu(cuMemsetD32Async(end, tokens, (size_t)STEP_TOKENS * TOKEN_BYTES / 4, stream),
                "writing tokens");
        must_cu(cuMemsetD32Async(base, tokens, HEAD, stream), "writing the head");
        must_cu(cuGraphLaunch(step, stream), "launching");
        wrong += !holds((CUdeviceptr)out, tokens, HEAD, stream);
        wrong += !holds(end + HEAD * 4, tokens, HEAD, stream);
    }
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    must(tnr_stats_get(&stats, NULL, DEVICE), "asking for statistics");
    printf("%d tokens at %p, %llu bytes of memory, %d wrong\n", TOKENS_MAX, cache,
           (unsigned long long)stats.reserved_bytes.current, wrong);

    must_cu(cuGraphExecDestroy(step), "destroying the step");
    must(tnr_free(cache), "freeing the cache");
    must(tnr_free(out), "freeing the output");
    must(tnr_shutdown(0), "ending Tenure");
    cuStreamDestroy(stream);
    cuDevicePrimaryCtxRelease(device);
    return wrong != 0;
}
