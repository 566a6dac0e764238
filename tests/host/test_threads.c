/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate host memory, fill it, copy from it and free it, at once: two near each
 * device, the copies with streams that others use too. The simulated device runs the copies on
 * threads of its own, so a buffer that is handed out early is filled while it is read, which the
 * copy's bytes show, and ThreadSanitizer.
 *
 * Lines taken out of the library to see a test fail:
 *   ladder_place, the call of tnri_turn_begin: growth_takes_turns
 */
#include "host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, DEVICES = 2, SMALL = 4096 };

static unsigned rounds = 200;
static tnr_stream streams[DEVICES];
static atomic_uint wrong;

static void *thread_run(void *data)
{
    unsigned number = (unsigned)(uintptr_t)data;
    int device = (int)(number % DEVICES);
    uint64_t random = number + 1;
    void *on_device = NULL;
    unsigned char *back = NULL;
    host_context_enter(device);
    if (tnr_malloc(&on_device, 64 * KIB, device, streams[device]) != TNR_OK ||
        tnr_host_malloc_near((void **)&back, 64 * KIB, device) != TNR_OK)
        atomic_fetch_add(&wrong, 1);
    for (unsigned i = 0; i < rounds && atomic_load(&wrong) == 0; i++) {
        size_t bytes = SMALL + unit_below(&random, 60 * KIB);
        void *buffer = NULL;
        if (tnr_host_malloc_near(&buffer, bytes, device) != TNR_OK) {
            atomic_fetch_add(&wrong, 1);
            break;
        }
        host_fill(buffer, bytes, i + number);
        CUresult result =
            cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)on_device, buffer, bytes, streams[device]);
        tnr_status status = tnr_free_on(buffer, streams[device]);
        if (i % 8 == 0) { /* the copies of both threads of the device are through then */
            unsigned char *other = NULL;
            if (tnr_host_malloc_near((void **)&other, bytes, device) == TNR_OK) {
                memset(other, 0, bytes);
                if (tnr_host_free(other) != TNR_OK)
                    atomic_fetch_add(&wrong, 1);
            }
        }
        if (result != CUDA_SUCCESS || status != TNR_OK ||
            cuMemcpyDtoHAsync(back, (CUdeviceptr)(uintptr_t)on_device, bytes, streams[device]) !=
                CUDA_SUCCESS ||
            cuStreamSynchronize(streams[device]) != CUDA_SUCCESS ||
            !host_matches(back, bytes, i + number))
            atomic_fetch_add(&wrong, 1);
    }
    if (tnr_host_free(back) != TNR_OK || tnr_free(on_device) != TNR_OK)
        atomic_fetch_add(&wrong, 1);
    host_context_leave(device);
    return NULL;
}

static void threads_share_it(void **state)
{
    (void)state;
    for (host_kind kind = 0; kind < HOST_KINDS; kind++) {
        unit_start(kind == HOST_MAPPED ? "host:mapped" : "host:allocated", "SCHEDULE=threads",
                   "DEVICES=2", NULL);
        pthread_t threads[THREADS];
        for (int i = 0; i < DEVICES; i++)
            streams[i] = unit_stream(i);
        for (uintptr_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, thread_run, (void *)i), 0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(atomic_load(&wrong), 0);
        for (int i = 0; i < DEVICES; i++)
            assert_int_equal(host_stats(i).bytes_live, 0);
        unit_stop(NULL);
    }
}

/* Threads that find host memory unused, all at once. */
static void *first_run(void *data)
{
    void *ptr = NULL;
    (void)data;
    if (tnr_host_malloc(&ptr, 1 * MIB) != TNR_OK)
        atomic_fetch_add(&wrong, 1);
    else
        memset(ptr, 1, 1 * MIB);
    return ptr;
}

static void one_of_them_begins(void **state)
{
    (void)state;
    for (unsigned round = 0; round < rounds / 20 + 1; round++) {
        unit_start(round % 2 == 0 ? "host:mapped" : "host:allocated", "SCHEDULE=lazy", NULL);
        pthread_t threads[THREADS];
        void *blocks[THREADS];
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, first_run, NULL), 0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], &blocks[i]), 0);
        assert_int_equal(atomic_load(&wrong), 0);
        simcuda_live live;
        assert_int_equal(simcuda_live_get(-1, &live), 0);
        assert_int_equal(live.streams, 1); /* the idle one */
        for (int i = 0; i < THREADS; i++)
            assert_ok(tnr_host_free(blocks[i]));
        (void)host_stats(0);
        unit_stop(NULL);
    }
}

/* Threads that pin the weights of layers, all at once: what they leave between their blocks is a
 * page or two in all, not a corner behind each block that was placed while another one was on its
 * way. */
enum { GROWING = 8, GROWN = 24 };

static void *growing_run(void *data)
{
    static const size_t sizes[] = {3981312, 2654208, 14284800, 7142400};
    void **blocks = data;
    for (int i = 0; i < GROWN; i++)
        if (tnr_host_malloc(&blocks[i], sizes[i % 4]) != TNR_OK)
            atomic_fetch_add(&wrong, 1);
    return NULL;
}

static void growth_takes_turns(void **state)
{
    (void)state;
    static void *blocks[GROWING][GROWN];
    pthread_t threads[GROWING];
    unit_start("host:mapped", "SCHEDULE=lazy", NULL);
    for (int i = 0; i < GROWING; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, growing_run, blocks[i]), 0);
    for (int i = 0; i < GROWING; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&wrong), 0);
    tnr_stats stats = host_stats(0);
    assert_true(stats.reserved_bytes.current <= stats.bytes_live + 8 * MIB);
    for (int i = 0; i < GROWING; i++)
        for (int j = 0; j < GROWN; j++)
            assert_ok(tnr_host_free(blocks[i][j]));
    unit_stop(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(threads_share_it, unit_stop),
        cmocka_unit_test_teardown(one_of_them_begins, unit_stop),
        cmocka_unit_test_teardown(growth_takes_turns, unit_stop),
    };
    if (argc > 1)
        rounds = (unsigned)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests_name("threads with host memory", tests, NULL, NULL);
}
