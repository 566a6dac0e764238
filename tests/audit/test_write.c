/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Audits as text and as JSON. With an argument (0, 1 or 2) the program writes the JSON of a sample
 * to its standard output instead, for check_json.py.
 *
 * Each test was seen to fail with a change in capture/graph/audit_write.c:
 *   text              table_write: the widths left at those of the headings
 *   names             json_text: quotation marks not escaped; half characters let through
 *   slow_reader       writer_flush: EAGAIN taken for an error
 *   errors            writer_flush: the error not kept
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "audited.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/nodes.h"

/* ---- calls of the C library that fail here -------------------------------------------------- */

static int watched = -1;            /* writes to no other file are touched */
static int writes_left, answer;     /* so many of them fail with this error, or write nothing (0) */
static int polls_left, poll_answer; /* the same of poll; 0: there is room */

ssize_t write(int file, const void *bytes, size_t count)
{
    if (file != watched || writes_left == 0)
        return ((__typeof__(&write))(uintptr_t)dlsym(RTLD_NEXT, "write"))(file, bytes, count);
    writes_left--;
    errno = answer;
    return answer == 0 ? 0 : -1;
}

int poll(struct pollfd *files, nfds_t count, int ms)
{
    if (polls_left == 0)
        return ((__typeof__(&poll))(uintptr_t)dlsym(RTLD_NEXT, "poll"))(files, count, ms);
    polls_left--;
    errno = poll_answer;
    return poll_answer == 0 ? 1 : -1;
}

/* --------------------------------------------------------------------------------------------- */

static tnr_stream stream;

/* A graph with one finding of each place, all of them safe. */
static tnr_graph sample(const char *name, tnr_cuda_graph *cuda_graph)
{
    char *weights = unit_malloc(MIB, stream);
    audited_begin(stream, NULL, name);
    char *block = unit_malloc(64 * MIB, stream);
    take_pointers(stream, block, weights);
    take_packed(stream, weights + 512, NULL);
    take_copy(stream, block, weights, 100);
    take_set(stream, block + 512, 100);
    assert_ok(tnr_free(block));
    return audited_end(stream, cuda_graph);
}

static void start(const char *setting)
{
    audited_start(NULL, setting);
    stream = unit_stream(0);
}

/* Position in its line of the line's last word. */
static size_t last_word(const char *line, size_t length)
{
    while (length > 0 && line[length - 1] != ' ')
        length--;
    return length;
}

/* One line for each finding, under its heading; and the sums. */
static void test_text(void **state)
{
    (void)state;
    char expected[256];
    tnr_cuda_graph cuda_graph;
    start(NULL);
    tnr_graph graph = sample("step", &cuda_graph);
    audit(cuda_graph, graph);
    const char *text = audit_text(cuda_graph, graph, TNR_AUDIT_TEXT);
    snprintf(expected, sizeof(expected), "Audit of \"step\" (graph %llu on device 0)\n\n",
             (unsigned long long)graph);
    assert_memory_equal(text, expected, strlen(expected));
    const char *line = text + strlen(expected);
    size_t column = last_word(line, strcspn(line, "\n"));
    assert_memory_equal(line + column, "kernel\n", 7);
    for (size_t i = 0; i < seen.count; i++) {
        const tnr_audit_finding *finding = &seen.findings[i];
        line += strcspn(line, "\n") + 1;
        assert_int_equal(last_word(line, strcspn(line, "\n")), column);
        snprintf(expected, sizeof(expected), " 0x%llx  %s", (unsigned long long)finding->address,
                 finding->verdict == TNR_AUDIT_OWN ? "OWN " : "KEPT");
        const char *found = strstr(line, expected);
        assert_non_null(found);
        assert_true(found < line + column);
    }
    assert_non_null(strstr(text, "  OWN              3  handed out in this capture\n"));
    assert_non_null(strstr(text, "  KEPT             3  a block outside, kept for this graph\n"));
    assert_null(strstr(text, "LOOSE"));
    assert_non_null(strstr(text, "\n4 nodes: 2 kernels, 1 copy, 1 set, 0 others; 0 child graphs "
                                 "walked into\n6 addresses found, 6 proved, 0 unproved; 0 nodes "
                                 "unread\nThe guarantee holds for every address found.\n"));
    text = audit_text(cuda_graph, 0, TNR_AUDIT_TEXT);
    assert_non_null(strstr(text, "Audit of a CUDA graph that Tenure keeps nothing for\n"));
    assert_non_null(
        strstr(text, "\nThe guarantee is NOT proved: it does not hold for 6 addresses."));
    audited_destroy(cuda_graph);
}

/* Names may be anything. */
static void test_names(void **state)
{
    (void)state;
    tnr_cuda_graph cuda_graph;
    start(NULL);
    tnr_graph graph =
        sample("a \"b\" \\ \n \x01 \x7f \xc3\xa9 \xff \xed\xa0\x80 \xc3", &cuda_graph);
    const char *text = audit_text(cuda_graph, graph, TNR_AUDIT_JSON);
    assert_non_null(strstr(text,
                           "\"name\": \"a \\\"b\\\" \\\\ \\n \\u0001 \\u007f \xc3\xa9 \\ufffd "
                           "\\ufffd\\ufffd\\ufffd \\ufffd\", \"device\": 0}"));
    audited_destroy(cuda_graph);
}

/* ---- files ---------------------------------------------------------------------------------- */

typedef struct reader {
    int file;
    char *text;
    size_t bytes, room;
} reader;

/* Reads little at a time, late. */
static void *read_slowly(void *of)
{
    reader *self = of;
    ssize_t got;
    do {
        usleep(200);
        size_t left = self->room - self->bytes;
        got = read(self->file, self->text + self->bytes, left < 3000 ? left : 3000);
        self->bytes += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    return NULL;
}

/* A pipe that is full and does not block. */
static void test_slow_reader(void **state)
{
    (void)state;
    enum { SETS = 3000, ROOM = 1 << 20 };
    tnr_cuda_graph cuda_graph;
    pthread_t thread;
    int ends[2];
    start(NULL);
    audited_begin(stream, NULL, NULL);
    char *block = unit_malloc(MIB, stream);
    for (int i = 0; i < SETS; i++)
        take_set(stream, block + i, 1);
    tnr_graph graph = audited_end(stream, &cuda_graph);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    reader from = {.file = ends[0], .text = malloc(ROOM), .room = ROOM - 1};
    assert_non_null(from.text);
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &from), 0);
    tnr_status status = tnr_graph_audit_write(cuda_graph, graph, TNR_AUDIT_JSON, ends[1]);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(close(ends[0]), 0);
    assert_ok(status);
    from.text[from.bytes] = '\0';
    assert_true(from.bytes > 100000);
    assert_string_equal(from.text + from.bytes - 8, "}\n  ]\n}\n");
    size_t rows = 0;
    for (const char *at = from.text; (at = strstr(at, "\"verdict\": \"OWN\"")) != NULL; at++)
        rows++;
    assert_int_equal(rows, SETS);
    free(from.text);
    assert_ok(tnr_free(block));
    audited_destroy(cuda_graph);
}

static void test_errors(void **state)
{
    (void)state;
    tnr_cuda_graph cuda_graph;
    start(NULL);
    tnr_graph graph = sample(NULL, &cuda_graph);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    int only_read = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(full >= 0 && only_read >= 0);
    for (int format = TNR_AUDIT_TEXT; format <= TNR_AUDIT_JSON; format++) {
        assert_error(tnr_graph_audit_write(cuda_graph, graph, (tnr_audit_format)format, full),
                     TNR_ERR_INVALID_ARGUMENT, "No space left on device");
        assert_error(tnr_graph_audit_write(cuda_graph, graph, (tnr_audit_format)format, only_read),
                     TNR_ERR_INVALID_ARGUMENT, "Bad file descriptor");
        assert_error(tnr_graph_audit_write(cuda_graph, graph, (tnr_audit_format)format, -1),
                     TNR_ERR_INVALID_ARGUMENT, "file descriptor -1 failed");
    }
    close(full);
    close(only_read);
    audited_destroy(cuda_graph);
}

/* What is interrupted goes on, and what cannot be is told. */
static void test_interruptions(void **state)
{
    (void)state;
    static const struct {
        int writes, answer, polls, poll_answer;
        tnr_status status;
        const char *text;
    } cases[] = {
        {3, EINTR, 0, 0, TNR_OK, NULL},
        {2, EAGAIN, 2, 0, TNR_OK, NULL},
        {1, EAGAIN, 1, EINTR, TNR_OK, NULL}, /* and asks again */
        {1, EAGAIN, 1, ENOMEM, TNR_ERR_INVALID_ARGUMENT, "Cannot allocate memory"},
        {1, 0, 0, 0, TNR_ERR_INVALID_ARGUMENT, "Input/output error"},
    };
    tnr_cuda_graph cuda_graph;
    start(NULL);
    tnr_graph graph = sample("step", &cuda_graph);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(nowhere >= 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        watched = nowhere;
        writes_left = cases[i].writes;
        answer = cases[i].answer;
        polls_left = cases[i].polls;
        poll_answer = cases[i].poll_answer;
        assert_error(tnr_graph_audit_write(cuda_graph, graph, TNR_AUDIT_TEXT, nowhere),
                     cases[i].status, cases[i].text);
        assert_int_equal(writes_left, 0);
        assert_int_equal(polls_left, 0);
    }
    watched = -1;
    close(nowhere);
    audited_destroy(cuda_graph);
}

static const char *audit_of(size_t kernels, size_t sets, tnr_audit_format format)
{
    tnr_cuda_graph cuda_graph;
    start("MISSING=cuFuncGetParamInfo");
    char *block = unit_malloc(MIB, stream);
    audited_begin(stream, NULL, NULL);
    for (size_t i = 0; i < kernels; i++)
        take_pointers(stream, block, NULL);
    for (size_t i = 0; i < sets; i++)
        take_set(stream, block + i, 1);
    (void)audited_end(stream, &cuda_graph);
    const char *text = audit_text(cuda_graph, 0, format); /* nothing is kept for it */
    audited_destroy(cuda_graph);
    assert_ok(tnr_free(block));
    return text;
}

static void check_says(const char *text, const char *says)
{
    if (strstr(text, says) == NULL)
        fail_msg("\"%s\" is not in:\n%s", says, text);
}

/* One and many, of what is not read and of what does not hold. */
static void test_numbers(void **state)
{
    (void)state;
    check_says(audit_of(1, 0, TNR_AUDIT_TEXT), "NOT proved: the driver does not tell what 1 node "
                                               "refers to.");
    check_says(audit_of(2, 1, TNR_AUDIT_TEXT), "NOT proved: it does not hold for 1 address, and "
                                               "the driver does not tell what 2 nodes refer to.");
    check_says(audit_of(0, 2, TNR_AUDIT_TEXT), "NOT proved: it does not hold for 2 addresses.");
    const char *text = audit_of(TNRI_UNREAD_MAX + 5, 0, TNR_AUDIT_TEXT);
    check_says(text, "\n  and 5 more\n");
    check_says(text, "  not read: node ");
    text = audit_of(2, 0, TNR_AUDIT_JSON);
    check_says(text, "\"findings\": []\n}\n");
    check_says(audit_of(0, 2, TNR_AUDIT_JSON), "\n  ]\n}\n");
}

/* ---- samples -------------------------------------------------------------------------------- */

/* 0: a graph; 1: the same without what is kept for it; 2: with a node that is not told. */
static int sample_print(int which)
{
    tnr_cuda_graph cuda_graph;
    start(which == 2 ? "MISSING=cuFuncGetParamInfo" : NULL);
    tnr_graph graph = sample("a \"sample\" \xc3\xa9", &cuda_graph);
    tnr_status status =
        tnr_graph_audit_write(cuda_graph, which == 1 ? 0 : graph, TNR_AUDIT_JSON, STDOUT_FILENO);
    audited_destroy(cuda_graph);
    return status == TNR_OK && audited_stop(NULL) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return sample_print((int)strtol(argv[1], NULL, 10));
#define TEST(name) cmocka_unit_test_teardown(name, audited_stop)
    const struct CMUnitTest tests[] = {TEST(test_text),          TEST(test_names),
                                       TEST(test_slow_reader),   TEST(test_errors),
                                       TEST(test_interruptions), TEST(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
