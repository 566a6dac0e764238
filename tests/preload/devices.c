/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios with several devices, several contexts, and contexts that end. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "engine.h"
#include "scenarios.h"

enum { BYTES = 200000 };

static int ordinal_of(CUdeviceptr block)
{
    int ordinal = -1;
    MUST(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
    return ordinal;
}

void scenario_devices(void)
{
    /* A context of its own first: the next one may get its handle. */
    CUcontext own, contexts[2];
    CUdeviceptr block;
    contexts[0] = engine_start(0);
    MUST(cu.cuCtxCreate(&own, 0, 0));
    MUST(cu.cuMemAlloc(&block, BYTES));
    MUST(cu.cuMemFree(block));
    MUST(cu.cuCtxDestroy(own));
    contexts[1] = engine_start(1);
    CUdeviceptr blocks[2][8];
    CUstream streams[2];
    for (int d = 0; d < 2; d++) {
        MUST(cu.cuCtxSetCurrent(contexts[d]));
        MUST(cu.cuStreamCreate(&streams[d], CU_STREAM_NON_BLOCKING));
    }
    for (int i = 0; i < 8; i++)
        for (int d = 0; d < 2; d++) {
            MUST(cu.cuCtxSetCurrent(contexts[d]));
            MUST(i % 2 ? cu.cuMemAllocAsync(&blocks[d][i], BYTES, streams[d])
                       : cu.cuMemAlloc(&blocks[d][i], BYTES));
            fill(blocks[d][i], d * 8 + i, BYTES, streams[d]);
            CHECK(ordinal_of(blocks[d][i]) == d);
        }
    /* Freed with the other device's context current. */
    for (int i = 0; i < 8; i++)
        for (int d = 0; d < 2; d++) {
            MUST(cu.cuCtxSetCurrent(contexts[d]));
            verify(blocks[d][i], d * 8 + i, BYTES, streams[d]);
            MUST(cu.cuCtxSetCurrent(contexts[1 - d]));
            MUST(cu.cuMemFree(blocks[d][i]));
        }
}

/* A stream's handle that comes back as a stream of the other device, again and again. */
void scenario_devices_streams(void)
{
    CUcontext contexts[2];
    CUdeviceptr block;
    contexts[0] = engine_start(0);
    contexts[1] = engine_start(1);
    for (int i = 0; i < 6; i++) {
        CUstream stream;
        MUST(cu.cuCtxSetCurrent(contexts[i % 2]));
        MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cu.cuMemAllocAsync(&block, BYTES, stream));
        fill(block, i, BYTES, stream);
        CHECK(ordinal_of(block) == i % 2);
        MUST(cu.cuMemFreeAsync(block, stream));
        MUST(cu.cuStreamDestroy(stream));
    }
}

/* A context of the program's own, in which the driver allocates. */
void scenario_contexts(void)
{
    CUcontext primary = engine_start(0), own;
    CUdeviceptr first, second, third;
    CUstream stream;
    MUST(cu.cuMemAlloc(&first, BYTES));
    for (int i = 0; i < 3; i++) {
        MUST(cu.cuCtxCreate(&own, 0, 0));
        MUST(cu.cuMemAlloc(&second, BYTES));
        MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cu.cuMemAllocAsync(&third, BYTES, stream));
        fill(second, 5, BYTES, stream);
        fill(third, 6, BYTES, stream);
        verify(second, 5, BYTES, stream);
        verify(third, 6, BYTES, stream);
        MUST(cu.cuMemFreeAsync(third, stream));
        MUST(cu.cuStreamSynchronize(stream));
        MUST(cu.cuStreamDestroy(stream));
        MUST(cu.cuMemFree(second));
        MUST(cu.cuCtxDestroy(own));
        MUST(cu.cuCtxSetCurrent(primary));
        MUST(cu.cuMemAlloc(&second, BYTES));
        MUST(cu.cuMemFree(second));
    }
    MUST(cu.cuMemFree(first));
}

/* Memory of the primary context, in use on a stream of another one when it is freed. */
void scenario_strangers(void)
{
    enum { ROUNDS = 40 };
    CUcontext primary = engine_start(0), own;
    CUdeviceptr block;
    CUstream far, near;
    MUST(cu.cuStreamCreate(&near, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuCtxCreate(&own, 0, 0));
    MUST(cu.cuStreamCreate(&far, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuCtxSetCurrent(primary));
    for (int i = 0; i < ROUNDS; i++) {
        MUST(cu.cuMemAlloc(&block, BYTES));
        fill(block, i, BYTES, near);
        verify(block, i, BYTES, near);
        MUST(cu.cuCtxSetCurrent(own));
        fill(block, i + 1, BYTES, far);
        MUST(cu.cuCtxSetCurrent(primary));
        MUST(i % 2 ? cu.cuMemFree(block) : cu.cuMemFreeAsync(block, far));
    }
    MUST(cu.cuStreamDestroy(near));
    MUST(cu.cuCtxDestroy(own)); /* and the stream with it */
    MUST(cu.cuMemAlloc(&block, BYTES));
    MUST(cu.cuMemFree(block));
}

void scenario_reset(void)
{
    for (int i = 0; i < 3; i++) {
        CUdeviceptr block, kept;
        CUstream stream;
        engine_start(0);
        MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cu.cuMemAlloc(&kept, BYTES));
        MUST(cu.cuMemAllocAsync(&block, BYTES, stream));
        fill(block, i, BYTES, stream);
        verify(block, i, BYTES, stream);
        MUST(cu.cuMemFreeAsync(block, stream));
        MUST(cu.cuCtxSynchronize());
        MUST(cu.cuDevicePrimaryCtxReset(0)); /* takes `kept` and the stream along */
    }
    scenario_basic();
}

/* ---- one of several ------------------------------------------------------------------------- */

static CUcontext second;
static _Atomic int is_over;
static _Atomic long rounds;

enum { WORKERS = 3, RESETS = 12 };

/* Keeps the second device busy: mostly with what takes Tenure no time. */
static void *second_run(void *unused)
{
    CUstream stream;
    CUdeviceptr blocks[8] = {0};
    MUST(cu.cuCtxSetCurrent(second));
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; !is_over; i++, rounds++) {
        CUdeviceptr *at = &blocks[i % 8];
        MUST(*at == 0 ? CUDA_SUCCESS : cu.cuMemFreeAsync(*at, stream));
        MUST(i % 8 == 0 ? cu.cuMemAlloc(at, BYTES) : cu.cuMemAllocAsync(at, BYTES, stream));
        if (i % 64 != 0)
            continue;
        fill(*at, i, BYTES, stream);
        verify(*at, i, BYTES, stream);
    }
    for (int i = 0; i < 8; i++)
        MUST(blocks[i] == 0 ? CUDA_SUCCESS : cu.cuMemFree(blocks[i]));
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuStreamDestroy(stream));
    return unused;
}

/* A pool with a limit outlives the context. */
static CUmemoryPool pool_of_first(void)
{
    CUmemoryPool pool;
    CUmemPoolProps wanted = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                             .maxSize = (size_t)64 << 20};
    MUST(cu.cuMemPoolCreate(&pool, &wanted));
    return pool;
}

static void first_use(int value, CUdeviceptr held, CUmemoryPool pool)
{
    CUdeviceptr kept, block;
    CUstream stream;
    unsigned flags = 99;
    CUcontext first = engine_start(0);
    MUST(cu.cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, held));
    printf("at first: %u\n", flags);
    int there = (int)cu.cuCtxEnablePeerAccess(second, 0);
    MUST(cu.cuCtxSetCurrent(second));
    printf("let in: %d %d\n", there, (int)cu.cuCtxEnablePeerAccess(first, 0));
    MUST(cu.cuCtxSetCurrent(first));
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemAlloc(&kept, BYTES));
    MUST(cu.cuMemAllocFromPoolAsync(&block, BYTES, pool, stream));
    fill(block, value, BYTES, stream);
    MUST(cu.cuMemFreeAsync(block, stream));
    MUST(cu.cuMemAllocAsync(&block, BYTES, stream));
    fill(block, value, BYTES, stream);
    verify(block, value, BYTES, stream);
    fill(held, 77, BYTES, stream);
    MUST(cu.cuCtxSynchronize());
    CHECK(ordinal_of(kept) == 0);
    MUST(cu.cuMemFreeAsync(block, stream));
    MUST(cu.cuCtxSynchronize());
}

/* The first device is reset, again and again, with all that it has; the second one has a block that
 * lives on, and threads that go on. */
void scenario_reset_one(void)
{
    pthread_t threads[WORKERS];
    CUdeviceptr held, early;
    engine_start(0);
    MUST(cu.cuMemAlloc(&early, BYTES));
    CUmemoryPool pool = pool_of_first();
    second = engine_start(1);
    MUST(cu.cuMemAlloc(&held, BYTES));
    fill(held, 77, BYTES, NULL);
    MUST(cu.cuCtxSynchronize());
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, second_run, NULL) == 0);
    for (int i = 0; i < RESETS; i++) {
        first_use(i, held, pool);
        MUST(cu.cuDevicePrimaryCtxReset(0)); /* takes `kept` and the stream along */
        for (long before = rounds; rounds < before + 3;)
            sched_yield();
    }
    is_over = 1;
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    MUST(cu.cuCtxSetCurrent(second));
    verify(held, 77, BYTES, NULL);
    MUST(cu.cuMemFree(held));
}

/* ---- a thread that came in before the second device ----------------------------------------- */

static _Atomic int is_held, is_open, is_reset;
static _Thread_local int is_to_hold;
static pthread_barrier_t all_passed;

static void nap(void)
{
    struct timespec time = {0, 1000000};
    (void)nanosleep(&time, NULL);
}

/* The driver is called: the thread stays in there until it may leave. */
static void hold(void)
{
    if (!is_to_hold)
        return;
    is_to_hold = 0;
    is_held = 1;
    while (!is_open)
        nap();
}

static void *first_allocates(void *context)
{
    CUdeviceptr block;
    MUST(cu.cuCtxSetCurrent(context));
    is_to_hold = 1;
    MUST(cu.cuMemAlloc(&block, BYTES));
    CHECK(!is_to_hold);
    fill(block, 5, BYTES, NULL);
    verify(block, 5, BYTES, NULL);
    MUST(cu.cuMemFree(block));
    return NULL;
}

/* Comes and goes; so many at once that the C library keeps not all of their stacks. */
static void *passes(void *context)
{
    CUdeviceptr block;
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuMemAlloc(&block, BYTES));
    MUST(cu.cuMemFree(block));
    (void)pthread_barrier_wait(&all_passed);
    return NULL;
}

static void threads_pass(CUcontext context)
{
    enum { PASSERS = 16 };
    pthread_t threads[PASSERS];
    CHECK(pthread_barrier_init(&all_passed, NULL, PASSERS) == 0);
    for (int i = 0; i < PASSERS; i++)
        CHECK(pthread_create(&threads[i], NULL, passes, context) == 0);
    for (int i = 0; i < PASSERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *second_resets(void *unused)
{
    MUST(cu.cuDevicePrimaryCtxReset(1));
    CHECK(is_open); /* nor before the other thread is out */
    is_reset = 1;
    return unused;
}

/* A thread is inside, on the first device, when the second one comes into use and is reset: the
 * reset waits for it, and not for threads that have ended. Under `tenure run`, with the driver of
 * newer_driver.c. */
void scenario_reset_held(void)
{
    enum { PATIENCE = 300 };
    pthread_t allocates, resets;
    CUdeviceptr block;
    void (**asked)(void) = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "newer_driver_asked");
    CHECK(asked != NULL);
    *asked = hold;
    CUcontext first = engine_start(0);
    MUST(cu.cuMemAlloc(&block, BYTES));
    threads_pass(first);
    CHECK(pthread_create(&allocates, NULL, first_allocates, first) == 0);
    while (!is_held)
        nap();
    engine_start(1);
    MUST(cu.cuMemAlloc(&block, BYTES));
    CHECK(ordinal_of(block) == 1);
    CHECK(pthread_create(&resets, NULL, second_resets, NULL) == 0);
    for (int i = 0; i < PATIENCE && !is_reset; i++)
        nap();
    is_open = 1;
    CHECK(pthread_join(resets, NULL) == 0);
    CHECK(pthread_join(allocates, NULL) == 0);
}
