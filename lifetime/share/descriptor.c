/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and messages: see descriptor.h. */
#include "share/descriptor.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/prim/file.h"
#include "base/prim/process.h"
#include "base/prim/socket.h"
#include "base/prim/thread.h"

enum { PATIENCE_MS = 10000 };

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
        (void)tnri_file_close(each->file);
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
    tnri_socket_keep_from_exec(file); /* the driver may not have */
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
    (void)tnri_file_close(descriptor->file);
    descriptor->file = -1;
    tnri_descriptors_leave();
}

int tnri_descriptors_pair(tnri_descriptor *near, tnri_descriptor *far)
{
    int files[2];
    tnri_descriptors_enter();
    int is_made = tnri_socket_pair(files);
    if (is_made) {
        tnri_descriptor_keep(near, files[0]);
        tnri_descriptor_keep(far, files[1]);
    }
    tnri_descriptors_leave();
    return is_made;
}

void tnri_descriptor_of_process(tnri_descriptor *descriptor)
{
    tnri_descriptors_enter();
    int file = tnri_process_watch();
    if (file >= 0)
        tnri_descriptor_keep(descriptor, file);
    tnri_descriptors_leave();
}

int tnri_descriptor_has_ended(const tnri_descriptor *process)
{
    tnri_file_wait wanted = {.file = process->file, .wanted = TNRI_WAIT_READ};
    return tnri_wait_any(&wanted, 1, 0) > 0;
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
static tnri_message socket_wait(int socket, int other, unsigned wanted)
{
    tnri_file_wait waits[2] = {{.file = socket, .wanted = wanted}, {.file = other}};
    int found;
    do
        found = tnri_wait_any(waits, other < 0 ? 1 : 2, PATIENCE_MS);
    while (found < 0 && errno == EINTR);
    if (found < 0)
        return TNRI_MESSAGE_REFUSED;
    if (found == 0)
        return TNRI_MESSAGE_LATE;
    /* What was sent before the other end hung up is still read. */
    return (waits[0].found & wanted) == 0 && waits[1].found != 0 ? TNRI_MESSAGE_ENDED
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
    size_t done = 0;
    while (done < bytes) {
        int64_t sent = tnri_socket_send(socket, (const char *)data + done, bytes - done,
                                        done == 0 ? file : -1);
        if (sent < 0 && !may_retry())
            return error_message();
        done += sent < 0 ? 0 : (size_t)sent;
        if (sent >= 0 || errno == EINTR)
            continue;
        tnri_message waited = socket_wait(socket, -1, TNRI_WAIT_WRITE);
        if (waited != TNRI_MESSAGE_DONE)
            return waited;
    }
    return TNRI_MESSAGE_DONE;
}

/* One look for what is there. Keeps the first file of a message, and closes the others. */
static int64_t message_take(int socket, void *data, size_t bytes, tnri_descriptor *file,
                            int *is_cut)
{
    int files[TNRI_SOCKET_FILES];
    size_t count;
    tnri_descriptors_enter();
    int64_t got = tnri_socket_take(socket, data, bytes, files, &count, is_cut);
    int error = errno;
    for (size_t i = 0; i < count; i++) {
        if (file->file < 0)
            tnri_descriptor_keep(file, files[i]);
        else
            (void)tnri_file_close(files[i]);
    }
    tnri_descriptors_leave();
    errno = error;
    return got;
}

tnri_message tnri_message_receive(int socket, int other, int is_patient, void *data, size_t bytes,
                                  tnri_descriptor *file)
{
    size_t done = 0;
    int is_cut = 0, is_stream = tnri_socket_is_stream(socket);
    if (is_stream < 0)
        return TNRI_MESSAGE_REFUSED;
    while (done < bytes) {
        int64_t got = message_take(socket, (char *)data + done, bytes - done, file, &is_cut);
        if (got == 0)
            return done > 0 ? TNRI_MESSAGE_FOREIGN : TNRI_MESSAGE_ENDED;
        if (got < 0 && !may_retry())
            return error_message();
        done += got < 0 ? 0 : (size_t)got;
        if (done > 0 && !is_stream) /* it was one message */
            return done == bytes && !is_cut ? TNRI_MESSAGE_DONE : TNRI_MESSAGE_FOREIGN;
        if (got >= 0 || errno == EINTR)
            continue;
        if (!is_patient)
            return TNRI_MESSAGE_NONE;
        tnri_message waited = socket_wait(socket, other, TNRI_WAIT_READ);
        if (waited != TNRI_MESSAGE_DONE)
            return waited;
    }
    return TNRI_MESSAGE_DONE;
}
