/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races that the simulated device has seen, where the program runs on it: see race.c.
 */
#ifndef TENURE_PRELOAD_CHECK_RACE_H
#define TENURE_PRELOAD_CHECK_RACE_H

#include <stdatomic.h>

/* If the device is the simulated one, and findings are said, asks it to tell of its races. Called
 * as soon as the driver is found, and before anything is queued. Without locks. */
void check_races_begin(void);

/* Waits for the simulated device, as the driver's cuMemFree does. Tenure's free does not wait, so
 * without this a correct program's next step would be a race. Without the lock, and outside of
 * Tenure. */
void check_races_wait_for(int device);

/* Makes findings of the races told since the last call. Between check_enter and check_leave. */
void check_races_find(void);

/* 1: the device sees races by itself, also those of copies. Set before anything is queued. */
extern int check_races_are_seen;

/* 1 if there is something to do for check_races_find. */
extern _Atomic int check_races_wait;
static inline int check_races_are_there(void)
{
    return atomic_load_explicit(&check_races_wait, memory_order_relaxed);
}

#endif
