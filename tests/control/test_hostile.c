/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile messages: good requests with bytes changed, removed, doubled and inserted, sent in pieces
 * of any size, over connections that are sometimes dropped in the middle. Each line that is not too
 * long gets one answer, which is one line of JSON. The process goes on, and in the end everything
 * is there.
 *
 * Seen to fail with quoted_add without the escapes below 0x20.
 */
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/control.h>
#include <tenure/tag.h>

#include "client.h"
#include "control/request.h"

static const char *const seeds[] = {
    "{\"command\":\"status\"}",
    "{\"streams\":true,\"command\":\"status\"}",
    "{\"account\":true,\"command\":\"status\"}",
    "{\"id\":12,\"protocol\":1,\"command\":\"sleep\",\"tags\":[\"weights\",\"kv_cache\"],"
    "\"content\":\"keep\"}",
    "{\"command\":\"wake\",\"tags\":[\"kv_cache\",\"weights\"],\"device\":0}",
    "{\"command\":\"sleep\",\"device\":0,\"content\":\"discard\",\"keep_backing\":true,"
    "\"pinned_bytes\":67108864}",
    "{\"command\":\"wake\"}",
    "{\"command\":\"compact\",\"device\":0}",
    "{\"command\":\"trim\",\"bytes\":0,\"tags\":[\"weights\"]}",
    "{\"command\":\"limit\",\"bytes\":9223372036854775807}",
    "{\"command\":\"limit\",\"bytes\":null,\"tags\":[\"weights\"]}",
    "{\"command\":\"settings\",\"set\":\"bin_blocks:8,lend:off\"}",
    "{\"command\":\"settings\",\"set\":\"\\u0062in_blocks:\\t32\"}",
    "{\"command\":\"snapshot\",\"format\":\"jsonx\"}",
};
static const char *const tokens[] = {
    "{",    "}",    "[",      "]",     "\"",   "\\",   "\\u00",
    ",",    ":",    "null",   "true",  "\xff", "\xc3", "\xed\xa0\x80",
    "9999", "\\ud", "\"id\"", "false", "\x01", "\x7f", "[[[[[[[["};
enum { SEEDS = sizeof(seeds) / sizeof(seeds[0]), TOKENS = sizeof(tokens) / sizeof(tokens[0]) };
enum { ROOM = 9000, BATCH = 8 };

static uint64_t random_state = 1;
static int messages = 20000;

static size_t below(size_t bound)
{
    return (size_t)unit_below(&random_state, bound);
}

static size_t insert(char *line, size_t length, size_t at, const char *bytes, size_t count)
{
    if (length + count > ROOM)
        return length;
    memmove(line + at + count, line + at, length - at);
    memcpy(line + at, bytes, count);
    return length + count;
}

/* One change. Newlines are left to who sends. */
static size_t mutate(char *line, size_t length)
{
    size_t at = below(length + 1), count = below(16) + 1;
    const char *token = tokens[below(TOKENS)];
    char copy[16];
    switch (below(6)) {
    case 0:
        if (at < length)
            line[at] = (char)(below(255) + 1 == '\n' ? ' ' : below(256));
        break;
    case 1:
        count = count > length - at ? length - at : count;
        memmove(line + at, line + at + count, length - at - count);
        length -= count;
        break;
    case 2:
        length = insert(line, length, at, token, strlen(token));
        break;
    case 3:
        count = count > length - at ? length - at : count;
        memcpy(copy, line + at, count);
        length = insert(line, length, below(length + 1), copy, count);
        break;
    case 4:
        length = below(64) == 0 ? at : length;
        break;
    default:
        for (size_t i = 0; below(512) == 0 && i < 9000; i++)
            length = insert(line, length, at, " ", 1);
        break;
    }
    for (size_t i = 0; i < length; i++)
        line[i] = line[i] == '\n' ? ' ' : line[i];
    return length;
}

/* An object, of characters that may stand in one: quotation marks in pairs, no control character.
 * Which of them are JSON the command's tests ask a reader of JSON. */
static int is_json(const char *line)
{
    int in_text = 0, depth = 0;
    for (; *line != '\0'; line++) {
        if ((unsigned char)*line < 0x20)
            return 0;
        if (in_text && *line == '\\')
            line++;
        else if (*line == '"')
            in_text = !in_text;
        else if (!in_text)
            depth += (*line == '{' || *line == '[') - (*line == '}' || *line == ']');
        if (*line == '\0' || depth < 0)
            return 0;
    }
    return !in_text && depth == 0;
}

/* Sends a line in pieces. 1, or 0: hung up. */
static int pieces_send(client *one, const char *line, size_t length)
{
    while (length > 0) {
        size_t part = below(4) == 0 ? below(length) + 1 : length;
        if (!client_send(one, line, part))
            return 0;
        line += part;
        length -= part;
    }
    return client_send(one, "\n", 1);
}

/* Makes a line. */
static size_t message_make(char *line)
{
    const char *seed = seeds[below(SEEDS)];
    size_t length = strlen(seed);
    memcpy(line, seed, length);
    for (size_t changes = below(5); changes > 0; changes--)
        length = mutate(line, length);
    return length;
}

static void answer_check(client *one, const char *line, size_t length)
{
    int is_answered = client_receive(one);
    if (!is_answered || one->line[0] != '{' || !is_json(one->line) ||
        strstr(one->line, "\"ok\":") == NULL)
        fail_msg("to \"%.*s\" came \"%s\"", (int)length, line, is_answered ? one->line : "nothing");
}

/* Some lines one after the other, and then their answers; as much as sockets hold. Returns how many
 * were sent. */
static int messages_send(client *one)
{
    static char lines[BATCH][ROOM + 1];
    size_t lengths[BATCH];
    int count = 0, is_over = 0;
    if (one->socket < 0 && !client_open(one))
        fail_msg("nobody listens any more");
    for (; count < BATCH && !is_over; count++) {
        lengths[count] = message_make(lines[count]);
        if (below(300) == 0) { /* gone in the middle */
            (void)client_send(one, lines[count], below(lengths[count] + 1));
            client_close(one);
            return count + 1;
        }
        is_over = lengths[count] > 8191; /* that ends the connection */
        if (!pieces_send(one, lines[count], lengths[count]) && !is_over)
            fail_msg("hung up before \"%.*s\"", (int)lengths[count], lines[count]);
    }
    for (int i = 0; i < count - is_over; i++)
        answer_check(one, lines[i], lengths[i]);
    if (is_over)
        client_close(one);
    return count;
}

static void hostile(void **state)
{
    (void)state;
    client one = {.socket = -1};
    tnr_pool pools[2];
    void *blocks[2];
    unit_start(client_conf("chunk_max_mb:2"), "SCHEDULE=eager", NULL);
    assert_ok(tnr_tag_pool(&pools[0], "weights", TNR_CONTENT_KEEP));
    assert_ok(tnr_tag_pool(&pools[1], "kv_cache", TNR_CONTENT_DISCARD));
    for (int i = 0; i < 2; i++)
        assert_ok(tnr_pool_malloc(&blocks[i], pools[i], 2 * MIB, 0, NULL));
    for (int i = 0; i < messages;)
        i += messages_send(&one);
    client_close(&one);
    assert_non_null(client_ask_once("{\"command\":\"limit\",\"bytes\":null}"));
    assert_non_null(
        client_ask_once("{\"command\":\"limit\",\"bytes\":null,\"tags\":[\"weights\"]}"));
    assert_non_null(strstr(client_ask_once("{\"command\":\"wake\"}"), "\"ok\":true"));
    assert_int_equal(unit_stats().bytes_asleep, 0);
    for (int i = 0; i < 2; i++)
        assert_ok(tnr_free(blocks[i]));
}

/* The reader alone, five times as often: from a copy that ends where it must not be read past. */
static void reader(void **state)
{
    (void)state;
    static char line[ROOM + 1];
    int taken = 0;
    for (int i = 0; i < messages * 5; i++) {
        tnri_control_request request;
        char error[256] = "";
        size_t length = message_make(line);
        char *copy = malloc(length + 1);
        assert_non_null(copy);
        memcpy(copy, line, length);
        copy[length] = '\0';
        int is_good = tnri_request_read(&request, copy, length, error, sizeof(error));
        taken += is_good;
        if (is_good != (error[0] == '\0'))
            fail_msg("\"%.*s\": %s", (int)length, line, is_good ? error : "refused without a word");
        for (size_t t = 0; is_good && t < request.tags_count; t++)
            assert_true(request.tags[t] >= copy && request.tags[t] <= copy + length);
        free(copy);
    }
    assert_true(taken > messages / 2 && taken < messages * 5);
}

/* Arguments: how many messages, and a seed. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(hostile, unit_stop),
        cmocka_unit_test(reader),
    };
    if (argc > 1)
        messages = atoi(argv[1]);
    if (argc > 2)
        random_state = strtoull(argv[2], NULL, 10);
    print_message("%d messages, seed %llu\n", messages, (unsigned long long)random_state);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
