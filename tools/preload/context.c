/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts that end, and their code with them.
 */
#include "check/check.h"
#include "graphs.h"
#include "order.h"
#include "peers.h"
#include "pools.h"
#include "service.h"
#include "watch/account.h"

/* ---- contexts ------------------------------------------------------------------------------- */

CUresult CUDAAPI replace_cuCtxDestroy_v2(CUcontext context)
{
    order_context_ends(context);
    CUresult result;
    CHECK_UNLOADS(ACCOUNTED(ACCOUNT_CONTEXT, result = REAL(cuCtxDestroy_v2, (context))));
    if (result == CUDA_SUCCESS)
        peers_context_ended(context);
    service_contexts_changed();
    return result;
}

CUresult CUDAAPI replace_cuCtxDestroy(CUcontext context)
{
    order_context_ends(context);
    CUresult result;
    CHECK_UNLOADS(ACCOUNTED(ACCOUNT_CONTEXT, result = REAL(cuCtxDestroy, (context))));
    if (result == CUDA_SUCCESS)
        peers_context_ended(context);
    service_contexts_changed();
    return result;
}

CUresult CUDAAPI replace_cuGreenCtxDestroy(void *context)
{
    CUresult result;
    order_context_ends(context);
    CHECK_UNLOADS(result = REAL(cuGreenCtxDestroy, (context)));
    return result;
}

/* The last who releases it ends its code. Whether one is the last is not asked: another thread may
 * retain it before the answer. */
CUresult CUDAAPI replace_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult result;
    CHECK_UNLOADS(ACCOUNTED_ON(ACCOUNT_CONTEXT, device,
                               result = REAL(cuDevicePrimaryCtxRelease_v2, (device))));
    service_contexts_changed();
    return result;
}

CUresult CUDAAPI replace_cuDevicePrimaryCtxRelease(CUdevice device)
{
    CUresult result;
    CHECK_UNLOADS(ACCOUNTED_ON(ACCOUNT_CONTEXT, device,
                               result = REAL(cuDevicePrimaryCtxRelease, (device))));
    service_contexts_changed();
    return result;
}

/* Everything in the context ends, ours too; a later allocation starts afresh. */
static void context_resets(CUdevice device)
{
    if (device < 0 || device >= SERVICE_DEVICES_MAX)
        return;
    CHECK_TELL(check_device_ends(device));
    if (!service_enter())
        return;
    peers_device_resets(device);
    graphs_forget(service_device_reset(device));
    order_forget(device);
    pools_forget(device);
    service_leave();
}

CUresult CUDAAPI replace_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    context_resets(device);
    CUresult result;
    CHECK_UNLOADS(
        ACCOUNTED_ON(ACCOUNT_CONTEXT, device, result = REAL(cuDevicePrimaryCtxReset_v2, (device))));
    service_contexts_changed();
    return result;
}

CUresult CUDAAPI replace_cuDevicePrimaryCtxReset(CUdevice device)
{
    context_resets(device);
    CUresult result;
    CHECK_UNLOADS(
        ACCOUNTED_ON(ACCOUNT_CONTEXT, device, result = REAL(cuDevicePrimaryCtxReset, (device))));
    service_contexts_changed();
    return result;
}
