/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of the simulated device, injected failures and call counters. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_bad_values(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "DEVICES=-1",
        "DEVICES=33",
        "DEVICES=two",
        "MEMORY=12x",
        "MEMORY=0",
        "MEMORY=99999999999G",
        "GRANULARITY=3M",
        "GRANULARITY=1K",
        "RESERVE=1",
        "SEED=x",
        "SEED=-1",
        "SCHEDULE=fast",
        "QUERIES=0",
        "THREADS=0",
        "DEADLOCK_MS=0",
        "LAG_US=-1",
        "IDLE_MS=60001",
        "FAIL=cuMemCreate",
        "FAIL=cuMemCreate:0",
        "FAIL=cuNothing:1",
        "FAIL=cuMemCreate:1:x",
        "FAIL=cuMemMap:1:0",
        "STRICT=maybe",
        "VMM=2",
        "PEERS=2",
        "PINNED_ALIGN=3K",
        "RDMA=x",
        "RACES=2",
        "VERSION=99",
        "MISSING=cuNothing",
        "MISSING=cuInit,x",
        "FAIL=cuInit:1-",
        "MEMORY=1GG",
        "VERSION=13000junk",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int count = 0;
        fixture_settings(bad[i], NULL);
        assert_result(cuInit(0), CUDA_ERROR_INVALID_VALUE);
        assert_result(cuDeviceGetCount(&count), CUDA_ERROR_INVALID_VALUE);
    }
}

static void test_good_values(void **state)
{
    (void)state;
    size_t bytes = 0;
    int count = 0;
    CUmemAllocationProp property = device_property(0);
    fixture_start("DEVICES=3", "MEMORY=48M", "GRANULARITY=64K", "RESERVE=64G", NULL);
    assert_ok(cuDeviceGetCount(&count));
    assert_int_equal(count, 3);
    assert_ok(cuDeviceTotalMem(&bytes, 2));
    assert_int_equal(bytes, 48 * MIB);
    assert_ok(cuMemGetAllocationGranularity(&bytes, &property, 0));
    assert_int_equal(bytes, 65536);
    CUdeviceptr at = chunk_mapped(3 * 65536, NULL);
    assert_ok(cuMemsetD8(at, 1, 3 * 65536));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_violations(), 0);
    fixture_start("MEMORY=2T", NULL);
    assert_ok(cuDeviceTotalMem(&bytes, 0));
    assert_true(bytes == (size_t)2 << 40);
}

static void test_fail_once(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp property = device_property(0);
    fixture_start("FAIL=cuMemCreate:3", NULL);
    assert_ok(cuMemCreate(&handle, CHUNK, &property, 0));
    assert_ok(cuMemCreate(&handle, CHUNK, &property, 0));
    handle = 0;
    assert_result(cuMemCreate(&handle, CHUNK, &property, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(handle, 0);
    assert_int_equal(simcuda_fail_hits(), 1);
    assert_ok(cuMemCreate(&handle, CHUNK, &property, 0));
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 3);
}

static void test_fail_for_good(void **state)
{
    (void)state;
    CUstream stream = NULL;
    fixture_start("FAIL=cuStreamCreate:2+:2,cuEventCreate:1:999", NULL);
    CUevent event = NULL;
    assert_ok(cuStreamCreate(&stream, 0));
    for (int i = 0; i < 3; i++)
        assert_result(cuStreamCreate(&stream, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_result(cuEventCreate(&event, 0), CUDA_ERROR_UNKNOWN);
    assert_ok(cuEventCreate(&event, 0));
    assert_int_equal(simcuda_fail_hits(), 4);
    simcuda_fail_clear();
    assert_ok(cuStreamCreate(&stream, 0));
}

/* By symbol, by plain name, and any call at all. */
static void test_fail_by_hand(void **state)
{
    (void)state;
    size_t room = 0;
    size_t total = 0;
    const char *text = NULL;
    fixture_start(NULL, NULL);
    simcuda_fail("cuMemGetInfo_v2", 1, 0, CUDA_ERROR_UNKNOWN);
    assert_result(cuMemGetInfo(&room, &total), CUDA_ERROR_UNKNOWN);
    assert_ok(cuMemGetInfo(&room, &total));
    simcuda_fail("*", 2, 1, CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuMemGetInfo(&room, &total));
    assert_result(cuMemGetInfo(&room, &total), CUDA_ERROR_NOT_SUPPORTED);
    assert_result(cuCtxSynchronize(), CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuGetErrorName(CUDA_SUCCESS, &text));
    simcuda_fail_clear();
    assert_ok(cuCtxSynchronize());
}

static void test_counters(void **state)
{
    (void)state;
    size_t room = 0;
    size_t total = 0;
    fixture_start(NULL, NULL);
    simcuda_calls_reset();
    assert_int_equal(simcuda_calls_total(), 0);
    assert_ok(cuMemGetInfo(&room, &total));
    assert_result(cuMemGetInfo(NULL, &total), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_calls("cuMemGetInfo"), 2);
    assert_int_equal(simcuda_calls("cuMemGetInfo_v2"), 2);
    assert_int_equal(simcuda_calls("cuCtxSynchronize"), 1);
    assert_int_equal(simcuda_calls("cuNothing"), 0);
    assert_int_equal(simcuda_calls(NULL), 0);
    assert_int_equal(simcuda_calls_total(), 3);
}

static void violate(void *data)
{
    CUmemGenericAllocationHandle *handle = data;
    (void)simcuda_reset();
    fixture_start("STRICT=abort", NULL);
    *handle = chunk_create(CHUNK);
    (void)cuMemRelease(*handle);
    (void)cuMemRelease(*handle);
}

static void test_strict(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = 0;
    fixture_start(NULL, NULL);
    assert_false(survives(violate, &handle));
    handle = chunk_create(CHUNK);
    assert_ok(cuMemRelease(handle));
    assert_result(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_violations(), 1);
    simcuda_violations_clear();
    assert_int_equal(simcuda_violations(), 0);
    assert_string_equal(simcuda_violation_last(), "");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_bad_values),    CASE(test_good_values),  CASE(test_fail_once),
        CASE(test_fail_for_good), CASE(test_fail_by_hand), CASE(test_counters),
        CASE(test_strict),
    };
    return cmocka_run_group_tests_name("simcuda_settings", tests, NULL, NULL);
}
