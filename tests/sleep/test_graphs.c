/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that were captured through Tenure, and sleep. A launch meanwhile is refused. After the
 * wake a replay does what it did before, at the same addresses. It reads contents that no launch
 * writes, and memory that is free in the pool and carries state from one launch to the next.
 *
 * Lines changed in the library to see a test fail:
 *   launch_begin without tnri_pool_work_begin: launches_are_refused (the replay touches no memory)
 *   outside_begin without tnri_pool_work_begin: launches_are_refused, adopted_graphs_need_all_pools
 *   outside_begin: `few` whatever the number of pools: adopted_graphs_need_all_pools (overrun)
 *   tnri_sleeper_list: keeps_free as 0: replays_are_identical
 *   part_wake not called: replays_are_identical
 */
#include "sleep.h"

#include <string.h>

#include <tenure/capture.h>

enum { BYTES = 5 << 20, WORDS = BYTES / 4 };

/* What is captured: input -> out, state -> seen, then the state is set anew. */
typedef struct step {
    tnr_stream stream;
    tnr_pool pool; /* the graph's */
    tnr_graph number;
    tnr_cuda_graph cuda;
    CUgraphExec exec;
    unsigned char *input; /* outside of the capture, in the default pool */
    unsigned char *out, *seen;
} step;

static void copy(void *to, const void *from, tnr_stream stream)
{
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)from, BYTES, stream),
                     CUDA_SUCCESS);
}

static void *captured_malloc(tnr_stream stream)
{
    void *ptr;
    assert_ok(tnr_malloc(&ptr, BYTES, 0, stream));
    return ptr;
}

static step step_capture(void)
{
    step self = {.stream = unit_stream(0)};
    void *carried;
    self.input = unit_malloc(BYTES, self.stream);
    sleep_fill(self.input, BYTES, 3, self.stream);
    assert_ok(tnr_capture_begin(0, self.stream, NULL));
    self.out = captured_malloc(self.stream);
    self.seen = captured_malloc(self.stream);
    carried = captured_malloc(self.stream);
    copy(self.out, self.input, self.stream);
    copy(self.seen, carried, self.stream);
    sleep_fill(carried, BYTES, 4, self.stream);
    assert_ok(tnr_free(carried)); /* free in the pool; the graph's all the same */
    assert_ok(tnr_capture_end(&self.cuda, &self.number, 0, self.stream));
    assert_int_equal(cuGraphInstantiateWithFlags(&self.exec, self.cuda, 0), CUDA_SUCCESS);
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_graph_get(&info, self.number));
    assert_non_null(info.pool);
    self.pool = info.pool;
    assert_ok(tnr_graph_launch(self.number, self.exec, self.stream)); /* the state is there now */
    return self;
}

/* Spoils what the graph writes, replays it, and looks. */
static void step_replay(const step *self)
{
    assert_int_equal(cuMemsetD32Async((CUdeviceptr)self->out, 0, WORDS, self->stream),
                     CUDA_SUCCESS);
    assert_int_equal(cuMemsetD32Async((CUdeviceptr)self->seen, 0, WORDS, self->stream),
                     CUDA_SUCCESS);
    assert_ok(tnr_graph_launch(self->number, self->exec, self->stream));
    assert_int_equal(cuStreamSynchronize(self->stream), CUDA_SUCCESS);
    sleep_check(self->out, BYTES, 3);
    sleep_check(self->seen, BYTES, 4);
}

static void step_end(step *self)
{
    assert_ok(tnr_free(self->out));
    assert_ok(tnr_free(self->seen));
    assert_int_equal(cuGraphExecDestroy(self->exec), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(self->cuda), CUDA_SUCCESS);
    assert_ok(tnr_free(self->input));
    (void)simcuda_run(UINT64_MAX);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX); /* the driver tells of the graph's end */
}

static void replays_are_identical_under(const char *schedule)
{
    unit_start("chunk_max_mb:2", schedule, "RACES=1", NULL);
    sleep_context_enter();
    step self = step_capture();
    step_replay(&self);
    for (int round = 0; round < 3; round++) {
        tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
        options.pinned_bytes_max = round == 2;
        if (round == 0)
            assert_ok(tnr_pool_sleep(self.pool, 0, NULL));
        else
            assert_ok(tnr_device_sleep(0, &options));
        if (round > 0)
            assert_int_equal(sleep_device_bytes(), 0);
        assert_ok(tnr_device_wake(0));
        step_replay(&self);
        step_replay(&self);
    }
    step_end(&self);
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

static void replays_are_identical(void **state)
{
    (void)state;
    replays_are_identical_under("SCHEDULE=lazy");
    assert_int_equal(unit_stop(NULL), 0);
    replays_are_identical_under("SCHEDULE=random");
}

static void launches_are_refused(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=lazy", "RACES=1", NULL);
    sleep_context_enter();
    step self = step_capture();
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    for (int i = 0; i < 3; i++) {
        /* Also while only the pool of a block outside sleeps that the graph reads. */
        assert_ok(i == 0   ? tnr_pool_sleep(self.pool, 0, NULL)
                  : i == 1 ? tnr_pool_sleep(NULL, 0, NULL)
                           : tnr_device_sleep(0, NULL));
        uint64_t launches = simcuda_calls("cuGraphLaunch");
        assert_error(tnr_graph_launch(self.number, self.exec, self.stream), TNR_ERR_ASLEEP,
                     "tnr_pool_wake");
        assert_error(tnr_graph_launching(self.number, self.stream), TNR_ERR_ASLEEP, NULL);
        assert_int_equal(simcuda_calls("cuGraphLaunch"), launches);
        assert_int_equal(simcuda_pending(), 0);
        assert_ok(tnr_device_wake(0));
        assert_ok(tnr_graph_get(&info, self.number));
        assert_int_equal(info.launches, i + 1); /* those that were made */
        step_replay(&self);
    }
    step_end(&self);
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* A graph that ends while its pool sleeps takes the pool with it. */
static void graphs_end_while_asleep(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=lazy", "RACES=1", NULL);
    sleep_context_enter();
    step self = step_capture();
    step_replay(&self);
    assert_ok(tnr_device_sleep(0, NULL));
    step_end(&self);
    assert_ok(tnr_device_wake(0));
    assert_ok(tnr_trim(NULL, 0, 0));
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    assert_error(tnr_graph_get(&info, self.number), TNR_ERR_INVALID_GRAPH, NULL);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(sleep_device_bytes(), 0);
    assert_int_equal(sleep_pinned_bytes(), 0);
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* A graph that was adopted, of blocks of more pools than most graphs know. */
static void adopted_graphs_need_all_pools(void **state)
{
    (void)state;
    enum { POOLS = 11 };
    unit_start("address_space_gb:16", "SCHEDULE=lazy", "RACES=1", NULL);
    sleep_context_enter();
    tnr_pool pools[POOLS];
    void *chain[POOLS];
    tnr_stream stream = unit_stream(0);
    step self = {.stream = stream};
    for (int i = 0; i < POOLS; i++) {
        assert_ok(tnr_pool_create(&pools[i], 0, NULL));
        assert_ok(tnr_pool_malloc(&chain[i], pools[i], BYTES, 0, stream));
    }
    sleep_fill(chain[0], BYTES, 9, stream);
    assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    for (int i = 1; i < POOLS; i++)
        copy(chain[i], chain[i - 1], stream);
    assert_int_equal(cuStreamEndCapture(stream, &self.cuda), CUDA_SUCCESS);
    assert_ok(tnr_graph_adopt(&self.number, self.cuda, 0, "chain"));
    assert_int_equal(cuGraphInstantiateWithFlags(&self.exec, self.cuda, 0), CUDA_SUCCESS);
    for (int i = 0; i < POOLS; i++) {
        assert_ok(tnr_pool_sleep(pools[i], 0, NULL));
        assert_error(tnr_graph_launch(self.number, self.exec, stream), TNR_ERR_ASLEEP, NULL);
        assert_ok(tnr_pool_wake(pools[i], 0));
    }
    assert_ok(tnr_graph_launch(self.number, self.exec, stream));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(chain[POOLS - 1], BYTES, 9);
    /* Nothing of the refused launches keeps a pool from sleeping. */
    assert_ok(tnr_device_sleep(0, NULL));
    assert_ok(tnr_device_wake(0));
    assert_int_equal(cuGraphExecDestroy(self.exec), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(self.cuda), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX);
    for (int i = 0; i < POOLS; i++)
        assert_ok(tnr_free(chain[i]));
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(replays_are_identical, unit_stop),
        cmocka_unit_test_teardown(launches_are_refused, unit_stop),
        cmocka_unit_test_teardown(adopted_graphs_need_all_pools, unit_stop),
        cmocka_unit_test_teardown(graphs_end_while_asleep, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
