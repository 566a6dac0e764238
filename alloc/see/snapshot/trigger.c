/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots without a call: see trigger.h. */
#include "see/snapshot/trigger.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/prim/calm.h"
#include "base/prim/helper.h"
#include "base/prim/clock.h"
#include "base/prim/file.h"
#include "base/prim/process.h"
#include "base/prim/thread.h"
#include "log/history.h"
#include "memory/pool/cache.h"
#include "miss/reclaim.h"
#include "see/snapshot/exit_path.h"
#include "see/snapshot/formats.h"
#include "see/snapshot/snapshot.h"

enum { OOM_SNAPSHOTS_MAX = 16, NAME_BYTES = 512 };

/* ---- on a signal ---------------------------------------------------------------------------- */

static struct {
    int which;   /* signal is watched: a word of snapshot_signal; 0: none. The library lock */
    int process; /* that the thread is in, and not in one that was forked from it */
    tnri_system_thread thread;
    _Atomic int is_ending;
    unsigned written; /* the watcher's */
} watcher;

static _Atomic int watcher_wake = -1; /* written to by the handler */

/* There is no caller to return an error to: the user who asked for it looks for the file, or at the
 * program's standard error. */
static void complain(void)
{
    char text[TNRI_ERROR_TEXT_BYTES + 16];
    int length = snprintf(text, sizeof(text), "tenure: %s\n", tnr_last_error());
    tnri_complain(text, (size_t)length);
}

/* The handler. Everything that it calls may be called in a handler. A forked child has it as well,
 * and the event, which is its parent's. */
static void signal_handle(int number)
{
    (void)number;
    if (tnri_process_id() == watcher.process)
        tnri_wake_ring(atomic_load(&watcher_wake));
}

static void watcher_write(void)
{
    char path[NAME_BYTES];
    snprintf(path, sizeof(path), "%s/tenure-%ld-%u.json.gz", tnri_conf_get()->snapshot_dir,
             (long)tnri_process_id(), ++watcher.written);
    if (atomic_load(&tnri_generation) == 0)
        return;
    if (tnri_snapshot_take(path, TNR_SNAPSHOT_AUTO, TNRI_SNAPSHOT_SIGNAL) != TNR_OK)
        complain();
}

static void *watcher_run(void *argument)
{
    (void)argument;
    for (;;) {
        int heard = tnri_wake_hear(atomic_load(&watcher_wake));
        if (atomic_load(&watcher.is_ending) || heard < 0)
            break;
        if (heard > 0)
            watcher_write();
    }
    tnri_helper_end();
    return NULL;
}

static void watcher_end(void)
{
    if (watcher.which == 0)
        return;
    tnri_signal_restore();
    if (tnri_process_id() == watcher.process) {
        atomic_store(&watcher.is_ending, 1);
        tnri_wake_ring(atomic_load(&watcher_wake));
        tnri_thread_join(watcher.thread);
    }
    tnri_file_close(atomic_exchange(&watcher_wake, -1));
    watcher.which = 0;
}

static tnr_status watcher_make(void)
{
    char text[128];
    int wake = tnri_wake_make(0);
    int error = wake < 0 ? errno : 0;
    if (error == 0) {
        atomic_store(&watcher_wake, wake);
        atomic_store(&watcher.is_ending, 0);
        error = tnri_helper_make(&watcher.thread, watcher_run, NULL);
        if (error != 0)
            tnri_file_close(atomic_exchange(&watcher_wake, -1));
    }
    if (error != 0)
        return tnri_error(TNR_ERR_HOST_MEMORY,
                          "snapshot_signal: the thread that waits for it cannot be made (%s).",
                          tnri_system_text(error, text, sizeof(text)));
    watcher.process = tnri_process_id();
    return TNR_OK;
}

/* From now on this signal is watched, or none (0). A watcher that is there goes on with another
 * signal, so that there is nothing that could fail. */
static tnr_status watcher_follow(int which)
{
    if (which == 0 || tnri_process_id() != watcher.process)
        watcher_end();
    if (which == watcher.which)
        return TNR_OK;
    if (watcher.which == 0) {
        tnr_status status = watcher_make();
        if (status != TNR_OK)
            return status;
    }
    watcher.which = which;
    tnri_signal_follow(which, signal_handle);
    return TNR_OK;
}

/* ---- at the end ----------------------------------------------------------------------------- */

/* The path is kept apart, since at the end of the process the settings may have been reset. */
static struct {
    tnri_once once;
    _Atomic int is_due; /* 1: at the end of the process, unless tnr_shutdown comes before */
    int64_t since_ns;   /* when the setting was first seen, on the real-time clock; of `once` */
} at_exit = {.once = TNRI_ONCE_INIT};

static void exit_write(void)
{
    char path[TNRI_EXIT_PATH_BYTES];
    int is_moved;
    const char *setting = tnri_conf_get()->snapshot_at_exit;
    tnri_exit_path(path, setting);
    if (!atomic_exchange(&at_exit.is_due, 0) || path[0] == '\0' ||
        atomic_load(&tnri_generation) == 0)
        return;
    int descriptor = tnri_exit_path_enter(path, at_exit.since_ns, &is_moved);
    tnr_status status = tnri_snapshot_take(path, TNR_SNAPSHOT_AUTO, TNRI_SNAPSHOT_EXIT);
    tnri_exit_path_leave(descriptor, path);
    if (status == TNR_OK && is_moved)
        (void)tnri_error(TNR_ERR_BUSY,
                         "snapshot_at_exit: another process has written %s; this one's snapshot "
                         "is %s. %%p in the setting gives each process its file, %%r its rank's.",
                         setting, path);
    if (status != TNR_OK || is_moved)
        complain();
}

static void exit_register(void)
{
    at_exit.since_ns = (int64_t)tnri_clock_epoch_ns();
    (void)atexit(exit_write);
}

void tnri_watcher_pause(void)
{
    watcher_end();
}

void tnri_watcher_resume(void)
{
    (void)watcher_follow(tnri_conf_get()->snapshot_signal);
}

void tnri_seeing_pause(void)
{
    exit_write();
    watcher_end();
}

void tnri_seeing_resume(void)
{
    tnri_watcher_resume();
    atomic_store(&at_exit.is_due, tnri_conf_get()->snapshot_at_exit[0] != '\0');
}

/* ---- when memory runs out ------------------------------------------------------------------- */

static _Atomic unsigned ooms_written;
static _Atomic int oom_is_said; /* 1: that one could not be written, which programs retry */

/* A shortage of `bytes` on a device. */
static void oom_write(const char *folder, tnr_status error, int device, size_t bytes)
{
    unsigned number = atomic_fetch_add(&ooms_written, 1) + 1;
    if (number > OOM_SNAPSHOTS_MAX)
        return;
    char reason[TNRI_ERROR_TEXT_BYTES];
    char paths[2][NAME_BYTES];
    snprintf(reason, sizeof(reason), "%s", tnr_last_error());
    int driver_result = tnr_last_driver_result();
    for (int i = 0; i < 2; i++)
        snprintf(paths[i], NAME_BYTES, "%s/tenure-oom-%ld-%u.%s", folder, (long)tnri_process_id(),
                 number, i == 0 ? "json.gz" : "txt");
    tnr_status status = tnri_snapshot_take_oom(paths[0], paths[1], reason, device, bytes);
    char said[NAME_BYTES];
    snprintf(said, sizeof(said), "%s", status == TNR_OK ? "" : tnr_last_error());
    if (status != TNR_OK && !atomic_exchange(&oom_is_said, 1))
        complain();
    tnri_error_driver(error, driver_result, "%s", reason);
    if (status == TNR_OK)
        tnri_error_append("\nA snapshot is in %s, and a report for people in %s.", paths[0],
                          paths[1]);
    else
        tnri_error_append("\nThe snapshot failed: %s", said);
}

tnr_status tnri_snapshot_oom(tnr_status status, const tnri_arena *arena, size_t bytes)
{
    if (tnri_likely(!tnri_is_shortage(status)) || arena->account->is_contents)
        return status;
    TNRI_CALM;
    const char *folder = tnri_conf_get()->snapshot_on_oom;
    if (folder[0] != '\0')
        oom_write(folder, status, arena->device->index, bytes);
    return status;
}

/* ---- the settings --------------------------------------------------------------------------- */

tnr_status tnri_seeing_follow(const tnri_conf *before, const tnri_conf *after)
{
    tnr_status status = tnri_history_follow(before, after);
    if (status != TNR_OK)
        return status;
    status = watcher_follow(after->snapshot_signal);
    if (status != TNR_OK) {
        (void)tnri_history_follow(after, before); /* it was so before, so it can be again */
        return status;
    }
    if (after->snapshot_at_exit[0] != '\0') {
        tnri_once_run(&at_exit.once, exit_register);
        atomic_store(&at_exit.is_due, 1);
    }
    return TNR_OK;
}

void tnri_seeing_end(void)
{
    watcher_end();
    tnri_history_end();
    atomic_store(&at_exit.is_due, 0);
    atomic_store(&ooms_written, 0);
    atomic_store(&oom_is_said, 0);
}
