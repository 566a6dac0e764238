/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes: where a capture begins and ends, by Tenure's calls or by the engine's own; what each call
 * refuses, with which words, and that a refused call has changed nothing.
 */
#include "steps.h"

#include <pthread.h>
#include <string.h>

/* ---- begin and end -------------------------------------------------------------------------- */

static void a_capture_has_a_pool_of_its_own(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    unsigned char *before = unit_malloc(MIB, ORIGIN);
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.name = "decoder step";
    assert_ok(tnr_capture_begin(0, ORIGIN, &options));
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    unsigned char *block = captured_block(ORIGIN, 7);
    tnr_pool pool = pool_of(block);
    assert_non_null(pool);
    assert_null(pool_of(before));
    assert_int_equal(pool_stats(pool).allocation[TNR_WORLD_ALL].current, 1);
    recorded graph = capture_end(ORIGIN);

    tnr_graph_info info = graph_info(graph.number);
    assert_string_equal(info.name, "decoder step");
    assert_int_equal(info.device, 0);
    assert_int_equal(info.is_private, 1);
    assert_ptr_equal(info.pool, pool);
    assert_int_equal(info.blocks, 1);
    assert_int_equal(info.bytes, 4 * MIB);
    assert_int_equal(info.reused, 0);
    assert_int_equal(info.kept_blocks, 0);
    assert_int_equal(info.launches, 0);

    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(block, 4 * MIB, 7);
    assert_int_equal(graph_info(graph.number).launches, 1);
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(before));
    recorded_destroy(&graph);
    steps_settle();
    assert_false(pool_is_there(pool));
    assert_false(graph_is_known(graph.number));
    check_all_given_back();
}

static void names_and_numbers(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    recorded graphs[3];
    for (int i = 0; i < 3; i++) {
        capture_begin(ORIGIN, NULL);
        graphs[i] = capture_end(ORIGIN);
        assert_int_equal(strncmp(graph_info(graphs[i].number).name, "graph ", 6), 0);
    }
    assert_true(graphs[0].number != graphs[1].number && graphs[1].number != graphs[2].number);
    tnr_graph last = graphs[2].number;
    for (int i = 0; i < 3; i++)
        recorded_destroy(&graphs[i]);
    steps_settle();
    capture_begin(ORIGIN, NULL);
    recorded next = capture_end(ORIGIN);
    assert_true(next.number > last); /* a number is never given again */
    recorded_destroy(&next);
    tnr_graph_info info = {.struct_bytes = 0};
    assert_error(tnr_graph_get(&info, next.number), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_error(tnr_graph_get(NULL, next.number), TNR_ERR_INVALID_ARGUMENT, NULL);
    info.struct_bytes = sizeof(info);
    assert_error(tnr_graph_get(&info, 0), TNR_ERR_INVALID_GRAPH, NULL);
    assert_error(tnr_graph_get(&info, next.number + 100), TNR_ERR_INVALID_GRAPH, NULL);
    check_all_given_back();
}

static void an_empty_capture(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    assert_ok(tnr_capture_begin(0, ORIGIN, NULL));
    void *none = &none;
    assert_ok(tnr_malloc(&none, 0, 0, ORIGIN));
    assert_null(none);
    recorded graph = capture_end(ORIGIN);
    assert_int_equal(graph_info(graph.number).blocks, 0);
    recorded_launch(&graph, ORIGIN);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* `graph` may be null: the graph is followed all the same. */
static void a_number_need_not_be_asked_for(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    capture_begin(ORIGIN, NULL);
    unsigned char *block = captured_block(ORIGIN, 1);
    tnr_pool pool = pool_of(block);
    assert_ok(tnr_free(block));
    tnr_cuda_graph cuda = NULL;
    assert_ok(tnr_capture_end(&cuda, NULL, 0, ORIGIN));
    steps_settle();
    assert_true(pool_is_there(pool));
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    steps_settle();
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

/* ---- what begin refuses --------------------------------------------------------------------- */

/* A call that must be refused, with no trace of it. */
static void check_begin_refused(int device, tnr_stream stream, const tnr_capture_options *options,
                                tnr_status status, const char *text)
{
    tnr_stats before = unit_stats();
    assert_error(tnr_capture_begin(device, stream, options), status, text);
    tnr_stats after = unit_stats();
    assert_int_equal(after.pools, before.pools);
    assert_int_equal(after.arenas, before.arenas);
    assert_int_equal(after.reserved_bytes.current, before.reserved_bytes.current);
}

static void begin_refuses_streams(void **state)
{
    (void)state;
    steps_start(NULL, "DEVICES=2");
    unsigned char *block = unit_malloc(MIB, ORIGIN);
    tnr_stream elsewhere = unit_stream(1);
    check_begin_refused(0, NULL, NULL, TNR_ERR_INVALID_STREAM, "legacy");
    check_begin_refused(0, (tnr_stream)1, NULL, TNR_ERR_INVALID_STREAM, "legacy");
    check_begin_refused(0, elsewhere, NULL, TNR_ERR_INVALID_STREAM, "device");
    check_begin_refused(7, ORIGIN, NULL, TNR_ERR_INVALID_DEVICE, "7");
    check_begin_refused(-1, ORIGIN, NULL, TNR_ERR_INVALID_DEVICE, "-1");
    assert_int_equal(capture_status(elsewhere), CU_STREAM_CAPTURE_STATUS_NONE);

    tnr_stream gone = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(tnr_stream_created(0, gone));
    assert_ok(tnr_stream_destroying(0, gone));
    assert_int_equal(cuStreamDestroy(gone), CUDA_SUCCESS);
    check_begin_refused(0, gone, NULL, TNR_ERR_INVALID_STREAM, "destroyed");
    simcuda_violations_clear(); /* of the stale handle, which is what was tried */

    capture_begin(ORIGIN, NULL);
    check_begin_refused(0, ORIGIN, NULL, TNR_ERR_CAPTURE, "captured already");
    order_after(BRANCH, ORIGIN);
    check_begin_refused(0, BRANCH, NULL, TNR_ERR_CAPTURE, "captured already");
    order_after(ORIGIN, BRANCH);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    recorded graph = capture_end(ORIGIN);
    recorded_destroy(&graph);

    steps_settle(); /* the driver lets go of the graph when it likes */

    /* One that the engine captures itself. */
    CUgraph own = NULL;
    assert_int_equal(cuStreamBeginCapture(OTHER, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    check_begin_refused(0, OTHER, NULL, TNR_ERR_CAPTURE, NULL);
    assert_int_equal(capture_status(OTHER), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(cuStreamEndCapture(OTHER, &own), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(own), CUDA_SUCCESS);
    assert_ok(tnr_free(block));
    check_all_given_back();
}

static void begin_refuses_options(void **state)
{
    (void)state;
    steps_start(NULL, "DEVICES=2");
    unsigned char *block = unit_malloc(MIB, ORIGIN);
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.struct_bytes = 0;
    check_begin_refused(0, ORIGIN, &options, TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    options.struct_bytes = sizeof(options) + 100;
    check_begin_refused(0, ORIGIN, &options, TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    options = (tnr_capture_options)TNR_CAPTURE_OPTIONS_INIT;
    options.mode = (tnr_capture_mode)7;
    check_begin_refused(0, ORIGIN, &options, TNR_ERR_INVALID_ARGUMENT, "mode");

    options = (tnr_capture_options)TNR_CAPTURE_OPTIONS_INIT;
    assert_ok(tnr_pool_create(&options.pool, 0, NULL));
    check_begin_refused(0, ORIGIN, &options, TNR_ERR_INVALID_POOL, "not a graph pool");
    assert_ok(tnr_pool_destroy(options.pool));
    check_begin_refused(0, ORIGIN, &options, TNR_ERR_INVALID_POOL, NULL);
    assert_ok(tnr_graph_pool_create(&options.pool, 1, NULL));
    check_begin_refused(0, ORIGIN, &options, TNR_ERR_INVALID_POOL, "device 1");
    assert_ok(tnr_pool_destroy(options.pool));
    options.pool = graph_pool("gone");
    assert_ok(tnr_pool_destroy(options.pool));
    check_begin_refused(0, ORIGIN, &options, TNR_ERR_INVALID_POOL, NULL);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_ok(tnr_free(block));
    check_all_given_back();
}

static void an_old_driver_has_no_captures(void **state)
{
    (void)state;
    steps_start(NULL, "VERSION=12020");
    tnr_graph number = 0;
    assert_error(tnr_capture_begin(0, ORIGIN, NULL), TNR_ERR_DRIVER_TOO_OLD, "12.3");
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_error(tnr_capture_attach(&number, 0, ORIGIN, NULL), TNR_ERR_DRIVER_TOO_OLD, "12.3");
    assert_ok(tnr_free(unit_malloc(MIB, ORIGIN)));
}

/* ---- what end and abort refuse -------------------------------------------------------------- */

/* An end that must be refused. The places for the graph hold those of the last capture, which the
 * caller still needs. */
static void check_end_refused(int device, tnr_stream stream, tnr_status status)
{
    tnr_cuda_graph cuda = (tnr_cuda_graph)&status;
    tnr_graph number = 77;
    assert_error(tnr_capture_end(&cuda, &number, device, stream), status, NULL);
    assert_ptr_equal(cuda, &status);
    assert_int_equal(number, 77);
    assert_error(tnr_capture_end(NULL, &number, device, stream), TNR_ERR_INVALID_ARGUMENT,
                 "tnr_capture_abort");
    assert_int_equal(number, 77);
}

static void end_and_abort_refuse(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    check_end_refused(0, ORIGIN, TNR_ERR_CAPTURE);
    check_end_refused(7, ORIGIN, TNR_ERR_INVALID_DEVICE);
    assert_error(tnr_capture_abort(0, ORIGIN), TNR_ERR_CAPTURE, NULL);
    capture_begin(ORIGIN, NULL);
    order_after(BRANCH, ORIGIN);
    unsigned char *block = captured_block(BRANCH, 3);
    /* Belongs to the capture, but it was not begun there. */
    check_end_refused(0, BRANCH, TNR_ERR_CAPTURE);
    assert_error(tnr_capture_abort(0, BRANCH), TNR_ERR_CAPTURE, NULL);
    check_end_refused(0, OUTSIDE, TNR_ERR_CAPTURE);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    order_after(ORIGIN, BRANCH);
    assert_ok(tnr_free(block));
    recorded graph = capture_end(ORIGIN);
    check_end_refused(0, ORIGIN, TNR_ERR_CAPTURE);
    recorded_destroy(&graph);
    check_all_given_back();
}

typedef struct ending {
    CUcontext context;
    tnr_status end, abort;
    int is_handle_kept;
} ending;

static void *end_elsewhere(void *of)
{
    ending *self = of;
    tnr_cuda_graph cuda = (tnr_cuda_graph)self;
    if (cuCtxSetCurrent(self->context) != CUDA_SUCCESS)
        return NULL;
    self->end = tnr_capture_end(&cuda, NULL, 0, ORIGIN);
    self->is_handle_kept = cuda == (tnr_cuda_graph)self;
    self->abort = tnr_capture_abort(0, ORIGIN);
    return NULL;
}

/* The driver ends a capture, with an error, if another thread tries to: Tenure does not let it. */
static void another_thread_cannot_end_it(void **state)
{
    (void)state;
    pthread_t thread;
    ending other = {NULL, TNR_OK, TNR_OK, 0};
    steps_start(NULL, NULL);
    assert_int_equal(cuCtxGetCurrent(&other.context), CUDA_SUCCESS);
    capture_begin(ORIGIN, NULL);
    unsigned char *block = captured_block(ORIGIN, 3);
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(other.end, TNR_ERR_CAPTURE);
    assert_true(other.is_handle_kept);
    assert_int_equal(other.abort, TNR_ERR_CAPTURE);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(tnr_free(block));
    recorded graph = capture_end(ORIGIN);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* ---- modes ---------------------------------------------------------------------------------- */

static void all_modes(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    for (int mode = 0; mode < 3; mode++) {
        tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
        options.mode = (tnr_capture_mode)mode;
        assert_ok(tnr_capture_begin(0, ORIGIN, &options));
        unsigned char *first = captured_block(ORIGIN, 1);
        assert_ok(tnr_free(first));
        unsigned char *second = captured_block(ORIGIN, 2 + mode);
        assert_ptr_equal(first, second);
        recorded graph = capture_end(ORIGIN);
        recorded_launch(&graph, ORIGIN);
        simcuda_run(UINT64_MAX);
        check_bytes(second, 4 * MIB, 2 + mode);
        assert_ok(tnr_free(second));
        recorded_destroy(&graph);
    }
    check_all_given_back();
}

/* ---- attach and ended ----------------------------------------------------------------------- */

static void engine_begin(tnr_stream stream)
{
    assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
}

static recorded engine_end(tnr_stream stream, tnr_graph number)
{
    recorded graph = {.number = number};
    assert_int_equal(cuStreamEndCapture(stream, &graph.cuda), CUDA_SUCCESS);
    assert_int_equal(cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0), CUDA_SUCCESS);
    return graph;
}

static void an_engine_captures_itself(void **state)
{
    (void)state;
    tnr_graph number = 0;
    steps_start(NULL, NULL);
    unsigned char *weights = unit_malloc(MIB, ORIGIN); /* which also announces the stream */
    life_fill(weights, MIB, 9, ORIGIN);
    engine_begin(ORIGIN);
    assert_ok(tnr_capture_attach(&number, 0, ORIGIN, NULL));
    assert_int_equal(graph_info(number).is_capturing, 1);
    unsigned char *block = captured_block(ORIGIN, 5);
    assert_non_null(pool_of(block));
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)block, (CUdeviceptr)weights, MIB, ORIGIN),
                     CUDA_SUCCESS);
    assert_error(tnr_capture_ended(number, NULL), TNR_ERR_CAPTURE, NULL); /* it has not */
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    recorded graph = engine_end(ORIGIN, number);
    assert_ok(tnr_capture_ended(number, graph.cuda));
    tnr_graph_info info = graph_info(number);
    assert_int_equal(info.is_capturing, 0);
    assert_int_equal(info.blocks, 1);
    assert_int_equal(info.kept_blocks, 1); /* the weights */
    assert_int_equal(info.kept_bytes, MIB);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(block, MIB, 9);
    check_bytes(block + MIB, 3 * MIB, 5);
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(weights));
    recorded_destroy(&graph);
    check_all_given_back();
}

static void attach_and_ended_refuse(void **state)
{
    (void)state;
    tnr_graph number = 0, second = 0;
    steps_start(NULL, "DEVICES=2");
    assert_ok(tnr_stream_created(0, ORIGIN));
    assert_error(tnr_capture_attach(&number, 0, ORIGIN, NULL), TNR_ERR_CAPTURE, "not being");
    assert_error(tnr_capture_attach(&number, 0, NULL, NULL), TNR_ERR_INVALID_STREAM, NULL);
    assert_error(tnr_capture_attach(&number, 9, ORIGIN, NULL), TNR_ERR_INVALID_DEVICE, NULL);
    engine_begin(ORIGIN);
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.struct_bytes = 1;
    assert_error(tnr_capture_attach(&number, 0, ORIGIN, &options), TNR_ERR_INVALID_ARGUMENT,
                 "struct_bytes");
    assert_ok(tnr_capture_attach(&number, 0, ORIGIN, NULL));
    assert_error(tnr_capture_attach(&second, 0, ORIGIN, NULL), TNR_ERR_CAPTURE, "already");
    order_after(BRANCH, ORIGIN);
    assert_error(tnr_capture_attach(&second, 0, BRANCH, NULL), TNR_ERR_CAPTURE, "already");
    order_after(ORIGIN, BRANCH);
    assert_error(tnr_capture_ended(number + 50, NULL), TNR_ERR_INVALID_GRAPH, NULL);
    /* Who begins a capture ends it: this one is the engine's. */
    tnr_cuda_graph cuda = NULL;
    assert_error(tnr_capture_end(&cuda, NULL, 0, ORIGIN), TNR_ERR_CAPTURE, NULL);
    assert_error(tnr_capture_abort(0, ORIGIN), TNR_ERR_CAPTURE, NULL);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    recorded graph = engine_end(ORIGIN, number);
    assert_ok(tnr_capture_ended(number, graph.cuda));
    recorded_destroy(&graph);
    check_all_given_back();
}

/* The engine's capture came to nothing. */
static void ended_with_nothing(void **state)
{
    (void)state;
    tnr_graph number = 0;
    CUgraph none = NULL;
    steps_start(NULL, NULL);
    assert_ok(tnr_stream_created(0, ORIGIN));
    engine_begin(ORIGIN);
    assert_ok(tnr_capture_attach(&number, 0, ORIGIN, NULL));
    unsigned char *block = captured_block(ORIGIN, 5);
    tnr_pool pool = pool_of(block);
    order_after(BRANCH, ORIGIN); /* and never joins again */
    life_fill(block, MIB, 1, BRANCH);
    assert_int_equal(cuStreamEndCapture(ORIGIN, &none), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_ok(tnr_capture_ended(number, NULL));
    assert_false(graph_is_known(number));
    assert_true(pool_is_there(pool)); /* its block is live */
    life_fill(block, 4 * MIB, 6, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(block, 4 * MIB, 6);
    assert_ok(tnr_free(block));
    steps_settle();
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

/* The engine does not tell. Tenure finds out, and keeps what was freed meanwhile for the graph. */
static void an_end_that_is_not_told(void **state)
{
    (void)state;
    tnr_graph number = 0;
    steps_start(NULL, NULL);
    unsigned char *weights = unit_malloc(4 * MIB, ORIGIN);
    engine_begin(ORIGIN);
    assert_ok(tnr_capture_attach(&number, 0, ORIGIN, NULL));
    unsigned char *block = captured_block(ORIGIN, 5);
    tnr_pool pool = pool_of(block);
    life_fill(weights, 4 * MIB, 8, ORIGIN);
    assert_ok(tnr_free(weights)); /* the graph writes there */
    assert_ok(tnr_free(block));
    recorded graph = engine_end(ORIGIN, number);
    steps_settle();
    assert_int_equal(graph_info(number).is_capturing, 0);
    assert_true(pool_is_there(pool));
    unsigned char *next = unit_malloc(4 * MIB, ORIGIN);
    assert_false(is_overlap(next, 4 * MIB, weights, 4 * MIB));
    life_fill(next, 4 * MIB, 1, ORIGIN);
    recorded_launch(&graph, BRANCH);
    simcuda_run(UINT64_MAX);
    check_bytes(next, 4 * MIB, 1);
    assert_ok(tnr_free(next));
    recorded_destroy(&graph);
    steps_settle();
    assert_false(graph_is_known(number));
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

/* The same, told late: what was freed meanwhile, and a node refers to, is kept all the same. What
 * none refers to is let go. */
static void an_end_that_is_told_late(void **state)
{
    (void)state;
    tnr_graph number = 0;
    steps_start(NULL, NULL);
    unsigned char *weights = unit_malloc(4 * MIB, ORIGIN);
    unsigned char *unused = unit_malloc(4 * MIB, ORIGIN);
    engine_begin(ORIGIN);
    assert_ok(tnr_capture_attach(&number, 0, ORIGIN, NULL));
    life_fill(weights, 4 * MIB, 8, ORIGIN);
    assert_ok(tnr_free(weights));
    assert_ok(tnr_free(unused));
    recorded graph = engine_end(ORIGIN, number);
    steps_settle(); /* notices it */
    assert_int_equal(graph_info(number).kept_blocks, 2);
    assert_ok(tnr_capture_ended(number, graph.cuda));
    assert_int_equal(graph_info(number).kept_blocks, 1);
    assert_int_equal(graph_info(number).kept_bytes, 4 * MIB);
    unsigned char *next = unit_malloc(4 * MIB, ORIGIN);
    unsigned char *after = unit_malloc(4 * MIB, ORIGIN);
    assert_false(is_overlap(next, 4 * MIB, weights, 4 * MIB));
    assert_false(is_overlap(after, 4 * MIB, weights, 4 * MIB));
    life_fill(next, 4 * MIB, 1, ORIGIN);
    life_fill(after, 4 * MIB, 2, ORIGIN);
    recorded_launch(&graph, BRANCH);
    simcuda_run(UINT64_MAX);
    check_bytes(next, 4 * MIB, 1);
    check_bytes(after, 4 * MIB, 2);
    assert_ok(tnr_free(next));
    assert_ok(tnr_free(after));
    recorded_destroy(&graph);
    check_all_given_back();
}

/* A block that is kept for a use, and then for its free, is kept once. */
static void a_use_and_a_free_keep_once(void **state)
{
    (void)state;
    tnr_graph number = 0;
    steps_start(NULL, NULL);
    unsigned char *weights = unit_malloc(4 * MIB, ORIGIN);
    engine_begin(ORIGIN);
    assert_ok(tnr_capture_attach(&number, 0, ORIGIN, NULL));
    assert_ok(tnr_record_use(weights, ORIGIN));
    assert_ok(tnr_free(weights));
    recorded graph = engine_end(ORIGIN, number);
    steps_settle();
    assert_int_equal(graph_info(number).kept_blocks, 1);
    assert_int_equal(graph_info(number).kept_bytes, 4 * MIB);
    assert_false(life_is_reused(weights, 4 * MIB, ORIGIN));
    recorded_destroy(&graph);
    steps_settle();
    assert_true(life_is_reused(weights, 4 * MIB, ORIGIN));
}

/* Nor is anything else asked that would find it out: the thread that captured allocates and frees
 * on, and what it frees is not kept for the graph. */
static void an_end_that_is_not_told_keeps_no_later_free(void **state)
{
    (void)state;
    tnr_graph number = 0;
    steps_start(NULL, NULL);
    engine_begin(ORIGIN);
    assert_ok(tnr_capture_attach(&number, 0, ORIGIN, NULL));
    assert_ok(tnr_free(captured_block(ORIGIN, 5)));
    recorded graph = engine_end(ORIGIN, number);
    for (int i = 0; i < 8; i++) {
        unsigned char *block = unit_malloc(4 * MIB, BRANCH);
        life_fill(block, 4 * MIB, 1, BRANCH);
        assert_ok(tnr_free(block));
    }
    /* Asking for statistics would find it out; what was taken meanwhile shows. */
    assert_true(pool_stats(NULL).reserved_bytes.peak <= 8 * MIB); /* the graph's, and one block */
    simcuda_run(UINT64_MAX);
    recorded_destroy(&graph);
    steps_settle();
    check_all_given_back();
}

/* Nor does it tell of a capture that fails. */
static void a_failure_that_is_not_told(void **state)
{
    (void)state;
    tnr_graph number = 0;
    CUgraph none = NULL;
    steps_start(NULL, NULL);
    assert_ok(tnr_stream_created(0, ORIGIN));
    engine_begin(ORIGIN);
    assert_ok(tnr_capture_attach(&number, 0, ORIGIN, NULL));
    unsigned char *block = captured_block(ORIGIN, 5);
    tnr_pool pool = pool_of(block);
    assert_ok(tnr_free(block));
    /* A capturing stream cannot be waited for: trying spoils the capture. */
    assert_int_not_equal(cuStreamSynchronize(ORIGIN), CUDA_SUCCESS);
    assert_int_equal(cuStreamEndCapture(ORIGIN, &none), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    steps_settle();
    assert_false(graph_is_known(number));
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

/* ---- adopting ------------------------------------------------------------------------------- */

static void a_graph_built_by_hand_is_adopted(void **state)
{
    (void)state;
    CUcontext context;
    CUgraphNode node;
    recorded graph = {0};
    steps_start(NULL, NULL);
    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    unsigned char *block = unit_malloc(4 * MIB, ORIGIN);
    unsigned char *stranger = unit_malloc(4 * MIB, ORIGIN);
    const CUDA_MEMSET_NODE_PARAMS set = {(CUdeviceptr)block + MIB, 0, 3, 1, MIB, 1};
    assert_int_equal(cuGraphCreate(&graph.cuda, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphAddMemsetNode(&node, graph.cuda, NULL, 0, &set, context), CUDA_SUCCESS);
    assert_error(tnr_graph_adopt(&graph.number, NULL, 0, NULL), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_ok(tnr_graph_adopt(&graph.number, graph.cuda, 0, "by hand"));
    assert_int_equal(cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0), CUDA_SUCCESS);
    tnr_graph_info info = graph_info(graph.number);
    assert_string_equal(info.name, "by hand");
    assert_null(info.pool);
    assert_int_equal(info.kept_blocks, 1);
    assert_int_equal(info.kept_bytes, 4 * MIB);
    assert_int_equal(info.blocks, 0);
    assert_int_equal(info.is_capturing, 0);

    assert_ok(tnr_free(block));
    assert_ok(tnr_free(stranger)); /* nobody refers to it */
    assert_true(life_is_reused(stranger, 4 * MIB, ORIGIN));
    assert_false(life_is_reused(block, 4 * MIB, ORIGIN));
    recorded_launch(&graph, ORIGIN);
    recorded_destroy(&graph);
    steps_settle();
    assert_false(graph_is_known(graph.number));
    assert_true(life_is_reused(block, 4 * MIB, ORIGIN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_capture_has_a_pool_of_its_own, steps_stop),
        cmocka_unit_test_teardown(names_and_numbers, steps_stop),
        cmocka_unit_test_teardown(an_empty_capture, steps_stop),
        cmocka_unit_test_teardown(a_number_need_not_be_asked_for, steps_stop),
        cmocka_unit_test_teardown(begin_refuses_streams, steps_stop),
        cmocka_unit_test_teardown(begin_refuses_options, steps_stop),
        cmocka_unit_test_teardown(an_old_driver_has_no_captures, steps_stop),
        cmocka_unit_test_teardown(end_and_abort_refuse, steps_stop),
        cmocka_unit_test_teardown(another_thread_cannot_end_it, steps_stop),
        cmocka_unit_test_teardown(all_modes, steps_stop),
        cmocka_unit_test_teardown(an_engine_captures_itself, steps_stop),
        cmocka_unit_test_teardown(attach_and_ended_refuse, steps_stop),
        cmocka_unit_test_teardown(ended_with_nothing, steps_stop),
        cmocka_unit_test_teardown(an_end_that_is_not_told, steps_stop),
        cmocka_unit_test_teardown(an_end_that_is_told_late, steps_stop),
        cmocka_unit_test_teardown(a_use_and_a_free_keep_once, steps_stop),
        cmocka_unit_test_teardown(an_end_that_is_not_told_keeps_no_later_free, steps_stop),
        cmocka_unit_test_teardown(a_failure_that_is_not_told, steps_stop),
        cmocka_unit_test_teardown(a_graph_built_by_hand_is_adopted, steps_stop),
    };
    return steps_run(tests);
}
