/* SPDX-License-Identifier: Apache-2.0 */
/* Features "pool:": a pool of each kind, with blocks that stay and blocks that go, which streams of
 * both devices use, and its end while the other features go on. */
#include "all.h"

#include <string.h>

#include <tenure/host.h>

enum { KEPT = 2 };

typedef struct pooled {
    tnr_pool pool; /* null: the default one */
    int device;
    int is_closed, is_vouched;
    block *kept[KEPT];
} pooled;

static void pooled_flags(const pooled *p, block *b)
{
    if (b == NULL)
        return;
    b->is_closed = p->is_closed;
    b->is_vouched = p->is_vouched;
}

static block *pooled_malloc(world *w, pooled *p, size_t bytes, int lane)
{
    block *b = world_malloc(w, p->pool, bytes, p->device, w->lanes[p->device][lane]);
    pooled_flags(p, b);
    return b;
}

static void pooled_enter(world *w, pooled *p)
{
    p->device = w->device;
    p->kept[0] = pooled_malloc(w, p, 6 * MIB, 0);
    p->kept[1] = pooled_malloc(w, p, 64 * KIB, 1);
}

/* A pool that begins and ends meanwhile, with memory that is free in it. */
static void passing(world *w, int device)
{
    tnr_pool pool = NULL;
    ok(tnr_pool_create(&pool, device, NULL));
    world_free(w, world_malloc(w, pool, 24 * MIB, device, w->lanes[device][1]));
    world_pool_destroy(w, pool);
}

static void pooled_act(world *w, pooled *p, int turn)
{
    block *a = pooled_malloc(w, p, MIB, 0), *b = pooled_malloc(w, p, 5 * MIB / 2, 1);
    world_read(w, a, 1, p->device, 1);
    world_read(w, a, 0, 1 - p->device, 0);
    world_read(w, p->kept[0], 2, p->device, turn % 2);
    world_read(w, p->kept[0], 2, 1 - p->device, 0);
    world_free(w, a);
    world_free(w, b);
    world_free(w, p->kept[turn % KEPT]);
    p->kept[turn % KEPT] = pooled_malloc(w, p, (4 + (size_t)turn) * MIB, turn % LANES);
    if (turn == 1)
        passing(w, p->device);
}

static void pooled_leave(world *w, pooled *p)
{
    for (int i = 0; i < KEPT; i++) {
        world_free(w, p->kept[i]);
        p->kept[i] = NULL;
    }
    if (p->pool != NULL)
        world_pool_destroy(w, p->pool);
}

/* ---- the default pool ------------------------------------------------------------------------ */

static pooled by_default;

static void default_enter(world *w)
{
    pooled_enter(w, &by_default);
}

static void default_act(world *w, int turn)
{
    pooled_act(w, &by_default, turn);
}

static void default_leave(world *w)
{
    pooled_leave(w, &by_default);
}

const feature pool_default = {"pool:default", NULL,          default_enter,
                              default_act,    default_leave, NULL};

/* ---- one of its own -------------------------------------------------------------------------- */

static pooled own;

static void own_enter(world *w)
{
    ok(tnr_pool_create(&own.pool, w->device, NULL));
    pooled_enter(w, &own);
}

static void own_act(world *w, int turn)
{
    pooled_act(w, &own, turn);
}

static void own_leave(world *w)
{
    pooled_leave(w, &own);
}

const feature pool_own = {"pool:own", NULL, own_enter, own_act, own_leave, NULL};

/* ---- for graphs ------------------------------------------------------------------------------ */

static tnr_pool of_graphs;
static graph pool_graphs[2];

static void graph_enter(world *w)
{
    ok(tnr_graph_pool_create(&of_graphs, w->device, NULL));
    (void)world_capture(w, &pool_graphs[0], w->device, of_graphs);
    world_launch(w, &pool_graphs[0]);
}

static void graph_act(world *w, int turn)
{
    graph *g = &pool_graphs[0];
    if (turn == 1) {
        world_free(w, g->out); /* graphs that read it keep it */
        if (world_capture(w, &pool_graphs[1], g->device, of_graphs))
            world_free(w, pool_graphs[1].out); /* each may run over the other's */
    }
    world_launch(w, g);
    world_launch(w, &pool_graphs[1]);
}

static void graph_leave(world *w)
{
    world_graph_destroy(w, &pool_graphs[0]);
    world_graph_destroy(w, &pool_graphs[1]);
    world_pool_destroy(w, of_graphs);
}

const feature pool_graph = {"pool:graph", NULL, graph_enter, graph_act, graph_leave, NULL};

/* ---- vouched for ----------------------------------------------------------------------------- */

static pooled vouched;

static void vouched_enter(world *w)
{
    ok(tnr_vouched_pool_create(&vouched.pool, w->device, NULL));
    vouched.is_vouched = 1;
    pooled_enter(w, &vouched);
}

/* An engine that puts a block back where it was. */
static void vouched_act(world *w, int turn)
{
    pooled_act(w, &vouched, turn);
    block *b = vouched.kept[0];
    if (turn != 1 || b == NULL || b->at == NULL || w->asleep[vouched.device])
        return;
    void *at = b->at;
    size_t bytes = b->bytes;
    CUstream stream = b->stream;
    world_free(w, b);
    vouched.kept[0] = NULL;
    /* A capture of this thread puts the free off. */
    if (may(tnr_pool_malloc_at(at, vouched.pool, bytes, vouched.device, stream),
            MAY(w->captures_tenures > 0, TNR_ERR_BUSY))) {
        vouched.kept[0] = world_adopt(w, at, vouched.pool, bytes, vouched.device, stream, 0);
        pooled_flags(&vouched, vouched.kept[0]);
    }
}

static void vouched_leave(world *w)
{
    pooled_leave(w, &vouched);
}

const feature pool_vouched = {"pool:vouched", NULL,          vouched_enter,
                              vouched_act,    vouched_leave, NULL};

/* ---- shared with other processes ------------------------------------------------------------- */

static pooled shared;

static void shared_enter(world *w)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.is_shared = 1;
    ok(tnr_pool_create(&shared.pool, w->device, &options));
    pooled_enter(w, &shared);
}

static void shared_act(world *w, int turn)
{
    tnr_export exported;
    block *b = shared.kept[1 - turn % KEPT];
    pooled_act(w, &shared, turn);
    if (b == NULL || b->at == NULL)
        return;
    if (may(tnr_export_create(&exported, b->at), MAY(b->is_parked, TNR_ERR_PARKED)))
        ok(tnr_export_close(exported));
}

static void shared_leave(world *w)
{
    pooled_leave(w, &shared);
}

const feature pool_shared = {"pool:shared", NULL, shared_enter, shared_act, shared_leave, NULL};

/* ---- over foreign segments ------------------------------------------------------------------- */

static pooled foreign;

static void *segment_alloc(size_t bytes, int device, tnr_stream stream, void *user)
{
    CUdeviceptr at = 0;
    (void)device, (void)stream, (void)user;
    return cuMemAlloc(&at, bytes) == CUDA_SUCCESS ? (void *)at : NULL;
}

static void segment_free(void *ptr, size_t bytes, int device, tnr_stream stream, void *user)
{
    (void)bytes, (void)device, (void)stream, (void)user;
    drive(cuMemFree((CUdeviceptr)ptr));
}

static void foreign_enter(world *w)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.segment_alloc = segment_alloc;
    options.segment_free = segment_free;
    foreign.is_closed = 1;
    ok(tnr_pool_create(&foreign.pool, w->device, &options));
    pooled_enter(w, &foreign);
}

static void foreign_act(world *w, int turn)
{
    pooled_act(w, &foreign, turn);
    if (turn == 2)
        (void)may(tnr_pool_trim(NULL, foreign.pool, 0, foreign.device),
                  MAY(w->captures > 0, TNR_ERR_CAPTURE));
}

static void foreign_leave(world *w)
{
    pooled_leave(w, &foreign);
}

const feature pool_foreign = {"pool:foreign", NULL,          foreign_enter,
                              foreign_act,    foreign_leave, NULL};

/* ---- for network cards ----------------------------------------------------------------------- */

static pooled rdma;

static void rdma_enter(world *w)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.gpu_direct_rdma = 1;
    ok(tnr_pool_create(&rdma.pool, w->device, &options));
    w->stays_awake[w->device]++;
    pooled_enter(w, &rdma);
}

static void rdma_act(world *w, int turn)
{
    pooled_act(w, &rdma, turn);
    if (rdma.kept[0] != NULL && turn == 0)
        ok(tnr_memory_registered(rdma.kept[0]->at));
}

static void rdma_leave(world *w)
{
    pooled_leave(w, &rdma);
}

const feature pool_rdma = {"pool:rdma", NULL, rdma_enter, rdma_act, rdma_leave, NULL};

/* ---- with a tag ------------------------------------------------------------------------------ */

static pooled tagged;
static tnr_pool tag_pool;

static void tagged_enter(world *w)
{
    ok(tnr_tag_pool(&tag_pool, "kv_cache", TNR_CONTENT_KEEP));
    tagged.pool = tag_pool;
    pooled_enter(w, &tagged);
}

static void tagged_act(world *w, int turn)
{
    const char *tags[] = {"kv_cache"};
    ok(tnr_pool_push(tag_pool));
    pooled_act(w, &tagged, turn);
    ok(tnr_pool_pop(tag_pool));
    if (turn != 1 || w->asleep[tagged.device] || w->captures > w->captures_tenures)
        return;
    world_fence(w, w->lanes[tagged.device][0]);
    if (may(tnr_tags_sleep(tags, 1, tagged.device, NULL), MAY(w->captures > 0, TNR_ERR_BUSY)))
        (void)may(tnr_tags_wake(tags, 1, tagged.device), 0);
}

static void tagged_leave(world *w)
{
    tagged.pool = NULL; /* the tag's own pools end with their device */
    pooled_leave(w, &tagged);
    ok(tnr_tag_trim(NULL, "kv_cache", 0, tagged.device));
}

const feature pool_tagged = {"pool:tagged", NULL, tagged_enter, tagged_act, tagged_leave, NULL};

/* ---- of host memory -------------------------------------------------------------------------- */

static pooled hosted;

static block *hosted_malloc(world *w, tnr_pool pool, size_t bytes, int device)
{
    void *at = NULL;
    if (pool == NULL)
        ok(tnr_host_malloc_near(&at, bytes, device));
    else
        ok(tnr_pool_malloc(&at, pool, bytes, TNR_HOST(device), NULL));
    return world_adopt_host(w, at, pool, bytes, device);
}

static void hosted_enter(world *w)
{
    hosted.device = w->device;
    w->has_host_memory = 1;
    ok(tnr_pool_create(&hosted.pool, TNR_HOST(w->device), NULL));
    hosted.kept[0] = hosted_malloc(w, hosted.pool, 3 * MIB, w->device);
    hosted.kept[1] = hosted_malloc(w, NULL, 64 * KIB, w->device);
}

/* A buffer is freed as soon as its copy is enqueued, and the next one is written at once. */
static void hosted_pass(world *w, tnr_pool pool, int turn)
{
    for (int i = 0; i < 3; i++) {
        block *b = hosted_malloc(w, pool, 200 * KIB, hosted.device);
        world_read(w, b, i, i == 1 ? 1 - hosted.device : hosted.device, (turn + i) % 2);
        world_free(w, b);
    }
}

static void hosted_act(world *w, int turn)
{
    hosted_pass(w, NULL, turn);
    hosted_pass(w, hosted.pool, turn);
    world_read(w, hosted.kept[0], 1, hosted.device, turn % 2);
    world_read(w, hosted.kept[0], 2, 1 - hosted.device, 0);
    world_free(w, hosted.kept[turn % KEPT]);
    hosted.kept[turn % KEPT] =
        hosted_malloc(w, hosted.pool, (1 + (size_t)turn) * MIB, hosted.device);
    if (turn == 1)
        (void)may(tnr_trim(NULL, 0, TNR_HOST(hosted.device)),
                  MAY(w->captures > 0, TNR_ERR_CAPTURE));
}

static void hosted_leave(world *w)
{
    for (int i = 0; i < KEPT; i++)
        world_free(w, hosted.kept[i]);
    world_pool_destroy(w, hosted.pool);
}

const feature pool_host = {"pool:host", NULL, hosted_enter, hosted_act, hosted_leave, NULL};
