/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of the simulated device: repeatable, different by seed, lazy, eager, threaded. */
#include "fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { STREAMS = 4, STEPS = 60 };

struct trace {
    int order[STREAMS * STEPS];
    int count;
    int answers[STEPS];
};

struct step {
    struct trace *trace;
    int id;
};

static void CUDA_CB note(void *data)
{
    const struct step *step = data;
    step->trace->order[step->trace->count++] = step->id;
}

/* A program whose trace is the order its operations ran in and what queries answered. */
static void program(const char *seed, struct trace *trace)
{
    static struct step steps[STREAMS * STEPS];
    CUstream stream[STREAMS];
    memset(trace, 0, sizeof(*trace));
    fixture_start("RESERVE=64G", seed, NULL);
    CUevent event = event_new();
    for (int i = 0; i < STREAMS; i++)
        stream[i] = stream_new(CU_STREAM_NON_BLOCKING);
    for (int n = 0; n < STEPS; n++) {
        for (int i = 0; i < STREAMS; i++) {
            steps[n * STREAMS + i] = (struct step){trace, n * STREAMS + i};
            assert_ok(cuLaunchHostFunc(stream[i], note, &steps[n * STREAMS + i]));
        }
        assert_ok(cuEventRecord(event, stream[n % STREAMS]));
        CUresult answer = cuEventQuery(event);
        assert_true(answer == CUDA_SUCCESS || answer == CUDA_ERROR_NOT_READY);
        trace->answers[n] = answer;
    }
    assert_ok(cuCtxSynchronize());
    assert_int_equal(trace->count, STREAMS * STEPS);
}

static void test_seeds(void **state)
{
    (void)state;
    static struct trace first;
    static struct trace again;
    static struct trace other;
    int differ = 0;
    program("SEED=1", &first);
    program("SEED=1", &again);
    assert_memory_equal(&first, &again, sizeof(first));
    for (int seed = 2; seed < 6; seed++) {
        char setting[32];
        (void)snprintf(setting, sizeof(setting), "SEED=%d", seed);
        program(setting, &other);
        differ += memcmp(first.order, other.order, sizeof(first.order)) != 0;
    }
    assert_int_equal(differ, 4);
    /* Both answers occur, and streams do overtake each other. */
    int ready = 0;
    int overtaken = 0;
    for (int n = 0; n < STEPS; n++)
        ready += first.answers[n] == CUDA_SUCCESS;
    for (int n = 1; n < STREAMS * STEPS; n++)
        overtaken += first.order[n] < first.order[n - 1];
    assert_in_range(ready, 1, STEPS - 1);
    assert_true(overtaken > 10);
}

/* Each stream's own work is in order, whatever the seed. */
static void test_streams_stay_in_order(void **state)
{
    (void)state;
    static struct trace trace;
    for (int seed = 0; seed < 20; seed++) {
        char setting[32];
        int last[STREAMS] = {-1, -1, -1, -1};
        (void)snprintf(setting, sizeof(setting), "SEED=%d", seed);
        program(setting, &trace);
        for (int n = 0; n < trace.count; n++) {
            int stream = trace.order[n] % STREAMS;
            assert_true(trace.order[n] > last[stream]);
            last[stream] = trace.order[n];
        }
    }
}

/* A bounded backlog: the random schedule keeps up with a host that never waits. */
static void test_random_backlog(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "SEED=3", NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new();
    uint64_t most = 0;
    for (int i = 0; i < 100000; i++) {
        assert_ok(cuEventRecord(event, stream));
        uint64_t pending = simcuda_pending();
        most = pending > most ? pending : most;
    }
    assert_in_range(most, 8, 1000);
}

static void test_lazy(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "SCHEDULE=lazy", NULL);
    CUstream needed = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new();
    CUevent later = event_new();
    assert_ok(cuEventRecord(later, other));
    assert_ok(cuEventRecord(event, needed));
    assert_ok(cuEventRecord(later, needed));
    for (int i = 0; i < 100; i++)
        assert_result(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_int_equal(simcuda_pending(), 3);
    assert_ok(cuEventSynchronize(event)); /* one operation, no more */
    assert_int_equal(simcuda_pending(), 2);
    /* A program that polls without end does get on. */
    int polls = 0;
    while (cuEventQuery(later) == CUDA_ERROR_NOT_READY)
        polls++;
    assert_in_range(polls, 900, 5000);
}

static void test_eager(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "SCHEDULE=eager", NULL);
    CUstream first = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new();
    volatile uint32_t *gate = gate_new();
    assert_ok(cuEventRecord(event, first));
    assert_int_equal(simcuda_pending(), 0);
    gate_close(first, gate);
    assert_ok(cuEventRecord(event, first));
    assert_ok(cuStreamWaitEvent(second, event, 0));
    assert_int_equal(simcuda_pending(), 3);
    gate_open(gate);
    assert_ok(cuEventQuery(event));
    assert_int_equal(simcuda_pending(), 0);
}

struct worker {
    CUcontext context;
    CUdeviceptr at;
    CUresult failed;
    unsigned char seen;
};

static void *worker_main(void *data)
{
    struct worker *worker = data;
    CUstream stream = NULL;
    CUevent event = NULL;
    CUresult result = cuCtxSetCurrent(worker->context);
    result = result ? result : cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    result = result ? result : cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    for (unsigned i = 0; i < 500 && result == CUDA_SUCCESS; i++) {
        result = cuMemsetD8Async(worker->at, (unsigned char)i, 256, stream);
        result = result ? result : cuEventRecord(event, stream);
        result = result ? result : cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0);
        result = result
                     ? result
                     : cuMemcpyDtoHAsync(&worker->seen, worker->at + 255, 1, CU_STREAM_PER_THREAD);
        if (result == CUDA_SUCCESS && worker->seen != (unsigned char)i)
            result = CUDA_ERROR_ASSERT;
    }
    worker->failed = result;
    return NULL;
}

static void many_threads(const char *schedule)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    struct worker worker[THREADS];
    fixture_start("RESERVE=64G", schedule, NULL);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        worker[i] = (struct worker){fixture_context(), at + i * 4096, CUDA_SUCCESS, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, worker_main, &worker[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_ok(worker[i].failed);
    }
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_pending(), 0);
    assert_int_equal(simcuda_violations(), 0);
}

static void test_threads_of_the_program(void **state)
{
    (void)state;
    many_threads("SCHEDULE=random");
    many_threads("SCHEDULE=lazy");
}

static void test_threads_of_the_device(void **state)
{
    (void)state;
    many_threads("SCHEDULE=threads");
}

static void test_threads_settle(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "SCHEDULE=threads", "THREADS=3", NULL);
    CUstream gated = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new();
    volatile uint32_t *gate = gate_new();
    gate_close(gated, gate);
    assert_ok(cuEventRecord(event, gated));
    assert_ok(cuEventRecord(event_new(), stream));
    assert_int_equal(simcuda_run(UINT64_MAX), 0);
    assert_int_equal(simcuda_pending(), 2);
    assert_result(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuEventSynchronize(event));
}

static void CUDA_CB post(void *semaphore)
{
    sem_post(semaphore);
}

/* The host waits for a host function by its own means, and calls nothing: what is queued before it
 * goes on. Seen to fail, after its minute, where no thread watches. */
static void test_idle(void **state)
{
    (void)state;
    static const char *const schedules[] = {"SCHEDULE=lazy", "SCHEDULE=random"};
    for (int i = 0; i < 2; i++) {
        sem_t done;
        struct timespec until;
        fixture_start("RESERVE=64G", schedules[i], "IDLE_MS=20", NULL);
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
        CUevent event = event_new();
        assert_int_equal(sem_init(&done, 0, 0), 0);
        assert_ok(cuLaunchHostFunc(other, post, &done));
        assert_ok(cuEventRecord(event, other));
        assert_ok(cuStreamWaitEvent(stream, event, 0));
        assert_ok(cuLaunchHostFunc(stream, post, &done));
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 60;
        assert_int_equal(sem_timedwait(&done, &until), 0);
        assert_int_equal(sem_timedwait(&done, &until), 0);
        assert_ok(cuCtxSynchronize());
        sem_destroy(&done);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_seeds),
        CASE(test_streams_stay_in_order),
        CASE(test_random_backlog),
        CASE(test_lazy),
        CASE(test_eager),
        CASE(test_threads_of_the_program),
        CASE(test_threads_of_the_device),
        CASE(test_threads_settle),
        CASE(test_idle),
    };
    return cmocka_run_group_tests_name("simcuda_schedule", tests, NULL, NULL);
}
