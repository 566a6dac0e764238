/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks: mutual exclusion, and the order of ranks. Every violation of that order ends the process
 * at the place where it happens. The tests let it happen in child processes.
 *
 * In tnri_lock_note_taken, `<` replaced by `<=`: two_of_one_rank lived on and the test failed. In
 * tnri_lock_take, the compare-exchange replaced by a store: threads_exclude_each_other failed. In
 * lock_disown, without the kernel's barrier: nobody_is_inside_with_the_owner failed, where there
 * are two processors; without the wait for the owner: an_owner_inside_keeps_others_out failed.
 * With one place in `inside` for all owners: a_late_owner_disturbs_nobody failed. In owner_place,
 * without the places of addresses that no thread has: threads_that_are_gone_leave_their_places and
 * two more failed; with those of all addresses: places_of_the_living_are_kept and
 * an_heir_keeps_the_place failed. In lock_disown, with twice the turns in any case:
 * an_owner_that_is_gone_shared_nothing failed; without regard to how long it was the owner:
 * who_comes_seldom_disturbs_no_owner failed. Orders and fences are the business of
 * tests/lock_model.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/prim/alive.h"
#include "base/lock.h"
#include "base/ticks.h"

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

enum { TURNS = 400, COLD_BYTES = 1 << 25, COLD_STORES = 12 };
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

/* As if the calling thread, the owner, had been it for no time at all, or for long. */
static void owned_since(int64_t ticks_ago)
{
    owned.owned_ticks = tnri_ticks() - (uint64_t)ticks_ago;
}

static void many_turns_make_an_owner(void **state)
{
    (void)state;
    if (!owned_init())
        skip();
    turns(10);
    assert_int_equal(atomic_load(&owned.owner), 0);
    turns(TURNS);
    assert_int_equal(atomic_load(&owned.owner), tnri_alive_self());
    owned_since(-(INT64_C(1) << 40));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, other_takes, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&owned.owner), 0);
    assert_int_equal(atomic_load(&other_is_in), 1);
    /* It takes longer the second time. */
    turns(200);
    assert_int_equal(atomic_load(&owned.owner), 0);
    turns(TURNS);
    assert_int_equal(atomic_load(&owned.owner), tnri_alive_self());
    /* A leaf's lock, taken by everybody, has none. */
    tnri_lock_init(&owned, TNRI_RANK_HOST);
    turns(4 * TURNS);
    assert_int_equal(atomic_load(&owned.owner), 0);
}

/* Somebody who looks in now and then, and not at once, does not make owners rarer. */
static void who_comes_seldom_disturbs_no_owner(void **state)
{
    enum { VISITS = 30 };
    (void)state;
    if (!owned_init())
        skip();
    for (int i = 0; i < VISITS; i++) {
        turns(200);
        assert_int_equal(atomic_load(&owned.owner), tnri_alive_self());
        owned_since(INT64_C(1) << 40);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, other_takes, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(atomic_load(&owned.owner), 0);
    }
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
    uintptr_t place = atomic_load(&owned.owner) - tnri_alive_self();
    pthread_t owner, third;
    assert_int_equal(pthread_create(&owner, NULL, other_owns, NULL), 0);
    while (!atomic_load(&other_is_in))
        sched_yield();
    assert_int_not_equal(atomic_load(&owned.owner), tnri_alive_self());
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

static uint64_t turns_of_owner; /* the lock `owned`; so that each turn is counted twice */
static _Atomic int owner_must_end;

/* One turn, which is not quick. Ends the process if somebody else was inside. */
static void turn_alone(uint64_t *mine, const uint64_t *other, int pause)
{
    tnri_lock_take(&owned);
    uint8_t holder = owned.holder;
    uint64_t count = ++owned_counter;
    ++*mine;
    for (volatile int i = pause; i > 0; i--)
        continue;
    if (owned.holder != holder || owned_counter != count || count != *mine + *other)
        _exit(2);
    owned.streak_wanted = 128; /* so that there are always owners */
    tnri_lock_release(&owned);
}

/* Takes the lock again and again, as its owner with "inside" kept back. */
static void *owner_hurries(void *visits)
{
    uint64_t random = 1;
    while (!atomic_load_explicit(&owner_must_end, memory_order_relaxed)) {
        if (atomic_load(&owned.owner) - tnri_alive_self() < TNRI_LOCK_OWNERS)
            stores_to_memory(&random);
        turn_alone(&turns_of_owner, visits, 0);
    }
    return NULL;
}

/* The lock is taken away from its owner at any moment of its turns, again and again. Where the
 * owner's "inside" is still in its processor then, both are inside. In a child, because the lock is
 * broken from then on. */
static void visits_at_any_moment(void *user)
{
    enum { VISITS = 4000, MOMENTS = 512, STAY = 300 };
    (void)user;
    pthread_t owner;
    uint64_t visits = 0;
    assert_int_equal(pthread_create(&owner, NULL, owner_hurries, &visits), 0);
    for (int i = 0; i < VISITS; i++) {
        while (atomic_load_explicit(&owned.owner, memory_order_relaxed) == 0)
            sched_yield();
        for (volatile int moment = i * 7919 % MOMENTS; moment > 0; moment--)
            continue;
        turn_alone(&visits, &turns_of_owner, STAY);
    }
    atomic_store(&owner_must_end, 1);
    assert_int_equal(pthread_join(owner, NULL), 0);
    _exit(owned_counter == visits + turns_of_owner ? 0 : 2);
}

static void nobody_is_inside_with_the_owner(void **state)
{
    (void)state;
    if (!owned_init())
        skip();
    owned_counter = 0;
    assert_int_equal(unit_in_child(visits_at_any_moment, NULL, 0), 0);
}

/* ---- owners that are gone ------------------------------------------------------------------- */

enum { STACK_BYTES = 1 << 18, COMERS = 3 * TNRI_LOCK_OWNERS };

/* A thread with a stack of its own, so that no two that are meant to differ have one address. */
typedef struct comer {
    pthread_t thread;
    void *stack;
    int turns;
    int must_stay; /* after its turns, until it may go */
    int was_owner; /* after its turns */
    _Atomic int is_done, may_go;
} comer;

static comer comers[COMERS];

static void *comer_run(void *user)
{
    comer *self = user;
    turns(self->turns);
    self->was_owner = atomic_load(&owned.owner) - tnri_alive_self() < TNRI_LOCK_OWNERS;
    atomic_store(&self->is_done, 1);
    while (self->must_stay && !atomic_load(&self->may_go))
        sched_yield();
    return NULL;
}

/* Starts a thread, on the stack that the comer had before if it had one, and waits for the end of
 * its turns. */
static void comer_start(comer *one, int count, int must_stay)
{
    pthread_attr_t attributes;
    if (one->stack == NULL)
        one->stack =
            mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(one->stack, MAP_FAILED);
    one->turns = count;
    one->must_stay = must_stay;
    atomic_store(&one->is_done, 0);
    atomic_store(&one->may_go, 0);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, one->stack, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&one->thread, &attributes, comer_run, one), 0);
    pthread_attr_destroy(&attributes);
    while (!atomic_load(&one->is_done))
        sched_yield();
}

static void comer_end(comer *one)
{
    atomic_store(&one->may_go, 1);
    assert_int_equal(pthread_join(one->thread, NULL), 0);
}

static void comers_forget(void)
{
    for (int i = 0; i < COMERS; i++)
        if (comers[i].stack != NULL)
            munmap(comers[i].stack, STACK_BYTES);
    memset(comers, 0, sizeof(comers));
}

/* 1 if owners are possible here, and the kernel can tell who is gone. */
static int comers_init(void)
{
    comers_forget();
    if (!owned_init())
        return 0;
    int gone;
    comer_start(&comers[0], 1, 1);
    uintptr_t address = owned.latest;
    assert_int_equal(tnri_alive_none_at(address), 0);
    assert_int_equal(tnri_alive_none_at(tnri_alive_self()), 0);
    comer_end(&comers[0]);
    gone = tnri_alive_none_at(address);
    return owned_init() && gone;
}

/* Many more than there are places, one after the other; the memory of some stacks goes. */
static void threads_that_are_gone_leave_their_places(void **state)
{
    (void)state;
    if (!comers_init())
        skip();
    for (int i = 0; i < COMERS; i++) {
        comer_start(&comers[i], TURNS, 0);
        comer_end(&comers[i]);
        if (!comers[i].was_owner)
            fail_msg("thread %d of %d did not become the owner", i + 1, COMERS);
        if (i % 3 == 0) {
            assert_int_equal(munmap(comers[i].stack, STACK_BYTES), 0);
            comers[i].stack = NULL;
        }
    }
    comers_forget();
}

static void an_owner_that_is_gone_shared_nothing(void **state)
{
    (void)state;
    if (!comers_init())
        skip();
    uint32_t wanted = owned.streak_wanted;
    for (int i = 0; i < 3; i++) {
        comer_start(&comers[i % 2], TURNS, 0);
        comer_end(&comers[i % 2]);
        assert_int_equal(comers[i % 2].was_owner, 1);
        assert_int_equal(owned.streak_wanted, wanted);
    }
    /* One that lives did. */
    turns(TURNS);
    owned_since(-(INT64_C(1) << 40));
    comer_start(&comers[1], 1, 0);
    comer_end(&comers[1]);
    assert_int_equal(owned.streak_wanted, 2 * wanted);
    comers_forget();
}

static void places_of_the_living_are_kept(void **state)
{
    (void)state;
    if (!comers_init())
        skip();
    int last = TNRI_LOCK_OWNERS;
    for (int i = 0; i < last; i++) {
        comer_start(&comers[i], 16 * TURNS, 1);
        assert_int_equal(comers[i].was_owner, 1);
    }
    comer_start(&comers[last], 64 * TURNS, 0);
    comer_end(&comers[last]);
    assert_int_equal(comers[last].was_owner, 0);
    assert_true(owned.streak_wanted > 128); /* it asks more and more seldom */
    comer_end(&comers[1]);
    comer_start(&comers[last], 64 * TURNS, 0);
    comer_end(&comers[last]);
    assert_int_equal(comers[last].was_owner, 1);
    for (int i = 0; i < last; i++)
        if (i != 1)
            comer_end(&comers[i]);
    comers_forget();
}

/* A thread that has the address of an owner that is gone is the owner too. As long as it lives,
 * nobody else gets the place, even when it has never been seen at this lock. */
static void an_heir_keeps_the_place(void **state)
{
    (void)state;
    if (!comers_init())
        skip();
    comer_start(&comers[0], TURNS, 0);
    comer_end(&comers[0]);
    uintptr_t owner = atomic_load(&owned.owner);
    uintptr_t place = owner % 16;
    comer_start(&comers[0], 0, 1); /* the heir */
    assert_int_equal(comers[0].was_owner, 1);
    for (int i = 1; i < COMERS; i++) {
        comer_start(&comers[i], 4 * TURNS, 0);
        comer_end(&comers[i]);
        assert_int_equal(comers[i].was_owner, 1);
        assert_int_equal(owned.owners[place], owner - place);
    }
    comer_end(&comers[0]);
    comers_forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(violations_end_the_process),
        cmocka_unit_test(threads_exclude_each_other),
        cmocka_unit_test(many_turns_make_an_owner),
        cmocka_unit_test(who_comes_seldom_disturbs_no_owner),
        cmocka_unit_test(an_owner_inside_keeps_others_out),
        cmocka_unit_test(a_late_owner_disturbs_nobody),
        cmocka_unit_test(nobody_is_inside_with_the_owner),
        cmocka_unit_test(threads_that_are_gone_leave_their_places),
        cmocka_unit_test(an_owner_that_is_gone_shared_nothing),
        cmocka_unit_test(places_of_the_living_are_kept),
        cmocka_unit_test(an_heir_keeps_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
