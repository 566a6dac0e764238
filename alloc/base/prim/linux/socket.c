/* SPDX-License-Identifier: Apache-2.0 */
/* See socket.h. */
#include "base/prim/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- waiting -------------------------------------------------------------------------------- */

int tnri_wait_any(tnri_file_wait *waits, size_t count, int milliseconds)
{
    struct pollfd asked[TNRI_WAITS_MAX];
    for (size_t i = 0; i < count; i++)
        asked[i] = (struct pollfd){
            .fd = waits[i].file,
            .events = (short)(((waits[i].wanted & TNRI_WAIT_READ) != 0 ? POLLIN : 0) |
                              ((waits[i].wanted & TNRI_WAIT_WRITE) != 0 ? POLLOUT : 0))};
    int found = poll(asked, count, milliseconds);
    for (size_t i = 0; i < count; i++)
        waits[i].found =
            found <= 0 ? 0
                       : ((asked[i].revents & POLLIN) != 0 ? TNRI_WAIT_READ : 0u) |
                             ((asked[i].revents & POLLOUT) != 0 ? TNRI_WAIT_WRITE : 0u) |
                             ((asked[i].revents & ~(POLLIN | POLLOUT)) != 0 ? TNRI_WAIT_OVER : 0u);
    return found;
}

int tnri_process_watch(void)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, getpid(), 0);
#else
    return -1;
#endif
}

/* ---- sockets -------------------------------------------------------------------------------- */

int tnri_socket_make(unsigned how)
{
    int type = (how & TNRI_SOCKET_MESSAGES) != 0 ? SOCK_SEQPACKET : SOCK_STREAM;
    return socket(AF_UNIX,
                  type | SOCK_CLOEXEC | ((how & TNRI_SOCKET_UNWAITED) != 0 ? SOCK_NONBLOCK : 0), 0);
}

int tnri_socket_pair(int files[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, files) == 0;
}

size_t tnri_socket_path_room(void)
{
    return sizeof(((struct sockaddr_un *)0)->sun_path);
}

/* A nameless address begins with a zero, and is as long as it is. 0: the path is too long. */
static socklen_t address_make(struct sockaddr_un *address, const char *path, int is_nameless)
{
    size_t room = sizeof(address->sun_path) - (size_t)is_nameless, length = strlen(path);
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    if (length >= room) {
        errno = ENAMETOOLONG;
        return 0;
    }
    memcpy(address->sun_path + is_nameless, path, length);
    return is_nameless ? (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)
                       : (socklen_t)sizeof(*address);
}

int tnri_socket_bind(int socket, const char *path, int is_nameless)
{
    struct sockaddr_un address;
    socklen_t length = address_make(&address, path, is_nameless);
    return length > 0 && bind(socket, (const struct sockaddr *)&address, length) == 0;
}

int tnri_socket_connect(int socket, const char *path, int is_nameless, int seconds)
{
    struct sockaddr_un address;
    struct timeval most = {.tv_sec = seconds};
    socklen_t length = address_make(&address, path, is_nameless);
    if (length == 0)
        return 0;
    (void)setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
    int result;
    do
        result = connect(socket, (const struct sockaddr *)&address, length);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

int tnri_socket_listen(int socket, int waiting)
{
    return listen(socket, waiting) == 0;
}

int tnri_socket_accept(int socket, unsigned how)
{
    return accept4(socket, NULL, NULL,
                   SOCK_CLOEXEC | ((how & TNRI_SOCKET_UNWAITED) != 0 ? SOCK_NONBLOCK : 0));
}

void tnri_socket_hang_up(int socket)
{
    (void)shutdown(socket, SHUT_RDWR);
}

int tnri_socket_peer(int socket, int *process, uint32_t *user)
{
    struct ucred who;
    socklen_t bytes = sizeof(who);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0)
        return 0;
    *process = (int)who.pid;
    *user = who.uid;
    return 1;
}

int tnri_socket_is_stream(int socket)
{
    int type = 0;
    socklen_t bytes = sizeof(type);
    return getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 ? -1 : type == SOCK_STREAM;
}

void tnri_socket_keep_from_exec(int file)
{
    (void)fcntl(file, F_SETFD, FD_CLOEXEC);
}

/* ---- messages ------------------------------------------------------------------------------- */

int64_t tnri_socket_send(int socket, const void *data, size_t bytes, int file)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (file >= 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &file, sizeof(file));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int64_t tnri_socket_receive(int socket, void *data, size_t bytes)
{
    return recv(socket, data, bytes, MSG_DONTWAIT);
}

/* The descriptors of a message. */
static size_t files_take(struct msghdr *message, int files[TNRI_SOCKET_FILES])
{
    size_t taken = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && taken < TNRI_SOCKET_FILES; i++, taken++)
            memcpy(&files[taken], CMSG_DATA(header) + i * sizeof(int), sizeof(files[0]));
    }
    return taken;
}

int64_t tnri_socket_take(int socket, void *data, size_t bytes, int files[TNRI_SOCKET_FILES],
                         size_t *files_count, int *is_cut)
{
    union {
        char bytes[CMSG_SPACE(TNRI_SOCKET_FILES * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {.iov_base = data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    *files_count = got >= 0 ? files_take(&message, files) : 0;
    *is_cut = (message.msg_flags & MSG_TRUNC) != 0;
    return got;
}
