/* SPDX-License-Identifier: Apache-2.0 */
/* Opening blocks by name: see offered.h. */
#include "share/offered.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/prim/helper.h"
#include "base/host_memory.h"
#include "base/prim/clock.h"
#include "base/prim/process.h"
#include "base/prim/socket.h"
#include "base/prim/thread.h"
#include "share/exported.h"
#include "share/shared.h"

/* "tenureN1"; another number for each change of what follows. */
#define NAME_MAGIC UINT64_C(0x314e65727565746e)

enum { WAIT_SECONDS = 10, BACKLOG = 64, PAUSE_MS = 100, LOOK_MS = 500, ASKERS_MAX = 32 };

/* What a tnr_export_name holds. */
typedef struct offer_name {
    uint64_t magic;
    uint64_t process; /* its number; with the token, the socket's name */
    uint64_t token;   /* drawn when the process first offers */
    tnr_export number;
} offer_name;
_Static_assert(sizeof(offer_name) == sizeof(tnr_export_name), "a name is all of it");

typedef struct request {
    uint64_t magic;
    tnr_export number;
} request;

/* A process that asks, and the thread that answers it. */
typedef struct asker {
    struct asker *next;
    tnri_descriptor connection;
    tnri_system_thread thread;
    int has_thread;
    int is_answered; /* its connection is about to be closed; the mutex */
    int is_done;     /* it belongs to askers_reap; the mutex */
} asker;

static struct {
    tnri_mutex starting;    /* protects the token, and what is written before it is published */
    _Atomic uint64_t token; /* 0: no thread answers */
    _Atomic int is_ending;
    tnri_descriptor listener; /* constant once the thread runs */
    tnri_system_thread thread;
    int process; /* that the thread is of */

    tnri_mutex mutex; /* protects what follows */
    tnri_condition changed;
    asker *askers;       /* that have a thread */
    int askers_count;    /* at most ASKERS_MAX */
    int sending, pauses; /* threads that are sending a block, or keep others from it */
} server = {.starting = TNRI_MUTEX_INIT,
            .mutex = TNRI_MUTEX_INIT,
            .changed = TNRI_CONDITION_INIT,
            .listener = TNRI_DESCRIPTOR_NONE};

enum { ADDRESS_BYTES = 64 };

static void address_make(char address[ADDRESS_BYTES], uint64_t process, uint64_t token)
{
    snprintf(address, ADDRESS_BYTES, "tenure-%llu-%016llx", (unsigned long long)process,
             (unsigned long long)token);
}

/* A socket that keeps messages apart; without one errno says why. */
static int socket_make(tnri_descriptor *made, unsigned how)
{
    tnri_descriptors_enter();
    int file = tnri_socket_make(TNRI_SOCKET_MESSAGES | how);
    int error = errno;
    if (file >= 0)
        tnri_descriptor_keep(made, file);
    tnri_descriptors_leave();
    errno = error;
    return file >= 0;
}

/* 1, and the process, if the other end is this user's. */
static int is_same_user(int connection, int *process)
{
    uint32_t user;
    return tnri_socket_peer(connection, process, &user) && user == tnri_process_user();
}

/* ---- answering ------------------------------------------------------------------------------ */

/* Between these two no thread pauses. */
static void sending_begin(void)
{
    tnri_mutex_lock(&server.mutex);
    while (server.pauses > 0)
        tnri_condition_wait(&server.changed, &server.mutex);
    server.sending++;
    tnri_mutex_unlock(&server.mutex);
}

static void sending_end(void)
{
    tnri_mutex_lock(&server.mutex);
    server.sending--;
    tnri_condition_wake_all(&server.changed);
    tnri_mutex_unlock(&server.mutex);
}

static void request_answer(int connection)
{
    request asked;
    int who;
    tnri_descriptor stray = TNRI_DESCRIPTOR_NONE;
    if (!is_same_user(connection, &who))
        return;
    tnri_message got = tnri_message_receive(connection, -1, 1, &asked, sizeof(asked), &stray);
    tnri_descriptor_close(&stray);
    if (got != TNRI_MESSAGE_DONE || asked.magic != NAME_MAGIC)
        return;
    sending_begin();
    tnr_status status = tnri_exported_send(asked.number, connection, who);
    sending_end();
    /* If a part has gone, the other side takes this for the end that it is. */
    tnri_shared_block why = {.magic = TNRI_SHARED_MAGIC, .refusal = (uint64_t)status};
    if (status != TNR_OK)
        (void)tnri_message_send(connection, &why, sizeof(why), -1);
}

/* The next process that asks. 0: none, for now. */
static int connection_accept(tnri_descriptor *connection)
{
    tnri_descriptors_enter();
    int file = tnri_socket_accept(server.listener.file, 0);
    int error = errno;
    if (file >= 0)
        tnri_descriptor_keep(connection, file);
    tnri_descriptors_leave();
    errno = error;
    return file >= 0;
}

static void *asker_answer(void *argument)
{
    asker *self = argument;
    request_answer(self->connection.file);
    tnri_mutex_lock(&server.mutex);
    self->is_answered = 1;
    tnri_mutex_unlock(&server.mutex);
    tnri_descriptor_close(&self->connection);
    tnri_mutex_lock(&server.mutex);
    self->is_done = 1;
    tnri_condition_wake_all(&server.changed);
    tnri_mutex_unlock(&server.mutex);
    return NULL;
}

/* Ends those that are answered, and waits until there is room for one more; or for all of them. */
static void askers_reap(int is_last)
{
    tnri_mutex_lock(&server.mutex);
    for (;;) {
        asker **link = &server.askers, *one;
        while (*link != NULL && !(*link)->is_done)
            link = &(*link)->next;
        if ((one = *link) == NULL) {
            if (server.askers_count < (is_last ? 1 : ASKERS_MAX))
                break;
            tnri_condition_wait(&server.changed, &server.mutex);
            continue;
        }
        *link = one->next;
        server.askers_count--;
        tnri_mutex_unlock(&server.mutex);
        if (one->has_thread)
            tnri_thread_join(one->thread);
        tnri_host_free(one, sizeof(*one));
        tnri_mutex_lock(&server.mutex);
    }
    tnri_mutex_unlock(&server.mutex);
}

/* Answers one that asks on a thread of its own, so that the others don't wait for one that is
 * silent or does not take what it is sent; on this thread where there is no other. */
static void asker_take(asker *fresh)
{
    tnri_mutex_lock(&server.mutex);
    fresh->next = server.askers;
    server.askers = fresh;
    server.askers_count++;
    fresh->has_thread = tnri_thread_make(&fresh->thread, asker_answer, fresh) == 0;
    int is_here = !fresh->has_thread;
    tnri_mutex_unlock(&server.mutex);
    if (is_here)
        (void)asker_answer(fresh);
}

/* Takes one that asks. 0: there is no descriptor or no memory for it, for now. */
static int asker_accept(void)
{
    askers_reap(0);
    asker *fresh = tnri_host_alloc(sizeof(*fresh));
    if (fresh == NULL)
        return 0;
    *fresh = (asker){.connection = TNRI_DESCRIPTOR_NONE};
    if (connection_accept(&fresh->connection)) {
        asker_take(fresh);
        return 1;
    }
    int error = errno;
    tnri_host_free(fresh, sizeof(*fresh));
    return error == EINTR || error == ECONNABORTED || error == EAGAIN;
}

/* How long to wait for the next one: until then it is not looked at which are over. One that is
 * being answered may come to have memory of another process. */
static int look_ms(void)
{
    (void)pthread_mutex_lock(&server.mutex);
    int is_answering = server.askers_count > 0;
    (void)pthread_mutex_unlock(&server.mutex);
    return is_answering || tnri_exported_relays() ? LOOK_MS : -1;
}

static void look(void)
{
    askers_reap(0);
    sending_begin(); /* what ends may be a block of a device */
    tnri_exported_settle();
    sending_end();
}

static void *requests_answer(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&server.is_ending)) {
        tnri_file_wait wanted = {.file = server.listener.file, .wanted = TNRI_WAIT_READ};
        int found = tnri_wait_any(&wanted, 1, look_ms());
        if (atomic_load(&server.is_ending))
            break;
        if (found == 0)
            look();
        else if (found > 0 && !asker_accept())
            tnri_nap(PAUSE_MS * UINT64_C(1000000));
    }
    tnri_helper_end();
    return NULL;
}

static void askers_hang_up(void)
{
    tnri_mutex_lock(&server.mutex);
    for (const asker *one = server.askers; one != NULL; one = one->next)
        if (!one->is_answered)
            tnri_socket_hang_up(one->connection.file);
    tnri_mutex_unlock(&server.mutex);
}

/* At the process's end, before the driver's own. Those that are waited for are hung up on. */
static void server_end(void)
{
    if (atomic_load(&server.token) == 0 || server.process != tnri_process_id())
        return; /* a forked child has no such threads */
    atomic_store(&server.is_ending, 1);
    tnri_socket_hang_up(server.listener.file);
    askers_hang_up();
    tnri_thread_join(server.thread);
    askers_hang_up(); /* the last that it took */
    askers_reap(1);
}

/* Listens and makes the thread, all of whose signals are blocked. 0, or an error number. */
static int listener_start(uint64_t token)
{
    char address[ADDRESS_BYTES];
    address_make(address, (uint64_t)tnri_process_id(), token);
    if (!socket_make(&server.listener, TNRI_SOCKET_UNWAITED))
        return errno;
    int error = !tnri_socket_bind(server.listener.file, address, 1) ||
                        !tnri_socket_listen(server.listener.file, BACKLOG)
                    ? errno
                    : 0;
    if (error == 0)
        error = tnri_helper_make(&server.thread, requests_answer, NULL);
    if (error != 0)
        tnri_descriptor_close(&server.listener);
    return error;
}

/* Starts to answer if it is the first time. */
static tnr_status server_start(void)
{
    uint64_t token = 0;
    int error = 0;
    tnri_mutex_lock(&server.starting);
    if (atomic_load(&server.token) == 0) {
        if (!tnri_random(&token, sizeof(token)) || token == 0)
            error = EAGAIN;
        else
            error = listener_start(token);
        if (error == 0) {
            server.process = tnri_process_id();
            atomic_store(&server.token, token);
            (void)atexit(server_end);
        }
    }
    tnri_mutex_unlock(&server.starting);
    char text[128];
    return error == 0 ? TNR_OK
                      : tnri_error(TNR_ERR_TRANSPORT,
                                   "other processes cannot be answered, as the system refuses a "
                                   "socket or a thread for it: %s.",
                                   tnri_system_text(error, text, sizeof(text)));
}

tnr_status tnri_offered_name(tnr_export_name *name, tnr_export number)
{
    tnr_status status = server_start();
    if (status != TNR_OK)
        return status;
    offer_name made = {NAME_MAGIC, (uint64_t)server.process, atomic_load(&server.token), number};
    memcpy(name, &made, sizeof(made));
    return TNR_OK;
}

void tnri_offered_pause(void)
{
    tnri_mutex_lock(&server.mutex);
    server.pauses++;
    while (server.sending > 0)
        tnri_condition_wait(&server.changed, &server.mutex);
    tnri_mutex_unlock(&server.mutex);
}

void tnri_offered_resume(void)
{
    tnri_mutex_lock(&server.mutex);
    server.pauses--;
    tnri_condition_wake_all(&server.changed);
    tnri_mutex_unlock(&server.mutex);
}

/* ---- asking --------------------------------------------------------------------------------- */

/* No process may keep this one waiting without end, not even by a full queue. */
static int connection_make(const offer_name *name, int connection)
{
    char address[ADDRESS_BYTES];
    address_make(address, name->process, name->token);
    return tnri_socket_connect(connection, address, 1, WAIT_SECONDS);
}

tnr_status tnri_offered_ask(const tnr_export_name *named, tnri_descriptor *connection)
{
    offer_name name;
    int who;
    char text[128];
    memcpy(&name, named, sizeof(name));
    if (name.magic != NAME_MAGIC)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "this is not a name that tnr_export_offer of this version wrote.");
    if (name.token == atomic_load(&server.token))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "the block is this process's own: it has it already.");
    if (!socket_make(connection, 0))
        return tnri_error(TNR_ERR_TRANSPORT, "the system refuses a socket: %s.",
                          tnri_system_text(errno, text, sizeof(text)));
    int is_there = connection_make(&name, connection->file);
    if (!is_there || !is_same_user(connection->file, &who)) {
        tnr_status status = tnri_error(
            TNR_ERR_TRANSPORT,
            "process %llu, which offered the block, does not answer (%s): it has ended, is another "
            "user's, or lives in another network namespace.",
            (unsigned long long)name.process,
            is_there ? "another user" : tnri_system_text(errno, text, sizeof(text)));
        tnri_descriptor_close(connection);
        return status;
    }
    request asked = {NAME_MAGIC, name.number};
    tnri_message sent = tnri_message_send(connection->file, &asked, sizeof(asked), -1);
    if (sent == TNRI_MESSAGE_DONE)
        return TNR_OK;
    tnri_descriptor_close(connection);
    return tnri_message_error(sent, "asking for a block");
}

int tnri_offered_is_there(const tnr_export_name *named)
{
    offer_name name;
    int who;
    uint32_t user;
    tnri_descriptor connection = TNRI_DESCRIPTOR_NONE;
    memcpy(&name, named, sizeof(name));
    if (name.magic != NAME_MAGIC)
        return 0;
    if (tnri_offered_is_own(named) || !socket_make(&connection, 0))
        return 1;
    /* One that is stopped is there: the system takes connections in its place, up to a number. */
    int is_there =
        connection_make(&name, connection.file)
            ? !tnri_socket_peer(connection.file, &who, &user) || user == tnri_process_user()
            : errno != ECONNREFUSED;
    tnri_descriptor_close(&connection);
    return is_there;
}

int tnri_offered_is_own(const tnr_export_name *named)
{
    offer_name name;
    memcpy(&name, named, sizeof(name));
    return name.magic == NAME_MAGIC && name.token != 0 &&
           name.token == atomic_load(&server.token) && server.process == tnri_process_id();
}

int tnri_offered_process(const tnr_export_name *named)
{
    offer_name name;
    memcpy(&name, named, sizeof(name));
    return (int)name.process;
}
