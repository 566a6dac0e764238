/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned allocation: every power of two up to 1 GiB is kept, at every size, from free runs and
 * from new memory, and what the alignment skips stays usable.
 *
 * In block_fit (world.c), the lead computed from `alignment / 2`: every_alignment failed.
 */
#include "unit.h"

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
            assert_ok(tnr_block_get((char *)blocks[i] + sizes[i] - 1, &info));
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
    assert_ok(tnr_trim(0, 0, NULL));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
}

/* The gap below an aligned block serves others. */
static void the_gap_is_not_lost(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *first = unit_malloc(512, NULL);
    void *aligned;
    assert_ok(tnr_malloc_aligned(&aligned, 512, 64 * KIB, 0, NULL));
    uint64_t reserved = unit_stats().reserved_bytes.current;
    size_t between = (size_t)((char *)aligned - (char *)first) - 512;
    if (between > 0)
        assert_true(unit_malloc(between, NULL) < aligned);
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
        cmocka_unit_test_teardown(the_gap_is_not_lost, unit_stop),
        cmocka_unit_test_teardown(bins_do_not_serve_alignments, unit_stop),
        cmocka_unit_test_teardown(bad_alignments, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
