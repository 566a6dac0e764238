/* SPDX-License-Identifier: Apache-2.0 */
/* See second_file.c. */
#ifndef TENURE_TESTS_SECOND_FILE_H
#define TENURE_TESTS_SECOND_FILE_H

#include <cuda_runtime_api.h>

cudaError_t second_malloc(void **address, size_t bytes);
cudaError_t second_free(void *address);
cudaError_t second_end_capture(cudaStream_t stream, cudaGraph_t *graph);

#endif
