/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: what events stand for in and around captures, and the legacy stream's part in them. */
#include "capture.h"

#include <stdio.h>

/* ---- events --------------------------------------------------------------------------------- */

/* An event recorded in a capture may not be asked about, whatever the mode. */
static void capture_event_asked(void)
{
    static const char *const names[] = {"global", "local", "relaxed"};
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (int mode = 0; mode < 3; mode++) {
        for (int call = 0; call < 3; call++) {
            CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
            CUevent event = event_new(CU_EVENT_DEFAULT);
            CUevent before = event_new(CU_EVENT_DEFAULT);
            float ms = 0;
            char label[64];
            static const char *const calls[] = {"query", "sync", "elapsed"};
            need("record_before", cu.EventRecord(before, stream));
            need("sync_before", cu.StreamSynchronize(stream));
            capture_begin(stream, (CUstreamCaptureMode)mode);
            need("set", cu.MemsetD8Async(at, 1, 16, stream));
            need("record", cu.EventRecord(event, stream));
            snprintf(label, sizeof(label), "%s_%s", names[mode], calls[call]);
            CUresult result = call == 0   ? cu.EventQuery(event)
                              : call == 1 ? cu.EventSynchronize(event)
                                          : cu.EventElapsedTime(&ms, before, event);
            expect(label, result, CUDA_ERROR_CAPTURED_EVENT);
            expect_outcome(stream, call != 2);
        }
    }
}

/* What a captured event is after its capture has ended. */
static void capture_event_afterwards(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUgraph graph = NULL;
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    need("record", cu.EventRecord(event, stream));
    need("end", cu.StreamEndCapture(stream, &graph));
    expect("query", cu.EventQuery(event), CUDA_ERROR_INVALID_VALUE);
    expect("sync", cu.EventSynchronize(event), CUDA_ERROR_INVALID_VALUE);
    expect("wait", cu.StreamWaitEvent(other, event, 0), CUDA_ERROR_INVALID_VALUE);
    expect_number("other_status", capture_status_of(other), 0);
    expect("stream_sound", cu.StreamSynchronize(other), CUDA_SUCCESS);
    need("graph_destroy", cu.GraphDestroy(graph));
    expect("query_graph_gone", cu.EventQuery(event), CUDA_ERROR_INVALID_VALUE);
    expect("wait_graph_gone", cu.StreamWaitEvent(other, event, 0), CUDA_ERROR_INVALID_VALUE);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect("wait_in_next_capture", cu.StreamWaitEvent(stream, event, 0), CUDA_ERROR_INVALID_VALUE);
    expect_number("next_status", capture_status_of(stream), 2);
    expect("next_end", cu.StreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect("record_outside", cu.EventRecord(event, other), CUDA_SUCCESS);
    expect("sync_recorded", cu.EventSynchronize(event), CUDA_SUCCESS);
    expect("query_recorded", cu.EventQuery(event), CUDA_SUCCESS);
}

/* Recording outside makes a captured event an ordinary one again, the capture stays valid. */
static void capture_event_recorded_outside(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    need("record", cu.EventRecord(event, stream));
    expect("record_outside", cu.EventRecord(event, other), CUDA_SUCCESS);
    expect("sync", cu.EventSynchronize(event), CUDA_SUCCESS);
    expect_status("status", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_end("end", stream, CUDA_SUCCESS);
}

/* An event that was pending outside and is then recorded inside. */
static void capture_event_pending_then_captured(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    struct gate *gate = gate_new();
    gate_close(gate, other);
    need("record_outside", cu.EventRecord(event, other));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("record", cu.EventRecord(event, stream), CUDA_SUCCESS);
    expect("query", cu.EventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    expect_number("status", capture_status_of(stream), 2);
    gate_open(gate);
    expect("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}),
           CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* A captured stream may not wait for what happened outside. */
static void capture_waits_for_outside(void)
{
    static const char *const names[] = {"global", "local", "relaxed"};
    for (int mode = 0; mode < 3; mode++) {
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
        CUevent done = event_new(CU_EVENT_DISABLE_TIMING);
        CUevent never = event_new(CU_EVENT_DISABLE_TIMING);
        need("record", cu.EventRecord(done, other));
        need("sync", cu.StreamSynchronize(other));
        capture_begin(stream, (CUstreamCaptureMode)mode);
        expect("never_recorded", cu.StreamWaitEvent(stream, never, 0), CUDA_SUCCESS);
        expect_status("status", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        expect(names[mode], cu.StreamWaitEvent(stream, done, 0),
               CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        expect_outcome(stream, 1);
    }
}

/* Recorded in the same stream before its capture began. */
static void capture_waits_for_own_past(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    need("record", cu.EventRecord(event, stream));
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("wait", cu.StreamWaitEvent(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    expect_number("status", capture_status_of(stream), 2);
    expect("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}),
           CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* External records and waits are nodes, and only legal in a capture. */
static void capture_external_events(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUevent outside = event_new(CU_EVENT_DISABLE_TIMING);
    need("record", cu.EventRecord(outside, other));
    expect("record_no_capture", cu.EventRecordWithFlags(event, other, CU_EVENT_RECORD_EXTERNAL),
           CUDA_ERROR_ILLEGAL_STATE);
    expect("wait_no_capture", cu.StreamWaitEvent(other, outside, CU_EVENT_WAIT_EXTERNAL),
           CUDA_ERROR_ILLEGAL_STATE);
    expect("record_flags", cu.EventRecordWithFlags(event, other, 2), CUDA_ERROR_INVALID_VALUE);
    expect("wait_flags", cu.StreamWaitEvent(other, event, 2), CUDA_ERROR_INVALID_VALUE);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("record_flags_in", cu.EventRecordWithFlags(event, stream, 2), CUDA_ERROR_INVALID_VALUE);
    expect_status("after_flags", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect("wait", cu.StreamWaitEvent(stream, outside, CU_EVENT_WAIT_EXTERNAL), CUDA_SUCCESS);
    expect_node_type("wait_type", stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    expect("record", cu.EventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL),
           CUDA_SUCCESS);
    expect_node_type("record_type", stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    expect("query", cu.EventQuery(event), CUDA_SUCCESS);
    expect("wait_inside_for_external", cu.StreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    expect_number("status", capture_status_of(stream), 1);
    expect("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}), CUDA_SUCCESS);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("record_inside", cu.EventRecord(event, stream));
    expect("wait_external_for_captured", cu.StreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL),
           CUDA_SUCCESS);
    expect_number("status", capture_status_of(stream), 1);
    expect("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}), CUDA_SUCCESS);
}

static void capture_event_destroyed(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    need("record", cu.EventRecord(event, origin));
    need("wait", cu.StreamWaitEvent(joined, event, 0));
    expect("destroy", cu.EventDestroy(event), CUDA_SUCCESS);
    expect_status("origin", origin, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_status("joined", joined, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    need("set", cu.MemsetD8Async(at, 2, 16, joined));
    capture_fork_to(joined, origin);
    expect_end("end", origin, CUDA_SUCCESS);
}

/* The event carries the dependencies of its record, not later ones. */
static void capture_event_is_a_set(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream joined = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    CUevent empty = event_new(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("record_empty", cu.EventRecord(empty, origin));
    need("set", cu.MemsetD8Async(at, 1, 16, origin));
    CUgraphNode first = capture_node(origin);
    need("record", cu.EventRecord(event, origin));
    need("set", cu.MemsetD8Async(at, 2, 16, origin));
    expect("wait_empty", cu.StreamWaitEvent(joined, empty, 0), CUDA_SUCCESS);
    expect_status("joined", joined, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_number("empty_dependencies", capture_dependencies(joined), 0);
    expect("wait", cu.StreamWaitEvent(joined, event, 0), CUDA_SUCCESS);
    expect_number("dependencies", capture_dependencies(joined), 1);
    expect_yes("first_node", capture_node(joined) == first, 1);
    expect_end("end", origin, CUDA_SUCCESS);
}

/* ---- the legacy stream ---------------------------------------------------------------------- */

enum legacy_call {
    LEGACY_SET,
    LEGACY_RECORD,
    LEGACY_WAIT,
    LEGACY_QUERY,
    LEGACY_SYNC,
    LEGACY_COPY,
    LEGACY_STATUS,
    LEGACY_INFO,
    LEGACY_CALLS
};

static CUresult legacy_use(enum legacy_call call, CUdeviceptr at, CUevent event)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    switch (call) {
    case LEGACY_SET:
        return cu.MemsetD8Async(at, 1, 16, NULL);
    case LEGACY_RECORD:
        return cu.EventRecord(event, NULL);
    case LEGACY_WAIT:
        return cu.StreamWaitEvent(NULL, event, 0);
    case LEGACY_QUERY:
        return cu.StreamQuery(NULL);
    case LEGACY_SYNC:
        return cu.StreamSynchronize(NULL);
    case LEGACY_COPY:
        return cu.MemcpyDtoD(at, at + 64, 16);
    case LEGACY_STATUS:
        return cu.StreamIsCapturing(NULL, &status);
    default:
        return cu.StreamGetCaptureInfo(NULL, &status, NULL, NULL, NULL, NULL, NULL);
    }
}

/* Use of the legacy stream while a stream captures. A blocking one forbids everything, only that
 * asking for its status breaks nothing; beside others asking for work is forbidden by mode. */
static void legacy_uses(unsigned flags, CUstreamCaptureMode mode)
{
    int implicit = flags == CU_STREAM_DEFAULT;
    int unsafe = !implicit && mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    static const char *const names[] = {"set",  "record", "wait",   "query",
                                        "sync", "copy",   "status", "info"};
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (int call = 0; call < LEGACY_CALLS; call++) {
        CUstream stream = stream_new(flags);
        CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
        need("record", cu.EventRecord(event, NULL));
        need("sync", cu.CtxSynchronize());
        capture_begin(stream, mode);
        int refused = unsafe && (call == LEGACY_QUERY || call == LEGACY_SYNC);
        expect(names[call], legacy_use((enum legacy_call)call, at, event),
               implicit  ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
               : refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                         : CUDA_SUCCESS);
        expect_outcome(stream, refused || (implicit && call < LEGACY_STATUS));
    }
}

static void capture_legacy_blocking_global(void)
{
    legacy_uses(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void capture_legacy_blocking_relaxed(void)
{
    legacy_uses(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void capture_legacy_other_global(void)
{
    legacy_uses(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void capture_legacy_other_relaxed(void)
{
    legacy_uses(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* The legacy stream cannot be joined, blocking or not; the per-thread one can. */
static void capture_legacy_joins(void)
{
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (int blocking = 0; blocking < 2; blocking++) {
        CUstream stream = stream_new(blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
        CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
        capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        need("set", cu.MemsetD8Async(at, 1, 16, stream));
        need("record", cu.EventRecord(event, stream));
        expect(blocking ? "blocking_wait" : "other_wait", cu.StreamWaitEvent(NULL, event, 0),
               CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        expect_outcome(stream, 1);
    }
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(at, 1, 16, stream));
    capture_fork_to(stream, CU_STREAM_PER_THREAD);
    expect_status("per_thread", CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    need("set", cu.MemsetD8Async(at, 2, 16, CU_STREAM_PER_THREAD));
    expect("legacy_set", cu.MemsetD8Async(at, 2, 16, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_outcome(stream, 1);
}

const struct scenario capture_event_scenarios[] = {
    {"capture_event_asked", capture_event_asked, 0},
    {"capture_event_afterwards", capture_event_afterwards, 0},
    {"capture_event_recorded_outside", capture_event_recorded_outside, 0},
    {"capture_event_pending", capture_event_pending_then_captured, 0},
    {"capture_waits_for_outside", capture_waits_for_outside, 0},
    {"capture_waits_for_own_past", capture_waits_for_own_past, 0},
    {"capture_external_events", capture_external_events, 0},
    {"capture_event_destroyed", capture_event_destroyed, 0},
    {"capture_event_is_a_set", capture_event_is_a_set, 0},
    {"capture_legacy_blocking_global", capture_legacy_blocking_global, 0},
    {"capture_legacy_blocking_relaxed", capture_legacy_blocking_relaxed, 0},
    {"capture_legacy_other_global", capture_legacy_other_global, 0},
    {"capture_legacy_other_relaxed", capture_legacy_other_relaxed, 0},
    {"capture_legacy_joins", capture_legacy_joins, 0},
    {NULL, NULL, 0},
};
