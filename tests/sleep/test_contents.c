/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sleep keeps and what it does not: policies of the sleep, of blocks and of graph pools,
 * contents of every size and place, and the pinned memory behind them.
 *
 * Lines changed in the library to see a test fail:
 *   tnri_arena_count_freed without `content = 0`: policies_end_with_the_block
 *   block_is_kept: FREE never kept: graph_pools_keep_what_is_free
 *   kept_add: GAP_BYTES as 0 bytes less (`<= GAP_BYTES` to `<= 0`): few_copies_for_many_blocks
 *   tnri_sleeper_copy: `used = 0` at a new piece: large_contents
 *   set_copy_out: keeps_pieces not set: backing_is_kept_and_prepared
 *   one driver call more for each chunk in tnri_chunk_sleep or tnri_chunk_wake:
 *   discarding_costs_the_mapping_calls
 *   pieces_make without pinned_trim: backing_is_kept_and_prepared
 *   pinned_share: always `count`: pinned_memory_is_bounded
 *   slot_clear without the wait, or without tnri_crew_copy: pinned_memory_is_bounded
 *   buffers_read: `offset = 0` after a part: kept_is_read
 *   tnri_staging_give without returning the ring: pinned_memory_is_bounded
 */
#include "sleep.h"

#include <string.h>

#include "api/cached.h"
#include "away/staging.h"
#include "memory/pool/pool.h"

static const tnr_sleep_options discard = {sizeof(tnr_sleep_options), TNR_CONTENT_DISCARD, 0, 0};
static const tnr_sleep_options keep_backing = {sizeof(tnr_sleep_options), TNR_CONTENT_KEEP, 1, 0};

/* Blocks of all sizes on several streams, some freed in between, asleep several times. */
static void everything_comes_back(void **state)
{
    (void)state;
    enum { BLOCKS = 60 };
    unit_start("chunk_max_mb:8,chunk_share:8", "SCHEDULE=lazy", "MEMORY=1G", NULL);
    sleep_context_enter();
    tnr_stream streams[3] = {NULL, unit_stream(0), unit_stream(0)};
    void *blocks[BLOCKS] = {0};
    size_t bytes[BLOCKS] = {0};
    uint32_t seeds[BLOCKS] = {0};
    uint64_t random = 11;
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            if (blocks[i] != NULL && unit_below(&random, 3) > 0)
                continue;
            assert_ok(tnr_free(blocks[i]));
            bytes[i] = 4 * (1 + unit_below(&random, (size_t)1 << unit_below(&random, 20)));
            seeds[i] = (uint32_t)unit_random(&random);
            tnr_stream stream = streams[unit_below(&random, 3)];
            blocks[i] = unit_malloc(bytes[i], stream);
            sleep_fill(blocks[i], bytes[i], seeds[i], stream);
        }
        assert_ok(tnr_device_sleep(0, round % 2 == 0 ? NULL : &keep_backing));
        assert_int_equal(sleep_device_bytes(), 0);
        (void)unit_stats();
        assert_ok(tnr_device_wake(0));
        for (int i = 0; i < BLOCKS; i++)
            sleep_check(blocks[i], bytes[i], seeds[i]);
        (void)unit_stats();
    }
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    sleep_context_leave();
}

/* More than one piece of pinned memory, with borders inside of blocks. */
static void large_contents(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", "MEMORY=512M", NULL);
    sleep_context_enter();
    void *a = unit_malloc(10 * MIB, NULL);
    void *grows;
    assert_ok(tnr_reserve(&grows, 256 * MIB, 0, unit_stream(0)));
    assert_ok(tnr_commit(grows, 33 * MIB));
    assert_ok(tnr_commit(grows, 75 * MIB));
    void *b = unit_malloc(40 * MIB, NULL);
    sleep_fill(a, 10 * MIB, 1, NULL);
    sleep_fill(grows, 75 * MIB, 2, NULL);
    sleep_fill(b, 40 * MIB, 3, NULL);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_true(sleep_pinned_bytes() >= 125 * MIB);
    assert_true(sleep_pinned_bytes() <= 125 * MIB + 3 * MIB + TNRI_BUFFER_BYTES);
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_int_equal(sleep_pinned_bytes(), 0);
    sleep_check(a, 10 * MIB, 1);
    sleep_check(grows, 75 * MIB, 2);
    sleep_check(b, 40 * MIB, 3);
    assert_ok(tnr_commit(grows, 80 * MIB));
    sleep_check(grows, 75 * MIB, 2);
    sleep_context_leave();
}

/* The block's own word goes before the sleep's. Discarded contents are not copied. */
static void policies(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    sleep_context_enter();
    void *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = unit_malloc(4 * MIB, NULL);
        assert_ok(tnr_block_content_set((char *)blocks[i] + 1234, (tnr_content)i));
    }
    for (int discards = 0; discards <= 1; discards++) {
        for (int i = 0; i < 3; i++)
            sleep_fill(blocks[i], 4 * MIB, (uint32_t)i, NULL);
        uint64_t out = simcuda_calls("cuMemcpyDtoHAsync");
        assert_ok(tnr_pool_sleep(NULL, 0, discards ? &discard : NULL));
        assert_true(simcuda_calls("cuMemcpyDtoHAsync") > out);
        assert_ok(tnr_pool_wake(NULL, 0));
        assert_int_equal(sleep_matches(blocks[0], 4 * MIB, 0), !discards);
        assert_int_equal(sleep_matches(blocks[1], 4 * MIB, 1), 1);
        assert_int_equal(sleep_matches(blocks[2], 4 * MIB, 2), 0);
    }
    /* With nothing to keep, nothing is pinned and nothing copied. */
    assert_ok(tnr_block_content_set(blocks[1], TNR_CONTENT_DEFAULT));
    uint64_t copies = simcuda_calls("cuMemcpyDtoHAsync") + simcuda_calls("cuMemcpyHtoDAsync") +
                      simcuda_calls("cuMemHostAlloc");
    assert_ok(tnr_pool_sleep(NULL, 0, &discard));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_int_equal(simcuda_calls("cuMemcpyDtoHAsync") + simcuda_calls("cuMemcpyHtoDAsync") +
                         simcuda_calls("cuMemHostAlloc"),
                     copies);
    sleep_context_leave();
}

/* What is discarded costs an unmapping and a release for each chunk, and what undoes that. */
static void discarding_costs_the_mapping_calls(void **state)
{
    (void)state;
    enum { FEW = 10 }; /* to switch contexts, to wait once, and so on */
    unit_start("chunk_max_mb:2", "SCHEDULE=eager", "MEMORY=512M", NULL);
    (void)unit_malloc(200 * MIB, NULL);
    uint64_t chunks = unit_stats().segment.current;
    assert_int_equal(chunks, 100);
    for (int round = 0; round < 2; round++) {
        uint64_t calls = simcuda_calls_total();
        assert_ok(tnr_pool_sleep(NULL, 0, &discard));
        assert_in_range(simcuda_calls_total() - calls, 2 * chunks, 2 * chunks + FEW);
        calls = simcuda_calls_total();
        assert_ok(tnr_pool_wake(NULL, 0));
        assert_in_range(simcuda_calls_total() - calls, 3 * chunks, 3 * chunks + FEW);
    }
}

/* A block that takes a freed one's place, binned, in a free run or growing, has no word of its. */
static void policies_end_with_the_block(void **state)
{
    (void)state;
    static const size_t sizes[] = {4 * KIB, 3 * MIB};
    unit_start(NULL, "SCHEDULE=eager", NULL);
    sleep_context_enter();
    for (int i = 0; i < 2; i++) {
        void *first = unit_malloc(sizes[i], NULL);
        assert_ok(tnr_block_content_set(first, TNR_CONTENT_DISCARD));
        assert_ok(tnr_free(first));
        void *second = unit_malloc(sizes[i], NULL);
        assert_ptr_equal(second, first);
        sleep_fill(second, sizes[i], 7, NULL);
        assert_ok(tnr_pool_sleep(NULL, 0, NULL));
        assert_ok(tnr_pool_wake(NULL, 0));
        sleep_check(second, sizes[i], 7);
    }
    void *grows;
    assert_ok(tnr_reserve(&grows, 64 * MIB, 0, NULL));
    assert_error(tnr_block_content_set(grows, TNR_CONTENT_DISCARD), TNR_ERR_NOT_LIVE, NULL);
    assert_ok(tnr_commit(grows, 2 * MIB));
    assert_ok(tnr_block_content_set(grows, TNR_CONTENT_KEEP));
    assert_ok(tnr_commit(grows, 8 * MIB)); /* growing does not change it */
    sleep_fill(grows, 8 * MIB, 8, NULL);
    assert_ok(tnr_pool_sleep(NULL, 0, &discard));
    assert_ok(tnr_pool_wake(NULL, 0));
    sleep_check(grows, 8 * MIB, 8);
    sleep_context_leave();
}

/* Many small blocks with little between them go in few copies. */
static void few_copies_for_many_blocks(void **state)
{
    (void)state;
    enum { BLOCKS = 1000 };
    unit_start("bin_blocks:0", "SCHEDULE=eager", NULL);
    sleep_context_enter();
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(4 * KIB, NULL);
    for (int i = 0; i < BLOCKS; i += 2)
        assert_ok(tnr_free(blocks[i]));
    for (int i = 1; i < BLOCKS; i += 2)
        sleep_fill(blocks[i], 4 * KIB, (uint32_t)i, NULL);
    uint64_t out = simcuda_calls("cuMemcpyDtoHAsync");
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_true(simcuda_calls("cuMemcpyDtoHAsync") - out <= 4);
    assert_ok(tnr_pool_wake(NULL, 0));
    for (int i = 1; i < BLOCKS; i += 2)
        sleep_check(blocks[i], 4 * KIB, (uint32_t)i);
    sleep_context_leave();
}

/* Replays read what a capture has written into memory that is free by now. */
static void graph_pools_keep_what_is_free(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    sleep_context_enter();
    (void)unit_malloc(100, NULL); /* the device is in use */
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool made;
    assert_ok(tnri_pool_make(tnri_device_at(0), &options, TNRI_POOL_GRAPH, NULL, &made));
    tnr_pool pool = made->handle;
    tnri_arena *arena = tnri_arena_walk(made, NULL);
    tnri_request request = {6 * MIB, 6 * MIB, TNR_ALIGNMENT_DEFAULT};
    void *freed, *live;
    assert_ok(tnri_arena_malloc(arena, &request, &freed));
    assert_ok(tnri_arena_malloc(arena, &request, &live));
    sleep_fill(freed, 6 * MIB, 1, NULL);
    sleep_fill(live, 6 * MIB, 2, NULL);
    assert_ok(tnr_free(freed));
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_ok(tnr_pool_wake(pool, 0));
    sleep_check(freed, 6 * MIB, 1);
    sleep_check(live, 6 * MIB, 2);
    assert_ok(tnr_device_sleep(0, &discard)); /* of a whole device, graph pools keep all the same */
    assert_int_equal(sleep_device_bytes(), 0);
    assert_ok(tnr_device_wake(0));
    sleep_check(freed, 6 * MIB, 1);
    sleep_check(live, 6 * MIB, 2);
    assert_ok(tnr_pool_sleep(pool, 0, &discard)); /* asked for by name */
    assert_ok(tnr_pool_wake(pool, 0));
    assert_false(sleep_matches(freed, 6 * MIB, 1));
    sleep_context_leave();
}

/* Past the bound, contents lie in ordinary memory and go through the ring, out and in, however the
 * device's streams run. The bound is the device's, whatever pools there are. */
static void contents_go_through_the_ring(const char *schedule)
{
    unit_start(NULL, schedule, "MEMORY=1G", "RACES=1", NULL);
    sleep_context_enter();
    tnr_pool pool;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    void *large = unit_malloc(110 * MIB, NULL), *small = unit_malloc(700, NULL), *other;
    assert_ok(tnr_pool_malloc(&other, pool, 75 * MIB, 0, unit_stream(0)));
    sleep_fill(large, 110 * MIB, 1, NULL);
    sleep_fill(small, 700, 2, NULL);
    sleep_fill(other, 75 * MIB, 3, NULL);
    /* Contents take 7 pieces: none of them, one, two and all pinned. */
    static const size_t bounds[] = {1, 97 * MIB, 128 * MIB, 9 * TNRI_BUFFER_BYTES};
    static const size_t pinned[] = {2, 3, 4, 7};
    for (int i = 0; i < 4; i++) {
        tnr_sleep_options options = {sizeof(options), TNR_CONTENT_KEEP, i == 1, bounds[i]};
        assert_ok(tnr_device_sleep(0, &options));
        assert_int_equal(sleep_pinned_bytes(), pinned[i] * TNRI_BUFFER_BYTES);
        assert_int_equal(sleep_device_bytes(), 0);
        (void)unit_stats();
        assert_ok(tnr_device_wake(0));
        sleep_check(large, 110 * MIB, 1);
        sleep_check(small, 700, 2);
        sleep_check(other, 75 * MIB, 3);
        assert_int_equal(sleep_pinned_bytes(), i == 1 ? 3 * TNRI_BUFFER_BYTES : 0);
    }
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

static void pinned_memory_is_bounded(void **state)
{
    (void)state;
    contents_go_through_the_ring("SCHEDULE=lazy");
}

static void pinned_memory_is_bounded_with_threads(void **state)
{
    (void)state;
    contents_go_through_the_ring("SCHEDULE=threads");
}

static void backing_is_kept_and_prepared(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    sleep_context_enter();
    void *ptr = unit_malloc(40 * MIB, NULL);
    sleep_fill(ptr, 40 * MIB, 1, NULL);
    simcuda_fail("cuMemHostAlloc", 3, 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_error(tnr_sleep_prepare(100 * MIB, 0), TNR_ERR_HOST_MEMORY, "cuMemHostAlloc");
    simcuda_fail_clear();
    assert_int_equal(sleep_pinned_bytes(), 0); /* all of it or nothing */
    assert_ok(tnr_sleep_prepare(33 * MIB, 0));
    assert_int_equal(sleep_pinned_bytes(), 2 * TNRI_BUFFER_BYTES);
    uint64_t pinned = simcuda_calls("cuMemHostAlloc");
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_int_equal(simcuda_calls("cuMemHostAlloc"), pinned); /* it was there */
    assert_ok(tnr_sleep_prepare(0, 0));                        /* in use: it goes after the wake */
    assert_int_equal(sleep_pinned_bytes(), 2 * TNRI_BUFFER_BYTES);
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_int_equal(sleep_pinned_bytes(), 0);
    assert_ok(tnr_pool_sleep(NULL, 0, &keep_backing));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_int_equal(sleep_pinned_bytes(), 2 * TNRI_BUFFER_BYTES);
    assert_ok(tnr_sleep_prepare(100 * MIB, 0));
    assert_int_equal(sleep_pinned_bytes(), 4 * TNRI_BUFFER_BYTES);
    assert_ok(tnr_pool_sleep(NULL, 0, NULL));
    assert_ok(tnr_pool_wake(NULL, 0));
    assert_int_equal(sleep_pinned_bytes(), 4 * TNRI_BUFFER_BYTES); /* prepared for the next, too */
    sleep_check(ptr, 40 * MIB, 1);
    assert_ok(tnr_sleep_prepare(1, 0));
    assert_int_equal(sleep_pinned_bytes(), TNRI_BUFFER_BYTES);
    sleep_context_leave();
}

/* What is kept can be read while it sleeps, across buffers, and what is not cannot. */
static void kept_is_read(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    sleep_context_enter();
    static char host[70 * MIB];
    unsigned char *block = unit_malloc(70 * MIB, NULL), *lost = unit_malloc(4 * MIB, NULL);
    assert_ok(tnr_block_content_set(lost, TNR_CONTENT_DISCARD));
    sleep_fill(block, 70 * MIB, 5, NULL);
    assert_error(tnr_sleep_read(host, 1, block), TNR_ERR_INVALID_ARGUMENT, "does not sleep");
    assert_ok(tnr_device_sleep(0, NULL));
    assert_ok(tnr_sleep_read(host, 70 * MIB, block));
    assert_int_equal(tnr_sleep_read(host + 33 * MIB, 40, block + 33 * MIB + 1), TNR_OK);
    assert_error(tnr_sleep_read(host, 1, lost), TNR_ERR_NOT_LIVE, "discarded");
    assert_error(tnr_sleep_read(host, 2 * MIB, block + 69 * MIB), TNR_ERR_NOT_LIVE, NULL);
    assert_error(tnr_sleep_read(NULL, 1, block), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_sleep_read(host, 1, host), TNR_ERR_FOREIGN_POINTER, NULL);
    assert_ok(tnr_device_wake(0));
    for (size_t at = 0; at < 70 * MIB; at += 4099)
        if (at < 33 * MIB || at >= 33 * MIB + 40)
            assert_int_equal((unsigned char)host[at], block[at]);
    for (size_t at = 0; at < 40; at++)
        assert_int_equal((unsigned char)host[33 * MIB + at], block[33 * MIB + 1 + at]);
    assert_ok(tnr_free(block));
    assert_ok(tnr_free(lost));
    sleep_context_leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(everything_comes_back, unit_stop),
        cmocka_unit_test_teardown(large_contents, unit_stop),
        cmocka_unit_test_teardown(policies, unit_stop),
        cmocka_unit_test_teardown(discarding_costs_the_mapping_calls, unit_stop),
        cmocka_unit_test_teardown(policies_end_with_the_block, unit_stop),
        cmocka_unit_test_teardown(few_copies_for_many_blocks, unit_stop),
        cmocka_unit_test_teardown(graph_pools_keep_what_is_free, unit_stop),
        cmocka_unit_test_teardown(pinned_memory_is_bounded, unit_stop),
        cmocka_unit_test_teardown(pinned_memory_is_bounded_with_threads, unit_stop),
        cmocka_unit_test_teardown(backing_is_kept_and_prepared, unit_stop),
        cmocka_unit_test_teardown(kept_is_read, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
