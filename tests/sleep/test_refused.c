/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver refuses in the middle of a sleep or a wake, and what that leaves. The pool is as
 * it was; or, if the way back is refused too, it is asleep with everything that a later wake needs.
 * Also captures: while one is under way, neither a sleep nor a wake is tried.
 *
 * Lines changed in the library to see a test fail:
 *   set_take_back: pool_restore not called: a_refused_sleep_changes_nothing
 *   pool_restore: no copy although is_lost: release_refused
 *   set_take_back: without tnri_staging_undo, a_refused_sleep_changes_nothing; sleeper_forget with
 *   the sleep's keeps_buffers: not_during_a_capture
 *   set_sink emptied: a_refused_wake_gives_back
 *   the test of tnri_capturing in set_drain and in set_wake: not_during_a_capture
 *   either test of is_busy in set_wake: copies_that_nobody_could_wait_for
 */
#include "sleep.h"
#include "few.h"

#include <string.h>

#include "gpu/capturing.h"

enum { BLOCKS = 4 };

static void *blocks[BLOCKS];
static const tnr_sleep_options keep_backing = {sizeof(tnr_sleep_options), TNR_CONTENT_KEEP, 1, 0};

static void blocks_make(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = unit_malloc((size_t)(2 * i + 3) * MIB, NULL);
        sleep_fill(blocks[i], (size_t)(2 * i + 3) * MIB, (uint32_t)i, NULL);
    }
}

static void blocks_check(void)
{
    for (int i = 0; i < BLOCKS; i++)
        sleep_check(blocks[i], (size_t)(2 * i + 3) * MIB, (uint32_t)i);
}

/* Awake, as before, and able to serve. */
static void check_awake(uint64_t reserved)
{
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.reserved_bytes.current, reserved);
    assert_int_equal(stats.bytes_asleep, 0);
    assert_int_equal(sleep_device_bytes(), reserved);
    blocks_check();
    void *more = unit_malloc(3 * MIB, NULL);
    assert_ok(tnr_free(more));
    assert_ok(tnr_trim(NULL, (size_t)reserved, 0));
}

/* Each call of a sleep refused once, at its first, a middle and its last use. */
static void a_refused_sleep_changes_nothing(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuCtxSynchronize",   "cuMemHostAlloc", "cuMemcpyDtoHAsync",
                                        "cuStreamCreate",     "cuEventCreate",  "cuEventRecord",
                                        "cuEventSynchronize", "cuMemUnmap",     "cuMemRelease"};
    static const int nths[] = {1, 4, 12};
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
        for (int n = 0; n < (c < 7 ? 1 : few_or(3, 1)); n++) {
            /* A look at whether host memory can be mapped would release a page too. */
            unit_start("chunk_max_mb:2,host:allocated", "SCHEDULE=eager", NULL);
            sleep_context_enter();
            blocks_make();
            uint64_t reserved = unit_stats().reserved_bytes.current;
            assert_int_equal(reserved, 24 * MIB); /* 12 chunks: both ends of every loop */
            simcuda_fail(calls[c], (uint64_t)nths[n], 0, CUDA_ERROR_UNKNOWN);
            tnr_status status = tnr_pool_sleep(NULL, 0, &keep_backing);
            simcuda_fail_clear();
            assert_true(status == TNR_ERR_DRIVER);
            assert_non_null(strstr(tnr_last_error(), calls[c][2] == 'M' && calls[c][5] == 'c'
                                                         ? "cuMemcpy"
                                                         : calls[c]));
            assert_int_equal(sleep_pinned_bytes(), 0);
            check_awake(reserved);
            assert_int_equal(unit_stats().sleeps, 0);
            sleep_context_leave();
            assert_int_equal(unit_stop(NULL), 0);
        }
}

/* A release is refused and so is the way back: the pool is asleep, and a wake brings all back. */
static void release_refused(void **state)
{
    (void)state;
    static const char *const back[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                       "cuMemcpyHtoDAsync", "cuStreamSynchronize"};
    for (size_t i = 0; i < sizeof(back) / sizeof(back[0]); i++) {
        unit_start("chunk_max_mb:2", "SCHEDULE=eager", NULL);
        sleep_context_enter();
        blocks_make();
        uint64_t reserved = unit_stats().reserved_bytes.current;
        simcuda_fail("cuMemRelease", 5, 0, CUDA_ERROR_UNKNOWN);
        /* The copies out have been waited for once by then. */
        simcuda_fail(back[i], i == 4 ? 2 : 1, 1, CUDA_ERROR_UNKNOWN);
        assert_error(tnr_pool_sleep(NULL, 0, NULL), TNR_ERR_DRIVER, "is asleep");
        assert_non_null(strstr(tnr_last_error(), "cuMemRelease"));
        void *ptr;
        assert_error(tnr_malloc(&ptr, 1, 0, NULL), TNR_ERR_ASLEEP, NULL);
        tnr_stats stats = unit_stats();
        assert_int_equal(stats.reserved_bytes.current + stats.bytes_asleep, reserved);
        assert_int_equal(sleep_device_bytes(), stats.reserved_bytes.current);
        assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_DRIVER, back[i][5] == 'c' ? "cuMem" : back[i]);
        simcuda_fail_clear();
        assert_ok(tnr_pool_wake(NULL, 0));
        check_awake(reserved);
        sleep_context_leave();
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* A wake that is refused holds no memory, whatever it had already taken. */
static void a_refused_wake_gives_back(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                        "cuMemcpyHtoDAsync"};
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
        for (int middle = 0; middle <= (c < 3); middle++) {
            unit_start("chunk_max_mb:2", "SCHEDULE=eager", NULL);
            sleep_context_enter();
            blocks_make();
            uint64_t reserved = unit_stats().reserved_bytes.current;
            assert_ok(tnr_pool_sleep(NULL, 0, NULL));
            simcuda_fail(calls[c], middle ? 7 : 1, 0, CUDA_ERROR_UNKNOWN);
            assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_DRIVER, NULL);
            simcuda_fail_clear();
            assert_int_equal(sleep_device_bytes(), 0);
            assert_int_equal(unit_stats().bytes_asleep, reserved);
            assert_ok(tnr_pool_wake(NULL, 0));
            check_awake(reserved);
            sleep_context_leave();
            assert_int_equal(unit_stop(NULL), 0);
        }
}

/* All pools of a device or none. */
static void all_or_none(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=eager", NULL);
    sleep_context_enter();
    tnr_pool pool;
    void *other;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&other, pool, 10 * MIB, 0, NULL));
    sleep_fill(other, 10 * MIB, 77, NULL);
    blocks_make();
    uint64_t reserved = unit_stats().reserved_bytes.current;
    uint64_t chunks = unit_stats().segment.current;
    for (uint64_t nth = 1; nth <= chunks; nth += (uint64_t)few_or(1, 5)) {
        simcuda_fail("cuMemUnmap", nth, 0, CUDA_ERROR_UNKNOWN);
        assert_error(tnr_device_sleep(0, NULL), TNR_ERR_DRIVER, NULL);
        simcuda_fail_clear();
        assert_int_equal(sleep_device_bytes(), reserved);
        assert_int_equal(unit_stats().bytes_asleep, 0);
        assert_ok(tnr_device_sleep(0, NULL));
        assert_int_equal(sleep_device_bytes(), 0);
        simcuda_fail("cuMemMap", nth, 0, CUDA_ERROR_UNKNOWN);
        assert_error(tnr_device_wake(0), TNR_ERR_DRIVER, NULL);
        simcuda_fail_clear();
        assert_int_equal(sleep_device_bytes(), 0);
        assert_int_equal(unit_stats().bytes_asleep, reserved);
        assert_ok(tnr_device_wake(0));
        sleep_check(other, 10 * MIB, 77);
    }
    check_awake(reserved);
    sleep_context_leave();
}

/* Nobody could wait for the copies of a wake, so they may still be under way: no memory is given up
 * until somebody has, whatever the error says of memory, and though nothing may live any more. */
static void copies_that_nobody_could_wait_for(void **state)
{
    (void)state;
    for (int lives = 0; lives <= 1; lives++) {
        unit_start("chunk_max_mb:2", "SCHEDULE=lazy", NULL);
        sleep_context_enter();
        blocks_make();
        assert_ok(tnr_pool_sleep(NULL, 0, NULL));
        assert_ok(tnr_free(blocks[1])); /* its contents come back all the same */
        simcuda_fail("cuStreamSynchronize", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
        assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_OUT_OF_MEMORY, "copies of contents");
        for (int i = 0; i < BLOCKS && !lives; i++)
            if (i != 1)
                assert_ok(tnr_free(blocks[i]));
        assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_OUT_OF_MEMORY, "copies of contents");
        simcuda_fail_clear();
        assert_int_equal(simcuda_violations(), 0);
        assert_ok(tnr_pool_wake(NULL, 0));
        assert_int_equal(unit_stats().bytes_asleep, 0);
        for (int i = 0; i < BLOCKS && lives; i++)
            if (i != 1)
                sleep_check(blocks[i], (size_t)(2 * i + 3) * MIB, (uint32_t)i);
        sleep_context_leave();
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* While a stream is captured, waiting for the device would break the capture. */
static void not_during_a_capture(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    sleep_context_enter();
    blocks_make();
    uint64_t reserved = unit_stats().reserved_bytes.current;
    assert_ok(tnr_pool_sleep(NULL, 0, &keep_backing));
    assert_ok(tnr_pool_wake(NULL, 0));
    uint64_t pinned = sleep_pinned_bytes();
    assert_true(pinned > 0);
    tnri_captures_enter(); /* as tnr_capture_begin does */
    CUstream stream = unit_stream(0);
    assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_error(tnr_pool_sleep(NULL, 0, NULL), TNR_ERR_BUSY, "capture");
    assert_error(tnr_device_sleep(0, NULL), TNR_ERR_BUSY, "capture");
    assert_error(tnr_sleep_prepare(MIB, 0), TNR_ERR_BUSY, "capture");
    CUgraph graph;
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    tnri_captures_leave();
    assert_int_equal(sleep_pinned_bytes(), pinned); /* what an earlier sleep has left stays */
    check_awake(reserved);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    tnri_captures_enter();
    assert_error(tnr_pool_wake(NULL, 0), TNR_ERR_BUSY, "capture");
    tnri_captures_leave();
    assert_ok(tnr_pool_wake(NULL, 0));
    check_awake(reserved);
    sleep_context_leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_refused_sleep_changes_nothing, unit_stop),
        cmocka_unit_test_teardown(release_refused, unit_stop),
        cmocka_unit_test_teardown(a_refused_wake_gives_back, unit_stop),
        cmocka_unit_test_teardown(all_or_none, unit_stop),
        cmocka_unit_test_teardown(copies_that_nobody_could_wait_for, unit_stop),
        cmocka_unit_test_teardown(not_during_a_capture, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
