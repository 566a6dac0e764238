/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisation, look-up of entry points, devices and contexts of the simulated device. */
#include "fixture.h"

#include <string.h>
#include <unistd.h>

static int start(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "DEVICES=2", NULL);
    return 0;
}

static void test_before_init(void **state)
{
    (void)state;
    int number = 0;
    CUcontext context = NULL;
    fixture_settings(NULL);
    assert_result(cuDeviceGetCount(&number), CUDA_ERROR_NOT_INITIALIZED);
    assert_result(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    assert_ok(cuDriverGetVersion(&number));
    assert_int_equal(number, 13000);
    assert_result(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuInit(0));
    assert_ok(cuInit(0));
}

static void test_shutdown(void **state)
{
    (void)state;
    int number = 0;
    simcuda_shutdown();
    assert_result(cuDeviceGetCount(&number), CUDA_ERROR_DEINITIALIZED);
    assert_result(cuInit(0), CUDA_ERROR_DEINITIALIZED);
    (void)simcuda_reset();
    assert_ok(cuInit(0));
}

static void call_in_child(void *data)
{
    int number = 0;
    (void)data;
    if (cuDeviceGetCount(&number) != CUDA_ERROR_NOT_INITIALIZED ||
        cuInit(0) != CUDA_ERROR_NOT_INITIALIZED)
        _exit(1);
}

static void test_fork(void **state)
{
    (void)state;
    int number = 0;
    assert_true(survives(call_in_child, NULL));
    assert_ok(cuDeviceGetCount(&number));
    assert_int_equal(number, 2);
}

static void test_no_device(void **state)
{
    (void)state;
    fixture_settings("DEVICES=0", NULL);
    assert_result(cuInit(0), CUDA_ERROR_NO_DEVICE);
}

static void test_devices(void **state)
{
    (void)state;
    CUdevice device = -1;
    CUuuid first;
    CUuuid second;
    char name[64] = "";
    size_t bytes = 0;
    int value = 0;
    assert_ok(cuDeviceGet(&device, 1));
    assert_int_equal(device, 1);
    assert_result(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
    assert_result(cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuDeviceGetUuid(&first, 0));
    assert_ok(cuDeviceGetUuid(&second, 1));
    assert_memory_not_equal(&first, &second, sizeof(first));
    assert_ok(cuDeviceGetName(name, sizeof(name), 0));
    assert_non_null(strstr(name, "simulated"));
    assert_ok(cuDeviceTotalMem(&bytes, 0));
    assert_true(bytes == (size_t)139 << 30);
    assert_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_int_equal(value, 9);
    assert_result(cuDeviceGetAttribute(&value, 100000, 0), CUDA_ERROR_INVALID_VALUE);
}

static void test_proc_address(void **state)
{
    (void)state;
    void *plain = NULL;
    void *own = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    assert_ok(cuGetProcAddress("cuStreamQuery", &plain, 12000, 0, &status));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
    assert_ok(cuGetProcAddress("cuStreamQuery", &own, 12000,
                               CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
    assert_ptr_not_equal(plain, own);
    assert_ok(
        cuGetProcAddress("cuStreamQuery", &own, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status));
    assert_ptr_equal(plain, own);
    /* Functions without such a form are what they are. */
    assert_ok(cuGetProcAddress("cuMemMap", &plain, 12000, 0, NULL));
    assert_ok(cuGetProcAddress("cuMemMap", &own, 12000,
                               CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    assert_ptr_equal(plain, own);
    /* The newest form that the version allows. */
    assert_ok(cuGetProcAddress("cuCtxCreate", &plain, 12000, 0, NULL));
    assert_ok(cuGetProcAddress("cuCtxCreate", &own, 13000, 0, NULL));
    assert_ptr_not_equal(plain, own);
    assert_result(cuGetProcAddress("cuMemMap", &plain, 9000, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    assert_null(plain);
    assert_result(cuGetProcAddress("cuNothing", &plain, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_result(cuGetProcAddress(NULL, &plain, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuGetProcAddress("cuInit", &plain, 13000, 64, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void test_missing_and_old(void **state)
{
    (void)state;
    void *function = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    fixture_settings("MISSING=cuMemCreate,cuMemMap", NULL);
    assert_result(cuGetProcAddress("cuMemCreate", &function, 13000, 0, &status),
                  CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_result(cuGetProcAddress("cuMemMap", &function, 13000, 0, NULL), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuGetProcAddress("cuMemUnmap", &function, 13000, 0, NULL));
    int version = 0;
    fixture_settings("VERSION=11000", NULL);
    assert_ok(cuDriverGetVersion(&version));
    assert_int_equal(version, 11000);
    assert_ok(cuGetProcAddress("cuMemMap", &function, 13000, 0, NULL));
    assert_result(cuGetProcAddress("cuStreamGetId", &function, 13000, 0, NULL),
                  CUDA_ERROR_NOT_FOUND);
}

static void test_primary_context(void **state)
{
    (void)state;
    CUcontext context = NULL;
    CUcontext again = NULL;
    unsigned flags = 0;
    int active = -1;
    assert_ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 0);
    assert_result(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuDevicePrimaryCtxRetain(&context, 1));
    assert_ok(cuDevicePrimaryCtxRetain(&again, 1));
    assert_ptr_equal(context, again);
    assert_ok(cuDevicePrimaryCtxRelease(1));
    assert_ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 1);
    assert_ok(cuDevicePrimaryCtxRelease(1));
    assert_ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 0);
}

static void test_stack(void **state)
{
    (void)state;
    CUcontext other = NULL;
    CUcontext seen = NULL;
    CUdevice device = -1;
    unsigned long long first_id = 0;
    unsigned long long other_id = 0;
    assert_ok(cuDevicePrimaryCtxRetain(&other, 1));
    assert_ok(cuCtxPushCurrent(other));
    assert_ok(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    assert_ok(cuCtxGetId(other, &other_id));
    assert_ok(cuCtxPopCurrent(&seen));
    assert_ptr_equal(seen, other);
    assert_ok(cuCtxGetId(NULL, &first_id));
    assert_int_not_equal(first_id, other_id);
    assert_ok(cuCtxSetCurrent(NULL));
    assert_ok(cuCtxGetCurrent(&seen));
    assert_null(seen);
    assert_result(cuCtxPopCurrent(&seen), CUDA_ERROR_INVALID_CONTEXT);
    assert_result(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    assert_result(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    assert_result(cuCtxSetCurrent((CUcontext)(uintptr_t)0x7777), CUDA_ERROR_INVALID_CONTEXT);
}

static void test_created_context(void **state)
{
    (void)state;
    CUcontext made = NULL;
    CUcontext seen = NULL;
    assert_result(cuCtxCreate(&made, NULL, 0, 9), CUDA_ERROR_INVALID_DEVICE);
    assert_ok(cuCtxCreate(&made, NULL, 0, 0));
    assert_ok(cuCtxGetCurrent(&seen));
    assert_ptr_equal(seen, made);
    CUstream stream = stream_new(0);
    CUdeviceptr at = 0;
    assert_ok(cuMemAlloc(&at, 1000));
    assert_ok(cuCtxDestroy(made));
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.contexts, 0);
    assert_int_equal(live.streams, 0);
    assert_int_equal(live.allocations, 0);
    assert_result(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    assert_result(cuCtxDestroy(fixture_context()), CUDA_ERROR_INVALID_CONTEXT);
}

static void test_context_ends_with_work(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "SCHEDULE=lazy", NULL);
    CUstream stream = stream_new(0);
    assert_ok(cuEventRecord(event_new(), stream));
    assert_ok(cuDevicePrimaryCtxRelease(0));
    assert_int_equal(simcuda_violations(), 1);
    assert_non_null(strstr(simcuda_violation_last(), "operations queued"));
    assert_result(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void test_peers(void **state)
{
    (void)state;
    CUcontext other = NULL;
    CUdeviceptr theirs = 0;
    CUdeviceptr ours = 0;
    int can = -1;
    assert_ok(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    assert_ok(cuDevicePrimaryCtxRetain(&other, 1));
    assert_ok(cuCtxPushCurrent(other));
    assert_ok(cuMemAlloc(&theirs, 4096));
    assert_ok(cuCtxPopCurrent(NULL));
    assert_ok(cuMemAlloc(&ours, 4096));
    assert_ok(cuMemcpyPeerAsync(ours, fixture_context(), theirs, other, 4096, NULL));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuCtxEnablePeerAccess(other, 0));
    assert_result(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    assert_ok(cuMemcpyDtoD(ours, theirs, 4096));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuCtxDisablePeerAccess(other));
    assert_result(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    /* Access ends with the context that it is to. */
    assert_ok(cuCtxEnablePeerAccess(other, 0));
    assert_ok(cuDevicePrimaryCtxReset(1));
    assert_ok(cuDevicePrimaryCtxRetain(&other, 1));
    assert_ok(cuCtxEnablePeerAccess(other, 0));
    assert_ok(cuDevicePrimaryCtxRelease(1));
    assert_int_equal(simcuda_violations(), 0);
}

static void test_error_names(void **state)
{
    (void)state;
    const char *text = NULL;
    assert_ok(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_ok(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "out of memory");
    assert_result(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    assert_null(text);
}

/* A reference that was taken before a reset is released after it. */
static void test_release_after_reset(void **state)
{
    (void)state;
    CUcontext context = NULL;
    unsigned flags;
    int active = 1;
    assert_ok(cuDevicePrimaryCtxRetain(&context, 1));
    assert_ok(cuDevicePrimaryCtxReset(1));
    assert_ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 0);
    assert_ok(cuDevicePrimaryCtxRelease(1));
    assert_result(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
    assert_ok(cuDevicePrimaryCtxRetain(&context, 1));
    assert_ok(cuCtxSetCurrent(context));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuDevicePrimaryCtxRelease(1));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_release_after_reset),
        CASE(test_before_init),
        CASE(test_shutdown),
        CASE(test_fork),
        CASE(test_no_device),
        CASE(test_devices),
        CASE(test_proc_address),
        CASE(test_missing_and_old),
        CASE(test_primary_context),
        CASE(test_stack),
        CASE(test_created_context),
        CASE(test_context_ends_with_work),
        CASE(test_peers),
        CASE(test_error_names),
    };
    return cmocka_run_group_tests_name("simcuda_context", tests, NULL, NULL);
}
