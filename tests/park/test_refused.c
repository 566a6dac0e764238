/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parks with contents that are refused, wherever that comes from: the block is live, and no host
 * memory is kept that was not there before.
 *
 * Lines changed in the library to see a test fail:
 *   tnri_contents_unmake, nothing freed (as before): any_step_fails; all spares freed:
 *   late_buffers_stay
 *   tnri_staging_take_pinned without pinned_trim: pinning_refused
 *   tnri_contents_make: is_fresh of an earlier call left in late buffers: late_buffers_stay
 *   tnr_park without copies_wait: any_step_fails, late_buffers_stay, copies_are_waited_for; without
 *   the wait for an event in there: copies_are_waited_for
 *   uses_end without the question whether the block's stream has ended: the_stream_has_ended
 *   arena_adopt without tnri_stream_follow: another_stream_has_taken_over (the copies read early)
 *   tnri_staging_prepare without late_collect: any_step_fails
 *   mapping_stuck that counts slots below the stretch, or that are not used: mappings_are_counted
 */
#include "park_steps.h"

#include "away/staging.h"
#include "base/host_memory.h"

enum { TURNS = 5 };

static uint64_t copies_made(void)
{
    return simcuda_calls("cuMemcpyDtoHAsync_v2");
}

/* What there is of host memory for contents. */
static void assert_staging(size_t pinned, size_t paged)
{
    assert_int_equal(sleep_pinned_bytes(), pinned * TNRI_BUFFER_BYTES);
    assert_int_equal(tnri_staging_of(tnri_device_at(0))->pinned.count, pinned);
    assert_int_equal(tnri_staging_of(tnri_device_at(0))->paged.count, paged);
    assert_int_equal(unit_stats().bytes_parked, 0);
}

/* A block of a stream that has ended, with another stream: nothing is copied, so nothing need be
 * waited for. */
static void the_stream_has_ended(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    for (size_t prepared = 0; prepared < 3; prepared += 2) {
        tnr_stream stream = unit_stream(0), other = unit_stream(0);
        assert_ok(tnr_sleep_prepare(prepared * TNRI_BUFFER_BYTES, 0));
        void *a = unit_malloc(40 * MIB, stream);
        sleep_fill(a, 40 * MIB, 1, stream);
        assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
        assert_ok(tnr_stream_destroying(0, stream));
        assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
        for (int turn = 0; turn < TURNS; turn++) {
            uint64_t copies = copies_made();
            assert_error(tnr_park(NULL, a, other, TNR_CONTENT_KEEP), TNR_ERR_INVALID_STREAM,
                         "has ended");
            assert_int_equal(copies_made(), copies);
            assert_staging(prepared, 0);
        }
        sleep_check(a, 40 * MIB, 1);
        assert_ok(tnr_free(a));
    }
    end();
}

/* Another stream has taken over what the ended one had: it comes after all of that, and so do the
 * copies. */
static void another_stream_has_taken_over(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0), heir = unit_stream(0), other = unit_stream(0);
    void *a = unit_malloc(40 * MIB, stream);
    sleep_fill(a, 40 * MIB, 1, stream);
    assert_ok(tnr_stream_destroying(0, stream));
    assert_error(tnr_park(NULL, a, other, TNR_CONTENT_KEEP), TNR_ERR_INVALID_STREAM, "has ended");
    void *b = unit_malloc(MIB, heir);
    assert_ok(tnr_park(NULL, a, other, TNR_CONTENT_KEEP));
    assert_ok(tnr_unpark(a, other));
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    sleep_check(a, 40 * MIB, 1);
    assert_ok(tnr_free(b));
    assert_ok(tnr_free(a));
    end();
}

/* Parks while something fails, and undoes it if that was not refused; 0 if nothing failed. */
static int park_tried(void *ptr, tnr_stream stream, uint64_t *refused)
{
    tnr_status status = tnr_park(NULL, ptr, stream, TNR_CONTENT_KEEP);
    uint64_t failed = simcuda_fail_hits() + tnri_host_fail_at(0, 0);
    simcuda_fail_clear();
    *refused += status != TNR_OK;
    if (status == TNR_OK) {
        assert_ok(tnr_unpark(ptr, stream));
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        assert_true(sleep_pinned_bytes() >= 40 * MIB);
        assert_ok(tnr_sleep_prepare(0, 0)); /* of what is not in use, all goes */
    }
    assert_staging(0, 0);
    return failed > 0;
}

/* Each call of the driver refused once, and each allocation of host memory, until none is left. */
static void any_step_fails(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0), other = unit_stream(0);
    void *a = unit_malloc(40 * MIB, stream);
    sleep_fill(a, 40 * MIB, 1, stream);
    uint64_t nth = 0, refused = 0;
    do
        simcuda_fail("*", ++nth, 0, CUDA_ERROR_UNKNOWN);
    while (park_tried(a, other, &refused));
    assert_true(refused >= 8);
    nth = refused = 0;
    do
        (void)tnri_host_fail_at(++nth, 0);
    while (park_tried(a, other, &refused));
    assert_true(refused >= 4);
    sleep_check(a, 40 * MIB, 1);
    end();
}

/* The system pins no more than a part of what is needed. */
static void pinning_refused(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(150 * MIB, stream);
    for (unsigned nth = 1; nth <= 5; nth++)
        for (size_t prepared = 0; prepared < 2; prepared++) {
            assert_ok(tnr_sleep_prepare(prepared * TNRI_BUFFER_BYTES, 0));
            simcuda_fail("cuMemHostAlloc", nth, 1, CUDA_ERROR_OUT_OF_MEMORY);
            tnr_status status = tnr_park(NULL, a, stream, TNR_CONTENT_KEEP);
            simcuda_fail_clear();
            if (nth == 5 && prepared == 1)
                break;
            assert_int_equal(status, TNR_ERR_HOST_MEMORY);
            assert_staging(prepared, 0);
        }
    end();
}

/* Buffers that a call takes over from copies that are under way were there before: they stay. */
static void late_buffers_stay(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0), other = unit_stream(0);
    void *a = unit_malloc(40 * MIB, stream), *b = unit_malloc(40 * MIB, other);
    assert_ok(tnr_park(NULL, a, stream, TNR_CONTENT_KEEP));
    assert_ok(tnr_unpark(a, stream));
    size_t pinned = sleep_pinned_bytes();
    assert_ok(tnr_record_use(b, stream));
    simcuda_fail("cuStreamWaitEvent", 2, 0, CUDA_ERROR_UNKNOWN); /* after the copies */
    assert_error(tnr_park(NULL, b, stream, TNR_CONTENT_KEEP), TNR_ERR_DRIVER, NULL);
    simcuda_fail_clear();
    assert_int_equal(sleep_pinned_bytes(), pinned);
    end();
}

/* Copies that were queued before a refusal have ended when the call returns, although the driver
 * refuses some of the waits: else they race with what a stream that nothing orders writes. */
static void copies_are_waited_for(void **state)
{
    (void)state;
    static const char *const waits[] = {"cuStreamSynchronize", "cuCtxSynchronize"};
    for (size_t refused = 0; refused <= 2; refused++) {
        start(NULL, "SCHEDULE=lazy");
        tnr_stream stream = unit_stream(0), other = unit_stream(0), third = unit_stream(0);
        void *a = unit_malloc(40 * MIB, stream);
        sleep_fill(a, 40 * MIB, 1, stream);
        assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
        simcuda_fail("cuStreamWaitEvent", 2, 0, CUDA_ERROR_UNKNOWN);
        for (size_t i = 0; i < refused; i++)
            simcuda_fail(waits[i], 1, 1, CUDA_ERROR_UNKNOWN);
        uint64_t copies = copies_made();
        assert_error(tnr_park(NULL, a, other, TNR_CONTENT_KEEP), TNR_ERR_DRIVER, NULL);
        assert_true(copies_made() > copies);
        simcuda_fail_clear();
        sleep_fill(a, 40 * MIB, 2, third);
        assert_int_equal(cuStreamSynchronize(third), CUDA_SUCCESS);
        sleep_check(a, 40 * MIB, 2);
        end();
        assert_int_equal(unit_stop(NULL), 0);
    }
}

/* An unpark fails after one chunk of four has come back. What is freed then leaves old mappings on
 * both sides, and the statistics know each of them. */
static void mappings_are_counted(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        start("chunk_max_mb:2", "SCHEDULE=lazy");
        tnr_stream stream = unit_stream(0);
        void *others[4], *a = unit_malloc(8 * MIB, stream);
        park(a, 8 * MIB, stream);
        for (int i = 0; i < 4; i++)
            others[i] = unit_malloc(2 * MIB, stream);
        assert_int_equal(unit_stats().bytes_parked_away, 8 * MIB);
        assert_ok(tnr_free(others[which]));
        simcuda_fail("cuMemUnmap", 1, 0, CUDA_ERROR_UNKNOWN);
        assert_error(tnr_unpark(a, stream), TNR_ERR_DRIVER, NULL);
        simcuda_fail_clear();
        assert_int_equal(unit_stats().bytes_parked_away, 6 * MIB);
        assert_ok(tnr_free(a));
        for (int i = 0; i < 4; i++)
            if (i != which)
                assert_ok(tnr_free(others[i]));
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_int_equal(sleep_device_bytes(), 0);
        tnr_stats stats = unit_stats();
        assert_int_equal(stats.num_device_free, stats.num_device_alloc);
        end();
        assert_int_equal(unit_stop(NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_stream_has_ended, unit_stop),
        cmocka_unit_test_teardown(another_stream_has_taken_over, unit_stop),
        cmocka_unit_test_teardown(any_step_fails, unit_stop),
        cmocka_unit_test_teardown(pinning_refused, unit_stop),
        cmocka_unit_test_teardown(late_buffers_stay, unit_stop),
        cmocka_unit_test_teardown(copies_are_waited_for, unit_stop),
        cmocka_unit_test_teardown(mappings_are_counted, unit_stop),
    };
    return cmocka_run_group_tests_name("park_refused", tests, NULL, NULL);
}
