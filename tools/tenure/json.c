/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer: see json.h.
 */
#include "json.h"

#include <inttypes.h>
#include <math.h>

#include "shown.h"

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

/* A character beyond the first 0x10000 comes as a pair of halves. */
void json_escape(FILE *file, const char *text, size_t bytes)
{
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned character = bytes <= 4 ? (unsigned char)text[0] & first[bytes] : 0xfffd;
    if (bytes == 1 && (unsigned char)text[0] >= 0x80)
        character = 0xfffd;
    for (size_t i = 1; i < bytes && i < 4; i++)
        character = character << 6 | ((unsigned char)text[i] & 0x3f);
    if (character >= 0x10000)
        fprintf(file, "\\u%04x\\u%04x", 0xd7c0 + (character >> 10), 0xdc00 + (character & 0x3ff));
    else
        fprintf(file, "\\u%04x", character);
}

static void quoted_write(FILE *file, const char *text)
{
    fputc('"', file);
    for (size_t bytes; *text != '\0'; text += bytes) {
        int is_harmless = shown_is_harmless(text, &bytes);
        if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if (*text == '\n')
            fputs("\\n", file);
        else if (is_harmless)
            fwrite(text, 1, bytes, file);
        else
            json_escape(file, text, bytes);
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
