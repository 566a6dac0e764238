/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks: mutual exclusion, and the order of ranks, whose every violation ends the process at the
 * place where it happens. The deaths are played in children.
 *
 * In tnri_lock_note_taken, `<` replaced by `<=`: two_of_one_rank lived on and the test failed. In
 * tnri_lock_take, the compare-exchange replaced by a store: threads_exclude_each_other failed. In
 * lock_disown, without the kernel's barrier: owners_exclude_others failed; without the wait for the
 * owner: that and an_owner_inside_keeps_others_out failed. With one place in `inside` for all
 * owners: a_late_owner_disturbs_nobody failed.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

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

/* ---- owners --------------------------------------------------------------------------------- */

enum { TURNS = 400, BURST_TURNS = 600, BURSTS = 1500, COLD_BYTES = 1 << 25, COLD_STORES = 12 };
static tnri_lock owned;
static uint64_t owned_counter; /* the lock `owned` */
static _Atomic int other_is_in, other_may_go;

/* 1 if locks have owners here: under a race detector, or without membarrier, they have none. */
static int owned_init(void)
{
    tnri_lock_owners_start();
    tnri_lock_init(&owned, TNRI_RANK_ARENA);
    atomic_store(&other_is_in, 0);
    atomic_store(&other_may_go, 0);
    return owned.is_ownable;
}

static void turns(int count)
{
    for (int i = 0; i < count; i++) {
        tnri_lock_take(&owned);
        owned_counter++;
        if (owned.streak_wanted > 1024)
            owned.streak_wanted = 128; /* so that there are always owners */
        tnri_lock_release(&owned);
    }
}

static void a_nap(void)
{
    struct timespec nap = {0, 20000000};
    nanosleep(&nap, NULL);
}

static void *other_takes(void *user)
{
    (void)user;
    tnri_lock_take(&owned);
    atomic_store(&other_is_in, 1);
    tnri_lock_release(&owned);
    return NULL;
}

/* Becomes the owner, says so, and stays inside until it may go. */
static void *other_owns(void *user)
{
    (void)user;
    turns(4 * TURNS);
    tnri_lock_take(&owned);
    atomic_store(&other_is_in, 1);
    while (!atomic_load(&other_may_go))
        sched_yield();
    tnri_lock_release(&owned);
    return NULL;
}

static void many_turns_make_an_owner(void **state)
{
    (void)state;
    if (!owned_init())
        skip();
    turns(10);
    assert_int_equal(atomic_load(&owned.owner), 0);
    turns(TURNS);
    assert_int_equal(atomic_load(&owned.owner), tnri_lock_self());
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, other_takes, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&owned.owner), 0);
    assert_int_equal(atomic_load(&other_is_in), 1);
    /* It takes longer the second time. */
    turns(200);
    assert_int_equal(atomic_load(&owned.owner), 0);
    turns(TURNS);
    assert_int_equal(atomic_load(&owned.owner), tnri_lock_self());
    /* A leaf's lock, taken by everybody, has none. */
    tnri_lock_init(&owned, TNRI_RANK_HOST);
    turns(4 * TURNS);
    assert_int_equal(atomic_load(&owned.owner), 0);
}

static void an_owner_inside_keeps_others_out(void **state)
{
    (void)state;
    if (!owned_init())
        skip();
    turns(TURNS);
    tnri_lock_take(&owned);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, other_takes, NULL), 0);
    a_nap();
    assert_int_equal(atomic_load(&other_is_in), 0);
    tnri_lock_release(&owned);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&other_is_in), 1);
}

/* A thread is stopped for long after it has seen that it is the owner. When it goes on it is none
 * any more, and its store must mean nothing to the owner that is inside then. */
static void a_late_owner_disturbs_nobody(void **state)
{
    (void)state;
    if (!owned_init())
        skip();
    turns(TURNS);
    uintptr_t place = atomic_load(&owned.owner) - tnri_lock_self();
    pthread_t owner, third;
    assert_int_equal(pthread_create(&owner, NULL, other_owns, NULL), 0);
    while (!atomic_load(&other_is_in))
        sched_yield();
    assert_int_not_equal(atomic_load(&owned.owner), tnri_lock_self());
    assert_int_not_equal(atomic_load(&owned.owner), 0);
    atomic_store(&owned.inside[place], 1); /* the late store, and how it is taken back */
    atomic_store(&owned.inside[place], 0);
    atomic_store(&other_is_in, 0);
    assert_int_equal(pthread_create(&third, NULL, other_takes, NULL), 0);
    a_nap();
    assert_int_equal(atomic_load(&other_is_in), 0);
    atomic_store(&other_may_go, 1);
    assert_int_equal(pthread_join(owner, NULL), 0);
    assert_int_equal(pthread_join(third, NULL), 0);
    assert_int_equal(atomic_load(&other_is_in), 1);
}

/* Stores that wait for memory before the store that says "inside": they keep it back, which is what
 * the kernel's barrier is for. */
static void stores_to_memory(uint64_t *random)
{
    static unsigned char far[COLD_BYTES];
    for (int i = 0; i < COLD_STORES; i++) {
        *random = *random * UINT64_C(6364136223846793005) + 1;
        __atomic_store_n(&far[(*random >> 20) % COLD_BYTES], 1, __ATOMIC_RELAXED);
    }
}

/* Bursts long enough to become the owner, in threads that take the lock away from each other. */
static void *bursts(void *user)
{
    uint64_t random = (uint64_t)(uintptr_t)user + 1;
    for (int i = 0; i < BURSTS; i++)
        for (int turn = 0; turn < BURST_TURNS; turn++) {
            if (turn > TURNS)
                stores_to_memory(&random);
            turns(1);
        }
    return NULL;
}

static void owners_exclude_others(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    (void)owned_init();
    owned_counter = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, bursts, (void *)(uintptr_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(owned_counter, (uint64_t)THREADS * BURSTS * BURST_TURNS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(violations_end_the_process),
        cmocka_unit_test(threads_exclude_each_other),
        cmocka_unit_test(many_turns_make_an_owner),
        cmocka_unit_test(an_owner_inside_keeps_others_out),
        cmocka_unit_test(a_late_owner_disturbs_nobody),
        cmocka_unit_test(owners_exclude_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
