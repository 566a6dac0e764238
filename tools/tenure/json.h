/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON on one line of a file: alloc/base/json.h, where the bytes go to stdio.
 */
#ifndef TENURE_TOOLS_JSON_H
#define TENURE_TOOLS_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"

typedef tnri_json json_writer;

void json_start(json_writer *json, FILE *file);
/* Ends the text with a newline. */
void json_end(json_writer *json);

/* The character at `text`, which is not at its end, as an escape; U+FFFD for a byte that is not
 * UTF-8. */
void json_escape(FILE *file, const char *text);
/* Not a number and infinities are written as null. */
void json_real(json_writer *json, const char *key, double value, int decimals);

/* As in alloc/base/json.h, whose names are those of the library's own functions. */
static inline void json_object_begin(json_writer *json, const char *key)
{
    tnri_json_object(json, key);
}

static inline void json_object_end(json_writer *json)
{
    tnri_json_object_end(json);
}

static inline void json_array_begin(json_writer *json, const char *key)
{
    tnri_json_list(json, key);
}

static inline void json_array_end(json_writer *json)
{
    tnri_json_list_end(json);
}

static inline void json_text(json_writer *json, const char *key, const char *content)
{
    tnri_json_text(json, key, content);
}

static inline void json_unsigned(json_writer *json, const char *key, uint64_t content)
{
    tnri_json_number(json, key, content);
}

static inline void json_boolean(json_writer *json, const char *key, int content)
{
    tnri_json_flag(json, key, content);
}

#endif
