/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures that end in every way: as they should, by another thread, with their stream, invalid,
 * and not at all while memory is used elsewhere. Each in every mode, and with memory allocated and
 * freed inside, beside, and by another thread; on this device, and on another one. Afterwards, or
 * meanwhile, a thread turns over more memory than the device has: what was freed must come back.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "engine.h"
#include "scenarios.h"

enum { SMALL = 300000, LARGE = 100 << 20, TURNS = 12 };

typedef enum ending { ENDED, ENDED_BY_OTHER, DESTROYED, INVALIDATED, LEFT_OPEN, ENDINGS } ending;
typedef enum place { NOWHERE, INSIDE, BESIDE, BY_OTHER, PLACES } place;

typedef struct trial {
    CUcontext context;   /* of the capture */
    CUcontext elsewhere; /* of the memory that is turned over */
    CUstream stream;     /* captured */
    CUstream beside;     /* of `elsewhere` */
    CUstreamCaptureMode mode;
    ending end;
    place memory;
} trial;

/* Runs on a thread of its own, to its end. */
static void elsewhere(void *(*work)(void *), trial *of)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, of) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void *turn_over(void *of)
{
    trial *self = of;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* the driver forbids nothing then */
    MUST(cu.cuCtxSetCurrent(self->elsewhere));
    MUST(cu.cuThreadExchangeStreamCaptureMode(&mode));
    for (int i = 0; i < TURNS; i++) {
        CUdeviceptr block;
        MUST(cu.cuMemAlloc(&block, LARGE));
        fill(block, i, SMALL, self->beside);
        verify(block, i, SMALL, self->beside);
        MUST(cu.cuMemFree(block));
    }
    MUST(cu.cuThreadExchangeStreamCaptureMode(&mode));
    return NULL;
}

static void *allocate(void *of)
{
    trial *self = of;
    CUdeviceptr block;
    MUST(cu.cuCtxSetCurrent(self->context));
    MUST(cu.cuMemAlloc(&block, SMALL));
    MUST(cu.cuMemFree(block));
    return NULL;
}

static void *end(void *of)
{
    trial *self = of;
    CUgraph graph = NULL;
    int may_end = self->mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    MUST_BE(cu.cuStreamEndCapture(self->stream, &graph),
            may_end ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    if (may_end)
        MUST(cu.cuGraphDestroy(graph));
    return NULL;
}

static void capture(trial *self)
{
    CUdeviceptr block;
    MUST(cu.cuStreamBeginCapture(self->stream, self->mode));
    if (self->memory == INSIDE) {
        MUST(cu.cuMemAllocAsync(&block, SMALL, self->stream));
        fill(block, 7, SMALL, self->stream);
        MUST(cu.cuMemFreeAsync(block, self->stream));
    } else if (self->memory == BESIDE) {
        (void)allocate(self);
    } else if (self->memory == BY_OTHER) {
        elsewhere(allocate, self);
    }
}

static void run(trial *self, int is_own_thread)
{
    CUgraph graph = NULL;
    MUST(cu.cuCtxSetCurrent(self->context));
    MUST(cu.cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING));
    capture(self);
    if (self->end == ENDED_BY_OTHER) {
        elsewhere(end, self);
        if (self->memory != BESIDE)
            MUST_BE(cu.cuStreamEndCapture(self->stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    } else if (self->end == DESTROYED) {
        MUST(cu.cuStreamDestroy(self->stream));
    } else if (self->end == INVALIDATED) {
        CHECK(cu.cuStreamSynchronize(self->stream) != CUDA_SUCCESS);
        MUST_BE(cu.cuStreamEndCapture(self->stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    if (self->end != ENDED && is_own_thread)
        (void)turn_over(self);
    else if (self->end != ENDED)
        elsewhere(turn_over, self);
    MUST(cu.cuCtxSetCurrent(self->context));
    if (self->end == ENDED || self->end == LEFT_OPEN) {
        MUST(cu.cuStreamEndCapture(self->stream, &graph));
        MUST(cu.cuGraphDestroy(graph));
    }
    if (self->end != DESTROYED)
        MUST(cu.cuStreamDestroy(self->stream));
    (void)turn_over(self);
}

void scenario_capture_ends(void)
{
    int devices = 0;
    trial self = {.context = engine_start(0)};
    MUST(cu.cuDeviceGetCount(&devices));
    for (int device = 0; device < devices; device++) {
        self.elsewhere = engine_start(device);
        MUST(cu.cuStreamCreate(&self.beside, CU_STREAM_NON_BLOCKING));
        for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
             mode++)
            for (int i = 0; i < ENDINGS * PLACES * 2; i++) {
                self.mode = (CUstreamCaptureMode)mode;
                self.end = (ending)(i % ENDINGS);
                self.memory = (place)(i / ENDINGS % PLACES);
                run(&self, i / ENDINGS / PLACES);
            }
        MUST(cu.cuCtxSetCurrent(self.elsewhere));
        MUST(cu.cuStreamDestroy(self.beside));
    }
}

/* ---- captures that begin unseen ------------------------------------------------------------- */

/* The driver's own function, past whatever stands before it, as one whose name nobody replaces. */
static PFN_cuStreamBeginCapture_v10010 unseen_begin(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void *(*look_up)(void *, const char *) = NULL;
    PFN_cuStreamBeginCapture_v10010 begin = NULL;
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]) && look_up == NULL; i++) {
        void *found = dlvsym(libc, "dlsym", versions[i]);
        memcpy(&look_up, &found, sizeof(found));
    }
    CHECK(look_up != NULL);
    void *found = look_up(dlopen("libcuda.so.1", RTLD_NOW), "cuStreamBeginCapture_v2");
    memcpy(&begin, &found, sizeof(found));
    CHECK(begin != NULL);
    return begin;
}

/* A graph that writes memory which was allocated and freed in its capture, of which nothing told;
 * what others have afterwards is apart from that. The second capture is seen by its first
 * allocation, on a stream that was drawn into it. */
void scenario_capture_unseen(void)
{
    CUstream streams[2];
    CUdeviceptr inside, later[4];
    CUevent event;
    engine_start(0);
    PFN_cuStreamBeginCapture_v10010 begin = unseen_begin();
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++)
        MUST(cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < 4; round++) {
        CUgraph graph;
        CUgraphExec exec;
        size_t bytes = round % 2 == 0 ? SMALL : 3 * SMALL * 10 + 512;
        MUST(cu.cuMemAllocAsync(&inside, bytes, streams[round > 0])); /* what a warm-up does */
        MUST(cu.cuMemFreeAsync(inside, streams[round > 0]));
        MUST(cu.cuStreamSynchronize(streams[round > 0]));
        MUST(begin(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
        MUST(cu.cuEventRecord(event, streams[0]));
        MUST(cu.cuStreamWaitEvent(streams[1], event, 0));
        MUST(cu.cuMemAllocAsync(&inside, bytes, streams[round > 0]));
        fill(inside, 0xab, bytes, streams[round > 0]);
        MUST(cu.cuMemFreeAsync(inside, streams[round > 0]));
        MUST(cu.cuEventRecord(event, streams[1]));
        MUST(cu.cuStreamWaitEvent(streams[0], event, 0));
        MUST(cu.cuStreamEndCapture(streams[0], &graph));
        MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        MUST(cu.cuGraphDestroy(graph));
        for (int i = 0; i < 4; i++) {
            MUST(cu.cuMemAllocAsync(&later[i], i < 2 ? bytes : bytes / 4, streams[i % 2]));
            fill(later[i], i, bytes / 4, streams[i % 2]);
            MUST(cu.cuStreamSynchronize(streams[i % 2]));
        }
        MUST(cu.cuGraphLaunch(exec, streams[0]));
        for (int i = 0; i < 4; i++) {
            verify(later[i], i, bytes / 4, streams[0]);
            MUST(cu.cuMemFreeAsync(later[i], streams[i % 2]));
        }
        MUST(cu.cuGraphExecDestroy(exec));
    }
    MUST(cu.cuEventDestroy(event));
    for (int i = 0; i < 2; i++)
        MUST(cu.cuStreamDestroy(streams[i]));
}
