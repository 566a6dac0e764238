/* SPDX-License-Identifier: Apache-2.0 */
/* See world.h. */
#include "world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t world_random(world *w, uint64_t bound)
{
    uint64_t z = (w->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % bound;
}

/* ---- calls ----------------------------------------------------------------------------------- */

int world_status(tnr_status got, uint64_t refusals, const char *call, const char *file, int line)
{
    if (got == TNR_OK)
        return 1;
    if ((refusals >> got & 1) != 0)
        return 0;
    compose_finding("%s:%d: %s gave %s: %s", file, line, call, tnr_status_name(got),
                    tnr_last_error());
}

void world_driver(CUresult got, const char *call, const char *file, int line)
{
    const char *name = NULL;
    if (got == CUDA_SUCCESS)
        return;
    (void)cuGetErrorName(got, &name);
    compose_finding("%s:%d: %s gave %s", file, line, call, name == NULL ? "?" : name);
}

/* ---- streams --------------------------------------------------------------------------------- */

void world_on(world *w, int device)
{
    drive(cuCtxSetCurrent(w->contexts[device]));
}

CUstream world_stream(world *w, int device)
{
    CUstream stream = NULL;
    world_on(w, device);
    drive(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < STREAMS_MAX; i++)
        if (w->streams[i] == NULL) {
            w->streams[i] = stream;
            w->streams_device[i] = device;
            return stream;
        }
    abort();
}

void world_stream_end(world *w, CUstream stream, int device, int is_told)
{
    for (int i = 0; i < STREAMS_MAX; i++)
        if (w->streams[i] == stream)
            w->streams[i] = NULL;
    if (is_told)
        ok(tnr_stream_destroying(device, stream));
    drive(cuStreamDestroy(stream));
}

static int is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    drive(cuStreamIsCapturing(stream, &status));
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void world_order(world *w, CUstream to, CUstream from, int from_device)
{
    CUevent event = NULL;
    CUcontext before = NULL;
    drive(cuCtxGetCurrent(&before));
    world_on(w, from_device);
    drive(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    drive(cuEventRecord(event, from));
    drive(cuStreamWaitEvent(to, event, 0));
    drive(cuEventDestroy(event));
    drive(cuCtxSetCurrent(before));
}

void world_fence(world *w, CUstream to)
{
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < LANES; i++)
            if (w->lanes[d][i] != to)
                world_order(w, to, w->lanes[d][i], d);
    for (int i = 0; i < STREAMS_MAX; i++)
        if (w->streams[i] != NULL && w->streams[i] != to && !is_capturing(w->streams[i]))
            world_order(w, to, w->streams[i], w->streams_device[i]);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static int overlap(const unsigned char *a, size_t a_bytes, const unsigned char *b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* No live block has it, and no graph that lives. */
static void check_apart(world *w, const unsigned char *at, size_t bytes, tnr_pool pool)
{
    for (int i = 0; i < BLOCKS_MAX; i++) {
        const block *b = &w->blocks[i];
        if (b->at != NULL && b->freeing == 0 && overlap(at, bytes, b->at, b->bytes))
            compose_finding("a block at %p lies over the one of '%s' at %p", (const void *)at,
                            b->who, (const void *)b->at);
    }
    for (const graph *g = w->graphs; g != NULL; g = g->next)
        for (int i = 0; i < g->memory_count; i++)
            if (g->memory[i].pool != pool &&
                overlap(at, bytes, g->memory[i].at, g->memory[i].bytes))
                compose_finding("a block at %p lies in the memory of a graph that lives",
                                (const void *)at);
}

static block *block_enter(world *w, void *at, tnr_pool pool, size_t bytes, int device)
{
    check_apart(w, at, bytes, pool);
    for (int i = 0; i < BLOCKS_MAX; i++) {
        block *b = &w->blocks[i];
        if (b->at != NULL)
            continue;
        memset(b, 0, sizeof(*b));
        b->at = at;
        b->bytes = bytes;
        b->device = device;
        b->pool = pool;
        b->who = strdup(compose_step());
        b->value = UINT32_C(0x01010101) * (1 + w->values++ % 250);
        return b;
    }
    abort();
}

block *world_adopt(world *w, void *at, tnr_pool pool, size_t bytes, int device, CUstream stream,
                   int is_graphs)
{
    block *b = block_enter(w, at, pool, bytes, device);
    b->stream = stream;
    b->is_graphs = is_graphs;
    if (!is_graphs) {
        world_fill(w, b->at, bytes, b->value, device, stream);
        b->is_written = 1;
    }
    return b;
}

block *world_adopt_host(world *w, void *at, tnr_pool pool, size_t bytes, int device)
{
    block *b = block_enter(w, at, pool, bytes, device);
    simcuda_host_takes((CUdeviceptr)b->at, bytes);
    b->is_host = b->is_written = 1;
    b->stream_ended = 1; /* it has none that comes before others */
    memset(b->at, (int)(b->value & 0xff), bytes);
    return b;
}

block *world_malloc(world *w, tnr_pool pool, size_t bytes, int device, CUstream stream)
{
    void *at = NULL;
    uint64_t refusals = MAY(w->asleep[device], TNR_ERR_ASLEEP);
    world_on(w, device);
    if (pool == NULL ? !may(tnr_malloc(&at, bytes, device, stream), refusals)
                     : !may(tnr_pool_malloc(&at, pool, bytes, device, stream), refusals))
        return NULL;
    return world_adopt(w, at, pool, bytes, device, stream, 0);
}

static void block_forget(world *w, block *b)
{
    for (graph *g = w->graphs; g != NULL; g = g->next) {
        for (int i = 0; i < g->reads_count; i++)
            if (g->reads[i] == b)
                g->reads[i] = NULL;
        if (g->out == b)
            g->out = NULL;
    }
    free((char *)b->who);
    b->at = NULL;
    b->freeing = 0;
}

static void CUDA_CB host_free(void *data)
{
    block *b = data;
    b->freed = (int)tnr_free(b->at);
    b->freeing = 2;
}

/* The block's stream ends with a host function that frees it. */
static void free_by_host(world *w, block *b)
{
    (void)w;
    b->freeing = 1;
    drive(cuLaunchHostFunc(b->stream, host_free, b));
    drive(cuStreamSynchronize(b->stream));
    if (b->freeing != 2)
        compose_finding("the host function that frees has not run");
    (void)may((tnr_status)b->freed, MAY(b->is_parked && b->refs > 0, TNR_ERR_PARKED));
}

void world_free(world *w, block *b)
{
    if (b == NULL || b->at == NULL)
        return;
    world_on(w, b->device);
    /* A capture of this thread forbids the wait. */
    if (w->frees_by_host && !b->stream_ended && w->captures_here == 0 && !is_capturing(b->stream)) {
        free_by_host(w, b);
        block_forget(w, b);
    } else if (may(tnr_free(b->at), MAY(b->is_parked && b->refs > 0, TNR_ERR_PARKED))) {
        block_forget(w, b);
    } else {
        CUstream lane = w->lanes[b->device][0];
        world_fence(w, lane);
        if (may(tnr_unpark(b->at, lane), MAY(w->captures > 0, TNR_ERR_CAPTURE) |
                                             MAY(w->captures > 0, TNR_ERR_BUSY) |
                                             MAY(w->asleep[b->device], TNR_ERR_ASLEEP))) {
            b->is_parked = 0;
            ok(tnr_free(b->at));
            block_forget(w, b);
        } else {
            b->is_alone = 1; /* stays until the end */
        }
    }
}

int world_is_open_to(const world *w, const block *b, int device)
{
    return b->at != NULL && !b->is_alone && !b->is_parked && b->is_written && b->freeing == 0 &&
           !w->asleep[b->device] && (b->device == device || !b->is_closed);
}

void world_read(world *w, block *b, int lane, int device, int by_stream)
{
    CUstream reader = w->lanes[device][lane];
    block *sink = w->sinks[device][lane];
    if (b == NULL || sink == NULL || reader == b->stream || !world_is_open_to(w, b, device) ||
        w->asleep[device])
        return;
    if (!b->stream_ended)
        world_order(w, reader, b->stream, b->device);
    /* "No later than the free" may be said before the use; of peers it may not be said at all. */
    int early = by_stream && b->device == device;
    if (early)
        ok(tnr_record_stream(b->at, reader));
    world_on(w, device);
    drive(cuMemcpyDtoDAsync((CUdeviceptr)sink->at, (CUdeviceptr)b->at,
                            b->bytes < sink->bytes ? b->bytes : sink->bytes, reader));
    if (!early)
        ok(tnr_record_use(b->at, reader));
}

void world_pool_destroy(world *w, tnr_pool pool)
{
    int graphs = w->graphs != NULL, parked = 0;
    /* The true reasons: graphs that live may keep blocks of it, and captures that Tenure follows
     * what was freed meanwhile. No stream that is captured has memory of it, so all work on it can
     * be waited for. */
    for (int i = 0; i < BLOCKS_MAX; i++)
        parked |= w->blocks[i].at != NULL && w->blocks[i].pool == pool;
    if (may(tnr_pool_destroy(pool), MAY(graphs || parked || w->captures_tenures > 0, TNR_ERR_BUSY)))
        return;
    if (w->deferred_count == DEFERRED_MAX)
        abort();
    w->deferred[w->deferred_count++] = pool;
}
