/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of requests: what it takes, word for word, and what it refuses, with which sentence.
 *
 * Lines changed in the library to see a test fail:
 *   pair_take without its test of `seen`: refused ("comes twice")
 *   fields_check: `unknown` as 0: refused ("has no field")
 *   unicode_take without the test of the second half: refused (a pair that is none)
 *   tnri_request_read without the look for what follows: refused ("follows the object")
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/request.h"

static tnri_control_request request;
static char error[256];

/* From a copy that ends where it must not be read past. */
static char *line;

static int read_line(const char *text, size_t length)
{
    free(line);
    line = malloc(length + 1);
    memcpy(line, text, length);
    line[length] = '\0';
    error[0] = '\0';
    return tnri_request_read(&request, line, length, error, sizeof(error));
}

static void taken(const char *text)
{
    if (!read_line(text, strlen(text)))
        fail_msg("%s: %s", text, error);
}

static void good(void **state)
{
    (void)state;
    taken("{\"command\":\"status\"}");
    assert_int_equal(request.command, TNRI_COMMAND_STATUS);
    assert_false(request.has_id || request.has_device || request.has_bytes);
    assert_false(request.has_streams);
    taken("{\"command\":\"status\",\"streams\":true}");
    assert_true(request.has_streams && !request.has_account);
    taken("{\"command\":\"status\",\"account\":true}");
    assert_true(request.has_account && !request.has_streams);
    taken(
        " { \"id\" : 9223372036854775807 ,\t\"command\" : \"sleep\" , \"tags\" : [ \"a\" , \"b\" ]"
        ", \"device\" : 0, \"content\":\"discard\", \"keep_backing\":true, \"pinned_bytes\":64, "
        "\"protocol\":1 } \r");
    assert_int_equal(request.command, TNRI_COMMAND_SLEEP);
    assert_true(request.has_id && request.id == INT64_MAX);
    assert_int_equal(request.tags_count, 2);
    assert_string_equal(request.tags[0], "a");
    assert_string_equal(request.tags[1], "b");
    assert_true(request.has_device && request.device == 0);
    assert_int_equal(request.content, TNR_CONTENT_DISCARD);
    assert_true(request.keep_backing && request.pinned_bytes_max == 64);
    taken("{\"command\":\"sleep\",\"content\":\"keep\"}");
    assert_int_equal(request.content, TNR_CONTENT_KEEP);
    taken("{\"command\":\"sleep\",\"content\":\"disk\"}");
    assert_int_equal(request.content, TNR_CONTENT_DISK);
    taken("{\"command\":\"limit\",\"bytes\":null}");
    assert_true(request.has_bytes && request.bytes == UINT64_MAX);
    taken("{\"command\":\"limit\",\"bytes\":0}");
    assert_true(request.has_bytes && request.bytes == 0);
    taken("{\"command\":\"settings\",\"set\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e4\\u20AC"
          "\\ud83d\\uDE00\xc3\xa4\"}");
    assert_string_equal(request.set,
                        "\"\\/\b\f\n\r\tA\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa4");
    taken("{\"\\u0063ommand\":\"\\u0077ake\"}");
    assert_int_equal(request.command, TNRI_COMMAND_WAKE);
}

static void refused(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", "an object of JSON"},
        {"[]", "an object of JSON"},
        {"null", "an object of JSON"},
        {"{", "in quotation marks is missing"},
        {"{}", "there is no command"},
        {"{\"command\"", "no colon"},
        {"{\"command\":", "in quotation marks is missing"},
        {"{\"command\":\"", "does not end"},
        {"{\"command\":\"status\"", "the object does not end"},
        {"{\"command\":\"status\",}", "in quotation marks is missing"},
        {"{\"command\":\"status\" \"id\":1}", "a comma is missing"},
        {"{\"command\":\"status\"}}", "follows the object"},
        {"{\"command\":\"status\"} {\"command\":\"status\"}", "follows the object"},
        {"{\"command\":\"Status\"}", "there is no command \"Status\""},
        {"{\"command\":1}", "in quotation marks is missing"},
        {"{\"command\":\"status\",\"command\":\"status\"}", "comes twice"},
        {"{\"command\":\"status\",\"bytes\":1}", "status has no field \"bytes\""},
        {"{\"command\":\"status\",\"streams\":1}", "true or false"},
        {"{\"command\":\"sleep\",\"streams\":true}", "sleep has no field \"streams\""},
        {"{\"command\":\"status\",\"account\":0}", "true or false"},
        {"{\"command\":\"trim\",\"account\":true}", "trim has no field \"account\""},
        {"{\"bytes\":1,\"command\":\"wake\"}", "wake has no field \"bytes\""},
        {"{\"command\":\"status\",\"nonsense\":1}", "there is no field \"nonsense\""},
        {"{\"command\":\"status\",\"id\":-1}", "whole number"},
        {"{\"command\":\"status\",\"id\":1.5}", "a comma is missing"},
        {"{\"command\":\"status\",\"id\":01}", "whole number"},
        {"{\"command\":\"status\",\"id\":1e3}", "a comma is missing"},
        {"{\"command\":\"status\",\"id\":9223372036854775808}", "whole number"},
        {"{\"command\":\"status\",\"id\":99999999999999999999}", "whole number"},
        {"{\"command\":\"status\",\"id\":}", "whole number"},
        {"{\"command\":\"status\",\"id\":\"1\"}", "whole number"},
        {"{\"command\":\"status\",\"protocol\":2}", "speaks version 1 of the protocol, not 2"},
        {"{\"command\":\"sleep\",\"tags\":\"a\"}", "a list"},
        {"{\"command\":\"sleep\",\"tags\":[]}", "in quotation marks"},
        {"{\"command\":\"sleep\",\"tags\":[\"a\"}", "list of tags does not end"},
        {"{\"command\":\"sleep\",\"tags\":[\"a\",]}", "in quotation marks"},
        {"{\"command\":\"sleep\",\"tags\":[[\"a\"]]}", "in quotation marks"},
        {"{\"command\":\"sleep\",\"content\":\"maybe\"}", "keep, disk or discard"},
        {"{\"command\":\"sleep\",\"keep_backing\":1}", "true or false"},
        {"{\"command\":\"compact\",\"tags\":[\"a\"]}", "compact has no field \"tags\""},
        {"{\"command\":\"limit\"}", "limit needs bytes"},
        {"{\"command\":\"limit\",\"bytes\":nul}", "whole number"},
        {"{\"command\":\"trim\",\"bytes\":null}", "must be a number"},
        {"{\"command\":\"settings\",\"set\":\"\\x\"}", "backslash"},
        {"{\"command\":\"settings\",\"set\":\"\\\"}", "does not end"},
        {"{\"command\":\"settings\",\"set\":\"\\u12\"}", "backslash"},
        {"{\"command\":\"settings\",\"set\":\"\\u0000\"}", "backslash"},
        {"{\"command\":\"settings\",\"set\":\"\\ud800\"}", "backslash"},
        {"{\"command\":\"settings\",\"set\":\"\\ud800\\u0041\"}", "backslash"},
        {"{\"command\":\"settings\",\"set\":\"\\udc00\"}", "backslash"},
        {"{\"command\":\"settings\",\"set\":\"a\x01\"}", "control character"},
        {"{\"command\":\"settings\",\"set\":\"a\xff\"}", "not UTF-8"},
        {"{\"command\":\"settings\",\"set\":\"a\xc3\"}", "not UTF-8"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (read_line(wrong[i][0], strlen(wrong[i][0])))
            fail_msg("taken: %s", wrong[i][0]);
        if (strstr(error, wrong[i][1]) == NULL)
            fail_msg("%s: \"%s\" is not in \"%s\"", wrong[i][0], wrong[i][1], error);
    }
}

/* Zero bytes are bytes like others, and no end. */
static void zero_bytes(void **state)
{
    (void)state;
    static const char inside[] = "{\"command\":\"sta\0tus\"}",
                      after[] = "{\"command\":\"status\"}\0";
    static const char between[] = "{\"command\":\0\"status\"}";
    assert_false(read_line(inside, sizeof(inside) - 1));
    assert_false(read_line(after, sizeof(after) - 1));
    assert_non_null(strstr(error, "follows"));
    assert_false(read_line(between, sizeof(between) - 1));
}

static void many_tags(void **state)
{
    (void)state;
    for (int count = 64; count <= 65; count++) {
        char text[1024] = "{\"command\":\"wake\",\"tags\":[";
        for (int i = 0; i < count; i++)
            strcat(text, i == 0 ? "\"t\"" : ",\"t\"");
        strcat(text, "]}");
        assert_int_equal(read_line(text, strlen(text)), count == 64);
    }
    assert_non_null(strstr(error, "more than 64 tags"));
}

static int end(void **state)
{
    (void)state;
    free(line);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),
        cmocka_unit_test(refused),
        cmocka_unit_test(zero_bytes),
        cmocka_unit_test(many_tags),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
