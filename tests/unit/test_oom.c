/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out of memory: the report says what was asked for, what there is, who holds it; the state is as
 * before and the next call works; the user's callback gets its chance.
 *
 * In tnri_ladder_malloc, the loop over the callback removed: the_callback_frees_something failed.
 */
#include "unit.h"

#include <string.h>

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
    assert_ok(tnr_pool_malloc(&big, 40 * MIB, pool, 0, stream));
    small = unit_malloc(10 * MIB, NULL);
    tnr_stats before = unit_stats();
    assert_error(tnr_malloc(&none, 30 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY,
                 "Tried to allocate 30.00 MiB");
    assert_null(none);
    static const char *const says[] = {"Device 0",         "total capacity of 64.00 MiB",
                                       "mapped 50.00 MiB", "50.00 MiB is live",
                                       "\"weights\"",      "40.00 MiB live",
                                       "\"default\"",      "10.00 MiB live",
                                       "Cause: "};
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

/* ---- the callback --------------------------------------------------------------------------- */

static struct {
    void *block;
    int calls, answer, device;
    size_t bytes;
} asked;

static int free_the_block(int device, size_t bytes, void *user)
{
    asked.calls++;
    asked.device = device;
    asked.bytes = bytes;
    assert_ptr_equal(user, &asked);
    if (asked.block != NULL)
        assert_ok(tnr_free(asked.block));
    asked.block = NULL;
    (void)unit_stats(); /* any function may be called */
    return asked.answer;
}

static void the_callback_frees_something(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    memset(&asked, 0, sizeof(asked));
    asked.block = unit_malloc(40 * MIB, NULL);
    asked.answer = 1;
    tnr_oom_callback_set(free_the_block, &asked);
    (void)unit_malloc(50 * MIB, NULL);
    assert_int_equal(asked.calls, 1);
    assert_int_equal(asked.device, 0);
    assert_int_equal(asked.bytes, 50 * MIB);
    assert_int_equal(unit_stats().num_ooms, 0);
}

static void a_callback_that_cannot_help(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=64M", NULL);
    void *ptr;
    memset(&asked, 0, sizeof(asked));
    tnr_oom_callback_set(free_the_block, &asked);
    assert_error(tnr_malloc(&ptr, 100 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_int_equal(asked.calls, 1);
    asked.answer = 1; /* claims to, for ever: it is not asked for ever */
    assert_error(tnr_malloc(&ptr, 100 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_true(asked.calls > 2 && asked.calls < 100);
    tnr_oom_callback_set(NULL, NULL);
    int calls = asked.calls;
    assert_error(tnr_malloc(&ptr, 100 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
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
                 "30.00 MiB free, the longest free run being 1.50 MiB");
    assert_int_equal(unit_stats().bytes_free, 30 * MIB);
    (void)unit_malloc(3 * MIB / 2, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_report, unit_stop),
        cmocka_unit_test_teardown(the_callback_frees_something, unit_stop),
        cmocka_unit_test_teardown(a_callback_that_cannot_help, unit_stop),
        cmocka_unit_test_teardown(the_report_shows_fragmentation, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
