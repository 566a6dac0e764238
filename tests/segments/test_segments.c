/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools over foreign segments. Blocks are carved only out of what the owner gives. Segments go back
 * to the owner whole and when they must. Errors of the owner are reported, and lose nothing.
 *
 * Lines of the library changed to see it fail:
 *   tnri_stale_drain gives back without proof: work_is_waited_for
 *   tnri_account_is_known not looked at in tnri_reclaim: registered
 *   tnri_account_is_kept not looked at in tnri_release_idle, or in tnri_reclaim_idle: trimming
 *   or looked at for the pool's own want in tnri_reclaim: shortage, limits
 *   segments joined (borrow_join in tnri_world_segment_add): what_is_served, by an assertion
 *   tnri_world_promise_borrow not called in segment_promise: the same
 *   segment_ask without its second try: how_much_is_asked_for; the same and trimming with large
 *   segments for small blocks
 *   each check of memory_check, or is_known, left out, or owner_free after it: wrong_memory
 *   tnri_segment_outside not called in tnri_segment_create, tnr_pool_trim or tnr_pool_destroy:
 *   callbacks_that_call_back
 *   tnri_chunk_lacks not set in memory_take: the_oom_callback
 *   limits not given back when the owner has none: shortage and nine others
 *   foreign pools not passed over in set_make, tnri_segment_refuse not called in tnr_reserve:
 *   what_is_refused; the same in set_check: it does not end
 *   hold_address in devices' ranges alone: kept_for_a_graph; segments_add not called: captured
 *   arena_of_slowly in devices' ranges alone: work_is_waited_for, the_end
 *   is_first not looked at in segments_show, or no kind `foreign`: seen
 *   tnri_block_map_wipe not called in tnri_world_segment_remove: leaks, under AddressSanitizer
 */
#include "owner.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tenure/compact.h>
#include <tenure/export.h>

#include <cuda.h>
#include <tenure/capture.h>
#include <tenure/history.h>
#include <tenure/lifetime.h>
#include <tenure/sleep.h>

#include "base/host_memory.h"
#include "commit_seed.h"
#include "few.h"

static void *take(tnr_pool pool, size_t bytes, tnr_stream stream)
{
    void *ptr = NULL;
    assert_ok(tnr_pool_malloc(&ptr, pool, bytes, 0, stream));
    return ptr;
}

static tnr_stats pool_stats(tnr_pool pool)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_stats_get(&stats, pool, 0));
    (void)unit_stats(); /* validates */
    return stats;
}

/* ---- serving -------------------------------------------------------------------------------- */

/* Blocks of all sizes lie in segments, do not overlap, are described, and are served again without
 * the owner. */
static void what_is_served(void **state)
{
    (void)state;
    enum { BLOCKS = 200 };
    unit_start(NULL, NULL);
    tnr_pool pool = owner_pool();
    tnr_stream streams[3] = {NULL, unit_stream(0), unit_stream(0)};
    struct {
        unsigned char *ptr;
        size_t bytes;
    } held[BLOCKS] = {0};
    uint64_t random = 3, asked = 0;
    for (int round = 0; round < 3000; round++) {
        size_t at = unit_below(&random, BLOCKS);
        assert_ok(tnr_free(held[at].ptr));
        held[at].bytes = 1 + unit_below(&random, round % 3 == 0 ? 9 * MIB : 300 * KIB);
        held[at].ptr = take(pool, held[at].bytes, streams[at % 3]);
        const owner_segment *segment = owner_find(held[at].ptr);
        assert_non_null(segment);
        assert_ptr_equal(owner_find(held[at].ptr + held[at].bytes - 1), segment);
        assert_ptr_equal(segment->stream, streams[at % 3]);
        tnr_block_info info;
        assert_ok(tnr_block_get(&info, held[at].ptr + held[at].bytes / 2));
        assert_ptr_equal(info.base, held[at].ptr);
        assert_int_equal(info.bytes_requested, held[at].bytes);
        assert_ptr_equal(info.pool, pool);
        assert_ptr_equal(info.segment, segment->ptr);
        assert_int_equal(info.segment_bytes, segment->bytes);
        if (round == 2000)
            asked = the_owner.allocs;
    }
    for (int a = 0; a < BLOCKS; a++)
        for (int b = 0; b < a; b++)
            assert_true(held[a].ptr + held[a].bytes <= held[b].ptr ||
                        held[b].ptr + held[b].bytes <= held[a].ptr);
    assert_true(the_owner.allocs < asked + asked / 4);
    tnr_stats stats = pool_stats(pool);
    assert_int_equal(stats.segment.current, the_owner.lives);
    assert_int_equal(stats.chunks_moved, 0);
    assert_int_equal(stats.served[TNR_SERVED_LENT] + stats.served[TNR_SERVED_MOVED] +
                         stats.served[TNR_SERVED_SHARED],
                     0);
    for (int a = 0; a < BLOCKS; a++)
        assert_ok(tnr_free(held[a].ptr));
    assert_int_equal(the_owner.frees, 0);
    assert_ok(tnr_pool_destroy(pool));
    assert_int_equal(the_owner.lives, 0);
    tnr_block_info info;
    assert_error(tnr_block_get(&info, held[0].ptr), TNR_ERR_FOREIGN_POINTER, NULL);
    void *other = unit_malloc(3 * MIB, NULL);
    assert_ok(tnr_block_get(&info, other));
    assert_null(info.segment);
}

/* Small blocks, 20 MiB for larger ones, and what is larger than that alone. */
static void how_much_is_asked_for(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = owner_pool();
    assert_int_equal(owner_find(take(pool, 700, NULL))->bytes, 2 * MIB);
    assert_int_equal(owner_find(take(pool, 3 * MIB, NULL))->bytes, 20 * MIB);
    assert_int_equal(owner_find(take(pool, 35 * MIB + 1, NULL))->bytes, 36 * MIB);
    void *aligned = NULL;
    assert_ok(tnr_pool_push(pool));
    assert_ok(tnr_malloc_aligned(&aligned, 3 * MIB, 64 * MIB, 0, NULL));
    assert_ok(tnr_pool_pop(pool));
    assert_int_equal((uintptr_t)aligned % (64 * MIB), 0);
    assert_non_null(owner_find((char *)aligned + 3 * MIB - 1));
    tnr_pool_options options = owner_options();
    tnr_pool other;
    options.segment_bytes = 7 * MIB;
    assert_ok(tnr_pool_create(&other, 0, &options));
    assert_int_equal(owner_find(take(other, 3 * MIB, NULL))->bytes, 8 * MIB);
    /* No more than 6 MiB are left: what is just enough is asked for then. */
    assert_ok(tnr_pool_limit_set(other, 14 * MIB, 0));
    assert_int_equal(owner_find(take(other, 6 * MIB, NULL))->bytes, 6 * MIB);
}

/* Segments side by side are two, for frees, for reuse, and in snapshots. */
static void neighbours(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = owner_pool();
    unsigned char *blocks[64];
    int touch = 0;
    for (int i = 0; i < 64; i++)
        blocks[i] = take(pool, 20 * MIB, NULL);
    for (int a = 0; a < 64; a++)
        for (int b = 0; b < 64; b++)
            touch += blocks[a] + 20 * MIB == blocks[b];
    if (touch == 0)
        print_message("the simulated device put no two side by side\n");
    for (int i = 0; i < 64; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_int_equal(pool_stats(pool).bytes_chunk_largest_free, 20 * MIB);
    unsigned char *more = take(pool, 21 * MIB, NULL);
    assert_int_equal(owner_find(more)->bytes, 22 * MIB);
    assert_int_equal(the_owner.lives, 65);
}

/* ---- going back ----------------------------------------------------------------------------- */

/* Only whole, only when the pool is named, and no more than is asked for. */
static void trimming(void **state)
{
    (void)state;
    size_t released = 1;
    unit_start("garbage_collection_threshold:0.1,release_threshold_mb:1", "MEMORY=256M", NULL);
    tnr_pool pool = owner_pool();
    void *whole = take(pool, 20 * MIB, NULL), *part = take(pool, 4 * MIB, NULL),
         *rest = take(pool, 15 * MIB, NULL), *small = take(pool, 700, NULL);
    assert_int_equal(the_owner.lives, 3);
    assert_ok(tnr_free(whole));
    assert_ok(tnr_free(rest));
    assert_ok(tnr_free(take(pool, 700, unit_stream(0)))); /* the threshold is looked at */
    assert_int_equal(the_owner.frees, 0);
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(released, 0);
    void *other = NULL;
    assert_error(tnr_malloc(&other, 230 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_int_equal(the_owner.frees, 0);
    assert_ok(tnr_pool_trim(&released, pool, 22 * MIB, 0));
    assert_int_equal(released, 22 * MIB);
    assert_null(owner_find(whole));
    assert_ok(tnr_pool_trim(&released, pool, 0, 0));
    assert_int_equal(released, 0); /* a block is live in either */
    assert_int_equal(the_owner.lives, 2);
    assert_error(tnr_free(whole), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_error(tnr_free(rest), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_free((char *)part + 512), TNR_ERR_INTERIOR_POINTER, NULL);
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "2 live blocks");
    assert_ok(tnr_free(part));
    assert_ok(tnr_free(small));
    assert_ok(tnr_pool_trim(&released, pool, 0, 0));
    assert_int_equal(released, 22 * MIB);
    assert_int_equal(the_owner.lives, 0);
    assert_int_equal(pool_stats(pool).reserved_bytes.current, 0);
    assert_non_null(owner_find(take(pool, 1, NULL)));
}

/* Not before the last work on it is over, of its stream and of others. */
static void work_is_waited_for(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=lazy", NULL);
    tnr_pool pool = owner_pool();
    tnr_stream own = unit_stream(0), other = unit_stream(0);
    CUcontext context, popped;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    void *a = take(pool, 20 * MIB, own), *b = take(pool, 20 * MIB, own);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)a, 1, 20 * MIB, own), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)b, 1, 20 * MIB, other), CUDA_SUCCESS);
    assert_ok(tnr_record_use((char *)b + 7 * MIB, other));
    assert_ok(tnr_free(a));
    assert_ok(tnr_free(b));
    /* A trim that cannot wait gives nothing back, and nor does who comes by later. */
    simcuda_fail("cuEventSynchronize", 1, 1, CUDA_ERROR_UNKNOWN);
    assert_error(tnr_pool_trim(NULL, pool, 0, 0), TNR_ERR_DRIVER, "cuEventSynchronize");
    simcuda_fail_clear();
    assert_ok(tnr_free(take(pool, 700, own)));
    assert_non_null(owner_find(a));
    assert_int_equal(cuStreamQuery(own), CUDA_ERROR_NOT_READY);
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    assert_int_equal(the_owner.lives, 0);
    a = take(pool, 20 * MIB, own), b = take(pool, 20 * MIB, own);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)a, 1, 20 * MIB, own), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)b, 1, 20 * MIB, other), CUDA_SUCCESS);
    assert_ok(tnr_record_use((char *)b + 7 * MIB, other));
    assert_ok(tnr_free(a));
    assert_ok(tnr_free(b));
    assert_true(pool_stats(pool).bytes_retired == 20 * MIB);
    void *c = take(pool, 20 * MIB, own); /* of this stream's own, not of the retired one */
    assert_ptr_equal(c, a);
    assert_ok(tnr_free(c));
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    assert_int_equal(the_owner.lives, 0); /* the owner unmaps: a violation if work were queued */
    assert_int_equal(simcuda_violations(), 0);
    assert_int_equal(cuStreamQuery(own), CUDA_SUCCESS);
    assert_int_equal(cuStreamQuery(other), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

/* What an ended pool had is with its owner, and what a forced end frees. */
static void the_end(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = owner_pool();
    for (int i = 0; i < 60; i++) /* more than a world has spans */
        (void)take(pool, 20 * MIB, NULL);
    void *used = take(pool, 5 * MIB, NULL);
    assert_ok(tnr_record_use(used, unit_stream(0)));
    assert_ok(tnr_free(used));
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, NULL);
    assert_error(tnr_shutdown(0), TNR_ERR_BUSY, NULL);
    assert_int_equal(the_owner.frees, 0);
    assert_ok(tnr_device_end(0, 1));
    assert_int_equal(the_owner.lives, 0);
    assert_error(tnr_pool_destroy(pool), TNR_ERR_INVALID_POOL, NULL);
    pool = owner_pool();
    (void)take(pool, 5 * MIB, NULL);
    assert_ok(tnr_shutdown(1));
    assert_int_equal(the_owner.lives, 0);
}

/* ---- running short -------------------------------------------------------------------------- */

/* The pool's own idle segments go back first, also those of other streams, and idle memory of other
 * pools; then the failure says who had none. */
static void shortage(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=128M", NULL);
    tnr_pool pool = owner_pool();
    void *block = unit_malloc(60 * MIB, NULL), *mine, *more = NULL;
    assert_ok(tnr_free(block));
    mine = take(pool, 100 * MIB, NULL); /* idle memory of the default pool goes */
    assert_ok(tnr_free(mine));
    mine = take(pool, 110 * MIB, unit_stream(0)); /* and this pool's of another stream */
    assert_int_equal(the_owner.lives, 1);
    assert_int_equal(pool_stats(pool).served[TNR_SERVED_RECLAIMED], 2);
    assert_error(tnr_pool_malloc(&more, pool, 50 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
                 "the owner of pool \"owned\"'s memory gave none when it was asked for 52428800");
    assert_null(more);
    assert_ok(tnr_free(mine));
    the_owner.fail_from = 1;
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    assert_error(tnr_pool_malloc(&more, pool, 700, 0, NULL), TNR_ERR_OUT_OF_MEMORY, "gave none");
    the_owner.fail_from = 0;
    assert_ok(tnr_pool_malloc(&more, pool, 700, 0, NULL));
    assert_int_equal(pool_stats(pool).num_ooms, 0);
    assert_int_equal(unit_stats().num_ooms, 2);
}

/* What was registered does not go back for the pool's own want, only when the pool is named. */
static void registered(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=128M", NULL);
    tnr_pool pool = owner_pool();
    void *block = take(pool, 60 * MIB, NULL), *more = NULL;
    assert_ok(tnr_memory_registered(block));
    assert_ok(tnr_free(block));
    assert_error(tnr_pool_malloc(&more, pool, 100 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
                 "gave none");
    assert_non_null(owner_find(block));
    assert_ptr_equal(take(pool, 60 * MIB, NULL), block);
    assert_ok(tnr_free(block));
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    assert_int_equal(the_owner.lives, 0);
    assert_ok(tnr_pool_malloc(&more, pool, 100 * MIB, 0, NULL));
}

static tnr_oom_info told;
static int on_oom(const tnr_oom_info *info, void *user)
{
    told = *info;
    the_owner.fail_from = 0;
    return user != NULL;
}

static void the_oom_callback(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = owner_pool();
    int helps = 1;
    void *ptr = NULL;
    the_owner.fail_from = 1;
    tnr_oom_callback_set(on_oom, &helps);
    assert_ok(tnr_pool_malloc(&ptr, pool, 3 * MIB, 0, NULL));
    assert_int_equal(told.reason, TNR_OOM_SEGMENT);
    assert_ptr_equal(told.pool, pool);
    assert_int_equal(told.bytes, 3 * MIB);
}

static void limits(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = owner_pool();
    void *ptr = NULL, *held = take(pool, 20 * MIB, NULL);
    assert_ok(tnr_pool_limit_set(pool, 50 * MIB, 0));
    assert_error(tnr_pool_malloc(&ptr, pool, 31 * MIB, 0, NULL), TNR_ERR_LIMIT, "owned");
    assert_error(tnr_pool_malloc(&ptr, pool, 51 * MIB, 0, NULL), TNR_ERR_LIMIT, "owned");
    assert_int_equal(the_owner.allocs, 1); /* he is not even asked */
    assert_ok(tnr_free(held));
    assert_ok(tnr_pool_malloc(&ptr, pool, 31 * MIB, 0, NULL)); /* the idle one goes */
    assert_int_equal(the_owner.lives, 1);
    assert_ok(tnr_limit_set(40 * MIB, 0));
    assert_error(tnr_malloc(&held, 30 * MIB, 0, NULL), TNR_ERR_LIMIT, "device 0");
    assert_int_equal(pool_stats(pool).reserved_bytes.current, 32 * MIB);
}

/* ---- what an owner does wrong --------------------------------------------------------------- */

static void *a_little_above(owner *own)
{
    (void)own;
    return (void *)(uintptr_t)(64 * GIB + 4096);
}
static void *no_address(owner *own)
{
    (void)own;
    return (void *)(UINTPTR_MAX - (uintptr_t)(2 * MIB) + 1);
}
static void *first_again(owner *own)
{
    return own->segments[0].ptr;
}
static void *inside_the_first(owner *own)
{
    return (char *)own->segments[0].ptr + 4 * MIB;
}
static void *of_tenure(owner *own)
{
    (void)own;
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_device_get(&info, 0));
    return (void *)(info.address_base + 64 * MIB);
}

static void wrong_memory(void **state)
{
    (void)state;
    static const struct {
        void *(*gives)(owner *own);
        const char *says;
        int goes_back;
    } wrongs[] = {
        {a_little_above, "not a multiple of 2097152. It was given back", 1},
        {no_address, "at no address. It was given back", 1},
        {of_tenure, "lies in memory of Tenure's", 1},
        {first_again, "a segment already. It was not given back", 0},
        {inside_the_first, "a segment already. It was not given back", 0},
    };
    unit_start(NULL, "DEVICES=2", NULL);
    tnr_pool pool = owner_pool(), other;
    tnr_pool_options options = owner_options();
    assert_ok(tnr_pool_create(&other, 1, &options));
    void *first = take(pool, 20 * MIB, NULL), *ptr = &ptr;
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++)
        for (int device = 0; device < 2; device++) {
            uint64_t frees = the_owner.frees;
            the_owner.instead = wrongs[i].gives;
            assert_error(tnr_pool_malloc(&ptr, device ? other : pool, 20 * MIB, device, NULL),
                         TNR_ERR_FOREIGN_SEGMENT, wrongs[i].says);
            assert_null(ptr);
            assert_ok(tnr_pool_push(device ? other : pool));
            the_owner.instead = wrongs[i].gives;
            assert_error(tnr_malloc(&ptr, 20 * MIB, device, NULL), TNR_ERR_FOREIGN_SEGMENT, NULL);
            the_owner.instead = wrongs[i].gives;
            assert_error(tnr_malloc_aligned(&ptr, 20 * MIB, 4096, device, NULL),
                         TNR_ERR_FOREIGN_SEGMENT, NULL);
            assert_ok(tnr_pool_pop(device ? other : pool));
            assert_int_equal(the_owner.frees, frees + 3 * (uint64_t)wrongs[i].goes_back);
            assert_ok(tnr_validate(-1));
        }
    the_owner.device = 1;
    assert_error(tnr_pool_malloc(&ptr, pool, 3 * MIB, 0, NULL), TNR_ERR_FOREIGN_SEGMENT,
                 "of device 1 for device 0. It was given back");
    the_owner.device = -1;
    assert_int_equal(the_owner.lives, 1);
    assert_ok(tnr_pool_malloc(&ptr, pool, 3 * MIB, 0, NULL)); /* and it serves */
    assert_int_equal(unit_stats().reserved_bytes.current, 40 * MIB);
    assert_ok(tnr_free(first));
}

/* ---- what callbacks may do ------------------------------------------------------------------ */

static tnr_pool inside_pool;
static int inside_calls;

static void calls_back(owner *own, int is_alloc)
{
    void *ptr = NULL;
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    own->inside = NULL; /* once */
    inside_calls += is_alloc ? 1 : 10;
    assert_ok(tnr_malloc(&ptr, 3 * MIB, 0, NULL));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_stats_get(&stats, inside_pool, 0));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_error(tnr_pool_malloc(&ptr, inside_pool, 100 * MIB, 0, NULL), TNR_ERR_BUSY, "owned");
    assert_error(tnr_pool_trim(NULL, inside_pool, 0, 0), TNR_ERR_BUSY, "tnr_pool_trim");
    assert_error(tnr_pool_destroy(inside_pool), TNR_ERR_BUSY, "tnr_pool_destroy");
    assert_error(tnr_device_end(0, 1), TNR_ERR_BUSY, "tnr_device_end");
    assert_error(tnr_shutdown(1), TNR_ERR_BUSY, "tnr_shutdown");
    assert_error(tnr_pool_sleep(inside_pool, 0, NULL), TNR_ERR_FOREIGN_SEGMENT, NULL);
    assert_error(tnr_pool_access_set(inside_pool, 0, 1, TNR_ACCESS_READWRITE),
                 TNR_ERR_FOREIGN_SEGMENT, NULL);
}

static void callbacks_that_call_back(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", NULL);
    inside_pool = owner_pool();
    inside_calls = 0;
    the_owner.inside = calls_back;
    void *block = take(inside_pool, 20 * MIB, NULL);
    assert_int_equal(inside_calls, 1);
    the_owner.inside = calls_back;
    assert_ok(tnr_free(block));
    assert_ok(tnr_pool_trim(NULL, inside_pool, 0, 0));
    assert_int_equal(inside_calls, 11);
    assert_int_equal(the_owner.lives, 0);
}

/* ---- what such a pool cannot do ------------------------------------------------------------- */

static void what_is_refused(void **state)
{
    (void)state;
    unit_start(NULL, "DEVICES=2", NULL);
    tnr_pool pool = owner_pool();
    tnr_access access;
    void *ptr = take(pool, 5 * MIB, NULL), *other = unit_malloc(5 * MIB, NULL), *none = &none;
    assert_error(tnr_pool_sleep(pool, 0, NULL), TNR_ERR_FOREIGN_SEGMENT, "\"owned\" of device 0");
    assert_error(tnr_pool_access_set(pool, 0, 1, TNR_ACCESS_READWRITE), TNR_ERR_FOREIGN_SEGMENT,
                 "for its owner to say");
    assert_error(tnr_pool_access_get(&access, pool, 0, 1), TNR_ERR_FOREIGN_SEGMENT, NULL);
    assert_ok(tnr_pool_push(pool));
    assert_error(tnr_reserve(&none, 64 * MIB, 0, NULL), TNR_ERR_FOREIGN_SEGMENT, NULL);
    assert_ok(tnr_pool_pop(pool));
    assert_null(none);
    assert_error(tnr_commit(ptr, 6 * MIB), TNR_ERR_INVALID_ARGUMENT, "tnr_malloc");
    assert_error(tnr_compact(NULL, pool, 0), TNR_ERR_FOREIGN_SEGMENT, "\"owned\" of device 0");
    tnr_export exported = 0;
    assert_error(tnr_export_create(&exported, ptr), TNR_ERR_FOREIGN_SEGMENT, "their owner");
    assert_int_equal(exported, 0);
    /* The others go on: they sleep, and are opened. */
    assert_ok(tnr_device_access_set(0, 1, TNR_ACCESS_READWRITE));
    assert_ok(tnr_pool_access_get(&access, NULL, 0, 1));
    assert_int_equal(access, TNR_ACCESS_READWRITE);
    uint64_t calls = unit_stats().driver_calls[TNR_DRIVER_ACCESS];
    assert_ok(tnr_device_access_set(0, 1, TNR_ACCESS_NONE));
    assert_true(unit_stats().driver_calls[TNR_DRIVER_ACCESS] > calls); /* `other` is closed */
    assert_ok(tnr_device_sleep(0, NULL));
    assert_error(tnr_malloc(&none, 5 * MIB, 0, unit_stream(0)), TNR_ERR_ASLEEP, NULL);
    assert_non_null(owner_find(take(pool, 5 * MIB, NULL)));
    assert_ok(tnr_device_wake(0));
    assert_ok(tnr_pool_wake(pool, 0)); /* it was awake */
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_free(other));
}

static void bad_options(void **state)
{
    (void)state;
    unit_start(NULL, "RDMA=1", NULL);
    tnr_pool pool;
    tnr_pool_options options = owner_options();
    owner_reset();
    options.segment_free = NULL;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "segment_free");
    options = owner_options();
    options.segment_alloc = NULL;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "segment_free");
    options = owner_options();
    options.gpu_direct_rdma = 1;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "owner");
    options = owner_options();
    options.handle_type = TNR_HANDLE_POSIX_FD;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_ARGUMENT, "owner");
    options = owner_options();
    options.segment_bytes = SIZE_MAX;
    assert_error(tnr_pool_create(&pool, 0, &options), TNR_ERR_INVALID_SIZE, NULL);
    assert_null(pool);
}

/* ---- captures ------------------------------------------------------------------------------- */

static void count_safe(const tnr_audit_finding *finding, void *user)
{
    int *counts = user;
    counts[finding->is_safe && owner_find((void *)finding->address) != NULL]++;
}

/* A graph pool over segments: grown into while a stream captures, replayed, audited, and its memory
 * stays until the graph ends. */
static void captured(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    owner_reset();
    tnr_pool_options options = owner_options();
    tnr_pool pool;
    tnr_cuda_graph graph;
    CUgraphExec exec;
    CUcontext context, popped;
    tnr_stream stream = unit_stream(0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_ok(tnr_graph_pool_create(&pool, 0, &options));
    tnr_capture_options capture = TNR_CAPTURE_OPTIONS_INIT;
    capture.pool = pool;
    assert_ok(tnr_capture_begin(0, stream, &capture));
    unsigned char *scratch = NULL, *result = NULL, *again = NULL, found = 0;
    assert_ok(tnr_malloc((void **)&scratch, 20 * MIB, 0, stream));
    assert_ptr_equal(owner_find(scratch)->stream, stream);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)scratch, 7, 20 * MIB, stream), CUDA_SUCCESS);
    assert_ok(tnr_malloc((void **)&result, 20 * MIB, 0, stream));
    assert_int_equal(cuMemcpyDtoDAsync((CUdeviceptr)result, (CUdeviceptr)scratch, 20 * MIB, stream),
                     CUDA_SUCCESS);
    assert_ok(tnr_free(scratch));
    assert_ok(tnr_malloc((void **)&again, 20 * MIB, 0, stream));
    assert_ptr_equal(again, scratch);
    assert_ok(tnr_free(again));
    tnr_graph number;
    assert_ok(tnr_capture_end(&graph, &number, 0, stream));
    int counts[2] = {0};
    tnr_audit audit = {.struct_bytes = sizeof(audit)};
    assert_ok(tnr_graph_audit(&audit, graph, number, count_safe, counts));
    assert_int_equal(counts[0], 0);
    assert_true(counts[1] >= 3);
    assert_int_equal(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    assert_ok(tnr_graph_launch(number, exec, stream));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoH(&found, (CUdeviceptr)result + 19 * MIB, 1), CUDA_SUCCESS);
    assert_int_equal(found, 7);
    assert_ok(tnr_free(result));
    size_t released;
    assert_ok(tnr_pool_trim(&released, pool, 0, 0));
    assert_int_equal(released, 0); /* the graph needs it */
    assert_ok(tnr_validate(-1));
    assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_ok(tnr_pool_destroy(pool));
    assert_int_equal(the_owner.lives, 0);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

/* A block of an ordinary pool over segments that a graph refers to is kept for it, and so is its
 * segment. Other streams are served while one captures. */
static void kept_for_a_graph(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_pool pool = owner_pool();
    tnr_stream stream = unit_stream(0), other = unit_stream(0);
    CUcontext context, popped;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    void *block = take(pool, 20 * MIB, stream);
    tnr_cuda_graph graph;
    assert_ok(tnr_capture_begin(0, stream, NULL));
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)block, 7, MIB, stream), CUDA_SUCCESS);
    assert_non_null(owner_find(take(pool, 20 * MIB, other)));
    assert_ok(tnr_capture_end(&graph, NULL, 0, stream));
    assert_ok(tnr_free(block));
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    assert_non_null(owner_find(block));
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX); /* the driver tells of its end */
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    assert_null(owner_find(block));
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

/* ---- seeing --------------------------------------------------------------------------------- */

/* What a snapshot says of a pool: each segment is one, as its owner knows it. */
static void seen(void **state)
{
    (void)state;
    static const char path[] = "test_segments.snapshot";
    char text[1 << 16], place[64];
    unit_start("history:light", NULL);
    tnr_pool pool = owner_pool();
    unsigned char *blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = take(pool, 20 * MIB, NULL);
    assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_JSON));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    assert_true(length > 0 && length < sizeof(text) - 1);
    assert_int_equal(fclose(file), 0);
    text[length] = '\0';
    assert_non_null(strstr(text, "\"foreign\""));
    const char *segments = strstr(text, "\n\"segments\"");
    const char *end = strstr(text, "\n\"blocks\"");
    assert_non_null(segments);
    assert_true(end > segments);
    for (int i = 0; i < 8; i++) {
        snprintf(place, sizeof(place), "\n[%llu,20971520,",
                 (unsigned long long)(uintptr_t)blocks[i]);
        const char *found = strstr(segments, place);
        assert_non_null(found);
        assert_true(found < end);
    }
    assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_PICKLE));
    assert_int_equal(unlink(path), 0);
}

/* ---- calls that fail ------------------------------------------------------------------------ */

/* Blocks of all kinds, a use, a trim. Goes on after what fails; frees all. */
static void work(tnr_pool pool, tnr_stream own, tnr_stream other)
{
    void *blocks[6] = {0};
    for (int i = 0; i < 6; i++) {
        tnr_status status =
            tnr_pool_malloc(&blocks[i], pool, i % 2 ? 700 : 11 * MIB, 0, i < 3 ? own : other);
        assert_true((status == TNR_OK) == (blocks[i] != NULL));
        if (status != TNR_OK)
            assert_true(tnr_last_error()[0] != '\0');
        assert_ok(tnr_validate(-1));
    }
    if (blocks[0] != NULL)
        (void)!tnr_record_use(blocks[0], other);
    for (int i = 0; i < 6; i++) {
        assert_ok(tnr_free(blocks[i]));
        (void)!tnr_pool_trim(NULL, pool, 10 * MIB, 0);
        assert_ok(tnr_validate(-1));
    }
}

/* Memcheck and the sanitizers see some of the places; each commit begins at another. */
static uint64_t stride(void)
{
    return (uint64_t)few_or(1, 5);
}

static uint64_t first_place(void)
{
    return 1 + commit_seed() % stride();
}

/* Every driver call fails once, of the library and of the owner, and then for good. */
static void a_driver_that_fails(void **state)
{
    (void)state;
    for (int sticky = 0; sticky < 2; sticky++)
        for (uint64_t nth = first_place(), hits = 1; hits != 0; nth += stride()) {
            unit_start(NULL, NULL);
            tnr_pool pool = owner_pool();
            tnr_stream own = unit_stream(0), other = unit_stream(0);
            assert_ok(tnr_free(take(pool, 1, own)));
            simcuda_fail("*", nth, sticky, CUDA_ERROR_OUT_OF_MEMORY);
            work(pool, own, other);
            hits = simcuda_fail_hits();
            simcuda_fail_clear();
            assert_non_null(owner_find(take(pool, 5 * MIB, own)));
            assert_int_equal(owner_stop(NULL), 0);
            assert_true(hits == 0 || nth < 2000);
        }
}

static void without_host_memory(void **state)
{
    (void)state;
    for (int sticky = 0; sticky < 2; sticky++)
        for (uint64_t nth = first_place(), hits = 1; hits != 0; nth += stride()) {
            unit_start(NULL, NULL);
            owner_reset();
            tnr_stream own = unit_stream(0), other = unit_stream(0);
            tnr_pool_options options = owner_options();
            tnr_pool pool = NULL;
            void *first = unit_malloc(1, NULL);
            tnri_host_fail_at(nth, sticky);
            tnr_status status = tnr_pool_create(&pool, 0, &options);
            if (status == TNR_OK)
                work(pool, own, other);
            else
                assert_int_equal(status, TNR_ERR_HOST_MEMORY);
            hits = tnri_host_fail_at(0, 0);
            assert_ok(tnr_free(first));
            if (pool == NULL)
                assert_ok(tnr_pool_create(&pool, 0, &options));
            assert_non_null(owner_find(take(pool, 5 * MIB, own)));
            assert_int_equal(owner_stop(NULL), 0);
            assert_true(hits == 0 || nth < 2000);
        }
}

/* The owner fails at each of its calls, once or for good. */
static void an_owner_that_fails(void **state)
{
    (void)state;
    for (uint64_t nth = 1, failures = 1; failures != 0; nth++) {
        unit_start(NULL, NULL);
        tnr_pool pool = owner_pool();
        the_owner.fail_from = nth;
        work(pool, unit_stream(0), unit_stream(0));
        failures = the_owner.failures;
        the_owner.fail_from = 0;
        assert_non_null(owner_find(take(pool, 5 * MIB, NULL)));
        assert_int_equal(owner_stop(NULL), 0);
    }
}

#define CASE(test) cmocka_unit_test_teardown(test, owner_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_served),
        CASE(how_much_is_asked_for),
        CASE(neighbours),
        CASE(trimming),
        CASE(work_is_waited_for),
        CASE(the_end),
        CASE(shortage),
        CASE(registered),
        CASE(the_oom_callback),
        CASE(limits),
        CASE(wrong_memory),
        CASE(callbacks_that_call_back),
        CASE(what_is_refused),
        CASE(bad_options),
        CASE(captured),
        CASE(kept_for_a_graph),
        CASE(seen),
        CASE(a_driver_that_fails),
        CASE(without_host_memory),
        CASE(an_owner_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
