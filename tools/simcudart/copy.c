/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and sets of memory. Rows and boxes are the driver's copies of rows, also in arrays, which
 * are memory of the device here.
 */
#include "array.h"

#include <string.h>

static CUdeviceptr device_address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

CUresult rt_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                 cudaStream_t stream, int is_async)
{
    CUdeviceptr target = device_address(to), source = device_address(from);
    if (bytes == 0)
        return CUDA_SUCCESS;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return is_async ? rt.cuMemcpyHtoDAsync(target, from, bytes, stream)
                        : rt.cuMemcpyHtoD(target, from, bytes);
    case cudaMemcpyDeviceToHost:
        return is_async ? rt.cuMemcpyDtoHAsync(to, source, bytes, stream)
                        : rt.cuMemcpyDtoH(to, source, bytes);
    case cudaMemcpyDeviceToDevice:
        return is_async ? rt.cuMemcpyDtoDAsync(target, source, bytes, stream)
                        : rt.cuMemcpyDtoD(target, source, bytes);
    default:
        return is_async ? rt.cuMemcpyAsync(target, source, bytes, stream)
                        : rt.cuMemcpy(target, source, bytes);
    }
}

static int kind_is_valid(enum cudaMemcpyKind kind)
{
    return (int)kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    RT_BEGIN();
    if (!kind_is_valid(kind))
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    return rt_end(rt_copy(dst, src, count, kind, NULL, 0));
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    RT_BEGIN();
    if (!kind_is_valid(kind))
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    return rt_end(rt_copy(dst, src, count, kind, stream, 1));
}

static cudaError_t copy_peer(void *to, int to_device, const void *from, int from_device,
                             size_t bytes, cudaStream_t stream, int is_async)
{
    CUcontext to_context = NULL, from_context = NULL;
    RT_BEGIN();
    CUresult result = rt_primary(to_device, &to_context);
    if (result == CUDA_SUCCESS)
        result = rt_primary(from_device, &from_context);
    if (result != CUDA_SUCCESS || bytes == 0)
        return rt_end(result);
    return rt_end(is_async ? rt.cuMemcpyPeerAsync(device_address(to), to_context,
                                                  device_address(from), from_context, bytes, stream)
                           : rt.cuMemcpyPeer(device_address(to), to_context, device_address(from),
                                             from_context, bytes));
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
    return copy_peer(dst, dstDevice, src, srcDevice, count, NULL, 0);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                size_t count, cudaStream_t stream)
{
    return copy_peer(dst, dstDevice, src, srcDevice, count, stream, 1);
}

/* Each copy by itself: that is one of the orders that a batch may have. */
cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes,
                                 size_t count, struct cudaMemcpyAttributes *attrs,
                                 size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream)
{
    RT_BEGIN();
    if (dsts == NULL || srcs == NULL || sizes == NULL || count == 0 || attrs == NULL ||
        attrsIdxs == NULL || numAttrs == 0 || numAttrs > count || stream == NULL)
        return rt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; i++) {
        CUresult result = rt_copy(dsts[i], srcs[i], sizes[i], cudaMemcpyDefault, stream, 1);
        if (result != CUDA_SUCCESS)
            return rt_end(result);
    }
    return cudaSuccess;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static CUmemorytype memory_type(enum cudaMemcpyKind kind, int is_source)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        return CU_MEMORYTYPE_HOST;
    case cudaMemcpyHostToDevice:
        return is_source ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    case cudaMemcpyDeviceToHost:
        return is_source ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    case cudaMemcpyDeviceToDevice:
        return CU_MEMORYTYPE_DEVICE;
    default:
        return CU_MEMORYTYPE_UNIFIED;
    }
}

static cudaError_t copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t height, enum cudaMemcpyKind kind,
                             cudaStream_t stream, int is_async)
{
    RT_BEGIN();
    if (!kind_is_valid(kind))
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    if (width == 0 || height == 0)
        return cudaSuccess;
    if (to_pitch < width || from_pitch < width)
        return rt_fail(cudaErrorInvalidPitchValue);
    const CUDA_MEMCPY2D copy = {.srcMemoryType = memory_type(kind, 1),
                                .srcHost = from,
                                .srcDevice = device_address(from),
                                .srcPitch = from_pitch,
                                .dstMemoryType = memory_type(kind, 0),
                                .dstHost = to,
                                .dstDevice = device_address(to),
                                .dstPitch = to_pitch,
                                .WidthInBytes = width,
                                .Height = height};
    return rt_end(is_async ? rt.cuMemcpy2DAsync(&copy, stream) : rt.cuMemcpy2DUnaligned(&copy));
}

cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind)
{
    return copy_rows(dst, dpitch, src, spitch, width, height, kind, NULL, 0);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    return copy_rows(dst, dpitch, src, spitch, width, height, kind, stream, 1);
}

/* ---- boxes ---------------------------------------------------------------------------------- */

/* One end of a box: memory, or an array, whose unit is its elements. */
typedef struct box_end {
    struct cudaPitchedPtr memory;
    struct cudaPos at; /* x in bytes */
    size_t element_bytes;
    int is_array;
} box_end;

static cudaError_t end_make(cudaArray_t array, struct cudaPitchedPtr memory, struct cudaPos at,
                            const struct cudaExtent *extent, box_end *end)
{
    *end = (box_end){memory, at, 1, array != NULL};
    if (array == NULL)
        return cudaSuccess;
    const rt_array *one = rt_array_get(array);
    if (one == NULL || memory.ptr != NULL)
        return one == NULL ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    size_t width = one->extent.width;
    if (at.x > width || extent->width > width - at.x || at.y > one->rows ||
        extent->height > one->rows - at.y || at.z > one->layers ||
        extent->depth > one->layers - at.z)
        return cudaErrorInvalidValue;
    end->memory = (struct cudaPitchedPtr){.ptr = (void *)(uintptr_t)one->memory,
                                          .pitch = one->pitch,
                                          .xsize = one->row_bytes,
                                          .ysize = one->rows};
    end->element_bytes = one->element_bytes;
    end->at.x *= one->element_bytes;
    return cudaSuccess;
}

/* Arrays are memory of the device, whatever the direction says of the other end. */
static CUmemorytype end_type(const box_end *end, enum cudaMemcpyKind kind, int is_source)
{
    return end->is_array ? CU_MEMORYTYPE_DEVICE : memory_type(kind, is_source);
}

cudaError_t rt_box_make(const struct cudaMemcpy3DParms *asked, CUDA_MEMCPY3D *box)
{
    box_end from, to;
    if (asked == NULL)
        return rt_fail(cudaErrorInvalidValue);
    if (!kind_is_valid(asked->kind))
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    cudaError_t error =
        end_make(asked->srcArray, asked->srcPtr, asked->srcPos, &asked->extent, &from);
    if (error == cudaSuccess)
        error = end_make(asked->dstArray, asked->dstPtr, asked->dstPos, &asked->extent, &to);
    if (error == cudaSuccess && from.is_array && to.is_array &&
        from.element_bytes != to.element_bytes)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_fail(error);
    size_t unit = from.is_array ? from.element_bytes : to.element_bytes;
    *box = (CUDA_MEMCPY3D){.srcXInBytes = from.at.x,
                           .srcY = from.at.y,
                           .srcZ = from.at.z,
                           .srcMemoryType = end_type(&from, asked->kind, 1),
                           .srcHost = from.memory.ptr,
                           .srcDevice = device_address(from.memory.ptr),
                           .srcPitch = from.memory.pitch,
                           .srcHeight = from.memory.ysize,
                           .dstXInBytes = to.at.x,
                           .dstY = to.at.y,
                           .dstZ = to.at.z,
                           .dstMemoryType = end_type(&to, asked->kind, 0),
                           .dstHost = to.memory.ptr,
                           .dstDevice = device_address(to.memory.ptr),
                           .dstPitch = to.memory.pitch,
                           .dstHeight = to.memory.ysize,
                           .WidthInBytes = asked->extent.width * unit,
                           .Height = asked->extent.height,
                           .Depth = asked->extent.depth};
    return cudaSuccess;
}

static cudaError_t copy_box(const struct cudaMemcpy3DParms *asked, cudaStream_t stream,
                            int is_async)
{
    CUDA_MEMCPY3D box;
    RT_BEGIN();
    cudaError_t error = rt_box_make(asked, &box);
    if (error != cudaSuccess || box.WidthInBytes == 0 || box.Height == 0 || box.Depth == 0)
        return error;
    return rt_end(is_async ? rt.cuMemcpy3DAsync(&box, stream) : rt.cuMemcpy3D(&box));
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    return copy_box(p, NULL, 0);
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    return copy_box(p, stream, 1);
}

static cudaError_t copy_box_peer(const struct cudaMemcpy3DPeerParms *asked, cudaStream_t stream,
                                 int is_async)
{
    RT_BEGIN();
    if (asked == NULL)
        return rt_fail(cudaErrorInvalidValue);
    if (asked->srcArray != NULL || asked->dstArray != NULL)
        return rt_unserved("arrays in copies between devices");
    CUDA_MEMCPY3D_PEER box = {.srcXInBytes = asked->srcPos.x,
                              .srcY = asked->srcPos.y,
                              .srcZ = asked->srcPos.z,
                              .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = device_address(asked->srcPtr.ptr),
                              .srcPitch = asked->srcPtr.pitch,
                              .srcHeight = asked->srcPtr.ysize,
                              .dstXInBytes = asked->dstPos.x,
                              .dstY = asked->dstPos.y,
                              .dstZ = asked->dstPos.z,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = device_address(asked->dstPtr.ptr),
                              .dstPitch = asked->dstPtr.pitch,
                              .dstHeight = asked->dstPtr.ysize,
                              .WidthInBytes = asked->extent.width,
                              .Height = asked->extent.height,
                              .Depth = asked->extent.depth};
    CUresult result = rt_primary(asked->srcDevice, &box.srcContext);
    if (result == CUDA_SUCCESS)
        result = rt_primary(asked->dstDevice, &box.dstContext);
    if (result != CUDA_SUCCESS)
        return rt_end(result);
    return rt_end(is_async ? rt.cuMemcpy3DPeerAsync(&box, stream) : rt.cuMemcpy3DPeer(&box));
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    return copy_box_peer(p, NULL, 0);
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    return copy_box_peer(p, stream, 1);
}

/* ---- symbols -------------------------------------------------------------------------------- */

/* `from` or `to` is the symbol's memory, and the other null here. */
static cudaError_t copy_symbol(const void *symbol, size_t offset, void *to, const void *from,
                               size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
                               int is_async)
{
    CUdeviceptr address = 0;
    size_t room = 0;
    int is_to = to == NULL;
    RT_BEGIN();
    if (!kind_is_valid(kind) || kind == cudaMemcpyHostToHost ||
        kind == (is_to ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice))
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    cudaError_t error = rt_variable(symbol, &address, &room);
    if (error != cudaSuccess)
        return error;
    if (offset > room || bytes > room - offset)
        return rt_fail(cudaErrorInvalidValue);
    void *memory = (void *)(uintptr_t)(address + offset);
    return rt_end(is_to ? rt_copy(memory, from, bytes, kind, stream, is_async)
                        : rt_copy(to, memory, bytes, kind, stream, is_async));
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                               enum cudaMemcpyKind kind)
{
    return copy_symbol(symbol, offset, NULL, src, count, kind, NULL, 0);
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
                                 enum cudaMemcpyKind kind)
{
    return copy_symbol(symbol, offset, dst, NULL, count, kind, NULL, 0);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
                                    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_symbol(symbol, offset, NULL, src, count, kind, stream, 1);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_symbol(symbol, offset, dst, NULL, count, kind, stream, 1);
}

/* ---- sets ----------------------------------------------------------------------------------- */

static CUresult set(CUdeviceptr to, int value, size_t bytes, cudaStream_t stream, int is_async)
{
    if (bytes == 0)
        return CUDA_SUCCESS;
    return is_async ? rt.cuMemsetD8Async(to, (unsigned char)value, bytes, stream)
                    : rt.cuMemsetD8(to, (unsigned char)value, bytes);
}

/* Row by row, or as one where they touch. */
static cudaError_t set_rows(struct cudaPitchedPtr to, int value, struct cudaExtent extent,
                            cudaStream_t stream, int is_async)
{
    CUdeviceptr base = device_address(to.ptr);
    RT_BEGIN();
    size_t rows = extent.height * extent.depth, width = extent.width;
    if (extent.depth > 1 && to.ysize < extent.height)
        return rt_fail(cudaErrorInvalidValue);
    if (rows > 1 && to.pitch < width)
        return rt_fail(cudaErrorInvalidPitchValue);
    if (rows == 0 || (to.pitch == width && (extent.depth == 1 || to.ysize == extent.height)))
        return rt_end(set(base, value, width * rows, stream, is_async));
    for (size_t z = 0; z < extent.depth; z++)
        for (size_t y = 0; y < extent.height; y++) {
            CUdeviceptr row = base + (z * to.ysize + y) * to.pitch;
            CUresult result = set(row, value, width, stream, is_async);
            if (result != CUDA_SUCCESS)
                return rt_end(result);
        }
    return cudaSuccess;
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
    RT_BEGIN();
    return rt_end(set(device_address(devPtr), value, count, NULL, 0));
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
    RT_BEGIN();
    return rt_end(set(device_address(devPtr), value, count, stream, 1));
}

cudaError_t cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height)
{
    return set_rows((struct cudaPitchedPtr){devPtr, pitch, width, height}, value,
                    (struct cudaExtent){width, height, 1}, NULL, 0);
}

cudaError_t cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    return set_rows((struct cudaPitchedPtr){devPtr, pitch, width, height}, value,
                    (struct cudaExtent){width, height, 1}, stream, 1);
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent)
{
    return set_rows(pitchedDevPtr, value, extent, NULL, 0);
}

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value,
                              struct cudaExtent extent, cudaStream_t stream)
{
    return set_rows(pitchedDevPtr, value, extent, stream, 1);
}
