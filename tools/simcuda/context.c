/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: each device's primary one, those of cuCtxCreate, and each thread's stack of them.
 *
 * Objects of a context (streams, events, modules) end with it. A context that ends while work is
 * queued in it is a violation; the work is dropped.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

struct sim_context *sim_context_get(CUcontext handle)
{
    return sim_slot_get(handle, SIM_CONTEXT, "context");
}

static int context_begin(struct sim_context *context, struct sim_device *device)
{
    context->device = device;
    context->error = CUDA_SUCCESS;
    context->slot = sim_slot_new(SIM_CONTEXT, context);
    if (context->slot == NULL)
        return 0;
    if (!sim_overhead_take(device, SIM_OVERHEAD_CONTEXT)) {
        sim_slot_free(context->slot);
        context->slot = NULL;
        return 0;
    }
    context->id = ++sim.next_id;
    context->legacy = sim_stream_new(context, SIM_LEGACY, CU_STREAM_DEFAULT, 0);
    if (context->legacy == NULL) {
        sim_overhead_give(device, SIM_OVERHEAD_CONTEXT);
        sim_slot_free(context->slot);
        context->slot = NULL;
        return 0;
    }
    return 1;
}

/* ---- the end of a context ------------------------------------------------------------------- */

static void end_stream(void *object)
{
    struct sim_stream *stream = object;
    sim_slot_free(stream->slot);
    stream->slot = NULL;
    sim_stream_drop(stream);
}

static void end_event(void *object)
{
    struct sim_event *event = object;
    sim_overhead_give(event->context->device, SIM_OVERHEAD_EVENT);
    sim_slot_free(event->slot);
    event->slot = NULL;
    sim_event_drop(event);
}

static void end_module(void *object)
{
    sim_module_end(object);
}

/* Drops queued work; a head that a worker is running right now is waited for first. */
static uint64_t context_discard_work(struct sim_context *context)
{
    uint64_t dropped = 0;
    for (size_t i = 0; i < sim.busy_count;) {
        struct sim_stream *stream = sim.busy[i];
        if (stream->context != context) {
            i++;
        } else if (stream->is_running) {
            pthread_cond_wait(&sim.done, &sim.lock);
            i = 0;
        } else {
            dropped += stream->tail - stream->head;
            sim_stream_discard(stream);
            i = 0;
        }
    }
    return dropped;
}

/* Access to a device's memory ends with its primary context. */
static void peers_forget(const struct sim_device *device)
{
    uint32_t others = ~(UINT32_C(1) << device->ordinal);
    for (int i = 0; i < sim.device_count; i++)
        sim.devices[i].primary.peers &= others;
    for (struct sim_context *one = sim.contexts; one != NULL; one = one->next)
        one->peers &= others;
}

void sim_context_end(struct sim_context *context)
{
    sim_capture_context_end(context);
    uint64_t dropped = context_discard_work(context);
    if (dropped != 0)
        sim_violation("context %llu of device %d ends with %llu operations queued",
                      (unsigned long long)context->id, context->device->ordinal,
                      (unsigned long long)dropped);
    sim_race_waited_all(context, NULL, sim.ticket);
    sim_block_end(context);
    sim_slot_each(SIM_EVENT, context, end_event);
    sim_slot_each(SIM_STREAM, context, end_stream);
    sim_slot_each(SIM_MODULE, context, end_module);
    while (context->per_thread != NULL) {
        struct sim_stream *stream = context->per_thread;
        context->per_thread = stream->next_default;
        sim_stream_drop(stream);
    }
    sim_stream_drop(context->legacy);
    context->legacy = NULL;
    sim_slot_free(context->slot);
    context->slot = NULL;
    sim_overhead_give(context->device, SIM_OVERHEAD_CONTEXT);
    context->peers = 0;
    if (context->is_primary)
        peers_forget(context->device);
}

/* Frees what contexts hold, quietly; the queues are empty by then. */
void sim_context_reset(void)
{
    for (int i = 0; i < sim.device_count; i++)
        if (sim.devices[i].primary.slot != NULL)
            sim_context_end(&sim.devices[i].primary);
    while (sim.contexts != NULL) {
        struct sim_context *context = sim.contexts;
        sim.contexts = context->next;
        if (context->slot != NULL)
            sim_context_end(context);
        free(context);
    }
}

/* ---- primary contexts ----------------------------------------------------------------------- */

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxRetain, SIM_NEEDS_INIT);
    struct sim_device *device = sim_device(dev);
    if (pctx == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (device == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    if (device->primary.slot == NULL && !context_begin(&device->primary, device))
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    device->primary.references++;
    *pctx = (CUcontext)device->primary.slot;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxRelease_v2, SIM_NEEDS_INIT);
    struct sim_device *device = sim_device(dev);
    if (device == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    if (device->primary.references == 0)
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    /* A reset may have ended it before. */
    if (--device->primary.references == 0 && device->primary.slot != NULL)
        sim_context_end(&device->primary);
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    SIM_ENTER(cuDevicePrimaryCtxGetState, SIM_NEEDS_INIT);
    const struct sim_device *device = sim_device(dev);
    if (device == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    if (flags == NULL || active == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = device->primary.flags;
    *active = device->primary.slot != NULL;
    return sim_leave(CUDA_SUCCESS);
}

/* References stay: like the driver's, they must still be released, and keep the handle current. */
CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxReset_v2, SIM_NEEDS_INIT);
    struct sim_device *device = sim_device(dev);
    if (device == NULL)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    if (device->primary.slot != NULL)
        sim_context_end(&device->primary);
    return sim_leave(CUDA_SUCCESS);
}

/* ---- created contexts ----------------------------------------------------------------------- */

static CUresult context_create(CUcontext *out, unsigned flags, CUdevice dev)
{
    struct sim_device *device = sim_device(dev);
    struct sim_thread *thread = sim_thread();
    if (out == NULL || (flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (thread->depth == sizeof(thread->stack) / sizeof(thread->stack[0]))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_context *context = calloc(1, sizeof(*context));
    if (context == NULL || !context_begin(context, device)) {
        free(context);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->flags = flags;
    context->next = sim.contexts;
    sim.contexts = context;
    thread->stack[thread->depth++] = context;
    *out = (CUcontext)context->slot;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    SIM_ENTER(cuCtxCreate_v2, SIM_NEEDS_INIT);
    return sim_leave(context_create(pctx, flags, dev));
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
                                unsigned int flags, CUdevice dev)
{
    SIM_ENTER(cuCtxCreate_v4, SIM_NEEDS_INIT);
    if (ctxCreateParams != NULL &&
        (ctxCreateParams->numExecAffinityParams != 0 || ctxCreateParams->cigParams != NULL))
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    return sim_leave(context_create(pctx, flags, dev));
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext ctx)
{
    SIM_ENTER(cuCtxDestroy_v2, SIM_NEEDS_INIT);
    struct sim_context *context = sim_context_get(ctx);
    if (context == NULL || context->is_primary)
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    sim_context_end(context);
    /* Current here: popped. Current in other threads: they get CONTEXT_IS_DESTROYED. */
    struct sim_thread *thread = sim_thread();
    if (thread->depth != 0 && thread->stack[thread->depth - 1] == context)
        thread->depth--;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- the current context -------------------------------------------------------------------- */

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx)
{
    SIM_ENTER(cuCtxGetCurrent, SIM_NEEDS_INIT);
    if (pctx == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const struct sim_context *context = sim_current();
    *pctx = context == NULL ? NULL : (CUcontext)context->slot;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx)
{
    SIM_ENTER(cuCtxSetCurrent, SIM_NEEDS_INIT);
    struct sim_thread *thread = sim_thread();
    if (ctx == NULL) {
        thread->depth -= thread->depth != 0;
        return sim_leave(CUDA_SUCCESS);
    }
    struct sim_context *context = sim_context_get(ctx);
    if (context == NULL)
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    thread->depth += thread->depth == 0;
    thread->stack[thread->depth - 1] = context;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext ctx)
{
    SIM_ENTER(cuCtxPushCurrent_v2, SIM_NEEDS_INIT);
    struct sim_thread *thread = sim_thread();
    struct sim_context *context = ctx == NULL ? NULL : sim_context_get(ctx);
    if (context == NULL)
        return sim_leave(ctx == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT);
    if (thread->depth == sizeof(thread->stack) / sizeof(thread->stack[0]))
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    thread->stack[thread->depth++] = context;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *pctx)
{
    SIM_ENTER(cuCtxPopCurrent_v2, SIM_NEEDS_INIT);
    struct sim_thread *thread = sim_thread();
    if (thread->depth == 0)
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    const struct sim_context *context = thread->stack[--thread->depth];
    if (pctx != NULL)
        *pctx = (CUcontext)context->slot;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    SIM_ENTER(cuCtxGetDevice, SIM_NEEDS_CONTEXT);
    if (device == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *device = sim_current()->device->ordinal;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
    SIM_ENTER(cuCtxGetFlags, SIM_NEEDS_CONTEXT);
    if (flags == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = sim_current()->flags;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    SIM_ENTER(cuCtxGetId, SIM_NEEDS_INIT);
    const struct sim_context *context = ctx == NULL ? sim_current() : sim_context_get(ctx);
    if (ctxId == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (context == NULL)
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    *ctxId = context->id;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    SIM_ENTER(cuCtxGetStreamPriorityRange, SIM_NEEDS_CONTEXT);
    if (leastPriority != NULL)
        *leastPriority = 0;
    if (greatestPriority != NULL)
        *greatestPriority = -5;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
    SIM_ENTER(cuCtxSynchronize, SIM_NEEDS_CLEAN);
    CUresult result = sim_capture_check_context(sim_current());
    return sim_leave(result != CUDA_SUCCESS ? result
                                            : sim_wait_context(sim_current(), "cuCtxSynchronize"));
}

/* ---- peers ---------------------------------------------------------------------------------- */

static CUresult context_peer(CUcontext handle, int enable)
{
    struct sim_context *here = sim_current();
    const struct sim_context *peer = sim_context_get(handle);
    if (peer == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (peer->device == here->device)
        return enable ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    if (!sim.settings.peers)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    uint32_t bit = UINT32_C(1) << peer->device->ordinal;
    if (enable == ((here->peers & bit) != 0))
        return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    here->peers ^= bit;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    SIM_ENTER(cuCtxEnablePeerAccess, SIM_NEEDS_CONTEXT);
    return sim_leave(Flags != 0 ? CUDA_ERROR_INVALID_VALUE : context_peer(peerContext, 1));
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext)
{
    SIM_ENTER(cuCtxDisablePeerAccess, SIM_NEEDS_CONTEXT);
    return sim_leave(context_peer(peerContext, 0));
}
