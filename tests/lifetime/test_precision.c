/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Precision. A use that was recorded where it ends does not hold the block longer than that, even
 * if unrelated work follows on the same stream. tnr_record_stream does hold it longer.
 *
 * Guarantee 1, the other half of each: seen to fail with these lines taken out of the library:
 *   not_reused_before_the_use_ends  collect.c, stream_poll: "if (!over) return freed;"
 *   record_stream_holds_the_block   free.c, uses_mark: "use == NULL" replaced by "1" (no mark)
 *   wait_reuses_with_a_device_wait  collect.c, uses_are_before: the call of tnri_event_order
 */
#include "life.h"

enum { PRODUCER, CONSUMER };
#define BYTES (4 * MIB)

/* A block that the consumer reads, and the unrelated work behind that, held back by gate 1. With
 * `precise` the use ends before that work. The consumer's read itself waits for gate 0. */
static unsigned char *consume(void **block, int precise)
{
    *block = unit_malloc(BYTES, life_streams[PRODUCER]);
    life_fill(*block, BYTES, 7, life_streams[PRODUCER]);
    CUevent filled = life_event();
    assert_int_equal(cuEventRecord(filled, life_streams[PRODUCER]), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(life_streams[CONSUMER], filled, 0), CUDA_SUCCESS);
    life_gate_close(0, life_streams[CONSUMER]);
    unsigned char *read = life_read(*block, BYTES, life_streams[CONSUMER]);
    if (precise)
        assert_ok(tnr_record_use(*block, life_streams[CONSUMER]));
    else
        assert_ok(tnr_record_stream(*block, life_streams[CONSUMER]));
    life_gate_close(1, life_streams[CONSUMER]);
    assert_ok(tnr_free(*block));
    return read;
}

static void reused_while_later_work_is_held(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    void *block;
    unsigned char *read = consume(&block, 1);
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    assert_true(simcuda_pending() > 0); /* the unrelated work is still held */
    uint64_t created = unit_stats().chunks_created;
    assert_true(life_is_reused(block, BYTES, life_streams[PRODUCER]));
    assert_int_equal(unit_stats().chunks_created, created);
    assert_int_equal(life_because(TNR_REUSE_EVENT_DONE), 1);
    assert_true(simcuda_pending() > 0);
    assert_int_equal(life_host_waits(), 0);
    assert_true(life_all(read, BYTES, 7));
}

static void not_reused_before_the_use_ends(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    void *block;
    unsigned char *read = consume(&block, 1);
    void *other = unit_malloc(BYTES, life_streams[PRODUCER]);
    assert_ptr_not_equal(other, block);
    assert_int_equal(unit_stats().blocks_retired, 1);
    life_fill(other, BYTES, 9, life_streams[PRODUCER]);
    life_gate_open(0);
    life_gate_open(1);
    simcuda_run(UINT64_MAX);
    assert_true(life_all(read, BYTES, 7));
}

static void record_stream_holds_the_block(void **state)
{
    (void)state;
    life_start("reuse:poll,cross_stream:off", NULL, NULL);
    void *block;
    (void)consume(&block, 0);
    life_gate_open(0);
    simcuda_run(UINT64_MAX);
    assert_true(simcuda_pending() > 0);
    /* The use is over; but nobody said so. */
    assert_false(life_is_reused(block, BYTES, life_streams[PRODUCER]));
    assert_int_equal(unit_stats().blocks_retired, 1);
    life_gate_open(1);
    simcuda_run(UINT64_MAX);
    assert_true(life_is_reused(block, BYTES, life_streams[PRODUCER]));
    assert_int_equal(life_because(TNR_REUSE_EVENT_DONE), 1);
}

/* With reuse:wait the block comes back at once, behind a wait on the device. */
static void wait_reuses_with_a_device_wait(void **state)
{
    static const char *const schedules[] = {"SCHEDULE=lazy", "SCHEDULE=eager", "SCHEDULE=random"};
    (void)state;
    for (int run = 0; run < 6; run++) {
        life_start("reuse:wait,reuse_mark_percent:0", schedules[run / 2], NULL);
        void *block;
        unsigned char *read = consume(&block, run % 2);
        assert_true(life_is_reused(block, BYTES, life_streams[PRODUCER]));
        assert_int_equal(life_because(TNR_REUSE_WAITED_ON_DEVICE), 1);
        assert_int_equal(life_host_waits(), 0);
        life_fill(block, BYTES, 9, life_streams[PRODUCER]);
        unsigned char *after = life_read(block, BYTES, life_streams[PRODUCER]);
        simcuda_run(UINT64_MAX);
        assert_true(life_all(after, BYTES, 0xee)); /* the new owner waits for the gate too */
        life_gate_open(0);
        simcuda_run(UINT64_MAX);
        /* With record_use it waits for the use alone, else for what was queued up to the free. */
        assert_int_equal(life_all(after, BYTES, 9), run % 2);
        life_gate_open(1);
        simcuda_run(UINT64_MAX);
        assert_true(life_all(read, BYTES, 7));
        assert_true(life_all(after, BYTES, 9));
        assert_int_equal(life_stop(state), 0);
    }
    life_start(NULL, NULL, NULL); /* for the teardown */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(reused_while_later_work_is_held, life_stop),
        cmocka_unit_test_teardown(not_reused_before_the_use_ends, life_stop),
        cmocka_unit_test_teardown(record_stream_holds_the_block, life_stop),
        cmocka_unit_test_teardown(wait_reuses_with_a_device_wait, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
