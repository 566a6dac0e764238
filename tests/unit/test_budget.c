/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pool does when its moving budget is used up (device/budget.h): it grows by a little, but
 * moves on for a while where it would grow by much.
 *
 * Broken to see it fail: tnri_device_may_move does not look at `is_much`
 * (much_is_moved_for_some_bursts); ladder_moves says that all is much (a_little_grows); it adds a
 * burst too many or too few (much_is_moved_for_some_bursts).
 */
#include "unit.h"

#include "base/heuristics.h"

enum {
    CHUNK_MIB = 2,
    MUCH_MIB = 64, /* more than a pool of that size would rather grow by */
    LITTLE_MIB = 8,
    BURST_MS = 1, /* less than the moves of MUCH_MIB take, more than half of them */
};
#define CONF "move_burst_ms:1,move_percent:0,chunk_exact_mb:2,chunk_max_mb:2"

static void start(void)
{
    uint64_t much_ns = (uint64_t)MUCH_MIB / CHUNK_MIB * TNRI_MOVE_NS;
    assert_in_range(BURST_MS * 1000000, much_ns / 2 + 1, much_ns - 1);
    unit_start(CONF, NULL);
}

/* Makes so many MiB of holes of a chunk each between blocks that stay, and asks for as much in one
 * piece. Returns 1 if chunks moved there, 0 if the pool grew. */
static int moves(int mib)
{
    void *blocks[2 * MUCH_MIB / CHUNK_MIB];
    int count = 2 * mib / CHUNK_MIB;
    for (int i = 0; i < count; i++)
        blocks[i] = unit_malloc(CHUNK_MIB * MIB, 0);
    for (int i = 0; i < count; i += 2)
        assert_ok(tnr_free(blocks[i]));
    tnr_stats before = unit_stats();
    (void)unit_malloc((size_t)mib * MIB, 0);
    tnr_stats after = unit_stats();
    uint64_t moved = after.chunks_moved - before.chunks_moved;
    uint64_t grown = (after.reserved_bytes.current - before.reserved_bytes.current) / MIB;
    assert_int_equal(moved * CHUNK_MIB + grown, mib);
    assert_true(moved == 0 || grown == 0);
    return moved > 0;
}

static void much_is_moved_for_some_bursts(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < TNRI_MUCH_BURSTS; i++)
        assert_true(moves(MUCH_MIB));
    assert_false(moves(MUCH_MIB));
}

static void a_little_grows(void **state)
{
    (void)state;
    start();
    assert_true(moves(LITTLE_MIB));
    assert_true(moves(MUCH_MIB)); /* uses the burst up */
    assert_false(moves(LITTLE_MIB));
    assert_true(moves(MUCH_MIB));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(much_is_moved_for_some_bursts, unit_stop),
        cmocka_unit_test_teardown(a_little_grows, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
