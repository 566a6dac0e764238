/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks: mutual exclusion, and the order of ranks, whose every violation ends the process at the
 * place where it happens. The deaths are played in children.
 *
 * In tnri_lock_note_taken, `<` replaced by `<=`: two_of_one_rank lived on and the test failed. In
 * tnri_lock_take, the compare-exchange replaced by a store: threads_exclude_each_other failed.
 */
#include "unit.h"

#include <pthread.h>
#include <signal.h>

#include "base/lock.h"

static tnri_lock outer, inner, same;

static void locks_init(void)
{
    tnri_lock_init(&outer, TNRI_RANK_POOL);
    tnri_lock_init(&inner, TNRI_RANK_ARENA);
    tnri_lock_init(&same, TNRI_RANK_ARENA);
}

static void in_order(void **state)
{
    (void)state;
    locks_init();
    assert_int_equal(tnri_lock_is_held(&outer), 0);
    tnri_lock_take(&outer);
    tnri_lock_take(&inner);
#if TNR_CHECK >= 2
    assert_int_equal(tnri_lock_is_held(&outer), 1);
    assert_int_equal(tnri_lock_is_held(&inner), 1);
    assert_int_equal(tnri_lock_is_held(&same), 0);
    assert_int_equal(tnri_lock_none_held(), 0);
#endif
    tnri_lock_release(&inner);
    tnri_lock_take(&same);
    tnri_lock_release(&same);
    tnri_lock_release(&outer);
    assert_int_equal(tnri_lock_none_held(), 1);
}

/* ---- deaths --------------------------------------------------------------------------------- */

#if TNR_CHECK >= 2 /* other builds do not look */

static void against_the_order(void *data)
{
    (void)data;
    tnri_lock_take(&inner);
    tnri_lock_take(&outer);
}

static void two_of_one_rank(void *data)
{
    (void)data;
    tnri_lock_take(&inner);
    tnri_lock_take(&same);
}

static void released_out_of_order(void *data)
{
    (void)data;
    tnri_lock_take(&outer);
    tnri_lock_take(&inner);
    tnri_lock_release(&outer);
}

static void released_twice(void *data)
{
    (void)data;
    tnri_lock_take(&outer);
    tnri_lock_release(&outer);
    tnri_lock_release(&outer);
}

static void asserted_but_not_held(void *data)
{
    (void)data;
    tnri_assert_held(&outer);
}

static void asserted_none_but_held(void *data)
{
    (void)data;
    tnri_lock_take(&outer);
    tnri_assert_none_held();
}

static void no_such_rank(void *data)
{
    (void)data;
    tnri_lock_init(&outer, TNRI_RANK_COUNT);
}

static void violations_end_the_process(void **state)
{
    (void)state;
    static void (*const deaths[])(void *) = {
        against_the_order,     two_of_one_rank,        released_out_of_order, released_twice,
        asserted_but_not_held, asserted_none_but_held, no_such_rank};
    locks_init();
    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
        int ended = unit_in_child(deaths[i], NULL, 1);
        if (ended != -SIGABRT)
            fail_msg("violation %zu ended with %d instead of an abort", i, ended);
    }
}

#else

static void violations_end_the_process(void **state)
{
    (void)state;
    skip();
}

#endif

/* ---- threads -------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20000 };
static uint64_t counter; /* the lock `outer` */

static void *count_up(void *user)
{
    (void)user;
    for (int i = 0; i < ROUNDS; i++) {
        tnri_lock_take(&outer);
        uint64_t before = counter;
        tnri_lock_take(&inner);
        counter = before + 1;
        tnri_lock_release(&inner);
        tnri_lock_release(&outer);
    }
    return NULL;
}

static void threads_exclude_each_other(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    locks_init();
    counter = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(counter, THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(violations_end_the_process),
        cmocka_unit_test(threads_exclude_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
