/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects: who holds them, and when their destructors run, under every schedule.
 *
 * Tried by taking out of user_object.c and graph_launch.c: copying references into executable
 * graphs, the reference that a launch has, and `in_callback` around the destructor. Each is seen.
 */
#include "graphs.h"

#include <stdatomic.h>
#include <stdio.h>

static atomic_int destroyed;
static CUresult inside;

static void CUDA_CB destructor(void *data)
{
    CUevent event = NULL;
    inside = cuEventCreate(&event, 0);
    atomic_fetch_add((atomic_int *)data, 1);
}

static CUuserObject object_new(unsigned count)
{
    CUuserObject object = NULL;
    assert_ok(cuUserObjectCreate(&object, &destroyed, destructor, count,
                                 CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return object;
}

static void start(const char *schedule)
{
    fixture_start(schedule, "RESERVE=64G", NULL);
    atomic_store(&destroyed, 0);
}

/* All that is due and can run has run. */
static int destroyed_now(void)
{
    (void)simcuda_run(UINT64_MAX);
    return atomic_load(&destroyed);
}

static uint64_t objects_alive(void)
{
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    return live.user_objects;
}

static void counts_references(const char *schedule)
{
    start(schedule);
    CUuserObject object = object_new(2);
    assert_ok(cuUserObjectRetain(object, 3));
    assert_ok(cuUserObjectRelease(object, 4));
    assert_int_equal(destroyed_now(), 0);
    assert_int_equal(objects_alive(), 1);
    assert_ok(cuUserObjectRelease(object, 1));
    assert_int_equal(destroyed_now(), 1);
    assert_int_equal(objects_alive(), 0);
    assert_int_equal(inside, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(simcuda_violations(), 0);
    assert_int_equal(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_violations(), 1); /* the handle is gone */
}

static void holders(const char *schedule)
{
    start(schedule);
    CUgraph graph = graph_new();
    CUgraph parent = graph_new();
    CUgraph clone = NULL;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    volatile uint32_t *gate = gate_new();
    (void)set_node(graph, at, 1, 64, NULL, NULL);
    CUuserObject object = object_new(1);
    assert_ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    assert_ok(cuGraphClone(&clone, graph));
    CUgraphNode node = child_node(parent, graph, NULL, NULL);
    CUgraphExec exec = exec_new(parent);
    assert_ok(cuGraphDestroy(graph));
    assert_int_equal(destroyed_now(), 0);
    assert_ok(cuGraphDestroy(clone));
    assert_int_equal(destroyed_now(), 0);
    assert_ok(cuGraphDestroyNode(node));
    assert_int_equal(destroyed_now(), 0);
    gate_close(stream, gate);
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuGraphExecDestroy(exec));
    assert_int_equal(destroyed_now(), 0);
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(destroyed_now(), 1);
    assert_int_equal(simcuda_violations(), 0);
}

/* A graph's references go one by one; executable graphs made before have none of later ones. */
static void graph_references(const char *schedule)
{
    start(schedule);
    CUgraph graph = graph_new();
    CUuserObject object = object_new(1);
    CUgraphExec before = exec_new(graph);
    assert_ok(cuGraphRetainUserObject(graph, object, 2, 0));
    CUgraphExec after = exec_new(graph);
    assert_ok(cuUserObjectRelease(object, 1));
    assert_ok(cuGraphReleaseUserObject(graph, object, 1));
    assert_ok(cuGraphReleaseUserObject(graph, object, 1));
    assert_int_equal(destroyed_now(), 0);
    assert_ok(cuGraphExecDestroy(after));
    assert_int_equal(destroyed_now(), 1);
    assert_ok(cuGraphExecDestroy(before));
    assert_int_equal(simcuda_violations(), 0);
}

/* An update exchanges what is held, but not for launches that have not ended. */
static void updates(const char *schedule)
{
    start(schedule);
    CUgraph graph = graph_new();
    CUgraph other = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *gate = gate_new();
    CUgraphExecUpdateResultInfo info;
    assert_ok(cuGraphRetainUserObject(graph, object_new(1), 1, CU_GRAPH_USER_OBJECT_MOVE));
    CUgraphExec exec = exec_new(graph);
    assert_ok(cuGraphDestroy(graph));
    gate_close(stream, gate);
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuGraphExecUpdate(exec, other, &info));
    assert_int_equal(destroyed_now(), 0);
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(destroyed_now(), 1);
}

static void test_every_schedule(void **state)
{
    (void)state;
    static const char *const schedules[] = {"SCHEDULE=lazy", "SCHEDULE=eager", "SCHEDULE=random",
                                            "SCHEDULE=threads"};
    for (size_t i = 0; i < 4; i++) {
        counts_references(schedules[i]);
        holders(schedules[i]);
        graph_references(schedules[i]);
        updates(schedules[i]);
    }
}

/* When nothing is queued, a program that asks often enough sees destructors run. */
static void test_queries_run_destructors(void **state)
{
    (void)state;
    start("SCHEDULE=lazy");
    assert_ok(cuUserObjectRelease(object_new(1), 1));
    assert_ok(cuCtxSynchronize()); /* nothing waits for a destructor */
    assert_int_equal(atomic_load(&destroyed), 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_ok(cuStreamQuery(NULL));
    assert_int_equal(atomic_load(&destroyed), 1);
}

static void test_wrong_counts(void **state)
{
    (void)state;
    start("SCHEDULE=lazy");
    CUgraph graph = graph_new();
    CUuserObject object = object_new(1);
    assert_int_equal(cuUserObjectRelease(object, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_violations(), 1);
    assert_int_equal(cuGraphRetainUserObject(graph, object, 2, CU_GRAPH_USER_OBJECT_MOVE),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_violations(), 2);
    assert_ok(cuGraphRetainUserObject(graph, object, 1, 0));
    (void)cuGraphReleaseUserObject(graph, object, 2);
    assert_int_equal(simcuda_violations(), 3);
    assert_int_equal(destroyed_now(), 0);
}

/* What is left alive is counted and freed; destructors that have not run do not run. */
static void test_reset(void **state)
{
    (void)state;
    start("SCHEDULE=lazy");
    CUgraph graph = graph_new();
    (void)object_new(1);
    assert_ok(cuGraphRetainUserObject(graph, object_new(1), 1, CU_GRAPH_USER_OBJECT_MOVE));
    (void)exec_new(graph);
    assert_ok(cuUserObjectRelease(object_new(1), 1));
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.user_objects, 2);
    assert_int_equal(live.graphs, 1);
    assert_int_equal(live.graph_execs, 1);
    assert_int_equal(simcuda_reset(), 4 + 1); /* and the context's reference */
    assert_int_equal(atomic_load(&destroyed), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_every_schedule, fixture_stop),
        cmocka_unit_test_teardown(test_queries_run_destructors, fixture_stop),
        cmocka_unit_test_teardown(test_wrong_counts, fixture_stop),
        cmocka_unit_test_teardown(test_reset, fixture_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
