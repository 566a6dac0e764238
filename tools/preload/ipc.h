/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other processes. cuIpcGetMemHandle cannot speak of memory that was mapped by hand, so
 * handles of ours are our own: they name this process and an export (<tenure/export.h>), and
 * whoever opens one asks this process for it over a socket, by which it is sent. ipc.c has the
 * calls, ipc_socket.c the way between the processes.
 *
 * What the driver promises holds: memory that was opened stays as long as it is open, the same
 * handle opened twice is one address and is closed twice, a process does not open its own. Both
 * processes must run under Tenure, as the same user, in the same network namespace; the exporting
 * one must live until the handle is opened.
 */
#ifndef TENURE_PRELOAD_IPC_H
#define TENURE_PRELOAD_IPC_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/export.h>

#include "entries.h"

/* What lies in a CUipcMemHandle of ours. */
typedef struct ipc_name {
    uint64_t magic;
    uint64_t process; /* its number; with the token, the socket's name */
    uint64_t token;   /* drawn when the process first exports */
    tnr_export exported;
} ipc_name;

/* A device's primary context ends, and with it all that it exported and imported. Inside. */
void ipc_forget(int device);

/* A block is about to be freed: nobody can open it any more. Inside. */
void ipc_block_ends(CUdeviceptr base);

/* The opened block that an address is in. 1 if there is one. */
int ipc_imported(CUdeviceptr address, CUdeviceptr *base, size_t *bytes);

/* ---- the way -------------------------------------------------------------------------------- */

/* Answers requests from now on, on a thread of its own. 0, or -1 if the system refuses. */
int ipc_serve(uint64_t token);

/* Asks the process that the name tells of for the block, and imports it for the device. Inside. */
CUresult ipc_ask(const ipc_name *name, int device, tnr_import_info *info);

#endif
