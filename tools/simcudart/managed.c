/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: memory of the simulated device, which the host can reach as it is. This table
 * knows which blocks are managed; what a program says about where they should be is only checked.
 */
#include "rt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct managed {
    uintptr_t begin;
    size_t bytes;
} managed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static managed *blocks; /* in no order; under the lock, with the two numbers */
static size_t block_count, block_room;

/* ---- the table ------------------------------------------------------------------------------ */

static size_t block_find(uintptr_t address)
{
    size_t i = 0;
    while (i < block_count && address - blocks[i].begin >= blocks[i].bytes)
        i++;
    return i;
}

static int block_add(managed block)
{
    pthread_mutex_lock(&lock);
    if (block_count == block_room) {
        size_t room = block_room * 2 + 16;
        managed *grown = realloc(blocks, room * sizeof(*grown));
        if (grown == NULL) {
            pthread_mutex_unlock(&lock);
            return 0;
        }
        blocks = grown;
        block_room = room;
    }
    blocks[block_count++] = block;
    pthread_mutex_unlock(&lock);
    return 1;
}

int rt_managed_is(const void *address)
{
    pthread_mutex_lock(&lock);
    int is_managed = block_find((uintptr_t)address) < block_count;
    pthread_mutex_unlock(&lock);
    return is_managed;
}

/* 1 if the block begins there, and is forgotten now. */
int rt_managed_forget(const void *address)
{
    pthread_mutex_lock(&lock);
    size_t i = block_find((uintptr_t)address);
    int is_managed = i < block_count && blocks[i].begin == (uintptr_t)address;
    if (is_managed)
        blocks[i] = blocks[--block_count];
    pthread_mutex_unlock(&lock);
    return is_managed;
}

void rt_managed_forget_all(void)
{
    pthread_mutex_lock(&lock);
    block_count = 0;
    pthread_mutex_unlock(&lock);
}

CUresult rt_managed_alloc(void **out, size_t bytes)
{
    CUdeviceptr address = 0;
    CUresult result = rt.cuMemAlloc(&address, bytes);
    if (result == CUDA_SUCCESS && !block_add((managed){(uintptr_t)address, bytes})) {
        (void)rt.cuMemFree(address);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS)
        *out = (void *)(uintptr_t)address;
    return result;
}

/* ---- where it should be --------------------------------------------------------------------- */

cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream)
{
    (void)location, (void)stream;
    RT_BEGIN();
    return rt_fail(flags == 0 && count != 0 && rt_managed_is(devPtr) ? cudaSuccess
                                                                     : cudaErrorInvalidValue);
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    (void)location, (void)advice;
    RT_BEGIN();
    return rt_fail(count != 0 && rt_managed_is(devPtr) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length,
                                     unsigned int flags)
{
    (void)stream, (void)length, (void)flags;
    RT_BEGIN();
    return rt_fail(rt_managed_is(devPtr) ? cudaSuccess : cudaErrorInvalidValue);
}
