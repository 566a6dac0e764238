/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that park, unpark and free blocks of one pool, each on a stream of its own. So they take
 * chunks from each other's parked blocks and get them back. Meanwhile other requests are served,
 * memory is given back, and the pool sleeps. Nothing is torn: contents that were kept are there,
 * what is written after an unparking is there, and the accounts hold.
 */
#include "../sleep/sleep.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/park.h>

enum { WORKERS = 4, SLOTS = 3 };

static _Atomic int is_over;
static _Atomic uint64_t parks_count;
static CUcontext context;
/* Held to read by who works on memory, which a sleeping pool has not; to write by who sleeps. */
static pthread_rwlock_t awake = PTHREAD_RWLOCK_INITIALIZER;
static int rounds = 100;

typedef struct slot {
    unsigned char *ptr; /* null: none */
    size_t bytes;
    uint32_t seed; /* 0: nothing is known of its contents */
    int is_parked;
} slot;

typedef struct worker {
    pthread_t thread;
    tnr_stream stream;
    uint64_t random;
    const char *broken; /* null: all well */
    slot slots[SLOTS];
} worker;

/* What may happen to any call here. */
static int is_harmless(tnr_status status)
{
    return status == TNR_OK || status == TNR_ERR_ASLEEP || status == TNR_ERR_OUT_OF_MEMORY;
}

static void fill(worker *self, slot *block)
{
    block->seed = (uint32_t)unit_below(&self->random, 1000) + 1;
    (void)pthread_rwlock_rdlock(&awake);
    if (cuMemsetD32Async((CUdeviceptr)(uintptr_t)block->ptr, block->seed, block->bytes / 4,
                         self->stream) != CUDA_SUCCESS)
        self->broken = "a write failed";
    (void)pthread_rwlock_unlock(&awake);
}

/* Only the ends: every byte is another test's business. */
static void check(worker *self, const slot *block)
{
    uint32_t first, last;
    if (block->seed == 0)
        return;
    (void)pthread_rwlock_rdlock(&awake);
    if (cuStreamSynchronize(self->stream) != CUDA_SUCCESS)
        self->broken = "a wait failed";
    memcpy(&first, block->ptr, sizeof(first));
    memcpy(&last, block->ptr + block->bytes - 4, sizeof(last));
    (void)pthread_rwlock_unlock(&awake);
    if (first != block->seed || last != block->seed)
        self->broken = "contents are lost";
}

static void unpark(worker *self, slot *block)
{
    tnr_status status = tnr_unpark(block->ptr, self->stream);
    if (status == TNR_OK) {
        block->is_parked = 0;
        check(self, block);
        fill(self, block);
    } else if (!is_harmless(status)) {
        self->broken = tnr_last_error();
    }
}

static void park(worker *self, slot *block)
{
    int keeps = unit_below(&self->random, 4) == 0;
    tnr_status status =
        tnr_park(NULL, block->ptr, self->stream, keeps ? TNR_CONTENT_KEEP : TNR_CONTENT_DISCARD);
    if (status == TNR_OK) {
        block->is_parked = 1;
        block->seed = keeps ? block->seed : 0;
        atomic_fetch_add(&parks_count, 1);
    } else if (!is_harmless(status)) {
        self->broken = tnr_last_error();
    }
}

static void *work(void *data)
{
    worker *self = data;
    if (cuCtxSetCurrent(context) != CUDA_SUCCESS)
        self->broken = "there is no context";
    for (int i = 0; i < rounds && self->broken == NULL; i++) {
        slot *block = &self->slots[unit_below(&self->random, SLOTS)];
        if (block->ptr == NULL) {
            void *ptr = NULL;
            block->bytes = (2 + unit_below(&self->random, 4)) * MIB;
            tnr_status status = tnr_malloc(&ptr, block->bytes, 0, self->stream);
            *block = (slot){ptr, block->bytes, 0, 0};
            if (status == TNR_OK)
                fill(self, block);
            else if (!is_harmless(status))
                self->broken = tnr_last_error();
        } else if (unit_below(&self->random, 8) == 0) {
            if (tnr_free(block->ptr) != TNR_OK)
                self->broken = "a free failed";
            block->ptr = NULL;
        } else if (block->is_parked) {
            unpark(self, block);
        } else {
            park(self, block);
        }
    }
    return NULL;
}

/* Gives memory back, and puts the pool to sleep now and then. */
static void *disturb(void *data)
{
    const char **broken = data;
    for (int i = 0; !atomic_load(&is_over) && *broken == NULL; i++) {
        tnr_stats stats = {.struct_bytes = sizeof(stats)};
        if (tnr_trim(NULL, 0, 0) != TNR_OK || tnr_stats_get(&stats, NULL, 0) != TNR_OK)
            *broken = "a trim failed";
        if (i % 8 == 7) {
            (void)pthread_rwlock_wrlock(&awake);
            if (tnr_pool_sleep(NULL, 0, NULL) != TNR_OK || tnr_pool_wake(NULL, 0) != TNR_OK)
                *broken = "a sleep failed";
            (void)pthread_rwlock_unlock(&awake);
        }
        (void)sched_yield();
    }
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    worker workers[WORKERS] = {{0}};
    const char *disturbed = NULL;
    pthread_t disturber;
    unit_start("chunk_max_mb:2", "SCHEDULE=threads", "MEMORY=64M", NULL);
    sleep_context_enter();
    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].stream = unit_stream(0);
        workers[i].random = (uint64_t)i + 1;
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    assert_int_equal(pthread_create(&disturber, NULL, disturb, &disturbed), 0);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    atomic_store(&is_over, 1);
    assert_int_equal(pthread_join(disturber, NULL), 0);
    for (int i = 0; i < WORKERS; i++)
        if (workers[i].broken != NULL)
            fail_msg("worker %d: %s", i, workers[i].broken);
    if (disturbed != NULL)
        fail_msg("%s", disturbed);
    assert_true(atomic_load(&parks_count) > 0);
    (void)unit_stats();
    for (int i = 0; i < WORKERS; i++)
        for (int s = 0; s < SLOTS; s++)
            if (workers[i].slots[s].ptr != NULL)
                assert_ok(tnr_free(workers[i].slots[s].ptr));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().bytes_parked, 0);
    sleep_context_leave();
}

/* Arguments: the rounds of each thread. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(threads, unit_stop),
    };
    if (argc > 1)
        rounds = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
