/* SPDX-License-Identifier: Apache-2.0 */
/* Writing JSON: see answer.h. */
#include "control/answer.h"

#include <string.h>

#include "base/host_memory.h"

enum { FIRST_BYTES = 4096 };

void tnri_answer_close(tnri_answer *answer)
{
    tnri_host_free(answer->text, answer->room);
    *answer = (tnri_answer){0};
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

static void bytes_add(void *to, const char *bytes, size_t count)
{
    tnri_answer *answer = to;
    if (answer->is_lost || !answer_grow(answer, count)) {
        answer->is_lost = 1;
        return;
    }
    memcpy(answer->text + answer->length, bytes, count);
    answer->length += count;
}

void tnri_answer_clear(tnri_answer *answer)
{
    answer->length = 0;
    answer->json = (tnri_json){.put = bytes_add, .to = answer};
    answer->is_lost = 0;
}

int tnri_answer_open(tnri_answer *answer)
{
    *answer = (tnri_answer){.text = tnri_host_alloc(FIRST_BYTES), .room = FIRST_BYTES};
    tnri_answer_clear(answer);
    return answer->text != NULL;
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
    tnri_json_object(&answer->json, NULL);
    if (id != UINT64_MAX)
        tnri_json_number(&answer->json, "id", id);
    tnri_json_flag(&answer->json, "ok", 0);
    tnri_json_text(&answer->json, "status", tnr_status_name(status));
    tnri_json_text(&answer->json, "message", why);
    tnri_json_object_end(&answer->json);
    tnri_answer_end(answer);
}
