/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A correct program that does, quickly, what a training job does in hours: it frees more blocks,
 * comes from more places, and makes and ends more streams, events, graphs and modules than the
 * checker remembers. It prints what memory of the host the process has after each quarter:
 *
 *   check_zoo hour right      ZOO_ROUNDS in the environment: how long
 */
#include "zoo.h"

#include <string.h>

#include <tenure/simcuda.h>

enum { STREAMS = 6, KERNELS = 128, QUARTERS = 4, MANY = 70000, SOME = 20000 };

/* In KiB, without what is shared, as the device's memory is. */
static long memory_now(void)
{
    char line[128];
    long found = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "RssAnon: %ld", &found) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return found;
}

/* A job, with the streams that it has for ever. */
typedef struct job {
    CUstream streams[STREAMS];
    CUmodule module;
    CUfunction kernels[KERNELS];
    unsigned round;
} job;

static void nothing_run(void *const *params)
{
    (void)params;
}

static void kernels_register(void)
{
    static const size_t bytes[] = {8};
    char name[32];
    for (int i = 0; i < KERNELS; i++) {
        (void)snprintf(name, sizeof(name), "kernel_%d", i);
        if (simcuda_kernel_register(name, 1, bytes, nothing_run, NULL) != 0)
            exit(1);
    }
}

/* What is known of the kernels begins again. */
static void module_change(job *self)
{
    char name[32];
    if (self->module != NULL)
        MUST(cuModuleUnload(self->module));
    MUST(cuModuleLoadData(&self->module, "any image"));
    for (int i = 0; i < KERNELS; i++) {
        (void)snprintf(name, sizeof(name), "kernel_%d", i);
        MUST(cuModuleGetFunction(&self->kernels[i], self->module, name));
    }
}

/* A block that another stream uses; now and then on a stream and by an event of its own. */
static void __attribute__((noinline)) step(const job *self)
{
    CUdeviceptr block;
    CUstream own = self->streams[0], other = self->streams[1 + self->round % (STREAMS - 1)];
    CUevent event = the.event;
    void *params[] = {&block};
    int is_new = self->round % 8 == 0;
    if (is_new) {
        MUST(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
        MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    }
    MUST(cuMemAllocAsync(&block, 4096, own));
    MUST(cuEventRecord(event, own));
    MUST(cuStreamWaitEvent(other, event, 0));
    for (int i = 0; i < KERNELS; i++)
        MUST(cuLaunchKernel(self->kernels[i], 1, 1, 1, 1, 1, 1, 0, other, params, NULL));
    MUST(cuEventRecord(event, other));
    MUST(cuStreamWaitEvent(own, event, 0));
    MUST(cuMemFreeAsync(block, own));
    if (is_new) {
        MUST(cuStreamSynchronize(own));
        MUST(cuEventDestroy(event));
        MUST(cuStreamDestroy(own));
    }
}

/* Blocks that are freed, each at an address of its own, and of its stream's. */
static void many_blocks(int count, CUstream stream)
{
    static CUdeviceptr blocks[MANY];
    for (int i = 0; i < count; i++)
        MUST(cuMemAllocAsync(&blocks[i], 512, stream));
    for (int i = 0; i < count; i++)
        MUST(cuMemFreeAsync(blocks[i], stream));
}

/* Each round comes by another way, so that its stacks are new. */
static void __attribute__((noinline)) come(const job *self, unsigned ways, int depth)
{
    if (depth == 0) {
        step(self);
    } else if (ways % 4 == 0) {
        come(self, ways / 4, depth - 1);
        __asm__ volatile("");
    } else if (ways % 4 == 1) {
        come(self, ways / 4, depth - 1);
        __asm__ volatile("nop");
    } else if (ways % 4 == 2) {
        come(self, ways / 4, depth - 1);
        __asm__ volatile("nop; nop");
    } else {
        come(self, ways / 4, depth - 1);
        __asm__ volatile("nop; nop; nop");
    }
}

/* Thousands of streams at once, none of which waits for another. */
void animal_many_streams(void)
{
    enum { COUNT = 4000 };
    static CUstream streams[COUNT];
    CUdeviceptr block;
    MUST(cuMemAlloc(&block, BYTES));
    for (int i = 0; i < COUNT; i++)
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2 * COUNT; i++)
        MUST(cuMemsetD8Async(block, 1, 64, streams[i % COUNT]));
    for (int i = 0; i < COUNT; i++) {
        MUST(cuStreamSynchronize(streams[i]));
        MUST(cuMemsetD8Async(block, 1, 64, streams[i]));
    }
    MUST(cuCtxSynchronize());
    printf("memory: %ld KiB\n", memory_now());
}

void animal_hour(void)
{
    const char *wanted = getenv("ZOO_ROUNDS");
    unsigned rounds = wanted == NULL ? 1000 : (unsigned)strtoul(wanted, NULL, 10);
    job own = {.module = NULL};
    kernels_register();
    for (int s = 0; s < STREAMS; s++)
        MUST(cuStreamCreate(&own.streams[s], CU_STREAM_NON_BLOCKING));
    for (int quarter = 1; quarter <= QUARTERS; quarter++) {
        for (unsigned i = 0; i < rounds / QUARTERS; i++, own.round++) {
            if (own.round % 64 == 0)
                module_change(&own);
            come(&own, own.round, 6);
        }
        many_blocks(quarter == 1 ? MANY : SOME, own.streams[quarter]);
        printf("memory: %ld KiB\n", memory_now());
    }
}
