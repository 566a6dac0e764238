/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: what graphs are made of, and what the driver says of them. */
#include "graph.h"

#include <string.h>

/* ---- Making graphs -------------------------------------------------------------------------- */

static void graph_arguments(void)
{
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
    size_t count = 0;
    expect("create_null", cu.GraphCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    expect("create_flags", cu.GraphCreate(&graph, 1), CUDA_ERROR_INVALID_VALUE);
    expect("create", cu.GraphCreate(&graph, 0), CUDA_SUCCESS);
    expect("add_null_out", cu.GraphAddEmptyNode(NULL, graph, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    expect("add_null_graph", cu.GraphAddEmptyNode(&node, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    expect("add_null_dependencies", cu.GraphAddEmptyNode(&node, graph, NULL, 1),
           CUDA_ERROR_INVALID_VALUE);
    expect("nodes_null", cu.GraphGetNodes(graph, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    expect("nodes_null_graph", cu.GraphGetNodes(NULL, NULL, &count), CUDA_ERROR_INVALID_VALUE);
    expect("type_null", cu.GraphNodeGetType(NULL, &type), CUDA_ERROR_INVALID_VALUE);
    expect("destroy_node_null", cu.GraphDestroyNode(NULL), CUDA_ERROR_INVALID_VALUE);
    expect("destroy_null", cu.GraphDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    expect("destroy_exec_null", cu.GraphExecDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    expect("launch_null", cu.GraphLaunch(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    expect("instantiate_null", cu.GraphInstantiateWithFlags(NULL, graph, 0),
           CUDA_ERROR_INVALID_VALUE);
    expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
}

static void graph_nodes(void)
{
    CUgraph graph = graph_new();
    CUgraphNode made[3] = {node_empty(graph, NULL, 0)};
    made[1] = node_empty(graph, &made[0], 1);
    made[2] = node_empty(graph, &made[0], 1);
    CUgraphNode got[5] = {made[0], made[0], made[0], made[0], made[0]};
    size_t count = 0;
    expect("count", cu.GraphGetNodes(graph, NULL, &count), CUDA_SUCCESS);
    expect_number("nodes", count, 3);
    count = 2;
    expect("fewer", cu.GraphGetNodes(graph, got, &count), CUDA_SUCCESS);
    expect_number("given", count, 2);
    expect_yes("third_untouched", got[2] == made[0], true);
    count = 5;
    expect("more", cu.GraphGetNodes(graph, got, &count), CUDA_SUCCESS);
    expect_number("all", count, 3);
    expect_yes("rest_null", got[3] == NULL && got[4] == NULL, true);
    observe_yes("in_order_added", got[0] == made[0] && got[1] == made[1] && got[2] == made[2]);
    count = 5;
    expect("roots", cu.GraphGetRootNodes(graph, got, &count), CUDA_SUCCESS);
    expect_number("root_count", count, 1);
    expect_yes("root", got[0] == made[0], true);
    count = 5;
    expect("dependents", cu.GraphNodeGetDependentNodes(made[0], got, &count), CUDA_SUCCESS);
    expect_number("dependent_count", count, 2);
    observe_yes("dependents_in_order", got[0] == made[1] && got[1] == made[2]);
    count = 5;
    expect("dependencies", cu.GraphNodeGetDependencies(made[2], got, &count), CUDA_SUCCESS);
    expect_number("dependency_count", count, 1);
    expect("destroy_node", cu.GraphDestroyNode(made[0]), CUDA_SUCCESS);
    expect("roots_after", cu.GraphGetRootNodes(graph, NULL, &count), CUDA_SUCCESS);
    expect_number("roots_after_count", count, 2);
    expect("edges_after", cu.GraphGetEdges(graph, NULL, NULL, &count), CUDA_SUCCESS);
    expect_number("edges_after_count", count, 0);
}

static void graph_edges(void)
{
    CUgraph graph = graph_new();
    CUgraph other = graph_new();
    CUgraphNode a = node_empty(graph, NULL, 0);
    CUgraphNode b = node_empty(graph, NULL, 0);
    CUgraphNode far = node_empty(other, NULL, 0);
    CUgraphNode twice[2] = {a, a};
    CUgraphNode node = NULL;
    CUgraphNode null = NULL;
    CUgraphExec exec = NULL;
    size_t count = 0;
    expect("add", cu.GraphAddDependencies(graph, &a, &b, 1), CUDA_SUCCESS);
    expect("again", cu.GraphAddDependencies(graph, &a, &b, 1), CUDA_ERROR_INVALID_VALUE);
    expect("none", cu.GraphAddDependencies(graph, NULL, NULL, 0), CUDA_SUCCESS);
    expect("self", cu.GraphAddDependencies(graph, &a, &a, 1), CUDA_ERROR_INVALID_VALUE);
    expect("null_node", cu.GraphAddDependencies(graph, &null, &b, 1), CUDA_ERROR_INVALID_VALUE);
    expect("other_graph", cu.GraphAddDependencies(graph, &far, &b, 1), CUDA_ERROR_INVALID_VALUE);
    expect("node_twice", cu.GraphAddEmptyNode(&node, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
    expect("node_far", cu.GraphAddEmptyNode(&node, graph, &far, 1), CUDA_ERROR_INVALID_VALUE);
    expect("node_null", cu.GraphAddEmptyNode(&node, graph, &null, 1), CUDA_ERROR_INVALID_VALUE);
    expect("count", cu.GraphGetNodes(graph, NULL, &count), CUDA_SUCCESS);
    expect_number("nodes", count, 2);
    observe("cycle", cu.GraphAddDependencies(graph, &b, &a, 1));
    observe("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
    observe("uncycle", cu.GraphRemoveDependencies(graph, &b, &a, 1));
    expect("remove", cu.GraphRemoveDependencies(graph, &a, &b, 1), CUDA_SUCCESS);
    expect("remove_again", cu.GraphRemoveDependencies(graph, &a, &b, 1), CUDA_ERROR_INVALID_VALUE);
    expect("edges", cu.GraphGetEdges(graph, NULL, NULL, &count), CUDA_SUCCESS);
    expect_number("edge_count", count, 0);
}

/* What was wrong in a list of edges: is the part before it done? */
static void graph_edges_partly_wrong(void)
{
    CUgraph graph = graph_new();
    CUgraphNode a = node_empty(graph, NULL, 0);
    CUgraphNode b = node_empty(graph, NULL, 0);
    CUgraphNode c = node_empty(graph, &a, 1);
    CUgraphNode from[2] = {b, a};
    CUgraphNode to[2] = {c, c};
    size_t count = 0;
    expect("second_exists", cu.GraphAddDependencies(graph, from, to, 2), CUDA_ERROR_INVALID_VALUE);
    expect("edges", cu.GraphGetEdges(graph, NULL, NULL, &count), CUDA_SUCCESS);
    observe_number("edge_count", count);
}

/* ---- What nodes say ------------------------------------------------------------------------- */

static void graph_node_types(void)
{
    CUgraph graph = graph_new();
    CUgraph child = graph_new();
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraphNode node = NULL;
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUevent got = NULL;
    expect_number("empty", type_of(node_empty(graph, NULL, 0)), CU_GRAPH_NODE_TYPE_EMPTY);
    expect_number("set", type_of(node_set(graph, at, 1, 4, NULL, 0)), CU_GRAPH_NODE_TYPE_MEMSET);
    expect_number("copy", type_of(node_copy(graph, at, at + 64, 4, NULL, 0)),
                  CU_GRAPH_NODE_TYPE_MEMCPY);
    expect_number("store", type_of(node_store(graph, at, 1, NULL, 0)), CU_GRAPH_NODE_TYPE_KERNEL);
    expect("add_record", cu.GraphAddEventRecordNode(&node, graph, NULL, 0, event), CUDA_SUCCESS);
    expect_number("record", type_of(node), CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    expect("record_event", cu.GraphEventRecordNodeGetEvent(node, &got), CUDA_SUCCESS);
    expect_yes("record_same", got == event, true);
    expect("record_not_wait", cu.GraphEventWaitNodeGetEvent(node, &got), CUDA_ERROR_INVALID_VALUE);
    expect("add_wait", cu.GraphAddEventWaitNode(&node, graph, NULL, 0, event), CUDA_SUCCESS);
    expect_number("wait", type_of(node), CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    expect("wait_event", cu.GraphEventWaitNodeGetEvent(node, &got), CUDA_SUCCESS);
    expect_yes("wait_same", got == event, true);
    expect("add_child", cu.GraphAddChildGraphNode(&node, graph, NULL, 0, child), CUDA_SUCCESS);
    expect_number("child", type_of(node), CU_GRAPH_NODE_TYPE_GRAPH);
    observe("add_self", cu.GraphAddChildGraphNode(&node, graph, NULL, 0, graph));
    observe("record_null", cu.GraphAddEventRecordNode(&node, graph, NULL, 0, NULL));
}

static void graph_kernel_nodes(void)
{
    CUgraph graph = graph_new();
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    uint32_t value = 7;
    void *pointers[2] = {&at, &value};
    struct store_packed packed = {at + 64, 9};
    size_t bytes = STORE_PACKED_BYTES;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS ask = store_params();
    CUDA_KERNEL_NODE_PARAMS got;
    CUgraphNode first = NULL;
    CUgraphNode second = NULL;
    ask.kernelParams = pointers;
    expect("add", cu.GraphAddKernelNode(&first, graph, NULL, 0, &ask), CUDA_SUCCESS);
    value = 1; /* the node has its own copy */
    expect("get", cu.GraphKernelNodeGetParams(first, &got), CUDA_SUCCESS);
    expect_yes("pointers", got.kernelParams != NULL && got.extra == NULL, true);
    expect_number("value", *(uint32_t *)got.kernelParams[1], 7);
    expect_yes("address", memcmp(got.kernelParams[0], &at, sizeof at) == 0, true);
    expect_yes("function", got.func == ask.func, true);
    expect_number("grid", got.gridDimX, 1);
    observe_yes("context_given", got.ctx != NULL);
    observe_yes("kernel_given", got.kern != NULL);
    ask.kernelParams = NULL;
    ask.extra = extra;
    expect("add_packed", cu.GraphAddKernelNode(&second, graph, &first, 1, &ask), CUDA_SUCCESS);
    packed.value = 1;
    expect("get_packed", cu.GraphKernelNodeGetParams(second, &got), CUDA_SUCCESS);
    expect_yes("extra", got.kernelParams == NULL && got.extra != NULL, true);
    expect_yes("names",
               got.extra != NULL && got.extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER &&
                   got.extra[2] == CU_LAUNCH_PARAM_BUFFER_SIZE &&
                   got.extra[4] == CU_LAUNCH_PARAM_END,
               true);
    expect_number("packed_bytes", *(size_t *)got.extra[3], STORE_PACKED_BYTES);
    expect_number("packed_value", ((struct store_packed *)got.extra[1])->value, 9);
    packed.value = 5;
    expect("set", cu.GraphKernelNodeSetParams(first, &ask), CUDA_SUCCESS);
    expect("get_set", cu.GraphKernelNodeGetParams(first, &got), CUDA_SUCCESS);
    expect_yes("now_extra", got.kernelParams == NULL && got.extra != NULL, true);
}

static void graph_kernel_nodes_wrong(void)
{
    CUgraph graph = graph_new();
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    uint32_t value = 7;
    void *pointers[2] = {&at, &value};
    struct store_packed packed = {at, 9};
    size_t bytes = STORE_PACKED_BYTES;
    size_t few = 8;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    void *short_extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
                           &few, CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS ask = store_params();
    CUgraphNode node = NULL;
    size_t offset = 0;
    size_t size = 0;
    expect("null", cu.GraphAddKernelNode(&node, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    expect("neither", cu.GraphAddKernelNode(&node, graph, NULL, 0, &ask), CUDA_ERROR_INVALID_VALUE);
    ask.kernelParams = pointers;
    ask.extra = extra;
    expect("both", cu.GraphAddKernelNode(&node, graph, NULL, 0, &ask), CUDA_ERROR_INVALID_VALUE);
    ask.kernelParams = NULL;
    ask.extra = short_extra;
    observe("short", cu.GraphAddKernelNode(&node, graph, NULL, 0, &ask));
    ask.extra = NULL;
    ask.kernelParams = pointers;
    ask.gridDimX = 0;
    expect("no_grid", cu.GraphAddKernelNode(&node, graph, NULL, 0, &ask), CUDA_ERROR_INVALID_VALUE);
    ask.gridDimX = 1;
    ask.blockDimX = 2048;
    observe("block", cu.GraphAddKernelNode(&node, graph, NULL, 0, &ask));
    ask.blockDimX = 1;
    CUfunction function = ask.func;
    ask.func = NULL;
    observe("no_function", cu.GraphAddKernelNode(&node, graph, NULL, 0, &ask));
    expect("info_0", cu.FuncGetParamInfo(function, 0, &offset, &size), CUDA_SUCCESS);
    expect_number("size_0", size, 8);
    expect("info_1", cu.FuncGetParamInfo(function, 1, &offset, &size), CUDA_SUCCESS);
    expect_number("offset_1", offset, 8);
    expect_number("size_1", size, 4);
    expect("info_2", cu.FuncGetParamInfo(function, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

static void memcpy_said(const CUDA_MEMCPY3D *copy)
{
    observe_number("from_type", copy->srcMemoryType);
    observe_number("to_type", copy->dstMemoryType);
    observe_number("width", copy->WidthInBytes);
    observe_number("height", copy->Height);
    observe_number("depth", copy->Depth);
    observe_number("from_pitch", copy->srcPitch);
    observe_number("from_height", copy->srcHeight);
    observe_yes("from_host", copy->srcHost != NULL);
    observe_yes("from_device", copy->srcDevice != 0);
    observe_yes("to_host", copy->dstHost != NULL);
    observe_yes("to_device", copy->dstDevice != 0);
}

static void graph_memcpy_nodes(void)
{
    CUgraph graph = graph_new();
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    static unsigned char pageable[64];
    CUDA_MEMCPY3D ask = copy_params(at, at + 64, 16);
    CUDA_MEMCPY3D got;
    CUgraphNode node = NULL;
    CUcontext context = NULL;
    need("context", cu.CtxGetCurrent(&context));
    expect("add", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context), CUDA_SUCCESS);
    memset(&got, 0, sizeof got);
    expect("get", cu.GraphMemcpyNodeGetParams(node, &got), CUDA_SUCCESS);
    memcpy_said(&got);
    expect_yes("addresses", got.srcDevice == at + 64 && got.dstDevice == at, true);
    ask.srcMemoryType = CU_MEMORYTYPE_HOST;
    ask.srcHost = pageable;
    ask.srcDevice = 0;
    expect("add_pageable", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context),
           CUDA_SUCCESS);
    memset(&got, 0, sizeof got);
    expect("get_pageable", cu.GraphMemcpyNodeGetParams(node, &got), CUDA_SUCCESS);
    memcpy_said(&got);
    ask = copy_params(at, at + 64, 16);
    ask.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    ask.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    observe("add_unified", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context));
    memset(&got, 0, sizeof got);
    observe("get_unified", cu.GraphMemcpyNodeGetParams(node, &got));
    memcpy_said(&got);
    ask = copy_params(at, at + 64, 0);
    observe("no_bytes", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context));
    ask = copy_params(at, at + 64, 16);
    observe("null_context", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, NULL));
    ask.dstDevice = 4096;
    observe("not_memory", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context));
    ask.dstDevice = 0;
    observe("null_address", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context));
}

static void graph_memset_nodes(void)
{
    CUgraph graph = graph_new();
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUDA_MEMSET_NODE_PARAMS ask = {at, 0, 0x01020304, 4, 3, 1};
    CUDA_MEMSET_NODE_PARAMS got;
    CUgraphNode node = NULL;
    CUcontext context = NULL;
    need("context", cu.CtxGetCurrent(&context));
    expect("add", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context), CUDA_SUCCESS);
    memset(&got, 0, sizeof got);
    expect("get", cu.GraphMemsetNodeGetParams(node, &got), CUDA_SUCCESS);
    expect_yes("address", got.dst == at, true);
    expect_number("value", got.value, 0x01020304);
    expect_number("element", got.elementSize, 4);
    expect_number("width", got.width, 3);
    expect_number("height", got.height, 1);
    observe_number("pitch", got.pitch);
    ask.value = 8;
    expect("set", cu.GraphMemsetNodeSetParams(node, &ask), CUDA_SUCCESS);
    expect("get_set", cu.GraphMemsetNodeGetParams(node, &got), CUDA_SUCCESS);
    expect_number("value_set", got.value, 8);
    ask.elementSize = 3;
    expect("element_3", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context),
           CUDA_ERROR_INVALID_VALUE);
    ask.elementSize = 4;
    ask.dst = at + 1;
    expect("misaligned", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context),
           CUDA_ERROR_INVALID_VALUE);
    ask.dst = at;
    ask.width = 0;
    observe("no_width", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context));
    ask.width = 3;
    ask.height = 0;
    observe("no_height", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context));
    ask.height = 1;
    ask.dst = 4096;
    observe("not_memory", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context));
    ask.dst = at;
    ask.elementSize = 1;
    ask.value = 0x1ff;
    observe("value_too_large", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context));
    ask.value = 5;
    ask.pitch = 256;
    ask.width = 4;
    ask.height = 2;
    observe("rows", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context));
}

/* ---- Children and clones -------------------------------------------------------------------- */

static void graph_children(void)
{
    CUgraph graph = graph_new();
    CUgraph child = graph_new();
    CUgraph inside = NULL;
    CUgraphNode node = NULL;
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    size_t count = 0;
    chunk_clear(at);
    CUgraphNode set = node_set(child, at, 3, 16, NULL, 0);
    expect("add", cu.GraphAddChildGraphNode(&node, graph, NULL, 0, child), CUDA_SUCCESS);
    expect("inside", cu.GraphChildGraphNodeGetGraph(node, &inside), CUDA_SUCCESS);
    expect_yes("a_copy", inside != child, true);
    (void)node_set(child, at + 64, 4, 16, &set, 1); /* the node's copy does not see it */
    expect("count", cu.GraphGetNodes(inside, NULL, &count), CUDA_SUCCESS);
    expect_number("inside_nodes", count, 1);
    (void)node_set(inside, at + 128, 5, 16, NULL, 0); /* but this is seen */
    expect("destroy_inside", cu.GraphDestroy(inside), CUDA_ERROR_INVALID_VALUE);
    expect("destroy_child", cu.GraphDestroy(child), CUDA_SUCCESS);
    (void)node_copy(graph, at + 192, at, 1, &node, 1);
    graph_run(graph, stream_new(CU_STREAM_NON_BLOCKING));
    expect_number("in_child", byte_at(at), 3);
    expect_number("added_to_original", byte_at(at + 64), 0);
    expect_number("added_inside", byte_at(at + 128), 5);
    expect_number("after_child", byte_at(at + 192), 3);
    expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
}

static void graph_clones(void)
{
    CUgraph graph = graph_new();
    CUgraph clone = NULL;
    CUgraphNode found = NULL;
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    size_t count = 0;
    CUgraphNode a = node_set(graph, at, 1, 16, NULL, 0);
    CUgraphNode b = node_set(graph, at, 2, 16, &a, 1);
    expect("clone", cu.GraphClone(&clone, graph), CUDA_SUCCESS);
    expect("clone_null", cu.GraphClone(NULL, graph), CUDA_ERROR_INVALID_VALUE);
    expect("edges", cu.GraphGetEdges(clone, NULL, NULL, &count), CUDA_SUCCESS);
    expect_number("edge_count", count, 1);
    expect("find", cu.GraphNodeFindInClone(&found, b, clone), CUDA_SUCCESS);
    expect_yes("another", found != NULL && found != b, true);
    CUgraphNode late = node_empty(graph, NULL, 0);
    expect("find_late", cu.GraphNodeFindInClone(&found, late, clone), CUDA_ERROR_INVALID_VALUE);
    expect("find_in_itself", cu.GraphNodeFindInClone(&found, a, graph), CUDA_ERROR_INVALID_VALUE);
    expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
    graph_run(clone, stream_new(CU_STREAM_NON_BLOCKING));
    expect_number("byte", byte_at(at), 2);
    expect("destroy_clone", cu.GraphDestroy(clone), CUDA_SUCCESS);
}

const struct scenario graph_scenarios[] = {
    {"graph_arguments", graph_arguments, false},
    {"graph_nodes", graph_nodes, false},
    {"graph_edges", graph_edges, false},
    {"graph_edges_partly_wrong", graph_edges_partly_wrong, false},
    {"graph_node_types", graph_node_types, false},
    {"graph_kernel_nodes", graph_kernel_nodes, false},
    {"graph_kernel_nodes_wrong", graph_kernel_nodes_wrong, false},
    {"graph_memcpy_nodes", graph_memcpy_nodes, false},
    {"graph_memset_nodes", graph_memset_nodes, false},
    {"graph_children", graph_children, false},
    {"graph_clones", graph_clones, false},
    {NULL, NULL, false},
};
