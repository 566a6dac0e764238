/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON: which characters stand as they are, and commas and blanks.
 *
 * Lines of alloc/base/json.c changed to see it fail:
 *   escape_of without tnri_utf8_is_seen: what_a_terminal_would_obey
 *   `from` left where it was after an escape: texts
 *   group_end that asks for no comma: values
 */
#include "unit/unit.h"

#include <string.h>

#include "base/json.h"

static char got[4096];

static void put(void *to, const char *bytes, size_t count)
{
    assert_ptr_equal(to, got);
    size_t length = strlen(got);
    assert_true(length + count < sizeof(got));
    memcpy(got + length, bytes, count);
    got[length + count] = '\0';
}

static const char *quoted(const char *text)
{
    got[0] = '\0';
    tnri_json_quote(put, got, text);
    return got;
}

static void texts(void **state)
{
    (void)state;
    assert_string_equal(quoted(""), "\"\"");
    assert_string_equal(quoted("plain <text>"), "\"plain <text>\"");
    assert_string_equal(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
    assert_string_equal(quoted("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
                        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    /* A lone byte, half of a pair, and a character that is cut off. */
    assert_string_equal(quoted("a\x80"
                               "b\xed\xa0\x80"
                               "c\xe2\x82"),
                        "\"a\\ufffdb\\ufffd\\ufffd\\ufffdc\\ufffd\\ufffd\"");
}

static void what_a_terminal_would_obey(void **state)
{
    (void)state;
    assert_string_equal(quoted("\x1b[2J\x7f\t"), "\"\\u001b[2J\\u007f\\u0009\"");
    assert_string_equal(quoted("\xc2\x9b"), "\"\\u009b\"");     /* a control of its own */
    assert_string_equal(quoted("\xe2\x80\xae"), "\"\\u202e\""); /* from right to left */
    assert_string_equal(quoted("\xf3\xa0\x80\x81"), "\"\\udb40\\udc01\""); /* a pair of halves */
}

static void whole_write(tnri_json *json)
{
    got[0] = '\0';
    tnri_json_object(json, NULL);
    tnri_json_text(json, "a", "b");
    tnri_json_text(json, "none", NULL);
    tnri_json_list(json, "list");
    tnri_json_number(json, NULL, UINT64_MAX);
    tnri_json_limit(json, NULL, UINT64_MAX);
    tnri_json_limit(json, NULL, 5);
    tnri_json_object(json, NULL);
    tnri_json_object_end(json);
    tnri_json_list_end(json);
    tnri_json_flag(json, "yes", 2);
    tnri_json_flag(json, "no", 0);
    tnri_json_raw(json, "raw", "1.5");
    tnri_json_object_end(json);
}

static void values(void **state)
{
    (void)state;
    tnri_json tight = {.put = put, .to = got};
    whole_write(&tight);
    assert_string_equal(got, "{\"a\":\"b\",\"none\":null,\"list\":[18446744073709551615,null,5,{}],"
                             "\"yes\":true,\"no\":false,\"raw\":1.5}");
    tnri_json spaced = {.put = put, .to = got, .is_spaced = 1};
    whole_write(&spaced);
    assert_string_equal(got,
                        "{\"a\": \"b\", \"none\": null, \"list\": [18446744073709551615, null, "
                        "5, {}], \"yes\": true, \"no\": false, \"raw\": 1.5}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(what_a_terminal_would_obey),
        cmocka_unit_test(values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
