/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointers that are not what the caller thinks: each mistake has its own error, and none changes
 * anything.
 *
 * In tnri_arena_free, the test `block->state != TNRI_LIVE` removed: double_frees failed. In
 * tnri_arena_free_quick, the test of the world's arena removed: the_arena_is_the_world_s failed.
 */
#include "unit.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/cached.h"
#include "memory/device/device.h"

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
            memset(&info, 0xff, sizeof(info));
            assert_error(tnr_free(ptr + offset), TNR_ERR_INTERIOR_POINTER, start);
            assert_ok(tnr_block_get(&info, ptr + offset));
            for (size_t j = 0; j < sizeof(info.reserved) / sizeof(info.reserved[0]); j++)
                assert_int_equal(info.reserved[j], 0);
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

/* A thread frees with a guess at the arena, by its address alone. The guess may be of an arena that
 * is gone, so that a world of the new one lies where the other world of the old one would be. What
 * the old one's lock said may still be there: here it is put over the end of the small world, which
 * this free has nothing to do with. */
static void the_arena_is_the_world_s(void **state)
{
    (void)state;
    enum { HEAD = offsetof(tnri_arena, worlds) };
    unsigned char head[HEAD];
    unit_start(NULL, NULL);
    for (int i = 0; i < 1000; i++) /* so that the thread owns the lock, and guesses */
        assert_ok(tnr_free(unit_malloc(3 * MIB, NULL)));
    void *ptr = unit_malloc(3 * MIB, NULL);
    tnri_block *block = tnri_device_range_block(&tnri_device_ranges[0], (uintptr_t)ptr);
    tnri_arena *arena = block->world->arena;
    assert_ptr_equal(block->world, &arena->worlds[TNRI_LARGE]);
    uint64_t freed = arena->freed_because[TNR_REUSE_SAME_STREAM];
    unsigned char *guess = (unsigned char *)arena + sizeof(tnri_world) * (TNRI_LARGE - TNRI_SMALL);
    memcpy(head, guess, HEAD);
    memcpy(guess, arena, HEAD);
    tnr_status status = tnri_arena_free_quick(block, ptr, (uintptr_t)guess);
    memcpy(guess, head, HEAD);
    assert_ok(status);
    assert_int_equal(arena->freed_because[TNR_REUSE_SAME_STREAM], freed + 1);
    assert_int_equal(unit_stats().bytes_live, 0);
    assert_ok(tnr_validate(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(foreign_pointers, unit_stop),
        cmocka_unit_test_teardown(interior_pointers, unit_stop),
        cmocka_unit_test_teardown(double_frees, unit_stop),
        cmocka_unit_test_teardown(a_block_s_description, unit_stop),
        cmocka_unit_test_teardown(the_arena_is_the_world_s, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
