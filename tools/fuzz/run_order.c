/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on streams and events, and marks of uses: what the program orders, and what it tells
 * Tenure of it.
 */
#include "run.h"

/* The program's own call of the driver. It may have been made to fail: then it did not happen. */
static int driver_succeeded(fuzz_run *run, CUresult result, const char *call)
{
    run_hash(run, (uint64_t)result);
    if (result == CUDA_SUCCESS)
        return 1;
    if (!run_was_sabotaged(run))
        run_fail(run, FUZZ_VERDICT_SAFETY, "driver", "%s gave error %d", call, (int)result);
    return 0;
}

/* ---- marks ---------------------------------------------------------------------------------- */

static int run_mark(fuzz_run *run, const fuzz_op *op)
{
    const model_block *block = &run->model.blocks[op->block];
    const void *ptr = (const void *)(block->base + (uintptr_t)op->n);
    tnr_status status;
    if (op->kind == FUZZ_USE)
        status = tnr_record_use(ptr, run->streams[op->stream]);
    else if (op->kind == FUZZ_USE_STREAM)
        status = tnr_record_stream(ptr, run->streams[op->stream]);
    else
        status = tnr_keep_until((const void *)block->base, run->events[op->event]);
    if (!run_succeeded(run, status, fuzz_kind_verb((fuzz_kind)op->kind)))
        return 0;
    model_did_mark(&run->model, op);
    return 1;
}

/* ---- events --------------------------------------------------------------------------------- */

static int run_record(fuzz_run *run, const fuzz_op *op)
{
    model_event *event = &run->model.events[op->event];
    CUevent *handle = &run->events[op->event];
    CUstream stream = run->streams[op->stream];
    int device = run_device_of(run, op->stream);
    fuzz_op done = *op;
    int remake = event->is_there && (event->device != device); /* events belong to contexts */
    if (remake) {
        tnr_event_destroyed(*handle);
        (void)run->device->event_destroy(*handle);
        event->is_there = 0;
    }
    if (!event->is_there) {
        fuzz_device_use(run->device, device);
        CUresult made = run->device->event_create(handle, CU_EVENT_DISABLE_TIMING);
        fuzz_device_use(run->device, 0);
        memset(event, 0, sizeof(*event));
        if (!driver_succeeded(run, made, "cuEventCreate"))
            return 0;
        event->is_there = 1;
        event->device = (uint8_t)device;
    }
    /* Without an announcement of this record, the one before must be forgotten: a wait would be
     * taken for one for it. */
    if (op->n != 1) {
        tnr_event_destroyed(*handle);
        event->is_told = event->is_late = 0;
    }
    tnr_moment before = tnr_moment_now();
    if (!driver_succeeded(run, run->device->event_record(*handle, stream), "cuEventRecord"))
        return 0; /* the record before is still the latest, with its moment */
    run->moments[op->event] = before;
    if (op->n == 1) {
        tnr_status status = tnr_event_recorded(*handle, device, stream, before);
        if (!run_succeeded(run, status, "tnr_event_recorded")) {
            tnr_event_destroyed(*handle);
            done.n = 0;
        }
    }
    model_did_record(&run->model, &done);
    return 1;
}

/* Tells of a record that lies back, as a slow thread does: only what was before the record counts.
 * */
static int run_tell(fuzz_run *run, const fuzz_op *op)
{
    model_event *event = &run->model.events[op->event];
    int stream = 0;
    while (!run->model.streams[stream].is_there ||
           run->model.streams[stream].component != event->component)
        stream++;
    tnr_status status = tnr_event_recorded(run->events[op->event], event->device,
                                           run->streams[stream], run->moments[op->event]);
    if (!run_succeeded(run, status, "tnr_event_recorded"))
        return 0;
    event->is_late = 0;
    event->is_told = 1;
    run->model.streams[stream].is_known = 1;
    return 1;
}

static int run_wait(fuzz_run *run, const fuzz_op *op)
{
    CUstream stream = run->streams[op->stream];
    CUevent event = run->events[op->event];
    tnr_moment before = tnr_moment_now();
    if (!driver_succeeded(run, run->device->stream_wait(stream, event, 0), "cuStreamWaitEvent"))
        return 0;
    fuzz_op done = *op;
    int device = run_device_of(run, op->stream);
    if (op->n != 0 &&
        !run_succeeded(run, tnr_stream_waited(event, device, stream, before), "tnr_stream_waited"))
        done.n = 0; /* Tenure may not have seen the stream */
    model_did_wait(&run->model, &done);
    return 1;
}

/* ---- the host ------------------------------------------------------------------------------- */

static int run_sync(fuzz_run *run, const fuzz_op *op)
{
    tnr_moment began = tnr_moment_now();
    tnr_status status = TNR_OK;
    CUresult result;
    if (op->kind == FUZZ_SYNC_STREAM) {
        CUstream stream = run->streams[op->stream];
        result = run->device->stream_synchronize(stream);
        if (!driver_succeeded(run, result, "cuStreamSynchronize"))
            return 0;
        if (op->n != 0)
            status = tnr_stream_synchronized(run_device_of(run, op->stream), stream, began);
    } else if (op->kind == FUZZ_SYNC_DEVICE) {
        fuzz_device_use(run->device, op->device);
        result = run->device->context_synchronize();
        fuzz_device_use(run->device, 0);
        if (!driver_succeeded(run, result, "cuCtxSynchronize"))
            return 0;
        if (op->n != 0)
            status = tnr_device_synchronized(op->device, began);
    } else {
        CUevent event = run->events[op->event];
        int is_query = op->kind == FUZZ_QUERY;
        result = is_query ? run->device->event_query(event) : run->device->event_synchronize(event);
        run_hash(run, (uint64_t)result);
        if (result == CUDA_ERROR_NOT_READY)
            return 0;
        if (!driver_succeeded(run, result, is_query ? "cuEventQuery" : "cuEventSynchronize"))
            return 0;
        if (op->n != 0 || is_query)
            tnr_event_synchronized(event, began);
    }
    if (!run_succeeded(run, status, fuzz_kind_verb((fuzz_kind)op->kind)))
        return 0;
    model_did_sync(&run->model, op);
    return 1;
}

/* ---- streams -------------------------------------------------------------------------------- */

/* A stream whose end is not told: what it did with its last block is ordered before nothing, unless
 * Tenure asks who has the handle now. */
static void planted_end(fuzz_run *run, const fuzz_op *op)
{
    run->names_asked = 1 + run->device->calls("cuStreamGetId");
    int component = run->model.streams[op->stream].component;
    run->freed_base = run->last[op->block].base;
    run->freed_bytes = run->last[op->block].bytes;
    run->freed_uses.at[component] = run->model.order.tickets[component];
}

static int run_stream(fuzz_run *run, const fuzz_op *op)
{
    CUstream *handle = &run->streams[op->stream];
    if (op->kind == FUZZ_STREAM_DESTROY) {
        tnr_status status = op->is_illegal
                                ? TNR_OK /* a planted error: Tenure is not told */
                                : tnr_stream_destroying(run_device_of(run, op->stream), *handle);
        if (!run_succeeded(run, status, "tnr_stream_destroying"))
            return 0;
        if (!driver_succeeded(run, run->device->stream_destroy(*handle), "cuStreamDestroy"))
            return 0;
        if (op->is_illegal)
            planted_end(run, op);
        model_did_destroy_stream(&run->model, op);
        return 1;
    }
    if (model_did_create_stream(&run->model, op) != 0)
        return 0;
    fuzz_device_use(run->device, op->device);
    CUresult result =
        run->device->stream_create(handle, op->n != 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    fuzz_device_use(run->device, 0);
    if (!driver_succeeded(run, result, "cuStreamCreate")) {
        model_did_destroy_stream(&run->model, op);
        return 0;
    }
    run->stream_lives[op->stream]++;
    if (op->m != 0 &&
        !run_succeeded(run, tnr_stream_created(op->device, *handle), "tnr_stream_created"))
        run->model.streams[op->stream].is_known = 0;
    return 1;
}

int run_order(fuzz_run *run, const fuzz_op *op)
{
    switch ((fuzz_kind)op->kind) {
    case FUZZ_USE:
    case FUZZ_USE_STREAM:
    case FUZZ_KEEP:
        return run_mark(run, op);
    case FUZZ_RECORD:
        return run_record(run, op);
    case FUZZ_TELL:
        return run_tell(run, op);
    case FUZZ_WAIT:
        return run_wait(run, op);
    case FUZZ_EVENT_DESTROY:
        tnr_event_destroyed(run->events[op->event]);
        if (!driver_succeeded(run, run->device->event_destroy(run->events[op->event]),
                              "cuEventDestroy"))
            return 0;
        memset(&run->model.events[op->event], 0, sizeof(run->model.events[0]));
        return 1;
    case FUZZ_STREAM_CREATE:
    case FUZZ_STREAM_DESTROY:
        return run_stream(run, op);
    case FUZZ_RUN:
        (void)run->device->run(op->n);
        return 1;
    case FUZZ_RUN_STREAM:
        (void)run->device->run_stream(run->streams[op->stream], op->n);
        return 1;
    default:
        return run_sync(run, op);
    }
}
