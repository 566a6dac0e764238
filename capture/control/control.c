/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control switched on and off: see <tenure/control.h>, and memory/device/upper.h for what calls
 * this.
 *
 * There are two kinds of servers: the one that is on, and those that were told to end and whose
 * threads must still be waited for. Both are changed under `servers.mutex`. It is kept for a moment
 * only, and is taken after the library lock, or with no lock held.
 */
#include <tenure/control.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf/conf.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "base/prim/process.h"
#include "control/server.h"
#include "memory/device/device.h"
#include "memory/device/upper.h"

static struct {
    tnri_mutex mutex;
    tnri_server *on;        /* null: control is off */
    tnri_server *ending;    /* through `next` */
    tnri_server *abandoned; /* likewise: a parent's, in a forked child */
} servers = {.mutex = TNRI_MUTEX_INIT};

static tnri_once watch_once = TNRI_ONCE_INIT;

/* ---- forks and the end of the process ------------------------------------------------------- */

static void fork_before(void)
{
    tnri_mutex_lock(&servers.mutex);
    tnri_gate_of_servers_enter();
}

static void fork_parent(void)
{
    tnri_gate_of_servers_leave();
    tnri_mutex_unlock(&servers.mutex);
}

/* What the parent's threads were doing is left as it was, and never looked at again. */
static void server_abandon(tnri_server *server)
{
    tnri_server_abandon(server);
    server->next = servers.abandoned;
    servers.abandoned = server;
}

static void fork_child(void)
{
    tnri_server *ending = servers.ending;
    if (servers.on != NULL)
        server_abandon(servers.on);
    for (tnri_server *next; ending != NULL; ending = next) {
        next = ending->next;
        server_abandon(ending);
    }
    servers.on = servers.ending = NULL;
    fork_parent();
}

/* Tells the one that is on to end. */
static void server_switch_off(void)
{
    tnri_mutex_lock(&servers.mutex);
    tnri_server *server = servers.on;
    if (server != NULL) {
        servers.on = NULL;
        tnri_server_retire(server);
        server->next = servers.ending;
        servers.ending = server;
    }
    tnri_mutex_unlock(&servers.mutex);
}

/* Takes one whose thread can be waited for from the list; null: there is none. `is_idle`: only one
 * that does nothing just now. */
static tnri_server *ending_take(int is_idle)
{
    tnri_mutex_lock(&servers.mutex);
    tnri_server **link = &servers.ending;
    while (*link != NULL && (tnri_server_is_here(*link) || (is_idle && tnri_server_is_busy(*link))))
        link = &(*link)->next;
    tnri_server *server = *link;
    if (server != NULL)
        *link = server->next;
    tnri_mutex_unlock(&servers.mutex);
    return server;
}

/* The end of the process: its name goes, and the thread, unless it is in the middle of something
 * that may never return. */
static void exit_end(void)
{
    server_switch_off();
    for (tnri_server *server; (server = ending_take(1)) != NULL;)
        tnri_server_free(server);
}

static void watch_begin(void)
{
    tnri_forks_watch(fork_before, fork_parent, fork_child);
    (void)atexit(exit_end);
}

/* ---- the settings --------------------------------------------------------------------------- */

static tnr_status server_switch_on(const tnri_conf *conf)
{
    tnri_server *made;
    tnri_once_run(&watch_once, watch_begin);
    tnr_status status = tnri_server_make(&made, conf->control_dir);
    if (status != TNR_OK)
        return conf->control == TNRI_CONTROL_TRY ? TNR_OK : status;
    server_switch_off();
    tnri_mutex_lock(&servers.mutex);
    servers.on = made;
    tnri_mutex_unlock(&servers.mutex);
    return TNR_OK;
}

static tnr_status control_follow(const tnri_conf *before, const tnri_conf *after)
{
    int is_wanted = after->control != TNRI_CONTROL_OFF;
    tnri_mutex_lock(&servers.mutex);
    int is_on = servers.on != NULL, is_here = is_on && tnri_server_is_here(servers.on);
    tnri_mutex_unlock(&servers.mutex);
    if (is_here &&
        (before->control != after->control || strcmp(before->control_dir, after->control_dir) != 0))
        return tnri_error(TNR_ERR_BUSY, "control and control_dir cannot be changed from outside: "
                                        "the way in would be lost.");
    if (is_wanted && (!is_on || strcmp(before->control_dir, after->control_dir) != 0))
        return server_switch_on(after);
    if (!is_wanted)
        server_switch_off();
    return TNR_OK;
}

/* ---- for the library ------------------------------------------------------------------------ */

static void control_reap(int all)
{
    if (all)
        server_switch_off();
    for (tnri_server *server; (server = ending_take(0)) != NULL;)
        tnri_server_free(server);
}

/* The one that is on; who asks is the only one who changes that. */
static tnri_server *server_on(void)
{
    tnri_mutex_lock(&servers.mutex);
    tnri_server *server = servers.on;
    tnri_mutex_unlock(&servers.mutex);
    return server;
}

static void control_pause(void)
{
    tnri_server *server = server_on();
    if (server != NULL)
        tnri_server_pause(server);
}

static void control_resume(void)
{
    tnri_server *server = server_on();
    if (server != NULL)
        tnri_server_resume(server);
}

/* Under the mutex, so that the server is not freed meanwhile. */
static void control_watch(void)
{
    tnri_mutex_lock(&servers.mutex);
    if (servers.on != NULL) {
        atomic_store(&servers.on->watches, 1);
        tnri_wake_ring(servers.on->event);
    }
    tnri_mutex_unlock(&servers.mutex);
}

/* It serves no device in particular: pauses are for all. */
static tnr_status control_device(tnri_device *device, tnri_device_step step)
{
    if (step == TNRI_DEVICE_IS_LIMITED)
        control_watch();
    else if (step == TNRI_DEVICE_PAUSES && device == NULL)
        control_pause();
    else if (step == TNRI_DEVICE_RESUMES && device == NULL)
        control_resume();
    return TNR_OK;
}

static __attribute__((constructor)) void control_register(void)
{
    static const tnri_upper upper = {
        .device = control_device, .follow = control_follow, .reap = control_reap};
    tnri_upper_register(TNRI_ROOM_CONTROL, &upper);
}

size_t tnr_control_path(char *buffer, size_t bytes)
{
    TNRI_CALM_CALL;
    size_t length = 0;
    if (buffer == NULL)
        bytes = 0;
    else if (bytes > 0)
        buffer[0] = '\0';
    tnri_mutex_lock(&servers.mutex);
    if (servers.on != NULL)
        length = (size_t)snprintf(buffer, bytes, "%s/%s", servers.on->path, servers.on->name);
    tnri_mutex_unlock(&servers.mutex);
    return length;
}
