/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that are replaced for the checker alone (group CHECK of entries.def): sets, copies that
 * do not concern Tenure, and other calls that order work or change what is known of it. Each calls
 * the driver and tells the checker. With the checker off, a program gets these replacements only if
 * it is linked with the driver. Then they only call the driver.
 */
#include "check/check.h"
#include "check/pinned.h"
#include "check/streams.h"
#include "driver.h"
#include "watch/account.h"

static const check_span nothing; /* of a set, and where an end is an array */

/* Tells of what the driver was asked for, and returns what it said. */
static CUresult told(CUresult result, const char *call, check_span to, check_span from,
                     CUstream stream)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied(call, stream, to, from));
    return result;
}

static CUresult told_at_once(CUresult result, const char *call, check_span to, check_span from,
                             CUstream stream)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied_at_once(call, stream, to, from));
    return result;
}

static CUresult told_unseen(CUresult result, const char *call, const char *means)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL_ORDER(check_unseen(call, means));
    return result;
}

/* ---- sets ----------------------------------------------------------------------------------- */

/* Rows of bytes at an address; none: nothing is touched. */
static check_span rows_at(CUdeviceptr address, size_t pitch, size_t width, size_t height)
{
    int is_empty = width == 0 || height == 0;
    return (check_span){address, is_empty ? 0 : (height - 1) * pitch + width,
                        height > 1 && pitch > width};
}

/* The four forms of a set: at once, and on a stream, each of them for the thread's default stream,
 * too. `P` are the parameters, `A` the arguments, `span` is what is set. */
#define SET_AT_ONCE(name, form, stream, P, A, span)                                                \
    CUresult CUDAAPI replace_##name##_v2##form P                                                   \
    {                                                                                              \
        return told_at_once(REAL(name##_v2##form, A), #name, span, nothing, stream);               \
    }
#define SET_ON_STREAM(name, P, A, span)                                                            \
    CUresult CUDAAPI replace_##name P                                                              \
    {                                                                                              \
        return told(REAL(name, A), #name, span, nothing, stream);                                  \
    }                                                                                              \
    CUresult CUDAAPI replace_##name##_ptsz P                                                       \
    {                                                                                              \
        stream = stream_of_thread(stream);                                                         \
        return replace_##name A;                                                                   \
    }
#define SET_ROW(name, type)                                                                        \
    SET_AT_ONCE(name, , NULL, (CUdeviceptr to, type value, size_t count), (to, value, count),      \
                ROW_SPAN(type))                                                                    \
    SET_AT_ONCE(name, _ptds, CU_STREAM_PER_THREAD, (CUdeviceptr to, type value, size_t count),     \
                (to, value, count), ROW_SPAN(type))                                                \
    SET_ON_STREAM(name##Async, (CUdeviceptr to, type value, size_t count, CUstream stream),        \
                  (to, value, count, stream), ROW_SPAN(type))
#define SET_ROWS(name, type)                                                                       \
    SET_AT_ONCE(name, , NULL,                                                                      \
                (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),           \
                (to, pitch, value, width, height), ROWS_SPAN(type))                                \
    SET_AT_ONCE(name, _ptds, CU_STREAM_PER_THREAD,                                                 \
                (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),           \
                (to, pitch, value, width, height), ROWS_SPAN(type))                                \
    SET_ON_STREAM(                                                                                 \
        name##Async,                                                                               \
        (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream),  \
        (to, pitch, value, width, height, stream), ROWS_SPAN(type))
#define ROW_SPAN(type) rows_at(to, 0, count * sizeof(type), 1)
#define ROWS_SPAN(type) rows_at(to, pitch, width * sizeof(type), height)

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
        CHECK_TELL(check_copied_between("cuMemcpyPeer", (check_span){to, bytes, 0},
                                        (check_span){from, bytes, 0}));
    return result;
}

CUresult CUDAAPI replace_cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                           CUcontext from_context, size_t bytes)
{
    CUresult result = REAL(cuMemcpyPeer_ptds, (to, to_context, from, from_context, bytes));
    if (result == CUDA_SUCCESS)
        CHECK_TELL(check_copied_between("cuMemcpyPeer", (check_span){to, bytes, 0},
                                        (check_span){from, bytes, 0}));
    return result;
}

CUresult CUDAAPI replace_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                           CUcontext from_context, size_t bytes, CUstream stream)
{
    return told(REAL(cuMemcpyPeerAsync, (to, to_context, from, from_context, bytes, stream)),
                "cuMemcpyPeerAsync", (check_span){to, bytes, 0}, (check_span){from, bytes, 0},
                stream);
}

CUresult CUDAAPI replace_cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context,
                                                CUdeviceptr from, CUcontext from_context,
                                                size_t bytes, CUstream stream)
{
    return replace_cuMemcpyPeerAsync(to, to_context, from, from_context, bytes,
                                     stream_of_thread(stream));
}

/* One side of a copy of boxes: an array, or memory of either kind. `pitch` and `high` say how far
 * rows and slices lie apart. */
static check_span side_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch,
                          size_t high, const size_t at[3], const size_t size[3])
{
    if (type == CU_MEMORYTYPE_ARRAY)
        return nothing;
    size_t row = pitch > 0 ? pitch : size[0];
    size_t slice = row * (high > 0 ? high : size[1]);
    CUdeviceptr base = type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)host : device;
    check_span side = rows_at(base + at[2] * slice + at[1] * row + at[0], row, size[0], size[1]);
    if (side.bytes > 0)
        side.bytes = size[2] == 0 ? 0 : side.bytes + (size[2] - 1) * slice;
    side.has_gaps |= size[2] > 1 && slice > size[1] * row;
    return side;
}

static check_span to_of_2d(const CUDA_MEMCPY2D *copy)
{
    return side_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstPitch, 0,
                   (size_t[]){copy->dstXInBytes, copy->dstY, 0},
                   (size_t[]){copy->WidthInBytes, copy->Height, 1});
}

static check_span from_of_2d(const CUDA_MEMCPY2D *copy)
{
    return side_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcPitch, 0,
                   (size_t[]){copy->srcXInBytes, copy->srcY, 0},
                   (size_t[]){copy->WidthInBytes, copy->Height, 1});
}

check_span check_to_of_3d(const CUDA_MEMCPY3D *copy)
{
    return side_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstPitch,
                   copy->dstHeight, (size_t[]){copy->dstXInBytes, copy->dstY, copy->dstZ},
                   (size_t[]){copy->WidthInBytes, copy->Height, copy->Depth});
}

check_span check_from_of_3d(const CUDA_MEMCPY3D *copy)
{
    return side_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcPitch,
                   copy->srcHeight, (size_t[]){copy->srcXInBytes, copy->srcY, copy->srcZ},
                   (size_t[]){copy->WidthInBytes, copy->Height, copy->Depth});
}

#define COPY_AT_ONCE(name, form, stream, type, to, from)                                           \
    CUresult CUDAAPI replace_##name##_v2##form(const type *copy)                                   \
    {                                                                                              \
        CUresult result = REAL(name##_v2##form, (copy));                                           \
        return result != CUDA_SUCCESS ? result                                                     \
                                      : told_at_once(result, #name, to(copy), from(copy), stream); \
    }
#define COPY_ON_STREAM(name, type, to, from)                                                       \
    CUresult CUDAAPI replace_##name##_v2(const type *copy, CUstream stream)                        \
    {                                                                                              \
        CUresult result = REAL(name##_v2, (copy, stream));                                         \
        return result != CUDA_SUCCESS ? result                                                     \
                                      : told(result, #name, to(copy), from(copy), stream);         \
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
COPY_AT_ONCE(cuMemcpy2D, , NULL, CUDA_MEMCPY2D, to_of_2d, from_of_2d)
COPY_AT_ONCE(cuMemcpy2D, _ptds, CU_STREAM_PER_THREAD, CUDA_MEMCPY2D, to_of_2d, from_of_2d)
COPY_AT_ONCE(cuMemcpy2DUnaligned, , NULL, CUDA_MEMCPY2D, to_of_2d, from_of_2d)
COPY_AT_ONCE(cuMemcpy2DUnaligned, _ptds, CU_STREAM_PER_THREAD, CUDA_MEMCPY2D, to_of_2d, from_of_2d)
COPY_AT_ONCE(cuMemcpy3D, , NULL, CUDA_MEMCPY3D, check_to_of_3d, check_from_of_3d)
COPY_AT_ONCE(cuMemcpy3D, _ptds, CU_STREAM_PER_THREAD, CUDA_MEMCPY3D, check_to_of_3d,
             check_from_of_3d)
COPY_ON_STREAM(cuMemcpy2DAsync, CUDA_MEMCPY2D, to_of_2d, from_of_2d)
COPY_ON_STREAM(cuMemcpy3DAsync, CUDA_MEMCPY3D, check_to_of_3d, check_from_of_3d)

/* ---- batches of boxes ----------------------------------------------------------------------- */

/* Beside an array lengths are in its elements. Then one byte is certain. */
static check_span side_of_box(const preload_box *box, const preload_box_side *side,
                              const preload_box_side *other)
{
    if (side->type != PRELOAD_BOX_POINTER)
        return nothing;
    if (other->type != PRELOAD_BOX_POINTER)
        return (check_span){side->is.pointer.address, 1, 0};
    return side_of(CU_MEMORYTYPE_DEVICE, NULL, side->is.pointer.address, side->is.pointer.row,
                   side->is.pointer.layer, (size_t[]){0, 0, 0},
                   (size_t[]){box->width, box->height, box->depth});
}

static CUresult boxes_told(CUresult result, size_t count, const preload_box *list, CUstream stream)
{
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        (void)told(result, "cuMemcpy3DBatchAsync",
                   side_of_box(&list[i], &list[i].to, &list[i].from),
                   side_of_box(&list[i], &list[i].from, &list[i].to), stream);
    return result;
}

CUresult CUDAAPI replace_cuMemcpy3DBatchAsync_v2(size_t count, preload_box *list,
                                                 unsigned long long flags, CUstream stream)
{
    return boxes_told(REAL(cuMemcpy3DBatchAsync_v2, (count, list, flags, stream)), count, list,
                      stream);
}

CUresult CUDAAPI replace_cuMemcpy3DBatchAsync_v2_ptsz(size_t count, preload_box *list,
                                                      unsigned long long flags, CUstream stream)
{
    return replace_cuMemcpy3DBatchAsync_v2(count, list, flags, stream_of_thread(stream));
}

CUresult CUDAAPI replace_cuMemcpy3DBatchAsync(size_t count, preload_box *list, size_t *failed,
                                              unsigned long long flags, CUstream stream)
{
    return boxes_told(REAL(cuMemcpy3DBatchAsync, (count, list, failed, flags, stream)), count, list,
                      stream);
}

CUresult CUDAAPI replace_cuMemcpy3DBatchAsync_ptsz(size_t count, preload_box *list, size_t *failed,
                                                   unsigned long long flags, CUstream stream)
{
    return replace_cuMemcpy3DBatchAsync(count, list, failed, flags, stream_of_thread(stream));
}

/* ---- values in memory ----------------------------------------------------------------------- */

/* A wait for a value orders by means that are not seen; a write uses the memory that it is in. */
static CUresult told_waits(CUresult result, const char *call, check_span at, CUstream stream)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL_ORDER(check_unseen_on(call, stream));
    return told(result, call, nothing, at, stream);
}

#define VALUE_WAIT(symbol, type)                                                                   \
    CUresult CUDAAPI replace_##symbol(CUstream stream, CUdeviceptr at, type value, unsigned flags) \
    {                                                                                              \
        return told_waits(REAL(symbol, (stream, at, value, flags)), "cuStreamWaitValue",           \
                          (check_span){at, sizeof(type), 0}, stream);                              \
    }                                                                                              \
    CUresult CUDAAPI replace_##symbol##_ptsz(CUstream stream, CUdeviceptr at, type value,          \
                                             unsigned flags)                                       \
    {                                                                                              \
        return replace_##symbol(stream_of_thread(stream), at, value, flags);                       \
    }
#define VALUE_WRITE(symbol, type)                                                                  \
    CUresult CUDAAPI replace_##symbol(CUstream stream, CUdeviceptr at, type value, unsigned flags) \
    {                                                                                              \
        return told(REAL(symbol, (stream, at, value, flags)), "cuStreamWriteValue",                \
                    (check_span){at, sizeof(type), 0}, nothing, stream);                           \
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
            check_copied("cuStreamBatchMemOp", stream,
                         (check_span){one->pad[ATOMIC_ADDRESS], sizeof(cuuint32_t), 0}, nothing);
            continue;
        }
        check_span at = {one->writeValue.address, sizeof(cuuint32_t), 0};
        if (one->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
            one->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
            (void)told_waits(CUDA_SUCCESS, "cuStreamBatchMemOp", at, stream);
        else if (one->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
                 one->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
            check_copied("cuStreamBatchMemOp", stream, at, nothing);
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
    CUresult result = REAL(cuWaitExternalSemaphoresAsync, (list, params, count, stream));
    return told_waits(result, "cuWaitExternalSemaphoresAsync", nothing, stream);
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
    void *wrapped = check_does(CHECK_REPORTS) ? check_callback(stream, function, data) : NULL;
    if (wrapped == NULL)
        return REAL(cuStreamAddCallback, (stream, function, data, flags));
    CUresult result = REAL(cuStreamAddCallback, (stream, check_callback_run, wrapped, flags));
    if (result != CUDA_SUCCESS)
        check_host_function_refused(wrapped);
    return result;
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
    return told_unseen(REAL(cuCtxRecordEvent, (context, event)), "cuCtxRecordEvent",
                       "the program orders work by events of whole contexts");
}

CUresult CUDAAPI replace_cuCtxWaitEvent(CUcontext context, CUevent event)
{
    return told_unseen(REAL(cuCtxWaitEvent, (context, event)), "cuCtxWaitEvent",
                       "the program orders work by events of whole contexts");
}

CUresult CUDAAPI replace_cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    return told_unseen(REAL(cuIpcOpenEventHandle, (event, handle)), "cuIpcOpenEventHandle",
                       "the program orders work by events of other processes");
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

/* ---- memory that the host reads ------------------------------------------------------------- */

static CUresult told_made(CUresult result, const void *base, size_t bytes, int is_pinned)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL_ORDER(check_host_memory_made(base, bytes, is_pinned));
    return result;
}

CUresult CUDAAPI replace_cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
    int is_pinned = (flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)) == 0;
    return told_made(REAL(cuMemHostRegister_v2, (address, bytes, flags)), address, bytes,
                     is_pinned);
}

CUresult CUDAAPI replace_cuMemHostUnregister(void *address)
{
    if (check_is_host_watched)
        check_pinned_gone(address);
    CUresult result = REAL(cuMemHostUnregister, (address));
    if (result == CUDA_SUCCESS)
        CHECK_TELL_ORDER(check_host_memory_gone(address));
    return result;
}

CUresult CUDAAPI replace_cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    CUresult result = REAL(cuMemAllocManaged, (address, bytes, flags));
    return result != CUDA_SUCCESS ? result
                                  : told_made(result, (const void *)(uintptr_t)*address, bytes, 0);
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
    CHECK_UNLOADS(ACCOUNTED(ACCOUNT_MODULES, result = REAL(cuModuleUnload, (module))));
    if (account_is_on())
        account_handle_ends(NULL);
    return result;
}

CUresult CUDAAPI replace_cuLibraryUnload(CUlibrary library)
{
    CUresult result;
    CHECK_TELL(check_kernels_end());
    CHECK_UNLOADS(ACCOUNTED(ACCOUNT_MODULES, result = REAL(cuLibraryUnload, (library))));
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

#define EXEC_CHANGE(symbol, P, A, tell)                                                            \
    CUresult CUDAAPI replace_##symbol P                                                            \
    {                                                                                              \
        CUresult result = REAL(symbol, A);                                                         \
        if (result == CUDA_SUCCESS)                                                                \
            CHECK_TELL(tell);                                                                      \
        return result;                                                                             \
    }

/* The older form has no kernel in the place of a function. */
static void kernel_changed(CUgraphExec exec, CUgraphNode node,
                           const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS now = {
        .func = params->func, .kernelParams = params->kernelParams, .extra = params->extra};
    check_exec_kernel(exec, node, &now);
}

EXEC_CHANGE(cuGraphExecKernelNodeSetParams,
            (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params),
            (exec, node, params), kernel_changed(exec, node, params))
EXEC_CHANGE(cuGraphExecKernelNodeSetParams_v2,
            (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params),
            (exec, node, params), check_exec_kernel(exec, node, params))
EXEC_CHANGE(cuGraphExecMemcpyNodeSetParams,
            (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context),
            (exec, node, params, context), check_exec_copy(exec, node, params))
EXEC_CHANGE(cuGraphExecMemsetNodeSetParams,
            (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params,
             CUcontext context),
            (exec, node, params, context), check_exec_set(exec, node, params))
EXEC_CHANGE(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph child),
            (exec, node, child), check_exec_child(exec, node))
EXEC_CHANGE(cuGraphExecBatchMemOpNodeSetParams,
            (CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params),
            (exec, node, params), check_exec_values(exec, node, params->count, params->paramArray))
EXEC_CHANGE(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned is_enabled),
            (exec, node, is_enabled), check_exec_enabled(exec, node, is_enabled != 0))
EXEC_CHANGE(cuGraphExecEventWaitNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event),
            (exec, node, event), check_exec_event(exec, node, event, 1))
