/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer: one line of JSON, as it grows. It writes commas and quotes; the caller sees to the
 * nesting. It never holds more than TNRI_ANSWER_BYTES_MAX. If something does not fit, or there is
 * no host memory for it, the answer is lost, and the caller says so instead.
 */
#ifndef TNRI_CONTROL_ANSWER_H
#define TNRI_CONTROL_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/alloc.h>

enum { TNRI_ANSWER_BYTES_MAX = 4 << 20 };

typedef struct tnri_answer {
    char *text; /* room bytes, of which length are used */
    size_t length, room;
    int needs_comma; /* a value stands before the next one at this level */
    int is_lost;     /* something did not fit */
} tnri_answer;

/* Makes room for a short answer, so that the caller can always tell what was done. 0: no host
 * memory. */
int tnri_answer_open(tnri_answer *answer);
void tnri_answer_close(tnri_answer *answer);
/* Forgets what was written. */
void tnri_answer_clear(tnri_answer *answer);

/* `key` is null for elements of a list and for the outermost value. */
void tnri_answer_object(tnri_answer *answer, const char *key);
void tnri_answer_object_end(tnri_answer *answer);
void tnri_answer_list(tnri_answer *answer, const char *key);
void tnri_answer_list_end(tnri_answer *answer);
/* A null text is written as null. Bytes that are not UTF-8 come out as U+FFFD. */
void tnri_answer_text(tnri_answer *answer, const char *key, const char *value);
void tnri_answer_number(tnri_answer *answer, const char *key, uint64_t value);
/* UINT64_MAX is written as null. */
void tnri_answer_limit(tnri_answer *answer, const char *key, uint64_t value);
void tnri_answer_flag(tnri_answer *answer, const char *key, int value);

/* The line is complete. If something of it was lost, writes another line in its place that says
 * so. */
void tnri_answer_end(tnri_answer *answer);

/* A whole answer: that something was refused, and why. `id` is that of the request; UINT64_MAX: it
 * has none. */
void tnri_answer_refuse(tnri_answer *answer, uint64_t id, tnr_status status, const char *why);

#endif
