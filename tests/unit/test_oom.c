/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out of memory: the report says what was asked for, what there is, who holds it; the state is as
 * before and the next call works; the user's callback gets its chance.
 *
 * In ladder.c, ladder_ask left out: the_callback_frees_something failed; its check before the
 * callback left out: what_can_never_fit failed; ladder_flush asking the index only after it has
 * flushed something: the_callback_frees_part_of_a_chunk failed. In tnri_chunk_charge, either
 * `lacks` left out: the_reason_is_the_limit_that_refused failed. headroom_check without its
 * comparison, or without the discharge after it: others_have_headroom failed.
 * tnri_chunk_headroom_lack left out in tnri_reclaim: headroom_raised failed. tnri_pinned_walk left
 * out in holder_of, or called for pools that stay as they are: what_is_pinned failed.
 * tnri_chunk_foresee left out in chunks_create, or the limits left out in it, or was_refused never
 * set: what_does_not_fit_makes_no_chunk failed; memory_try left out:
 * what_the_driver_hands_out_is_taken; tnri_chunk_withheld always 0: what_the_driver_withholds;
 * memory_ask asking once: others_give_meanwhile; without its look before the first time, without
 * retries_count in may_be_refused, or where that believes what the driver says is left:
 * what_is_withheld_is_searched_for. In limit_tell, the first limit always taken, or limit_by not
 * set: the_limit_is_named. In way_tell, a return where the device has room, or in holders_tell, the
 * retired bytes left out: what_is_still_used.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include <tenure/capture.h>
#include <tenure/lifetime.h>
#include <tenure/tag.h>

#include "gpu/cuda/driver.h"

static void the_report(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    tnr_stream stream = unit_stream(0);
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool pool;
    void *big, *small, *none = &none;
    options.name = "weights";
    assert_ok(tnr_pool_create(&pool, 0, &options));
    assert_ok(tnr_pool_malloc(&big, pool, 40 * MIB, 0, stream));
    small = unit_malloc(10 * MIB, NULL);
    tnr_stats before = unit_stats();
    assert_error(
        tnr_malloc(&none, 30 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
        "Tenure out of memory: 30.00 MiB for the default stream; 50.00 MiB live, nothing free");
    assert_null(none);
    static const char *const says[] = {
        "device 0 has ", "of 64.00 MiB free.", "\"weights\"", "40.00 MiB live",
        "\"default\"",   "10.00 MiB live",     "Cause: ",     "\nFree something, or ask for less."};
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
        if (strstr(tnr_last_error(), says[i]) == NULL)
            fail_msg("the report lacks \"%s\": %s", says[i], tnr_last_error());
    assert_true(strstr(tnr_last_error(), "40.00 MiB live") <
                strstr(tnr_last_error(), "10.00 MiB live")); /* the largest first */
    assert_int_equal(tnr_last_driver_result(), CUDA_ERROR_OUT_OF_MEMORY);
    tnr_stats after = unit_stats();
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_int_equal(after.reserved_bytes.current, before.reserved_bytes.current);
    assert_int_equal(after.num_ooms, 1);
    assert_int_equal(after.allocation[0].allocated, before.allocation[0].allocated);
    assert_ok(tnr_free(small));
    assert_ok(tnr_malloc(&none, 20 * MIB, 0, NULL)); /* the next call works */
    assert_ok(tnr_free(big));
}

static void check_says(const char *words)
{
    if (strstr(tnr_last_error(), words) == NULL)
        fail_msg("the report lacks \"%s\": %s", words, tnr_last_error());
}

/* The limit that leaves least is named, with who set it, and with what raises it. */
static void the_limit_is_named(void **state)
{
    (void)state;
    unit_start("per_process_memory_fraction:0.5", "MEMORY=64M", NULL);
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool pool, tagged;
    void *held, *ptr;
    options.name = "cache";
    options.limit_bytes = 8 * MIB;
    assert_ok(tnr_pool_create(&pool, 0, &options));
    assert_ok(tnr_tag_pool(&tagged, "weights", TNR_CONTENT_DEFAULT));
    held = unit_malloc(4 * MIB, NULL);
    assert_error(tnr_malloc(&ptr, 30 * MIB, 0, NULL), TNR_ERR_LIMIT,
                 "Tenure out of memory: 30.00 MiB for the default stream; limit 32.00 MiB (set by "
                 "per_process_memory_fraction), 4.00 MiB reserved; 4.00 MiB live, ");
    check_says("; device 0 has 60.00 MiB of 64.00 MiB free.");
    check_says("\nThe device has room: raise the limit with tnr_limit_set, or the setting "
               "per_process_memory_fraction.");
    assert_ok(tnr_limit_set(16 * MIB, 0));
    assert_error(tnr_malloc(&ptr, 30 * MIB, 0, NULL), TNR_ERR_LIMIT,
                 "; limit 16.00 MiB (set by tnr_limit_set, in Python tenure.set_limit), 4.00");
    assert_error(tnr_pool_malloc(&ptr, pool, 10 * MIB, 0, NULL), TNR_ERR_LIMIT,
                 "; limit 8.00 MiB of the pool \"cache\" (set by the pool's options or "
                 "tnr_pool_limit_set), 0 B reserved; ");
    check_says("\nThe device has room: raise the limit with tnr_pool_limit_set.");
    assert_ok(tnr_tag_limit_set("weights", 6 * MIB, 0));
    assert_error(tnr_pool_malloc(&ptr, tagged, 10 * MIB, 0, NULL), TNR_ERR_LIMIT,
                 "; limit 6.00 MiB of the tag \"weights\" (set by tnr_tag_limit_set, in Python "
                 "tenure.tags), 0 B reserved; ");
    assert_ok(tnr_free(held));
    assert_ok(tnr_pool_destroy(pool));
}

/* What is freed and still used is told beside what is live and free, also where a limit refused. A
 * block whose use by another stream is not over waits for the end of a capture. */
static void what_is_still_used(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    tnr_stream stream = unit_stream(0), eager = unit_stream(0);
    void *held, *ptr;
    assert_ok(tnr_limit_set(40 * MIB, 0));
    assert_ok(tnr_malloc(&held, 30 * MIB, 0, eager));
    assert_ok(tnr_capture_begin(0, stream, NULL));
    assert_ok(tnr_record_stream(held, stream));
    assert_ok(tnr_free(held));
    assert_error(tnr_malloc(&ptr, 20 * MIB, 0, eager), TNR_ERR_LIMIT, "0 B live, ");
    check_says(" free, 30.00 MiB freed and still used");
    check_says("\n30.00 MiB are freed and wait for graphs, captures or other streams.");
    assert_ok(tnr_capture_abort(0, stream));
    assert_ok(tnr_malloc(&ptr, 20 * MIB, 0, eager));
    assert_ok(tnr_free(ptr));
}

/* What is free inside chunks that blocks have other parts of is told, with whose it is; not where
 * nothing could be given back. */
static void what_is_pinned(void **state)
{
    (void)state;
    unit_start("chunk_whole_mb:8", "MEMORY=64M", "RDMA=1", NULL);
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool tagged, kept;
    void *parts[4], *others[4], *none;
    char text[128];
    assert_ok(tnr_tag_pool(&tagged, "weights", TNR_CONTENT_DEFAULT));
    options.gpu_direct_rdma = 1;
    assert_ok(tnr_pool_create(&kept, 0, &options));
    tnr_pool pools[] = {tagged, kept};
    for (int p = 0; p < 2; p++) { /* a chunk of 16 MiB each, in parts of 4 */
        assert_ok(tnr_pool_malloc(&none, pools[p], 16 * MIB, 0, NULL));
        assert_ok(tnr_free(none));
        for (int i = 0; i < 4; i++)
            assert_ok(tnr_pool_malloc(p == 0 ? &parts[i] : &others[i], pools[p], 4 * MIB, 0, NULL));
    }
    assert_ok(tnr_free(others[1])); /* merged when the next one is freed, */
    assert_ok(tnr_free(others[3])); /* which is binned */
    assert_error(tnr_malloc(&none, 60 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, "live");
    assert_null(strstr(tnr_last_error(), "pinned"));
    assert_ok(tnr_free(parts[0]));
    assert_ok(tnr_free(parts[2]));
    assert_ok(tnr_free(parts[3]));
    assert_error(tnr_malloc(&none, 60 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
                 "4.00 MiB live, 12.00 MiB free, 12.00 MiB of it pinned (tag \"weights\")");
    assert_non_null(strstr(tnr_last_error(), "\n12.00 MiB are free inside chunks that live blocks "
                                             "have other parts of; tnr_compact"));
    snprintf(text, sizeof(text), "8.00 MiB, is pinned by the block of 4.00 MiB at %p of pool",
             parts[1]);
    assert_non_null(strstr(tnr_last_error(), text));
}

/* ---- the callback --------------------------------------------------------------------------- */

static struct {
    void *block;
    int calls, answer;
    tnr_oom_info info;
} asked;

static int free_the_block(const tnr_oom_info *info, void *user)
{
    asked.calls++;
    asked.info = *info;
    assert_int_equal(info->struct_bytes, sizeof(*info));
    assert_ptr_equal(user, &asked);
    if (asked.block != NULL)
        assert_ok(tnr_free(asked.block));
    asked.block = NULL;
    (void)unit_stats(); /* any function may be called */
    return asked.answer;
}

static void check_asked(tnr_oom_reason reason, tnr_pool pool, tnr_stream stream, size_t bytes)
{
    assert_int_equal(asked.info.reason, reason);
    assert_int_equal(asked.info.device, 0);
    assert_ptr_equal(asked.info.pool, pool);
    assert_ptr_equal(asked.info.stream, stream);
    assert_int_equal(asked.info.bytes, bytes);
}

static void the_callback_frees_something(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    memset(&asked, 0, sizeof(asked));
    asked.block = unit_malloc(40 * MIB, NULL);
    asked.answer = 1;
    tnr_oom_callback_set(free_the_block, &asked);
    tnr_stream stream = unit_stream(0);
    (void)unit_malloc(50 * MIB, stream);
    assert_int_equal(asked.calls, 1);
    check_asked(TNR_OOM_DEVICE, NULL, stream, 50 * MIB);
    assert_int_equal(unit_stats().num_ooms, 0);
}

/* What the callback frees is served where nothing of it can be given back, because the only chunk
 * has live blocks at both ends. Giving back has emptied the bins before the request asks again. */
static void the_callback_frees_part_of_a_chunk(void **state)
{
    (void)state;
    unit_start("small_limit_kb:128,chunk_share:1", "MEMORY=256M", NULL);
    memset(&asked, 0, sizeof(asked));
    asked.answer = 1;
    (void)unit_malloc(256 * KIB, NULL);
    asked.block = unit_malloc(64 * MIB, NULL);
    (void)unit_malloc(1 * MIB, NULL);
    void *inside = asked.block;
    tnr_oom_callback_set(free_the_block, &asked);
    assert_ok(tnr_limit_set(unit_stats().reserved_bytes.current, 0));
    assert_ptr_equal(unit_malloc(16 * MIB, NULL), inside);
    assert_int_equal(asked.calls, 1);
}

/* Which limit it was, where both are near: the pool's has room for the block, were it not for what
 * else the pool has, and that of the device would have room for it. And the other way round. */
static void the_reason_is_the_limit_that_refused(void **state)
{
    (void)state;
    void *ptr;
    unit_start(NULL, "MEMORY=256M", NULL);
    memset(&asked, 0, sizeof(asked));
    tnr_oom_callback_set(free_the_block, &asked);
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool pool;
    options.limit_bytes = 40 * MIB;
    assert_ok(tnr_pool_create(&pool, 0, &options));
    assert_ok(tnr_limit_set(64 * MIB, 0));
    tnr_stream stream = unit_stream(0);
    assert_ok(tnr_pool_malloc(&ptr, pool, 20 * MIB, 0, stream));
    assert_error(tnr_pool_malloc(&ptr, pool, 30 * MIB, 0, stream), TNR_ERR_LIMIT, "pool");
    assert_int_equal(asked.calls, 1);
    check_asked(TNR_OOM_POOL_LIMIT, pool, stream, 30 * MIB);
    assert_error(tnr_malloc(&ptr, 50 * MIB, 0, NULL), TNR_ERR_LIMIT, "tnr_limit_set");
    assert_int_equal(asked.calls, 2);
    check_asked(TNR_OOM_DEVICE_LIMIT, NULL, NULL, 50 * MIB);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    assert_error(tnr_malloc(&ptr, 250 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_int_equal(asked.calls, 3);
    check_asked(TNR_OOM_DEVICE, NULL, NULL, 250 * MIB);
}

/* No free makes room for more than there is, or than a limit allows. Limits count whole pages. */
static void what_can_never_fit(void **state)
{
    (void)state;
    void *ptr, *cache;
    unit_start(NULL, "MEMORY=64M", NULL);
    memset(&asked, 0, sizeof(asked));
    asked.answer = 1;
    tnr_oom_callback_set(free_the_block, &asked);
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool pool;
    options.limit_bytes = 11 * MIB;
    assert_ok(tnr_pool_create(&pool, 0, &options));
    assert_ok(tnr_pool_malloc(&cache, pool, 4 * MIB, 0, NULL));
    assert_error(tnr_malloc(&ptr, 66 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, "in all");
    assert_error(tnr_malloc(&ptr, TNR_BYTES_MAX, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_error(tnr_malloc(&ptr, TNR_BYTES_MAX + 1, 0, NULL), TNR_ERR_INVALID_SIZE, NULL);
    assert_error(tnr_pool_malloc(&ptr, pool, 12 * MIB, 0, NULL), TNR_ERR_LIMIT, "pool");
    assert_error(tnr_pool_malloc(&ptr, pool, 10 * MIB + 1, 0, NULL), TNR_ERR_LIMIT, "pool");
    assert_ok(tnr_limit_set(32 * MIB, 0));
    assert_error(tnr_malloc(&ptr, 33 * MIB, 0, NULL), TNR_ERR_LIMIT, "tnr_limit_set");
    assert_ok(tnr_pool_push(pool));
    void *growable;
    assert_ok(tnr_reserve(&growable, GIB, 0, NULL));
    assert_ok(tnr_pool_pop(pool));
    assert_ok(tnr_commit(growable, 6 * MIB));
    assert_error(tnr_commit(growable, 12 * MIB), TNR_ERR_LIMIT, "pool"); /* 6 more, but 12 in all */
    assert_int_equal(asked.calls, 0);

    asked.block = cache; /* what fits is asked for, to the last page */
    assert_ok(tnr_commit(growable, 10 * MIB));
    assert_int_equal(asked.calls, 1);
    check_asked(TNR_OOM_POOL_LIMIT, pool, NULL, 10 * MIB);
}

/* What the device, of 64 MiB, has left. */
static size_t device_free(void)
{
    return 64 * MIB - unit_stats().reserved_bytes.current;
}

/* What the device has left is others': idle memory still serves, and nothing new is made. */
static void others_have_headroom(void **state)
{
    (void)state;
    unit_start("headroom_mb:20", "MEMORY=64M", NULL);
    memset(&asked, 0, sizeof(asked));
    void *ptr;
    void *most = unit_malloc(44 * MIB, NULL);
    assert_int_equal(device_free(), 20 * MIB);
    assert_error(tnr_malloc(&ptr, 2 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, "Lower headroom_mb");
    assert_int_equal(device_free(), 20 * MIB);
    assert_ok(tnr_free(most));
    most = unit_malloc(30 * MIB, NULL);
    (void)unit_malloc(14 * MIB, NULL); /* idle memory, to the last byte */
    tnr_oom_callback_set(free_the_block, &asked);
    asked.block = most;
    asked.answer = 1;
    (void)unit_malloc(10 * MIB, NULL);
    assert_int_equal(asked.calls, 1);
    check_asked(TNR_OOM_HEADROOM, NULL, NULL, 10 * MIB);
    assert_ok(tnr_configure("headroom_mb:0"));
    (void)unit_malloc(30 * MIB, NULL);
    assert_true(device_free() < 20 * MIB);
    assert_ok(tnr_configure("headroom_mb:64")); /* more than is left: nothing is taken away */
    assert_error(tnr_malloc(&ptr, 20 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_ok(tnr_validate(0));
}

/* Calls of the driver that a request takes, which is refused. */
static void check_refused(size_t bytes, tnr_status status, uint64_t creates)
{
    void *ptr;
    simcuda_calls_reset();
    assert_error(tnr_malloc(&ptr, bytes, 0, NULL), status, "Tenure out of memory: ");
    assert_int_equal(simcuda_calls("cuMemCreate"), creates);
    assert_int_equal(simcuda_calls("cuMemMap") + simcuda_calls("cuMemUnmap"), 0);
    assert_int_equal(simcuda_calls("cuMemRelease"), 0);
}

/* A program that looks for the largest block that fits asks for many that do not. A real driver
 * takes milliseconds to refuse memory, so it is asked once for each request. No chunk is made that
 * would go back at once, neither where the device nor where a limit has less than was asked for. */
static void what_does_not_fit_makes_no_chunk(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle others;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    unit_start("address_space_gb:64", "MEMORY=4G", NULL);
    void *kept = unit_malloc(1000 * MIB, NULL);
    assert_int_equal(cuMemCreate(&others, 1024 * MIB, &properties, 0), CUDA_SUCCESS);
    size_t least = 0, most = 4096;
    const size_t left = 4096 - 1000 - 1024, by_the_books = 4096 - 1000;
    while (most - least > 2) {
        void *ptr;
        size_t middle = (least + most) / 2;
        assert_ok(tnr_trim(NULL, 0, 0));
        if (middle > by_the_books) {
            check_refused(middle * MIB, TNR_ERR_LIMIT, 0);
            most = middle;
        } else if (middle > left) {
            check_refused(middle * MIB, TNR_ERR_OUT_OF_MEMORY, 1);
            most = middle;
        } else {
            assert_ok(tnr_malloc(&ptr, middle * MIB, 0, NULL));
            assert_ok(tnr_free(ptr));
            least = middle;
        }
    }
    assert_int_equal(least, left);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_ok(tnr_limit_set(2100 * MIB, 0)); /* the first chunk of the request would fit */
    check_refused(1500 * MIB, TNR_ERR_LIMIT, 0);
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    /* With idle memory, which goes back first, although that is not enough. */
    void *ptr;
    assert_ok(tnr_free(unit_malloc(500 * MIB, NULL)));
    simcuda_calls_reset();
    assert_error(tnr_malloc(&ptr, (left + 100) * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, "hands out");
    assert_int_equal(simcuda_calls("cuMemCreate"), 1);
    assert_ok(tnr_free(kept));
    assert_int_equal(cuMemRelease(others), CUDA_SUCCESS);
}

static PFN_cuMemGetInfo_v3020 info_before;
static PFN_cuMemCreate_v10020 create_before;
static uint64_t refusals;

static CUresult says_more_is_left(size_t *left, size_t *total)
{
    CUresult result = info_before(left, total);
    *left += 64 * MIB;
    return result;
}

static CUresult counts_refusals(CUmemGenericAllocationHandle *handle, size_t bytes,
                                const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult result = create_before(handle, bytes, properties, flags);
    refusals += result == CUDA_ERROR_OUT_OF_MEMORY;
    return result;
}

/* A driver that says that more is left than it hands out is believed once for each request: what it
 * has not handed out then it does not hand out either when idle memory has gone back. The last
 * chunk may be refused twice, in two sizes. */
static void what_the_driver_withholds(void **state)
{
    (void)state;
    void *ptr;
    unit_start("address_space_gb:64", "MEMORY=4G", NULL);
    void *kept = unit_malloc(1000 * MIB, NULL);
    assert_ok(tnr_free(unit_malloc(1500 * MIB, NULL)));
    info_before = tnri_driver.cuMemGetInfo;
    create_before = tnri_driver.cuMemCreate;
    tnri_driver.cuMemGetInfo = says_more_is_left;
    tnri_driver.cuMemCreate = counts_refusals;
    for (size_t more = 2; more < 100; more *= 3) {
        CUmemGenericAllocationHandle others;
        CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        assert_ok(tnr_free(unit_malloc(1500 * MIB, NULL)));
        assert_int_equal(cuMemCreate(&others, 1024 * MIB, &properties, 0), CUDA_SUCCESS);
        refusals = 0;
        assert_error(tnr_malloc(&ptr, (4096 - 1024 - 1000 + more) * MIB, 0, NULL),
                     TNR_ERR_OUT_OF_MEMORY, "Tenure out of memory: ");
        assert_in_range(refusals, 1, 2);
        assert_ok(tnr_malloc(&ptr, (4096 - 1024 - 1000) * MIB, 0, NULL)); /* and that is there */
        assert_ok(tnr_free(ptr));
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_int_equal(cuMemRelease(others), CUDA_SUCCESS);
    }
    assert_ok(tnr_free(kept));
}

/* Searches for the largest block that fits. A refusal takes an H200 six milliseconds: there is one
 * for each request that does not fit, and no chunk is made for it. Returns what fits, in MiB. */
static size_t search(void)
{
    void *ptr;
    size_t low = 0, high = 8192;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        uint64_t made = unit_stats().segment.allocated;
        refusals = 0;
        if (tnr_malloc(&ptr, middle * MIB, 0, NULL) == TNR_OK) {
            low = middle;
            assert_ok(tnr_free(ptr));
            assert_int_equal(refusals, 0);
        } else {
            high = middle;
            assert_int_equal(refusals, 1);
            assert_int_equal(unit_stats().segment.allocated, made);
        }
    }
    assert_ok(tnr_trim(NULL, 0, 0));
    return low;
}

/* Where the driver withholds memory: with all other memory Tenure's, and with more than half of it
 * another process's, of which Tenure knows nothing before the first refusal. */
static void what_is_withheld_is_searched_for(void **state)
{
    (void)state;
    for (size_t taken = 0; taken <= 2200; taken += 2200) {
        CUmemGenericAllocationHandle others;
        CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        unit_start("address_space_gb:64", "MEMORY=4G", NULL);
        void *kept = unit_malloc(1000 * MIB, NULL);
        if (taken > 0)
            assert_int_equal(cuMemCreate(&others, taken * MIB, &properties, 0), CUDA_SUCCESS);
        info_before = tnri_driver.cuMemGetInfo;
        create_before = tnri_driver.cuMemCreate;
        tnri_driver.cuMemGetInfo = says_more_is_left;
        tnri_driver.cuMemCreate = counts_refusals;
        for (int turn = 0; turn < 3; turn++)
            assert_int_equal(search(), 4096 - 1000 - taken);
        assert_ok(tnr_free(kept));
        if (taken > 0)
            assert_int_equal(cuMemRelease(others), CUDA_SUCCESS);
    }
}

static CUmemGenericAllocationHandle of_others; /* 0: given back */

static CUresult others_give(CUmemGenericAllocationHandle *handle, size_t bytes,
                            const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult result = create_before(handle, bytes, properties, flags);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && of_others != 0) {
        assert_int_equal(cuMemRelease(of_others), CUDA_SUCCESS);
        of_others = 0;
    }
    return result;
}

/* Another process gives memory between the driver's refusal and the look at what is left. That is
 * not memory which the driver keeps. */
static void others_give_meanwhile(void **state)
{
    (void)state;
    unit_start("address_space_gb:64", "MEMORY=4G", NULL);
    assert_ok(tnr_free(unit_malloc(2 * MIB, NULL)));
    create_before = tnri_driver.cuMemCreate;
    tnri_driver.cuMemCreate = others_give;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    for (size_t wanted = 1100; wanted <= 3500; wanted += 1200) {
        assert_int_equal(cuMemCreate(&of_others, 3000 * MIB, &properties, 0), CUDA_SUCCESS);
        assert_ok(tnr_free(unit_malloc(wanted * MIB, NULL)));
        assert_int_equal(of_others, 0);
        assert_ok(tnr_trim(NULL, 0, 0));
    }
}

static CUresult says_nothing_is_left(size_t *left, size_t *total)
{
    *left = 0;
    *total = (size_t)4096 * MIB;
    return CUDA_SUCCESS;
}

/* What the driver keeps for itself, for its own pools say, counts as used, and it may hand that
 * out: it decides, not what it says is left. */
static void what_the_driver_hands_out_is_taken(void **state)
{
    (void)state;
    unit_start("address_space_gb:64", "MEMORY=4G", NULL);
    assert_ok(tnr_free(unit_malloc(3 * MIB, NULL)));
    tnri_driver.cuMemGetInfo = says_nothing_is_left;
    void *ptr = unit_malloc(3000 * MIB, NULL);
    assert_ok(tnr_free(ptr));
}

static void a_callback_that_cannot_help(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    void *ptr;
    memset(&asked, 0, sizeof(asked));
    (void)unit_malloc(40 * MIB, NULL);
    tnr_oom_callback_set(free_the_block, &asked);
    assert_error(tnr_malloc(&ptr, 50 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_int_equal(asked.calls, 1);
    asked.answer = 1; /* claims to, for ever: it is not asked for ever */
    assert_error(tnr_malloc(&ptr, 50 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_true(asked.calls > 2 && asked.calls < 100);
    tnr_oom_callback_set(NULL, NULL);
    int calls = asked.calls;
    assert_error(tnr_malloc(&ptr, 50 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_int_equal(asked.calls, calls);
}

/* Free memory that is of no use, because no whole chunk of it is free: the report shows how much
 * and in what pieces. */
static void the_report_shows_fragmentation(void **state)
{
    (void)state;
    enum { BLOCKS = 40 };
    unit_start(NULL, "MEMORY=64M", NULL);
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(3 * MIB / 2, NULL);
    for (size_t i = 0; i < BLOCKS; i += 2)
        assert_ok(tnr_free(blocks[i]));
    void *ptr;
    assert_error(tnr_malloc(&ptr, 8 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
                 "30.00 MiB free in pieces of up to 1.50 MiB");
    assert_int_equal(unit_stats().bytes_free, 30 * MIB);
    (void)unit_malloc(3 * MIB / 2, NULL);
}

/* More is mapped than headroom_mb leaves: all of the excess goes back before there is a new chunk,
 * as with a limit that was lowered. */
static void headroom_raised(void **state)
{
    (void)state;
    enum { BLOCKS = 18 };
    unit_start("cross_stream:off,lend:off,chunk_max_mb:2", "MEMORY=64M", NULL);
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(2 * MIB, NULL);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_configure("headroom_mb:48"));
    assert_ok(tnr_free(unit_malloc(2 * MIB, unit_stream(0))));
    assert_true(unit_stats().reserved_bytes.current <= 16 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_report, unit_stop),
        cmocka_unit_test_teardown(the_limit_is_named, unit_stop),
        cmocka_unit_test_teardown(what_is_still_used, unit_stop),
        cmocka_unit_test_teardown(what_is_pinned, unit_stop),
        cmocka_unit_test_teardown(the_callback_frees_something, unit_stop),
        cmocka_unit_test_teardown(the_callback_frees_part_of_a_chunk, unit_stop),
        cmocka_unit_test_teardown(the_reason_is_the_limit_that_refused, unit_stop),
        cmocka_unit_test_teardown(what_can_never_fit, unit_stop),
        cmocka_unit_test_teardown(others_have_headroom, unit_stop),
        cmocka_unit_test_teardown(headroom_raised, unit_stop),
        cmocka_unit_test_teardown(what_does_not_fit_makes_no_chunk, unit_stop),
        cmocka_unit_test_teardown(what_the_driver_hands_out_is_taken, unit_stop),
        cmocka_unit_test_teardown(what_the_driver_withholds, unit_stop),
        cmocka_unit_test_teardown(what_is_withheld_is_searched_for, unit_stop),
        cmocka_unit_test_teardown(others_give_meanwhile, unit_stop),
        cmocka_unit_test_teardown(a_callback_that_cannot_help, unit_stop),
        cmocka_unit_test_teardown(the_report_shows_fragmentation, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
