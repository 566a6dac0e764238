/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs and their launches: what the driver's rules leave open (the order in which nodes run, when
 * memory is looked at), what the simulation reports beyond them, and that failures change nothing.
 * What the driver's rules say is in tests/conformance.
 *
 * Tried by taking single lines out of graph_launch.c and graph_plan.c: drawing which way becomes
 * the first path (lazy schedules then have too few orders), the check of functions and events
 * before a launch, asking kernels at the launch, and going on with paths that have ended. Each is
 * seen.
 */
#include "graphs.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const schedules[] = {"SCHEDULE=lazy", "SCHEDULE=eager", "SCHEDULE=random",
                                        "SCHEDULE=threads"};

/* ---- order ---------------------------------------------------------------------------------- */

enum { MARKS = 6 };

static atomic_int mark_count;
static int marks[MARKS];

static void CUDA_CB mark(void *data)
{
    marks[atomic_fetch_add(&mark_count, 1)] = *(const int *)data;
}

/* 0 -> {1, 2, 3} -> 4, and 5 by itself: the order in which one launch ran them, as a number. */
static unsigned order_of(const char *schedule, unsigned seed)
{
    static int number[MARKS] = {0, 1, 2, 3, 4, 5};
    char text[32];
    (void)snprintf(text, sizeof(text), "SEED=%u", seed);
    fixture_start(schedule, text, "RESERVE=64G", NULL);
    atomic_store(&mark_count, 0);
    CUgraph graph = graph_new();
    CUgraphNode top = host_node(graph, mark, &number[0], NULL, NULL);
    CUgraphNode middle[3];
    for (int i = 0; i < 3; i++)
        middle[i] = host_node(graph, mark, &number[i + 1], top, NULL);
    CUgraphNode bottom = host_node(graph, mark, &number[4], middle[0], middle[1]);
    assert_ok(cuGraphAddDependencies(graph, &middle[2], &bottom, NULL, 1));
    (void)host_node(graph, mark, &number[5], NULL, NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    assert_ok(cuGraphLaunch(exec_new(graph), stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(&mark_count), MARKS);
    unsigned order = 0;
    int at[MARKS] = {0};
    for (int i = 0; i < MARKS; i++) {
        order = order * MARKS + (unsigned)marks[i];
        at[marks[i]] = i;
    }
    for (int i = 1; i <= 3; i++) {
        assert_true(at[0] < at[i]);
        assert_true(at[i] < at[4]);
    }
    return order;
}

static void test_orders(void **state)
{
    (void)state;
    /* Of the 6 orders of the middle times the 6 places of the node by itself. */
    static const unsigned wanted[] = {10, 28, 30};
    for (size_t s = 0; s < 3; s++) {
        unsigned seen[512];
        unsigned distinct = 0;
        for (unsigned seed = 0; seed < 512; seed++) {
            unsigned order = order_of(schedules[s], seed);
            unsigned i = 0;
            while (i < distinct && seen[i] != order)
                i++;
            seen[i] = order;
            distinct += i == distinct;
        }
        assert_in_range(distinct, wanted[s], 36);
        assert_int_equal(order_of(schedules[s], 7), order_of(schedules[s], 7));
    }
    for (unsigned i = 0; i < 20; i++)
        (void)order_of("SCHEDULE=threads", i);
}

/* One executable graph does not have one order: every launch runs in its own. */
static void test_orders_of_one_exec(void **state)
{
    (void)state;
    static int number[4] = {0, 1, 2, 3};
    unsigned seen = 0;
    fixture_start("SCHEDULE=eager", "RESERVE=64G", NULL);
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 4; i++)
        (void)host_node(graph, mark, &number[i], NULL, NULL);
    CUgraphExec exec = exec_new(graph);
    for (unsigned i = 0; i < 100; i++) {
        atomic_store(&mark_count, 0);
        assert_ok(cuGraphLaunch(exec, stream));
        assert_ok(cuStreamSynchronize(stream));
        seen |= 1u << marks[0];
    }
    assert_int_equal(seen, 15); /* each was first once */
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* follow(list, value): writes the value where the list in memory says. */
static const size_t follow_bytes[] = {8, 4};

static void follow_run(void *const *params)
{
    CUdeviceptr list;
    CUdeviceptr at;
    memcpy(&list, params[0], sizeof(list));
    memcpy(&at, (const void *)(uintptr_t)list, sizeof(at));
    memcpy((void *)(uintptr_t)at, params[1], sizeof(uint32_t));
}

static size_t follow_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    CUdeviceptr list;
    memcpy(&list, params[0], sizeof(list));
    if (capacity >= 2) {
        out[0] = (simcuda_access){list, sizeof(list), 0};
        out[1] = (simcuda_access){0, sizeof(uint32_t), 1};
        memcpy(&out[1].address, (const void *)(uintptr_t)list, sizeof(list));
    }
    return 2;
}

static CUfunction follow_function(CUmodule *module)
{
    CUfunction found = NULL;
    assert_int_equal(
        simcuda_kernel_register("follow", 2, follow_bytes, follow_run, follow_accesses), 0);
    assert_ok(cuModuleLoadData(module, "any image"));
    assert_ok(cuModuleGetFunction(&found, *module, "follow"));
    return found;
}

static CUgraphNode follow_node(CUgraph graph, CUfunction function, CUdeviceptr list)
{
    CUgraphNode node = NULL;
    uint32_t value = 0x01010101;
    void *params[] = {&list, &value};
    CUDA_KERNEL_NODE_PARAMS ask;
    memset(&ask, 0, sizeof(ask));
    ask.func = function;
    ask.gridDimX = ask.gridDimY = ask.gridDimZ = 1;
    ask.blockDimX = ask.blockDimY = ask.blockDimZ = 1;
    ask.kernelParams = params;
    assert_ok(cuGraphAddKernelNode(&node, graph, NULL, 0, &ask));
    return node;
}

static uint32_t word_at(CUdeviceptr at)
{
    uint32_t word = 0;
    memcpy(&word, (const void *)(uintptr_t)at, sizeof(word));
    return word;
}

static void word_set(CUdeviceptr at, CUdeviceptr value)
{
    memcpy((void *)(uintptr_t)at, &value, sizeof(value));
}

/* What a kernel will touch is asked at each launch: memory may say something else by then. */
static void test_asked_at_launch(void **state)
{
    (void)state;
    CUmodule module = NULL;
    fixture_start("RACES=1", "RESERVE=64G", "SCHEDULE=lazy", NULL);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    (void)follow_node(graph, follow_function(&module), at);
    CUgraphExec exec = exec_new(graph);
    assert_int_equal(simcuda_owner_begin(at + 4096, 64, "block"), 0);
    word_set(at, at + 8192);
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word_at(at + 8192), 0x01010101);
    word_set(at, at + 4096 - 2);
    assert_ok(cuGraphLaunch(exec, stream));
    assert_int_equal(simcuda_races_of(SIMCUDA_OVERRUN), 1);
    assert_ok(cuStreamSynchronize(stream));
}

/* A replay that touches memory which has gone is a violation and poisons the context. */
static void test_replay_of_unmapped(void **state)
{
    (void)state;
    for (size_t s = 0; s < 4; s++) {
        fixture_start(schedules[s], "RESERVE=64G", NULL);
        CUdeviceptr at = chunk_mapped(CHUNK, NULL);
        CUgraph graph = graph_new();
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        (void)set_node(graph, at, 1, 64, NULL, NULL);
        CUgraphExec exec = exec_new(graph);
        assert_ok(cuGraphLaunch(exec, stream));
        assert_ok(cuStreamSynchronize(stream));
        assert_ok(cuMemUnmap(at, CHUNK));
        assert_int_equal(simcuda_violations(), 0);
        assert_ok(cuGraphLaunch(exec, stream));
        assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_int_equal(simcuda_violations(), 1);
        assert_int_equal(cuGraphLaunch(exec, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    }
}

/* Mapped again, also to other memory, it is as good as before. */
static void test_replay_of_remapped(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", NULL);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    (void)set_node(graph, at, 5, 64, NULL, NULL);
    CUgraphExec exec = exec_new(graph);
    assert_ok(cuMemUnmap(at, CHUNK));
    CUmemGenericAllocationHandle handle = chunk_create(CHUNK);
    assert_ok(cuMemMap(at, CHUNK, 0, handle, 0));
    chunk_access(at, CHUNK);
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(word_at(at), 0x05050505);
    assert_int_equal(simcuda_violations(), 0);
}

static void test_unmapped_under_a_launch(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "SCHEDULE=lazy", NULL);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUgraphNode first = empty_node(graph, NULL, NULL);
    (void)empty_node(graph, first, NULL);
    (void)set_node(graph, at, 5, 64, first, NULL);
    assert_ok(cuGraphLaunch(exec_new(graph), stream));
    assert_ok(cuMemUnmap(at, CHUNK));
    assert_int_equal(simcuda_violations(), 1);
    (void)cuStreamSynchronize(stream);
}

/* ---- handles -------------------------------------------------------------------------------- */

/* What a graph refers to by handle must live until its last launch was asked for. */
static void test_handles_gone(void **state)
{
    (void)state;
    CUmodule module = NULL;
    fixture_start("RESERVE=64G", "SCHEDULE=lazy", NULL);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = graph_new();
    CUgraph events = graph_new();
    CUevent event = event_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    word_set(at, at + 64);
    (void)follow_node(graph, follow_function(&module), at);
    (void)record_node(events, event, NULL, NULL);
    CUgraphExec exec = exec_new(graph);
    CUgraphExec recording = exec_new(events);
    assert_ok(cuModuleUnload(module));
    assert_ok(cuEventDestroy(event));
    assert_int_equal(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(simcuda_violations(), 1);
    assert_int_equal(cuGraphLaunch(recording, stream), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(simcuda_violations(), 2);
    assert_ok(cuGraphExecDestroy(exec));
    assert_int_equal(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_violations(), 3);
    assert_int_equal(simcuda_pending(), 0);
}

static void test_live_counts(void **state)
{
    (void)state;
    simcuda_live live;
    fixture_start("RESERVE=64G", NULL);
    CUgraph graph = graph_new();
    CUgraph parent = graph_new();
    CUgraph clone = NULL;
    (void)empty_node(graph, NULL, NULL);
    (void)child_node(parent, graph, NULL, NULL);
    assert_ok(cuGraphClone(&clone, parent));
    CUgraphExec exec = exec_new(clone);
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.graphs, 3);
    assert_int_equal(live.graph_execs, 1);
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(clone));
    assert_ok(cuGraphDestroy(parent));
    assert_ok(cuGraphDestroy(graph));
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.graphs + live.graph_execs, 0);
}

/* ---- large graphs --------------------------------------------------------------------------- */

/* Forks and joins in a row: as many streams as one of them needs, so launches stay cheap. */
static void test_many_forks(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "RACES=1", NULL);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = graph_new();
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUgraphNode join = empty_node(graph, NULL, NULL);
    for (unsigned i = 0; i < 500; i++) {
        CUgraphNode left = set_node(graph, at, i, 64, join, NULL);
        CUgraphNode right = set_node(graph, at + 64, i, 64, join, NULL);
        join = copy_node(graph, at + 128, at, 64, left, right);
    }
    unsigned long long before = 0;
    unsigned long long after = 0;
    assert_ok(cuStreamGetId(stream_new(CU_STREAM_NON_BLOCKING), &before));
    CUgraphExec exec = exec_new(graph);
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuStreamGetId(stream_new(CU_STREAM_NON_BLOCKING), &after));
    assert_in_range(after - before, 1, 3);
    assert_int_equal(simcuda_races(), 0);
    assert_int_equal(word_at(at + 128), 499u % 256u * 0x01010101u);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Every call that adds or runs, made to fail once, changes nothing and works the next time. */
static void test_injected_failures(void **state)
{
    (void)state;
    static const char *const names[] = {"cuGraphCreate",  "cuGraphAddMemsetNode",
                                        "cuGraphClone",   "cuGraphInstantiateWithFlags",
                                        "cuGraphLaunch",  "cuGraphAddChildGraphNode",
                                        "cuGraphDestroy", "cuGraphExecDestroy"};
    fixture_start("RESERVE=64G", NULL);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        CUgraph graph = NULL;
        CUgraph clone = NULL;
        CUgraphNode node = NULL;
        CUgraphExec exec = NULL;
        const CUDA_MEMSET_NODE_PARAMS ask = {at, 0, 1, 1, 64, 1};
        unsigned failed = 0;
        simcuda_fail(names[n], 1, 0, CUDA_ERROR_OUT_OF_MEMORY);
#define RETRY(call)                                                                                \
    do {                                                                                           \
        if ((call) == CUDA_ERROR_OUT_OF_MEMORY) {                                                  \
            failed++;                                                                              \
            assert_ok(call);                                                                       \
        }                                                                                          \
    } while (0)
        RETRY(cuGraphCreate(&graph, 0));
        RETRY(cuGraphAddMemsetNode(&node, graph, NULL, 0, &ask, fixture_context()));
        RETRY(cuGraphClone(&clone, graph));
        RETRY(cuGraphAddChildGraphNode(&node, graph, &node, 1, clone));
        assert_int_equal(node_count(graph), 2);
        assert_int_equal(edge_count(graph), 1);
        RETRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
        RETRY(cuGraphLaunch(exec, stream));
        assert_ok(cuStreamSynchronize(stream));
        RETRY(cuGraphExecDestroy(exec));
        RETRY(cuGraphDestroy(graph));
        RETRY(cuGraphDestroy(clone));
        assert_int_equal(failed, 1);
        simcuda_fail_clear();
    }
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.graphs + live.graph_execs + live.pending, 0);
}

/* ---- looking up ----------------------------------------------------------------------------- */

static void test_versions(void **state)
{
    (void)state;
    void *old = NULL;
    void *new = NULL;
    fixture_start("RESERVE=64G", NULL);
    assert_ok(cuGetProcAddress("cuGraphAddKernelNode", &old, 11000, 0, NULL));
    assert_ok(cuGetProcAddress("cuGraphAddKernelNode", &new, 12000, 0, NULL));
    assert_ptr_not_equal(old, new);
    assert_ok(cuGetProcAddress("cuGraphLaunch", &old, 12000, 0, NULL));
    assert_ok(cuGetProcAddress("cuGraphLaunch", &new, 12000,
                               CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    assert_ptr_not_equal(old, new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_orders, fixture_stop),
        cmocka_unit_test_teardown(test_orders_of_one_exec, fixture_stop),
        cmocka_unit_test_teardown(test_asked_at_launch, fixture_stop),
        cmocka_unit_test_teardown(test_replay_of_unmapped, fixture_stop),
        cmocka_unit_test_teardown(test_replay_of_remapped, fixture_stop),
        cmocka_unit_test_teardown(test_unmapped_under_a_launch, fixture_stop),
        cmocka_unit_test_teardown(test_handles_gone, fixture_stop),
        cmocka_unit_test_teardown(test_live_counts, fixture_stop),
        cmocka_unit_test_teardown(test_many_forks, fixture_stop),
        cmocka_unit_test_teardown(test_injected_failures, fixture_stop),
        cmocka_unit_test_teardown(test_versions, fixture_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
