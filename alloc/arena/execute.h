/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's part of a plan: see plan.h for what a plan is, ladder.h for its place. */
#ifndef TNRI_ARENA_EXECUTE_H
#define TNRI_ARENA_EXECUTE_H

#include "arena/plan.h"

/* Completes a plan: takes donors of other arenas and new chunks for what is missing, maps
 * everything, and commits the block. On failure everything is as before the plan was made.
 * `reclaimed`: memory was given back for this request, for the count. No lock is held. */
tnr_status tnri_execute(tnri_plan *plan, int reclaimed, void **ptr);

#endif
