/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world and the features of programs that know nothing of Tenure: what the driver has of the
 * same shapes. The same programs run on the driver alone, where they must find nothing, and with
 * Tenure under them, where they must find nothing either.
 */
#include "compose.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { DEVICES = 2, LANES = 3, BLOCKS_MAX = 128, CHURN_TURNS = 12, READS_MAX = 64 };

typedef enum origin { BY_MALLOC, BY_STREAM, BY_POOL } origin; /* how a block was allocated */

typedef struct block {
    CUdeviceptr at; /* 0: a place that is free */
    size_t bytes;
    unsigned value;
    int device;
    origin how;
    CUstream stream; /* its writes, and its free if it is ordered, are there */
} block;

struct world {
    CUcontext contexts[DEVICES];
    CUstream lanes[DEVICES][LANES];
    block blocks[BLOCKS_MAX];
    uint64_t random;
    unsigned values;
    CUdeviceptr scratch[DEVICES]; /* for captures, where the driver allocates nothing in them */
    int captures_allocate;
    int device;
    int captures; /* open */
};

static world the_world;

static void driver_check(CUresult got, const char *call, int line)
{
    if (got != CUDA_SUCCESS)
        compose_finding("line %d: %s gave %d", line, call, (int)got);
}
#define drive(call) driver_check((call), #call, __LINE__)

static uint64_t random_below(world *w, uint64_t bound)
{
    uint64_t z = (w->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % bound;
}

static void on(world *w, int device)
{
    drive(cuCtxSetCurrent(w->contexts[device]));
}

/* `to` comes after all that `from` was given. */
static void order(world *w, CUstream to, CUstream from, int from_device)
{
    CUevent event = NULL;
    on(w, from_device);
    drive(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    drive(cuEventRecord(event, from));
    drive(cuStreamWaitEvent(to, event, 0));
    drive(cuEventDestroy(event));
}

static void fence(world *w, CUstream to)
{
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < LANES; i++)
            order(w, to, w->lanes[d][i], d);
}

static CUstream stream_make(world *w, int device)
{
    CUstream stream = NULL;
    on(w, device);
    drive(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static block *block_make(world *w, origin how, CUmemoryPool pool, size_t bytes, int device,
                         int lane)
{
    block *b = w->blocks;
    while (b->at != 0)
        if (++b == w->blocks + BLOCKS_MAX)
            abort();
    on(w, device);
    *b = (block){.bytes = bytes, .device = device, .how = how, .stream = w->lanes[device][lane]};
    if (how == BY_MALLOC)
        drive(cuMemAlloc(&b->at, bytes));
    else if (how == BY_STREAM)
        drive(cuMemAllocAsync(&b->at, bytes, b->stream));
    else
        drive(cuMemAllocFromPoolAsync(&b->at, bytes, pool, b->stream));
    b->value = 0x01010101u * (1 + w->values++ % 250);
    drive(cuMemsetD32Async(b->at, b->value, bytes / 4, b->stream));
    return b;
}

static void block_free(world *w, block *b)
{
    if (b == NULL || b->at == 0)
        return;
    on(w, b->device);
    if (b->how == BY_MALLOC) {
        drive(cuMemFree(b->at));
    } else {
        fence(w, b->stream); /* others may have read it */
        on(w, b->device);
        drive(cuMemFreeAsync(b->at, b->stream));
    }
    b->at = 0;
}

static void blocks_check(world *w)
{
    for (int i = 0; i < BLOCKS_MAX; i++) {
        const block *b = &w->blocks[i];
        if (b->at == 0)
            continue;
        const size_t places[] = {0, b->bytes / 8 * 4, b->bytes - 4};
        for (int k = 0; k < 3; k++) {
            unsigned got = 0;
            on(w, b->device);
            drive(cuMemcpyDtoHAsync(&got, b->at + places[k], 4, b->stream));
            drive(cuStreamSynchronize(b->stream));
            if (got != b->value)
                compose_finding("block %d has %08x at byte %zu, not %08x", i, got, places[k],
                                b->value);
        }
    }
}

/* Memory of a capture. The simulated driver by itself has none, and a refusal would break the
 * capture: then it is memory of before. */
static CUdeviceptr captured_malloc(world *w, size_t bytes, int device, CUstream stream)
{
    CUdeviceptr at = 0;
    if (!w->captures_allocate)
        return w->scratch[device];
    drive(cuMemAllocAsync(&at, bytes, stream));
    return at;
}

static void captured_free(world *w, CUdeviceptr at, int device, CUstream stream)
{
    if (at != w->scratch[device])
        drive(cuMemFreeAsync(at, stream));
}

/* ---- the world ------------------------------------------------------------------------------- */

world *world_begin(uint64_t seed)
{
    static const char *const schedules[] = {"lazy", "random", "eager"};
    world *w = &the_world;
    setenv("TENURE_SIM_SCHEDULE", schedules[seed % 3], 1);
    w->random = seed;
    drive(cuInit(0));
    for (int d = 0; d < DEVICES; d++) {
        drive(cuDevicePrimaryCtxRetain(&w->contexts[d], d));
        for (int i = 0; i < LANES; i++)
            w->lanes[d][i] = stream_make(w, d);
    }
    for (int d = 0; d < DEVICES; d++) {
        on(w, d);
        drive(cuCtxEnablePeerAccess(w->contexts[1 - d], 0));
        drive(cuMemAlloc(&w->scratch[d], 2 * MIB));
    }
    w->captures_allocate = getenv("PRODUCTS_ALONE") == NULL;
    return w;
}

/* A quarter of a device at a time, much more than it has in all: what was freed serves again,
 * whatever else is going on. These calls a capture of any mode leaves to this thread. */
static void *churn(void *data)
{
    world *w = data;
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < CHURN_TURNS; i++) {
            CUdeviceptr at = 0;
            CUstream lane = w->lanes[d][2];
            size_t quarter = 128 * MIB;
            on(w, d);
            if (i % 2 == 0)
                drive(cuMemAlloc(&at, quarter));
            else
                drive(cuMemAllocAsync(&at, quarter, lane));
            drive(cuMemsetD32Async(at, 5, 1024, lane));
            if (i % 2 != 0) {
                drive(cuMemFreeAsync(at, lane));
                continue;
            }
            drive(cuStreamSynchronize(lane));
            drive(cuMemFree(at));
        }
    return NULL;
}

void world_check(world *w)
{
    if (random_below(w, 2) == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, churn, w) != 0)
            abort();
        (void)pthread_join(thread, NULL);
    }
    blocks_check(w);
}

void world_end(world *w, int by_force)
{
    blocks_check(w);
    for (int i = 0; i < BLOCKS_MAX && !by_force; i++)
        block_free(w, &w->blocks[i]);
    for (int d = 0; d < DEVICES; d++) {
        on(w, d);
        drive(cuCtxSynchronize());
    }
    if (!by_force)
        (void)churn(w);
    for (int d = 0; d < DEVICES && !by_force; d++) {
        on(w, d);
        drive(cuMemFree(w->scratch[d]));
        for (int i = 0; i < LANES; i++)
            drive(cuStreamDestroy(w->lanes[d][i]));
        drive(cuDevicePrimaryCtxRelease(d));
    }
}

/* ---- devices, and how memory is asked for ---------------------------------------------------- */

typedef struct kind {
    origin how;
    CUmemoryPool pool;
    int device;
    block *kept[2];
} kind;

static void kind_enter(world *w, kind *k, origin how, int device)
{
    k->how = how;
    k->device = device;
    for (int i = 0; i < 2; i++)
        k->kept[i] = block_make(w, how, k->pool, (3 + (size_t)i) * MIB, device, i);
}

/* A stream of each device reads what is there. */
static void kind_act(world *w, kind *k, int turn)
{
    block *b = block_make(w, k->how, k->pool, 64 * KIB << turn, k->device, turn % LANES);
    CUstream reader = w->lanes[k->device][(turn + 1) % LANES];
    block *into = block_make(w, k->how, k->pool, b->bytes, k->device, (turn + 1) % LANES);
    order(w, reader, b->stream, b->device);
    on(w, k->device);
    drive(cuMemcpyDtoDAsync(into->at, b->at, b->bytes, reader));
    into->value = b->value;
    block_free(w, b);
    block_free(w, into);
    block_free(w, k->kept[turn % 2]);
    k->kept[turn % 2] =
        block_make(w, k->how, k->pool, (2 + (size_t)turn) * MIB, k->device, (turn + 1) % LANES);
}

static void kind_leave(world *w, kind *k)
{
    for (int i = 0; i < 2; i++)
        block_free(w, k->kept[i]);
}

#define KIND(name, how_, device_, set_device)                                                      \
    static kind name;                                                                              \
    static void name##_enter(world *w)                                                             \
    {                                                                                              \
        if ((set_device) >= 0)                                                                     \
            w->device = (set_device);                                                              \
        kind_enter(w, &name, (how_), (device_));                                                   \
    }                                                                                              \
    static void name##_act(world *w, int turn)                                                     \
    {                                                                                              \
        kind_act(w, &name, turn);                                                                  \
    }                                                                                              \
    static void name##_leave(world *w)                                                             \
    {                                                                                              \
        kind_leave(w, &name);                                                                      \
        if ((set_device) >= 0)                                                                     \
            w->device = 0;                                                                         \
    }

KIND(first, BY_MALLOC, 0, 0)
KIND(second, BY_MALLOC, 1, 1)
KIND(by_malloc, BY_MALLOC, w->device, -1)
KIND(by_stream, BY_STREAM, w->device, -1)
static const feature device_first = {"device:first", NULL,        first_enter,
                                     first_act,      first_leave, NULL};
static const feature device_second = {"device:second", NULL,         second_enter,
                                      second_act,      second_leave, NULL};
static const feature pool_sync = {"pool:sync",     NULL, by_malloc_enter, by_malloc_act,
                                  by_malloc_leave, NULL};
static const feature pool_stream = {"pool:stream",   NULL, by_stream_enter, by_stream_act,
                                    by_stream_leave, NULL};

static kind own;

static void own_enter(world *w)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = w->device}};
    drive(cuMemPoolCreate(&own.pool, &props));
    kind_enter(w, &own, BY_POOL, w->device);
}

static void own_act(world *w, int turn)
{
    kind_act(w, &own, turn);
}

static void own_leave(world *w)
{
    kind_leave(w, &own);
    drive(cuMemPoolDestroy(own.pool));
}

static const feature pool_own = {"pool:own", NULL, own_enter, own_act, own_leave, NULL};

/* ---- graphs ---------------------------------------------------------------------------------- */

/* It copies the first word of every block that was there to `out`, by way of memory of its own. */
typedef struct graph {
    CUgraph cuda;
    CUgraphExec exec;
    CUstream stream;
    CUdeviceptr out;
    int device, count;
    block *reads[READS_MAX]; /* null: freed since */
    CUdeviceptr reads_at[READS_MAX];
    unsigned expected[READS_MAX];
} graph;

static void graph_capture(world *w, graph *g, int device, CUstreamCaptureMode mode)
{
    g->device = device;
    g->stream = stream_make(w, device);
    drive(cuMemAlloc(&g->out, 4 * READS_MAX));
    drive(cuStreamBeginCapture(g->stream, mode));
    CUdeviceptr scratch = captured_malloc(w, 4 * READS_MAX, device, g->stream);
    drive(cuMemsetD32Async(scratch, 7, READS_MAX, g->stream));
    g->count = 0;
    for (int i = 0; i < BLOCKS_MAX && g->count < READS_MAX; i++) {
        block *b = &w->blocks[i];
        /* What is of a stream's own pool is reached by its device alone. */
        if (b->at == 0 || (b->how != BY_MALLOC && b->device != device))
            continue;
        g->reads[g->count] = b;
        g->reads_at[g->count] = b->at;
        g->expected[g->count] = b->value;
        drive(cuMemcpyDtoDAsync(scratch + 4 * (size_t)g->count, b->at, 4, g->stream));
        g->count++;
    }
    drive(cuMemcpyDtoDAsync(g->out, scratch, 4 * READS_MAX, g->stream));
    captured_free(w, scratch, device, g->stream);
    drive(cuStreamEndCapture(g->stream, &g->cuda));
    drive(cuGraphInstantiate(&g->exec, g->cuda, 0));
}

/* Launched only while all that it reads is there: the driver keeps nothing for it. */
static void graph_launch(world *w, graph *g)
{
    unsigned got[READS_MAX];
    for (int i = 0; i < g->count; i++)
        if (g->reads[i]->at != g->reads_at[i] || g->reads[i]->value != g->expected[i])
            return;
    on(w, g->device);
    fence(w, g->stream);
    on(w, g->device);
    drive(cuGraphLaunch(g->exec, g->stream));
    drive(cuMemcpyDtoHAsync(got, g->out, sizeof(got), g->stream));
    drive(cuStreamSynchronize(g->stream));
    for (int i = 0; i < g->count; i++)
        if (got[i] != g->expected[i])
            compose_finding("the graph reads %08x in block %d, not %08x", got[i], i,
                            g->expected[i]);
}

static void graph_destroy(world *w, graph *g)
{
    if (g->stream == NULL)
        return;
    on(w, g->device);
    if (g->exec != NULL)
        drive(cuGraphExecDestroy(g->exec));
    drive(cuGraphDestroy(g->cuda));
    drive(cuMemFree(g->out));
    drive(cuStreamDestroy(g->stream));
    memset(g, 0, sizeof(*g));
}

static graph here, elsewhere, before, after;

static void here_enter(world *w)
{
    graph_capture(w, &here, w->device, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void here_act(world *w, int turn)
{
    (void)turn;
    graph_launch(w, &here);
}

static void here_leave(world *w)
{
    graph_destroy(w, &here);
}

static const feature graph_here = {"graph:here", NULL, here_enter, here_act, here_leave, NULL};

static void elsewhere_enter(world *w)
{
    graph_capture(w, &elsewhere, 1 - w->device, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static void elsewhere_act(world *w, int turn)
{
    (void)turn;
    graph_launch(w, &elsewhere);
}

static void elsewhere_leave(world *w)
{
    graph_destroy(w, &elsewhere);
}

static const feature graph_elsewhere = {"graph:elsewhere", NULL, elsewhere_enter, elsewhere_act,
                                        elsewhere_leave,   NULL};

static void updated_enter(world *w)
{
    graph_capture(w, &before, w->device, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void updated_act(world *w, int turn)
{
    CUgraphExecUpdateResultInfo info;
    graph_launch(w, &before);
    if (turn != 1 || w->captures != 0)
        return;
    graph_capture(w, &after, before.device, CU_STREAM_CAPTURE_MODE_RELAXED);
    memset(&info, 0, sizeof(info));
    if (cuGraphExecUpdate(before.exec, after.cuda, &info) == CUDA_SUCCESS) {
        drive(cuGraphExecDestroy(after.exec)); /* the updated one takes its place */
        after.exec = before.exec;
        before.exec = NULL;
        before.count = READS_MAX; /* never launched again: */
        memset(before.reads_at, 0xff, sizeof(before.reads_at));
        for (int i = 0; i < READS_MAX; i++)
            before.reads[i] = &w->blocks[0];
    }
    graph_launch(w, &after);
}

static void updated_leave(world *w)
{
    graph_destroy(w, &before);
    graph_destroy(w, &after);
}

static const feature graph_updated = {"graph:updated", NULL,          updated_enter,
                                      updated_act,     updated_leave, NULL};

/* ---- captures -------------------------------------------------------------------------------- */

static CUstream open_stream;
static int open_device;

static void captured_work(world *w, int device, CUstream stream)
{
    on(w, device);
    CUdeviceptr at = captured_malloc(w, 2 * MIB, device, stream);
    drive(cuMemsetD32Async(at, 3, 2 * MIB / 4, stream));
    captured_free(w, at, device, stream);
}

static void open_enter(world *w)
{
    open_device = w->device;
    open_stream = stream_make(w, w->device);
    drive(cuStreamBeginCapture(open_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    w->captures++;
}

static void open_act(world *w, int turn)
{
    (void)turn;
    captured_work(w, open_device, open_stream);
}

static void open_leave(world *w)
{
    CUgraph cuda = NULL;
    drive(cuStreamEndCapture(open_stream, &cuda));
    w->captures--;
    drive(cuGraphDestroy(cuda));
    drive(cuStreamDestroy(open_stream));
}

static const feature capture_open = {"capture:open", NULL,       open_enter,
                                     open_act,       open_leave, open_leave};

/* Begun and ended by a thread that then waits: the driver leaves it to that thread to end it. */
static pthread_t other;
static pthread_mutex_t other_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t other_told = PTHREAD_COND_INITIALIZER;
static int other_began, other_may_end;
static CUstream other_stream;

static void *other_be(void *data)
{
    world *w = data;
    CUgraph cuda = NULL;
    int device = w->device;
    other_stream = stream_make(w, device);
    drive(cuStreamBeginCapture(other_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    captured_work(w, device, other_stream);
    (void)pthread_mutex_lock(&other_lock);
    other_began = 1;
    (void)pthread_cond_broadcast(&other_told);
    while (!other_may_end)
        (void)pthread_cond_wait(&other_told, &other_lock);
    (void)pthread_mutex_unlock(&other_lock);
    captured_work(w, device, other_stream);
    drive(cuStreamEndCapture(other_stream, &cuda));
    drive(cuGraphDestroy(cuda));
    drive(cuStreamDestroy(other_stream));
    return NULL;
}

static void beside_enter(world *w)
{
    if (pthread_create(&other, NULL, other_be, w) != 0)
        abort();
    (void)pthread_mutex_lock(&other_lock);
    while (!other_began)
        (void)pthread_cond_wait(&other_told, &other_lock);
    (void)pthread_mutex_unlock(&other_lock);
    w->captures++;
}

static void none_act(world *w, int turn)
{
    (void)w, (void)turn;
}

static void beside_leave(world *w)
{
    (void)pthread_mutex_lock(&other_lock);
    other_may_end = 1;
    (void)pthread_cond_broadcast(&other_told);
    (void)pthread_mutex_unlock(&other_lock);
    (void)pthread_join(other, NULL);
    w->captures--;
}

static const feature capture_beside = {"capture:beside", NULL,         beside_enter,
                                       none_act,         beside_leave, beside_leave};

static void none(world *w)
{
    (void)w;
}

static void *end_wrongly(void *data)
{
    CUgraph cuda = NULL;
    if (cuStreamEndCapture(data, &cuda) != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        compose_finding("a thread that may not end the capture has ended it");
    return NULL;
}

static void wrong_end_act(world *w, int turn)
{
    pthread_t thread;
    CUgraph cuda = NULL;
    CUstream stream = stream_make(w, w->device);
    drive(cuStreamBeginCapture(stream, turn == 1 ? CU_STREAM_CAPTURE_MODE_GLOBAL
                                                 : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    captured_work(w, w->device, stream);
    if (pthread_create(&thread, NULL, end_wrongly, stream) != 0)
        abort();
    (void)pthread_join(thread, NULL);
    if (cuStreamEndCapture(stream, &cuda) == CUDA_SUCCESS)
        compose_finding("a capture that was ended in a wrong way has made a graph");
    drive(cuStreamDestroy(stream));
}

static const feature capture_wrong_end = {"capture:wrong_end", NULL, none,
                                          wrong_end_act,       none, NULL};

static void invalidated_act(world *w, int turn)
{
    CUgraph cuda = NULL;
    CUstream stream = stream_make(w, w->device);
    drive(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    captured_work(w, w->device, stream);
    if (cuStreamSynchronize(stream) == CUDA_SUCCESS)
        compose_finding("a stream that is captured was waited for");
    /* Every second time nobody ends it but the stream's end. */
    if (turn != 1 && cuStreamEndCapture(stream, &cuda) == CUDA_SUCCESS)
        compose_finding("a capture that is invalid has made a graph");
    drive(cuStreamDestroy(stream));
}

static const feature capture_invalidated = {"capture:invalidated", NULL, none,
                                            invalidated_act,       none, NULL};

static void destroyed_act(world *w, int turn)
{
    CUstream stream = stream_make(w, w->device);
    drive(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (turn != 1)
        captured_work(w, w->device, stream);
    drive(cuStreamDestroy(stream));
}

static const feature capture_destroyed = {"capture:destroyed", NULL, none,
                                          destroyed_act,       none, NULL};

/* ---- threads --------------------------------------------------------------------------------- */

static void ended_enter(world *w)
{
    (void)w;
    compose_run_by(compose_run_in_thread);
}

static void ended_leave(world *w)
{
    (void)w;
    compose_run_by(NULL);
}

static const feature thread_ended = {"thread:ended", NULL,        ended_enter,
                                     none_act,       ended_leave, NULL};

/* A child that has nothing to do with the driver. */
static void forked_act(world *w, int turn)
{
    int status = 0;
    (void)w, (void)turn;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        compose_finding("the child of a fork ends with %x", (unsigned)status);
}

static const feature thread_forked = {"thread:forked", NULL, none, forked_act, none, NULL};

const feature *const compose_features[] = {
    &device_first,      &device_second,  &pool_sync,         &pool_stream,
    &pool_own,          &graph_here,     &graph_elsewhere,   &graph_updated,
    &capture_open,      &capture_beside, &capture_wrong_end, &capture_invalidated,
    &capture_destroyed, &thread_ended,   &thread_forked,     NULL};

int main(int argc, char **argv)
{
    return compose_main(argc, argv);
}
