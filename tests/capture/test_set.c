/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of pointers in order, against an array that knows what is in. Also the one purpose of these
 * sets: a look at a million members takes as few steps as a look at a hundred. Steps are counted,
 * not time.
 *
 * Seen to fail: looks_are_short with one multiplication instead of two; some_stay, by an assertion,
 * with slots that tnri_set_empty does not clear; random_against_a_model and
 * without_memory_it_stays_as_it_is where tnri_set_reserve puts places into the wrong slots.
 */
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "graph/set.h"

enum { MANY = 1000000, MODEL_MEMBERS = 3000, MODEL_STEPS = 20000 };

static void *member_at(size_t i, uint64_t stride)
{
    return (void *)(uintptr_t)(UINT64_C(0x7f0000000000) + i * stride);
}

static void add(tnri_set *set, void *member)
{
    assert_false(tnri_set_has(set, member));
    assert_true(tnri_set_reserve(set));
    tnri_set_add(set, member);
    assert_true(tnri_set_has(set, member));
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* A look passes at most the full slots from its first to the next empty one: from each slot, what
 * is left of its run. */
static void check_steps(const tnri_set *set)
{
    size_t slots = 2 * set->room, first = 0, full = 0, run = 0, steps = 0, longest = 0;
    assert_non_null(set->slots);
    while (set->slots[first] != 0)
        first++;
    for (size_t i = 1; i <= slots; i++) {
        if (set->slots[(first + i) % slots] != 0) {
            full++;
            run++;
            continue;
        }
        steps += run * (run + 1) / 2;
        longest = run > longest ? run : longest;
        run = 0;
    }
    assert_int_equal(full, set->count);
    assert_true(steps <= 2 * slots); /* two steps more than the first, on average */
    assert_true(longest <= 128);
}

static void looks_are_short(void **state)
{
    static const uint64_t strides[] = {8, 64, 216, 4096, UINT64_C(1) << 32};
    (void)state;
    for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++) {
        size_t count = s == 2 ? MANY : MANY / 10;
        tnri_set set = {0};
        for (size_t i = 0; i < count; i++) {
            add(&set, member_at(i, strides[s]));
            if (i == 99)
                check_steps(&set);
        }
        check_steps(&set);
        for (size_t i = 0; i < count; i++)
            assert_ptr_equal(set.members[i], member_at(i, strides[s]));
        assert_false(tnri_set_has(&set, member_at(count, strides[s])));
        /* As the head of set.h says. */
        assert_true(set.room * (sizeof(set.members[0]) + 2 * sizeof(set.slots[0])) <=
                    32 * set.count);
        tnri_set_free(&set);
    }
}

static void a_few_are_only_an_array(void **state)
{
    (void)state;
    tnri_set set = {0};
    assert_false(tnri_set_has(&set, &set));
    for (size_t i = 0; i < TNRI_SET_FEW; i++)
        add(&set, member_at(i, 64));
    assert_null(set.slots);
    assert_int_equal(set.room, TNRI_SET_FEW);
    tnri_set_free(&set);
    assert_null(set.members);
    assert_int_equal(set.room, 0);
}

/* ---- contents ------------------------------------------------------------------------------- */

static void random_against_a_model(void **state)
{
    (void)state;
    uint64_t seed = 16;
    static char is_in[MODEL_MEMBERS];
    static size_t order[MODEL_MEMBERS];
    size_t count = 0;
    tnri_set set = {0};
    memset(is_in, 0, sizeof(is_in));
    for (size_t step = 0; step < MODEL_STEPS; step++) {
        size_t i = (size_t)unit_below(&seed, MODEL_MEMBERS);
        assert_int_equal(tnri_set_has(&set, member_at(i, 216)), is_in[i]);
        if (is_in[i] || unit_below(&seed, 3) != 0)
            continue;
        add(&set, member_at(i, 216));
        is_in[i] = 1;
        order[count++] = i;
    }
    assert_int_equal(set.count, count);
    for (size_t i = 0; i < count; i++)
        assert_ptr_equal(set.members[i], member_at(order[i], 216));
    tnri_set_free(&set);
}

/* The walk that set.h allows after tnri_set_empty. */
static void some_stay(void **state)
{
    (void)state;
    for (size_t count = 5; count <= 500; count += 495) {
        tnri_set set = {0};
        for (size_t i = 0; i < count; i++)
            add(&set, member_at(i, 64));
        size_t room = set.room;
        tnri_set_empty(&set);
        assert_int_equal(set.count, 0);
        for (size_t i = 0; i < count; i++)
            if (i % 3 == 0)
                tnri_set_add(&set, set.members[i]);
        assert_int_equal(set.count, (count + 2) / 3);
        assert_int_equal(set.room, room);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(tnri_set_has(&set, member_at(i, 64)), i % 3 == 0);
        for (size_t i = 0; i < set.count; i++)
            assert_ptr_equal(set.members[i], member_at(3 * i, 64));
        tnri_set_free(&set);
    }
}

/* Each allocation of host memory in turn: nothing has changed, and the next try does it. */
static void without_memory_it_stays_as_it_is(void **state)
{
    (void)state;
    tnri_set set = {0};
    for (size_t i = 0; i < 100; i++) {
        for (uint64_t nth = 1; nth <= 2; nth++) {
            tnri_set before = set;
            (void)tnri_host_fail_at(nth, 0);
            int ok = tnri_set_reserve(&set);
            int has_failed = tnri_host_fail_at(0, 0) > 0;
            assert_int_equal(ok, !has_failed);
            if (!has_failed)
                continue;
            assert_memory_equal(&set, &before, sizeof(set));
            for (size_t k = 0; k < i; k++)
                assert_true(tnri_set_has(&set, member_at(k, 64)));
        }
        add(&set, member_at(i, 64));
    }
    tnri_set_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_are_short),
        cmocka_unit_test(a_few_are_only_an_array),
        cmocka_unit_test(random_against_a_model),
        cmocka_unit_test(some_stay),
        cmocka_unit_test(without_memory_it_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
