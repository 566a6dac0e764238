/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure run --check=host`: the host touches pinned memory while a copy uses it: see pinned.c.
 *
 * Between check_enter and check_leave unless said otherwise.
 */
#ifndef TENURE_PRELOAD_CHECK_PINNED_H
#define TENURE_PRELOAD_CHECK_PINNED_H

#include "check/rules.h"

/* 1 if the program is run that way. Set before the program runs. */
extern int check_is_host_watched;

/* Asks the environment; takes the signal; tells the simulated device, if it is the driver. The
 * second as soon as the driver is found. Without locks. */
void check_pinned_begin(void);
void check_pinned_driver(void);

/* A copy reads this memory of the host's, or writes it. It is under way from now on, unless
 * `is_over`: then only its order after others is looked at. Rows that lie apart are not watched:
 * what lies between them the host may touch. */
void check_pinned_copied(const check_work *copy, check_span at, int is_written, int is_over);

/* The memory goes away: nothing of it is watched any more. Any thread, without the lock, before the
 * driver is told. */
void check_pinned_gone(const void *base);

/* Ends what the host has seen to be over, and makes findings of touches. For as long as there are
 * copies it keeps check_races_wait set, so that it is called again. */
void check_pinned_settle(void);

#endif
