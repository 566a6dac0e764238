/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From process to process: see ipc.h.
 *
 * An abstract Unix socket, which goes with its process. Its name has the process's number and a
 * random token, which the handle carries; who connects must be of the same user. A request names an
 * export, and is answered by sending that, or by hanging up.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc.h"
#include "service.h"

enum { WAIT_SECONDS = 10 };
static const uint64_t MAGIC = UINT64_C(0x32637069726e7431);

typedef struct request {
    uint64_t magic;
    tnr_export exported;
} request;

static socklen_t address_make(struct sockaddr_un *address, uint64_t process, uint64_t token)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    int length =
        snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "tenure-ipc-%llu-%016llx",
                 (unsigned long long)process, (unsigned long long)token);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Nobody may keep the other waiting for ever. */
static void patience_limit(int connection)
{
    struct timeval most = {.tv_sec = WAIT_SECONDS};
    (void)setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    (void)setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
}

static int is_same_user(int connection)
{
    struct ucred who;
    socklen_t bytes = sizeof(who);
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
           who.uid == geteuid();
}

/* ---- serving -------------------------------------------------------------------------------- */

static void request_serve(int connection)
{
    request asked;
    patience_limit(connection);
    if (!is_same_user(connection) ||
        recv(connection, &asked, sizeof(asked), 0) != (ssize_t)sizeof(asked) ||
        asked.magic != MAGIC || !service_enter())
        return;
    (void)service_result(
        tnr_export_send(asked.exported, connection)); /* or the other side sees the end */
    service_leave();
}

static void *requests_serve(void *listener)
{
    int socket_listening = (int)(intptr_t)listener;
    for (;;) {
        int connection = accept4(socket_listening, NULL, NULL, SOCK_CLOEXEC);
        if (connection >= 0) {
            request_serve(connection);
            close(connection);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            sleep(1); /* no descriptor to be had, for now */
        }
    }
    return NULL;
}

int ipc_serve(uint64_t token)
{
    struct sockaddr_un address;
    pthread_t thread;
    sigset_t all, before;
    socklen_t length = address_make(&address, (uint64_t)getpid(), token);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return -1;
    int is_started =
        bind(listener, (const struct sockaddr *)&address, length) == 0 && listen(listener, 64) == 0;
    if (is_started) {
        /* The program's signals are not for this thread. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        is_started = pthread_create(&thread, NULL, requests_serve, (void *)(intptr_t)listener) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (is_started)
        pthread_detach(thread);
    else
        close(listener);
    return is_started ? 0 : -1;
}

/* ---- asking --------------------------------------------------------------------------------- */

static int connection_open(const ipc_name *name)
{
    struct sockaddr_un address;
    socklen_t length = address_make(&address, name->process, name->token);
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connection < 0)
        return -1;
    patience_limit(connection);
    if (connect(connection, (const struct sockaddr *)&address, length) == 0 &&
        is_same_user(connection))
        return connection;
    close(connection);
    return -1;
}

CUresult ipc_ask(const ipc_name *name, int device, tnr_import_info *info)
{
    request asked = {MAGIC, name->exported};
    int connection = connection_open(name);
    if (connection < 0)
        return CUDA_ERROR_INVALID_HANDLE; /* that process has ended, or never was */
    CUresult result = CUDA_ERROR_OPERATING_SYSTEM;
    if (send(connection, &asked, sizeof(asked), MSG_NOSIGNAL) == (ssize_t)sizeof(asked)) {
        tnr_status status = tnr_import_receive(info, connection, device, NULL);
        /* Most often the block is gone. */
        result = status == TNR_ERR_TRANSPORT ? CUDA_ERROR_INVALID_HANDLE : service_result(status);
    }
    close(connection);
    return result;
}
