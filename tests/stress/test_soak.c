/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Soak: streams, pools, threads, captures, graphs and sleeps that come and go, round after round.
 * What is gone must cost nothing: neither memory of the host nor work for those that walk over
 * what there is.
 *
 *   test_soak [--rounds N]         1,000 rounds, or N, compared with the first 100: no times
 *   test_soak --seconds 600        a line of CSV for each 100 rounds, for a curve
 *   test_soak --seconds 600 --per-thread
 *                                  the threads use the per-thread default stream too
 *
 * Every round ends with nothing live. Operations are the library's calls.
 *
 * What was taken out, and what failed then:
 *   tnri_pool_retire in tnri_pool_end: pools_and_graphs_leave_nothing
 *   tnri_give_back in tnri_dissolve_all: what_is_gone_leaves_nothing
 */
#include "unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

#include <tenure/capture.h>
#include <tenure/sleep.h>

enum { THREADS = 2, BLOCKS = 12, LINE_ROUNDS = 100 };

static uint64_t operations; /* of the main thread, and of the others when they have been joined */
static int uses_per_thread; /* 1: threads allocate on their default stream */
static uint64_t rounds = 1000;

/* One call that must succeed. */
#define OPERATION(call)                                                                            \
    do {                                                                                           \
        assert_ok(call);                                                                           \
        operations++;                                                                              \
    } while (0)

static void drive(CUresult result)
{
    assert_int_equal(result, CUDA_SUCCESS);
}

static tnr_stream stream_make(void)
{
    CUstream stream = NULL;
    drive(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OPERATION(tnr_stream_created(0, stream));
    return stream;
}

static void stream_end(tnr_stream stream)
{
    OPERATION(tnr_stream_destroying(0, stream));
    drive(cuStreamDestroy(stream));
}

/* Blocks of many sizes on one stream, used by the other. */
static void blocks_round(tnr_stream own, tnr_stream other, uint64_t *random)
{
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        OPERATION(tnr_malloc(&blocks[i], 512 + unit_below(random, i % 3 == 0 ? 4 * MIB : 64 * KIB),
                             0, own));
    for (int i = 0; i < BLOCKS; i += 2)
        OPERATION(tnr_record_use(blocks[i], other));
    for (int i = 0; i < BLOCKS; i++)
        OPERATION(tnr_free(blocks[i]));
}

/* A pool that is routed to, sleeps now and then, and ends. */
static void pool_round(tnr_stream stream, uint64_t round)
{
    tnr_pool pool;
    void *block, *growable;
    OPERATION(tnr_pool_create(&pool, 0, NULL));
    OPERATION(tnr_pool_push(pool));
    OPERATION(tnr_malloc(&block, 3 * MIB, 0, stream));
    OPERATION(tnr_reserve(&growable, 64 * MIB, 0, stream));
    OPERATION(tnr_commit(growable, 2 * MIB));
    OPERATION(tnr_pool_pop(pool));
    if (round % 8 == 0) {
        OPERATION(tnr_pool_sleep(pool, 0, NULL));
        OPERATION(tnr_free(growable));
        OPERATION(tnr_pool_wake(pool, 0));
    } else {
        OPERATION(tnr_free(growable));
    }
    OPERATION(tnr_free(block));
    OPERATION(tnr_pool_destroy(pool));
}

/* A graph that is captured, launched and destroyed. */
static void graph_round(tnr_stream stream)
{
    void *outside, *inside;
    tnr_graph number;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    OPERATION(tnr_malloc(&outside, MIB, 0, stream));
    OPERATION(tnr_capture_begin(0, stream, NULL));
    OPERATION(tnr_malloc(&inside, MIB, 0, stream));
    drive(cuMemsetD8Async((CUdeviceptr)inside, 1, MIB, stream));
    drive(cuMemcpyDtoDAsync((CUdeviceptr)outside, (CUdeviceptr)inside, MIB, stream));
    OPERATION(tnr_free(inside));
    OPERATION(tnr_capture_end(&graph, &number, 0, stream));
    drive(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OPERATION(tnr_graph_launch(number, exec, stream));
    drive(cuStreamSynchronize(stream));
    drive(cuGraphExecDestroy(exec));
    drive(cuGraphDestroy(graph));
    OPERATION(tnr_free(outside));
}

/* What a thread of one round is given. */
typedef struct visitor {
    pthread_t thread;
    tnr_stream stream;
    tnr_pool pool; /* that it is routed to when it ends */
    uint64_t operations;
} visitor;

static void *visitor_main(void *of)
{
    visitor *self = of;
    tnr_stream streams[2] = {self->stream, (tnr_stream)2};
    for (int s = 0; s < 1 + uses_per_thread; s++) {
        void *blocks[2];
        for (int i = 0; i < 2; i++)
            if (tnr_malloc(&blocks[i], 100 * KIB, 0, streams[s]) != TNR_OK)
                abort();
        for (int i = 0; i < 2; i++)
            if (tnr_free(blocks[i]) != TNR_OK)
                abort();
        self->operations += 4;
    }
    if (tnr_pool_push(self->pool) != TNR_OK) /* and never popped */
        abort();
    self->operations++;
    return NULL;
}

static void threads_round(void)
{
    visitor visitors[THREADS];
    for (int i = 0; i < THREADS; i++) {
        visitors[i] = (visitor){.stream = stream_make()};
        OPERATION(tnr_pool_create(&visitors[i].pool, 0, NULL));
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visitor_main, &visitors[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(visitors[i].thread, NULL), 0);
        operations += visitors[i].operations;
        OPERATION(tnr_pool_destroy(visitors[i].pool));
        stream_end(visitors[i].stream);
    }
}

static void soak_round(uint64_t round, uint64_t *random, int has_uses)
{
    tnr_stream a = stream_make(), b = stream_make();
    if (has_uses)
        blocks_round(a, b, random);
    pool_round(b, round);
    graph_round(a);
    if (has_uses)
        threads_round();
    stream_end(a);
    if (has_uses)
        blocks_round(b, NULL, random);
    stream_end(b);
    simcuda_run(UINT64_MAX);
    if (round % 4 == 0)
        OPERATION(tnr_trim(NULL, 0, 0));
}

static void soak_begin(void)
{
    CUcontext context;
    unit_start(NULL, "SCHEDULE=eager", "MEMORY=1G", NULL);
    drive(cuDevicePrimaryCtxRetain(&context, 0));
    drive(cuCtxSetCurrent(context));
}

static void soak_end(void)
{
    drive(cuCtxSetCurrent(NULL));
    drive(cuDevicePrimaryCtxRelease(0));
}

/* Runs all rounds, after which there is what there was after 100. */
static void soak(int has_uses, tnr_stats *early, tnr_stats *late)
{
    uint64_t random = 1, round = 0;
    soak_begin();
    while (round < 100)
        soak_round(++round, &random, has_uses);
    *early = unit_stats();
    while (round < rounds)
        soak_round(++round, &random, has_uses);
    *late = unit_stats();
    soak_end();
    assert_int_equal(late->pools, early->pools);
    assert_int_equal(late->arenas, early->arenas);
    assert_int_equal(late->bytes_live, 0);
    assert_int_equal(late->reserved_bytes.current, early->reserved_bytes.current);
}

/* The host's memory is what it was, but for a twentieth. */
static void assert_flat(const tnr_stats *early, const tnr_stats *late)
{
    if (late->metadata_bytes > early->metadata_bytes + early->metadata_bytes / 20)
        fail_msg("%llu bytes of metadata after 100 rounds, %llu after %llu",
                 (unsigned long long)early->metadata_bytes,
                 (unsigned long long)late->metadata_bytes, (unsigned long long)rounds);
}

static void what_is_gone_leaves_nothing(void **state)
{
    (void)state;
    if (!unit_knows_the_gone())
        skip();
    tnr_stats early, late;
    soak(1, &early, &late);
    assert_flat(&early, &late);
}

static void pools_and_graphs_leave_nothing(void **state)
{
    (void)state;
    tnr_stats early, late;
    soak(0, &early, &late);
    assert_flat(&early, &late);
}

/* ---- the curve ------------------------------------------------------------------------------ */

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static unsigned long resident_kib(void)
{
    char line[256];
    unsigned long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "VmRSS: %lu", &kib) == 1)
            break;
    if (file != NULL)
        (void)fclose(file);
    return kib;
}

static int curve(double seconds)
{
    uint64_t random = 1, round = 0, before = 0;
    double began = seconds_now(), line = began;
    soak_begin();
    puts("seconds,round,operations_per_s,metadata_bytes,vmrss_kib,arenas,pools");
    while (line - began < seconds) {
        while (++round % LINE_ROUNDS != 0)
            soak_round(round, &random, 1);
        double now = seconds_now();
        tnr_stats stats = unit_stats();
        printf("%.1f,%llu,%.0f,%llu,%lu,%llu,%llu\n", now - began, (unsigned long long)round,
               (double)(operations - before) / (now - line),
               (unsigned long long)stats.metadata_bytes, resident_kib(),
               (unsigned long long)stats.arenas, (unsigned long long)stats.pools);
        (void)fflush(stdout);
        before = operations;
        line = seconds_now();
    }
    soak_end();
    return unit_stop(NULL) != 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_gone_leaves_nothing, unit_stop),
        cmocka_unit_test_teardown(pools_and_graphs_leave_nothing, unit_stop),
    };
    uses_per_thread = argc == 4 && strcmp(argv[3], "--per-thread") == 0;
    if (argc >= 3 && strcmp(argv[1], "--seconds") == 0)
        return curve(strtod(argv[2], NULL));
    if (argc == 3 && strcmp(argv[1], "--rounds") == 0)
        rounds = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
