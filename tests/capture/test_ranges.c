/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges: blocks of tnr_reserve whose pages get memory and lose it one by one, under graphs that
 * know their addresses.
 *
 * Lines taken out to see a test fail:
 *   tnri_stale_take_back, the call in pages_clear: a_page_that_waits_comes_back (BUSY)
 *   stale_open, the call: a_page_that_waits_is_opened
 *   range_take_back, the call: a_refused_commit_decides_nothing
 *   tnri_uses_copy in pages_take_out (is_used = 0): other_streams_keep_a_page,
 *     random_pages_under_replays (a race)
 *   uses_mark, the call: open_uses_end_at_the_decommit
 *   tnri_plan_room, the page: one_page_goes_alone
 *   pages_undo, the call: all_or_nothing
 *   tnri_range_content, in sleeper.c: sleep_keeps_what_has_memory
 *   tnri_grow_is_idle, `whole.state == TNRI_UNUSED`: freed_while_a_graph_knows_it
 *   tnri_range_unretire, `block->uses != uses`: a_page_outlasts_its_range
 *   arenas_free_all, the call of `forget`: ends_by_force (an assertion)
 *   NAPS_MAX 0: threads_do_not_meet (BUSY; in half of the runs under ThreadSanitizer)
 */
#include "steps.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure/export.h>
#include <tenure/park.h>
#include <tenure/range.h>
#include <tenure/sleep.h>
#include <tenure/tag.h>

#define PAGE (2 * MIB)

static unsigned char *reserve(size_t bytes_max, tnr_stream stream)
{
    void *ptr = NULL;
    assert_ok(tnr_reserve(&ptr, bytes_max, 0, stream));
    return ptr;
}

static tnr_block_info info_of(const void *ptr)
{
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, ptr));
    return info;
}

static tnr_stats stats_now(void)
{
    assert_ok(tnr_validate(-1));
    return unit_stats();
}

/* 0 if the address faults: the kernel reads it. */
static int has_memory(const unsigned char *ptr)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int is_there = write(ends[1], ptr, 1) == 1;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return is_there;
}

/* All work is over, and calls of the range see that: one to mark it, if it was not yet, and one to
 * look. */
static void give_back(unsigned char *range)
{
    for (int call = 0; call < 2; call++) {
        assert_ok(tnr_decommit_range(range, 0, 0));
        simcuda_run(UINT64_MAX);
    }
    assert_ok(tnr_decommit_range(range, 0, 0));
    assert_ok(tnr_validate(-1));
}

/* The same bytes as check_bytes, now. */
static void check_now(const void *block, size_t bytes, int value)
{
    simcuda_run(UINT64_MAX);
    check_bytes(block, bytes, value);
}

/* ---- pages ---------------------------------------------------------------------------------- */

static void pages_come_and_go(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    unsigned char *range = reserve(100 * MIB, ORIGIN);
    assert_ok(tnr_commit_range(range, 7 * PAGE, 1)); /* the page that it touches */
    assert_true(has_memory(range + 7 * PAGE));
    assert_false(has_memory(range));
    tnr_block_info info = info_of(range + 30 * MIB); /* no memory there, and still the range */
    assert_ptr_equal(info.base, range);
    assert_int_equal(info.bytes, PAGE);
    assert_int_equal(info.bytes_requested, PAGE);
    assert_int_equal(info.bytes_reserved, 100 * MIB);
    tnr_stats stats = stats_now();
    assert_int_equal(stats.reserved_bytes.current, PAGE);
    assert_int_equal(stats.bytes_live, PAGE);
    assert_int_equal(stats.allocation[TNR_WORLD_LARGE].current, 2); /* the range, and its page */
    life_fill(range + 7 * PAGE, PAGE, 5, ORIGIN);
    assert_ok(tnr_commit_range(range, 6 * PAGE + 1, 3 * PAGE)); /* 6 to 9; 7 is there */
    assert_int_equal(stats_now().reserved_bytes.current, 4 * PAGE);
    check_now(range + 7 * PAGE, PAGE, 5);
    assert_ok(tnr_decommit_range(range, 6 * PAGE + 1, 3 * PAGE)); /* 7 and 8 lie inside */
    assert_int_equal(info_of(range).bytes, 2 * PAGE);
    give_back(range);
    assert_true(has_memory(range + 6 * PAGE));
    assert_false(has_memory(range + 7 * PAGE));
    assert_false(has_memory(range + 8 * PAGE));
    assert_true(has_memory(range + 9 * PAGE));
    assert_int_equal(stats_now().reserved_bytes.current, 2 * PAGE);
    assert_ok(tnr_decommit_range(range, 0, 100 * MIB));
    give_back(range);
    assert_int_equal(stats_now().reserved_bytes.current, 0);
    assert_int_equal(info_of(range).bytes, 0);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_LARGE].current, 1);
    assert_ok(tnr_record_use(range + 50 * MIB, OTHER)); /* of the range, without memory too */
    assert_ok(tnr_free(range));
    assert_error(tnr_block_get(&info, range), TNR_ERR_NOT_LIVE, NULL);
    check_all_given_back();
}

/* A reservation of the same addresses afterwards is of any kind. */
static void addresses_serve_again(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    unsigned char *range = reserve(64 * MIB, ORIGIN);
    for (int round = 0; round < 6; round++) {
        if (round % 3 == 1)
            assert_ok(tnr_commit(range, 5 * PAGE));
        else
            assert_ok(tnr_commit_range(range, 3 * PAGE, 2 * PAGE));
        assert_int_equal(info_of(range + 3 * PAGE).bytes, round % 3 == 1 ? 5 * PAGE : 2 * PAGE);
        assert_ok(tnr_record_use(range, OTHER));
        assert_ok(tnr_free(range));
        assert_error(tnr_free(range), TNR_ERR_NOT_LIVE, NULL);
        simcuda_run(UINT64_MAX);
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_int_equal(stats_now().reserved_bytes.current, 0);
        assert_ptr_equal(reserve(64 * MIB, round % 2 == 0 ? BRANCH : ORIGIN), range);
    }
    assert_ok(tnr_free(range)); /* the last one has no memory */
    check_all_given_back();
}

static void last_page_is_short(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    unsigned char *range = reserve(3 * PAGE + 100, ORIGIN);
    assert_ok(tnr_commit_range(range, 3 * PAGE, 100));
    assert_ok(tnr_decommit_range(range, 3 * PAGE, 99)); /* not all that it has of the page */
    assert_int_equal(info_of(range).bytes, PAGE);
    assert_ok(tnr_decommit_range(range, 3 * PAGE, 100));
    assert_int_equal(info_of(range).bytes, 0);
    assert_ok(tnr_commit_range(range, 0, 0));
    assert_ok(tnr_decommit_range(range, 0, 0));
    assert_ok(tnr_free(range));
    check_all_given_back();
}

/* Whatever was committed at once, and from whatever idle memory. */
static void one_page_goes_alone(void **state)
{
    (void)state;
    steps_start("chunk_share:1,chunk_max_mb:64", NULL);
    void *idle = unit_malloc(64 * MIB, ORIGIN);
    assert_ok(tnr_free(idle));
    unsigned char *range = reserve(128 * MIB, ORIGIN);
    assert_ok(tnr_commit_range(range, 0, 128 * MIB));
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_trim(NULL, 0, 0));
    for (size_t page = 1; page < 64; page += 2) {
        assert_ok(tnr_decommit_range(range, page * PAGE, PAGE));
        give_back(range);
        assert_int_equal(unit_stats().reserved_bytes.current, 128 * MIB - (page + 1) / 2 * PAGE);
    }
    assert_ok(tnr_free(range));
    check_all_given_back();
}

static void wrong_arguments(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    int host = 0;
    unsigned char *range = reserve(64 * MIB, ORIGIN), *grown = reserve(64 * MIB, ORIGIN);
    unsigned char *block = unit_malloc(4 * MIB, ORIGIN);
    assert_ok(tnr_commit(grown, 4 * MIB));
    for (int out = 0; out < 2; out++) {
        tnr_status (*call)(void *, size_t, size_t) = out ? tnr_decommit_range : tnr_commit_range;
        assert_error(call(NULL, 0, 1), TNR_ERR_INVALID_ARGUMENT, "null");
        assert_error(call(&host, 0, 1), TNR_ERR_FOREIGN_POINTER, NULL);
        assert_error(call(block, 0, 1), TNR_ERR_INVALID_ARGUMENT, "tnr_reserve");
        assert_error(call(block + 1, 0, 1), TNR_ERR_INTERIOR_POINTER, NULL);
        assert_error(call(grown, 0, 1), TNR_ERR_INVALID_ARGUMENT, "grows by tnr_commit");
        assert_error(call(range, 64 * MIB, 1), TNR_ERR_INVALID_SIZE, "67108864");
        assert_error(call(range, 0, 64 * MIB + 1), TNR_ERR_INVALID_SIZE, NULL);
        assert_error(call(range, 8, SIZE_MAX), TNR_ERR_INVALID_SIZE, NULL);
        assert_error(call(range, SIZE_MAX, 8), TNR_ERR_INVALID_SIZE, NULL);
    }
    assert_ok(tnr_decommit_range(range, 0, 64 * MIB)); /* has no memory at all */
    assert_ok(tnr_commit_range(range, PAGE, PAGE));
    assert_error(tnr_commit(range, PAGE), TNR_ERR_INVALID_ARGUMENT, "tnr_commit_range");
    assert_error(tnr_commit_range(range + PAGE, 0, 1), TNR_ERR_INTERIOR_POINTER, NULL);
    assert_error(tnr_free(range + PAGE), TNR_ERR_INTERIOR_POINTER, NULL);
    size_t parked;
    tnr_export exported;
    assert_error(tnr_park(&parked, range, ORIGIN, TNR_CONTENT_KEEP), TNR_ERR_INVALID_ARGUMENT,
                 NULL);
    assert_error(tnr_export_create(&exported, range), TNR_ERR_INVALID_ARGUMENT, "single pages");
    assert_ok(tnr_free(range));
    for (int out = 0; out < 2; out++) {
        tnr_status (*call)(void *, size_t, size_t) = out ? tnr_decommit_range : tnr_commit_range;
        assert_error(call(range, 0, 1), TNR_ERR_NOT_LIVE, "freed before");
    }
    assert_ok(tnr_free(grown));
    assert_ok(tnr_free(block));
    check_all_given_back();
}

/* A commit that runs out of memory leaves no page more than before, and the contents. */
static void all_or_nothing(void **state)
{
    (void)state;
    steps_start("chunk_max_mb:2", "MEMORY=64M");
    unsigned char *range = reserve(128 * MIB, ORIGIN);
    assert_ok(tnr_commit_range(range, 4 * PAGE, PAGE));
    assert_ok(tnr_commit_range(range, 9 * PAGE, 2 * PAGE));
    life_fill(range + 9 * PAGE, 2 * PAGE, 3, ORIGIN);
    simcuda_run(UINT64_MAX);
    assert_error(tnr_commit_range(range, 0, 64 * PAGE), TNR_ERR_OUT_OF_MEMORY, "128.0 MiB");
    give_back(range);
    assert_int_equal(info_of(range).bytes, 3 * PAGE);
    assert_int_equal(stats_now().reserved_bytes.current, 3 * PAGE);
    check_now(range + 9 * PAGE, 2 * PAGE, 3);
    assert_ok(tnr_limit_set(20 * MIB, 0));
    assert_error(tnr_commit_range(range, 0, 16 * PAGE), TNR_ERR_LIMIT, NULL);
    give_back(range);
    assert_int_equal(stats_now().reserved_bytes.current, 3 * PAGE);
    assert_ok(tnr_commit_range(range, 0, 8 * PAGE)); /* and the next try succeeds */
    assert_ok(tnr_free(range));
    check_all_given_back();
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Work that is queued on the range's stream keeps a page from the driver, not from a new commit. */
/* What is told of the block stays open: memory may come by tnr_commit after all. */
static void a_refused_commit_decides_nothing(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    unsigned char *block = reserve(64 * MIB, ORIGIN);
    assert_ok(tnr_limit_set(4 * MIB, 0));
    assert_error(tnr_commit_range(block, 0, 10 * MIB), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_validate(-1));
    assert_ok(tnr_commit(block, 3 * MIB));
    life_fill(block, 3 * MIB, 5, ORIGIN);
    check_now(block, 3 * MIB, 5);
    assert_error(tnr_commit_range(block, 0, 1), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_int_equal(stats_now().allocation[TNR_WORLD_ALL].current, 1);
    assert_ok(tnr_free(block));
    block = reserve(64 * MIB, ORIGIN);
    assert_error(tnr_commit_range(block, 0, 10 * MIB), TNR_ERR_LIMIT, NULL);
    assert_ok(tnr_commit_range(block, 8 * MIB, 2 * MIB));
    assert_error(tnr_commit_range(block, 0, 10 * MIB), TNR_ERR_LIMIT, NULL);
    assert_error(tnr_commit(block, 3 * MIB), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_ok(tnr_free(block));
    check_all_given_back();
}

static unsigned long long access_at(const unsigned char *ptr, int device)
{
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    unsigned long long flags = 0;
    assert_int_equal(cuMemGetAccess(&flags, &location, (CUdeviceptr)ptr), CUDA_SUCCESS);
    return flags;
}

/* It was mapped before its pool was opened, or closed, and is mapped still. */
static void a_page_that_waits_is_opened(void **state)
{
    (void)state;
    steps_start("chunk_max_mb:2", "DEVICES=2");
    unsigned char *range = reserve(64 * MIB, ORIGIN);
    for (int round = 0; round < 8; round++) {
        int is_open = round % 2, fails = round / 2 % 2;
        assert_ok(tnr_commit_range(range, 0, 3 * PAGE));
        life_gate_close(0, ORIGIN);
        life_fill(range + PAGE, PAGE, round, ORIGIN);
        assert_ok(tnr_decommit_range(range, PAGE, 2 * PAGE));
        assert_ok(
            tnr_pool_access_set(NULL, 0, 1, is_open ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE));
        if (fails)
            simcuda_fail("cuMemSetAccess", 1, 0, CUDA_ERROR_UNKNOWN);
        life_gate_open(0);
        tnr_status status = tnr_commit_range(range, PAGE, 2 * PAGE);
        simcuda_fail_clear();
        if (status != TNR_OK) { /* of a page that had been unmapped meanwhile */
            assert_true(fails && status == TNR_ERR_DRIVER);
            assert_ok(tnr_commit_range(range, PAGE, 2 * PAGE));
        }
        for (int page = 0; page < 3; page++)
            assert_int_equal(access_at(range + (size_t)page * PAGE, 1),
                             is_open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                     : CU_MEM_ACCESS_FLAGS_PROT_NONE);
    }
    assert_ok(tnr_free(range));
    check_all_given_back();
}

static void a_page_that_waits_comes_back(void **state)
{
    (void)state;
    steps_start("chunk_max_mb:2", NULL);
    unsigned char *range = reserve(64 * MIB, ORIGIN);
    assert_ok(tnr_commit_range(range, 0, 4 * PAGE));
    life_gate_close(0, ORIGIN);
    life_fill(range, 4 * PAGE, 1, ORIGIN);
    assert_ok(tnr_decommit_range(range, PAGE, 2 * PAGE));
    assert_int_equal(info_of(range).bytes, 2 * PAGE);
    assert_int_equal(stats_now().reserved_bytes.current, 4 * PAGE);
    assert_true(has_memory(range + PAGE));
    uint64_t maps = simcuda_calls("cuMemMap"), waits = life_host_waits();
    assert_ok(tnr_commit_range(range, 2 * PAGE, PAGE));
    assert_int_equal(simcuda_calls("cuMemMap"), maps);
    assert_int_equal(life_host_waits(), waits);
    life_fill(range + 2 * PAGE, PAGE, 2, ORIGIN);
    life_gate_open(0);
    give_back(range);
    assert_int_equal(stats_now().reserved_bytes.current, 3 * PAGE);
    assert_false(has_memory(range + PAGE));
    check_now(range + 2 * PAGE, PAGE, 2);
    check_now(range + 3 * PAGE, PAGE, 1);
    assert_ok(tnr_free(range));
    check_all_given_back();
}

/* A recorded use keeps a page; when it gets memory again, the stream waits for the use. */
static void other_streams_keep_a_page(void **state)
{
    (void)state;
    steps_start("chunk_max_mb:2", NULL);
    unsigned char *range = reserve(64 * MIB, ORIGIN);
    assert_ok(tnr_commit_range(range, 0, 4 * PAGE));
    life_gate_close(0, OTHER);
    life_fill(range + PAGE, 2 * PAGE, 1, OTHER);
    assert_ok(tnr_record_use(range + 3 * PAGE, OTHER)); /* of the whole range */
    assert_ok(tnr_decommit_range(range, PAGE, 2 * PAGE));
    tnr_stats stats = stats_now();
    assert_int_equal(stats.bytes_retired, 2 * PAGE);
    assert_int_equal(stats.blocks_retired, 2);
    void *block = unit_malloc(2 * PAGE, ORIGIN); /* cannot have it */
    life_fill(block, 2 * PAGE, 7, ORIGIN);
    assert_int_equal(stats_now().reserved_bytes.current, 6 * PAGE);
    assert_ok(tnr_commit_range(range, PAGE, PAGE)); /* waits on the device */
    life_fill(range + PAGE, PAGE, 2, ORIGIN);
    assert_ok(tnr_free(range)); /* with page 2 still taken out */
    stats = stats_now();
    assert_int_equal(stats.bytes_live, 2 * PAGE);
    life_gate_open(0);
    assert_int_equal(simcuda_races(), 0);
    check_now(block, 2 * PAGE, 7);
    assert_ok(tnr_free(block));
    check_all_given_back();
}

/* A page that was taken out has its own list of uses, which nobody has looked at when the range is
 * freed. */
static void a_page_outlasts_its_range(void **state)
{
    (void)state;
    steps_start("chunk_max_mb:2", NULL);
    unsigned char *range = reserve(64 * MIB, ORIGIN);
    assert_ok(tnr_commit_range(range, 0, 4 * PAGE));
    life_gate_close(0, OTHER);
    life_fill(range + PAGE, PAGE, 1, OTHER);
    assert_ok(tnr_record_use(range, OTHER));
    assert_ok(tnr_decommit_range(range, PAGE, PAGE));
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_free(range));
    (void)stats_now();
    check_all_given_back();
}

static void open_uses_end_at_the_decommit(void **state)
{
    (void)state;
    steps_start("chunk_max_mb:2", NULL);
    unsigned char *range = reserve(64 * MIB, ORIGIN);
    assert_ok(tnr_commit_range(range, 0, 4 * PAGE));
    assert_ok(tnr_record_stream(range, OTHER));
    life_gate_close(0, OTHER);
    life_fill(range + PAGE, PAGE, 1, OTHER);
    assert_ok(tnr_decommit_range(range, PAGE, PAGE));
    assert_int_equal(stats_now().bytes_retired, PAGE);
    life_fill(range, PAGE, 1, OTHER); /* its use of the rest goes on */
    assert_ok(tnr_free(range));
    assert_int_equal(stats_now().bytes_retired, 4 * PAGE);
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    check_all_given_back();
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* Pages that no launch touches come and go between launches. */
static void contents_stay_under_a_graph(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    unsigned char *range = reserve(64 * MIB, ORIGIN), *out = unit_malloc(PAGE, ORIGIN);
    assert_ok(tnr_commit_range(range, 3 * PAGE, PAGE));
    capture_begin(ORIGIN, NULL);
    assert_int_equal(
        cuMemcpyDtoDAsync((CUdeviceptr)out, (CUdeviceptr)range + 3 * PAGE, PAGE, ORIGIN),
        CUDA_SUCCESS);
    assert_ok(tnr_commit_range(range, 8 * PAGE, PAGE)); /* inside a capture, too */
    assert_ok(tnr_decommit_range(range, 8 * PAGE, PAGE));
    recorded graph = capture_end(ORIGIN);
    for (int round = 0; round < 6; round++) {
        life_fill(range + 3 * PAGE, PAGE, round, ORIGIN);
        recorded_launch(&graph, ORIGIN);
        assert_ok(tnr_commit_range(range, 0, (size_t)(round + 1) * PAGE));
        assert_ok(tnr_decommit_range(range, 0, 3 * PAGE));
        assert_ok(tnr_decommit_range(range, 4 * PAGE, 28 * PAGE));
        check_now(out, PAGE, round);
        assert_int_equal(info_of(range).bytes, PAGE);
        if (round == 3) { /* the page itself goes between two launches */
            assert_ok(tnr_decommit_range(range, 3 * PAGE, PAGE));
            give_back(range);
            assert_false(has_memory(range + 3 * PAGE));
            assert_ok(tnr_commit_range(range, 3 * PAGE, PAGE));
        }
    }
    recorded_destroy(&graph);
    steps_settle();
    assert_ok(tnr_free(range));
    assert_ok(tnr_free(out));
    check_all_given_back();
}

/* The graph keeps the range, with the pages that it had. */
static void freed_while_a_graph_knows_it(void **state)
{
    (void)state;
    for (int with_page = 0; with_page < 2; with_page++) {
        steps_start(NULL, NULL);
        unsigned char *range = reserve(64 * MIB, ORIGIN);
        assert_ok(tnr_commit_range(range, 5 * PAGE, PAGE));
        capture_begin(ORIGIN, NULL);
        life_fill(range + 5 * PAGE, PAGE, 4, ORIGIN);
        recorded graph = capture_end(ORIGIN);
        if (!with_page)
            assert_ok(tnr_decommit_range(range, 0, 64 * MIB));
        give_back(range);
        assert_ok(tnr_free(range));
        tnr_stats stats = stats_now();
        assert_int_equal(stats.bytes_retired, with_page ? PAGE : 0);
        unsigned char *second = reserve(64 * MIB, ORIGIN);
        assert_ptr_not_equal(second, range);
        assert_ok(tnr_commit_range(second, 5 * PAGE, PAGE));
        life_fill(second + 5 * PAGE, PAGE, 9, ORIGIN);
        if (with_page)
            recorded_launch(&graph, ORIGIN);
        check_now(second + 5 * PAGE, PAGE, 9);
        recorded_destroy(&graph);
        steps_settle();
        assert_ok(tnr_free(second));
        check_all_given_back();
        if (!with_page)
            (void)steps_stop(state);
    }
}

/* ---- sleep, tags, ends ---------------------------------------------------------------------- */

static uint64_t pinned_bytes(void)
{
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    return live.pinned_bytes;
}

static void sleep_keeps_what_has_memory(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_pool pool;
    assert_ok(tnr_tag_pool(&pool, "kv_cache", TNR_CONTENT_KEEP));
    assert_ok(tnr_pool_push(pool));
    unsigned char *range = reserve(64 * MIB, ORIGIN), *lost = reserve(64 * MIB, ORIGIN);
    assert_ok(tnr_pool_pop(pool));
    assert_ok(tnr_commit_range(lost, 0, 40 * MIB));
    assert_ok(tnr_block_content_set(lost, TNR_CONTENT_DISCARD));
    for (size_t page = 0; page < 32; page += 3) {
        assert_ok(tnr_commit_range(range, page * PAGE, PAGE));
        life_fill(range + page * PAGE, PAGE, (int)page, ORIGIN);
    }
    const char *tags[] = {"kv_cache"};
    uint64_t before = pinned_bytes();
    assert_ok(tnr_tags_sleep(tags, 1, 0, NULL));
    assert_int_equal(stats_now().reserved_bytes.current, 0);
    assert_false(has_memory(range));
    assert_int_equal(pinned_bytes() - before, 32 * MIB); /* 22 are kept, in one buffer */
    assert_error(tnr_commit_range(range, PAGE, PAGE), TNR_ERR_ASLEEP, NULL);
    assert_ok(tnr_decommit_range(range, 3 * PAGE, PAGE)); /* frees work */
    assert_ok(tnr_tags_wake(tags, 1, 0));
    assert_int_equal(info_of(range).bytes, 10 * PAGE);
    assert_int_equal(info_of(lost).bytes, 40 * MIB);
    for (size_t page = 0; page < 32; page += 3)
        if (page != 3)
            check_now(range + page * PAGE, PAGE, (int)page);
    give_back(range);
    assert_false(has_memory(range + 3 * PAGE));
    assert_false(has_memory(range + PAGE));
    assert_true(unit_stats().reserved_bytes.current <= 11 * PAGE + 40 * MIB);
    assert_ok(tnr_free(range));
    assert_ok(tnr_free(lost));
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_tag_trim(&(size_t){0}, "kv_cache", 0, 0));
    assert_int_equal(stats_now().reserved_bytes.current, 0);
}

static void ends_by_force(void **state)
{
    (void)state;
    steps_start(NULL, NULL);
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_push(pool));
    unsigned char *range = reserve(64 * MIB, ORIGIN);
    assert_ok(tnr_pool_pop(pool));
    assert_ok(tnr_commit_range(range, 4 * PAGE, 3 * PAGE));
    assert_ok(tnr_record_use(range, OTHER));
    assert_ok(tnr_decommit_range(range, 5 * PAGE, PAGE));
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, NULL);
    assert_ok(tnr_shutdown(1));
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 150 };

static unsigned char *shared_range;
static unsigned char *own_ranges[THREADS]; /* reserved first, so that none gets what is freed */
static _Atomic int is_over;

static void *thread_failed(const char *where)
{
    print_error("%s: %s\n", where, tnr_last_error());
    return NULL;
}

/* Each has a range of its own, and all work on pages of one that they share. */
static void *thread_pages(void *data)
{
    uint64_t random = (uint64_t)(uintptr_t)data;
    unsigned char *own = own_ranges[(size_t)data - 1];
    for (int round = 0; round < ROUNDS; round++) {
        size_t page = unit_below(&random, 28), pages = 1 + unit_below(&random, 4);
        int out = unit_below(&random, 2) == 0;
        tnr_status (*call)(void *, size_t, size_t) = out ? tnr_decommit_range : tnr_commit_range;
        if (call(own, page * PAGE, pages * PAGE) != TNR_OK)
            return thread_failed("its own range");
        if (!out)
            ((volatile unsigned char *)own)[page * PAGE] = (unsigned char)round;
        tnr_status status = call(shared_range, page * PAGE, pages * PAGE);
        if (status != TNR_OK && status != TNR_ERR_BUSY &&
            !(status == TNR_ERR_NOT_LIVE && atomic_load(&is_over)))
            return thread_failed("the range of all");
        if (round == ROUNDS * 2 / 3 && data == (void *)1) {
            atomic_store(&is_over, 1);
            if (tnr_free(shared_range) != TNR_OK) /* a free wins over all others */
                return NULL;
        }
    }
    return tnr_free(own) == TNR_OK ? data : NULL;
}

static void threads_do_not_meet(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    steps_start(NULL, "SCHEDULE=eager");
    atomic_store(&is_over, 0);
    shared_range = reserve(64 * MIB, NULL);
    for (size_t i = 0; i < THREADS; i++)
        own_ranges[i] = reserve(64 * MIB, i % 2 == 0 ? ORIGIN : OTHER);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_pages, (void *)(i + 1)), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, (void *)(i + 1));
    }
    assert_int_equal(stats_now().allocation[TNR_WORLD_ALL].current, 0);
}

/* ---- at random ------------------------------------------------------------------------------ */

enum { PAGES = 24 };

static uint64_t operations = 300;

/* What each page of the range has. */
typedef struct model {
    unsigned char *range, *out, *in;
    recorded graph;
    uint64_t random;
    int has[PAGES], value[PAGES]; /* value -1: not known */
    int by_other[PAGES]; /* 1: the latest work on it is OTHER's, and ORIGIN has not waited */
} model;

/* Pages 0 and 1 are the graph's: it copies `in` to 1, and 0 to `out`. */
static void graph_make(model *self)
{
    capture_begin(ORIGIN, NULL);
    assert_int_equal(
        cuMemcpyDtoDAsync((CUdeviceptr)self->range + PAGE, (CUdeviceptr)self->in, KIB, ORIGIN),
        CUDA_SUCCESS);
    assert_int_equal(
        cuMemcpyDtoDAsync((CUdeviceptr)self->out, (CUdeviceptr)self->range, KIB, ORIGIN),
        CUDA_SUCCESS);
    self->graph = capture_end(ORIGIN);
}

/* A page's first bytes are written by a stream. */
static void page_write(model *self, size_t page, int by_other)
{
    self->value[page] = (int)unit_below(&self->random, 256);
    if (by_other)
        order_after(OTHER, ORIGIN);
    else if (self->by_other[page])
        order_after(ORIGIN, OTHER);
    life_fill(self->range + page * PAGE, KIB, self->value[page], by_other ? OTHER : ORIGIN);
    if (by_other)
        assert_ok(tnr_record_use(self->range + page * PAGE, OTHER));
    self->by_other[page] = by_other;
}

static void pages_check(model *self)
{
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_validate(-1));
    size_t bytes = 0;
    for (size_t page = 0; page < PAGES; page++) {
        bytes += self->has[page] ? PAGE : 0;
        if (self->has[page] && self->value[page] >= 0)
            check_now(self->range + page * PAGE, KIB, self->value[page]);
    }
    assert_int_equal(info_of(self->range).bytes, bytes);
    assert_int_equal(simcuda_races(), 0);
}

static void step(model *self)
{
    size_t page = 2 + unit_below(&self->random, PAGES - 2);
    size_t end = page + 1 + unit_below(&self->random, 3);
    end = end < PAGES ? end : PAGES;
    switch (unit_below(&self->random, 8)) {
    case 0:
    case 1:
    case 2:
        assert_ok(tnr_commit_range(self->range, page * PAGE, (end - page) * PAGE));
        for (; page < end; page++) {
            self->value[page] = self->has[page] ? self->value[page] : -1;
            self->by_other[page] &= self->has[page];
            self->has[page] = 1;
        }
        break;
    case 3:
    case 4:
    case 5:
        assert_ok(tnr_decommit_range(self->range, page * PAGE, (end - page) * PAGE));
        for (; page < end; page++)
            self->has[page] = 0;
        break;
    case 6:
        recorded_launch(&self->graph, ORIGIN);
        self->by_other[0] = self->by_other[1] = 0;
        break;
    default:
        if (self->has[page])
            page_write(self, page, unit_below(&self->random, 2) == 0);
        break;
    }
}

static void random_pages_under_replays(void **state)
{
    (void)state;
    steps_start("chunk_max_mb:2", NULL);
    model self = {.random = 11};
    self.range = reserve((size_t)PAGES * PAGE, ORIGIN);
    self.out = unit_malloc(KIB, ORIGIN);
    self.in = unit_malloc(KIB, ORIGIN);
    assert_ok(tnr_commit_range(self.range, 0, 2 * PAGE));
    life_fill(self.in, KIB, 77, ORIGIN);
    self.has[0] = self.has[1] = 1;
    self.value[0] = self.value[1] = -1;
    page_write(&self, 0, 0);
    graph_make(&self);
    for (uint64_t i = 0; i < operations; i++) {
        step(&self);
        if (i % 50 == 0)
            pages_check(&self);
    }
    recorded_launch(&self.graph, ORIGIN);
    self.value[1] = 77;
    pages_check(&self);
    check_now(self.out, KIB, self.value[0]);
    recorded_destroy(&self.graph);
    steps_settle();
    assert_ok(tnr_free(self.range));
    assert_ok(tnr_free(self.out));
    assert_ok(tnr_free(self.in));
    check_all_given_back();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        operations = strtoull(argv[1], NULL, 10);
#define TEST(name) cmocka_unit_test_teardown(name, steps_stop)
    const struct CMUnitTest tests[] = {
        TEST(pages_come_and_go),
        TEST(addresses_serve_again),
        TEST(last_page_is_short),
        TEST(one_page_goes_alone),
        TEST(wrong_arguments),
        TEST(all_or_nothing),
        TEST(a_refused_commit_decides_nothing),
        TEST(a_page_that_waits_is_opened),
        TEST(a_page_that_waits_comes_back),
        TEST(other_streams_keep_a_page),
        TEST(a_page_outlasts_its_range),
        TEST(open_uses_end_at_the_decommit),
        TEST(contents_stay_under_a_graph),
        TEST(freed_while_a_graph_knows_it),
        TEST(sleep_keeps_what_has_memory),
        TEST(ends_by_force),
        TEST(threads_do_not_meet),
        TEST(random_pages_under_replays),
    };
    return steps_run(tests);
}
