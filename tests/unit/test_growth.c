/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What growing costs in driver time, by the simulated device's table of an H200 (modelled), beside
 * cuMemAlloc of the same bytes by the same table; and that a steady state costs no driver call.
 *
 * Seen to fail with the rules of chunk_bytes_most (ladder/chunk_size.c) taken out, each by itself:
 * 256 MiB then cost 91 times as much as cuMemAlloc, 12 MiB became chunks of 2, and 130 MiB too.
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
    static const size_t sizes[] = {256 * MIB, GIB, 4 * GIB, 6 * GIB, 64 * GIB};
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

static void block_passes(size_t bytes, tnr_stream stream)
{
    size_t released;
    assert_ok(tnr_free(unit_malloc(bytes, stream)));
    assert_ok(tnr_trim(&released, 0, 0));
}

/* The stream has freed so much that it gets chunks of the share alone. A block stays: with no
 * memory at all it would begin anew. Returns how many chunks were created. */
static uint64_t stream_freed(size_t bytes, tnr_stream stream)
{
    (void)unit_malloc(2 * MIB, stream);
    block_passes(bytes, stream);
    return unit_stats().chunks_created;
}

/* A block that is much of what is mapped, but not most of it, is made of chunks of six times the
 * share, by default 1/64 of what is mapped: a block that later lies in a corner of one keeps no
 * more than that. */
static void test_chunks_of_much(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    uint64_t had = stream_freed(8 * GIB, stream);
    void *most = unit_malloc(258 * MIB, stream);
    assert_int_equal(unit_stats().chunks_created - had, 2);
    void *much = unit_malloc(66 * MIB, stream);
    assert_int_equal(unit_stats().chunks_created - had, 2 + 16 + 1);
    void *whole = unit_malloc(4 * GIB, stream);
    assert_int_equal(unit_stats().chunks_created - had, 2 + 17 + 1);
    void *larger = unit_malloc(1538 * MIB, stream);
    assert_int_equal(unit_stats().chunks_created - had, 2 + 17 + 1 + 24 + 1);
    assert_ok(tnr_configure("chunk_share:2048"));
    void *finer = unit_malloc(1202 * MIB, stream);
    assert_int_equal(unit_stats().chunks_created - had, 2 + 17 + 1 + 25 + 75 + 1);
    assert_ok(tnr_configure("chunk_share:384"));
    assert_ok(tnr_free(finer));
    assert_ok(tnr_free(most));
    assert_ok(tnr_free(much));
    assert_ok(tnr_free(whole));
    assert_ok(tnr_free(larger));
}

static uint64_t chunks_for(size_t bytes, tnr_stream stream)
{
    uint64_t had = unit_stats().chunks_created;
    (void)unit_malloc(bytes, stream);
    return unit_stats().chunks_created - had;
}

/* A stream that has freed next to nothing gets chunks as large as its requests, up to 16 MiB and
 * twenty times the share. One that has freed 1/64 of what it has live does not, until it has lost
 * all its memory and begins anew. */
static void test_chunks_of_a_stream_that_loads(void **state)
{
    (void)state;
    size_t released;
    tnr_stream loads = unit_stream(0), other = unit_stream(0), again = unit_stream(0);
    (void)stream_freed(4 * GIB, other);
    (void)unit_malloc(GIB, loads);
    assert_int_equal(chunks_for(30 * MIB, loads), 4);  /* of 16, 8, 4 and 4 MiB: one more */
    assert_int_equal(chunks_for(30 * MIB, other), 15); /* of the share, 1/384 */
    assert_int_equal(chunks_for(102 * MIB, loads), 7); /* six of 16 */
    assert_ok(tnr_configure("chunk_share:4096"));
    assert_int_equal(chunks_for(30 * MIB, loads), 8); /* of 4, as 20/4096 allows */
    assert_ok(tnr_configure("chunk_share:384"));
    assert_ok(tnr_free(unit_malloc(30 * MIB, loads)));
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(chunks_for(30 * MIB, loads), 5); /* of 8, four times the share */
    block_passes(GIB, again);
    (void)unit_malloc(GIB, again);
    assert_in_range(chunks_for(30 * MIB, again), 3, 4); /* the others may lend some */
}

/* A stream gets chunks of four times the share, and for a request of 1/32 of what is mapped of
 * twice the share, but of no more than 1/64 of what is mapped. Of the share alone, if it has freed
 * more than sixteen times what it has live, and four times, where the request is large. */
static void test_chunks_by_what_was_freed(void **state)
{
    (void)state;
    size_t released;
    tnr_stream stream = unit_stream(0);
    (void)unit_malloc(GIB, stream);
    assert_ok(tnr_free(unit_malloc(30 * MIB, stream)));
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(chunks_for(30 * MIB, stream), 5);   /* of 8 MiB and less */
    assert_int_equal(chunks_for(102 * MIB, stream), 25); /* of 4 */
    assert_ok(tnr_configure("chunk_share:128"));
    assert_int_equal(chunks_for(34 * MIB, stream), 3); /* of 16, not 32 */
    assert_ok(tnr_configure("chunk_share:384"));
    block_passes(6 * GIB, stream);
    assert_int_equal(chunks_for(30 * MIB, stream), 2);   /* of 8: 14 MiB were left */
    assert_int_equal(chunks_for(102 * MIB, stream), 51); /* of 2 */
    block_passes(30 * GIB, stream);
    assert_int_equal(chunks_for(30 * MIB, stream), 15);
}

/* A chunk may reach over the end of a window: within twice the share, if the stream has freed no
 * more than it has live, and within the share if it has. The next block needs no chunk then. */
static void test_chunks_that_reach_over(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    (void)unit_malloc(GIB, stream);
    assert_int_equal(chunks_for(2 * MIB, stream), 1); /* of 4 MiB */
    assert_int_equal(chunks_for(2 * MIB, stream), 0);
    block_passes(2 * GIB, stream);
    assert_int_equal(chunks_for(2 * MIB, stream), 1); /* of 2 MiB */
    assert_int_equal(chunks_for(2 * MIB, stream), 1);
}

/* Blocks of a size that is a multiple of 4 MiB are made of chunks of 4 MiB, which fill the next
 * such block; others of the share's. While the stream loads, chunks may be four times as large as
 * chunk_exact_mb says, up to a hundred times the share. */
static void test_chunks_that_fill_the_request(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    void *exact = unit_malloc(12 * MIB, stream);
    assert_int_equal(unit_stats().chunks_created, 3);
    void *other = unit_malloc(10 * MIB, stream);
    assert_int_equal(unit_stats().chunks_created, 3 + 5);
    assert_ok(tnr_configure("chunk_exact_mb:2"));
    void *small = unit_malloc(12 * MIB, stream);
    assert_int_equal(unit_stats().chunks_created, 3 + 5 + 3);
    assert_ok(tnr_free(exact));
    void *passed = unit_malloc(20 * MIB, stream);
    assert_int_equal(unit_stats().chunks_created, 3 + 5 + 3 + 4);
    assert_ok(tnr_free(other));
    assert_ok(tnr_free(small));
    assert_ok(tnr_free(passed));
}

/* 1 GiB in 16 blocks costs what cuMemAlloc of them costs, and half as much more. */
static void test_growth_by_equal_blocks(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    uint64_t before = simcuda_modelled_ns("*");
    for (int i = 0; i < 16; i++)
        (void)unit_malloc(64 * MIB, stream);
    uint64_t ours = simcuda_modelled_ns("*") - before;
    print_message("%6u MiB: %8llu ns, cuMemAlloc %8llu ns\n", 1024U, (unsigned long long)ours,
                  16ULL * alloc_ns(64 * MIB));
    assert_true(ours * 10 <= 16 * alloc_ns(64 * MIB) * 13);
    assert_int_equal(unit_stats().chunks_created, 17); /* the third is made of two */
    assert_int_equal(chunks_for(128 * MIB, stream), 2);
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
        CASE(test_chunks_of_much),
        CASE(test_chunks_of_a_stream_that_loads),
        CASE(test_chunks_by_what_was_freed),
        CASE(test_chunks_that_reach_over),
        CASE(test_growth_by_equal_blocks),
        CASE(test_chunks_that_fill_the_request),
        CASE(test_first_allocations),
        CASE(test_steady_state_makes_no_driver_call),
    };
    return cmocka_run_group_tests_name("growth", tests, NULL, NULL);
}
