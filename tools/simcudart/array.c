/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA arrays, and the copies that begin or end in one. An array is a block of the device's, row by
 * row, so what a program copies is there again, and each copy is a use of that block. How a GPU
 * lays an array out is its own matter, and no kernel reads one here.
 */
#include "array.h"

#include <pthread.h>
#include <stdlib.h>

enum { PITCH = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rt_array *arrays; /* under the lock */

const rt_array *rt_array_get(cudaArray_const_t handle)
{
    pthread_mutex_lock(&lock);
    const rt_array *one = arrays;
    while (one != NULL && (cudaArray_const_t)(const void *)one != handle)
        one = one->next;
    pthread_mutex_unlock(&lock);
    return one;
}

/* ---- making --------------------------------------------------------------------------------- */

/* 0: there is no such element. One, two or four channels of 8, 16 or 32 bits, all alike. */
static size_t element_bytes(const struct cudaChannelFormatDesc *format)
{
    const int bits[] = {format->x, format->y, format->z, format->w};
    size_t count = 0;
    while (count < 4 && bits[count] != 0)
        count++;
    for (size_t i = 0; i < 4; i++)
        if (bits[i] != (i < count ? bits[0] : 0))
            return 0;
    int is_known = (bits[0] == 8 || bits[0] == 16 || bits[0] == 32) && count != 0 && count != 3;
    return is_known ? count * (size_t)bits[0] / 8 : 0;
}

static int kind_is_plain(enum cudaChannelFormatKind kind)
{
    return kind == cudaChannelFormatKindSigned || kind == cudaChannelFormatKindUnsigned ||
           kind == cudaChannelFormatKindFloat;
}

static size_t at_least_one(size_t count)
{
    return count == 0 ? 1 : count;
}

/* Its sizes; an error where there can be no such array. */
static cudaError_t array_shape(rt_array *made)
{
    const unsigned known = cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayCubemap |
                           cudaArrayTextureGather | cudaArrayColorAttachment;
    size_t bytes = 0;
    if ((made->flags & ~known) != 0 || !kind_is_plain(made->format.f))
        return rt_unserved("sparse arrays, and those of packed formats");
    made->element_bytes = element_bytes(&made->format);
    if (made->element_bytes == 0)
        return rt_fail(cudaErrorInvalidChannelDescriptor);
    made->rows = at_least_one(made->extent.height);
    made->layers = at_least_one(made->extent.depth);
    if (made->extent.width == 0 ||
        __builtin_mul_overflow(made->extent.width, made->element_bytes, &made->row_bytes) ||
        made->row_bytes > SIZE_MAX - PITCH)
        return rt_fail(cudaErrorInvalidValue);
    made->pitch = (made->row_bytes + PITCH - 1) / PITCH * PITCH;
    if (__builtin_mul_overflow(made->pitch, made->rows, &bytes) ||
        __builtin_mul_overflow(bytes, made->layers, &bytes))
        return rt_fail(cudaErrorInvalidValue);
    return cudaSuccess;
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                              struct cudaExtent extent, unsigned int flags)
{
    RT_BEGIN();
    if (array == NULL || desc == NULL)
        return rt_fail(cudaErrorInvalidValue);
    rt_array shape = {.format = *desc, .extent = extent, .flags = flags};
    cudaError_t error = array_shape(&shape);
    if (error != cudaSuccess)
        return error;
    rt_array *made = malloc(sizeof(*made));
    if (made == NULL)
        return rt_fail(cudaErrorMemoryAllocation);
    CUresult result = rt.cuMemAlloc(&shape.memory, shape.pitch * shape.rows * shape.layers);
    if (result != CUDA_SUCCESS) {
        free(made);
        return rt_end(result);
    }
    pthread_mutex_lock(&lock);
    shape.next = arrays;
    *made = shape;
    arrays = made;
    pthread_mutex_unlock(&lock);
    *array = (cudaArray_t)(void *)made;
    return cudaSuccess;
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                            size_t width, size_t height, unsigned int flags)
{
    return cudaMalloc3DArray(array, desc, (struct cudaExtent){width, height, 0}, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
    RT_BEGIN();
    pthread_mutex_lock(&lock);
    rt_array **at = &arrays;
    while (*at != NULL && (cudaArray_t)(void *)*at != array)
        at = &(*at)->next;
    rt_array *gone = *at;
    if (gone != NULL)
        *at = gone->next;
    pthread_mutex_unlock(&lock);
    if (gone == NULL)
        return rt_fail(array == NULL ? cudaSuccess : cudaErrorInvalidResourceHandle);
    rt_textures_forget(gone->memory, gone->pitch * gone->rows * gone->layers);
    CUresult result = rt.cuMemFree(gone->memory);
    free(gone);
    return rt_end(result);
}

/* Their memory went with the context. */
void rt_arrays_forget_all(void)
{
    pthread_mutex_lock(&lock);
    rt_array *gone = arrays;
    arrays = NULL;
    pthread_mutex_unlock(&lock);
    while (gone != NULL) {
        rt_array *next = gone->next;
        free(gone);
        gone = next;
    }
    rt_textures_forget(0, SIZE_MAX);
}

/* ---- asking --------------------------------------------------------------------------------- */

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
                             unsigned int *flags, cudaArray_t array)
{
    RT_BEGIN();
    const rt_array *one = rt_array_get(array);
    if (one == NULL)
        return rt_fail(cudaErrorInvalidResourceHandle);
    if (desc != NULL)
        *desc = one->format;
    if (extent != NULL)
        *extent = one->extent;
    if (flags != NULL)
        *flags = one->flags;
    return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
    RT_BEGIN();
    const rt_array *one = rt_array_get(array);
    if (one == NULL || desc == NULL)
        return rt_fail(one == NULL ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    *desc = one->format;
    return cudaSuccess;
}

/* ---- copies of rows ------------------------------------------------------------------------- */

/* Where such rows begin in the array; an error where they do not lie in it. */
static cudaError_t rows_find(cudaArray_const_t array, size_t x, size_t y, size_t width,
                             size_t height, const rt_array **one, void **begin)
{
    RT_BEGIN();
    *one = rt_array_get(array);
    if (*one == NULL)
        return rt_fail(cudaErrorInvalidResourceHandle);
    if (x > (*one)->row_bytes || width > (*one)->row_bytes - x || y > (*one)->rows ||
        height > (*one)->rows - y)
        return rt_fail(cudaErrorInvalidValue);
    *begin = (void *)(uintptr_t)((*one)->memory + y * (*one)->pitch + x);
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                                size_t spitch, size_t width, size_t height,
                                enum cudaMemcpyKind kind)
{
    const rt_array *one = NULL;
    void *to = NULL;
    cudaError_t error = rows_find(dst, wOffset, hOffset, width, height, &one, &to);
    return error != cudaSuccess ? error
                                : cudaMemcpy2D(to, one->pitch, src, spitch, width, height, kind);
}

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset,
                                     const void *src, size_t spitch, size_t width, size_t height,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const rt_array *one = NULL;
    void *to = NULL;
    cudaError_t error = rows_find(dst, wOffset, hOffset, width, height, &one, &to);
    return error != cudaSuccess
               ? error
               : cudaMemcpy2DAsync(to, one->pitch, src, spitch, width, height, kind, stream);
}

cudaError_t cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
                                  size_t hOffset, size_t width, size_t height,
                                  enum cudaMemcpyKind kind)
{
    const rt_array *one = NULL;
    void *from = NULL;
    cudaError_t error = rows_find(src, wOffset, hOffset, width, height, &one, &from);
    return error != cudaSuccess ? error
                                : cudaMemcpy2D(dst, dpitch, from, one->pitch, width, height, kind);
}

cudaError_t cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src,
                                       size_t wOffset, size_t hOffset, size_t width, size_t height,
                                       enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const rt_array *one = NULL;
    void *from = NULL;
    cudaError_t error = rows_find(src, wOffset, hOffset, width, height, &one, &from);
    return error != cudaSuccess
               ? error
               : cudaMemcpy2DAsync(dst, dpitch, from, one->pitch, width, height, kind, stream);
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                     cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
                                     size_t width, size_t height, enum cudaMemcpyKind kind)
{
    const rt_array *target = NULL, *source = NULL;
    void *to = NULL, *from = NULL;
    cudaError_t error = rows_find(dst, wOffsetDst, hOffsetDst, width, height, &target, &to);
    if (error == cudaSuccess)
        error = rows_find(src, wOffsetSrc, hOffsetSrc, width, height, &source, &from);
    return error != cudaSuccess
               ? error
               : cudaMemcpy2D(to, target->pitch, from, source->pitch, width, height, kind);
}

/* ---- copies of bytes, row after row --------------------------------------------------------- */

/* Exactly one of `to` and `from` is null: there is the array. */
static cudaError_t copy_flat(cudaArray_const_t array, size_t x, size_t y, void *to,
                             const void *from, size_t bytes, enum cudaMemcpyKind kind,
                             cudaStream_t stream, int is_async)
{
    RT_BEGIN();
    const rt_array *one = rt_array_get(array);
    if (one == NULL)
        return rt_fail(cudaErrorInvalidResourceHandle);
    size_t left = y > one->rows ? 0 : (one->rows - y) * one->row_bytes;
    if (x > one->row_bytes || x > left || y > one->rows || bytes > left - x)
        return rt_fail(cudaErrorInvalidValue);
    for (size_t done = 0; done < bytes; x = 0, y++) {
        size_t piece = one->row_bytes - x < bytes - done ? one->row_bytes - x : bytes - done;
        void *in = (void *)(uintptr_t)(one->memory + y * one->pitch + x);
        CUresult result =
            from != NULL ? rt_copy(in, (const char *)from + done, piece, kind, stream, is_async)
                         : rt_copy((char *)to + done, in, piece, kind, stream, is_async);
        if (result != CUDA_SUCCESS)
            return rt_end(result);
        done += piece;
    }
    return cudaSuccess;
}

cudaError_t cudaMemcpyToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                              size_t count, enum cudaMemcpyKind kind)
{
    return copy_flat(dst, wOffset, hOffset, NULL, src, count, kind, NULL, 0);
}

cudaError_t cudaMemcpyFromArray(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
                                size_t count, enum cudaMemcpyKind kind)
{
    return copy_flat(src, wOffset, hOffset, dst, NULL, count, kind, NULL, 0);
}

cudaError_t cudaMemcpyToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                                   size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_flat(dst, wOffset, hOffset, NULL, src, count, kind, stream, 1);
}

cudaError_t cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t wOffset,
                                     size_t hOffset, size_t count, enum cudaMemcpyKind kind,
                                     cudaStream_t stream)
{
    return copy_flat(src, wOffset, hOffset, dst, NULL, count, kind, stream, 1);
}

static cudaError_t waited(cudaError_t error)
{
    return error != cudaSuccess ? error : cudaStreamSynchronize(cudaStreamPerThread);
}

cudaError_t cudaMemcpyToArray_ptds(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                                   size_t count, enum cudaMemcpyKind kind)
{
    return waited(copy_flat(dst, wOffset, hOffset, NULL, src, count, kind, cudaStreamPerThread, 1));
}

cudaError_t cudaMemcpyFromArray_ptds(void *dst, cudaArray_const_t src, size_t wOffset,
                                     size_t hOffset, size_t count, enum cudaMemcpyKind kind)
{
    return waited(copy_flat(src, wOffset, hOffset, dst, NULL, count, kind, cudaStreamPerThread, 1));
}

cudaError_t cudaMemcpyToArrayAsync_ptsz(cudaArray_t dst, size_t wOffset, size_t hOffset,
                                        const void *src, size_t count, enum cudaMemcpyKind kind,
                                        cudaStream_t stream)
{
    return copy_flat(dst, wOffset, hOffset, NULL, src, count, kind, rt_own(stream), 1);
}

cudaError_t cudaMemcpyFromArrayAsync_ptsz(void *dst, cudaArray_const_t src, size_t wOffset,
                                          size_t hOffset, size_t count, enum cudaMemcpyKind kind,
                                          cudaStream_t stream)
{
    return copy_flat(src, wOffset, hOffset, dst, NULL, count, kind, rt_own(stream), 1);
}
