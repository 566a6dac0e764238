/* SPDX-License-Identifier: Apache-2.0 */
/* Features "capture:": captures that are open while the others go on, and captures that end in any
 * way but the right one. */
#include "all.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Work of a capture on its stream: what it allocates it frees again, or it stays live. */
static void captured_work(world *w, int device, CUstream stream, void **stays)
{
    void *at = NULL;
    world_on(w, device);
    ok(tnr_malloc(&at, 2 * MIB, device, stream));
    drive(cuMemsetD32Async((CUdeviceptr)at, 3, 2 * MIB / 4, stream));
    ok(tnr_free(at));
    if (stays != NULL) {
        ok(tnr_malloc(stays, 4 * MIB, device, stream));
        drive(cuMemsetD32Async((CUdeviceptr)*stays, 4, MIB / 4, stream));
    }
}

/* ---- open in this thread; the others may join ------------------------------------------------ */

static CUstream origin;
static int origin_device;

static void open_enter(world *w)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = TNR_CAPTURE_RELAXED;
    origin_device = w->device;
    origin = NULL;
    if (w->asleep[w->device])
        return;
    origin = world_stream(w, w->device);
    ok(tnr_capture_begin(w->device, origin, &options));
    w->captures++;
    w->captures_here++;
    w->captures_tenures++;
    w->open_origin = origin;
    w->open_device = w->device;
}

static void open_act(world *w, int turn)
{
    (void)turn;
    if (origin != NULL && !w->asleep[origin_device])
        captured_work(w, origin_device, origin, NULL);
}

static void open_leave(world *w)
{
    tnr_cuda_graph cuda = NULL;
    tnr_graph number;
    CUgraphExec exec = NULL;
    if (origin == NULL)
        return;
    world_on(w, origin_device);
    ok(tnr_capture_end(&cuda, &number, origin_device, origin));
    w->captures--;
    w->captures_here--;
    w->captures_tenures--;
    w->open_origin = NULL;
    drive(cuGraphInstantiate(&exec, (CUgraph)cuda, 0));
    world_fence(w, origin);
    if (may(tnr_graph_launch(number, exec, origin),
            MAY(w->asleep[0] || w->asleep[1], TNR_ERR_ASLEEP) |
                MAY(w->captures > 0, TNR_ERR_CAPTURE)))
        (void)simcuda_run(UINT64_MAX);
    drive(cuGraphExecDestroy(exec));
    drive(cuGraphDestroy((CUgraph)cuda));
    for (int i = 0; i < w->joined_count; i++) {
        ok(tnr_stream_destroying(w->joined_devices[i], w->joined[i]));
        drive(cuStreamDestroy(w->joined[i]));
    }
    w->joined_count = 0;
    world_stream_end(w, origin, origin_device, 1);
    origin = NULL;
}

const feature capture_open = {"capture:open", NULL, open_enter, open_act, open_leave, open_leave};

/* ---- open in another thread ------------------------------------------------------------------ */

static pthread_t other;
static pthread_mutex_t other_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t other_told = PTHREAD_COND_INITIALIZER;
static int other_asked, other_done, other_is_there;
static int other_device;
static world *other_world;
enum { OTHER_WORKS = 1, OTHER_ENDS };

static void other_wait(int *what, int value)
{
    while (*what == value)
        (void)pthread_cond_wait(&other_told, &other_lock);
}

/* Begins a capture, works in it when it is asked to, and ends it. */
static void *other_be(void *data)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    tnr_cuda_graph cuda = NULL;
    tnr_graph number;
    CUstream stream = data;
    options.mode = TNR_CAPTURE_THREAD_LOCAL;
    world_on(other_world, other_device);
    ok(tnr_capture_begin(other_device, stream, &options));
    (void)pthread_mutex_lock(&other_lock);
    other_is_there = 1;
    (void)pthread_cond_broadcast(&other_told);
    for (int is_over = 0; !is_over;) {
        other_wait(&other_asked, 0);
        is_over = other_asked == OTHER_ENDS;
        if (!is_over)
            captured_work(other_world, other_device, stream, NULL);
        other_asked = 0;
        if (is_over) {
            ok(tnr_capture_end(&cuda, &number, other_device, stream));
            drive(cuGraphDestroy((CUgraph)cuda));
        }
        other_done = 1;
        (void)pthread_cond_broadcast(&other_told);
    }
    (void)pthread_mutex_unlock(&other_lock);
    return NULL;
}

static void other_ask(int what)
{
    (void)pthread_mutex_lock(&other_lock);
    other_done = 0;
    other_asked = what;
    (void)pthread_cond_broadcast(&other_told);
    other_wait(&other_done, 0);
    (void)pthread_mutex_unlock(&other_lock);
}

static CUstream other_stream;

static void beside_enter(world *w)
{
    other_world = w;
    other_device = w->device;
    other_is_there = 0;
    if (w->asleep[w->device])
        return;
    other_stream = world_stream(w, w->device);
    if (pthread_create(&other, NULL, other_be, other_stream) != 0)
        abort();
    (void)pthread_mutex_lock(&other_lock);
    other_wait(&other_is_there, 0);
    (void)pthread_mutex_unlock(&other_lock);
    w->captures++;
    w->captures_tenures++;
}

static void beside_act(world *w, int turn)
{
    (void)turn;
    if (other_is_there && !w->asleep[other_device])
        other_ask(OTHER_WORKS);
}

static void beside_leave(world *w)
{
    if (!other_is_there)
        return;
    other_ask(OTHER_ENDS);
    (void)pthread_join(other, NULL);
    w->captures--;
    w->captures_tenures--;
    world_stream_end(w, other_stream, other_device, 1);
}

const feature capture_beside = {"capture:beside", NULL,         beside_enter,
                                beside_act,       beside_leave, beside_leave};

/* ---- left open by somebody who tells nothing ------------------------------------------------- */

static CUstream left;
static int left_device;

static void left_enter(world *w)
{
    left = world_stream(w, w->device);
    left_device = w->device;
    drive(cuStreamBeginCapture(left, CU_STREAM_CAPTURE_MODE_RELAXED));
    w->captures++;
}

static void left_act(world *w, int turn)
{
    (void)turn;
    world_on(w, left_device); /* thread:ended takes this step in a thread that has no context */
    for (int i = 0; i < BLOCKS_MAX; i++)
        if (world_is_open_to(w, &w->blocks[i], left_device) && w->blocks[i].device == left_device) {
            drive(cuMemcpyDtoDAsync((CUdeviceptr)w->blocks[i].at, (CUdeviceptr)w->blocks[i].at, 4,
                                    left));
            return;
        }
}

static void left_leave(world *w)
{
    CUgraph cuda = NULL;
    drive(cuStreamEndCapture(left, &cuda));
    drive(cuGraphDestroy(cuda));
    w->captures--;
    world_stream_end(w, left, left_device, 1);
}

const feature capture_left = {"capture:left", "device waits", left_enter,
                              left_act,       left_leave,     left_leave};

/* ---- ended in a wrong way -------------------------------------------------------------------- */

static void nothing(world *w)
{
    (void)w;
}

/* Attaches to a capture that the program begins itself, and works in it. Null: a thread beside
 * broke it first, by a call that waited for the device. */
static CUstream attached_begin(world *w, int device, tnr_graph *number, void **stays)
{
    CUstream stream = world_stream(w, device);
    drive(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    if (w->has_threads) /* they find it before Tenure knows of it */
        usleep(1000);
    if (!may(tnr_capture_attach(number, device, stream, NULL),
             MAY(w->has_threads && w->waits_for_device, TNR_ERR_CAPTURE))) {
        CUgraph cuda = NULL;
        if (cuStreamEndCapture(stream, &cuda) != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
            compose_finding("Tenure takes a capture for invalid that is not");
        world_stream_end(w, stream, device, 1);
        return NULL;
    }
    captured_work(w, device, stream, stays);
    return stream;
}

static void *end_wrongly(void *data)
{
    CUgraph cuda = NULL;
    if (cuStreamEndCapture(data, &cuda) != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        compose_finding("a thread that may not end the capture has ended it");
    return NULL;
}

/* Another thread ends it: the driver refuses, and it is over. Tenure is told of that every second
 * time. What outlived it is freed. */
static void wrong_end_act(world *w, int turn)
{
    tnr_graph number;
    void *stays = NULL;
    CUgraph cuda = NULL;
    pthread_t thread;
    int device = w->device;
    if (w->asleep[device])
        return;
    CUstream stream = attached_begin(w, device, &number, &stays);
    if (stream == NULL)
        return;
    if (pthread_create(&thread, NULL, end_wrongly, stream) != 0)
        abort();
    (void)pthread_join(thread, NULL);
    CUresult result = cuStreamEndCapture(stream, &cuda);
    if (result == CUDA_SUCCESS || cuda != NULL)
        compose_finding("a capture that was ended in a wrong way has made a graph");
    if (turn % 2 == 0)
        ok(tnr_capture_ended(number, NULL));
    ok(tnr_free(stays));
    world_stream_end(w, stream, device, 1);
}

const feature capture_wrong_end = {"capture:wrong_end", NULL,    nothing,
                                   wrong_end_act,       nothing, NULL};

/* A call that captures forbid makes it invalid; its end then says so. */
static void invalidated_act(world *w, int turn)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    tnr_cuda_graph cuda = NULL;
    tnr_graph number;
    void *stays = NULL;
    int device = w->device;
    options.mode = TNR_CAPTURE_RELAXED;
    if (w->asleep[device])
        return;
    CUstream stream = world_stream(w, device);
    ok(tnr_capture_begin(device, stream, &options));
    captured_work(w, device, stream, &stays);
    if (cuStreamSynchronize(stream) == CUDA_SUCCESS)
        compose_finding("a stream that is captured was waited for");
    if (turn % 2 == 0)
        ok(tnr_free(stays));
    if (world_status(tnr_capture_end(&cuda, &number, device, stream),
                     MAY(1, TNR_ERR_CAPTURE_INVALIDATED), "tnr_capture_end", __FILE__, __LINE__))
        compose_finding("a capture that is invalid has made a graph");
    if (turn % 2 != 0)
        ok(tnr_free(stays));
    world_stream_end(w, stream, device, 1);
}

const feature capture_invalidated = {"capture:invalidated", NULL,    nothing,
                                     invalidated_act,       nothing, NULL};

/* Its stream is destroyed, which ends it. Tenure is told of the stream, and seldom of the capture.
 * A block that outlives both waits for the whole device, which would break a capture that nobody
 * follows (capture:left). */
static void destroyed_act(world *w, int turn)
{
    tnr_graph number;
    void *stays = NULL;
    int device = w->device;
    if (w->asleep[device])
        return;
    CUstream stream = attached_begin(w, device, &number, turn == 1 ? NULL : &stays);
    if (stream == NULL)
        return;
    w->waits_for_device = 1;
    world_stream_end(w, stream, device, 1);
    if (stays == NULL) /* with no free after it, only this says that it is over */
        ok(tnr_capture_ended(number, NULL));
    ok(tnr_free(stays));
}

const feature capture_destroyed = {"capture:destroyed", "device waits", nothing,
                                   destroyed_act,       nothing,        NULL};
