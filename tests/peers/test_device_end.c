/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tnr_device_end: one device ends, with all that may be going on there, the other goes on, and the
 * first may begin again; also when each call of the driver fails once.
 *
 * Lines of the library changed to see it fail:
 *   tnri_generation_advance not called in tnri_pool_end: begins_again (a dead arena is found)
 *   tnri_routes_forget_device not called: routed
 *   device->peers not cleared: peers_are_forgotten
 *   device_check_idle not called: busy_without_force
 *   device_ending not called in device_end_pools: all_that_may_be_going_on
 *   tnri_streams_forget not called there: peers_are_forgotten
 *   the moved range in tnri_device_withdraw left out: the_other_goes_on
 */
#include "unit.h"

#include <cuda.h>
#include <tenure/capture.h>
#include <tenure/lifetime.h>
#include <tenure/sleep.h>

static void start(const char *conf)
{
    unit_start(conf, "DEVICES=3", NULL);
}

static void *malloc_on(int device, size_t bytes, tnr_stream stream)
{
    void *block;
    assert_ok(tnr_malloc(&block, bytes, device, stream));
    return block;
}

static uint64_t reserved(int device)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_stats_get(&stats, NULL, device));
    return stats.reserved_bytes.current;
}

static void in_use_is(int device, int expected)
{
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_device_get(&info, device));
    assert_int_equal(info.in_use, expected);
}

static void begins_again(void **state)
{
    (void)state;
    start(NULL);
    for (int i = 0; i < 4; i++) {
        void *block = malloc_on(0, 3 * MIB, NULL);
        assert_true(reserved(0) >= 3 * MIB);
        assert_ok(tnr_free(block));
        assert_ok(tnr_device_end(0, i % 2));
        in_use_is(0, 0);
        assert_error(tnr_free(block), TNR_ERR_FOREIGN_POINTER, NULL);
        assert_int_equal(reserved(0), 0); /* which puts it into use */
        in_use_is(0, 1);
        assert_ok(tnr_validate(-1));
    }
}

static void the_other_goes_on(void **state)
{
    (void)state;
    start(NULL);
    void *held[3];
    tnr_pool pool;
    for (int i = 0; i < 3; i++)
        held[i] = malloc_on(i, 5 * MIB, NULL);
    assert_ok(tnr_pool_create(&pool, 2, NULL));
    assert_ok(tnr_device_end(0, 1));
    uint64_t before = reserved(2);
    for (int i = 1; i < 3; i++) {
        tnr_block_info info;
        assert_ok(tnr_block_get(&info, held[i]));
        assert_int_equal(info.device, i);
        assert_ok(tnr_free(held[i]));
        held[i] = malloc_on(i, 5 * MIB, NULL);
    }
    assert_int_equal(reserved(2), before);
    void *block;
    assert_ok(tnr_pool_malloc(&block, pool, MIB, 2, NULL));
    held[0] = malloc_on(0, 5 * MIB, NULL);
    assert_ok(tnr_device_end(1, 1));
    assert_ok(tnr_free(held[2]));
    assert_ok(tnr_free(held[0]));
    assert_ok(tnr_free(block));
    assert_ok(tnr_validate(-1));
}

static void busy_without_force(void **state)
{
    (void)state;
    start(NULL);
    void *block = malloc_on(1, MIB, NULL);
    assert_error(tnr_device_end(1, 0), TNR_ERR_BUSY, "device 1 still has 1 live block.");
    assert_ok(tnr_free(block));
    assert_ok(tnr_device_end(1, 0));
    in_use_is(1, 0);
}

/* Live blocks, uses that are not over, a pool that sleeps, a graph and a capture, growable memory,
 * streams that live; then the context is reset, as an engine does it. */
static void all_that_may_be_going_on(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", "SCHEDULE=lazy", NULL);
    void *other = malloc_on(1, MIB, NULL);
    for (int i = 0; i < 3; i++) {
        CUstream own, far;
        CUgraph graph;
        tnr_graph number;
        tnr_pool pool;
        void *block;
        CUcontext context;
        assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
        assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
        assert_int_equal(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        assert_int_equal(cuStreamCreate(&far, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        block = malloc_on(0, MIB, own);
        assert_int_equal(cuMemsetD8Async((CUdeviceptr)block, 1, MIB, far), CUDA_SUCCESS);
        assert_ok(tnr_record_use(block, far));
        assert_ok(tnr_free(block));
        assert_ok(tnr_free_sync(malloc_on(0, MIB, far)));
        block = malloc_on(1, MIB, NULL); /* of the device that goes on, used by this one */
        assert_ok(tnr_record_use(block, far));
        assert_ok(tnr_free(block));
        assert_ok(tnr_reserve(&block, 64 * MIB, 0, own));
        assert_ok(tnr_commit(block, 9 * MIB));
        (void)malloc_on(0, 700, far);
        assert_ok(tnr_pool_create(&pool, 0, NULL));
        assert_ok(tnr_pool_malloc(&block, pool, 4 * MIB, 0, own));
        assert_ok(tnr_pool_sleep(pool, 0, NULL));
        assert_ok(tnr_capture_begin(0, own, NULL));
        block = malloc_on(0, 2 * MIB, own);
        assert_int_equal(cuMemsetD8Async((CUdeviceptr)block, 1, MIB, own), CUDA_SUCCESS);
        assert_ok(tnr_capture_end(&graph, &number, 0, own));
        assert_ok(tnr_capture_begin(0, far, NULL));
        (void)malloc_on(0, 2 * MIB, far);
        assert_ok(tnr_device_end(0, 1));
        in_use_is(0, 0);
        assert_error(tnr_pool_malloc(&block, pool, 1, 0, own), TNR_ERR_INVALID_POOL, NULL);
        assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
        assert_int_equal(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
        assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
        assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
        (void)simcuda_run(UINT64_MAX); /* the driver lets go of the graphs */
        assert_ok(tnr_validate(-1));
    }
    assert_ok(tnr_free(other));
}

static void routed(void **state)
{
    (void)state;
    start(NULL);
    tnr_pool gone, next;
    void *block;
    void *other = malloc_on(1, MIB, NULL);
    assert_ok(tnr_pool_create(&gone, 0, NULL));
    assert_ok(tnr_pool_push(gone));
    assert_ok(tnr_device_end(0, 1));
    assert_error(tnr_malloc(&block, MIB, 0, NULL), TNR_ERR_INVALID_POOL, NULL);
    assert_error(tnr_malloc_aligned(&block, MIB, 4096, 0, NULL), TNR_ERR_INVALID_POOL, NULL);
    assert_error(tnr_reserve(&block, MIB, 0, NULL), TNR_ERR_INVALID_POOL, NULL);
    assert_ok(tnr_free(other));
    assert_ok(tnr_pool_create(&next, 0, NULL)); /* in what the other one was */
    assert_ok(tnr_pool_push(next));
    assert_error(tnr_pool_destroy(next), TNR_ERR_BUSY, "routed");
    assert_ok(tnr_pool_pop(next));
    assert_ok(tnr_pool_pop(gone));
    assert_ok(tnr_free(malloc_on(0, MIB, NULL)));
    assert_ok(tnr_pool_push(next));
    assert_error(tnr_pool_destroy(next), TNR_ERR_BUSY, "routed");
    assert_ok(tnr_pool_pop(next));
    assert_ok(tnr_pool_destroy(next));
}

static void peers_are_forgotten(void **state)
{
    (void)state;
    start(NULL);
    tnr_access access;
    (void)malloc_on(0, MIB, NULL);
    void *other = malloc_on(1, MIB, NULL);
    assert_ok(tnr_device_access_set(0, 1, TNR_ACCESS_READWRITE));
    assert_ok(tnr_device_access_set(1, 0, TNR_ACCESS_READWRITE));
    assert_ok(tnr_device_end(0, 1));
    assert_ok(tnr_free(malloc_on(0, MIB, NULL)));
    assert_ok(tnr_pool_access_get(&access, NULL, 0, 1));
    assert_int_equal(access, TNR_ACCESS_NONE);
    assert_ok(tnr_pool_access_get(&access, NULL, 1, 0));
    assert_int_equal(access, TNR_ACCESS_READWRITE);
    assert_ok(tnr_device_end(0, 1));
    assert_ok(tnr_free_sync(other)); /* its peer is not in use */
    assert_ok(tnr_trim(NULL, 0, 1));
}

static void bad_input(void **state)
{
    (void)state;
    start(NULL);
    assert_error(tnr_device_end(3, 1), TNR_ERR_INVALID_DEVICE, "no device 3");
    assert_error(tnr_device_end(-1, 0), TNR_ERR_INVALID_DEVICE, "no device -1");
    assert_ok(tnr_device_end(2, 0)); /* never used */
    assert_ok(tnr_shutdown(0));
    assert_ok(tnr_device_end(7, 1)); /* nothing runs */
}

/* Whatever fails, the other device goes on, and a repeated call comes to the end. */
static void a_driver_that_fails(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        start(NULL);
        tnr_pool pool;
        void *other = malloc_on(1, 3 * MIB, NULL), *block;
        (void)malloc_on(0, 30 * MIB, NULL);
        assert_ok(tnr_pool_create(&pool, 0, NULL));
        assert_ok(tnr_pool_malloc(&block, pool, 4 * MIB, 0, unit_stream(0)));
        simcuda_fail("*", nth, 0, CUDA_ERROR_UNKNOWN);
        tnr_status status = tnr_device_end(0, 1);
        uint64_t hits = simcuda_fail_hits();
        simcuda_fail_clear();
        assert_ok(tnr_free(other));
        other = malloc_on(1, 3 * MIB, NULL);
        assert_ok(tnr_validate(-1));
        assert_ok(tnr_device_end(0, 1));
        assert_ok(tnr_free(malloc_on(0, MIB, NULL)));
        assert_ok(tnr_free(other));
        assert_ok(tnr_validate(-1));
        assert_int_equal(unit_stop(NULL), 0);
        if (hits == 0) {
            assert_int_equal(status, TNR_OK);
            assert_true(nth > 5);
            break;
        }
    }
}

#define CASE(test) cmocka_unit_test_teardown(test, unit_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(begins_again), CASE(the_other_goes_on),   CASE(busy_without_force),
        CASE(routed),       CASE(peers_are_forgotten), CASE(all_that_may_be_going_on),
        CASE(bad_input),    CASE(a_driver_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
