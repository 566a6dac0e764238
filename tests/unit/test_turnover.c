/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turnover (memory/device/turnover.h): memory that goes back to the driver and is taken again comes
 * in few chunks if that takes too much of the time otherwise.
 *
 * Broken to see it fail: tnri_turnover_goes is not called, or bytes are not counted
 * (what_comes_again_comes_in_few_chunks); the time before the first round counts (the same); rounds
 * before do not count half, or all chunks are whole (what_seldom_comes_again_has_small_chunks); a
 * pause counts whole, or as twice the mean of the rounds before (a_pause_makes_no_small_chunks);
 * an empty round counts its time (empty_rounds_change_nothing);
 * most_bytes does not count in tnri_turnover_chunk_bytes
 * (what_comes_for_the_first_time_has_small_chunks), or in tnri_turnover_comes
 * (what_grew_did_not_come_again); what never came again is asked for
 * (what_comes_again_comes_in_few_chunks).
 */
#include "unit.h"

#include "base/heuristics.h"

enum {
    LAYERS = 12,
    LAYER_CHUNKS = 6, /* the smallest that a layer fits into */
    CHUNKS = LAYERS * LAYER_CHUNKS,
};
#define CHUNK_BYTES (2 * MIB)
#define LAYER_BYTES (LAYER_CHUNKS * CHUNK_BYTES - 4096) /* no power of two divides it */

static uint64_t chunks_made(void)
{
    return unit_stats().segment.allocated;
}

static int trims_more; /* of a step, when everything is back already */

/* A step of a program, after which what it had goes back. Returns how many chunks were made. */
static int step(uint64_t ns)
{
    void *layers[LAYERS];
    uint64_t before = chunks_made();
    for (int i = 0; i < LAYERS; i++)
        layers[i] = unit_malloc(LAYER_BYTES, 0);
    for (int i = 0; i < LAYERS; i++)
        assert_ok(tnr_free(layers[i]));
    int made = (int)(chunks_made() - before);
    simcuda_time_set(simcuda_time_ns() + ns);
    for (int i = 0; i <= trims_more; i++) {
        assert_ok(tnr_trim(NULL, 0, 0));
        simcuda_time_set(simcuda_time_ns() + (trims_more > 0));
    }
    return made;
}

static int steps(int count, uint64_t ns_each)
{
    int made = 0;
    while (count-- > 0)
        made = step(ns_each);
    return made;
}

/* The time in which so many chunks may be made again. */
static uint64_t ns_for(int chunks)
{
    return (uint64_t)chunks * TNRI_MOVE_NS * 100;
}

static void what_comes_again_comes_in_few_chunks(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    simcuda_time_set(3600000000000);       /* an hour, which is no round */
    assert_int_equal(steps(2, 0), CHUNKS); /* that it comes again is not known before it has */
    assert_int_equal(steps(2, 0), LAYERS);
}

static void what_seldom_comes_again_has_small_chunks(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    assert_int_equal(steps(4, ns_for(CHUNKS)), CHUNKS);
    /* Where there is time for half of them, they are of twice the size. */
    assert_int_equal(steps(20, ns_for(CHUNKS / 2 - 1)), CHUNKS / 2);
    assert_int_equal(steps(20, ns_for(1)), LAYERS);
    /* And back again: rounds that are gone count for less and less. */
    assert_int_equal(steps(20, ns_for(CHUNKS)), CHUNKS);
}

static void a_pause_makes_no_small_chunks(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    assert_int_equal(steps(4, ns_for(1)), LAYERS);
    assert_int_equal(step(ns_for(1000 * CHUNKS)), LAYERS);
    assert_int_equal(step(ns_for(1)), LAYERS);
    assert_int_equal(step(ns_for(1)), LAYERS);
    /* A program that has become slower is followed. */
    assert_int_equal(steps(8, ns_for(CHUNKS)), CHUNKS);
    /* Long and short ones in turn are no pauses. */
    for (int i = 0; i < 20; i++) {
        (void)step(ns_for(1));
        (void)step(ns_for(2 * CHUNKS));
    }
    assert_int_equal(step(ns_for(1)), CHUNKS);
}

/* Trims that give nothing back, as of several devices and pools in turn, change nothing. */
static void empty_rounds_change_nothing(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    void *weights = unit_malloc(8 * MIB, 0); /* else the pool forgets */
    for (trims_more = 0; trims_more < 4; trims_more++) {
        assert_int_equal(steps(20, ns_for(CHUNKS)), CHUNKS);
        assert_int_equal(steps(20, ns_for(1)), LAYERS);
        assert_int_equal(step(ns_for(1000 * CHUNKS)), LAYERS);
        assert_int_equal(step(ns_for(1)), LAYERS);
    }
    trims_more = 0;
    assert_ok(tnr_free(weights));
}

static void what_comes_for_the_first_time_has_small_chunks(void **state)
{
    (void)state;
    unit_start(NULL, NULL);
    assert_int_equal(steps(4, 0), LAYERS);
    uint64_t before = chunks_made();
    void *known = unit_malloc(LAYERS * LAYER_BYTES, 0);
    assert_int_equal(chunks_made() - before, 1);
    void *more = unit_malloc(LAYER_BYTES, 0);
    assert_int_equal(chunks_made() - before, 1 + LAYER_CHUNKS);
    assert_ok(tnr_free(known));
    assert_ok(tnr_free(more));
}

/* A program that trims while it grows has taken nothing twice. */
static void what_grew_did_not_come_again(void **state)
{
    (void)state;
    void *blocks[LAYERS];
    unit_start(NULL, NULL);
    for (int i = 0; i < LAYERS; i++) {
        blocks[i] = unit_malloc(LAYER_BYTES, 0);
        assert_ok(tnr_trim(NULL, 0, 0));
    }
    for (int i = 0; i < LAYERS; i++)
        assert_ok(tnr_free(blocks[i]));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(step(0), CHUNKS);
}

/* Where memory is short it goes back without tnr_trim. */
static void what_a_refused_request_gave_back_comes_again(void **state)
{
    (void)state;
    unit_start(NULL, "MEMORY=100M", NULL);
    void *kept = unit_malloc(CHUNK_BYTES, 0);
    for (int i = 0; i < 4; i++) {
        uint64_t before = chunks_made();
        void *ptr;
        assert_ok(tnr_free(unit_malloc(LAYER_BYTES, 0)));
        assert_int_equal(chunks_made() - before, i < 2 ? LAYER_CHUNKS : 1);
        assert_error(tnr_malloc(&ptr, 99 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, "out of memory");
    }
    assert_ok(tnr_free(kept));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_comes_again_comes_in_few_chunks, unit_stop),
        cmocka_unit_test_teardown(what_seldom_comes_again_has_small_chunks, unit_stop),
        cmocka_unit_test_teardown(a_pause_makes_no_small_chunks, unit_stop),
        cmocka_unit_test_teardown(empty_rounds_change_nothing, unit_stop),
        cmocka_unit_test_teardown(what_comes_for_the_first_time_has_small_chunks, unit_stop),
        cmocka_unit_test_teardown(what_grew_did_not_come_again, unit_stop),
        cmocka_unit_test_teardown(what_a_refused_request_gave_back_comes_again, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
