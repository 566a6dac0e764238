/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and messages: see descriptor.h. */
#include "share/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/prim/process.h"
#include "base/prim/thread.h"

enum { PATIENCE_MS = 10000, FILES_MAX = 8 };

static tnri_mutex gate = TNRI_MUTEX_INIT;
static tnri_descriptor *kept; /* the gate */
static int calm_before;       /* of the thread that is inside; the gate */
static tnri_once forks_once = TNRI_ONCE_INIT;

/* ---- the list ------------------------------------------------------------------------------- */

static void gate_shut(void)
{
    tnri_mutex_lock(&gate);
}

static void gate_open(void)
{
    tnri_mutex_unlock(&gate);
}

static void child_close(void)
{
    for (tnri_descriptor *each = kept; each != NULL; each = each->next) {
        (void)close(each->file);
        each->file = -1;
    }
    kept = NULL;
    gate_open();
}

static void forks_watch(void)
{
    tnri_forks_watch(gate_shut, gate_open, child_close);
}

void tnri_descriptors_enter(void)
{
    tnri_assert_none_held();
    tnri_once_run(&forks_once, forks_watch);
    int before =
        tnri_calm_begin(); /* who is inside may close, which is where threads are cancelled */
    gate_shut();
    calm_before = before;
}

void tnri_descriptors_leave(void)
{
    int before = calm_before;
    gate_open();
    tnri_calm_end(&before);
}

void tnri_descriptor_keep(tnri_descriptor *descriptor, int file)
{
    (void)fcntl(file, F_SETFD, FD_CLOEXEC); /* the driver may not have */
    descriptor->file = file;
    descriptor->next = kept;
    descriptor->link = &kept;
    if (kept != NULL)
        kept->link = &descriptor->next;
    kept = descriptor;
}

void tnri_descriptor_close(tnri_descriptor *descriptor)
{
    if (descriptor->file < 0)
        return;
    tnri_descriptors_enter();
    *descriptor->link = descriptor->next;
    if (descriptor->next != NULL)
        descriptor->next->link = descriptor->link;
    (void)close(descriptor->file);
    descriptor->file = -1;
    tnri_descriptors_leave();
}

int tnri_descriptors_pair(tnri_descriptor *near, tnri_descriptor *far)
{
    int files[2];
    tnri_descriptors_enter();
    int is_made = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, files) == 0;
    if (is_made) {
        tnri_descriptor_keep(near, files[0]);
        tnri_descriptor_keep(far, files[1]);
    }
    tnri_descriptors_leave();
    return is_made;
}

void tnri_descriptor_of_process(tnri_descriptor *descriptor)
{
#ifdef SYS_pidfd_open
    tnri_descriptors_enter();
    int file = (int)syscall(SYS_pidfd_open, tnri_process_id(), 0);
    if (file >= 0)
        tnri_descriptor_keep(descriptor, file);
    tnri_descriptors_leave();
#else
    (void)descriptor;
#endif
}

int tnri_descriptor_has_ended(const tnri_descriptor *process)
{
    struct pollfd wanted = {.fd = process->file, .events = POLLIN};
    return poll(&wanted, 1, 0) > 0;
}

/* ---- messages ------------------------------------------------------------------------------- */

tnr_status tnri_message_error(tnri_message message, const char *doing)
{
    char text[128];
    const char *what;
    switch (message) {
    case TNRI_MESSAGE_ENDED:
        what = "the other process has hung up";
        break;
    case TNRI_MESSAGE_LATE:
        what = "the other process kept this one waiting for 10 s";
        break;
    case TNRI_MESSAGE_FOREIGN:
        what = "what the other process sent is not an export of this version of Tenure";
        break;
    default:
        what = tnri_system_text(errno, text, sizeof(text));
    }
    return tnri_error(TNR_ERR_TRANSPORT,
                      "%s: %s. It takes a connected Unix socket with tnr_export_send and "
                      "tnr_import_receive at its ends, or a name of tnr_export_offer.",
                      doing, what);
}

/* Waits until the socket can be written or read, or has hung up. */
static tnri_message socket_wait(int socket, int other, short events)
{
    struct pollfd wanted[2] = {{.fd = socket, .events = events}, {.fd = other}};
    int found;
    do
        found = poll(wanted, other < 0 ? 1 : 2, PATIENCE_MS);
    while (found < 0 && errno == EINTR);
    if (found < 0)
        return TNRI_MESSAGE_REFUSED;
    if (found == 0)
        return TNRI_MESSAGE_LATE;
    /* What was sent before the other end hung up is still read. */
    return (wanted[0].revents & events) == 0 && wanted[1].revents != 0 ? TNRI_MESSAGE_ENDED
                                                                       : TNRI_MESSAGE_DONE;
}

static tnri_message error_message(void)
{
    return errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN || errno == ECONNREFUSED
               ? TNRI_MESSAGE_ENDED
               : TNRI_MESSAGE_REFUSED;
}

static int may_retry(void)
{
    return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
}

tnri_message tnri_message_send(int socket, const void *data, size_t bytes, int file)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    size_t done = 0;
    memset(&control, 0, sizeof(control));
    while (done < bytes) {
        struct iovec part = {.iov_base = (char *)(uintptr_t)data + done, .iov_len = bytes - done};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (file >= 0 && done == 0) {
            message.msg_control = control.bytes;
            message.msg_controllen = sizeof(control.bytes);
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(header), &file, sizeof(file));
        }
        ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && !may_retry())
            return error_message();
        done += sent < 0 ? 0 : (size_t)sent;
        if (sent >= 0 || errno == EINTR)
            continue;
        tnri_message waited = socket_wait(socket, -1, POLLOUT);
        if (waited != TNRI_MESSAGE_DONE)
            return waited;
    }
    return TNRI_MESSAGE_DONE;
}

/* Keeps the first file of a message, and closes the others. Inside the gate. */
static void files_keep(struct msghdr *message, tnri_descriptor *kept_one)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int file;
            memcpy(&file, CMSG_DATA(header) + i * sizeof(int), sizeof(file));
            if (kept_one->file < 0)
                tnri_descriptor_keep(kept_one, file);
            else
                (void)close(file);
        }
    }
}

/* One look for what is there. As recvmsg. */
static ssize_t message_take(int socket, void *data, size_t bytes, tnri_descriptor *file, int *flags)
{
    union {
        char bytes[CMSG_SPACE(FILES_MAX * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {.iov_base = data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    tnri_descriptors_enter();
    ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int error = errno;
    if (got >= 0)
        files_keep(&message, file);
    tnri_descriptors_leave();
    *flags = message.msg_flags;
    errno = error;
    return got;
}

tnri_message tnri_message_receive(int socket, int other, int is_patient, void *data, size_t bytes,
                                  tnri_descriptor *file)
{
    size_t done = 0;
    int type = 0, flags = 0;
    socklen_t type_bytes = sizeof(type);
    if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &type_bytes) != 0)
        return TNRI_MESSAGE_REFUSED;
    while (done < bytes) {
        ssize_t got = message_take(socket, (char *)data + done, bytes - done, file, &flags);
        if (got == 0)
            return done > 0 ? TNRI_MESSAGE_FOREIGN : TNRI_MESSAGE_ENDED;
        if (got < 0 && !may_retry())
            return error_message();
        done += got < 0 ? 0 : (size_t)got;
        if (done > 0 && type != SOCK_STREAM) /* it was one message */
            return done == bytes && (flags & MSG_TRUNC) == 0 ? TNRI_MESSAGE_DONE
                                                             : TNRI_MESSAGE_FOREIGN;
        if (got >= 0 || errno == EINTR)
            continue;
        if (!is_patient)
            return TNRI_MESSAGE_NONE;
        tnri_message waited = socket_wait(socket, other, POLLIN);
        if (waited != TNRI_MESSAGE_DONE)
            return waited;
    }
    return TNRI_MESSAGE_DONE;
}
