/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving idle memory back: on demand (tnr_trim), above a threshold, and never what is live or what
 * a stream still works on.
 *
 * In tnri_stale_drain, the proof skipped (`over = 1`): work_is_waited_for failed, the simulated
 * device having seen an unmap under queued work. In tnri_reclaim, without tnri_release_idle:
 * streams_that_keep_theirs_give_it failed.
 */
#include "unit.h"

static void trim_keeps_what_it_is_told_to(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", NULL);
    void *ptr = unit_malloc(40 * MIB, NULL);
    void *live = unit_malloc(3 * MIB, NULL);
    assert_ok(tnr_free(ptr));
    size_t released;
    assert_ok(tnr_trim(&released, SIZE_MAX, 0));
    assert_int_equal(released, 0);
    assert_ok(tnr_trim(&released, 30 * MIB, 0));
    assert_int_equal(released, 14 * MIB);
    assert_int_equal(unit_stats().reserved_bytes.current, 30 * MIB);
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 4 * MIB); /* the live block's chunks */
    simcuda_live on_device;
    assert_int_equal(simcuda_live_get(0, &on_device), 0);
    assert_int_equal(on_device.handle_bytes, 4 * MIB);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, live));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_ok(tnr_free(live));
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(released, 4 * MIB);
    assert_error(tnr_trim(&released, 0, 5), TNR_ERR_INVALID_DEVICE, NULL);
    assert_int_equal(released, 0);
}

/* Small blocks keep the chunks that they lie in, bins do not. */
static void trim_flushes_bins(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *a = unit_malloc(512, NULL);
    void *b = unit_malloc(512, NULL);
    assert_ok(tnr_free(a));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 2 * MIB);
    assert_ok(tnr_free(b));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_int_equal(unit_stats().bytes_free, 0);
    (void)unit_malloc(512, NULL); /* and the arena still serves */
}

/* A moved chunk is given back with all its addresses, in whichever arena they are. */
static void trim_after_moves(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2,lend:off", NULL);
    tnr_stream other = unit_stream(0);
    void *a = unit_malloc(16 * MIB, NULL);
    assert_ok(tnr_free(a));
    void *b = unit_malloc(16 * MIB, other);
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.chunks_moved, 8);
    assert_int_equal(stats.served[TNR_SERVED_SHARED], 1);
    assert_int_equal(stats.reserved_bytes.current, 16 * MIB);
    assert_ok(tnr_free(b));
    assert_ok(tnr_trim(NULL, 0, 0));
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 0);
    assert_int_equal(live.mappings, 0);
    assert_int_equal(unit_stats().chunks_stale, 0);
}

/* Work is still queued on the memory: the trim waits for it before it unmaps anything. */
static void work_is_waited_for(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=lazy", NULL);
    CUcontext context;
    tnr_stream stream = unit_stream(0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    void *ptr = unit_malloc(8 * MIB, stream);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)ptr, 1, 8 * MIB, stream), CUDA_SUCCESS);
    assert_ok(tnr_free(ptr));
    assert_true(simcuda_pending() > 0);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_int_equal(simcuda_violations(), 0);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static void release_threshold(void **state)
{
    (void)state;
    unit_start("release_threshold_mb:10,chunk_max_mb:2", "SCHEDULE=eager", NULL);
    void *blocks[4];
    for (size_t i = 0; i < 4; i++)
        blocks[i] = unit_malloc(10 * MIB, NULL);
    for (size_t i = 0; i < 4; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_int_equal(unit_stats().reserved_bytes.current, 40 * MIB); /* a free calls no driver */
    (void)unit_malloc(1, NULL);                                      /* growth does: now it goes */
    (void)unit_malloc(3 * MIB, unit_stream(0));
    tnr_stats stats = unit_stats();
    assert_true(stats.bytes_free + stats.bytes_binned <= 10 * MIB + 4 * MIB);
    /* A pool's own threshold overrules the setting. */
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.release_threshold_bytes = 100 * MIB;
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, &options));
    void *a, *b;
    assert_ok(tnr_pool_malloc(&a, pool, 50 * MIB, 0, NULL));
    assert_ok(tnr_free(a));
    assert_ok(tnr_pool_malloc(&b, pool, 1, 0, NULL));
    tnr_stats of_pool = {.struct_bytes = sizeof(of_pool)};
    assert_ok(tnr_stats_get(&of_pool, pool, 0));
    assert_int_equal(of_pool.reserved_bytes.current, 50 * MIB);
}

static void garbage_collection_threshold(void **state)
{
    (void)state;
    unit_start("garbage_collection_threshold:0.5,chunk_max_mb:2", "MEMORY=64M", "SCHEDULE=eager",
               NULL);
    tnr_pool pool;
    void *a;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&a, pool, 24 * MIB, 0, NULL));
    assert_ok(tnr_free(a));
    (void)unit_malloc(6 * MIB, NULL); /* 30 of 32 MiB: nothing is given back */
    assert_int_equal(unit_stats().reserved_bytes.current, 30 * MIB);
    (void)unit_malloc(12 * MIB, NULL); /* would be 42: the idle 24 shrink first */
    assert_true(unit_stats().reserved_bytes.current <= 32 * MIB);
    assert_int_equal(unit_stats().num_alloc_retries, 0);
}

/* max_split_size_mb: a large free run is left for large requests, whole, so that they need no
 * driver. In tnri_window_find's block_is_open, the bound removed: the last request had to grow. */
static void max_split_size(void **state)
{
    (void)state;
    unit_start("max_split_size_mb:16,chunk_max_mb:64,chunk_share:1", NULL);
    void *large = unit_malloc(32 * MIB, NULL);
    assert_ok(tnr_free(large));
    (void)unit_malloc(4 * MIB, NULL); /* does not come out of the 32 MiB */
    assert_int_equal(unit_stats().reserved_bytes.current, 36 * MIB);
    uint64_t calls = simcuda_calls_total();
    (void)unit_malloc(32 * MIB, NULL);
    assert_int_equal(simcuda_calls_total(), calls);
    (void)unit_malloc(15 * MIB, NULL);
    assert_int_equal(unit_stats().reserved_bytes.current, 52 * MIB);
}

/* With cross_stream:off another stream's memory stays with it, until memory runs out. */
static void streams_that_keep_theirs_give_it(void **state)
{
    (void)state;
    unit_start("cross_stream:off", "MEMORY=1G", NULL);
    tnr_stream one = unit_stream(0);
    tnr_stream other = unit_stream(0);
    void *ptr = unit_malloc(400 * MIB, one);
    assert_ok(tnr_free(ptr));
    ptr = unit_malloc(400 * MIB, other);
    assert_int_equal(unit_stats().reserved_bytes.current, 800 * MIB);
    void *more = unit_malloc(500 * MIB, other);
    tnr_stats stats = unit_stats();
    assert_true(stats.reserved_bytes.current <= 1024 * MIB);
    assert_int_equal(stats.served[TNR_SERVED_SHARED] + stats.served[TNR_SERVED_LENT], 0);
    assert_ok(tnr_free(more));
    assert_ok(tnr_free(ptr));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(trim_keeps_what_it_is_told_to, unit_stop),
        cmocka_unit_test_teardown(trim_flushes_bins, unit_stop),
        cmocka_unit_test_teardown(trim_after_moves, unit_stop),
        cmocka_unit_test_teardown(work_is_waited_for, unit_stop),
        cmocka_unit_test_teardown(release_threshold, unit_stop),
        cmocka_unit_test_teardown(garbage_collection_threshold, unit_stop),
        cmocka_unit_test_teardown(max_split_size, unit_stop),
        cmocka_unit_test_teardown(streams_that_keep_theirs_give_it, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
