/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings that a follower is told of: the reports add up to what is mapped, and those of each
 * address come in a possible order.
 *
 * Lines changed in the library to see it fail:
 *   tnri_pool_note_mapping in stale_finish, or in sources_note, left out: all
 *   tnri_is_following left out where execute.c asks: all but the first
 *   memmove in tnri_mapping_add left out: what_waits_is_bounded
 */
#include "unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/history.h>

#include "base/host_memory.h"
#include "log/mappings.h"

enum { GRANULE = 2 << 20, GRANULES_MAX = 1 << 14 };

/* What is mapped, by what was told: each granule. Of whoever takes. */
static struct {
    uintptr_t granules[GRANULES_MAX];
    size_t count;
    size_t wrong; /* mapped twice, or unmapped and not there */
} told;

static size_t told_bytes(void)
{
    return told.count * GRANULE;
}

static void told_start(void)
{
    memset(&told, 0, sizeof(told));
    tnr_mappings_follow(1);
}

static void granule_enter(uintptr_t granule, int is_mapped)
{
    size_t at = 0;
    while (at < told.count && told.granules[at] != granule)
        at++;
    if (is_mapped != (at == told.count) || told.count == GRANULES_MAX)
        told.wrong++;
    else if (is_mapped)
        told.granules[told.count++] = granule;
    else
        told.granules[at] = told.granules[--told.count];
}

static void told_enter(const tnr_mapping *one)
{
    told.wrong += one->device != 0 || one->bytes == 0 || one->bytes % GRANULE != 0;
    for (size_t done = 0; done < one->bytes; done += GRANULE)
        granule_enter(one->base + done, one->is_mapped);
}

static size_t told_take(void)
{
    tnr_mapping some[7];
    uint64_t lost;
    size_t count, all = 0;
    while ((count = tnr_mappings_take(some, &lost, 7)) > 0) {
        told.wrong += lost;
        for (size_t i = 0; i < count; i++)
            told_enter(&some[i]);
        all += count;
    }
    return all;
}

static void nobody_follows(void **state)
{
    (void)state;
    tnr_mapping one;
    uint64_t lost = 7;
    unit_start(NULL, NULL);
    assert_ok(tnr_free(unit_malloc(30 * MIB, NULL)));
    assert_int_equal(tnr_mappings_take(&one, &lost, 1), 0);
    assert_int_equal(lost, 0);
    tnr_mappings_follow(1);
    tnr_mappings_follow(0);
    assert_ok(tnr_free(unit_malloc(60 * MIB, NULL)));
    assert_int_equal(tnr_mappings_take(NULL, NULL, 0), 0);
}

static void what_comes_and_goes(void **state)
{
    (void)state;
    tnr_mapping one;
    uint64_t lost;
    unit_start(NULL, NULL);
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    tnr_pool pool;
    void *ptr;
    tnr_stream stream = unit_stream(0);
    assert_ok(tnr_pool_create(&pool, 0, &options));
    told_start();
    assert_ok(tnr_pool_malloc(&ptr, pool, 20 * MIB, 0, stream));
    assert_true(tnr_mappings_take(NULL, NULL, 0) > 0);
    assert_int_equal(tnr_mappings_take(&one, &lost, 1), 1);
    assert_int_equal(one.is_mapped, 1);
    assert_ptr_equal(one.pool, pool);
    assert_ptr_equal(one.stream, stream);
    told_enter(&one);
    (void)told_take();
    assert_int_equal(told_bytes(), unit_stats().reserved_bytes.current);
    void *small = unit_malloc(100, NULL);
    assert_int_equal(tnr_mappings_take(&one, &lost, 1), 1);
    assert_null(one.pool);
    assert_null(one.stream);
    told_enter(&one);
    assert_ok(tnr_free(unit_malloc(100, NULL))); /* nothing is mapped for it */
    assert_int_equal(told_take(), 0);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_free(small));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_true(told_take() > 0);
    assert_int_equal(told_bytes(), 0);
    assert_int_equal(told.wrong, 0);
    assert_ok(tnr_pool_destroy(pool));
}

/* Blocks of many sizes on few streams: chunks move, and old mappings go later. */
static void chunks_that_move(void **state)
{
    (void)state;
    enum { BLOCKS = 40, STEPS = 3000 };
    void *blocks[BLOCKS] = {NULL};
    unit_start(NULL, "MEMORY=1G", NULL);
    tnr_stream streams[3] = {unit_stream(0), unit_stream(0), unit_stream(0)};
    unsigned seed = 1;
    told_start();
    for (int i = 0; i < STEPS; i++) {
        seed = seed * 1103515245u + 12345u;
        void **block = &blocks[(seed >> 16) % BLOCKS];
        if (*block != NULL)
            assert_ok(tnr_free(*block));
        size_t bytes = (size_t)1 << (10 + (seed >> 8) % 15);
        *block = unit_malloc(bytes + bytes / 3, streams[seed % 3]);
        (void)told_take();
        assert_int_equal(told.wrong, 0);
        assert_true(told_bytes() >= unit_stats().reserved_bytes.current);
    }
    assert_true(unit_stats().chunks_moved > 0);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_trim(NULL, 0, 0));
    (void)told_take();
    assert_int_equal(told_bytes(), 0);
    assert_int_equal(told.wrong, 0);
}

static void what_waits_is_bounded(void **state)
{
    (void)state;
    enum { WAIT_MAX = 1 << 16 };
    tnr_mapping one = {.bytes = GRANULE}, some[3];
    uint64_t lost;
    unit_start(NULL, NULL);
    tnr_mappings_follow(1);
    for (size_t i = 0; i < WAIT_MAX; i++, one.base++)
        tnri_mapping_add(&one);
    assert_int_equal(tnr_mappings_take(some, &lost, 3), 3);
    assert_int_equal(lost, 0);
    for (size_t i = 0; i < 10; i++, one.base++)
        tnri_mapping_add(&one);
    assert_int_equal(tnr_mappings_take(NULL, NULL, 0), WAIT_MAX);
    for (uintptr_t at = 3; tnr_mappings_take(some, &lost, 1) == 1; at++) {
        assert_int_equal(lost, at == 3 ? 7 : 0);
        assert_int_equal(some[0].base, at);
    }
    tnr_mappings_follow(1); /* again: nothing changes */
    assert_int_equal(tnr_mappings_take(NULL, NULL, 0), 0);
}

static void no_host_memory_is_counted(void **state)
{
    (void)state;
    tnr_mapping one = {.bytes = GRANULE};
    uint64_t lost;
    unit_start(NULL, NULL);
    tnr_mappings_follow(1);
    tnri_host_fail_at(1, 1);
    tnri_mapping_add(&one);
    (void)tnri_host_fail_at(0, 0);
    tnri_mapping_add(&one);
    assert_int_equal(tnr_mappings_take(&one, &lost, 1), 1);
    assert_int_equal(lost, 1);
}

/* ---- threads -------------------------------------------------------------------------------- */

static _Atomic int is_over;

static void *map_and_unmap(void *given)
{
    tnr_stream stream = given;
    uintptr_t wrong = 0;
    for (int i = 0; i < 150; i++) {
        void *ptr;
        if (tnr_malloc(&ptr, (size_t)(4 + i % 5) * MIB, 0, stream) != TNR_OK) {
            wrong++;
            continue;
        }
        wrong += tnr_free(ptr) != TNR_OK;
        if (i % 3 == 0)
            wrong += tnr_trim(NULL, 0, 0) != TNR_OK;
    }
    return (void *)wrong;
}

static void *take_all(void *nothing)
{
    while (!atomic_load(&is_over))
        (void)told_take();
    return nothing;
}

static void threads_map_and_unmap(void **state)
{
    (void)state;
    enum { MAPPERS = 4 };
    pthread_t mappers[MAPPERS], taker;
    unit_start(NULL, NULL);
    told_start();
    atomic_store(&is_over, 0);
    assert_int_equal(pthread_create(&taker, NULL, take_all, NULL), 0);
    tnr_stream streams[2] = {unit_stream(0), unit_stream(0)};
    for (int i = 0; i < MAPPERS; i++)
        assert_int_equal(pthread_create(&mappers[i], NULL, map_and_unmap, streams[i % 2]), 0);
    for (int i = 0; i < MAPPERS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(mappers[i], &wrong), 0);
        assert_null(wrong);
    }
    atomic_store(&is_over, 1);
    assert_int_equal(pthread_join(taker, NULL), 0);
    assert_ok(tnr_trim(NULL, 0, 0));
    (void)told_take();
    assert_int_equal(told_bytes(), 0);
    assert_int_equal(told.wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nobody_follows, unit_stop),
        cmocka_unit_test_teardown(what_comes_and_goes, unit_stop),
        cmocka_unit_test_teardown(chunks_that_move, unit_stop),
        cmocka_unit_test_teardown(what_waits_is_bounded, unit_stop),
        cmocka_unit_test_teardown(no_host_memory_is_counted, unit_stop),
        cmocka_unit_test_teardown(threads_map_and_unmap, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
