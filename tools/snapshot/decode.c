/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking values out of documents: see decode.h.
 */
#include "decode.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int decode_fail(decoder *from, place at, const char *format, ...)
{
    char where[160], sentence[512];
    if (at.index == PLACE_WHOLE)
        snprintf(where, sizeof(where), "%.100s", at.name);
    else
        snprintf(where, sizeof(where), "%.100s[%zu]", at.name, at.index);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    snprintf(from->error, from->error_bytes, "%.200s: %s: %s", from->path, where, sentence);
    return -1;
}

int decode_fail_memory(decoder *from)
{
    char sentence[BUDGET_SENTENCE_BYTES];
    budget_sentence(from->out->limits, sentence);
    snprintf(from->error, from->error_bytes, "%.200s: %s", from->path, sentence);
    return -1;
}

/* What a kind is called when it was expected. */
static const char *kind_wanted(value_kind kind)
{
    switch (kind) {
    case VALUE_LIST:
    case VALUE_TUPLE:
        return "a list";
    case VALUE_DICT:
        return "a dictionary";
    case VALUE_TEXT:
        return "a text";
    case VALUE_TRUE:
    case VALUE_FALSE:
        return "true or false";
    case VALUE_INT:
        return "a whole number";
    case VALUE_REAL:
        return "a number";
    case VALUE_NONE:
        break;
    }
    return "nothing";
}

static int kind_fits(value_kind got, value_kind wanted)
{
    if (wanted == VALUE_LIST)
        return got == VALUE_LIST || got == VALUE_TUPLE;
    if (wanted == VALUE_TRUE)
        return got == VALUE_TRUE || got == VALUE_FALSE;
    return got == wanted;
}

int decode_is(decoder *from, place at, value any, value_kind kind)
{
    if (kind_fits(value_kind_of(any), kind))
        return 0;
    return decode_fail(from, at, "%s was expected, not %s", kind_wanted(kind),
                       value_kind_name(any));
}

/* dict[key] of this kind. */
static int take(decoder *from, place at, value dict, const char *key, value_kind kind,
                value *result)
{
    if (!value_get(from->heap, dict, key, result))
        return decode_fail(from, at, "the key \"%s\" is missing", key);
    if (kind_fits(value_kind_of(*result), kind))
        return 0;
    return decode_fail(from, at, "\"%s\" must be %s, not %s", key, kind_wanted(kind),
                       value_kind_name(*result));
}

int decode_list(decoder *from, place at, value dict, const char *key, const value_list **list)
{
    value found;
    if (take(from, at, dict, key, VALUE_LIST, &found) != 0)
        return -1;
    *list = value_as_list(found);
    return 0;
}

int decode_dict(decoder *from, place at, value dict, const char *key, value *result)
{
    return take(from, at, dict, key, VALUE_DICT, result);
}

int decode_text(decoder *from, place at, value dict, const char *key, const char **text)
{
    value found;
    if (take(from, at, dict, key, VALUE_TEXT, &found) != 0)
        return -1;
    *text = decode_text_copy(from, value_as_text(found));
    return *text ? 0 : decode_fail_memory(from);
}

const char *decode_text_copy(decoder *from, const value_text *text)
{
    return model_text(from->out, text->bytes, text->length);
}

int decode_boolean(decoder *from, place at, value dict, const char *key, int *truth)
{
    value found;
    if (take(from, at, dict, key, VALUE_TRUE, &found) != 0)
        return -1;
    *truth = value_kind_of(found) == VALUE_TRUE;
    return 0;
}

int decode_count(decoder *from, place at, value dict, const char *key, uint64_t *number)
{
    value found;
    if (take(from, at, dict, key, VALUE_INT, &found) != 0)
        return -1;
    if (value_as_unsigned(found, number) && *number <= DECODE_NUMBER_MAX)
        return 0;
    return decode_fail(from, at, "\"%s\" must be from 0 to 2^62", key);
}

int decode_count_or_null(decoder *from, place at, value dict, const char *key, int64_t *number)
{
    value found;
    uint64_t count;
    *number = -1;
    if (value_get(from->heap, dict, key, &found) && value_kind_of(found) == VALUE_NONE)
        return 0;
    if (decode_count(from, at, dict, key, &count) != 0)
        return -1;
    *number = (int64_t)count;
    return 0;
}

int64_t decode_string(decoder *from, const value_text *text)
{
    uint32_t known = map64_get(&from->texts, (uintptr_t)text);
    if (known != MAP64_ABSENT)
        return known;
    array *strings = &from->out->strings;
    const char *copy = model_text(from->out, text->bytes, text->length);
    const char **made = copy ? MODEL_ADD(from->out, strings, const char *) : NULL;
    if (!made || map64_put(&from->texts, (uintptr_t)text, (uint32_t)strings->count - 1) != 0)
        return -1;
    *made = copy;
    return (int64_t)strings->count - 1;
}
