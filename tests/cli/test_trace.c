/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace reader from inside: what a legal file becomes, and that a bad one leaves nothing. The
 * sentences for bad files are tested through the command, in test_input.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "trace.h"

static char folder[] = "/tmp/tenure_trace_XXXXXX";

/* The path of a file in the test's folder, in a buffer that the next call uses again. */
static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void file_write(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

static void read_good(trace *result, const char *name)
{
    char error[512] = "";
    int status = trace_read(result, path_of(name), error, sizeof(error));
    assert_string_equal(error, "");
    assert_int_equal(status, 0);
}

/* Operations that go back, the longest pause, and a file whose first operation is not its first
 * time. A line that is no operation has no time that counts. */
static void test_times(void **state)
{
    (void)state;
    trace result;
    file_write("times.csv", "a,1,9,0,50\na,2,9,0,70\nf,1,9,0,900\na,3,9,0,60\nF,3,9,0,20\n"
                            "F,1,9,0,75\nF,2,9,0,175\n");
    read_good(&result, "times.csv");
    assert_int_equal(result.us_first, 50);
    assert_int_equal(result.us_last, 175);
    assert_int_equal(result.back_count, 2);
    assert_int_equal(result.back_line, 4);
    assert_int_equal(result.back_us_most, 50);
    assert_int_equal(result.pause_us_most, 100);
    assert_int_equal(result.pause_line, 7);
    assert_int_equal(result.ops[2].us, 60);
    assert_int_equal(result.ops[3].us, 20);
    trace_release(&result);
}

static void test_operations(void **state)
{
    (void)state;
    trace result;
    file_write("mine.csv", "# comment\na,70,100,9,0\na,80,50,4,1\nF,70,100,9,2\nf,70,100,9,3\n"
                           "a,90,30,9,4\n");
    read_good(&result, "mine.csv");
    assert_string_equal(result.name, "mine");
    assert_int_equal(result.ops_count, 4);
    assert_int_equal(result.allocs_count, 3);
    assert_int_equal(result.streams_count, 2);
    assert_int_equal(result.streams[0], 9);
    assert_int_equal(result.streams[1], 4);
    assert_int_equal(result.peak_live_bytes, 150);
    assert_int_equal(result.live_at_end, 2);
    /* The third allocation takes the slot that the free has left. */
    assert_int_equal(result.slots_count, 2);
    assert_int_equal(result.ops[3].slot, result.ops[0].slot);
    assert_int_equal(result.ops[3].is_alloc, 1);
    assert_int_equal(result.ops[3].bytes, 30);
    /* A free carries its block's size and stream. */
    assert_int_equal(result.ops[2].is_alloc, 0);
    assert_int_equal(result.ops[2].bytes, 100);
    assert_int_equal(result.ops[2].stream, 0);
    trace_release(&result);
    assert_null(result.ops);
}

/* The numbers in a free are the recorder's; what counts is the block that it names. */
static void test_free_goes_by_id(void **state)
{
    (void)state;
    trace result;
    file_write("free.csv", "a,1,100,0,0\nF,1,512,7,1\n");
    read_good(&result, "free.csv");
    assert_int_equal(result.ops[1].bytes, 100);
    assert_int_equal(result.streams_count, 1);
    assert_int_equal(result.live_at_end, 0);
    trace_release(&result);
}

static void test_no_newline_at_the_end(void **state)
{
    (void)state;
    trace result;
    file_write("end.csv", "a,1,100,0,0\na,2,7,0,0");
    read_good(&result, "end.csv");
    assert_int_equal(result.ops_count, 2);
    assert_int_equal(result.peak_live_bytes, 107);
    trace_release(&result);
}

/* Enough ids to make the table grow many times, with addresses as ids, through gzip. */
static void test_many_ids_compressed(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    trace result;
    gzFile file = gzopen(path_of("many.csv.gz"), "wb1");
    assert_non_null(file);
    for (uint64_t i = 0; i < COUNT; i++)
        gzprintf(file, "a,%llu,%llu,%llu,0\n", (unsigned long long)(0x7f0000000000 + i * 512),
                 (unsigned long long)(i + 1), (unsigned long long)(i % 7));
    for (uint64_t i = 0; i < COUNT; i++)
        gzprintf(file, "F,%llu,0,0,0\n", (unsigned long long)(0x7f0000000000 + i * 512));
    assert_int_equal(gzclose(file), Z_OK);
    read_good(&result, "many.csv.gz");
    assert_string_equal(result.name, "many");
    assert_int_equal(result.ops_count, 2 * COUNT);
    assert_int_equal(result.slots_count, COUNT);
    assert_int_equal(result.streams_count, 7);
    assert_int_equal(result.peak_live_bytes, (uint64_t)COUNT * (COUNT + 1) / 2);
    assert_int_equal(result.live_at_end, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(result.ops[i].slot, result.ops[COUNT + i].slot);
        assert_int_equal(result.ops[COUNT + i].bytes, i + 1);
    }
    trace_release(&result);
}

static void test_long_comment(void **state)
{
    (void)state;
    trace result;
    char text[4000];
    memset(text, 'x', sizeof(text));
    text[0] = '#';
    strcpy(text + sizeof(text) - 20, "\na,1,2,3,4\n");
    file_write("comment.csv", text);
    read_good(&result, "comment.csv");
    assert_int_equal(result.ops_count, 1);
    trace_release(&result);
}

/* A bad file leaves an error with the line, and nothing that would have to be released. */
static void test_bad_file_leaves_nothing(void **state)
{
    (void)state;
    trace result;
    char error[512] = "";
    file_write("bad.csv", "a,1,100,0,0\na,2,100,0,0\nF,3,100,0,0\n");
    assert_int_equal(trace_read(&result, path_of("bad.csv"), error, sizeof(error)), -1);
    assert_non_null(strstr(error, "bad.csv:3: id 3 is freed but was never allocated"));
    assert_null(result.ops);
    assert_int_equal(result.ops_count, 0);
    trace_release(&result);
}

/* The text of the error is cut to the caller's buffer. */
static void test_small_error_buffer(void **state)
{
    (void)state;
    trace result;
    char error[8];
    memset(error, '!', sizeof(error));
    assert_int_equal(trace_read(&result, path_of("absent.csv"), error, 5), -1);
    assert_int_equal(strlen(error), 4);
    assert_int_equal(error[5], '!');
}

static int folder_make(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
    static const char *const names[] = {"mine.csv",    "free.csv",    "end.csv",
                                        "many.csv.gz", "comment.csv", "bad.csv"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_free_goes_by_id),
        cmocka_unit_test(test_no_newline_at_the_end),
        cmocka_unit_test(test_many_ids_compressed),
        cmocka_unit_test(test_long_comment),
        cmocka_unit_test(test_bad_file_leaves_nothing),
        cmocka_unit_test(test_small_error_buffer),
    };
    return cmocka_run_group_tests_name("trace", tests, folder_make, folder_remove);
}
