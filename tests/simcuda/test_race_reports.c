/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race detector: what its reports say, who is told, and when it is on. What it reports, and
 * what not, is in test_races.c.
 */
#include "race_program.h"

#include <stdio.h>
#include <string.h>

static simcuda_report seen;
static char seen_labels[2][64];

static void keep(const simcuda_report *report, void *data)
{
    ++*(int *)data;
    seen = *report;
    (void)snprintf(seen_labels[0], sizeof(seen_labels[0]), "%s", report->earlier.label);
    (void)snprintf(seen_labels[1], sizeof(seen_labels[1]), "%s", report->later.label);
}

static void test_report(void **state)
{
    (void)state;
    struct program p;
    int calls = 0;
    unsigned long long id[2] = {0, 0};
    fixture_start("SCHEDULE=lazy", "RACES=1", NULL);
    simcuda_races_callback(keep, &calls);
    program_start(&p);
    assert_ok(cuStreamGetId(p.a, &id[0]));
    assert_ok(cuStreamGetId(p.b, &id[1]));
    write_on(p.a, p.at + 3 * BYTES, "unrelated");
    write_on(p.a, p.at, "first");
    assert_ok(cuMemsetD32Async(p.at + 64 * BYTES, 1, 1, p.b));
    simcuda_origin("second");
    assert_ok(cuMemsetD32Async(p.at + BYTES - 8, 7, 100, p.b));
    assert_int_equal(simcuda_run_stream(p.a, 9), 2);
    assert_int_equal(simcuda_run_stream(p.b, 9), 2);
    assert_int_equal(calls, 1);
    assert_int_equal(seen.kind, SIMCUDA_RACE);
    assert_string_equal(seen.earlier.what, "cuMemsetD8Async");
    assert_string_equal(seen.later.what, "cuMemsetD32Async");
    assert_string_equal(seen_labels[0], "first");
    assert_string_equal(seen_labels[1], "second");
    assert_int_equal(seen.earlier.stream_id, id[0]);
    assert_int_equal(seen.later.stream_id, id[1]);
    assert_int_equal(seen.earlier.number, 1);
    assert_int_equal(seen.later.number, 1);
    assert_true(seen.later.address == p.at + BYTES - 8); /* the bytes that both touch */
    assert_int_equal(seen.later.bytes, 8);
    assert_non_null(strstr(simcuda_race_last(), "first"));
    assert_non_null(strstr(simcuda_race_last(), "second"));
    simcuda_races_clear();
    assert_int_equal(simcuda_races(), 0);
    assert_string_equal(simcuda_race_last(), "");
}

/* An observer: what it was asked, and what it was told. */
typedef struct observer {
    simcuda_call calls[16];
    int calls_count, reports;
    uint32_t earlier, later; /* tags of the latest report */
} observer;

static uint32_t observe_call(const simcuda_call *call, void *data)
{
    observer *self = data;
    assert_true(self->calls_count < 16);
    self->calls[self->calls_count] = *call;
    return (uint32_t)++self->calls_count;
}

static void observe_race(const simcuda_report *report, void *data)
{
    observer *self = data;
    assert_int_equal(report->kind, SIMCUDA_RACE);
    self->reports++;
    self->earlier = report->earlier.tag;
    self->later = report->later.tag;
}

/* Calls that queue no work on memory are not asked about; a graph's operations have the tag of its
 * launch; the program's own function is told as ever, and a reset changes nothing. */
static void test_observer(void **state)
{
    (void)state;
    struct program p;
    observer seen_by = {.calls_count = 0};
    int calls = 0;
    unsigned long long id;
    simcuda_observe(observe_call, observe_race, &seen_by);
    for (int round = 0; round < 2; round++) {
        fixture_start("SCHEDULE=lazy", "RACES=1", NULL);
        simcuda_races_callback(keep, &calls);
        program_start(&p);
        seen_by.calls_count = 0;
        write_on(p.a, p.at, "");
        assert_ok(cuEventRecord(p.event, p.a));
        assert_ok(cuMemsetD32Async(p.at, 7, 100, NULL));
        write_on(p.b, p.at, "");
        assert_int_equal(seen_by.calls_count, 3);
        assert_string_equal(seen_by.calls[0].what, "cuMemsetD8Async");
        assert_null(seen_by.calls[0].kernel);
        assert_ptr_equal(seen_by.calls[0].stream, p.a);
        assert_ok(cuStreamGetId(p.a, &id));
        assert_int_equal(seen_by.calls[0].stream_id, id);
        assert_ptr_equal(seen_by.calls[1].stream, CU_STREAM_LEGACY);
        assert_int_equal(simcuda_run_stream(p.b, 9), 1);
        assert_int_equal(simcuda_run_stream(p.a, 1), 1);
        assert_int_equal(seen_by.reports, round + 1);
        assert_int_equal(seen_by.earlier, 3);
        assert_int_equal(seen_by.later, 1);
        assert_int_equal(calls, round + 1);
        simcuda_races_callback(quiet, NULL);
        assert_ok(cuCtxSynchronize());
        seen_by.reports = round + 1;
    }
    simcuda_observe(NULL, NULL, NULL);
    write_on(p.a, p.at, "");
    write_on(p.b, p.at, "");
    assert_ok(cuCtxSynchronize());
    assert_int_equal(seen_by.reports, 2);
    assert_int_equal(seen_by.calls_count, 3);
}

/* A pair of operations is one report, however fragmented the memory between them. */
static void test_one_report_per_pair(void **state)
{
    (void)state;
    struct program p;
    fixture_start("SCHEDULE=lazy", "RACES=1", NULL);
    simcuda_races_callback(quiet, NULL);
    program_start(&p);
    assert_ok(cuMemsetD8Async(p.at, 1, CHUNK, p.a));
    for (size_t i = 0; i < 200; i++)
        read_on(p.a, p.at + i * 2 * BYTES, "");
    assert_ok(cuMemsetD8Async(p.at, 1, CHUNK, p.b));
    (void)simcuda_run_stream(p.a, UINT64_MAX);
    (void)simcuda_run_stream(p.b, UINT64_MAX);
    assert_int_equal(simcuda_races(), 201); /* the first write, and each read */
}

static void test_switch(void **state)
{
    (void)state;
    struct program p;
    fixture_start("SCHEDULE=lazy", NULL);
    assert_int_equal(simcuda_races_enabled(), 0);
    program_start(&p);
    no_wait(&p);
    assert_int_equal(simcuda_races_enable(1), -1); /* work is queued */
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_races(), 0);
    assert_int_equal(simcuda_races_enable(1), 0);
    simcuda_races_callback(quiet, NULL);
    write_on(p.c, p.at, ""); /* the past counts as finished */
    assert_ok(cuStreamWaitEvent(p.c, p.event, 0));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_races(), 0);
    no_wait(&p);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_races(), 1);
    assert_int_equal(simcuda_races_enable(0), 0);
    no_wait(&p);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_races(), 1);
    fixture_settings(NULL);
    assert_int_equal(simcuda_races_enable(1), 0); /* before cuInit it goes before the environment */
    assert_ok(cuInit(0));
    assert_int_equal(simcuda_races_enabled(), 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_report),
        CASE(test_observer),
        CASE(test_one_report_per_pair),
        CASE(test_switch),
    };
    return cmocka_run_group_tests_name("race_reports", tests, NULL, NULL);
}
