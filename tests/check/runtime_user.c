/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the runtime that frees too early: what its stacks begin with. */
#include "runtime.h"

__attribute__((noinline)) static void *user_makes(struct CUstream_st *stream)
{
    void *block = NULL;
    (void)cudaMallocAsync(&block, 1 << 20, stream);
    __asm__ volatile("");
    return block;
}

__attribute__((noinline)) static void user_uses(void *block, struct CUstream_st *stream)
{
    (void)cudaMemsetAsync(block, 1, 64, stream);
    __asm__ volatile("");
}

__attribute__((noinline)) static void user_frees(void *block, struct CUstream_st *stream)
{
    (void)cudaFreeAsync(block, stream);
    __asm__ volatile("");
}

int main(void)
{
    struct CUstream_st *owner, *other;
    (void)cudaStreamCreate(&owner);
    (void)cudaStreamCreate(&other);
    void *block = user_makes(owner);
    (void)cudaDeviceSynchronize();
    user_uses(block, other);
    user_frees(block, owner);
    return cudaDeviceSynchronize();
}
