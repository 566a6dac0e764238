/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer: see json.h.
 */
#include "json.h"

#include <inttypes.h>
#include <math.h>

void json_start(json_writer *json, FILE *file)
{
    json->file = file;
    json->needs_comma = 0;
}

void json_end(json_writer *json)
{
    fputc('\n', json->file);
    json->needs_comma = 0;
}

/* The length of the UTF-8 sequence at `at`, or 0 if it is none. */
static int utf8_length(const unsigned char *at)
{
    int length;
    if (at[0] < 0x80)
        return 1;
    if (at[0] >= 0xc2 && at[0] <= 0xdf)
        length = 2;
    else if (at[0] >= 0xe0 && at[0] <= 0xef)
        length = 3;
    else if (at[0] >= 0xf0 && at[0] <= 0xf4)
        length = 4;
    else
        return 0;
    for (int i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

static void quoted_write(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        int length = utf8_length(at);
        if (*at == '"' || *at == '\\')
            fprintf(file, "\\%c", *at);
        else if (*at == '\n')
            fputs("\\n", file);
        else if (*at < 0x20 || *at == 0x7f)
            fprintf(file, "\\u%04x", *at);
        else if (length == 0)
            fputs("\\ufffd", file);
        else
            fwrite(at, 1, (size_t)length, file);
        at += length > 0 ? length : 1;
    }
    fputc('"', file);
}

static void value_begin(json_writer *json, const char *key)
{
    if (json->needs_comma)
        fputs(", ", json->file);
    json->needs_comma = 1;
    if (key) {
        quoted_write(json->file, key);
        fputs(": ", json->file);
    }
}

static void group_begin(json_writer *json, const char *key, char bracket)
{
    value_begin(json, key);
    fputc(bracket, json->file);
    json->needs_comma = 0;
}

static void group_end(json_writer *json, char bracket)
{
    fputc(bracket, json->file);
    json->needs_comma = 1;
}

void json_object_begin(json_writer *json, const char *key)
{
    group_begin(json, key, '{');
}

void json_object_end(json_writer *json)
{
    group_end(json, '}');
}

void json_array_begin(json_writer *json, const char *key)
{
    group_begin(json, key, '[');
}

void json_array_end(json_writer *json)
{
    group_end(json, ']');
}

void json_text(json_writer *json, const char *key, const char *value)
{
    value_begin(json, key);
    if (value)
        quoted_write(json->file, value);
    else
        fputs("null", json->file);
}

void json_unsigned(json_writer *json, const char *key, uint64_t value)
{
    value_begin(json, key);
    fprintf(json->file, "%" PRIu64, value);
}

void json_real(json_writer *json, const char *key, double value, int decimals)
{
    value_begin(json, key);
    if (isfinite(value))
        fprintf(json->file, "%.*f", decimals, value);
    else
        fputs("null", json->file);
}

void json_boolean(json_writer *json, const char *key, int value)
{
    value_begin(json, key);
    fputs(value ? "true" : "false", json->file);
}
