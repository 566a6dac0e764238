/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks of TNRI_PLACED_BYTES and more lie: whole pages fill pages (miss/window.h), and what
 * comes out of a free run lies beside the larger neighbour (memory/arena/serve.h).
 *
 * Broken to see it fail. In tnri_plan_make_at, `at` is not set, or in tnri_window_find the second
 * search is left out, or `<=` behind it becomes `<`: whole_pages_fill_pages and
 * what_filled_pages_goes_back_whole; or that is not asked: a_place_that_lacks_less_comes_first. In
 * tnri_window_is_whole, without the bytes: smaller_blocks_lie_close; without tnri_arena_may_move:
 * where_nothing_moves_all_lie_close.
 *
 * In run_serve_end, `>` becomes `<`: beside_the_larger_neighbour and beside_the_only_neighbour;
 * without the bytes: beside_the_larger_neighbour; without tnri_arena_may_move, or in that, without
 * the account: from_below_where_nothing_moves. In run_beside, holes count:
 * beside_the_only_neighbour. In tnri_serve_index_placed, tnri_run_bytes_max is not asked, or in
 * tnri_conf_read conf_complete is left out: runs_that_may_not_be_split.
 */
#include "unit.h"

#include <tenure/capture.h>

#include "base/heuristics.h"

#define LARGE ((size_t)TNRI_PLACED_BYTES)
#define PAGE (2 * MIB)
#define STILL "move_percent:0,move_burst_ms:0" /* nothing moves */

/* The address of a new block. */
static uintptr_t place(size_t bytes)
{
    return (uintptr_t)unit_malloc(bytes, NULL);
}

static void whole_pages_fill_pages(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    uintptr_t first = place(512 * KIB);
    uintptr_t large = place(LARGE);
    assert_int_equal(large % PAGE, 0);
    assert_int_equal(large, (first & ~(PAGE - 1)) + PAGE);
    assert_int_equal(place(MIB), first + 512 * KIB); /* what it leaves out still serves */
    assert_int_equal(unit_stats().reserved_bytes.current, PAGE + LARGE);
    assert_int_equal(place(2 * LARGE), large + LARGE);
}

/* Elsewhere the first and the last page would have kept 2 MiB. */
static void what_filled_pages_goes_back_whole(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    (void)place(512 * KIB);
    void *large = unit_malloc(LARGE, NULL);
    (void)place(512 * KIB);
    assert_ok(tnr_free(large));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, PAGE);
}

/* A page less is worth more than whole pages: between two blocks the ends of the place have memory.
 */
static void a_place_that_lacks_less_comes_first(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    (void)place(MIB);
    void *between = unit_malloc(LARGE + 512, NULL);
    (void)place(MIB - 512);
    assert_ok(tnr_free(between));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 2 * PAGE);
    assert_int_equal(place(LARGE), (uintptr_t)between);
    assert_int_equal(unit_stats().reserved_bytes.current, PAGE + LARGE);
}

static void where_nothing_moves_all_lie_close(void **state)
{
    (void)state;
    unit_start(STILL, NULL);
    uintptr_t end = place(512 * KIB) + 512 * KIB;
    assert_int_equal(place(LARGE), end);
}

static void smaller_blocks_lie_close(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    uintptr_t end = place(512 * KIB) + 512 * KIB;
    assert_int_equal(place(LARGE - PAGE), end);
    assert_int_equal(place(LARGE - MIB), end + LARGE - PAGE);
}

/* ---- beside the larger neighbour ------------------------------------------------------------ */

enum { SMALLER = 32, MIDDLE = 64, LARGER = 48 }; /* MiB: blocks side by side; the second is freed */

/* Where a block of so many bytes lies in what was freed, from its start. */
static size_t placed_in_middle(tnr_pool pool, size_t below, size_t above, size_t bytes)
{
    void *middle, *ptr;
    if (below > 0)
        assert_ok(tnr_pool_malloc(&ptr, pool, below * MIB, 0, NULL));
    assert_ok(tnr_pool_malloc(&middle, pool, MIDDLE * MIB, 0, NULL));
    if (above > 0) {
        assert_ok(tnr_pool_malloc(&ptr, pool, above * MIB, 0, NULL));
        assert_ptr_equal(ptr, (char *)middle + MIDDLE * MIB);
    }
    assert_ok(tnr_free(middle));
    assert_ok(tnr_pool_malloc(&ptr, pool, bytes, 0, NULL));
    return (uintptr_t)ptr - (uintptr_t)middle;
}

static void assert_placed(const char *conf, size_t below, size_t above, size_t bytes, size_t at)
{
    tnr_pool pool;
    unit_start(conf, NULL);
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_int_equal(placed_in_middle(pool, below, above, bytes), at);
    (void)unit_stats();
    unit_stop(NULL);
}

static void beside_the_larger_neighbour(void **state)
{
    (void)state;
    assert_placed(NULL, SMALLER, LARGER, LARGE, MIDDLE * MIB - LARGE);
    assert_placed(NULL, LARGER, SMALLER, LARGE, 0);
    assert_placed(NULL, SMALLER, SMALLER, LARGE, 0);
    assert_placed(NULL, SMALLER, LARGER, LARGE - 512, 0); /* it is not large */
    const char *split = "max_split_size_mb:1024"; /* all go the way of large blocks */
    assert_placed(split, SMALLER, LARGER, LARGE, MIDDLE * MIB - LARGE);
    assert_placed(split, SMALLER, LARGER, LARGE - 512, 0);
}

/* What is left lies beside a hole, or at the end of the addresses. */
static void beside_the_only_neighbour(void **state)
{
    (void)state;
    assert_placed(NULL, SMALLER, 0, LARGE, 0);
    assert_placed(NULL, 0, SMALLER, LARGE, MIDDLE * MIB - LARGE);
}

static void from_below_where_nothing_moves(void **state)
{
    (void)state;
    tnr_pool pool;
    assert_placed(STILL, SMALLER, LARGER, LARGE, 0);
    unit_start(NULL, NULL);
    assert_ok(tnr_vouched_pool_create(&pool, 0, NULL));
    assert_int_equal(placed_in_middle(pool, SMALLER, LARGER, LARGE), 0);
}

/* The setting comes into force, and goes, while blocks are there. */
static void runs_that_may_not_be_split(void **state)
{
    (void)state;
    unit_start("max_split_size_mb:32", NULL);
    void *large = unit_malloc(MIDDLE * MIB, NULL);
    assert_ok(tnr_free(large));
    assert_int_not_equal(place(LARGE), (uintptr_t)large);
    assert_int_not_equal(place(MIB), (uintptr_t)large);
    assert_ok(tnr_configure("max_split_size_mb:0"));
    assert_int_equal(place(MIB + 512), (uintptr_t)large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(whole_pages_fill_pages, unit_stop),
        cmocka_unit_test_teardown(what_filled_pages_goes_back_whole, unit_stop),
        cmocka_unit_test_teardown(a_place_that_lacks_less_comes_first, unit_stop),
        cmocka_unit_test_teardown(where_nothing_moves_all_lie_close, unit_stop),
        cmocka_unit_test_teardown(smaller_blocks_lie_close, unit_stop),
        cmocka_unit_test_teardown(beside_the_larger_neighbour, unit_stop),
        cmocka_unit_test_teardown(beside_the_only_neighbour, unit_stop),
        cmocka_unit_test_teardown(from_below_where_nothing_moves, unit_stop),
        cmocka_unit_test_teardown(runs_that_may_not_be_split, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
