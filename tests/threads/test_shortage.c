/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that between them never want more than the device has. None may be refused, whatever the
 * others take, move and give back at that moment: trims while others allocate (as an empty_cache()
 * in another thread), two streams whose memory goes from one to the other, limits in place of the
 * device.
 *
 * Without ladder_climb_alone in ladder_ascend, a_limit fails in some runs. tests/export/
 * test_meanwhile.c stops a thread with memory in hand, and fails without it in all.
 *
 * A trim that waits for work has nothing in hand meanwhile: whoever waits for it to be alone would
 * wait for that work too, and with it all others that want memory, of whom the work may wait for
 * one. With tnri_event_wait called between tnri_handling_enter and tnri_handling_leave in
 * tnri_stale_drain, work_is_waited_for_with_nothing_in_hand fails; called in unpark_steps,
 * an_unpark_waits_with_nothing_in_hand.
 */
#include "unit/unit.h"

#include <cuda.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <tenure/park.h>
#include <tenure/tenure.h>

#include "memory/device/device.h"

/* Waits of this program for work, and those with memory in hand. */
static atomic_int waits, waits_in_hand;

tnr_status __real_tnri_event_wait(tnri_event *event);
tnr_status __wrap_tnri_event_wait(tnri_event *event);
tnr_status __wrap_tnri_event_wait(tnri_event *event)
{
    waits++;
    if ((uint32_t)atomic_load(&tnri_device_at(0)->handling.inside) != 0)
        waits_in_hand++;
    return __real_tnri_event_wait(event);
}

/* Blocks of one size, so that no part of a chunk is of use to nobody. */
enum { THREADS_MAX = 4, BLOCK_MIB = 20, LIVE = 2 };
#define ROOM "MEMORY=44M" /* for LIVE blocks and the page that a request may want beside its own */

typedef struct worker {
    pthread_t thread;
    tnr_stream stream;
    int trims; /* 1: and allocates nothing */
} worker;

static worker workers[THREADS_MAX];
static unsigned rounds;
static atomic_int refused, running;

/* Blocks that may still be live. */
static atomic_int left;

static void left_take(void)
{
    int now = atomic_load(&left);
    while (now == 0 || !atomic_compare_exchange_weak(&left, &now, now - 1)) {
        (void)sched_yield();
        now = atomic_load(&left);
    }
}

static void *works(void *of)
{
    const worker *self = of;
    for (unsigned i = 0; !self->trims && i < rounds; i++) {
        void *ptr = NULL;
        left_take();
        if (tnr_malloc(&ptr, BLOCK_MIB * MIB, 0, self->stream) != TNR_OK)
            atomic_fetch_add(&refused, 1);
        (void)sched_yield();
        if (ptr != NULL && tnr_free(ptr) != TNR_OK)
            atomic_fetch_add(&refused, 1);
        atomic_fetch_add(&left, 1);
    }
    if (!self->trims)
        atomic_fetch_sub(&running, 1);
    while (self->trims && atomic_load(&running) > 0)
        if (tnr_trim(NULL, 0, 0) != TNR_OK)
            atomic_fetch_add(&refused, 1);
    return NULL;
}

/* Has some threads allocate, each for its own stream, and some trim. No call may be refused. */
static void work(int allocating, int trimming)
{
    atomic_store(&refused, 0);
    atomic_store(&running, allocating);
    atomic_store(&left, LIVE);
    for (int i = 0; i < allocating + trimming; i++) {
        workers[i].trims = i >= allocating;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, works, &workers[i]), 0);
    }
    for (int i = 0; i < allocating + trimming; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    assert_int_equal(atomic_load(&refused), 0);
    assert_ok(tnr_validate(0));
}

static CUcontext context;

static void start(const char *conf, const char *memory)
{
    unit_start(conf, memory, NULL);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    for (int i = 0; i < THREADS_MAX; i++)
        assert_int_equal(cuStreamCreate((CUstream *)&workers[i].stream, CU_STREAM_NON_BLOCKING),
                         CUDA_SUCCESS);
}

static int stop(void **state)
{
    for (int i = 0; i < THREADS_MAX; i++) {
        assert_ok(tnr_stream_destroying(0, workers[i].stream));
        assert_int_equal(cuStreamDestroy(workers[i].stream), CUDA_SUCCESS);
    }
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    return unit_stop(state);
}

static void one_trims(void **state)
{
    (void)state;
    start(NULL, ROOM);
    work(1, 1);
}

static void streams_in_turn(void **state)
{
    (void)state;
    start(NULL, ROOM);
    work(3, 0);
}

static void streams_in_turn_and_trims(void **state)
{
    (void)state;
    start(NULL, ROOM);
    work(3, 1);
}

static void a_limit(void **state)
{
    (void)state;
    start(NULL, "MEMORY=1G");
    assert_ok(tnr_limit_set(44 * MIB, 0));
    work(3, 1);
}

static void work_is_waited_for_with_nothing_in_hand(void **state)
{
    (void)state;
    void *ptr;
    start(NULL, "SCHEDULE=lazy");
    assert_ok(tnr_malloc(&ptr, BLOCK_MIB * MIB, 0, workers[0].stream));
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)ptr, 1, BLOCK_MIB * MIB, workers[0].stream),
                     CUDA_SUCCESS);
    assert_ok(tnr_free(ptr));
    waits = waits_in_hand = 0;
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_true(waits > 0);
    assert_int_equal(waits_in_hand, 0);
    tnr_stats stats = TNR_STATS_INIT;
    assert_ok(tnr_stats_get(&stats, NULL, 0));
    assert_int_equal(stats.reserved_bytes.current, 0);
}

/* As for the old mappings of a parked block, whose chunks have gone to another. */
static void an_unpark_waits_with_nothing_in_hand(void **state)
{
    (void)state;
    void *parked, *other;
    size_t bytes;
    start(NULL, "SCHEDULE=lazy");
    assert_ok(tnr_malloc(&parked, BLOCK_MIB * MIB, 0, workers[0].stream));
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)parked, 1, BLOCK_MIB * MIB, workers[0].stream),
                     CUDA_SUCCESS);
    assert_ok(tnr_park(&bytes, parked, workers[0].stream, TNR_CONTENT_DISCARD));
    assert_ok(tnr_malloc(&other, BLOCK_MIB * MIB, 0, workers[0].stream));
    waits = waits_in_hand = 0;
    assert_ok(tnr_unpark(parked, workers[0].stream));
    assert_true(waits > 0);
    assert_int_equal(waits_in_hand, 0);
    assert_ok(tnr_free(parked));
    assert_ok(tnr_free(other));
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 300;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_trims, stop),
        cmocka_unit_test_teardown(streams_in_turn, stop),
        cmocka_unit_test_teardown(streams_in_turn_and_trims, stop),
        cmocka_unit_test_teardown(a_limit, stop),
        cmocka_unit_test_teardown(work_is_waited_for_with_nothing_in_hand, stop),
        cmocka_unit_test_teardown(an_unpark_waits_with_nothing_in_hand, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
