/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of a bounded length: what does not fit is cut off. Any thread, each with its own text.
 */
#ifndef TENURE_PRELOAD_CHECK_TEXT_H
#define TENURE_PRELOAD_CHECK_TEXT_H

#include <stddef.h>

typedef struct check_text {
    char *string;
    size_t length, room;
    int has_places; /* frames are followed by where they lie, for `tenure run` to look up */
} check_text;

__attribute__((format(printf, 2, 3))) void check_text_add(check_text *to, const char *format, ...);

/* In quotation marks, as JSON wants it. */
void check_text_add_json(check_text *to, const char *from);

/* Writes all of it. 0, or what errno says of the first thing that failed. */
int check_text_write(const check_text *from, int file);

#endif
