/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moving budget. Moves and loans cost time that a larger pool would not need. So they may
 * take a burst of time, and in the long run a share of the running time. Beyond the budget the
 * pool grows instead. Most programs repeat themselves, and after some passes nothing is left to
 * move; but what a pool has grown by stays. So a pool that already holds more than it needs may
 * spend more: TNRI_PRICE_TIMES times as much if it holds twice what it needs, and in proportion if
 * it holds less.
 *
 * A pool of one arena can do without moves: it then holds about what any allocator holds. A program
 * whose sizes never come again would pay the higher price in each step. So once the time that its
 * moves really took has used up the budget, such a pool grows.
 *
 * Tenure charges the time that moves took: threads that call the driver at once wait for each
 * other, so that a move may cost twenty times what it costs alone. On the simulated device time
 * passes only where a program plays it. There each move and each loan costs a constant, so that the
 * decision depends on the inputs alone.
 */
#ifndef TNRI_DEVICE_BUDGET_H
#define TNRI_DEVICE_BUDGET_H

#include "memory/device/device.h"

/* 1 if a pool that holds and needs so many bytes may move chunks for a request. `is_alone`: it has
 * one arena. */
int tnri_device_may_move(const tnri_device *device, uint64_t holds, uint64_t needs, int is_alone);

/* Charges for a request that moved `chunks` of its `chunks_all` chunks, and began then by
 * tnri_decision_ns. */
void tnri_device_moved(tnri_device *device, size_t chunks, size_t chunks_all, uint64_t began_ns);

/* Charges a loan. */
void tnri_device_lent(tnri_device *device, uint64_t began_ns);

#endif
