/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership under the race detector, and the misuses of an allocator that it is there for: each
 * emulated by hand on the simulated driver, as an allocator between two owners would do it.
 */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#define BYTES ((size_t)4096)

static int start(void **state)
{
    (void)state;
    fixture_start("SCHEDULE=random", "RACES=1", NULL);
    return 0;
}

static simcuda_report_kind kinds[64];
static char texts[64][1024];
static unsigned reports;

static void keep(const simcuda_report *report, void *data)
{
    (void)data;
    if (reports < 64) {
        kinds[reports] = report->kind;
        (void)snprintf(texts[reports], sizeof(texts[0]), "%s", report->text);
    }
    reports++;
}

static void listen(void)
{
    reports = 0;
    simcuda_races_callback(keep, NULL);
}

static void set(CUstream stream, CUdeviceptr at, size_t bytes)
{
    assert_ok(cuMemsetD8Async(at, 1, bytes, stream));
}

/* ---- ownership ------------------------------------------------------------------------------ */

static void test_use_after_free(void **state)
{
    (void)state;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    listen();
    simcuda_origin("step 1: allocate");
    assert_int_equal(simcuda_owner_begin(at, BYTES, "weights"), 0);
    set(stream, at, BYTES);
    simcuda_origin("step 2: free");
    assert_int_equal(simcuda_owner_end(at), 0);
    assert_int_equal(reports, 0);
    simcuda_origin("step 3: late");
    set(stream, at + 100, 8);
    assert_int_equal(reports, 1); /* at the call, whether it has run or not */
    assert_int_equal(kinds[0], SIMCUDA_USE_AFTER_FREE);
    assert_non_null(strstr(texts[0], "step 1: allocate"));
    assert_non_null(strstr(texts[0], "step 2: free"));
    assert_non_null(strstr(texts[0], "step 3: late"));
    assert_non_null(strstr(texts[0], "weights"));
    assert_int_equal(simcuda_owner_end(at), -1); /* freed twice */
    assert_int_equal(simcuda_owner_end(at + 8), -1);
    /* Owned again: fine; its own second life ends by itself. */
    assert_int_equal(simcuda_owner_begin(at, 2 * BYTES, "activations"), 0);
    set(stream, at, 2 * BYTES);
    assert_int_equal(reports, 1);
    assert_int_equal(simcuda_owner_end(at), 0);
    set(stream, at, 1);
    assert_int_equal(reports, 2);
    assert_non_null(strstr(texts[1], "activations"));
    assert_null(strstr(texts[1], "weights"));
}

/* What remains of an old block between new ones is still freed memory. */
static void test_remains_of_a_block(void **state)
{
    (void)state;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    listen();
    assert_int_equal(simcuda_owner_begin(at, 8 * BYTES, "old"), 0);
    assert_int_equal(simcuda_owner_end(at), 0);
    assert_int_equal(simcuda_owner_begin(at + 2 * BYTES, BYTES, "new"), 0);
    set(stream, at + 2 * BYTES, BYTES);
    assert_int_equal(reports, 0);
    set(stream, at, BYTES);
    assert_int_equal(reports, 1);
    assert_int_equal(kinds[0], SIMCUDA_USE_AFTER_FREE);
    set(stream, at + 7 * BYTES, BYTES);
    assert_int_equal(reports, 2);
    assert_int_equal(kinds[1], SIMCUDA_USE_AFTER_FREE);
    set(stream, at + 9 * BYTES, BYTES); /* nobody's, ever */
    assert_int_equal(reports, 2);
    assert_int_equal(simcuda_owner_end(at + 2 * BYTES), 0);
}

static void test_overrun(void **state)
{
    (void)state;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    listen();
    assert_int_equal(simcuda_owner_begin(at + BYTES, BYTES, "first"), 0);
    assert_int_equal(simcuda_owner_begin(at + 2 * BYTES, BYTES, "second"), 0);
    set(stream, at + BYTES, BYTES);
    set(stream, at + 2 * BYTES - 1, 1);
    assert_int_equal(reports, 0);
    set(stream, at + 2 * BYTES - 1, 2); /* into the neighbour */
    assert_int_equal(reports, 1);
    assert_int_equal(kinds[0], SIMCUDA_OVERRUN);
    assert_non_null(strstr(texts[0], "first"));
    set(stream, at + 3 * BYTES - 1, 2); /* into nobody's */
    assert_int_equal(reports, 2);
    assert_int_equal(kinds[1], SIMCUDA_OVERRUN);
    set(stream, at + BYTES - 1, 2); /* from nobody's into a block */
    assert_int_equal(reports, 3);
    assert_int_equal(kinds[2], SIMCUDA_OVERRUN);
    simcuda_owner_pause(1);
    set(stream, at, CHUNK);
    simcuda_owner_pause(0);
    assert_int_equal(reports, 3);
    set(stream, at, CHUNK);
    assert_int_equal(reports, 4);
}

/* Pinned memory that the host is given must not be in use, whether what uses it has run or not. */
static void test_host_takes(void **state)
{
    (void)state;
    fixture_start("SCHEDULE=lazy", "RACES=1", NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    void *pinned = NULL;
    assert_ok(cuMemHostAlloc(&pinned, CHUNK, 0));
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)pinned;
    listen();
    simcuda_host_takes(at, CHUNK);
    set(stream, at + BYTES, BYTES);
    simcuda_host_takes(at, BYTES);
    simcuda_host_takes(at + 2 * BYTES, BYTES);
    assert_int_equal(simcuda_violations(), 0);
    simcuda_host_takes(at + 2 * BYTES - 1, 1); /* it has not run */
    assert_int_equal(simcuda_violations(), 1);
    simcuda_run(UINT64_MAX);
    assert_int_equal(reports, 0);
    simcuda_host_takes(at + 2 * BYTES, BYTES);
    assert_int_equal(reports, 0);
    simcuda_host_takes(at + 2 * BYTES - 1, 2); /* it has, and the host does not know */
    assert_int_equal(reports, 1);
    assert_int_equal(kinds[0], SIMCUDA_UNFINISHED);
    assert_non_null(strstr(texts[0], "the host takes the memory"));
    assert_ok(cuStreamSynchronize(stream));
    simcuda_host_takes(at, CHUNK);
    assert_int_equal(reports, 1);
    assert_int_equal(simcuda_violations(), 1);
    assert_ok(cuMemFreeHost(pinned));
}

static void test_tracked(void **state)
{
    (void)state;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    listen();
    set(stream, at, BYTES);
    assert_int_equal(reports, 0);
    assert_int_equal(simcuda_owner_track(at, CHUNK, 1), 0);
    set(stream, at, BYTES);
    assert_int_equal(reports, 1);
    assert_int_equal(kinds[0], SIMCUDA_NO_OWNER);
    assert_int_equal(simcuda_owner_begin(at, BYTES, "block"), 0);
    set(stream, at, BYTES);
    assert_int_equal(reports, 1);
    assert_int_equal(simcuda_owner_track(at + CHUNK / 2, CHUNK / 2, 0), 0);
    set(stream, at + CHUNK / 2, BYTES);
    assert_int_equal(reports, 1);
    set(stream, at + CHUNK / 2 - BYTES, BYTES);
    assert_int_equal(reports, 2);
}

static void test_two_owners(void **state)
{
    (void)state;
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    listen();
    assert_int_equal(simcuda_owner_begin(at, 2 * BYTES, "first"), 0);
    assert_int_equal(simcuda_owner_begin(at + BYTES, BYTES, "second"), 0);
    assert_int_equal(reports, 1);
    assert_int_equal(kinds[0], SIMCUDA_TWO_OWNERS);
    assert_non_null(strstr(texts[0], "first"));
    assert_non_null(strstr(texts[0], "second"));
    assert_int_equal(simcuda_owner_begin(at, 0, "empty"), -1);
    assert_int_equal(simcuda_owner_begin(UINT64_MAX - 10, 100, "wraps"), -1);
}

/* Many blocks of many sizes, allocated and freed in a scattered order, each used while it lives. */
static void test_many_owners(void **state)
{
    enum { COUNT = 2000 };
    (void)state;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(4 * CHUNK, NULL);
    static unsigned char live[COUNT];
    memset(live, 0, sizeof(live));
    uint32_t random = 1;
    listen();
    unsigned wrong = 0;
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525u + 1013904223u;
        unsigned block = (random >> 8) % COUNT;
        CUdeviceptr base = at + (CUdeviceptr)block * BYTES;
        size_t bytes = 512 + (size_t)(block % 7) * 512;
        if (random >> 28 == 0) {
            set(stream, base + 8, bytes - 8); /* right or wrong, as it may be */
            wrong += live[block] == 2;
        } else if (live[block] == 1) {
            assert_int_equal(simcuda_owner_end(base), 0);
            live[block] = 2;
        } else {
            assert_int_equal(simcuda_owner_begin(base, bytes, "block"), 0);
            live[block] = 1;
        }
    }
    assert_true(wrong > 100);
    assert_int_equal(reports, wrong);
    assert_int_equal(simcuda_races_of(SIMCUDA_USE_AFTER_FREE), wrong);
}

/* ---- misuse of an allocator ----------------------------------------------------------------- */

/* A block is owned by stream a, used by stream b too, freed, and given to a new owner on stream a.
 * What the allocator does about b's use is the program's business: each of these is one way. */
enum handling {
    USE_RECORDED,          /* event after b's use; a waits for it before the new owner */
    USE_RECORDED_AND_SEEN, /* event after b's use; the host waits for it */
    USE_RECORDED_EARLY,    /* event before b's last use */
    USE_NOT_RECORDED,      /* nothing at all */
    FREED_ON_THE_OTHER     /* given to b's order: reused there while a's use is not over */
};

static void two_owners_in_turn(enum handling handling)
{
    CUstream a = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream b = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent written = event_new();
    CUevent used = event_new();
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUdeviceptr copy = chunk_mapped(CHUNK, NULL);
    assert_int_equal(simcuda_owner_begin(at, BYTES, "old owner"), 0);
    simcuda_origin("the old owner's write");
    set(a, at, BYTES);
    assert_ok(cuEventRecord(written, a));
    assert_ok(cuStreamWaitEvent(b, written, 0));
    if (handling == USE_RECORDED_EARLY)
        assert_ok(cuEventRecord(used, b));
    simcuda_origin("the other stream's last read");
    assert_ok(cuMemcpyDtoDAsync(copy, at, BYTES, b));
    if (handling == USE_RECORDED || handling == USE_RECORDED_AND_SEEN)
        assert_ok(cuEventRecord(used, b));
    if (handling == FREED_ON_THE_OTHER) {
        simcuda_origin("the owner's own last read");
        assert_ok(cuMemcpyDtoDAsync(copy + CHUNK / 2, at, BYTES, a));
    }
    simcuda_origin("the free");
    assert_int_equal(simcuda_owner_end(at), 0);
    if (handling == USE_RECORDED || handling == USE_RECORDED_EARLY)
        assert_ok(cuStreamWaitEvent(a, used, 0));
    else if (handling == USE_RECORDED_AND_SEEN)
        assert_ok(cuEventSynchronize(used));
    assert_int_equal(simcuda_owner_begin(at, BYTES, "new owner"), 0);
    simcuda_origin("the new owner's first write");
    set(handling == FREED_ON_THE_OTHER ? b : a, at, BYTES);
    simcuda_origin(NULL);
    assert_ok(cuCtxSynchronize());
}

static void check_handling(enum handling handling, const char *earlier)
{
    static const char *const schedules[] = {"SCHEDULE=lazy", "SCHEDULE=eager", "SCHEDULE=random",
                                            "SCHEDULE=threads"};
    unsigned modes = earlier == NULL || MAY_RACE ? 4 : 3;
    for (unsigned i = 0; i < 40; i++) {
        char seed[32];
        (void)snprintf(seed, sizeof(seed), "SEED=%u", i);
        fixture_start(schedules[i % modes], seed, "RACES=1", "RESERVE=64G", NULL);
        listen();
        two_owners_in_turn(handling);
        assert_int_equal(reports, earlier == NULL ? 0 : 1);
        if (earlier != NULL) {
            /* Both are named, in whichever order they ran. */
            assert_int_equal(kinds[0], SIMCUDA_RACE);
            assert_non_null(strstr(texts[0], earlier));
            assert_non_null(strstr(texts[0], "the new owner's first write"));
            assert_non_null(strstr(texts[0], "of 'old owner'"));
            assert_non_null(strstr(texts[0], "of 'new owner'"));
        }
    }
}

static void test_handling(void **state)
{
    (void)state;
    check_handling(USE_RECORDED, NULL);
    check_handling(USE_RECORDED_AND_SEEN, NULL);
    check_handling(USE_RECORDED_EARLY, "the other stream's last read");
    check_handling(USE_NOT_RECORDED, "the other stream's last read");
    check_handling(FREED_ON_THE_OTHER, "the owner's own last read");
}

/* Off: nothing is kept, nothing is said. */
static void test_off(void **state)
{
    (void)state;
    fixture_start("SCHEDULE=random", NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    listen();
    assert_int_equal(simcuda_owner_begin(at, BYTES, "block"), 0);
    assert_int_equal(simcuda_owner_end(at), 0);
    assert_int_equal(simcuda_owner_end(at), 0);
    set(stream, at, BYTES);
    assert_int_equal(reports, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_use_after_free),
        CASE(test_remains_of_a_block),
        CASE(test_overrun),
        CASE(test_host_takes),
        CASE(test_tracked),
        CASE(test_two_owners),
        CASE(test_many_owners),
        CASE(test_handling),
        CASE(test_off),
    };
    return cmocka_run_group_tests_name("owners", tests, NULL, NULL);
}
