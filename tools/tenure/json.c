/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer: see json.h.
 */
#include "json.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"

static void file_put(void *to, const char *bytes, size_t count)
{
    fwrite(bytes, 1, count, to);
}

void json_start(json_writer *json, FILE *file)
{
    *json = (json_writer){.put = file_put, .to = file, .is_spaced = 1};
}

void json_end(json_writer *json)
{
    json->put(json->to, "\n", 1);
    json->needs_comma = 0;
}

void json_escape(FILE *file, const char *text)
{
    uint32_t character;
    char escape[TNRI_JSON_ESCAPE_BYTES];
    if (tnri_utf8_read(text, strnlen(text, 4), &character) == 0)
        character = 0xfffd;
    fwrite(escape, 1, tnri_json_escape(escape, character), file);
}

void json_real(json_writer *json, const char *key, double value, int decimals)
{
    char text[400]; /* the largest number has 309 digits */
    snprintf(text, sizeof(text), "%.*f", decimals, value);
    tnri_json_raw(json, key, isfinite(value) ? text : "null");
}
