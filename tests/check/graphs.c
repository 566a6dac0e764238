/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of graphs with the blocks that they were given. */
#include "zoo.h"

/* A graph of one kernel that uses a block. */
static CUgraph graph_of(CUdeviceptr block)
{
    CUgraph graph;
    MUST(cuStreamBeginCapture(the.c, CU_STREAM_CAPTURE_MODE_RELAXED));
    touch(block, the.c);
    MUST(cuStreamEndCapture(the.c, &graph));
    return graph;
}

static CUgraphExec exec_of(CUdeviceptr block)
{
    CUgraphExec exec;
    CUgraph graph = graph_of(block);
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphDestroy(graph));
    return exec;
}

/* The launch is work as any other. */
void animal_graph_in_use(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuStreamSynchronize(the.a));
    CUgraphExec exec = exec_of(block);
    MUST(cuGraphLaunch(exec, the.b));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuStreamSynchronize(the.b));
    MUST(cuGraphExecDestroy(exec));
}

/* The same of a graph that was made by hand and holds nothing, while one stream has all memory. */
void animal_graph_by_hand_in_use(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuStreamSynchronize(the.a));
    MUST(cuGraphLaunch(exec_by_hand(block, 0), the.b));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_graph_input_freed(void)
{
    CUdeviceptr block;
    MUST(cuMemAlloc(&block, BYTES));
    CUgraphExec exec = exec_of(block);
    MUST(cuGraphLaunch(exec, the.b));
    MUST(cuStreamSynchronize(the.b));
    if (the.is_wrong)
        MUST(cuMemFree(block));
    MUST(cuGraphLaunch(exec, the.b));
    MUST(cuStreamSynchronize(the.b));
    MUST(cuGraphExecDestroy(exec));
    if (!the.is_wrong)
        MUST(cuMemFree(block));
}

/* A graph that is made by hand is held by nobody: another block may lie there when it is launched.
 */
void animal_graph_input_replaced(void)
{
    CUdeviceptr block = make(the.a), fresh;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = block, .value = 1, .elementSize = 1, .width = 64, .height = 1};
    MUST(cuStreamSynchronize(the.a));
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, the.context));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, the.a));
    if (the.is_wrong) {
        MUST(cuMemFreeAsync(block, the.a));
        fresh = make(the.a);
        if (fresh != block)
            exit(1);
        MUST(cuGraphLaunch(exec, the.a));
        MUST(cuMemFreeAsync(fresh, the.a));
    } else {
        MUST(cuGraphLaunch(exec, the.a));
        MUST(cuMemFreeAsync(block, the.a));
    }
    MUST(cuStreamSynchronize(the.a));
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
}

/* After an update the executable uses the other block, and the first one no more. */
void animal_graph_updated(void)
{
    CUdeviceptr first, second;
    CUgraphExecUpdateResultInfo info;
    MUST(cuMemAlloc(&first, BYTES));
    MUST(cuMemAlloc(&second, BYTES));
    CUgraphExec exec = exec_of(first);
    CUgraph other = graph_of(second);
    MUST(cuGraphExecUpdate(exec, other, &info));
    MUST(cuMemFree(the.is_wrong ? second : first));
    MUST(cuGraphLaunch(exec, the.b));
    MUST(cuStreamSynchronize(the.b));
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(other));
    MUST(cuMemFree(the.is_wrong ? first : second));
}

/* A node records an event that a stream waits for. */
void animal_graph_event(void)
{
    CUdeviceptr block = make(the.a);
    CUgraph graph;
    CUgraphNode use, record;
    CUgraphExec exec;
    CUevent event;
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = block, .value = 1, .elementSize = 1, .width = 64, .height = 1};
    MUST(cuStreamSynchronize(the.a));
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemsetNode(&use, graph, NULL, 0, &set, the.context));
    if (!the.is_wrong)
        MUST(cuGraphAddEventRecordNode(&record, graph, &use, 1, event));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, the.b));
    MUST(cuStreamWaitEvent(the.a, event, 0));
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuStreamSynchronize(the.b));
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
}

/* Launches of one executable wait for each other; of two they do not. */
void animal_graph_waits_for_itself(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuStreamSynchronize(the.a));
    CUgraphExec first = exec_of(block), second = exec_of(block);
    MUST(cuGraphLaunch(first, the.b));
    MUST(cuGraphLaunch(the.is_wrong ? second : first, the.c));
    wait_for(the.c, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuCtxSynchronize());
    MUST(cuGraphExecDestroy(first));
    MUST(cuGraphExecDestroy(second));
}

/* ---- nodes that are read again --------------------------------------------------------------- */

static CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr block)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = block, .value = 1, .elementSize = 1, .width = 64, .height = 1};
}

static CUgraph graph_of_set(CUdeviceptr block, CUgraphNode *node)
{
    CUgraph graph;
    CUDA_MEMSET_NODE_PARAMS set = set_of(block);
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemsetNode(node, graph, NULL, 0, &set, the.context));
    return graph;
}

/* What a node was given is freed by the time that the graph becomes an executable, */
void animal_graph_freed_before_instantiation(void)
{
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr block = make(the.a), other = make(the.a);
    CUgraph graph = graph_of_set(block, &node);
    MUST(cuMemFreeAsync(the.is_wrong ? block : other, the.a));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, the.a));
}

/* or that of an update. */
void animal_graph_freed_before_update(void)
{
    CUgraphNode node;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    CUdeviceptr first = make(the.a), second = make(the.a);
    CUgraph graph = graph_of_set(first, &node), other = graph_of_set(second, &node);
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuMemFreeAsync(the.is_wrong ? second : first, the.a));
    MUST(cuGraphExecUpdate(exec, other, &info));
    MUST(cuGraphLaunch(exec, the.a));
}

/* A change of one node leaves the others known. */
void animal_graph_other_node_changed(void)
{
    CUgraphNode node, changed;
    CUgraphExec exec;
    CUdeviceptr block = make(the.a), other = make(the.a);
    CUDA_MEMSET_NODE_PARAMS set = set_of(other);
    CUgraph graph = graph_of_set(block, &node);
    MUST(cuGraphAddMemsetNode(&changed, graph, NULL, 0, &set, the.context));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    set.value = 5;
    MUST(cuGraphExecMemsetNodeSetParams(exec, changed, &set, the.context));
    if (the.is_wrong)
        MUST(cuMemFreeAsync(block, the.a));
    MUST(cuGraphLaunch(exec, the.a));
}

/* The changed node uses the other block, and the first one no more. */
static void node_changed(CUresult (*change)(CUgraphExec, CUgraphNode, CUdeviceptr))
{
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr first = make(the.a), second = make(the.a);
    CUgraph graph = graph_of_set(first, &node);
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(change(exec, node, second));
    MUST(cuMemFreeAsync(the.is_wrong ? second : first, the.a));
    MUST(cuGraphLaunch(exec, the.a));
}

static CUresult change_set(CUgraphExec exec, CUgraphNode node, CUdeviceptr block)
{
    CUDA_MEMSET_NODE_PARAMS set = set_of(block);
    return cuGraphExecMemsetNodeSetParams(exec, node, &set, the.context);
}

static CUresult change_by_type(CUgraphExec exec, CUgraphNode node, CUdeviceptr block)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    params.memset.dst = block;
    params.memset.value = 1;
    params.memset.elementSize = 1;
    params.memset.width = 64;
    params.memset.height = 1;
    params.memset.ctx = the.context;
    return cuGraphExecNodeSetParams(exec, node, &params);
}

void animal_graph_node_changed(void)
{
    node_changed(change_set);
}

void animal_graph_node_changed_by_type(void)
{
    node_changed(change_by_type);
}

/* A node that is off uses nothing, until it is on again. */
void animal_graph_node_off(void)
{
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr block = make(the.a);
    CUgraph graph = graph_of_set(block, &node);
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphNodeSetEnabled(exec, node, 0));
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuGraphLaunch(exec, the.a));
    MUST(cuGraphNodeSetEnabled(exec, node, (unsigned)the.is_wrong));
    MUST(cuGraphLaunch(exec, the.a));
}

/* The node records another event by now. */
void animal_graph_event_changed(void)
{
    CUdeviceptr block = make(the.a);
    CUgraphNode use, record;
    CUgraphExec exec;
    CUevent first, second;
    CUgraph graph = graph_of_set(block, &use);
    MUST(cuStreamSynchronize(the.a));
    MUST(cuEventCreate(&first, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventCreate(&second, CU_EVENT_DISABLE_TIMING));
    MUST(cuGraphAddEventRecordNode(&record, graph, &use, 1, first));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphExecEventRecordNodeSetEvent(exec, record, second));
    MUST(cuGraphLaunch(exec, the.b));
    MUST(cuStreamWaitEvent(the.a, the.is_wrong ? first : second, 0));
    MUST(cuMemFreeAsync(block, the.a));
}

/* ---- memory of graphs ----------------------------------------------------------------------- */

/* Memory that the graph allocates and frees lives in its launches alone. */
void animal_graph_memory_outside(void)
{
    CUgraph graph;
    CUgraphExec exec;
    MUST(cuStreamBeginCapture(the.a, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUdeviceptr block = make(the.a);
    touch(block, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuStreamEndCapture(the.a, &graph));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, the.a));
    MUST(cuGraphLaunch(exec, the.b));
    if (the.is_wrong)
        MUST(cuMemsetD8Async(block, 0, 64, the.a));
    MUST(cuCtxSynchronize());
}

/* Memory that a graph allocates, used by two streams of its capture: inside a graph, too, the free
 * must come after the use. The checker does not follow it; auto_record does. */
static void graph_memory(void)
{
    CUgraph graph;
    CUgraphExec exec;
    MUST(cuStreamBeginCapture(the.a, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    CUdeviceptr next = make(the.a);
    touch(next, the.a);
    wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(next, the.a));
    MUST(cuStreamEndCapture(the.a, &graph));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, the.a));
    MUST(cuStreamSynchronize(the.a));
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
}

void animal_graph_memory(void)
{
    graph_memory();
}

/* The same of a stream that has all memory. */
void animal_capture_of_the_sole_stream(void)
{
    (void)make(the.a);
    graph_memory();
}
