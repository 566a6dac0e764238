/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON: see answer.h. */
#include "control/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"
#include "see/snapshot/sink.h"

enum { FIRST_BYTES = 4096 };

int tnri_answer_open(tnri_answer *answer)
{
    *answer = (tnri_answer){.text = tnri_host_alloc(FIRST_BYTES), .room = FIRST_BYTES};
    return answer->text != NULL;
}

void tnri_answer_close(tnri_answer *answer)
{
    tnri_host_free(answer->text, answer->room);
    *answer = (tnri_answer){0};
}

void tnri_answer_clear(tnri_answer *answer)
{
    answer->length = 0;
    answer->needs_comma = 0;
    answer->is_lost = 0;
}

/* Room for so many more bytes; 0: there is none. */
static int answer_grow(tnri_answer *answer, size_t bytes)
{
    size_t room = answer->room;
    while (room - answer->length < bytes)
        room *= 2;
    if (room == answer->room)
        return 1;
    char *text = room > TNRI_ANSWER_BYTES_MAX ? NULL : tnri_host_alloc(room);
    if (text == NULL)
        return 0;
    memcpy(text, answer->text, answer->length);
    tnri_host_free(answer->text, answer->room);
    answer->text = text;
    answer->room = room;
    return 1;
}

static void bytes_add(tnri_answer *answer, const char *bytes, size_t count)
{
    if (answer->is_lost || !answer_grow(answer, count)) {
        answer->is_lost = 1;
        return;
    }
    memcpy(answer->text + answer->length, bytes, count);
    answer->length += count;
}

static void quoted_add(tnri_answer *answer, const char *text)
{
    size_t left = strlen(text);
    bytes_add(answer, "\"", 1);
    while (left > 0) {
        size_t length = tnri_utf8_length(text, left);
        char escaped[8];
        unsigned char byte = (unsigned char)*text;
        if (length == 0)
            bytes_add(answer, "\\ufffd", 6);
        else if (byte == '"' || byte == '\\')
            bytes_add(answer, escaped, (size_t)snprintf(escaped, sizeof(escaped), "\\%c", byte));
        else if (byte < 0x20 || byte == 0x7f)
            bytes_add(answer, escaped, (size_t)snprintf(escaped, sizeof(escaped), "\\u%04x", byte));
        else
            bytes_add(answer, text, length);
        length += length == 0;
        text += length;
        left -= length;
    }
    bytes_add(answer, "\"", 1);
}

static void value_begin(tnri_answer *answer, const char *key)
{
    if (answer->needs_comma)
        bytes_add(answer, ",", 1);
    answer->needs_comma = 1;
    if (key != NULL) {
        quoted_add(answer, key);
        bytes_add(answer, ":", 1);
    }
}

static void group_begin(tnri_answer *answer, const char *key, const char *bracket)
{
    value_begin(answer, key);
    bytes_add(answer, bracket, 1);
    answer->needs_comma = 0;
}

static void group_end(tnri_answer *answer, const char *bracket)
{
    bytes_add(answer, bracket, 1);
    answer->needs_comma = 1;
}

void tnri_answer_object(tnri_answer *answer, const char *key)
{
    group_begin(answer, key, "{");
}

void tnri_answer_object_end(tnri_answer *answer)
{
    group_end(answer, "}");
}

void tnri_answer_list(tnri_answer *answer, const char *key)
{
    group_begin(answer, key, "[");
}

void tnri_answer_list_end(tnri_answer *answer)
{
    group_end(answer, "]");
}

void tnri_answer_text(tnri_answer *answer, const char *key, const char *value)
{
    value_begin(answer, key);
    if (value == NULL)
        bytes_add(answer, "null", 4);
    else
        quoted_add(answer, value);
}

void tnri_answer_number(tnri_answer *answer, const char *key, uint64_t value)
{
    char text[24];
    value_begin(answer, key);
    bytes_add(answer, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, value));
}

void tnri_answer_limit(tnri_answer *answer, const char *key, uint64_t value)
{
    if (value == UINT64_MAX)
        tnri_answer_text(answer, key, NULL);
    else
        tnri_answer_number(answer, key, value);
}

void tnri_answer_flag(tnri_answer *answer, const char *key, int value)
{
    value_begin(answer, key);
    bytes_add(answer, value ? "true" : "false", value ? 4 : 5);
}

void tnri_answer_end(tnri_answer *answer)
{
    static const char lost[] = "{\"ok\":false,\"status\":\"TNR_ERR_HOST_MEMORY\",\"message\":\"the "
                               "answer found no host memory, or is longer than 4 MiB. What was "
                               "asked for may have been done.\"}\n";
    bytes_add(answer, "\n", 1);
    if (!answer->is_lost)
        return;
    tnri_answer_clear(answer);
    bytes_add(answer, lost, sizeof(lost) - 1);
}

void tnri_answer_refuse(tnri_answer *answer, uint64_t id, tnr_status status, const char *why)
{
    tnri_answer_clear(answer);
    tnri_answer_object(answer, NULL);
    if (id != UINT64_MAX)
        tnri_answer_number(answer, "id", id);
    tnri_answer_flag(answer, "ok", 0);
    tnri_answer_text(answer, "status", tnr_status_name(status));
    tnri_answer_text(answer, "message", why);
    tnri_answer_object_end(answer);
    tnri_answer_end(answer);
}
