/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer: one line of JSON (base/json.h), as it grows. It never holds more than
 * TNRI_ANSWER_BYTES_MAX. If something does not fit, or there is no host memory for it, the answer
 * is lost, and the caller says so instead.
 */
#ifndef TNRI_CONTROL_ANSWER_H
#define TNRI_CONTROL_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/alloc.h>

#include "base/json.h"

enum { TNRI_ANSWER_BYTES_MAX = 4 << 20 };

typedef struct tnri_answer {
    tnri_json json; /* writes into the rest */
    char *text;     /* room bytes, of which length are used */
    size_t length, room;
    int is_lost; /* something did not fit */
} tnri_answer;

/* Makes room for a short answer, so that the caller can always tell what was done. 0: no host
 * memory. */
int tnri_answer_open(tnri_answer *answer);
void tnri_answer_close(tnri_answer *answer);
/* Forgets what was written. Comes before each answer: an answer may have been moved. */
void tnri_answer_clear(tnri_answer *answer);

/* The line is complete. If something of it was lost, writes another line in its place that says
 * so. */
void tnri_answer_end(tnri_answer *answer);

/* A whole answer: that something was refused, and why. `id` is that of the request; UINT64_MAX: it
 * has none. */
void tnri_answer_refuse(tnri_answer *answer, uint64_t id, tnr_status status, const char *why);

#endif
