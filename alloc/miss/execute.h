/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's part of a plan: see plan.h for what a plan is, ladder.h for its place. */
#ifndef TNRI_MISS_EXECUTE_H
#define TNRI_MISS_EXECUTE_H

#include "miss/plan.h"

/* Completes a plan: takes donors of other arenas and new chunks for what is missing, maps
 * everything, and commits the block. On failure everything is as before the plan was made.
 * `reclaimed`: memory was given back for this request, for the count. No lock is held. */
tnr_status tnri_execute(tnri_plan *plan, int reclaimed, void **ptr);

/* Ends a plan that is not executed: everything is as before it was made. No lock is held. */
void tnri_execute_not(tnri_plan *plan);

/* How memory of other streams may be taken, by the settings: TNRI_CROSS_*. */
int tnri_cross_policy(void);

/* Makes it safe for the arena's stream to use what has been taken from `donor`, which is free
 * there. The stream waits on the device for an event; with TNRI_CROSS_IDLE the event must be over
 * already. The caller holds one reference to the event. *refused: the event is not over, or cannot
 * be asked now. In the device's context, no lock held. */
tnr_status tnri_execute_order(tnri_arena *arena, tnri_arena *donor, int policy, tnri_event **event,
                              int *refused);

#endif
