/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads in regions of their own and of each other's, while tags sleep, wake, are limited and
 * trimmed. Every block carries the tag of the region that it comes from, or is refused because that
 * tag sleeps or is full. Nothing is torn.
 */
#include "sleep/sleep.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/tag.h>

enum { WORKERS = 3, SLOTS = 16, TAGS = 2 };

static const char *const tags[TAGS] = {"weights", "kv_cache"};
static _Atomic int is_over;
static int rounds = 100;

typedef struct worker {
    pthread_t thread;
    tnr_stream stream;
    uint64_t random;
    _Atomic int served, is_running;
    const char *broken; /* null: all well */
} worker;

static int is_refusal(tnr_status status)
{
    return status == TNR_ERR_ASLEEP || status == TNR_ERR_LIMIT || status == TNR_ERR_OUT_OF_MEMORY;
}

/* One allocation in a region. */
static void step(worker *self, void **slot)
{
    tnr_pool pool;
    size_t which = unit_below(&self->random, TAGS);
    size_t bytes = 1 + unit_below(&self->random, 4 * MIB);
    if (tnr_tag_pool(&pool, tags[which], TNR_CONTENT_DEFAULT) != TNR_OK ||
        tnr_pool_push(pool) != TNR_OK) {
        self->broken = "no region";
        return;
    }
    const char *tag = NULL;
    tnr_status status = tnr_malloc(slot, bytes, 0, self->stream);
    if (tnr_pool_pop(pool) != TNR_OK)
        self->broken = "the region does not end";
    else if (status != TNR_OK && !is_refusal(status))
        self->broken = tnr_status_name(status);
    else if (status == TNR_OK &&
             (tnr_tag_of(&tag, *slot) != TNR_OK || tag == NULL || strcmp(tag, tags[which]) != 0))
        self->broken = "another tag";
    atomic_fetch_add(&self->served, status == TNR_OK);
}

static void *work(void *data)
{
    worker *self = data;
    void *slots[SLOTS] = {0};
    while (!atomic_load(&is_over) && self->broken == NULL) {
        size_t at = unit_below(&self->random, SLOTS);
        if (slots[at] == NULL) {
            step(self, &slots[at]);
        } else {
            if (tnr_free(slots[at]) != TNR_OK)
                self->broken = "a free failed";
            slots[at] = NULL;
        }
    }
    for (int i = 0; i < SLOTS; i++)
        if (tnr_free(slots[i]) != TNR_OK)
            self->broken = "a free at the end failed";
    atomic_store(&self->is_running, 0);
    return NULL;
}

static void round_make(int round)
{
    const char *one = tags[round % TAGS];
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_ok(tnr_tags_sleep(&one, 1, 0, NULL));
    assert_ok(tnr_tag_stats_get(&stats, one, 0));
    assert_int_equal(stats.reserved_bytes.current, 0);
    assert_ok(tnr_tags_sleep(NULL, 0, 0, NULL));
    assert_ok(tnr_tags_wake(tags, TAGS, 0));
    assert_ok(tnr_tag_limit_set(one, (size_t)(1 + round % 20) * MIB, 0));
    assert_ok(tnr_tag_trim(NULL, one, 0, 0));
    assert_ok(tnr_tag_limit_set(one, SIZE_MAX, 0));
}

/* 1 if every thread had as many blocks as there are rounds, or is broken. */
static int have_served(worker *workers)
{
    for (int i = 0; i < WORKERS; i++)
        if (atomic_load(&workers[i].served) < rounds && workers[i].is_running)
            return 0;
    return 1;
}

static void regions_under_threads(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:2", "SCHEDULE=eager", "MEMORY=512M", NULL);
    sleep_context_enter();
    tnr_pool pool;
    for (int t = 0; t < TAGS; t++) { /* a pool that is not there yet cannot sleep */
        void *first;
        assert_ok(tnr_tag_pool(&pool, tags[t], TNR_CONTENT_DEFAULT));
        assert_ok(tnr_pool_push(pool));
        assert_ok(tnr_malloc(&first, 1, 0, NULL));
        assert_ok(tnr_free(first));
        assert_ok(tnr_pool_pop(pool));
    }
    static worker workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i].stream = unit_stream(0);
        workers[i].random = (uint64_t)i + 1;
        atomic_store(&workers[i].is_running, 1);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int round = 0; round < rounds || !have_served(workers); round++)
        round_make(round);
    atomic_store(&is_over, 1);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        if (workers[i].broken != NULL)
            fail_msg("thread %d: %s", i, workers[i].broken);
    }
    for (int t = 0; t < TAGS; t++) {
        tnr_stats stats = {.struct_bytes = sizeof(stats)};
        assert_ok(tnr_tag_stats_get(&stats, tags[t], 0));
        assert_int_equal(stats.bytes_live, 0);
        assert_int_equal(stats.pools, 1);
        assert_ok(tnr_tag_trim(NULL, tags[t], 0, 0));
    }
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    sleep_context_leave();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(regions_under_threads, unit_stop),
    };
    if (argc > 1)
        rounds = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
