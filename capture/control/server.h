/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server: the thread that listens at a socket, and what it has. There is one while control is on.
 * After a change of its settings, the old one goes on beside the new one until its last request is
 * served.
 *
 * The thread has all signals blocked. It waits in poll for the socket, its connections and an event
 * that tells it to end. It does one request at a time, so a request that takes long keeps the
 * others waiting. Nothing has a deadline, and nothing grows: a connection has one line and one
 * answer, and there are at most TNRI_CONNECTIONS_MAX connections. If one more comes, the one that
 * has moved nothing for the longest time goes.
 *
 * A forked child has no such thread. It closes the descriptors (the gate makes sure that it knows
 * all of them) and forgets the server. It leaves the socket's name alone, because that belongs to
 * its parent.
 */
#ifndef TNRI_CONTROL_SERVER_H
#define TNRI_CONTROL_SERVER_H

#include <stdatomic.h>

#include "base/prim/thread.h"
#include "control/connection.h"
#include "share/folder.h"

enum { TNRI_CONNECTIONS_MAX = 16 };

typedef struct tnri_server {
    /* Constant once it runs. */
    char path[TNRI_FOLDER_BYTES]; /* of the folder */
    char name[TNRI_SOCKET_NAME_BYTES];
    tnri_system_thread thread;

    int folder, listener, event; /* -1: none. Closed behind the gate */

    tnri_mutex mutex; /* protects the next three */
    tnri_condition changed;
    unsigned pauses;       /* calls that paused it: no request is begun */
    int is_busy;           /* one is being served */
    _Atomic int is_ending; /* set under the mutex; the thread ends after what it does now */
    _Atomic int watches;   /* what control groups want of devices: see memory/device/cgroup.h */

    /* The thread's. */
    tnri_connection connections[TNRI_CONNECTIONS_MAX];
    uint64_t moments; /* of progress of any connection */

    struct tnri_server *next; /* among those that end; the owner's */
} tnri_server;

/* Makes one whose socket is in the folder that the setting control_dir says, and its thread.
 * Errors: TNR_ERR_FILE, TNR_ERR_HOST_MEMORY. */
tnr_status tnri_server_make(tnri_server **made, const char *setting);

/* Removes the socket's name and tells the thread to end. Does not wait. */
void tnri_server_retire(tnri_server *server);
/* Waits for the thread of a retired server, which is not the calling thread, and frees the
 * server. */
void tnri_server_free(tnri_server *server);

/* 1 on the thread of the server. */
int tnri_server_is_here(const tnri_server *server);
/* 1 while a request is served. */
int tnri_server_is_busy(tnri_server *server);
void tnri_server_pause(tnri_server *server);
void tnri_server_resume(tnri_server *server);

/* In a forked child: closes what the parent's server has. */
void tnri_server_abandon(tnri_server *server);

/* The gate: around whatever makes or closes descriptors. A fork waits for it. */
void tnri_gate_of_servers_enter(void);
void tnri_gate_of_servers_leave(void);

#endif
