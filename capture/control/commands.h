/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What requests do: calls of the public functions, on the server's thread, and their answers. No
 * request puts a device into use that the program has not used.
 */
#ifndef TNRI_CONTROL_COMMANDS_H
#define TNRI_CONTROL_COMMANDS_H

#include "control/connection.h"
#include "control/request.h"

/* Where a server's files are. */
typedef struct tnri_control_place {
    int folder;       /* a descriptor */
    const char *path; /* of the folder */
    const char *name; /* of the socket in it */
} tnri_control_place;

/* Says who this is: the first line of every connection. */
void tnri_greet(tnri_answer *answer);

/* Serves one line, and writes the answer. */
void tnri_serve(tnri_connection *connection, const tnri_control_place *place, char *line,
                size_t length);

/* Removes the file that has the connection's latest snapshot, if it is still there. */
void tnri_snapshot_forget(tnri_connection *connection, int folder);

/* The fields of the answer to status; with those of streams and of the account, or without. */
void tnri_status_tell(tnri_answer *answer, int has_streams, int has_account);
/* How much of a device's used memory is explained, and by what; nothing if that is not known. */
void tnri_account_tell(tnri_answer *answer, int device);
/* What the pools with a tag have on a device, as a value of a list. */
void tnri_tag_tell(tnri_answer *answer, const char *tag, int device);

#endif
