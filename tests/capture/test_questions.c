/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver is asked in a capture that an engine begins and ends: the small graph of layers
 * that a program captures, replays a few times and drops, where each question counts.
 *
 * Seen to fail with these lines changed:
 *   a_block_takes_four_questions
 *     capture_is_over: without the look before the visit; hook_malloc: the stream asked twice
 *   a_node_takes_few_questions
 *     node_ask: the count asked first; tnri_graph_hold_all: with names; layout_get: nothing found
 *   a_look_that_fails
 *     capture_is_over: over as soon as the look fails
 */
#include "steps.h"

enum { LAYERS = 12, PARAMS = 3 };

static CUmodule module;
static CUfunction function;

static void kernel_run(void *const *params)
{
    (void)params;
}

static size_t kernel_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    if (capacity > 0)
        out[0] = (simcuda_access){*(const CUdeviceptr *)params[1], 1, 1};
    return 1;
}

static void start(void)
{
    static const char image[] = "image";
    static const size_t sizes[PARAMS] = {sizeof(int), sizeof(CUdeviceptr), 64};
    steps_start("bin_blocks:0", NULL);
    assert_int_equal(simcuda_kernel_register("layer", PARAMS, sizes, kernel_run, kernel_accesses),
                     0);
    assert_int_equal(cuModuleLoadData(&module, image), CUDA_SUCCESS);
    assert_int_equal(cuModuleGetFunction(&function, module, "layer"), CUDA_SUCCESS);
}

static int stop(void **state)
{
    assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
    return steps_stop(state);
}

static void launch(void *block)
{
    int number = 0;
    CUdeviceptr at = (CUdeviceptr)block;
    char others[64] = "";
    void *params[] = {&number, &at, others};
    assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, ORIGIN, params, NULL),
                     CUDA_SUCCESS);
}

static tnr_graph attach(tnr_pool pool)
{
    tnr_graph graph = 0;
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = pool;
    assert_int_equal(cuStreamBeginCapture(ORIGIN, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_ok(tnr_capture_attach(&graph, 0, ORIGIN, &options));
    return graph;
}

/* Each layer's block goes once the next layer has used it. */
static void layers_capture(void)
{
    void *last = NULL;
    for (int i = 0; i < LAYERS; i++) {
        void *block = NULL;
        assert_ok(tnr_malloc(&block, 4 * MIB, 0, ORIGIN));
        launch(block);
        if (last != NULL)
            assert_ok(tnr_free(last));
        last = block;
    }
    assert_ok(tnr_free(last));
}

/* Ends the capture, which gives a graph, and drops that. */
static void finish(tnr_graph number)
{
    CUgraph graph = NULL;
    assert_int_equal(cuStreamEndCapture(ORIGIN, &graph), CUDA_SUCCESS);
    assert_ok(tnr_capture_ended(number, TNR_CAPTURED_GRAPH));
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    steps_settle();
}

/* A graph as the one that is counted: then its pool has its memory. */
static tnr_pool pool_with_memory(void)
{
    tnr_pool pool = graph_pool("layers");
    tnr_graph graph = attach(pool);
    layers_capture();
    finish(graph);
    return pool;
}

/* Where the stream stands: before the allocation, and where it is served; at the free, whether the
 * capture goes on, and where the use ends. No context is entered, and no mode changed. */
static void a_block_takes_four_questions(void **state)
{
    (void)state;
    start();
    tnr_pool pool = pool_with_memory();
    tnr_graph graph = attach(pool);
    simcuda_calls_reset();
    layers_capture();
    assert_int_equal(simcuda_calls("cuStreamGetCaptureInfo_v3"), 4 * LAYERS);
    assert_int_equal(simcuda_calls("cuGraphNodeGetDependencies_v2"), LAYERS);
    assert_int_equal(simcuda_calls("cuLaunchKernel"), LAYERS);
    uint64_t others = simcuda_calls("cuStreamIsCapturing") +
                      simcuda_calls("cuThreadExchangeStreamCaptureMode") +
                      simcuda_calls("cuCtxPushCurrent_v2") + simcuda_calls("cuCtxPopCurrent_v2");
    assert_true(others < LAYERS); /* of the few misses */
    finish(graph);
    assert_ok(tnr_pool_destroy(pool));
}

/* At the end of the capture. */
static void a_node_takes_few_questions(void **state)
{
    (void)state;
    start();
    tnr_pool pool = pool_with_memory();
    tnr_graph graph = attach(pool);
    layers_capture();
    simcuda_calls_reset();
    finish(graph);
    assert_int_equal(simcuda_calls("cuGraphNodeGetType"), LAYERS);
    assert_int_equal(simcuda_calls("cuGraphKernelNodeGetParams_v2"), LAYERS);
    assert_int_equal(simcuda_calls("cuFuncGetParamInfo"), PARAMS + 1); /* of the one kernel */
    assert_int_equal(simcuda_calls("cuFuncGetName"), 0);
    assert_ok(tnr_pool_destroy(pool));
}

/* Where the look fails, as it does if no context is current, the stream is asked in the device's
 * context, and the capture goes on. */
static void a_look_that_fails(void **state)
{
    (void)state;
    start();
    tnr_graph graph = attach(NULL);
    void *block = NULL;
    assert_ok(tnr_malloc(&block, 4 * MIB, 0, ORIGIN));
    launch(block);
    simcuda_fail("cuStreamGetCaptureInfo_v3", 1, 0, CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(tnr_free(block));
    simcuda_fail_clear();
    assert_int_equal(graph_info(graph).is_capturing, 1);
    finish(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_block_takes_four_questions, stop),
        cmocka_unit_test_teardown(a_node_takes_few_questions, stop),
        cmocka_unit_test_teardown(a_look_that_fails, stop),
    };
    return steps_run(tests);
}
