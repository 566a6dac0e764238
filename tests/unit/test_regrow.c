/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool that grows in pass after pass gives what is idle back, and grows anew (ladder/regrow.h).
 *
 * Broken to see it fail. In pool_may_drift: the setting is not asked (switched_off_it_keeps), nor
 * whether streams trade (who_keeps_to_himself_keeps), nor whether addresses are known
 * (known_memory_stays), nor for lanes (lanes_keep) or low water (before_low_water_nothing_goes). In
 * rounds_look: one round makes a drift, or only four do (three_rounds_make_a_drift); growth is not
 * remembered (rounds_without_growth_do_not_count); it is always low (what_is_in_use_is_no_reason);
 * nobody asks how much is held (what_holds_little_keeps). In tnri_regrow_look: one arena is enough
 * (one_stream_keeps); nobody asks for the budget (only_within_the_budget). In pool_give_back:
 * without tnri_drain_pool (old_mappings_go_along). In tnri_stale_release_over: the event is not
 * asked (what_a_stream_uses_stays), nor whether there is one (what_cannot_be_marked_stays). In
 * cuttings_end: what is put back is not counted as returned (what_a_stream_uses_stays). In
 * tnri_device_may_regrow: either condition alone (moves_come_first, not_more_than_a_burst_allows).
 * In tnri_device_regrew: nothing is charged (only_within_the_budget).
 */
#include "unit.h"

#include <tenure/capture.h>

#include "base/heuristics.h"
#include "library/library.h"
#include "pool/pool.h"

#define CONF "aliases_from:first,chunk_max_mb:2"

enum {
    FIRST_MIB = 32,
    MUCH_MIB = 416,
    ROUND_MORE_MIB = 16, /* what each further round needs more */
    STAYS_MIB = 4
};

static tnr_stream a, b;
static int round_number; /* of the next round */
static int first_mib;    /* what the first one needs beside what stays */

static void start(const char *conf, const char *schedule)
{
    unit_start(conf, schedule, NULL);
    a = unit_stream(0);
    b = unit_stream(0);
    round_number = 0;
    first_mib = FIRST_MIB;
    (void)unit_malloc(STAYS_MIB * MIB, a);
    (void)unit_malloc(STAYS_MIB * MIB, b);
}

/* What the next round of the program needs. */
static size_t round_bytes(void)
{
    return (size_t)(first_mib + ROUND_MORE_MIB * round_number) * MIB;
}

/* A round: a block that is larger than the last round's, found missing when little is in use; and a
 * block of the other stream, found missing when it is there. */
static void round_run(void)
{
    void *large = unit_malloc(round_bytes(), a);
    void *other = unit_malloc((2 + (size_t)(round_number + first_mib / 32)) * MIB, b);
    assert_ok(tnr_free(other));
    assert_ok(tnr_free(large));
    round_number++;
}

static void rounds_run(int rounds)
{
    for (int i = 0; i < rounds; i++)
        round_run();
}

static uint64_t chunks_released(void)
{
    return unit_stats().chunks_released;
}

/* The first request of the next round gives idle memory back, or does not. */
static void assert_regrows(int does)
{
    uint64_t released = chunks_released();
    void *large = unit_malloc(round_bytes(), a);
    if (does)
        assert_true(chunks_released() > released);
    else
        assert_int_equal(chunks_released(), released);
    assert_ok(tnr_free(large));
    assert_int_equal(simcuda_violations(), 0);
    round_number++;
}

/* The low that ends a round is found by the first request of the next. Nothing is idle before the
 * first round has ended, so the pool is low until then, and what stays counts as a round. */
static void three_rounds_make_a_drift(void **state)
{
    (void)state;
    start(CONF, "SCHEDULE=eager");
    rounds_run(TNRI_REGROW_ROUNDS);
    assert_int_equal(chunks_released(), 0);
    assert_regrows(1);
}

/* What goes back is what was idle, and the program gets what it needs all the same. */
static void it_holds_what_a_first_pass_does(void **state)
{
    (void)state;
    start(CONF, "SCHEDULE=eager");
    rounds_run(TNRI_REGROW_ROUNDS);
    void *large = unit_malloc(round_bytes(), a);
    assert_int_equal(unit_stats().reserved_bytes.current, 2 * STAYS_MIB * MIB + round_bytes());
    assert_ok(tnr_free(large));
}

/* Once it drifts, it begins anew in each round. */
static void and_again(void **state)
{
    (void)state;
    start(CONF, "SCHEDULE=eager");
    rounds_run(TNRI_REGROW_ROUNDS);
    for (int i = 0; i < 3; i++) {
        uint64_t released = chunks_released();
        round_run();
        assert_true(chunks_released() > released);
    }
}

/* Rounds of growth after which nothing goes back. */
static void rounds_keep(const char *conf)
{
    start(conf, "SCHEDULE=eager");
    rounds_run(TNRI_REGROW_ROUNDS + 2);
    assert_regrows(0);
}

static void switched_off_it_keeps(void **state)
{
    (void)state;
    rounds_keep(CONF ",regrow:off");
    assert_ok(tnr_configure("regrow:on"));
    rounds_run(TNRI_REGROW_ROUNDS);
    assert_regrows(1);
}

static void who_keeps_to_himself_keeps(void **state)
{
    (void)state;
    rounds_keep(CONF ",cross_stream:off");
}

static void one_stream_keeps(void **state)
{
    (void)state;
    unit_start(CONF, "SCHEDULE=eager", NULL);
    a = b = unit_stream(0);
    round_number = 0;
    first_mib = FIRST_MIB;
    (void)unit_malloc(2 * STAYS_MIB * MIB, a);
    rounds_run(TNRI_REGROW_ROUNDS + 2);
    assert_regrows(0);
}

static void lanes_keep(void **state)
{
    (void)state;
    rounds_keep(CONF ",lanes_forced:2");
}

/* Network cards know the addresses. */
static void known_memory_stays(void **state)
{
    (void)state;
    start(CONF, "SCHEDULE=eager");
    assert_ok(tnr_memory_registered(unit_malloc(2 * MIB, a)));
    rounds_run(TNRI_REGROW_ROUNDS + 2);
    assert_regrows(0);
}

/* A request that misses while most is in use. */
static void what_is_in_use_is_no_reason(void **state)
{
    (void)state;
    start(CONF, "SCHEDULE=eager");
    rounds_run(TNRI_REGROW_ROUNDS);
    void *large = unit_malloc(round_bytes(), a);
    assert_ok(tnr_free(unit_malloc(4 * MIB, b)));
    uint64_t released = chunks_released();
    assert_ok(tnr_free(unit_malloc(40 * MIB, b)));
    assert_int_equal(chunks_released(), released);
    assert_ok(tnr_free(large));
}

/* Streams that hand the same memory to each other, without a growth. */
static void rounds_without_growth_do_not_count(void **state)
{
    (void)state;
    start(CONF, "SCHEDULE=eager");
    for (int i = 0; i < 2 * TNRI_REGROW_ROUNDS + 2; i++) {
        uint64_t lent = unit_stats().served[TNR_SERVED_LENT];
        void *large = unit_malloc(FIRST_MIB * MIB, i % 2 == 0 ? a : b);
        void *small = unit_malloc(2 * MIB, i % 2 == 0 ? b : a);
        if (i > 0)
            assert_int_equal(unit_stats().served[TNR_SERVED_LENT], lent + 2); /* both missed */
        assert_ok(tnr_free(small));
        assert_ok(tnr_free(large));
    }
    assert_int_equal(chunks_released(), 0);
}

/* Nobody knows yet that the program repeats itself. */
static void before_low_water_nothing_goes(void **state)
{
    (void)state;
    start("chunk_max_mb:2", "SCHEDULE=eager");
    rounds_run(TNRI_REGROW_ROUNDS + 1);
    assert_regrows(0);
}

/* A chunk that is still mapped at an old address, in the arena of a stream that has nothing idle,
 * is the driver's again, too. */
static void old_mappings_go_along(void **state)
{
    (void)state;
    simcuda_live live;
    start(CONF ",lend:off,aliases_max:0", "SCHEDULE=eager");
    assert_ok(tnr_free(unit_malloc(FIRST_MIB * MIB, unit_stream(0))));
    rounds_run(TNRI_REGROW_ROUNDS);
    assert_true(unit_stats().chunks_moved >= FIRST_MIB / 2);
    uint64_t released = chunks_released();
    (void)unit_malloc(round_bytes(), a);
    assert_true(chunks_released() > released);
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handle_bytes, unit_stats().reserved_bytes.current);
}

/* It has grown, but to what was in use. */
static void what_holds_little_keeps(void **state)
{
    (void)state;
    start(CONF, "SCHEDULE=eager");
    first_mib = MUCH_MIB; /* so that a chunk is little */
    for (int i = 0; i < TNRI_REGROW_ROUNDS + 2; i++) {
        void *large = unit_malloc(round_bytes(), a);
        (void)unit_malloc(2 * MIB, b); /* in a chunk of its own, and it stays */
        uint64_t released = chunks_released();
        void *last = unit_malloc(2 * MIB, b); /* all but that is in use when this one misses */
        assert_int_equal(chunks_released(), released);
        assert_ok(tnr_free(last));
        assert_ok(tnr_free(large));
        round_number++;
    }
    assert_int_equal(chunks_released(), 0);
}

/* A word of the host's that a stream waits for. */
typedef struct gate {
    CUcontext context;
    volatile uint32_t *word;
} gate;

/* Holds a stream back, before work on a block of so many bytes that is freed at once. */
static void gate_close(gate *self, tnr_stream stream, size_t bytes)
{
    void *word;
    CUdeviceptr address;
    assert_int_equal(cuDevicePrimaryCtxRetain(&self->context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(self->context), CUDA_SUCCESS);
    assert_int_equal(cuMemHostAlloc(&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP), CUDA_SUCCESS);
    assert_int_equal(cuMemHostGetDevicePointer(&address, word, 0), CUDA_SUCCESS);
    self->word = word;
    *self->word = 0;
    assert_int_equal(cuStreamWaitValue32(stream, address, 1, CU_STREAM_WAIT_VALUE_EQ),
                     CUDA_SUCCESS);
    void *block = unit_malloc(bytes, stream);
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)block, 1, bytes, stream), CUDA_SUCCESS);
    assert_ok(tnr_free(block));
}

static void gate_open(gate *self, tnr_stream stream)
{
    *self->word = 1;
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(simcuda_violations(), 0);
    assert_int_equal(cuMemFreeHost((void *)(uintptr_t)self->word), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

/* Work is pending on what is idle of one stream: that stays where it is, and nobody waits. What is
 * idle of the other stream goes. */
static void what_a_stream_uses_stays(void **state)
{
    (void)state;
    gate held;
    start(CONF, "SCHEDULE=eager");
    rounds_run(TNRI_REGROW_ROUNDS);
    gate_close(&held, a, FIRST_MIB * MIB);
    uint64_t released = chunks_released();
    uint64_t reserved = unit_stats().reserved_bytes.current;
    tnri_access *access = &tnri_device_at(0)->pool_default->account.access;
    uint32_t returned = atomic_load(&access->returned);
    void *large = unit_malloc(round_bytes(), a);
    assert_in_range(chunks_released() - released, 1, TNRI_REGROW_ROUNDS);
    assert_true(atomic_load(&access->returned) > returned); /* who opens the pool looks again */
    assert_in_range(unit_stats().reserved_bytes.current, 1, reserved + ROUND_MORE_MIB * MIB);
    assert_ok(tnr_free(large));
    gate_open(&held, a);
    round_number++;
    released = chunks_released();
    (void)unit_malloc(round_bytes(), a);
    assert_true(chunks_released() - released > TNRI_REGROW_ROUNDS);
}

/* Nor does what nobody can tell about. */
static void what_cannot_be_marked_stays(void **state)
{
    (void)state;
    gate held;
    start(CONF, "SCHEDULE=eager");
    rounds_run(TNRI_REGROW_ROUNDS);
    gate_close(&held, a, FIRST_MIB * MIB);
    uint64_t released = chunks_released();
    simcuda_fail("cuEventRecord", 1, 1, CUDA_ERROR_UNKNOWN);
    void *large;
    (void)!tnr_malloc(&large, round_bytes(), 0, a); /* may need an event itself */
    simcuda_fail_clear();
    gate_open(&held, a);
    assert_int_equal(chunks_released(), released);
}

/* The work of its own streams is marked beside a capture of another, so what is idle goes. */
static void captures_are_no_reason_to_wait(void **state)
{
    (void)state;
    CUcontext context;
    start(CONF, "SCHEDULE=eager");
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    rounds_run(TNRI_REGROW_ROUNDS);
    tnr_stream captured = unit_stream(0);
    assert_ok(tnr_capture_begin(0, captured, NULL));
    assert_regrows(1);
    assert_ok(tnr_capture_abort(0, captured));
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

/* Time stands still, so there is one burst. */
static void only_within_the_budget(void **state)
{
    (void)state;
    start(CONF ",move_percent:0", "SCHEDULE=eager");
    rounds_run(TNRI_REGROW_ROUNDS);
    assert_regrows(1);
    int rounds = 0;
    for (uint64_t before = 0; chunks_released() != before && rounds < 100; rounds++) {
        before = chunks_released();
        round_run();
    }
    assert_in_range(rounds, 2, 99); /* it goes on for some rounds, and not for ever */
}

/* What moves may need is left to them. */
static void moves_come_first(void **state)
{
    (void)state;
    enum { HOLES = 40 };
    void *blocks[2 * HOLES];
    start(CONF ",move_percent:0,move_burst_ms:20", "SCHEDULE=eager");
    assert_true((uint64_t)HOLES * TNRI_MOVE_NS > 20000000 / TNRI_REGROW_BURST);
    for (int i = 0; i < 2 * HOLES; i++)
        blocks[i] = unit_malloc(2 * MIB, a);
    for (int i = 0; i < 2 * HOLES; i += 2)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_free(unit_malloc(2 * HOLES * MIB, a)));
    assert_int_equal(unit_stats().chunks_moved, HOLES);
    first_mib = 2 * HOLES;
    rounds_run(TNRI_REGROW_ROUNDS);
    assert_regrows(0);
}

/* Some two hundred chunks of 2 MiB cost more than a burst of 10 ms. */
static void not_more_than_a_burst_allows(void **state)
{
    (void)state;
    start(CONF ",move_percent:0,move_burst_ms:10", "SCHEDULE=eager");
    first_mib = MUCH_MIB;
    assert_true(round_bytes() / (2 * MIB) * TNRI_REGROW_TIMES * TNRI_MOVE_NS > 10000000);
    rounds_run(TNRI_REGROW_ROUNDS);
    assert_regrows(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(three_rounds_make_a_drift, unit_stop),
        cmocka_unit_test_teardown(it_holds_what_a_first_pass_does, unit_stop),
        cmocka_unit_test_teardown(and_again, unit_stop),
        cmocka_unit_test_teardown(switched_off_it_keeps, unit_stop),
        cmocka_unit_test_teardown(who_keeps_to_himself_keeps, unit_stop),
        cmocka_unit_test_teardown(one_stream_keeps, unit_stop),
        cmocka_unit_test_teardown(lanes_keep, unit_stop),
        cmocka_unit_test_teardown(known_memory_stays, unit_stop),
        cmocka_unit_test_teardown(what_is_in_use_is_no_reason, unit_stop),
        cmocka_unit_test_teardown(rounds_without_growth_do_not_count, unit_stop),
        cmocka_unit_test_teardown(before_low_water_nothing_goes, unit_stop),
        cmocka_unit_test_teardown(old_mappings_go_along, unit_stop),
        cmocka_unit_test_teardown(what_holds_little_keeps, unit_stop),
        cmocka_unit_test_teardown(what_a_stream_uses_stays, unit_stop),
        cmocka_unit_test_teardown(what_cannot_be_marked_stays, unit_stop),
        cmocka_unit_test_teardown(captures_are_no_reason_to_wait, unit_stop),
        cmocka_unit_test_teardown(only_within_the_budget, unit_stop),
        cmocka_unit_test_teardown(moves_come_first, unit_stop),
        cmocka_unit_test_teardown(not_more_than_a_burst_allows, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
