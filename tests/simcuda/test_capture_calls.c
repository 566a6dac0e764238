/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls a capture forbids to which thread on the simulated device, what forbidden calls
 * break, and that captures of several threads, failing calls and the race detector go together.
 *
 * Seen to fail when these were taken out or turned, one at a time: in sim_capture_unsafe the
 * captures' modes (test_modes), `everywhere` and `own` (test_thread_modes, test_what_is_broken); in
 * alloc.c the check of frees in stream order (test_modes); the check of a context that is waited
 * for (test_context_synchronize); the comparison of threads at the end (test_wrong_thread).
 */
#include "fixture.h"

#include <pthread.h>
#include <string.h>

enum { GLOBAL, LOCAL, RELAXED, MODES };

static const CUstreamCaptureMode modes[MODES] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                 CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                 CU_STREAM_CAPTURE_MODE_RELAXED};

static CUstreamCaptureStatus status(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    assert_ok(cuStreamIsCapturing(stream, &status));
    return status;
}

/* ---- calls that a mode forbids -------------------------------------------------------------- */

/* Things made before a capture. */
struct lab {
    CUstream stream;
    CUstream other;
    CUevent done;
    CUdeviceptr at;
    CUdeviceptr block;
    CUdeviceptr pool;
    void *pinned;
    CUmodule module;
    CUgraph graph;
    CUgraphExec exec;
};

static void lab_start(struct lab *lab)
{
    static const char image[] = "any";
    fixture_start(NULL);
    memset(lab, 0, sizeof(*lab));
    lab->stream = stream_new(CU_STREAM_NON_BLOCKING);
    lab->other = stream_new(CU_STREAM_NON_BLOCKING);
    lab->done = event_new();
    lab->at = chunk_mapped(CHUNK, NULL);
    assert_ok(cuMemAlloc(&lab->block, 4096));
    assert_ok(cuMemAllocAsync(&lab->pool, 4096, lab->other));
    assert_ok(cuMemHostAlloc(&lab->pinned, 4096, 0));
    assert_ok(cuModuleLoadData(&lab->module, image));
    assert_ok(cuGraphCreate(&lab->graph, 0));
    assert_ok(cuGraphInstantiateWithFlags(&lab->exec, lab->graph, 0));
    assert_ok(cuEventRecord(lab->done, lab->other));
    assert_ok(cuCtxSynchronize());
}

#define FORBIDDEN(X)                                                                               \
    X(mem_alloc, cuMemAlloc(&(CUdeviceptr){0}, 4096))                                              \
    X(mem_free, cuMemFree(lab->block))                                                             \
    X(mem_free_null, cuMemFree(0))                                                                 \
    X(host_alloc, cuMemHostAlloc(&(void *){NULL}, 4096, 0))                                        \
    X(alloc_host, cuMemAllocHost(&(void *){NULL}, 4096))                                           \
    X(host_free, cuMemFreeHost(lab->pinned))                                                       \
    X(alloc_async, cuMemAllocAsync(&(CUdeviceptr){0}, 4096, lab->other))                           \
    X(free_async, cuMemFreeAsync(lab->pool, lab->other))                                           \
    X(event_query, cuEventQuery(lab->done))                                                        \
    X(event_sync, cuEventSynchronize(lab->done))                                                   \
    X(stream_query, cuStreamQuery(lab->other))                                                     \
    X(stream_sync, cuStreamSynchronize(lab->other))                                                \
    X(module_unload, cuModuleUnload(lab->module))                                                  \
    X(instantiate, cuGraphInstantiateWithFlags(&(CUgraphExec){NULL}, lab->graph, 0))               \
    X(exec_destroy, cuGraphExecDestroy(lab->exec))

#define SAFE(X)                                                                                    \
    X(event_create, cuEventCreate(&(CUevent){NULL}, 0))                                            \
    X(event_destroy, cuEventDestroy(lab->done))                                                    \
    X(event_record, cuEventRecord(lab->done, lab->other))                                          \
    X(wait, cuStreamWaitEvent(lab->other, lab->done, 0))                                           \
    X(stream_create, cuStreamCreate(&(CUstream){NULL}, CU_STREAM_NON_BLOCKING))                    \
    X(stream_destroy, cuStreamDestroy(lab->other))                                                 \
    X(set, cuMemsetD8Async(lab->at, 1, 16, lab->other))                                            \
    X(set_legacy, cuMemsetD8Async(lab->at, 1, 16, NULL))                                           \
    X(set_sync, cuMemsetD8(lab->at, 1, 16))                                                        \
    X(copy_up, cuMemcpyHtoD(lab->at, lab->pinned, 16))                                             \
    X(copy_down, cuMemcpyDtoH(lab->pinned, lab->at, 16))                                           \
    X(get_info, cuMemGetInfo(&(size_t){0}, &(size_t){0}))                                          \
    X(reserve, cuMemAddressReserve(&(CUdeviceptr){0}, CHUNK, 0, 0, 0))                             \
    X(module_load, cuModuleLoadData(&(CUmodule){NULL}, "any"))                                     \
    X(graph_create, cuGraphCreate(&(CUgraph){NULL}, 0))                                            \
    X(graph_launch, cuGraphLaunch(lab->exec, lab->other))                                          \
    X(graph_destroy, cuGraphDestroy(lab->graph))

typedef CUresult (*lab_call)(struct lab *lab);

#define CALL(name, expression)                                                                     \
    static CUresult call_##name(struct lab *lab)                                                   \
    {                                                                                              \
        (void)lab;                                                                                 \
        return expression;                                                                         \
    }
FORBIDDEN(CALL)
SAFE(CALL)

struct named_call {
    const char *name;
    lab_call call;
};

#define ROW(name, expression) {#name, call_##name},
static const struct named_call forbidden[] = {FORBIDDEN(ROW)};
static const struct named_call safe[] = {SAFE(ROW)};

/* One call while one capture of the mode is under way. */
static void call_during(const struct named_call *row, int mode, int allowed)
{
    struct lab lab;
    lab_start(&lab);
    assert_ok(cuStreamBeginCapture(lab.stream, modes[mode]));
    CUresult result = row->call(&lab);
    CUresult ended = cuStreamEndCapture(lab.stream, NULL);
    CUresult wanted = allowed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult wanted_end = allowed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (result != wanted || ended != wanted_end)
        print_message("%s in mode %d: %d, then %d\n", row->name, mode, (int)result, (int)ended);
    assert_result(result, wanted);
    assert_result(ended, wanted_end);
    if (!allowed)
        assert_ok(row->call(&lab)); /* the refused call had done nothing */
}

static void test_modes(void **state)
{
    (void)state;
    for (int mode = GLOBAL; mode < MODES; mode++) {
        for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
            call_during(&forbidden[i], mode, mode == RELAXED);
        for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
            call_during(&safe[i], mode, 1);
    }
}

/* Chunks may be made, mapped, unmapped and released in every mode. */
static void test_chunks(void **state)
{
    (void)state;
    for (int mode = GLOBAL; mode < MODES; mode++) {
        fixture_start(NULL);
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        assert_ok(cuStreamBeginCapture(stream, modes[mode]));
        CUdeviceptr at = chunk_mapped(CHUNK, NULL);
        assert_ok(cuMemsetD8Async(at, 1, CHUNK, stream));
        chunk_unmapped(at, CHUNK);
        assert_ok(cuStreamEndCapture(stream, NULL));
        assert_int_equal(simcuda_violations(), 0);
    }
}

/* Waiting for a whole context is forbidden by any capture in it, and breaks them all. */
static void test_context_synchronize(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream streams[MODES];
    for (int mode = GLOBAL; mode < MODES; mode++) {
        streams[mode] = stream_new(CU_STREAM_NON_BLOCKING);
        assert_ok(cuStreamBeginCapture(streams[mode], modes[mode]));
    }
    assert_result(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    for (int mode = GLOBAL; mode < MODES; mode++)
        assert_result(cuStreamEndCapture(streams[mode], NULL),
                      CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_ok(cuCtxSynchronize());
}

/* ---- threads -------------------------------------------------------------------------------- */

struct errand {
    void (*run)(struct errand *errand);
    CUstream stream;
    CUstreamCaptureMode mode;
    CUresult result;
};

static void *errand_main(void *argument)
{
    struct errand *errand = argument;
    errand->result = cuCtxSetCurrent(fixture_context());
    if (errand->result == CUDA_SUCCESS)
        errand->run(errand);
    return NULL;
}

static CUresult elsewhere(struct errand *errand)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, errand_main, errand), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return errand->result;
}

static void errand_begin(struct errand *errand)
{
    errand->result = cuStreamBeginCapture(errand->stream, errand->mode);
}

static void errand_end(struct errand *errand)
{
    errand->result = cuStreamEndCapture(errand->stream, NULL);
}

static void errand_alloc(struct errand *errand)
{
    CUdeviceptr at = 0;
    CUstreamCaptureMode mode = errand->mode;
    errand->result = cuThreadExchangeStreamCaptureMode(&mode);
    if (errand->result == CUDA_SUCCESS)
        errand->result = cuMemAlloc(&at, 64);
}

/* Every mode of a capture, of a thread, and of which thread began the capture. */
static void test_thread_modes(void **state)
{
    (void)state;
    fixture_start(NULL);
    for (int capture = GLOBAL; capture < MODES; capture++) {
        for (int thread = GLOBAL; thread < MODES; thread++) {
            CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
            struct errand alloc = {.run = errand_alloc, .mode = modes[thread]};
            int refused = capture == GLOBAL && thread == GLOBAL;
            assert_ok(cuStreamBeginCapture(stream, modes[capture]));
            assert_result(elsewhere(&alloc),
                          refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
            assert_result(cuStreamEndCapture(stream, NULL),
                          refused ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
            CUstreamCaptureMode before = modes[thread];
            refused = capture != RELAXED && thread != RELAXED;
            assert_ok(cuStreamBeginCapture(stream, modes[capture]));
            assert_ok(cuThreadExchangeStreamCaptureMode(&before));
            assert_int_equal(before, CU_STREAM_CAPTURE_MODE_GLOBAL);
            assert_result(cuMemAlloc(&(CUdeviceptr){0}, 64),
                          refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
            assert_ok(cuThreadExchangeStreamCaptureMode(&before));
            assert_int_equal(before, modes[thread]);
            assert_result(cuStreamEndCapture(stream, NULL),
                          refused ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
        }
    }
    CUstreamCaptureMode bad = (CUstreamCaptureMode)3;
    assert_result(cuThreadExchangeStreamCaptureMode(&bad), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuThreadExchangeStreamCaptureMode(NULL), CUDA_ERROR_INVALID_VALUE);
}

/* A forbidden call breaks exactly the captures that forbid it. */
static void test_what_is_broken(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream own[MODES];
    CUstream theirs[MODES];
    for (int mode = GLOBAL; mode < MODES; mode++) {
        own[mode] = stream_new(CU_STREAM_NON_BLOCKING);
        theirs[mode] = stream_new(CU_STREAM_NON_BLOCKING);
        struct errand their_begin = {errand_begin, theirs[mode], modes[mode], CUDA_SUCCESS};
        assert_ok(cuStreamBeginCapture(own[mode], modes[mode]));
        assert_ok(elsewhere(&their_begin));
    }
    assert_result(cuMemAlloc(&(CUdeviceptr){0}, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    const CUstreamCaptureStatus broken = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    const CUstreamCaptureStatus whole = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    assert_int_equal(status(own[GLOBAL]), broken);
    assert_int_equal(status(own[LOCAL]), broken);
    assert_int_equal(status(own[RELAXED]), whole);
    assert_int_equal(status(theirs[GLOBAL]), broken);
    assert_int_equal(status(theirs[LOCAL]), whole);
    assert_int_equal(status(theirs[RELAXED]), whole);
}

static void test_wrong_thread(void **state)
{
    (void)state;
    fixture_start(NULL);
    for (int mode = GLOBAL; mode < MODES; mode++) {
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        struct errand end = {.run = errand_end, .stream = stream};
        assert_ok(cuStreamBeginCapture(stream, modes[mode]));
        assert_result(elsewhere(&end),
                      mode == RELAXED ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_NONE); /* ended all the same */
        assert_result(cuStreamEndCapture(stream, NULL), CUDA_ERROR_ILLEGAL_STATE);
    }
}

enum { THREADS = 4, ROUNDS = 50 };

/* Captures a fork and a join, replays it, and allocates outside; again and again. */
static void errand_capture(struct errand *errand)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream side = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new();
    CUdeviceptr at = 0;
    assert_ok(cuMemAlloc(&at, 4096));
    for (int round = 0; round < ROUNDS; round++) {
        CUgraph graph = NULL;
        CUgraphExec exec = NULL;
        size_t count = 0;
        assert_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        assert_ok(cuMemsetD8Async(at, (unsigned char)round, 64, stream));
        assert_ok(cuEventRecord(event, stream));
        assert_ok(cuStreamWaitEvent(side, event, 0));
        assert_ok(cuMemcpyDtoDAsync(at + 64, at, 64, side));
        assert_ok(cuEventRecord(event, side));
        assert_ok(cuMemcpyDtoDAsync(at + 128, at, 64, stream));
        assert_ok(cuStreamWaitEvent(stream, event, 0));
        assert_ok(cuStreamEndCapture(stream, &graph));
        assert_ok(cuGraphGetNodes(graph, NULL, &count));
        assert_int_equal(count, 3);
        assert_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
        assert_ok(cuGraphLaunch(exec, stream));
        unsigned char bytes[192] = {0};
        assert_ok(cuMemcpyDtoHAsync(bytes, at, sizeof(bytes), stream));
        assert_ok(cuStreamSynchronize(stream));
        assert_true(bytes[0] == round && bytes[64] == round && bytes[191] == round);
        assert_ok(cuGraphExecDestroy(exec));
        assert_ok(cuGraphDestroy(graph));
    }
    errand->result = cuMemFree(at);
}

/* In their own modes threads do not meet; ThreadSanitizer watches this one. */
static void test_threads_capture_at_once(void **state)
{
    (void)state;
    fixture_start("SCHEDULE=threads", "RACES=1", "RESERVE=64G", NULL);
    pthread_t threads[THREADS];
    struct errand errands[THREADS];
    for (int i = 0; i < THREADS; i++) {
        errands[i] = (struct errand){.run = errand_capture, .result = CUDA_ERROR_UNKNOWN};
        assert_int_equal(pthread_create(&threads[i], NULL, errand_main, &errands[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_ok(errands[i].result);
    }
    assert_int_equal(simcuda_races(), 0);
    assert_int_equal(simcuda_violations(), 0);
}

/* ---- together with the rest ----------------------------------------------------------------- */

static void quiet(const simcuda_report *report, void *data)
{
    (void)report;
    (void)data;
}

/* A captured operation touches nothing; launched, it touches what it says. */
static void test_races(void **state)
{
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        fixture_start("SCHEDULE=lazy", "RACES=1", "RESERVE=64G", NULL);
        simcuda_races_callback(quiet, NULL);
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
        CUdeviceptr at = chunk_mapped(CHUNK, NULL);
        CUgraph graph = NULL;
        CUgraphExec exec = NULL;
        assert_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        assert_ok(cuMemsetD8Async(at, 1, 64, other));
        assert_ok(cuMemsetD8Async(at, 2, 64, stream));
        assert_ok(cuMemsetD8Async(at, 3, 64, other));
        assert_ok(cuStreamEndCapture(stream, &graph));
        assert_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
        if (ordered) {
            CUevent event = event_new();
            assert_ok(cuEventRecord(event, other));
            assert_ok(cuStreamWaitEvent(stream, event, 0));
        }
        assert_int_equal(simcuda_races(), 0);
        assert_ok(cuGraphLaunch(exec, stream));
        assert_ok(cuCtxSynchronize());
        assert_int_equal(simcuda_races(), ordered ? 0 : 1);
        assert_ok(cuGraphExecDestroy(exec));
        assert_ok(cuGraphDestroy(graph));
    }
}

/* Two captured branches that nothing orders race when they are launched. */
static void test_races_between_branches(void **state)
{
    (void)state;
    for (int joined = 0; joined < 2; joined++) {
        fixture_start("SCHEDULE=random", "RACES=1", "RESERVE=64G", NULL);
        simcuda_races_callback(quiet, NULL);
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        CUstream side = stream_new(CU_STREAM_NON_BLOCKING);
        CUdeviceptr at = chunk_mapped(CHUNK, NULL);
        CUevent event = event_new();
        CUgraph graph = NULL;
        CUgraphExec exec = NULL;
        assert_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        assert_ok(cuEventRecord(event, stream));
        assert_ok(cuStreamWaitEvent(side, event, 0));
        assert_ok(cuMemsetD8Async(at, 1, 64, side));
        assert_ok(cuEventRecord(event, side));
        if (joined)
            assert_ok(cuStreamWaitEvent(stream, event, 0));
        assert_ok(cuMemsetD8Async(at, 2, 64, stream));
        assert_ok(cuStreamWaitEvent(stream, event, 0));
        assert_ok(cuStreamEndCapture(stream, &graph));
        assert_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
        assert_ok(cuGraphLaunch(exec, stream));
        assert_ok(cuStreamSynchronize(stream));
        assert_int_equal(simcuda_races(), joined ? 0 : 1);
        assert_ok(cuGraphExecDestroy(exec));
        assert_ok(cuGraphDestroy(graph));
    }
}

/* A call that is made to fail does nothing: the capture goes on, or has not begun. */
static void test_failing_calls(void **state)
{
    (void)state;
    fixture_start(NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream side = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUevent event = event_new();
    CUgraph graph = NULL;
    size_t count = 0;
    simcuda_fail("cuStreamBeginCapture", 1, 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_result(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                  CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuEventRecord(event, stream));
    simcuda_fail("cuStreamWaitEvent", 1, 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_result(cuStreamWaitEvent(side, event, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(status(side), CU_STREAM_CAPTURE_STATUS_NONE);
    simcuda_fail("cuMemsetD8Async", 1, 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_result(cuMemsetD8Async(at, 1, 16, stream), CUDA_ERROR_OUT_OF_MEMORY);
    simcuda_fail("cuStreamEndCapture", 1, 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_result(cuStreamEndCapture(stream, &graph), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 0);
    assert_int_equal(simcuda_fail_hits(), 4);
    assert_int_equal(simcuda_calls("cuStreamBeginCapture"), 2);
    assert_int_equal(simcuda_calls("cuStreamEndCapture"), 2);
    assert_ok(cuGraphDestroy(graph));
}

/* Every form can be found under the version it came with. */
static void test_found_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int version;
    } rows[] = {
        {"cuStreamBeginCapture", 10010},
        {"cuStreamBeginCaptureToGraph", 12030},
        {"cuStreamEndCapture", 10000},
        {"cuStreamUpdateCaptureDependencies", 11030},
        {"cuStreamUpdateCaptureDependencies", 12030},
        {"cuThreadExchangeStreamCaptureMode", 10010},
        {"cuStreamGetCaptureInfo", 11030},
        {"cuStreamGetCaptureInfo", 12030},
    };
    fixture_start(NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *function = NULL;
        void *per_thread = NULL;
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        assert_ok(cuGetProcAddress_v2(rows[i].name, &function, rows[i].version, 0, &found));
        assert_non_null(function);
        assert_ok(cuGetProcAddress_v2(rows[i].name, &per_thread, rows[i].version,
                                      CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &found));
        assert_true(per_thread != function ||
                    strcmp(rows[i].name, "cuThreadExchangeStreamCaptureMode") == 0);
        (void)cuGetProcAddress_v2(rows[i].name, &function, 9000, 0, &found);
        assert_int_equal(found, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    }
    CUstreamCaptureStatus asked = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult (*own_begin)(CUstream, CUstreamCaptureMode) = NULL;
    void *function = NULL;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    assert_ok(cuGetProcAddress_v2("cuStreamBeginCapture", &function, 12000,
                                  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &found));
    memcpy(&own_begin, &function, sizeof(own_begin));
    assert_ok(own_begin(NULL, CU_STREAM_CAPTURE_MODE_RELAXED)); /* the thread's own stream */
    assert_ok(cuStreamIsCapturing(CU_STREAM_PER_THREAD, &asked));
    assert_int_equal(asked, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(cuStreamEndCapture(CU_STREAM_PER_THREAD, NULL));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_modes),
        CASE(test_chunks),
        CASE(test_context_synchronize),
        CASE(test_thread_modes),
        CASE(test_what_is_broken),
        CASE(test_wrong_thread),
        CASE(test_threads_capture_at_once),
        CASE(test_races),
        CASE(test_races_between_branches),
        CASE(test_failing_calls),
        CASE(test_found_by_name),
    };
    return cmocka_run_group_tests_name("capture calls", tests, NULL, NULL);
}
