/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: what one controller has said and the server has not answered yet, and what the
 * controller has not taken yet. A line is served only when the controller has taken the answer
 * before it. So neither side can make the other keep more than a line and an answer.
 *
 * Everything here belongs to the server's thread.
 */
#ifndef TNRI_CONTROL_CONNECTION_H
#define TNRI_CONTROL_CONNECTION_H

#include "control/answer.h"
#include "share/folder.h"

enum { TNRI_LINE_BYTES = 8192, TNRI_FILE_NAME_BYTES = TNRI_SOCKET_NAME_BYTES + 32 };

typedef struct tnri_connection {
    int file; /* -1: none. Closed behind the servers' gate */
    char *line;
    size_t line_length; /* bytes that have come and are not served */
    tnri_answer answer;
    size_t taken;                        /* bytes of the answer that have gone */
    int is_heard;                        /* 1: nothing more comes */
    int is_over;                         /* 1: goes when the answer is taken */
    uint64_t moment;                     /* when something moved last */
    char snapshot[TNRI_FILE_NAME_BYTES]; /* in the folder, until the next request; empty: none */
} tnri_connection;

/* Takes a descriptor over. 0: no host memory, and the caller closes the descriptor. */
int tnri_connection_open(tnri_connection *connection, int file);

/* Frees all but the descriptor, which the caller closes first. */
void tnri_connection_close(tnri_connection *connection);

/* What poll is to look for; 0: the connection is over, and can be closed. */
unsigned tnri_connection_wants(const tnri_connection *connection);

/* Takes what has come. 0: the other side is gone. */
int tnri_connection_receive(tnri_connection *connection);
/* Sends what can be sent. 0: the other side is gone. */
int tnri_connection_send(tnri_connection *connection);

/* The next line to be served, without its end; null: there is none, or its time has not come. If a
 * line is too long, answers so and ends the connection. */
char *tnri_connection_line(tnri_connection *connection, size_t *length);
/* That line, of so many bytes, has been served. */
void tnri_connection_line_done(tnri_connection *connection, size_t length);

#endif
