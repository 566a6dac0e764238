/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies, memsets, and values read and written by streams.
 *
 * Calls wait by the driver's documented rules. Pinned memory and device memory are read and written
 * when the operation runs. Pageable sources are read at the call. Calls that fill pageable memory
 * return when it is full. Synchronous copies between device addresses and synchronous memsets do
 * not make the host wait.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

/* ---- copies --------------------------------------------------------------------------------- */

static int managed(uintptr_t address)
{
    return sim_region_find(address) != NULL;
}

struct copy {
    uintptr_t to;
    uintptr_t from;
    uint64_t bytes;
    int is_to_device; /* the call says that it is a device address */
    int is_from_device;
    int is_synchronous;
    /* Of a copy between contexts: whose memory a device's end is, and nobody else need reach it. */
    const struct sim_context *to_context, *from_context;
};

/* A copy's ends must be memory where the call says so, and something everywhere. */
static CUresult copy_check(const struct sim_stream *stream, const struct copy *copy)
{
    CUresult result = CUDA_SUCCESS;
    CUdeviceptr where = 0;
    if (copy->to == 0 || copy->from == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (copy->to_context != NULL)
        return (copy->is_to_device &&
                sim_reach(copy->to_context, copy->to, copy->bytes, 1, &where) != SIM_REACH_OK) ||
                       (copy->is_from_device && sim_reach(copy->from_context, copy->from,
                                                          copy->bytes, 0, &where) != SIM_REACH_OK)
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_SUCCESS;
    if (copy->is_to_device || managed(copy->to))
        result = sim_check_call(stream->context, copy->to, copy->bytes);
    if (result == CUDA_SUCCESS && (copy->is_from_device || managed(copy->from)))
        result = sim_check_call(stream->context, copy->from, copy->bytes);
    return result;
}

/* Synchronous calls cannot be captured, and trying to breaks the capture. */
static CUresult capture_check(struct sim_stream *stream, int synchronous)
{
    if (sim.captures == NULL)
        return CUDA_SUCCESS;
    return synchronous ? sim_capture_check_outside(stream) : sim_capture_check(stream);
}

/* A captured copy keeps the addresses of both its ends, pageable ones too: such memory is read and
 * written when the graph runs. */
static CUresult copy_submit(struct sim_stream *stream, const struct copy *copy)
{
    struct sim_op op = {.kind = SIM_OP_COPY};
    op.copy.to = copy->to;
    op.copy.from = copy->from;
    op.copy.bytes = copy->bytes;
    op.is_any_device = copy->to_context != NULL;
    int to_pageable = !managed(copy->to);
    if (!to_pageable)
        sim_op_touch(&op, copy->to, copy->bytes, 1);
    if (managed(copy->from)) {
        sim_op_touch(&op, copy->from, copy->bytes, 0);
    } else if (!to_pageable && stream->capture == NULL) {
        op.copy.staged = malloc(copy->bytes);
        if (op.copy.staged == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(op.copy.staged, (const void *)copy->from, copy->bytes);
    }
    int staged = op.copy.staged != NULL;
    int host_waits = stream->capture == NULL &&
                     (to_pageable || (copy->is_synchronous && !staged &&
                                      !(sim_is_device(copy->to) && sim_is_device(copy->from))));
    sim_stream_hold(stream);
    CUresult result = sim_submit(stream, &op);
    if (result == CUDA_SUCCESS && host_waits)
        result = sim_wait((struct sim_point){stream, stream->last_ticket, NULL}, "a copy");
    sim_stream_drop(stream);
    return result;
}

static CUresult copy_start(CUstream handle, const struct copy *copy)
{
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_get(handle, &result);
    if (stream == NULL || copy->bytes == 0)
        return result;
    result = capture_check(stream, copy->is_synchronous);
    if (result == CUDA_SUCCESS)
        result = copy_check(stream, copy);
    if (result != CUDA_SUCCESS)
        return result;
    if (copy->is_synchronous && !managed(copy->from)) {
        /* The driver finishes the stream before it takes bytes from pageable memory. */
        result = sim_wait((struct sim_point){stream, stream->last_ticket, NULL}, "a copy");
        if (result != CUDA_SUCCESS)
            return result;
    }
    return copy_submit(stream, copy);
}

/* The synchronous copies, on the legacy stream or the thread's own. */
CUresult sim_copy_sync(enum sim_entry entry, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                       CUstream stream)
{
    CUresult refused = sim_enter(entry, SIM_NEEDS_CLEAN);
    if (refused != CUDA_SUCCESS)
        return refused;
    struct copy copy = {.to = to, .from = from, .bytes = bytes, .is_synchronous = 1};
    copy.is_to_device = entry == SIM_cuMemcpyHtoD_v2 || entry == SIM_cuMemcpyDtoD_v2;
    copy.is_from_device = entry == SIM_cuMemcpyDtoH_v2 || entry == SIM_cuMemcpyDtoD_v2;
    return sim_leave(copy_start(stream, &copy));
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    return sim_copy_sync(SIM_cuMemcpy, dst, src, ByteCount, CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    return sim_copy_sync(SIM_cuMemcpyHtoD_v2, dstDevice, (uintptr_t)srcHost, ByteCount,
                         CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    return sim_copy_sync(SIM_cuMemcpyDtoH_v2, (uintptr_t)dstHost, srcDevice, ByteCount,
                         CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
    return sim_copy_sync(SIM_cuMemcpyDtoD_v2, dstDevice, srcDevice, ByteCount, CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyAsync, SIM_NEEDS_CLEAN);
    struct copy copy = {.to = dst, .from = src, .bytes = ByteCount};
    return sim_leave(copy_start(hStream, &copy));
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                                      CUstream hStream)
{
    SIM_ENTER(cuMemcpyHtoDAsync_v2, SIM_NEEDS_CLEAN);
    struct copy copy = {.to = dstDevice, .from = (uintptr_t)srcHost, .bytes = ByteCount};
    copy.is_to_device = 1;
    return sim_leave(copy_start(hStream, &copy));
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                      CUstream hStream)
{
    SIM_ENTER(cuMemcpyDtoHAsync_v2, SIM_NEEDS_CLEAN);
    struct copy copy = {.to = (uintptr_t)dstHost, .from = srcDevice, .bytes = ByteCount};
    copy.is_from_device = 1;
    return sim_leave(copy_start(hStream, &copy));
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                      size_t ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyDtoDAsync_v2, SIM_NEEDS_CLEAN);
    struct copy copy = {.to = dstDevice, .from = srcDevice, .bytes = ByteCount};
    copy.is_to_device = 1;
    copy.is_from_device = 1;
    return sim_leave(copy_start(hStream, &copy));
}

/* The driver's own copy between devices needs no access of either to the other's memory. */
static CUresult copy_peer(const struct copy *copy, CUcontext to, CUcontext from, CUstream stream)
{
    const struct sim_context *to_context = sim_context_get(to);
    const struct sim_context *from_context = sim_context_get(from);
    if (to_context == NULL || from_context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *queue = sim_stream_get(stream, &result);
    if (queue == NULL || copy->bytes == 0)
        return result;
    CUdeviceptr where = 0;
    if (sim_reach(to_context, copy->to, copy->bytes, 1, &where) != SIM_REACH_OK ||
        sim_reach(from_context, copy->from, copy->bytes, 0, &where) != SIM_REACH_OK)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = SIM_OP_COPY};
    op.copy.to = copy->to;
    op.copy.from = copy->from;
    op.copy.bytes = copy->bytes;
    op.is_any_device = 1;
    sim_op_touch(&op, copy->to, copy->bytes, 1);
    sim_op_touch(&op, copy->from, copy->bytes, 0);
    return sim_submit(queue, &op);
}

/* Ordered with all work of both devices, before and after: the host waits for both. */
CUresult sim_copy_peer_sync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                            CUcontext from_context, size_t bytes, CUstream stream)
{
    CUresult result = sim_enter(SIM_cuMemcpyPeer, SIM_NEEDS_CLEAN);
    if (result != CUDA_SUCCESS)
        return result;
    struct copy copy = {.to = to, .from = from, .bytes = bytes};
    const struct sim_context *contexts[] = {sim_context_get(to_context),
                                            sim_context_get(from_context)};
    for (int i = 0; i < 2 && result == CUDA_SUCCESS; i++)
        result = contexts[i] == NULL ? CUDA_ERROR_INVALID_CONTEXT
                                     : sim_wait_device(contexts[i]->device, "cuMemcpyPeer");
    if (result == CUDA_SUCCESS)
        result = copy_peer(&copy, to_context, from_context, stream);
    if (result == CUDA_SUCCESS)
        result = sim_wait_context(sim_current(), "cuMemcpyPeer");
    return sim_leave(result);
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                              CUcontext srcContext, size_t ByteCount)
{
    return sim_copy_peer_sync(dstDevice, dstContext, srcDevice, srcContext, ByteCount,
                              CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
                                   CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount,
                                   CUstream hStream)
{
    SIM_ENTER(cuMemcpyPeerAsync, SIM_NEEDS_CLEAN);
    struct copy copy = {.to = dstDevice, .from = srcDevice, .bytes = ByteCount};
    return sim_leave(copy_peer(&copy, dstContext, srcContext, hStream));
}

/* One row between contexts, from or to the host or from device to device; rows are not there, as in
 * cuMemcpy2D, nor are arrays. */
static CUresult row_read(struct copy *copy, const CUDA_MEMCPY3D_PEER *asked)
{
    if (asked == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUmemorytype types[] = {asked->dstMemoryType, asked->srcMemoryType};
    for (int i = 0; i < 2; i++)
        if (types[i] != CU_MEMORYTYPE_HOST && types[i] != CU_MEMORYTYPE_DEVICE)
            return CUDA_ERROR_NOT_SUPPORTED;
    if (asked->Height > 1 || asked->Depth > 1 || asked->dstXInBytes + asked->srcXInBytes > 0 ||
        asked->dstY + asked->srcY > 0 || asked->dstZ + asked->srcZ > 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    copy->is_to_device = types[0] == CU_MEMORYTYPE_DEVICE;
    copy->is_from_device = types[1] == CU_MEMORYTYPE_DEVICE;
    copy->to = copy->is_to_device ? asked->dstDevice : (uintptr_t)asked->dstHost;
    copy->from = copy->is_from_device ? asked->srcDevice : (uintptr_t)asked->srcHost;
    copy->bytes = asked->WidthInBytes * asked->Height * asked->Depth;
    copy->to_context = sim_context_get(asked->dstContext);
    copy->from_context = sim_context_get(asked->srcContext);
    return copy->to_context == NULL || copy->from_context == NULL ? CUDA_ERROR_INVALID_CONTEXT
                                                                  : CUDA_SUCCESS;
}

CUresult sim_copy_row(enum sim_entry entry, const CUDA_MEMCPY3D_PEER *asked, CUstream stream)
{
    CUresult result = sim_enter(entry, SIM_NEEDS_CLEAN);
    if (result != CUDA_SUCCESS)
        return result;
    struct copy copy = {.is_synchronous = entry == SIM_cuMemcpy3DPeer};
    result = row_read(&copy, asked);
    return sim_leave(result == CUDA_SUCCESS ? copy_start(stream, &copy) : result);
}

CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
    return sim_copy_row(SIM_cuMemcpy3DPeer, pCopy, CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
    return sim_copy_row(SIM_cuMemcpy3DPeerAsync, pCopy, hStream);
}

/* ---- rectangles and boxes -------------------------------------------------------------------- */

/* One side of a box: rows of `width` bytes, one pitch apart, in slices of `height` rows. */
struct side {
    uintptr_t base; /* of the first byte that is copied */
    uint64_t pitch, height;
    int is_device; /* the call says that it is a device address */
};

/* Rows must not overlap each other, nor slices. Arrays are not there. */
static CUresult side_read(struct side *side, CUmemorytype type, const void *host,
                          CUdeviceptr device, const size_t at[3], const CUDA_MEMCPY3D *asked)
{
    if (type == CU_MEMORYTYPE_ARRAY)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    if ((asked->Height > 1 || asked->Depth > 1) && side->pitch < at[0] + asked->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (asked->Depth > 1 && side->height < at[1] + asked->Height)
        return CUDA_ERROR_INVALID_VALUE;
    side->base = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
    if (side->base == 0)
        return CUDA_ERROR_INVALID_VALUE;
    side->base += at[0] + side->pitch * (at[1] + side->height * at[2]);
    side->is_device =
        type == CU_MEMORYTYPE_DEVICE || (type == CU_MEMORYTYPE_UNIFIED && managed(side->base));
    return CUDA_SUCCESS;
}

static CUresult sides_read(struct side *to, struct side *from, const CUDA_MEMCPY3D *asked)
{
    const size_t to_at[] = {asked->dstXInBytes, asked->dstY, asked->dstZ};
    const size_t from_at[] = {asked->srcXInBytes, asked->srcY, asked->srcZ};
    *to = (struct side){.pitch = asked->dstPitch, .height = asked->dstHeight};
    *from = (struct side){.pitch = asked->srcPitch, .height = asked->srcHeight};
    CUresult result =
        side_read(to, asked->dstMemoryType, asked->dstHost, asked->dstDevice, to_at, asked);
    return result != CUDA_SUCCESS ? result
                                  : side_read(from, asked->srcMemoryType, asked->srcHost,
                                              asked->srcDevice, from_at, asked);
}

/* Each row is an operation of its own, so that what lies between them is not touched. All are
 * looked at before the first is queued. */
static CUresult rows_start(CUstream handle, const CUDA_MEMCPY3D *asked, int is_synchronous)
{
    struct side to, from;
    CUresult result = CUDA_SUCCESS;
    const struct sim_stream *stream = sim_stream_get(handle, &result);
    uint64_t rows = asked->Height * asked->Depth;
    if (stream == NULL || rows == 0 || asked->WidthInBytes == 0)
        return result;
    result = sides_read(&to, &from, asked);
    /* One node of a graph; the simulation has none of several rows. */
    if (result == CUDA_SUCCESS && rows > 1 && stream->capture != NULL) {
        stream->capture->is_invalid = 1;
        result = CUDA_ERROR_NOT_SUPPORTED;
    }
    for (int turn = 0; turn < 2; turn++)
        for (uint64_t i = 0; i < rows && result == CUDA_SUCCESS; i++) {
            uint64_t slice = i / asked->Height, row = i % asked->Height;
            const struct copy copy = {.to = to.base + to.pitch * (row + to.height * slice),
                                      .from = from.base + from.pitch * (row + from.height * slice),
                                      .bytes = asked->WidthInBytes,
                                      .is_to_device = to.is_device,
                                      .is_from_device = from.is_device,
                                      .is_synchronous = is_synchronous};
            result = turn == 0 ? copy_check(stream, &copy) : copy_start(handle, &copy);
        }
    return result;
}

CUresult sim_copy_box(enum sim_entry entry, const CUDA_MEMCPY3D *asked, CUstream stream)
{
    CUresult result = sim_enter(entry, SIM_NEEDS_CLEAN);
    if (result != CUDA_SUCCESS)
        return result;
    if (asked == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(rows_start(stream, asked, entry != SIM_cuMemcpy3DAsync_v2));
}

CUresult sim_copy_rectangle(enum sim_entry entry, const CUDA_MEMCPY2D *asked, CUstream stream)
{
    CUresult result = sim_enter(entry, SIM_NEEDS_CLEAN);
    if (result != CUDA_SUCCESS)
        return result;
    if (asked == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const CUDA_MEMCPY3D box = {.srcXInBytes = asked->srcXInBytes,
                               .srcY = asked->srcY,
                               .srcMemoryType = asked->srcMemoryType,
                               .srcHost = asked->srcHost,
                               .srcDevice = asked->srcDevice,
                               .srcPitch = asked->srcPitch,
                               .dstXInBytes = asked->dstXInBytes,
                               .dstY = asked->dstY,
                               .dstMemoryType = asked->dstMemoryType,
                               .dstHost = asked->dstHost,
                               .dstDevice = asked->dstDevice,
                               .dstPitch = asked->dstPitch,
                               .WidthInBytes = asked->WidthInBytes,
                               .Height = asked->Height,
                               .Depth = 1};
    return sim_leave(rows_start(stream, &box, entry != SIM_cuMemcpy2DAsync_v2));
}

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    return sim_copy_rectangle(SIM_cuMemcpy2D_v2, pCopy, CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    return sim_copy_rectangle(SIM_cuMemcpy2DUnaligned_v2, pCopy, CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    return sim_copy_rectangle(SIM_cuMemcpy2DAsync_v2, pCopy, hStream);
}

CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    return sim_copy_box(SIM_cuMemcpy3D_v2, pCopy, CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    return sim_copy_box(SIM_cuMemcpy3DAsync_v2, pCopy, hStream);
}

/* ---- memsets -------------------------------------------------------------------------------- */

static CUresult set_check(struct sim_stream *stream, const struct sim_fill *fill)
{
    uint64_t bytes = fill->count * fill->width;
    CUresult result = capture_check(stream, fill->is_synchronous);
    if (result != CUDA_SUCCESS)
        return result;
    if (fill->to % fill->width != 0 || bytes / fill->width != fill->count)
        return CUDA_ERROR_INVALID_VALUE;
    /* What a captured memset will find is only known when it runs. */
    return stream->capture != NULL ? CUDA_SUCCESS
                                   : sim_check_call(stream->context, fill->to, bytes);
}

/* Both forms: neither makes the host wait, except for pinned memory in the synchronous one. */
CUresult sim_set(enum sim_entry entry, const struct sim_fill *fill, CUstream handle)
{
    CUresult result = sim_enter(entry, SIM_NEEDS_CLEAN);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_stream *stream = sim_stream_get(handle, &result);
    if (stream == NULL || fill->count == 0)
        return sim_leave(result);
    result = set_check(stream, fill);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    uint64_t bytes = fill->count * fill->width;
    struct sim_op op = {.kind = SIM_OP_SET};
    op.set.pattern = fill->pattern;
    op.set.width = fill->width;
    sim_op_touch(&op, fill->to, bytes, 1);
    int host_waits = fill->is_synchronous && !sim_is_device(fill->to);
    sim_stream_hold(stream);
    result = sim_submit(stream, &op);
    if (result == CUDA_SUCCESS && host_waits)
        result = sim_wait((struct sim_point){stream, stream->last_ticket, NULL}, "a memset");
    sim_stream_drop(stream);
    return sim_leave(result);
}

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
    return sim_set(SIM_cuMemsetD8_v2, &(struct sim_fill){dstDevice, N, uc, 1, 1}, CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
    return sim_set(SIM_cuMemsetD16_v2, &(struct sim_fill){dstDevice, N, us, 2, 1},
                   CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
    return sim_set(SIM_cuMemsetD32_v2, &(struct sim_fill){dstDevice, N, ui, 4, 1},
                   CU_STREAM_LEGACY);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N,
                                 CUstream hStream)
{
    return sim_set(SIM_cuMemsetD8Async, &(struct sim_fill){dstDevice, N, uc, 1, 0}, hStream);
}

CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N,
                                  CUstream hStream)
{
    return sim_set(SIM_cuMemsetD16Async, &(struct sim_fill){dstDevice, N, us, 2, 0}, hStream);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N,
                                  CUstream hStream)
{
    return sim_set(SIM_cuMemsetD32Async, &(struct sim_fill){dstDevice, N, ui, 4, 0}, hStream);
}

/* ---- values --------------------------------------------------------------------------------- */

static CUresult value_submit(CUstream handle, enum sim_op_kind kind, CUdeviceptr address,
                             uint64_t value, unsigned flags, int wide)
{
    const unsigned known = kind == SIM_OP_WAIT_VALUE
                               ? 3u | (unsigned)CU_STREAM_WAIT_VALUE_FLUSH
                               : (unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
    uint64_t bytes = wide ? 8 : 4;
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_get(handle, &result);
    if (stream == NULL)
        return result;
    if ((flags & ~known) != 0 || address % bytes != 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_check_call(stream->context, address, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_op op = {.kind = kind};
    op.value.value = value;
    op.value.flags = flags;
    op.value.is_wide = wide;
    sim_op_touch(&op, address, bytes, kind == SIM_OP_WRITE_VALUE);
    return sim_submit(stream, &op);
}

CUresult CUDAAPI cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                        unsigned int flags)
{
    SIM_ENTER(cuStreamWaitValue32_v2, SIM_NEEDS_CLEAN);
    return sim_leave(value_submit(stream, SIM_OP_WAIT_VALUE, addr, value, flags, 0));
}

CUresult CUDAAPI cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                        unsigned int flags)
{
    SIM_ENTER(cuStreamWaitValue64_v2, SIM_NEEDS_CLEAN);
    return sim_leave(value_submit(stream, SIM_OP_WAIT_VALUE, addr, value, flags, 1));
}

CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                         unsigned int flags)
{
    SIM_ENTER(cuStreamWriteValue32_v2, SIM_NEEDS_CLEAN);
    return sim_leave(value_submit(stream, SIM_OP_WRITE_VALUE, addr, value, flags, 0));
}

CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                         unsigned int flags)
{
    SIM_ENTER(cuStreamWriteValue64_v2, SIM_NEEDS_CLEAN);
    return sim_leave(value_submit(stream, SIM_OP_WRITE_VALUE, addr, value, flags, 1));
}
