/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pace: a trace in the time that it was recorded in.
 *
 * Some decisions of an allocator depend on the clock, above all how long it may move memory before
 * it grows. With pace they are made as in the program. On the simulated device nobody waits: the
 * device simulates the time. On a GPU the thread really waits, but in no pause longer than
 * PACE_PAUSE_S.
 */
#ifndef TENURE_TOOLS_PACE_H
#define TENURE_TOOLS_PACE_H

#include <stddef.h>
#include <stdint.h>

#include "session.h"
#include "trace.h"

enum {
    PACE_PAUSE_S = 10, /* on a GPU, the longest that is waited at once */
    PACE_SPEED_MAX = 1000000,
};

typedef struct pace {
    void (*play)(uint64_t ns); /* the simulated device's; null: wait */
    const trace *source;
    uint64_t speed;    /* so many times as fast as recorded */
    uint64_t began_ns; /* when the time 0 was, by the clock that is followed */
    uint64_t cut_ns;   /* waiting that was left out */
    uint64_t at_us;    /* the latest time that was reached; times that go back change nothing */
} pace;

/* Whether a trace can be played for this number of passes at this speed. Returns 0, or -1 with a
 * sentence. */
int pace_check(const trace *source, long passes, uint64_t speed, char *error, size_t error_bytes);

/* A sentence on what is odd about the times of a trace that is played; "" if nothing is. `waits`:
 * the trace is played on a GPU. Returns `text`. */
const char *pace_note(const trace *source, uint64_t speed, int waits, char *text, size_t bytes);

/* The microseconds of one pass: those between its first operation and that of the next pass. */
uint64_t pace_pass_us(const trace *source);

/* Starts at the first operation of the first pass. */
void pace_start(pace *clock, const session *active, const trace *source, uint64_t speed);

/* Waits, or plays, until an operation of the trace is due, in the pass of that number. */
void pace_to(pace *clock, long pass, uint64_t us);

#endif
