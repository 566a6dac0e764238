/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate. The quickest way through an allocation and a free is left as soon as anything is
 * unusual, even in a thread that has gone that way before. What the gate counts is exact.
 *
 * In conf_publish, the bit left out: a_new_rounding_is_followed failed. In
 * tnri_cached_arena_get, the look at the routes left out: a_route_is_followed failed; the look
 * at the generation left out: a_new_start_forgets crashed. In room_take, the peak not raised:
 * peaks_are_exact failed, and others.
 */
#include "unit.h"

static size_t bytes_of(const void *ptr)
{
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, ptr));
    return info.bytes;
}

/* So that the calling thread knows its way. */
static void walk(void)
{
    for (int i = 0; i < 4; i++)
        assert_ok(tnr_free(unit_malloc(1200 * KIB, NULL)));
}

static void a_new_rounding_is_followed(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    walk();
    void *ptr = unit_malloc(1200 * KIB, NULL);
    assert_int_equal(bytes_of(ptr), 1200 * KIB);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_configure("roundup_power2_divisions:4"));
    ptr = unit_malloc(1200 * KIB, NULL);
    assert_int_equal(bytes_of(ptr), 1280 * KIB);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_configure("roundup_power2_divisions:off"));
    ptr = unit_malloc(1200 * KIB, NULL);
    assert_int_equal(bytes_of(ptr), 1200 * KIB);
    assert_ok(tnr_free(ptr));
}

static void a_route_is_followed(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    walk();
    tnr_pool pool;
    tnr_block_info info;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_push(pool));
    void *routed = unit_malloc(4096, NULL);
    assert_ok(tnr_pool_pop(pool));
    void *plain = unit_malloc(4096, NULL);
    assert_ok(tnr_block_get(&info, routed));
    assert_ptr_equal(info.pool, pool);
    assert_ok(tnr_block_get(&info, plain));
    assert_null(info.pool);
    assert_ok(tnr_free(routed));
    assert_ok(tnr_free(plain));
}

/* What a thread remembers of an arena is void after the next start. */
static void a_new_start_forgets(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    walk();
    void *ptr = unit_malloc(4096, NULL);
    assert_ok(tnr_shutdown(1));
    assert_error(tnr_free(ptr), TNR_ERR_FOREIGN_POINTER, NULL);
    ptr = unit_malloc(4096, NULL); /* starts it again */
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 1);
    assert_ok(tnr_free(ptr));
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].allocated, 1);
}

static void a_failure_leaves_null(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=256M", NULL);
    walk();
    static const size_t sizes[] = {GIB, TNR_BYTES_MAX, TNR_BYTES_MAX + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *ptr = &ptr;
        assert_true(tnr_malloc(&ptr, sizes[i], 0, NULL) != TNR_OK);
        assert_null(ptr);
    }
    void *ptr = &ptr;
    assert_ok(tnr_malloc(&ptr, 0, 0, NULL));
    assert_null(ptr);
    assert_error(tnr_malloc(NULL, 512, 0, NULL), TNR_ERR_INVALID_ARGUMENT, NULL);
    walk();
}

/* Live blocks and their peaks, counted beside the allocator, in both worlds, with resets. */
static void peaks_are_exact(void **state)
{
    (void)state;
    enum { BLOCKS = 24, STEPS = 4000, SMALL_MAX = 1 << 20 };
    static const int worlds[] = {TNR_WORLD_SMALL, TNR_WORLD_LARGE};
    unit_start("small_limit_kb:1024", NULL);
    void *blocks[BLOCKS] = {NULL};
    size_t requested[BLOCKS] = {0};
    uint64_t random = 7;
    uint64_t live[3] = {0}, peak[3] = {0}, count[3] = {0}, count_peak[3] = {0};
    for (int step = 0; step < STEPS; step++) {
        size_t i = unit_below(&random, BLOCKS);
        int world = worlds[requested[i] > SMALL_MAX];
        if (blocks[i] != NULL) {
            assert_ok(tnr_free(blocks[i]));
            blocks[i] = NULL;
            live[world] -= requested[i];
            live[TNR_WORLD_ALL] -= requested[i];
            count[world]--;
            count[TNR_WORLD_ALL]--;
        } else {
            requested[i] = 1 + unit_below(&random, unit_below(&random, 3) > 0 ? 9000 : 3 * MIB);
            world = worlds[requested[i] > SMALL_MAX];
            blocks[i] = unit_malloc(requested[i], NULL);
            live[world] += requested[i];
            live[TNR_WORLD_ALL] += requested[i];
            count[world]++;
            count[TNR_WORLD_ALL]++;
        }
        if (step % 500 == 499)
            assert_ok(tnr_stats_reset_peaks(0));
        for (int w = 0; w < TNR_WORLD_COUNT; w++) {
            int is_reset = step % 500 == 499;
            peak[w] = is_reset || live[w] > peak[w] ? live[w] : peak[w];
            count_peak[w] = is_reset || count[w] > count_peak[w] ? count[w] : count_peak[w];
        }
        if (step % 50 != 0)
            continue;
        tnr_stats stats = unit_stats();
        for (int w = 0; w < TNR_WORLD_COUNT; w++) {
            assert_int_equal(stats.requested_bytes[w].current, live[w]);
            assert_int_equal(stats.requested_bytes[w].peak, peak[w]);
            assert_int_equal(stats.allocation[w].current, count[w]);
            assert_int_equal(stats.allocation[w].peak, count_peak[w]);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_new_rounding_is_followed, unit_stop),
        cmocka_unit_test_teardown(a_route_is_followed, unit_stop),
        cmocka_unit_test_teardown(a_new_start_forgets, unit_stop),
        cmocka_unit_test_teardown(a_failure_leaves_null, unit_stop),
        cmocka_unit_test_teardown(peaks_are_exact, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
