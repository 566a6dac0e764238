/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios: what an executable graph may be updated with. Its documentation names limits, and says
 * of some changes that they may fail: those are observed. The simulated device refuses them.
 */
#include "capture.h"
#include "graph.h"

#include <string.h>

/* ---- one node, done over -------------------------------------------------------------------- */

static CUgraph graph_of_set(CUdeviceptr at, unsigned char value, size_t width, size_t rows)
{
    CUgraph graph = graph_new();
    CUgraphNode node = NULL;
    CUcontext context = NULL;
    const CUDA_MEMSET_NODE_PARAMS ask = {at, rows == 1 ? 0 : width, value, 1, width, rows};
    need("context", cu.CtxGetCurrent(&context));
    need("set", cu.GraphAddMemsetNode(&node, graph, NULL, 0, &ask, context));
    return graph;
}

static CUgraph graph_of_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUgraph graph = graph_new();
    (void)node_copy(graph, to, from, bytes, NULL, 0);
    return graph;
}

/* Where the host's memory is one side. */
static CUgraph graph_of_copy_out(void *to, CUdeviceptr from, size_t bytes)
{
    CUgraph graph = graph_new();
    CUgraphNode node = NULL;
    CUcontext context = NULL;
    CUDA_MEMCPY3D ask = copy_params(0, from, bytes);
    ask.dstMemoryType = CU_MEMORYTYPE_HOST;
    ask.dstDevice = 0;
    ask.dstHost = to;
    need("context", cu.CtxGetCurrent(&context));
    need("copy", cu.GraphAddMemcpyNode(&node, graph, NULL, 0, &ask, context));
    return graph;
}

static CUresult update(CUgraph from, CUgraph to, CUgraphExecUpdateResultInfo *info)
{
    CUgraphExec exec = exec_new(from);
    memset(info, 0, sizeof(*info));
    CUresult result = cu.GraphExecUpdate(exec, to, info);
    need("destroy exec", cu.GraphExecDestroy(exec));
    return result;
}

static void observe_update(const char *label, CUgraph from, CUgraph to)
{
    CUgraphExecUpdateResultInfo info;
    observe(label, update(from, to, &info));
    observe_number("why", info.result);
}

/* ---- scenarios ------------------------------------------------------------------------------ */

/* Other memory of the same kind, and lengths of copies: as programs that capture anew have it. */
static void update_of_memory(void)
{
    CUdeviceptr first = chunk_mapped(CHUNK, NULL);
    CUdeviceptr second = chunk_mapped(CHUNK, NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUgraph graph = graph_new();
    CUgraph other = graph_new();
    CUgraphExecUpdateResultInfo info;
    chunk_clear(first);
    chunk_clear(second);
    CUgraphNode set = node_set(graph, first, 1, 64, NULL, 0);
    (void)node_copy(graph, first + 64, first, 64, &set, 1);
    set = node_set(other, second, 2, 64, NULL, 0);
    (void)node_copy(other, first + 128, second, 64, &set, 1);
    CUgraphExec exec = exec_new(graph);
    expect("update", cu.GraphExecUpdate(exec, other, &info), CUDA_SUCCESS);
    expect_number("result", info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    need("launch", cu.GraphLaunch(exec, stream));
    need("sync", cu.StreamSynchronize(stream));
    expect_number("no_more_here", byte_at(first), 0);
    expect_number("here", byte_at(second), 2);
    expect_number("copied", byte_at(first + 128), 2);
    observe_update("shorter_copy", graph_of_copy(first, second, 64),
                   graph_of_copy(first, second, 32));
}

/* Memory of another kind. */
static void update_of_memory_kinds(void)
{
    CUdeviceptr mapped = chunk_mapped(CHUNK, NULL);
    CUdeviceptr block = 0;
    void *pinned = NULL;
    static unsigned char pageable[64];
    need("alloc", cu.MemAlloc(&block, CHUNK));
    need("pinned", cu.MemHostAlloc(&pinned, CHUNK, 0));
    observe_update("set", graph_of_set(mapped, 1, 64, 1), graph_of_set(block, 1, 64, 1));
    observe_update("copy_to", graph_of_copy(mapped, mapped + 64, 64),
                   graph_of_copy(block, mapped + 64, 64));
    observe_update("copy_from", graph_of_copy(mapped, mapped + 64, 64),
                   graph_of_copy(mapped, block, 64));
    observe_update("type", graph_of_copy(mapped, block, 64), graph_of_copy_out(pinned, block, 64));
    observe_update("pinned", graph_of_copy_out(pageable, block, 64),
                   graph_of_copy_out(pinned, block, 64));
}

/* Sets of another shape. */
static void update_of_set_shapes(void)
{
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    observe_update("shorter", graph_of_set(at, 1, 64, 1), graph_of_set(at, 1, 32, 1));
    observe_update("longer", graph_of_set(at, 1, 64, 1), graph_of_set(at, 1, 1 << 20, 1));
    observe_update("rows", graph_of_set(at, 1, 64, 1), graph_of_set(at, 1, 32, 2));
    observe_update("more_rows", graph_of_set(at, 1, 64, 2), graph_of_set(at, 1, 64, 4));
    observe_update("value_of_rows", graph_of_set(at, 1, 64, 2), graph_of_set(at + 64, 2, 64, 2));
}

const struct scenario graph_update_scenarios[] = {
    {"update_of_memory", update_of_memory, 0},
    {"update_of_memory_kinds", update_of_memory_kinds, 0},
    {"update_of_set_shapes", update_of_set_shapes, 0},
    {NULL, NULL, 0},
};

/* ---- memory of the graph's own -------------------------------------------------------------- */

static CUgraph graph_that_allocates(CUstream stream, CUdeviceptr out, unsigned char value)
{
    CUgraph graph = NULL;
    CUdeviceptr inside = 0;
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("alloc", cu.MemAllocAsync(&inside, 4096, stream));
    need("set", cu.MemsetD8Async(inside, value, 4096, stream));
    need("copy", cu.MemcpyDtoDAsync(out, inside, 4096, stream));
    need("free", cu.MemFreeAsync(inside, stream));
    need("end", cu.StreamEndCapture(stream, &graph));
    return graph;
}

/* An executable graph with nodes that allocate is not updated, even with the same again. */
static void update_of_memory_nodes(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr out = 0;
    CUgraphExecUpdateResultInfo info;
    need("out", cu.MemAlloc(&out, 4096));
    CUgraph graph = graph_that_allocates(stream, out, 1);
    CUgraph other = graph_that_allocates(stream, out, 2);
    CUgraphExec exec = exec_new(graph);
    need("destroy", cu.GraphDestroy(graph));
    memset(&info, 0, sizeof(info));
    expect("update", cu.GraphExecUpdate(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    observe_number("why", info.result);
    observe_number("node", info.errorNode == NULL ? 99 : (unsigned)type_of(info.errorNode));
    need("launch", cu.GraphLaunch(exec, stream));
    need("sync", cu.StreamSynchronize(stream));
    expect_number("as_before", byte_at(out), 1);
}

const struct scenario graph_update_device_scenarios[] = {
    {"update_of_memory_nodes", update_of_memory_nodes, 0},
    {NULL, NULL, 0},
};
