/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an executable graph may be updated with: the limits that the driver's documentation names,
 * for whole graphs and for single nodes, and that what is refused changes nothing. Where the driver
 * says only that a change may fail, the simulation refuses it.
 */
#include "graphs.h"

#include <string.h>

enum { BYTES = 64 };

typedef struct lab {
    CUdeviceptr mapped, other, far, block; /* mapped by hand, on the other device, cuMemAlloc's */
    unsigned char *pinned;
} lab;

static CUdeviceptr chunk_on_second_device(void)
{
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationProp property = device_property(1);
    CUdeviceptr at = reserve(CHUNK);
    assert_ok(cuMemCreate(&handle, CHUNK, &property, 0));
    assert_ok(cuMemMap(at, CHUNK, 0, handle, 0));
    assert_ok(cuMemRelease(handle));
    chunk_access(at, CHUNK);
    return at;
}

static lab lab_new(void)
{
    lab here = {.block = 0};
    void *pinned = NULL;
    fixture_start("RESERVE=64G", "DEVICES=2", NULL);
    here.mapped = chunk_mapped(CHUNK, NULL);
    here.other = chunk_mapped(CHUNK, NULL);
    here.far = chunk_on_second_device();
    assert_ok(cuMemAlloc(&here.block, CHUNK));
    assert_ok(cuMemHostAlloc(&pinned, CHUNK, 0));
    here.pinned = pinned;
    return here;
}

static void lab_end(const lab *here)
{
    assert_ok(cuMemFree(here->block));
    assert_ok(cuMemFreeHost(here->pinned));
    chunk_unmapped(here->far, CHUNK);
    chunk_unmapped(here->other, CHUNK);
    chunk_unmapped(here->mapped, CHUNK);
}

/* ---- sets ----------------------------------------------------------------------------------- */

static CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr at, unsigned element, size_t width, size_t rows)
{
    return (CUDA_MEMSET_NODE_PARAMS){at, width * element, 7, element, width, rows};
}

/* Both ways to change a node; both must answer alike. */
static void check_set(const CUDA_MEMSET_NODE_PARAMS *from, const CUDA_MEMSET_NODE_PARAMS *to,
                      int allowed)
{
    CUgraph graph = graph_new(), other = graph_new();
    CUgraphNode node = NULL, ignored = NULL;
    CUgraphExecUpdateResultInfo info;
    assert_ok(cuGraphAddMemsetNode(&node, graph, NULL, 0, from, fixture_context()));
    assert_ok(cuGraphAddMemsetNode(&ignored, other, NULL, 0, to, fixture_context()));
    CUgraphExec exec = exec_new(graph);
    assert_result(cuGraphExecUpdate(exec, other, &info),
                  allowed ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, allowed ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                          : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    assert_true(allowed || info.errorNode == ignored);
    assert_ok(cuGraphExecDestroy(exec));
    exec = exec_new(graph);
    assert_result(cuGraphExecMemsetNodeSetParams(exec, node, to, fixture_context()),
                  allowed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(other));
}

static void test_sets(void **state)
{
    (void)state;
    const lab here = lab_new();
    const CUDA_MEMSET_NODE_PARAMS plain = set_of(here.mapped, 1, BYTES, 1);
    const CUDA_MEMSET_NODE_PARAMS rows = set_of(here.mapped, 1, BYTES, 2);
    const struct {
        CUDA_MEMSET_NODE_PARAMS from, to;
        int allowed;
    } changes[] = {
        {plain, set_of(here.mapped + 256, 1, BYTES, 1), 1},
        {plain, set_of(here.other, 1, BYTES, 1), 1},
        {plain, set_of(here.block, 1, BYTES, 1), 0},
        {plain, set_of((CUdeviceptr)(uintptr_t)here.pinned, 1, BYTES, 1), 0},
        {plain, set_of(here.far, 1, BYTES, 1), 0},
        {plain, set_of(here.mapped, 1, BYTES / 2, 1), 0},
        {plain, set_of(here.mapped, 4, BYTES / 4, 1), 0},
        {plain, set_of(here.mapped, 1, BYTES / 2, 2), 0},
        {rows, set_of(here.mapped + 256, 1, BYTES, 2), 1},
        {rows, set_of(here.mapped, 1, BYTES / 2, 4), 0},
        {rows, set_of(here.mapped, 1, BYTES * 2, 1), 0},
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        check_set(&changes[i].from, &changes[i].to, changes[i].allowed);
    lab_end(&here);
}

/* ---- copies --------------------------------------------------------------------------------- */

static CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUDA_MEMCPY3D copy;
    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = from;
    copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.dstDevice = to;
    copy.WidthInBytes = bytes;
    copy.Height = 1;
    copy.Depth = 1;
    return copy;
}

static void check_copy(const CUDA_MEMCPY3D *from, const CUDA_MEMCPY3D *to, int allowed)
{
    CUgraph graph = graph_new(), other = graph_new();
    CUgraphNode node = NULL, ignored = NULL;
    CUgraphExecUpdateResultInfo info;
    assert_ok(cuGraphAddMemcpyNode(&node, graph, NULL, 0, from, fixture_context()));
    assert_ok(cuGraphAddMemcpyNode(&ignored, other, NULL, 0, to, fixture_context()));
    CUgraphExec exec = exec_new(graph);
    assert_result(cuGraphExecUpdate(exec, other, &info),
                  allowed ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, allowed ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                          : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    assert_ok(cuGraphExecDestroy(exec));
    exec = exec_new(graph);
    assert_result(cuGraphExecMemcpyNodeSetParams(exec, node, to, fixture_context()),
                  allowed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(other));
}

static void test_copies(void **state)
{
    (void)state;
    static unsigned char pageable[BYTES];
    const lab here = lab_new();
    const CUDA_MEMCPY3D plain = copy_of(here.mapped, here.mapped + BYTES, BYTES);
    const CUDA_MEMCPY3D out = copy_of((CUdeviceptr)(uintptr_t)pageable, here.mapped, BYTES);
    CUDA_MEMCPY3D typed_to = plain, typed_from = plain;
    typed_to.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    typed_from.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    const struct {
        CUDA_MEMCPY3D from, to;
        int allowed;
    } changes[] = {
        {plain, copy_of(here.other, here.mapped, BYTES), 1},
        {plain, copy_of(here.mapped, here.mapped + BYTES, BYTES / 2), 1},
        {plain, copy_of(here.block, here.mapped, BYTES), 0},
        {plain, copy_of(here.mapped, here.block, BYTES), 0},
        {plain, copy_of(here.mapped, here.far, BYTES), 0},
        {plain, copy_of((CUdeviceptr)(uintptr_t)here.pinned, here.mapped, BYTES), 0},
        {plain, out, 0},
        {out, copy_of((CUdeviceptr)(uintptr_t)here.pinned, here.mapped, BYTES), 0},
        {plain, typed_to, 0},
        {plain, typed_from, 0},
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        check_copy(&changes[i].from, &changes[i].to, changes[i].allowed);
    lab_end(&here);
}

/* ---- before and after ----------------------------------------------------------------------- */

/* What memory was is what counts, not what is at its address now; and a refusal changes nothing. */
static void test_memory_that_is_gone(void **state)
{
    (void)state;
    const lab here = lab_new();
    CUdeviceptr first = 0, second = 0;
    unsigned char byte = 0;
    CUgraphExecUpdateResultInfo info;
    assert_ok(cuMemAlloc(&first, CHUNK));
    CUgraph graph = graph_new(), same = graph_new(), refused = graph_new();
    (void)set_node(graph, first, 1, BYTES, NULL, NULL);
    CUgraphExec exec = exec_new(graph);
    assert_ok(cuMemFree(first));
    assert_ok(cuMemAlloc(&second, 3 * CHUNK));
    (void)set_node(same, second, 2, BYTES, NULL, NULL);
    (void)set_node(refused, here.mapped, 3, BYTES, NULL, NULL);
    assert_ok(cuGraphExecUpdate(exec, same, &info));
    assert_result(cuGraphExecUpdate(exec, refused, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuMemcpyDtoH(&byte, second, 1));
    assert_int_equal(byte, 2);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(same));
    assert_ok(cuGraphDestroy(refused));
    assert_ok(cuMemFree(second));
    lab_end(&here);
}

/* Of one device, and of one kind, but another context's. */
static void test_memory_of_another_context(void **state)
{
    (void)state;
    const lab here = lab_new();
    CUcontext other = NULL;
    CUdeviceptr block = 0;
    assert_ok(cuCtxCreate(&other, NULL, 0, 0));
    assert_ok(cuMemAlloc(&block, CHUNK));
    assert_ok(cuCtxSetCurrent(fixture_context()));
    const CUDA_MEMSET_NODE_PARAMS from = set_of(here.block, 1, BYTES, 1);
    const CUDA_MEMSET_NODE_PARAMS to = set_of(block, 1, BYTES, 1);
    check_set(&from, &to, 0);
    assert_ok(cuMemFree(block));
    assert_ok(cuCtxDestroy(other));
    lab_end(&here);
}

/* A graph's own node may be given any memory; what it has when it is instantiated counts. */
static void test_changed_before(void **state)
{
    (void)state;
    const lab here = lab_new();
    CUgraph graph = graph_new(), same = graph_new();
    CUgraphExecUpdateResultInfo info;
    const CUDA_MEMSET_NODE_PARAMS to = set_of(here.block, 1, BYTES, 1);
    CUgraphNode node = set_node(graph, here.mapped, 1, BYTES, NULL, NULL);
    assert_ok(cuGraphMemsetNodeSetParams(node, &to));
    CUgraphExec exec = exec_new(graph);
    (void)set_node(same, here.block, 2, BYTES, NULL, NULL);
    assert_ok(cuGraphExecUpdate(exec, same, &info));
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(same));
    lab_end(&here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_sets, fixture_stop),
        cmocka_unit_test_teardown(test_copies, fixture_stop),
        cmocka_unit_test_teardown(test_memory_that_is_gone, fixture_stop),
        cmocka_unit_test_teardown(test_memory_of_another_context, fixture_stop),
        cmocka_unit_test_teardown(test_changed_before, fixture_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
