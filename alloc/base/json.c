/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON: see json.h. */
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* ---- texts ---------------------------------------------------------------------------------- */

/* A character beyond the first 0x10000 comes as a pair of halves. */
size_t tnri_json_escape(char escape[TNRI_JSON_ESCAPE_BYTES], uint32_t character)
{
    int length = character >= 0x10000
                     ? snprintf(escape, TNRI_JSON_ESCAPE_BYTES, "\\u%04x\\u%04x",
                                0xd7c0 + (character >> 10), 0xdc00 + (character & 0x3ff))
                     : snprintf(escape, TNRI_JSON_ESCAPE_BYTES, "\\u%04x", character);
    return (size_t)length;
}

/* What stands for a character of so many bytes, if it may not stand there itself; else nothing. */
static size_t escape_of(char escape[TNRI_JSON_ESCAPE_BYTES], uint32_t character, size_t bytes)
{
    if (bytes == 0)
        return tnri_json_escape(escape, 0xfffd);
    if (character == '"' || character == '\\' || character == '\n') {
        escape[0] = '\\';
        escape[1] = character == '\n' ? 'n' : (char)character;
        return 2;
    }
    return tnri_utf8_is_seen(character) ? 0 : tnri_json_escape(escape, character);
}

void tnri_json_part(tnri_put *put, void *to, const char *text)
{
    const char *from = text; /* what is still to be put begins here */
    for (const char *end = text + strlen(text); text < end;) {
        uint32_t character;
        char escape[TNRI_JSON_ESCAPE_BYTES];
        size_t bytes = tnri_utf8_read(text, (size_t)(end - text), &character);
        size_t length = escape_of(escape, character, bytes);
        if (length > 0) {
            put(to, from, (size_t)(text - from));
            put(to, escape, length);
        }
        text += bytes == 0 ? 1 : bytes;
        from = length > 0 ? text : from;
    }
    put(to, from, (size_t)(text - from));
}

void tnri_json_quote(tnri_put *put, void *to, const char *text)
{
    put(to, "\"", 1);
    tnri_json_part(put, to, text);
    put(to, "\"", 1);
}

/* ---- values --------------------------------------------------------------------------------- */

static void value_begin(tnri_json *json, const char *key)
{
    if (json->needs_comma)
        json->put(json->to, ", ", json->is_spaced ? 2 : 1);
    json->needs_comma = 1;
    if (key != NULL) {
        tnri_json_quote(json->put, json->to, key);
        json->put(json->to, ": ", json->is_spaced ? 2 : 1);
    }
}

static void group_begin(tnri_json *json, const char *key, const char *bracket)
{
    tnri_json_raw(json, key, bracket);
    json->needs_comma = 0;
}

static void group_end(tnri_json *json, const char *bracket)
{
    json->put(json->to, bracket, 1);
    json->needs_comma = 1;
}

void tnri_json_object(tnri_json *json, const char *key)
{
    group_begin(json, key, "{");
}

void tnri_json_object_end(tnri_json *json)
{
    group_end(json, "}");
}

void tnri_json_list(tnri_json *json, const char *key)
{
    group_begin(json, key, "[");
}

void tnri_json_list_end(tnri_json *json)
{
    group_end(json, "]");
}

void tnri_json_raw(tnri_json *json, const char *key, const char *value)
{
    value_begin(json, key);
    json->put(json->to, value, strlen(value));
}

void tnri_json_text(tnri_json *json, const char *key, const char *value)
{
    if (value == NULL) {
        tnri_json_raw(json, key, "null");
        return;
    }
    value_begin(json, key);
    tnri_json_quote(json->put, json->to, value);
}

void tnri_json_number(tnri_json *json, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    tnri_json_raw(json, key, text);
}

void tnri_json_limit(tnri_json *json, const char *key, uint64_t value)
{
    if (value == UINT64_MAX)
        tnri_json_raw(json, key, "null");
    else
        tnri_json_number(json, key, value);
}

void tnri_json_flag(tnri_json *json, const char *key, int value)
{
    tnri_json_raw(json, key, value ? "true" : "false");
}
