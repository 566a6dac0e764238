/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: memory of the simulated device, which the host can reach as it is. This table
 * knows which blocks are managed. What a program says about where they should be is in advice.c.
 */
#include "rt.h"

#include <pthread.h>
#include <stdlib.h>

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

int rt_managed_add(CUdeviceptr address, size_t bytes)
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
    blocks[block_count++] = (managed){(uintptr_t)address, bytes};
    pthread_mutex_unlock(&lock);
    return 1;
}

int rt_managed_is(const void *address)
{
    return rt_managed_holds(address, 1);
}

/* 1 if the range is not empty and lies in one block. */
int rt_managed_holds(const void *address, size_t bytes)
{
    pthread_mutex_lock(&lock);
    size_t i = block_find((uintptr_t)address);
    int holds = i < block_count && bytes != 0 &&
                bytes <= blocks[i].bytes - ((uintptr_t)address - blocks[i].begin);
    pthread_mutex_unlock(&lock);
    return holds;
}

/* The block that begins there, if there is one, is managed no longer. */
void rt_managed_forget(const void *address)
{
    pthread_mutex_lock(&lock);
    size_t i = block_find((uintptr_t)address);
    size_t bytes = i < block_count && blocks[i].begin == (uintptr_t)address ? blocks[i].bytes : 0;
    if (bytes != 0)
        blocks[i] = blocks[--block_count];
    pthread_mutex_unlock(&lock);
    if (bytes != 0)
        rt_advice_forget((uintptr_t)address, bytes);
}

void rt_managed_forget_all(void)
{
    pthread_mutex_lock(&lock);
    block_count = 0;
    pthread_mutex_unlock(&lock);
    rt_advice_forget(0, SIZE_MAX);
}

CUresult rt_managed_alloc(void **out, size_t bytes)
{
    CUdeviceptr address = 0;
    CUresult result = rt.cuMemAlloc(&address, bytes);
    if (result == CUDA_SUCCESS && !rt_managed_add(address, bytes)) {
        (void)rt.cuMemFree(address);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS)
        *out = (void *)(uintptr_t)address;
    return result;
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length,
                                     unsigned int flags)
{
    (void)stream, (void)length, (void)flags;
    RT_BEGIN();
    return rt_fail(rt_managed_is(devPtr) ? cudaSuccess : cudaErrorInvalidValue);
}
