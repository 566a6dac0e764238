/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that are replaced for the checker alone (group CHECK of entries.def): sets, copies that
 * do not concern Tenure, and other calls that order work or change what is known of it. Each calls
 * the driver and tells the checker. With the checker off, a program gets these replacements only if
 * it is linked with the driver. Then they only call the driver.
 */
#include "account.h"
#include "check/check.h"
#include "check/streams.h"
#include "driver.h"

static CUdeviceptr of_host(const void *address)
{
    return (CUdeviceptr)(uintptr_t)address;
}

/* Tells of what the driver was asked for, and returns what it said. */
static CUresult told(CUresult result, const char *call, CUdeviceptr to, CUdeviceptr from,
                     CUstream stream)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied(call, stream, to, from));
    return result;
}

static CUresult told_at_once(CUresult result, const char *call, CUdeviceptr to, CUdeviceptr from,
                             CUstream stream)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied_at_once(call, stream, to, from));
    return result;
}

static CUresult told_unseen(CUresult result, const char *means)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL_ORDER(check_unseen(means));
    return result;
}

/* ---- sets ----------------------------------------------------------------------------------- */

/* The four forms of a set: at once, and on a stream, each of them for the thread's default stream,
 * too. `P` are the parameters, `A` the arguments. */
#define SET_AT_ONCE(name, form, stream, P, A)                                                      \
    CUresult CUDAAPI replace_##name##_v2##form P                                                   \
    {                                                                                              \
        return told_at_once(REAL(name##_v2##form, A), #name, to, 0, stream);                       \
    }
#define SET_ON_STREAM(name, P, A)                                                                  \
    CUresult CUDAAPI replace_##name P                                                              \
    {                                                                                              \
        return told(REAL(name, A), #name, to, 0, stream);                                          \
    }                                                                                              \
    CUresult CUDAAPI replace_##name##_ptsz P                                                       \
    {                                                                                              \
        stream = stream_of_thread(stream);                                                         \
        return replace_##name A;                                                                   \
    }
#define SET_ROW(name, type)                                                                        \
    SET_AT_ONCE(name, , NULL, (CUdeviceptr to, type value, size_t count), (to, value, count))      \
    SET_AT_ONCE(name, _ptds, CU_STREAM_PER_THREAD, (CUdeviceptr to, type value, size_t count),     \
                (to, value, count))                                                                \
    SET_ON_STREAM(name##Async, (CUdeviceptr to, type value, size_t count, CUstream stream),        \
                  (to, value, count, stream))
#define SET_ROWS(name, type)                                                                       \
    SET_AT_ONCE(name, , NULL,                                                                      \
                (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),           \
                (to, pitch, value, width, height))                                                 \
    SET_AT_ONCE(name, _ptds, CU_STREAM_PER_THREAD,                                                 \
                (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),           \
                (to, pitch, value, width, height))                                                 \
    SET_ON_STREAM(                                                                                 \
        name##Async,                                                                               \
        (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream),  \
        (to, pitch, value, width, height, stream))

/* The headers give the newest versions' names to these. */
#undef cuMemsetD8
#undef cuMemsetD16
#undef cuMemsetD32
#undef cuMemsetD2D8
#undef cuMemsetD2D16
#undef cuMemsetD2D32
SET_ROW(cuMemsetD8, unsigned char)
SET_ROW(cuMemsetD16, unsigned short)
SET_ROW(cuMemsetD32, unsigned)
SET_ROWS(cuMemsetD2D8, unsigned char)
SET_ROWS(cuMemsetD2D16, unsigned short)
SET_ROWS(cuMemsetD2D32, unsigned)

/* ---- copies --------------------------------------------------------------------------------- */

CUresult CUDAAPI replace_cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                      CUcontext from_context, size_t bytes)
{
    CUresult result = REAL(cuMemcpyPeer, (to, to_context, from, from_context, bytes));
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied_between("cuMemcpyPeer", to, from));
    return result;
}

CUresult CUDAAPI replace_cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                           CUcontext from_context, size_t bytes)
{
    CUresult result = REAL(cuMemcpyPeer_ptds, (to, to_context, from, from_context, bytes));
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied_between("cuMemcpyPeer", to, from));
    return result;
}

CUresult CUDAAPI replace_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                           CUcontext from_context, size_t bytes, CUstream stream)
{
    return told(REAL(cuMemcpyPeerAsync, (to, to_context, from, from_context, bytes, stream)),
                "cuMemcpyPeerAsync", to, from, stream);
}

CUresult CUDAAPI replace_cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context,
                                                CUdeviceptr from, CUcontext from_context,
                                                size_t bytes, CUstream stream)
{
    return replace_cuMemcpyPeerAsync(to, to_context, from, from_context, bytes,
                                     stream_of_thread(stream));
}

/* One side of a copy of rows: the address from which it counts, of whatever kind. 0: an array. */
static CUdeviceptr side_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
    if (type == CU_MEMORYTYPE_ARRAY)
        return 0;
    return type == CU_MEMORYTYPE_HOST ? of_host(host) : device;
}

#define COPY_TO(copy) side_of((copy)->dstMemoryType, (copy)->dstHost, (copy)->dstDevice)
#define COPY_FROM(copy) side_of((copy)->srcMemoryType, (copy)->srcHost, (copy)->srcDevice)
#define COPY_AT_ONCE(name, form, stream, type)                                                     \
    CUresult CUDAAPI replace_##name##_v2##form(const type *copy)                                   \
    {                                                                                              \
        CUresult result = REAL(name##_v2##form, (copy));                                           \
        return result != CUDA_SUCCESS                                                              \
                   ? result                                                                        \
                   : told_at_once(result, #name, COPY_TO(copy), COPY_FROM(copy), stream);          \
    }
#define COPY_ON_STREAM(name, type)                                                                 \
    CUresult CUDAAPI replace_##name##_v2(const type *copy, CUstream stream)                        \
    {                                                                                              \
        CUresult result = REAL(name##_v2, (copy, stream));                                         \
        return result != CUDA_SUCCESS                                                              \
                   ? result                                                                        \
                   : told(result, #name, COPY_TO(copy), COPY_FROM(copy), stream);                  \
    }                                                                                              \
    CUresult CUDAAPI replace_##name##_v2_ptsz(const type *copy, CUstream stream)                   \
    {                                                                                              \
        return replace_##name##_v2(copy, stream_of_thread(stream));                                \
    }

#undef cuMemcpy2D
#undef cuMemcpy2DUnaligned
#undef cuMemcpy3D
#undef cuMemcpy2DAsync
#undef cuMemcpy3DAsync
COPY_AT_ONCE(cuMemcpy2D, , NULL, CUDA_MEMCPY2D)
COPY_AT_ONCE(cuMemcpy2D, _ptds, CU_STREAM_PER_THREAD, CUDA_MEMCPY2D)
COPY_AT_ONCE(cuMemcpy2DUnaligned, , NULL, CUDA_MEMCPY2D)
COPY_AT_ONCE(cuMemcpy2DUnaligned, _ptds, CU_STREAM_PER_THREAD, CUDA_MEMCPY2D)
COPY_AT_ONCE(cuMemcpy3D, , NULL, CUDA_MEMCPY3D)
COPY_AT_ONCE(cuMemcpy3D, _ptds, CU_STREAM_PER_THREAD, CUDA_MEMCPY3D)
COPY_ON_STREAM(cuMemcpy2DAsync, CUDA_MEMCPY2D)
COPY_ON_STREAM(cuMemcpy3DAsync, CUDA_MEMCPY3D)

/* ---- values in memory ----------------------------------------------------------------------- */

static const char values[] = "values in memory that streams wait for";

/* A wait for a value orders by means that are not seen; a write uses the memory that it is in. */
#define VALUE_WAIT(symbol, type)                                                                   \
    CUresult CUDAAPI replace_##symbol(CUstream stream, CUdeviceptr at, type value, unsigned flags) \
    {                                                                                              \
        CHECK_TELL_ORDER(check_unseen(values));                                                    \
        return told(REAL(symbol, (stream, at, value, flags)), "cuStreamWaitValue", at, 0, stream); \
    }                                                                                              \
    CUresult CUDAAPI replace_##symbol##_ptsz(CUstream stream, CUdeviceptr at, type value,          \
                                             unsigned flags)                                       \
    {                                                                                              \
        return replace_##symbol(stream_of_thread(stream), at, value, flags);                       \
    }
#define VALUE_WRITE(symbol, type)                                                                  \
    CUresult CUDAAPI replace_##symbol(CUstream stream, CUdeviceptr at, type value, unsigned flags) \
    {                                                                                              \
        return told(REAL(symbol, (stream, at, value, flags)), "cuStreamWriteValue", at, 0,         \
                    stream);                                                                       \
    }                                                                                              \
    CUresult CUDAAPI replace_##symbol##_ptsz(CUstream stream, CUdeviceptr at, type value,          \
                                             unsigned flags)                                       \
    {                                                                                              \
        return replace_##symbol(stream_of_thread(stream), at, value, flags);                       \
    }
VALUE_WAIT(cuStreamWaitValue32, cuuint32_t)
VALUE_WAIT(cuStreamWaitValue32_v2, cuuint32_t)
VALUE_WAIT(cuStreamWaitValue64, cuuint64_t)
VALUE_WAIT(cuStreamWaitValue64_v2, cuuint64_t)
VALUE_WRITE(cuStreamWriteValue32, cuuint32_t)
VALUE_WRITE(cuStreamWriteValue32_v2, cuuint32_t)
VALUE_WRITE(cuStreamWriteValue64, cuuint64_t)
VALUE_WRITE(cuStreamWriteValue64_v2, cuuint64_t)

/* CU_STREAM_MEM_OP_ATOMIC_REDUCTION, of CUDA 13.1: its address is the third pair of words. */
enum { ATOMIC_REDUCTION = 8, ATOMIC_ADDRESS = 2 };

static void batch_tell(CUstream stream, unsigned count, const CUstreamBatchMemOpParams *list)
{
    for (unsigned i = 0; i < count; i++) {
        const CUstreamBatchMemOpParams *one = &list[i];
        if ((int)one->operation == ATOMIC_REDUCTION) {
            check_copied("cuStreamBatchMemOp", stream, one->pad[ATOMIC_ADDRESS], 0);
            continue;
        }
        if (one->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
            one->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
            check_unseen(values);
        else if (one->operation != CU_STREAM_MEM_OP_WRITE_VALUE_32 &&
                 one->operation != CU_STREAM_MEM_OP_WRITE_VALUE_64)
            continue;
        check_copied("cuStreamBatchMemOp", stream, one->writeValue.address, 0);
    }
}

#define VALUE_BATCH(symbol)                                                                        \
    CUresult CUDAAPI replace_##symbol(CUstream stream, unsigned count,                             \
                                      CUstreamBatchMemOpParams *list, unsigned flags)              \
    {                                                                                              \
        CUresult result = REAL(symbol, (stream, count, list, flags));                              \
        if (result == CUDA_SUCCESS)                                                                \
            CHECK_TELL(batch_tell(stream, count, list));                                           \
        return result;                                                                             \
    }                                                                                              \
    CUresult CUDAAPI replace_##symbol##_ptsz(CUstream stream, unsigned count,                      \
                                             CUstreamBatchMemOpParams *list, unsigned flags)       \
    {                                                                                              \
        return replace_##symbol(stream_of_thread(stream), count, list, flags);                     \
    }
VALUE_BATCH(cuStreamBatchMemOp)
VALUE_BATCH(cuStreamBatchMemOp_v2)

/* ---- other means of order ------------------------------------------------------------------- */

CUresult CUDAAPI replace_cuWaitExternalSemaphoresAsync(
    const CUexternalSemaphore *list, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params,
    unsigned count, CUstream stream)
{
    return told_unseen(REAL(cuWaitExternalSemaphoresAsync, (list, params, count, stream)),
                       "semaphores of others");
}

CUresult CUDAAPI replace_cuWaitExternalSemaphoresAsync_ptsz(
    const CUexternalSemaphore *list, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params,
    unsigned count, CUstream stream)
{
    return replace_cuWaitExternalSemaphoresAsync(list, params, count, stream_of_thread(stream));
}

CUresult CUDAAPI replace_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    void *wrapped = check_does(CHECK_REPORTS) ? check_host_function(stream, function, data) : NULL;
    if (wrapped == NULL)
        return REAL(cuLaunchHostFunc, (stream, function, data));
    CUresult result = REAL(cuLaunchHostFunc, (stream, check_host_function_run, wrapped));
    if (result != CUDA_SUCCESS)
        check_host_function_refused(wrapped);
    return result;
}

CUresult CUDAAPI replace_cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data)
{
    return replace_cuLaunchHostFunc(stream_of_thread(stream), function, data);
}

CUresult CUDAAPI replace_cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data,
                                             unsigned mode)
{
    void *wrapped = check_does(CHECK_REPORTS) ? check_host_function(stream, function, data) : NULL;
    if (wrapped == NULL)
        return REAL(cuLaunchHostFunc_v2, (stream, function, data, mode));
    CUresult result = REAL(cuLaunchHostFunc_v2, (stream, check_host_function_run, wrapped, mode));
    if (result != CUDA_SUCCESS)
        check_host_function_refused(wrapped);
    return result;
}

CUresult CUDAAPI replace_cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void *data,
                                                  unsigned mode)
{
    return replace_cuLaunchHostFunc_v2(stream_of_thread(stream), function, data, mode);
}

CUresult CUDAAPI replace_cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data,
                                             unsigned flags)
{
    CHECK_TELL_ORDER(check_unseen("callbacks of streams"));
    return REAL(cuStreamAddCallback, (stream, function, data, flags));
}

CUresult CUDAAPI replace_cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback function,
                                                  void *data, unsigned flags)
{
    return replace_cuStreamAddCallback(stream_of_thread(stream), function, data, flags);
}

CUresult CUDAAPI replace_cuCtxSynchronize_v2(CUcontext context)
{
    CUresult result = REAL(cuCtxSynchronize_v2, (context));
    if (result == CUDA_SUCCESS && check_does(CHECK_REPORTS) && check_enter()) {
        check_host_saw_device(-1); /* whichever it is */
        check_leave();
    }
    return result;
}

CUresult CUDAAPI replace_cuCtxRecordEvent(CUcontext context, CUevent event)
{
    return told_unseen(REAL(cuCtxRecordEvent, (context, event)), "events of whole contexts");
}

CUresult CUDAAPI replace_cuCtxWaitEvent(CUcontext context, CUevent event)
{
    return told_unseen(REAL(cuCtxWaitEvent, (context, event)), "events of whole contexts");
}

CUresult CUDAAPI replace_cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    return told_unseen(REAL(cuIpcOpenEventHandle, (event, handle)), "events of other processes");
}

/* Both events are over if there is a time between them. */
#define ELAPSED(symbol)                                                                            \
    CUresult CUDAAPI replace_##symbol(float *ms, CUevent start, CUevent end)                       \
    {                                                                                              \
        void *moment = check_does(CHECK_REPORTS) ? check_event_moment(end) : NULL;                 \
        CUresult result = REAL(symbol, (ms, start, end));                                          \
        CHECK_TELL_ORDER(check_event_seen(moment, result == CUDA_SUCCESS));                        \
        return result;                                                                             \
    }
ELAPSED(cuEventElapsedTime)
ELAPSED(cuEventElapsedTime_v2)

/* It waits for the device, though nothing says so. */
CUresult CUDAAPI replace_cuMemFreeHost(void *address)
{
    CUresult result = REAL(cuMemFreeHost, (address));
    if (result == CUDA_SUCCESS)
        CHECK_TELL_ORDER(check_device_seen());
    return result;
}

/* ---- code ----------------------------------------------------------------------------------- */

CUresult CUDAAPI replace_cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x,
                                                   unsigned grid_y, unsigned grid_z,
                                                   unsigned block_x, unsigned block_y,
                                                   unsigned block_z, unsigned shared_bytes,
                                                   CUstream stream, void **parameters)
{
    CUresult result;
    ACCOUNTED_FIRST(ACCOUNT_MODULES, function, ACCOUNT_LAUNCHED,
                    result = REAL(cuLaunchCooperativeKernel,
                                  (function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                   shared_bytes, stream, parameters)));
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_launched("cuLaunchCooperativeKernel", function, stream, parameters, NULL));
    return result;
}

CUresult CUDAAPI replace_cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned grid_x,
                                                        unsigned grid_y, unsigned grid_z,
                                                        unsigned block_x, unsigned block_y,
                                                        unsigned block_z, unsigned shared_bytes,
                                                        CUstream stream, void **parameters)
{
    return replace_cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y,
                                             block_z, shared_bytes, stream_of_thread(stream),
                                             parameters);
}

CUresult CUDAAPI replace_cuModuleUnload(CUmodule module)
{
    CUresult result;
    CHECK_TELL(check_code_unloaded());
    ACCOUNTED(ACCOUNT_MODULES, result = REAL(cuModuleUnload, (module)));
    if (account_is_on())
        account_handle_ends(NULL);
    return result;
}

CUresult CUDAAPI replace_cuLibraryUnload(CUlibrary library)
{
    CUresult result;
    CHECK_TELL(check_code_unloaded());
    ACCOUNTED(ACCOUNT_MODULES, result = REAL(cuLibraryUnload, (library)));
    if (account_is_on())
        account_handle_ends(NULL);
    return result;
}

CUresult CUDAAPI replace_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    CUresult result = REAL(cuLibraryGetKernel, (kernel, library, name));
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_kernel_known(*kernel));
    return result;
}

CUresult CUDAAPI replace_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count,
                                                   CUlibrary library)
{
    CUresult result = REAL(cuLibraryEnumerateKernels, (kernels, count, library));
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count && check_is_on(); i++)
        if (kernels[i] != NULL)
            check_kernel_known(kernels[i]);
    return result;
}

/* ---- executables that are changed ----------------------------------------------------------- */

#define EXEC_CHANGE(symbol, P, A)                                                                  \
    CUresult CUDAAPI replace_##symbol P                                                            \
    {                                                                                              \
        CHECK_TELL(check_exec_changed(exec));                                                      \
        return REAL(symbol, A);                                                                    \
    }
#define EXEC_EVENT(symbol)                                                                         \
    CUresult CUDAAPI replace_##symbol(CUgraphExec exec, CUgraphNode node, CUevent event)           \
    {                                                                                              \
        CHECK_TELL_ORDER(check_unseen("events of nodes that were changed"));                       \
        return REAL(symbol, (exec, node, event));                                                  \
    }
EXEC_CHANGE(cuGraphExecKernelNodeSetParams,
            (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params),
            (exec, node, params))
EXEC_CHANGE(cuGraphExecKernelNodeSetParams_v2,
            (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
            (exec, node, params))
EXEC_CHANGE(cuGraphExecMemcpyNodeSetParams,
            (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context),
            (exec, node, params, context))
EXEC_CHANGE(cuGraphExecMemsetNodeSetParams,
            (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params,
             CUcontext context),
            (exec, node, params, context))
EXEC_CHANGE(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph child),
            (exec, node, child))
EXEC_CHANGE(cuGraphExecBatchMemOpNodeSetParams,
            (CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params),
            (exec, node, params))
EXEC_CHANGE(cuGraphExecNodeSetParams,
            (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params), (exec, node, params))
EXEC_CHANGE(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned is_enabled),
            (exec, node, is_enabled))
EXEC_EVENT(cuGraphExecEventRecordNodeSetEvent)
EXEC_EVENT(cuGraphExecEventWaitNodeSetEvent)
