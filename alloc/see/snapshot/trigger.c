/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots without a call: see trigger.h. */
#include "see/snapshot/trigger.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/prim/helper.h"
#include "base/prim/clock.h"
#include "base/prim/thread.h"
#include "log/history.h"
#include "memory/pool/cache.h"
#include "see/snapshot/exit_path.h"
#include "see/snapshot/formats.h"
#include "see/snapshot/snapshot.h"

enum { OOM_SNAPSHOTS_MAX = 16, NAME_BYTES = 512 };

/* ---- on a signal ---------------------------------------------------------------------------- */

/* In the order of the words of snapshot_signal. */
static const int signals[] = {0, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGURG, SIGIO, SIGPWR};

static struct {
    int number;    /* of the signal that is watched; 0: none. The library lock */
    pid_t process; /* that the thread is in, and not in one that was forked from it */
    struct sigaction before;
    tnri_system_thread thread;
    _Atomic int is_ending;
    unsigned written; /* the watcher's */
} watcher;

static _Atomic int watcher_event = -1; /* written to by the handler */

/* Nobody is there to be given an error: whoever asked for this snapshot looks for it, or at the
 * program's standard error. */
static void complain(void)
{
    char text[TNRI_ERROR_TEXT_BYTES + 16];
    int length = snprintf(text, sizeof(text), "tenure: %s\n", tnr_last_error());
    ssize_t ignored = write(STDERR_FILENO, text, (size_t)length);
    (void)ignored;
}

/* The handler. Everything that it calls may be called in a handler. A forked child has it as well,
 * and the event, which is its parent's. */
static void signal_handle(int number)
{
    (void)number;
    if (getpid() != watcher.process)
        return;
    int saved = errno;
    uint64_t one = 1;
    ssize_t ignored = write(atomic_load(&watcher_event), &one, sizeof(one));
    (void)ignored;
    errno = saved;
}

static void watcher_write(void)
{
    char path[NAME_BYTES];
    snprintf(path, sizeof(path), "%s/tenure-%ld-%u.json.gz", tnri_conf_get()->snapshot_dir,
             (long)getpid(), ++watcher.written);
    if (atomic_load(&tnri_generation) == 0)
        return;
    if (tnri_snapshot_take(path, TNR_SNAPSHOT_AUTO, TNRI_SNAPSHOT_SIGNAL) != TNR_OK)
        complain();
}

static void *watcher_run(void *argument)
{
    (void)argument;
    for (;;) {
        uint64_t count;
        ssize_t got = read(atomic_load(&watcher_event), &count, sizeof(count));
        if (atomic_load(&watcher.is_ending))
            break;
        if (got == (ssize_t)sizeof(count))
            watcher_write();
        else if (errno != EINTR)
            break;
    }
    tnri_helper_end();
    return NULL;
}

static void watcher_end(void)
{
    if (watcher.number == 0)
        return;
    sigaction(watcher.number, &watcher.before, NULL);
    if (getpid() == watcher.process) {
        atomic_store(&watcher.is_ending, 1);
        uint64_t one = 1;
        ssize_t ignored = write(atomic_load(&watcher_event), &one, sizeof(one));
        (void)ignored;
        tnri_thread_join(watcher.thread);
    }
    close(atomic_exchange(&watcher_event, -1));
    watcher.number = 0;
}

static tnr_status watcher_make(void)
{
    int event = eventfd(0, EFD_CLOEXEC);
    int error = event < 0 ? errno : 0;
    if (error == 0) {
        atomic_store(&watcher_event, event);
        atomic_store(&watcher.is_ending, 0);
        error = tnri_helper_make(&watcher.thread, watcher_run, NULL);
        if (error != 0)
            close(atomic_exchange(&watcher_event, -1));
    }
    if (error != 0)
        return tnri_error(TNR_ERR_HOST_MEMORY,
                          "snapshot_signal: the thread that waits for it cannot be made (%s).",
                          strerror(error));
    watcher.process = getpid();
    return TNR_OK;
}

/* From now on this signal is watched, or none (0). A watcher that is there goes on with another
 * signal, so that there is nothing that could fail. */
static tnr_status watcher_follow(int number)
{
    if (number == 0 || getpid() != watcher.process)
        watcher_end();
    if (number == watcher.number)
        return TNR_OK;
    if (watcher.number != 0) {
        sigaction(watcher.number, &watcher.before, NULL);
    } else {
        tnr_status status = watcher_make();
        if (status != TNR_OK)
            return status;
    }
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = signal_handle;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    watcher.number = number;
    sigaction(number, &action, &watcher.before);
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
    (void)watcher_follow(signals[tnri_conf_get()->snapshot_signal]);
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

void tnri_snapshot_oom(tnr_status error, int device, size_t bytes)
{
    const char *folder = tnri_conf_get()->snapshot_on_oom;
    if (folder[0] == '\0')
        return;
    unsigned number = atomic_fetch_add(&ooms_written, 1) + 1;
    if (number > OOM_SNAPSHOTS_MAX)
        return;
    char reason[TNRI_ERROR_TEXT_BYTES];
    char paths[2][NAME_BYTES];
    snprintf(reason, sizeof(reason), "%s", tnr_last_error());
    int driver_result = tnr_last_driver_result();
    for (int i = 0; i < 2; i++)
        snprintf(paths[i], NAME_BYTES, "%s/tenure-oom-%ld-%u.%s", folder, (long)getpid(), number,
                 i == 0 ? "json.gz" : "txt");
    tnr_status status = tnri_snapshot_take_oom(paths[0], paths[1], reason, device, bytes);
    char said[NAME_BYTES];
    snprintf(said, sizeof(said), "%s", status == TNR_OK ? "" : tnr_last_error());
    tnri_error_driver(error, driver_result, "%s", reason);
    if (status == TNR_OK)
        tnri_error_append("\nA snapshot is in %s, and a report for people in %s.", paths[0],
                          paths[1]);
    else
        tnri_error_append("\nThe snapshot failed: %s", said);
}

/* ---- the settings --------------------------------------------------------------------------- */

tnr_status tnri_seeing_follow(const tnri_conf *before, const tnri_conf *after)
{
    tnr_status status = tnri_history_follow(before, after);
    if (status != TNR_OK)
        return status;
    status = watcher_follow(signals[after->snapshot_signal]);
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
}
