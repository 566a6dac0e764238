/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bins: a freed small block is handed out again for the same size, newest first and without a
 * driver call; bins are bounded, hold one large block at most, and are emptied before memory grows.
 *
 * In tnri_world_unbin, the test of the size removed: sizes_that_share_a_slot failed. In
 * tnri_bin_pop, the clearing of the slot left out: sizes_that_share_a_slot failed. In
 * serve_unbinned, without the flush: the_large_block_freed_last failed. In tnri_world_evict, a
 * flush: one_goes_for_one failed. In serve_unbinned, `passed_bytes` never looked at:
 * a_large_size_that_comes_again failed.
 */
#include "unit.h"

#include "memory/arena/world.h"

static uint64_t served(tnr_served how)
{
    return unit_stats().served[how];
}

static void same_size_newest_first(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *a = unit_malloc(4096, NULL);
    void *b = unit_malloc(4000, NULL); /* the same size once rounded */
    void *c = unit_malloc(512, NULL);
    assert_ok(tnr_free(a));
    assert_ok(tnr_free(b));
    assert_ok(tnr_free(c));
    assert_int_equal(unit_stats().bytes_binned, 4096 + 4096 + 512);
    uint64_t calls = simcuda_calls_total();
    assert_ptr_equal(unit_malloc(4096, NULL), b);
    assert_ptr_equal(unit_malloc(3700, NULL), a);
    assert_ptr_equal(unit_malloc(1, NULL), c);
    assert_int_equal(simcuda_calls_total(), calls);
    assert_int_equal(served(TNR_SERVED_BIN), 3);
    assert_int_equal(unit_stats().bytes_binned, 0);
    assert_int_equal(unit_stats().bytes_live, 4096 + 3700 + 1);
}

/* Sizes of u and of 1024 + (u ^ 1) units fall into one slot of the hash (tnri_bin_slot); one of
 * them in a bin must not be handed out for the other. */
static void sizes_that_share_a_slot(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    for (size_t units = 2; units < 1024; units++) {
        size_t other = 1024 + (units ^ 1);
        tnr_block_info info;
        void *small = unit_malloc(512 * units, NULL);
        assert_ok(tnr_free(small));
        void *large = unit_malloc(512 * other, NULL);
        assert_ok(tnr_block_get(&info, large));
        assert_int_equal(info.bytes, 512 * other);
        assert_ok(tnr_free(large));
        small = unit_malloc(512 * units, NULL);
        assert_ok(tnr_block_get(&info, small));
        assert_int_equal(info.bytes, 512 * units);
        assert_ok(tnr_free(small));
        assert_ok(tnr_validate(0));
    }
    (void)unit_stats();
}

static void bins_are_bounded(void **state)
{
    (void)state;
    enum { BLOCKS = 100 };
    unit_start("bin_blocks:4", NULL);
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(512 * (1 + i % 7), NULL);
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_ok(tnr_free(blocks[i]));
        assert_true(unit_stats().bytes_binned <= 4 * 512 * 7);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(512 * (1 + i % 5), NULL);
    (void)unit_stats();
}

static void none(void **state)
{
    (void)state;
    unit_start("bin_blocks:0", NULL);
    assert_ok(tnr_free(unit_malloc(4096, NULL)));
    assert_int_equal(unit_stats().bytes_binned, 0);
    (void)unit_malloc(4096, NULL);
    assert_int_equal(served(TNR_SERVED_INDEX), 1);
    unit_start("small_limit_kb:1024", NULL);
    assert_ok(tnr_free(unit_malloc(MIB, NULL)));
    assert_int_equal(unit_stats().bytes_binned, MIB); /* the largest small one */
}

/* The large world keeps the block freed last, until another size is asked for. */
static void the_large_block_freed_last(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *a = unit_malloc(4 * MIB, NULL);
    void *b = unit_malloc(4 * MIB, NULL);
    assert_ok(tnr_free(a));
    assert_int_equal(unit_stats().bytes_binned, 4 * MIB);
    assert_ok(tnr_free(b)); /* which merges the other */
    assert_int_equal(unit_stats().bytes_binned, 4 * MIB);
    assert_ptr_equal(unit_malloc(4 * MIB, NULL), b);
    assert_int_equal(served(TNR_SERVED_BIN), 1);
    assert_ok(tnr_free(b));
    uint64_t calls = simcuda_calls_total();
    assert_ptr_equal(unit_malloc(8 * MIB, NULL), a); /* both, in one piece */
    assert_int_equal(simcuda_calls_total(), calls);
    assert_int_equal(served(TNR_SERVED_INDEX), 1);
    assert_int_equal(unit_stats().bytes_binned, 0);
}

/* Where sizes alternate the large world stops keeping blocks; a size that comes again, with no
 * other in between, is served from there once more. */
static void a_large_size_that_comes_again(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *rest = unit_malloc(64 * MIB, NULL); /* from which all is carved */
    assert_ok(tnr_free(rest));
    for (size_t i = 0; i < 4 * TNRI_BIN_MISSES; i++)
        assert_ok(tnr_free(unit_malloc((2 + i % 2) * MIB, NULL)));
    assert_int_equal(unit_stats().bytes_binned, 0);
    uint64_t before = served(TNR_SERVED_BIN);
    for (int i = 0; i < 3; i++)
        assert_ok(tnr_free(unit_malloc(5 * MIB, NULL)));
    assert_int_equal(served(TNR_SERVED_BIN), before + 1);
    assert_int_equal(unit_stats().bytes_binned, 5 * MIB);
}

/* A full bin makes room for one block by merging one, not all. */
static void one_goes_for_one(void **state)
{
    (void)state;
    enum { BLOCKS = 9 };
    unit_start("bin_blocks:8", NULL);
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(512 * (1 + i), NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_int_equal(unit_stats().bytes_binned, 512 * (45 - 1));
    for (size_t i = BLOCKS; i-- > 1;)
        assert_ptr_equal(unit_malloc(512 * (1 + i), NULL), blocks[i]);
    assert_int_equal(served(TNR_SERVED_BIN), 8);
}

/* Binned blocks lie in the way of a larger one: they are merged, and no memory is taken. */
static void bins_are_flushed_before_growth(void **state)
{
    (void)state;
    unit_start("small_limit_kb:1024", NULL);
    void *blocks[16]; /* fill the one chunk of 2 MiB */
    for (size_t i = 0; i < 16; i++)
        blocks[i] = unit_malloc(128 * KIB, NULL);
    for (size_t i = 0; i < 16; i++)
        assert_ok(tnr_free(blocks[i]));
    uint64_t reserved = unit_stats().reserved_bytes.current;
    assert_int_equal(unit_stats().bytes_binned, 2 * MIB);
    (void)unit_malloc(MIB, NULL);
    assert_int_equal(unit_stats().reserved_bytes.current, reserved);
    assert_int_equal(served(TNR_SERVED_FLUSH), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(same_size_newest_first, unit_stop),
        cmocka_unit_test_teardown(sizes_that_share_a_slot, unit_stop),
        cmocka_unit_test_teardown(bins_are_bounded, unit_stop),
        cmocka_unit_test_teardown(the_large_block_freed_last, unit_stop),
        cmocka_unit_test_teardown(a_large_size_that_comes_again, unit_stop),
        cmocka_unit_test_teardown(one_goes_for_one, unit_stop),
        cmocka_unit_test_teardown(none, unit_stop),
        cmocka_unit_test_teardown(bins_are_flushed_before_growth, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
