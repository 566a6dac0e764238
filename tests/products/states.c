/* SPDX-License-Identifier: Apache-2.0 */
/* Features "state:" and "stream:": what blocks and pools may be beside live. They do it to the
 * blocks of the other features too, wherever these may be refused but not harmed. */
#include "all.h"

#include <stdlib.h>
#include <string.h>

/* ---- parked ---------------------------------------------------------------------------------- */

static block *parked_own;

/* Parks it on the lane; a refusal keeps no host memory. Returns 0 then. */
static int block_park_once(world *w, block *b, CUstream lane, uint64_t refusals)
{
    simcuda_live before, after;
    int captures = w->captures > 0;
    (void)simcuda_live_get(b->device, &before);
    if (may(tnr_park(NULL, b->at, lane, TNR_CONTENT_KEEP),
            refusals |
                MAY(b->pool != NULL || b->is_grown || b->is_host || b->is_graphs || b->is_alone ||
                        w->guarded || w->published > 0,
                    TNR_ERR_INVALID_ARGUMENT) |
                MAY(b->stream_ended, TNR_ERR_INVALID_STREAM) | MAY(captures, TNR_ERR_CAPTURE) |
                MAY(captures, TNR_ERR_BUSY)))
        return 1;
    (void)simcuda_live_get(b->device, &after);
    if (after.pinned > before.pinned)
        compose_finding("a refused tnr_park keeps %llu bytes pinned",
                        (unsigned long long)(after.pinned_bytes - before.pinned_bytes));
    return 0;
}

/* Everything that a park needs of the driver is refused once, before it is parked. Failures are the
 * whole process's: not beside other threads. */
static void block_park_refused(world *w, block *b, CUstream lane)
{
    uint64_t failed = 1;
    for (uint64_t nth = 1; failed > 0 && !b->is_parked && w->captures == 0; nth++) {
        simcuda_fail("*", nth, 0, CUDA_ERROR_UNKNOWN);
        b->is_parked =
            block_park_once(w, b, lane, MAY(1, TNR_ERR_DRIVER) | MAY(1, TNR_ERR_HOST_MEMORY));
        failed = simcuda_fail_hits();
        simcuda_fail_clear();
    }
}

static void block_park(world *w, block *b)
{
    CUstream lane = w->lanes[b->device][0];
    world_fence(w, lane);
    if (!b->stream_ended && b->stream != lane)
        world_order(w, b->stream, lane, b->device);
    if (b == parked_own && !w->has_threads)
        block_park_refused(w, b, lane);
    if (!b->is_parked)
        b->is_parked = block_park_once(w, b, lane, 0);
}

static int can_be_parked(const world *w, const block *b)
{
    return b->at != NULL && !b->is_parked && b->is_written && !w->asleep[b->device] &&
           b->freeing == 0;
}

static void all_unpark(world *w)
{
    for (int i = 0; i < BLOCKS_MAX; i++) {
        block *b = &w->blocks[i];
        CUstream lane = b->at == NULL ? NULL : w->lanes[b->device][0];
        if (b->at == NULL || !b->is_parked || w->asleep[b->device])
            continue;
        if (may(tnr_unpark(b->at, lane), MAY(w->captures > 0, TNR_ERR_CAPTURE) |
                                             MAY(w->captures > 0, TNR_ERR_BUSY) |
                                             MAY(b->stream_ended, TNR_ERR_INVALID_STREAM)))
            b->is_parked = 0;
        if (!b->is_parked && !b->stream_ended && b->stream != lane)
            world_order(w, b->stream, lane, b->device);
        /* Of one whose stream has ended others take no order from that stream. */
        for (int e = 0; e < DEVICES && !b->is_parked && b->stream_ended; e++)
            for (int k = 0; k < LANES; k++)
                if (w->lanes[e][k] != lane)
                    world_order(w, w->lanes[e][k], lane, b->device);
    }
}

static void parked_enter(world *w)
{
    parked_own = world_malloc(w, NULL, 6 * MIB, w->device, w->lanes[w->device][1]);
}

static void parked_act(world *w, int turn)
{
    if (turn == 1) {
        block *b = world_malloc(w, NULL, 8 * MIB, w->device, w->lanes[w->device][1]);
        world_free(w, b);
    } else {
        for (int i = 0; i < BLOCKS_MAX; i++)
            if (can_be_parked(w, &w->blocks[i]) && !w->blocks[i].is_alone)
                block_park(w, &w->blocks[i]);
    }
    if (turn != 0)
        all_unpark(w);
}

static void parked_leave(world *w)
{
    all_unpark(w);
    world_free(w, parked_own);
    parked_own = NULL;
}

const feature state_parked = {"state:parked", NULL, parked_enter, parked_act, parked_leave, NULL};

/* ---- asleep ---------------------------------------------------------------------------------- */

static int asleep_device;
static int asleep_is;

static void asleep_wake(world *w)
{
    if (!asleep_is)
        return;
    if (may(tnr_device_wake(asleep_device), MAY(w->captures > 0, TNR_ERR_BUSY))) {
        w->asleep[asleep_device] = 0;
        asleep_is = 0;
    }
}

static void asleep_enter(world *w)
{
    asleep_device = w->device;
}

static void asleep_act(world *w, int turn)
{
    (void)turn;
    if (turn == 1) {
        asleep_wake(w);
        return;
    }
    /* The wait would break a capture that Tenure does not follow. */
    if (asleep_is || w->captures > w->captures_tenures)
        return;
    if (w->captures == 0) /* work that a capture's thread may wait for */
        for (int d = 0; d < DEVICES; d++) {
            world_on(w, d);
            drive(cuCtxSynchronize());
        }
    asleep_is = may(tnr_device_sleep(asleep_device, NULL),
                    MAY(w->captures > 0 || w->stays_awake[asleep_device] > 0, TNR_ERR_BUSY));
    w->asleep[asleep_device] = asleep_is;
    if (turn == 2)
        asleep_wake(w);
}

static void asleep_leave(world *w)
{
    asleep_wake(w);
}

const feature state_asleep = {"state:asleep", NULL, asleep_enter, asleep_act, asleep_leave, NULL};

/* ---- published ------------------------------------------------------------------------------- */

static tnr_pool published_pool;
static int published_device;
static uint64_t published_generation;

static void published_next(world *w)
{
    uint64_t generation = 0;
    block *b =
        world_malloc(w, published_pool, 4 * MIB, published_device, w->lanes[published_device][0]);
    if (b == NULL)
        return;
    ok(tnr_publish(&generation, "weights", b->at, NULL));
    if (generation <= published_generation)
        compose_finding("generation %llu comes after %llu", (unsigned long long)generation,
                        (unsigned long long)published_generation);
    published_generation = generation;
    w->published = 1;
    world_free(w, b); /* the publication keeps it */
}

static void published_enter(world *w)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.is_shared = 1;
    published_device = w->device;
    ok(tnr_pool_create(&published_pool, w->device, &options));
    published_next(w);
}

static void published_act(world *w, int turn)
{
    tnr_published_info info = {.struct_bytes = sizeof(info)};
    (void)turn;
    published_next(w);
    if (published_generation == 0)
        return;
    ok(tnr_published_get(&info, "weights"));
    if (info.generation != published_generation || info.holders != 1)
        compose_finding("generation %llu with %u holders, not %llu with 1",
                        (unsigned long long)info.generation, info.holders,
                        (unsigned long long)published_generation);
}

static void published_leave(world *w)
{
    if (published_generation != 0)
        ok(tnr_unpublish("weights"));
    world_pool_destroy(w, published_pool);
}

const feature state_published = {"state:published", NULL, published_enter, published_act,
                                 published_leave,   NULL};

/* ---- growable -------------------------------------------------------------------------------- */

static block *grown;

static void growable_enter(world *w)
{
    void *at = NULL;
    CUstream lane = w->lanes[w->device][0];
    grown = NULL;
    if (!may(tnr_reserve(&at, 64 * MIB, w->device, lane),
             MAY(w->asleep[w->device], TNR_ERR_ASLEEP)))
        return;
    ok(tnr_commit(at, 2 * MIB));
    grown = world_adopt(w, at, NULL, 2 * MIB, w->device, lane, 0);
    grown->is_grown = 1;
}

static void growable_act(world *w, int turn)
{
    (void)turn;
    if (grown == NULL || w->asleep[grown->device])
        return;
    size_t bytes = grown->bytes + 2 * MIB;
    ok(tnr_commit(grown->at, bytes));
    world_fill(w, grown->at + grown->bytes, 2 * MIB, grown->value, grown->device, grown->stream);
    grown->bytes = bytes;
}

static void growable_leave(world *w)
{
    world_free(w, grown);
    grown = NULL;
}

const feature state_growable = {"state:growable", NULL,           growable_enter,
                                growable_act,     growable_leave, NULL};

/* ---- ranged ---------------------------------------------------------------------------------- */

/* Its first page is everybody's; those above come and go. */
static block *ranged;

static void ranged_enter(world *w)
{
    void *at = NULL;
    CUstream lane = w->lanes[w->device][1];
    ranged = NULL;
    if (!may(tnr_reserve(&at, 64 * MIB, w->device, lane),
             MAY(w->asleep[w->device], TNR_ERR_ASLEEP)))
        return;
    ok(tnr_commit_range(at, 0, 2 * MIB));
    ok(tnr_commit_range(at, 20 * MIB, 4 * MIB));
    ranged = world_adopt(w, at, NULL, 2 * MIB, w->device, lane, 0);
    ranged->is_grown = 1;
}

static void ranged_act(world *w, int turn)
{
    if (ranged == NULL || w->asleep[ranged->device])
        return;
    size_t offset = (size_t)(4 + 8 * turn) * MIB;
    ok(tnr_commit_range(ranged->at, offset, 6 * MIB));
    world_fill(w, ranged->at + offset, 6 * MIB, 7, ranged->device, ranged->stream);
    (void)may(tnr_decommit_range(ranged->at, offset, 4 * MIB),
              MAY(w->captures > 0, TNR_ERR_CAPTURE));
}

static void ranged_leave(world *w)
{
    world_free(w, ranged);
    ranged = NULL;
}

const feature state_ranged = {"state:ranged", NULL, ranged_enter, ranged_act, ranged_leave, NULL};

/* ---- guarded --------------------------------------------------------------------------------- */

static block *guarded_kept;

static void guarded_enter(world *w)
{
    ok(tnr_configure("guard:on,poison:on,canary:on"));
    w->guarded = 1;
    w->had_traps = 1;
    guarded_kept = world_malloc(w, NULL, MIB, w->device, w->lanes[w->device][0]);
}

static void guarded_act(world *w, int turn)
{
    block *b = world_malloc(w, NULL, (1 + (size_t)turn) * MIB, w->device, w->lanes[w->device][1]);
    world_read(w, b, 0, w->device, turn % 2);
    world_free(w, b);
    world_free(w, guarded_kept);
    guarded_kept = world_malloc(w, NULL, MIB, w->device, w->lanes[w->device][turn % LANES]);
}

static void guarded_leave(world *w)
{
    tnr_traps_info info = {.struct_bytes = sizeof(info)};
    world_free(w, guarded_kept);
    guarded_kept = NULL;
    ok(tnr_traps_get(&info, w->captures == 0));
    ok(tnr_configure("guard:off,poison:off,canary:off"));
    w->guarded = 0;
}

const feature state_guarded = {"state:guarded", NULL,          guarded_enter,
                               guarded_act,     guarded_leave, NULL};

/* ---- blocks whose stream has ended ----------------------------------------------------------- */

static block *orphans[3];

static void ended_enter(world *w)
{
    int d = w->device;
    CUstream stream = world_stream(w, d);
    for (int i = 0; i < 3; i++)
        orphans[i] = world_malloc(w, NULL, (2 + 2 * (size_t)i) * MIB, d, stream);
    /* Whoever goes on with the blocks comes after what the stream did. */
    for (int e = 0; e < DEVICES; e++)
        for (int i = 0; i < LANES; i++)
            world_order(w, w->lanes[e][i], stream, d);
    for (int i = 0; i < 3; i++)
        if (orphans[i] != NULL)
            orphans[i]->stream_ended = 1;
    world_stream_end(w, stream, d, 1);
}

static void ended_act(world *w, int turn)
{
    world_read(w, orphans[turn], 1, w->device, turn % 2);
    if (turn == 1) {
        world_free(w, orphans[turn]);
        orphans[turn] = NULL;
    }
}

static void ended_leave(world *w)
{
    for (int i = 0; i < 3; i++) {
        world_free(w, orphans[i]);
        orphans[i] = NULL;
    }
}

const feature stream_ended = {"stream:ended", NULL, ended_enter, ended_act, ended_leave, NULL};
