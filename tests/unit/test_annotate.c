/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tool that listens to NVTX is told: a library of the tests' own, which is built with NVTX's
 * headers. Its path is the first argument; the second says what it wants: all, names, allocations,
 * none.
 *
 * Broken to see it fail (a_tool_that_knows_allocations): nvtx.c, tnri_nvtx_heap: the gate left open
 * after a refusal; segment.c, tnri_heap_of: the device's range for every pool; is_told: without
 * is_graph (graph_pools_have_no_heap); segment.c: no tnri_nvtx_heap_end.
 */
#include "unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include <tenure/capture.h>
#include <tenure/lifetime.h>

#include "base/gate.h"

static const char *(*tool_text)(void);
static void (*tool_clear)(void);

static void start(void)
{
    unit_start(NULL, NULL);
    tool_clear();
}

/* The text has these words; `ptr` and `bytes` are what the format says. */
#define assert_told(...)                                                                           \
    do {                                                                                           \
        char line_[256];                                                                           \
        snprintf(line_, sizeof(line_), __VA_ARGS__);                                               \
        if (strstr(tool_text(), line_) == NULL)                                                    \
            fail_msg("\"%s\" was not told; but:\n%s", line_, tool_text());                         \
    } while (0)

static void assert_nothing_told(void)
{
    assert_string_equal(tool_text(), "");
}

static void a_heap_for_each_device(void **state)
{
    (void)state;
    unit_settings(NULL, "DEVICES=2", NULL);
    tool_clear();
    void *ptr;
    assert_ok(tnr_malloc(&ptr, 5000, 1, NULL));
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_device_get(&info, 1));
    assert_told("heap 1 1 Tenure %p %zu\n", (void *)info.address_base, info.address_bytes);
    assert_told("region %p 5000 in %p\n", ptr, (void *)info.address_base);
    assert_null(strstr(tool_text(), "wrong"));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_shutdown(0));
    assert_told("no heap %p\n", (void *)info.address_base);
}

static void *heap_of_device(void)
{
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_device_get(&info, 0));
    return (void *)info.address_base;
}

static void blocks_come_and_go(void **state)
{
    (void)state;
    start();
    void *ptr, *aligned, *shared, *own;
    tnr_pool pool;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = "weights of the \303\274 model, which has a name that is longer than tools take";
    assert_ok(tnr_malloc(&ptr, 777, 0, NULL));
    assert_told("region %p 777 in %p\nname %p default\n", ptr, heap_of_device(), ptr);
    assert_ok(tnr_malloc_aligned(&aligned, 3000, 1 << 16, 0, NULL));
    assert_told("region %p 3000 in", aligned);
    assert_ok(tnr_malloc(&shared, 4000, 0, NULL));
    assert_ok(tnr_pool_create(&pool, 0, &options));
    assert_ok(tnr_pool_malloc(&own, pool, 9000, 0, NULL));
    assert_told("region %p 9000 in %p\nname %p weights of the ?? model, which has a name that is\n",
                own, heap_of_device(), own);
    tool_clear();
    assert_ok(tnr_free(ptr));
    assert_told("no region %p\n", ptr);
    assert_ok(tnr_free(aligned));
    assert_ok(tnr_free_sync(shared));
    assert_told("no region %p\n", shared);
    assert_ok(tnr_free(own));
    assert_told("no region %p\n", own);
    assert_ok(tnr_pool_destroy(pool));
    assert_null(strstr(tool_text(), "wrong"));
}

static void a_refused_free_is_none(void **state)
{
    (void)state;
    start();
    char *ptr = unit_malloc(5000, NULL);
    int on_host;
    tool_clear();
    assert_error(tnr_free(ptr + 512), TNR_ERR_INTERIOR_POINTER, NULL);
    assert_error(tnr_free(&on_host), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_ok(tnr_free(NULL));
    assert_nothing_told();
    assert_ok(tnr_free(ptr));
    tool_clear();
    assert_error(tnr_free(ptr), TNR_ERR_NOT_LIVE, NULL);
    assert_nothing_told();
}

static void a_refused_allocation_is_none(void **state)
{
    (void)state;
    start();
    void *ptr;
    assert_error(tnr_malloc(&ptr, SIZE_MAX, 0, NULL), TNR_ERR_INVALID_SIZE, NULL);
    assert_ok(tnr_malloc(&ptr, 0, 0, NULL));
    assert_null(strstr(tool_text(), "region"));
}

static void growable_blocks_grow(void **state)
{
    (void)state;
    start();
    void *ptr;
    assert_ok(tnr_reserve(&ptr, 64 * MIB, 0, NULL));
    assert_null(strstr(tool_text(), "region"));
    assert_ok(tnr_commit(ptr, 3 * MIB));
    assert_told("region %p %zu in", ptr, 3 * MIB);
    assert_ok(tnr_commit(ptr, 9 * MIB));
    assert_told("resized %p %zu\n", ptr, 9 * MIB);
    assert_ok(tnr_free(ptr));
    assert_told("no region %p\n", ptr);
}

static void streams_have_names(void **state)
{
    (void)state;
    start();
    tnr_stream side = unit_stream(0);
    assert_ok(tnr_free(unit_malloc(512, side)));
    void *ptr = unit_malloc(5000, NULL);
    assert_ok(tnr_free_sync(ptr));
    assert_ok(tnr_trim(NULL, 0, 0)); /* makes the fence, on the proxy */
    assert_told("stream Tenure: frees for all streams\n");
}

/* A profiler wants names of streams, and no blocks. */
static void nothing_is_paid_for_names(void **state)
{
    (void)state;
    start();
    void *ptr = unit_malloc(5000, NULL);
    assert_int_equal(tnri_gate() & TNRI_GATE_NVTX, 0);
    assert_ok(tnr_free_sync(ptr));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_null(strstr(tool_text(), "region"));
    assert_told("stream Tenure: frees");
}

static void nobody_listens(void **state)
{
    (void)state;
    start();
    assert_int_equal(tnri_gate(), 0);
    assert_ok(tnr_free(unit_malloc(5000, NULL)));
    assert_nothing_told();
}

/* ---- a tool that knows only allocations ------------------------------------------------------ */

static void a_tool_that_refuses_is_left_alone(void **state)
{
    (void)state;
    unit_start("memory:mapped", NULL);
    tool_clear();
    void *ptr = unit_malloc(5000, NULL);
    assert_ok(tnr_free(ptr));
    assert_null(strstr(tool_text(), "region"));
    assert_int_equal(tnri_gate() & TNRI_GATE_NVTX, 0);
}

/* The driver's allocation that the block lies in: Tenure's own, no foreign segment. */
static void *slab_of(const void *ptr)
{
    tnr_block_info info;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    assert_ok(tnr_block_get(&info, ptr));
    assert_null(info.segment);
    assert_int_equal(cuMemGetAddressRange(&base, &bytes, (CUdeviceptr)ptr), CUDA_SUCCESS);
    assert_in_range((uintptr_t)ptr, base, base + bytes - info.bytes);
    return (void *)(uintptr_t)base;
}

/* Each block lies in one allocation of the driver's, which is a heap. */
static void a_tool_that_knows_allocations(void **state)
{
    static const size_t sizes[] = {777, 100000, 3 * MIB, 30 * MIB, 200 * MIB};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    void *ptrs[COUNT], *ranged;
    (void)state;
    unit_start("memory:allocated", NULL);
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    for (int i = 0; i < COUNT; i++) {
        tool_clear();
        ptrs[i] = unit_malloc(sizes[i], NULL);
        assert_told("region %p %zu in %p\nname %p default\n", ptrs[i], sizes[i], slab_of(ptrs[i]),
                    ptrs[i]);
    }
    assert_error(tnr_reserve(&ranged, 64 * MIB, 0, NULL), TNR_ERR_FOREIGN_SEGMENT, "default");
    void *last = slab_of(ptrs[COUNT - 1]);
    for (int i = 0; i < COUNT; i++) {
        assert_ok(tnr_free(ptrs[i]));
        assert_told("no region %p\n", ptrs[i]);
    }
    assert_ok(tnr_validate(-1));
    tool_clear();
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_told("no heap %p\n", last);
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    assert_null(strstr(tool_text(), "wrong"));
}

/* What was freed there is used again, and graphs use it all the time: the whole of it is theirs. */
static void graph_pools_have_no_heap(void **state)
{
    (void)state;
    unit_start("memory:allocated", NULL);
    tnr_pool pool;
    assert_ok(tnr_graph_pool_create(&pool, 0, NULL));
    tnr_stream stream = unit_stream(0);
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = pool;
    tool_clear();
    void *ptr;
    CUgraph graph;
    assert_ok(tnr_capture_begin(0, stream, &options));
    assert_ok(tnr_malloc(&ptr, 3 * MIB, 0, stream));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_capture_end(&graph, NULL, 0, stream));
    assert_null(strstr(tool_text(), "region"));
    assert_null(strstr(tool_text(), "heap"));
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_ok(tnr_pool_destroy(pool));
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 1;
    const char *wants = argv[2];
    void *tool = dlopen(argv[1], RTLD_LAZY);
    if (tool == NULL) {
        puts("the tool was not built: there are no headers of NVTX beside CUDA's");
        return 77;
    }
    *(void **)&tool_text = dlsym(tool, "nvtx_tool_text");
    *(void **)&tool_clear = dlsym(tool, "nvtx_tool_clear");
    setenv("NVTX_INJECTION64_PATH", argv[1], 1);
    if (strcmp(wants, "all") != 0)
        setenv("NVTX_TOOL", wants, 1);
    const struct CMUnitTest all[] = {
        cmocka_unit_test_teardown(a_heap_for_each_device, unit_stop),
        cmocka_unit_test_teardown(blocks_come_and_go, unit_stop),
        cmocka_unit_test_teardown(a_refused_free_is_none, unit_stop),
        cmocka_unit_test_teardown(a_refused_allocation_is_none, unit_stop),
        cmocka_unit_test_teardown(growable_blocks_grow, unit_stop),
        cmocka_unit_test_teardown(streams_have_names, unit_stop),
    };
    const struct CMUnitTest names[] = {
        cmocka_unit_test_teardown(nothing_is_paid_for_names, unit_stop),
    };
    const struct CMUnitTest none[] = {
        cmocka_unit_test_teardown(nobody_listens, unit_stop),
    };
    const struct CMUnitTest allocations[] = {
        cmocka_unit_test_teardown(a_tool_that_refuses_is_left_alone, unit_stop),
        cmocka_unit_test_teardown(a_tool_that_knows_allocations, unit_stop),
        cmocka_unit_test_teardown(graph_pools_have_no_heap, unit_stop),
    };
    if (strcmp(wants, "allocations") == 0)
        return cmocka_run_group_tests(allocations, NULL, NULL);
    if (strcmp(wants, "names") == 0)
        return cmocka_run_group_tests(names, NULL, NULL);
    if (strcmp(wants, "none") == 0)
        return cmocka_run_group_tests(none, NULL, NULL);
    return cmocka_run_group_tests(all, NULL, NULL);
}
