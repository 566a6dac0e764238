/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which streams and threads a capture concerns, and that it leaves the others alone: the default
 * streams, growth and shortage of memory meanwhile, calls that must not break it, the fork, and
 * that nothing is asked of the driver about captures while there is none.
 *
 * Seen to fail with these lines changed in the library:
 *   streams_of_a_capture_stay_known  hooks.c, capture_of_stream: the call of tnri_witness_stream
 *   streams_end_inside               stream.c, stream_last_event: the late event; event.c: late_end
 *                                    1 at once
 *   an_end_inside_comes_after_the_marks  stream.c, stream_last_event: tnri_number_now instead
 *   a_launch_while_another_thread_retires  hold.c and retire.c: the hold given up before the
 *                                    retirement; under ThreadSanitizer also freed_mark without the
 *                                    arena's lock
 */
#include "steps.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* ---- which streams belong ------------------------------------------------------------------- */

static void streams_join_and_others_do_not(void **state)
{
    (void)state;
    steps_start("cross_stream:off", NULL);
    unsigned char *warm = unit_malloc(4 * MIB, OUTSIDE);
    assert_ok(tnr_free(warm));
    capture_begin(ORIGIN, NULL);
    unsigned char *first = captured_block(ORIGIN, 1);
    tnr_pool pool = pool_of(first);
    unsigned char *before = unit_malloc(MIB, BRANCH); /* does not belong yet */
    assert_null(pool_of(before));
    order_after(BRANCH, ORIGIN);
    unsigned char *joined = captured_block(BRANCH, 2);
    assert_ptr_equal(pool_of(joined), pool);
    order_after(OTHER, BRANCH);
    unsigned char *further = captured_block(OTHER, 3);
    assert_ptr_equal(pool_of(further), pool);
    unsigned char *outside = unit_malloc(4 * MIB, OUTSIDE);
    assert_null(pool_of(outside));
    assert_ptr_equal(outside, warm); /* the cached path works as ever */
    life_fill(outside, 4 * MIB, 4, OUTSIDE);
    assert_ok(tnr_free(outside));
    order_after(ORIGIN, BRANCH);
    order_after(ORIGIN, OTHER);
    assert_int_equal(pool_stats(pool).allocation[TNR_WORLD_ALL].current, 3);
    recorded graph = capture_end(ORIGIN);
    assert_int_equal(graph_info(graph.number).blocks, 3);

    /* After the end all of them are ordinary streams again. */
    unsigned char *after = unit_malloc(MIB, ORIGIN);
    assert_null(pool_of(after));
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(first, 4 * MIB, 1);
    check_bytes(joined, 4 * MIB, 2);
    check_bytes(further, 4 * MIB, 3);
    void *const blocks[] = {first, joined, further, before, after};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        assert_ok(tnr_free(blocks[i]));
    recorded_destroy(&graph);
    check_all_given_back();
}

/* Streams that Tenure met in a capture only are streams that tnr_free_sync waits for. One was
 * recorded, the other one allocated on. */
static void streams_of_a_capture_stay_known(void **state)
{
    (void)state;
    steps_start("reuse:poll,cross_stream:off", NULL);
    capture_begin(ORIGIN, NULL);
    unsigned char *inside = captured_block(ORIGIN, 1);
    order_after(BRANCH, ORIGIN);
    order_after(OTHER, ORIGIN);
    assert_ok(tnr_record_use(inside, BRANCH));
    assert_ok(tnr_free(captured_block(OTHER, 2)));
    order_after(ORIGIN, BRANCH);
    order_after(ORIGIN, OTHER);
    assert_ok(tnr_free(inside));
    recorded graph = capture_end(ORIGIN);

    tnr_stream const met[] = {BRANCH, OTHER};
    for (int i = 0; i < 2; i++) {
        void *block = unit_malloc(4 * MIB, OUTSIDE);
        order_after(met[i], OUTSIDE);
        life_gate_close(i, met[i]);
        (void)life_read(block, 4 * MIB, met[i]);
        assert_ok(tnr_free_sync(block));
        simcuda_run(UINT64_MAX);
        void *early = unit_malloc(4 * MIB, OUTSIDE);
        assert_ptr_not_equal(early, block);
        life_gate_open(i);
        simcuda_run(UINT64_MAX);
        void *late = unit_malloc(4 * MIB, OUTSIDE);
        assert_ptr_equal(late, block);
        assert_ok(tnr_free(early));
        assert_ok(tnr_free(late));
        assert_ok(tnr_trim(NULL, 0, 0));
    }
    recorded_destroy(&graph);
    check_all_given_back();
}

/* A block by the name of another pool is what was asked for, and a graph's pool serves captures
 * only. */
static void pools_by_name(void **state)
{
    (void)state;
    void *block = NULL;
    steps_start(NULL, NULL);
    tnr_pool pool = graph_pool("shared");
    assert_true(tnr_pool_malloc(&block, pool, MIB, 0, ORIGIN) != TNR_OK);
    assert_null(block);
    assert_error(tnr_pool_push(pool), TNR_ERR_INVALID_POOL, "graph pool");
    capture_begin(ORIGIN, pool);
    unsigned char *own = captured_block(ORIGIN, 1);
    assert_ptr_equal(pool_of(own), pool);
    assert_true(tnr_pool_malloc(&block, pool, MIB, 0, OUTSIDE) != TNR_OK);
    assert_null(block);
    assert_ok(tnr_free(own));
    recorded graph = capture_end(ORIGIN);
    assert_int_equal(graph_info(graph.number).is_private, 0);
    recorded_destroy(&graph);
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

/* ---- threads -------------------------------------------------------------------------------- */

typedef struct worker {
    pthread_t thread;
    CUcontext context;
    tnr_stream stream;
    int captures; /* 1: it captures its own stream */
    int value;
    tnr_pool pool;
    unsigned char *block;
    recorded graph;
    pthread_barrier_t *barrier;
    int failed;
} worker;

#define WORKER_MUST(call, good)                                                                    \
    do {                                                                                           \
        if ((call) != (good)) {                                                                    \
            print_error("%s: %s\n", #call, tnr_last_error());                                      \
            self->failed = 1;                                                                      \
        }                                                                                          \
    } while (0)

/* One thread of two that capture at once, or works beside a capture. CMocka's checks belong to the
 * main thread. */
static void *worker_run(void *of)
{
    worker *self = of;
    void *block = NULL;
    tnr_block_info info = {0};
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = TNR_CAPTURE_THREAD_LOCAL;
    WORKER_MUST(cuCtxSetCurrent(self->context), CUDA_SUCCESS);
    if (self->captures)
        WORKER_MUST(tnr_capture_begin(0, self->stream, &options), TNR_OK);
    (void)pthread_barrier_wait(self->barrier);
    for (int i = 0; i < 20; i++) {
        WORKER_MUST(tnr_malloc(&block, MIB, 0, self->stream), TNR_OK);
        WORKER_MUST(cuMemsetD8Async((CUdeviceptr)block, (unsigned char)i, MIB, self->stream),
                    CUDA_SUCCESS);
        WORKER_MUST(tnr_free(block), TNR_OK);
    }
    WORKER_MUST(tnr_malloc(&block, 4 * MIB, 0, self->stream), TNR_OK);
    WORKER_MUST(
        cuMemsetD8Async((CUdeviceptr)block, (unsigned char)self->value, 4 * MIB, self->stream),
        CUDA_SUCCESS);
    WORKER_MUST(tnr_block_get(&info, block), TNR_OK);
    self->pool = info.pool;
    self->block = block;
    (void)pthread_barrier_wait(self->barrier);
    if (self->captures)
        WORKER_MUST(tnr_capture_end(&self->graph.cuda, &self->graph.number, 0, self->stream),
                    TNR_OK);
    return NULL;
}

static void workers_run(worker *workers, size_t count)
{
    pthread_barrier_t barrier;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, (unsigned)count), 0);
    for (size_t i = 0; i < count; i++) {
        workers[i].barrier = &barrier;
        workers[i].value = (int)i + 10;
        workers[i].stream = life_streams[i];
        assert_int_equal(cuCtxGetCurrent(&workers[i].context), CUDA_SUCCESS);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]), 0);
    }
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        failed += workers[i].failed;
    }
    (void)pthread_barrier_destroy(&barrier);
    assert_int_equal(failed, 0);
}

static void two_threads_capture_at_once(void **state)
{
    (void)state;
    worker workers[3] = {{.captures = 1}, {.captures = 1}, {.captures = 0}};
    steps_start(NULL, NULL);
    workers_run(workers, 3);
    assert_non_null(workers[0].pool);
    assert_non_null(workers[1].pool);
    assert_ptr_not_equal(workers[0].pool, workers[1].pool);
    assert_null(workers[2].pool);
    for (int i = 0; i < 2; i++) {
        recorded *graph = &workers[i].graph;
        assert_int_equal(graph_info(graph->number).blocks, 21);
        assert_int_equal(cuGraphInstantiateWithFlags(&graph->exec, graph->cuda, 0), CUDA_SUCCESS);
        recorded_launch(graph, workers[i].stream);
    }
    simcuda_run(UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        check_bytes(workers[i].block, 4 * MIB, workers[i].value);
        assert_ok(tnr_free(workers[i].block));
        recorded_destroy(&workers[i].graph);
    }
    check_all_given_back();
}

/* Work of another thread during a capture of this one. */
static void other_threads_go_on(void **state)
{
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        worker workers[3] = {{0}};
        tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
        options.mode = (tnr_capture_mode)mode;
        steps_start("reuse:wait,reuse_mark_percent:0", NULL);
        assert_ok(tnr_capture_begin(0, OUTSIDE, &options));
        unsigned char *block = captured_block(OUTSIDE, 1);
        workers_run(workers, 3);
        for (int i = 0; i < 3; i++) {
            assert_null(workers[i].pool);
            assert_ok(tnr_free(workers[i].block));
        }
        assert_ok(tnr_free(block));
        recorded graph = capture_end(OUTSIDE);
        assert_int_equal(graph_info(graph.number).blocks, 1);
        recorded_destroy(&graph);
        check_all_given_back();
        if (mode < 2) /* the last one is ended by the teardown */
            assert_int_equal(steps_stop(state), 0);
    }
}

/* ---- default streams ------------------------------------------------------------------------ */

static void the_legacy_stream_beside_a_capture(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_stream blocking = life_stream(CU_STREAM_DEFAULT);
    unsigned char *warm = unit_malloc(4 * MIB, NULL);
    unsigned char *used = unit_malloc(4 * MIB, blocking);
    life_fill(warm, 4 * MIB, 1, NULL);
    assert_ok(tnr_record_use(used, NULL));
    capture_begin(blocking, NULL);
    unsigned char *block = captured_block(blocking, 2);
    /* Whatever is asked for on the legacy stream, which may not be given work now. */
    unsigned char *more = unit_malloc(4 * MIB, NULL);
    assert_null(pool_of(more));
    assert_ok(tnr_free(warm));
    assert_ok(tnr_free(used));
    unsigned char *most = unit_malloc(32 * MIB, NULL);
    assert_ok(tnr_free(more));
    assert_ok(tnr_free(most));
    assert_ok(tnr_free(unit_malloc(64 * MIB, OUTSIDE)));
    assert_int_equal(capture_status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(tnr_free(block));
    recorded graph = capture_end(blocking);
    recorded_launch(&graph, blocking);
    recorded_destroy(&graph);
    check_all_given_back();
    assert_ok(tnr_stream_destroying(0, blocking));
    assert_int_equal(cuStreamDestroy(blocking), CUDA_SUCCESS);
}

typedef struct per_thread {
    CUcontext context;
    tnr_pool pool;
    tnr_status status;
} per_thread;

/* The same handle in another thread is another stream, which does not capture. */
static void *per_thread_elsewhere(void *of)
{
    per_thread *self = of;
    tnr_block_info info = {0};
    void *block = NULL;
    self->status = TNR_ERR_INTERNAL;
    if (cuCtxSetCurrent(self->context) != CUDA_SUCCESS)
        return NULL;
    self->status = tnr_malloc(&block, MIB, 0, CU_STREAM_PER_THREAD);
    if (self->status == TNR_OK)
        self->status = tnr_block_get(&info, block);
    self->pool = info.pool;
    if (self->status == TNR_OK)
        self->status = tnr_free(block);
    return NULL;
}

static void the_per_thread_stream_captures(void **state)
{
    (void)state;
    pthread_t thread;
    per_thread other = {0};
    steps_start(NULL, NULL);
    assert_int_equal(cuCtxGetCurrent(&other.context), CUDA_SUCCESS);
    capture_begin(CU_STREAM_PER_THREAD, NULL);
    unsigned char *block = captured_block(CU_STREAM_PER_THREAD, 6);
    assert_non_null(pool_of(block));
    assert_int_equal(pthread_create(&thread, NULL, per_thread_elsewhere, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(other.status, TNR_OK);
    assert_null(other.pool);
    recorded graph = capture_end(CU_STREAM_PER_THREAD);
    recorded_launch(&graph, CU_STREAM_PER_THREAD);
    simcuda_run(UINT64_MAX);
    check_bytes(block, 4 * MIB, 6);
    assert_ok(tnr_free(block));
    recorded_destroy(&graph);
    check_all_given_back();
}

/* ---- memory during a capture ---------------------------------------------------------------- */

static void memory_grows_inside(void **state)
{
    (void)state;
    unsigned char *blocks[6];
    steps_start(NULL, NULL);
    capture_begin(ORIGIN, NULL);
    for (int i = 0; i < 6; i++) {
        blocks[i] = unit_malloc((size_t)1 << (9 + 3 * i), ORIGIN); /* 512 bytes ... 16 MiB */
        life_fill(blocks[i], (size_t)1 << (9 + 3 * i), i + 1, ORIGIN);
    }
    tnr_pool pool = pool_of(blocks[0]);
    assert_true(pool_stats(pool).chunks_created > 0);
    assert_true(pool_stats(pool).served[TNR_SERVED_GROWN] > 0);
    recorded graph = capture_end(ORIGIN);
    for (int round = 0; round < 3; round++) {
        tnr_stats before = pool_stats(NULL);
        recorded_launch(&graph, ORIGIN);
        simcuda_run(UINT64_MAX);
        tnr_stats after = pool_stats(NULL);
        assert_int_equal(after.num_device_alloc, before.num_device_alloc);
        assert_int_equal(after.reserved_bytes.current, before.reserved_bytes.current);
        for (int i = 0; i < 6; i++)
            check_bytes(blocks[i], (size_t)1 << (9 + 3 * i), i + 1);
    }
    for (int i = 0; i < 6; i++)
        assert_ok(tnr_free(blocks[i]));
    recorded_destroy(&graph);
    check_all_given_back();
}

/* Too little memory: an error as ever, and the capture goes on. */
static void memory_runs_out_inside(void **state)
{
    (void)state;
    void *none = &none;
    steps_start(NULL, "MEMORY=32M");
    unsigned char *idle = unit_malloc(16 * MIB, OUTSIDE);
    life_fill(idle, 16 * MIB, 1, OUTSIDE);
    assert_ok(tnr_free(idle));
    simcuda_run(UINT64_MAX);
    capture_begin(ORIGIN, NULL);
    unsigned char *block = captured_block(ORIGIN, 2);
    assert_error(tnr_malloc(&none, 64 * MIB, 0, ORIGIN), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_null(none);
    assert_error(tnr_malloc(&none, 64 * MIB, 0, OUTSIDE), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    unsigned char *second = captured_block(ORIGIN, 3);
    recorded graph = capture_end(ORIGIN);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    check_bytes(block, 4 * MIB, 2);
    check_bytes(second, 4 * MIB, 3);
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(second));
    recorded_destroy(&graph);
    check_all_given_back();
}

/* A graph pool's own limit is one inside a capture too. */
static void a_limit_inside(void **state)
{
    (void)state;
    void *none = &none;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool pool = NULL;
    steps_start(NULL, NULL);
    options.limit_bytes = 8 * MIB;
    assert_ok(tnr_graph_pool_create(&pool, 0, &options));
    capture_begin(ORIGIN, pool);
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_error(tnr_malloc(&none, 8 * MIB, 0, ORIGIN), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_free(block));
    assert_ptr_equal(captured_block(ORIGIN, 2), block);
    assert_ok(tnr_free(block));
    recorded graph = capture_end(ORIGIN);
    recorded_destroy(&graph);
    steps_settle();
    assert_ok(tnr_pool_destroy(pool));
    check_all_given_back();
}

/* ---- calls that must not break it ----------------------------------------------------------- */

static void every_call_beside_a_capture(void **state)
{
    (void)state;
    tnr_graph number = 0;
    tnr_cuda_graph cuda = NULL;
    char text[64];
    steps_start("reuse:poll", NULL);
    unsigned char *block = unit_malloc(4 * MIB, OUTSIDE);
    unsigned char *kept = unit_malloc(4 * MIB, OUTSIDE);
    tnr_stream fresh = life_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = life_event();
    assert_ok(tnr_record_use(block, OTHER));
    life_record(event, OTHER);
    assert_ok(tnr_keep_until(kept, event));
    capture_begin(ORIGIN, NULL);
    unsigned char *own = captured_block(ORIGIN, 1);

    uint64_t syncs = life_host_waits();
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(kept));
    assert_ok(tnr_free(unit_malloc(16 * MIB, OUTSIDE)));
    unsigned char *more = unit_malloc(MIB, OTHER);
    assert_ok(tnr_record_use(more, OUTSIDE));
    assert_ok(tnr_record_stream(more, fresh));
    assert_ok(tnr_free(more));
    assert_ok(tnr_free_on(unit_malloc(MIB, OTHER), OUTSIDE));
    assert_ok(tnr_free_sync(unit_malloc(MIB, OTHER)));
    tnr_status trimmed = tnr_trim(NULL, 0, 0); /* as much as can go now, or an error */
    assert_true(trimmed == TNR_OK || trimmed == TNR_ERR_CAPTURE || trimmed == TNR_ERR_BUSY);
    (void)tnr_stats_json(text, sizeof(text), NULL, 0);
    assert_ok(tnr_stats_reset_peaks(0));
    assert_ok(tnr_stream_created(0, fresh));
    assert_ok(tnr_stream_destroying(0, fresh));
    assert_error(tnr_capture_end(&cuda, NULL, 0, OUTSIDE), TNR_ERR_CAPTURE, NULL);
    assert_error(tnr_capture_attach(&number, 0, OUTSIDE, NULL), TNR_ERR_CAPTURE, NULL);
    assert_int_equal(tnr_graph_adopt(&number, NULL, 0, NULL), TNR_ERR_INVALID_ARGUMENT);
    tnr_pool pool = graph_pool("meanwhile");
    assert_ok(tnr_pool_destroy(pool));
    assert_int_equal(tnr_shutdown(0), TNR_ERR_BUSY);
    (void)unit_stats();
    assert_int_equal(life_host_waits(), syncs); /* the host cannot wait now */
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);

    assert_ok(tnr_free(own));
    recorded graph = capture_end(ORIGIN);
    assert_int_equal(graph_info(graph.number).blocks, 1);
    size_t nodes = 0;
    assert_int_equal(cuGraphGetNodes(graph.cuda, NULL, &nodes), CUDA_SUCCESS);
    assert_int_equal(nodes, 1); /* none of it has become one */
    recorded_destroy(&graph);
    assert_int_equal(cuStreamDestroy(fresh), CUDA_SUCCESS);
    check_all_given_back();
}

/* A stream that joins a capture and is destroyed there: what it did before is not over yet, and
 * nothing can mark its end. Its handle is the next stream's at once. */
static void streams_end_inside(void **state)
{
    (void)state;
    steps_start("cross_stream:off", NULL);
    tnr_stream before = life_stream(CU_STREAM_NON_BLOCKING);
    unsigned char *dead = unit_malloc(4 * MIB, before);
    life_fill(dead, 4 * MIB, 1, before);
    assert_ok(tnr_free(dead));
    capture_begin(ORIGIN, NULL);
    uint64_t waits = life_host_waits();
    for (int i = 0; i < 3; i++) {
        unsigned char *own = captured_block(ORIGIN, 2);
        order_after(before, ORIGIN);
        assert_ok(tnr_stream_destroying(0, before));
        assert_int_equal(cuStreamDestroy(before), CUDA_SUCCESS);
        tnr_stream next = life_stream(CU_STREAM_NON_BLOCKING);
        assert_ptr_equal(next, before); /* or the test shows nothing */
        assert_ok(tnr_stream_created(0, next));
        unsigned char *other = unit_malloc(4 * MIB, next);
        assert_ptr_not_equal(other, dead);
        life_fill(other, 4 * MIB, 3, next);
        assert_ok(tnr_free(other));
        assert_ok(tnr_free(own));
    }
    assert_int_equal(life_host_waits(), waits);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    recorded graph = capture_end(ORIGIN);
    /* Now they can be waited for, all at once. */
    assert_ok(tnr_free(unit_malloc(4 * MIB, life_stream(CU_STREAM_NON_BLOCKING))));
    assert_ok(tnr_free(unit_malloc(4 * MIB, life_stream(CU_STREAM_NON_BLOCKING))));
    assert_int_equal(life_host_waits(), waits + 1);
    recorded_launch(&graph, ORIGIN);
    recorded_destroy(&graph);
    check_all_given_back();
}

/* The work of such a stream comes after all marks that it was given: when the last of them is over,
 * what it did later may still run. */
static void an_end_inside_comes_after_the_marks(void **state)
{
    (void)state;
    steps_start("reuse:poll,cross_stream:off", NULL);
    tnr_stream side = life_stream(CU_STREAM_NON_BLOCKING);
    unsigned char *marked = unit_malloc(4 * MIB, OTHER);
    unsigned char *used = unit_malloc(4 * MIB, ORIGIN);
    capture_begin(ORIGIN, NULL);
    assert_ok(tnr_record_use(marked, side)); /* no number is given to another stream after it */
    assert_ok(tnr_free(marked));
    life_fill(used, 4 * MIB, 1, side);
    assert_ok(tnr_record_stream(used, side));
    assert_ok(tnr_free(used));
    order_after(side, ORIGIN);
    order_after(ORIGIN, side);
    assert_ok(tnr_stream_destroying(0, side));
    assert_int_equal(cuStreamDestroy(side), CUDA_SUCCESS);
    recorded graph = capture_end(ORIGIN);
    assert_int_equal(simcuda_run(1), 1); /* the mark, and not the fill */
    uint64_t waits = life_host_waits();
    assert_ptr_equal(unit_malloc(4 * MIB, OTHER), marked);
    assert_true(unit_malloc(4 * MIB, ORIGIN) != used || life_host_waits() > waits);
    recorded_destroy(&graph);
}

typedef struct asking {
    void *block, *next;
    tnr_status status;
} asking;

static void *free_and_ask(void *of)
{
    asking *self = of;
    self->status = tnr_free(self->block);
    if (self->status == TNR_OK)
        self->status = tnr_malloc(&self->next, 4 * MIB, 0, OTHER);
    return NULL;
}

/* Events may not be asked in a global capture, by any thread that is not relaxed. Tenure's calls
 * are: another thread's memory comes back because its use is seen to be over. */
static void events_are_asked_beside_a_capture(void **state)
{
    (void)state;
    pthread_t thread;
    steps_start("reuse:poll,cross_stream:off", NULL);
    asking other = {.block = unit_malloc(4 * MIB, OTHER)};
    life_fill(other.block, 4 * MIB, 1, OUTSIDE);
    assert_ok(tnr_record_use(other.block, OUTSIDE));
    simcuda_run(UINT64_MAX);
    capture_begin(ORIGIN, NULL);
    unsigned char *own = captured_block(ORIGIN, 1);
    uint64_t asked = simcuda_calls("cuEventQuery");
    assert_int_equal(pthread_create(&thread, NULL, free_and_ask, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(other.status, TNR_OK);
    assert_ptr_equal(other.next, other.block);
    assert_true(simcuda_calls("cuEventQuery") > asked);
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(tnr_free(own));
    recorded graph = capture_end(ORIGIN);
    recorded_destroy(&graph);
    assert_ok(tnr_free(other.next));
    check_all_given_back();
}

enum { HALTS = 60 };

static void CUDA_CB free_in_host_function(void *block)
{
    if (tnr_free(block) != TNR_OK)
        abort();
}

/* A miss, which tries again what could not go on. */
static void *miss(void *of)
{
    pthread_barrier_t *turn = of;
    void *block;
    (void)pthread_barrier_wait(turn);
    if (tnr_malloc(&block, 4 * MIB, 0, OUTSIDE) != TNR_OK || tnr_free(block) != TNR_OK)
        abort();
    return NULL;
}

/* An output was freed where its use could not be marked. A launch comes after that use, wherever
 * another thread is on the way from the held blocks to the retired ones. */
static void a_launch_while_another_thread_retires(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_barrier_t turn;
    steps_start("bin_blocks:0", NULL);
    assert_int_equal(pthread_barrier_init(&turn, NULL, 2), 0);
    for (int i = 0; i < HALTS; i++) {
        capture_begin(ORIGIN, NULL);
        unsigned char *output = captured_block(ORIGIN, 5);
        recorded graph = capture_end(ORIGIN);
        recorded_launch(&graph, ORIGIN);
        order_after(BRANCH, ORIGIN);
        life_fill(output, 4 * MIB, 6, BRANCH);
        assert_ok(tnr_record_stream(output, BRANCH));
        assert_int_equal(cuLaunchHostFunc(OTHER, free_in_host_function, output), CUDA_SUCCESS);
        assert_int_equal(cuStreamSynchronize(OTHER), CUDA_SUCCESS);
        assert_int_equal(pthread_create(&thread, NULL, miss, &turn), 0);
        (void)pthread_barrier_wait(&turn);
        recorded_launch(&graph, ORIGIN);
        assert_int_equal(pthread_join(thread, NULL), 0);
        simcuda_run(UINT64_MAX);
        assert_int_equal(simcuda_races(), 0);
        check_bytes(output, 4 * MIB, 5);
        recorded_destroy(&graph);
        steps_settle();
        assert_ok(tnr_trim(NULL, 0, 0)); /* the next one misses too */
    }
    (void)pthread_barrier_destroy(&turn);
    check_all_given_back();
}

/* The thread's own mode is what it was. */
static void the_mode_of_a_thread_stays(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    for (int i = 0; i < 3; i++) {
        CUstreamCaptureMode mode = (CUstreamCaptureMode)i;
        assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
        capture_begin(ORIGIN, NULL);
        assert_ok(tnr_free(captured_block(ORIGIN, 1)));
        assert_ok(tnr_free(unit_malloc(32 * MIB, OUTSIDE)));
        recorded graph = capture_end(ORIGIN);
        recorded_destroy(&graph);
        steps_settle();
        mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
        assert_int_equal(mode, i);
    }
    check_all_given_back();
}

/* ---- no capture, no question ---------------------------------------------------------------- */

static uint64_t capture_questions(void)
{
    return simcuda_calls("cuStreamIsCapturing") + simcuda_calls("cuStreamGetCaptureInfo") +
           simcuda_calls("cuThreadExchangeStreamCaptureMode");
}

static void mix_run(void)
{
    for (int i = 0; i < 200; i++) {
        unsigned char *block = unit_malloc((size_t)(i % 7 + 1) * MIB / 2, life_streams[i % 3]);
        if (i % 2)
            assert_ok(tnr_record_use(block, OUTSIDE));
        if (i % 3 == 0)
            assert_ok(tnr_record_stream(block, OUTSIDE));
        assert_ok(i % 5 == 0 ? tnr_free_sync(block) : tnr_free(block));
    }
    assert_ok(tnr_trim(NULL, 0, 0));
}

static void nothing_is_asked_without_a_capture(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    mix_run();
    assert_int_equal(capture_questions(), 0);
    capture_begin(ORIGIN, NULL);
    assert_ok(tnr_free(captured_block(ORIGIN, 1)));
    assert_true(capture_questions() > 0); /* so the count is one */
    recorded graph = capture_end(ORIGIN);
    uint64_t asked = capture_questions();
    mix_run(); /* a graph is alive, but no capture is under way */
    recorded_launch(&graph, ORIGIN);
    mix_run();
    recorded_destroy(&graph);
    mix_run();
    assert_int_equal(capture_questions(), asked);
    check_all_given_back();
}

/* ---- the fork ------------------------------------------------------------------------------- */

static recorded forked_graph;

/* Ends the child with the number of the call that did not say so. */
static void child_body(void *data)
{
    tnr_cuda_graph cuda = NULL;
    tnr_graph number = 0;
    tnr_pool pool = NULL;
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    (void)data;
    const tnr_status statuses[] = {
        tnr_capture_begin(0, ORIGIN, NULL),
        tnr_capture_end(&cuda, &number, 0, ORIGIN),
        tnr_capture_abort(0, ORIGIN),
        tnr_capture_attach(&number, 0, ORIGIN, NULL),
        tnr_capture_ended(forked_graph.number, NULL),
        tnr_graph_pool_create(&pool, 0, NULL),
        tnr_graph_launch(forked_graph.number, forked_graph.exec, ORIGIN),
        tnr_graph_launching(forked_graph.number, ORIGIN),
        tnr_graph_adopt(&number, forked_graph.cuda, 0, NULL),
        tnr_graph_get(&info, forked_graph.number),
    };
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i] != TNR_ERR_AFTER_FORK)
            _exit((int)i + 1);
}

static void after_a_fork(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    capture_begin(ORIGIN, NULL);
    assert_ok(tnr_free(captured_block(ORIGIN, 1)));
    forked_graph = capture_end(ORIGIN);
    assert_int_equal(unit_in_child(child_body, NULL, 0), 0);
    /* During a capture too. */
    capture_begin(ORIGIN, NULL);
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_int_equal(unit_in_child(child_body, NULL, 0), 0);
    assert_ok(tnr_free(block));
    recorded second = capture_end(ORIGIN);
    recorded_launch(&forked_graph, ORIGIN);
    recorded_launch(&second, ORIGIN);
    recorded_destroy(&second);
    recorded_destroy(&forked_graph);
    check_all_given_back();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(streams_join_and_others_do_not, steps_stop),
        cmocka_unit_test_teardown(streams_of_a_capture_stay_known, steps_stop),
        cmocka_unit_test_teardown(pools_by_name, steps_stop),
        cmocka_unit_test_teardown(two_threads_capture_at_once, steps_stop),
        cmocka_unit_test_teardown(other_threads_go_on, steps_stop),
        cmocka_unit_test_teardown(the_legacy_stream_beside_a_capture, steps_stop),
        cmocka_unit_test_teardown(the_per_thread_stream_captures, steps_stop),
        cmocka_unit_test_teardown(memory_grows_inside, steps_stop),
        cmocka_unit_test_teardown(memory_runs_out_inside, steps_stop),
        cmocka_unit_test_teardown(a_limit_inside, steps_stop),
        cmocka_unit_test_teardown(every_call_beside_a_capture, steps_stop),
        cmocka_unit_test_teardown(streams_end_inside, steps_stop),
        cmocka_unit_test_teardown(an_end_inside_comes_after_the_marks, steps_stop),
        cmocka_unit_test_teardown(events_are_asked_beside_a_capture, steps_stop),
        cmocka_unit_test_teardown(a_launch_while_another_thread_retires, steps_stop),
        cmocka_unit_test_teardown(the_mode_of_a_thread_stays, steps_stop),
        cmocka_unit_test_teardown(nothing_is_asked_without_a_capture, steps_stop),
        cmocka_unit_test_teardown(after_a_fork, steps_stop),
    };
    return steps_run(tests);
}
