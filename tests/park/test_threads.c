/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that park, unpark and free blocks of one pool, each on a stream of its own. So they take
 * chunks from each other's parked blocks and get them back. Meanwhile other requests are served,
 * memory is given back, and the pool sleeps. Nothing is torn: contents that were kept are there,
 * what is written after an unparking is there, and the accounts hold.
 *
 * Two moments are made by hand, since the threads hardly meet in them. Lines changed in the library
 * to see a test fail:
 *   tnri_parked_free without parked_is_busy: freed_while_its_memory_leaves
 *   tnri_unpark_end with `since` as it was: unparked_in_vain_while_memory_goes_back (unmapped under
 *   work)
 */
#include "../sleep/sleep.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/park.h>

#include "memory/device/event.h"
#include "miss/evicted.h"

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

/* ---- moments -------------------------------------------------------------------------------- */

/* A block that another thread frees when the next slot is about to be settled; null: none. */
static void *freed_then;
static _Atomic int freer_rests, is_freed;
static _Thread_local int is_freer;

void __real_tnri_rest(unsigned round);
void __wrap_tnri_rest(unsigned round);
void __real_tnri_evicted_settle(tnri_evicted *left);
void __wrap_tnri_evicted_settle(tnri_evicted *left);

void __wrap_tnri_rest(unsigned round)
{
    if (is_freer)
        atomic_fetch_add(&freer_rests, 1);
    __real_tnri_rest(round);
}

static void *free_it(void *block)
{
    is_freer = 1;
    tnr_status status = tnr_free(block);
    atomic_store(&is_freed, 1);
    return status == TNR_OK ? NULL : block;
}

static pthread_t freer;
static int is_early;

void __wrap_tnri_evicted_settle(tnri_evicted *left)
{
    void *block = freed_then;
    if (block != NULL) {
        freed_then = NULL;
        assert_int_equal(pthread_create(&freer, NULL, free_it, block), 0);
        while (atomic_load(&freer_rests) < 8 && !atomic_load(&is_freed))
            (void)sched_yield();
        is_early = atomic_load(&is_freed);
    }
    if (!is_early) /* else the slot is gone */
        __real_tnri_evicted_settle(left);
}

/* Who frees a block waits for the thread that takes a chunk from it. */
static void freed_while_its_memory_leaves(void **state)
{
    (void)state;
    void *wrong;
    unit_start("chunk_max_mb:4", "SCHEDULE=lazy", "RACES=1", NULL);
    sleep_context_enter();
    tnr_stream stream = unit_stream(0);
    void *a = unit_malloc(16 * MIB, stream);
    assert_ok(tnr_park(NULL, a, stream, TNR_CONTENT_DISCARD));
    freed_then = a;
    void *b = unit_malloc(16 * MIB, stream);
    assert_null(freed_then);
    assert_int_equal(pthread_join(freer, &wrong), 0);
    assert_null(wrong);
    int was_early = is_early;
    is_early = 0;
    assert_false(was_early);
    sleep_fill(b, 16 * MIB, 1, stream);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    sleep_check(b, 16 * MIB, 1);
    assert_int_equal(unit_stats().bytes_parked, 0);
    assert_ok(tnr_free(b));
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* What happens when the next event was waited for. */
static void (*waited_then)(void);

tnr_status __real_tnri_event_wait(tnri_event *event);
tnr_status __wrap_tnri_event_wait(tnri_event *event);

tnr_status __wrap_tnri_event_wait(tnri_event *event)
{
    tnr_status status = __real_tnri_event_wait(event);
    void (*then)(void) = waited_then;
    if (then != NULL) {
        waited_then = NULL;
        then();
    }
    return status;
}

static void *parked_one, *other_one;
static tnr_stream parked_on, other_on;

/* Memory comes back to the parked block from another one, with its work, then the unpark fails. */
static void unpark_in_vain(void)
{
    sleep_fill(other_one, 8 * MIB, 2, other_on);
    assert_ok(tnr_park(NULL, other_one, other_on, TNR_CONTENT_DISCARD));
    simcuda_fail("cuMemUnmap", 1, 0, CUDA_ERROR_UNKNOWN);
    assert_error(tnr_unpark(parked_one, parked_on), TNR_ERR_DRIVER, NULL);
    simcuda_fail_clear();
    assert_int_equal(unit_stats().bytes_parked_away, 12 * MIB);
    assert_true(simcuda_pending() > 0);
}

/* The proof that a block's memory is idle does not hold for what has come back since. */
static void unparked_in_vain_while_memory_goes_back(void **state)
{
    (void)state;
    unit_start("chunk_max_mb:4", "SCHEDULE=lazy", "RACES=1", NULL);
    sleep_context_enter();
    parked_on = unit_stream(0);
    other_on = unit_stream(0);
    parked_one = unit_malloc(16 * MIB, parked_on);
    sleep_fill(parked_one, 16 * MIB, 1, parked_on);
    assert_ok(tnr_park(NULL, parked_one, parked_on, TNR_CONTENT_DISCARD));
    other_one = unit_malloc(8 * MIB, other_on);
    void *stays = unit_malloc(4 * MIB, other_on);
    assert_int_equal(unit_stats().bytes_parked_away, 12 * MIB);
    waited_then = unpark_in_vain;
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_null(waited_then);
    assert_int_equal(simcuda_races(), 0);
    assert_ok(tnr_free(stays));
    assert_ok(tnr_free(parked_one));
    assert_ok(tnr_free(other_one));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(sleep_device_bytes(), 0);
    assert_int_equal(simcuda_races(), 0);
    sleep_context_leave();
}

/* Arguments: the rounds of each thread. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(threads, unit_stop),
        cmocka_unit_test_teardown(freed_while_its_memory_leaves, unit_stop),
        cmocka_unit_test_teardown(unparked_in_vain_while_memory_goes_back, unit_stop),
    };
    if (argc > 1)
        rounds = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
