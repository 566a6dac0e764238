/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What growing costs in driver time, by the simulated device's table of an H200 (modelled), beside
 * cuMemAlloc of the same bytes by the same table; and that a steady state costs no driver call.
 *
 * Seen to fail with the rules of chunk_bytes_most (miss/chunk_size.c) taken out, each by itself:
 * 256 MiB then cost 91 times as much as cuMemAlloc, 12 MiB became chunks of 2, and 130 MiB too.
 * With chunk_exact_mb:16 as the default, 12 MiB became three chunks instead of six.
 */
#include "unit.h"

static int start(void **state)
{
    (void)state;
    unit_start("address_space_gb:1024", "SCHEDULE=eager", NULL);
    return 0;
}

/* Modelled nanoseconds of cuMemAlloc. */
static uint64_t alloc_ns(size_t bytes)
{
    CUdeviceptr ptr;
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    uint64_t before = simcuda_modelled_ns("cuMemAlloc");
    assert_int_equal(cuMemAlloc(&ptr, bytes), CUDA_SUCCESS);
    uint64_t after = simcuda_modelled_ns("cuMemAlloc");
    assert_int_equal(cuMemFree(ptr), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    return after - before;
}

/* Modelled nanoseconds of a first block of so many bytes, with all that it needs of the driver. */
static uint64_t growth_ns(size_t bytes)
{
    tnr_stream stream = unit_stream(0);
    uint64_t before = simcuda_modelled_ns("*");
    void *ptr = unit_malloc(bytes, stream);
    uint64_t after = simcuda_modelled_ns("*");
    assert_ok(tnr_free(ptr));
    size_t released;
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    return after - before;
}

static void test_one_block_costs_what_the_driver_costs(void **state)
{
    (void)state;
    static const size_t sizes[] = {4 * GIB, 6 * GIB, 64 * GIB};
    (void)growth_ns(MIB); /* puts the device into use */
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t ours = growth_ns(sizes[i]);
        uint64_t driver = alloc_ns(sizes[i]);
        print_message("%6zu MiB: %8llu ns, cuMemAlloc %8llu ns: %.2f\n", sizes[i] / MIB,
                      (unsigned long long)ours, (unsigned long long)driver,
                      (double)ours / (double)driver);
        assert_true(ours * 10 <= driver * 13);
    }
}

/* A program that has 16 GiB and grows by a 4 GiB block more pays no more for it. */
static void test_growth_of_a_large_program(void **state)
{
    (void)state;
    void *blocks[5];
    tnr_stream stream = unit_stream(0);
    for (int i = 0; i < 4; i++)
        blocks[i] = unit_malloc(4 * GIB, stream);
    uint64_t before = simcuda_modelled_ns("*");
    blocks[4] = unit_malloc(4 * GIB, stream);
    uint64_t ours = simcuda_modelled_ns("*") - before;
    assert_true(ours * 10 <= alloc_ns(4 * GIB) * 13);
    for (int i = 0; i < 5; i++)
        assert_ok(tnr_free(blocks[i]));
}

static uint64_t chunks_for(size_t bytes, tnr_stream stream)
{
    uint64_t had = unit_stats().chunks_created;
    (void)unit_malloc(bytes, stream);
    return unit_stats().chunks_created - had;
}

/* A chunk is at most 1/chunk_share of what will be mapped, as a power of two of pages; a block of
 * at least chunk_whole_mb is one. */
static void test_chunks_of_a_share(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    assert_int_equal(chunks_for(30 * MIB, stream), 15); /* of 2 MiB, the least */
    assert_int_equal(chunks_for(4 * GIB, stream), 1);   /* whole */
    assert_int_equal(chunks_for(30 * MIB, stream), 15); /* of 2; 4,126 / 2048 is 2 */
    assert_int_equal(chunks_for(1202 * MIB, stream), 601);
    assert_ok(tnr_configure("chunk_share:384"));
    assert_int_equal(chunks_for(30 * MIB, stream), 5); /* of 8 MiB and less; 5,388 / 384 is 14 */
    assert_ok(tnr_configure("chunk_share:2048"));
}

/* Where chunk_exact_mb allows it, blocks of a size that is a multiple of 4 MiB are made of chunks
 * of 4 MiB, which fill the next such block; others, and all by default, of the share's. */
static void test_chunks_that_fill_the_request(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    assert_int_equal(chunks_for(12 * MIB, stream), 6);
    assert_ok(tnr_configure("chunk_exact_mb:16"));
    assert_int_equal(chunks_for(12 * MIB, stream), 3);
    assert_int_equal(chunks_for(10 * MIB, stream), 5);
    assert_ok(tnr_configure("chunk_exact_mb:2"));
}

/* Filling 80 GiB with blocks of 64 MiB takes less than 0.3 s of the driver's time. */
static void test_growth_by_equal_blocks(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    uint64_t before = simcuda_modelled_ns("*");
    for (int i = 0; i < 80 * 16; i++)
        (void)unit_malloc(64 * MIB, stream);
    uint64_t ours = simcuda_modelled_ns("*") - before;
    print_message("80 GiB: %8llu us in %llu chunks\n", (unsigned long long)ours / 1000,
                  (unsigned long long)unit_stats().chunks_created);
    assert_true(ours < 300 * 1000 * 1000);
}

/* What the first allocations ask of the driver: the context, addresses, one chunk; then a chunk. */
static void test_first_allocations(void **state)
{
    (void)state;
    tnr_stream stream = (tnr_stream)1; /* the legacy stream, which the fixture need not make */
    simcuda_calls_reset();
    void *first = unit_malloc(MIB, NULL);
    assert_int_equal(simcuda_calls_total(), 9);
    simcuda_calls_reset();
    void *second = unit_malloc(MIB, (tnr_stream)2);
    assert_int_equal(simcuda_calls_total(), 5);
    simcuda_calls_reset();
    void *third = unit_malloc(MIB, stream); /* the same as null */
    assert_int_equal(simcuda_calls_total(), 0);
    assert_ok(tnr_free(first));
    assert_ok(tnr_free(second));
    assert_ok(tnr_free(third));
}

static void test_steady_state_makes_no_driver_call(void **state)
{
    (void)state;
    enum { STEPS = 50, BLOCKS = 200 };
    tnr_stream stream = unit_stream(0);
    uint64_t calls = 0;
    for (int step = 0; step < STEPS; step++) {
        uint64_t random = 7;
        void *blocks[BLOCKS];
        if (step == STEPS / 2)
            calls = simcuda_calls_total();
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] =
                unit_malloc(512 + unit_below(&random, 1 << unit_below(&random, 26)), stream);
        for (int i = 0; i < BLOCKS; i++)
            assert_ok(tnr_free(blocks[(i * 7) % BLOCKS]));
    }
    assert_int_equal(simcuda_calls_total(), calls);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, unit_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_one_block_costs_what_the_driver_costs),
        CASE(test_growth_of_a_large_program),
        CASE(test_chunks_of_a_share),
        CASE(test_growth_by_equal_blocks),
        CASE(test_chunks_that_fill_the_request),
        CASE(test_first_allocations),
        CASE(test_steady_state_makes_no_driver_call),
    };
    return cmocka_run_group_tests_name("growth", tests, NULL, NULL);
}
