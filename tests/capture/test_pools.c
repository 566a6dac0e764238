/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that share a pool: their launches are ordered on the device, or refused where no order
 * would help, because a block is live that the launch would overwrite. Every launch goes to another
 * stream, under the race detector: order that is not there is reported. And the end of ordinary
 * pools while a stream captures.
 *
 * Lines of the library changed to see it fail:
 *   tnri_arena_mark_other marks only a stream that tnri_stream_has_mark: a_pool_ends_*
 *   tnri_holds_retry in order_settle (lifetime/order/register.c) taken out:
 *     an_output_freed_in_a_host_function
 */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>

#define BYTES (4 * MIB)

/* A graph of the pool that fills scratch memory, copies it to its result (an ordinary block), and
 * frees the scratch memory. */
static recorded step_graph(tnr_pool pool, unsigned char *result, int value, unsigned char **scratch)
{
    capture_begin(ORIGIN, pool);
    *scratch = captured_block(ORIGIN, value);
    assert_ptr_equal(pool_of(*scratch), pool);
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)result, (CUdeviceptr)*scratch, BYTES, ORIGIN),
                     CUDA_SUCCESS);
    assert_ok(tnr_free(*scratch));
    return capture_end(ORIGIN);
}

static void graphs_share(int count, int rounds, int by_hand)
{
    enum { MOST = 3 };
    unsigned char *results[MOST], *scratch[MOST];
    recorded graphs[MOST];
    tnr_pool pool = graph_pool("shared");
    for (int i = 0; i < count; i++) {
        results[i] = unit_malloc(BYTES, ORIGIN);
        graphs[i] = step_graph(pool, results[i], 30 + i, &scratch[i]);
        assert_ptr_equal(scratch[i], scratch[0]); /* they share what each had freed */
        assert_int_equal(graph_info(graphs[i].number).is_private, 0);
        assert_ptr_equal(graph_info(graphs[i].number).pool, pool);
    }
    assert_int_equal(pool_stats(pool).reserved_bytes.current, BYTES);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++) {
            tnr_stream stream = life_streams[(round + i) % LIFE_STREAMS];
            if (by_hand) {
                assert_ok(tnr_graph_launching(graphs[i].number, stream));
                assert_int_equal(cuGraphLaunch(graphs[i].exec, stream), CUDA_SUCCESS);
            } else {
                recorded_launch(&graphs[i], stream);
            }
        }
    simcuda_run(UINT64_MAX);
    assert_int_equal(simcuda_races(), 0);
    for (int i = 0; i < count; i++) {
        check_bytes(results[i], BYTES, 30 + i);
        assert_int_equal(graph_info(graphs[i].number).launches, rounds);
        assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, NULL);
        recorded_destroy(&graphs[i]);
        assert_ok(tnr_free(results[i]));
        steps_settle();
        assert_true(pool_is_there(pool)); /* it was made by name, and ends so */
    }
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

static void two_successive_graphs(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    graphs_share(2, 1, 0);
}

static void three_interleaved_graphs(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    graphs_share(3, 7, 0);
}

static void an_engine_launches_itself(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    graphs_share(3, 5, 1);
}

/* One graph, in two executables, on two streams: it shares the pool with itself. */
static void two_executables_of_one_graph(void **state)
{
    (void)state;
    unsigned char *scratch;
    CUgraphExec second = NULL;
    steps_start(NULL, NULL);
    unsigned char *result = unit_malloc(BYTES, ORIGIN);
    capture_begin(ORIGIN, NULL);
    scratch = captured_block(ORIGIN, 5);
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)result, (CUdeviceptr)scratch, BYTES, ORIGIN),
                     CUDA_SUCCESS);
    assert_ok(tnr_free(scratch));
    recorded graph = capture_end(ORIGIN);
    assert_int_equal(cuGraphInstantiateWithFlags(&second, graph.cuda, 0), CUDA_SUCCESS);
    for (int i = 0; i < 6; i++)
        assert_ok(tnr_graph_launch(graph.number, i % 2 ? second : graph.exec, life_streams[i % 4]));
    simcuda_run(UINT64_MAX);
    check_bytes(result, BYTES, 5);
    assert_int_equal(cuGraphExecDestroy(second), CUDA_SUCCESS);
    assert_ok(tnr_free(result));
    recorded_destroy(&graph);
    check_all_given_back();
}

/* ---- refused -------------------------------------------------------------------------------- */

/* The second graph's output lies where the first one had its scratch memory. While it is live, the
 * first must not run; the second may, which writes its own output. */
static void a_launch_that_would_overwrite(void **state)
{
    (void)state;
    char address[32];
    unsigned char *scratch;
    steps_start(NULL, NULL);
    tnr_pool pool = graph_pool("shared");
    unsigned char *result = unit_malloc(BYTES, ORIGIN);
    recorded first = step_graph(pool, result, 1, &scratch);
    recorded_launch(&first, ORIGIN);
    capture_begin(ORIGIN, pool);
    unsigned char *output = captured_block(ORIGIN, 2);
    assert_ptr_equal(output, scratch);
    recorded second = capture_end(ORIGIN);
    recorded_launch(&second, BRANCH);
    snprintf(address, sizeof(address), "%p", (void *)output);
    for (int i = 0; i < 2; i++) {
        assert_error(tnr_graph_launch(first.number, first.exec, ORIGIN), TNR_ERR_OVERWRITE,
                     address);
        assert_error(tnr_graph_launching(first.number, ORIGIN), TNR_ERR_OVERWRITE, address);
    }
    assert_int_equal(graph_info(first.number).launches, 1);
    recorded_launch(&second, OTHER);
    simcuda_run(UINT64_MAX);
    check_bytes(output, BYTES, 2); /* no launch has touched it */

    /* Read on another stream, recorded, freed: the next launch waits for that. */
    order_after(OUTSIDE, OTHER); /* which has written it */
    unsigned char *copy = life_read(output, BYTES, OUTSIDE);
    assert_ok(tnr_record_use(output, OUTSIDE));
    assert_ok(tnr_free(output));
    recorded_launch(&first, ORIGIN);
    simcuda_run(UINT64_MAX);
    assert_true(life_all(copy, BYTES, 2));
    check_bytes(result, BYTES, 1);
    assert_ok(tnr_free(result));
    recorded_destroy(&first);
    recorded_destroy(&second);
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

/* An output that lies beside the first graph's memory threatens nobody. */
static void an_output_beside_is_no_threat(void **state)
{
    (void)state;
    unsigned char *scratch;
    steps_start(NULL, NULL);
    tnr_pool pool = graph_pool("shared");
    unsigned char *result = unit_malloc(BYTES, ORIGIN);
    recorded first = step_graph(pool, result, 1, &scratch);
    capture_begin(ORIGIN, pool);
    unsigned char *mine = captured_block(ORIGIN, 2);
    unsigned char *output = captured_block(ORIGIN, 3);
    assert_ok(tnr_free(mine));
    recorded second = capture_end(ORIGIN);
    assert_ptr_equal(mine, scratch);
    recorded_launch(&second, ORIGIN);
    recorded_launch(&first, BRANCH);
    simcuda_run(UINT64_MAX);
    check_bytes(output, BYTES, 3);
    check_bytes(result, BYTES, 1);
    /* An output of the first graph: the second did not get its memory. */
    assert_ok(tnr_free(output));
    assert_ok(tnr_free(result));
    recorded_destroy(&first);
    recorded_destroy(&second);
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

/* A live output of the first graph is not given to the second, whatever it needs. */
static void live_outputs_are_not_shared(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_pool pool = graph_pool("shared");
    capture_begin(ORIGIN, pool);
    unsigned char *output = captured_block(ORIGIN, 1);
    recorded first = capture_end(ORIGIN);
    recorded_launch(&first, ORIGIN);
    capture_begin(ORIGIN, pool);
    for (int i = 0; i < 4; i++)
        assert_false(is_overlap(captured_block(ORIGIN, 9), BYTES, output, BYTES));
    recorded second = capture_end(ORIGIN);
    recorded_launch(&second, BRANCH);
    simcuda_run(UINT64_MAX);
    check_bytes(output, BYTES, 1);
    /* Even after the first graph is gone. */
    recorded_destroy(&first);
    steps_settle();
    capture_begin(ORIGIN, pool);
    assert_false(is_overlap(captured_block(ORIGIN, 9), BYTES, output, BYTES));
    recorded third = capture_end(ORIGIN);
    recorded_launch(&third, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(output, BYTES, 1);
    assert_ok(tnr_free(output));
    recorded_destroy(&second);
    recorded_destroy(&third);
}

/* An output belongs to the stream that it was allocated on: what that stream does with it is over
 * before its memory is another graph's, whichever streams the graphs are launched on. */
static void an_output_used_on_its_own_stream(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_pool pool = graph_pool("shared");
    capture_begin(ORIGIN, pool);
    unsigned char *output = captured_block(ORIGIN, 1);
    recorded first = capture_end(ORIGIN);
    recorded_launch(&first, OTHER);
    order_after(ORIGIN, OTHER);
    life_fill(output, BYTES, 2, ORIGIN);
    assert_ok(tnr_free(output));
    capture_begin(BRANCH, pool);
    unsigned char *next = captured_block(BRANCH, 3);
    recorded second = capture_end(BRANCH);
    recorded_launch(&second, BRANCH);
    simcuda_run(UINT64_MAX);
    check_bytes(next, BYTES, 3);
    assert_ok(tnr_free(next));
    recorded_destroy(&first);
    recorded_destroy(&second);
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

static void launch_refuses(void **state)
{
    (void)state;
    unsigned char *scratch;
    steps_start(NULL, "DEVICES=2");
    tnr_stream elsewhere = unit_stream(1);
    tnr_pool pool = graph_pool("shared");
    unsigned char *result = unit_malloc(BYTES, ORIGIN);
    recorded first = step_graph(pool, result, 1, &scratch);
    recorded second = step_graph(pool, result, 2, &scratch);
    assert_error(tnr_graph_launch(0, first.exec, ORIGIN), TNR_ERR_INVALID_GRAPH, NULL);
    assert_error(tnr_graph_launch(first.number + 77, first.exec, ORIGIN), TNR_ERR_INVALID_GRAPH,
                 NULL);
    assert_error(tnr_graph_launch(first.number, first.exec, elsewhere), TNR_ERR_INVALID_STREAM,
                 NULL);
    assert_error(tnr_graph_launching(0, ORIGIN), TNR_ERR_INVALID_GRAPH, NULL);
    capture_begin(BRANCH, NULL);
    assert_error(tnr_graph_launch(first.number, first.exec, BRANCH), TNR_ERR_CAPTURE, NULL);
    assert_error(tnr_graph_launching(first.number, BRANCH), TNR_ERR_CAPTURE, NULL);
    assert_int_equal(capture_status(BRANCH), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    recorded_launch(&second, ORIGIN); /* beside the capture it is as ever */
    recorded empty = capture_end(BRANCH);
    recorded_destroy(&empty);
    assert_int_equal(graph_info(first.number).launches, 0);
    simcuda_run(UINT64_MAX);
    check_bytes(result, BYTES, 2);
    tnr_graph number = first.number;
    recorded_destroy(&first);
    recorded_destroy(&second);
    steps_settle();
    assert_error(tnr_graph_launch(number, NULL, ORIGIN), TNR_ERR_INVALID_GRAPH, NULL);
    assert_ok(tnr_free(result));
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

/* ---- capturing again ------------------------------------------------------------------------ */

/* A graph is captured anew into its pool, before and after the old one is gone: the pool does not
 * grow. */
static void capture_again_into_a_pool(void **state)
{
    (void)state;
    unsigned char *scratch;
    steps_start(NULL, NULL);
    tnr_pool pool = graph_pool("shared");
    unsigned char *result = unit_malloc(BYTES, ORIGIN);
    recorded old = step_graph(pool, result, 1, &scratch);
    recorded_launch(&old, BRANCH);
    for (int i = 0; i < 10; i++) {
        recorded fresh = step_graph(pool, result, 2 + i, &scratch);
        if (i % 2)
            recorded_destroy(&old);
        recorded_launch(&fresh, life_streams[i % 4]);
        if (old.cuda != NULL)
            recorded_destroy(&old);
        old = fresh;
        assert_int_equal(pool_stats(pool).reserved_bytes.current, BYTES);
    }
    simcuda_run(UINT64_MAX);
    check_bytes(result, BYTES, 11);
    recorded_destroy(&old);
    assert_ok(tnr_free(result));
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

/* A new capture into a pool while an old launch still runs: what it captures touches nothing yet,
 * so the memory may be shared; its own launch must wait. */
static void capture_while_a_launch_runs(void **state)
{
    (void)state;
    unsigned char *scratch, *again;
    steps_start(NULL, NULL);
    tnr_pool pool = graph_pool("shared");
    unsigned char *results[2] = {unit_malloc(BYTES, ORIGIN), unit_malloc(BYTES, ORIGIN)};
    recorded first = step_graph(pool, results[0], 1, &scratch);
    life_gate_close(0, BRANCH);
    recorded_launch(&first, BRANCH);
    recorded second = step_graph(pool, results[1], 2, &again);
    assert_ptr_equal(scratch, again);
    recorded_launch(&second, OTHER);
    recorded_destroy(&first);
    simcuda_run(UINT64_MAX);
    assert_int_not_equal(results[1][0], 2); /* it waits behind the gate too */
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    check_bytes(results[0], BYTES, 1);
    check_bytes(results[1], BYTES, 2);
    recorded_destroy(&second);
    assert_ok(tnr_free(results[0]));
    assert_ok(tnr_free(results[1]));
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

/* Two captures into one pool at once: neither gets what the other has freed, nor what is live. */
static void two_captures_into_one_pool(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_pool pool = graph_pool("shared");
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = pool;
    options.mode = TNR_CAPTURE_RELAXED;
    assert_ok(tnr_capture_begin(0, ORIGIN, &options));
    assert_ok(tnr_capture_begin(0, BRANCH, &options));
    unsigned char *first = captured_block(ORIGIN, 1);
    assert_ok(tnr_free(first));
    unsigned char *second = captured_block(BRANCH, 2);
    assert_false(is_overlap(first, BYTES, second, BYTES));
    assert_ptr_equal(captured_block(ORIGIN, 3), first);
    assert_ok(tnr_free(second));
    recorded one = capture_end(ORIGIN);
    unsigned char *third = captured_block(BRANCH, 4);
    assert_ptr_equal(third, second);
    assert_ok(tnr_free(third));
    recorded two = capture_end(BRANCH);
    for (int i = 0; i < 4; i++)
        recorded_launch(i % 2 ? &one : &two, life_streams[i]);
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_free(first));
    recorded_destroy(&one);
    recorded_destroy(&two);
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

/* A block of one capture that is freed, or used, in another: kept until it is safe. */
static void across_two_captures(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = TNR_CAPTURE_RELAXED;
    assert_ok(tnr_capture_begin(0, ORIGIN, &options));
    assert_ok(tnr_capture_begin(0, BRANCH, &options));
    unsigned char *first = captured_block(ORIGIN, 1);
    assert_ok(tnr_record_use(first, BRANCH));
    assert_ok(tnr_free(first));
    assert_false(is_overlap(captured_block(ORIGIN, 2), BYTES, first, BYTES));
    assert_false(is_overlap(captured_block(BRANCH, 3), BYTES, first, BYTES));
    recorded one = capture_end(ORIGIN);
    recorded two = capture_end(BRANCH);
    recorded_launch(&one, ORIGIN);
    recorded_launch(&two, BRANCH);
    simcuda_run(UINT64_MAX);
    recorded_destroy(&one);
    recorded_destroy(&two);
}

/* ---- out of memory -------------------------------------------------------------------------- */

static tnr_oom_info asked;

static int note_what_is_asked(const tnr_oom_info *info, void *user)
{
    (void)user;
    asked = *info;
    return 0;
}

/* The callback is told the stream of the capture that the memory is for, though the pool's one
 * arena belongs to none; the report too. */
static void who_asks_in_a_capture(void **state)
{
    (void)state;
    char stream[32];
    steps_start(NULL, "MEMORY=64M");
    unsigned char *full = unit_malloc(40 * MIB, OUTSIDE);
    tnr_pool pool = graph_pool("shared");
    capture_begin(ORIGIN, pool);
    order_after(BRANCH, ORIGIN);
    tnr_oom_callback_set(note_what_is_asked, NULL);
    void *ptr;
    snprintf(stream, sizeof(stream), "%p", (void *)BRANCH);
    assert_error(tnr_malloc(&ptr, 50 * MIB, 0, BRANCH), TNR_ERR_OUT_OF_MEMORY, stream);
    tnr_oom_callback_set(NULL, NULL);
    assert_int_equal(asked.reason, TNR_OOM_DEVICE);
    assert_ptr_equal(asked.pool, pool);
    assert_ptr_equal(asked.stream, BRANCH);
    assert_int_equal(asked.bytes, 50 * MIB);
    order_after(ORIGIN, BRANCH);
    recorded graph = capture_end(ORIGIN);
    recorded_destroy(&graph);
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    assert_ok(tnr_free(full));
    check_all_given_back();
}

static void CUDA_CB free_in_host_function(void *block)
{
    if (tnr_free(block) != TNR_OK)
        abort();
}

/* A block that outlived its capture is freed in a host function, where its uses cannot be marked.
 * That is made up for before the pool's end says that something is held. */
static void an_output_freed_in_a_host_function(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_pool pool = graph_pool("outputs");
    capture_begin(ORIGIN, pool);
    unsigned char *out = captured_block(ORIGIN, 1);
    recorded graph = capture_end(ORIGIN);
    recorded_launch(&graph, ORIGIN);
    assert_ok(tnr_record_stream(out, OUTSIDE));
    assert_int_equal(cuLaunchHostFunc(ORIGIN, free_in_host_function, out), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(ORIGIN), CUDA_SUCCESS);
    recorded_destroy(&graph);
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

/* ---- ordinary pools, beside a capture -------------------------------------------------------- */

/* A pool with idle memory on a stream, and work under way that has used it. */
static tnr_pool worked_pool(tnr_stream stream)
{
    tnr_pool pool;
    void *block;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&block, pool, BYTES, 0, stream));
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)block, 1, BYTES, stream), CUDA_SUCCESS);
    assert_ok(tnr_free(block));
    return pool;
}

static void capture_begin_relaxed(tnr_stream stream)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = TNR_CAPTURE_RELAXED;
    assert_ok(tnr_capture_begin(0, stream, &options));
}

/* Its work is waited for, and the capture goes on. Memory of a stream that was drawn in stays until
 * the capture has ended, because nothing marks the end of what that stream did before. */
static void a_pool_ends_beside_a_capture(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_pool own = worked_pool(ORIGIN), drawn_in = worked_pool(BRANCH);
    tnr_pool other = worked_pool(OTHER), legacy = worked_pool(NULL);
    capture_begin_relaxed(ORIGIN);
    order_after(BRANCH, ORIGIN);
    assert_ok(tnr_pool_destroy(other));
    assert_ok(tnr_pool_destroy(legacy));
    assert_ok(tnr_pool_destroy(own));
    assert_error(tnr_pool_destroy(drawn_in), TNR_ERR_CAPTURE, "cannot be proved idle");
    assert_ok(tnr_validate(-1));
    assert_int_equal(pool_stats(drawn_in).reserved_bytes.current, BYTES);
    unsigned char *block = captured_block(ORIGIN, 5);
    order_after(ORIGIN, BRANCH);
    recorded graph = capture_end(ORIGIN);
    recorded_launch(&graph, ORIGIN);
    steps_settle();
    check_bytes(block, BYTES, 5);
    assert_ok(tnr_pool_destroy(drawn_in));
    assert_ok(tnr_free(block));
    recorded_destroy(&graph);
    steps_settle();
    check_all_given_back();
}

/* Whatever fails, a repeated call comes to the end, and the capture is not broken. */
static void a_pool_ends_while_the_driver_fails(void **state)
{
    (void)state;
    uint64_t hits = 1;
    for (uint64_t nth = 1; hits > 0; nth++) {
        steps_start(NULL, NULL);
        tnr_pool pool = worked_pool(OTHER);
        capture_begin_relaxed(ORIGIN);
        simcuda_fail("*", nth, 0, CUDA_ERROR_UNKNOWN);
        tnr_status status = tnr_pool_destroy(pool);
        hits = simcuda_fail_hits();
        simcuda_fail_clear();
        assert_int_not_equal(status, TNR_ERR_HOST_MEMORY);
        if (status != TNR_OK)
            assert_ok(tnr_pool_destroy(pool));
        assert_ok(tnr_validate(-1));
        recorded graph = capture_end(ORIGIN);
        recorded_destroy(&graph);
        steps_settle();
        check_all_given_back();
        assert_int_equal(steps_stop(state), 0);
    }
    steps_start(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_output_freed_in_a_host_function, steps_stop),
        cmocka_unit_test_teardown(two_successive_graphs, steps_stop),
        cmocka_unit_test_teardown(three_interleaved_graphs, steps_stop),
        cmocka_unit_test_teardown(an_engine_launches_itself, steps_stop),
        cmocka_unit_test_teardown(two_executables_of_one_graph, steps_stop),
        cmocka_unit_test_teardown(a_launch_that_would_overwrite, steps_stop),
        cmocka_unit_test_teardown(an_output_beside_is_no_threat, steps_stop),
        cmocka_unit_test_teardown(live_outputs_are_not_shared, steps_stop),
        cmocka_unit_test_teardown(an_output_used_on_its_own_stream, steps_stop),
        cmocka_unit_test_teardown(launch_refuses, steps_stop),
        cmocka_unit_test_teardown(capture_again_into_a_pool, steps_stop),
        cmocka_unit_test_teardown(capture_while_a_launch_runs, steps_stop),
        cmocka_unit_test_teardown(two_captures_into_one_pool, steps_stop),
        cmocka_unit_test_teardown(across_two_captures, steps_stop),
        cmocka_unit_test_teardown(who_asks_in_a_capture, steps_stop),
        cmocka_unit_test_teardown(a_pool_ends_beside_a_capture, steps_stop),
        cmocka_unit_test_teardown(a_pool_ends_while_the_driver_fails, steps_stop),
    };
    return steps_run(tests);
}
