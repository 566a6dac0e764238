/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that listens: see server.h. */
#include "control/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/prim/helper.h"
#include "base/host_memory.h"
#include "base/prim/clock.h"
#include "base/prim/file.h"
#include "base/prim/process.h"
#include "base/prim/socket.h"
#include "control/commands.h"
#include "memory/device/cgroup.h"
#include "miss/reclaim.h"

enum { NAP_MS = 100 };

/* ---- descriptors ---------------------------------------------------------------------------- */

static tnri_mutex gate = TNRI_MUTEX_INIT;

void tnri_gate_of_servers_enter(void)
{
    tnri_mutex_lock(&gate);
}

void tnri_gate_of_servers_leave(void)
{
    tnri_mutex_unlock(&gate);
}

static void file_close(int *file)
{
    tnri_gate_of_servers_enter();
    if (*file >= 0)
        (void)tnri_file_close(*file);
    *file = -1;
    tnri_gate_of_servers_leave();
}

void tnri_server_abandon(tnri_server *server)
{
    int *const files[] = {&server->folder, &server->listener, &server->event};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (*files[i] >= 0)
            (void)tnri_file_close(*files[i]);
    for (int i = 0; i < TNRI_CONNECTIONS_MAX; i++)
        if (server->connections[i].file >= 0)
            (void)tnri_file_close(server->connections[i].file);
}

/* ---- turns ---------------------------------------------------------------------------------- */

int tnri_server_is_here(const tnri_server *server)
{
    return tnri_thread_is_self(server->thread);
}

/* 1: a request may be served, until turn_end. 0: the server ends. */
static int turn_begin(tnri_server *server)
{
    tnri_mutex_lock(&server->mutex);
    while (server->pauses > 0 && !atomic_load(&server->is_ending))
        tnri_condition_wait(&server->changed, &server->mutex);
    server->is_busy = !atomic_load(&server->is_ending);
    int may_serve = server->is_busy;
    tnri_mutex_unlock(&server->mutex);
    return may_serve;
}

static void turn_end(tnri_server *server)
{
    tnri_mutex_lock(&server->mutex);
    server->is_busy = 0;
    tnri_condition_wake_all(&server->changed);
    tnri_mutex_unlock(&server->mutex);
}

int tnri_server_is_busy(tnri_server *server)
{
    tnri_mutex_lock(&server->mutex);
    int is_busy = server->is_busy;
    tnri_mutex_unlock(&server->mutex);
    return is_busy;
}

void tnri_server_pause(tnri_server *server)
{
    if (tnri_server_is_here(server))
        return; /* a callback of what is served; its manual forbids what would ask for this */
    tnri_mutex_lock(&server->mutex);
    server->pauses++;
    while (server->is_busy)
        tnri_condition_wait(&server->changed, &server->mutex);
    tnri_mutex_unlock(&server->mutex);
}

void tnri_server_resume(tnri_server *server)
{
    if (tnri_server_is_here(server))
        return;
    tnri_mutex_lock(&server->mutex);
    server->pauses -= server->pauses > 0; /* or another server was paused, which has ended */
    tnri_condition_wake_all(&server->changed);
    tnri_mutex_unlock(&server->mutex);
}

/* ---- connections ---------------------------------------------------------------------------- */

static void connection_end(tnri_server *server, tnri_connection *connection)
{
    tnri_snapshot_forget(connection, server->folder);
    file_close(&connection->file);
    tnri_connection_close(connection);
}

/* A place for one more: a free one, or that of the connection that has moved nothing for the
 * longest. */
static tnri_connection *place_find(tnri_server *server)
{
    tnri_connection *oldest = &server->connections[0];
    for (int i = 0; i < TNRI_CONNECTIONS_MAX; i++) {
        tnri_connection *each = &server->connections[i];
        if (each->file < 0)
            return each;
        if (each->moment < oldest->moment)
            oldest = each;
    }
    connection_end(server, oldest);
    return oldest;
}

/* The user of the process, and root, may come in. */
static int is_welcome(int file, uint32_t *user)
{
    int process;
    *user = UINT32_MAX;
    return tnri_socket_peer(file, &process, user) && (*user == tnri_process_user() || *user == 0);
}

static void greet(tnri_server *server, tnri_connection *connection)
{
    uint32_t user;
    char text[160];
    connection->moment = ++server->moments;
    if (is_welcome(connection->file, &user)) {
        tnri_greet(&connection->answer);
    } else {
        snprintf(text, sizeof(text), "user %ld may not control this process of user %ld.",
                 (long)(int)user, (long)tnri_process_user());
        tnri_answer_refuse(&connection->answer, UINT64_MAX, TNR_ERR_TRANSPORT, text);
        connection->is_over = 1;
    }
    if (!tnri_connection_send(connection) || tnri_connection_wants(connection) == 0)
        connection_end(server, connection);
}

/* Lets one in. 0: the system has no descriptor, or there is no host memory, for now. */
static int connection_accept(tnri_server *server)
{
    tnri_connection *place = place_find(server), made;
    tnri_gate_of_servers_enter();
    int file = tnri_socket_accept(server->listener, TNRI_SOCKET_UNWAITED);
    int error = file < 0 ? errno : 0;
    int is_open = file >= 0 && tnri_connection_open(&made, file);
    if (is_open)
        *place = made;
    else if (file >= 0)
        (void)tnri_file_close(file);
    tnri_gate_of_servers_leave();
    if (is_open)
        greet(server, place);
    return is_open || error == EAGAIN || error == EINTR || error == ECONNABORTED;
}

/* Serves what has come as far as answers are taken. 0: the server ends. */
static int lines_serve(tnri_server *server, tnri_connection *connection)
{
    const tnri_control_place place = {server->folder, server->path, server->name};
    size_t length;
    for (char *line; (line = tnri_connection_line(connection, &length)) != NULL;) {
        if (!turn_begin(server))
            return 0;
        tnri_serve(connection, &place, line, length);
        turn_end(server);
        tnri_connection_line_done(connection, length);
        if (!tnri_connection_send(connection))
            break;
    }
    return 1;
}

/* Something has happened to a connection. 0: the server ends. */
static int connection_step(tnri_server *server, tnri_connection *connection)
{
    size_t before = connection->line_length + connection->taken;
    int is_there = tnri_connection_send(connection) && tnri_connection_receive(connection);
    if (connection->line_length + connection->taken != before)
        connection->moment = ++server->moments;
    if (is_there && !lines_serve(server, connection))
        return 0;
    if (!is_there || tnri_connection_wants(connection) == 0)
        connection_end(server, connection);
    return 1;
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* What is waited for: the event, the socket unless it is to be left for a while, and connections in
 * the order of their places. Returns how many. */
static size_t waits_make(const tnri_server *server, tnri_file_wait *waits, tnri_connection **whose,
                         tnri_connection *connections, int is_deaf)
{
    size_t count = 0;
    waits[count++] = (tnri_file_wait){.file = server->event, .wanted = TNRI_WAIT_READ};
    waits[count++] =
        (tnri_file_wait){.file = is_deaf ? -1 : server->listener, .wanted = TNRI_WAIT_READ};
    for (int i = 0; i < TNRI_CONNECTIONS_MAX; i++)
        if (connections[i].file >= 0) {
            whose[count] = &connections[i];
            waits[count++] = (tnri_file_wait){.file = connections[i].file,
                                              .wanted = tnri_connection_wants(&connections[i])};
        }
    return count;
}

/* Gives back what control groups want. Returns how long the thread may sleep, in ms; -1: until
 * something happens. */
static int groups_follow(tnri_server *server)
{
    tnri_device *device;
    int is_coming = 0;
    if (!atomic_exchange(&server->watches, 0))
        return -1;
    if (!turn_begin(server))
        return -1;
    for (int i = 0; (device = tnri_device_nth(i)) != NULL; i++)
        if (atomic_load_explicit(&device->in_use, memory_order_acquire) &&
            tnri_device_is_watched(device)) {
            atomic_store(&server->watches, 1);
            is_coming |= tnri_reclaim_above_groups(device, TNRI_CGROUP_APART_NS);
        }
    turn_end(server);
    if (!atomic_load(&server->watches))
        return -1;
    return is_coming ? TNRI_CGROUP_AGAIN_MS : TNRI_CGROUP_LOOK_MS;
}

static void *server_run(void *argument)
{
    tnri_server *server = argument;
    tnri_file_wait waits[2 + TNRI_CONNECTIONS_MAX];
    tnri_connection *whose[2 + TNRI_CONNECTIONS_MAX];
    int is_deaf = 0;
    while (!atomic_load(&server->is_ending)) {
        int sleeps = groups_follow(server);
        size_t count = waits_make(server, waits, whose, server->connections, is_deaf);
        int ready = tnri_wait_any(waits, count, is_deaf && sleeps < 0 ? NAP_MS : sleeps);
        is_deaf = 0;
        if (ready < 0 && errno != EINTR) { /* no memory in the kernel: it comes back */
            tnri_nap(NAP_MS * UINT64_C(1000000));
            continue;
        }
        if (ready > 0 && waits[0].found != 0)
            (void)tnri_wake_hear(server->event); /* to end, or to watch */
        for (size_t i = 2; i < count && ready > 0; i++)
            if (waits[i].found != 0 && !connection_step(server, whose[i]))
                break;
        if (ready > 0 && waits[1].found != 0 && !atomic_load(&server->is_ending))
            is_deaf = !connection_accept(server);
    }
    for (int i = 0; i < TNRI_CONNECTIONS_MAX; i++)
        if (server->connections[i].file >= 0)
            connection_end(server, &server->connections[i]);
    tnri_helper_end();
    return NULL;
}

/* ---- beginning and ending ------------------------------------------------------------------- */

static void server_discard(tnri_server *server)
{
    file_close(&server->listener);
    file_close(&server->event);
    file_close(&server->folder);
    tnri_mutex_end(&server->mutex);
    tnri_condition_end(&server->changed);
    tnri_host_free(server, sizeof(*server));
}

static void name_remove(const tnri_server *server)
{
    if (server->name[0] != '\0')
        (void)tnri_name_remove(server->folder, server->name);
}

/* The descriptors, and the socket's name. */
static tnr_status server_open(tnri_server *server, const char *setting)
{
    char text[128];
    tnri_places places;
    tnri_gate_of_servers_enter();
    tnri_places_list(&places, setting);
    tnr_status status = tnri_folder_open(&server->folder, server->path, &places, "control");
    if (status == TNR_OK) {
        server->event = tnri_wake_make(1);
        if (server->event < 0)
            status = tnri_error(TNR_ERR_FILE, "control: there is no descriptor for an event (%s).",
                                tnri_system_text(errno, text, sizeof(text)));
    }
    if (status == TNR_OK)
        status = tnri_folder_listen(&server->listener, server->name, server->folder, server->path);
    tnri_gate_of_servers_leave();
    return status;
}

tnr_status tnri_server_make(tnri_server **made, const char *setting)
{
    char text[128];
    tnri_server *server = tnri_host_alloc(sizeof(*server));
    if (server == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "control: no host memory for its thread.");
    server->folder = server->listener = server->event = -1;
    atomic_store(&server->watches, 1); /* devices may be in use already */
    for (int i = 0; i < TNRI_CONNECTIONS_MAX; i++)
        server->connections[i].file = -1;
    tnri_mutex_init(&server->mutex);
    tnri_condition_init(&server->changed);
    tnr_status status = server_open(server, setting);
    if (status != TNR_OK)
        server->name[0] = '\0';
    int error = status == TNR_OK ? tnri_helper_make(&server->thread, server_run, server) : 0;
    if (error != 0)
        status = tnri_error(TNR_ERR_HOST_MEMORY, "control: its thread cannot be made (%s).",
                            tnri_system_text(error, text, sizeof(text)));
    if (status != TNR_OK) {
        name_remove(server);
        server_discard(server);
        return status;
    }
    *made = server;
    return TNR_OK;
}

void tnri_server_retire(tnri_server *server)
{
    name_remove(server);
    tnri_mutex_lock(&server->mutex);
    atomic_store(&server->is_ending, 1);
    tnri_condition_wake_all(&server->changed);
    tnri_mutex_unlock(&server->mutex);
    tnri_wake_ring(server->event);
}

void tnri_server_free(tnri_server *server)
{
    tnri_thread_join(server->thread);
    server_discard(server);
}
