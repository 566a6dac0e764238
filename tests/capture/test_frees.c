/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordinary blocks and graphs: what is freed while a capture is under way, what a graph refers to
 * and is freed afterwards, and blocks of a capture that outlive it.
 *
 * Broken to see it fail: hooks.c, hook_settle without is_short
 * (memory_is_short_in_a_capture); mark.c, capture_mark_take without the question whether the stream
 * still captures, and batch.c with TNR_ERR_CAPTURE whenever there is a capture
 * (a_fence_beside_a_capture); hold.c, tnri_hold_end or tnri_free_later with no hold left for what
 * cannot go on (a_launch_over_what_cannot_go_on).
 */
#include "steps.h"

#include <pthread.h>

#define BYTES (4 * MIB)

/* 1 if the block's memory is handed out to the stream, now that no capture is under way. The tests
 * here have no bins: those would hand out what this function itself freed last. */
static int is_back(const void *block, tnr_stream stream)
{
    void *next = unit_malloc(BYTES, stream);
    int back = is_overlap(next, BYTES, block, BYTES);
    life_fill(next, BYTES, 77, stream); /* a race, if anybody still uses it */
    assert_ok(tnr_free(next));
    return back;
}

static unsigned char *ordinary_block(tnr_stream stream, int value)
{
    unsigned char *block = unit_malloc(BYTES, stream);
    life_fill(block, BYTES, value, stream);
    return block;
}

/* ---- freed during the capture --------------------------------------------------------------- */

/* Freed by the capturing thread, on the stream that captures: the graph may refer to it, and this
 * one does. It stays until the graph is over. */
static void freed_inside_and_referred_to(void **state)
{
    (void)state;
    steps_start("bin_blocks:0", NULL);
    unsigned char *weights = ordinary_block(ORIGIN, 1);
    unsigned char *result = ordinary_block(ORIGIN, 2);
    capture_begin(ORIGIN, NULL);
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)result, (CUdeviceptr)weights + 64, MIB, ORIGIN),
                     CUDA_SUCCESS);
    assert_ok(tnr_free(weights));
    assert_error(tnr_free(weights), TNR_ERR_NOT_LIVE, NULL);
    recorded graph = capture_end(ORIGIN);
    tnr_graph_info info = graph_info(graph.number);
    assert_int_equal(info.kept_blocks, 2);
    assert_int_equal(info.kept_bytes, 2 * BYTES);
    assert_false(is_back(weights, ORIGIN));
    simcuda_run(UINT64_MAX);
    assert_false(is_back(weights, ORIGIN));
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(result, MIB, 1);
    recorded_destroy(&graph);
    steps_settle();
    assert_true(is_back(weights, ORIGIN));
    assert_ok(tnr_free(result));
    check_all_given_back();
}

/* The same, and the graph does not refer to it: back with the capture's end, not before. */
static void freed_inside_and_not_referred_to(void **state)
{
    (void)state;
    steps_start("bin_blocks:0", NULL);
    unsigned char *block = ordinary_block(ORIGIN, 1);
    capture_begin(ORIGIN, NULL);
    (void)captured_block(ORIGIN, 2);
    assert_ok(tnr_free(block));
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.blocks_retired, 1); /* freed, and waiting */
    recorded graph = capture_end(ORIGIN);
    assert_int_equal(graph_info(graph.number).kept_blocks, 0);
    assert_true(is_back(block, ORIGIN));
    recorded_destroy(&graph);
}

/* Freed by a thread that captures, on a stream that does not. */
static void another_streams_block_freed_inside(void **state)
{
    (void)state;
    steps_start("cross_stream:off,bin_blocks:0", NULL);
    unsigned char *block = ordinary_block(OUTSIDE, 1);
    order_after(ORIGIN, OUTSIDE);
    capture_begin(ORIGIN, NULL);
    life_fill(block, MIB, 3, ORIGIN);
    assert_ok(tnr_free(block));
    unsigned char *next = ordinary_block(OUTSIDE, 4); /* another thread could do so */
    assert_false(is_overlap(next, BYTES, block, BYTES));
    recorded graph = capture_end(ORIGIN);
    assert_int_equal(graph_info(graph.number).kept_blocks, 1);
    recorded_launch(&graph, ORIGIN);
    assert_false(is_back(block, OUTSIDE));
    recorded_destroy(&graph);
    steps_settle();
    assert_true(is_back(block, OUTSIDE));
    assert_ok(tnr_free(next));
    check_all_given_back();
}

/* When memory is short, a capture lets go of what was freed in it and what no node refers to. Of
 * the sixteen blocks that fit, one is the graph's and three are of nodes. */
static void memory_is_short_in_a_capture(void **state)
{
    (void)state;
    for (int is_spoilt = 0; is_spoilt < 2; is_spoilt++) {
        steps_start("bin_blocks:0", NULL);
        assert_ok(tnr_limit_set(16 * BYTES, 0));
        unsigned char *copied = ordinary_block(OUTSIDE, 1), *result = ordinary_block(OUTSIDE, 2);
        unsigned char *set = ordinary_block(OUTSIDE, 3);
        assert_int_equal(cuStreamSynchronize(OUTSIDE), CUDA_SUCCESS);
        capture_begin(ORIGIN, NULL);
        unsigned char *own = captured_block(ORIGIN, 4);
        assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)result, (CUdeviceptr)copied, BYTES, ORIGIN),
                         CUDA_SUCCESS);
        life_fill(set, BYTES, 5, ORIGIN);
        assert_ok(tnr_free(copied));
        assert_ok(tnr_free_sync(set));
        for (int i = 0; i < 40; i++) {
            unsigned char *block = unit_malloc(BYTES, OUTSIDE);
            assert_false(is_overlap(block, BYTES, copied, BYTES) ||
                         is_overlap(block, BYTES, set, BYTES) ||
                         is_overlap(block, BYTES, own, BYTES));
            life_fill(block, BYTES, 100 + i, OUTSIDE);
            assert_ok(i % 2 == 0 ? tnr_free(block) : tnr_free_sync(block));
        }
        if (is_spoilt) { /* no graph comes of it, so nothing needs to be read */
            assert_int_not_equal(cuStreamSynchronize(ORIGIN), CUDA_SUCCESS);
            for (int i = 0; i < 40; i++)
                assert_ok(tnr_free(ordinary_block(OUTSIDE, 200)));
            assert_ok(tnr_capture_abort(0, ORIGIN));
        } else {
            recorded graph = capture_end(ORIGIN);
            assert_int_equal(graph_info(graph.number).kept_blocks, 3);
            recorded_launch(&graph, ORIGIN);
            simcuda_run(UINT64_MAX);
            check_bytes(result, BYTES, 1);
            recorded_destroy(&graph);
        }
        assert_ok(tnr_free(own));
        assert_ok(tnr_free(result));
        steps_settle();
        check_all_given_back();
        if (!is_spoilt)
            assert_int_equal(steps_stop(state), 0);
    }
}

typedef struct freeing {
    void *block, *next;
    tnr_status status;
} freeing;

static void *free_and_ask(void *of)
{
    freeing *self = of;
    self->status = tnr_free(self->block);
    if (self->status == TNR_OK)
        self->status = tnr_malloc(&self->next, BYTES, 0, OUTSIDE);
    return NULL;
}

/* A thread that has nothing to do with the capture gets its own memory back at once. */
static void another_thread_is_not_held_up(void **state)
{
    (void)state;
    pthread_t thread;
    steps_start("bin_blocks:0", NULL);
    freeing other = {.block = ordinary_block(OUTSIDE, 1)};
    capture_begin(ORIGIN, NULL);
    unsigned char *own = captured_block(ORIGIN, 2);
    assert_int_equal(pthread_create(&thread, NULL, free_and_ask, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(other.status, TNR_OK);
    assert_ptr_equal(other.next, other.block);
    assert_ok(tnr_free(own));
    recorded graph = capture_end(ORIGIN);
    recorded_destroy(&graph);
    assert_ok(tnr_free(other.next));
    check_all_given_back();
}

/* Uses of an ordinary block by the capture: the graph refers to it, even if no node shows it. */
static void a_use_that_no_node_shows(void **state)
{
    (void)state;
    steps_start("bin_blocks:0", NULL);
    unsigned char *block = ordinary_block(OUTSIDE, 1);
    unsigned char *streamed = ordinary_block(OUTSIDE, 1);
    simcuda_run(UINT64_MAX);
    capture_begin(ORIGIN, NULL);
    assert_ok(tnr_record_use(block + 100, ORIGIN));
    assert_ok(tnr_record_stream(streamed + 100, ORIGIN));
    recorded graph = capture_end(ORIGIN);
    assert_int_equal(graph_info(graph.number).kept_blocks, 2);
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(streamed));
    steps_settle();
    assert_false(is_back(block, OUTSIDE));
    assert_false(is_back(streamed, OUTSIDE));
    recorded_destroy(&graph);
    check_all_given_back();
}

/* ---- freed after the capture ---------------------------------------------------------------- */

/* A pool whose freed block a graph still refers to is not destroyed before the graph. */
static void a_pool_that_a_graph_refers_to(void **state)
{
    (void)state;
    steps_start("bin_blocks:0", NULL);
    tnr_pool pool = NULL;
    void *weights = NULL;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&weights, pool, BYTES, 0, OUTSIDE));
    unsigned char *result = ordinary_block(ORIGIN, 2);
    capture_begin(ORIGIN, NULL);
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)result, (CUdeviceptr)weights, MIB, ORIGIN),
                     CUDA_SUCCESS);
    recorded graph = capture_end(ORIGIN);
    assert_ok(tnr_free(weights));
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "1 freed block");
    assert_int_equal(graph_info(graph.number).kept_blocks, 2);
    recorded_destroy(&graph);
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_pool_destroy(pool));
    assert_ok(tnr_free(result));
    check_all_given_back();
}

/* Experiment 5: memory freed outside while a graph refers to it. */
static void freed_outside_while_a_graph_refers_to_it(void **state)
{
    (void)state;
    steps_start("bin_blocks:0", NULL);
    unsigned char *weights = ordinary_block(OUTSIDE, 1);
    order_after(ORIGIN, OUTSIDE);
    capture_begin(ORIGIN, NULL);
    unsigned char *own = captured_block(ORIGIN, 2);
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)own, (CUdeviceptr)weights, BYTES, ORIGIN),
                     CUDA_SUCCESS);
    recorded first = capture_end(ORIGIN);
    capture_begin(ORIGIN, NULL);
    life_fill(weights, 100, 1, ORIGIN);
    recorded second = capture_end(ORIGIN);
    assert_ok(tnr_free(weights));
    for (int round = 0; round < 3; round++) {
        assert_false(is_back(weights, OUTSIDE));
        recorded_launch(&first, ORIGIN);
        simcuda_run(UINT64_MAX);
        check_bytes(own, BYTES, 1);
    }
    assert_ok(tnr_trim(NULL, 0, 0));
    recorded_launch(&first, ORIGIN);
    recorded_destroy(&first);
    steps_settle();
    assert_false(is_back(weights, OUTSIDE)); /* the second one still refers to it */
    recorded_launch(&second, ORIGIN);
    recorded_destroy(&second);
    steps_settle();
    assert_true(is_back(weights, OUTSIDE));
    assert_ok(tnr_free(own));
    check_all_given_back();
}

/* Memory of ordinary blocks is not moved or given back from under a graph. */
static void pressure_does_not_take_it(void **state)
{
    (void)state;
    void *none;
    steps_start("bin_blocks:0", "MEMORY=64M");
    unsigned char *weights = ordinary_block(ORIGIN, 1);
    unsigned char *result = ordinary_block(ORIGIN, 2);
    capture_begin(ORIGIN, NULL);
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)result, (CUdeviceptr)weights, BYTES, ORIGIN),
                     CUDA_SUCCESS);
    unsigned char *inside = captured_block(ORIGIN, 3);
    assert_ok(tnr_free(inside));
    recorded graph = capture_end(ORIGIN);
    assert_ok(tnr_free(weights));
    assert_error(tnr_malloc(&none, 60 * MIB, 0, ORIGIN), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_ok(tnr_trim(NULL, 0, 0));
    unsigned char *others = unit_malloc(32 * MIB, OUTSIDE);
    life_fill(others, 32 * MIB, 9, OUTSIDE);
    simcuda_run(UINT64_MAX);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(result, BYTES, 1);
    check_bytes(inside, BYTES, 3);
    check_bytes(others, 32 * MIB, 9);
    assert_ok(tnr_free(others));
    assert_ok(tnr_free(result));
    recorded_destroy(&graph);
    check_all_given_back();
}

/* Kernel nodes too, in both forms of their parameters. */
static void kernel_run(void *const *params)
{
    unsigned char *at = *(unsigned char *const *)params[0];
    at[0]++;
}

static size_t kernel_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    if (capacity > 0)
        out[0] = (simcuda_access){*(const CUdeviceptr *)params[0], 1, 1};
    return 1;
}

static void kernels_refer_to_it(void **state)
{
    (void)state;
    static const char image[] = "image";
    static const size_t sizes[] = {sizeof(CUdeviceptr)};
    CUmodule module;
    CUfunction function;
    for (int packed = 0; packed < 2; packed++) {
        steps_start("bin_blocks:0", NULL);
        assert_int_equal(simcuda_kernel_register("touch", 1, sizes, kernel_run, kernel_accesses),
                         0);
        assert_int_equal(cuModuleLoadData(&module, image), CUDA_SUCCESS);
        assert_int_equal(cuModuleGetFunction(&function, module, "touch"), CUDA_SUCCESS);
        unsigned char *block = ordinary_block(ORIGIN, 40);
        CUdeviceptr inside = (CUdeviceptr)block + MIB + 16;
        size_t bytes = sizeof(inside);
        void *array[] = {&inside};
        void *packing[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &inside, CU_LAUNCH_PARAM_BUFFER_SIZE,
                           &bytes, CU_LAUNCH_PARAM_END};
        capture_begin(ORIGIN, NULL);
        assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, ORIGIN,
                                        packed ? NULL : array, packed ? packing : NULL),
                         CUDA_SUCCESS);
        recorded graph = capture_end(ORIGIN);
        assert_int_equal(graph_info(graph.number).kept_blocks, 1);
        assert_ok(tnr_free(block));
        assert_false(is_back(block, ORIGIN));
        recorded_launch(&graph, ORIGIN);
        recorded_launch(&graph, ORIGIN);
        simcuda_run(UINT64_MAX);
        assert_int_equal(block[MIB + 16], 42);
        recorded_destroy(&graph);
        steps_settle();
        assert_true(is_back(block, ORIGIN));
        assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
        check_all_given_back();
        if (packed == 0)
            assert_int_equal(steps_stop(state), 0);
    }
}

/* ---- blocks that outlive their capture ------------------------------------------------------ */

static void outputs_outlive_the_graph(void **state)
{
    (void)state;
    steps_start("bin_blocks:0", NULL);
    capture_begin(ORIGIN, NULL);
    unsigned char *scratch = captured_block(ORIGIN, 1);
    unsigned char *output = captured_block(ORIGIN, 5);
    tnr_pool pool = pool_of(output);
    assert_ok(tnr_free(scratch));
    recorded graph = capture_end(ORIGIN);
    recorded_launch(&graph, ORIGIN);
    recorded_destroy(&graph);
    steps_settle();
    assert_false(graph_is_known(graph.number));
    assert_true(pool_is_there(pool)); /* for the output */
    check_bytes(output, BYTES, 5);
    life_fill(output, BYTES, 6, ORIGIN);
    assert_ok(tnr_record_use(output, BRANCH));
    life_fill(output, 1, 6, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(output, BYTES, 6);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, output));
    assert_ptr_equal(info.stream, ORIGIN);
    assert_ok(tnr_free(output));
    steps_settle();
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

/* Freed after the capture, before the graph is over: nobody else gets it, and replays are the
 * same. */
static void outputs_freed_while_the_graph_lives(void **state)
{
    (void)state;
    steps_start("bin_blocks:0", NULL);
    capture_begin(ORIGIN, NULL);
    unsigned char *output = captured_block(ORIGIN, 5);
    tnr_pool pool = pool_of(output);
    recorded graph = capture_end(ORIGIN);
    life_fill(output, MIB, 1, BRANCH);
    assert_ok(tnr_record_use(output, BRANCH));
    assert_ok(tnr_free(output));
    assert_false(is_back(output, ORIGIN));
    unsigned char *strangers = ordinary_block(OUTSIDE, 8);
    assert_false(is_overlap(strangers, BYTES, output, BYTES));
    recorded_launch(&graph, ORIGIN); /* after BRANCH's use, or it races */
    recorded_launch(&graph, OTHER);
    simcuda_run(UINT64_MAX);
    check_bytes(output, BYTES, 5);
    check_bytes(strangers, BYTES, 8);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_true(pool_is_there(pool));
    assert_int_equal(pool_stats(pool).allocation[TNR_WORLD_ALL].current, 0);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    recorded_destroy(&graph);
    assert_ok(tnr_free(strangers));
    check_all_given_back();
}

/* An output of the first graph that the second one refers to: captured, launched, and freed while a
 * stream outside still uses it. The second keeps it. */
static unsigned char *held_output(recorded *first, recorded *second)
{
    capture_begin(ORIGIN, NULL);
    unsigned char *output = captured_block(ORIGIN, 5);
    *first = capture_end(ORIGIN);
    recorded_launch(first, ORIGIN);
    capture_begin(BRANCH, NULL);
    life_fill(output, BYTES, 6, BRANCH);
    *second = capture_end(BRANCH);
    order_after(OTHER, ORIGIN);
    life_gate_close(0, OTHER);
    life_fill(output, BYTES, 7, OTHER);
    assert_ok(tnr_record_use(output, OTHER));
    assert_ok(tnr_free(output));
    return output;
}

/* A launch of the first graph writes to the block, so it is ordered after the use, though the block
 * waits in no list. In tnri_collect_order_after, tnri_holds_order_after left out: a race. */
static void a_launch_over_what_another_graph_keeps(void **state)
{
    (void)state;
    recorded first;
    recorded second;
    steps_start("bin_blocks:0", NULL);
    unsigned char *output = held_output(&first, &second);
    recorded_launch(&first, ORIGIN);
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    assert_int_equal(simcuda_races(), 0);
    check_bytes(output, BYTES, 5);
    recorded_destroy(&first);
    recorded_destroy(&second);
    check_all_given_back();
}

/* What a launch that cannot be ordered says: the driver's error is the driver's, and only a capture
 * is called one. */
static void a_launch_says_what_was_in_its_way(void **state)
{
    (void)state;
    recorded first;
    recorded second;
    steps_start("bin_blocks:0", NULL);
    (void)held_output(&first, &second);
    simcuda_fail("cuStreamWaitEvent", 1, 1, CUDA_ERROR_UNKNOWN);
    assert_error(tnr_graph_launch(first.number, first.exec, ORIGIN), TNR_ERR_DRIVER,
                 "cuStreamWaitEvent");
    simcuda_fail_clear();
    assert_int_equal(graph_info(first.number).launches, 1);
    life_gate_open(0);
    recorded_launch(&first, ORIGIN);
    recorded_destroy(&first);
    recorded_destroy(&second);
    steps_settle();
    check_all_given_back();
}

/* The same where it is a capture. A fence for what tnr_free_sync has freed can be made beside one;
 * what a graph keeps of it waits for the whole context, which cannot be waited for. */
static void a_launch_beside_a_capture(void **state)
{
    (void)state;
    for (int held = 0; held < 2; held++) {
        steps_start("bin_blocks:0", NULL);
        capture_begin(ORIGIN, NULL);
        unsigned char *output = captured_block(ORIGIN, 5);
        recorded first = capture_end(ORIGIN);
        recorded_launch(&first, ORIGIN);
        recorded second = {0};
        if (held) {
            capture_begin(BRANCH, NULL);
            life_fill(output, BYTES, 6, BRANCH);
            second = capture_end(BRANCH);
        }
        assert_ok(tnr_free_sync(output));
        capture_begin(BRANCH, NULL);
        if (held)
            assert_error(tnr_graph_launch(first.number, first.exec, ORIGIN), TNR_ERR_CAPTURE,
                         "while a capture is under way");
        else
            recorded_launch(&first, ORIGIN);
        assert_int_equal(capture_status(BRANCH), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        recorded third = capture_end(BRANCH);
        recorded_launch(&first, ORIGIN);
        recorded_destroy(&first);
        if (held)
            recorded_destroy(&second);
        recorded_destroy(&third);
        steps_settle();
        check_all_given_back();
        if (held == 0)
            assert_int_equal(steps_stop(state), 0);
    }
}

/* Why the retirement of a freed output cannot go on, when nothing holds it any more. */
typedef enum halted { BY_A_CAPTURE, BY_A_HOST_FUNCTION, BY_THE_DRIVER, HALTED_COUNT } halted;

static void CUDA_CB free_in_host_function(void *block)
{
    if (tnr_free(block) != TNR_OK)
        abort();
}

/* Frees the output so that the end of BRANCH's use cannot be marked. */
static void output_halt(unsigned char *output, halted why)
{
    void *none;
    if (why == BY_A_HOST_FUNCTION) {
        assert_int_equal(cuLaunchHostFunc(OTHER, free_in_host_function, output), CUDA_SUCCESS);
        assert_int_equal(cuStreamSynchronize(OTHER), CUDA_SUCCESS);
        return;
    }
    capture_begin(OTHER, NULL);
    if (why == BY_A_CAPTURE)
        order_after(BRANCH, OTHER);
    assert_ok(tnr_free(output));
    if (why == BY_THE_DRIVER)
        simcuda_fail("cuEventRecord", 1, 1, CUDA_ERROR_UNKNOWN);
    /* No node refers to the output, so the shortage lets go of it. */
    assert_error(tnr_malloc(&none, 64 * MIB, 0, OUTSIDE), TNR_ERR_OUT_OF_MEMORY, NULL);
    simcuda_fail_clear();
    if (why == BY_A_CAPTURE)
        order_after(OTHER, BRANCH);
    recorded empty = capture_end(OTHER);
    recorded_destroy(&empty);
}

/* The output is in no list of the retired, and the launch comes after BRANCH's use all the same. */
static void a_launch_over_what_cannot_go_on(void **state)
{
    (void)state;
    for (halted why = 0; why < HALTED_COUNT; why++) {
        steps_start("bin_blocks:0", "MEMORY=32M");
        capture_begin(ORIGIN, NULL);
        unsigned char *output = captured_block(ORIGIN, 5);
        recorded graph = capture_end(ORIGIN);
        recorded_launch(&graph, ORIGIN);
        order_after(BRANCH, ORIGIN);
        life_gate_close(0, BRANCH);
        life_fill(output, BYTES, 6, BRANCH);
        assert_ok(tnr_record_stream(output, BRANCH));
        output_halt(output, why);
        recorded_launch(&graph, ORIGIN);
        life_gate_open(0);
        simcuda_run(UINT64_MAX);
        assert_int_equal(simcuda_races(), 0);
        check_bytes(output, BYTES, 5);
        recorded_destroy(&graph);
        steps_settle();
        check_all_given_back();
        if (why + 1 < HALTED_COUNT)
            assert_int_equal(steps_stop(state), 0);
    }
}

/* ---- fences beside a capture ---------------------------------------------------------------- */

/* Where work with a block is held back when tnr_free_sync frees it. */
typedef enum held_back { BESIDE, BEFORE, DRAWN_IN, AFTER_AN_END_UNSEEN, HELD_BACKS } held_back;

typedef struct turning {
    unsigned char *block;
    CUcontext context;
    int is_back_early, is_back;
} turning;

/* 1 if the memory comes back to OTHER, of which it is, within so many allocations. */
static int comes_back(const turning *self, int most)
{
    void *blocks[16];
    int count = 0, is_back = 0;
    for (; count < most && !is_back; count++) {
        simcuda_run(UINT64_MAX);
        blocks[count] = unit_malloc(BYTES, OTHER); /* the first one fences what waits for that */
        is_back = blocks[count] == self->block;
        life_fill(blocks[count], BYTES, count, OTHER);
    }
    while (count > 0)
        assert_ok(tnr_free(blocks[--count]));
    return is_back;
}

/* A thread that takes no part in the capture. */
static void *turn(void *of)
{
    turning *self = of;
    assert_int_equal(cuCtxSetCurrent(self->context), CUDA_SUCCESS);
    assert_ok(tnr_free_sync(self->block));
    self->is_back_early = comes_back(self, 4);
    life_gate_open(0);
    self->is_back = comes_back(self, 8);
    return NULL;
}

/* A capture of ORIGIN that the driver ends, and Tenure does not see it. */
static recorded capture_unseen(void)
{
    recorded graph = {0};
    capture_begin(ORIGIN, NULL);
    assert_int_equal(cuStreamEndCapture(ORIGIN, &graph.cuda), CUDA_SUCCESS);
    return graph;
}

/* A fence waits for a stream that captures up to the beginning of its capture, and for every other
 * one up to the fence. If one was drawn into the capture, its work before that has no mark: then
 * there is no fence before the capture's end. */
static void a_fence_beside_a_capture(void **state)
{
    (void)state;
    for (int where = 0; where < HELD_BACKS; where++) {
        pthread_t thread;
        steps_start("bin_blocks:0,cross_stream:off,reuse:poll", NULL);
        turning self = {.block = unit_malloc(BYTES, OTHER)};
        assert_int_equal(cuCtxGetCurrent(&self.context), CUDA_SUCCESS);
        tnr_stream user = where == BESIDE || where == DRAWN_IN ? BRANCH : ORIGIN;
        tnr_stream origin = where == AFTER_AN_END_UNSEEN ? OUTSIDE : ORIGIN;
        assert_ok(tnr_stream_created(0, user));
        recorded unseen = {0};
        if (where == AFTER_AN_END_UNSEEN) {
            capture_begin(origin, NULL);
            unseen = capture_unseen();
        }
        life_gate_close(0, user);
        life_fill(self.block, BYTES, 3, user);
        if (where != AFTER_AN_END_UNSEEN)
            capture_begin(origin, NULL);
        if (where == DRAWN_IN)
            order_after(BRANCH, ORIGIN);
        assert_int_equal(pthread_create(&thread, NULL, turn, &self), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(self.is_back_early, 0);
        assert_int_equal(self.is_back, where != DRAWN_IN);
        if (where == DRAWN_IN)
            order_after(ORIGIN, BRANCH);
        recorded graph = capture_end(origin);
        recorded_destroy(&graph);
        recorded_destroy(&unseen);
        assert_int_equal(comes_back(&self, 16), 1);
        steps_settle();
        check_all_given_back();
        if (where + 1 < HELD_BACKS)
            assert_int_equal(steps_stop(state), 0);
    }
}

/* ---- blocks whose stream cannot be named ---------------------------------------------------- */

/* A thread with its per-thread default stream, which no other thread can name. */
typedef struct stranger {
    recorded graph;        /* captured on it */
    unsigned char *output; /* live after that */
    pthread_barrier_t turn;
    int is_wrong;
} stranger;

/* Takes part in a capture that the main thread ends, and uses the block on its stream later. */
static void *stranger_main(void *argument)
{
    stranger *self = argument;
    void *block = NULL;
    CUcontext context = NULL;
    self->is_wrong |= cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS;
    self->is_wrong |= cuCtxSetCurrent(context) != CUDA_SUCCESS;
    self->is_wrong |= tnr_stream_created(0, CU_STREAM_PER_THREAD) != TNR_OK;
    pthread_barrier_wait(&self->turn); /* the capture has begun */
    pthread_barrier_wait(&self->turn);
    order_after(CU_STREAM_PER_THREAD, ORIGIN);
    self->is_wrong |= tnr_malloc(&block, BYTES, 0, CU_STREAM_PER_THREAD) != TNR_OK;
    self->output = block;
    if (block != NULL)
        life_fill(block, BYTES, 5, CU_STREAM_PER_THREAD);
    order_after(ORIGIN, CU_STREAM_PER_THREAD);
    pthread_barrier_wait(&self->turn); /* the capture ends, the graph is launched */
    pthread_barrier_wait(&self->turn);
    order_after(CU_STREAM_PER_THREAD, OUTSIDE);
    life_gate_close(0, CU_STREAM_PER_THREAD);
    life_fill(block, BYTES, 6, CU_STREAM_PER_THREAD); /* its own stream: no use to record */
    pthread_barrier_wait(&self->turn);                /* the block is freed, and waited for */
    pthread_barrier_wait(&self->turn);
    self->is_wrong |= cuDevicePrimaryCtxRelease(0) != CUDA_SUCCESS;
    return NULL;
}

static void turn_pass(stranger *self)
{
    pthread_barrier_wait(&self->turn);
}

/* The free of such a block waits for all streams, also if a graph kept it first. In
 * tnri_retire_freed, `|| uses->is_orphaned` left out: it was over at once with `is_held`; the same
 * in tnri_free_ordered: without. */
static void a_block_without_a_home(void **state)
{
    (void)state;
    for (int is_held = 0; is_held < 2; is_held++) {
        pthread_t thread;
        stranger self = {.is_wrong = 0};
        steps_start("bin_blocks:0", NULL);
        tnr_pool pool = graph_pool("shared");
        assert_int_equal(pthread_barrier_init(&self.turn, NULL, 2), 0);
        assert_int_equal(pthread_create(&thread, NULL, stranger_main, &self), 0);
        turn_pass(&self);
        capture_begin(ORIGIN, pool);
        turn_pass(&self);
        turn_pass(&self);
        self.graph = capture_end(ORIGIN);
        recorded_launch(&self.graph, OUTSIDE);
        recorded keeper = {0};
        if (is_held) {
            capture_begin(BRANCH, NULL);
            life_fill(self.output, BYTES, 7, BRANCH);
            keeper = capture_end(BRANCH);
        }
        turn_pass(&self);
        turn_pass(&self);
        assert_int_equal(self.is_wrong, 0);
        assert_ok(tnr_free(self.output));
        if (is_held) {
            recorded_destroy(&keeper);
            simcuda_run(UINT64_MAX); /* up to the gate */
            assert_ok(tnr_trim(NULL, SIZE_MAX, 0));
            assert_false(graph_is_known(keeper.number));
        }
        assert_int_equal(pool_stats(pool).blocks_retired, 1);
        life_gate_open(0);
        turn_pass(&self);
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)pthread_barrier_destroy(&self.turn);
        recorded_launch(&self.graph, ORIGIN); /* behind the stranger's use */
        simcuda_run(UINT64_MAX);
        recorded_destroy(&self.graph);
        steps_settle();
        assert_ok(tnr_pool_destroy(pool));
        check_all_given_back();
        if (!is_held)
            assert_int_equal(steps_stop(state), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(freed_inside_and_referred_to, steps_stop),
        cmocka_unit_test_teardown(a_block_without_a_home, steps_stop),
        cmocka_unit_test_teardown(freed_inside_and_not_referred_to, steps_stop),
        cmocka_unit_test_teardown(another_streams_block_freed_inside, steps_stop),
        cmocka_unit_test_teardown(memory_is_short_in_a_capture, steps_stop),
        cmocka_unit_test_teardown(another_thread_is_not_held_up, steps_stop),
        cmocka_unit_test_teardown(a_use_that_no_node_shows, steps_stop),
        cmocka_unit_test_teardown(a_pool_that_a_graph_refers_to, steps_stop),
        cmocka_unit_test_teardown(freed_outside_while_a_graph_refers_to_it, steps_stop),
        cmocka_unit_test_teardown(pressure_does_not_take_it, steps_stop),
        cmocka_unit_test_teardown(kernels_refer_to_it, steps_stop),
        cmocka_unit_test_teardown(outputs_outlive_the_graph, steps_stop),
        cmocka_unit_test_teardown(outputs_freed_while_the_graph_lives, steps_stop),
        cmocka_unit_test_teardown(a_launch_over_what_another_graph_keeps, steps_stop),
        cmocka_unit_test_teardown(a_launch_says_what_was_in_its_way, steps_stop),
        cmocka_unit_test_teardown(a_launch_beside_a_capture, steps_stop),
        cmocka_unit_test_teardown(a_launch_over_what_cannot_go_on, steps_stop),
        cmocka_unit_test_teardown(a_fence_beside_a_capture, steps_stop),
    };
    return steps_run(tests);
}
