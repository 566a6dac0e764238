/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 4: the cached path makes no driver call, and no two streams share a lock on it.
 *
 * For the first, the simulated device counts calls. For the second, the test holds one arena's
 * lock, as a thread that was interrupted inside would. Meanwhile another thread serves another
 * stream: if the two shared any lock, that thread would never return. The pool's, the device's and
 * the library's locks are held as well, because the cached path must not need them either.
 *
 * Each test was seen to fail with this change in the library:
 *   no_driver_call      ladder.c, tnri_ladder_malloc: the call of ladder_serve_flushed left out
 *   no_shared_lock      library.c, tnri_library_arena: the cached entry ignored, so that every call
 *                       asks the pool's table
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include <tenure/alloc.h>
#include <tenure/simcuda.h>

#include "api/library.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
enum { PAIRS = 100000 };

static CUstream streams[2];

static int begin(void **state)
{
    (void)state;
    CUcontext context;
    setenv("TENURE_SIM_MEMORY", "512M", 1);
    setenv("TENURE_CONF", "address_space_gb:32", 1);
    (void)simcuda_reset();
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(tnr_validate(-1), TNR_OK);
    assert_int_equal(tnr_shutdown(0), TNR_OK);
    assert_int_equal(simcuda_violations(), 0);
    return 0;
}

/* Allocates all sizes at once and frees them, so that both worlds of the arena have memory enough
 * for any one of them and neither has to take the other's. Null if it worked. */
static const char *warm_up(const size_t *sizes, size_t count, CUstream stream)
{
    void *blocks[16];
    for (size_t i = 0; i < count; i++)
        if (tnr_malloc(&blocks[i], sizes[i], 0, stream) != TNR_OK)
            return tnr_last_error();
    for (size_t i = 0; i < count; i++)
        if (tnr_free(blocks[i]) != TNR_OK)
            return tnr_last_error();
    return NULL;
}

/* One allocation and free; null if it worked. */
static const char *pair(size_t bytes, CUstream stream)
{
    void *block;
    if (tnr_malloc(&block, bytes, 0, stream) != TNR_OK || tnr_free(block) != TNR_OK)
        return tnr_last_error();
    return NULL;
}

static void no_driver_call(void **state)
{
    (void)state;
    static const size_t sizes[] = {1,         512,     4 * KIB, 64 * KIB, 1000 * KIB, MIB,
                                   MIB + 512, 3 * MIB, 9 * MIB, 16 * MIB, 40 * MIB};
    const size_t count = sizeof(sizes) / sizeof(sizes[0]);
    assert_null(warm_up(sizes, count, streams[0]));
    uint64_t calls = simcuda_calls_total();
    for (size_t n = 0; n < PAIRS; n++)
        assert_null(pair(sizes[n % count], streams[0]));
    assert_int_equal(simcuda_calls_total(), calls);
    /* Sizes that were never seen before, inside what is mapped. */
    for (size_t n = 0; n < PAIRS; n++)
        assert_null(pair(1 + n * 7919 % MIB, streams[0]));
    for (size_t n = 0; n < PAIRS; n++)
        assert_null(pair(MIB + 1 + n * 7919 % (32 * MIB), streams[0]));
    assert_int_equal(simcuda_calls_total(), calls);
}

/* Many live blocks at once, freed in another order: no call as long as the memory is there. */
static void no_driver_call_when_many_live(void **state)
{
    (void)state;
    enum { LIVE = 400 };
    static void *blocks[LIVE];
    uint64_t calls = 0;
    for (int round = 0; round < 50; round++) {
        if (round == 1)
            calls = simcuda_calls_total();
        for (size_t i = 0; i < LIVE; i++)
            assert_int_equal(tnr_malloc(&blocks[i], 1 + i * 104729 % (i % 8 ? 64 * KIB : 4 * MIB),
                                        0, streams[0]),
                             TNR_OK);
        for (size_t i = 0; i < LIVE; i++)
            assert_int_equal(tnr_free(blocks[i * 171 % LIVE]), TNR_OK);
    }
    assert_int_equal(simcuda_calls_total(), calls);
}

static _Atomic int other_state; /* 1: warmed up, 2: may go, 3: done */

static void nap(void)
{
    const struct timespec time = {0, 1000000};
    nanosleep(&time, NULL);
}

/* Serves the other stream: once to warm up, then while the locks are held. */
static void *other_stream(void *unused)
{
    (void)unused;
    static const size_t sizes[] = {3 * MIB, 5000};
    const char *error = warm_up(sizes, 2, streams[1]);
    atomic_store(&other_state, 1);
    while (atomic_load(&other_state) != 2)
        nap();
    for (size_t n = 0; n < 1000 && error == NULL; n++)
        error = pair(n % 2 ? 5000 : 3 * MIB, streams[1]);
    atomic_store(&other_state, 3);
    return (void *)(uintptr_t)error;
}

static void no_shared_lock(void **state)
{
    (void)state;
    pthread_t thread;
    void *error;
    tnri_arena *arena;
    assert_null(pair(5000, streams[0]));
    assert_int_equal(tnri_library_arena(0, NULL, streams[0], &arena), TNR_OK);
    atomic_store(&other_state, 0);
    assert_int_equal(pthread_create(&thread, NULL, other_stream, NULL), 0);
    while (atomic_load(&other_state) != 1)
        nap();
    tnri_lock_take(&tnri_library_lock);
    tnri_lock_take(&arena->device->lock);
    tnri_lock_take(&arena->pool->lock);
    tnri_lock_take(&arena->lock);
    tnri_lock_take(&arena->device->space.lock);
    tnri_lock_take(&arena->device->events.spares.lock);
    atomic_store(&other_state, 2);
    for (int i = 0; i < 10000 && atomic_load(&other_state) != 3; i++)
        nap();
    int done = atomic_load(&other_state) == 3;
    tnri_lock_release(&arena->device->events.spares.lock);
    tnri_lock_release(&arena->device->space.lock);
    tnri_lock_release(&arena->lock);
    tnri_lock_release(&arena->pool->lock);
    tnri_lock_release(&arena->device->lock);
    tnri_lock_release(&tnri_library_lock);
    assert_int_equal(pthread_join(thread, &error), 0);
    assert_true(done);
    assert_null(error);
}

/* What the simulation itself still holds, for the leak checkers. */
static int group_end(void **state)
{
    (void)state;
    return simcuda_reset() < 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_driver_call, begin, end),
        cmocka_unit_test_setup_teardown(no_driver_call_when_many_live, begin, end),
        cmocka_unit_test_setup_teardown(no_shared_lock, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
