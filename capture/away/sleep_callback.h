/* SPDX-License-Identifier: Apache-2.0 */
/* Telling the user's callbacks about sleeps: see <tenure/sleep.h>. */
#ifndef TNRI_AWAY_SLEEP_CALLBACK_H
#define TNRI_AWAY_SLEEP_CALLBACK_H

#include <tenure/sleep.h>

/* 1 if somebody is told of sleeps. */
int tnri_sleep_has_callback(void);

/* Calls all callbacks for a pool that the caller holds. No lock is held, nothing is claimed. */
void tnri_sleep_notify(tnr_sleep_event event, tnr_pool pool);

#endif
