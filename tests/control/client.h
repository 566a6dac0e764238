/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of control share: a folder of their own, and a controller that speaks the protocol
 * by itself. None of it fails a test; what went wrong is the caller's to judge. */
#ifndef TENURE_TESTS_CLIENT_H
#define TENURE_TESTS_CLIENT_H

#include <stddef.h>
#include <sys/types.h>

enum { CLIENT_LINE_BYTES = 1 << 20 };

typedef struct client {
    int socket; /* -1: none */
    char *line; /* the latest that was received, without its end */
    char *ahead;
    size_t ahead_length; /* bytes after it that have come */
} client;

/* A folder that is there until the process ends, and its path; or that of another process which
 * said so in CONTROL_TEST_FOLDER. */
const char *client_folder(void);
/* How many entries it has. */
int client_folder_count(void);
/* "control:on,control_dir:FOLDER" and, if it is not null, what follows after a comma. */
const char *client_conf(const char *more);

/* Connects to this process's socket and takes the greeting. 1, or 0: nobody listens, or who does
 * hangs up. */
int client_open(client *one);
/* Connects alone. 1 or 0. */
int client_connect(client *one, const char *path);
void client_close(client *one);

/* Sends bytes as they are. 1 or 0. */
int client_send(client *one, const char *bytes, size_t count);
/* Receives a line, which is then in one->line; 0: the other side hung up. */
int client_receive(client *one);
/* Sends a request, to which a newline is added, and receives the answer. Null: hung up. */
const char *client_ask(client *one, const char *request);

/* The same on a connection of its own. The text lives until the next call. */
const char *client_ask_once(const char *request);

#endif
