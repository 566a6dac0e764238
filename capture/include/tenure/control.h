/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/control.h>: control from outside the process. This header is the manual of that part of
 * the layer.
 *
 * What it is for. An operator, or another server, wants a process to give its memory back now, and
 * wants to see what the process has. With the setting control:on a thread of the library's listens
 * at a Unix socket. It serves `tenure ctl`, and any program that speaks the protocol of
 * docs/control.md: lines of JSON that ask for what the public functions do. Without the setting
 * neither the thread nor the socket exists.
 *
 * Access. Only the user that the process runs as, and root; the kernel tells which user connects.
 * The socket lies in a folder of that user's that no other user may enter (control_dir). Containers
 * that share the folder control each other's processes.
 *
 * The thread has all signals blocked, so the program's handlers never run on it. Callbacks of
 * <tenure/sleep.h> do run on it, when a sleep or a wake is asked for from outside. The thread ends
 * with tnr_shutdown, with the setting, and with the process; a forked child has none. It serves one
 * request at a time. tnr_shutdown, tnr_device_end and switching control off wait for that request.
 */
#ifndef TENURE_CONTROL_H
#define TENURE_CONTROL_H

#include <tenure/alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the path of this process's socket into `buffer` of `bytes`; always terminated. Returns the
 * length that the whole path has, as snprintf does; 0 if control is off. Never calls the driver.
 * Since 0.2.0. */
TNR_API size_t tnr_control_path(char *buffer, size_t bytes);

/* ---- what Tenure does not have --------------------------------------------------------------
 *
 * A process has more of a device than Tenure serves: contexts, code, graphs, memory that libraries
 * map by hand. A tool that stands over the driver, as `tenure run --account` does, knows of this
 * memory and tells Tenure of it here. Then `status` can say how much of the driver's figure is
 * explained. */

enum { TNR_OUTSIDE_ROWS_MAX = 64 };

typedef struct tnr_outside_row {
    char name[64]; /* what it is */
    uint64_t bytes;
} tnr_outside_row;

typedef struct tnr_outside {
    uint64_t used_bytes; /* as the driver says: of this process and of others since */
    int is_from_start;   /* 1: since before the process's first context; 0: all of the device's */
    size_t rows_count;
    tnr_outside_row rows[TNR_OUTSIDE_ROWS_MAX];
} tnr_outside;

/* Fills in what is known of a device; all of *outside is zero before. Returns 0 if nothing is
 * known. */
typedef int (*tnr_outside_function)(tnr_outside *outside, int device, void *user);

/* Sets the function that `status` asks, on the thread of control; null: none. The function may
 * call the driver, but must ask nothing of Tenure, because a lock is held. Once this call returns,
 * the former function is neither asked nor running; the call may wait for it. Errors: none. Since
 * 1.0.0. */
TNR_API tnr_status tnr_outside_set(tnr_outside_function function, void *user);

#ifdef __cplusplus
}
#endif
#endif
