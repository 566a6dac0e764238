/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions as kernels: registration, both forms of launching, checked accesses. */
#include "fixture.h"

#include <string.h>

/* fill(address, count, value): an odd size in the middle shows the packed form's alignment. */
static const size_t fill_bytes[] = {8, 4, 8};

static void fill_run(void *const *params)
{
    CUdeviceptr at;
    uint32_t count;
    uint64_t value;
    memcpy(&at, params[0], sizeof(at));
    memcpy(&count, params[1], sizeof(count));
    memcpy(&value, params[2], sizeof(value));
    for (uint32_t i = 0; i < count; i++)
        ((uint64_t *)(uintptr_t)at)[i] = value;
}

static size_t fill_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    uint32_t count;
    memcpy(&count, params[1], sizeof(count));
    if (capacity >= 1) {
        memcpy(&out[0].address, params[0], sizeof(out[0].address));
        out[0].bytes = count * sizeof(uint64_t);
        out[0].is_write = 1;
    }
    return 1;
}

/* many(address): forty accesses, more than the simulation first makes room for. */
static const size_t many_bytes[] = {8};

static void many_run(void *const *params)
{
    (void)params;
}

static size_t many_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    CUdeviceptr at;
    memcpy(&at, params[0], sizeof(at));
    for (size_t i = 0; i < capacity && i < 40; i++)
        out[i] = (simcuda_access){at + i * CHUNK / 40, 8, i % 2 == 0};
    return 40;
}

static int start(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "SCHEDULE=lazy", NULL);
    assert_int_equal(simcuda_kernel_register("fill", 3, fill_bytes, fill_run, fill_accesses), 0);
    assert_int_equal(simcuda_kernel_register("many", 1, many_bytes, many_run, many_accesses), 0);
    return 0;
}

static CUfunction function(const char *name)
{
    CUmodule module = NULL;
    CUfunction found = NULL;
    assert_ok(cuModuleLoadData(&module, "any image"));
    assert_ok(cuModuleGetFunction(&found, module, name));
    return found;
}

static void test_register_refuses(void **state)
{
    (void)state;
    static const size_t empty[] = {0};
    assert_int_equal(simcuda_kernel_register(NULL, 0, NULL, many_run, NULL), -1);
    assert_int_equal(simcuda_kernel_register("x", 0, NULL, NULL, NULL), -1);
    assert_int_equal(simcuda_kernel_register("x", 1, NULL, many_run, NULL), -1);
    assert_int_equal(simcuda_kernel_register("x", 1, empty, many_run, NULL), -1);
}

static void test_module(void **state)
{
    (void)state;
    CUmodule module = NULL;
    CUfunction first = NULL;
    CUfunction second = NULL;
    const char *name = NULL;
    size_t offset = 99;
    size_t bytes = 99;
    assert_result(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuModuleLoadData(&module, "any image"));
    assert_result(cuModuleGetFunction(&first, module, "nothing"), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuModuleGetFunction(&first, module, "fill"));
    assert_ok(cuModuleGetFunction(&second, module, "fill"));
    assert_ptr_equal(first, second);
    assert_ok(cuFuncGetName(&name, first));
    assert_string_equal(name, "fill");
    assert_ok(cuFuncGetParamInfo(first, 0, &offset, &bytes));
    assert_int_equal(offset, 0);
    assert_int_equal(bytes, 8);
    assert_ok(cuFuncGetParamInfo(first, 2, &offset, &bytes));
    assert_int_equal(offset, 16);
    assert_ok(cuFuncGetParamInfo(first, 1, &offset, NULL));
    assert_int_equal(offset, 8);
    assert_result(cuFuncGetParamInfo(first, 3, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuModuleUnload(module));
    assert_result(cuFuncGetName(&name, first), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(simcuda_violations(), 1);
}

/* Parameters are taken at the launch. */
static void test_launch_pointers(void **state)
{
    (void)state;
    CUfunction fill = function("fill");
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    uint32_t count = 10;
    uint64_t value = 42;
    uint64_t seen[11];
    void *params[] = {&at, &count, &value};
    assert_ok(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    value = 1;
    count = 11;
    assert_ok(cuMemcpyDtoH(seen, at, sizeof(seen)));
    assert_int_equal(seen[0], 42);
    assert_int_equal(seen[9], 42);
    assert_int_equal(seen[10], 0);
}

static void test_launch_packed(void **state)
{
    (void)state;
    CUfunction fill = function("fill");
    struct {
        CUdeviceptr at;
        uint32_t count;
        uint64_t value;
    } packed = {chunk_mapped(CHUNK, NULL), 5, 77};
    size_t bytes = sizeof(packed);
    uint64_t seen = 0;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    assert_ok(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    assert_ok(cuMemcpyDtoH(&seen, packed.at + 32, sizeof(seen)));
    assert_int_equal(seen, 77);
    bytes = 12; /* too short for the parameters */
    assert_result(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
                  CUDA_ERROR_INVALID_VALUE);
}

static void test_launch_refuses(void **state)
{
    (void)state;
    CUfunction many = function("many");
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    void *params[] = {&at};
    void *extra[] = {CU_LAUNCH_PARAM_END};
    assert_result(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
                  CUDA_ERROR_INVALID_HANDLE);
    assert_result(cuLaunchKernel(many, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
                  CUDA_ERROR_INVALID_VALUE);
    assert_result(cuLaunchKernel(many, 1, 1, 1, 1024, 2, 1, 0, NULL, params, NULL),
                  CUDA_ERROR_INVALID_VALUE);
    assert_result(cuLaunchKernel(many, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
                  CUDA_ERROR_INVALID_VALUE);
    assert_result(cuLaunchKernel(many, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra),
                  CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuLaunchKernel(many, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_violations(), 0);
}

/* An access that nobody may make is caught before the kernel runs. */
static void test_bad_access(void **state)
{
    (void)state;
    CUfunction fill = function("fill");
    CUdeviceptr at = chunk_mapped(CHUNK, NULL) + CHUNK - 16;
    uint32_t count = 3;
    uint64_t value = 1;
    void *params[] = {&at, &count, &value};
    assert_ok(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    assert_result(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(simcuda_violations(), 1);
    assert_non_null(strstr(simcuda_violation_last(), "a kernel"));
}

/* All of a kernel's accesses count when its memory is unmapped too early. */
static void test_unmap_under_a_kernel(void **state)
{
    (void)state;
    CUfunction many = function("many");
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    void *params[] = {&at};
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    assert_ok(cuLaunchKernel(many, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    assert_ok(cuMemUnmap(at, CHUNK));
    assert_int_equal(simcuda_violations(), 1);
    assert_non_null(strstr(simcuda_violation_last(), "a kernel number 0"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_register_refuses),     CASE(test_module),         CASE(test_launch_pointers),
        CASE(test_launch_packed),        CASE(test_launch_refuses), CASE(test_bad_access),
        CASE(test_unmap_under_a_kernel),
    };
    return cmocka_run_group_tests_name("simcuda_kernel", tests, NULL, NULL);
}
