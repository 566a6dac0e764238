/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: streams, events, value waits, host functions. */
#include "scenario.h"

static void event_rules(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    struct gate *gate = gate_new();
    expect("query_unrecorded", cu.EventQuery(event), CUDA_SUCCESS);
    expect("sync_unrecorded", cu.EventSynchronize(event), CUDA_SUCCESS);
    expect("wait_unrecorded", cu.StreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    expect("stream_idle", cu.StreamQuery(stream), CUDA_SUCCESS);
    gate_close(gate, stream);
    expect("record", cu.EventRecord(event, stream), CUDA_SUCCESS);
    expect("query_blocked", cu.EventQuery(event), CUDA_ERROR_NOT_READY);
    expect("stream_blocked", cu.StreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    expect("sync", cu.EventSynchronize(event), CUDA_SUCCESS);
    expect("query", cu.EventQuery(event), CUDA_SUCCESS);
    expect("null", cu.EventQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
    expect("create_null", cu.EventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    expect("create_flags", cu.EventCreate(&event, 1024), CUDA_ERROR_INVALID_VALUE);
    expect("interprocess_timed", cu.EventCreate(&event, CU_EVENT_INTERPROCESS),
           CUDA_ERROR_INVALID_VALUE);
}

/* A record replaces the earlier one for queries made after it. */
static void event_recorded_again(void)
{
    CUstream first = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    struct gate *gate = gate_new();
    gate_close(gate, first);
    expect("record_blocked", cu.EventRecord(event, first), CUDA_SUCCESS);
    expect("query_blocked", cu.EventQuery(event), CUDA_ERROR_NOT_READY);
    expect("record_elsewhere", cu.EventRecord(event, second), CUDA_SUCCESS);
    expect("sync", cu.EventSynchronize(event), CUDA_SUCCESS);
    expect("query", cu.EventQuery(event), CUDA_SUCCESS);
    expect("first_still", cu.StreamQuery(first), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    expect("sync_first", cu.StreamSynchronize(first), CUDA_SUCCESS);
}

/* A wait is for the record that was there at the call. */
static void wait_is_for_the_record_at_the_call(void)
{
    CUstream first = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    expect("set", cu.MemsetD8Async(at, 5, 64, first), CUDA_SUCCESS);
    expect("record", cu.EventRecord(event, first), CUDA_SUCCESS);
    expect("wait", cu.StreamWaitEvent(second, event, 0), CUDA_SUCCESS);
    gate_close(gate, first);
    expect("record_again", cu.EventRecord(event, first), CUDA_SUCCESS);
    expect("copy", cu.MemcpyDtoDAsync(at + 64, at, 64, second), CUDA_SUCCESS);
    watch_start(gate, RETURNS_MS);
    expect("sync_second", cu.StreamSynchronize(second), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 0);
    expect("query", cu.EventQuery(event), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS);
    expect_number("byte", byte_at(at + 64), 5);
}

static void wait_orders_streams(void)
{
    CUstream first = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    need("clear", cu.MemsetD8(at, 0, CHUNK));
    need("sync", cu.CtxSynchronize());
    gate_close(gate, first);
    expect("set", cu.MemsetD8Async(at, 9, 64, first), CUDA_SUCCESS);
    expect("record", cu.EventRecord(event, first), CUDA_SUCCESS);
    expect("wait", cu.StreamWaitEvent(second, event, 0), CUDA_SUCCESS);
    expect("copy", cu.MemcpyDtoDAsync(at + 64, at, 64, second), CUDA_SUCCESS);
    expect("second_blocked", cu.StreamQuery(second), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(second), CUDA_SUCCESS);
    expect_number("byte", byte_at(at + 64), 9);
}

static void stream_order(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (unsigned i = 1; i <= 100; i++)
        need("set", cu.MemsetD8Async(at, (unsigned char)i, CHUNK, stream));
    expect("copy", cu.MemcpyDtoDAsync(at + 1, at, 1, stream), CUDA_SUCCESS);
    expect("set_words", cu.MemsetD32Async(at + 64, 0x01020304, 4, stream), CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", byte_at(at + CHUNK - 1), 100);
    expect_number("copied", byte_at(at + 1), 100);
    expect_number("word_low", byte_at(at + 64), 4);
    expect_number("word_high", byte_at(at + 79), 1);
}

/* The legacy stream and blocking streams wait for each other; non-blocking ones are free. */
static void legacy_stream(void)
{
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    CUstream separate = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent legacy_done = event_new(CU_EVENT_DISABLE_TIMING);
    CUevent after_done = event_new(CU_EVENT_DISABLE_TIMING);
    CUstream after = stream_new(CU_STREAM_DEFAULT);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    gate_close(gate, blocking);
    watch_start(gate, RETURNS_MS);
    expect("legacy_set", cu.MemsetD8Async(at, 1, 16, NULL), CUDA_SUCCESS);
    expect("legacy_record", cu.EventRecord(legacy_done, NULL), CUDA_SUCCESS);
    expect("after_set", cu.MemsetD8Async(at + 16, 1, 16, after), CUDA_SUCCESS);
    expect("after_record", cu.EventRecord(after_done, after), CUDA_SUCCESS);
    expect("separate_set", cu.MemsetD8Async(at + 32, 1, 16, separate), CUDA_SUCCESS);
    expect("separate_sync", cu.StreamSynchronize(separate), CUDA_SUCCESS);
    expect("legacy_query", cu.EventQuery(legacy_done), CUDA_ERROR_NOT_READY);
    expect("after_query", cu.EventQuery(after_done), CUDA_ERROR_NOT_READY);
    expect_yes("waited", watch_stop(gate), 0);
    gate_open(gate);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS);
    expect("legacy_done", cu.EventQuery(legacy_done), CUDA_SUCCESS);
    expect("after_done", cu.EventQuery(after_done), CUDA_SUCCESS);
}

/* Does asking the legacy stream speak for blocking streams that have work and it has none? */
static void legacy_stream_asked(void)
{
    CUstream blocking = stream_new(CU_STREAM_DEFAULT);
    struct gate *gate = gate_new();
    gate_close(gate, blocking);
    expect("query", cu.StreamQuery(NULL), CUDA_ERROR_NOT_READY);
    expect("query_per_thread", cu.StreamQuery(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    watch_start(gate, RETURNS_MS);
    expect("sync_per_thread", cu.StreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    expect_yes("sync_per_thread_waited", watch_stop(gate), 0);
    watch_start(gate, WAITS_MS);
    expect("sync", cu.StreamSynchronize(NULL), CUDA_SUCCESS);
    expect_yes("sync_waited", watch_stop(gate), 1);
    gate_open(gate);
    expect("end", cu.CtxSynchronize(), CUDA_SUCCESS);
}

static void destroy_with_work(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUevent other = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    gate_close(gate, stream);
    need("set", cu.MemsetD8Async(at, 3, 16, stream));
    need("record", cu.EventRecord(event, stream));
    need("record", cu.EventRecord(other, stream));
    watch_start(gate, RETURNS_MS);
    expect("event_destroy", cu.EventDestroy(other), CUDA_SUCCESS);
    expect("stream_destroy", cu.StreamDestroy(stream), CUDA_SUCCESS);
    expect("event_query", cu.EventQuery(event), CUDA_ERROR_NOT_READY);
    expect_yes("waited", watch_stop(gate), 0);
    gate_open(gate);
    expect("event_sync", cu.EventSynchronize(event), CUDA_SUCCESS);
    expect_number("byte", byte_at(at), 3);
}

static void stream_ids(void)
{
    unsigned long long first_id = 0;
    unsigned long long second_id = 0;
    unsigned long long legacy_id = 0;
    unsigned long long named_id = 0;
    CUstream first = stream_new(CU_STREAM_NON_BLOCKING);
    expect("id", cu.StreamGetId(first, &first_id), CUDA_SUCCESS);
    expect("destroy", cu.StreamDestroy(first), CUDA_SUCCESS);
    CUstream second = stream_new(CU_STREAM_NON_BLOCKING);
    expect("next_id", cu.StreamGetId(second, &second_id), CUDA_SUCCESS);
    observe_yes("handle_recycled", first == second);
    expect_yes("ids_differ", first_id != second_id, 1);
    expect("legacy_id", cu.StreamGetId(NULL, &legacy_id), CUDA_SUCCESS);
    expect("named_legacy_id", cu.StreamGetId(CU_STREAM_LEGACY, &named_id), CUDA_SUCCESS);
    expect_yes("legacy_ids_same", legacy_id == named_id, 1);
    observe_number("legacy_id", legacy_id > 16 ? 99 : legacy_id);
    expect("create_null", cu.StreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    expect("create_flags", cu.StreamCreate(&first, 64), CUDA_ERROR_INVALID_VALUE);
    expect("destroy_null", cu.StreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void elapsed_time(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent begin = event_new(CU_EVENT_DEFAULT);
    CUevent end = event_new(CU_EVENT_DEFAULT);
    CUevent untimed = event_new(CU_EVENT_DISABLE_TIMING);
    struct gate *gate = gate_new();
    float ms = -1;
    expect("unrecorded", cu.EventElapsedTime(&ms, begin, end), CUDA_ERROR_INVALID_HANDLE);
    need("record", cu.EventRecord(begin, stream));
    need("record", cu.EventRecord(untimed, stream));
    gate_close(gate, stream);
    need("record", cu.EventRecord(end, stream));
    expect("not_ready", cu.EventElapsedTime(&ms, begin, end), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    need("sync", cu.StreamSynchronize(stream));
    expect("ready", cu.EventElapsedTime(&ms, begin, end), CUDA_SUCCESS);
    expect_yes("positive", ms >= 0, 1);
    expect("untimed", cu.EventElapsedTime(&ms, begin, untimed), CUDA_ERROR_INVALID_HANDLE);
}

static void value_arguments(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    uint32_t local = 1;
    need("clear", cu.MemsetD8(at, 0, CHUNK));
    need("sync", cu.CtxSynchronize());
    expect("write", cu.StreamWriteValue32(stream, at, 77, 0), CUDA_SUCCESS);
    expect("wait", cu.StreamWaitValue32(stream, at, 77, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    expect("sync_device_memory", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", byte_at(at), 77);
    expect("misaligned", cu.StreamWriteValue32(stream, at + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
    expect("write_flags", cu.StreamWriteValue32(stream, at, 1, 128), CUDA_ERROR_INVALID_VALUE);
    expect("wait_flags", cu.StreamWaitValue32(stream, at, 1, 8), CUDA_ERROR_INVALID_VALUE);
    expect("null_address", cu.StreamWriteValue32(stream, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
    expect("pageable", cu.StreamWriteValue32(stream, (uintptr_t)&local, 1, 0),
           CUDA_ERROR_INVALID_VALUE);
    expect("end", cu.StreamSynchronize(stream), CUDA_SUCCESS);
}

static CUresult inside;

static void CUDA_CB host_function(void *data)
{
    CUevent event = NULL;
    (void)data;
    inside = cu.EventCreate(&event, 0);
}

static void host_functions(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    inside = CUDA_ERROR_UNKNOWN;
    expect("launch", cu.LaunchHostFunc(stream, host_function, NULL), CUDA_SUCCESS);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect("call_inside", inside, CUDA_ERROR_NOT_PERMITTED);
    expect("null", cu.LaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void capture_status(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    expect("query", cu.StreamIsCapturing(stream, &status), CUDA_SUCCESS);
    expect_number("status", status, CU_STREAM_CAPTURE_STATUS_NONE);
    expect("legacy", cu.StreamIsCapturing(NULL, &status), CUDA_SUCCESS);
    expect("null", cu.StreamIsCapturing(stream, NULL), CUDA_ERROR_INVALID_VALUE);
}

const struct scenario stream_scenarios[] = {
    {"event_rules", event_rules, 0},
    {"event_recorded_again", event_recorded_again, 0},
    {"wait_is_for_the_record_at_the_call", wait_is_for_the_record_at_the_call, 0},
    {"wait_orders_streams", wait_orders_streams, 0},
    {"stream_order", stream_order, 0},
    {"legacy_stream", legacy_stream, 0},
    {"legacy_stream_asked", legacy_stream_asked, 0},
    {"destroy_with_work", destroy_with_work, 0},
    {"stream_ids", stream_ids, 0},
    {"elapsed_time", elapsed_time, 0},
    {"value_arguments", value_arguments, 0},
    {"host_functions", host_functions, 0},
    {"capture_status", capture_status, 0},
    {NULL, NULL, 0},
};
