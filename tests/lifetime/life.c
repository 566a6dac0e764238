/* SPDX-License-Identifier: Apache-2.0 */
/* See life.h. */
#include "life.h"

#include <string.h>

tnr_stream life_streams[LIFE_STREAMS];
static volatile uint32_t *gates; /* pinned; null before life_start */

enum { EVENTS_MAX = 64 };
static CUevent events[EVENTS_MAX]; /* the test's own, destroyed at its end */
static int events_count;

void life_start(const char *conf, const char *setting, const char *setting2)
{
    void *words = NULL;
    CUcontext context;
    /* A setting that comes later counts. */
    unit_start(conf, "RACES=1", "SCHEDULE=lazy", setting == NULL ? "SEED=0" : setting,
               setting2 == NULL ? "STRICT=report" : setting2, NULL);
    for (int i = 0; i < LIFE_STREAMS; i++)
        life_streams[i] = unit_stream(0);
    /* The fixture has retained the context; this reference goes back at once. */
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuMemHostAlloc(&words, LIFE_GATES * sizeof(uint32_t), 0), CUDA_SUCCESS);
    memset(words, 0, LIFE_GATES * sizeof(uint32_t));
    gates = words;
}

int life_stop(void **state)
{
    simcuda_fail_clear();
    for (int i = 0; i < LIFE_GATES && gates != NULL; i++)
        life_gate_open(i);
    gates = NULL;
    simcuda_run(UINT64_MAX);
    if (simcuda_races() > 0)
        print_error("race: %s\n", simcuda_race_last());
    int raced = simcuda_races() > 0;
    while (events_count > 0)
        if (events[--events_count] != NULL)
            (void)cuEventDestroy(events[events_count]);
    return unit_stop(state) != 0 || raced ? -1 : 0;
}

tnr_stream life_stream(unsigned flags)
{
    CUstream stream = NULL;
    assert_int_equal(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
}

CUevent life_event(void)
{
    CUevent event = NULL;
    assert_true(events_count < EVENTS_MAX);
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    events[events_count++] = event;
    return event;
}

void life_event_destroy(CUevent event)
{
    for (int i = 0; i < events_count; i++)
        if (events[i] == event)
            events[i] = NULL;
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
}

void life_gate_close(int gate, tnr_stream stream)
{
    assert_int_equal(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)&gates[gate], 1,
                                         CU_STREAM_WAIT_VALUE_GEQ),
                     CUDA_SUCCESS);
}

void life_gate_open(int gate)
{
    __atomic_store_n(&gates[gate], 1, __ATOMIC_RELEASE);
}

void life_fill(void *block, size_t bytes, int value, tnr_stream stream)
{
    assert_int_equal(
        cuMemsetD8Async((CUdeviceptr)(uintptr_t)block, (unsigned char)value, bytes, stream),
        CUDA_SUCCESS);
}

unsigned char *life_read(const void *block, size_t bytes, tnr_stream stream)
{
    void *target = NULL;
    assert_int_equal(cuMemHostAlloc(&target, bytes, 0), CUDA_SUCCESS);
    memset(target, 0xee, bytes);
    assert_int_equal(cuMemcpyDtoHAsync(target, (CUdeviceptr)(uintptr_t)block, bytes, stream),
                     CUDA_SUCCESS);
    return target;
}

int life_all(const unsigned char *read, size_t bytes, int value)
{
    /* All equal the first one. A loop over bytes took most of these tests' time under memcheck. */
    return bytes == 0 ||
           (read[0] == (unsigned char)value && memcmp(read, read + 1, bytes - 1) == 0);
}

void life_record(CUevent event, tnr_stream stream)
{
    tnr_moment before = tnr_moment_now();
    assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
    assert_ok(tnr_event_recorded(event, 0, stream, before));
}

void life_wait(tnr_stream stream, CUevent event)
{
    tnr_moment before = tnr_moment_now();
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    assert_ok(tnr_stream_waited(event, 0, stream, before));
}

uint64_t life_host_waits(void)
{
    return simcuda_calls("cuEventSynchronize") + simcuda_calls("cuCtxSynchronize") +
           simcuda_calls("cuStreamSynchronize");
}

uint64_t life_because(tnr_reuse reason)
{
    return unit_stats().freed_because[reason];
}

int life_is_reused(const void *block, size_t bytes, tnr_stream stream)
{
    uintptr_t wanted = (uintptr_t)block;
    uintptr_t got = (uintptr_t)unit_malloc(bytes, stream);
    return got < wanted + bytes && wanted < got + bytes;
}
