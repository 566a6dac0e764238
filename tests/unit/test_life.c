/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and end: shutdown and restart, fork, a driver that goes away first, and a context that is
 * left as it was found.
 *
 * In library_mark_forked, the store to tnri_generation left out: a_child_is_refused failed. In
 * tnri_device_leave, the pop left out: the_context_is_left_as_found failed.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void shutdown_and_restart(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    for (int round = 0; round < 5; round++) {
        assert_ok(tnr_init()); /* harmless */
        void *ptr = unit_malloc(3 * MIB, NULL);
        assert_error(tnr_shutdown(0), TNR_ERR_BUSY, "1 live block");
        assert_ok(tnr_free(ptr)); /* refused, so everything is as before */
        ptr = unit_malloc(100, NULL);
        if (round % 2 == 0)
            assert_ok(tnr_free(ptr));
        assert_ok(tnr_shutdown(round % 2));
        assert_ok(tnr_shutdown(0)); /* harmless */
        assert_error(tnr_free(ptr), TNR_ERR_FOREIGN_POINTER, NULL);
        tnr_block_info info;
        assert_error(tnr_block_get(&info, ptr), TNR_ERR_FOREIGN_POINTER, NULL);
        assert_ok(tnr_validate(-1));
        simcuda_live live;
        assert_int_equal(simcuda_live_get(-1, &live), 0);
        assert_int_equal(live.handles + live.mappings + live.reservations + live.events, 0);
        assert_int_equal(live.primary_references, 0);
    }
    /* Counters begin again. */
    (void)unit_malloc(1, NULL);
    assert_int_equal(unit_stats().allocation[0].allocated, 1);
}

static void routes_do_not_survive(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_push(pool));
    (void)unit_malloc(1, NULL);
    assert_ok(tnr_shutdown(1));
    void *ptr = unit_malloc(1, NULL);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, ptr));
    assert_null(info.pool);
    assert_error(tnr_pool_pop(pool), TNR_ERR_INVALID_ARGUMENT, "pushed last");
}

/* ---- fork ----------------------------------------------------------------------------------- */

static tnr_pool fork_pool;

/* Every call, in the child; exits with the number of the first that is not refused. */
static void child_calls_everything(void *block)
{
    void *ptr = block;
    size_t size;
    tnr_pool pool;
    tnr_block_info info;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    tnr_driver_info driver = {.struct_bytes = sizeof(driver)};
    tnr_device_info device = {.struct_bytes = sizeof(device)};
    const tnr_status results[] = {
        tnr_init(),
        tnr_configure("bin_blocks:1"),
        tnr_shutdown(0),
        tnr_shutdown(1),
        tnr_malloc(&ptr, 1, 0, NULL),
        tnr_malloc_aligned(&ptr, 1, 512, 0, NULL),
        tnr_free(block),
        tnr_block_get(&info, block),
        tnr_pool_create(&pool, 0, NULL),
        tnr_pool_destroy(fork_pool),
        tnr_pool_malloc(&ptr, fork_pool, 1, 0, NULL),
        tnr_pool_malloc(&ptr, NULL, 1, 0, NULL),
        tnr_pool_push(fork_pool),
        tnr_pool_push(NULL),
        tnr_pool_pop(fork_pool),
        tnr_trim(&size, 0, 0),
        tnr_pool_trim(&size, fork_pool, 0, 0),
        tnr_pool_trim(&size, NULL, 0, 0),
        tnr_limit_set(1, 0),
        tnr_pool_limit_set(fork_pool, 1, 0),
        tnr_pool_limit_set(NULL, 1, 0),
        tnr_limit_get(&size, 0),
        tnr_stats_get(&stats, NULL, 0),
        tnr_stats_reset_peaks(0),
        tnr_driver_get(&driver),
        tnr_device_get(&device, 0),
        tnr_validate(0),
    };
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i] != TNR_ERR_AFTER_FORK)
            _exit((int)i + 1);
    if (strstr(tnr_last_error(), "fork") == NULL || tnr_stats_json(NULL, 0, NULL, 0) != 0)
        _exit(100);
    _exit(0);
}

static void a_child_is_refused(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    assert_ok(tnr_pool_create(&fork_pool, 0, NULL));
    void *ptr = unit_malloc(4096, NULL);
    tnr_stats before = unit_stats();
    assert_int_equal(unit_in_child(child_calls_everything, ptr, 0), 0);
    tnr_stats after = unit_stats(); /* the parent has not noticed */
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_ok(tnr_free(ptr));
    /* cuInit cannot be undone, so it is the same after a shutdown. */
    assert_ok(tnr_shutdown(1));
    fork_pool = NULL;
    ptr = NULL;
    assert_int_equal(unit_in_child(child_calls_everything, &ptr, 0), 0);
}

/* ---- a driver that is gone ------------------------------------------------------------------ */

static void driver_ends_first(void *data)
{
    (void)data;
    unit_start(NULL, NULL);
    void *small = unit_malloc(4096, NULL);
    void *large = unit_malloc(5 * MIB, NULL);
    void *ptr = &ptr;
    simcuda_shutdown();
    if (tnr_malloc(&ptr, 64 * MIB, 0, NULL) != TNR_ERR_SHUTDOWN || ptr != NULL)
        _exit(1);
    if (tnr_last_driver_result() != CUDA_ERROR_DEINITIALIZED)
        _exit(2);
    if (tnr_free(small) != TNR_OK || tnr_free(large) != TNR_OK) /* need no driver */
        _exit(3);
    if (tnr_malloc(&ptr, 4096, 0, NULL) != TNR_OK || tnr_free(ptr) != TNR_OK)
        _exit(4);
    if (tnr_trim(NULL, 0, 0) != TNR_ERR_SHUTDOWN || tnr_validate(0) != TNR_OK)
        _exit(5);
    tnr_status status = tnr_shutdown(1);
    if (status != TNR_ERR_SHUTDOWN && status != TNR_OK)
        _exit(6);
    _exit(0);
}

static void the_driver_ends_before_the_library(void **state)
{
    (void)state;
    unit_settings(NULL, NULL);
    /* A fresh program: a child of this one could not start the driver. */
    char self[4096];
    char command[4200];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(length > 0);
    self[length] = '\0';
    snprintf(command, sizeof(command), "'%s' --driver-ends-first", self);
    int ended = system(command);
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == 126)
        skip(); /* under an emulator: for the shell it is no program */
    assert_int_equal(ended, 0);
}

/* ---- the context ---------------------------------------------------------------------------- */

/* Everything that visits the device, with one context current, then with none. */
static void visits(void)
{
    CUcontext before, after;
    assert_int_equal(cuCtxGetCurrent(&before), CUDA_SUCCESS);
    tnr_pool pool;
    void *ptr, *more;
#define assert_same_context()                                                                      \
    do {                                                                                           \
        assert_int_equal(cuCtxGetCurrent(&after), CUDA_SUCCESS);                                   \
        assert_ptr_equal(after, before);                                                           \
    } while (0)
    assert_ok(tnr_malloc(&ptr, 5 * MIB, 1, NULL));
    assert_same_context();
    assert_ok(tnr_pool_create(&pool, 1, NULL));
    assert_ok(tnr_pool_malloc(&more, pool, 100, 1, NULL));
    assert_same_context();
    assert_error(tnr_malloc(&more, 100 * MIB, 1, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_same_context();
    simcuda_fail("cuMemMap", 1, 0, CUDA_ERROR_UNKNOWN);
    assert_error(tnr_malloc(&more, 7 * MIB, 1, NULL), TNR_ERR_DRIVER, "cuMemMap");
    assert_same_context();
    simcuda_fail_clear();
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_trim(NULL, 0, 1));
    assert_same_context();
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, NULL);
    assert_same_context();
    assert_ok(tnr_shutdown(1));
    assert_same_context();
}

static void the_context_is_left_as_found(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", "MEMORY=64M", NULL);
    visits(); /* none is current */
    assert_ok(tnr_init());
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    visits(); /* that of the other device is */
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--driver-ends-first") == 0)
        driver_ends_first(NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(shutdown_and_restart, unit_stop),
        cmocka_unit_test_teardown(routes_do_not_survive, unit_stop),
        cmocka_unit_test_teardown(a_child_is_refused, unit_stop),
        cmocka_unit_test_teardown(the_driver_ends_before_the_library, unit_stop),
        cmocka_unit_test_teardown(the_context_is_left_as_found, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
