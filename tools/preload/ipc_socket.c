/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From process to process: see ipc.h.
 *
 * An abstract Unix socket, which goes with its process. Its name has the process's number and a
 * random token, which the handle carries; who connects must be of the same user. A request is
 * answered by a header, and then by one message for each piece, with its descriptor. The
 * descriptors live for the time of one message, so that a block of thousands of pieces needs one at
 * a time.
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

#include "driver.h"
#include "ipc.h"

enum { WAIT_SECONDS = 10, PIECES_MAX = 1 << 22 };
static const uint64_t MAGIC = UINT64_C(0x31637069726e7431);

typedef struct request {
    uint64_t magic, serial;
} request;

typedef struct answer {
    uint64_t magic, is_there, offset, bytes, pieces_count;
    CUuuid device;
} answer;

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

static int piece_send(int connection, const ipc_piece *piece)
{
    int descriptor = -1;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    uint64_t length = piece->bytes;
    struct iovec part = {.iov_base = &length, .iov_len = sizeof(length)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    if (REAL(cuMemExportToShareableHandle,
             (&descriptor, piece->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)) !=
        CUDA_SUCCESS)
        return -1;
    memset(&control, 0, sizeof(control));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
    ssize_t sent = sendmsg(connection, &message, MSG_NOSIGNAL);
    close(descriptor);
    return sent == (ssize_t)sizeof(length) ? 0 : -1;
}

static void request_serve(int connection)
{
    request asked;
    ipc_block block = {.pieces = NULL};
    patience_limit(connection);
    if (!is_same_user(connection) ||
        recv(connection, &asked, sizeof(asked), 0) != (ssize_t)sizeof(asked) ||
        asked.magic != MAGIC)
        return;
    int is_there = ipc_exported(asked.serial, &block);
    answer said = {.magic = MAGIC, .is_there = (uint64_t)is_there};
    if (is_there) {
        said.offset = block.offset;
        said.bytes = block.bytes;
        said.pieces_count = block.pieces_count;
        said.device = block.device;
    }
    int is_sent = send(connection, &said, sizeof(said), MSG_NOSIGNAL) == (ssize_t)sizeof(said);
    for (size_t i = 0; is_sent && is_there && i < block.pieces_count; i++)
        is_sent = piece_send(connection, &block.pieces[i]) == 0;
    if (is_there)
        ipc_block_release(&block);
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

/* Receives the descriptor of one piece and imports the memory. */
static CUresult piece_receive(int connection, ipc_piece *piece)
{
    int descriptor = -1;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    uint64_t length = 0;
    struct iovec part = {.iov_base = &length, .iov_len = sizeof(length)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(length))
        return CUDA_ERROR_OPERATING_SYSTEM;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(sizeof(int)))
        return CUDA_ERROR_OPERATING_SYSTEM;
    memcpy(&descriptor, CMSG_DATA(header), sizeof(descriptor));
    piece->bytes = (size_t)length;
    CUresult result =
        REAL(cuMemImportFromShareableHandle, (&piece->handle, (void *)(intptr_t)descriptor,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    return result;
}

static CUresult pieces_receive(int connection, const answer *said, ipc_block *block)
{
    block->pieces = calloc((size_t)said->pieces_count, sizeof(block->pieces[0]));
    CUresult result = block->pieces == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    for (block->pieces_count = 0;
         result == CUDA_SUCCESS && block->pieces_count < (size_t)said->pieces_count;) {
        result = piece_receive(connection, &block->pieces[block->pieces_count]);
        if (result == CUDA_SUCCESS)
            block->pieces_count++;
    }
    if (result != CUDA_SUCCESS)
        ipc_block_release(block);
    return result;
}

CUresult ipc_ask(const ipc_name *name, ipc_block *block)
{
    request asked = {MAGIC, name->serial};
    answer said;
    int connection = connection_open(name);
    if (connection < 0)
        return CUDA_ERROR_INVALID_HANDLE; /* that process has ended, or never was */
    CUresult result = CUDA_ERROR_OPERATING_SYSTEM;
    if (send(connection, &asked, sizeof(asked), MSG_NOSIGNAL) == (ssize_t)sizeof(asked) &&
        recv(connection, &said, sizeof(said), 0) == (ssize_t)sizeof(said) && said.magic == MAGIC &&
        said.pieces_count <= PIECES_MAX) {
        block->device = said.device;
        block->offset = (size_t)said.offset;
        block->bytes = (size_t)said.bytes;
        result =
            said.is_there ? pieces_receive(connection, &said, block) : CUDA_ERROR_INVALID_HANDLE;
    }
    close(connection);
    return result;
}
