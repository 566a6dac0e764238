/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which arenas are asked for memory. Arenas that have nothing to give are skipped, however many
 * there are. Memory that is freed in one of them is found again. Visits are counted, not time.
 *
 * Seen to fail with these lines changed in the library:
 *   streams_with_nothing_are_passed_by   execute.c, donor_take: without tnri_world_spend
 *   cached, no_memory_is_overlooked      bins.h, tnri_world_bin: 0 instead of tnri_world_bin_spent
 *   large_without_a_bin                  world_spent.c, tnri_world_spend: bins->misses as it was
 *   bins_go_on_as_before                 world.c, tnri_world_unspend_now: spent_misses not
 *                                        given back
 *   retired                              run.c, tnri_world_free: without tnri_world_unspend
 *   lent                                 record.c, tnri_record_enter: without tnri_world_unspend
 */
#include "unit.h"

#include <string.h>

#include <tenure/lifetime.h>

#include "api/library.h"
#include "memory/arena/world_validate.h"
#include "memory/pool/donors.h"
#include "miss/reclaim.h"

enum { STREAMS = 150 };
#define SMALL (64 * KIB)

static tnr_pool the_pool(void)
{
    return tnri_device_at(0)->pool_default;
}

/* The arenas that the next miss would visit. */
static size_t givers_count(void)
{
    size_t count = 0;
    for (tnri_arena *arena = NULL; (arena = tnri_donors_walk(the_pool(), arena)) != NULL;)
        count++;
    return count;
}

static int is_donor(const tnri_arena *wanted)
{
    for (tnri_arena *arena = NULL; (arena = tnri_donors_walk(the_pool(), arena)) != NULL;)
        if (arena == wanted)
            return 1;
    return 0;
}

/* ---- visits --------------------------------------------------------------------------------- */

static void check_passed_by(const char *conf)
{
    unit_start(conf, NULL);
    size_t most = 0;
    uint64_t calls[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        tnr_stream stream = unit_stream(0);
        uint64_t before = simcuda_calls_total();
        (void)unit_malloc(SMALL, stream);
        calls[i] = simcuda_calls_total() - before;
        size_t count = givers_count();
        most = count > most ? count : most;
    }
    assert_true(most <= 2); /* the latest two: nobody has looked at them yet */
    assert_int_equal(calls[STREAMS - 1], calls[20]);
    assert_int_equal(unit_stats().arenas, STREAMS);
}

static void streams_with_nothing_are_passed_by(void **state)
{
    (void)state;
    check_passed_by("address_space_gb:40");
    check_passed_by("address_space_gb:40,lend:off");
}

/* The walk meets arenas newest first, in all sets. */
static void the_order_is_that_of_age(void **state)
{
    (void)state;
    unit_start("address_space_gb:40,cross_stream:off", NULL);
    for (int i = 0; i < STREAMS; i++)
        (void)unit_malloc(SMALL, unit_stream(0));
    tnri_arena *all = NULL;
    tnri_arena *arena = NULL;
    for (int i = 0; i < STREAMS; i++) {
        all = tnri_arena_walk(the_pool(), all);
        arena = tnri_donors_walk(the_pool(), arena);
        assert_non_null(all);
        assert_ptr_equal(arena, all);
    }
    assert_null(tnri_donors_walk(the_pool(), arena));
}

/* ---- what is freed -------------------------------------------------------------------------- */

/* Has other streams look in vain, so that all arenas but the latest are spent. */
static void look_in_vain(void)
{
    for (int i = 0; i < 2; i++)
        (void)unit_malloc(SMALL, unit_stream(0));
}

/* What was freed on its stream, of the arena, is lent: nothing is mapped for a new stream. */
static void check_found(const tnri_arena *arena, size_t bytes)
{
    assert_true(is_donor(arena));
    uint64_t reserved = unit_stats().reserved_bytes.current;
    (void)unit_malloc(bytes, unit_stream(0));
    assert_int_equal(unit_stats().reserved_bytes.current, reserved);
}

static void check_cached(const char *conf, size_t bytes)
{
    unit_start(conf, NULL);
    tnr_stream stream = unit_stream(0);
    void *block = unit_malloc(bytes, stream);
    tnri_arena *arena = tnri_arena_walk(the_pool(), NULL);
    for (int round = 0; round < 3; round++) {
        look_in_vain();
        assert_false(is_donor(arena));
        assert_ok(tnr_validate(0));
        assert_ok(tnr_free(block));
        assert_ok(tnr_validate(0));
        check_found(arena, bytes);
        block = unit_malloc(bytes, stream);
    }
}

static void cached(void **state)
{
    (void)state;
    check_cached(NULL, SMALL);
    check_cached(NULL, 4 * MIB);
    check_cached("bin_blocks:0", SMALL);
    check_cached("bin_blocks:0", 4 * MIB);
}

/* The large world's bin misses until it is not used. */
static void miss_bins(tnr_stream stream)
{
    for (int i = 0; i < 32; i++) {
        void *block = unit_malloc((2 + (size_t)i % 5) * MIB, stream);
        assert_ok(tnr_free(block));
    }
}

static tnri_arena *arena_without_bin(tnr_stream stream, void **block)
{
    void *held = unit_malloc(7 * MIB, stream);
    tnri_arena *arena = tnri_arena_walk(the_pool(), NULL);
    assert_ok(tnr_free(held));
    miss_bins(stream);
    assert_int_equal(arena->worlds[TNRI_LARGE].bins.misses, TNRI_BIN_MISSES);
    /* Everything is taken, so that nothing can be given. */
    size_t free_bytes;
    while ((free_bytes = tnri_world_largest_free(&arena->worlds[TNRI_LARGE])) >= 2 * MIB)
        *block = unit_malloc(free_bytes, stream);
    return arena;
}

static void large_without_a_bin(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *block = NULL;
    tnri_arena *arena = arena_without_bin(unit_stream(0), &block);
    look_in_vain();
    assert_false(is_donor(arena));
    assert_ok(tnr_free(block));
    assert_ok(tnr_validate(0));
    check_found(arena, 2 * MIB);
}

static void bins_go_on_as_before(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *block = NULL;
    tnri_arena *arena = arena_without_bin(unit_stream(0), &block);
    tnri_bins before = arena->worlds[TNRI_LARGE].bins;
    look_in_vain();
    assert_true(arena->worlds[TNRI_LARGE].is_spent);
    assert_ok(tnr_free(block));
    const tnri_bins *after = &arena->worlds[TNRI_LARGE].bins;
    assert_int_equal(after->max, before.max);
    assert_int_equal(after->misses, before.misses);
    assert_true(after->passed_bytes != 0); /* the free was one of a bin that is not used */
}

static void retired(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    tnr_stream stream = unit_stream(0), other = unit_stream(0);
    void *block = unit_malloc(4 * MIB, stream);
    tnri_arena *arena = tnri_arena_walk(the_pool(), NULL);
    assert_ok(tnr_record_use(block, other));
    look_in_vain();
    assert_false(is_donor(arena));
    assert_ok(tnr_free(block));
    assert_int_equal(unit_stats().blocks_retired, 1);
    assert_false(is_donor(arena)); /* it waits, so it is not to be had yet */
    tnri_visit visit;
    assert_ok(tnri_device_enter(tnri_device_at(0), &visit));
    tnri_collect_all(tnri_device_at(0));
    tnri_device_leave(&visit);
    assert_int_equal(unit_stats().blocks_retired, 0);
    check_found(arena, 4 * MIB);
}

/* What is left of a run that was lent can be lent on. */
static void lent(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", NULL);
    tnr_stream stream = unit_stream(0);
    void *block = unit_malloc(8 * MIB, stream);
    tnr_stream borrower = unit_stream(0);
    (void)unit_malloc(SMALL, borrower);
    tnri_arena *arena = tnri_arena_walk(the_pool(), NULL);
    look_in_vain();
    assert_false(is_donor(arena));
    assert_ok(tnr_free(block));
    (void)unit_malloc(2 * MIB, borrower);
    assert_int_equal(arena->worlds[TNRI_LARGE].bytes_in[TNRI_FREE], 6 * MIB);
    assert_ok(tnr_validate(0));
    check_found(arena, 4 * MIB);
}

/* A growable block's arena gives what it had. */
static void grown(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *block;
    assert_ok(tnr_reserve(&block, 64 * MIB, 0, unit_stream(0)));
    tnri_arena *arena = tnri_arena_walk(the_pool(), NULL);
    assert_ok(tnr_commit(block, 8 * MIB));
    look_in_vain();
    assert_false(is_donor(arena));
    assert_ok(tnr_free(block));
    assert_ok(tnr_validate(0));
    assert_true(is_donor(arena));
}

/* ---- all memory ----------------------------------------------------------------------------- */

/* Memory is never said to be out while some is free in any arena, spent or not. */
static void no_memory_is_overlooked(void **state)
{
    (void)state;
    unit_start("address_space_gb:40", "MEMORY=256M", NULL);
    static void *blocks[64];
    tnr_stream streams[64];
    size_t count = 0;
    for (; count < 64; count++) {
        streams[count] = unit_stream(0);
        if (tnr_malloc(&blocks[count], 4 * MIB, 0, streams[count]) != TNR_OK)
            break;
    }
    assert_true(count > 32 && count < 64);
    for (size_t i = 0; i < count; i++) {
        assert_ok(tnr_free(blocks[i * 7 % count]));
        blocks[i * 7 % count] = unit_malloc(4 * MIB, streams[(i + 11) % count]);
    }
    assert_ok(tnr_validate(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(streams_with_nothing_are_passed_by, unit_stop),
        cmocka_unit_test_teardown(the_order_is_that_of_age, unit_stop),
        cmocka_unit_test_teardown(cached, unit_stop),
        cmocka_unit_test_teardown(large_without_a_bin, unit_stop),
        cmocka_unit_test_teardown(bins_go_on_as_before, unit_stop),
        cmocka_unit_test_teardown(retired, unit_stop),
        cmocka_unit_test_teardown(lent, unit_stop),
        cmocka_unit_test_teardown(grown, unit_stop),
        cmocka_unit_test_teardown(no_memory_is_overlooked, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
