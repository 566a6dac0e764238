/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switching the history on and off, and its one lock.
 *
 * The lock is for code that changes the gate or the ring, or reads the ring. It is held for as long
 * as a snapshot takes. So a thread that waits for it sleeps, and no cached path knows of it. Only
 * the library lock may be held when it is taken.
 */
#ifndef TNRI_HISTORY_HISTORY_H
#define TNRI_HISTORY_HISTORY_H

#include <tenure/history.h>

#include "base/conf/conf.h"

void tnri_history_lock_take(void);
void tnri_history_lock_release(void);

/* The settings change from `before` to `after`: does what the settings of the history say, or fails
 * and changes nothing. Under the library lock. */
tnr_status tnri_history_follow(const tnri_conf *before, const tnri_conf *after);

/* What is on. */
tnr_history_mode tnri_history_mode(void);

/* Switches everything off and forgets it. While no other thread is inside Tenure. */
void tnri_history_end(void);

/* Opens the gate for a picture, and closes it again. Under the lock. Returns the picture's number.
 * */
uint64_t tnri_gate_cut_begin(void);
void tnri_gate_cut_end(void);

#endif
