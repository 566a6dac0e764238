/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Audits while other threads allocate, free, trim, make and destroy pools. The audited graph does
 * not change, so every audit must say the same of it; under ThreadSanitizer, without a race.
 *
 *   test_audit_threads [ROUNDS]
 *
 * Seen to fail with these changes in audit.c: judge_end: a pool not dropped (its destruction waits
 * for ever); spot_look: without the arena's lock (a race), or with that of the arena that the map
 * leads to, whichever has the address by now (a race, in one run of 30), or without
 * tnri_device_look_begin (the map's tables freed meanwhile, as often); and in alloc/miss/stale.c,
 * stale_release_chunks: the pages' entries cleared there and not under the lock (a race).
 */
#include "audited.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { WORKERS = 2 };

static unsigned long rounds = 200;
static _Atomic int stopping;
static tnr_stream streams[WORKERS];
static _Atomic unsigned long made[WORKERS]; /* pools made and destroyed */

static void *work_failed(const char *call)
{
    print_error("%s: %s\n", call, tnr_last_error());
    atomic_store(&stopping, 1);
    return (void *)call;
}

/* Takes part in no capture. */
static void *work(void *of)
{
    size_t number = (size_t)(uintptr_t)of;
    uint64_t seed = number;
    for (; !atomic_load(&stopping); made[number]++) {
        void *blocks[8] = {NULL};
        tnr_pool pool = NULL;
        tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
        if (tnr_pool_create(&pool, 0, &options) != TNR_OK)
            return work_failed("tnr_pool_create");
        for (int i = 0; i < 8; i++) {
            size_t bytes = 1 + (size_t)unit_below(&seed, 4 * MIB);
            if (tnr_pool_malloc(&blocks[i], i < 4 ? pool : NULL, bytes, 0, streams[number]) !=
                TNR_OK)
                return work_failed("tnr_pool_malloc");
        }
        for (int i = 0; i < 8; i++)
            if (tnr_free(blocks[i]) != TNR_OK)
                return work_failed("tnr_free");
        if (tnr_pool_destroy(pool) != TNR_OK)
            return work_failed("tnr_pool_destroy");
        /* Takes the pages of blocks that are no more, of which one is audited. */
        if (number == 1 && tnr_trim(NULL, 0, 0) != TNR_OK)
            return work_failed("tnr_trim");
    }
    return NULL;
}

/* Goes on until the others have done something too. */
static void test_beside_others(void **state)
{
    (void)state;
    pthread_t threads[WORKERS];
    tnr_cuda_graph cuda_graph;
    audited_start(NULL, NULL);
    tnr_stream stream = unit_stream(0);
    for (int i = 0; i < WORKERS; i++)
        streams[i] = unit_stream(0);
    /* In the arenas that the others work in. */
    char *weights = unit_malloc(MIB, streams[0]), *gone = unit_malloc(MIB, streams[1]);
    assert_ok(tnr_free(gone)); /* now theirs */
    audited_begin(stream, NULL, NULL);
    char *scratch = unit_malloc(2 * MIB, stream);
    take_pointers(stream, scratch, weights);
    take_packed(stream, scratch + 512, weights + 512);
    take_pointers(stream, gone + 512, NULL);
    assert_ok(tnr_free(scratch));
    tnr_graph graph = audited_end(stream, &cuda_graph);
    audit(cuda_graph, graph);
    assert_int_equal(seen.sums.proved, 4);
    for (size_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i), 0);
    for (unsigned long done = 0; !atomic_load(&stopping); done++) {
        if (done >= rounds && made[0] >= rounds / 10 && made[1] >= rounds / 10)
            break;
        audit(cuda_graph, graph);
        assert_int_equal(seen.sums.found, 5);
        assert_int_equal(count_of(TNR_AUDIT_OWN), 2);
        assert_int_equal(count_of(TNR_AUDIT_KEPT), 2);
        assert_int_equal(finding_at(gone + 512)->is_safe, 0);
    }
    atomic_store(&stopping, 1);
    for (size_t i = 0; i < WORKERS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    audited_destroy(cuda_graph);
    assert_ok(tnr_free(weights));
    (void)unit_stats();
}

int main(int argc, char **argv)
{
    if (argc == 2)
        rounds = strtoul(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_beside_others, audited_stop)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
