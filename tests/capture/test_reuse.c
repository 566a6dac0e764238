/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reuse inside a capture. Freed memory is handed out again exactly when the graph's edges order its
 * last use before the asking stream's next captured work. No node is added for that.
 *
 * Each case is launched at its end, where the race detector sees an order that is not there.
 *
 * Seen to fail with these lines changed in the library:
 *   dependencies_of_its_own_stream_taken_away,
 *   dependencies_taken_away_of_the_next_owner,
 *   dependencies_of_a_recorded_stream_taken_away  captured.c, captured_reach_since: no turns
 *   a_wide_frontier_moves_on                      order.c, view_move: each new beginning is a turn
 *   a_use_recorded_before_dependencies_are_taken_away  captured.c, tnri_place_use: own uses ignored
 */
#include "steps.h"

#include <pthread.h>

#define BYTES (4 * MIB)

static size_t node_count(tnr_stream stream)
{
    size_t count = 0;
    assert_int_equal(cuGraphGetNodes(capture_graph(stream), NULL, &count), CUDA_SUCCESS);
    return count;
}

/* Asks for a block on the stream, uses it, and says whether it lies on `block`. */
static int is_given(tnr_stream stream, const void *block)
{
    unsigned char *next = captured_block(stream, 99);
    return is_overlap(next, BYTES, block, BYTES);
}

/* Ends the capture with everything joined, and launches it twice. `kept` bytes were held back, and
 * may wait for streams outside until somebody looks. */
static void finish_kept(uint64_t reused, size_t kept)
{
    order_after(ORIGIN, BRANCH);
    order_after(ORIGIN, OTHER);
    recorded graph = capture_end(ORIGIN);
    tnr_graph_info info = graph_info(graph.number);
    assert_int_equal(info.reused, reused);
    tnr_stats stats = pool_stats(info.pool);
    assert_true(stats.bytes_retired <= kept); /* the capture is over: all else is clean */
    for (int i = 0; i < 2; i++)
        recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    assert_int_equal(simcuda_races(), 0);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(pool_stats(info.pool).bytes_retired, 0);
    recorded_destroy(&graph);
}

static void finish(uint64_t reused)
{
    finish_kept(reused, 0);
}

/* A capture of three streams, which begin at the same point: each has one node of its own. */
static void start_with(const char *conf)
{
    steps_start(conf, NULL);
    assert_ok(tnr_stream_created(0, ORIGIN)); /* life_streams are new in each test */
    capture_begin(ORIGIN, NULL);
    (void)captured_block(ORIGIN, 50);
    order_after(BRANCH, ORIGIN);
    order_after(OTHER, ORIGIN);
    (void)captured_block(BRANCH, 51);
    (void)captured_block(OTHER, 52);
}

static void start(void)
{
    start_with(NULL);
}

/* ---- one stream ----------------------------------------------------------------------------- */

static void at_once_on_its_own_stream(void **state)
{
    (void)state;
    start();
    size_t nodes = node_count(ORIGIN);
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_ok(tnr_free(block));
    assert_ptr_equal(captured_block(ORIGIN, 2), block);
    assert_int_equal(node_count(ORIGIN), nodes + 2); /* the two writes */
    assert_int_equal(pool_stats(pool_of(block)).freed_because[TNR_REUSE_ORDERED_BY_GRAPH], 1);
    finish(1);
}

/* A stretch that was freed in pieces serves one request; one that is larger serves several. */
static void pieces_join_and_split(void **state)
{
    (void)state;
    start();
    unsigned char *low = captured_block(ORIGIN, 1);
    unsigned char *high = captured_block(ORIGIN, 2);
    uint64_t reserved = pool_stats(pool_of(low)).reserved_bytes.current;
    tnr_pool pool = pool_of(low);
    assert_ok(tnr_free(low));
    assert_ok(tnr_free(high));
    unsigned char *both = unit_malloc(2 * BYTES, ORIGIN);
    life_fill(both, 2 * BYTES, 3, ORIGIN);
    assert_int_equal(pool_stats(pool).reserved_bytes.current, reserved);
    assert_ok(tnr_free(both));
    for (int i = 0; i < 4; i++) {
        unsigned char *quarter = unit_malloc(BYTES / 2, ORIGIN);
        assert_true(is_overlap(quarter, BYTES / 2, both, 2 * BYTES));
        life_fill(quarter, BYTES / 2, 4 + i, ORIGIN);
    }
    assert_int_equal(pool_stats(pool).reserved_bytes.current, reserved);
    finish(5);
}

static void aligned_requests(void **state)
{
    (void)state;
    start();
    unsigned char *block = unit_malloc(16 * MIB, ORIGIN);
    tnr_pool pool = pool_of(block);
    uint64_t reserved = pool_stats(pool).reserved_bytes.current;
    life_fill(block, 16 * MIB, 1, ORIGIN);
    assert_ok(tnr_free(block));
    void *aligned = NULL;
    assert_ok(tnr_malloc_aligned(&aligned, 3 * MIB, 4 * MIB, 0, ORIGIN));
    assert_int_equal((uintptr_t)aligned % (4 * MIB), 0);
    assert_true(is_overlap(aligned, 3 * MIB, block, 16 * MIB));
    assert_int_equal(pool_stats(pool).reserved_bytes.current, reserved);
    life_fill(aligned, 3 * MIB, 2, ORIGIN);
    finish(1);
}

/* ---- two streams ---------------------------------------------------------------------------- */

static void not_in_a_branch_without_order(void **state)
{
    (void)state;
    start();
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_ok(tnr_free(block));
    assert_false(is_given(BRANCH, block));
    order_after(OTHER, BRANCH);
    assert_false(is_given(OTHER, block));
    assert_true(is_given(ORIGIN, block)); /* it was there all the time */
    finish(1);
}

static void after_a_join(void **state)
{
    (void)state;
    start();
    unsigned char *block = captured_block(BRANCH, 1);
    assert_ok(tnr_free(block));
    assert_false(is_given(ORIGIN, block));
    order_after(ORIGIN, BRANCH);
    assert_true(is_given(ORIGIN, block));
    finish(1);
}

/* Order that is handed on through a third stream counts. */
static void through_a_third_stream(void **state)
{
    (void)state;
    start();
    unsigned char *mine = captured_block(OTHER, 1);
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_ok(tnr_free(block));
    order_after(OTHER, ORIGIN);
    life_fill(mine, BYTES, 2, OTHER);
    order_after(BRANCH, OTHER);
    assert_true(is_given(BRANCH, block));
    finish(1);
}

/* The point where the event was recorded counts, not what came after it. */
static void a_join_from_before_the_last_use(void **state)
{
    (void)state;
    start();
    CUevent early = life_event();
    unsigned char *block = captured_block(BRANCH, 1);
    assert_int_equal(cuEventRecord(early, BRANCH), CUDA_SUCCESS);
    life_fill(block, BYTES, 2, BRANCH);
    assert_ok(tnr_free(block));
    assert_int_equal(cuStreamWaitEvent(ORIGIN, early, 0), CUDA_SUCCESS);
    assert_false(is_given(ORIGIN, block));
    order_after(ORIGIN, BRANCH);
    assert_true(is_given(ORIGIN, block));
    finish(1);
}

/* A stream that forks off later is after what was freed before. */
static void a_fork_after_the_free(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    assert_ok(tnr_stream_created(0, ORIGIN));
    capture_begin(ORIGIN, NULL);
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_ok(tnr_free(block));
    order_after(BRANCH, ORIGIN);
    order_after(OTHER, ORIGIN);
    assert_true(is_given(BRANCH, block));
    assert_false(is_given(OTHER, block)); /* once */
    finish(1);
}

/* Never used at all: nothing has to come before the next owner. */
static void freed_before_any_node(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    assert_ok(tnr_stream_created(0, ORIGIN));
    capture_begin(ORIGIN, NULL);
    unsigned char *block = unit_malloc(BYTES, ORIGIN);
    assert_ok(tnr_free(block));
    order_after(BRANCH, ORIGIN);
    order_after(OTHER, ORIGIN);
    assert_true(is_given(BRANCH, block));
    finish(1);
}

/* ---- uses on other streams ------------------------------------------------------------------ */

/* A block of ORIGIN that BRANCH uses, with an event there; then BRANCH has other work. */
static unsigned char *block_used_by_branch(CUevent after_use, int call)
{
    unsigned char *block = captured_block(ORIGIN, 1);
    order_after(BRANCH, ORIGIN);
    life_fill(block, BYTES, 2, BRANCH);
    if (call == 0)
        assert_ok(tnr_record_use(block + MIB, BRANCH)); /* any address inside will do */
    else
        assert_ok(tnr_record_stream(block + MIB, BRANCH));
    assert_int_equal(cuEventRecord(after_use, BRANCH), CUDA_SUCCESS);
    (void)captured_block(BRANCH, 3);
    return block;
}

static void record_use_ends_where_it_is_called(void **state)
{
    (void)state;
    start();
    CUevent after_use = life_event();
    unsigned char *block = block_used_by_branch(after_use, 0);
    assert_ok(tnr_free(block));
    assert_false(is_given(ORIGIN, block)); /* its own stream does not wait for the use */
    assert_int_equal(cuStreamWaitEvent(ORIGIN, after_use, 0), CUDA_SUCCESS);
    assert_true(is_given(ORIGIN, block)); /* though BRANCH goes on */
    finish(1);
}

static void record_stream_ends_with_the_free(void **state)
{
    (void)state;
    start();
    CUevent after_use = life_event();
    unsigned char *block = block_used_by_branch(after_use, 1);
    assert_ok(tnr_free(block));
    assert_int_equal(cuStreamWaitEvent(ORIGIN, after_use, 0), CUDA_SUCCESS);
    assert_false(is_given(ORIGIN, block));
    order_after(ORIGIN, BRANCH);
    assert_true(is_given(ORIGIN, block));
    finish(1);
}

static void free_on_is_a_use_and_a_free(void **state)
{
    (void)state;
    start();
    unsigned char *block = captured_block(ORIGIN, 1);
    order_after(BRANCH, ORIGIN);
    life_fill(block, BYTES, 2, BRANCH);
    assert_ok(tnr_free_on(block, BRANCH));
    assert_false(is_given(ORIGIN, block));
    assert_true(is_given(BRANCH, block)); /* which came after ORIGIN's use too */
    finish(1);
}

/* The user's stream alone is not enough if the block's own has gone on using it. */
static void both_streams_must_be_over(void **state)
{
    (void)state;
    start();
    unsigned char *block = captured_block(ORIGIN, 1);
    order_after(BRANCH, ORIGIN);
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)captured_block(BRANCH, 4), (CUdeviceptr)block,
                                       BYTES, BRANCH),
                     CUDA_SUCCESS);
    assert_ok(tnr_record_use(block, BRANCH));
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)captured_block(ORIGIN, 4), (CUdeviceptr)block,
                                       BYTES, ORIGIN),
                     CUDA_SUCCESS);
    assert_ok(tnr_free(block));
    assert_false(is_given(ORIGIN, block));
    assert_false(is_given(BRANCH, block));
    order_after(BRANCH, ORIGIN);
    assert_true(is_given(BRANCH, block));
    finish(1);
}

/* One more use of the same stream moves its end, and uses of several streams add up. */
static void uses_add_up(void **state)
{
    (void)state;
    start();
    CUevent first = life_event();
    unsigned char *block = captured_block(ORIGIN, 1);
    order_after(BRANCH, ORIGIN);
    life_fill(block, MIB, 2, BRANCH);
    assert_ok(tnr_record_use(block, BRANCH));
    assert_int_equal(cuEventRecord(first, BRANCH), CUDA_SUCCESS);
    life_fill(block, MIB, 3, BRANCH);
    assert_ok(tnr_record_use(block, BRANCH));
    order_after(OTHER, ORIGIN);
    life_fill(block + MIB, MIB, 4, OTHER);
    assert_ok(tnr_record_stream(block, OTHER));
    assert_ok(tnr_free(block));
    assert_int_equal(cuStreamWaitEvent(ORIGIN, first, 0), CUDA_SUCCESS);
    assert_false(is_given(ORIGIN, block));
    order_after(ORIGIN, BRANCH);
    assert_false(is_given(ORIGIN, block));
    order_after(ORIGIN, OTHER);
    assert_true(is_given(ORIGIN, block));
    finish(1);
}

/* ---- what cannot be told by nodes ----------------------------------------------------------- */

/* Kept until the capture ends; then it is the pool's again. */
static void check_kept(const unsigned char *block)
{
    assert_false(is_given(ORIGIN, block));
    order_after(ORIGIN, BRANCH);
    order_after(ORIGIN, OTHER);
    assert_false(is_given(ORIGIN, block));
}

static void free_sync_keeps(void **state)
{
    (void)state;
    start();
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_ok(tnr_free_sync(block));
    check_kept(block);
    finish_kept(0, BYTES);
}

static void an_outside_stream_keeps(void **state)
{
    (void)state;
    for (int until_free = 0; until_free < 2; until_free++) {
        start();
        unsigned char *block = captured_block(ORIGIN, 1);
        assert_ok(until_free ? tnr_record_stream(block, OUTSIDE) : tnr_record_use(block, OUTSIDE));
        assert_ok(tnr_free(block));
        check_kept(block);
        finish_kept(0, BYTES);
        if (until_free == 0)
            assert_int_equal(steps_stop(state), 0);
    }
}

static void keep_until_keeps(void **state)
{
    (void)state;
    start();
    CUevent event = life_event();
    unsigned char *block = captured_block(ORIGIN, 1);
    life_record(event, OUTSIDE);
    assert_ok(tnr_keep_until(block, event));
    assert_ok(tnr_free(block));
    check_kept(block);
    finish_kept(0, BYTES);
}

/* An event that was recorded inside stands for a node, and cannot be asked. However Tenure takes
 * it, the memory must not come back before its use is over. */
static void keep_until_an_event_of_the_capture(void **state)
{
    (void)state;
    start();
    CUevent event = life_event();
    unsigned char *block = captured_block(ORIGIN, 1);
    order_after(BRANCH, ORIGIN);
    life_fill(block, BYTES, 2, BRANCH);
    tnr_moment before = tnr_moment_now();
    assert_int_equal(cuEventRecord(event, BRANCH), CUDA_SUCCESS);
    int is_announced = tnr_event_recorded(event, 0, BRANCH, before) == TNR_OK;
    int is_kept = is_announced && tnr_keep_until(block, event) == TNR_OK;
    if (!is_kept) /* refused: said in a way that is understood */
        assert_ok(tnr_record_use(block, BRANCH));
    assert_ok(tnr_free(block));
    assert_false(is_given(ORIGIN, block));
    assert_int_equal(capture_status(ORIGIN), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    recorded graph;
    order_after(ORIGIN, BRANCH);
    order_after(ORIGIN, OTHER);
    graph = capture_end(ORIGIN);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    recorded_destroy(&graph);
}

/* ---- changed by hand ------------------------------------------------------------------------ */

/* The program takes nodes out of a stream's dependencies: what it was after, it is no longer. */
static void dependencies_taken_away(void **state)
{
    (void)state;
    start();
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_ok(tnr_free(block));
    order_after(BRANCH, ORIGIN);
    (void)unit_malloc(512, BRANCH); /* looks: BRANCH is known to be after the block's use */
    assert_int_equal(cuStreamUpdateCaptureDependencies(BRANCH, NULL, NULL, 0,
                                                       CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                     CUDA_SUCCESS);
    assert_false(is_given(BRANCH, block));
    assert_true(is_given(ORIGIN, block));
    finish(1);
}

static void dependencies_drop(tnr_stream stream)
{
    assert_int_equal(cuStreamUpdateCaptureDependencies(stream, NULL, NULL, 0,
                                                       CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                     CUDA_SUCCESS);
}

/* The block's own stream is not after its uses any more when the block is freed. */
static void dependencies_of_its_own_stream_taken_away(void **state)
{
    (void)state;
    start();
    unsigned char *block = captured_block(BRANCH, 1);
    dependencies_drop(BRANCH);
    assert_ok(tnr_free(block));
    assert_false(is_given(ORIGIN, block));
    assert_false(is_given(BRANCH, block));
    finish(0);
}

/* Nor after those of who had the memory before, which the block itself has no part in. */
static void dependencies_taken_away_of_the_next_owner(void **state)
{
    (void)state;
    start();
    unsigned char *block = captured_block(BRANCH, 1);
    assert_ok(tnr_free(block));
    void *next = unit_malloc(BYTES, BRANCH);
    assert_ptr_equal(next, block);
    dependencies_drop(BRANCH);
    assert_ok(tnr_free(next));
    assert_false(is_given(ORIGIN, block));
    finish(1);
}

/* Whatever becomes of the stream afterwards, a use that was recorded ends where it was recorded.
 * The stream is back where it was when it got the block, so nothing else tells of the use. */
static void a_use_recorded_before_dependencies_are_taken_away(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    capture_begin(ORIGIN, NULL);
    order_after(BRANCH, ORIGIN);
    order_after(OTHER, ORIGIN);
    unsigned char *block = unit_malloc(BYTES, BRANCH);
    life_fill(block, BYTES, 1, BRANCH);
    assert_ok(tnr_record_use(block, BRANCH));
    dependencies_drop(BRANCH);
    assert_ok(tnr_free(block));
    assert_false(is_given(ORIGIN, block));
    assert_false(is_given(BRANCH, block));
    finish(0);
}

/* A use that lasts until the free is marked there, where its stream has left it. */
static void dependencies_of_a_recorded_stream_taken_away(void **state)
{
    (void)state;
    start();
    unsigned char *block = captured_block(ORIGIN, 1);
    order_after(BRANCH, ORIGIN);
    assert_ok(tnr_record_stream(block, BRANCH));
    life_fill(block, BYTES, 2, BRANCH);
    dependencies_drop(BRANCH);
    assert_ok(tnr_free(block));
    assert_false(is_given(ORIGIN, block));
    assert_false(is_given(BRANCH, block));
    finish(0);
}

/* A wide frontier that only moves on takes nothing away. */
static void a_wide_frontier_moves_on(void **state)
{
    (void)state;
    enum { WIDE = 70 };
    CUgraphNode nodes[WIDE];
    start();
    for (int i = 0; i < WIDE; i++)
        assert_int_equal(cuGraphAddEmptyNode(&nodes[i], capture_graph(ORIGIN), NULL, 0),
                         CUDA_SUCCESS);
    assert_int_equal(cuStreamUpdateCaptureDependencies(ORIGIN, nodes, NULL, WIDE,
                                                       CU_STREAM_ADD_CAPTURE_DEPENDENCIES),
                     CUDA_SUCCESS);
    void *block = unit_malloc(BYTES, ORIGIN);
    life_fill(block, BYTES, 2, ORIGIN);
    assert_ok(tnr_free(block));
    assert_true(is_given(ORIGIN, block));
    finish(1);
}

/* Nodes that the program adds to the graph and puts in a stream's dependencies. */
static void a_child_graph_is_one_node(void **state)
{
    (void)state;
    CUcontext context;
    CUgraph child = NULL;
    CUgraphNode inside, node;
    start();
    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    unsigned char *block = captured_block(ORIGIN, 1);
    order_after(BRANCH, ORIGIN);
    const CUDA_MEMSET_NODE_PARAMS set = {(CUdeviceptr)block, 0, 3, 1, MIB, 1};
    assert_int_equal(cuGraphCreate(&child, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphAddMemsetNode(&inside, child, NULL, 0, &set, context), CUDA_SUCCESS);
    const CUgraphNode *after = NULL;
    size_t count = 0;
    CUgraph graph = NULL;
    CUstreamCaptureStatus status;
    const CUgraphEdgeData *edges = NULL;
    assert_int_equal(cuStreamGetCaptureInfo(BRANCH, &status, NULL, &graph, &after, &edges, &count),
                     CUDA_SUCCESS);
    assert_int_equal(cuGraphAddChildGraphNode(&node, graph, after, count, child), CUDA_SUCCESS);
    assert_int_equal(cuStreamUpdateCaptureDependencies(BRANCH, &node, NULL, 1,
                                                       CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                     CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(child), CUDA_SUCCESS);
    assert_ok(tnr_free_on(block, BRANCH));
    assert_false(is_given(ORIGIN, block));
    assert_true(is_given(BRANCH, block));
    finish(1);
}

/* ---- another thread frees ------------------------------------------------------------------- */

static void *free_elsewhere(void *block)
{
    static tnr_status status;
    status = tnr_free(block);
    return &status;
}

/* What that thread's own order is with the capture, nobody knows. */
static void freed_by_another_thread(void **state)
{
    (void)state;
    pthread_t thread;
    void *status = NULL;
    start();
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_int_equal(pthread_create(&thread, NULL, free_elsewhere, block), 0);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal(*(tnr_status *)status, TNR_OK);
    check_kept(block);
    finish_kept(0, BYTES);
}

/* ---- wrong frees ---------------------------------------------------------------------------- */

static void wrong_frees_and_uses(void **state)
{
    (void)state;
    int word;
    start();
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_error(tnr_free(block + 512), TNR_ERR_INTERIOR_POINTER, NULL);
    assert_error(tnr_free(&word), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_error(tnr_record_use(&word, BRANCH), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_ok(tnr_free(block));
    assert_error(tnr_free(block), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_free_sync(block), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_record_use(block, BRANCH), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_record_stream(block, BRANCH), TNR_ERR_NOT_LIVE, NULL);
    tnr_block_info info;
    assert_error(tnr_block_get(&info, block), TNR_ERR_NOT_LIVE, NULL);
    assert_true(is_given(ORIGIN, block));
    finish(1);
}

/* More streams than fit in a word of bits. */
static void many_streams(void **state)
{
    (void)state;
    enum { STREAMS = 80 };
    tnr_stream streams[STREAMS];
    int refused = 0;
    start();
    unsigned char *block = captured_block(ORIGIN, 1);
    assert_ok(tnr_free(block));
    for (int i = 0; i < STREAMS; i++) {
        void *own = NULL;
        streams[i] = life_stream(CU_STREAM_NON_BLOCKING);
        order_after(streams[i], ORIGIN);
        tnr_status status = tnr_malloc(&own, BYTES, 0, streams[i]);
        refused += status != TNR_OK;
        if (status == TNR_OK) {
            life_fill(own, BYTES, i, streams[i]);
            assert_ok(tnr_free(own));
        } else {
            assert_error(status, TNR_ERR_CAPTURE, "streams");
            assert_null(own);
        }
        order_after(ORIGIN, streams[i]);
    }
    assert_true(refused < STREAMS / 2); /* a limit that the sentence names, not a fault */
    assert_true(is_given(ORIGIN, block));
    order_after(ORIGIN, BRANCH);
    order_after(ORIGIN, OTHER);
    recorded graph = capture_end(ORIGIN);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    recorded_destroy(&graph);
    for (int i = 0; i < STREAMS; i++) {
        assert_ok(tnr_stream_destroying(0, streams[i]));
        assert_int_equal(cuStreamDestroy(streams[i]), CUDA_SUCCESS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(at_once_on_its_own_stream, steps_stop),
        cmocka_unit_test_teardown(pieces_join_and_split, steps_stop),
        cmocka_unit_test_teardown(aligned_requests, steps_stop),
        cmocka_unit_test_teardown(not_in_a_branch_without_order, steps_stop),
        cmocka_unit_test_teardown(after_a_join, steps_stop),
        cmocka_unit_test_teardown(through_a_third_stream, steps_stop),
        cmocka_unit_test_teardown(a_join_from_before_the_last_use, steps_stop),
        cmocka_unit_test_teardown(a_fork_after_the_free, steps_stop),
        cmocka_unit_test_teardown(freed_before_any_node, steps_stop),
        cmocka_unit_test_teardown(record_use_ends_where_it_is_called, steps_stop),
        cmocka_unit_test_teardown(record_stream_ends_with_the_free, steps_stop),
        cmocka_unit_test_teardown(free_on_is_a_use_and_a_free, steps_stop),
        cmocka_unit_test_teardown(both_streams_must_be_over, steps_stop),
        cmocka_unit_test_teardown(uses_add_up, steps_stop),
        cmocka_unit_test_teardown(free_sync_keeps, steps_stop),
        cmocka_unit_test_teardown(an_outside_stream_keeps, steps_stop),
        cmocka_unit_test_teardown(keep_until_keeps, steps_stop),
        cmocka_unit_test_teardown(keep_until_an_event_of_the_capture, steps_stop),
        cmocka_unit_test_teardown(dependencies_taken_away, steps_stop),
        cmocka_unit_test_teardown(dependencies_of_its_own_stream_taken_away, steps_stop),
        cmocka_unit_test_teardown(dependencies_taken_away_of_the_next_owner, steps_stop),
        cmocka_unit_test_teardown(dependencies_of_a_recorded_stream_taken_away, steps_stop),
        cmocka_unit_test_teardown(a_use_recorded_before_dependencies_are_taken_away, steps_stop),
        cmocka_unit_test_teardown(a_wide_frontier_moves_on, steps_stop),
        cmocka_unit_test_teardown(a_child_graph_is_one_node, steps_stop),
        cmocka_unit_test_teardown(freed_by_another_thread, steps_stop),
        cmocka_unit_test_teardown(wrong_frees_and_uses, steps_stop),
        cmocka_unit_test_teardown(many_streams, steps_stop),
    };
    return steps_run(tests);
}
