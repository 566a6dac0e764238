/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which runs give their chunks to a window: in each arena those that keep least beside what they
 * give.
 *
 * With run_keeps_less always 0, so that the smallest runs give first, all failed but
 * many_runs_give. With one round in world_donate, many_runs_give failed.
 */
#include "unit.h"

/* Blocks beside each other, in MiB: three runs between blocks that stay, and one to lend. SMALL is
 * a page and half of one below it, the other two are pages. */
enum { STAYS_0, SMALL, STAYS_1, LARGE_1, STAYS_2, LARGE_2, STAYS_3, LENT, STAYS_4, BLOCKS };
static const size_t mib[BLOCKS] = {1, 3, 2, 4, 2, 4, 2, 2, 2};
enum { WANTED_MIB = 6, MANY = 40 };

static void *blocks[BLOCKS];

static int donors_setup(void **state)
{
    (void)state;
    unit_start("chunk_exact_mb:2,chunk_share:65536,move_burst_ms:100000", NULL);
    return 0;
}

static void blocks_make(tnr_stream stream)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = unit_malloc(mib[i] * MIB, stream);
        if (i > 0)
            assert_ptr_equal(blocks[i], (char *)blocks[i - 1] + mib[i - 1] * MIB);
    }
}

/* Frees the runs and asks for what none of them can serve; three pages move. A block of 3 MiB then
 * goes to the run that has been passed by. */
static void runs_give(tnr_stream stream, tnr_stream wanting)
{
    assert_ok(tnr_free(blocks[SMALL]));
    assert_ok(tnr_free(blocks[LARGE_1]));
    assert_ok(tnr_free(blocks[LARGE_2]));
    uint64_t creations = simcuda_calls("cuMemCreate");
    (void)unit_malloc(WANTED_MIB * MIB, wanting);
    assert_int_equal(unit_stats().chunks_moved, 3);
    assert_ptr_equal(unit_malloc(mib[SMALL] * MIB, stream), blocks[SMALL]);
    assert_int_equal(simcuda_calls("cuMemCreate"), creations);
}

static void what_keeps_least_gives(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    blocks_make(stream);
    runs_give(stream, stream);
}

static void also_where_streams_trade(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    tnr_stream other = unit_stream(0);
    blocks_make(stream);
    assert_ok(tnr_free(blocks[LENT]));
    assert_ptr_equal(unit_malloc(mib[LENT] * MIB, other), blocks[LENT]);
    runs_give(stream, stream);
}

static void also_to_another_stream(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    blocks_make(stream);
    runs_give(stream, unit_stream(0));
}

/* More runs than are put in order at once. */
static void many_runs_give(void **state)
{
    (void)state;
    tnr_stream stream = unit_stream(0);
    void *runs[MANY];
    for (int i = 0; i < MANY; i++) {
        (void)unit_malloc(MIB, stream);
        runs[i] = unit_malloc(3 * MIB, stream);
    }
    (void)unit_malloc(2 * MIB, stream); /* so that the window is apart from them */
    for (int i = 0; i < MANY; i++)
        assert_ok(tnr_free(runs[i]));
    uint64_t reserved = unit_stats().reserved_bytes.current;
    (void)unit_malloc(2 * MANY * MIB, stream);
    assert_int_equal(unit_stats().chunks_moved, MANY);
    assert_int_equal(unit_stats().reserved_bytes.current, reserved);
}

int main(void)
{
#define DONORS_TEST(name) cmocka_unit_test_setup_teardown(name, donors_setup, unit_stop)
    const struct CMUnitTest tests[] = {
        DONORS_TEST(what_keeps_least_gives),
        DONORS_TEST(also_where_streams_trade),
        DONORS_TEST(also_to_another_stream),
        DONORS_TEST(many_runs_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
