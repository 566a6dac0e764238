/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: what graphs are made of, and what the driver says of them. */
#include "graph.h"

#include <string.h>

/* ---- making graphs -------------------------------------------------------------------------- */

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
    expect_yes("third_untouched", got[2] == made[0], 1);
    count = 5;
    expect("more", cu.GraphGetNodes(graph, got, &count), CUDA_SUCCESS);
    expect_number("all", count, 3);
    expect_yes("rest_null", got[3] == NULL && got[4] == NULL, 1);
    expect_yes("in_order_added", got[0] == made[0] && got[1] == made[1] && got[2] == made[2], 1);
    count = 5;
    expect("roots", cu.GraphGetRootNodes(graph, got, &count), CUDA_SUCCESS);
    expect_number("root_count", count, 1);
    expect_yes("root", got[0] == made[0], 1);
    count = 5;
    expect("dependents", cu.GraphNodeGetDependentNodes(made[0], got, &count), CUDA_SUCCESS);
    expect_number("dependent_count", count, 2);
    expect_yes("dependents_in_order", got[0] == made[1] && got[1] == made[2], 1);
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
    expect("cycle", cu.GraphAddDependencies(graph, &b, &a, 1), CUDA_SUCCESS);
    expect("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    expect("uncycle", cu.GraphRemoveDependencies(graph, &b, &a, 1), CUDA_SUCCESS);
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
    expect_number("edge_count", count, 2); /* it is */
}

/* ---- what nodes say ------------------------------------------------------------------------- */

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
    expect_yes("record_same", got == event, 1);
    expect("record_not_wait", cu.GraphEventWaitNodeGetEvent(node, &got), CUDA_ERROR_INVALID_VALUE);
    expect("add_wait", cu.GraphAddEventWaitNode(&node, graph, NULL, 0, event), CUDA_SUCCESS);
    expect_number("wait", type_of(node), CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    expect("wait_event", cu.GraphEventWaitNodeGetEvent(node, &got), CUDA_SUCCESS);
    expect_yes("wait_same", got == event, 1);
    expect("add_child", cu.GraphAddChildGraphNode(&node, graph, NULL, 0, child), CUDA_SUCCESS);
    expect_number("child", type_of(node), CU_GRAPH_NODE_TYPE_GRAPH);
}

/* The packed form's description, whichever way round it is. */
static void packed_said(void *const *extra, unsigned long long value)
{
    const struct store_packed *packed = NULL;
    size_t bytes = 0;
    for (size_t i = 0; extra != NULL && extra[i] != CU_LAUNCH_PARAM_END; i += 2)
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            packed = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(const size_t *)extra[i + 1];
    expect_yes("size_comes_first", extra != NULL && extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE, 1);
    expect_number("packed_bytes", bytes, STORE_PACKED_BYTES);
    expect_number("packed_value", packed == NULL ? 0 : packed->value, value);
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
    expect_yes("pointers", got.kernelParams != NULL && got.extra == NULL, 1);
    expect_number("value", *(uint32_t *)got.kernelParams[1], 7);
    expect_yes("address", memcmp(got.kernelParams[0], &at, sizeof(at)) == 0, 1);
    expect_yes("function", got.func == ask.func, 1);
    expect_number("grid", got.gridDimX, 1);
    expect_yes("context_given", got.ctx != NULL, 1);
    expect_yes("kernel_given", got.kern != NULL, 0);
    ask.kernelParams = NULL;
    ask.extra = extra;
    expect("add_packed", cu.GraphAddKernelNode(&second, graph, &first, 1, &ask), CUDA_SUCCESS);
    packed.value = 1;
    expect("get_packed", cu.GraphKernelNodeGetParams(second, &got), CUDA_SUCCESS);
    expect_yes("extra", got.kernelParams == NULL && got.extra != NULL, 1);
    packed_said(got.extra, 9);
    packed.value = 5;
    expect("set", cu.GraphKernelNodeSetParams(first, &ask), CUDA_SUCCESS);
    expect("get_set", cu.GraphKernelNodeGetParams(first, &got), CUDA_SUCCESS);
    expect_yes("now_extra", got.kernelParams == NULL && got.extra != NULL, 1);
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
    expect("block", cu.GraphAddKernelNode(&node, graph, NULL, 0, &ask), CUDA_ERROR_INVALID_VALUE);
    ask.blockDimX = 1;
    CUfunction function = ask.func;
    ask.func = NULL;
    expect("no_function", cu.GraphAddKernelNode(&node, graph, NULL, 0, &ask),
           CUDA_ERROR_INVALID_HANDLE);
    expect("info_0", cu.FuncGetParamInfo(function, 0, &offset, &size), CUDA_SUCCESS);
    expect_number("size_0", size, 8);
    expect("info_1", cu.FuncGetParamInfo(function, 1, &offset, &size), CUDA_SUCCESS);
    expect_number("offset_1", offset, 8);
    expect_number("size_1", size, 4);
    expect("info_2", cu.FuncGetParamInfo(function, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

static void memcpy_said(CUgraphNode node, CUmemorytype from, CUmemorytype to, size_t bytes)
{
    CUDA_MEMCPY3D copy;
    memset(&copy, 0xff, sizeof(copy));
    expect("get", cu.GraphMemcpyNodeGetParams(node, &copy), CUDA_SUCCESS);
    expect_number("from_type", copy.srcMemoryType, from);
    expect_number("to_type", copy.dstMemoryType, to);
    expect_number("width", copy.WidthInBytes, bytes);
    expect_number("height", copy.Height, 1);
    expect_number("depth", copy.Depth, 1);
    expect_number("from_pitch", copy.srcPitch, 0);
    expect_number("from_height", copy.srcHeight, 0);
    expect_yes("from_host", copy.srcHost != NULL, from == CU_MEMORYTYPE_HOST);
    expect_yes("from_device", copy.srcDevice != 0, from != CU_MEMORYTYPE_HOST);
    expect_yes("to_host", copy.dstHost != NULL, to == CU_MEMORYTYPE_HOST);
    expect_yes("to_device", copy.dstDevice != 0, to != CU_MEMORYTYPE_HOST);
}

static void graph_memcpy_nodes(void)
{
    CUgraph graph = graph_new();
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    static unsigned char pageable[64];
    CUDA_MEMCPY3D ask = copy_params(at, at + 64, 16);
    CUgraphNode node = NULL;
    CUcontext context = NULL;
    need("context", cu.CtxGetCurrent(&context));
    expect("add", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context), CUDA_SUCCESS);
    memcpy_said(node, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE, 16);
    ask.srcMemoryType = CU_MEMORYTYPE_HOST;
    ask.srcHost = pageable;
    ask.srcDevice = 0;
    expect("add_pageable", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context),
           CUDA_SUCCESS);
    memcpy_said(node, CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, 16);
    ask = copy_params(at, at + 64, 16);
    ask.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    ask.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    expect("add_unified", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context),
           CUDA_SUCCESS);
    memcpy_said(node, CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED, 16);
    ask = copy_params(at, at + 64, 0);
    expect("no_bytes", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context),
           CUDA_ERROR_INVALID_VALUE);
    ask = copy_params(at, at + 64, 16);
    expect("null_context", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, NULL), CUDA_SUCCESS);
    ask.dstDevice = 4096;
    expect("not_memory", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context),
           CUDA_ERROR_INVALID_VALUE);
    ask.dstDevice = 0;
    expect("null_address", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context),
           CUDA_ERROR_INVALID_VALUE);
}

/* What copies and sets say that were captured from streams. */
static void graph_captured_nodes(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    static unsigned char pageable[64];
    void *pinned = NULL;
    CUgraph graph = NULL;
    CUgraphNode nodes[8];
    size_t count = 8;
    need("pinned", cu.MemHostAlloc(&pinned, 64, 0));
    need("begin", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    expect("device", cu.MemcpyDtoDAsync(at, at + 64, 16, stream), CUDA_SUCCESS);
    expect("up", cu.MemcpyHtoDAsync(at, pinned, 16, stream), CUDA_SUCCESS);
    expect("up_pageable", cu.MemcpyHtoDAsync(at, pageable, 16, stream), CUDA_SUCCESS);
    expect("down", cu.MemcpyDtoHAsync(pinned, at, 16, stream), CUDA_SUCCESS);
    expect("any", cu.MemcpyAsync(at, at + 64, 16, stream), CUDA_SUCCESS);
    expect("any_up", cu.MemcpyAsync(at, (uintptr_t)pinned, 16, stream), CUDA_SUCCESS);
    expect("set", cu.MemsetD32Async(at, 7, 3, stream), CUDA_SUCCESS);
    need("end", cu.StreamEndCapture(stream, &graph));
    need("nodes", cu.GraphGetNodes(graph, nodes, &count));
    expect_number("count", count, 7);
    for (size_t i = 0; i < 6; i++) {
        CUDA_MEMCPY3D copy;
        memset(&copy, 0, sizeof(copy));
        need("get", cu.GraphMemcpyNodeGetParams(nodes[i], &copy));
        observe_number("from", copy.srcMemoryType);
        observe_number("to", copy.dstMemoryType);
        observe_number("width", copy.WidthInBytes);
        observe_number("height", copy.Height);
        observe_number("pitch", copy.srcPitch);
        observe_yes("from_host", copy.srcHost != NULL);
        observe_yes("from_device", copy.srcDevice != 0);
        observe_yes("to_host", copy.dstHost != NULL);
    }
    CUDA_MEMSET_NODE_PARAMS set;
    memset(&set, 0, sizeof(set));
    need("get set", cu.GraphMemsetNodeGetParams(nodes[6], &set));
    observe_number("element", set.elementSize);
    observe_number("set_width", set.width);
    observe_number("set_height", set.height);
    observe_number("set_pitch", set.pitch);
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
    memset(&got, 0, sizeof(got));
    expect("get", cu.GraphMemsetNodeGetParams(node, &got), CUDA_SUCCESS);
    expect_yes("address", got.dst == at, 1);
    expect_number("value", got.value, 0x01020304);
    expect_number("element", got.elementSize, 4);
    expect_number("width", got.width, 3);
    expect_number("height", got.height, 1);
    expect_number("pitch", got.pitch, 0);
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
    expect("no_width", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context),
           CUDA_ERROR_INVALID_VALUE);
    ask.width = 3;
    ask.height = 0;
    expect("no_height", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context),
           CUDA_ERROR_INVALID_VALUE);
    ask.height = 1;
    ask.dst = 4096;
    expect("not_memory", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context),
           CUDA_ERROR_INVALID_VALUE);
    ask.dst = at;
    ask.elementSize = 1;
    ask.value = 0x1ff;
    expect("value_too_large", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context),
           CUDA_SUCCESS);
    ask.value = 5;
    ask.pitch = 256;
    ask.width = 4;
    ask.height = 2;
    observe("rows", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context));
}

/* ---- children and clones -------------------------------------------------------------------- */

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
    expect_yes("a_copy", inside != child, 1);
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
    expect_yes("another", found != NULL && found != b, 1);
    CUgraphNode late = node_empty(graph, NULL, 0);
    expect("find_late", cu.GraphNodeFindInClone(&found, late, clone), CUDA_ERROR_INVALID_VALUE);
    expect("find_in_itself", cu.GraphNodeFindInClone(&found, a, graph), CUDA_ERROR_INVALID_VALUE);
    expect("destroy", cu.GraphDestroy(graph), CUDA_SUCCESS);
    graph_run(clone, stream_new(CU_STREAM_NON_BLOCKING));
    expect_number("byte", byte_at(at), 2);
    expect("destroy_clone", cu.GraphDestroy(clone), CUDA_SUCCESS);
}

const struct scenario graph_scenarios[] = {
    {"graph_arguments", graph_arguments, 0},
    {"graph_nodes", graph_nodes, 0},
    {"graph_edges", graph_edges, 0},
    {"graph_edges_partly_wrong", graph_edges_partly_wrong, 0},
    {"graph_node_types", graph_node_types, 0},
    {"graph_kernel_nodes", graph_kernel_nodes, 0},
    {"graph_kernel_nodes_wrong", graph_kernel_nodes_wrong, 0},
    {"graph_memcpy_nodes", graph_memcpy_nodes, 0},
    {"graph_captured_nodes", graph_captured_nodes, 0},
    {"graph_memset_nodes", graph_memset_nodes, 0},
    {"graph_children", graph_children, 0},
    {"graph_clones", graph_clones, 0},
    {NULL, NULL, 0},
};
