/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the chunks of one size hold: those under small blocks, or those under large ones. A device
 * has two of these, and each pool. A chunk is of the world that it was made for, and goes over to
 * the other when it comes to addresses there. That counts as gone here and come there, so the two
 * sums of what came are together at least what the driver gave.
 *
 * Synchronisation: atomics. Changed on slow paths only.
 */
#ifndef TNRI_DEVICE_HELD_H
#define TNRI_DEVICE_HELD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* An amount that comes and goes: ever come, ever gone, and at most there. Read `gone` first: then
 * the difference is never negative, and what went in between still counts. */
typedef struct tnri_flow {
    _Atomic uint64_t came, gone, peak;
} tnri_flow;

typedef struct tnri_held {
    tnri_flow chunks, bytes;
} tnri_held;

enum { TNRI_HELD_LARGE, TNRI_HELD_SMALL, TNRI_HELD_SIZES }; /* by tnri_world.is_small */

/* Raises an atomic peak to `value`. */
void tnri_peak_raise(_Atomic uint64_t *peak, uint64_t value);

void tnri_flow_come(tnri_flow *flow, uint64_t amount);
void tnri_flow_go(tnri_flow *flow, uint64_t amount);
uint64_t tnri_flow_now(const tnri_flow *flow);
void tnri_flow_reset_peak(tnri_flow *flow);

/* A chunk comes, or goes. */
void tnri_held_add(tnri_held *held, uint64_t bytes);
void tnri_held_subtract(tnri_held *held, uint64_t bytes);
void tnri_held_reset_peaks(tnri_held held[TNRI_HELD_SIZES]);

#endif
