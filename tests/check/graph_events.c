/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of graphs that record events, and wait for events, between their nodes: what an event of a
 * node orders is what comes before the node in the graph, and what waits is what comes after it.
 */
#include "zoo.h"

/* The graph that is being made. */
static CUgraph graph;

static void graph_begin(void)
{
    MUST(cuGraphCreate(&graph, 0));
}

static CUevent event_make(void)
{
    CUevent event;
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* Nodes, each after one other or, null, after none. */
static CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr block)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = block, .value = 1, .elementSize = 1, .width = 64, .height = 1};
}

static CUgraphNode set_add(CUdeviceptr block, CUgraphNode after)
{
    CUgraphNode node;
    CUDA_MEMSET_NODE_PARAMS set = set_of(block);
    MUST(cuGraphAddMemsetNode(&node, graph, &after, after != NULL, &set, the.context));
    return node;
}

static CUgraphNode record_add(CUevent event, CUgraphNode after)
{
    CUgraphNode node;
    MUST(cuGraphAddEventRecordNode(&node, graph, &after, after != NULL, event));
    return node;
}

static CUgraphNode wait_add(CUevent event, CUgraphNode after)
{
    CUgraphNode node;
    MUST(cuGraphAddEventWaitNode(&node, graph, &after, after != NULL, event));
    return node;
}

static CUgraphNode child_add(CUgraph child, CUgraphNode after)
{
    CUgraphNode node;
    MUST(cuGraphAddChildGraphNode(&node, graph, &after, after != NULL, child));
    return node;
}

static CUgraphExec exec_make(void)
{
    CUgraphExec exec;
    MUST(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void launch(CUstream stream)
{
    MUST(cuGraphLaunch(exec_make(), stream));
}

/* The block is freed in the order of the event. */
static void free_after(CUevent event, CUdeviceptr block)
{
    MUST(cuStreamWaitEvent(the.a, event, 0));
    MUST(cuMemFreeAsync(block, the.a));
}

/* A block that all streams may use. */
static CUdeviceptr make_for_all(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuStreamSynchronize(the.a));
    return block;
}

/* ---- events that nodes record ---------------------------------------------------------------- */

/* The node is the first of the graph, or the last. */
void animal_graph_event_before_the_use(void)
{
    CUdeviceptr block = make_for_all();
    CUevent event = event_make();
    graph_begin();
    CUgraphNode first = the.is_wrong ? record_add(event, NULL) : set_add(block, NULL);
    if (the.is_wrong)
        (void)set_add(block, first);
    else
        (void)record_add(event, first);
    launch(the.b);
    free_after(event, block);
}

/* What the graph does in another branch is under way. */
void animal_graph_event_of_a_branch(void)
{
    CUdeviceptr block = make_for_all(), other = make_for_all();
    CUevent event = event_make();
    graph_begin();
    (void)record_add(event, set_add(block, NULL));
    (void)set_add(other, NULL);
    launch(the.b);
    free_after(event, the.is_wrong ? other : block);
}

/* The host has seen it. */
void animal_graph_event_seen(void)
{
    CUdeviceptr block = make_for_all(), other = make_for_all();
    CUevent event = event_make();
    graph_begin();
    (void)set_add(other, record_add(event, set_add(block, NULL)));
    launch(the.b);
    MUST(cuEventSynchronize(event));
    MUST(cuMemFreeAsync(the.is_wrong ? other : block, the.a));
}

/* A capture makes such a node. */
void animal_graph_event_of_a_capture(void)
{
    CUgraphExec exec;
    CUdeviceptr block = make_for_all(), other = make_for_all();
    MUST(cuStreamBeginCapture(the.c, CU_STREAM_CAPTURE_MODE_RELAXED));
    touch(block, the.c);
    MUST(cuEventRecordWithFlags(the.event, the.c, CU_EVENT_RECORD_EXTERNAL));
    touch(other, the.c);
    MUST(cuStreamEndCapture(the.c, &graph));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, the.b));
    free_after(the.event, the.is_wrong ? other : block);
}

/* Until the launch the event stands for what it stood for before the capture. */
void animal_graph_event_captured_later(void)
{
    CUgraphExec exec;
    CUdeviceptr block = make_for_all();
    touch(block, the.b);
    MUST(cuEventRecord(the.event, the.b));
    MUST(cuStreamBeginCapture(the.c, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuEventRecordWithFlags(the.event, the.c, CU_EVENT_RECORD_EXTERNAL));
    MUST(cuStreamEndCapture(the.c, &graph));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    if (the.is_wrong)
        MUST(cuGraphLaunch(exec, the.c));
    free_after(the.event, block);
}

/* The node lies in a child graph, or comes after one. */
void animal_graph_event_in_a_child(void)
{
    CUdeviceptr block = make_for_all(), inside = make_for_all(), late = make_for_all();
    CUevent first = event_make(), second = event_make();
    graph_begin();
    (void)set_add(late, record_add(first, set_add(inside, NULL)));
    CUgraph child = graph;
    graph_begin();
    (void)record_add(second, child_add(child, set_add(block, NULL)));
    launch(the.b);
    free_after(first, block); /* what comes before the child comes before what is inside */
    free_after(the.is_wrong ? first : second, late);
    free_after(second, inside);
}

/* The stream's next work comes after the whole of the graph. */
void animal_graph_event_and_the_stream(void)
{
    CUdeviceptr block = make_for_all();
    CUevent event = event_make();
    graph_begin();
    (void)set_add(block, record_add(event, NULL));
    launch(the.b);
    MUST(cuEventRecord(the.event, the.b));
    free_after(the.is_wrong ? event : the.event, block);
}

/* A launch comes after all of the launch before it: also the node of its event. */
void animal_graph_event_of_the_next_launch(void)
{
    CUdeviceptr block = make_for_all();
    CUevent event = event_make();
    graph_begin();
    CUgraphNode use = set_add(block, record_add(event, NULL));
    CUgraphExec exec = exec_make();
    MUST(cuGraphLaunch(exec, the.b));
    if (!the.is_wrong)
        MUST(cuGraphNodeSetEnabled(exec, use, 0));
    MUST(cuGraphLaunch(exec, the.c));
    free_after(event, block);
}

/* A node that is changed stays where it was in the graph. */
void animal_graph_event_and_changed_node(void)
{
    CUdeviceptr first = make_for_all(), second = make_for_all();
    CUevent old = event_make(), event = event_make();
    graph_begin();
    CUgraphNode use = set_add(second, NULL), record = record_add(old, use);
    CUgraphNode late = set_add(second, record);
    CUgraphExec exec = exec_make();
    CUDA_MEMSET_NODE_PARAMS set = set_of(first);
    MUST(cuGraphExecMemsetNodeSetParams(exec, the.is_wrong ? late : use, &set, the.context));
    MUST(cuGraphExecEventRecordNodeSetEvent(exec, record, event));
    MUST(cuGraphLaunch(exec, the.b));
    free_after(event, first);
}

/* The last of the nodes that record an event comes after the use; it was made first. */
void animal_graph_event_recorded_twice(void)
{
    CUdeviceptr block = make_for_all();
    CUevent event = event_make();
    graph_begin();
    CUgraphNode last = record_add(event, NULL);
    CUgraphNode use = set_add(block, record_add(event, NULL));
    CUgraphEdgeData edge = {0};
    if (!the.is_wrong)
        MUST(cuGraphAddDependencies(graph, &use, &last, &edge, 1));
    launch(the.b);
    free_after(event, block);
}

/* What the launch comes after its first nodes come after. */
void animal_graph_event_and_the_allocation(void)
{
    CUdeviceptr block = make(the.a);
    CUevent event = event_make();
    graph_begin();
    (void)set_add(block, record_add(event, NULL));
    if (!the.is_wrong)
        wait_for(the.a, the.b);
    launch(the.b);
}

/* After an update it has the order of the other graph. */
void animal_graph_event_updated(void)
{
    CUgraphExecUpdateResultInfo info;
    CUdeviceptr block = make_for_all(), other = make_for_all();
    CUevent event = event_make();
    graph_begin();
    (void)set_add(other, record_add(event, set_add(block, NULL)));
    CUgraphExec exec = exec_make();
    graph_begin();
    (void)set_add(block, record_add(event, set_add(other, NULL)));
    MUST(cuGraphExecUpdate(exec, graph, &info));
    MUST(cuGraphLaunch(exec, the.b));
    free_after(event, the.is_wrong ? block : other);
}

/* ---- events that nodes wait for -------------------------------------------------------------- */

/* A block is made, and a graph of another stream waits for that: with a node that comes before the
 * use, or with one that does not. */
void animal_graph_wait(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuEventRecord(the.event, the.a));
    graph_begin();
    CUgraphNode wait = wait_add(the.event, NULL);
    (void)set_add(block, the.is_wrong ? NULL : wait);
    launch(the.b);
}

void animal_graph_wait_of_a_capture(void)
{
    CUgraphExec exec;
    CUdeviceptr block = make(the.a);
    MUST(cuEventRecord(the.event, the.a));
    MUST(cuStreamBeginCapture(the.c, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (the.is_wrong)
        touch(block, the.c);
    MUST(cuStreamWaitEvent(the.c, the.event, CU_EVENT_WAIT_EXTERNAL));
    if (!the.is_wrong)
        touch(block, the.c);
    MUST(cuStreamEndCapture(the.c, &graph));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, the.b));
}

/* A wait inside a child graph orders what comes after the child, and what comes before the child is
 * before the wait. */
void animal_graph_wait_in_a_child(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuEventRecord(the.event, the.a));
    graph_begin();
    (void)wait_add(the.event, NULL);
    CUgraph child = graph;
    graph_begin();
    CUgraphNode use = the.is_wrong ? set_add(block, NULL) : NULL;
    CUgraphNode inner = child_add(child, use);
    if (!the.is_wrong)
        (void)set_add(block, inner);
    launch(the.b);
}

/* A graph hands an order on: nothing in it uses the block. */
void animal_graph_wait_handed_on(void)
{
    CUdeviceptr block = make(the.a);
    CUevent event = event_make();
    MUST(cuEventRecord(the.event, the.a));
    graph_begin();
    CUgraphNode wait = wait_add(the.event, NULL);
    (void)record_add(event, the.is_wrong ? NULL : wait);
    launch(the.b);
    MUST(cuStreamWaitEvent(the.c, event, 0));
    touch(block, the.c);
}

/* A branch waits for an event of the other one: or for what the event stood for at the launch. */
void animal_graph_wait_inside(void)
{
    CUdeviceptr block = make_for_all();
    CUevent inside = event_make(), event = event_make();
    graph_begin();
    (void)record_add(inside, set_add(block, NULL));
    CUgraphNode wait = the.is_wrong ? NULL : wait_add(inside, NULL);
    (void)record_add(event, wait);
    launch(the.b);
    free_after(event, block);
}

/* ---- more than is looked at ------------------------------------------------------------------ */

/* With very many such nodes each event stands for the whole of the launch, */
static CUgraphNode many_add(CUevent first)
{
    enum { MANY = 65 };
    CUgraphNode last = record_add(first, NULL);
    for (int i = 1; i < MANY; i++)
        last = record_add(event_make(), last);
    return last;
}

void animal_graph_events_many(void)
{
    CUdeviceptr block = make_for_all();
    CUevent event = event_make();
    graph_begin();
    (void)set_add(block, many_add(event));
    launch(the.b);
    free_after(the.is_wrong ? the.event : event, block);
}

/* and a wait for its beginning. */
void animal_graph_events_many_and_a_wait(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuEventRecord(the.event, the.a));
    graph_begin();
    (void)wait_add(the.is_wrong ? event_make() : the.event, set_add(block, many_add(event_make())));
    launch(the.b);
}
