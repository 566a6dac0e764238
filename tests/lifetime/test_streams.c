/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that end: their memory goes to the next stream behind a wait, their handles come back as
 * other streams, their blocks live on.
 *
 * Seen to fail with these lines changed in the library:
 *   the_next_stream_waits         pool.c, arena_adopt: the call of tnri_event_order
 *   untold_ends_are_noticed       stream.c, stream_find_slowly: the comparison of the ids
 *   uses_survive_their_stream     stream.c, stream_record: what a sealed stream gives
 *   a_second_end_asks_...         announce.c, tnr_stream_destroying: the look at what is known
 *   the_end_of_a_growable_...     pool.c, tnri_pool_knows: the growable blocks
 */
#include "life.h"
#include "few.h"

#include <stdio.h>
#include <string.h>

#define BYTES (4 * MIB)

static void stream_end(tnr_stream stream, int told)
{
    if (told)
        assert_ok(tnr_stream_destroying(0, stream));
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
}

/* First in the program: the layer above the allocator is then not registered by any other call. */
static void streams_alone_leave_nothing(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    tnr_stream stream = life_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = life_event();
    assert_ok(tnr_stream_created(0, stream));
    life_record(event, stream);
    life_wait(life_streams[0], event);
    void *block = unit_malloc(BYTES, stream);
    assert_ok(tnr_free(block));
    stream_end(stream, 1);
    assert_ok(tnr_stream_destroying(0, life_streams[1])); /* never seen before */
    assert_ok(tnr_shutdown(0));
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.events, 1); /* the test's own */
    assert_int_equal(live.streams, LIFE_STREAMS);
}

/* Some programs end a stream twice: CuPy's Stream.from_external makes an object that owns what
 * another one owns. A driver that is asked about a handle that is gone may end the process, and the
 * simulated device counts a violation, which fails the test. */
static void a_second_end_asks_the_driver_nothing(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    for (int use = 0; use < 4; use++) {
        tnr_stream stream = life_stream(CU_STREAM_NON_BLOCKING);
        void *block = unit_malloc(BYTES, use == 1 ? stream : life_streams[0]);
        if (use == 2)
            assert_ok(tnr_stream_created(0, stream));
        if (use == 3)
            assert_ok(tnr_record_use(block, stream));
        assert_ok(tnr_free(block));
        stream_end(stream, 1);
        uint64_t calls = simcuda_calls_total();
        assert_ok(tnr_stream_destroying(0, stream));
        assert_int_equal(simcuda_calls_total(), calls);
        assert_int_equal(simcuda_violations(), 0);
    }
}

/* A growable block is all that is known of its stream. */
static void the_end_of_a_growable_blocks_stream_is_seen(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    tnr_stream stream = life_stream(CU_STREAM_NON_BLOCKING);
    void *block = NULL;
    assert_ok(tnr_reserve(&block, 4 * BYTES, 0, stream));
    assert_ok(tnr_commit(block, BYTES));
    uint64_t records = simcuda_calls("cuEventRecord");
    stream_end(stream, 1);
    assert_int_equal(simcuda_calls("cuEventRecord"), records + 1); /* the seal */
    assert_ok(tnr_free(block));
    assert_ok(tnr_validate(-1));
}

/* The memory of a destroyed stream is taken over by the next new one, which is made to wait. */
static void the_next_stream_waits(void **state)
{
    (void)state;
    for (int seed = 0; seed < few_or(24, 6); seed++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "SEED=%d", seed);
        life_start("cross_stream:off", seed == 0 ? "SCHEDULE=lazy" : "SCHEDULE=random", text);
        tnr_stream old = life_stream(CU_STREAM_NON_BLOCKING);
        void *block = unit_malloc(BYTES, old);
        life_fill(block, BYTES, 1, old);
        if (seed % 2)
            life_gate_close(0, old);
        unsigned char *read = life_read(block, BYTES, old);
        if (seed % 3)
            assert_ok(tnr_free(block));
        stream_end(old, 1);
        if (seed % 3 == 0) /* a live block of a destroyed stream is freed as usual */
            assert_ok(tnr_free(block));
        tnr_stream fresh = life_stream(CU_STREAM_NON_BLOCKING);
        assert_ptr_equal(fresh, old); /* the handle is recycled at once */
        uint64_t created = unit_stats().chunks_created;
        assert_true(life_is_reused(block, BYTES, fresh));
        assert_int_equal(unit_stats().chunks_created, created);
        assert_int_equal(unit_stats().arenas, 1);
        life_fill(block, BYTES, 2, fresh);
        unsigned char *last = life_read(block, BYTES, fresh);
        assert_int_equal(life_host_waits(), 0);
        life_gate_open(0);
        simcuda_run(UINT64_MAX);
        assert_true(life_all(read, BYTES, 1));
        assert_true(life_all(last, BYTES, 2));
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

/* Blocks that were live when their stream ended, used elsewhere, freed later: before and after
 * another stream has taken the arena over. */
static void live_blocks_outlive_their_stream(void **state)
{
    (void)state;
    for (int adopted = 0; adopted < 2; adopted++) {
        life_start("reuse:wait,cross_stream:off,reuse_mark_percent:0", NULL, NULL);
        tnr_stream old = life_stream(CU_STREAM_NON_BLOCKING);
        void *block = unit_malloc(BYTES, old);
        life_fill(block, BYTES, 1, old);
        assert_int_equal(cuStreamSynchronize(old), CUDA_SUCCESS);
        life_gate_close(0, life_streams[1]);
        unsigned char *read = life_read(block, BYTES, life_streams[1]);
        assert_ok(tnr_record_use(block, life_streams[1]));
        stream_end(old, 1);
        void *other = adopted ? unit_malloc(BYTES, life_streams[0]) : NULL;
        assert_ok(tnr_free(block));
        assert_int_equal(unit_stats().blocks_retired, 1);
        assert_true(life_is_reused(block, BYTES, life_streams[0]));
        assert_int_equal(unit_stats().arenas, 1);
        assert_int_equal(life_because(TNR_REUSE_WAITED_ON_DEVICE), 1);
        life_fill(block, BYTES, 2, life_streams[0]);
        simcuda_run(UINT64_MAX);
        life_gate_open(0);
        simcuda_run(UINT64_MAX);
        assert_true(life_all(read, BYTES, 1));
        assert_ok(tnr_free(other));
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

/* A stream that used a block ends before the block is freed: until the free means until its end. */
static void uses_survive_their_stream(void **state)
{
    (void)state;
    for (int precise = 0; precise < 2; precise++) {
        life_start("reuse:poll,cross_stream:off", NULL, NULL);
        tnr_stream user = life_stream(CU_STREAM_NON_BLOCKING);
        void *block = unit_malloc(BYTES, life_streams[0]);
        assert_ok(precise ? tnr_record_use(block, user) : tnr_record_stream(block, user));
        life_gate_close(0, user);
        (void)life_read(block, BYTES, user);
        if (precise)
            assert_ok(tnr_record_use(block, user));
        stream_end(user, 1);
        tnr_stream recycled = life_stream(CU_STREAM_NON_BLOCKING);
        assert_ptr_equal(recycled, user);
        assert_ok(tnr_stream_created(0, recycled));
        assert_ok(tnr_free(block));
        simcuda_run(UINT64_MAX);
        assert_false(life_is_reused(block, BYTES, life_streams[0]));
        life_gate_open(0);
        simcuda_run(UINT64_MAX);
        assert_true(life_is_reused(block, BYTES, life_streams[0]));
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL);
}

/* What was known of the old stream is not taken for the new one's. */
static void a_recycled_handle_is_a_new_stream(void **state)
{
    (void)state;
    life_start("reuse:follow,cross_stream:off", NULL, NULL);
    tnr_stream own = life_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = life_event();
    life_gate_close(0, life_streams[1]);
    life_record(event, life_streams[1]);
    void *first = unit_malloc(BYTES, life_streams[0]);
    assert_ok(tnr_record_use(first, life_streams[1]));
    life_record(event, life_streams[1]);
    life_wait(own, event); /* the old stream waits for the use */
    stream_end(own, 1);
    tnr_stream fresh = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ptr_equal(fresh, own);
    assert_ok(tnr_stream_created(0, fresh));
    CUevent second = life_event();
    life_record(second, fresh); /* the new one does not */
    life_wait(life_streams[0], second);
    assert_ok(tnr_free(first));
    assert_int_equal(unit_stats().blocks_retired, 1);
    assert_false(life_is_reused(first, BYTES, life_streams[0]));
}

/* Nobody said that the stream ended. That is noticed at the next use of the handle by a thread that
 * has not seen it; then the old stream's memory is only given on when its work is over. */
static void untold_ends_are_noticed(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", "RACES=1", NULL);
    tnr_stream old = life_stream(CU_STREAM_NON_BLOCKING);
    void *block = unit_malloc(BYTES, old);
    void *elsewhere = unit_malloc(BYTES, life_streams[0]);
    life_fill(block, BYTES, 1, old);
    unsigned char *read = life_read(block, BYTES, old); /* queued: the schedule is lazy */
    assert_ok(tnr_record_use(elsewhere, old));
    assert_ok(tnr_free(block));
    stream_end(old, 0);
    tnr_stream fresh = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ptr_equal(fresh, old);
    tnr_stream other = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(tnr_stream_created(0, other));
    assert_ok(tnr_stream_destroying(0, other)); /* empties caches */
    assert_ok(tnr_record_use(elsewhere, fresh));
    assert_true(life_is_reused(block, BYTES, fresh));
    life_fill(block, BYTES, 2, fresh);
    simcuda_run_stream(fresh, UINT64_MAX); /* the new stream's work first, if it may */
    simcuda_run(UINT64_MAX);
    assert_true(life_all(read, BYTES, 1));
    assert_int_equal(simcuda_races(), 0);
}

/* Many streams that come and go leave no arenas, objects or events behind. */
static void streams_come_and_go(void **state)
{
    (void)state;
    life_start("reuse:wait", "SCHEDULE=random", NULL);
    uint64_t metadata = 0;
    uint64_t events = 0;
    const int rounds = few_or(2000, 300);
    void *kept = unit_malloc(BYTES, life_streams[0]);
    for (int i = 0; i < rounds; i++) {
        tnr_stream stream = life_stream(i % 3 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
        void *block = unit_malloc(BYTES, stream);
        life_fill(block, BYTES, i, stream);
        assert_ok(tnr_record_use(block, life_streams[0]));
        assert_ok(tnr_record_use(kept, stream));
        if (i % 2)
            assert_ok(tnr_free(block));
        stream_end(stream, 1);
        if (i % 2 == 0)
            assert_ok(tnr_free(block));
        if (i % 50 == 49) {
            assert_ok(tnr_free(kept));
            kept = unit_malloc(BYTES, life_streams[0]);
        }
        simcuda_live live;
        assert_int_equal(simcuda_live_get(0, &live), 0);
        if (i == rounds / 2) {
            metadata = unit_stats().metadata_bytes;
            events = live.events;
        } else if (i > rounds / 2) {
            assert_true(unit_stats().metadata_bytes <= metadata + (64 << 10));
            /* Blocks of another arena are retired until it allocates, or all streams are asked: two
             * of `kept`, of 50 uses each, may be. 16,000 rounds need no more events than 2,000. */
            assert_true(live.events <= events + 128);
        }
    }
    assert_true(unit_stats().arenas <= 3);
    assert_true(unit_stats().reserved_bytes.peak <= 64 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(streams_alone_leave_nothing, life_stop),
        cmocka_unit_test_teardown(a_second_end_asks_the_driver_nothing, life_stop),
        cmocka_unit_test_teardown(the_end_of_a_growable_blocks_stream_is_seen, life_stop),
        cmocka_unit_test_teardown(the_next_stream_waits, life_stop),
        cmocka_unit_test_teardown(live_blocks_outlive_their_stream, life_stop),
        cmocka_unit_test_teardown(uses_survive_their_stream, life_stop),
        cmocka_unit_test_teardown(a_recycled_handle_is_a_new_stream, life_stop),
        cmocka_unit_test_teardown(untold_ends_are_noticed, life_stop),
        cmocka_unit_test_teardown(streams_come_and_go, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
