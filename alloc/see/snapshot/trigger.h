/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots that the settings ask for: when memory runs out, at the end, and on a signal.
 *
 * The signal's handler only writes to an eventfd. A thread of the library waits for that, and
 * writes the snapshot. The thread has all signals blocked, so that the program's handlers never run
 * on it.
 */
#ifndef TNRI_SNAPSHOT_TRIGGER_H
#define TNRI_SNAPSHOT_TRIGGER_H

#include "base/conf/conf.h"
#include "memory/arena/arena.h"

/* The settings of history and snapshots change: does what they say, or fails and changes nothing.
 * Under the library lock. */
tnr_status tnri_seeing_follow(const tnri_conf *before, const tnri_conf *after);

/* Called with what the ladder (miss/ladder.h) returned for a request of `bytes`. If memory ran out,
 * writes what snapshot_on_oom asks for, a snapshot and a report for people beside it, and says so
 * in the thread's error text, which is the ladder's report. If it cannot, it says that on standard
 * error, too, once: an engine may keep the text to itself. Returns `status`. No lock is held. */
tnr_status tnri_snapshot_oom(tnr_status status, const tnri_arena *arena, size_t bytes);

/* tnr_shutdown is about to shut the library down: writes what snapshot_at_exit asks for, and ends
 * the watcher of signals. If the shutdown fails, tnri_seeing_resume starts the watcher again. */
void tnri_seeing_pause(void);
void tnri_seeing_resume(void);

/* The watcher of signals alone. */
void tnri_watcher_pause(void);
void tnri_watcher_resume(void);

/* Ends everything, and forgets. While no other thread is inside Tenure. */
void tnri_seeing_end(void);

#endif
