/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private pools as PyTorch announces them: an engine that captures by itself, and only says before
 * and after which streams belong to which pool.
 *
 * Seen to fail with: pool_has_graphs() left out of pools_end() (the two of waiting).
 */
#include "capture/steps.h"
#include "tenure_torch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "await.h"

static const tenure_torch_id FIRST = {0, 7}, SECOND = {3, 0};

/* PyTorch's filter: whether the stream belongs to the capture that was begun on ORIGIN. */
typedef struct filter_state {
    atomic_int asked, ended;
    int is_thread; /* 1: accepts every stream, as the filter of use_mem_pool does on its thread */
} filter_state;

static int accepts(void *context, tnr_stream stream)
{
    filter_state *state = context;
    atomic_fetch_add(&state->asked, 1);
    if (state->is_thread)
        return 1;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static void ended(void *context)
{
    atomic_fetch_add(&((filter_state *)context)->ended, 1);
}

static void pool_begin(tenure_torch_id id, filter_state *state)
{
    tenure_torch_filter filter = {accepts, ended, state};
    tenure_torch_pool_begin(0, id, &filter);
}

/* What torch.cuda.CUDAGraph does. */
static void graph_begin(tenure_torch_id id, filter_state *state)
{
    pool_begin(id, state);
    assert_int_equal(cuStreamBeginCapture(ORIGIN, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
}

static recorded graph_end(tenure_torch_id id)
{
    recorded graph = {0};
    assert_int_equal(cuStreamEndCapture(ORIGIN, &graph.cuda), CUDA_SUCCESS);
    tenure_torch_pool_end(0, id);
    assert_int_equal(cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0), CUDA_SUCCESS);
    return graph;
}

static void graph_reset(recorded *graph, tenure_torch_id id)
{
    tenure_torch_pool_release(0, id);
    recorded_destroy(graph);
}

static void *take(size_t bytes, tnr_stream stream)
{
    void *block = tenure_torch_malloc(bytes, 0, stream);
    assert_non_null(block);
    return block;
}

static void give(void *block, tnr_stream stream)
{
    tenure_torch_free(block, 0, 0, stream);
}

/* ---- captures ------------------------------------------------------------------------------- */

static void a_capture_has_its_pool(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    filter_state filter = {0};
    void *before = take(4 * MIB, ORIGIN);
    graph_begin(FIRST, &filter);
    void *inside = take(4 * MIB, ORIGIN);
    life_fill(inside, 4 * MIB, 5, ORIGIN);
    order_after(BRANCH, ORIGIN);
    void *joined = take(4 * MIB, BRANCH);
    void *outside = take(4 * MIB, OUTSIDE);
    order_after(ORIGIN, BRANCH);
    assert_non_null(pool_of(inside));
    assert_ptr_equal(pool_of(joined), pool_of(inside));
    assert_null(pool_of(outside));
    assert_null(pool_of(before));
    recorded graph = graph_end(FIRST);
    assert_int_equal(filter.ended, 1);
    int asked = filter.asked;
    void *after = take(4 * MIB, ORIGIN);
    assert_null(pool_of(after));
    assert_int_equal(filter.asked, asked);

    /* Replays keep their addresses from everyone. */
    give(inside, ORIGIN);
    void *other = take(4 * MIB, ORIGIN);
    assert_false(is_overlap(other, 4 * MIB, inside, 4 * MIB));
    assert_int_equal(cuGraphLaunch(graph.exec, ORIGIN), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX);
    check_bytes(inside, 4 * MIB, 5);

    void *all[] = {before, joined, outside, after, other};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        give(all[i], ORIGIN);
    assert_int_equal(tenure_torch_pools(), 1);
    graph_reset(&graph, FIRST);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
    check_all_given_back();
}

/* A block that is freed in the capture, before anything is allocated in it, may be in the graph. */
static void a_free_may_come_first(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    filter_state filter = {0};
    void *block = take(4 * MIB, ORIGIN);
    graph_begin(FIRST, &filter);
    life_fill(block, 4 * MIB, 5, ORIGIN);
    give(block, ORIGIN);
    recorded graph = graph_end(FIRST);
    void *next = take(4 * MIB, ORIGIN);
    assert_false(is_overlap(next, 4 * MIB, block, 4 * MIB));
    give(next, ORIGIN);
    graph_reset(&graph, FIRST);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
    check_all_given_back();
}

static void graphs_share_a_pool(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    filter_state filter = {0};
    graph_begin(FIRST, &filter);
    void *block = take(4 * MIB, ORIGIN);
    tnr_pool pool = pool_of(block);
    give(block, ORIGIN);
    recorded first = graph_end(FIRST);
    graph_begin(FIRST, &filter);
    void *again = take(4 * MIB, ORIGIN);
    assert_ptr_equal(pool_of(again), pool);
    assert_ptr_equal(again, block); /* what the first had freed serves the second */
    give(again, ORIGIN);
    recorded second = graph_end(FIRST);
    graph_reset(&first, FIRST);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 1);
    assert_true(pool_is_there(pool));
    graph_begin(FIRST, &filter);
    void *third = take(8 * MIB, ORIGIN);
    assert_ptr_equal(pool_of(third), pool); /* as long as one graph is there, it is that pool */
    give(third, ORIGIN);
    recorded last = graph_end(FIRST);
    graph_reset(&second, FIRST);
    graph_reset(&last, FIRST);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
    assert_false(pool_is_there(pool));
    check_all_given_back();
}

/* An output outlives its graph; the id is used again meanwhile, for another pool. */
static void blocks_outlive_their_graph(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    filter_state filter = {0};
    graph_begin(FIRST, &filter);
    void *output = take(4 * MIB, ORIGIN);
    tnr_pool pool = pool_of(output);
    recorded graph = graph_end(FIRST);
    graph_reset(&graph, FIRST);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 1);
    assert_true(pool_is_there(pool));
    graph_begin(FIRST, &filter);
    void *other = take(4 * MIB, ORIGIN);
    assert_ptr_not_equal(pool_of(other), pool);
    give(other, ORIGIN);
    recorded second = graph_end(FIRST);
    assert_int_equal(tenure_torch_pools(), 2);
    graph_reset(&second, FIRST);
    give(output, ORIGIN);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
    assert_int_equal(filter.ended, 2);
    check_all_given_back();
}

/* Without the hook for begins, Python says it once the capture has begun. */
static void told_after_the_begin(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    assert_int_equal(cuStreamBeginCapture(ORIGIN, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    tenure_torch_capture_begun(0, SECOND, ORIGIN);
    void *inside = take(4 * MIB, ORIGIN), *outside = take(4 * MIB, OUTSIDE);
    assert_non_null(pool_of(inside));
    assert_null(pool_of(outside));
    recorded graph = graph_end(SECOND);
    give(inside, ORIGIN);
    give(outside, OUTSIDE);
    graph_reset(&graph, SECOND);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
    check_all_given_back();
}

/* A capture that somebody attached Tenure to by hand is theirs. */
static void attached_by_hand(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    filter_state filter = {0};
    tnr_graph number;
    graph_begin(FIRST, &filter);
    assert_ok(tnr_capture_attach(&number, 0, ORIGIN, NULL));
    void *inside = take(4 * MIB, ORIGIN);
    assert_ptr_equal(pool_of(inside), graph_info(number).pool);
    recorded graph = graph_end(FIRST);
    assert_ok(tnr_capture_ended(number, graph.cuda));
    give(inside, ORIGIN);
    graph_reset(&graph, FIRST);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
    check_all_given_back();
}

/* What the graph refers to outside is kept, though the program frees it after the capture. */
static void what_dies_after_the_capture(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    filter_state filter = {0};
    void *weights = take(4 * MIB, ORIGIN);
    graph_begin(FIRST, &filter);
    void *inside = take(4 * MIB, ORIGIN);
    life_fill(inside, 4 * MIB, 5, ORIGIN);
    life_fill(weights, 4 * MIB, 6, ORIGIN);
    recorded graph = graph_end(FIRST);
    give(weights, ORIGIN);
    void *other = take(4 * MIB, ORIGIN);
    assert_false(is_overlap(other, 4 * MIB, weights, 4 * MIB));
    life_fill(other, 4 * MIB, 7, ORIGIN);
    assert_int_equal(cuGraphLaunch(graph.exec, ORIGIN), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX);
    check_bytes(other, 4 * MIB, 7);
    check_bytes(weights, 4 * MIB, 6);
    give(other, ORIGIN);
    give(inside, ORIGIN);
    graph_reset(&graph, FIRST);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
    check_all_given_back();
}

/* PyTorch then asks nobody to end the routing before it begins anew. */
static void a_failed_capture(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    filter_state filter = {0};
    CUgraph none = NULL;
    graph_begin(FIRST, &filter);
    void *inside = take(4 * MIB, ORIGIN);
    life_fill(inside, 4 * MIB, 1, ORIGIN);
    order_after(BRANCH, ORIGIN);
    life_fill(inside, 4 * MIB, 2, BRANCH); /* and never back */
    assert_int_equal(cuStreamEndCapture(ORIGIN, &none), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    int asked = filter.asked;
    void *after = take(4 * MIB, ORIGIN);
    assert_null(pool_of(after));
    assert_int_equal(filter.asked, asked); /* the filter's graph may be gone by now */
    give(inside, ORIGIN);
    give(after, ORIGIN);
    tenure_torch_pool_end(0, FIRST);
    tenure_torch_pool_release(0, FIRST);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
    check_all_given_back();
}

/* ---- without a capture ---------------------------------------------------------------------- */

static void routed_threads(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    filter_state outer = {.is_thread = 1}, inner = {.is_thread = 1};
    pool_begin(FIRST, &outer);
    void *first = take(4 * MIB, ORIGIN), *legacy = take(4 * MIB, NULL);
    assert_ptr_equal(pool_of(legacy), pool_of(first));
    pool_begin(SECOND, &inner);
    void *second = take(4 * MIB, ORIGIN);
    tenure_torch_pool_end(0, SECOND);
    void *third = take(4 * MIB, ORIGIN);
    tenure_torch_pool_end(0, FIRST);
    void *after = take(4 * MIB, ORIGIN);
    assert_non_null(pool_of(first));
    assert_non_null(pool_of(second));
    assert_ptr_not_equal(pool_of(first), pool_of(second));
    assert_ptr_equal(pool_of(third), pool_of(first));
    assert_null(pool_of(after));
    void *all[] = {first, legacy, second, third, after};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        give(all[i], ORIGIN);
    tenure_torch_pool_release(0, FIRST);
    tenure_torch_pool_release(0, SECOND);
    assert_int_equal(outer.ended + inner.ended, 2);
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
    check_all_given_back();
}

static void ends_of_nothing(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    unsigned long failures = tenure_torch_failures();
    tenure_torch_pool_end(0, FIRST);
    tenure_torch_pool_release(0, FIRST);
    assert_int_equal(tenure_torch_failures(), failures);
    filter_state filter = {0};
    tenure_torch_filter wrapped = {accepts, ended, &filter};
    tenure_torch_pool_begin(99, FIRST, &wrapped); /* no such device */
    assert_int_equal(tenure_torch_failures(), failures + 1);
    assert_int_equal(filter.ended, 1);
    assert_int_equal(tenure_torch_pools(), 0);
}

/* Memory of a pool that nobody needs any more must not make an allocation fail. */
static void short_memory_ends_pools(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    filter_state filter = {0};
    graph_begin(FIRST, &filter);
    void *block = take(40 * MIB, ORIGIN);
    recorded graph = graph_end(FIRST);
    graph_reset(&graph, FIRST); /* not yet: the block is live */
    give(block, ORIGIN);
    simcuda_run(UINT64_MAX);
    assert_int_equal(unit_stats().pools, 2);
    assert_ok(tnr_limit_set(64 * MIB, 0));
    void *large = take(60 * MIB, OUTSIDE);
    give(large, OUTSIDE);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
}

/* PyTorch releases a graph's pool right before it ends the graph, on one thread. Code that waited
 * there for the graph would wait in vain; each of its looks would ask the driver for an event. */
static void a_release_does_not_wait_for_its_graph(void **state)
{
    (void)state;
    steps_start("graph_end_ms:1000", NULL);
    filter_state filter = {0};
    for (int round = 0; round < 3; round++) {
        graph_begin(FIRST, &filter);
        give(take(4 * MIB, ORIGIN), ORIGIN);
        recorded graph = graph_end(FIRST);
        uint64_t before = unit_stats().driver_calls[TNR_DRIVER_EVENT];
        tenure_torch_pool_release(0, FIRST);
        assert_int_equal(unit_stats().driver_calls[TNR_DRIVER_EVENT], before);
        assert_int_equal(tenure_torch_pools(), 1);
        recorded_destroy(&graph);
        steps_settle();
        assert_int_equal(tenure_torch_pools(), 0);
    }
    check_all_given_back();
}

/* A pool with more graphs than there is room for at first, which end in another order. */
static void a_pool_of_many_graphs(void **state)
{
    enum { GRAPHS = 11 };
    (void)state;
    steps_start("graph_end_ms:1000", NULL);
    filter_state filter = {0};
    recorded graphs[GRAPHS];
    for (int i = 0; i < GRAPHS; i++) {
        graph_begin(FIRST, &filter);
        give(take(4 * MIB, ORIGIN), ORIGIN);
        graphs[i] = graph_end(FIRST);
    }
    uint64_t before = unit_stats().driver_calls[TNR_DRIVER_EVENT];
    for (int i = 0; i < GRAPHS; i++)
        tenure_torch_pool_release(0, FIRST);
    for (int i = GRAPHS; i-- > 0;) {
        assert_int_equal(tenure_torch_pools(), 1);
        assert_int_equal(unit_stats().driver_calls[TNR_DRIVER_EVENT], before);
        recorded_destroy(&graphs[i]);
        simcuda_run(UINT64_MAX);
    }
    steps_settle();
    assert_int_equal(tenure_torch_pools(), 0);
    check_all_given_back();
}

/* ---- threads -------------------------------------------------------------------------------- */

static atomic_int stopping;

static void *allocate_meanwhile(void *stream)
{
    unsigned pairs = 0;
    while (!atomic_load(&stopping)) {
        void *block = tenure_torch_malloc(MIB, 0, stream);
        tenure_torch_free(block, MIB, 0, stream);
        if (++pairs % 64 == 0)
            usleep(200); /* the other threads are what this is about */
    }
    return NULL;
}

static void threads_meanwhile(void **state)
{
    (void)state;
    life_start(NULL, "SCHEDULE=threads", NULL);
    unsigned long failures = tenure_torch_failures();
    pthread_t threads[2];
    atomic_store(&stopping, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_meanwhile, life_streams[2 + i]),
                         0);
    for (int i = 0; i < 20; i++) {
        filter_state filter = {0};
        pool_begin(FIRST, &filter);
        assert_int_equal(cuStreamBeginCapture(ORIGIN, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                         CUDA_SUCCESS);
        void *inside = take(MIB, ORIGIN);
        assert_non_null(pool_of(inside));
        give(inside, ORIGIN);
        recorded graph = graph_end(FIRST);
        graph_reset(&graph, FIRST);
        assert_int_equal(filter.ended, 1);
    }
    atomic_store(&stopping, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    /* A thread of the driver lets go of the graphs, when it gets a processor. */
    await_true(tenure_torch_pools() == 0);
    assert_int_equal(tenure_torch_failures(), failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_capture_has_its_pool, steps_stop),
        cmocka_unit_test_teardown(a_free_may_come_first, steps_stop),
        cmocka_unit_test_teardown(graphs_share_a_pool, steps_stop),
        cmocka_unit_test_teardown(blocks_outlive_their_graph, steps_stop),
        cmocka_unit_test_teardown(told_after_the_begin, steps_stop),
        cmocka_unit_test_teardown(attached_by_hand, steps_stop),
        cmocka_unit_test_teardown(what_dies_after_the_capture, steps_stop),
        cmocka_unit_test_teardown(a_failed_capture, steps_stop),
        cmocka_unit_test_teardown(routed_threads, steps_stop),
        cmocka_unit_test_teardown(ends_of_nothing, steps_stop),
        cmocka_unit_test_teardown(short_memory_ends_pools, steps_stop),
        cmocka_unit_test_teardown(a_release_does_not_wait_for_its_graph, steps_stop),
        cmocka_unit_test_teardown(a_pool_of_many_graphs, steps_stop),
        cmocka_unit_test_teardown(threads_meanwhile, steps_stop),
    };
    return steps_run(tests);
}
