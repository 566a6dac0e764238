/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts that end, and memory that other devices are to reach.
 */
#include "graphs.h"
#include "ipc.h"
#include "order.h"
#include "service.h"

/* ---- contexts ------------------------------------------------------------------------------- */

CUresult CUDAAPI replace_cuCtxDestroy_v2(CUcontext context)
{
    order_context_ends(context);
    CUresult result = REAL(cuCtxDestroy_v2, (context));
    service_contexts_changed();
    return result;
}

CUresult CUDAAPI replace_cuCtxDestroy(CUcontext context)
{
    order_context_ends(context);
    CUresult result = REAL(cuCtxDestroy, (context));
    service_contexts_changed();
    return result;
}

CUresult CUDAAPI replace_cuGreenCtxDestroy(void *context)
{
    order_context_ends(context);
    return REAL(cuGreenCtxDestroy, (context));
}

CUresult CUDAAPI replace_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult result = REAL(cuDevicePrimaryCtxRelease_v2, (device));
    service_contexts_changed();
    return result;
}

CUresult CUDAAPI replace_cuDevicePrimaryCtxRelease(CUdevice device)
{
    CUresult result = REAL(cuDevicePrimaryCtxRelease, (device));
    service_contexts_changed();
    return result;
}

/* Everything in the context ends, ours too; a later allocation starts afresh. */
static void context_resets(CUdevice device)
{
    if (!service_enter())
        return;
    ipc_forget();
    if (service_device_reset(device))
        graphs_forget();
    order_forget(device);
    service_leave();
}

CUresult CUDAAPI replace_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    context_resets(device);
    CUresult result = REAL(cuDevicePrimaryCtxReset_v2, (device));
    service_contexts_changed();
    return result;
}

CUresult CUDAAPI replace_cuDevicePrimaryCtxReset(CUdevice device)
{
    context_resets(device);
    CUresult result = REAL(cuDevicePrimaryCtxReset, (device));
    service_contexts_changed();
    return result;
}

/* ---- peers ---------------------------------------------------------------------------------- */

/* The access that this call gives is to what the driver allocates. So from now on it allocates,
 * on every device but this one: which of them the context is of costs more to find out. */
CUresult CUDAAPI replace_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CUresult result = REAL(cuCtxEnablePeerAccess, (peer, flags));
    CUdevice here = -1;
    if (result != CUDA_SUCCESS || !service_enter())
        return result;
    (void)REAL(cuCtxGetDevice, (&here));
    int had_memory = 0;
    for (int i = 0; i < SERVICE_DEVICES_MAX; i++) {
        if (i == here || atomic_exchange(&service_device_at(i)->is_peer_open, 1))
            continue;
        had_memory |= atomic_load(&service_device_at(i)->is_on);
    }
    if (had_memory)
        service_say("peer access was enabled: from now on the driver's own allocator serves the "
                    "devices that are reached from others. What they have of Tenure's memory "
                    "stays out of reach: enable peer access before allocating.");
    service_leave();
    return result;
}
