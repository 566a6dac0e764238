/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned allocation. Every power of two up to 1 GiB is kept, at every size, from free runs and
 * from new memory. No more memory is mapped for an aligned block than for any other block of its
 * size. Memory that the alignment skips stays usable.
 *
 * In tnri_world_carve, the lead computed from `alignment / 2`: every_alignment failed. In
 * tnri_plan_make, the window sought for tnri_request_span at the default alignment: all seven on
 * the memory that it takes failed. In serve_index, a run of that size: a_place_in_a_free_run
 * failed. In world_offer, the same: another_streams_run failed.
 */
#include "unit.h"

#include <string.h>

static void every_alignment(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 512, 4097, 300 * KIB, MIB, 3 * MIB + 1};
    unit_start("address_space_gb:32", "MEMORY=8G", NULL);
    tnr_stream stream = unit_stream(0);
    for (size_t alignment = 1; alignment <= TNR_ALIGNMENT_MAX / 4; alignment *= 2) {
        void *blocks[6];
        for (size_t i = 0; i < 6; i++) {
            assert_ok(tnr_malloc_aligned(&blocks[i], sizes[i], alignment, 0, stream));
            assert_int_equal((uintptr_t)blocks[i] % alignment, 0);
            tnr_block_info info;
            assert_ok(tnr_block_get(&info, (char *)blocks[i] + sizes[i] - 1));
            assert_ptr_equal(info.base, blocks[i]);
            assert_int_equal(info.bytes_requested, sizes[i]);
        }
        (void)unit_stats();
        for (size_t i = 0; i < 6; i++)
            assert_ok(tnr_free(blocks[i]));
        (void)unit_stats();
    }
}

static void the_largest(void **state)
{
    (void)state;
    void *ptr;
    unit_start("address_space_gb:32", "MEMORY=4G", NULL);
    assert_ok(tnr_malloc_aligned(&ptr, 3 * MIB, TNR_ALIGNMENT_MAX, 0, NULL));
    assert_int_equal((uintptr_t)ptr % TNR_ALIGNMENT_MAX, 0);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
}

/* ---- the memory that it takes --------------------------------------------------------------- */

static size_t pages_of(size_t bytes)
{
    return (bytes + 2 * MIB - 1) & ~(2 * MIB - 1);
}

static void *aligned(size_t bytes, size_t alignment, tnr_stream stream)
{
    void *ptr;
    assert_ok(tnr_malloc_aligned(&ptr, bytes, alignment, 0, stream));
    assert_int_equal((uintptr_t)ptr % alignment, 0);
    return ptr;
}

static uint64_t reserved_now(void)
{
    return unit_stats().reserved_bytes.current;
}

static void only_its_bytes_are_mapped(void **state)
{
    (void)state;
    static const size_t sizes[] = {2 * MIB, 3 * MIB + 1, 6 * MIB, 64 * MIB, 100 * MIB + 512};
    unit_start("address_space_gb:32", "MEMORY=4G", NULL);
    for (size_t alignment = 4096; alignment <= TNR_ALIGNMENT_MAX; alignment *= 4)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            void *ptr = aligned(sizes[i], alignment, NULL);
            assert_int_equal(reserved_now(), pages_of(sizes[i]));
            assert_ok(tnr_free(ptr));
            assert_ok(tnr_trim(NULL, 0, 0));
            assert_int_equal(reserved_now(), 0);
        }
}

static void many_at_once(void **state)
{
    (void)state;
    enum { BLOCKS = 24 };
    void *blocks[BLOCKS];
    unit_start("address_space_gb:64", "MEMORY=4G", NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = aligned(4 * MIB, GIB >> i % 5, NULL);
    assert_int_equal(reserved_now(), BLOCKS * 4 * MIB);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(reserved_now(), 0);
}

/* What is left of a limit is enough for a block of just that, at any alignment. */
static void up_to_the_limit(void **state)
{
    (void)state;
    unit_start("address_space_gb:32", "MEMORY=4G", NULL);
    assert_ok(tnr_limit_set(64 * MIB, 0));
    for (size_t alignment = 2 * MIB; alignment <= TNR_ALIGNMENT_MAX; alignment *= 8) {
        void *ptr = aligned(64 * MIB, alignment, NULL);
        assert_int_equal(reserved_now(), 64 * MIB);
        assert_ok(tnr_free(ptr));
        assert_ok(tnr_trim(NULL, 0, 0));
    }
}

/* A free run that has such a place serves, however little larger than the block it is. */
static void a_place_in_a_free_run(void **state)
{
    (void)state;
    unit_start("address_space_gb:32", "MEMORY=4G", NULL);
    void *first = aligned(96 * MIB, 64 * MIB, NULL);
    assert_ok(tnr_free(first));
    uint64_t mapped = simcuda_calls("cuMemMap");
    void *ptr = aligned(64 * MIB, 64 * MIB, NULL);
    assert_ptr_equal(ptr, first);
    void *rest = aligned(16 * MIB, 16 * MIB, NULL);
    assert_ptr_equal(rest, (char *)first + 64 * MIB);
    assert_int_equal(simcuda_calls("cuMemMap"), mapped);
    assert_int_equal(unit_stats().served[TNR_SERVED_INDEX], 2);
    assert_int_equal(reserved_now(), 96 * MIB);
}

/* Free memory in pieces: its chunks move to the place, and no more are made than are missing. */
static void chunks_move_to_the_place(void **state)
{
    (void)state;
    enum { BLOCKS = 32 };
    void *blocks[BLOCKS];
    unit_start("address_space_gb:32,chunk_exact_mb:2", "MEMORY=4G", NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(4 * MIB, NULL);
    for (size_t i = 0; i < BLOCKS; i += 2)
        assert_ok(tnr_free(blocks[i]));
    assert_int_equal(reserved_now(), BLOCKS * 4 * MIB);
    void *ptr = aligned(48 * MIB, 256 * MIB, NULL);
    assert_int_equal(reserved_now(), BLOCKS * 4 * MIB);
    assert_true(unit_stats().chunks_moved > 0);
    void *more = aligned(48 * MIB, 256 * MIB, NULL);
    assert_int_equal(reserved_now(), BLOCKS * 4 * MIB + 32 * MIB);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_free(more));
}

/* Another stream's free run is lent for it, without what lies above the place. */
static void another_streams_run(void **state)
{
    (void)state;
    unit_start("address_space_gb:32,chunk_exact_mb:2", "MEMORY=4G", NULL);
    tnr_stream a = unit_stream(0);
    tnr_stream b = unit_stream(0);
    void *first = aligned(70 * MIB, 64 * MIB, a);
    void *second = aligned(8 * MIB, 8 * MIB, a);
    assert_ok(tnr_free(first));
    assert_ok(tnr_free(second));
    uint64_t mapped = simcuda_calls("cuMemMap");
    assert_ptr_equal(aligned(6 * MIB, 64 * MIB, b), (char *)first + 64 * MIB);
    assert_ptr_equal(aligned(8 * MIB, 8 * MIB, b), second);
    assert_int_equal(simcuda_calls("cuMemMap"), mapped);
    assert_int_equal(unit_stats().served[TNR_SERVED_LENT], 2);
    assert_int_equal(reserved_now(), 78 * MIB);
}

/* Whatever is free in whichever pieces, a request maps at most its own pages. */
static void random_requests(void **state)
{
    (void)state;
    enum { BLOCKS = 40, STEPS = 1500 };
    void *blocks[BLOCKS] = {NULL};
    tnr_stream streams[3];
    uint64_t random = 42;
    unit_start("address_space_gb:64", "MEMORY=8G", NULL);
    for (size_t i = 0; i < 3; i++)
        streams[i] = unit_stream(0);
    for (int step = 0; step < STEPS; step++) {
        size_t i = unit_below(&random, BLOCKS);
        if (blocks[i] != NULL) {
            assert_ok(tnr_free(blocks[i]));
            blocks[i] = NULL;
            continue;
        }
        size_t bytes = 1 + unit_below(&random, (size_t)1 << (12 + unit_below(&random, 13)));
        uint64_t before = reserved_now();
        blocks[i] =
            aligned(bytes, (size_t)512 << unit_below(&random, 22), streams[unit_below(&random, 3)]);
        memset(blocks[i], (int)i, bytes);
        uint64_t after = reserved_now();
        if (after > before + pages_of(bytes))
            fail_msg("step %d: %llu bytes were mapped for %zu", step,
                     (unsigned long long)(after - before), bytes);
    }
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* The gap below an aligned block serves others. */
static void the_gap_is_not_lost(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *first = unit_malloc(512, NULL);
    void *above = aligned(512, 64 * KIB, NULL);
    uint64_t reserved = unit_stats().reserved_bytes.current;
    size_t between = (size_t)((char *)above - (char *)first) - 512;
    if (between > 0)
        assert_true(unit_malloc(between, NULL) < above);
    assert_int_equal(unit_stats().reserved_bytes.current, reserved);
}

/* The bins know only sizes, so they never serve an alignment that they cannot promise. */
static void bins_do_not_serve_alignments(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *blocks[8];
    for (size_t i = 0; i < 8; i++)
        blocks[i] = unit_malloc(512, NULL);
    for (size_t i = 0; i < 8; i++)
        assert_ok(tnr_free(blocks[i]));
    for (size_t i = 0; i < 8; i++) {
        assert_ok(tnr_malloc_aligned(&blocks[i], 512, 4096, 0, NULL));
        assert_int_equal((uintptr_t)blocks[i] % 4096, 0);
    }
    (void)unit_stats();
}

static void bad_alignments(void **state)
{
    (void)state;
    static const size_t bad[] = {0, 3, 513, 768, TNR_ALIGNMENT_MAX * 2, SIZE_MAX, SIZE_MAX / 2 + 1};
    unit_start(NULL, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        void *ptr = &ptr;
        assert_error(tnr_malloc_aligned(&ptr, 1, bad[i], 0, NULL), TNR_ERR_INVALID_ALIGNMENT,
                     "power of two");
        assert_null(ptr);
        assert_error(tnr_malloc_aligned(NULL, 1, bad[i], 0, NULL), TNR_ERR_INVALID_ALIGNMENT, NULL);
    }
    void *ptr = &ptr;
    assert_ok(tnr_malloc_aligned(&ptr, 0, 4096, 0, NULL));
    assert_null(ptr);
    assert_error(tnr_malloc_aligned(&ptr, TNR_BYTES_MAX, TNR_ALIGNMENT_MAX, 0, NULL),
                 TNR_ERR_OUT_OF_MEMORY, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_alignment, unit_stop),
        cmocka_unit_test_teardown(the_largest, unit_stop),
        cmocka_unit_test_teardown(only_its_bytes_are_mapped, unit_stop),
        cmocka_unit_test_teardown(many_at_once, unit_stop),
        cmocka_unit_test_teardown(up_to_the_limit, unit_stop),
        cmocka_unit_test_teardown(a_place_in_a_free_run, unit_stop),
        cmocka_unit_test_teardown(chunks_move_to_the_place, unit_stop),
        cmocka_unit_test_teardown(another_streams_run, unit_stop),
        cmocka_unit_test_teardown(random_requests, unit_stop),
        cmocka_unit_test_teardown(the_gap_is_not_lost, unit_stop),
        cmocka_unit_test_teardown(bins_do_not_serve_alignments, unit_stop),
        cmocka_unit_test_teardown(bad_alignments, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
