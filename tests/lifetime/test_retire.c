/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retirement: what waiting blocks cost, what memory pressure does about them, and the structures
 * beneath, against naive models.
 *
 * Seen to fail with these lines changed in the library:
 *   only_heads_are_asked          collect.c, stream_poll: asks about the head twice
 *   the_latest_speaks_for_all     collect.c, stream_poll: the latest never asked about
 *   trim_and_destroy_wait         pool.c, pool_give_back: the call of tnri_collect_pool
 *   out_of_memory_gives_idle_memory_back_too  reclaim.c, tnri_reclaim: the test of `thorough`
 *   an_ending_pool_takes_no_stream_away  pool.c, tnri_pool_arena: the call of tnri_witness_stream
 *   a_growable_block_takes_no_stream_away  growable.c, pool_reserve: the same call
 */
#include "life.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/stream/clock.h"
#include "order/pending.h"

#define BYTES (4 * MIB)

/* ---- costs ---------------------------------------------------------------------------------- */

static void cached_pairs_call_no_driver(void **state)
{
    (void)state;
    enum { WAITING = 1024, PAIRS = 100000 };
    static void *blocks[WAITING];
    life_start("reuse:poll", NULL, NULL);
    for (int i = 0; i < WAITING; i++)
        blocks[i] = unit_malloc(64 << 10, life_streams[0]);
    void *mine = unit_malloc(64 << 10, life_streams[0]);
    void *large = unit_malloc(BYTES, life_streams[0]);
    for (int i = 1; i < LIFE_STREAMS; i++)
        life_gate_close(i, life_streams[i]);
    for (int i = 0; i < WAITING; i++) {
        assert_ok(tnr_record_use(blocks[i], life_streams[1 + i % 3]));
        assert_ok(tnr_free(blocks[i]));
    }
    assert_ok(tnr_free(mine));
    assert_ok(tnr_free(large));
    assert_int_equal(unit_stats().blocks_retired, WAITING);
    uint64_t calls = simcuda_calls_total();
    for (int i = 0; i < PAIRS; i++) {
        void *block;
        assert_ok(tnr_malloc(&block, i % 16 ? 64 << 10 : BYTES, 0, life_streams[0]));
        assert_ok(tnr_free(block));
    }
    assert_int_equal(simcuda_calls_total(), calls);
    assert_int_equal(unit_stats().blocks_retired, WAITING);
}

/* A miss asks about the newest and the oldest of the arena's own blocks (test_collect.c) and, as no
 * block is over, about one use of each stream; where that is over, about the latest, and if that
 * one is not, about one more for each that turns out to be over. */
static void only_heads_are_asked(void **state)
{
    (void)state;
    enum { WAITING = 60, OVER = 10 };
    void *blocks[WAITING];
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    for (int i = 0; i < WAITING; i++)
        blocks[i] = unit_malloc(BYTES, life_streams[0]);
    for (int i = 0; i < WAITING; i++) {
        if (i == OVER)
            life_gate_close(0, life_streams[1]);
        if (i == 0)
            life_gate_close(1, life_streams[2]);
        if (i == 0)
            life_gate_close(2, life_streams[3]);
        for (int s = 1; s < LIFE_STREAMS; s++)
            assert_ok(tnr_record_use(blocks[i], life_streams[s]));
    }
    /* Freed in reverse: the order of the marks counts, not that of the frees. */
    for (int i = WAITING; i-- > 0;)
        assert_ok(tnr_free(blocks[i]));
    simcuda_run(UINT64_MAX);
    uint64_t queries = simcuda_calls("cuEventQuery");
    (void)unit_malloc(BYTES, life_streams[0]);
    assert_true(simcuda_calls("cuEventQuery") - queries <= 2 + OVER + 4);
    assert_int_equal(unit_stats().blocks_retired, WAITING);
    queries = simcuda_calls("cuEventQuery");
    (void)unit_malloc(BYTES, life_streams[0]);
    assert_true(simcuda_calls("cuEventQuery") - queries <= 2 + 3);
    life_gate_open(1);
    life_gate_open(2);
    simcuda_run(UINT64_MAX);
    (void)unit_malloc(BYTES, life_streams[0]);
    assert_int_equal(unit_stats().blocks_retired, WAITING - OVER);
}

/* Where all uses are over, the latest of each stream says so for all of them. */
static void the_latest_speaks_for_all(void **state)
{
    (void)state;
    enum { WAITING = 60 };
    void *blocks[WAITING];
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    for (int i = 0; i < WAITING; i++) {
        blocks[i] = unit_malloc(BYTES, life_streams[0]);
        for (int s = 1; s < LIFE_STREAMS; s++)
            assert_ok(tnr_record_use(blocks[i], life_streams[s]));
    }
    for (int i = 0; i < WAITING; i++)
        assert_ok(tnr_free(blocks[i]));
    simcuda_run(UINT64_MAX);
    uint64_t queries = simcuda_calls("cuEventQuery");
    (void)unit_malloc(BYTES, life_streams[0]);
    assert_int_equal(unit_stats().blocks_retired, 0);
    assert_true(simcuda_calls("cuEventQuery") - queries <= 3 * (LIFE_STREAMS - 1));
}

/* ---- memory pressure ------------------------------------------------------------------------ */

/* PyTorch runs out of memory here, or waits for everything. Eight blocks fill the limit, their uses
 * end at gates of their own; a request for one block waits for one. */
static void out_of_memory_waits_for_as_many_as_needed(void **state)
{
    (void)state;
    enum { COUNT = 8 };
    void *blocks[COUNT];
    life_start("reuse:poll,cross_stream:off", "DEADLOCK_MS=300", NULL);
    assert_ok(tnr_limit_set(COUNT * BYTES, 0));
    for (int i = 0; i < COUNT; i++)
        blocks[i] = unit_malloc(BYTES, life_streams[0]);
    for (int i = 0; i < COUNT; i++) {
        if (i == 4)
            life_gate_close(0, life_streams[1]); /* nothing may wait for what is behind it */
        assert_int_equal(
            cuMemsetD8Async((CUdeviceptr)(uintptr_t)blocks[i], 1, BYTES, life_streams[1]),
            CUDA_SUCCESS);
        assert_ok(tnr_record_use(blocks[i], life_streams[1]));
        assert_ok(tnr_free(blocks[i]));
    }
    assert_int_equal(unit_stats().blocks_retired, COUNT);
    void *again = unit_malloc(BYTES, life_streams[0]);
    assert_non_null(again);
    /* What is asked for, and a page on either side. */
    assert_true(life_host_waits() <= 2);
    assert_true(unit_stats().blocks_retired >= 4);
    assert_true(unit_stats().blocks_retired < COUNT);
    assert_int_equal(unit_stats().num_ooms, 0);
    assert_int_equal(unit_stats().reserved_bytes.current, COUNT * BYTES);
}

/* With a policy that waits on the device, the host does not wait at all. */
static void out_of_memory_prefers_the_device(void **state)
{
    (void)state;
    life_start("reuse:wait,cross_stream:off,reuse_mark_percent:100", NULL, NULL);
    assert_ok(tnr_limit_set(2 * BYTES, 0));
    void *first = unit_malloc(BYTES, life_streams[0]);
    void *second = unit_malloc(BYTES, life_streams[0]);
    life_gate_close(0, life_streams[1]);
    assert_ok(tnr_record_use(first, life_streams[1]));
    assert_ok(tnr_free(first));
    assert_true(life_is_reused(first, BYTES, life_streams[0]));
    assert_int_equal(life_host_waits(), 0);
    assert_int_equal(life_because(TNR_REUSE_WAITED_ON_DEVICE), 1);
    assert_ok(tnr_free(second));
}

/* The memory that another stream's retired blocks hold is found too. */
static void out_of_memory_looks_at_all_streams(void **state)
{
    (void)state;
    for (int run = 0; run < 6; run++) {
        static const char *const confs[] = {"reuse:wait", "reuse:poll",
                                            "reuse:wait,cross_stream:off"};
        life_start(confs[run / 2], NULL, NULL);
        tnr_pool pool = NULL;
        if (run % 2)
            assert_ok(tnr_pool_create(&pool, 0, NULL));
        assert_ok(tnr_limit_set(16 * MIB, 0));
        void *block;
        assert_ok(tnr_pool_malloc(&block, pool, 16 * MIB, 0, life_streams[0]));
        assert_ok(tnr_record_stream(block, life_streams[1]));
        life_fill(block, 16 * MIB, 1, life_streams[1]);
        assert_ok(tnr_free(block));
        void *other = unit_malloc(16 * MIB, life_streams[2]);
        assert_int_equal(unit_stats().blocks_retired, 0);
        assert_ok(tnr_free(other));
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

/* Retired blocks of another stream end one after another, of no use to the request, while
 * idle memory of others would do: reclaiming does not stop at the former. */
static void out_of_memory_gives_idle_memory_back_too(void **state)
{
    (void)state;
    enum { SMALL = 48 };
    void *blocks[SMALL];
    life_start("reuse:poll,cross_stream:off,chunk_max_mb:2", NULL, NULL);
    assert_ok(tnr_limit_set(128 * MIB, 0));
    void *idle = unit_malloc(32 * MIB, life_streams[1]);
    assert_ok(tnr_free(idle));
    for (int i = 0; i < SMALL; i++)
        blocks[i] = unit_malloc(2 * MIB, life_streams[0]);
    for (int i = 0; i < SMALL; i++) {
        assert_ok(tnr_record_stream(blocks[i], life_streams[2]));
        assert_ok(tnr_free(blocks[i]));
    }
    assert_int_equal(unit_stats().blocks_retired, SMALL);
    void *asked = unit_malloc(16 * MIB, life_streams[3]);
    assert_int_equal(unit_stats().num_ooms, 0);
    assert_ok(tnr_free(asked));
}

static _Atomic int waiter_is_done;
static tnr_pool waiter_pool;

static void *waiter_trim(void *unused)
{
    (void)unused;
    tnr_status status = tnr_trim(NULL, 0, 0);
    atomic_store(&waiter_is_done, 1);
    return (void *)(uintptr_t)status;
}

static void *waiter_destroy(void *unused)
{
    (void)unused;
    tnr_status status = tnr_pool_destroy(waiter_pool);
    atomic_store(&waiter_is_done, 1);
    return (void *)(uintptr_t)status;
}

/* A block waits for a stream that has an arena in this pool alone, and that nothing else names. */
static void *block_in_pool(int sync)
{
    void *block;
    void *other;
    assert_ok(tnr_pool_malloc(&block, waiter_pool, BYTES, 0, life_streams[0]));
    assert_ok(tnr_pool_malloc(&other, waiter_pool, BYTES, 0, life_streams[1]));
    life_gate_close(0, life_streams[1]);
    if (!sync)
        assert_ok(tnr_record_use(block, life_streams[1]));
    assert_ok(tnr_free(other));
    (void)life_read(block, BYTES, life_streams[1]);
    if (!sync)
        assert_ok(tnr_record_use(block, life_streams[1]));
    assert_ok(sync ? tnr_free_sync(block) : tnr_free(block));
    return block;
}

static void trim_and_destroy_wait(void **state)
{
    (void)state;
    for (int run = 0; run < 4; run++) {
        life_start("reuse:poll", NULL, NULL);
        pthread_t thread;
        void *status;
        const struct timespec nap = {0, 2000000};
        assert_ok(tnr_pool_create(&waiter_pool, 0, NULL));
        (void)block_in_pool(run / 2);
        atomic_store(&waiter_is_done, 0);
        assert_int_equal(
            pthread_create(&thread, NULL, run % 2 ? waiter_trim : waiter_destroy, NULL), 0);
        for (int i = 0; i < 50 && !atomic_load(&waiter_is_done); i++)
            nanosleep(&nap, NULL);
        assert_false(atomic_load(&waiter_is_done));
        life_gate_open(0);
        assert_int_equal(pthread_join(thread, &status), 0);
        assert_int_equal((uintptr_t)status, TNR_OK);
        assert_int_equal(unit_stats().reserved_bytes.current, 0);
        assert_int_equal(simcuda_violations(), 0);
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

/* A stream is known for as long as it lives, though the pool that it allocated from has ended: here
 * the block that it uses is in another pool. */
static void an_ending_pool_takes_no_stream_away(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    tnr_pool pool;
    void *theirs;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&theirs, pool, BYTES, 0, life_streams[1]));
    assert_ok(tnr_free(theirs));
    void *block = unit_malloc(BYTES, life_streams[0]);
    assert_ok(tnr_trim(NULL, 0, 0)); /* so that the pool's end waits for nothing */
    life_gate_close(0, life_streams[1]);
    (void)life_read(block, BYTES, life_streams[1]);
    assert_ok(tnr_free_sync(block));
    assert_ok(tnr_pool_destroy(pool));
    simcuda_run(UINT64_MAX);
    assert_false(life_is_reused(block, BYTES, life_streams[0]));
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    assert_true(life_is_reused(block, BYTES, life_streams[0]));
}

/* The same with a growable block, whose addresses then serve another stream. */
static void a_growable_block_takes_no_stream_away(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    void *theirs;
    void *others;
    assert_ok(tnr_reserve(&theirs, BYTES, 0, life_streams[1]));
    assert_ok(tnr_free(theirs));
    assert_ok(tnr_reserve(&others, BYTES, 0, life_streams[2]));
    assert_ptr_equal(others, theirs);
    void *block = unit_malloc(BYTES, life_streams[0]);
    life_gate_close(0, life_streams[1]);
    (void)life_read(block, BYTES, life_streams[1]);
    assert_ok(tnr_free_sync(block));
    void *miss = unit_malloc(BYTES, life_streams[0]); /* fences it */
    simcuda_run(UINT64_MAX);
    assert_false(life_is_reused(block, BYTES, life_streams[0]));
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    assert_true(life_is_reused(block, BYTES, life_streams[0]));
    assert_ok(tnr_free(miss));
    assert_ok(tnr_free(others));
}

/* Streams that are known in this way come and go: their witnesses serve again, and none names a
 * stream that was destroyed. */
static void witnesses_serve_again(void **state)
{
    (void)state;
    enum { ROUNDS = 100 };
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    uint64_t host_bytes = 0;
    for (int i = 0; i < ROUNDS; i++) {
        CUstream stream;
        tnr_pool pool;
        void *block;
        assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        assert_ok(tnr_pool_create(&pool, 0, NULL));
        assert_ok(tnr_pool_malloc(&block, pool, BYTES, 0, stream));
        assert_ok(tnr_free(block));
        assert_ok(tnr_pool_destroy(pool));
        assert_ok(tnr_stream_destroying(0, stream));
        assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
        block = unit_malloc(BYTES, life_streams[0]);
        assert_ok(tnr_free_sync(block));
        assert_ok(tnr_trim(NULL, 0, 0)); /* fences it */
        if (i == ROUNDS / 2)
            host_bytes = unit_stats().metadata_bytes;
    }
    /* The structures of ended pools stay, a few hundred bytes each; an arena has some kilobytes. */
    assert_true(unit_stats().metadata_bytes <= host_bytes + ROUNDS / 2 * 1024);
    assert_int_equal(simcuda_violations(), 0);
}

/* ---- structures ----------------------------------------------------------------------------- */

static void pending_heap_is_a_queue_by_number(void **state)
{
    (void)state;
    enum { USES = 200, STEPS = 20000 };
    static tnri_use uses[USES];
    static int is_in[USES];
    tnri_use *heap = NULL;
    uint64_t random = 7;
    uint64_t number = 0;
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)unit_below(&random, USES);
        if (!is_in[i]) {
            uses[i].number = unit_below(&random, 4) ? ++number : unit_below(&random, number + 1);
            tnri_pending_insert(&heap, &uses[i]);
            is_in[i] = 1;
        } else {
            if (unit_below(&random, 2))
                i = (size_t)(heap - uses);
            tnri_pending_remove(&heap, &uses[i]);
            is_in[i] = 0;
        }
        uint64_t least = UINT64_MAX;
        for (size_t k = 0; k < USES; k++)
            if (is_in[k] && uses[k].number < least)
                least = uses[k].number;
        if (heap == NULL)
            assert_true(least == UINT64_MAX);
        else
            assert_int_equal(heap->number, least);
    }
}

static void clocks_join_as_arrays_do(void **state)
{
    (void)state;
    enum { CLOCKS = 6, INDEXES = 12, STEPS = 20000 };
    tnri_clock *clocks[CLOCKS] = {NULL};
    uint64_t naive[CLOCKS][INDEXES] = {{0}};
    uint64_t random = 11;
    life_start(NULL, NULL, NULL);
    for (int step = 0; step < STEPS; step++) {
        size_t to = (size_t)unit_below(&random, CLOCKS);
        size_t from = (size_t)unit_below(&random, CLOCKS);
        size_t index = (size_t)unit_below(&random, INDEXES);
        uint64_t number = unit_below(&random, 1000);
        if (unit_below(&random, 50) == 0) {
            tnri_clock_drop(clocks[to]);
            clocks[to] = NULL;
            memset(naive[to], 0, sizeof(naive[to]));
            continue;
        }
        tnri_clock *kept = tnri_clock_hold(clocks[to]);
        uint64_t before[INDEXES];
        for (size_t i = 0; i < INDEXES; i++)
            before[i] = tnri_clock_of(kept, i);
        clocks[to] = tnri_clock_join(clocks[to], clocks[from], index, number);
        for (size_t i = 0; i < INDEXES; i++) /* clocks do not change */
            assert_int_equal(tnri_clock_of(kept, i), before[i]);
        tnri_clock_drop(kept);
        for (size_t i = 0; i < INDEXES; i++)
            if (naive[from][i] > naive[to][i])
                naive[to][i] = naive[from][i];
        if (number > naive[to][index])
            naive[to][index] = number;
        for (size_t i = 0; i < INDEXES; i++)
            assert_int_equal(tnri_clock_of(clocks[to], i), naive[to][i]);
    }
    for (size_t i = 0; i < CLOCKS; i++)
        tnri_clock_drop(clocks[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(cached_pairs_call_no_driver, life_stop),
        cmocka_unit_test_teardown(only_heads_are_asked, life_stop),
        cmocka_unit_test_teardown(the_latest_speaks_for_all, life_stop),
        cmocka_unit_test_teardown(out_of_memory_waits_for_as_many_as_needed, life_stop),
        cmocka_unit_test_teardown(out_of_memory_prefers_the_device, life_stop),
        cmocka_unit_test_teardown(out_of_memory_looks_at_all_streams, life_stop),
        cmocka_unit_test_teardown(out_of_memory_gives_idle_memory_back_too, life_stop),
        cmocka_unit_test_teardown(trim_and_destroy_wait, life_stop),
        cmocka_unit_test_teardown(an_ending_pool_takes_no_stream_away, life_stop),
        cmocka_unit_test_teardown(a_growable_block_takes_no_stream_away, life_stop),
        cmocka_unit_test_teardown(witnesses_serve_again, life_stop),
        cmocka_unit_test(pending_heap_is_a_queue_by_number),
        cmocka_unit_test_teardown(clocks_join_as_arrays_do, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
