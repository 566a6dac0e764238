/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether streams take free memory of each other before the pool grows (miss/trade.h).
 *
 * Broken to see it fail, in tnri_trade_pays: needs are not compared (always apart:
 * streams_that_take_turns_trade, and unit_lend; never: streams_that_need_all_at_once_keep);
 * the trough is not asked for (before_the_trough_streams_trade); parked blocks do not matter
 * (what_is_parked_can_be_had). In tnri_price_look, any number of arenas is looked at
 * (among_many_streams_all_trade); in tnri_trade_pays, none of what follows is done for too many
 * (streams_that_become_many_trade).
 */
#include "unit.h"

#include <tenure/park.h>

#include "base/heuristics.h"
#include "memory/device/device.h"
#include "memory/pool/pool.h"

static tnr_stream a, b, c;

/* Two streams that needed 64 and 66 MiB at once, and so many others that needed 4 MiB then. The
 * first one's memory is the driver's again, and the second one's is idle. */
static void start_among(const char *conf, int others)
{
    unit_start(conf, NULL);
    a = unit_stream(0);
    b = unit_stream(0);
    c = unit_stream(0);
    for (int i = 0; i < others; i++)
        (void)unit_malloc(4 * MIB, unit_stream(0));
    void *first = unit_malloc(64 * MIB, a);
    void *second = unit_malloc(64 * MIB, b);
    (void)unit_malloc(2 * MIB, b);
    assert_ok(tnr_free(first));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_ok(tnr_free(second));
    assert_int_equal(unit_stats().reserved_bytes.current, (66 + 4 * (size_t)others) * MIB);
}

static void start(const char *conf)
{
    start_among(conf, 0);
}

/* The first stream wants its 64 MiB again. */
static void assert_served(tnr_served served)
{
    uint64_t before = unit_stats().served[served];
    (void)unit_malloc(64 * MIB, a);
    assert_int_equal(unit_stats().served[served], before + 1);
}

static void streams_that_need_all_at_once_keep(void **state)
{
    (void)state;
    start("aliases_from:first");
    assert_served(TNR_SERVED_GROWN);
}

/* One that needs its most while another one does not. */
static void streams_that_take_turns_trade(void **state)
{
    (void)state;
    start("aliases_from:first");
    assert_ok(tnr_free(unit_malloc(64 * MIB, c)));
    assert_served(TNR_SERVED_LENT);
}

/* Nor if so little is saved: 2 of 130 MiB. */
static void a_little_is_no_reason(void **state)
{
    (void)state;
    start("aliases_from:first");
    assert_ok(tnr_free(unit_malloc(2 * MIB, c)));
    assert_served(TNR_SERVED_GROWN);
}

/* Nobody knows yet what the program needs. */
static void before_the_trough_streams_trade(void **state)
{
    (void)state;
    start(NULL);
    assert_served(TNR_SERVED_LENT);
}

static void without_memory_streams_trade(void **state)
{
    (void)state;
    start("aliases_from:first");
    assert_ok(tnr_limit_set(66 * MIB, 0));
    (void)unit_malloc(64 * MIB, a);
    assert_int_equal(unit_stats().reserved_bytes.current, 66 * MIB);
}

/* To look at all of them would take too long. */
static void among_many_streams_all_trade(void **state)
{
    (void)state;
    start_among("aliases_from:first,address_space_gb:64", TNRI_PRICE_ARENAS - 2);
    assert_served(TNR_SERVED_GROWN);
    assert_int_equal(unit_stop(state), 0);
    start_among("aliases_from:first,address_space_gb:64", TNRI_PRICE_ARENAS - 1);
    assert_served(TNR_SERVED_LENT);
}

/* What was said of fewer streams does not hold for them, for chunks that go home either. */
static void streams_that_become_many_trade(void **state)
{
    (void)state;
    start_among("aliases_from:first,address_space_gb:64", TNRI_PRICE_ARENAS - 2);
    assert_served(TNR_SERVED_GROWN);
    tnr_pool pool = tnri_pool_walk(tnri_device_at(0), NULL);
    int before = atomic_load(&pool->account.trade_saves_nothing);
    (void)unit_malloc(4 * MIB, unit_stream(0));
    int after = atomic_load(&pool->account.trade_saves_nothing);
    tnri_pool_drop(pool);
    assert_int_equal(before, 1);
    assert_int_equal(after, 0);
}

/* It counts as needed, and may serve others all the same. */
static void what_is_parked_can_be_had(void **state)
{
    (void)state;
    start("aliases_from:first");
    void *parked = unit_malloc(64 * MIB, b);
    assert_ok(tnr_park(NULL, parked, b, TNR_CONTENT_DISCARD));
    uint64_t before = unit_stats().reserved_bytes.current;
    (void)unit_malloc(64 * MIB, a);
    assert_int_equal(unit_stats().reserved_bytes.current, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(streams_that_need_all_at_once_keep, unit_stop),
        cmocka_unit_test_teardown(streams_that_take_turns_trade, unit_stop),
        cmocka_unit_test_teardown(a_little_is_no_reason, unit_stop),
        cmocka_unit_test_teardown(before_the_trough_streams_trade, unit_stop),
        cmocka_unit_test_teardown(without_memory_streams_trade, unit_stop),
        cmocka_unit_test_teardown(among_many_streams_all_trade, unit_stop),
        cmocka_unit_test_teardown(streams_that_become_many_trade, unit_stop),
        cmocka_unit_test_teardown(what_is_parked_can_be_had, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
