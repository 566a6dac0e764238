/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address plan as a whole: a host with eight devices, with many pools and streams, fits, and
 * nothing runs into anything else. (unit_address_space does the arithmetic for the largest host.)
 * Not under Valgrind, which has fewer addresses than such a host.
 *
 * In table_grow (pool.c), old arenas not entered in the new table: many_pools_and_streams failed,
 * streams having two arenas.
 */
#include "unit.h"

/* Eight devices with the default of 8 TiB each; pools and streams on all. */
static void eight_devices_many_pools_and_streams(void **state)
{
    (void)state;
    enum { POOLS = 4, STREAMS = 6 };
    unit_start("address_space_gb:8192", "DEVICES=8", NULL);
    uintptr_t base[8];
    size_t bytes[8];
    for (int d = 0; d < 8; d++) {
        for (int p = 0; p < POOLS; p++) {
            tnr_pool pool;
            assert_ok(tnr_pool_create(&pool, d, NULL));
            for (int s = 0; s < STREAMS; s++) {
                void *small, *large;
                tnr_stream stream = unit_stream(d);
                assert_ok(tnr_pool_malloc(&small, pool, 512, d, stream));
                assert_ok(tnr_pool_malloc(&large, pool, 2 * MIB, d, stream));
            }
        }
        tnr_device_info device = {.struct_bytes = sizeof(device)};
        assert_ok(tnr_device_get(&device, d));
        base[d] = device.address_base;
        bytes[d] = device.address_bytes;
        for (int e = 0; e < d; e++)
            assert_true(base[d] >= base[e] + bytes[e] || base[e] >= base[d] + bytes[d]);
        assert_true(base[d] + bytes[d] <= (uintptr_t)1 << 47);
    }
    assert_ok(tnr_validate(-1));
}

/* Each pool finds its many arenas again, and refuses to end while some hold live blocks. */
static void many_pools_and_streams(void **state)
{
    (void)state;
    enum { POOLS = 20, STREAMS = 40 };
    unit_start("address_space_gb:4096", NULL);
    tnr_stream streams[STREAMS];
    tnr_pool pools[POOLS];
    for (size_t i = 0; i < STREAMS; i++)
        streams[i] = unit_stream(0);
    for (size_t round = 0; round < 2; round++) {
        for (size_t p = 0; p < POOLS; p++) {
            assert_ok(tnr_pool_create(&pools[p], 0, NULL));
            for (size_t s = 0; s < 2 * STREAMS; s++) { /* made, then found again */
                void *ptr;
                tnr_stream stream = streams[s % STREAMS];
                assert_ok(tnr_pool_malloc(&ptr, pools[p], 512 * (s + 1), 0, stream));
                if ((s + p) % 3 != 0)
                    assert_ok(tnr_free(ptr));
            }
            tnr_stats stats = {.struct_bytes = sizeof(stats)};
            assert_ok(tnr_stats_get(&stats, pools[p], 0));
            assert_int_equal(stats.arenas, STREAMS);
        }
        (void)unit_stats();
        for (size_t p = 0; p < POOLS; p++)
            assert_error(tnr_pool_destroy(pools[p]), TNR_ERR_BUSY, "live");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(eight_devices_many_pools_and_streams, unit_stop),
        cmocka_unit_test_teardown(many_pools_and_streams, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
