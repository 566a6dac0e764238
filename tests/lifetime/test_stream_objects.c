/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as objects: what remains of streams and threads that come and go by the thousand, and
 * what an idle stream costs. Costs are counted in driver calls and bytes, never timed.
 *
 * Seen to fail with these lines changed in the library:
 *   threads_that_end_leave_nothing   stream.c, default_find: without tnri_streams_reap
 *   an_idle_stream_is_small          api.c, tnr_trim: without tnri_dissolve_all
 *   uses_of_threads_that_ended_end   ladder.c, ladder_ascend: without tnri_streams_reap
 *   nothing_is_reaped_in_a_capture   stream.c, tnri_streams_reap: without "tnri_capturing()"
 *   a_stream_adopts_one_arena        pool.c, arena_adopt: "other" is null
 *   streams_that_do_not_exist        stream.c, stream_find_slowly: the status of tnri_facts_ask
 *                                    ignored
 *   streams_that_were_used_...       stream.c, stream_seal: spare_holds are not given up, or not
 *                                    forgotten; stream.h, tnri_stream_hold_spare: always a new one
 */
#include "life.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/capture.h>

#include "base/host_memory.h"
#include "gpu/cuda/driver.h"
#include "memory/stream/stream.h"

#define BYTES (4 * MIB)

static CUcontext device_context;

/* Runs body(data) in a thread of its own, from its start to its end. */
static void in_thread(void *(*body)(void *data), void *data)
{
    pthread_t thread;
    assert_int_equal(cuCtxGetCurrent(&device_context), CUDA_SUCCESS);
    assert_int_equal(pthread_create(&thread, NULL, body, data), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- threads that end ----------------------------------------------------------------------- */

/* Uses a block on the thread's own default stream, and ends. */
static void *allocate_and_end(void *data)
{
    (void)data;
    assert_int_equal(cuCtxSetCurrent(device_context), CUDA_SUCCESS);
    void *block = unit_malloc(BYTES, CU_STREAM_PER_THREAD);
    life_fill(block, BYTES, 1, CU_STREAM_PER_THREAD);
    assert_ok(tnr_free(block));
    return NULL;
}

typedef struct standing {
    uint64_t reserved, arenas, host, calls;
} standing;

static standing standing_now(uint64_t calls_before)
{
    tnr_stats stats = unit_stats();
    return (standing){stats.reserved_bytes.current, stats.arenas, tnri_host_bytes(),
                      simcuda_calls_total() - calls_before};
}

static standing after_threads(size_t count)
{
    uint64_t calls = 0;
    for (size_t i = 0; i < count; i++) {
        calls = simcuda_calls_total(); /* those of the last one count */
        in_thread(allocate_and_end, NULL);
    }
    return standing_now(calls);
}

static void threads_that_end_leave_nothing(void **state)
{
    (void)state;
    if (!unit_knows_the_gone())
        skip();
    life_start(NULL, NULL, NULL);
    standing few = after_threads(10);
    standing many = after_threads(getenv("TENURE_TEST_LONG") == NULL ? 300 : 10000);
    print_message(
        "%zu bytes reserved after 10 threads, %zu after many; of the host's memory %zu and "
        "%zu; the last thread made %zu driver calls, of many %zu\n",
        (size_t)few.reserved, (size_t)many.reserved, (size_t)few.host, (size_t)many.host,
        (size_t)few.calls, (size_t)many.calls);
    assert_int_equal(few.reserved, many.reserved);
    assert_true(many.reserved <= 2 * BYTES);
    assert_int_equal(few.arenas, many.arenas);
    assert_true(many.host <= few.host + 16 * KIB);
    assert_true(many.calls <= few.calls);
    assert_int_equal(simcuda_violations(), 0);
}

/* The same for a thread that lives, and misses: it takes what those that ended have left. */
static void a_miss_takes_what_threads_left(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    for (int i = 0; i < 3; i++)
        in_thread(allocate_and_end, NULL);
    uint64_t reserved = unit_stats().reserved_bytes.current;
    void *block = unit_malloc(BYTES, life_streams[0]);
    life_fill(block, BYTES, 2, life_streams[0]);
    assert_int_equal(unit_stats().reserved_bytes.current, reserved);
    assert_ok(tnr_free(block));
    assert_int_equal(simcuda_violations(), 0);
}

/* Records a use of the block on the thread's own default stream, and ends. */
static void *use_and_end(void *block)
{
    assert_int_equal(cuCtxSetCurrent(device_context), CUDA_SUCCESS);
    life_fill(block, BYTES, 3, CU_STREAM_PER_THREAD);
    assert_ok(tnr_record_use(block, CU_STREAM_PER_THREAD));
    return NULL;
}

static size_t streams_known(void)
{
    size_t count = 0;
    tnri_device *device = tnri_device_at(0);
    for (tnri_stream *stream = NULL; (stream = tnri_stream_walk(device, stream)) != NULL;)
        count++;
    return count;
}

static void uses_of_threads_that_ended_end(void **state)
{
    (void)state;
    if (!unit_knows_the_gone())
        skip();
    life_start(NULL, NULL, NULL);
    void *first = unit_malloc(BYTES, life_streams[0]);
    in_thread(use_and_end, first);
    assert_ok(tnr_free(first));
    size_t known = streams_known();
    for (int i = 0; i < 60; i++) {
        void *block = unit_malloc(BYTES, life_streams[0]);
        in_thread(use_and_end, block);
        assert_ok(tnr_free(block));
        simcuda_run(UINT64_MAX);
    }
    void *block = unit_malloc(64 * MIB, life_streams[0]); /* a miss, which looks at them */
    assert_ok(tnr_free(block));
    assert_int_equal(unit_stats().blocks_retired, 0);
    size_t released;
    assert_ok(tnr_trim(&released, 0, 0));
    assert_true(streams_known() <= known + 1); /* and the legacy stream, which marked them */
    assert_int_equal(simcuda_violations(), 0);
}

static void nothing_is_reaped_in_a_capture(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    tnr_stream blocking = life_stream(CU_STREAM_DEFAULT);
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = TNR_CAPTURE_RELAXED;
    in_thread(allocate_and_end, NULL);
    assert_ok(tnr_capture_begin(0, blocking, &options));
    in_thread(allocate_and_end, NULL);
    void *inside = unit_malloc(BYTES, blocking);
    void *outside = unit_malloc(64 * MIB, life_streams[0]);
    CUstreamCaptureStatus status;
    assert_int_equal(cuStreamIsCapturing(blocking, &status), CUDA_SUCCESS);
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(tnr_free(inside));
    tnr_cuda_graph graph;
    assert_ok(tnr_capture_end(&graph, NULL, 0, blocking));
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_ok(tnr_free(outside));
    assert_int_equal(simcuda_violations(), 0);
}

/* ---- streams that end ----------------------------------------------------------------------- */

enum { STREAMS_MANY = 400 };

/* So many streams at once, each of which has had a block. */
static void streams_make(tnr_stream *streams)
{
    for (int i = 0; i < STREAMS_MANY; i++) {
        streams[i] = NULL;
        assert_int_equal(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        void *block = unit_malloc(MIB / 2, streams[i]);
        void *large = unit_malloc(4 * MIB, streams[i]);
        assert_ok(tnr_free(block));
        assert_ok(tnr_free(large));
    }
}

static void an_idle_stream_is_small(void **state)
{
    (void)state;
    life_start("address_space_gb:1024", NULL, NULL);
    static tnr_stream streams[STREAMS_MANY];
    size_t released;
    assert_ok(tnr_free(unit_malloc(4 * MIB, life_streams[0])));
    assert_ok(tnr_trim(&released, 0, 0));
    uint64_t before = tnri_host_bytes();
    streams_make(streams);
    assert_ok(tnr_trim(&released, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_true(tnri_host_bytes() - before <= (uint64_t)STREAMS_MANY * 4 * KIB);
    /* They serve as before. */
    for (int i = 0; i < STREAMS_MANY; i += 50)
        assert_ok(tnr_free(unit_malloc(MIB, streams[i])));
    for (int i = 0; i < STREAMS_MANY; i++) {
        assert_ok(tnr_stream_destroying(0, streams[i]));
        assert_int_equal(cuStreamDestroy(streams[i]), CUDA_SUCCESS);
    }
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_trim(&released, 0, 0));
    uint64_t after = tnri_host_bytes();
    streams_make(streams); /* what was left of the first ones serves these */
    for (int i = 0; i < STREAMS_MANY; i++) {
        assert_ok(tnr_stream_destroying(0, streams[i]));
        assert_int_equal(cuStreamDestroy(streams[i]), CUDA_SUCCESS);
    }
    simcuda_run(UINT64_MAX);
    assert_ok(tnr_trim(&released, 0, 0));
    assert_true(tnri_host_bytes() <= after + 64 * KIB);
}

/* ---- adoption ------------------------------------------------------------------------------- */

static void *allocate_on(void *stream)
{
    assert_int_equal(cuCtxSetCurrent(device_context), CUDA_SUCCESS);
    assert_ok(tnr_free(unit_malloc(MIB, (tnr_stream)stream)));
    return NULL;
}

static tnr_stream shared_stream;
static int is_intruded;

/* Another thread allocates on the stream when this one has chosen an arena for it, and is about to
 * make it wait for the end of the stream that had the arena. */
static CUresult CUDAAPI intrude_and_enter(CUcontext context)
{
    if (!is_intruded) {
        is_intruded = 1;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, allocate_on, shared_stream), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    return cuCtxPushCurrent(context);
}

static void a_stream_adopts_one_arena(void **state)
{
    (void)state;
    life_start("cross_stream:off,lend:off", NULL, NULL);
    tnr_stream ended[2];
    for (int i = 0; i < 2; i++) {
        ended[i] = life_stream(CU_STREAM_NON_BLOCKING);
        life_gate_close(i, ended[i]);
        assert_ok(tnr_free(unit_malloc(MIB, ended[i])));
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(tnr_stream_destroying(0, ended[i]));
        assert_int_equal(cuStreamDestroy(ended[i]), CUDA_SUCCESS);
    }
    assert_int_equal(unit_stats().arenas, 2);
    shared_stream = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(tnr_stream_created(0, shared_stream));
    assert_int_equal(cuCtxGetCurrent(&device_context), CUDA_SUCCESS);
    is_intruded = 0;
    tnri_driver.cuCtxPushCurrent = intrude_and_enter;
    assert_ok(tnr_free(unit_malloc(MIB, shared_stream)));
    tnri_driver.cuCtxPushCurrent = cuCtxPushCurrent;
    assert_true(is_intruded);
    /* The other one is still there for the next stream. */
    tnr_stream next = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(tnr_free(unit_malloc(MIB, next)));
    assert_int_equal(unit_stats().arenas, 2);
    assert_int_equal(unit_stats().reserved_bytes.current, 4 * MIB);
    life_gate_open(0);
    life_gate_open(1);
}

/* While something captures, the legacy stream cannot be made to wait for the end of another one: it
 * gets an arena of its own. (Found by the fuzzer, seed 961565.) */
static void the_legacy_stream_adopts_nothing_in_a_capture(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    tnr_stream ended = life_stream(CU_STREAM_NON_BLOCKING);
    life_gate_close(0, ended);
    assert_ok(tnr_free(unit_malloc(MIB, ended)));
    assert_ok(tnr_stream_destroying(0, ended));
    assert_int_equal(cuStreamDestroy(ended), CUDA_SUCCESS);
    tnr_stream blocking = life_stream(CU_STREAM_DEFAULT);
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.mode = TNR_CAPTURE_RELAXED;
    assert_ok(tnr_capture_begin(0, blocking, &options));
    assert_ok(tnr_free(unit_malloc(512, NULL)));
    CUstreamCaptureStatus status;
    assert_int_equal(cuStreamIsCapturing(blocking, &status), CUDA_SUCCESS);
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    tnr_cuda_graph graph;
    assert_ok(tnr_capture_end(&graph, NULL, 0, blocking));
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    life_gate_open(0);
}

/* ---- streams that do not exist -------------------------------------------------------------- */

static void streams_that_do_not_exist(void **state)
{
    (void)state;
    life_start(NULL, "DEVICES=2", NULL);
    void *ptr = &ptr;
    tnr_stream gone = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(tnr_free(unit_malloc(MIB, gone)));
    assert_ok(tnr_stream_destroying(0, gone));
    assert_int_equal(cuStreamDestroy(gone), CUDA_SUCCESS);
    uint64_t arenas = unit_stats().arenas;
    assert_error(tnr_malloc(&ptr, MIB, 0, gone), TNR_ERR_INVALID_STREAM, "destroyed");
    assert_null(ptr);
    assert_error(tnr_reserve(&ptr, MIB, 0, gone), TNR_ERR_INVALID_STREAM, "destroyed");
    assert_null(ptr);
    simcuda_violations_clear(); /* the uses of the handle were what was tried */
    assert_error(tnr_malloc(&ptr, MIB, 1, life_streams[0]), TNR_ERR_INVALID_STREAM, "device 1");
    assert_null(ptr);
    assert_int_equal(unit_stats().arenas, arenas);
}

/* ---- references that stay at the stream ----------------------------------------------------- */

/* A stream that uses a block some times, and ends. */
static void use_and_destroy(void)
{
    tnri_stream *object;
    tnr_stream user = life_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(tnri_stream_find(tnri_device_at(0), user, &object));
    for (int i = 0; i < 3; i++) {
        void *block = unit_malloc(BYTES, life_streams[0]);
        assert_ok(tnr_record_use(block, user));
        assert_ok(tnr_free(block));
        simcuda_run(UINT64_MAX);
        assert_ok(tnr_trim(NULL, 0, 0));
        assert_int_equal(object->spare_holds, 1);
    }
    assert_ok(tnr_stream_destroying(0, user));
    assert_int_equal(object->spare_holds, 0);
    assert_int_equal(cuStreamDestroy(user), CUDA_SUCCESS);
}

/* The object of a stream keeps references to itself for its next uses, which would keep it for
 * ever. */
static void streams_that_were_used_leave_nothing(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    assert_ok(tnr_free(unit_malloc(BYTES, life_streams[0])));
    for (int i = 0; i < 20; i++)
        use_and_destroy();
    size_t few = tnri_host_bytes();
    for (int i = 0; i < 300; i++)
        use_and_destroy();
    size_t many = tnri_host_bytes();
    print_message("%zu bytes of the host's memory after 20 streams, %zu after 320\n", few, many);
    assert_true(many <= few + 16 * KIB);
    assert_int_equal(simcuda_violations(), 0);
}

/* ---- clocks --------------------------------------------------------------------------------- */

/* A clock keeps what was waited for last, and never more than so much of it. */
static void a_clock_forgets_the_oldest(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    enum { ALL = 3 * TNRI_CLOCK_ENTRIES_MAX };
    tnri_clock *clock = NULL;
    for (size_t i = 0; i < ALL; i++)
        clock = tnri_clock_join(clock, NULL, (i * 7919) % ALL, i + 1);
    assert_int_equal(clock->count, TNRI_CLOCK_ENTRIES_MAX);
    for (size_t i = 0; i < ALL; i++)
        assert_int_equal(tnri_clock_of(clock, (i * 7919) % ALL),
                         i < ALL - TNRI_CLOCK_ENTRIES_MAX ? 0 : i + 1);
    tnri_clock *other = tnri_clock_join(NULL, NULL, ALL + 5, ALL + 1);
    clock = tnri_clock_join(clock, other, ALL + 5, 1);
    assert_int_equal(clock->count, TNRI_CLOCK_ENTRIES_MAX);
    assert_int_equal(tnri_clock_of(clock, ALL + 5), ALL + 1);
    tnri_clock_drop(clock);
    tnri_clock_drop(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(threads_that_end_leave_nothing, life_stop),
        cmocka_unit_test_teardown(a_miss_takes_what_threads_left, life_stop),
        cmocka_unit_test_teardown(uses_of_threads_that_ended_end, life_stop),
        cmocka_unit_test_teardown(nothing_is_reaped_in_a_capture, life_stop),
        cmocka_unit_test_teardown(an_idle_stream_is_small, life_stop),
        cmocka_unit_test_teardown(a_stream_adopts_one_arena, life_stop),
        cmocka_unit_test_teardown(the_legacy_stream_adopts_nothing_in_a_capture, life_stop),
        cmocka_unit_test_teardown(streams_that_do_not_exist, life_stop),
        cmocka_unit_test_teardown(streams_that_were_used_leave_nothing, life_stop),
        cmocka_unit_test_teardown(a_clock_forgets_the_oldest, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
