/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turnover: memory of a pool that goes back to the driver and is taken again. A program that calls
 * tnr_trim after each step pays the driver for each chunk in each step. So what comes again gets
 * chunks so large that they take at most move_percent of the time. Small ones would not pay: they
 * are for moves, and go before they are moved.
 *
 * A round lasts from one time that memory goes back to the next. How fast memory comes again is
 * known from the rounds before this one, of which each counts half as much as the next, and a pause
 * does not count as a slow one. What a pool grows by for the first time does not count, and does
 * not get such chunks: it may be there to stay.
 */
#ifndef TNRI_DEVICE_TURNOVER_H
#define TNRI_DEVICE_TURNOVER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Part of an account. Synchronisation: atomics. Threads that give memory back at once may mix up
 * two rounds; chunks have another size then. */
typedef struct tnri_turnover {
    _Atomic uint64_t most_bytes; /* the most that the pool had when memory went back */
    _Atomic uint64_t bytes;      /* taken again in this round */
    _Atomic uint64_t began_ns;   /* by tnri_decision_ns */
    _Atomic uint64_t past_bytes; /* the same of the rounds before, and how long they took */
    _Atomic uint64_t past_ns;
} tnri_turnover;

/* Before idle memory goes back of a pool that has so much reserved. */
void tnri_turnover_goes(tnri_turnover *turnover, uint64_t reserved);

/* After a pool has taken so many bytes; it has so much reserved with them. */
void tnri_turnover_comes(tnri_turnover *turnover, uint64_t bytes, uint64_t reserved);

/* How large the chunks are to be with which a pool will have so much reserved, if they come again;
 * otherwise 0. */
uint64_t tnri_turnover_chunk_bytes(const tnri_turnover *turnover, uint64_t reserved);

#endif
