/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depots of spares: none is lost, and none is taken twice.
 *
 * Broken to see them fail: the surplus chain not given to the store (all_come_back); the chain in
 * use not emptied when it becomes the full one (all_come_back); magazine_fill's answer thrown away
 * (neighbours_lose_nothing); full chains left out of tnri_depot_empty (all_come_back).
 */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/depot.h"
#include "base/thread_number.h"

enum { THINGS = 1000, THREADS = 24, ROUNDS = 2000, AT_ONCE = 50 };

typedef struct item {
    tnri_spare spare;
    _Atomic int holders; /* 1: somebody has it */
} item;

static tnri_depot depot = TNRI_DEPOT_INIT(TNRI_RANK_HOST);
static item items[THINGS];

static int items_start(void **state)
{
    (void)state;
    memset(items, 0, sizeof(items));
    return tnri_depot_empty(&depot) == NULL ? 0 : -1;
}

static size_t chain_count(const tnri_spare *first)
{
    size_t count = 0;
    for (; first != NULL; first = first->next)
        count++;
    return count;
}

static void nothing_of_nothing(void **state)
{
    (void)state;
    assert_null(tnri_depot_take(&depot));
    tnri_depot_add(&depot, NULL);
    assert_null(tnri_depot_take(&depot));
    assert_null(tnri_depot_empty(&depot));
}

/* As many as there are come back, whatever the magazine had and the store. */
static void all_come_back(void **state)
{
    (void)state;
    for (int count = 0; count <= 70; count++) {
        for (int i = 0; i < count; i++)
            tnri_depot_give(&depot, &items[i].spare);
        for (int i = 0; i < count; i++)
            assert_non_null(tnri_depot_take(&depot));
        assert_null(tnri_depot_take(&depot));
        for (int i = 0; i < count; i++)
            tnri_depot_give(&depot, &items[i].spare);
        assert_int_equal(chain_count(tnri_depot_empty(&depot)), count);
    }
}

static void each_is_had_once(void **state)
{
    (void)state;
    unsigned seed = 7;
    size_t held_count = 0;
    item *held[THINGS];
    for (int i = 0; i < THINGS; i++)
        tnri_depot_give(&depot, &items[i].spare);
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1103515245u + 12345u;
        if (seed >> 16 & 1) {
            item *one = (item *)tnri_depot_take(&depot);
            if (one == NULL)
                continue;
            assert_int_equal(one->holders++, 0);
            held[held_count++] = one;
        } else if (held_count > 0) {
            item *one = held[--held_count];
            one->holders--;
            tnri_depot_give(&depot, &one->spare);
        }
    }
    while (held_count > 0)
        tnri_depot_give(&depot, &held[--held_count]->spare);
    assert_int_equal(chain_count(tnri_depot_empty(&depot)), THINGS);
}

/* A chain of any length is a chain. */
static void chains_are_added(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        items[i].spare.next = i + 1 < 100 ? &items[i + 1].spare : NULL;
    tnri_depot_add(&depot, &items[0].spare);
    for (int i = 0; i < 100; i++)
        assert_non_null(tnri_depot_take(&depot));
    assert_null(tnri_depot_take(&depot));
}

static void *thread_run(void *wrong)
{
    item *held[AT_ONCE];
    for (int round = 0; round < ROUNDS; round++) {
        int count = 0;
        for (; count < 1 + round % AT_ONCE; count++) {
            held[count] = (item *)tnri_depot_take(&depot);
            if (held[count] == NULL)
                break;
            *(_Atomic int *)wrong += held[count]->holders++ != 0;
        }
        while (count > 0) {
            held[--count]->holders--;
            tnri_depot_give(&depot, &held[count]->spare);
        }
    }
    return NULL;
}

static void *number_take(void *unused)
{
    (void)tnri_thread_number();
    return unused;
}

/* Empties the magazine each time, so that it is filled from the store as often. */
static void *neighbour_run(void *started)
{
    (void)tnri_thread_number();
    atomic_fetch_add((_Atomic int *)started, 1);
    while (atomic_load((_Atomic int *)started) < 2)
        ;
    for (int round = 0; round < 100 * ROUNDS; round++) {
        tnri_spare *one = tnri_depot_take(&depot);
        tnri_spare *other = tnri_depot_take(&depot);
        if (one == NULL)
            continue;
        one->next = other;
        if (other != NULL)
            other->next = NULL;
        tnri_depot_add(&depot, one);
    }
    return NULL;
}

/* Two threads of one magazine find it empty, and each brings a chain. */
static void neighbours_lose_nothing(void **state)
{
    (void)state;
    pthread_t threads[2], idle;
    static _Atomic int started;
    for (int i = 0; i < THINGS; i++) {
        items[i].spare.next = NULL;
        tnri_depot_add(&depot, &items[i].spare);
    }
    assert_int_equal(pthread_create(&threads[0], NULL, neighbour_run, &started), 0);
    /* Threads get their numbers when they first ask: every sixteenth is a neighbour. */
    while (atomic_load(&started) < 1)
        ;
    for (int i = 1; i < TNRI_DEPOT_MAGAZINES; i++) {
        assert_int_equal(pthread_create(&idle, NULL, number_take, NULL), 0);
        assert_int_equal(pthread_join(idle, NULL), 0);
    }
    assert_int_equal(pthread_create(&threads[1], NULL, neighbour_run, &started), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(chain_count(tnri_depot_empty(&depot)), THINGS);
}

/* More threads than magazines, so that some share one. */
static void threads_lose_nothing(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    static _Atomic int wrong;
    for (int i = 0; i < THINGS; i++)
        tnri_depot_give(&depot, &items[i].spare);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_run, &wrong), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(wrong, 0);
    assert_int_equal(chain_count(tnri_depot_empty(&depot)), THINGS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_of_nothing, items_start),
        cmocka_unit_test_setup(all_come_back, items_start),
        cmocka_unit_test_setup(each_is_had_once, items_start),
        cmocka_unit_test_setup(chains_are_added, items_start),
        cmocka_unit_test_setup(threads_lose_nothing, items_start),
        cmocka_unit_test_setup(neighbours_lose_nothing, items_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
