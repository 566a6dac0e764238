/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs of one thread that park and unpark blocks on several streams, in little memory.
 * After each step the equations hold, and the simulated device sees no race and no wrong use. In
 * the end every byte of every block is as it should be.
 *
 * A block is written on any stream. That stream first waits for the stream that wrote the block
 * last. Such uses are recorded. The seeds are the same on each machine.
 *
 * Seen to fail with uses_before in uses_end left out: races.
 */
#include "../sleep/sleep.h"

#include <stdlib.h>

#include <tenure/park.h>

enum { STREAMS = 3, SLOTS = 10, STEPS = 120 };

typedef struct slot {
    unsigned char *ptr; /* null: none */
    size_t bytes;
    int is_parked;
    uint32_t seed;     /* of its contents; 0: not known */
    size_t home, last; /* the block's stream, and the one that used it last */
} slot;

typedef struct random_program {
    uint64_t random;
    tnr_stream streams[STREAMS];
    slot slots[SLOTS];
    uint64_t parks, unparks, refused;
} random_program;

static int seeds = 20;

static size_t below(random_program *self, size_t bound)
{
    return (size_t)unit_below(&self->random, bound);
}

static void order(const random_program *self, size_t after, size_t before)
{
    CUevent event;
    if (after == before)
        return;
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, self->streams[before]), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(self->streams[after], event, 0), CUDA_SUCCESS);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
}

/* Writes all of a block, on a stream that comes after whatever used it. */
static void write_all(random_program *self, slot *block, size_t stream)
{
    order(self, stream, block->last);
    block->seed = (uint32_t)below(self, 1000) + 1;
    block->last = stream;
    sleep_fill(block->ptr, block->bytes, block->seed, self->streams[stream]);
    if (stream != block->home)
        assert_ok(tnr_record_use(block->ptr, self->streams[stream]));
}

static void step_new(random_program *self, slot *block)
{
    void *ptr = NULL;
    *block = (slot){.home = below(self, STREAMS)};
    block->last = block->home;
    block->bytes =
        below(self, 3) == 0 ? (1 + below(self, 2000)) * 4 * KIB : (2 + 2 * below(self, 6)) * MIB;
    tnr_status status = tnr_malloc(&ptr, block->bytes, 0, self->streams[block->home]);
    block->ptr = ptr;
    if (status == TNR_OK)
        write_all(self, block, block->home);
    else
        assert_int_equal(status, TNR_ERR_OUT_OF_MEMORY);
    self->refused += status != TNR_OK;
}

static void step_unpark(random_program *self, slot *block)
{
    size_t stream = below(self, STREAMS);
    tnr_status status = tnr_unpark(block->ptr, self->streams[stream]);
    if (status != TNR_OK) {
        if (status != TNR_ERR_OUT_OF_MEMORY)
            fail_msg("tnr_unpark: %s", tnr_last_error());
        self->refused++;
        return;
    }
    self->unparks++;
    block->is_parked = 0;
    block->last = stream;
    if (block->seed == 0)
        write_all(self, block, stream);
}

static void step_park(random_program *self, slot *block)
{
    int keeps = below(self, 3) == 0;
    size_t stream = below(self, STREAMS);
    if (stream != block->home)
        order(self, stream, block->last);
    assert_ok(tnr_park(NULL, block->ptr, self->streams[stream],
                       keeps ? TNR_CONTENT_KEEP : TNR_CONTENT_DISCARD));
    self->parks++;
    block->is_parked = 1;
    if (!keeps)
        block->seed = 0;
}

static void step(random_program *self)
{
    slot *block = &self->slots[below(self, SLOTS)];
    size_t what = below(self, 40);
    if (what == 0) {
        assert_ok(tnr_trim(NULL, 0, 0));
    } else if (what == 1) {
        assert_ok(tnr_pool_sleep(NULL, 0, NULL));
        if (block->ptr != NULL)
            assert_ok(tnr_free(block->ptr));
        block->ptr = NULL;
        assert_ok(tnr_pool_wake(NULL, 0));
    } else if (what < 6) {
        (void)simcuda_run(1 + below(self, 20));
    } else if (block->ptr == NULL) {
        step_new(self, block);
    } else if (what < 11) {
        assert_ok(tnr_free(block->ptr));
        block->ptr = NULL;
    } else if (block->is_parked) {
        step_unpark(self, block);
    } else if (what < 20) {
        write_all(self, block, below(self, STREAMS));
    } else {
        step_park(self, block);
    }
    (void)unit_stats();
}

static void program_run(int seed)
{
    static random_program self;
    static const char *const confs[] = {"chunk_max_mb:2", "chunk_max_mb:4,lend:off", NULL,
                                        "cross_stream:off",
                                        "chunk_max_mb:2,move_percent:100,aliases_from:first"};
    self = (random_program){.random = (uint64_t)seed};
    unit_start(confs[seed % 5], seed % 2 == 0 ? "SCHEDULE=lazy" : "SCHEDULE=random", "MEMORY=48M",
               "RACES=1", NULL);
    sleep_context_enter();
    for (int i = 0; i < STREAMS; i++)
        self.streams[i] = unit_stream(0);
    for (int i = 0; i < STEPS; i++)
        step(&self);
    assert_true(self.parks > 0 && self.unparks > 0);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    for (int i = 0; i < SLOTS; i++) {
        slot *block = &self.slots[i];
        if (block->ptr == NULL)
            continue;
        if (!block->is_parked && !sleep_matches(block->ptr, block->bytes, block->seed))
            fail_msg("seed %d: block %d has lost its contents", seed, i);
        assert_ok(tnr_free(block->ptr));
    }
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(sleep_device_bytes(), 0);
    if (simcuda_races() != 0)
        fail_msg("seed %d: %llu races", seed, (unsigned long long)simcuda_races());
    sleep_context_leave();
    assert_int_equal(unit_stop(NULL), 0);
}

static void programs(void **state)
{
    (void)state;
    for (int seed = 1; seed <= seeds; seed++)
        program_run(seed);
}

/* Arguments: how many seeds. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(programs, unit_stop),
    };
    if (argc > 1)
        seeds = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
