/* SPDX-License-Identifier: Apache-2.0 */
/* Features "device:": ordinary work on the one device or the other, with uses of what others have,
 * and, where a capture is open that streams may join, work of the device in it. */
#include "all.h"

#include <string.h>

static block *kept[DEVICES][2];
static int device_before[DEVICES];

static void work_enter(world *w, int d)
{
    device_before[d] = w->device;
    w->device = d; /* what the features inside make is there */
    for (int i = 0; i < 2; i++)
        kept[d][i] = world_malloc(w, NULL, (i == 0 ? 3 : 1) * MIB, d, w->lanes[d][i]);
}

/* A stream of the device joins the capture, allocates there, and joins the origin again. */
static void work_in_capture(world *w, int d)
{
    void *at = NULL, *kept_at = NULL;
    CUstream joins = world_stream(w, d);
    world_order(w, joins, w->open_origin, w->open_device);
    world_on(w, d);
    ok(tnr_malloc(&at, 2 * MIB, d, joins));
    drive(cuMemsetD32Async((CUdeviceptr)at, 9, 2 * MIB / 4, joins));
    ok(tnr_malloc(&kept_at, 64 * KIB, d, joins));
    drive(cuMemcpyDtoDAsync((CUdeviceptr)kept_at, (CUdeviceptr)at, 64 * KIB, joins));
    ok(tnr_free(at));
    world_order(w, w->open_origin, joins, d);
    /* Freed where the capture goes on. */
    ok(tnr_free_on(kept_at, w->open_origin));
    for (int i = 0; i < STREAMS_MAX; i++)
        if (w->streams[i] == joins)
            w->streams[i] = NULL;
    w->joined_devices[w->joined_count] = d;
    w->joined[w->joined_count++] = joins;
}

static void work_act(world *w, int d, int turn)
{
    if (w->open_origin != NULL && w->joined_count < DEFERRED_MAX && !w->asleep[d])
        work_in_capture(w, d);
    block *b = world_malloc(w, NULL, (2 + (size_t)turn) * MIB, d, w->lanes[d][turn % LANES]);
    world_read(w, b, (turn + 1) % LANES, d, turn % 2);
    world_read(w, b, 0, 1 - d, 0);
    world_free(w, b);
    /* A use of what another feature has, and the end of it there. */
    for (int i = 0; i < BLOCKS_MAX; i++)
        if (w->blocks[i].at != NULL && world_random(w, 2) == 0)
            world_read(w, &w->blocks[i], 1, d, (int)world_random(w, 2));
    world_free(w, kept[d][turn % 2]);
    kept[d][turn % 2] = world_malloc(w, NULL, (1 + (size_t)turn) * MIB, d, w->lanes[d][turn % 2]);
}

static void work_leave(world *w, int d)
{
    for (int i = 0; i < 2; i++) {
        world_free(w, kept[d][i]);
        kept[d][i] = NULL;
    }
    w->device = device_before[d];
}

static void first_enter(world *w)
{
    work_enter(w, 0);
}

static void first_act(world *w, int turn)
{
    work_act(w, 0, turn);
}

static void first_leave(world *w)
{
    work_leave(w, 0);
}

static void second_enter(world *w)
{
    work_enter(w, 1);
}

static void second_act(world *w, int turn)
{
    work_act(w, 1, turn);
}

static void second_leave(world *w)
{
    work_leave(w, 1);
}

const feature device_first = {"device:first", NULL, first_enter, first_act, first_leave, NULL};
const feature device_second = {"device:second", NULL, second_enter, second_act, second_leave, NULL};
