/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races in graphs and between launches and what is around them, under every schedule and several
 * seeds; and random graphs against a model of their edges.
 *
 * To see that the tests can fail, single lines were taken out of graph_launch.c and graph_plan.c.
 * Without the wait for the launch's beginning, the waits for steps of other paths, the waits for
 * the paths' ends, or the wait for the launch before, there are reports where none belong. With
 * every step in the first path, no race is found at all.
 */
#include "graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES ((size_t)4096)

struct program {
    CUstream a;
    CUstream b;
    CUgraph graph;
    CUdeviceptr at; /* a chunk, mapped */
};

typedef void (*program_run)(struct program *program);

static void quiet(const simcuda_report *report, void *data)
{
    (void)report;
    (void)data;
}

static void program_run_once(program_run run, const char *schedule, const char *seed,
                             simcuda_report_kind kind, uint64_t reports)
{
    struct program program;
    fixture_start(schedule, seed, "RACES=1", "RESERVE=64G", NULL);
    simcuda_races_callback(quiet, NULL);
    program.a = stream_new(CU_STREAM_NON_BLOCKING);
    program.b = stream_new(CU_STREAM_NON_BLOCKING);
    program.graph = graph_new();
    program.at = chunk_mapped(CHUNK, NULL);
    run(&program);
    assert_ok(cuCtxSynchronize());
    if (simcuda_races() != reports || simcuda_races_of(kind) != reports)
        print_message("%s %s: %llu reports, %llu of the kind, last: %s\n", schedule, seed,
                      (unsigned long long)simcuda_races(),
                      (unsigned long long)simcuda_races_of(kind), simcuda_race_last());
    assert_int_equal(simcuda_races(), reports);
    assert_int_equal(simcuda_races_of(kind), reports);
    assert_int_equal(simcuda_violations(), 0);
}

/* Under each schedule: the program must give this many reports of the kind, and no others. */
static void expect_reports(program_run run, simcuda_report_kind kind, uint64_t reports)
{
    for (unsigned seed = 0; seed < 12; seed++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "SEED=%u", seed);
        program_run_once(run, "SCHEDULE=random", text, kind, reports);
        program_run_once(run, "SCHEDULE=lazy", text, kind, reports);
        program_run_once(run, "SCHEDULE=eager", text, kind, reports);
        if (reports == 0 || MAY_RACE)
            program_run_once(run, "SCHEDULE=threads", text, kind, reports);
    }
}

static void expect_race(program_run run)
{
    expect_reports(run, SIMCUDA_RACE, 1);
}

static void expect_none(program_run run)
{
    expect_reports(run, SIMCUDA_RACE, 0);
}

static void launch(struct program *p, CUstream stream)
{
    CUgraphExec exec = exec_new(p->graph);
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuGraphExecDestroy(exec));
}

/* ---- inside a graph ------------------------------------------------------------------------- */

static void two_roots(struct program *p)
{
    (void)set_node(p->graph, p->at, 1, BYTES, NULL, NULL);
    (void)set_node(p->graph, p->at, 2, BYTES, NULL, NULL);
    launch(p, p->a);
}

static void chain(struct program *p)
{
    CUgraphNode first = set_node(p->graph, p->at, 1, BYTES, NULL, NULL);
    CUgraphNode second = copy_node(p->graph, p->at + BYTES, p->at, BYTES, first, NULL);
    (void)set_node(p->graph, p->at, 2, BYTES, second, NULL);
    launch(p, p->a);
}

/* Both sides read what the top wrote; the bottom writes it again. */
static void diamond(struct program *p)
{
    CUgraphNode top = set_node(p->graph, p->at, 1, BYTES, NULL, NULL);
    CUgraphNode left = copy_node(p->graph, p->at + BYTES, p->at, BYTES, top, NULL);
    CUgraphNode right = copy_node(p->graph, p->at + 2 * BYTES, p->at, BYTES, top, NULL);
    (void)set_node(p->graph, p->at, 2, BYTES, left, right);
    launch(p, p->a);
}

static void diamond_half_joined(struct program *p)
{
    CUgraphNode top = set_node(p->graph, p->at, 1, BYTES, NULL, NULL);
    CUgraphNode left = copy_node(p->graph, p->at + BYTES, p->at, BYTES, top, NULL);
    (void)copy_node(p->graph, p->at + 2 * BYTES, p->at, BYTES, top, NULL);
    (void)set_node(p->graph, p->at, 2, BYTES, left, NULL);
    launch(p, p->a);
}

/* Edges through empty nodes and through a child graph order as others do. */
static void through_others(struct program *p)
{
    CUgraph child = graph_new();
    (void)set_node(child, p->at, 1, BYTES, NULL, NULL);
    (void)set_node(child, p->at + BYTES, 1, BYTES, NULL, NULL);
    CUgraphNode before = set_node(p->graph, p->at, 1, 2 * BYTES, NULL, NULL);
    CUgraphNode empty = empty_node(p->graph, before, NULL);
    CUgraphNode inner = child_node(p->graph, child, empty, NULL);
    CUgraphNode nothing = child_node(p->graph, graph_new(), inner, NULL);
    (void)set_node(p->graph, p->at, 1, 2 * BYTES, nothing, NULL);
    launch(p, p->a);
}

static void beside_a_child(struct program *p)
{
    CUgraph child = graph_new();
    (void)set_node(child, p->at, 1, BYTES, NULL, NULL);
    (void)child_node(p->graph, child, NULL, NULL);
    (void)copy_node(p->graph, p->at + BYTES, p->at, BYTES, NULL, NULL);
    launch(p, p->a);
}

/* Of two paths that end, a third node goes on with one: it may not go on with the other. */
static void after_one_of_two(struct program *p)
{
    CUgraphNode left = set_node(p->graph, p->at, 1, BYTES, NULL, NULL);
    (void)set_node(p->graph, p->at + BYTES, 1, BYTES, NULL, NULL);
    CUgraphNode next = set_node(p->graph, p->at + 2 * BYTES, 1, BYTES, left, NULL);
    (void)set_node(p->graph, p->at + BYTES, 2, BYTES, next, NULL);
    launch(p, p->a);
}

static void test_inside(void **state)
{
    (void)state;
    expect_race(two_roots);
    expect_none(chain);
    expect_none(diamond);
    expect_race(diamond_half_joined);
    expect_none(through_others);
    expect_race(beside_a_child);
    expect_race(after_one_of_two);
}

/* ---- around a launch ------------------------------------------------------------------------ */

static void wide_graph(struct program *p)
{
    for (size_t i = 0; i < 4; i++)
        (void)set_node(p->graph, p->at + i * BYTES, 1, BYTES, NULL, NULL);
}

static void around_in_one_stream(struct program *p)
{
    wide_graph(p);
    assert_ok(cuMemsetD8Async(p->at, 7, 4 * BYTES, p->a));
    launch(p, p->a);
    assert_ok(cuMemsetD8Async(p->at, 8, 4 * BYTES, p->a));
    launch(p, p->a);
}

static void before_in_another_stream(struct program *p)
{
    wide_graph(p);
    assert_ok(cuMemsetD8Async(p->at + 3 * BYTES, 7, BYTES, p->b));
    launch(p, p->a);
}

static void after_in_another_stream(struct program *p)
{
    wide_graph(p);
    launch(p, p->a);
    assert_ok(cuMemsetD8Async(p->at + 2 * BYTES, 7, BYTES, p->b));
}

static void after_an_event(struct program *p)
{
    CUevent event = event_new();
    wide_graph(p);
    launch(p, p->a);
    assert_ok(cuEventRecord(event, p->a));
    assert_ok(cuStreamWaitEvent(p->b, event, 0));
    assert_ok(cuMemsetD8Async(p->at, 7, 4 * BYTES, p->b));
}

static void after_the_host_waited(struct program *p)
{
    wide_graph(p);
    launch(p, p->a);
    assert_ok(cuStreamSynchronize(p->a));
    assert_ok(cuMemsetD8Async(p->at, 7, 4 * BYTES, p->b));
}

/* One executable graph's launches are in order, whatever their streams; two graphs' are not. */
static void one_exec_in_two_streams(struct program *p)
{
    wide_graph(p);
    CUgraphExec exec = exec_new(p->graph);
    for (unsigned i = 0; i < 3; i++) {
        assert_ok(cuGraphLaunch(exec, p->a));
        assert_ok(cuGraphLaunch(exec, p->b));
    }
}

static void two_execs_in_two_streams(struct program *p)
{
    (void)set_node(p->graph, p->at, 1, BYTES, NULL, NULL);
    launch(p, p->a);
    launch(p, p->b);
}

static void in_the_legacy_stream(struct program *p)
{
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    wide_graph(p);
    assert_ok(cuMemsetD8Async(p->at, 7, 4 * BYTES, blocking));
    launch(p, NULL);
    assert_ok(cuMemsetD8Async(p->at, 7, 4 * BYTES, blocking));
    launch(p, blocking);
    assert_ok(cuMemsetD8Async(p->at, 7, 4 * BYTES, NULL));
}

static void test_around(void **state)
{
    (void)state;
    expect_none(around_in_one_stream);
    expect_race(before_in_another_stream);
    expect_race(after_in_another_stream);
    expect_none(after_an_event);
    expect_none(after_the_host_waited);
    expect_none(one_exec_in_two_streams);
    expect_race(two_execs_in_two_streams);
    expect_none(in_the_legacy_stream);
}

/* ---- edges from ports ----------------------------------------------------------------------- */

static const CUgraphEdgeData plain = {0};
static const CUgraphEdgeData programmatic = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                             .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
static const CUgraphEdgeData launched = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER};

static void write_run(void *const *params)
{
    (void)params;
}

static size_t write_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    if (capacity > 0)
        out[0] = (simcuda_access){*(const CUdeviceptr *)params[0], BYTES, 1};
    return 1;
}

/* A kernel that writes to the program's memory. */
static CUgraphNode write_node(CUgraph graph, CUdeviceptr at)
{
    static const size_t sizes[] = {sizeof(CUdeviceptr)};
    CUmodule module = NULL;
    CUDA_KERNEL_NODE_PARAMS ask = {0};
    CUgraphNode node = NULL;
    void *params[] = {&at};
    (void)simcuda_kernel_register("write", 1, sizes, write_run, write_accesses);
    assert_ok(cuModuleLoadData(&module, "image"));
    assert_ok(cuModuleGetFunction(&ask.func, module, "write"));
    ask.gridDimX = ask.gridDimY = ask.gridDimZ = 1;
    ask.blockDimX = ask.blockDimY = ask.blockDimZ = 1;
    ask.kernelParams = params;
    assert_ok(cuGraphAddKernelNode(&node, graph, NULL, 0, &ask));
    return node;
}

/* Two writes of one place, the second after the first by such an edge. */
static void edge_of(struct program *p, const CUgraphEdgeData *data)
{
    CUgraphNode first = write_node(p->graph, p->at);
    CUgraphNode second = write_node(p->graph, p->at);
    assert_ok(cuGraphAddDependencies(p->graph, &first, &second, data, 1));
    launch(p, p->a);
}

static void plain_edge(struct program *p)
{
    edge_of(p, &plain);
}

static void programmatic_edge(struct program *p)
{
    edge_of(p, &programmatic);
}

static void launched_edge(struct program *p)
{
    edge_of(p, &launched);
}

/* A kernel that comes after another's port comes after what the other came after. */
static void before_the_port(struct program *p, const CUgraphEdgeData *data)
{
    CUgraphNode before = write_node(p->graph, p->at);
    CUgraphNode first = write_node(p->graph, p->at + BYTES);
    CUgraphNode second = write_node(p->graph, p->at);
    assert_ok(cuGraphAddDependencies(p->graph, &before, &first, &plain, 1));
    assert_ok(cuGraphAddDependencies(p->graph, &first, &second, data, 1));
    launch(p, p->a);
}

static void before_programmatic(struct program *p)
{
    before_the_port(p, &programmatic);
}

static void before_launched(struct program *p)
{
    before_the_port(p, &launched);
}

/* The third comes after the second in full, and the second after the first's port. */
static void behind_the_port(struct program *p, const CUgraphEdgeData *data)
{
    CUgraphNode first = write_node(p->graph, p->at);
    CUgraphNode second = write_node(p->graph, p->at + BYTES);
    CUgraphNode third = write_node(p->graph, p->at);
    assert_ok(cuGraphAddDependencies(p->graph, &first, &second, data, 1));
    assert_ok(cuGraphAddDependencies(p->graph, &second, &third, &plain, 1));
    launch(p, p->a);
}

static void behind_programmatic(struct program *p)
{
    behind_the_port(p, &programmatic);
}

static void behind_launched(struct program *p)
{
    behind_the_port(p, &launched);
}

/* In a capture, of three kernels that write; the second, or the second and the third, are launched
 * to begin early. */
static void captured_early(struct program *p, const size_t *places, int third_is_early)
{
    CUgraphNode scratch = write_node(p->graph, p->at);
    CUDA_KERNEL_NODE_PARAMS is;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    assert_ok(cuGraphKernelNodeGetParams(scratch, &is));
    assert_ok(cuStreamBeginCapture(p->a, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < 3; i++) {
        CUdeviceptr at = p->at + places[i] * BYTES;
        void *params[] = {&at};
        CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
        early.value.programmaticStreamSerializationAllowed = i == 1 || (i == 2 && third_is_early);
        const CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, p->a, &early, 1};
        assert_ok(cuLaunchKernelEx(&config, is.func, params, NULL));
    }
    assert_ok(cuStreamEndCapture(p->a, &graph));
    assert_ok(cuGraphInstantiate(&exec, graph, 0));
    assert_ok(cuGraphLaunch(exec, p->a));
    assert_ok(cuStreamSynchronize(p->a));
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(graph));
}

static void early_and_the_one_before(struct program *p)
{
    captured_early(p, (const size_t[]){0, 0, 1}, 0);
}

static void plain_behind_early(struct program *p)
{
    captured_early(p, (const size_t[]){0, 1, 0}, 0);
}

static void early_behind_early(struct program *p)
{
    captured_early(p, (const size_t[]){0, 1, 0}, 1);
}

/* What was said of an edge is told, also of the clone's and of a capture's; who does not ask for it
 * is refused. */
static void check_told(struct program *p)
{
    CUgraph clone = NULL;
    CUgraphNode first = write_node(p->graph, p->at);
    CUgraphNode second = write_node(p->graph, p->at);
    assert_ok(cuGraphAddDependencies(p->graph, &first, &second, &programmatic, 1));
    assert_ok(cuGraphClone(&clone, p->graph));
    for (int cloned = 0; cloned < 2; cloned++) {
        CUgraphNode from = NULL;
        CUgraphNode to = NULL;
        CUgraphEdgeData data = {0};
        size_t count = 1;
        assert_ok(cuGraphGetEdges(cloned ? clone : p->graph, &from, &to, &data, &count));
        assert_int_equal(count, 1);
        assert_memory_equal(&data, &programmatic, sizeof(data));
        data = plain;
        assert_ok(cuGraphNodeGetDependencies(to, &from, &data, &count));
        assert_memory_equal(&data, &programmatic, sizeof(data));
        data = plain;
        assert_ok(cuGraphNodeGetDependentNodes(from, &to, &data, &count));
        assert_memory_equal(&data, &programmatic, sizeof(data));
        assert_int_equal(cuGraphGetEdges(cloned ? clone : p->graph, &from, &to, NULL, &count),
                         CUDA_ERROR_LOSSY_QUERY);
        assert_int_equal(cuGraphNodeGetDependencies(to, &from, NULL, &count),
                         CUDA_ERROR_LOSSY_QUERY);
        assert_ok(cuGraphNodeGetDependencies(to, NULL, NULL, &count));
        assert_int_equal(count, 1);
    }
    assert_int_equal(cuGraphRemoveDependencies(p->graph, &first, &second, NULL, 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphRemoveDependencies(p->graph, &first, &second, &programmatic, 1));
    assert_int_equal(edge_count(p->graph), 0);
}

static void check_refused(struct program *p)
{
    static const CUgraphEdgeData wrong[] = {
        {.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC}, /* from no port */
        {.from_port = 3},
        {.to_port = 1},
        {.type = 2},
        {.reserved = {1}},
    };
    CUgraphNode first = write_node(p->graph, p->at);
    CUgraphNode second = write_node(p->graph, p->at);
    CUgraphNode set = set_node(p->graph, p->at + BYTES, 1, BYTES, NULL, NULL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(cuGraphAddDependencies(p->graph, &first, &second, &wrong[i], 1),
                         CUDA_ERROR_INVALID_VALUE);
    /* Kernels alone have ports, and know what to do about another's. */
    assert_int_equal(cuGraphAddDependencies(p->graph, &set, &second, &launched, 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddDependencies(p->graph, &first, &set, &programmatic, 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphAddDependencies(p->graph, &first, &set, &launched, 1));
}

static void test_ports(void **state)
{
    (void)state;
    expect_none(plain_edge);
    expect_race(programmatic_edge);
    expect_race(launched_edge);
    expect_none(before_programmatic);
    expect_none(before_launched);
    expect_none(behind_programmatic);
    expect_race(behind_launched);
    expect_race(early_and_the_one_before);
    expect_none(plain_behind_early);
    expect_race(early_behind_early);
    expect_none(check_told);
    expect_none(check_refused);
}

/* ---- what the end of a user object tells ---------------------------------------------------- */

static void CUDA_CB ignore(void *data)
{
    (void)data;
}

static CUgraph graph_with_object(CUdeviceptr at)
{
    CUgraph graph = graph_new();
    CUuserObject object = NULL;
    (void)set_node(graph, at, 1, BYTES, NULL, NULL);
    assert_ok(cuUserObjectCreate(&object, &object, ignore, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    assert_ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    return graph;
}

/* Who has seen the end of a graph's user object knows that its launches are over: the memory that
 * they wrote to may go. With an update, the object goes while the executable stays. */
static void object_ends(const char *schedule, int by_update)
{
    fixture_start(schedule, "RACES=1", "RESERVE=64G", NULL);
    simcuda_races_callback(quiet, NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUdeviceptr other = chunk_mapped(CHUNK, NULL);
    CUgraph graph = graph_with_object(at);
    CUgraphExec exec = exec_new(graph);
    CUgraphExecUpdateResultInfo info;
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphLaunch(exec, stream));
    if (by_update)
        assert_ok(cuGraphExecUpdate(exec, graph_with_object(other), &info));
    else
        assert_ok(cuGraphExecDestroy(exec));
    (void)simcuda_run(UINT64_MAX);
    assert_ok(cuMemUnmap(at, CHUNK));
    assert_int_equal(simcuda_violations(), 0);
    assert_int_equal(simcuda_races(), 0);
}

static void test_objects(void **state)
{
    static const char *const schedules[] = {"SCHEDULE=eager", "SCHEDULE=lazy", "SCHEDULE=random"};
    (void)state;
    for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++) {
        object_ends(schedules[i], 0);
        object_ends(schedules[i], 1);
    }
}

/* ---- events in graphs ----------------------------------------------------------------------- */

static void node_waits(struct program *p)
{
    CUevent event = event_new();
    CUgraphNode wait = wait_node(p->graph, event, NULL, NULL);
    (void)set_node(p->graph, p->at, 1, BYTES, wait, NULL);
    assert_ok(cuMemsetD8Async(p->at, 7, BYTES, p->b));
    assert_ok(cuEventRecord(event, p->b));
    launch(p, p->a);
}

static void another_node_waits(struct program *p)
{
    CUevent event = event_new();
    (void)wait_node(p->graph, event, NULL, NULL);
    (void)set_node(p->graph, p->at, 1, BYTES, NULL, NULL);
    assert_ok(cuMemsetD8Async(p->at, 7, BYTES, p->b));
    assert_ok(cuEventRecord(event, p->b));
    launch(p, p->a);
}

static void node_records(struct program *p)
{
    CUevent event = event_new();
    CUgraphNode set = set_node(p->graph, p->at, 1, BYTES, NULL, NULL);
    (void)set_node(p->graph, p->at + BYTES, 1, BYTES, NULL, NULL);
    (void)record_node(p->graph, event, set, NULL);
    launch(p, p->a);
    assert_ok(cuStreamWaitEvent(p->b, event, 0));
    assert_ok(cuMemsetD8Async(p->at, 7, BYTES, p->b));
}

/* The event is for one node's past, not for the whole launch. */
static void node_records_less(struct program *p)
{
    node_records(p);
    assert_ok(cuMemsetD8Async(p->at + BYTES, 7, BYTES, p->b));
}

static void test_events(void **state)
{
    (void)state;
    expect_none(node_waits);
    expect_race(another_node_waits);
    expect_none(node_records);
    expect_race(node_records_less);
}

/* ---- owners --------------------------------------------------------------------------------- */

static void owner_freed_before_replay(struct program *p)
{
    assert_int_equal(simcuda_owner_begin(p->at, BYTES, "block"), 0);
    (void)set_node(p->graph, p->at, 1, BYTES, NULL, NULL);
    CUgraphExec exec = exec_new(p->graph);
    assert_ok(cuGraphLaunch(exec, p->a));
    assert_ok(cuStreamSynchronize(p->a));
    assert_int_equal(simcuda_races(), 0);
    assert_int_equal(simcuda_owner_end(p->at), 0);
    assert_ok(cuGraphLaunch(exec, p->a));
}

/* Node 2 of 3, and where it was launched, are in the report. */
static void test_reports(void **state)
{
    (void)state;
    expect_reports(owner_freed_before_replay, SIMCUDA_USE_AFTER_FREE, 1);
    fixture_start("RACES=1", "RESERVE=64G", "SCHEDULE=lazy", NULL);
    simcuda_races_callback(quiet, NULL);
    struct program p = {.graph = graph_new(), .at = chunk_mapped(CHUNK, NULL)};
    p.a = stream_new(CU_STREAM_NON_BLOCKING);
    unsigned long long id = 0;
    char expected[64];
    assert_ok(cuStreamGetId(p.a, &id));
    (void)empty_node(p.graph, NULL, NULL);
    (void)set_node(p.graph, p.at, 1, BYTES, NULL, NULL);
    (void)set_node(p.graph, p.at, 2, BYTES, NULL, NULL);
    simcuda_origin("the replay");
    launch(&p, p.a);
    simcuda_origin(NULL);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_races_of(SIMCUDA_RACE), 1);
    (void)snprintf(expected, sizeof(expected), "node 2 of a graph in stream %llu", id);
    assert_non_null(strstr(simcuda_race_last(), expected));
    (void)snprintf(expected, sizeof(expected), "node 3 of a graph in stream %llu", id);
    assert_non_null(strstr(simcuda_race_last(), expected));
    assert_non_null(strstr(simcuda_race_last(), "at 'the replay'"));
}

/* ---- random graphs -------------------------------------------------------------------------- */

enum { NODES = 24 };

static uint64_t random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((random_state >> 33) % below);
}

struct random_graph {
    CUgraphNode node[NODES];
    int reaches[NODES][NODES]; /* there is a way from the first to the second */
    unsigned place[NODES];     /* which page it writes */
};

/* Adds a node that comes after drawn earlier ones; without edges now and then. */
static void random_node(struct random_graph *r, CUgraph graph, CUdeviceptr at, unsigned n)
{
    r->place[n] = draw(6);
    r->node[n] = set_node(graph, at + r->place[n] * BYTES, n + 1, BYTES, NULL, NULL);
    unsigned edges = n == 0 ? 0 : draw(4);
    for (unsigned e = 0; e < edges; e++) {
        unsigned from = draw(n);
        if (r->reaches[from][n] && draw(2) == 0)
            continue;
        CUresult result = cuGraphAddDependencies(graph, &r->node[from], &r->node[n], NULL, 1);
        assert_true(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE);
        r->reaches[from][n] = 1;
        for (unsigned i = 0; i < n; i++)
            r->reaches[i][n] = r->reaches[i][n] || r->reaches[i][from];
    }
}

static uint64_t unordered_pairs(const struct random_graph *r)
{
    uint64_t pairs = 0;
    for (unsigned a = 0; a < NODES; a++)
        for (unsigned b = a + 1; b < NODES; b++)
            pairs += r->place[a] == r->place[b] && !r->reaches[a][b];
    return pairs;
}

/* Makes what is left unordered on one page ordered, so that the graph has no race. */
static void order_pairs(struct random_graph *r, CUgraph graph)
{
    for (unsigned b = 0; b < NODES; b++) {
        for (unsigned a = b; a-- > 0;) {
            if (r->place[a] != r->place[b] || r->reaches[a][b])
                continue;
            assert_ok(cuGraphAddDependencies(graph, &r->node[a], &r->node[b], NULL, 1));
            for (unsigned to = b; to < NODES; to++) {
                for (unsigned from = 0; from <= a; from++) {
                    int reaches =
                        (from == a || r->reaches[from][a]) && (to == b || r->reaches[b][to]);
                    r->reaches[from][to] = r->reaches[from][to] || reaches;
                }
            }
        }
    }
}

/* Races are there exactly if the edges leave two writers of a page unordered. */
static void test_random_graphs(void **state)
{
    (void)state;
    unsigned racy = 0;
    for (unsigned seed = 0; seed < 150; seed++) {
        char text[32];
        struct random_graph *r = calloc(1, sizeof(*r));
        assert_non_null(r);
        random_state = seed;
        (void)snprintf(text, sizeof(text), "SEED=%u", seed);
        fixture_start("RACES=1", "RESERVE=64G", seed % 2 == 0 ? "SCHEDULE=random" : "SCHEDULE=lazy",
                      text, NULL);
        simcuda_races_callback(quiet, NULL);
        struct program p = {.graph = graph_new(), .at = chunk_mapped(CHUNK, NULL)};
        p.a = stream_new(CU_STREAM_NON_BLOCKING);
        for (unsigned n = 0; n < NODES; n++)
            random_node(r, p.graph, p.at, n);
        launch(&p, p.a);
        assert_ok(cuCtxSynchronize());
        racy += unordered_pairs(r) != 0;
        assert_int_equal(simcuda_races() != 0, unordered_pairs(r) != 0);
        order_pairs(r, p.graph);
        assert_int_equal(unordered_pairs(r), 0);
        simcuda_races_clear();
        launch(&p, p.a);
        launch(&p, p.a);
        assert_ok(cuCtxSynchronize());
        assert_int_equal(simcuda_races(), 0);
        free(r);
    }
    assert_true(racy > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_inside, fixture_stop),
        cmocka_unit_test_teardown(test_around, fixture_stop),
        cmocka_unit_test_teardown(test_ports, fixture_stop),
        cmocka_unit_test_teardown(test_objects, fixture_stop),
        cmocka_unit_test_teardown(test_events, fixture_stop),
        cmocka_unit_test_teardown(test_reports, fixture_stop),
        cmocka_unit_test_teardown(test_random_graphs, fixture_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
