/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 1 over random programs: a block is handed out again only when every recorded use is
 * ordered before the new owner's first use. Each program allocates on several streams, reads blocks
 * on other streams, records that in one of the possible ways, and frees in one of three ways.
 * Streams end and begin; events are recorded, waited for and announced. A reader must see the bytes
 * of the block's owner and no other's. The race detector of the simulated device must find all
 * accesses ordered, whatever the schedule did.
 *
 * The arguments are the number of seeds and the first seed. Each of these changes in the library
 * made it fail:
 *   use.c, tnri_use_add: "use->number = number" left out
 *   retire.c, uses_mark: does not look for uses to mark
 *   collect.c, proxy_follow_all: returns TNR_OK at once
 *   collect.c, uses_are_before: the call of tnri_event_order left out
 *   collect.c, stream_poll: "if (!over) return freed" left out
 *   stream.c, tnri_stream_is_after: "after" is 1
 *   pool.c, arena_adopt: the call of tnri_event_order left out
 *   execute.c, donor_order: the call of tnri_event_order left out
 */
#include "life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 5, BLOCKS = 12, STEPS = 150, READS_MAX = STEPS, EDGE = 512 };

static uint64_t seeds = 1500;   /* the first argument of the program */
static uint64_t seed_first = 1; /* the second */
static uint64_t random_state;

static struct {
    unsigned char *ptr; /* null: none */
    size_t bytes;
    int value;
    int owner;
    CUevent ready; /* recorded on the owner after its last write, and announced */
} blocks[BLOCKS];

static tnr_stream streams[STREAMS]; /* the last is the legacy stream */
static struct {
    const unsigned char *bytes;
    int value;
} reads[READS_MAX];
static size_t reads_count;
static unsigned char *pinned;

static uint64_t draw(uint64_t below)
{
    return unit_below(&random_state, below);
}

static void edges_fill(int b)
{
    tnr_stream stream = streams[blocks[b].owner];
    life_fill(blocks[b].ptr, EDGE, blocks[b].value, stream);
    life_fill(blocks[b].ptr + blocks[b].bytes - EDGE, EDGE, blocks[b].value, stream);
}

static void block_allocate(int b, int value)
{
    blocks[b].owner = (int)draw(STREAMS);
    blocks[b].bytes = (draw(3) ? draw(6 * MIB) : draw(64 << 10)) + 4 * (size_t)EDGE;
    blocks[b].value = value & 0xff;
    void *ptr;
    tnr_status status = tnr_malloc(&ptr, blocks[b].bytes, 0, streams[blocks[b].owner]);
    if (status == TNR_ERR_LIMIT)
        return;
    assert_ok(status);
    blocks[b].ptr = ptr;
    edges_fill(b);
    life_record(blocks[b].ready, streams[blocks[b].owner]);
}

/* A stream reads the block after its owner's write, at either end. */
static void block_read(int b, int reader)
{
    unsigned char *target = pinned + reads_count * EDGE;
    const unsigned char *from = draw(2) ? blocks[b].ptr : blocks[b].ptr + blocks[b].bytes - EDGE;
    tnr_moment before = tnr_moment_now();
    assert_int_equal(cuStreamWaitEvent(streams[reader], blocks[b].ready, 0), CUDA_SUCCESS);
    if (draw(2))
        assert_ok(tnr_stream_waited(blocks[b].ready, 0, streams[reader], before));
    assert_int_equal(cuMemcpyDtoHAsync(target, (CUdeviceptr)(uintptr_t)from, EDGE, streams[reader]),
                     CUDA_SUCCESS);
    reads[reads_count].bytes = target;
    reads[reads_count++].value = blocks[b].value;
}

/* Reads, and says where the read ends. */
static void block_use(int b, CUevent event)
{
    int reader = (int)draw(STREAMS);
    unsigned char *inside = blocks[b].ptr + draw(blocks[b].bytes);
    switch (draw(3)) {
    case 0:
        block_read(b, reader);
        assert_ok(tnr_record_use(inside, streams[reader]));
        break;
    case 1: /* also before the use */
        assert_ok(tnr_record_stream(inside, streams[reader]));
        block_read(b, reader);
        break;
    default:
        block_read(b, reader);
        life_record(event, streams[reader]);
        assert_ok(tnr_keep_until(inside, event));
    }
}

static void block_free(int b)
{
    int reader = (int)draw(STREAMS);
    switch (draw(4)) {
    case 0:
        block_read(b, reader);
        assert_ok(tnr_free_on(blocks[b].ptr, streams[reader]));
        break;
    case 1: /* a use that nobody has recorded */
        block_read(b, reader);
        assert_ok(tnr_free_sync(blocks[b].ptr));
        break;
    default:
        assert_ok(tnr_free(blocks[b].ptr));
    }
    blocks[b].ptr = NULL;
}

static void stream_replace(int s)
{
    assert_ok(tnr_stream_destroying(0, streams[s]));
    assert_int_equal(cuStreamDestroy(streams[s]), CUDA_SUCCESS);
    streams[s] = life_stream(draw(3) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    assert_ok(tnr_stream_created(0, streams[s]));
}

/* What programs do between their streams, told and untold. */
static void others_step(CUevent event)
{
    int s = (int)draw(STREAMS - 1);
    tnr_moment began = tnr_moment_now();
    switch (draw(6)) {
    case 0:
        life_record(event, streams[s]);
        life_wait(streams[draw(STREAMS)], event);
        break;
    case 1:
        simcuda_run(draw(20));
        break;
    case 2:
        if (draw(4) == 0) {
            assert_int_equal(cuStreamSynchronize(streams[s]), CUDA_SUCCESS);
            assert_ok(tnr_stream_synchronized(0, streams[s], began));
        }
        break;
    case 3:
        if (draw(4) == 0)
            stream_replace(s);
        break;
    case 4:
        tnr_event_destroyed(event);
        break;
    default:
        if (draw(8) == 0)
            assert_ok(tnr_trim(NULL, draw(48 * MIB), 0));
    }
}

static void program_begin(uint64_t seed)
{
    static const char *const schedules[] = {"SCHEDULE=random", "SCHEDULE=random", "SCHEDULE=lazy",
                                            "SCHEDULE=eager"};
    static const char *const policies[] = {"wait", "wait,reuse_mark_percent:0", "follow", "poll"};
    static const char *const cross[] = {"wait", "idle", "off"};
    char conf[128];
    char text[32];
    random_state = seed;
    (void)snprintf(conf, sizeof(conf), "reuse:%s,cross_stream:%s", policies[draw(4)],
                   cross[draw(3)]);
    (void)snprintf(text, sizeof(text), "SEED=%llu", (unsigned long long)seed);
    life_start(conf, schedules[draw(4)], text);
    assert_ok(tnr_limit_set(40 * MIB, 0));
    void *memory;
    assert_int_equal(cuMemHostAlloc(&memory, READS_MAX * (size_t)EDGE, 0), CUDA_SUCCESS);
    pinned = memory;
    reads_count = 0;
    for (int s = 0; s < STREAMS - 1; s++) {
        streams[s] = life_streams[s];
        assert_ok(tnr_stream_created(0, streams[s]));
    }
    streams[STREAMS - 1] = NULL;
    for (int b = 0; b < BLOCKS; b++) {
        blocks[b].ptr = NULL;
        blocks[b].ready = life_event();
    }
}

static void program_check(uint64_t seed)
{
    simcuda_run(UINT64_MAX);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    for (size_t i = 0; i < reads_count; i++)
        if (!life_all(reads[i].bytes, EDGE, reads[i].value))
            fail_msg("seed %llu: read %zu saw %d, not its block's %d", (unsigned long long)seed, i,
                     reads[i].bytes[0], reads[i].value);
    if (simcuda_races() > 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, simcuda_race_last());
    (void)unit_stats();
}

static void random_programs(void **state)
{
    uint64_t because[TNR_REUSE_COUNT] = {0};
    for (uint64_t seed = seed_first; seed < seed_first + seeds; seed++) {
        program_begin(seed);
        CUevent event = life_event();
        for (int step = 1; step <= STEPS; step++) {
            int b = (int)draw(BLOCKS);
            uint64_t what = draw(8);
            if (what == 0)
                others_step(event);
            else if (blocks[b].ptr == NULL)
                block_allocate(b, step);
            else if (what < 4)
                block_use(b, event);
            else
                block_free(b);
        }
        program_check(seed);
        for (int b = 0; b < BLOCKS; b++)
            if (blocks[b].ptr != NULL)
                assert_ok(tnr_free(blocks[b].ptr));
        for (int r = 0; r < TNR_REUSE_COUNT; r++)
            because[r] += unit_stats().freed_because[r];
        /* Nothing waits once the device is idle. */
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_int_equal(unit_stats().blocks_retired, 0);
        assert_int_equal(unit_stats().reserved_bytes.current, 0);
        if (life_stop(state) != 0)
            fail_msg("seed %llu left something behind", (unsigned long long)seed);
    }
    for (int r = 0; r < TNR_REUSE_COUNT; r++)
        assert_true(because[r] > 0 || r == TNR_REUSE_ORDERED_BY_GRAPH || seeds < 100);
    life_start(NULL, NULL, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(random_programs, life_stop)};
    if (argc > 1)
        seeds = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed_first = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
