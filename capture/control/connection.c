/* SPDX-License-Identifier: Apache-2.0 */
/* See connection.h. */
#include "control/connection.h"

#include <errno.h>
#include <string.h>

#include "base/host_memory.h"
#include "base/prim/socket.h"

int tnri_connection_open(tnri_connection *connection, int file)
{
    *connection = (tnri_connection){.file = -1};
    connection->line = tnri_host_alloc(TNRI_LINE_BYTES + 1);
    if (connection->line == NULL || !tnri_answer_open(&connection->answer)) {
        tnri_connection_close(connection);
        return 0;
    }
    connection->file = file;
    return 1;
}

void tnri_connection_close(tnri_connection *connection)
{
    tnri_host_free(connection->line, TNRI_LINE_BYTES + 1);
    if (connection->answer.text != NULL)
        tnri_answer_close(&connection->answer);
    *connection = (tnri_connection){.file = -1};
}

static int is_taken(const tnri_connection *connection)
{
    return connection->taken == connection->answer.length;
}

unsigned tnri_connection_wants(const tnri_connection *connection)
{
    if (!is_taken(connection))
        return TNRI_WAIT_WRITE;
    return connection->is_over || connection->is_heard ? 0 : TNRI_WAIT_READ;
}

int tnri_connection_receive(tnri_connection *connection)
{
    size_t room = TNRI_LINE_BYTES - connection->line_length;
    if (!is_taken(connection) || room == 0)
        return 1;
    int64_t got =
        tnri_socket_receive(connection->file, connection->line + connection->line_length, room);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    connection->line_length += (size_t)got;
    connection->is_heard = got == 0;
    return 1;
}

int tnri_connection_send(tnri_connection *connection)
{
    const tnri_answer *answer = &connection->answer;
    if (is_taken(connection))
        return 1;
    int64_t sent = tnri_socket_send(connection->file, answer->text + connection->taken,
                                    answer->length - connection->taken, -1);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    connection->taken += (size_t)sent;
    return 1;
}

char *tnri_connection_line(tnri_connection *connection, size_t *length)
{
    if (!is_taken(connection) || connection->is_over)
        return NULL;
    char *end = memchr(connection->line, '\n', connection->line_length);
    tnri_answer_clear(&connection->answer);
    connection->taken = 0;
    if (end != NULL) {
        *end = '\0';
        *length = (size_t)(end - connection->line);
        return connection->line;
    }
    if (connection->line_length == TNRI_LINE_BYTES) {
        connection->is_over = 1;
        tnri_answer_refuse(&connection->answer, UINT64_MAX, TNR_ERR_INVALID_ARGUMENT,
                           "a request is longer than 8191 bytes.");
    }
    return NULL;
}

void tnri_connection_line_done(tnri_connection *connection, size_t length)
{
    connection->line_length -= length + 1;
    memmove(connection->line, connection->line + length + 1, connection->line_length);
}
