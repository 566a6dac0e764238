/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks of TNRI_PLACED_BYTES and more lie: whole pages fill pages (miss/window.h).
 *
 * Broken to see it fail. In tnri_plan_make_at, `at` is not set, or in tnri_window_find the second
 * search is left out, or `<=` behind it becomes `<`: whole_pages_fill_pages and
 * what_filled_pages_goes_back_whole; or that is not asked: a_place_that_lacks_less_comes_first. In
 * tnri_window_is_whole, without the bytes: smaller_blocks_lie_close; without tnri_arena_may_move:
 * where_nothing_moves_all_lie_close.
 */
#include "unit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(whole_pages_fill_pages, unit_stop),
        cmocka_unit_test_teardown(what_filled_pages_goes_back_whole, unit_stop),
        cmocka_unit_test_teardown(a_place_that_lacks_less_comes_first, unit_stop),
        cmocka_unit_test_teardown(where_nothing_moves_all_lie_close, unit_stop),
        cmocka_unit_test_teardown(smaller_blocks_lie_close, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
