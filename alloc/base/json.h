/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON. The caller sees to the nesting and says where the bytes go; commas and quotes are
 * written here. The tools compile this file, too.
 *
 * Texts come from anywhere. A byte that is not UTF-8 comes out as U+FFFD, and what a terminal would
 * obey or not show as an escape, so that JSON may be printed.
 */
#ifndef TNRI_BASE_JSON_H
#define TNRI_BASE_JSON_H

#include <stddef.h>
#include <stdint.h>

/* Takes bytes over. */
typedef void tnri_put(void *to, const char *bytes, size_t count);

/* A text with its quotes, or without: one part of a string. */
void tnri_json_quote(tnri_put *put, void *to, const char *text);
void tnri_json_part(tnri_put *put, void *to, const char *text);
/* A character as one or two escapes; returns their length. */
enum { TNRI_JSON_ESCAPE_BYTES = 16 };
size_t tnri_json_escape(char escape[TNRI_JSON_ESCAPE_BYTES], uint32_t character);

/* A value as it grows, on one line. */
typedef struct tnri_json {
    tnri_put *put;
    void *to;
    int is_spaced;   /* 1: a blank after each comma and colon */
    int needs_comma; /* a value stands before the next one at this level */
} tnri_json;

/* `key` is null for elements of a list and for the outermost value. */
void tnri_json_object(tnri_json *json, const char *key);
void tnri_json_object_end(tnri_json *json);
void tnri_json_list(tnri_json *json, const char *key);
void tnri_json_list_end(tnri_json *json);

/* A null text is written as null. */
void tnri_json_text(tnri_json *json, const char *key, const char *value);
void tnri_json_number(tnri_json *json, const char *key, uint64_t value);
/* UINT64_MAX is written as null. */
void tnri_json_limit(tnri_json *json, const char *key, uint64_t value);
void tnri_json_flag(tnri_json *json, const char *key, int value);
/* What is JSON already. */
void tnri_json_raw(tnri_json *json, const char *key, const char *value);

#endif
