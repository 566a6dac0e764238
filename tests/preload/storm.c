/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that do everything at once, at random but from a seed: memory of all kinds handed from
 * stream to stream by events, streams that come and go, captures and launches.
 */
#include <pthread.h>
#include <string.h>

#include "engine.h"
#include "scenarios.h"

enum { THREADS = 6, STEPS = 250, SLOTS = 12, BYTES_MAX = 400000 };

typedef struct slot {
    CUdeviceptr block;
    size_t bytes;
    int value, is_async;
} slot;

typedef struct worker {
    pthread_t thread;
    unsigned seed;
    CUstream streams[2];
    CUevent event;
    CUdeviceptr out;
    CUgraphExec exec;
    int exec_value;
    slot slots[SLOTS];
} worker;

static CUcontext context;

static unsigned draw(worker *self, unsigned below)
{
    self->seed = self->seed * 1664525u + 1013904223u;
    return (self->seed >> 8) % below;
}

/* Frees what is there, in one of the ways that are right for it; or fills the slot. */
static void slot_turn(worker *self, slot *one)
{
    CUstream maker = self->streams[draw(self, 2)];
    if (one->block != 0) {
        verify(one->block, one->value, one->bytes, maker);
        if (one->is_async || draw(self, 2))
            MUST(cu.cuMemFreeAsync(one->block, self->streams[draw(self, 2)]));
        else
            MUST(cu.cuMemFree(one->block));
        one->block = 0;
        return;
    }
    one->bytes = 1 + draw(self, BYTES_MAX);
    one->value = (int)draw(self, 256);
    one->is_async = (int)draw(self, 2);
    if (one->is_async)
        MUST(cu.cuMemAllocAsync(&one->block, one->bytes, maker));
    else
        MUST(cu.cuMemAlloc(&one->block, one->bytes));
    fill(one->block, one->value, one->bytes, maker);
    /* The other stream may read it next. */
    MUST(cu.cuEventRecord(self->event, maker));
    for (int i = 0; i < 2; i++)
        MUST(cu.cuStreamWaitEvent(self->streams[i], self->event, 0));
}

static void stream_renew(worker *self)
{
    CUstream *one = &self->streams[draw(self, 2)];
    MUST(cu.cuStreamSynchronize(*one));
    MUST(cu.cuStreamDestroy(*one));
    MUST(cu.cuStreamCreate(one, draw(self, 2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
}

static void graph_renew(worker *self)
{
    CUgraph graph;
    CUdeviceptr inside;
    CUstream stream = self->streams[0];
    size_t bytes = 1 + draw(self, BYTES_MAX);
    if (self->exec != NULL)
        MUST(cu.cuGraphExecDestroy(self->exec));
    self->exec_value = (int)draw(self, 256);
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(cu.cuMemAllocAsync(&inside, BYTES_MAX, stream));
    fill(inside, self->exec_value, BYTES_MAX, stream);
    MUST(cu.cuMemcpyDtoDAsync(self->out, inside, bytes, stream));
    MUST(cu.cuMemcpyDtoDAsync(self->out, inside, BYTES_MAX, stream));
    MUST(cu.cuMemFreeAsync(inside, stream));
    MUST(cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphInstantiateWithFlags(&self->exec, graph, 0));
    MUST(cu.cuGraphDestroy(graph));
}

static void graph_launch(worker *self)
{
    if (self->exec == NULL)
        return;
    CUstream stream = self->streams[draw(self, 2)];
    MUST(cu.cuGraphLaunch(self->exec, stream));
    verify(self->out, self->exec_value, BYTES_MAX, stream);
}

static void *worker_run(void *data)
{
    worker *self = data;
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuStreamCreate(&self->streams[0], CU_STREAM_NON_BLOCKING));
    MUST(cu.cuStreamCreate(&self->streams[1], CU_STREAM_DEFAULT));
    MUST(cu.cuEventCreate(&self->event, CU_EVENT_DISABLE_TIMING));
    MUST(cu.cuMemAlloc(&self->out, BYTES_MAX));
    for (int step = 0; step < STEPS; step++) {
        unsigned what = draw(self, 40);
        if (what == 0)
            stream_renew(self);
        else if (what == 1)
            graph_renew(self);
        else if (what < 6)
            graph_launch(self);
        else
            slot_turn(self, &self->slots[draw(self, SLOTS)]);
    }
    for (int i = 0; i < SLOTS; i++)
        if (self->slots[i].block != 0)
            slot_turn(self, &self->slots[i]);
    for (int i = 0; i < 2; i++)
        MUST(cu.cuStreamSynchronize(self->streams[i]));
    if (self->exec != NULL)
        MUST(cu.cuGraphExecDestroy(self->exec));
    MUST(cu.cuMemFree(self->out));
    MUST(cu.cuEventDestroy(self->event));
    for (int i = 0; i < 2; i++)
        MUST(cu.cuStreamDestroy(self->streams[i]));
    return NULL;
}

void scenario_storm(void)
{
    static worker workers[THREADS];
    const char *seed = getenv("ENGINE_SEED");
    context = engine_start(0);
    for (int i = 0; i < THREADS; i++) {
        workers[i].seed = (unsigned)(i * 7919) + (unsigned)(seed == NULL ? 1 : atoi(seed));
        CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
}
