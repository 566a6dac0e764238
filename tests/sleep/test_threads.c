/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate and free, in pools that sleep, wake and are compacted under them and in one
 * that is not touched.
 * Nothing is torn: an allocation gives memory or TNR_ERR_ASLEEP, every block is freed once, the
 * accounts hold, and contents of blocks that live through it all are there.
 *
 * Lines changed in the library to see it fail:
 *   tnri_pool_work_wait in set_sleep: chunks created or moved under a sleep (the accounts, or an
 *   assertion)
 *   tnri_pool_work_begin in ladder_ascend: the same
 *   tnri_staging_turn_begin in turn_begin: callbacks_take_turns
 *   set_sleep: the staging claimed before the pool's workers are waited for: a_graph_ends_meanwhile
 *   (it hangs)
 */
#include "sleep.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include <tenure/capture.h>
#include <tenure/compact.h>

enum { WORKERS = 3, SLOTS = 24 };

static _Atomic int is_over;
static _Atomic uint64_t asleep_count, served_count;
static tnr_pool sleepy, awake;
static int rounds = 200;

typedef struct worker {
    pthread_t thread;
    tnr_stream stream;
    uint64_t random;
    const char *broken; /* null: all well */
} worker;

/* Mostly cached sizes, sometimes ones that need chunks, moves or a commit. */
static void *work(void *data)
{
    worker *self = data;
    void *slots[SLOTS] = {0};
    while (!atomic_load(&is_over) && self->broken == NULL) {
        size_t at = unit_below(&self->random, SLOTS);
        if (slots[at] != NULL) {
            if (tnr_free(slots[at]) != TNR_OK)
                self->broken = "a free failed";
            slots[at] = NULL;
            continue;
        }
        tnr_pool pool = unit_below(&self->random, 2) == 0 ? sleepy : awake;
        size_t bytes =
            1 + unit_below(&self->random, unit_below(&self->random, 8) == 0 ? 6 * MIB : 16 * KIB);
        tnr_status status = tnr_pool_malloc(&slots[at], pool, bytes, 0, self->stream);
        if (status == TNR_OK)
            atomic_fetch_add(&served_count, 1);
        else if (status == TNR_ERR_ASLEEP && pool == sleepy)
            atomic_fetch_add(&asleep_count, 1);
        else if (status != TNR_ERR_OUT_OF_MEMORY)
            self->broken = tnr_status_name(status);
    }
    for (int i = 0; i < SLOTS; i++)
        if (tnr_free(slots[i]) != TNR_OK)
            self->broken = "a free at the end failed";
    return NULL;
}

static void pools_sleep_under_threads(void **state)
{
    (void)state;
    unit_start("chunk_whole_mb:4", "SCHEDULE=eager", "MEMORY=512M", NULL);
    sleep_context_enter();
    assert_ok(tnr_pool_create(&sleepy, 0, NULL));
    assert_ok(tnr_pool_create(&awake, 0, NULL));
    void *kept, *grows;
    assert_ok(tnr_pool_malloc(&kept, sleepy, 5 * MIB, 0, NULL));
    sleep_fill(kept, 5 * MIB, 42, NULL);
    assert_ok(tnr_pool_push(sleepy));
    assert_ok(tnr_reserve(&grows, 64 * MIB, 0, NULL));
    assert_ok(tnr_pool_pop(sleepy));
    worker workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.stream = unit_stream(0), .random = (uint64_t)i + 1};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    while (atomic_load(&served_count) == 0) /* on a busy machine they may come when all is over */
        sched_yield();
    for (int round = 0; round < rounds; round++) {
        assert_ok(tnr_pool_sleep(sleepy, 0, NULL));
        assert_ok(tnr_pool_wake(sleepy, 0));
        assert_ok(tnr_compact(NULL, sleepy, 0));
        assert_ok(tnr_commit(grows, (size_t)(1 + round % 60) * MIB));
        if (round % 10 == 0)
            assert_ok(tnr_trim(NULL, 0, 0));
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        if (workers[i].broken != NULL)
            fail_msg("thread %d: %s", i, workers[i].broken);
    }
    sleep_check(kept, 5 * MIB, 42);
    assert_ok(tnr_free(kept));
    assert_ok(tnr_free(grows));
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.bytes_live, 0);
    assert_int_equal(stats.bytes_asleep, 0);
    assert_int_equal(stats.sleeps, (uint64_t)rounds);
    assert_int_equal(stats.wakes, (uint64_t)rounds);
    assert_int_equal(sleep_device_bytes(), stats.reserved_bytes.current);
    print_message("%llu served, %llu asleep\n", (unsigned long long)served_count,
                  (unsigned long long)asleep_count);
    sleep_context_leave();
}

/* Two threads put the same device to sleep and wake it, over and over. */
static void *toggle(void *data)
{
    for (int i = 0; i < rounds; i++)
        if (tnr_device_sleep(0, NULL) != TNR_OK || tnr_device_wake(0) != TNR_OK)
            return NULL;
    return data;
}

static void sleeps_are_made_one_after_the_other(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    sleep_context_enter();
    void *kept = unit_malloc(3 * MIB, NULL);
    sleep_fill(kept, 3 * MIB, 6, NULL);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, toggle, &awake), 0);
    for (int i = 0; i < 2; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, &awake);
    }
    assert_ok(tnr_device_wake(0));
    sleep_check(kept, 3 * MIB, 6);
    tnr_stats stats = unit_stats();
    assert_int_equal(stats.sleeps, stats.wakes);
    sleep_context_leave();
}

/* What the callbacks of a pool were told last. */
static _Atomic int is_registered;
static _Atomic unsigned out_of_turn;

static void keep_registration(tnr_pool pool, int device, tnr_sleep_event event, uint64_t generation,
                              void *user)
{
    (void)pool;
    (void)device;
    (void)generation;
    (void)user;
    int is_registering = event != TNR_SLEEP_GOING;
    if (atomic_exchange(&is_registered, is_registering) == is_registering)
        atomic_fetch_add(&out_of_turn, 1);
    nanosleep(&(struct timespec){0, 50000}, NULL); /* another may begin, if anything lets it */
}

/* However many threads sleep and wake, each going is followed by one word of how it ended, and
 * nothing sleeps with what was registered since. */
static void callbacks_take_turns(void **state)
{
    (void)state;
    unit_start(NULL, "SCHEDULE=eager", NULL);
    (void)unit_malloc(3 * MIB, NULL);
    atomic_store(&is_registered, 1);
    assert_ok(tnr_sleep_callback_add(keep_registration, NULL));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, toggle, &awake), 0);
    for (int i = 0; i < 3; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, &awake);
    }
    assert_ok(tnr_device_wake(0));
    assert_ok(tnr_sleep_callback_remove(keep_registration, NULL));
    assert_int_equal(atomic_load(&out_of_turn), 0);
    assert_int_equal(atomic_load(&is_registered), 1);
}

/* A graph whose pool has slept, and that has just ended. */
static void graph_end(tnr_stream stream)
{
    void *ptr;
    tnr_cuda_graph cuda;
    tnr_graph number;
    tnr_graph_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_capture_begin(0, stream, NULL));
    assert_ok(tnr_malloc(&ptr, MIB, 0, stream));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_capture_end(&cuda, &number, 0, stream));
    assert_ok(tnr_graph_get(&info, number));
    assert_ok(tnr_pool_sleep(info.pool, 0, NULL));
    assert_ok(tnr_pool_wake(info.pool, 0));
    assert_int_equal(cuGraphDestroy(cuda), CUDA_SUCCESS);
    (void)simcuda_run(UINT64_MAX); /* the driver tells of its end */
}

static void *sleep_and_wake(void *data)
{
    const tnr_sleep_options options = {.struct_bytes = sizeof(options),
                                       .content = TNR_CONTENT_DISCARD};
    nanosleep(&(struct timespec){0, (long)unit_below(data, 300) * 1000}, NULL);
    if (tnr_pool_sleep(sleepy, 0, &options) != TNR_OK || tnr_pool_wake(sleepy, 0) != TNR_OK)
        return NULL;
    return data;
}

/* Whoever lacks memory in a pool ends what graphs have left, a pool that has slept among it, while
 * another thread waits for those at work in the first pool, to put that to sleep. */
static void a_graph_ends_meanwhile(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=eager", "MEMORY=256M", NULL);
    sleep_context_enter();
    uint64_t random = 1;
    tnr_stream stream = unit_stream(0);
    assert_ok(tnr_pool_create(&sleepy, 0, NULL));
    void *most, *none;
    assert_ok(tnr_pool_malloc(&most, sleepy, 160 * MIB, 0, stream));
    for (int round = 0; round < rounds; round++) {
        pthread_t thread;
        void *result;
        graph_end(stream);
        assert_int_equal(pthread_create(&thread, NULL, sleep_and_wake, &random), 0);
        tnr_status status = TNR_OK;
        while (status != TNR_ERR_OUT_OF_MEMORY) {
            status = tnr_pool_malloc(&none, sleepy, 128 * MIB, 0, stream);
            assert_true(status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_ASLEEP);
        }
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_non_null(result);
    }
    assert_ok(tnr_free(most));
    sleep_context_leave();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(pools_sleep_under_threads, unit_stop),
        cmocka_unit_test_teardown(sleeps_are_made_one_after_the_other, unit_stop),
        cmocka_unit_test_teardown(callbacks_take_turns, unit_stop),
        cmocka_unit_test_teardown(a_graph_ends_meanwhile, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
