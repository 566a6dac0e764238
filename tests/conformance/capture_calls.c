/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios: which calls a capture forbids to which thread. A call is safe, or forbidden by modes
 * (then it invalidates the captures that forbid it), or forbidden always. Each scenario makes one
 * call during a capture of each mode and says what came back and how the capture ended.
 */
#include "capture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                            CU_STREAM_CAPTURE_MODE_RELAXED};
static const char *const mode_names[] = {"global", "local", "relaxed"};

/* ---- what calls are made with --------------------------------------------------------------- */

/* Things made before the capture, none of them part of it. */
struct lab {
    CUstream stream; /* the one that captures */
    CUstream other;
    CUevent done; /* recorded in other, and finished */
    CUevent later;
    CUdeviceptr at;    /* VMM memory */
    CUdeviceptr block; /* from cuMemAlloc */
    CUdeviceptr pool;  /* from cuMemAllocAsync */
    void *pinned;
    CUgraph graph; /* one memset */
    CUgraphExec exec;
    CUmodule module;
};

static unsigned char pageable[64];

/* Just enough of a program for a real device; the simulated one takes any. */
static const char program[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".visible .entry nothing() { ret; }\n";

static struct lab lab_new(void)
{
    struct lab lab;
    memset(&lab, 0, sizeof(lab));
    lab.stream = stream_new(CU_STREAM_NON_BLOCKING);
    lab.other = stream_new(CU_STREAM_NON_BLOCKING);
    lab.done = event_new(CU_EVENT_DEFAULT);
    lab.later = event_new(CU_EVENT_DEFAULT);
    lab.at = chunk_mapped(CHUNK, NULL);
    need("block", cu.MemAlloc(&lab.block, 4096));
    need("pool", cu.MemAllocAsync(&lab.pool, 4096, lab.other));
    need("pinned", cu.MemHostAlloc(&lab.pinned, 4096, 0));
    need("module", cu.ModuleLoadData(&lab.module, program));
    capture_begin(lab.other, CU_STREAM_CAPTURE_MODE_RELAXED);
    need("set", cu.MemsetD8Async(lab.at, 1, 16, lab.other));
    need("end", cu.StreamEndCapture(lab.other, &lab.graph));
    need("instantiate", cu.GraphInstantiateWithFlags(&lab.exec, lab.graph, 0));
    need("record", cu.EventRecord(lab.done, lab.other));
    need("record", cu.EventRecord(lab.later, lab.other));
    need("sync", cu.CtxSynchronize());
    return lab;
}

typedef CUresult (*lab_call)(struct lab *lab);

enum allowed { SAFE, BY_MODE, NEVER };

/* The call during a capture of each mode. */
static void in_modes(lab_call call, enum allowed allowed)
{
    char label[64];
    for (int mode = 0; mode < 3; mode++) {
        struct lab lab = lab_new();
        int fine = allowed == SAFE || (allowed == BY_MODE && mode == 2);
        capture_begin(lab.stream, modes[mode]);
        CUresult result = call(&lab);
        CUresult ended = cu.StreamEndCapture(lab.stream, &(CUgraph){NULL});
        snprintf(label, sizeof(label), "%s_end", mode_names[mode]);
        expect(mode_names[mode], result,
               fine ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect(label, ended, fine ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

/* ---- the calls ------------------------------------------------------------------------------ */

static void CUDA_CB nothing(void *data)
{
    (void)data;
}

/* Takes a reference to the primary context and gives it back. */
static CUresult primary_twice(void)
{
    CUresult result = cu.DevicePrimaryCtxRetain(&(CUcontext){NULL}, 0);
    return result != CUDA_SUCCESS ? result : cu.DevicePrimaryCtxRelease(0);
}

#define LAB_CALL(name, allowed, expression)                                                        \
    static CUresult call_##name(struct lab *lab)                                                   \
    {                                                                                              \
        (void)lab;                                                                                 \
        return expression;                                                                         \
    }                                                                                              \
    static void during_##name(void)                                                                \
    {                                                                                              \
        in_modes(call_##name, allowed);                                                            \
    }

LAB_CALL(mem_alloc, BY_MODE, cu.MemAlloc(&(CUdeviceptr){0}, 4096))
LAB_CALL(mem_free, BY_MODE, cu.MemFree(lab->block))
LAB_CALL(mem_free_null, BY_MODE, cu.MemFree(0))
LAB_CALL(host_alloc, BY_MODE, cu.MemHostAlloc(&(void *){NULL}, 4096, 0))
LAB_CALL(host_free, BY_MODE, cu.MemFreeHost(lab->pinned))
LAB_CALL(alloc_async_elsewhere, BY_MODE, cu.MemAllocAsync(&(CUdeviceptr){0}, 4096, lab->other))
LAB_CALL(free_async_elsewhere, BY_MODE, cu.MemFreeAsync(lab->pool, lab->other))
LAB_CALL(event_query, BY_MODE, cu.EventQuery(lab->done))
LAB_CALL(event_sync, BY_MODE, cu.EventSynchronize(lab->done))
LAB_CALL(event_elapsed, SAFE, cu.EventElapsedTime(&(float){0}, lab->done, lab->later))
LAB_CALL(event_create, SAFE, cu.EventCreate(&(CUevent){NULL}, 0))
LAB_CALL(event_destroy, SAFE, cu.EventDestroy(lab->done))
LAB_CALL(event_record_elsewhere, SAFE, cu.EventRecord(lab->done, lab->other))
LAB_CALL(wait_elsewhere, SAFE, cu.StreamWaitEvent(lab->other, lab->done, 0))
LAB_CALL(stream_query_elsewhere, BY_MODE, cu.StreamQuery(lab->other))
LAB_CALL(stream_sync_elsewhere, BY_MODE, cu.StreamSynchronize(lab->other))
LAB_CALL(stream_create, SAFE, cu.StreamCreate(&(CUstream){NULL}, CU_STREAM_NON_BLOCKING))
LAB_CALL(stream_destroy_elsewhere, SAFE, cu.StreamDestroy(lab->other))
LAB_CALL(context_sync, NEVER, cu.CtxSynchronize())
LAB_CALL(copy_up, SAFE, cu.MemcpyHtoD(lab->at, pageable, 16))
LAB_CALL(copy_up_pinned, SAFE, cu.MemcpyHtoD(lab->at, lab->pinned, 16))
LAB_CALL(copy_down, SAFE, cu.MemcpyDtoH(pageable, lab->at, 16))
LAB_CALL(copy_over, SAFE, cu.MemcpyDtoD(lab->at, lab->at + 64, 16))
LAB_CALL(copy_nothing, SAFE, cu.MemcpyDtoD(lab->at, lab->at + 64, 0))
LAB_CALL(set_sync, SAFE, cu.MemsetD8(lab->at, 1, 16))
LAB_CALL(set_elsewhere, SAFE, cu.MemsetD8Async(lab->at, 1, 16, lab->other))
LAB_CALL(set_legacy, SAFE, cu.MemsetD8Async(lab->at, 1, 16, NULL))
LAB_CALL(copy_up_elsewhere, SAFE, cu.MemcpyHtoDAsync(lab->at, lab->pinned, 16, lab->other))
LAB_CALL(copy_up_pageable_elsewhere, SAFE, cu.MemcpyHtoDAsync(lab->at, pageable, 16, lab->other))
LAB_CALL(copy_down_pageable_elsewhere, SAFE, cu.MemcpyDtoHAsync(pageable, lab->at, 16, lab->other))
LAB_CALL(write_value_elsewhere, SAFE, cu.StreamWriteValue32(lab->other, lab->at, 1, 0))
LAB_CALL(get_info, SAFE, cu.MemGetInfo(&(size_t){0}, &(size_t){0}))
LAB_CALL(address_range, SAFE, cu.MemGetAddressRange(NULL, &(size_t){0}, lab->at))
LAB_CALL(pointer_attribute, SAFE,
         cu.PointerGetAttribute(&(unsigned){0}, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, lab->at))
LAB_CALL(device_pointer, SAFE, cu.MemHostGetDevicePointer(&(CUdeviceptr){0}, lab->pinned, 0))
LAB_CALL(reserve, SAFE, cu.MemAddressReserve(&(CUdeviceptr){0}, CHUNK, 0, 0, 0))
LAB_CALL(module_load, SAFE, cu.ModuleLoadData(&(CUmodule){NULL}, program))
LAB_CALL(module_unload, BY_MODE, cu.ModuleUnload(lab->module))
LAB_CALL(graph_create, SAFE, cu.GraphCreate(&(CUgraph){NULL}, 0))
LAB_CALL(graph_instantiate, BY_MODE,
         cu.GraphInstantiateWithFlags(&(CUgraphExec){NULL}, lab->graph, 0))
LAB_CALL(graph_launch_elsewhere, SAFE, cu.GraphLaunch(lab->exec, lab->other))
LAB_CALL(graph_upload_elsewhere, SAFE, cu.GraphUpload(lab->exec, lab->other))
LAB_CALL(graph_exec_destroy, BY_MODE, cu.GraphExecDestroy(lab->exec))
LAB_CALL(graph_destroy, SAFE, cu.GraphDestroy(lab->graph))
LAB_CALL(primary_retain, SAFE, cu.DevicePrimaryCtxRetain(&(CUcontext){NULL}, 0))
LAB_CALL(alloc_host, BY_MODE, cu.MemAllocHost(&(void *){NULL}, 4096))
LAB_CALL(exec_update, SAFE,
         cu.GraphExecUpdate(lab->exec, lab->graph, &(CUgraphExecUpdateResultInfo){0}))
LAB_CALL(graph_clone, SAFE, cu.GraphClone(&(CUgraph){NULL}, lab->graph))
LAB_CALL(host_function_elsewhere, SAFE, cu.LaunchHostFunc(lab->other, nothing, NULL))
LAB_CALL(stream_id_elsewhere, SAFE, cu.StreamGetId(lab->other, &(unsigned long long){0}))
LAB_CALL(user_object, SAFE,
         cu.UserObjectCreate(&(CUuserObject){NULL}, NULL, nothing, 1,
                             CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))
LAB_CALL(primary_release, SAFE, primary_twice())

static CUresult call_chunks(struct lab *lab)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp property = chunk_property();
    CUdeviceptr at = 0;
    CUresult result = cu.MemAddressReserve(&at, CHUNK, 0, 0, 0);
    (void)lab;
    result = result != CUDA_SUCCESS ? result : cu.MemCreate(&handle, CHUNK, &property, 0);
    result = result != CUDA_SUCCESS ? result : cu.MemMap(at, CHUNK, 0, handle, 0);
    result = result != CUDA_SUCCESS ? result : set_access(at, CHUNK);
    result = result != CUDA_SUCCESS ? result : cu.MemUnmap(at, CHUNK);
    result = result != CUDA_SUCCESS ? result : cu.MemRelease(handle);
    return result != CUDA_SUCCESS ? result : cu.MemAddressFree(at, CHUNK);
}

static void during_chunks(void)
{
    in_modes(call_chunks, SAFE);
}

/* An event never recorded, and one whose work is not finished. */
static void during_event_query_others(void)
{
    for (int mode = 0; mode < 3; mode++) {
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
        CUevent never = event_new(CU_EVENT_DISABLE_TIMING);
        CUevent pending = event_new(CU_EVENT_DISABLE_TIMING);
        struct gate *gate = gate_new();
        gate_close(gate, other);
        need("record", cu.EventRecord(pending, other));
        capture_begin(stream, modes[mode]);
        expect(mode_names[mode], cu.EventQuery(never),
               mode == 2 ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_outcome(stream, mode != 2);
        capture_begin(stream, modes[mode]);
        expect("pending", cu.EventQuery(pending),
               mode == 2 ? CUDA_ERROR_NOT_READY : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_outcome(stream, mode != 2);
        gate_open(gate);
    }
}

/* Does a bad argument come before the capture's rule? */
static void during_bad_arguments(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect("query_null", cu.EventQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
    expect_number("status", capture_status_of(stream), 1);
    expect("alloc_null", cu.MemAlloc(NULL, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_number("status", capture_status_of(stream), 2);
    expect("alloc_nothing", cu.MemAlloc(&(CUdeviceptr){0}, 0),
           CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_number("status", capture_status_of(stream), 2);
    expect("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}),
           CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* While the capture is already invalidated: is the call allowed? */
static void during_invalidated(void)
{
    struct lab lab = lab_new();
    capture_begin(lab.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect("alloc", call_mem_alloc(&lab), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_status("status", lab.stream, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    expect("alloc_again", call_mem_alloc(&lab), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect("query", call_event_query(&lab), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect("context_sync", cu.CtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_end("end", lab.stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect("alloc_after", call_mem_alloc(&lab), CUDA_SUCCESS);
}

/* ---- threads -------------------------------------------------------------------------------- */

struct errand {
    void (*run)(struct errand *errand);
    CUcontext context;
    struct lab *lab;
    CUstream stream;
    CUstreamCaptureMode mode;
    CUresult result;
};

static void *errand_main(void *argument)
{
    struct errand *errand = argument;
    errand->result = cu.CtxSetCurrent(errand->context);
    if (errand->result == CUDA_SUCCESS)
        errand->run(errand);
    return NULL;
}

/* Runs it in a thread of its own and waits for that. */
static CUresult elsewhere(struct errand *errand)
{
    pthread_t thread;
    need("context", cu.CtxGetCurrent(&errand->context));
    if (pthread_create(&thread, NULL, errand_main, errand) != 0)
        need("a thread", CUDA_ERROR_OPERATING_SYSTEM);
    pthread_join(thread, NULL);
    return errand->result;
}

static void errand_end(struct errand *errand)
{
    errand->result = cu.StreamEndCapture(errand->stream, &(CUgraph){NULL});
}

/* Ends a capture in another thread than began it. */
static void capture_wrong_thread(void)
{
    for (int mode = 0; mode < 3; mode++) {
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        struct errand errand = {.run = errand_end, .stream = stream};
        capture_begin(stream, modes[mode]);
        expect(mode_names[mode], elsewhere(&errand),
               mode == 2 ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        expect_status("status", stream, CU_STREAM_CAPTURE_STATUS_NONE);
        expect_end("end", stream, CUDA_ERROR_ILLEGAL_STATE);
    }
}

static void errand_work(struct errand *errand)
{
    CUevent event = NULL;
    errand->result = cu.MemsetD8Async(errand->lab->at, 1, 16, errand->stream);
    if (errand->result == CUDA_SUCCESS)
        errand->result = cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (errand->result == CUDA_SUCCESS)
        errand->result = cu.EventRecord(event, errand->stream);
    if (errand->result == CUDA_SUCCESS)
        errand->result = cu.StreamWaitEvent(errand->lab->other, event, 0);
}

/* Other threads may queue work in a capturing stream and join streams, in every mode. */
static void capture_worked_on_elsewhere(void)
{
    for (int mode = 0; mode < 3; mode++) {
        struct lab lab = lab_new();
        struct errand errand = {.run = errand_work, .stream = lab.stream, .lab = &lab};
        capture_begin(lab.stream, modes[mode]);
        expect(mode_names[mode], elsewhere(&errand), CUDA_SUCCESS);
        expect_number("dependencies", capture_dependencies(lab.stream), 1);
        expect_status("other", lab.other, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        expect_end("end", lab.stream, CUDA_SUCCESS);
    }
}

static void errand_alloc(struct errand *errand)
{
    CUstreamCaptureMode mode = errand->mode;
    CUdeviceptr at = 0;
    errand->result = cu.ThreadExchangeStreamCaptureMode(&mode);
    if (errand->result == CUDA_SUCCESS)
        errand->result = cu.MemAlloc(&at, 64);
}

/* A thread of each mode allocates while another one captures in each mode. */
static void capture_forbids_other_threads(void)
{
    char label[64];
    for (int capture = 0; capture < 3; capture++) {
        for (int thread = 0; thread < 3; thread++) {
            CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
            struct errand errand = {.run = errand_alloc, .mode = modes[thread]};
            int forbidden = capture == 0 && thread == 0;
            capture_begin(stream, modes[capture]);
            snprintf(label, sizeof(label), "%s_by_%s", mode_names[capture], mode_names[thread]);
            expect(label, elsewhere(&errand),
                   forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
            expect_end("end", stream,
                       forbidden ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
        }
    }
}

/* The same in one thread. */
static void capture_forbids_own_thread(void)
{
    char label[64];
    for (int capture = 0; capture < 3; capture++) {
        for (int thread = 0; thread < 3; thread++) {
            CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
            CUstreamCaptureMode mode = modes[thread];
            int forbidden = capture != 2 && thread != 2;
            need("exchange", cu.ThreadExchangeStreamCaptureMode(&mode));
            capture_begin(stream, modes[capture]);
            snprintf(label, sizeof(label), "%s_by_%s", mode_names[capture], mode_names[thread]);
            expect(label, cu.MemAlloc(&(CUdeviceptr){0}, 64),
                   forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
            expect_end("end", stream,
                       forbidden ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
        }
    }
}

/* Is it the thread's mode when the capture began, or now? */
static void capture_mode_changed_inside(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect("exchange", cu.ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    expect_number("was", mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect("alloc_relaxed", cu.MemAlloc(&(CUdeviceptr){0}, 64), CUDA_SUCCESS);
    expect("exchange_back", cu.ThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    expect_number("was_then", mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("alloc", cu.MemAlloc(&(CUdeviceptr){0}, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_end("end", stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    need("exchange", cu.ThreadExchangeStreamCaptureMode(&mode));
    expect_number("left", mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void errand_begin(struct errand *errand)
{
    errand->result = cu.StreamBeginCapture(errand->stream, errand->mode);
}

/* With several captures under way: which does a forbidden call invalidate? */
static void capture_which_invalidated(void)
{
    static const char *const own_names[] = {"own_global", "own_local", "own_relaxed"};
    static const char *const their_names[] = {"their_global", "their_local", "their_relaxed"};
    for (int round = 0; round < 3; round++) {
        CUstream own[3];
        CUstream theirs[3];
        for (int i = 0; i < 3; i++) {
            own[i] = stream_new(CU_STREAM_NON_BLOCKING);
            theirs[i] = stream_new(CU_STREAM_NON_BLOCKING);
        }
        for (int i = 0; i < 3; i++) {
            struct errand errand = {.run = errand_begin, .stream = theirs[i], .mode = modes[i]};
            need("begin", elsewhere(&errand));
            if (round == 0 || (round == 1 && i == 2)) /* round 1: only the relaxed one */
                capture_begin(own[i], modes[i]);
        }
        expect(round == 0   ? "with_all"
               : round == 1 ? "with_relaxed"
                            : "with_theirs",
               cu.MemAlloc(&(CUdeviceptr){0}, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        for (int i = 0; i < 3; i++) {
            int begun = round == 0 || (round == 1 && i == 2);
            expect_status(own_names[i], own[i],
                          !begun   ? CU_STREAM_CAPTURE_STATUS_NONE
                          : i != 2 ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE);
            expect_status(their_names[i], theirs[i],
                          i == 0 ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE);
        }
        for (int i = 0; i < 3; i++) {
            struct errand errand = {.run = errand_end, .stream = theirs[i]};
            (void)cu.StreamEndCapture(own[i], &(CUgraph){NULL});
            /* The thread that began it is gone, so only a relaxed one can end well. */
            expect("their_end", elsewhere(&errand),
                   i == 0   ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                   : i == 1 ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
                            : CUDA_SUCCESS);
        }
    }
}

/* The thread that began a capture has ended: can it still be ended? */
static void capture_orphaned(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    struct errand errand = {
        .run = errand_begin, .stream = stream, .mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL};
    need("begin", elsewhere(&errand));
    expect_status("status", stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect("end", cu.StreamEndCapture(stream, &(CUgraph){NULL}),
           CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    expect_number("after", capture_status_of(stream), 0);
    expect("destroy", cu.StreamDestroy(stream), CUDA_SUCCESS);
}

/* Waits on a capturing stream, by all three ways, when nobody else is forbidden anything. */
static void capture_context_sync(void)
{
    CUstream stream = stream_new(CU_STREAM_DEFAULT);
    for (int mode = 0; mode < 3; mode++) {
        capture_begin(stream, modes[mode]);
        expect(mode_names[mode], cu.CtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_outcome(stream, 1);
    }
}

static void errand_context_sync(struct errand *errand)
{
    errand->result = cu.CtxSynchronize();
}

static void errand_stream_sync(struct errand *errand)
{
    errand->result = cu.StreamSynchronize(errand->stream);
}

static void errand_id(struct errand *errand)
{
    unsigned long long id = 0;
    errand->result = cu.StreamGetId(errand->stream, &id);
}

/* Waiting for the whole context, or one stream, in another thread than captures. */
static void capture_waits_elsewhere(void)
{
    for (int mode = 0; mode < 3; mode++) {
        CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
        CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
        struct errand context = {.run = errand_context_sync};
        struct errand sync = {.run = errand_stream_sync, .stream = other};
        struct errand own = {.run = errand_stream_sync, .stream = stream};
        struct errand id = {.run = errand_id, .stream = stream};
        capture_begin(stream, modes[mode]);
        expect(mode_names[mode], elsewhere(&sync),
               mode == 0 ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
        expect_outcome(stream, mode == 0);
        capture_begin(stream, modes[mode]);
        expect("id", elsewhere(&id), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_outcome(stream, 1);
        capture_begin(stream, modes[mode]);
        expect("context", elsewhere(&context), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_outcome(stream, 1);
        capture_begin(stream, modes[mode]);
        expect("captured_stream", elsewhere(&own), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        expect_outcome(stream, 1);
    }
}

/* Which streams a call about streams of the legacy kind stands for, by mode and thread. */
static void capture_implicit_elsewhere(void)
{
    CUstream first = stream_new(CU_STREAM_DEFAULT);
    CUstream second = stream_new(CU_STREAM_DEFAULT);
    CUstream separate = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    capture_begin(first, CU_STREAM_CAPTURE_MODE_RELAXED);
    capture_begin(second, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    capture_begin(separate, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("legacy_set", cu.MemsetD8Async(at, 1, 16, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_number("first", capture_status_of(first), 2);
    expect_number("second", capture_status_of(second), 2);
    expect_number("separate", capture_status_of(separate), 1);
    expect("legacy_again", cu.MemsetD8Async(at, 1, 16, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect("context", cu.CtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_number("separate", capture_status_of(separate), 2);
    expect("begin_legacy", cu.StreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
           CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect("end_legacy", cu.StreamEndCapture(NULL, &(CUgraph){NULL}),
           CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect(
        "update_legacy",
        cu.StreamUpdateCaptureDependencies(NULL, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

/* Synchronous calls on the thread's own default stream while it captures. */
static void capture_per_thread_sync_calls(void)
{
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUstream other = stream_new(CU_STREAM_DEFAULT);
    capture_begin(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("legacy_copy", cu.MemcpyDtoD(at, at + 64, 16), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_number("status", capture_status_of(CU_STREAM_PER_THREAD), 2);
    expect("end", cu.StreamEndCapture(CU_STREAM_PER_THREAD, &(CUgraph){NULL}),
           CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    capture_begin(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED);
    expect("other_set", cu.MemsetD8Async(at, 1, 16, other), CUDA_SUCCESS);
    expect_number("status", capture_status_of(CU_STREAM_PER_THREAD), 1);
    expect("end", cu.StreamEndCapture(CU_STREAM_PER_THREAD, &(CUgraph){NULL}), CUDA_SUCCESS);
}

#define DURING(name)                                                                               \
    {                                                                                              \
        "during_" #name, during_##name, 0                                                          \
    }

const struct scenario capture_call_scenarios[] = {
    DURING(mem_alloc),
    DURING(mem_free),
    DURING(mem_free_null),
    DURING(host_alloc),
    DURING(host_free),
    DURING(alloc_async_elsewhere),
    DURING(free_async_elsewhere),
    DURING(event_query),
    DURING(event_query_others),
    DURING(event_sync),
    DURING(event_elapsed),
    DURING(event_create),
    DURING(event_destroy),
    DURING(event_record_elsewhere),
    DURING(wait_elsewhere),
    DURING(stream_query_elsewhere),
    DURING(stream_sync_elsewhere),
    DURING(stream_create),
    DURING(stream_destroy_elsewhere),
    DURING(context_sync),
    DURING(copy_up),
    DURING(copy_up_pinned),
    DURING(copy_down),
    DURING(copy_over),
    DURING(copy_nothing),
    DURING(set_sync),
    DURING(set_elsewhere),
    DURING(set_legacy),
    DURING(copy_up_elsewhere),
    DURING(copy_up_pageable_elsewhere),
    DURING(copy_down_pageable_elsewhere),
    DURING(write_value_elsewhere),
    DURING(get_info),
    DURING(address_range),
    DURING(pointer_attribute),
    DURING(device_pointer),
    DURING(reserve),
    DURING(chunks),
    DURING(module_load),
    DURING(module_unload),
    DURING(graph_create),
    DURING(graph_instantiate),
    DURING(graph_launch_elsewhere),
    DURING(graph_upload_elsewhere),
    DURING(graph_exec_destroy),
    DURING(graph_destroy),
    DURING(primary_retain),
    DURING(alloc_host),
    DURING(exec_update),
    DURING(graph_clone),
    DURING(host_function_elsewhere),
    DURING(stream_id_elsewhere),
    DURING(user_object),
    DURING(primary_release),
    DURING(bad_arguments),
    DURING(invalidated),
    {"capture_wrong_thread", capture_wrong_thread, 0},
    {"capture_worked_on_elsewhere", capture_worked_on_elsewhere, 0},
    {"capture_forbids_other_threads", capture_forbids_other_threads, 0},
    {"capture_forbids_own_thread", capture_forbids_own_thread, 0},
    {"capture_mode_changed_inside", capture_mode_changed_inside, 0},
    {"capture_which_invalidated", capture_which_invalidated, 0},
    {"capture_orphaned", capture_orphaned, 0},
    {"capture_waits_elsewhere", capture_waits_elsewhere, 0},
    {"capture_implicit_elsewhere", capture_implicit_elsewhere, 0},
    {"capture_per_thread_sync_calls", capture_per_thread_sync_calls, 0},
    {"capture_context_sync", capture_context_sync, 0},
    {NULL, NULL, 0},
};
