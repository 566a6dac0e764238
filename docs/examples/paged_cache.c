/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of keys and values in pages, for two models on one device. Each model has addresses for
 * the most that its cache can be, and a graph that knows them. Sequences come and go; a page of the
 * cache has memory while a sequence is in it. What one model gives back, the other can have.
 *
 *   cc paged_cache.c -o paged_cache $(pkg-config --cflags --libs tenure tenure-simcuda)
 *
 * That is for the simulated device. docs/install.md has the line for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <tenure/alloc.h>
#include <tenure/lifetime.h>
#include <tenure/range.h>

enum { DEVICE = 0, PAGES = 32, SEQUENCE_PAGES = 4, MODELS = 2, WORDS = 1 << 10 };

static const size_t page_bytes = (size_t)2 << 20;

/* A cache: which of its pages are in use. Pages 0 to SEQUENCE_PAGES - 1 are those of the sequence
 * that the model's graph works on. */
typedef struct cache {
    void *base;
    CUstream stream;
    int owner[PAGES]; /* the sequence that has the page; 0: none, and no memory */
    unsigned values[PAGES];
    CUgraphExec step;
    void *out;
} cache;

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

static CUdeviceptr page_at(const cache *self, int page)
{
    return (CUdeviceptr)self->base + (size_t)page * page_bytes;
}

/* ---- pages ---------------------------------------------------------------------------------- */

/* Gives a sequence `count` pages, wherever some are free. Memory for neighbours comes in one call.
 * Returns 0 if the cache has fewer, or the device has no memory: then nothing has changed. */
static int pages_take(cache *self, int sequence, int count)
{
    int taken[PAGES], found = 0;
    for (int page = 0; page < PAGES && found < count; page++)
        if (self->owner[page] == 0)
            taken[found++] = page;
    int got = 0;
    while (found == count && got < count) {
        int end = got + 1;
        while (end < count && taken[end] == taken[end - 1] + 1)
            end++;
        if (tnr_commit_range(self->base, (size_t)taken[got] * page_bytes,
                             (size_t)(end - got) * page_bytes) != TNR_OK)
            break;
        got = end;
    }
    for (int i = 0; i < got && got < count; i++) /* too few: as before */
        must(tnr_decommit_range(self->base, (size_t)taken[i] * page_bytes, page_bytes), "undoing");
    for (int i = 0; i < got && got == count; i++)
        self->owner[taken[i]] = sequence;
    return got == count;
}

/* A sequence is over. What the stream was given may still use its pages. */
static void pages_give(cache *self, int sequence)
{
    for (int page = 0; page < PAGES; page++)
        if (self->owner[page] == sequence) {
            must(tnr_decommit_range(self->base, (size_t)page * page_bytes, page_bytes),
                 "giving a page back");
            self->owner[page] = 0;
        }
}

/* ---- a model -------------------------------------------------------------------------------- */

static void cache_make(cache *self, int number)
{
    CUgraph graph;
    must_cu(cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must(tnr_reserve(&self->base, PAGES * page_bytes, DEVICE, self->stream), "reserving");
    must(tnr_malloc(&self->out, WORDS * 4, DEVICE, self->stream), "allocating");
    if (!pages_take(self, 1 + number, SEQUENCE_PAGES))
        must(TNR_ERR_OUT_OF_MEMORY, "the first sequence");
    must_cu(cuStreamBeginCapture(self->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "capturing");
    must_cu(cuMemcpyDtoDAsync((CUdeviceptr)self->out, page_at(self, 1), WORDS * 4, self->stream),
            "capturing a copy");
    must_cu(cuStreamEndCapture(self->stream, &graph), "ending a capture");
    must_cu(cuGraphInstantiateWithFlags(&self->step, graph, 0), "instantiating");
    must_cu(cuGraphDestroy(graph), "destroying the graph");
}

static void cache_write(cache *self, int sequence, unsigned value)
{
    for (int page = 0; page < PAGES; page++)
        if (self->owner[page] == sequence) {
            self->values[page] = value + (unsigned)page;
            must_cu(cuMemsetD32Async(page_at(self, page), self->values[page], WORDS, self->stream),
                    "writing keys");
        }
}

/* Words that are not what was written there. */
static int cache_wrong(const cache *self)
{
    static unsigned host[WORDS];
    int wrong = 0;
    for (int page = -1; page < PAGES; page++) {
        if (page >= 0 && self->owner[page] == 0)
            continue;
        CUdeviceptr from = page < 0 ? (CUdeviceptr)self->out : page_at(self, page);
        unsigned value = self->values[page < 0 ? 1 : page];
        must_cu(cuMemcpyDtoHAsync(host, from, sizeof(host), self->stream), "reading back");
        must_cu(cuStreamSynchronize(self->stream), "waiting");
        for (int i = 0; i < WORDS; i++)
            wrong += host[i] != value;
    }
    return wrong;
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    cache caches[MODELS] = {{0}};
    int wrong = 0, refused = 0;
    must_cu(cuInit(0), "cuInit");
    must_cu(cuDeviceGet(&device, DEVICE), "cuDeviceGet");
    must_cu(cuDevicePrimaryCtxRetain(&context, device), "retaining the primary context");
    must_cu(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    for (int i = 0; i < MODELS; i++)
        cache_make(&caches[i], i);
    must(tnr_limit_set(40 * page_bytes, DEVICE),
         "limiting"); /* not enough for both at their most */

    for (int turn = 0; turn < 40; turn++) {
        cache *self = &caches[turn % 2];
        int sequence = 100 + turn;
        refused += !pages_take(self, sequence, 3 + turn % 9);
        cache_write(self, sequence, (unsigned)sequence * 1000);
        cache_write(self, 1 + turn % 2, (unsigned)turn);
        must_cu(cuGraphLaunch(self->step, self->stream), "launching");
        wrong += cache_wrong(self);
        if (turn >= 6) /* a sequence lasts six turns */
            pages_give(self, sequence - 6);
    }
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    must(tnr_stats_get(&stats, NULL, DEVICE), "asking for statistics");
    printf("%d models, %d sequences refused, at most %llu MiB, %d wrong\n", MODELS, refused,
           (unsigned long long)stats.reserved_bytes.peak >> 20, wrong);

    for (int i = 0; i < MODELS; i++) {
        must_cu(cuStreamSynchronize(caches[i].stream), "waiting");
        must_cu(cuGraphExecDestroy(caches[i].step), "destroying a step");
        must(tnr_free(caches[i].base), "freeing a cache");
        must(tnr_free(caches[i].out), "freeing an output");
    }
    must(tnr_shutdown(0), "ending Tenure");
    for (int i = 0; i < MODELS; i++)
        cuStreamDestroy(caches[i].stream);
    cuDevicePrimaryCtxRelease(device);
    return wrong != 0;
}
