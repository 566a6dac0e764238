/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs around captures that are wrong on purpose, each of them put right by one step (--right).
 * On the simulated device with its race detector the wrong version must be caught, with exactly the
 * report that is expected, and the right one must give none.
 *
 *   launched_by_hand  two graphs on one pool are launched on two streams by the driver alone, so
 *                     nothing orders them. Right: tnr_graph_launch
 *   not_adopted       a graph built node by node writes a block that is freed meanwhile, and whose
 *                     memory another stream gets. Right: tnr_graph_adopt
 *   use_missing       in a capture a block is used by a second stream, which is not recorded, and
 *                     freed: its own stream gets it again beside that use. Right: tnr_record_use
 *   use_early         the use is recorded before the last of it. Right: after it
 *   changed_after     a node of an executable is changed to an address that Tenure has not seen in
 *                     the graph, and the block there is freed. Right: the block is freed when the
 *                     executable is gone
 *   freed_behind      the memory of a block that was handed out in a capture is used after its free
 *                     by the same stream, outside. Only the owner tells. Right: before the free
 */
#include "capture/steps.h"
#include "lifetime/xfail/judge.h"

#include <string.h>

#define BYTES (4 * MIB)

static recorded graphs[2]; /* of the case; destroyed after it is judged */

static CUgraphExec exec_of(CUgraph graph)
{
    CUgraphExec exec = NULL;
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    return exec;
}

static void launch_raw(const recorded *graph, tnr_stream stream)
{
    assert_int_equal(cuGraphLaunch(graph->exec, stream), CUDA_SUCCESS);
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void launched_by_hand(int right)
{
    tnr_pool pool = graph_pool("shared");
    for (int i = 0; i < 2; i++) {
        capture_begin(ORIGIN, pool);
        assert_ok(tnr_free(captured_block(ORIGIN, i)));
        graphs[i] = capture_end(ORIGIN);
    }
    simcuda_origin("first launch");
    if (right)
        recorded_launch(&graphs[0], ORIGIN);
    else
        launch_raw(&graphs[0], ORIGIN);
    simcuda_origin("second launch");
    if (right)
        recorded_launch(&graphs[1], BRANCH);
    else
        launch_raw(&graphs[1], BRANCH);
}

static void not_adopted(int right)
{
    CUcontext context;
    CUgraphNode node;
    unsigned char *block = unit_malloc(BYTES, BRANCH);
    const CUDA_MEMSET_NODE_PARAMS set = {(CUdeviceptr)block, 0, 3, 1, BYTES, 1};
    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    assert_int_equal(cuGraphCreate(&graphs[0].cuda, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphAddMemsetNode(&node, graphs[0].cuda, NULL, 0, &set, context),
                     CUDA_SUCCESS);
    if (right)
        assert_ok(tnr_graph_adopt(&graphs[0].number, graphs[0].cuda, 0, NULL));
    graphs[0].exec = exec_of(graphs[0].cuda);
    assert_ok(tnr_free(block));
    unsigned char *next = unit_malloc(BYTES, BRANCH);
    assert_int_equal(next == block, !right);
    simcuda_origin("next owner");
    life_fill(next, BYTES, 4, BRANCH);
    simcuda_origin("graph's launch");
    launch_raw(&graphs[0], ORIGIN);
}

/* The block of ORIGIN that BRANCH reads, and that ORIGIN gets again, if nothing forbids it. */
static void use_inside(int right, int is_early)
{
    capture_begin(ORIGIN, NULL);
    unsigned char *result = captured_block(ORIGIN, 1);
    unsigned char *block = captured_block(ORIGIN, 2);
    order_after(BRANCH, ORIGIN);
    if (is_early && !right)
        assert_ok(tnr_record_use(block, BRANCH));
    /* An early record ends at the fork, which ORIGIN is after. */
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)result, (CUdeviceptr)block, BYTES, BRANCH),
                     CUDA_SUCCESS);
    if (right)
        assert_ok(tnr_record_use(block, BRANCH));
    assert_ok(tnr_free(block));
    unsigned char *next = captured_block(ORIGIN, 3);
    assert_int_equal(next == block, !right);
    order_after(ORIGIN, BRANCH);
    graphs[0] = capture_end(ORIGIN);
    simcuda_origin("the launch");
    recorded_launch(&graphs[0], ORIGIN);
}

static void use_missing(int right)
{
    use_inside(right, 0);
}

static void use_early(int right)
{
    use_inside(right, 1);
}

static void changed_after(int right)
{
    CUcontext context;
    CUgraphNode node = NULL;
    size_t count = 1;
    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    unsigned char *block = unit_malloc(BYTES, BRANCH);
    capture_begin(ORIGIN, NULL);
    (void)captured_block(ORIGIN, 1);
    graphs[0] = capture_end(ORIGIN);
    assert_int_equal(cuGraphGetNodes(graphs[0].cuda, &node, &count), CUDA_SUCCESS);
    const CUDA_MEMSET_NODE_PARAMS set = {(CUdeviceptr)block, 0, 3, 1, BYTES, 1};
    assert_int_equal(cuGraphExecMemsetNodeSetParams(graphs[0].exec, node, &set, context),
                     CUDA_SUCCESS);
    if (!right)
        assert_ok(tnr_free(block));
    unsigned char *next = unit_malloc(BYTES, BRANCH);
    simcuda_origin("next owner");
    life_fill(next, BYTES, 4, BRANCH);
    simcuda_origin("changed launch");
    recorded_launch(&graphs[0], ORIGIN);
}

static void freed_behind(int right)
{
    capture_begin(ORIGIN, NULL);
    unsigned char *block = captured_block(ORIGIN, 1);
    graphs[0] = capture_end(ORIGIN);
    assert_int_equal(simcuda_owner_begin((CUdeviceptr)block, BYTES, "the output"), 0);
    recorded_launch(&graphs[0], ORIGIN);
    if (right) {
        simcuda_origin("late fill");
        life_fill(block, BYTES, 1, ORIGIN);
    }
    simcuda_origin("the free");
    assert_int_equal(simcuda_owner_end((CUdeviceptr)block), 0);
    assert_ok(tnr_free(block));
    if (!right) {
        simcuda_origin("late fill");
        life_fill(block, BYTES, 1, ORIGIN);
    }
}

static const struct xfail_case cases[] = {
    {"launched_by_hand",
     launched_by_hand,
     SIMCUDA_RACE,
     {"race: ", "'first launch'", "'second launch'"}},
    {"not_adopted", not_adopted, SIMCUDA_RACE, {"race: ", "'next owner'", "'graph's launch'"}},
    {"use_missing", use_missing, SIMCUDA_RACE, {"race: ", "node 3", "node 4"}},
    {"use_early", use_early, SIMCUDA_RACE, {"race: ", "node 3", "node 4"}},
    {"changed_after", changed_after, SIMCUDA_RACE, {"race: ", "'next owner'", "'changed launch'"}},
    {"freed_behind",
     freed_behind,
     SIMCUDA_USE_AFTER_FREE,
     {"use after free: ", "'late fill'", "'the free'"}},
};

static void graphs_forget(void)
{
    memset(graphs, 0, sizeof(graphs));
}

static void graphs_destroy(void)
{
    for (int i = 0; i < 2; i++)
        recorded_destroy(&graphs[i]);
}

int main(int argc, char **argv)
{
    const struct xfail_suite suite = {.cases = cases,
                                      .count = sizeof(cases) / sizeof(cases[0]),
                                      .conf = "cross_stream:off",
                                      .begin = graphs_forget,
                                      .end = graphs_destroy};
    return xfail_main(argc, argv, &suite);
}
