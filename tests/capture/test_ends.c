/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures that come to nothing, and graphs that end: everything goes back, at the right moment.
 * Counters return to zero, what is mapped to its floor.
 *
 * Broken to see it fail (captures_that_end_past_tenure): ending.c, tnri_captures_check: attached
 * captures alone; capture_is_over without "is_dead" (a stream's handle is asked after its end);
 * scope.c, scope_begin_driver: the graph tied only where the capture ends.
 * Likewise a_block_outlives_its_stream: captured_home, and scope_ended, without
 * tnri_capture_is_stranded.
 */
#include "steps.h"
#include "few.h"

#include <pthread.h>
#include <unistd.h>

#define BYTES (4 * MIB)

/* A capture with something of everything in it: blocks live and freed on two streams, an ordinary
 * block freed inside, one that is used, memory grown. */
typedef struct mixture {
    unsigned char *live, *branch, *ordinary, *used;
    tnr_pool pool;
} mixture;

static mixture mixture_capture(tnr_pool pool)
{
    mixture self;
    self.ordinary = unit_malloc(BYTES, ORIGIN);
    self.used = unit_malloc(BYTES, OUTSIDE);
    life_fill(self.ordinary, BYTES, 1, ORIGIN);
    capture_begin(ORIGIN, pool);
    self.live = captured_block(ORIGIN, 2);
    self.pool = pool_of(self.live);
    unsigned char *freed = captured_block(ORIGIN, 3);
    life_fill(self.ordinary, BYTES, 4, ORIGIN);
    assert_ok(tnr_free(freed));
    assert_ok(tnr_free(self.ordinary));
    order_after(BRANCH, ORIGIN);
    self.branch = captured_block(BRANCH, 5);
    life_fill(self.used, MIB, 6, BRANCH);
    assert_ok(tnr_record_use(self.used, BRANCH));
    assert_ok(tnr_record_stream(self.live, BRANCH));
    assert_ok(tnr_free_sync(captured_block(BRANCH, 7)));
    return self;
}

/* The capture is over, without a graph: the blocks that were live are so still, and usable. */
static void mixture_end(mixture *self)
{
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(capture_status(BRANCH), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_true(pool_is_there(self->pool));
    (void)unit_stats();
    assert_int_equal(pool_stats(self->pool).allocation[TNR_WORLD_ALL].current, 2);
    life_fill(self->live, BYTES, 8, ORIGIN);
    life_fill(self->branch, BYTES, 9, BRANCH);
    /* What was freed inside is nobody's, so it is handed out. */
    unsigned char *next = unit_malloc(BYTES, ORIGIN);
    assert_ptr_equal(next, self->ordinary);
    life_fill(next, BYTES, 10, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(self->live, BYTES, 8);
    check_bytes(self->branch, BYTES, 9);
    check_bytes(next, BYTES, 10);
    assert_ok(tnr_free(next));
    assert_ok(tnr_free(self->live));
    assert_ok(tnr_free(self->branch));
    assert_ok(tnr_free(self->used));
}

/* Another capture works, as if nothing had been. */
static void check_next_capture(tnr_pool pool)
{
    capture_begin(ORIGIN, pool);
    unsigned char *block = captured_block(ORIGIN, 21);
    recorded graph = capture_end(ORIGIN);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(block, BYTES, 21);
    assert_ok(tnr_free(block));
    recorded_destroy(&graph);
    steps_settle();
}

static void check_over(mixture *self, int is_private)
{
    steps_settle();
    assert_int_equal(pool_is_there(self->pool), !is_private);
    check_next_capture(is_private ? NULL : self->pool);
    if (!is_private)
        assert_ok(tnr_pool_destroy(self->pool));
    check_all_given_back();
}

/* ---- captures that come to nothing ---------------------------------------------------------- */

static void aborted(void **state)
{
    (void)state;
    for (int is_private = 0; is_private < 2; is_private++) {
        steps_start("cross_stream:off", NULL);
        mixture self = mixture_capture(is_private ? NULL : graph_pool("shared"));
        assert_ok(tnr_capture_abort(0, ORIGIN)); /* BRANCH has not joined, and need not */
        mixture_end(&self);
        check_over(&self, is_private);
        if (is_private == 0)
            assert_int_equal(steps_stop(state), 0);
    }
}

static void unjoined(void **state)
{
    (void)state;
    tnr_cuda_graph cuda = (tnr_cuda_graph)(uintptr_t)1;
    tnr_graph number = 99;
    for (int is_private = 0; is_private < 2; is_private++) {
        steps_start("cross_stream:off", NULL);
        mixture self = mixture_capture(is_private ? NULL : graph_pool("shared"));
        tnr_status status = tnr_capture_end(&cuda, &number, 0, ORIGIN);
        assert_true(status == TNR_ERR_CAPTURE_INVALIDATED);
        assert_null(cuda);
        assert_int_equal(tnr_last_driver_result(), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        mixture_end(&self);
        check_over(&self, is_private);
        if (is_private == 0)
            assert_int_equal(steps_stop(state), 0);
    }
}

/* Experiment 4: an illegal call half-way spoils the capture; the engine goes on for a while. */
static void invalidated(void **state)
{
    (void)state;
    tnr_cuda_graph cuda = (tnr_cuda_graph)(uintptr_t)1;
    for (int how = 0; how < 2; how++) {
        steps_start("cross_stream:off", NULL);
        mixture self = mixture_capture(NULL);
        assert_int_not_equal(cuStreamSynchronize(ORIGIN), CUDA_SUCCESS);
        assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        void *late = &late;
        tnr_status status = tnr_malloc(&late, BYTES, 0, ORIGIN);
        assert_int_equal(status, TNR_ERR_CAPTURE_INVALIDATED);
        assert_null(late);
        assert_error(tnr_record_use(self.used, ORIGIN), TNR_ERR_CAPTURE_INVALIDATED, NULL);
        if (how == 0)
            assert_error(tnr_capture_end(&cuda, NULL, 0, ORIGIN), TNR_ERR_CAPTURE_INVALIDATED,
                         NULL);
        else
            assert_ok(tnr_capture_abort(0, ORIGIN));
        assert_true(how == 1 || cuda == NULL);
        mixture_end(&self);
        check_over(&self, 1);
        if (how == 0)
            assert_int_equal(steps_stop(state), 0);
    }
}

/* The driver refuses to end it, again and again: it is under way as before. */
static void the_driver_does_not_end_it(void **state)
{
    (void)state;
    steps_start("cross_stream:off", NULL);
    tnr_cuda_graph cuda = (tnr_cuda_graph)(uintptr_t)1;
    tnr_graph number = 1;
    mixture self = mixture_capture(NULL);
    order_after(ORIGIN, BRANCH);
    simcuda_fail("cuStreamEndCapture", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_error(tnr_capture_end(&cuda, &number, 0, ORIGIN), TNR_ERR_OUT_OF_MEMORY,
                 "still under way");
    assert_null(cuda);
    assert_int_equal(number, 0);
    assert_error(tnr_capture_abort(0, ORIGIN), TNR_ERR_OUT_OF_MEMORY, "still under way");
    simcuda_fail_clear();
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    unsigned char *later = captured_block(ORIGIN, 11); /* of the graph, as before */
    assert_ptr_equal(pool_of(later), self.pool);
    recorded graph = capture_end(ORIGIN);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(later, BYTES, 11);
    recorded_destroy(&graph);
    for (void **block = (void *[]){later, self.live, self.branch, self.used, NULL}; *block; block++)
        assert_ok(tnr_free(*block));
    check_next_capture(NULL);
}

/* Frees in a capture that is spoilt already. */
static void freed_after_it_was_spoilt(void **state)
{
    (void)state;
    tnr_cuda_graph cuda = NULL;
    steps_start(NULL, NULL);
    capture_begin(ORIGIN, NULL);
    unsigned char *first = captured_block(ORIGIN, 1);
    unsigned char *second = captured_block(ORIGIN, 1);
    tnr_pool pool = pool_of(first);
    assert_int_not_equal(cuStreamSynchronize(ORIGIN), CUDA_SUCCESS);
    assert_ok(tnr_free(first));
    assert_ok(tnr_free_sync(second));
    assert_error(tnr_free(first), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_capture_end(&cuda, NULL, 0, ORIGIN), TNR_ERR_CAPTURE_INVALIDATED, NULL);
    steps_settle();
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

/* Ten thousand bytes here and there would show after a hundred of them. */
static void a_hundred_failures_leave_nothing(void **state)
{
    (void)state;
    steps_start("cross_stream:off", NULL);
    tnr_cuda_graph cuda = NULL;
    uint64_t metadata = 0;
    for (int i = 0; i < few_or(100, 20); i++) {
        mixture self = mixture_capture(NULL);
        if (i % 3 == 0)
            assert_ok(tnr_capture_abort(0, ORIGIN));
        else
            assert_error(tnr_capture_end(&cuda, NULL, 0, ORIGIN), TNR_ERR_CAPTURE_INVALIDATED,
                         NULL);
        assert_ok(tnr_free(self.live));
        assert_ok(tnr_free(self.branch));
        assert_ok(tnr_free(self.used));
        steps_settle();
        assert_ok(tnr_trim(NULL, 0, 0));
        tnr_stats stats = unit_stats();
        assert_int_equal(stats.pools, 1);
        assert_int_equal(stats.reserved_bytes.current, 0);
        if (i == 20)
            metadata = stats.metadata_bytes;
        if (i > 20)
            assert_true(stats.metadata_bytes <= metadata + 4096);
    }
    check_all_given_back();
}

/* ---- captures that end past Tenure ---------------------------------------------------------- */

typedef enum past { PAST_BY_OTHER, PAST_BY_OWN, PAST_DESTROYED, PASTS } past;

/* A capture of a stream of its own, and what was freed in it: a block of the capture, which the
 * graph writes, and an ordinary one that it does not know. */
typedef struct escaping {
    tnr_stream stream;
    tnr_pool pool;
    unsigned char *inside, *ordinary;
    CUgraph made;
    CUresult result;
} escaping;

static escaping escaping_capture(int is_attached, int mode)
{
    escaping self = {0};
    tnr_graph number;
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = (tnr_capture_mode)mode;
    assert_int_equal(cuStreamCreate(&self.stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_ok(tnr_stream_created(0, self.stream));
    if (is_attached) {
        assert_int_equal(cuStreamBeginCapture(self.stream, (CUstreamCaptureMode)mode),
                         CUDA_SUCCESS);
        assert_ok(tnr_capture_attach(&number, 0, self.stream, NULL));
    } else {
        assert_ok(tnr_capture_begin(0, self.stream, &options));
    }
    self.inside = captured_block(self.stream, 5);
    self.pool = pool_of(self.inside);
    assert_ok(tnr_free(self.inside));
    self.ordinary = unit_malloc(BYTES, OUTSIDE);
    assert_ok(tnr_free_sync(self.ordinary));
    assert_int_equal(unit_stats().blocks_retired, 2);
    return self;
}

static void *escaping_end(void *of)
{
    escaping *self = of;
    self->result = cuStreamEndCapture(self->stream, &self->made);
    return NULL;
}

/* The driver ends the capture, and nobody says so. */
static void escaping_escape(escaping *self, past how)
{
    pthread_t thread;
    if (how == PAST_BY_OTHER) {
        assert_int_equal(pthread_create(&thread, NULL, escaping_end, self), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    } else if (how == PAST_BY_OWN) {
        (void)escaping_end(self);
    } else {
        assert_ok(tnr_stream_destroying(0, self->stream));
        assert_int_equal(cuStreamDestroy(self->stream), CUDA_SUCCESS);
    }
}

/* The graph has its memory for as long as it lives. */
static void escaping_graph_check(const escaping *self)
{
    recorded graph = {.cuda = self->made};
    assert_true(pool_is_there(self->pool));
    assert_int_equal(cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0), CUDA_SUCCESS);
    unsigned char *next = unit_malloc(BYTES, OUTSIDE);
    assert_false(is_overlap(next, BYTES, self->inside, BYTES));
    assert_int_equal(cuGraphLaunch(graph.exec, ORIGIN), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX);
    check_bytes(self->inside, BYTES, 5);
    assert_ok(tnr_free(next));
    recorded_destroy(&graph);
}

static void captures_that_end_past_tenure(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * 3 * PASTS; i++) {
        steps_start("cross_stream:off,bin_blocks:0", NULL);
        past how = (past)(i % PASTS);
        escaping self = escaping_capture(i / PASTS / 3, i / PASTS % 3);
        escaping_escape(&self, how);
        steps_settle();
        assert_error(tnr_capture_abort(0, self.stream), TNR_ERR_CAPTURE, "or it has ended");
        int may_end =
            how == PAST_BY_OWN || (how == PAST_BY_OTHER && i / PASTS % 3 == TNR_CAPTURE_RELAXED);
        assert_int_equal(self.made != NULL, may_end);
        if (may_end)
            escaping_graph_check(&self);
        steps_settle();
        assert_false(pool_is_there(self.pool));
        /* No graph and no capture keeps it: it is fenced, and then it is back. */
        unsigned char *fences = unit_malloc(BYTES, OUTSIDE);
        simcuda_run(UINT64_MAX);
        unsigned char *next = fences == self.ordinary ? fences : unit_malloc(BYTES, OUTSIDE);
        assert_ptr_equal(next, self.ordinary);
        assert_ok(tnr_free(next));
        if (fences != next)
            assert_ok(tnr_free(fences));
        if (how != PAST_DESTROYED) {
            assert_ok(tnr_stream_destroying(0, self.stream));
            assert_int_equal(cuStreamDestroy(self.stream), CUDA_SUCCESS);
        }
        check_all_given_back();
        if (i + 1 < 2 * 3 * PASTS)
            assert_int_equal(steps_stop(state), 0);
    }
}

/* ---- graphs that end ------------------------------------------------------------------------ */

/* A graph that writes a block, with the block freed in the capture: nothing but the graph holds the
 * pool. */
static recorded graph_of_one(unsigned char **block, tnr_pool *pool)
{
    capture_begin(ORIGIN, NULL);
    *block = captured_block(ORIGIN, 1);
    *pool = pool_of(*block);
    assert_ok(tnr_free(*block));
    return capture_end(ORIGIN);
}

/* The stream that a capture began on ends, and the capture with it. A block that was allocated
 * there outlives both: its free must not ask about the stream, which is gone. */
static void a_block_outlives_its_stream(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    for (int told = 0; told < 2; told++) {
        tnr_stream stream = unit_stream(0);
        tnr_graph number;
        void *block;
        assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                         CUDA_SUCCESS);
        assert_ok(tnr_capture_attach(&number, 0, stream, NULL));
        assert_ok(tnr_malloc(&block, BYTES, 0, stream));
        life_fill(block, BYTES, 1, stream);
        assert_ok(tnr_stream_destroying(0, stream));
        assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
        if (told)
            assert_ok(tnr_capture_ended(number, NULL));
        assert_ok(tnr_free(block));
        assert_int_equal(simcuda_violations(), 0);
        steps_settle();
        assert_false(graph_is_known(number));
    }
    check_all_given_back();
}

static void the_executable_keeps_it(void **state)
{
    (void)state;
    unsigned char *block;
    tnr_pool pool;
    steps_start(NULL, NULL);
    recorded graph = graph_of_one(&block, &pool);
    assert_int_equal(cuGraphDestroy(graph.cuda), CUDA_SUCCESS);
    graph.cuda = NULL;
    steps_settle();
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_true(graph_is_known(graph.number));
    assert_true(pool_is_there(pool));
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(block, BYTES, 1);
    recorded_destroy(&graph);
    steps_settle();
    assert_false(graph_is_known(graph.number));
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

static void the_graph_keeps_it(void **state)
{
    (void)state;
    unsigned char *block;
    tnr_pool pool;
    steps_start(NULL, NULL);
    recorded graph = graph_of_one(&block, &pool);
    assert_int_equal(cuGraphExecDestroy(graph.exec), CUDA_SUCCESS);
    steps_settle();
    assert_true(pool_is_there(pool));
    assert_int_equal(cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0), CUDA_SUCCESS);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(block, BYTES, 1);
    recorded_destroy(&graph);
    steps_settle();
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

/* Experiment 6: all CUDA objects destroyed while the launch has not run yet. */
static void the_launch_keeps_it(void **state)
{
    (void)state;
    unsigned char *block;
    tnr_pool pool;
    steps_start(NULL, NULL);
    recorded graph = graph_of_one(&block, &pool);
    life_gate_close(0, ORIGIN);
    recorded_launch(&graph, ORIGIN);
    recorded_destroy(&graph);
    simcuda_run(UINT64_MAX); /* all but what the gate holds back */
    for (int i = 0; i < 3; i++) {
        unsigned char *next = unit_malloc(BYTES, OUTSIDE);
        assert_false(is_overlap(next, BYTES, block, BYTES));
        life_fill(next, BYTES, 2, OUTSIDE);
        assert_ok(tnr_free(next));
        assert_true(graph_is_known(graph.number));
        assert_true(pool_is_there(pool));
    }
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    check_bytes(block, BYTES, 1);
    steps_settle();
    assert_false(graph_is_known(graph.number));
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

static void a_clone_keeps_it(void **state)
{
    (void)state;
    unsigned char *block;
    tnr_pool pool;
    CUgraph clone = NULL;
    steps_start(NULL, NULL);
    recorded graph = graph_of_one(&block, &pool);
    assert_int_equal(cuGraphClone(&clone, graph.cuda), CUDA_SUCCESS);
    recorded_destroy(&graph);
    steps_settle();
    assert_true(pool_is_there(pool));
    assert_int_equal(cuGraphInstantiateWithFlags(&graph.exec, clone, 0), CUDA_SUCCESS);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(block, BYTES, 1);
    assert_int_equal(cuGraphDestroy(clone), CUDA_SUCCESS);
    recorded_destroy(&graph);
    steps_settle();
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

static void a_parent_keeps_it(void **state)
{
    (void)state;
    unsigned char *block;
    tnr_pool pool;
    CUgraph parent = NULL;
    CUgraphNode node;
    CUgraphExec exec;
    steps_start(NULL, NULL);
    recorded graph = graph_of_one(&block, &pool);
    assert_int_equal(cuGraphCreate(&parent, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph.cuda), CUDA_SUCCESS);
    recorded_destroy(&graph);
    steps_settle();
    assert_true(pool_is_there(pool));
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, parent, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphLaunch(exec, ORIGIN), CUDA_SUCCESS);
    assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(parent), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX);
    check_bytes(block, BYTES, 1);
    steps_settle();
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

/* Graphs end in any number and order, while a capture is under way and afterwards. */
static void many_graphs_end(void **state)
{
    (void)state;
    enum { GRAPHS = 20 };
    recorded graphs[GRAPHS];
    tnr_pool pools[GRAPHS];
    unsigned char *blocks[GRAPHS];
    steps_start(NULL, NULL);
    for (int i = 0; i < GRAPHS; i++)
        graphs[i] = graph_of_one(&blocks[i], &pools[i]);
    for (int i = 0; i < GRAPHS; i++)
        recorded_launch(&graphs[i], life_streams[i % 4]);
    for (int i = 0; i < GRAPHS; i += 2)
        recorded_destroy(&graphs[i]);
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = TNR_CAPTURE_RELAXED; /* no other allows the program to destroy executables */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    assert_ok(tnr_capture_begin(0, ORIGIN, &options));
    recorded_destroy(&graphs[1]);
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX);
    unsigned char *own = captured_block(ORIGIN, 3);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    recorded last = capture_end(ORIGIN);
    steps_settle();
    tnr_pool next = graph_info(last.number).pool; /* may have a handle that was another's before */
    for (int i = 0; i < GRAPHS; i++) {
        assert_int_equal(graph_is_known(graphs[i].number), i % 2 == 1 && i != 1);
        assert_int_equal(pools[i] != next && pool_is_there(pools[i]), i % 2 == 1 && i != 1);
    }
    for (int i = 3; i < GRAPHS; i += 2)
        recorded_launch(&graphs[i], life_streams[i % 4]);
    for (int i = 3; i < GRAPHS; i += 2)
        recorded_destroy(&graphs[i]);
    assert_ok(tnr_free(own));
    recorded_destroy(&last);
    check_all_given_back();
}

/* ---- a driver that lets go late ---------------------------------------------------------------
 * */

/* Another thread of the driver: destructors run a little after the graph was destroyed. */
static void *lets_go_late(void *of)
{
    (void)of;
    usleep(20000);
    simcuda_run(UINT64_MAX);
    return NULL;
}

static void begin_letting_go(pthread_t *thread)
{
    assert_int_equal(pthread_create(thread, NULL, lets_go_late, NULL), 0);
}

/* A graph pool whose graph was just destroyed is not refused, only because the driver has not let
 * go yet; with graph_end_ms:0 it is. */
static void a_pool_waits_for_graphs_that_end(void **state)
{
    (void)state;
    pthread_t thread;
    steps_start("graph_end_ms:0", NULL);
    tnr_pool pool = graph_pool("shared");
    capture_begin(ORIGIN, pool);
    assert_ok(tnr_free(captured_block(ORIGIN, 1)));
    recorded graph = capture_end(ORIGIN);
    recorded_launch(&graph, ORIGIN);
    recorded_destroy(&graph);
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "Destroy the graphs");
    assert_ok(tnr_configure("graph_end_ms:60000"));
    begin_letting_go(&thread);
    assert_ok(tnr_pool_destroy(pool));
    assert_int_equal(pthread_join(thread, NULL), 0);
    check_all_given_back();
}

static void a_shutdown_waits_for_graphs_that_end(void **state)
{
    (void)state;
    pthread_t thread;
    unsigned char *block;
    tnr_pool pool;
    steps_start("graph_end_ms:0", NULL);
    recorded graph = graph_of_one(&block, &pool);
    recorded_launch(&graph, ORIGIN);
    recorded_destroy(&graph);
    assert_error(tnr_shutdown(0), TNR_ERR_BUSY, "graph");
    assert_ok(tnr_configure("graph_end_ms:60000"));
    begin_letting_go(&thread);
    assert_ok(tnr_shutdown(0));
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Nobody calls the driver but Tenure: that is enough for the end of the graphs to come. */
static void who_waits_lets_graphs_end(void **state)
{
    (void)state;
    unsigned char *block;
    tnr_pool pool;
    steps_start("graph_end_ms:60000", NULL);
    recorded graph = graph_of_one(&block, &pool);
    recorded_launch(&graph, ORIGIN);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    recorded_destroy(&graph);
    assert_ok(tnr_shutdown(0));

    steps_start("graph_end_ms:60000", NULL);
    pool = graph_pool("shared");
    capture_begin(ORIGIN, pool);
    assert_ok(tnr_free(captured_block(ORIGIN, 1)));
    graph = capture_end(ORIGIN);
    recorded_destroy(&graph);
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

/* ---- the library's end ---------------------------------------------------------------------- */

static void a_shutdown_with_graphs_alive(void **state)
{
    (void)state;
    unsigned char *block;
    tnr_pool pool;
    steps_start(NULL, NULL);
    recorded graph = graph_of_one(&block, &pool);
    assert_error(tnr_shutdown(0), TNR_ERR_BUSY, "graph");
    assert_true(graph_is_known(graph.number));
    recorded_launch(&graph, ORIGIN); /* it has changed nothing */
    simcuda_run(UINT64_MAX);
    check_bytes(block, BYTES, 1);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_ok(tnr_shutdown(1));
    recorded_destroy(&graph); /* the CUDA objects outlive the library */
    simcuda_run(UINT64_MAX);
    check_next_capture(NULL); /* which can begin anew */
    check_all_given_back();
}

static void a_shutdown_during_a_capture(void **state)
{
    (void)state;
    CUgraph own = NULL;
    steps_start(NULL, NULL);
    capture_begin(ORIGIN, NULL);
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_error(tnr_shutdown(0), TNR_ERR_BUSY, NULL);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ptr_equal(pool_of(block), pool_of(captured_block(ORIGIN, 2)));
    tnr_status status = tnr_shutdown(1);
    if (status == TNR_OK) {
        /* By force: then the capture is either over, or the engine's to end. */
        if (capture_status(ORIGIN) != CU_STREAM_CAPTURE_STATUS_NONE &&
            cuStreamEndCapture(ORIGIN, &own) == CUDA_SUCCESS)
            assert_int_equal(cuGraphDestroy(own), CUDA_SUCCESS);
    } else {
        assert_int_equal(status, TNR_ERR_BUSY);
        assert_ok(tnr_capture_abort(0, ORIGIN));
        assert_ok(tnr_shutdown(1));
    }
    check_next_capture(NULL);
    check_all_given_back();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(aborted, steps_stop),
        cmocka_unit_test_teardown(unjoined, steps_stop),
        cmocka_unit_test_teardown(invalidated, steps_stop),
        cmocka_unit_test_teardown(the_driver_does_not_end_it, steps_stop),
        cmocka_unit_test_teardown(freed_after_it_was_spoilt, steps_stop),
        cmocka_unit_test_teardown(a_hundred_failures_leave_nothing, steps_stop),
        cmocka_unit_test_teardown(captures_that_end_past_tenure, steps_stop),
        cmocka_unit_test_teardown(a_block_outlives_its_stream, steps_stop),
        cmocka_unit_test_teardown(the_executable_keeps_it, steps_stop),
        cmocka_unit_test_teardown(the_graph_keeps_it, steps_stop),
        cmocka_unit_test_teardown(the_launch_keeps_it, steps_stop),
        cmocka_unit_test_teardown(a_clone_keeps_it, steps_stop),
        cmocka_unit_test_teardown(a_parent_keeps_it, steps_stop),
        cmocka_unit_test_teardown(many_graphs_end, steps_stop),
        cmocka_unit_test_teardown(a_pool_waits_for_graphs_that_end, steps_stop),
        cmocka_unit_test_teardown(a_shutdown_waits_for_graphs_that_end, steps_stop),
        cmocka_unit_test_teardown(who_waits_lets_graphs_end, steps_stop),
        cmocka_unit_test_teardown(a_shutdown_with_graphs_alive, steps_stop),
        cmocka_unit_test_teardown(a_shutdown_during_a_capture, steps_stop),
    };
    return steps_run(tests);
}
