/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edges that do not order in full. A kernel that comes after another kernel's port may begin before
 * the other has ended. So memory that the first still uses is not free for the second. But what
 * the first came after is, if the port is programmatic. And a stream whose kernels are launched to
 * begin early (as libraries of matrix products do) still reuses what it frees.
 *
 * In edge_note, every edge taken for a full one: a_frontier_of_a_port and a_node_behind_a_port
 * failed, by the race detector. Without the port in its first condition: both. Each edge from a
 * port dropped (the state before): layers_that_begin_early, what_the_earlier_came_after. In
 * walk_meet, without the condition on entries: a_stream_that_drops_its_own. In captured_reach,
 * entries below 0 left out: the same.
 */
#include "steps.h"

#define BYTES (4 * MIB)

/* What the edge from the first kernel says. */
static const CUgraphEdgeData plain = {0};
static const CUgraphEdgeData programmatic = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                             .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
static const CUgraphEdgeData launch_order = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER,
                                             .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
static const CUgraphEdgeData default_from_port = {.from_port =
                                                      CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER};

static CUmodule module;
static CUfunction function;

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

static void start(void)
{
    static const char image[] = "image";
    static const size_t sizes[] = {sizeof(CUdeviceptr)};
    steps_start("bin_blocks:0", NULL);
    assert_int_equal(simcuda_kernel_register("touch", 1, sizes, kernel_run, kernel_accesses), 0);
    assert_int_equal(cuModuleLoadData(&module, image), CUDA_SUCCESS);
    assert_int_equal(cuModuleGetFunction(&function, module, "touch"), CUDA_SUCCESS);
}

static void launch(void *block, tnr_stream stream, int begins_early)
{
    CUdeviceptr at = (CUdeviceptr)block;
    void *params[] = {&at};
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    early.value.programmaticStreamSerializationAllowed = begins_early;
    const CUlaunchConfig config = {.gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 1,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = stream,
                                   .attrs = &early,
                                   .numAttrs = 1};
    assert_int_equal(cuLaunchKernelEx(&config, function, params, NULL), CUDA_SUCCESS);
}

static void touch(void *block, tnr_stream stream)
{
    launch(block, stream, 0);
}

/* The one node that the stream's next one depends on. */
static CUgraphNode frontier_of(tnr_stream stream)
{
    CUstreamCaptureStatus status;
    const CUgraphNode *nodes = NULL;
    const CUgraphEdgeData *edges = NULL;
    size_t count = 0;
    assert_int_equal(cuStreamGetCaptureInfo_v3(stream, &status, NULL, NULL, &nodes, &edges, &count),
                     CUDA_SUCCESS);
    assert_int_equal(count, 1);
    return nodes[0];
}

/* What comes next in the stream comes after the node by such an edge, and after nothing else. */
static void follow(tnr_stream stream, CUgraphNode node, const CUgraphEdgeData *edge)
{
    assert_int_equal(cuStreamUpdateCaptureDependencies_v2(stream, &node, edge, 1,
                                                          CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                     CUDA_SUCCESS);
}

/* Ends the capture, and runs the graph twice without a race. */
static void finish(void)
{
    recorded graph = capture_end(ORIGIN);
    for (int i = 0; i < 2; i++)
        recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    assert_int_equal(simcuda_races(), 0);
    recorded_destroy(&graph);
    assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
}

/* In a capture of two streams, a kernel of the first uses a block, which is freed; what the second
 * is given next comes after the kernel by such an edge. With `behind`, another kernel is between.
 * Returns 1 if the second gets the block's memory. */
static int is_reused(const CUgraphEdgeData *edge, int behind)
{
    start();
    unsigned char *other = unit_malloc(BYTES, BRANCH);
    capture_begin(ORIGIN, NULL);
    touch(captured_block(ORIGIN, 1), ORIGIN);
    order_after(BRANCH, ORIGIN);
    void *first = NULL;
    assert_ok(tnr_malloc(&first, BYTES, 0, ORIGIN));
    touch(first, ORIGIN);
    assert_ok(tnr_free(first));
    follow(BRANCH, frontier_of(ORIGIN), edge);
    if (behind)
        touch(other, BRANCH);
    void *second = NULL;
    assert_ok(tnr_malloc(&second, BYTES, 0, BRANCH));
    int reused = is_overlap(first, BYTES, second, BYTES);
    touch(second, BRANCH);
    assert_ok(tnr_free(second));
    order_after(ORIGIN, BRANCH);
    finish();
    assert_ok(tnr_free(other));
    return reused;
}

static void plain_edges_order(void **state)
{
    assert_int_equal(is_reused(&plain, 0), 1);
    assert_int_equal(steps_stop(state), 0);
    assert_int_equal(is_reused(&plain, 1), 1);
}

static void a_frontier_of_a_port(void **state)
{
    assert_int_equal(is_reused(&programmatic, 0), 0);
    assert_int_equal(steps_stop(state), 0);
    assert_int_equal(is_reused(&launch_order, 0), 0);
    assert_int_equal(steps_stop(state), 0);
    assert_int_equal(is_reused(&default_from_port, 0), 0);
}

static void a_node_behind_a_port(void **state)
{
    assert_int_equal(is_reused(&programmatic, 1), 0);
    assert_int_equal(steps_stop(state), 0);
    assert_int_equal(is_reused(&launch_order, 1), 0);
    assert_int_equal(steps_stop(state), 0);
    assert_int_equal(is_reused(&default_from_port, 1), 0);
}

/* The same in one stream, which drops its full edge from the kernel that uses the block. */
static int is_reused_by_itself(int freed_before, int behind)
{
    start();
    unsigned char *other = unit_malloc(BYTES, ORIGIN);
    capture_begin(ORIGIN, NULL);
    touch(captured_block(ORIGIN, 1), ORIGIN);
    void *first = NULL;
    assert_ok(tnr_malloc(&first, BYTES, 0, ORIGIN));
    touch(first, ORIGIN);
    if (freed_before)
        assert_ok(tnr_free(first));
    follow(ORIGIN, frontier_of(ORIGIN), &programmatic);
    if (!freed_before)
        assert_ok(tnr_free(first));
    void *second = NULL;
    assert_ok(tnr_malloc(&second, BYTES, 0, ORIGIN));
    int reused = is_overlap(first, BYTES, second, BYTES);
    touch(behind ? other : second, ORIGIN);
    void *third = NULL;
    assert_ok(tnr_malloc(&third, BYTES, 0, ORIGIN));
    reused |= is_overlap(first, BYTES, third, BYTES);
    touch(third, ORIGIN);
    assert_ok(tnr_free(second));
    assert_ok(tnr_free(third));
    finish();
    assert_ok(tnr_free(other));
    return reused;
}

static void a_stream_that_drops_its_own(void **state)
{
    for (int i = 0; i < 4; i++) {
        assert_int_equal(is_reused_by_itself(i & 1, i >> 1), 0);
        if (i < 3)
            assert_int_equal(steps_stop(state), 0);
    }
}

/* A second stream comes after a kernel's port. What that kernel came after in full is over, and its
 * memory free; the kernel's own is not. */
static void what_the_earlier_came_after(void **state)
{
    for (int behind = 0; behind < 2; behind++) {
        start();
        unsigned char *other = unit_malloc(BYTES, BRANCH);
        capture_begin(ORIGIN, NULL);
        touch(captured_block(ORIGIN, 1), ORIGIN);
        order_after(BRANCH, ORIGIN);
        void *over = NULL;
        void *used = NULL;
        assert_ok(tnr_malloc(&over, BYTES, 0, ORIGIN));
        assert_ok(tnr_malloc(&used, BYTES, 0, ORIGIN));
        touch(over, ORIGIN);
        assert_ok(tnr_free(over));
        touch(used, ORIGIN);
        assert_ok(tnr_free(used));
        follow(BRANCH, frontier_of(ORIGIN), &programmatic);
        if (behind)
            touch(other, BRANCH);
        void *second[2] = {NULL, NULL};
        assert_ok(tnr_malloc(&second[0], BYTES, 0, BRANCH));
        assert_ok(tnr_malloc(&second[1], BYTES, 0, BRANCH));
        touch(second[0], BRANCH);
        touch(second[1], BRANCH);
        assert_ptr_equal(second[0], over);
        assert_false(is_overlap(used, BYTES, second[1], BYTES));
        assert_ok(tnr_free(second[0]));
        assert_ok(tnr_free(second[1]));
        order_after(ORIGIN, BRANCH);
        finish();
        assert_ok(tnr_free(other));
        if (!behind)
            assert_int_equal(steps_stop(state), 0);
    }
}

/* How many edges of the graph under construction are programmatic. */
static size_t programmatic_count(void)
{
    enum { MOST = 256 };
    static CUgraphNode from[MOST], to[MOST];
    static CUgraphEdgeData data[MOST];
    size_t count = MOST, found = 0;
    assert_int_equal(cuGraphGetEdges_v2(capture_graph(ORIGIN), from, to, data, &count),
                     CUDA_SUCCESS);
    for (size_t i = 0; i < count; i++)
        found += data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    return found;
}

/* Layers of attention: keys are gathered, multiplied by a kernel that begins early, and freed after
 * the copy behind it, right before the next kernel that begins early. */
static void layers_that_begin_early(void **state)
{
    (void)state;
    enum { LAYERS = 16 };
    start();
    unsigned char *weights = unit_malloc(BYTES, ORIGIN);
    unsigned char *inputs = unit_malloc(BYTES, ORIGIN);
    void *keys = NULL;
    capture_begin(ORIGIN, NULL);
    touch(captured_block(ORIGIN, 1), ORIGIN);
    for (int i = 0; i < LAYERS; i++) {
        void *gathered = NULL;
        assert_ok(tnr_malloc(&gathered, BYTES, 0, ORIGIN));
        touch(gathered, ORIGIN);
        launch(weights, ORIGIN, 1); /* the product */
        touch(gathered, ORIGIN);
        assert_ok(tnr_free(gathered));
        launch(inputs, ORIGIN, 1); /* the projection */
        touch(weights, ORIGIN);
        assert_true(keys == NULL || keys == gathered);
        keys = gathered;
    }
    assert_int_equal(programmatic_count(), 2 * LAYERS);
    finish();
    assert_ok(tnr_free(weights));
    assert_ok(tnr_free(inputs));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(plain_edges_order, steps_stop),
        cmocka_unit_test_teardown(a_frontier_of_a_port, steps_stop),
        cmocka_unit_test_teardown(a_node_behind_a_port, steps_stop),
        cmocka_unit_test_teardown(a_stream_that_drops_its_own, steps_stop),
        cmocka_unit_test_teardown(what_the_earlier_came_after, steps_stop),
        cmocka_unit_test_teardown(layers_that_begin_early, steps_stop),
    };
    return steps_run(tests);
}
