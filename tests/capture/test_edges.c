/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edges that do not order. A kernel that comes after another kernel's port may begin before the
 * other has ended. So memory that the first still uses is not free for the second.
 *
 * In tnri_order_move, every node of a frontier taken for one that is over: a_frontier_of_a_port
 * failed. In node_ask, every edge: a_node_behind_a_port. In edge_orders, without the ports: both.
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

static void touch(void *block, tnr_stream stream)
{
    CUdeviceptr at = (CUdeviceptr)block;
    void *params[] = {&at};
    assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL),
                     CUDA_SUCCESS);
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
    CUgraphNode node = frontier_of(ORIGIN);
    assert_int_equal(cuStreamUpdateCaptureDependencies_v2(BRANCH, &node, edge, 1,
                                                          CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                     CUDA_SUCCESS);
    if (behind)
        touch(other, BRANCH);
    void *second = NULL;
    assert_ok(tnr_malloc(&second, BYTES, 0, BRANCH));
    int reused = is_overlap(first, BYTES, second, BYTES);
    touch(second, BRANCH);
    assert_ok(tnr_free(second));
    order_after(ORIGIN, BRANCH);
    recorded graph = capture_end(ORIGIN);
    recorded_launch(&graph, ORIGIN);
    simcuda_run(UINT64_MAX);
    assert_int_equal(simcuda_races(), 0);
    recorded_destroy(&graph);
    assert_ok(tnr_free(other));
    assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(plain_edges_order, steps_stop),
        cmocka_unit_test_teardown(a_frontier_of_a_port, steps_stop),
        cmocka_unit_test_teardown(a_node_behind_a_port, steps_stop),
    };
    return steps_run(tests);
}
