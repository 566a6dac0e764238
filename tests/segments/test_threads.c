/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foreign segments with many threads: on streams of their own, and two on one stream. The owner may
 * give what one thread freed to another at once, at the same address. One thread trims, one takes
 * pictures and looks for addresses that may just have gone.
 *
 * Line of the library changed to see it fail: addresses forgotten after owner_free in
 * tnri_segment_release.
 */
#include "owner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tenure/history.h>
#include <tenure/lifetime.h>

enum { THREADS = 4, HELD = 8 };

static tnr_pool pool;
static tnr_stream streams[THREADS];
static _Atomic int is_over;
static _Atomic uintptr_t latest; /* an address that a thread had */
static int rounds = 400;

static void *allocate(void *number)
{
    int at = (int)(intptr_t)number;
    tnr_stream own = streams[at % (THREADS - 1)], other = streams[(at + 1) % THREADS];
    void *held[HELD] = {0};
    uint64_t random = (uint64_t)at + 1;
    for (int i = 0; i < rounds; i++) {
        size_t place = unit_below(&random, HELD);
        assert_ok(tnr_free(held[place]));
        size_t bytes = 1 + unit_below(&random, i % 2 ? 20 * MIB : 300 * KIB);
        assert_ok(tnr_pool_malloc(&held[place], pool, bytes, 0, own));
        atomic_store(&latest, (uintptr_t)held[place] + bytes / 2);
        if (i % 7 == 0)
            assert_ok(tnr_record_use(held[place], other));
        if (i % 5 == 0)
            assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    }
    for (int i = 0; i < HELD; i++)
        assert_ok(tnr_free(held[i]));
    return NULL;
}

static void *look(void *unused)
{
    (void)unused;
    for (int i = 0; !atomic_load(&is_over); i++) {
        tnr_block_info info;
        tnr_status status = tnr_block_get(&info, (void *)atomic_load(&latest));
        assert_true(status == TNR_OK || status == TNR_ERR_NOT_LIVE ||
                    status == TNR_ERR_FOREIGN_POINTER);
        if (status == TNR_OK) {
            assert_non_null(info.segment);
            assert_true((char *)info.base >= (char *)info.segment &&
                        (char *)info.base + info.bytes <=
                            (char *)info.segment + info.segment_bytes);
        }
        if (i % 16 == 0)
            assert_ok(tnr_snapshot_write("/dev/null", TNR_SNAPSHOT_JSON));
        usleep(100);
    }
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    pthread_t workers[THREADS], looker;
    unit_start("lanes_max:4", NULL);
    pool = owner_pool();
    the_owner.lingers_us = 200;
    the_owner.caches = 1;
    atomic_store(&is_over, 0);
    for (int i = 0; i < THREADS; i++)
        streams[i] = unit_stream(0);
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, allocate, (void *)i), 0);
    assert_int_equal(pthread_create(&looker, NULL, look, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i], NULL), 0);
    atomic_store(&is_over, 1);
    assert_int_equal(pthread_join(looker, NULL), 0);
    (void)unit_stats();
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    assert_int_equal(the_owner.lives, 0);
    assert_true(the_owner.frees > 20);
    assert_ok(tnr_pool_destroy(pool));
}

#define CASE(test) cmocka_unit_test_teardown(test, owner_stop)

int main(int argc, char **argv)
{
    if (argc > 1)
        (void)!sscanf(argv[1], "%d", &rounds);
    const struct CMUnitTest tests[] = {
        CASE(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
