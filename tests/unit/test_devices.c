/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several devices: memory, limits, statistics and addresses of each are its own, only those that
 * are used cost anything.
 *
 * In tnri_device_of, `ranges[i].device` replaced by `ranges[0].device`: addresses_tell_the_device
 * failed.
 */
#include "unit.h"

#include <tenure/host.h>

static void addresses_tell_the_device(void **state)
{
    (void)state;
    void *blocks[4];
    unit_start("address_space_gb:4", "DEVICES=4", NULL);
    for (int i = 0; i < 4; i++)
        assert_ok(tnr_malloc(&blocks[i], 4096, i, NULL));
    for (int i = 0; i < 4; i++) {
        tnr_block_info info;
        tnr_device_info device = {.struct_bytes = sizeof(device)};
        assert_ok(tnr_block_get(&info, (char *)blocks[i] + 4095));
        assert_int_equal(info.device, i);
        assert_ok(tnr_device_get(&device, i));
        assert_true((uintptr_t)blocks[i] - device.address_base < device.address_bytes);
        simcuda_live live;
        assert_int_equal(simcuda_live_get(i, &live), 0);
        assert_int_equal(live.handle_bytes, 2 * MIB);
    }
    for (int i = 0; i < 4; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_validate(-1));
}

/* A free finds its device whichever one the thread freed on before, also after another start. */
static void frees_go_to_their_device(void **state)
{
    (void)state;
    void *blocks[3][4];
    for (int start = 0; start < 2; start++) {
        unit_start("address_space_gb:4", start ? "DEVICES=2" : "DEVICES=3", NULL);
        int devices = start ? 2 : 3;
        for (int round = 0; round < 3; round++) {
            for (int d = 0; d < devices; d++)
                for (int i = 0; i < 4; i++)
                    assert_ok(tnr_malloc(&blocks[d][i], 4096, d, NULL));
            for (int i = 0; i < 4; i++)
                for (int d = devices; d-- > 0;) {
                    assert_ok(tnr_free(blocks[(d + i) % devices][i]));
                    assert_error(tnr_free(blocks[(d + i) % devices][i]), TNR_ERR_NOT_LIVE, NULL);
                }
        }
        assert_error(tnr_free(&blocks), TNR_ERR_FOREIGN_POINTER, NULL);
        assert_ok(tnr_validate(-1));
    }
}

static void limits_and_statistics_are_their_own(void **state)
{
    (void)state;
    unit_start("address_space_gb:4", "DEVICES=2", "MEMORY=32M", NULL);
    void *a, *b;
    assert_ok(tnr_malloc(&a, 20 * MIB, 0, NULL));
    assert_ok(tnr_malloc(&b, 20 * MIB, 1, NULL));
    void *more;
    assert_error(tnr_malloc(&more, 20 * MIB, 1, NULL), TNR_ERR_OUT_OF_MEMORY, "device 1");
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_stats_get(&stats, NULL, 1));
    assert_int_equal(stats.num_ooms, 1);
    assert_int_equal(stats.bytes_live, 20 * MIB);
    assert_int_equal(unit_stats().num_ooms, 0);
    assert_ok(tnr_limit_set(0, 1));
    assert_ok(tnr_malloc(&more, MIB, 0, NULL));
    assert_ok(tnr_free(b));
    size_t released;
    assert_ok(tnr_trim(&released, 0, 0));
    assert_ok(tnr_stats_get(&stats, NULL, 1));
    assert_int_equal(stats.reserved_bytes.current, 20 * MIB); /* untouched by the other's trim */
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 1, NULL));
    assert_error(tnr_pool_malloc(&more, pool, 1, 0, NULL), TNR_ERR_INVALID_DEVICE, "on device 1");
    assert_error(tnr_stats_get(&stats, pool, 0), TNR_ERR_INVALID_DEVICE, "on device 1");
    assert_ok(tnr_pool_push(pool)); /* routes device 1 only */
    tnr_block_info info;
    assert_ok(tnr_malloc(&more, 1, 0, NULL));
    assert_ok(tnr_block_get(&info, more));
    assert_null(info.pool);
    assert_ok(tnr_pool_pop(pool));
}

static void unused_devices_cost_nothing(void **state)
{
    (void)state;
    unit_start("address_space_gb:4", "DEVICES=8", NULL);
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.primary_references, 0);
    assert_int_equal(live.reservations, 0);
    void *ptr;
    assert_ok(tnr_malloc(&ptr, 1, 5, NULL));
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.primary_references, 1);
    assert_int_equal(live.reservations, 1);
    assert_int_equal(simcuda_live_get(5, &live), 0);
    assert_int_equal(live.primary_references, 1);
    tnr_device_info device = {.struct_bytes = sizeof(device)};
    assert_ok(tnr_device_get(&device, 4));
    assert_int_equal(device.in_use, 0);
    assert_ok(tnr_device_get(&device, 5));
    assert_int_equal(device.in_use, 1);
}

static void no_such_device(void **state)
{
    (void)state;
    static const int bad[] = {-1, 2, TNR_HOST(-1), TNR_HOST(2), 1 << 30, -2147483647 - 1};
    unit_start("address_space_gb:4", "DEVICES=2", NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        void *ptr = &ptr;
        tnr_stats stats = {.struct_bytes = sizeof(stats)};
        tnr_device_info device = {.struct_bytes = sizeof(device)};
        assert_error(tnr_malloc(&ptr, 1, bad[i], NULL), TNR_ERR_INVALID_DEVICE, "reports 2");
        assert_null(ptr);
        assert_error(tnr_pool_malloc(&ptr, NULL, 1, bad[i], NULL), TNR_ERR_INVALID_DEVICE, NULL);
        assert_error(tnr_trim(NULL, 0, bad[i]), TNR_ERR_INVALID_DEVICE, NULL);
        assert_error(tnr_stats_get(&stats, NULL, bad[i]), TNR_ERR_INVALID_DEVICE, NULL);
        assert_error(tnr_stats_reset_peaks(bad[i]), TNR_ERR_INVALID_DEVICE, NULL);
        assert_error(tnr_device_get(&device, bad[i]), TNR_ERR_INVALID_DEVICE, NULL);
        assert_int_equal(tnr_stats_json(NULL, 0, NULL, bad[i]), 0);
        if (bad[i] >= 0)
            assert_error(tnr_validate(bad[i]), TNR_ERR_INVALID_DEVICE, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(addresses_tell_the_device, unit_stop),
        cmocka_unit_test_teardown(frees_go_to_their_device, unit_stop),
        cmocka_unit_test_teardown(limits_and_statistics_are_their_own, unit_stop),
        cmocka_unit_test_teardown(unused_devices_cost_nothing, unit_stop),
        cmocka_unit_test_teardown(no_such_device, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
