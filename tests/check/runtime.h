/* SPDX-License-Identifier: Apache-2.0 */
/* As much of a CUDA runtime as has a stack of its own over the driver. */
#ifndef TENURE_TESTS_CHECK_RUNTIME_H
#define TENURE_TESTS_CHECK_RUNTIME_H

#include <stddef.h>

struct CUstream_st;

int cudaStreamCreate(struct CUstream_st **stream);
int cudaMallocAsync(void **address, size_t bytes, struct CUstream_st *stream);
int cudaMemsetAsync(void *address, int value, size_t bytes, struct CUstream_st *stream);
int cudaFreeAsync(void *address, struct CUstream_st *stream);
int cudaDeviceSynchronize(void);

#endif
