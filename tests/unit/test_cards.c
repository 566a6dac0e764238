/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools for network cards. A range that a card has registered keeps its memory and its address,
 * also after the blocks there were freed, until the pool is trimmed by name.
 *
 * Lines of the library changed to see it fail:
 *   gpu_direct_rdma not looked at in ladder_moves_max: nothing_moves
 *   nor in tnri_release_idle, tnri_reclaim, tnri_reclaim_idle: nothing_goes_back
 *   set_check_cards not called: no_sleep_in_silence
 *   is_registered not set, or not looked at: the second round
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <tenure/sleep.h>

/* Which physical memory lies behind an address: the simulated device says so by its contents. */
static void mark(void *ptr, unsigned value)
{
    CUcontext context, popped;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD32((CUdeviceptr)ptr, value, 1), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static unsigned marked(void *ptr)
{
    unsigned value = 0;
    CUcontext context, popped;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoH(&value, (CUdeviceptr)ptr, sizeof(value)), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    return value;
}

/* 1: the pool is an ordinary one, and memory of it was registered. */
static int is_by_registration;

static tnr_pool start(const char *conf, const char *setting)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool pool;
    void *block;
    options.gpu_direct_rdma = !is_by_registration;
    unit_start(conf, "RDMA=1", setting, NULL);
    assert_ok(tnr_pool_create(&pool, 0, &options));
    if (!is_by_registration)
        return pool;
    assert_ok(tnr_pool_malloc(&block, pool, 100, 0, NULL));
    assert_ok(tnr_memory_registered((char *)block + 50));
    assert_ok(tnr_free(block));
    assert_error(tnr_memory_registered(block), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_memory_registered(&pool), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0)); /* by name; the next memory stays all the same */
    return pool;
}

/* Blocks of ever other sizes on several streams. What was written to a place before its block was
 * freed is there as long as nobody writes again: the memory behind the address is the same. */
static void nothing_moves(void **state)
{
    (void)state;
    tnr_pool pool = start("move_burst_ms:1000000", NULL);
    tnr_stream streams[3] = {NULL, unit_stream(0), unit_stream(0)};
    enum { PLACES = 16, ROUNDS = 60 };
    void *places[PLACES];
    uint64_t random = 11;
    for (unsigned i = 0; i < PLACES; i++) {
        assert_ok(tnr_pool_malloc(&places[i], pool, 6 * MIB, 0, streams[i % 3]));
        mark(places[i], i + 1);
    }
    for (unsigned i = 0; i < PLACES; i++)
        assert_ok(tnr_free(places[i]));
    uint64_t moved = 0;
    for (int round = 0; round < ROUNDS; round++) {
        void *held[4];
        for (int i = 0; i < 4; i++)
            assert_ok(tnr_pool_malloc(&held[i], pool, 1 + unit_below(&random, 40 * MIB), 0,
                                      streams[unit_below(&random, 3)]));
        for (int i = 0; i < 4; i++)
            assert_ok(tnr_free(held[i]));
        tnr_stats stats = unit_stats();
        moved = stats.served[TNR_SERVED_MOVED] + stats.served[TNR_SERVED_SHARED];
    }
    assert_int_equal(moved, 0);
    assert_int_equal(unit_stats().chunks_moved, 0);
    for (unsigned i = 0; i < PLACES; i++)
        assert_int_equal(marked(places[i]), i + 1);
}

/* Not for another pool's want, not for a limit, not for the thresholds, not for tnr_trim. */
static void nothing_goes_back(void **state)
{
    (void)state;
    tnr_pool pool = start("garbage_collection_threshold:0.1,release_threshold_mb:4,"
                          "cross_stream:off,lend:off",
                          "MEMORY=64M");
    void *block, *other = NULL;
    size_t released = 1;
    assert_ok(tnr_pool_malloc(&block, pool, 40 * MIB, 0, NULL));
    mark(block, 77);
    assert_ok(tnr_free(block));
    assert_error(tnr_malloc(&other, 40 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(released, 0);
    assert_ok(tnr_pool_limit_set(pool, 44 * MIB, 0));
    assert_error(tnr_pool_malloc(&other, pool, 20 * MIB, 0, unit_stream(0)), TNR_ERR_LIMIT, NULL);
    assert_int_equal(marked(block), 77);
    assert_ok(tnr_pool_malloc(&other, pool, 20 * MIB, 0, NULL)); /* it serves */
    assert_ok(tnr_free(other));
    assert_ok(tnr_pool_trim(&released, pool, 0, 0));
    assert_true(released >= 40 * MIB);
    other = unit_malloc(40 * MIB, NULL);
    assert_ok(tnr_pool_destroy(pool));
}

static void on_sleep(tnr_pool pool, int device, tnr_sleep_event event, uint64_t generation,
                     void *user)
{
    (void)pool, (void)device, (void)event, (void)generation;
    ++*(int *)user;
}

static void no_sleep_in_silence(void **state)
{
    (void)state;
    tnr_pool pool = start(NULL, NULL);
    int calls = 0;
    void *block;
    assert_ok(tnr_pool_malloc(&block, pool, 6 * MIB, 0, NULL));
    mark(block, 5);
    assert_error(tnr_pool_sleep(pool, 0, NULL), TNR_ERR_BUSY, "network cards");
    assert_error(tnr_device_sleep(0, NULL), TNR_ERR_BUSY, "tnr_sleep_callback_add");
    assert_int_equal(marked(block), 5);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL)); /* another pool */
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_ok(tnr_sleep_callback_add(on_sleep, &calls));
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_ok(tnr_pool_wake(pool, 0));
    assert_ok(tnr_sleep_callback_remove(on_sleep, &calls));
    assert_int_equal(calls, 2);
    assert_int_equal(marked(block), 5);
}

#define CASE(test) cmocka_unit_test_teardown(test, unit_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing_moves),
        CASE(nothing_goes_back),
        CASE(no_sleep_in_silence),
    };
    int failed = cmocka_run_group_tests_name("pools for network cards", tests, NULL, NULL);
    is_by_registration = 1;
    return failed + cmocka_run_group_tests_name("registered memory", tests, NULL, NULL);
}
