/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer of JSON on one line. It handles commas and quoting; the caller handles nesting.
 */
#ifndef TENURE_TOOLS_JSON_H
#define TENURE_TOOLS_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct json_writer {
    FILE *file;
    int needs_comma; /* a value stands before the next one at this level */
} json_writer;

void json_start(json_writer *json, FILE *file);
/* Ends the text with a newline. */
void json_end(json_writer *json);

/* `key` is null for elements of an array and for the outermost value. */
void json_object_begin(json_writer *json, const char *key);
void json_object_end(json_writer *json);
void json_array_begin(json_writer *json, const char *key);
void json_array_end(json_writer *json);

/* A null text is written as null. Bytes that are not UTF-8 come out as U+FFFD, and what a terminal
 * would obey as escapes. */
void json_text(json_writer *json, const char *key, const char *value);
/* A character of so many bytes as escapes; U+FFFD for a byte that is not UTF-8. */
void json_escape(FILE *file, const char *text, size_t bytes);
void json_unsigned(json_writer *json, const char *key, uint64_t value);
/* Not a number and infinities are written as null. */
void json_real(json_writer *json, const char *key, double value, int decimals);
void json_boolean(json_writer *json, const char *key, int value);

#endif
