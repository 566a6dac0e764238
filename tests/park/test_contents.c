/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of parked blocks: that they come back, in whatever order of streams, beside what other
 * work, and how much host memory they pin.
 *
 * Lines changed in the library to see a test fail:
 *   uses_end without streams_order: contents
 *   tnr_unpark without streams_order; parked_donor_take or homings_order without
 *   tnri_execute_order: contents
 *   contents_save waiting for its copies: contents_beside
 *   late_collect in tnri_staging_prepare: contents (buffers stay pinned that no copy uses)
 *   tnri_staging_take_pinned without a short buffer, or with one beside a spare; buffers_fit
 *   without either bound; pinned_trim that returns where nothing is spare: contents_of_many
 */
#include "park_steps.h"

#include <tenure/host.h>

/* Contents that are kept are there again, whoever had the memory, in whatever order of streams. */
static void contents(void **state)
{
    (void)state;
    start("chunk_max_mb:4", "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0), other = unit_stream(0);
    void *a = unit_malloc(40 * MIB, stream), *small = unit_malloc(3 * KIB, stream);
    sleep_fill(a, 40 * MIB, 1, stream);
    sleep_fill(small, 3 * KIB, 2, stream);
    size_t parked, pinned = 0;
    for (int round = 0; round < 3; round++) {
        tnr_stream by = round == 1 ? other : stream;
        assert_ok(tnr_park(&parked, a, by, TNR_CONTENT_KEEP));
        assert_int_equal(parked, 40 * MIB);
        assert_ok(tnr_park(NULL, small, by, TNR_CONTENT_DEFAULT));
        void *b = unit_malloc(40 * MIB, round == 2 ? other : stream);
        assert_int_equal(unit_stats().reserved_bytes.current, 42 * MIB);
        sleep_fill(b, 40 * MIB, 3, round == 2 ? other : stream);
        if (round < 2)
            assert_ok(tnr_free(b));
        else
            assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        assert_ok(tnr_unpark(a, by));
        assert_ok(tnr_unpark(small, by));
        if (round == 2)
            assert_ok(tnr_free(b));
        if (round == 0)
            pinned = sleep_pinned_bytes();
    }
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    sleep_check(a, 40 * MIB, 1);
    sleep_check(small, 3 * KIB, 2);
    assert_true(pinned < 2 * 32 * MIB);
    assert_int_equal(sleep_pinned_bytes(), pinned); /* the same buffers each time */
    assert_int_equal(unit_stats().park_waits, 0);
    /* Freed while parked, and freed right after it came back on another stream. */
    assert_ok(tnr_park(NULL, small, stream, TNR_CONTENT_KEEP));
    assert_ok(tnr_free(small));
    assert_ok(tnr_park(NULL, a, stream, TNR_CONTENT_KEEP));
    assert_ok(tnr_unpark(a, other));
    assert_ok(tnr_free(a));
    void *next = unit_malloc(40 * MIB, stream);
    sleep_fill(next, 40 * MIB, 5, stream);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    sleep_check(next, 40 * MIB, 5);
    /* All copies are over, so none of the buffers is in use, and all of them go when asked to. */
    assert_ok(tnr_sleep_prepare(0, 0));
    assert_int_equal(sleep_pinned_bytes(), 0);
    end();
}

/* A stream for copies brings contents back beside work of the block's own, which does not wait for
 * it; the block can be freed meanwhile, and its memory is nobody's before the copy is over. */
static void contents_early(void **state)
{
    (void)state;
    start("chunk_max_mb:4", "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0), copies = unit_stream(0);
    void *a = unit_malloc(16 * MIB, stream), *work = unit_malloc(4 * MIB, stream);
    sleep_fill(a, 16 * MIB, 1, stream);
    assert_ok(tnr_park(NULL, a, stream, TNR_CONTENT_KEEP));
    assert_ok(tnr_unpark(a, copies));
    sleep_fill(work, 4 * MIB, 2, stream);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(work, 4 * MIB, 2);
    assert_true(simcuda_pending() > 0); /* the copy, which nothing waited for */
    CUevent event;
    assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, copies), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    sleep_fill(a, 8 * MIB, 3, stream);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(a, 8 * MIB, 3);
    assert_ok(tnr_park(NULL, a, stream, TNR_CONTENT_KEEP));
    assert_ok(tnr_unpark(a, copies));
    assert_ok(tnr_free(a));
    assert_int_equal(unit_stats().blocks_retired, 1);
    assert_int_equal(cuStreamSynchronize(copies), CUDA_SUCCESS);
    a = unit_malloc(16 * MIB, stream);
    sleep_fill(a, 16 * MIB, 4, stream);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
    end();
}

/* Calls of the driver by which the host waits. */
static uint64_t host_waits(void)
{
    return simcuda_calls("cuStreamSynchronize") + simcuda_calls("cuEventSynchronize") +
           simcuda_calls("cuCtxSynchronize");
}

/* Blocks of a stream for copies: what computes waits neither for the copies out nor for those back,
 * but where it says so, and one block's memory serves the other meanwhile. */
static void contents_beside(void **state)
{
    (void)state;
    start("chunk_max_mb:4", "SCHEDULE=lazy");
    tnr_stream compute = unit_stream(0), copies = unit_stream(0);
    void *b = unit_malloc(16 * MIB, copies);
    park(b, 16 * MIB, copies);
    void *a = unit_malloc(16 * MIB, copies), *work = unit_malloc(4 * MIB, compute);
    uint64_t maps = simcuda_calls("cuMemMap"), unmaps = simcuda_calls("cuMemUnmap");
    CUevent event;
    assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
    for (uint32_t round = 0; round < 6; round++) {
        void *from = round % 2 == 0 ? a : b, *to = round % 2 == 0 ? b : a;
        if (round < 2)
            sleep_fill(from, 16 * MIB, round, compute); /* a: 0; b: 1 */
        else
            sleep_check(from, 16 * MIB, round % 2);
        assert_ok(tnr_record_use(from, compute));
        uint64_t waits = host_waits();
        assert_ok(tnr_park(NULL, from, copies, TNR_CONTENT_KEEP));
        assert_int_equal(host_waits(), waits);
        sleep_fill(work, 4 * MIB, 2 * round, compute);
        assert_int_equal(cuStreamSynchronize(compute), CUDA_SUCCESS);
        sleep_check(work, 4 * MIB, 2 * round);
        assert_true(simcuda_pending() > 0); /* the copy out */
        waits = host_waits();
        assert_ok(tnr_unpark(to, copies));
        assert_int_equal(host_waits(), waits);
        assert_int_equal(cuEventRecord(event, copies), CUDA_SUCCESS);
        sleep_fill(work, 4 * MIB, 2 * round + 1, compute);
        assert_int_equal(cuStreamSynchronize(compute), CUDA_SUCCESS);
        sleep_check(work, 4 * MIB, 2 * round + 1);
        assert_true(simcuda_pending() > 1); /* that, and the copy back */
        assert_int_equal(cuStreamWaitEvent(compute, event, 0), CUDA_SUCCESS);
        if (round > 0)
            assert_int_equal(cuStreamSynchronize(compute), CUDA_SUCCESS);
        assert_int_equal(unit_stats().bytes_parked_away, 16 * MIB);
    }
    assert_int_equal(simcuda_calls("cuMemMap"), maps);
    assert_int_equal(simcuda_calls("cuMemUnmap"), unmaps);
    assert_int_equal(unit_stats().reserved_bytes.current, 20 * MIB);
    assert_int_equal(unit_stats().park_waits, 0);
    assert_true(sleep_pinned_bytes() < 2 * 32 * MIB);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
    end();
}

/* Contents of many blocks pin what they have, and not a buffer of 32 MiB each. What was made ready
 * serves them first. */
static void contents_of_many(void **state)
{
    (void)state;
    enum { BLOCKS = 24 };
    for (size_t ready = 0; ready < 2; ready++) {
        start("chunk_max_mb:4", "SCHEDULE=lazy");
        tnr_stream stream = unit_stream(0);
        void *blocks[BLOCKS];
        assert_ok(tnr_sleep_prepare(ready * 32 * MIB, 0));
        for (uint32_t i = 0; i < BLOCKS; i++) {
            blocks[i] = unit_malloc(2 * MIB + i * 512, stream);
            sleep_fill(blocks[i], 2 * MIB + i * 512, i, stream);
            assert_ok(tnr_park(NULL, blocks[i], stream, TNR_CONTENT_KEEP));
            assert_true(i > 0 || !ready || sleep_pinned_bytes() == 32 * MIB);
        }
        size_t pinned = sleep_pinned_bytes();
        assert_true(pinned <= (BLOCKS * 2 + 32 + 24) * MIB);
        for (int round = 0; round < 3; round++) /* the host runs ahead of the copies */
            for (uint32_t i = 0; i < BLOCKS; i++) {
                assert_ok(tnr_unpark(blocks[i], stream));
                assert_ok(tnr_park(NULL, blocks[i], stream, TNR_CONTENT_KEEP));
            }
        assert_int_equal(sleep_pinned_bytes(), pinned);
        for (uint32_t i = 0; i < BLOCKS; i++)
            assert_ok(tnr_unpark(blocks[i], stream));
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        for (uint32_t i = 0; i < BLOCKS; i++)
            sleep_check(blocks[i], 2 * MIB + i * 512, i);
        assert_ok(ready ? tnr_trim(NULL, 0, TNR_HOST(0)) : tnr_sleep_prepare(0, 0));
        assert_int_equal(sleep_pinned_bytes(), ready * 32 * MIB);
        end();
    }
}

/* Contents of a block that is parked while its pool sleeps. */
static void contents_sleep(void **state)
{
    (void)state;
    start(NULL, "SCHEDULE=lazy");
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(8 * MIB, stream);
    sleep_fill(a, 8 * MIB, 1, stream);
    assert_ok(tnr_block_content_set(a, TNR_CONTENT_KEEP));
    assert_ok(tnr_park(NULL, a, stream, TNR_CONTENT_DEFAULT));
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_int_equal(sleep_device_bytes(), 0);
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_ok(tnr_unpark(a, stream));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(a, 8 * MIB, 1);
    assert_ok(tnr_block_content_set(a, TNR_CONTENT_DISCARD));
    uint64_t copies = simcuda_calls("cuMemcpyDtoHAsync");
    assert_ok(tnr_park(NULL, a, stream, TNR_CONTENT_DEFAULT));
    assert_int_equal(simcuda_calls("cuMemcpyDtoHAsync"), copies);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(contents, unit_stop),
        cmocka_unit_test_teardown(contents_early, unit_stop),
        cmocka_unit_test_teardown(contents_beside, unit_stop),
        cmocka_unit_test_teardown(contents_of_many, unit_stop),
        cmocka_unit_test_teardown(contents_sleep, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
