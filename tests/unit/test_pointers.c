/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointers that are not what the caller thinks: each mistake has its own error, and none changes
 * anything.
 *
 * In tnri_arena_free, the test `block->state != TNRI_LIVE` removed: double_frees failed.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

static void foreign_pointers(void **state)
{
    (void)state;
    int on_stack = 0;
    void *on_heap = malloc(64);
    unit_settings(NULL, NULL);
    assert_error(tnr_free(&on_stack), TNR_ERR_FOREIGN_POINTER, "not allocated by Tenure");
    assert_ok(tnr_init());
    tnr_block_info info;
    void *const foreign[] = {&on_stack, on_heap, (void *)1, (void *)UINTPTR_MAX,
                             (void *)(UINTPTR_MAX / 2)};
    void *ptr = unit_malloc(4096, NULL);
    tnr_stats before = unit_stats();
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        assert_error(tnr_free(foreign[i]), TNR_ERR_FOREIGN_POINTER, "not allocated by Tenure");
        assert_error(tnr_block_get(&info, foreign[i]), TNR_ERR_FOREIGN_POINTER, NULL);
    }
    assert_error(tnr_block_get(&info, NULL), TNR_ERR_FOREIGN_POINTER, NULL);
    tnr_device_info device = {.struct_bytes = sizeof(device)};
    assert_ok(tnr_device_get(&device, 0));
    uintptr_t end = device.address_base + device.address_bytes;
    assert_error(tnr_free((void *)end), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_error(tnr_free((void *)(device.address_base - 1)), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_error(tnr_free((void *)(end - 1)), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_free((void *)(end - 512)), TNR_ERR_NOT_LIVE, NULL);
    assert_int_equal(unit_stats().bytes_live, before.bytes_live);
    assert_ok(tnr_free(ptr));
    free(on_heap);
}

static void interior_pointers(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    static const size_t sizes[] = {2, 512, 4096, MIB, 5 * MIB};
    for (size_t i = 0; i < 5; i++) {
        char *ptr = unit_malloc(sizes[i], NULL);
        char start[32];
        snprintf(start, sizeof(start), "%p", (void *)ptr);
        for (size_t offset = 1; offset < sizes[i]; offset = offset * 2 + offset % 2) {
            tnr_block_info info;
            assert_error(tnr_free(ptr + offset), TNR_ERR_INTERIOR_POINTER, start);
            assert_ok(tnr_block_get(&info, ptr + offset));
            assert_ptr_equal(info.base, ptr);
            assert_int_equal(info.bytes_requested, sizes[i]);
        }
        assert_ok(tnr_free(ptr));
        assert_error(tnr_free(ptr + 1), TNR_ERR_NOT_LIVE, NULL);
    }
}

static void double_frees(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    static const size_t sizes[] = {1, 4096, MIB, 3 * MIB};
    for (size_t i = 0; i < 4; i++) {
        void *keep = unit_malloc(sizes[i], NULL);
        void *ptr = unit_malloc(sizes[i], NULL);
        assert_ok(tnr_free(ptr)); /* binned, or merged */
        tnr_stats before = unit_stats();
        for (int again = 0; again < 3; again++)
            assert_error(tnr_free(ptr), TNR_ERR_NOT_LIVE, "freed before");
        tnr_block_info info;
        assert_error(tnr_block_get(&info, ptr), TNR_ERR_NOT_LIVE, NULL);
        assert_int_equal(unit_stats().allocation[0].freed, before.allocation[0].freed);
        assert_ok(tnr_free(keep));
        assert_ok(tnr_trim(NULL, 0, 0)); /* the address has lost its memory */
        assert_error(tnr_free(ptr), TNR_ERR_NOT_LIVE, NULL);
    }
}

static void a_block_s_description(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    void *ptr;
    assert_ok(tnr_pool_malloc(&ptr, pool, 1000, 0, stream));
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, (char *)ptr + 1023)); /* the slack belongs to the block */
    assert_ptr_equal(info.base, ptr);
    assert_int_equal(info.bytes, 1024);
    assert_int_equal(info.bytes_requested, 1000);
    assert_int_equal(info.device, 0);
    assert_ptr_equal(info.stream, stream);
    assert_ptr_equal(info.pool, pool);
    assert_error(tnr_block_get(&info, (char *)ptr + 1024), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_block_get(NULL, ptr), TNR_ERR_INVALID_ARGUMENT, "null");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(foreign_pointers, unit_stop),
        cmocka_unit_test_teardown(interior_pointers, unit_stop),
        cmocka_unit_test_teardown(double_frees, unit_stop),
        cmocka_unit_test_teardown(a_block_s_description, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
