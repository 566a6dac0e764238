/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits. No more than the limit is ever mapped, whoever asks and in however many pieces. A refused
 * request changes nothing.
 *
 * In account_charge (chunk.c), `now > limit - bytes` replaced by `now > limit`: the_device_s_limit
 * failed. In limit_excess (reclaim.c), 0 returned: the_excess_goes_first failed. In ladder_ascend,
 * tnri_device_short not called: a_full_device_is_seldom_asked failed. Peaks raised in
 * account_charge, or not at all: what_is_refused_is_no_peak failed.
 */
#include "unit.h"

static void the_device_s_limit(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    size_t limit;
    assert_ok(tnr_limit_get(&limit, 0));
    assert_true(limit == SIZE_MAX);
    assert_ok(tnr_limit_set(20 * MIB, 0));
    assert_ok(tnr_limit_get(&limit, 0));
    assert_int_equal(limit, 20 * MIB);
    assert_int_equal(unit_stats().limit_bytes, 20 * MIB);
    void *a = unit_malloc(12 * MIB, NULL);
    void *b = &a;
    assert_error(tnr_malloc(&b, 10 * MIB, 0, NULL), TNR_ERR_LIMIT, "tnr_limit_set");
    assert_null(b);
    assert_int_equal(unit_stats().reserved_bytes.current, 12 * MIB);
    assert_int_equal(unit_stats().num_ooms, 1);
    b = unit_malloc(8 * MIB, NULL);
    assert_error(tnr_malloc(&b, 1, 0, NULL), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_free(a));
    b = unit_malloc(11 * MIB, unit_stream(0)); /* from what is idle */
    assert_true(unit_stats().reserved_bytes.current <= 20 * MIB);
    assert_true(unit_stats().reserved_bytes.peak <= 20 * MIB);
}

/* A limit below what is mapped: nothing is taken away, nothing more is given. */
static void a_limit_below_what_is_mapped(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *a = unit_malloc(10 * MIB, NULL);
    void *b = NULL;
    assert_ok(tnr_limit_set(4 * MIB, 0));
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, a));
    assert_error(tnr_malloc(&b, 2 * MIB, 0, NULL), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_free(a));
    b = unit_malloc(2 * MIB, NULL); /* cached memory still serves */
    assert_ok(tnr_free(b));
    assert_ok(tnr_limit_set(0, 0));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_error(tnr_malloc(&b, 1, 0, NULL), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    (void)unit_malloc(1, NULL);
}

static void a_fraction_of_the_device(void **state)
{
    (void)state;
    size_t limit;
    unit_start("per_process_memory_fraction:0.25", "MEMORY=128M", NULL);
    assert_ok(tnr_limit_get(&limit, 0));
    assert_int_equal(limit, 32 * MIB);
    void *ptr = unit_malloc(30 * MIB, NULL);
    void *more;
    assert_error(tnr_malloc(&more, 4 * MIB, 0, NULL), TNR_ERR_LIMIT, "fraction");
    assert_ok(tnr_free(ptr));
    unit_start("per_process_memory_fraction:1", "MEMORY=128M", NULL);
    assert_ok(tnr_limit_get(&limit, 0));
    assert_true(limit == SIZE_MAX);
}

/* The excess over a lowered limit is reclaimed with what a request needs, at once: it lies in many
 * arenas, each with little, and all of it is idle. */
static void the_excess_goes_first(void **state)
{
    (void)state;
    enum { STREAMS = 12 };
    unit_start("cross_stream:off,chunk_max_mb:2,address_space_gb:16", NULL);
    void *blocks[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        blocks[i] = unit_malloc(4 * MIB, unit_stream(0));
    for (int i = 0; i < STREAMS; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_int_equal(unit_stats().reserved_bytes.current, STREAMS * 4 * MIB);
    assert_ok(tnr_limit_set(4 * MIB, 0));
    void *block = unit_malloc(2 * MIB, NULL);
    assert_true(unit_stats().reserved_bytes.current <= 4 * MIB);
    assert_int_equal(unit_stats().num_ooms, 0);
    assert_ok(tnr_free(block));
}

/* A limit counts all pools together; idle memory of the others is reclaimed for one that asks. */
static void pools_share_the_device_s_limit(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool;
    void *a, *b;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_limit_set(16 * MIB, 0));
    assert_ok(tnr_pool_malloc(&a, pool, 12 * MIB, 0, NULL));
    assert_error(tnr_malloc(&b, 6 * MIB, 0, NULL), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_free(a));
    b = unit_malloc(6 * MIB, NULL);
    assert_int_equal(unit_stats().served[TNR_SERVED_RECLAIMED], 1);
    assert_true(unit_stats().reserved_bytes.current <= 16 * MIB);
    assert_true(unit_stats().num_alloc_retries >= 2);
}

/* What can never be served is refused at once: no memory is taken and given back for it, no idle
 * memory is lost, and no addresses are used up however often it is asked for. */
static void hopeless_requests_cost_nothing(void **state)
{
    (void)state;
    unit_start("address_space_gb:64", "MEMORY=256M", NULL);
    assert_ok(tnr_free(unit_malloc(20 * MIB, NULL)));
    tnr_stats before = unit_stats();
    for (size_t i = 0; i < 100; i++) {
        void *ptr = &ptr;
        assert_error(tnr_malloc(&ptr, (1 + i % 8) * GIB, 0, unit_stream(0)), TNR_ERR_OUT_OF_MEMORY,
                     "Tenure out of memory: ");
        assert_null(ptr);
    }
    tnr_stats after = unit_stats();
    assert_int_equal(after.chunks_created, before.chunks_created);
    assert_int_equal(after.reserved_bytes.current, before.reserved_bytes.current);
    assert_int_equal(after.num_ooms, before.num_ooms + 100);
    void *ptr;
    for (size_t i = 0; i < 10; i++)
        assert_ok(tnr_malloc(&ptr, 5 * MIB, 0, unit_stream(0)));
    assert_ok(tnr_limit_set(100 * MIB, 0));
    assert_error(tnr_malloc(&ptr, 101 * MIB, 0, NULL), TNR_ERR_LIMIT, "Tenure out of memory: ");
}

static void bad_arguments(void **state)
{
    (void)state;
    size_t limit;
    unit_start(NULL, NULL);
    assert_error(tnr_limit_get(NULL, 0), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_limit_get(&limit, 1), TNR_ERR_INVALID_DEVICE, NULL);
    assert_error(tnr_limit_set(1, -1), TNR_ERR_INVALID_DEVICE, NULL);
}

/* A full device refuses each new chunk, which takes it longer than a move. So after one refusal
 * the idle memory of other streams comes first, also where the moving budget is used up. */
static void a_full_device_is_seldom_asked(void **state)
{
    enum { BLOCKS = 30 };
    (void)state;
    unit_start("move_burst_ms:0,move_percent:0,lend:off,chunk_max_mb:2", "MEMORY=64M",
               "SCHEDULE=eager", NULL);
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(2 * MIB, NULL);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    tnr_stream other = unit_stream(0);
    uint64_t asked = simcuda_calls("cuMemCreate");
    uint64_t created = unit_stats().chunks_created;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(2 * MIB, other);
    uint64_t refused = simcuda_calls("cuMemCreate") - asked;
    refused -= unit_stats().chunks_created - created;
    assert_int_equal(refused, 1);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
}

/* What the driver refuses was never there, so it is no peak; what a limit refuses neither. */
static void what_is_refused_is_no_peak(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    void *ptr;
    assert_ok(tnr_pool_malloc(&ptr, pool, 12 * MIB, 0, NULL));
    simcuda_fail("cuMemCreate", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
    void *more;
    assert_error(tnr_pool_malloc(&more, pool, 20 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    simcuda_fail_clear();
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_stats_get(&stats, pool, 0));
    assert_int_equal(stats.reserved_bytes.peak, 12 * MIB);
    assert_int_equal(unit_stats().reserved_bytes.peak, 12 * MIB);
    assert_ok(tnr_pool_limit_set(pool, 16 * MIB, 0));
    assert_error(tnr_pool_malloc(&more, pool, 8 * MIB, 0, NULL), TNR_ERR_LIMIT, NULL);
    assert_int_equal(unit_stats().reserved_bytes.peak, 12 * MIB);
    assert_ok(tnr_pool_limit_set(pool, SIZE_MAX, 0));
    assert_ok(tnr_pool_malloc(&more, pool, 8 * MIB, 0, NULL));
    assert_ok(tnr_stats_get(&stats, pool, 0));
    assert_int_equal(stats.reserved_bytes.peak, stats.reserved_bytes.current);
    assert_true(stats.reserved_bytes.peak >= 20 * MIB);
    assert_int_equal(unit_stats().reserved_bytes.peak, stats.reserved_bytes.peak);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_device_s_limit, unit_stop),
        cmocka_unit_test_teardown(a_limit_below_what_is_mapped, unit_stop),
        cmocka_unit_test_teardown(a_fraction_of_the_device, unit_stop),
        cmocka_unit_test_teardown(the_excess_goes_first, unit_stop),
        cmocka_unit_test_teardown(pools_share_the_device_s_limit, unit_stop),
        cmocka_unit_test_teardown(hopeless_requests_cost_nothing, unit_stop),
        cmocka_unit_test_teardown(a_full_device_is_seldom_asked, unit_stop),
        cmocka_unit_test_teardown(what_is_refused_is_no_peak, unit_stop),
        cmocka_unit_test_teardown(bad_arguments, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
