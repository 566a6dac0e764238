/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The price of memory (miss/price.h): within its budget a pool moves chunks; beyond it, it grows,
 * and the more it holds above what it needs, the more it moves all the same.
 *
 * Broken to see it fail: tnri_device_may_move always 1 (beyond_its_budget_a_pool_grows), or without
 * price_times (what_it_holds_too_much_is_moved), or without is_alone, or where move_took_ns is
 * charged as move_spent_ns is (a_pool_of_one_stream_pays_no_more_than_the_budget); in
 * tnri_price_look, arenas are not counted (among_many_streams_nothing_is_looked_at), nor what is
 * retired (what_is_retired_is_in_use), nor the request (what_a_pool_needs); in tnri_price_may_move,
 * no pages for the arenas (what_fills_no_page_is_needed), is_full is not asked; in chunks_create it
 * is not cleared (what_cannot_grow_moves). Another TNRI_PRICE_TIMES (the_settings_say_so).
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include <tenure/lifetime.h>

#include "api/library.h"
#include "base/heuristics.h"
#include "memory/device/budget.h"
#include "memory/pool/pool.h"
#include "miss/price.h"

enum {
    CHUNK_MIB = 2,
    MUCH_MIB = 64,
    LITTLE_MIB = 4, /* no more than the pages that the arena needs beside */
    BURST_MS = 1,   /* less than the moves of MUCH_MIB take, more than half of them */
};
#define CONF "move_burst_ms:1,move_percent:0,chunk_exact_mb:2,chunk_max_mb:2"

static void start(void)
{
    uint64_t much_ns = (uint64_t)MUCH_MIB / CHUNK_MIB * TNRI_MOVE_NS;
    assert_in_range(BURST_MS * 1000000, much_ns / 2 + 1, much_ns - 1);
    unit_start(CONF, NULL);
}

/* Asks for so many MiB in one piece. Returns 1 if chunks moved there, 0 if the pool grew. */
static int is_moved(int mib, void **ptr)
{
    tnr_stats before = unit_stats();
    *ptr = unit_malloc((size_t)mib * MIB, 0);
    tnr_stats after = unit_stats();
    uint64_t moved = after.chunks_moved - before.chunks_moved;
    uint64_t grown = (after.reserved_bytes.current - before.reserved_bytes.current) / MIB;
    assert_true((moved > 0) != (grown > 0));
    return moved > 0;
}

/* Makes so many MiB of holes of a chunk each between blocks that stay, and asks for as much. */
static int moves(int mib)
{
    void *blocks[2 * MUCH_MIB / CHUNK_MIB];
    int count = 2 * mib / CHUNK_MIB;
    for (int i = 0; i < count; i++)
        blocks[i] = unit_malloc(CHUNK_MIB * MIB, 0);
    for (int i = 0; i < count; i += 2)
        assert_ok(tnr_free(blocks[i]));
    void *block;
    return is_moved(mib, &block);
}

static void beyond_its_budget_a_pool_grows(void **state)
{
    (void)state;
    start();
    assert_true(moves(LITTLE_MIB));
    assert_true(moves(MUCH_MIB)); /* uses the burst up */
    for (int i = 0; i < 4; i++)
        assert_false(moves(LITTLE_MIB));
}

/* Three bursts and more are spent. */
static void what_it_holds_too_much_is_moved(void **state)
{
    enum { NEEDS_MIB = 1000, CHUNKS = 100 };
    (void)state;
    start();
    assert_true(moves(MUCH_MIB));
    tnri_device *device = tnri_device_at(0);
    assert_in_range(CHUNKS * TNRI_MOVE_NS, 3 * BURST_MS * 1000000, 4 * BURST_MS * 1000000);
    tnri_device_moved(device, CHUNKS, CHUNKS, tnri_decision_ns());
    assert_false(tnri_device_may_move(device, 900 * MIB, NEEDS_MIB * MIB, 0));
    assert_false(tnri_device_may_move(device, NEEDS_MIB * MIB, NEEDS_MIB * MIB, 0));
    assert_false(tnri_device_may_move(device, 1010 * MIB, NEEDS_MIB * MIB, 0)); /* three bursts */
    assert_true(tnri_device_may_move(device, 1030 * MIB, NEEDS_MIB * MIB, 0));  /* seven */
    assert_true(tnri_device_may_move(device, UINT64_MAX, 1, 0));
    assert_false(tnri_device_may_move(device, UINT64_MAX, 0, 0)); /* of which nothing is known */
}

static tnr_pool pool_default(void)
{
    return tnri_device_at(0)->pool_default;
}

static tnri_use look(size_t bytes)
{
    tnri_request request = {.bytes = bytes};
    return tnri_price_look(tnri_arena_walk(pool_default(), NULL), &request);
}

/* What a pool of one stream holds too much it moves only within the budget, by time that passed: as
 * long as none does, moves at a higher price have no end. */
static void a_pool_of_one_stream_pays_no_more_than_the_budget(void **state)
{
    enum { NEEDS_MIB = 1000, HOLDS_MIB = 1500 };
    (void)state;
    start();
    (void)unit_malloc(MIB, 0);
    tnri_device *device = tnri_device_at(0);
    tnri_device_moved(device, 100, 100, tnri_decision_ns());
    assert_true(tnri_device_may_move(device, HOLDS_MIB * MIB, NEEDS_MIB * MIB, 1));
    tnri_device_moved(device, 1, 2, tnri_decision_ns() - 2 * BURST_MS * 1000000);
    assert_true(tnri_device_may_move(device, HOLDS_MIB * MIB, NEEDS_MIB * MIB, 1));
    tnri_device_moved(device, 1, 1, tnri_decision_ns() - 1);
    assert_false(tnri_device_may_move(device, HOLDS_MIB * MIB, NEEDS_MIB * MIB, 1));
    assert_true(tnri_device_may_move(device, HOLDS_MIB * MIB, NEEDS_MIB * MIB, 0));

    tnri_request request = {.bytes = HOLDS_MIB * MIB};
    (void)look(MIB);
    assert_false(tnri_price_may_move(pool_default(), &request, &(tnri_use){.arenas = 1}));
    assert_true(tnri_price_may_move(pool_default(), &request, &(tnri_use){.arenas = 2}));
}

/* The end of what is in use fills no page, in each world of the pool's one arena. */
static void what_fills_no_page_is_needed(void **state)
{
    (void)state;
    start();
    assert_true(moves(MUCH_MIB));
    tnri_device_moved(tnri_device_at(0), 100, 100, tnri_decision_ns());
    uint64_t needs = atomic_load(&pool_default()->account.most_bytes);
    assert_int_equal(needs, unit_stats().reserved_bytes.current);
    tnri_request request = {.bytes = 4 * MIB};
    assert_false(tnri_price_may_move(pool_default(), &request, &(tnri_use){.arenas = 1}));
    assert_true(tnri_price_may_move(pool_default(), &request, &(tnri_use){0}));
    request.bytes = 12 * MIB; /* what it would grow by counts as held */
    assert_true(tnri_price_may_move(pool_default(), &request, &(tnri_use){.arenas = 1}));
}

static void what_a_pool_needs(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *block = unit_malloc(64 * MIB, unit_stream(0));
    assert_int_equal(look(4 * MIB).bytes, 64 * MIB);
    uint64_t needs = atomic_load(&pool_default()->account.most_bytes);
    assert_int_equal(needs, (64 + 4) * MIB);
    assert_ok(tnr_free(block));
    assert_int_equal(look(4 * MIB).bytes, 0);
    assert_int_equal(atomic_load(&pool_default()->account.most_bytes), needs);
}

/* It was freed, and other streams' work still uses it. */
static void what_is_retired_is_in_use(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *block = unit_malloc(64 * MIB, unit_stream(0));
    assert_ok(tnr_record_use(block, unit_stream(0)));
    assert_ok(tnr_free(block));
    tnri_use use = look(0);
    assert_int_equal(use.arenas, 1);
    assert_int_equal(use.bytes, 64 * MIB);
    assert_int_equal(unit_stats().blocks_retired, 1);
}

/* To look at all of them would take too long. */
static void among_many_streams_nothing_is_looked_at(void **state)
{
    (void)state;
    unit_start("address_space_gb:64", NULL);
    for (int i = 0; i < TNRI_PRICE_ARENAS; i++)
        (void)unit_malloc(4 * MIB, unit_stream(0));
    assert_int_equal(look(0).arenas, TNRI_PRICE_ARENAS);
    (void)unit_malloc(4 * MIB, unit_stream(0));
    assert_int_equal(look(0).arenas, 0);
    assert_int_equal(look(0).bytes, 0);
}

/* At a limit, moves come first, and the driver is not asked for what it cannot give, until the pool
 * has grown again. */
static void what_cannot_grow_moves(void **state)
{
    (void)state;
    unit_start("move_burst_ms:0,move_percent:0,chunk_exact_mb:2,chunk_max_mb:2", NULL);
    assert_false(moves(LITTLE_MIB));
    assert_ok(tnr_limit_set((2 * LITTLE_MIB + LITTLE_MIB) * MIB, 0));
    void *block;
    assert_true(is_moved(LITTLE_MIB, &block));
    assert_true(atomic_load(&pool_default()->account.is_full));
    assert_ok(tnr_limit_set(SIZE_MAX, 0));
    (void)unit_malloc(MUCH_MIB * MIB, 0);
    assert_false(atomic_load(&pool_default()->account.is_full));
    assert_false(moves(LITTLE_MIB));
}

/* What the settings promise is what is done. */
static void the_settings_say_so(void **state)
{
    (void)state;
    char most[32];
    int found = 0;
    tnr_setting_info setting = {.struct_bytes = sizeof(setting)};
    snprintf(most, sizeof(most), "up to %d times more", TNRI_PRICE_TIMES);
    for (size_t i = 0; tnr_setting_get(&setting, i) == TNR_OK; i++)
        if (strcmp(setting.key, "move_burst_ms") == 0)
            found = strstr(setting.help, most) != NULL;
    assert_true(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(beyond_its_budget_a_pool_grows, unit_stop),
        cmocka_unit_test_teardown(what_it_holds_too_much_is_moved, unit_stop),
        cmocka_unit_test_teardown(a_pool_of_one_stream_pays_no_more_than_the_budget, unit_stop),
        cmocka_unit_test_teardown(what_fills_no_page_is_needed, unit_stop),
        cmocka_unit_test_teardown(what_a_pool_needs, unit_stop),
        cmocka_unit_test_teardown(what_is_retired_is_in_use, unit_stop),
        cmocka_unit_test_teardown(among_many_streams_nothing_is_looked_at, unit_stop),
        cmocka_unit_test_teardown(what_cannot_grow_moves, unit_stop),
        cmocka_unit_test_teardown(the_settings_say_so, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
