/* SPDX-License-Identifier: Apache-2.0 */
/* See graphs.h. */
#include "graphs.h"

#include <string.h>

CUgraph graph_new(void)
{
    CUgraph graph = NULL;
    assert_ok(cuGraphCreate(&graph, 0));
    return graph;
}

CUgraphExec exec_new(CUgraph graph)
{
    CUgraphExec exec = NULL;
    assert_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

size_t node_count(CUgraph graph)
{
    size_t count = 0;
    assert_ok(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

size_t edge_count(CUgraph graph)
{
    size_t count = 0;
    assert_ok(cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
    return count;
}

/* The nodes to come after, in an array without holes. */
struct after {
    CUgraphNode node[2];
    size_t count;
};

static struct after after_of(CUgraphNode a, CUgraphNode b)
{
    struct after after = {{a, b}, a == NULL ? 0 : b == NULL ? 1 : 2};
    return after;
}

CUgraphNode empty_node(CUgraph graph, CUgraphNode a, CUgraphNode b)
{
    CUgraphNode node = NULL;
    struct after after = after_of(a, b);
    assert_ok(cuGraphAddEmptyNode(&node, graph, after.node, after.count));
    return node;
}

CUgraphNode set_node(CUgraph graph, CUdeviceptr at, unsigned value, size_t bytes, CUgraphNode a,
                     CUgraphNode b)
{
    CUgraphNode node = NULL;
    struct after after = after_of(a, b);
    const CUDA_MEMSET_NODE_PARAMS ask = {at, 0, value, 1, bytes, 1};
    assert_ok(cuGraphAddMemsetNode(&node, graph, after.node, after.count, &ask, fixture_context()));
    return node;
}

CUgraphNode copy_node(CUgraph graph, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUgraphNode a,
                      CUgraphNode b)
{
    CUgraphNode node = NULL;
    struct after after = after_of(a, b);
    CUDA_MEMCPY3D ask;
    memset(&ask, 0, sizeof(ask));
    ask.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    ask.srcDevice = from;
    ask.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    ask.dstDevice = to;
    ask.WidthInBytes = bytes;
    ask.Height = 1;
    ask.Depth = 1;
    assert_ok(cuGraphAddMemcpyNode(&node, graph, after.node, after.count, &ask, fixture_context()));
    return node;
}

CUgraphNode host_node(CUgraph graph, CUhostFn function, void *data, CUgraphNode a, CUgraphNode b)
{
    CUgraphNode node = NULL;
    struct after after = after_of(a, b);
    const CUDA_HOST_NODE_PARAMS ask = {function, data};
    assert_ok(cuGraphAddHostNode(&node, graph, after.node, after.count, &ask));
    return node;
}

CUgraphNode child_node(CUgraph graph, CUgraph child, CUgraphNode a, CUgraphNode b)
{
    CUgraphNode node = NULL;
    struct after after = after_of(a, b);
    assert_ok(cuGraphAddChildGraphNode(&node, graph, after.node, after.count, child));
    return node;
}

CUgraphNode record_node(CUgraph graph, CUevent event, CUgraphNode a, CUgraphNode b)
{
    CUgraphNode node = NULL;
    struct after after = after_of(a, b);
    assert_ok(cuGraphAddEventRecordNode(&node, graph, after.node, after.count, event));
    return node;
}

CUgraphNode wait_node(CUgraph graph, CUevent event, CUgraphNode a, CUgraphNode b)
{
    CUgraphNode node = NULL;
    struct after after = after_of(a, b);
    assert_ok(cuGraphAddEventWaitNode(&node, graph, after.node, after.count, event));
    return node;
}
