/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads at once, free-running. Every block carries its identity, written when it is new and
 * checked in stream order before it is freed, so a block that two owners had at one time shows;
 * under ThreadSanitizer the kernels' accesses themselves are a race then. Memory is short on
 * purpose: the device's limit is below what the threads want, so chunks move, go from stream to
 * stream, and are reclaimed from idle pools all the time.
 *
 *   own_streams       each thread on a stream of its own
 *   shared_stream     all threads on one stream
 *   producers         blocks are freed by another thread than the one that allocated them
 *   pools             threads make pools, route themselves to them and destroy them again
 *   maintenance       all of these together, while one thread trims, asks for statistics, validates
 *                     and moves the limit
 *   failures          the same, while one thread makes driver calls fail, now this one, now that
 *   lanes             maintenance, with three arenas for each stream, which all threads use in turn
 *   one_with_lanes    all threads on one stream, which gets lanes as they meet
 *   traps, guards     maintenance, and failures on one stream, while blocks have traps: which
 *                     nobody runs into
 *
 * Each runs on free-running workers and on a seeded schedule inside the calls. The work is bounded
 * by a number of operations, given as the first argument; the second is the seed.
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

#include <cmocka.h>

#include <tenure/alloc.h>
#include <tenure/simcuda.h>
#include <tenure/trap.h>

#include "fault/payload.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define LIMIT (48 * MIB)

enum { WORKERS = 4, LIVE = 16, HANDOVER = 32 };

/* A cmocka assertion would jump out of the wrong thread. */
#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* What one test does; constant while it runs. */
typedef struct plan {
    const char *schedule;
    int one_stream, hand_over, make_pools, maintain, sabotage;
    const char *conf; /* null: the defaults */
} plan;

typedef struct stress_block {
    void *ptr; /* null: none */
    size_t bytes;
    CUstream stream;
    uint64_t identity;
} stress_block;

/* Owned by its thread. */
typedef struct worker {
    pthread_t thread;
    uint64_t random;
    const plan *work;
    int number;
    stress_block live[LIVE];
    uint64_t failed; /* allocations refused for lack of memory */
} worker;

static CUcontext context;
static CUstream streams[WORKERS];
static uint64_t operations = 3000, seed_first = 1;
static _Atomic uint64_t identity_last;
static _Atomic int workers_running;

/* Blocks on their way to another thread; under the mutex. */
static struct {
    pthread_mutex_t mutex;
    stress_block blocks[HANDOVER];
    size_t count;
} handover = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static uint64_t draw(worker *w, uint64_t below)
{
    w->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = w->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* Small ones mostly, as real programs have them; large ones in sizes that never repeat. */
static size_t draw_bytes(worker *w)
{
    if (draw(w, 10) < 6)
        return 128 + (size_t)draw(w, draw(w, 4) == 0 ? MIB : 40 * KIB);
    return MIB + (size_t)draw(w, 6 * MIB);
}

/* 1 if a call failed because the driver was made to. */
static int sabotaged(const worker *w, tnr_status status)
{
    return w->work->sabotage && (status == TNR_ERR_DRIVER || status == TNR_ERR_OUT_OF_MEMORY);
}

static void block_make(worker *w, stress_block *block)
{
    block->stream = streams[w->work->one_stream ? 0 : w->number];
    block->bytes = draw_bytes(w);
    tnr_status status;
    if (draw(w, 16) == 0)
        status = tnr_malloc_aligned(&block->ptr, block->bytes, (size_t)1 << (12 + draw(w, 10)), 0,
                                    block->stream);
    else
        status = tnr_malloc(&block->ptr, block->bytes, 0, block->stream);
    if (status == TNR_ERR_LIMIT || status == TNR_ERR_OUT_OF_MEMORY || sabotaged(w, status)) {
        REQUIRE(block->ptr == NULL, "a failed allocation gave %p", block->ptr);
        w->failed++;
        return;
    }
    REQUIRE(status == TNR_OK, "%s", tnr_last_error());
    block->identity = atomic_fetch_add(&identity_last, 1) + 1;
    REQUIRE(payload_fill(block->stream, block->ptr, block->bytes, block->identity) == 0, "fill");
}

static void block_end(stress_block *block)
{
    REQUIRE(payload_check(block->stream, block->ptr, block->bytes, block->identity) == 0, "check");
    tnr_block_info info;
    REQUIRE(tnr_block_get(&info, (char *)block->ptr + block->bytes / 2) == TNR_OK, "%s",
            tnr_last_error());
    REQUIRE(info.base == block->ptr && info.bytes_requested == block->bytes, "another block");
    REQUIRE(tnr_free(block->ptr) == TNR_OK, "%s", tnr_last_error());
    block->ptr = NULL;
}

/* Puts a block where another thread finds it, or takes one and ends it. */
static void block_hand_over(worker *w, stress_block *block)
{
    stress_block taken = {0};
    pthread_mutex_lock(&handover.mutex);
    if (handover.count < HANDOVER && block->ptr != NULL) {
        handover.blocks[handover.count++] = *block;
        block->ptr = NULL;
    }
    if (handover.count > 0 && draw(w, 2) == 0)
        taken = handover.blocks[--handover.count];
    pthread_mutex_unlock(&handover.mutex);
    if (taken.ptr != NULL)
        block_end(&taken);
}

/* ---- pools ---------------------------------------------------------------------------------- */

/* A pool's whole life: made, allocated from by routing and by name, emptied, destroyed. */
static void pool_live(worker *w)
{
    tnr_pool pool;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.limit_bytes = draw(w, 2) ? 16 * MIB : 0;
    options.release_threshold_bytes = draw(w, 2) ? 4 * MIB : 0;
    REQUIRE(tnr_pool_create(&pool, 0, &options) == TNR_OK, "%s", tnr_last_error());
    tnr_status status;
    REQUIRE(tnr_pool_push(pool) == TNR_OK, "%s", tnr_last_error());
    stress_block blocks[4] = {{0}};
    for (int round = 0; round < 12; round++) {
        stress_block *block = &blocks[draw(w, 4)];
        if (block->ptr != NULL)
            block_end(block);
        else
            block_make(w, block);
    }
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    REQUIRE(tnr_stats_get(&stats, pool, 0) == TNR_OK, "%s", tnr_last_error());
    REQUIRE(tnr_pool_destroy(pool) == TNR_ERR_BUSY, "destroyed while a thread was routed to it");
    REQUIRE(tnr_pool_pop(pool) == TNR_OK, "%s", tnr_last_error());
    for (int i = 0; i < 4; i++)
        if (blocks[i].ptr != NULL)
            block_end(&blocks[i]);
    while (sabotaged(w, status = tnr_pool_destroy(pool)))
        ;
    REQUIRE(status == TNR_OK, "%s", tnr_last_error());
    REQUIRE(tnr_pool_push(pool) == TNR_ERR_INVALID_POOL, "a destroyed pool was accepted");
}

/* ---- threads -------------------------------------------------------------------------------- */

static void *worker_run(void *argument)
{
    worker *w = argument;
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS, "context");
    for (uint64_t n = 0; n < operations; n++) {
        stress_block *block = &w->live[draw(w, LIVE)];
        if (w->work->make_pools && draw(w, 200) == 0)
            pool_live(w);
        else if (w->work->hand_over && draw(w, 3) == 0)
            block_hand_over(w, block);
        else if (block->ptr != NULL)
            block_end(block);
        else
            block_make(w, block);
    }
    for (int i = 0; i < LIVE; i++)
        if (w->live[i].ptr != NULL)
            block_end(&w->live[i]);
    CUcontext current;
    REQUIRE(cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context, "context changed");
    atomic_fetch_sub(&workers_running, 1);
    return NULL;
}

/* Totals over several arenas are exact only at rest: the library says so in its text. Whatever is
 * wrong inside one arena is wrong at any time. */
static void validate_in_motion(void)
{
    if (tnr_validate(-1) == TNR_OK)
        return;
    const char *text = tnr_last_error();
    REQUIRE(strstr(text, "true only while") != NULL || strstr(text, ": the pools have") != NULL,
            "%s", text);
}

/* Makes some call of the library's fail soon. The programs' own calls are not among these. */
static void sabotage(worker *w)
{
    static const char *const entries[] = {
        "cuMemCreate",        "cuMemRelease",      "cuMemMap",        "cuMemUnmap",
        "cuMemSetAccess",     "cuEventRecord",     "cuEventQuery",    "cuEventCreate",
        "cuEventSynchronize", "cuStreamWaitEvent", "cuCtxPushCurrent"};
    simcuda_fail_clear();
    for (int i = 0; i < 6; i++)
        simcuda_fail(entries[draw(w, sizeof(entries) / sizeof(entries[0]))], 1 + draw(w, 8),
                     draw(w, 8) == 0, draw(w, 2) ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_OUT_OF_MEMORY);
}

static void *maintain_run(void *argument)
{
    worker *w = argument;
    static char json[16384];
    tnr_status status;
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS, "context");
    while (atomic_load(&workers_running) > 0) {
        tnr_stats stats = {.struct_bytes = sizeof(stats)};
        if (w->work->sabotage)
            sabotage(w);
        switch (draw(w, 6)) {
        case 0:
            status = tnr_trim(NULL, (size_t)draw(w, LIMIT), 0);
            REQUIRE(status == TNR_OK || sabotaged(w, status), "%s", tnr_last_error());
            break;
        case 1:
            REQUIRE(tnr_stats_get(&stats, NULL, 0) == TNR_OK, "%s", tnr_last_error());
            break;
        case 2:
            REQUIRE(tnr_stats_json(json, sizeof(json), NULL, 0) > 0, "%s", tnr_last_error());
            break;
        case 3:
            validate_in_motion();
            break;
        case 4:
            REQUIRE(tnr_limit_set(LIMIT / 2 + (size_t)draw(w, LIMIT / 2), 0) == TNR_OK, "%s",
                    tnr_last_error());
            break;
        default:
            REQUIRE(tnr_stats_reset_peaks(0) == TNR_OK, "%s", tnr_last_error());
        }
    }
    simcuda_fail_clear();
    return NULL;
}

/* ---- one test ------------------------------------------------------------------------------- */

static void stress_begin(const plan *work, uint64_t seed)
{
    char text[96];
    setenv("TENURE_SIM_SCHEDULE", work->schedule, 1);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
    setenv("TENURE_SIM_SEED", text, 1);
    setenv("TENURE_SIM_MEMORY", "64M", 1);
    setenv("TENURE_SIM_THREADS", "2", 1);
    snprintf(text, sizeof(text), "address_space_gb:%d%s%s", few_or(32, 16),
             work->conf == NULL ? "" : ",", work->conf == NULL ? "" : work->conf);
    setenv("TENURE_CONF", text, 1);
    (void)simcuda_reset();
    simcuda_violations_clear();
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    payload_load();
    assert_int_equal(tnr_limit_set(LIMIT, 0), TNR_OK);
}

/* Everything is at rest: totals are exact, no contents were wrong, and shutdown leaves nothing.
 * Returns how many requests moved chunks. */
static uint64_t stress_end(uint64_t failed)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    simcuda_live live;
    while (handover.count > 0)
        block_end(&handover.blocks[--handover.count]);
    simcuda_run(UINT64_MAX);
    if (tnr_validate(-1) != TNR_OK)
        fail_msg("%s", tnr_last_error());
    assert_int_equal(tnr_stats_get(&stats, NULL, 0), TNR_OK);
    assert_int_equal(stats.allocation[TNR_WORLD_ALL].current, 0);
    assert_int_equal(stats.bytes_live + stats.bytes_slack, 0);
    assert_int_equal(stats.bytes_binned + stats.bytes_free + stats.bytes_retired,
                     stats.reserved_bytes.current);
    assert_true(stats.reserved_bytes.peak <= LIMIT);
    print_message(
        "%llu served, %llu refused, %llu moved, %llu from other streams, %llu reclaimed\n",
        (unsigned long long)stats.allocation[TNR_WORLD_ALL].allocated, (unsigned long long)failed,
        (unsigned long long)stats.served[TNR_SERVED_MOVED],
        (unsigned long long)stats.served[TNR_SERVED_SHARED],
        (unsigned long long)stats.served[TNR_SERVED_RECLAIMED]);
    assert_true(payload_checks() > 0);
    assert_int_equal(payload_errors(), 0);
    if (tnr_shutdown(0) != TNR_OK)
        fail_msg("%s", tnr_last_error());
    tnr_traps_info traps = {.struct_bytes = sizeof(traps)};
    assert_int_equal(tnr_traps_get(&traps, 0), TNR_OK);
    assert_int_equal(traps.findings, 0);
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.handles + live.mappings + live.reservations + live.events, 0);
    assert_int_equal(live.primary_references, 1);
    if (simcuda_violations() > 0)
        fail_msg("%s", simcuda_violation_last());
    return stats.served[TNR_SERVED_MOVED];
}

static uint64_t stress_run(const plan *work, uint64_t seed)
{
    static worker workers[WORKERS + 1];
    uint64_t failed = 0;
    print_message("schedule %s, seed %llu: ", work->schedule, (unsigned long long)seed);
    stress_begin(work, seed);
    memset(workers, 0, sizeof(workers));
    atomic_store(&workers_running, WORKERS);
    for (int i = 0; i <= WORKERS; i++) {
        worker *w = &workers[i];
        w->random = seed * 1000 + (uint64_t)i;
        w->work = work;
        w->number = i;
        if (i < WORKERS || work->maintain)
            assert_int_equal(
                pthread_create(&w->thread, NULL, i < WORKERS ? worker_run : maintain_run, w), 0);
    }
    for (int i = 0; i < WORKERS + (work->maintain ? 1 : 0); i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        failed += workers[i].failed;
    }
    return stress_end(failed);
}

static void stress_test(void **state)
{
    plan work = *(const plan *)*state;
    static const char *const schedules[] = {"threads", "random"};
    uint64_t moved = 0;
    /* How often memory moves is a matter of chance: threads meet as they meet. A short run, as
     * under Valgrind, may see none; twenty runs without any are no chance. */
    for (uint64_t i = 0; i < 2 || (moved == 0 && i < 20); i++) {
        work.schedule = schedules[i % 2];
        moved += stress_run(&work, seed_first + i);
    }
    assert_true(moved > 0);
}

/* Ends what a failed test has left, so that the next one begins anew. */
static int stress_stop(void **state)
{
    (void)state;
    return tnr_shutdown(1) != TNR_OK;
}

/* What the simulation itself still holds, for the leak checkers. */
static int group_end(void **state)
{
    (void)state;
    return simcuda_reset() < 0;
}

int main(int argc, char **argv)
{
    static plan own_streams = {NULL, 0, 0, 0, 0, 0, NULL};
    static plan shared_stream = {NULL, 1, 0, 0, 0, 0, NULL};
    static plan producers = {NULL, 0, 1, 0, 0, 0, NULL};
    static plan pools = {NULL, 0, 0, 1, 0, 0, NULL};
    static plan maintenance = {NULL, 0, 1, 1, 1, 0, NULL};
    static plan failures = {NULL, 0, 1, 1, 1, 1, NULL};
    static plan lanes = {NULL, 0, 1, 1, 1, 0, "lanes_forced:3"};
    static plan one_with_lanes = {NULL, 1, 1, 0, 1, 0, "lanes_max:4"};
    static plan traps = {NULL, 0, 1, 1, 1, 0, "poison:on,canary:on,trap_fill_kb:2"};
    static plan guards = {NULL, 1, 1, 1, 1, 1, "guard:on,guard_mb:8,trap_every:4,canary:on"};
    const struct CMUnitTest tests[] = {
        {"own_streams", stress_test, NULL, stress_stop, &own_streams},
        {"shared_stream", stress_test, NULL, stress_stop, &shared_stream},
        {"producers", stress_test, NULL, stress_stop, &producers},
        {"pools", stress_test, NULL, stress_stop, &pools},
        {"maintenance", stress_test, NULL, stress_stop, &maintenance},
        {"failures", stress_test, NULL, stress_stop, &failures},
        {"lanes", stress_test, NULL, stress_stop, &lanes},
        {"one_with_lanes", stress_test, NULL, stress_stop, &one_with_lanes},
        {"traps", stress_test, NULL, stress_stop, &traps},
        {"guards", stress_test, NULL, stress_stop, &guards},
    };
    if (argc > 1)
        operations = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed_first = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, group_end);
}
