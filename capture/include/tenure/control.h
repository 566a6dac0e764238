/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/control.h>: being ruled from outside. This header is the manual of that part of the
 * layer.
 *
 * What it is for. An operator, or the server beside, wants a process to give its memory back now,
 * and to see what it has. With the setting control:on a thread of the library's listens at a Unix
 * socket for `tenure ctl`, or for anybody who speaks the protocol of docs/control.md: lines of JSON
 * that ask for what the public functions do. Without it there is no thread, and no socket.
 *
 * Who may. The user that the process runs as, and root, as the kernel says of the other side. The
 * socket lies in a folder of that user's that nobody else may enter (control_dir); containers that
 * share the folder rule each other's processes.
 *
 * The thread has all signals blocked, so the program's handlers never run on it; callbacks of
 * <tenure/sleep.h> do, where a sleep or a wake is asked for from outside. It ends with
 * tnr_shutdown, with the setting, and with the process, and in a forked child there is none. One
 * request is served at a time; tnr_shutdown, tnr_device_end and switching it off wait for that.
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
 * map by hand. Who stands over the driver, as `tenure run --account` does, knows of it and tells
 * here; then `status` can say what of the driver's figure is explained. */

enum { TNR_OUTSIDE_ROWS_MAX = 64 };

typedef struct tnr_outside_row {
    char name[64]; /* what it is */
    uint64_t bytes;
} tnr_outside_row;

typedef struct tnr_outside {
    uint64_t used_bytes; /* by the driver's word, of this process and of whoever else came since */
    int is_from_start;   /* 1: since before the process's first context; 0: all of the device's */
    size_t rows_count;
    tnr_outside_row rows[TNR_OUTSIDE_ROWS_MAX];
} tnr_outside;

/* Fills in what is known of a device; all of *outside is zero before. Returns 0 if nothing is. */
typedef int (*tnr_outside_function)(tnr_outside *outside, int device, void *user);

/* Whom `status` asks, on the thread of control; null: nobody. It may call the driver, and asks
 * nothing of Tenure: a lock is held, so that the former function is neither asked nor running once
 * this returns. May wait for it. Errors: none. Since 1.0.0. */
TNR_API tnr_status tnr_outside_set(tnr_outside_function function, void *user);

#ifdef __cplusplus
}
#endif
#endif
