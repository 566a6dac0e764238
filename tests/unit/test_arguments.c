/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments at the edges: sizes of nothing and of everything, null out-pointers, structures of
 * another version.
 *
 * In request_make (cached.c), `bytes > TNR_BYTES_MAX` replaced by a comparison with SIZE_MAX:
 * sizes_that_cannot_be failed.
 */
#include "unit.h"

static void zero_bytes(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *ptr = &ptr;
    assert_ok(tnr_malloc(&ptr, 0, 0, NULL));
    assert_null(ptr);
    ptr = &ptr;
    assert_ok(tnr_pool_malloc(&ptr, NULL, 0, 0, NULL));
    assert_null(ptr);
    assert_ok(tnr_free(NULL));
    assert_int_equal(unit_stats().allocation[0].allocated, 0);
    assert_error(tnr_malloc(&ptr, 0, 9, NULL), TNR_ERR_INVALID_DEVICE, NULL);
}

static void sizes_that_cannot_be(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=256M", NULL);
    static const size_t overflow[] = {TNR_BYTES_MAX + 1, SIZE_MAX, SIZE_MAX - 511, SIZE_MAX / 2 + 1,
                                      (size_t)-1024};
    static const size_t too_much[] = {TNR_BYTES_MAX,   TNR_BYTES_MAX - 1,     (size_t)1 << 46,
                                      (size_t)1 << 45, ((size_t)1 << 45) - 1, (size_t)1 << 40,
                                      256 * MIB + 1};
    void *ptr;
    for (size_t i = 0; i < sizeof(overflow) / sizeof(overflow[0]); i++) {
        ptr = &ptr;
        assert_error(tnr_malloc(&ptr, overflow[i], 0, NULL), TNR_ERR_INVALID_SIZE, "1 EiB");
        assert_null(ptr);
        ptr = &ptr;
        assert_error(tnr_pool_malloc(&ptr, NULL, overflow[i], 0, NULL), TNR_ERR_INVALID_SIZE, NULL);
        assert_null(ptr);
        assert_error(tnr_malloc_aligned(&ptr, overflow[i], 4096, 0, NULL), TNR_ERR_INVALID_SIZE,
                     NULL);
    }
    for (size_t i = 0; i < sizeof(too_much) / sizeof(too_much[0]); i++) {
        ptr = &ptr;
        assert_error(tnr_malloc(&ptr, too_much[i], 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
        assert_null(ptr);
    }
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    (void)unit_malloc(200 * MIB, NULL); /* the next call works */
}

static void sizes_around_the_borders(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    static const size_t borders[] = {512, KIB, 64 * KIB, MIB, 2 * MIB, 4 * MIB, 32 * MIB};
    for (size_t i = 0; i < sizeof(borders) / sizeof(borders[0]); i++)
        for (size_t bytes = borders[i] - 1; bytes <= borders[i] + 1; bytes++) {
            void *ptr = unit_malloc(bytes, NULL);
            tnr_block_info info;
            assert_ok(tnr_block_get(&info, ptr));
            assert_int_equal(info.bytes, (bytes + 511) / 512 * 512);
            (void)unit_stats();
        }
}

static void null_and_versions(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_stats stats = {.struct_bytes = 1};
    tnr_driver_info driver = {.struct_bytes = 1};
    tnr_device_info device = {.struct_bytes = 1};
    assert_error(tnr_malloc(NULL, 1, 0, NULL), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_pool_malloc(NULL, NULL, 1, 0, NULL), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_malloc_aligned(NULL, 1, 512, 0, NULL), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_stats_get(NULL, NULL, 0), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_error(tnr_stats_get(&stats, NULL, 0), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_error(tnr_driver_get(NULL), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_error(tnr_driver_get(&driver), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_error(tnr_device_get(NULL, 0), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_error(tnr_device_get(&device, 0), TNR_ERR_INVALID_ARGUMENT, "struct_bytes");
    assert_int_equal(tnr_version(), TNR_VERSION_NUMBER);
    assert_int_equal(unit_stats().allocation[0].allocated, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(zero_bytes, unit_stop),
        cmocka_unit_test_teardown(sizes_that_cannot_be, unit_stop),
        cmocka_unit_test_teardown(sizes_around_the_borders, unit_stop),
        cmocka_unit_test_teardown(null_and_versions, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
