/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 1 at this stage, and its other half. Memory is reused on its own stream without
 * waiting, and on another stream behind a wait on the device. No mapping is removed before the work
 * that may use it has provably ended. Gates block the streams: waits for a value that the host
 * writes.
 *
 * Each test was seen to fail with the line named beside it taken out of the library (the number of
 * seeds is the program's argument):
 *   move_does_not_wait       stale.c, stale_prove: "*over = ..." replaced by "*over = 1"; and
 *                            execute.c, tnri_execute: the second group_set_event (own chunks)
 *   trim_waits, pool_destroy_waits, shutdown_waits
 *                            stale.c, stale_prove: "tnri_event_wait(...)" replaced by TNR_OK
 *   donor_is_ordered, many_schedules
 *                            execute.c, donor_order: the call of tnri_event_order
 *   busy_donor_is_left_alone execute.c, donor_order: "*refused = ..." replaced by "*refused = 0"
 */
#include "few.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <tenure/alloc.h>
#include <tenure/simcuda.h>

#include "fault/payload.h"

#define MIB ((size_t)1 << 20)
enum { STREAMS = 4 };

static CUcontext context;
static CUstream streams[STREAMS];
static volatile uint32_t *gate;

/* A fresh simulation and a fresh library. */
static void begin(const char *schedule, uint64_t seed, const char *conf)
{
    char text[64];
    assert_int_equal(tnr_shutdown(1), TNR_OK);
    setenv("TENURE_SIM_SCHEDULE", schedule, 1);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
    setenv("TENURE_SIM_SEED", text, 1);
    setenv("TENURE_SIM_MEMORY", "192M", 1);
    snprintf(text, sizeof(text), "address_space_gb:%d,chunk_exact_mb:2%s", few_or(32, 8), conf);
    setenv("TENURE_CONF", text, 1);
    (void)simcuda_reset();
    simcuda_violations_clear();
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    void *word = NULL;
    assert_int_equal(cuMemHostAlloc(&word, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP),
                     CUDA_SUCCESS);
    gate = word;
    *gate = 0;
    payload_load();
}

/* All work runs; nothing was seen that should not be. */
static void end(void)
{
    simcuda_run(UINT64_MAX);
    assert_int_equal(tnr_validate(-1), TNR_OK);
    assert_int_equal(payload_errors(), 0);
    assert_int_equal(tnr_shutdown(1), TNR_OK);
    if (simcuda_violations() > 0)
        fail_msg("%s", simcuda_violation_last());
}

static void gate_close(CUstream stream)
{
    assert_int_equal(
        cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_GEQ),
        CUDA_SUCCESS);
}

static void gate_open(void)
{
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

static void *block_new(size_t bytes, CUstream stream)
{
    void *block;
    if (tnr_malloc(&block, bytes, 0, stream) != TNR_OK)
        fail_msg("%s", tnr_last_error());
    return block;
}

static void block_delete(void *block)
{
    if (tnr_free(block) != TNR_OK)
        fail_msg("%s", tnr_last_error());
}

/* Six blocks of 4 MiB on a stream, behind its gate the work on them, every other one then freed:
 * free memory that is still in use, in pieces that are too small. */
static void blocks_make_busy(void *blocks[6], CUstream stream, tnr_pool pool)
{
    for (int i = 0; i < 6; i++)
        if (tnr_pool_malloc(&blocks[i], pool, 4 * MIB, 0, stream) != TNR_OK)
            fail_msg("%s", tnr_last_error());
    gate_close(stream);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(payload_fill(stream, blocks[i], 4 * MIB, i + 1), CUDA_SUCCESS);
        assert_int_equal(payload_check(stream, blocks[i], 4 * MIB, i + 1), CUDA_SUCCESS);
    }
    for (int i = 0; i < 6; i += 2)
        block_delete(blocks[i]);
}

static uint64_t host_waits(void)
{
    return simcuda_calls("cuEventSynchronize") + simcuda_calls("cuCtxSynchronize");
}

static tnr_stats stats_now(void)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_int_equal(tnr_stats_get(&stats, NULL, 0), TNR_OK);
    return stats;
}

/* ---- one stream ----------------------------------------------------------------------------- */

static void reuse_does_not_wait(void **state)
{
    (void)state;
    begin("lazy", 1, "");
    void *small = block_new(64 << 10, streams[0]);
    void *large = block_new(6 * MIB, streams[0]);
    gate_close(streams[0]);
    assert_int_equal(payload_fill(streams[0], small, 64 << 10, 1), CUDA_SUCCESS);
    assert_int_equal(payload_fill(streams[0], large, 6 * MIB, 2), CUDA_SUCCESS);
    block_delete(small);
    block_delete(large);
    uint64_t calls = simcuda_calls_total();
    assert_ptr_equal(block_new(64 << 10, streams[0]), small);
    assert_ptr_equal(block_new(6 * MIB, streams[0]), large);
    assert_int_equal(simcuda_calls_total(), calls);
    gate_open();
    end();
}

static void move_does_not_wait(void **state)
{
    (void)state;
    begin("lazy", 1, "");
    void *blocks[6];
    blocks_make_busy(blocks, streams[0], NULL);
    uint64_t created = stats_now().chunks_created;
    uint64_t waits = host_waits();
    void *moved = block_new(12 * MIB, streams[0]);
    assert_int_equal(payload_fill(streams[0], moved, 12 * MIB, 100), CUDA_SUCCESS);
    assert_int_equal(payload_check(streams[0], moved, 12 * MIB, 100), CUDA_SUCCESS);
    assert_int_equal(stats_now().chunks_created, created); /* all of it moved */
    assert_true(stats_now().chunks_moved > 0);
    /* Another miss looks at the old mappings, and must leave them. */
    void *other = block_new(9 * MIB, streams[0]);
    assert_int_equal(host_waits(), waits);
    assert_int_equal(simcuda_calls("cuMemUnmap"), 0);
    assert_true(stats_now().chunks_stale > 0);
    gate_open();
    simcuda_run(UINT64_MAX);
    /* Now the proof is there. */
    void *last = block_new(20 * MIB, streams[0]);
    assert_int_equal(stats_now().chunks_stale, 0);
    assert_true(simcuda_calls("cuMemUnmap") > 0);
    assert_int_equal(host_waits(), waits);
    block_delete(moved);
    block_delete(other);
    block_delete(last);
    end();
}

/* ---- what must wait ------------------------------------------------------------------------- */

static _Atomic int waiter_done;
static tnr_pool waiter_pool;

static void *waiter_trim(void *unused)
{
    (void)unused;
    size_t released = 0;
    tnr_status status = tnr_trim(&released, 0, 0);
    atomic_store(&waiter_done, 1);
    return status == TNR_OK && released >= 12 * MIB ? NULL : (void *)tnr_last_error();
}

static void *waiter_destroy(void *unused)
{
    (void)unused;
    tnr_status status = tnr_pool_destroy(waiter_pool);
    atomic_store(&waiter_done, 1);
    return status == TNR_OK ? NULL : (void *)tnr_last_error();
}

static void *waiter_shutdown(void *unused)
{
    (void)unused;
    tnr_status status = tnr_shutdown(1);
    atomic_store(&waiter_done, 1);
    return status == TNR_OK ? NULL : (void *)tnr_last_error();
}

/* Runs a call in a thread while the gate is closed: it must be found waiting, with nothing
 * unmapped, and must succeed once the gate opens. */
static void check_waits(void *(*call)(void *))
{
    pthread_t thread;
    const struct timespec nap = {0, 2000000};
    void *error = NULL;
    atomic_store(&waiter_done, 0);
    assert_int_equal(pthread_create(&thread, NULL, call, NULL), 0);
    for (int i = 0; i < 2000 && host_waits() == 0 && !atomic_load(&waiter_done); i++)
        nanosleep(&nap, NULL);
    for (int i = 0; i < 10; i++)
        nanosleep(&nap, NULL);
    int early = atomic_load(&waiter_done);
    uint64_t unmapped = simcuda_calls("cuMemUnmap");
    gate_open();
    assert_int_equal(pthread_join(thread, &error), 0);
    assert_null(error);
    assert_int_equal(early, 0);
    assert_int_equal(unmapped, 0);
    assert_true(simcuda_calls("cuMemUnmap") > 0);
}

static void trim_waits(void **state)
{
    (void)state;
    void *blocks[6];
    begin("lazy", 1, "");
    blocks_make_busy(blocks, streams[0], NULL);
    check_waits(waiter_trim);
    end();
}

static void pool_destroy_waits(void **state)
{
    (void)state;
    void *blocks[6];
    begin("lazy", 1, "");
    assert_int_equal(tnr_pool_create(&waiter_pool, 0, NULL), TNR_OK);
    blocks_make_busy(blocks, streams[0], waiter_pool);
    for (int i = 1; i < 6; i += 2)
        block_delete(blocks[i]);
    check_waits(waiter_destroy);
    end();
}

static void shutdown_waits(void **state)
{
    (void)state;
    void *blocks[6];
    begin("lazy", 1, "");
    blocks_make_busy(blocks, streams[0], NULL);
    check_waits(waiter_shutdown);
    assert_int_equal(simcuda_violations(), 0);
}

/* ---- several streams ------------------------------------------------------------------------ */

static void donor_is_ordered(void **state)
{
    (void)state;
    void *blocks[6];
    begin("eager", 1, ",cross_stream:wait");
    blocks_make_busy(blocks, streams[0], NULL);
    uint64_t created = stats_now().chunks_created;
    uint64_t waits = host_waits();
    unsigned char *block = block_new(10 * MIB, streams[1]);
    assert_int_equal(stats_now().chunks_created, created);
    assert_int_equal(payload_fill(streams[1], block, 10 * MIB, 200), CUDA_SUCCESS);
    assert_int_equal(payload_check(streams[1], block, 10 * MIB, 200), CUDA_SUCCESS);
    simcuda_run(UINT64_MAX);
    assert_int_equal(host_waits(), waits);
    assert_int_equal(payload_checks(), 0); /* the gate holds the second stream back too */
    assert_int_equal(simcuda_calls("cuMemUnmap"), 0);
    gate_open();
    simcuda_run(UINT64_MAX);
    assert_int_equal(payload_checks(), 7);
    end();
}

static void busy_donor_is_left_alone(void **state)
{
    (void)state;
    void *blocks[6];
    begin("eager", 1, ",cross_stream:idle");
    blocks_make_busy(blocks, streams[0], NULL);
    uint64_t created = stats_now().chunks_created;
    (void)block_new(10 * MIB, streams[1]);
    assert_true(stats_now().chunks_created >= created + 5);
    assert_int_equal(simcuda_calls("cuStreamWaitEvent"), 0);
    gate_open();
    simcuda_run(UINT64_MAX);
    /* The work has ended: now the memory is taken, and nothing is waited for. */
    created = stats_now().chunks_created;
    (void)block_new(10 * MIB, streams[2]);
    assert_int_equal(stats_now().chunks_created, created);
    assert_int_equal(host_waits(), 0);
    end();
}

/* ---- many schedules ------------------------------------------------------------------------- */

enum { STEPS = 500, LIVE = 24 };

static uint64_t seeds = 300; /* the argument of the program */
static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

/* Random allocations on four streams under a limit that makes moves, donors and reclaim happen,
 * each block filled when it is new and checked before it is freed. Adds up what was seen. */
static void program_run(uint64_t seed, const char *schedule, uint64_t served[TNR_SERVED_COUNT])
{
    struct {
        void *ptr;
        size_t bytes;
        int stream;
        uint64_t identity;
    } live[LIVE] = {{0}};
    begin(schedule, seed, "");
    random_state = seed;
    assert_int_equal(tnr_limit_set(96 * MIB, 0), TNR_OK);
    for (uint64_t step = 1; step <= STEPS; step++) {
        size_t i = (size_t)draw(LIVE);
        if (live[i].ptr != NULL) {
            CUstream stream = streams[live[i].stream];
            assert_int_equal(payload_check(stream, live[i].ptr, live[i].bytes, live[i].identity),
                             0);
            block_delete(live[i].ptr);
            live[i].ptr = NULL;
            continue;
        }
        live[i].stream = (int)draw(STREAMS);
        live[i].bytes = draw(3) == 0 ? 1024 + (size_t)draw(MIB) : (size_t)draw(12 * MIB) + 1024;
        live[i].identity = step;
        tnr_status status = tnr_malloc(&live[i].ptr, live[i].bytes, 0, streams[live[i].stream]);
        if (status != TNR_OK) {
            assert_int_equal(status, TNR_ERR_LIMIT);
            continue;
        }
        assert_int_equal(payload_fill(streams[live[i].stream], live[i].ptr, live[i].bytes, step),
                         0);
        if (draw(40) == 0)
            assert_int_equal(tnr_trim(NULL, (size_t)draw(96 * MIB), 0), TNR_OK);
    }
    tnr_stats stats = stats_now();
    for (int s = 0; s < TNR_SERVED_COUNT; s++)
        served[s] += stats.served[s];
    simcuda_run(UINT64_MAX);
    assert_true(payload_checks() > 0);
    end();
}

static void many_schedules(void **state)
{
    (void)state;
    uint64_t served[TNR_SERVED_COUNT] = {0};
    for (uint64_t seed = 1; seed <= seeds; seed++)
        program_run(seed, "random", served);
    program_run(1, "lazy", served);
    program_run(1, "eager", served);
    /* The programs must have gone through every step that they are about. */
    assert_true(served[TNR_SERVED_MOVED] > 0);
    assert_true(served[TNR_SERVED_LENT] > 0);
    assert_true(served[TNR_SERVED_SHARED] > 0);
    assert_true(served[TNR_SERVED_GROWN] > 0);
    if (seeds >= 100) /* a few programs hardly ever run out */
        assert_true(served[TNR_SERVED_RECLAIMED] > 0);
}

/* What the simulation itself still holds, for the leak checkers. */
static int group_end(void **state)
{
    (void)state;
    return simcuda_reset() < 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reuse_does_not_wait),
        cmocka_unit_test(move_does_not_wait),
        cmocka_unit_test(trim_waits),
        cmocka_unit_test(pool_destroy_waits),
        cmocka_unit_test(shutdown_waits),
        cmocka_unit_test(donor_is_ordered),
        cmocka_unit_test(busy_donor_is_left_alone),
        cmocka_unit_test(many_schedules),
    };
    if (argc > 1)
        seeds = strtoull(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, group_end);
}
