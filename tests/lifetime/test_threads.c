/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads: they allocate, record uses on blocks and streams that they share, free in every
 * way, announce, synchronise and destroy streams, and destroy pools. Run under ThreadSanitizer too.
 * Guarantee 1 is checked by the race detector of the simulated device; at the end nothing may be
 * left.
 *
 * Seen to fail with these lines changed in the library, where it says so with a pause of some
 * microseconds that makes the moment longer:
 *   pools_end   retire.c, block_end: the life's lock given up, and taken again after a pause,
 *               between life_unlink and tnri_arena_unretire
 *               collect.c, arena_wait: life_is_busy and batch_fence replaced by 0
 *               collect.c, life_is_busy: "coming" not looked at, with a pause before life_append
 */
#include "life.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, SHARED = 16, BYTES_MAX = 3 << 20 };

static uint64_t operations = 2000; /* the argument of the program */

/* Blocks that all threads record uses on; whoever exchanges one for null frees it. A user holds the
 * lock of the slot, since recording a use of a block that another thread frees is a misuse. */
static struct {
    pthread_mutex_t lock;
    void *ptr;
    size_t bytes;
    CUevent ready;
} shared[SHARED];

static CUcontext device_context;
static tnr_stream shared_streams[LIFE_STREAMS];

typedef struct worker {
    pthread_t thread;
    uint64_t random;
    size_t number;
    tnr_stream own; /* made and destroyed by this thread */
} worker;

static void block_make(worker *w, size_t slot)
{
    tnr_stream stream =
        unit_below(&w->random, 2) ? w->own : shared_streams[unit_below(&w->random, 4)];
    size_t bytes = 4096 + (size_t)unit_below(&w->random, BYTES_MAX);
    void *ptr;
    tnr_status status = tnr_malloc(&ptr, bytes, 0, stream);
    if (status == TNR_ERR_LIMIT)
        return;
    assert_ok(status);
    life_fill(ptr, 4096, (int)slot, stream);
    life_record(shared[slot].ready, stream);
    shared[slot].ptr = ptr;
    shared[slot].bytes = bytes;
}

static void block_use(worker *w, size_t slot)
{
    tnr_stream stream =
        unit_below(&w->random, 2) ? w->own : shared_streams[unit_below(&w->random, 4)];
    int is_first = unit_below(&w->random, 2) != 0;
    if (is_first)
        assert_ok(tnr_record_stream(shared[slot].ptr, stream));
    life_wait(stream, shared[slot].ready);
    life_fill((char *)shared[slot].ptr + 1024, 16, 1, stream);
    if (!is_first)
        assert_ok(tnr_record_use((char *)shared[slot].ptr + 100, stream));
    /* The next user's work comes after this one's. */
    life_record(shared[slot].ready, stream);
}

static void block_end(worker *w, size_t slot)
{
    switch (unit_below(&w->random, 4)) {
    case 0:
        assert_ok(tnr_keep_until(shared[slot].ptr, shared[slot].ready));
        assert_ok(tnr_free(shared[slot].ptr));
        break;
    case 1:
        assert_ok(tnr_free_sync(shared[slot].ptr));
        break;
    case 2:
        assert_ok(tnr_free_on(shared[slot].ptr, shared_streams[unit_below(&w->random, 4)]));
        break;
    default:
        assert_ok(tnr_free(shared[slot].ptr));
    }
    shared[slot].ptr = NULL;
}

static void others(worker *w)
{
    tnr_moment began = tnr_moment_now();
    switch (unit_below(&w->random, 5)) {
    case 0:
        assert_ok(tnr_stream_destroying(0, w->own));
        assert_int_equal(cuStreamDestroy(w->own), CUDA_SUCCESS);
        w->own = life_stream(CU_STREAM_NON_BLOCKING);
        break;
    case 1:
        assert_int_equal(cuStreamSynchronize(w->own), CUDA_SUCCESS);
        assert_ok(tnr_stream_synchronized(0, w->own, began));
        break;
    case 2:
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        assert_ok(tnr_device_synchronized(0, began));
        break;
    case 3:
        assert_ok(tnr_trim(NULL, 16 * MIB, 0));
        break;
    default: {
        void *mine; /* on the thread's default stream */
        if (tnr_malloc(&mine, 64 << 10, 0, CU_STREAM_PER_THREAD) == TNR_OK) {
            assert_ok(tnr_record_use(mine, w->own));
            assert_ok(tnr_free(mine));
        }
    }
    }
}

static void *work(void *data)
{
    worker *w = data;
    assert_int_equal(cuCtxSetCurrent(device_context), CUDA_SUCCESS);
    w->own = life_stream(CU_STREAM_NON_BLOCKING);
    for (uint64_t i = 0; i < operations; i++) {
        size_t slot = (size_t)unit_below(&w->random, SHARED);
        if (unit_below(&w->random, 40) == 0)
            others(w);
        pthread_mutex_lock(&shared[slot].lock);
        if (shared[slot].ptr == NULL)
            block_make(w, slot);
        else if (unit_below(&w->random, 3) == 0)
            block_end(w, slot);
        else
            block_use(w, slot);
        pthread_mutex_unlock(&shared[slot].lock);
    }
    return NULL;
}

static void run(const char *schedule, const char *conf, unsigned seed)
{
    worker workers[THREADS];
    char text[32];
    (void)snprintf(text, sizeof(text), "SEED=%u", seed);
    life_start(conf, schedule, text);
    assert_ok(tnr_limit_set(48 * MIB, 0));
    assert_int_equal(cuCtxGetCurrent(&device_context), CUDA_SUCCESS);
    for (size_t i = 0; i < SHARED; i++) {
        pthread_mutex_init(&shared[i].lock, NULL);
        shared[i].ready = life_event();
    }
    memcpy(shared_streams, life_streams, sizeof(shared_streams));
    for (unsigned t = 0; t < THREADS; t++) {
        workers[t].random = seed * 1000 + t;
        assert_int_equal(pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_join(workers[t].thread, NULL), 0);
    simcuda_run(UINT64_MAX);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    if (simcuda_races() > 0)
        fail_msg("%s", simcuda_race_last());
    for (size_t i = 0; i < SHARED; i++) {
        if (shared[i].ptr != NULL)
            assert_ok(tnr_free(shared[i].ptr));
        shared[i].ptr = NULL;
        pthread_mutex_destroy(&shared[i].lock);
    }
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().blocks_retired, 0);
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
}

static void threads_share(void **state)
{
    static const char *const confs[] = {"address_space_gb:32,reuse:wait,reuse_mark_percent:0",
                                        "address_space_gb:32,reuse:follow",
                                        "address_space_gb:32,reuse:poll,cross_stream:idle"};
    for (unsigned seed = 0; seed < 6; seed++) {
        run(seed % 2 ? "SCHEDULE=threads" : "SCHEDULE=random", confs[seed / 2], seed);
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

/* A block of each thread's pool, for whoever is quicker to free it. */
static void *_Atomic handed[THREADS];

static void handed_free(size_t of)
{
    void *ptr = atomic_exchange(&handed[of], NULL);
    if (ptr != NULL)
        assert_ok(tnr_free(ptr));
}

/* A pool whose blocks are retired is destroyed, again and again. Each thread's collecting looks at
 * the streams of all, so it also ends the blocks of pools that are being destroyed; and another
 * thread may be in the middle of freeing the pool's last block. */
static void *work_pools(void *data)
{
    worker *w = data;
    assert_int_equal(cuCtxSetCurrent(device_context), CUDA_SUCCESS);
    w->own = life_stream(CU_STREAM_NON_BLOCKING);
    for (uint64_t i = 0; i < operations; i++) {
        tnr_pool pool;
        void *ptr[4];
        assert_ok(tnr_pool_create(&pool, 0, NULL));
        for (int b = 0; b < 4; b++) {
            assert_ok(tnr_pool_malloc(&ptr[b], pool, 64 * KIB, 0, w->own));
            assert_ok(tnr_record_use(ptr[b], shared_streams[unit_below(&w->random, 4)]));
        }
        atomic_store(&handed[w->number], ptr[3]);
        assert_ok(tnr_free_sync(ptr[0]));
        assert_ok(tnr_free(ptr[1]));
        assert_ok(tnr_free(ptr[2]));
        handed_free((w->number + 1) % THREADS);
        tnr_status status;
        while ((status = tnr_pool_destroy(pool)) == TNR_ERR_BUSY)
            handed_free(w->number);
        assert_ok(status);
    }
    return NULL;
}

static void pools_end(void **state)
{
    worker workers[THREADS];
    life_start("reuse:poll", "SCHEDULE=eager", NULL);
    assert_int_equal(cuCtxGetCurrent(&device_context), CUDA_SUCCESS);
    memcpy(shared_streams, life_streams, sizeof(shared_streams));
    for (unsigned t = 0; t < THREADS; t++) {
        workers[t].random = t;
        workers[t].number = t;
        assert_int_equal(pthread_create(&workers[t].thread, NULL, work_pools, &workers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_join(workers[t].thread, NULL), 0);
    (void)state;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(threads_share, life_stop),
                                       cmocka_unit_test_teardown(pools_end, life_stop)};
    if (argc > 1)
        operations = strtoull(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
