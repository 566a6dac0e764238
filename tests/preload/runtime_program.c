/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the runtime: prints what must be the same with and without Tenure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mock_runtime.h"

#define MUST_BE(call, expected)                                                                    \
    do {                                                                                           \
        cudaError_t result_ = (call);                                                              \
        if (result_ != (expected)) {                                                               \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, result_);            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define MUST(call) MUST_BE(call, cudaSuccess)

enum { ROUNDS = 50 };

/* Addresses differ from run to run: what they are must not. */
static void describe(void *block, size_t bytes)
{
    cudaPointerAttributes told;
    char *last = (char *)block + bytes - 1;
    MUST(cudaPointerGetAttributes(&told, last));
    printf("%zu bytes: type %d, device %d, %s, %s\n", bytes, told.type, told.device,
           told.devicePointer == last ? "the address asked" : "another address",
           told.hostPointer == NULL ? "not the host's" : "the host's");
}

int main(void)
{
    cudaStream_t stream;
    unsigned sum = 0;
    static unsigned char copy[100000];
    MUST(cudaFree(NULL));
    MUST(cudaStreamCreate(&stream));
    for (int i = 0; i < ROUNDS; i++) {
        void *first, *second;
        size_t bytes = (size_t)(i + 1) * 2000;
        MUST(cudaMalloc(&first, bytes));
        MUST(cudaMallocAsync(&second, bytes, stream));
        if (i % 10 == 0) {
            describe(first, bytes);
            describe(second, bytes);
        }
        MUST(cudaMemsetAsync(first, i, bytes, stream));
        MUST(cudaMemsetAsync(second, i + 1, bytes, stream));
        MUST(cudaMemcpyToHost(copy, first, bytes, stream));
        MUST(cudaStreamSynchronize(stream));
        for (size_t at = 0; at < bytes; at++)
            sum = sum * 3 + copy[at];
        MUST(cudaFreeAsync(second, stream));
        MUST(cudaFree(first));
    }
    void *none = NULL;
    MUST_BE(cudaMalloc(&none, (size_t)1 << 50), cudaErrorMemoryAllocation);
    MUST_BE(cudaGetLastError(), cudaErrorMemoryAllocation);
    MUST_BE(cudaGetLastError(), cudaSuccess);
    MUST_BE(cudaMalloc(NULL, 64), cudaErrorInvalidValue);
    MUST_BE(cudaGetLastError(), cudaErrorInvalidValue);
    MUST(cudaMalloc(&none, 64));
    MUST(cudaFree(none));
    MUST_BE(cudaGetLastError(), cudaSuccess);
    MUST(cudaStreamDestroy(stream));
    MUST(cudaDeviceReset());
    printf("sum %08x\n", sum);
    return 0;
}
