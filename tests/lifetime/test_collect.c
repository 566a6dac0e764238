/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request asks the driver if it finds no room. It asks about the oldest retired blocks of
 * its own arena, and about many of them in a few questions. Each question takes the driver's lock.
 * A block of another arena would take that arena's lock, too.
 *
 * Seen to fail with these lines of lifetime/order/collect.c changed:
 *   others_are_not_asked      tnri_collect_arena: without the way of TNRI_COLLECT_OWN
 *                             uses_ask: without tnri_stream_completed
 *   an_answer_is_for_all      uses_ask: without tnri_stream_is_over
 *   many_are_asked_by_halves  oldest_ask: "middle = from + 1", too many questions
 *                             arena_end_over: all end, though uses of some are not over
 *   spare_events_are_bounded  memory/stream/mark.h, tnri_stream_mark_end: without
 *   TNRI_STREAM_SPARES_MAX spare_events_go_with_it   memory/stream/stream.c, spares_drop: the first
 *   alone; stream_seal: without
 *                             it (an assertion when the device ends, for both)
 */
#include "life.h"

enum { OWN, OTHER, USER, USER_OF_OTHER };
enum { MANY = 300, LITTLE = 4096, OWNING = 4, KEPT_MAX = 65 };
enum { BLOCKS = 24, OVER = 10, QUESTIONS = 7 };
#define BYTES (4 * MIB)

static const char conf[] = "reuse:poll,cross_stream:off";

/* A block of `own` that `user` has used, and that is freed. */
static void *retired(tnr_stream own, tnr_stream user)
{
    void *block = unit_malloc(BYTES, own);
    assert_ok(tnr_record_use(block, user));
    assert_ok(tnr_free(block));
    return block;
}

static void others_are_not_asked(void **state)
{
    (void)state;
    life_start(conf, NULL, NULL);
    void *block = retired(life_streams[OWN], life_streams[USER]);
    void *other = retired(life_streams[OTHER], life_streams[USER_OF_OTHER]);
    simcuda_run(UINT64_MAX);
    uint64_t before = simcuda_calls("cuEventQuery");
    assert_true(life_is_reused(block, BYTES, life_streams[OWN]));
    assert_int_equal(simcuda_calls("cuEventQuery") - before, 1);
    assert_int_equal(unit_stats().blocks_retired, 1);
    assert_true(life_is_reused(other, BYTES, life_streams[OTHER]));
    assert_int_equal(unit_stats().blocks_retired, 0);
    assert_int_equal(life_because(TNR_REUSE_EVENT_DONE), 2);
}

static void an_answer_is_for_all(void **state)
{
    (void)state;
    life_start(conf, NULL, NULL);
    void *other = retired(life_streams[OTHER], life_streams[USER]);
    void *block = retired(life_streams[OWN], life_streams[USER]);
    simcuda_run(UINT64_MAX);
    assert_true(life_is_reused(block, BYTES, life_streams[OWN]));
    uint64_t before = simcuda_calls("cuEventQuery");
    assert_true(life_is_reused(other, BYTES, life_streams[OTHER]));
    assert_int_equal(simcuda_calls("cuEventQuery") - before, 0);
}

/* The stream that uses the blocks has come to a gate behind the first of them. */
static void many_are_asked_by_halves(void **state)
{
    void *blocks[BLOCKS];
    (void)state;
    life_start(conf, NULL, NULL);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_malloc(BYTES, life_streams[OWN]);
    for (int i = 0; i < BLOCKS; i++) {
        if (i == OVER)
            life_gate_close(0, life_streams[USER]);
        assert_ok(tnr_record_use(blocks[i], life_streams[USER]));
    }
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(tnr_free(blocks[i]));
    simcuda_run(UINT64_MAX);
    uint64_t created = unit_stats().chunks_created;
    uint64_t before = simcuda_calls("cuEventQuery");
    (void)unit_malloc(BYTES, life_streams[OWN]);
    assert_in_range(simcuda_calls("cuEventQuery") - before, 1, QUESTIONS);
    assert_int_equal(unit_stats().blocks_retired, BLOCKS - OVER);
    assert_int_equal(unit_stats().chunks_created, created);
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    for (int i = 1; i < BLOCKS; i++)
        (void)unit_malloc(BYTES, life_streams[OWN]);
    assert_int_equal(unit_stats().blocks_retired, 0);
    assert_int_equal(unit_stats().chunks_created, created);
}

/* ---- events for the next marks -------------------------------------------------------------- */

/* MANY blocks of a stream's that end at once: so many events are spare then. The thread has had the
 * user's lock for so long that it owns it, where there are owners, and so keeps them there. */
static void many_end(tnr_stream user)
{
    static void *blocks[MANY];
    for (int i = 0; i < MANY; i++)
        blocks[i] = unit_malloc(LITTLE, life_streams[OWN]);
    for (int i = 0; i < OWNING * MANY; i++)
        assert_ok(tnr_record_use(blocks[i % MANY], user));
    for (int i = 0; i < MANY; i++)
        assert_ok(tnr_free(blocks[i]));
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().blocks_retired, 0);
}

/* Marks of another stream on so many blocks. Returns how many events were created for them. */
static uint64_t marks_create(tnr_stream user)
{
    static void *blocks[MANY];
    uint64_t before = simcuda_calls("cuEventCreate");
    for (int i = 0; i < MANY; i++) {
        blocks[i] = unit_malloc(LITTLE, life_streams[OWN]);
        assert_ok(tnr_record_use(blocks[i], user));
    }
    uint64_t created = simcuda_calls("cuEventCreate") - before;
    for (int i = 0; i < MANY; i++)
        assert_ok(tnr_free(blocks[i]));
    return created;
}

static void spare_events_are_bounded(void **state)
{
    (void)state;
    life_start(conf, NULL, NULL);
    many_end(life_streams[USER]);
    assert_in_range(marks_create(life_streams[USER_OF_OTHER]), 0, KEPT_MAX);
}

static void spare_events_go_with_it(void **state)
{
    (void)state;
    life_start(conf, NULL, NULL);
    tnr_stream user = life_stream(CU_STREAM_NON_BLOCKING);
    many_end(user);
    assert_ok(tnr_stream_destroying(0, user));
    assert_int_equal(cuStreamDestroy(user), CUDA_SUCCESS);
    assert_in_range(marks_create(life_streams[USER_OF_OTHER]), 0, 1); /* the seal has one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(others_are_not_asked, life_stop),
        cmocka_unit_test_teardown(an_answer_is_for_all, life_stop),
        cmocka_unit_test_teardown(many_are_asked_by_halves, life_stop),
        cmocka_unit_test_teardown(spare_events_are_bounded, life_stop),
        cmocka_unit_test_teardown(spare_events_go_with_it, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
