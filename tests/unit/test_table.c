/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash tables that grow a slot at a time, against an array that knows what is in. Also the one
 * purpose of these tables: a look at a million records takes as few steps as a look at a hundred.
 * Steps are counted, not time.
 *
 * With table_grow left away: a_million_links_lie_in_short_slots failed. With keys unmixed: the same
 * for keys that differ in high bits alone. Without table_shrink: memory_comes_back failed. With
 * `slot_of(...) != slot` turned round in table_grow: random_against_a_model failed.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "base/table.h"

enum { MANY = 1000000, MODEL_KEYS = 3000, MODEL_STEPS = 60000 };

static size_t table_slots(const tnri_table *table)
{
    return TNRI_TABLE_FIRST + table->grown;
}

static tnri_link *links_make(size_t count, uint64_t stride)
{
    tnri_link *links = calloc(count, sizeof(*links));
    assert_non_null(links);
    for (size_t i = 0; i < count; i++)
        links[i].key = UINT64_C(0x7f0000000000) + i * stride;
    return links;
}

static int wants_all(const tnri_link *link, void *user)
{
    (void)link;
    (void)user;
    return 1;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Behind a link are those that a look at another of its slot may have to pass. */
static void check_slots(const tnri_link *links, size_t count)
{
    size_t behind = 0, longest = 0;
    for (size_t i = 0; i < count; i++) {
        size_t here = 0;
        for (const tnri_link *link = links[i].next; link != NULL; link = link->next)
            here++;
        behind += here;
        longest = here > longest ? here : longest;
    }
    assert_true(behind <= count); /* a step more than the first for each look, on average */
    assert_true(longest <= 16);
}

static void a_million_links_lie_in_short_slots(void **state)
{
    static const uint64_t strides[] = {1, 16, 512, 4096, UINT64_C(1) << 33};
    (void)state;
    for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++) {
        size_t count = s == 0 ? MANY : MANY / 10;
        tnri_link *links = links_make(count, strides[s]);
        tnri_table table = {0};
        for (size_t i = 0; i < count; i++) {
            size_t before = table_slots(&table);
            tnri_table_add(&table, &links[i]);
            assert_true(table_slots(&table) <= before + 1); /* no call does the work of many */
            if (i == 99)
                check_slots(links, 100);
        }
        check_slots(links, count);
        for (size_t i = 0; i < count; i += 97)
            assert_ptr_equal(*tnri_table_at(&table, links[i].key), &links[i]);
        (void)tnri_table_take(&table, wants_all, NULL);
        free(links);
    }
}

/* ---- contents ------------------------------------------------------------------------------- */

static int is_even(const tnri_link *link, void *user)
{
    (void)user;
    return link->key % 2 == 0;
}

/* Takes out the even ones, which must be those that the model says are in. */
static void model_take(tnri_table *table, const tnri_link *links, char *is_in)
{
    for (tnri_link *taken = tnri_table_take(table, is_even, NULL); taken != NULL;
         taken = taken->next) {
        assert_int_equal(taken->key % 2, 0);
        assert_int_equal(is_in[taken - links], 1);
        is_in[taken - links] = 0;
    }
    for (size_t i = 0; i < MODEL_KEYS; i++)
        assert_true(!is_in[i] || links[i].key % 2 != 0);
}

static void random_against_a_model(void **state)
{
    (void)state;
    uint64_t seed = 16;
    tnri_link *links = links_make(MODEL_KEYS, 3);
    tnri_table table = {0};
    static char is_in[MODEL_KEYS];
    memset(is_in, 0, sizeof(is_in));
    for (size_t step = 0; step < MODEL_STEPS; step++) {
        /* Tides: more come than go, then more go than come. */
        int is_flood = step / 9000 % 2 == 0;
        size_t i = (size_t)unit_below(&seed, MODEL_KEYS);
        tnri_link **at = tnri_table_at(&table, links[i].key);
        assert_ptr_equal(*at, is_in[i] ? &links[i] : NULL);
        if (!is_in[i] && (is_flood || unit_below(&seed, 8) == 0)) {
            tnri_table_add(&table, &links[i]);
            is_in[i] = 1;
        } else if (is_in[i] && (!is_flood || unit_below(&seed, 8) == 0)) {
            tnri_table_remove(&table, at);
            is_in[i] = 0;
        }
        if (step % 13000 == 12999)
            model_take(&table, links, is_in);
    }
    size_t count = 0;
    for (size_t i = 0; i < MODEL_KEYS; i++) {
        count += (size_t)is_in[i];
        assert_ptr_equal(*tnri_table_at(&table, links[i].key), is_in[i] ? &links[i] : NULL);
    }
    assert_int_equal(table.count, count);
    (void)tnri_table_take(&table, wants_all, NULL);
    free(links);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void check_empty(const tnri_table *table)
{
    assert_int_equal(table->count, 0);
    assert_int_equal(table->grown, 0);
    for (size_t i = 0; i < TNRI_TABLE_SEGMENTS; i++)
        assert_null(table->segments[i]);
}

static void memory_comes_back(void **state)
{
    (void)state;
    tnri_link *links = links_make(MANY / 10, 1);
    tnri_table table = {0};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < MANY / 10; i++)
            tnri_table_add(&table, &links[i]);
        assert_true(table.grown > 0);
        for (size_t i = 0; round == 0 && i < MANY / 10; i++)
            tnri_table_remove(&table, tnri_table_at(&table, links[i].key));
        if (round == 1)
            (void)tnri_table_take(&table, wants_all, NULL);
        check_empty(&table);
    }
    free(links);
}

static void without_memory_slots_get_longer(void **state)
{
    (void)state;
    tnri_link *links = links_make(1000, 1);
    tnri_table table = {0};
    (void)tnri_host_fail_at(1, 1);
    for (size_t i = 0; i < 1000; i++)
        tnri_table_add(&table, &links[i]);
    assert_true(tnri_host_fail_at(0, 0) > 0);
    assert_int_equal(table.grown, 0);
    for (size_t i = 0; i < 1000; i++)
        assert_ptr_equal(*tnri_table_at(&table, links[i].key), &links[i]);
    for (size_t i = 0; i < 1000; i++)
        tnri_table_remove(&table, tnri_table_at(&table, links[i].key));
    check_empty(&table);
    free(links);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_links_lie_in_short_slots),
        cmocka_unit_test(random_against_a_model),
        cmocka_unit_test(memory_comes_back),
        cmocka_unit_test(without_memory_slots_get_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
