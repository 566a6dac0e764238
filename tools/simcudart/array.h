/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA arrays: rows of elements in memory of the device.
 */
#ifndef TENURE_SIMCUDART_ARRAY_H
#define TENURE_SIMCUDART_ARRAY_H

#include "rt.h"

typedef struct rt_array {
    struct cudaChannelFormatDesc format;
    struct cudaExtent extent; /* as the program said */
    unsigned flags;
    CUdeviceptr memory;
    size_t element_bytes, row_bytes, pitch;
    size_t rows, layers; /* 1 where there is no such dimension */
    struct rt_array *next;
} rt_array;

const rt_array *rt_array_get(cudaArray_const_t handle); /* null: it is none */

/* Textures and surfaces of memory that is gone are forgotten (texture.c). */
void rt_textures_forget(CUdeviceptr begin, size_t bytes);

/* Forms of deprecated calls for per-thread default streams, which no header declares. */
cudaError_t cudaMemcpyToArray_ptds(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                                   size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyFromArray_ptds(void *dst, cudaArray_const_t src, size_t wOffset,
                                     size_t hOffset, size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyToArrayAsync_ptsz(cudaArray_t dst, size_t wOffset, size_t hOffset,
                                        const void *src, size_t count, enum cudaMemcpyKind kind,
                                        cudaStream_t stream);
cudaError_t cudaMemcpyFromArrayAsync_ptsz(void *dst, cudaArray_const_t src, size_t wOffset,
                                          size_t hOffset, size_t count, enum cudaMemcpyKind kind,
                                          cudaStream_t stream);

#endif
