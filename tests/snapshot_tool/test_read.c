/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readers of snapshots from inside: what is refused, in which words, and how much memory it may
 * take. Files as a user has them are in test_torch.py, random ones in tests/fuzz.
 *
 *   test_snapshot_read [STEP]   files are cut off at every STEPth byte: 1
 *
 * Seen to fail: with the check of a text's stated length taken out (giant_lengths runs out of its
 * budget instead), of the memo's index, of the depth in value.c, and with `c` read as an import of
 * nothing (code_is_refused).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "encode_chrome.h"
#include "map64.h"
#include "peak.h"
#include "pickle.h"
#include "read.h"
#include "rewind.h"

#define MIB ((size_t)1 << 20)

/* Reads bytes within `limit_bytes`; `error` receives the sentence. Nothing may be left over. */
static read_result try_read(const void *bytes, size_t count, size_t limit_bytes, char *error,
                            size_t *peak_bytes)
{
    budget limits;
    model snapshot;
    budget_start(&limits, limit_bytes);
    model_start(&snapshot, &limits);
    read_result result =
        snapshot_read_memory(&snapshot, "file", bytes, count, error, READ_ERROR_BYTES);
    model_release(&snapshot);
    assert_int_equal(limits.used_bytes, 0);
    assert_true(limits.peak_bytes <= limits.limit_bytes);
    if (peak_bytes)
        *peak_bytes = limits.peak_bytes;
    return result;
}

/* The bytes must be refused with these words, at this place, without using much memory. */
static void expect_bad(const void *bytes, size_t count, const char *place, const char *words)
{
    char error[READ_ERROR_BYTES] = "";
    size_t peak;
    read_result result = try_read(bytes, count, 64 * MIB, error, &peak);
    if (result != READ_BAD || !strstr(error, place) || !strstr(error, words))
        fail_msg("result %d, wanted \"%s\" and \"%s\", got: %s", (int)result, place, words, error);
    assert_true(peak < 4 * MIB);
}

#define EXPECT_BAD(literal, place, words)                                                          \
    expect_bad((literal), sizeof(literal) - 1, (place), (words))

static void code_is_refused(void **state)
{
    (void)state;
    EXPECT_BAD("\x80\x02"
               "cposix\nsystem\n.",
               "at byte 2:", "GLOBAL (0x63) imports Python code");
    EXPECT_BAD("\x80\x04\x8c\x05posix\x8c\x06system\x93.", "at byte 17:", "STACK_GLOBAL (0x93)");
    EXPECT_BAD("(iposix\nsystem\n.", "at byte 1:", "INST (0x69) makes an object");
    EXPECT_BAD("(o.", "at byte 1:", "OBJ (0x6f)");
    EXPECT_BAD("))R.", "at byte 2:", "REDUCE (0x52) calls Python code");
    EXPECT_BAD("))b.", "at byte 2:", "BUILD (0x62)");
    EXPECT_BAD("))\x81.", "at byte 2:", "NEWOBJ (0x81)");
    EXPECT_BAD(")))\x92.", "at byte 3:", "NEWOBJ_EX (0x92)");
    EXPECT_BAD("\x82\x01.", "at byte 0:", "EXT1 (0x82)");
    EXPECT_BAD("\x83\x01\x00.", "at byte 0:", "EXT2 (0x83)");
    EXPECT_BAD("\x84\x01\x00\x00\x00.", "at byte 0:", "EXT4 (0x84)");
    EXPECT_BAD("Pabc\n.", "at byte 0:", "PERSID (0x50)");
    EXPECT_BAD("NQ.", "at byte 1:", "BINPERSID (0x51)");
    EXPECT_BAD("\x97.", "at byte 0:", "NEXT_BUFFER (0x97)");
    EXPECT_BAD("N\x98.", "at byte 1:", "READONLY_BUFFER (0x98)");
    EXPECT_BAD("C\x01"
               "a.",
               "at byte 0:", "SHORT_BINBYTES (0x43)");
    EXPECT_BAD("\x8f.", "at byte 0:", "EMPTY_SET (0x8f)");
    EXPECT_BAD("S'a'\n.", "at byte 0:", "STRING (0x53)");
    EXPECT_BAD("\x80\x02\xff.", "at byte 2:", "this is not a pickle (0xff)");
}

static void giant_lengths(void **state)
{
    (void)state;
    EXPECT_BAD(
        "\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"
        "abc.",
        "at byte 2:", "a text of 9223372036854775807 bytes is announced, but only 4 bytes follow");
    EXPECT_BAD("X\xff\xff\xff\xff"
               "abc.",
               "at byte 0:", "a text of 4294967295 bytes");
    EXPECT_BAD("\x8c\x09"
               "abc.",
               "at byte 0:", "a text of 9 bytes is announced, but only 4");
    EXPECT_BAD("\x8b\xff\xff\xff\x7f\x01.", "at byte 0:", "a number of 2147483647 bytes");
    EXPECT_BAD("\x8b\xff\xff\xff\xff\x01.", "at byte 0:", "a number of 4294967295 bytes");
    EXPECT_BAD("\x8a\x0a"
               "0123456789.",
               "at byte 0:", "at most 64 bits are read");
    EXPECT_BAD("\x8a\x09"
               "\0\0\0\0\0\0\0\0\x01.",
               "at byte 0:", "more than 64 bits");
    EXPECT_BAD("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.", "at byte 2:", "a frame of");
    EXPECT_BAD("]r\xff\xff\xff\xff.", "at byte 1:", "the memo index 4294967295 is beyond");
    EXPECT_BAD("]p99999999999999999999\n.", "at byte 1:", "is not a memo index");
    EXPECT_BAD("]j\x00\x00\x00\x00.", "at byte 1:", "the memo has nothing at index 0");
    EXPECT_BAD("I123456789012345678901234567890\n.", "at byte 0:", "not a whole number of 64 bits");
    EXPECT_BAD("I1111111111111111111111111111111111111111111111111111111111111111111111\n.",
               "at byte 0:", "longer than 64 bytes");
}

static void broken_machines(void **state)
{
    (void)state;
    EXPECT_BAD("", "at byte 0:", "empty");
    EXPECT_BAD("\x80\x06.", "at byte 0:", "protocol 6; 0 to 5 are known");
    EXPECT_BAD(".", "at byte 0:", "stops with 0 values");
    EXPECT_BAD("]].", "at byte 2:", "stops with 2 values");
    EXPECT_BAD("e", "at byte 0:", "no MARK");
    EXPECT_BAD("(e", "at byte 1:", "too few values");
    EXPECT_BAD(
        "root:x:0:0:", "at byte 0:", "neither a snapshot of Tenure (JSON) nor one of PyTorch");
    EXPECT_BAD("N(e", "at byte 2:", "appended to nothing");
    EXPECT_BAD("}(Nu.", "at byte 3:", "a key without a value");
    EXPECT_BAD("}(NNu.", "at byte 4:", "nothing is the key of a dictionary");
    EXPECT_BAD("](NNu.", "at byte 4:", "a key is set in a list");
    EXPECT_BAD("(]a", "at byte 2:", "too few values");
    EXPECT_BAD("\x85.", "at byte 0:", "too few values");
    EXPECT_BAD("N\x86.", "at byte 1:", "too few values");
    EXPECT_BAD("K\x01.", "the document", "a dictionary was expected, not a whole number");
    EXPECT_BAD("}.", "the document", "neither \"format\"");
    EXPECT_BAD("]q\x00h\x00"
               "a.",
               "segments[0]", "a dictionary was expected, not a list");
}

/* `count` times the byte, between a head and a tail. */
static void expect_repeated(const char *head, char byte, size_t count, const char *tail,
                            const char *words)
{
    size_t head_count = strlen(head), tail_count = strlen(tail);
    char *bytes = malloc(head_count + count + tail_count);
    assert_non_null(bytes);
    memcpy(bytes, head, head_count);
    memset(bytes + head_count, byte, count);
    memcpy(bytes + head_count + count, tail, tail_count);
    expect_bad(bytes, head_count + count + tail_count, "at byte", words);
    free(bytes);
}

static void deep_nesting(void **state)
{
    char deep[2048];
    (void)state;
    expect_repeated("", '(', 100000, "", "begun inside each other");
    expect_repeated("[", '[', 100000, "", "nested more than 200 deep");
    expect_repeated("{\"a\":", '[', 100000, "", "nested more than 200 deep");
    /* Lists put into each other from the inside out, without any mark. */
    memset(deep, ']', 1000);
    memset(deep + 1000, 'a', 999);
    deep[1999] = '.';
    expect_bad(deep, 2000, "at byte", "nested more than 200 deep");
    /* Tuples around each other. */
    memset(deep, 0x85, 1000);
    deep[0] = ')';
    expect_bad(deep, 1000, "at byte", "nested more than 200 deep");
}

/* A dictionary that has the one before twice, 150 times: 2^150 entries to whoever walks all, and
 * 150 dictionaries in memory. */
static void laughs_cost_nothing(void **state)
{
    char bytes[8192], error[READ_ERROR_BYTES];
    size_t count = 0, peak;
    (void)state;
    memcpy(bytes, "}q\0000", 4);
    count = 4;
    for (unsigned i = 0; i < 150; i++) {
        const char step[] = {'}', '(', 'X', 1, 0,   0,   0,       'a', 'h', (char)i,       'X',
                             1,   0,   0,   0, 'b', 'h', (char)i, 'u', 'q', (char)(i + 1), '0'};
        memcpy(bytes + count, step, sizeof(step));
        count += sizeof(step);
    }
    static const char document[] = "}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]"
                                   "X\x12\0\0\0allocator_settingsh\x96u.";
    memcpy(bytes + count, document, sizeof(document) - 1);
    count += sizeof(document) - 1;
    if (try_read(bytes, count, 64 * MIB, error, &peak) != READ_OK)
        fail_msg("%s", error);
    assert_true(peak < 2 * MIB);
}

/* One segment named 100,000 times, and one frame list of 4,000 named by every record. */
static void shared_parts_are_bounded(void **state)
{
    static const char one_segment[] = "}(X\x06\0\0\0deviceK\0X\x07\0\0\0addressK\0X\x0a\0\0\0"
                                      "total_sizeK\x01X\x06\0\0\0streamK\0X\x06\0\0\0blocks]"
                                      "}(X\x04\0\0\0sizeK\x01X\x05\0\0\0stateX\x08\0\0\0inactive"
                                      "uau";
    char *bytes = malloc(200000);
    size_t count = 0;
    (void)state;
    assert_non_null(bytes);
    memcpy(bytes, "](", 2);
    count = 2;
    memcpy(bytes + count, one_segment, sizeof(one_segment) - 1);
    count += sizeof(one_segment) - 1;
    memset(bytes + count, '2', 100000); /* DUP */
    count += 100000;
    memcpy(bytes + count, "e.", 2);
    count += 2;
    expect_bad(bytes, count, "segments[1]", "overlaps with another segment");
    free(bytes);
}

static void many_keys(void **state)
{
    char *bytes = malloc(64000);
    size_t count = 0;
    (void)state;
    assert_non_null(bytes);
    bytes[count++] = '}';
    bytes[count++] = '(';
    for (int i = 0; i < 2000; i++)
        count += (size_t)snprintf(bytes + count, 64000 - count, "I%d\nN", i);
    bytes[count++] = 'u';
    expect_bad(bytes, count, "at byte", "more than 512 keys");
    free(bytes);
}

static void keys_come_once(void **state)
{
    (void)state;
    EXPECT_BAD("}(X\1\0\0\0aNX\1\0\0\0bNX\1\0\0\0aNu.", "at byte", "a key twice");
    EXPECT_BAD("{\"a\": 1, \"b\": 2, \"a\": 3}", "(line 1)", "a key twice");
}

static void json_says_where(void **state)
{
    (void)state;
    EXPECT_BAD("{\"segments\": [\n1,\n]}", "(line 3)", "parse error");
    EXPECT_BAD("{\"segments\"\n", "(line 2)", "the file ends inside a list or an object");
    EXPECT_BAD("{\"segments\": tru}", "at byte 1", "lexical error");
    EXPECT_BAD("{\"a\": 123456789012345678901234567890}", "(line 1)", "more than 64 bits");
    /* The same at the very end, where it is found when no bytes are left. */
    EXPECT_BAD("[44444444444444444444444444", "(line 1)", "more than 64 bits");
    EXPECT_BAD("{\"a\": \"\xff\"}", "(line 1)", "invalid bytes in UTF8 string");
    EXPECT_BAD("[] []", "at byte 4", "trailing garbage");
    EXPECT_BAD("{\"format\": \"other\"}", "the document", "\"other\", not \"tenure-snapshot\"");
    EXPECT_BAD("{\"format\": \"tenure-snapshot\", \"devices\": [], \"strings\": [\"\"],"
               " \"version\": 2}",
               "the document", "version 2 of the format");
}

static void limits_are_kept(void **state)
{
    char error[READ_ERROR_BYTES];
    char *bytes = malloc(8 * MIB);
    (void)state;
    assert_non_null(bytes);
    memset(bytes, ']', 8 * MIB);
    bytes[8 * MIB - 1] = '.';
    assert_int_equal(try_read(bytes, 8 * MIB, 16 * MIB, error, NULL), READ_NO_MEMORY);
    assert_non_null(strstr(error, "needs more than 16 MiB"));
    assert_non_null(strstr(error, "--max-memory"));
    memset(bytes, '[', 150);
    for (size_t i = 150; i < 8 * MIB; i += 2)
        memcpy(bytes + i, "1,", 2);
    assert_int_equal(try_read(bytes, 8 * MIB, 16 * MIB, error, NULL), READ_NO_MEMORY);
    free(bytes);
}

/* ---- a good file, in every budget and cut off everywhere ------------------------------------ */

static char *file_read(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(MIB);
    assert_non_null(file);
    assert_non_null(bytes);
    *count = fread(bytes, 1, MIB, file);
    fclose(file);
    return bytes;
}

static const char *const good_files[] = {"torch_0.pickle", "torch_2.pickle",     "torch_4.pickle",
                                         "torch_5.pickle", "torch_waits.pickle", "torch.json",
                                         "tenure.json"};

static void each_good_file(void (*body)(const char *bytes, size_t count))
{
    for (size_t i = 0; i < sizeof(good_files) / sizeof(good_files[0]); i++) {
        char path[4096], error[READ_ERROR_BYTES];
        size_t count;
        snprintf(path, sizeof(path), "%s/%s", getenv("TENURE_TEST_CORPUS"), good_files[i]);
        char *bytes = file_read(path, &count);
        if (try_read(bytes, count, 64 * MIB, error, NULL) != READ_OK)
            fail_msg("%s: %s", path, error);
        body(bytes, count);
        free(bytes);
    }
}

static size_t cut_step = 1;

/* The last bytes of a file may be white space. Nothing else may be missing. */
static void cut_everywhere(const char *bytes, size_t count)
{
    size_t end = count;
    while (bytes[end - 1] == '\n')
        end--;
    for (size_t length = 0; length < end; length += cut_step) {
        char error[READ_ERROR_BYTES] = "", *copy = malloc(length ? length : 1);
        assert_non_null(copy);
        memcpy(copy, bytes, length);
        read_result result = try_read(copy, length, 64 * MIB, error, NULL);
        if (result != READ_BAD || !strstr(error, "file: at byte "))
            fail_msg("cut at %zu of %zu: result %d, %s", length, count, (int)result, error);
        free(copy);
    }
}

static void truncation_is_refused(void **state)
{
    (void)state;
    each_good_file(cut_everywhere);
}

static void every_budget(const char *bytes, size_t count)
{
    char error[READ_ERROR_BYTES];
    size_t needed = 0, refused = 0;
    for (size_t limit = 0; needed == 0; limit += limit < 20000 ? 512 : 16384) {
        read_result result = try_read(bytes, count, limit, error, NULL);
        assert_true(result == READ_OK || result == READ_NO_MEMORY);
        if (result == READ_OK)
            needed = limit;
        else
            refused++;
        assert_true(limit < 64 * MIB);
    }
    assert_true(refused > 20);
}

static void small_budgets_are_refused(void **state)
{
    (void)state;
    each_good_file(every_budget);
}

/* Trace events are made within the budget too, or refused; nothing is left over either way. */
static void every_budget_of_events(const char *bytes, size_t count)
{
    char error[READ_ERROR_BYTES];
    budget limits;
    model snapshot;
    size_t refused = 0;
    int code = -1;
    output *out = malloc(sizeof(*out));
    assert_non_null(out);
    budget_start(&limits, 64 * MIB);
    model_start(&snapshot, &limits);
    assert_int_equal(snapshot_read_memory(&snapshot, "file", bytes, count, error, sizeof(error)),
                     READ_OK);
    size_t used_bytes = limits.used_bytes;
    for (size_t more = 0; code != 0; more += 512) {
        losses lost = {.count = 0};
        assert_true(more < MIB);
        limits.limit_bytes = used_bytes + more;
        assert_int_equal(output_open(out, "/dev/null", 0), 0);
        code = encode_chrome(&snapshot, CHROME_SLICES, out, &lost);
        assert_int_equal(output_close(out, 1), 0);
        assert_int_equal(limits.used_bytes, used_bytes);
        refused += code != 0;
    }
    assert_true(refused > 0);
    limits.limit_bytes = 64 * MIB;
    model_release(&snapshot);
    assert_int_equal(limits.used_bytes, 0);
    free(out);
}

static void small_budgets_for_events_are_refused(void **state)
{
    (void)state;
    each_good_file(every_budget_of_events);
}

/* ---- the table of numbers, against a plain array -------------------------------------------- */

static void map64_is_a_table(void **state)
{
    enum { KEYS = 500, STEPS = 200000 };
    static uint32_t plain[KEYS];
    uint64_t random = 20261121;
    budget limits;
    map64 map;
    (void)state;
    budget_start(&limits, 64 * MIB);
    map64_start(&map, &limits);
    memset(plain, 0xff, sizeof(plain));
    for (uint32_t step = 0; step < STEPS; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        size_t key = (size_t)(random >> 40) % KEYS;
        uint64_t name = (uint64_t)key << 9; /* as addresses are */
        if (random >> 33 & 1) {
            map64_remove(&map, name);
            plain[key] = MAP64_ABSENT;
        } else {
            assert_int_equal(map64_put(&map, name, step), 0);
            plain[key] = step;
        }
        key = (size_t)(random >> 20) % KEYS;
        assert_int_equal(map64_get(&map, (uint64_t)key << 9), plain[key]);
    }
    map64_release(&map);
    assert_int_equal(limits.used_bytes, 0);
}

/* ---- reading history backwards -------------------------------------------------------------- */

/* A long history of few blocks takes memory for few blocks, and a byte for each record. Seen to
 * fail in both without the places of blocks that are over. */
static void a_long_way_back_takes_little(void **state)
{
    enum { PAIRS = 100000, FEW = 3, SMALL = 4096 };
    budget limits;
    model in;
    rewind_result back;
    array holders;
    (void)state;
    budget_start(&limits, 64 * MIB);
    model_start(&in, &limits);
    (void)MODEL_ADD(&in, &in.devices, device);
    (void)MODEL_ADD(&in, &in.pools, pool);
    (void)MODEL_ADD(&in, &in.stacks, stack);
    *MODEL_ADD(&in, &in.segments, segment) = (segment){.address = MIB, .bytes = MIB};
    for (uint64_t i = 0; i < 2 * PAIRS; i++)
        *MODEL_ADD(&in, &in.records, record) =
            (record){.time_ns = (int64_t)i,
                     .address = MIB + i / 2 % FEW * SMALL,
                     .bytes = SMALL,
                     .requested_bytes = SMALL,
                     .kind = i % 2 == 0 ? RECORD_ALLOC : RECORD_FREE};
    size_t used = limits.peak_bytes = limits.used_bytes;
    assert_int_equal(rewind_run(&in, &back), 0);
    assert_int_equal(back.contradictions_count, 0);
    assert_in_range(limits.peak_bytes - used, 2 * PAIRS, 2 * PAIRS + SMALL);
    rewind_release(&back);
    limits.peak_bytes = limits.used_bytes;
    assert_int_equal(peak_holders(&in, 0, 1, &holders), 0);
    assert_int_equal(holders.count, 1);
    assert_int_equal(MODEL_AT(holders, holder, 0)->live_count, 1);
    assert_in_range(limits.peak_bytes - used, 1, SMALL);
    array_release(&holders, &limits, sizeof(holder));
    model_release(&in);
    assert_int_equal(limits.used_bytes, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && (cut_step = strtoul(argv[1], NULL, 10)) == 0)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_is_refused),
        cmocka_unit_test(giant_lengths),
        cmocka_unit_test(broken_machines),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(laughs_cost_nothing),
        cmocka_unit_test(shared_parts_are_bounded),
        cmocka_unit_test(many_keys),
        cmocka_unit_test(keys_come_once),
        cmocka_unit_test(json_says_where),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(truncation_is_refused),
        cmocka_unit_test(small_budgets_are_refused),
        cmocka_unit_test(small_budgets_for_events_are_refused),
        cmocka_unit_test(map64_is_a_table),
        cmocka_unit_test(a_long_way_back_takes_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
