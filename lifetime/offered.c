/* SPDX-License-Identifier: Apache-2.0 */
/* Opening blocks by name: see offered.h. */
#include "offered.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "exported.h"
#include "shared.h"

/* "tenureN1"; another number for each change of what follows. */
#define NAME_MAGIC UINT64_C(0x314e65727565746e)

enum { WAIT_SECONDS = 10, BACKLOG = 64, PAUSE_MS = 100 };

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

static struct {
    pthread_mutex_t starting; /* protects the token, and what is written before it is published */
    pthread_mutex_t serving;  /* whoever answers a request, or keeps others from it */
    _Atomic uint64_t token;   /* 0: nobody answers */
    _Atomic int is_ending;
    tnri_descriptor listener; /* constant once the thread runs */
    pthread_t thread;
    pid_t process; /* that the thread is of */
} server = {.starting = PTHREAD_MUTEX_INITIALIZER,
            .serving = PTHREAD_MUTEX_INITIALIZER,
            .listener = TNRI_DESCRIPTOR_NONE};

static socklen_t address_make(struct sockaddr_un *address, uint64_t process, uint64_t token)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    int length =
        snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "tenure-%llu-%016llx",
                 (unsigned long long)process, (unsigned long long)token);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* A socket that keeps messages apart; without one errno says why. */
static int socket_make(tnri_descriptor *made, int flags)
{
    tnri_descriptors_enter();
    int file = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
    int error = errno;
    if (file >= 0)
        tnri_descriptor_keep(made, file);
    tnri_descriptors_leave();
    errno = error;
    return file >= 0;
}

/* Who is at the other end, as the kernel says; 0: it does not. */
static int peer_get(int connection, struct ucred *who)
{
    socklen_t bytes = sizeof(*who);
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, who, &bytes) == 0;
}

static int is_same_user(int connection, struct ucred *who)
{
    return peer_get(connection, who) && who->uid == geteuid();
}

/* ---- answering ------------------------------------------------------------------------------ */

static void request_answer(int connection)
{
    request asked;
    struct ucred who;
    tnri_descriptor stray = TNRI_DESCRIPTOR_NONE;
    if (!is_same_user(connection, &who))
        return;
    tnri_message got = tnri_message_receive(connection, -1, 1, &asked, sizeof(asked), &stray);
    tnri_descriptor_close(&stray);
    if (got != TNRI_MESSAGE_DONE || asked.magic != NAME_MAGIC)
        return;
    pthread_mutex_lock(&server.serving);
    tnr_status status = tnri_exported_send(asked.number, connection, who.pid);
    pthread_mutex_unlock(&server.serving);
    /* If a part has gone, the other side takes this for the end that it is. */
    tnri_shared_block why = {.magic = TNRI_SHARED_MAGIC, .refusal = (uint64_t)status};
    if (status != TNR_OK)
        (void)tnri_message_send(connection, &why, sizeof(why), -1);
}

/* Who asks next. 0: nobody, for now. */
static int connection_accept(tnri_descriptor *connection)
{
    tnri_descriptors_enter();
    int file = accept4(server.listener.file, NULL, NULL, SOCK_CLOEXEC);
    int error = errno;
    if (file >= 0)
        tnri_descriptor_keep(connection, file);
    tnri_descriptors_leave();
    errno = error;
    return file >= 0;
}

static void *requests_answer(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&server.is_ending)) {
        struct pollfd wanted = {.fd = server.listener.file, .events = POLLIN};
        tnri_descriptor connection = TNRI_DESCRIPTOR_NONE;
        if (poll(&wanted, 1, -1) > 0 && connection_accept(&connection)) {
            request_answer(connection.file);
            tnri_descriptor_close(&connection);
        } else if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) {
            (void)poll(NULL, 0, PAUSE_MS); /* no descriptor to be had, for now */
        }
    }
    return NULL;
}

/* At the process's end, before the driver's own. */
static void server_end(void)
{
    if (atomic_load(&server.token) == 0 || server.process != getpid())
        return; /* a forked child has no such thread */
    atomic_store(&server.is_ending, 1);
    (void)shutdown(server.listener.file, SHUT_RDWR);
    pthread_join(server.thread, NULL);
}

/* Listens and makes the thread, all of whose signals are blocked. 0, or an error number. */
static int listener_start(uint64_t token)
{
    struct sockaddr_un address;
    socklen_t length = address_make(&address, (uint64_t)getpid(), token);
    if (!socket_make(&server.listener, SOCK_NONBLOCK))
        return errno;
    int error = bind(server.listener.file, (const struct sockaddr *)&address, length) != 0 ||
                        listen(server.listener.file, BACKLOG) != 0
                    ? errno
                    : 0;
    if (error == 0) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&server.thread, NULL, requests_answer, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (error != 0)
        tnri_descriptor_close(&server.listener);
    return error;
}

/* Starts to answer if it is the first time. */
static tnr_status server_start(void)
{
    uint64_t token = 0;
    int error = 0;
    pthread_mutex_lock(&server.starting);
    if (atomic_load(&server.token) == 0) {
        if (getrandom(&token, sizeof(token), 0) != (ssize_t)sizeof(token) || token == 0)
            error = EAGAIN;
        else
            error = listener_start(token);
        if (error == 0) {
            server.process = getpid();
            atomic_store(&server.token, token);
            (void)atexit(server_end);
        }
    }
    pthread_mutex_unlock(&server.starting);
    char text[128];
    return error == 0 ? TNR_OK
                      : tnri_error(TNR_ERR_TRANSPORT,
                                   "other processes cannot be answered, as the system refuses a "
                                   "socket or a thread for it: %s.",
                                   strerror_r(error, text, sizeof(text)));
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
    pthread_mutex_lock(&server.serving);
}

void tnri_offered_resume(void)
{
    pthread_mutex_unlock(&server.serving);
}

/* ---- asking --------------------------------------------------------------------------------- */

/* Nobody may keep this process waiting for ever, were it by a full queue. */
static int connection_make(const offer_name *name, int connection)
{
    struct sockaddr_un address;
    struct timeval most = {.tv_sec = WAIT_SECONDS};
    socklen_t length = address_make(&address, name->process, name->token);
    (void)setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
    int result;
    do
        result = connect(connection, (const struct sockaddr *)&address, length);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

tnr_status tnri_offered_ask(const tnr_export_name *named, tnri_descriptor *connection)
{
    offer_name name;
    struct ucred who;
    char text[128];
    memcpy(&name, named, sizeof(name));
    if (name.magic != NAME_MAGIC)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "this is no name that tnr_export_offer of this version wrote.");
    if (name.token == atomic_load(&server.token))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "the block is this process's own: it has it already.");
    if (!socket_make(connection, 0))
        return tnri_error(TNR_ERR_TRANSPORT, "the system refuses a socket: %s.",
                          strerror_r(errno, text, sizeof(text)));
    int is_there = connection_make(&name, connection->file);
    if (!is_there || !is_same_user(connection->file, &who)) {
        tnr_status status = tnri_error(
            TNR_ERR_TRANSPORT,
            "process %llu, which offered the block, does not answer (%s): it has ended, is another "
            "user's, or lives in another network namespace.",
            (unsigned long long)name.process,
            is_there ? "another user" : strerror_r(errno, text, sizeof(text)));
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
    struct ucred who;
    tnri_descriptor connection = TNRI_DESCRIPTOR_NONE;
    memcpy(&name, named, sizeof(name));
    if (name.magic != NAME_MAGIC)
        return 0;
    if (tnri_offered_is_own(named) || !socket_make(&connection, 0))
        return 1;
    /* One that is stopped is there: the system takes connections in its place, up to a number. */
    int is_there = connection_make(&name, connection.file)
                       ? !peer_get(connection.file, &who) || who.uid == geteuid()
                       : errno != ECONNREFUSED;
    tnri_descriptor_close(&connection);
    return is_there;
}

int tnri_offered_is_own(const tnr_export_name *named)
{
    offer_name name;
    memcpy(&name, named, sizeof(name));
    return name.magic == NAME_MAGIC && name.token != 0 &&
           name.token == atomic_load(&server.token) && server.process == getpid();
}

pid_t tnri_offered_process(const tnr_export_name *named)
{
    offer_name name;
    memcpy(&name, named, sizeof(name));
    return (pid_t)name.process;
}
