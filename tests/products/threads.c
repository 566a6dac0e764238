/* SPDX-License-Identifier: Apache-2.0 */
/* Features "thread:": by whom things are done. Some of them take the steps of the others. */
#include "all.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void no_act(world *w, int turn)
{
    (void)w, (void)turn;
}

/* ---- each step of the others by a thread that ends ------------------------------------------- */

static void thread_ended_enter(world *w)
{
    (void)w;
    compose_run_by(compose_run_in_thread);
}

static void thread_ended_leave(world *w)
{
    (void)w;
    compose_run_by(NULL);
}

const feature thread_ended = {"thread:ended", "runner",           thread_ended_enter,
                              no_act,         thread_ended_leave, NULL};

/* ---- a thread that is cancelled inside calls that wait --------------------------------------- */

static void *cancelled_be(void *data)
{
    int device = *(int *)data;
    tnr_published_info info = {.struct_bytes = sizeof(info)};
    (void)pthread_cancel(pthread_self());
    (void)!tnr_published_get(&info, "products");
    (void)!tnr_trim(NULL, SIZE_MAX, device);
    (void)!tnr_snapshot_write("/dev/null", TNR_SNAPSHOT_JSON);
    (void)!tnr_unpublish("products");
    return NULL;
}

static void cancelled_act(world *w, int turn)
{
    pthread_t thread;
    tnr_published_info info = {.struct_bytes = sizeof(info)};
    int device = w->device;
    (void)turn;
    if (pthread_create(&thread, NULL, cancelled_be, &device) != 0)
        abort();
    (void)pthread_join(thread, NULL);
    /* What it did others can do. */
    (void)may(tnr_published_get(&info, "products"), MAY(1, TNR_ERR_INVALID_EXPORT));
    (void)may(tnr_unpublish("products"), MAY(1, TNR_ERR_INVALID_EXPORT));
    ok(tnr_snapshot_write("/dev/null", TNR_SNAPSHOT_JSON));
}

static void none(world *w)
{
    (void)w;
}

const feature thread_cancelled = {"thread:cancelled", NULL, none, cancelled_act, none, NULL};

/* ---- a child of a fork ----------------------------------------------------------------------- */

/* Returns 0 if a call in the child was refused as it must be. */
static int forked_wrong(tnr_status status, const char *call)
{
    if (status == TNR_ERR_AFTER_FORK)
        return 0;
    dprintf(STDERR_FILENO, "in a child: %s gave %s: %s\n", call, tnr_status_name(status),
            tnr_last_error());
    return 1;
}

static void forked_act(world *w, int turn)
{
    int status = 0;
    (void)turn;
    pid_t child = fork();
    if (child == 0) {
        void *at = NULL;
        int wrong = forked_wrong(tnr_malloc(&at, MIB, 0, w->lanes[0][0]), "tnr_malloc");
        for (int i = 0; i < BLOCKS_MAX; i++)
            if (w->blocks[i].at != NULL)
                wrong |= forked_wrong(tnr_free(w->blocks[i].at), "tnr_free");
        wrong |= forked_wrong(tnr_trim(NULL, 0, 0), "tnr_trim");
        wrong |= forked_wrong(tnr_shutdown(1), "tnr_shutdown");
        _exit(wrong);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        abort();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        compose_finding("the child of a fork ends with %x", (unsigned)status);
}

const feature thread_forked = {"thread:forked", NULL, none, forked_act, none, NULL};

/* ---- frees in host functions of streams ------------------------------------------------------ */

static void host_enter(world *w)
{
    w->frees_by_host = 1;
}

static void host_leave(world *w)
{
    w->frees_by_host = 0;
}

const feature thread_host = {"thread:host", NULL, host_enter, no_act, host_leave, NULL};

/* ---- a thread beside, that grows and moves memory all the time ------------------------------- */

static pthread_t beside;
static _Atomic int beside_stop;
static int beside_device;
static world *beside_world;
static CUstream beside_stream;

static void *beside_be(void *data)
{
    world *w = beside_world;
    void *live[16] = {NULL};
    uint64_t random = 1;
    (void)data;
    world_on(w, beside_device);
    for (int n = 0; !atomic_load(&beside_stop); n++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        int i = (int)(random >> 60);
        if (live[i] != NULL) {
            ok(tnr_free(live[i]));
            live[i] = NULL;
        } else if (tnr_malloc(&live[i], (size_t)(1 + (random >> 40) % 12) * MIB, beside_device,
                              beside_stream) == TNR_ERR_ASLEEP) {
            usleep(100);
        } else if (live[i] == NULL) {
            compose_finding("a thread beside: %s", tnr_last_error());
        }
        if (n % 64 == 63)
            usleep(100);
    }
    for (int i = 0; i < 16; i++)
        ok(tnr_free(live[i]));
    return NULL;
}

static void thread_beside_enter(world *w)
{
    beside_world = w;
    beside_device = w->device;
    beside_stream = w->asleep[w->device] ? NULL : world_stream(w, w->device);
    atomic_store(&beside_stop, 0);
    w->has_threads = beside_stream != NULL;
    if (beside_stream != NULL && pthread_create(&beside, NULL, beside_be, NULL) != 0)
        abort();
}

static void thread_beside_act(world *w, int turn)
{
    (void)w, (void)turn;
    usleep(1000);
}

static void thread_beside_leave(world *w)
{
    if (beside_stream == NULL)
        return;
    atomic_store(&beside_stop, 1);
    (void)pthread_join(beside, NULL);
    w->has_threads = 0;
    world_stream_end(w, beside_stream, beside_device, 1);
}

const feature thread_beside = {"thread:beside",     NULL,
                               thread_beside_enter, thread_beside_act,
                               thread_beside_leave, thread_beside_leave};
