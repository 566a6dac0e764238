/* SPDX-License-Identifier: Apache-2.0 */
/* Another file of the program, to see that what the header's files share is one. */
#include "second_file.h"

#include <tenure/cudart_replace.h>

cudaError_t second_malloc(void **address, size_t bytes)
{
    return cudaMalloc(address, bytes);
}

cudaError_t second_free(void *address)
{
    return cudaFree(address);
}

cudaError_t second_end_capture(cudaStream_t stream, cudaGraph_t *graph)
{
    return cudaStreamEndCapture(stream, graph);
}
