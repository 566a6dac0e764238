/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting. Each thing that can be missing has its own status, and a sentence that names it. A
 * failed start changes nothing, and the next try can succeed.
 *
 * In load_entries (load.c), the names left out of `missing`: what_an_old_driver_lacks failed.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* Every call that starts the library must fail alike. */
static void start_fails(tnr_status status, const char *text)
{
    void *ptr = &ptr;
    tnr_pool pool;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_error(tnr_init(), status, text);
    assert_error(tnr_malloc(&ptr, 1, 0, NULL), status, text);
    assert_null(ptr);
    assert_error(tnr_pool_create(&pool, 0, NULL), status, text);
    assert_error(tnr_stats_get(&stats, NULL, 0), status, text);
    assert_error(tnr_trim(NULL, 0, 0), status, text);
}

static void no_driver(void **state)
{
    (void)state;
    unit_settings(NULL, NULL);
    setenv("TENURE_DRIVER", "/nonexistent/libcuda.so", 1);
    start_fails(TNR_ERR_NO_DRIVER, "/nonexistent/libcuda.so could not be loaded");
    setenv("TENURE_DRIVER", "simulated", 1);
    start_fails(TNR_ERR_CONFIG, "TENURE_DRIVER=simulated is not understood");
    setenv("TENURE_DRIVER", "/proc/self/exe", 1);
    start_fails(TNR_ERR_NO_DRIVER, "could not be loaded");
    setenv("TENURE_DRIVER", "sim", 1);
    assert_ok(tnr_init()); /* the next try */
    tnr_driver_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_driver_get(&info));
    assert_int_equal(info.simulated, 1);
    assert_int_equal(info.version, 13000);
    assert_int_equal(info.devices_count, 1);
    assert_non_null(strstr(info.path, "simcuda"));
}

static void what_an_old_driver_lacks(void **state)
{
    (void)state;
    unit_settings(NULL, "VERSION=10010", NULL);
    start_fails(TNR_ERR_DRIVER_TOO_OLD, "cuMemMap (CUDA 10.2)");
    assert_non_null(strstr(tnr_last_error(), "CUDA 10.1"));
    unit_settings(NULL, "MISSING=cuMemSetAccess", NULL);
    start_fails(TNR_ERR_DRIVER_TOO_OLD, "lacks cuMemSetAccess (CUDA 10.2). Install a newer");
    unit_start(NULL, NULL);
}

static void no_device(void **state)
{
    (void)state;
    unit_settings(NULL, "DEVICES=0", NULL);
    start_fails(TNR_ERR_NO_DEVICE, "nvidia-smi");
    unit_start(NULL, NULL);
    (void)unit_malloc(1, NULL);
}

/* The library starts, for the sake of the other devices, and the device says what it lacks. */
static void no_virtual_memory_management(void **state)
{
    (void)state;
    unit_start(NULL, "VMM=0", NULL);
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_device_get(&info, 0));
    assert_int_equal(info.has_vmm, 0);
    assert_int_equal(info.granularity_bytes, 0);
    for (int i = 0; i < 100; i++) {
        void *ptr = &ptr;
        assert_error(tnr_malloc(&ptr, 1, 0, NULL), TNR_ERR_NO_VMM, "virtual memory management");
        assert_null(ptr);
    }
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.primary_references, 0);
}

/* A device whose default pool cannot be made: refused whenever it is tried, and nothing stays. */
static void a_device_that_cannot_be_used(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_device_get(&info, 0));
    if (info.has_fabric && info.has_gpu_direct_rdma)
        skip();
    assert_ok(tnr_configure(info.has_fabric ? "gpu_direct_rdma:on" : "handle_type:fabric"));
    simcuda_live live;
    for (int i = 0; i < 200; i++) {
        void *ptr = &ptr;
        assert_error(tnr_malloc(&ptr, 1, 0, NULL), TNR_ERR_INVALID_ARGUMENT, "device 0");
        assert_null(ptr);
        assert_int_equal(simcuda_live_get(-1, &live), 0);
        assert_int_equal(live.primary_references + live.reservations, 0);
    }
    assert_ok(tnr_configure("handle_type:none,gpu_direct_rdma:off")); /* still not in use */
    void *ptr = unit_malloc(1, NULL);
    assert_ok(tnr_free(ptr));
}

/* Larger granularities make larger pages; a range that does not fit shrinks. */
static void granularity_and_address_space(void **state)
{
    (void)state;
    unit_start(NULL, "GRANULARITY=16M", NULL);
    (void)unit_malloc(1, NULL);
    assert_int_equal(unit_stats().reserved_bytes.current, 16 * MIB);
    unit_start("address_space_gb:16384", "RESERVE=40G", NULL);
    (void)unit_malloc(1, NULL);
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_device_get(&info, 0));
    assert_int_equal(info.address_bytes, 32 * GIB);
    (void)unit_stats();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(no_driver, unit_stop),
        cmocka_unit_test_teardown(what_an_old_driver_lacks, unit_stop),
        cmocka_unit_test_teardown(no_device, unit_stop),
        cmocka_unit_test_teardown(no_virtual_memory_management, unit_stop),
        cmocka_unit_test_teardown(a_device_that_cannot_be_used, unit_stop),
        cmocka_unit_test_teardown(granularity_and_address_space, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
