/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of launches in the history. A gate holds a launch back, so it is over when the test says so
 * and not before. That events are given back is seen at the end of every test: unit_stop fails if
 * one is left on the device.
 *
 * Lines changed in the library to see it fail:
 *   tnri_upper_settle left out of tnri_picture_still, or tnri_launched_look of launch_record
 *   queue_look without tnri_event_is_over, or that stops at the first queue that is not over
 *   queue_put_back that puts a queue first again: others_are_not_held_up
 *   is_launch = 0 in tnri_note_launch: the launch is of no stream
 *   the launch's own event left out, or recorded though the history is off
 *   an error of the mark handed on: failures_lose_nothing
 *   tnri_launched_forget left out of device_end: every test that ends with a closed gate
 *   tnri_launched_look without its question whether the process was forked
 */
#include "capture/steps.h"
#include "picture_take.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/history.h>
#include <tenure/sleep.h>

#include "base/host_memory.h"
#include "graph/launched.h"
#include "log/history.h"
#include "see/snapshot/picture.h"

/* The number `nth` of the records of a kind; null: there are not so many. */
static const tnri_recorded *record_of(const tnri_picture *picture, tnri_kind kind, size_t nth)
{
    for (size_t i = 0; i < picture->order_count; i++) {
        const tnri_recorded *record = tnri_picture_record(picture, i);
        if (record->kind == kind && nth-- == 0)
            return record;
    }
    return NULL;
}

static size_t records_count(const tnri_picture *picture, tnri_kind kind)
{
    size_t count = 0;
    while (record_of(picture, kind, count) != NULL)
        count++;
    return count;
}

static const tnri_shown_stream *stream_of(const tnri_picture *picture, const tnri_recorded *record)
{
    int32_t stream = picture->origins[record->origin].stream;
    assert_true(stream >= 0);
    return &picture->streams[stream];
}

/* In a picture that is taken now: so many launches, and so many ends. */
static void check_counts(size_t launches, size_t ends)
{
    tnri_picture picture = picture_take();
    assert_int_equal(records_count(&picture, TNRI_NOTED_LAUNCH), launches);
    assert_int_equal(records_count(&picture, TNRI_NOTED_LAUNCH_OVER), ends);
    tnri_picture_free(&picture);
}

/* A graph that writes to one block of its own. */
static recorded graph_make(tnr_pool pool)
{
    capture_begin(ORIGIN, pool);
    assert_ok(tnr_free(captured_block(ORIGIN, 1)));
    return capture_end(ORIGIN);
}

static void stream_finish(tnr_stream stream)
{
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
}

/* ---- what is recorded ----------------------------------------------------------------------- */

static void the_end_is_seen_once_it_is_over(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL);
    life_gate_close(0, OTHER);
    recorded_launch(&graph, OTHER);
    check_counts(1, 0);
    check_counts(1, 0); /* asking does not end it */
    life_gate_open(0);
    stream_finish(OTHER);
    tnri_picture picture = picture_take();
    const tnri_recorded *launch = record_of(&picture, TNRI_NOTED_LAUNCH, 0);
    const tnri_recorded *over = record_of(&picture, TNRI_NOTED_LAUNCH_OVER, 0);
    assert_non_null(over);
    assert_int_equal(launch->value, graph.number);
    assert_int_equal(over->value, launch->ticks);
    assert_int_equal(over->origin, launch->origin);
    assert_true(over->ticks > launch->ticks);
    assert_ptr_equal(stream_of(&picture, over)->handle, OTHER);
    assert_int_equal(picture.pools[picture.origins[over->origin].pool].is_graph, 1);
    tnri_picture_free(&picture);
    check_counts(1, 1); /* and it is seen once */
    assert_int_equal(atomic_load(&tnri_launched_count), 0);
    recorded_destroy(&graph);
    check_all_given_back();
}

static void a_launch_sees_those_before_it(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL);
    for (uint32_t i = 0; i < 10; i++) {
        recorded_launch(&graph, ORIGIN);
        assert_int_equal(atomic_load(&tnri_launched_count), 1);
        stream_finish(ORIGIN);
    }
    /* A trim, too, which asks what is there to be had. */
    assert_ok(tnr_trim(NULL, SIZE_MAX, 0));
    assert_int_equal(atomic_load(&tnri_launched_count), 0);
    check_counts(10, 10);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* In one stream they end in their order, each with its own launch. */
static void each_end_has_its_launch(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL);
    for (int gate = 0; gate < 4; gate++) {
        life_gate_close(gate, ORIGIN);
        recorded_launch(&graph, ORIGIN);
    }
    for (size_t gate = 0; gate < 4; gate++) {
        check_counts(4, gate);
        life_gate_open((int)gate);
        simcuda_run(UINT64_MAX);
    }
    tnri_picture picture = picture_take();
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(record_of(&picture, TNRI_NOTED_LAUNCH_OVER, i)->value,
                         record_of(&picture, TNRI_NOTED_LAUNCH, i)->ticks);
    tnri_picture_free(&picture);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* A stream that hangs does not keep the ends of others from being seen, also where one launch looks
 * at fewer streams than there are. */
static void others_are_not_held_up(void **state)
{
    enum { STREAMS = 12 };
    (void)state;
    steps_start("history:light", NULL);
    tnr_stream streams[STREAMS];
    recorded graphs[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = life_stream(CU_STREAM_NON_BLOCKING);
        graphs[i] = graph_make(NULL);
        life_gate_close(i % 2, streams[i]);
        recorded_launch(&graphs[i], streams[i]);
    }
    assert_int_equal(atomic_load(&tnri_launched_count), STREAMS);
    life_gate_open(1);
    simcuda_run(UINT64_MAX);
    recorded last = graph_make(NULL);
    for (int i = 0; i < STREAMS; i++) {
        recorded_launch(&last, ORIGIN);
        stream_finish(ORIGIN);
    }
    /* Of its own launches the latest may not have been looked at since. */
    uint32_t left = atomic_load(&tnri_launched_count);
    assert_true(left >= STREAMS / 2);
    assert_true(left <= STREAMS / 2 + 3);
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    check_counts(2 * STREAMS, 2 * STREAMS);
    for (int i = 0; i < STREAMS; i++)
        recorded_destroy(&graphs[i]);
    recorded_destroy(&last);
    check_all_given_back();
}

/* An engine that launches itself says when it has; else nothing is known of the end. */
static void an_engines_launch(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL);
    tnr_graph_launched(graph.number, ORIGIN); /* nobody said that it would be */
    for (int i = 0; i < 4; i++) {
        assert_ok(tnr_graph_launching(graph.number, ORIGIN));
        assert_int_equal(cuGraphLaunch(graph.exec, ORIGIN), CUDA_SUCCESS);
        if (i == 1)
            tnr_graph_launched(graph.number + 1, ORIGIN);
        else if (i == 2)
            tnr_graph_launched(graph.number, OTHER);
        else if (i == 3)
            tnr_graph_launched(graph.number, ORIGIN);
        tnr_graph_launched(graph.number, i == 3 ? ORIGIN : NULL); /* and not twice */
    }
    assert_int_equal(atomic_load(&tnri_launched_count), 1);
    stream_finish(ORIGIN);
    tnri_picture picture = picture_take();
    assert_int_equal(records_count(&picture, TNRI_NOTED_LAUNCH), 4);
    assert_int_equal(records_count(&picture, TNRI_NOTED_LAUNCH_OVER), 1);
    assert_int_equal(record_of(&picture, TNRI_NOTED_LAUNCH_OVER, 0)->value,
                     record_of(&picture, TNRI_NOTED_LAUNCH, 3)->ticks);
    tnri_picture_free(&picture);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* A graph that was not captured through Tenure is of no pool, and its launch is on a stream. */
static void an_adopted_graph(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = {0};
    assert_int_equal(cuGraphCreate(&graph.cuda, 0), CUDA_SUCCESS);
    assert_ok(tnr_graph_adopt(&graph.number, graph.cuda, 0, NULL));
    assert_int_equal(cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0), CUDA_SUCCESS);
    recorded_launch(&graph, OTHER);
    stream_finish(OTHER);
    tnri_picture picture = picture_take();
    const tnri_recorded *over = record_of(&picture, TNRI_NOTED_LAUNCH_OVER, 0);
    assert_non_null(over);
    assert_int_equal(picture.origins[over->origin].pool, -1);
    assert_ptr_equal(stream_of(&picture, over)->handle, OTHER);
    tnri_picture_free(&picture);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* The default streams are marked as any other. */
static void default_streams(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL);
    tnr_stream per_thread = (tnr_stream)(uintptr_t)2;
    recorded_launch(&graph, NULL);
    recorded_launch(&graph, per_thread);
    stream_finish(NULL);
    stream_finish(per_thread);
    tnri_picture picture = picture_take();
    assert_int_equal(records_count(&picture, TNRI_NOTED_LAUNCH_OVER), 2);
    tnri_picture_free(&picture);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* ---- what is gone or forbidden -------------------------------------------------------------- */

static void what_is_gone_before_the_end(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    tnr_stream stream = life_stream(CU_STREAM_NON_BLOCKING);
    recorded graph = graph_make(NULL);
    life_gate_close(0, stream);
    recorded_launch(&graph, stream);
    assert_int_equal(cuGraphExecDestroy(graph.exec), CUDA_SUCCESS);
    graph.exec = NULL;
    check_counts(1, 0);
    recorded_destroy(&graph);
    check_counts(1, 0);
    assert_ok(tnr_stream_destroying(0, stream));
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    check_counts(1, 0);
    life_gate_open(0);
    steps_settle(); /* its pool ends here */
    assert_false(graph_is_known(graph.number));
    tnri_picture picture = picture_take();
    const tnri_recorded *over = record_of(&picture, TNRI_NOTED_LAUNCH_OVER, 0);
    assert_non_null(over);
    assert_ptr_equal(stream_of(&picture, over)->handle, stream);
    tnri_picture_free(&picture);
    check_all_given_back();
}

static void sleep_and_wake(void **state)
{
    (void)state;
    steps_start("history:light,chunk_max_mb:2", NULL);
    tnr_pool pool = graph_pool("slept");
    recorded graph = graph_make(pool);
    recorded_launch(&graph, ORIGIN);
    recorded_launch(&graph, ORIGIN);
    assert_ok(tnr_pool_sleep(pool, 0, NULL)); /* waits for both */
    assert_error(tnr_graph_launch(graph.number, graph.exec, ORIGIN), TNR_ERR_ASLEEP, NULL);
    check_counts(2, 2);
    assert_ok(tnr_pool_wake(pool, 0));
    recorded_launch(&graph, ORIGIN);
    stream_finish(ORIGIN);
    check_counts(3, 3);
    recorded_destroy(&graph);
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

static void the_history_is_turned_off(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL);
    life_gate_close(0, ORIGIN);
    recorded_launch(&graph, ORIGIN);
    assert_ok(tnr_graph_launching(graph.number, ORIGIN));
    assert_ok(tnr_configure("history:off"));
    tnr_graph_launched(graph.number, ORIGIN);
    assert_int_equal(atomic_load(&tnri_launched_count), 1);
    recorded_launch(&graph, ORIGIN); /* which gives up the one before */
    assert_int_equal(atomic_load(&tnri_launched_count), 0);
    /* While it is off a launch costs no event. */
    uint64_t events = simcuda_calls("cuEventRecord") + simcuda_calls("cuEventQuery");
    recorded_launch(&graph, ORIGIN);
    assert_ok(tnr_graph_launching(graph.number, ORIGIN));
    tnr_graph_launched(graph.number, ORIGIN);
    assert_int_equal(simcuda_calls("cuEventRecord") + simcuda_calls("cuEventQuery"), events);
    life_gate_open(0);
    stream_finish(ORIGIN);
    assert_ok(tnr_configure("history:light"));
    check_counts(2, 0);
    recorded_launch(&graph, ORIGIN);
    stream_finish(ORIGIN);
    check_counts(3, 1);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* Nothing is recorded in a stream that is captured, and nothing asked that would end a capture. */
static void during_a_capture(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL), second = graph_make(NULL);
    life_gate_close(0, OTHER);
    recorded_launch(&graph, OTHER);
    assert_ok(tnr_graph_launching(second.number, ORIGIN));
    capture_begin(ORIGIN, NULL);
    uint64_t events = simcuda_calls("cuEventRecord");
    tnr_graph_launched(second.number, ORIGIN);
    assert_error(tnr_graph_launch(second.number, second.exec, ORIGIN), TNR_ERR_CAPTURE, NULL);
    assert_int_equal(simcuda_calls("cuEventRecord"), events);
    assert_int_equal(atomic_load(&tnri_launched_count), 1);
    check_counts(2, 0);
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    check_counts(2, 1); /* seen although a capture is under way, */
    assert_ok(tnr_free(captured_block(ORIGIN, 1)));
    recorded third = capture_end(ORIGIN); /* which goes on */
    recorded_destroy(&graph);
    recorded_destroy(&second);
    recorded_destroy(&third);
    check_all_given_back();
}

/* What is not over when the library ends is looked at once more, and forgotten. */
static void a_shutdown_with_launches(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL);
    for (int i = 0; i < 3; i++)
        recorded_launch(&graph, ORIGIN);
    assert_int_equal(atomic_load(&tnri_launched_count), 3);
    assert_ok(tnr_shutdown(1));
    assert_int_equal(atomic_load(&tnri_launched_count), 0);
    recorded_destroy(&graph);
}

/* Nothing of a context that is gone can be asked; nothing is said to be over. */
static void a_context_that_is_gone(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL);
    recorded_launch(&graph, ORIGIN);
    simcuda_fail("cuEventQuery", 1, 1, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    simcuda_run(UINT64_MAX);
    check_counts(1, 0);
    assert_int_equal(atomic_load(&tnri_launched_count), 1);
    simcuda_fail_clear();
    check_counts(1, 1);
    recorded_destroy(&graph);
    check_all_given_back();
}

static void child_body(void *data)
{
    (void)data;
    uint64_t calls = simcuda_calls_total();
    tnri_launched_settle();
    tnr_graph_launched(1, ORIGIN);
    _exit(simcuda_calls_total() == calls && atomic_load(&tnri_launched_count) == 1 ? 0 : 1);
}

static void after_a_fork(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL);
    recorded_launch(&graph, ORIGIN);
    assert_int_equal(unit_in_child(child_body, NULL, 0), 0);
    stream_finish(ORIGIN);
    check_counts(1, 1);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Each call in turn, once or from then on: the launch is made, and only its end is not recorded. */
static void failures_lose_nothing(void **state)
{
    static const char *const calls[] = {"cuEventCreate", "cuEventRecord", "cuEventQuery"};
    (void)state;
    for (size_t c = 0; c < 3; c++)
        for (uint64_t nth = 1; nth <= 3; nth++)
            for (int sticky = 0; sticky < 2; sticky++) {
                steps_start("history:light", NULL);
                recorded graph = graph_make(NULL);
                assert_error(tnr_graph_launching(0, ORIGIN), TNR_ERR_INVALID_GRAPH, NULL);
                simcuda_fail(calls[c], nth, sticky, CUDA_ERROR_UNKNOWN);
                for (size_t i = 0; i < 3; i++) {
                    recorded_launch(&graph, ORIGIN);
                    assert_non_null(strstr(tnr_last_error(), "there is no graph 0"));
                }
                simcuda_run(UINT64_MAX);
                tnri_picture picture = picture_take();
                uint64_t hits = simcuda_fail_hits();
                size_t ends = records_count(&picture, TNRI_NOTED_LAUNCH_OVER);
                assert_int_equal(records_count(&picture, TNRI_NOTED_LAUNCH), 3);
                if (hits > 0 && sticky)
                    assert_true(ends < 3);
                tnri_picture_free(&picture);
                simcuda_fail_clear();
                check_counts(3, c == 2 ? 3 : 3 - (size_t)hits);
                recorded_destroy(&graph);
                check_all_given_back();
                assert_int_equal(steps_stop(NULL), 0);
            }
    steps_start(NULL, NULL); /* what the teardown ends */
}

static void host_memory_may_lack(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        steps_start("history:light", NULL);
        recorded graph = graph_make(NULL);
        recorded_launch(&graph, OTHER); /* all but the queue is there */
        stream_finish(OTHER);
        check_counts(1, 1);
        tnri_host_fail_at(nth, 0);
        tnr_status status = tnr_graph_launch(graph.number, graph.exec, OTHER);
        uint64_t failed = tnri_host_fail_at(0, 0);
        assert_ok(status);
        stream_finish(OTHER);
        check_counts(2, failed ? 1 : 2);
        recorded_destroy(&graph);
        check_all_given_back();
        if (!failed)
            return;
        assert_int_equal(steps_stop(NULL), 0);
    }
}

/* There may be so many, and no more. */
static void more_than_there_may_be(void **state)
{
    (void)state;
    steps_start("history:light", NULL);
    recorded graph = graph_make(NULL);
    life_gate_close(0, ORIGIN);
    atomic_fetch_add(&tnri_launched_count, TNRI_LAUNCHED_MAX - 2);
    for (int i = 0; i < 4; i++)
        recorded_launch(&graph, ORIGIN);
    assert_int_equal(atomic_load(&tnri_launched_count), TNRI_LAUNCHED_MAX);
    atomic_fetch_sub(&tnri_launched_count, TNRI_LAUNCHED_MAX - 2);
    life_gate_open(0);
    stream_finish(ORIGIN);
    check_counts(4, 2);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* A file for check_files.py. */
static const char *folder;

static void a_file(void **state)
{
    (void)state;
    char path[512];
    steps_start("history:full", NULL);
    recorded graph = graph_make(NULL);
    life_gate_close(0, OTHER);
    recorded_launch(&graph, ORIGIN);
    stream_finish(ORIGIN);
    recorded_launch(&graph, OTHER);
    if (folder != NULL)
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof(path), "%s/launches-complete.%s", folder,
                     i == 0 ? "json" : "pickle");
            assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO));
        }
    life_gate_open(0);
    stream_finish(OTHER);
    recorded_destroy(&graph);
    check_all_given_back();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_end_is_seen_once_it_is_over, steps_stop),
        cmocka_unit_test_teardown(a_launch_sees_those_before_it, steps_stop),
        cmocka_unit_test_teardown(each_end_has_its_launch, steps_stop),
        cmocka_unit_test_teardown(others_are_not_held_up, steps_stop),
        cmocka_unit_test_teardown(an_engines_launch, steps_stop),
        cmocka_unit_test_teardown(an_adopted_graph, steps_stop),
        cmocka_unit_test_teardown(default_streams, steps_stop),
        cmocka_unit_test_teardown(what_is_gone_before_the_end, steps_stop),
        cmocka_unit_test_teardown(sleep_and_wake, steps_stop),
        cmocka_unit_test_teardown(the_history_is_turned_off, steps_stop),
        cmocka_unit_test_teardown(during_a_capture, steps_stop),
        cmocka_unit_test_teardown(a_shutdown_with_launches, steps_stop),
        cmocka_unit_test_teardown(a_context_that_is_gone, steps_stop),
        cmocka_unit_test_teardown(after_a_fork, steps_stop),
        cmocka_unit_test_teardown(failures_lose_nothing, steps_stop),
        cmocka_unit_test_teardown(host_memory_may_lack, steps_stop),
        cmocka_unit_test_teardown(more_than_there_may_be, steps_stop),
        cmocka_unit_test_teardown(a_file, steps_stop),
    };
    folder = argc > 1 ? argv[1] : NULL;
    if (folder != NULL)
        (void)mkdir(folder, 0777);
    return steps_run(tests);
}
