/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the CUDA runtime that knows nothing of Tenure, for `tenure run --check`. Nothing
 * runs for its kernel.
 *
 *   checked right    frees its memory in the order of its streams
 *   checked wrong    frees what a kernel of another stream still uses
 *   checked texture  the same, of memory that the kernel reads as a texture
 *   checked again    managed memory at an address that had other managed memory
 */
#include "program.h"

#include <stdio.h>
#include <string.h>

static int failed(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    return error != cudaSuccess;
}

/* A texture of the memory, in the place of its address. */
static int texture_make(void *block, cudaTextureObject_t *texture)
{
    const struct cudaTextureDesc how = {0};
    const struct cudaResourceDesc what = {
        .resType = cudaResourceTypeLinear,
        .res.linear = {.devPtr = block,
                       .desc = {32, 0, 0, 0, cudaChannelFormatKindFloat},
                       .sizeInBytes = 1 << 20}};
    return failed(cudaCreateTextureObject(texture, &what, &how, NULL), "texture");
}

static int use(int is_right, int is_texture)
{
    cudaStream_t one = NULL, other = NULL;
    cudaEvent_t event = NULL;
    cudaTextureObject_t texture = 0;
    void *block = NULL, *second = NULL, *parameters[] = {&block, &second};
    if (is_texture)
        parameters[0] = &texture;
    if (failed(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking), "stream") ||
        failed(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "stream") ||
        failed(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event") ||
        failed(cudaMallocAsync(&block, 1 << 20, one), "memory") ||
        failed(cudaMallocAsync(&second, 1 << 20, one), "memory") ||
        (is_texture && texture_make(block, &texture)) ||
        failed(cudaEventRecord(event, one), "record") ||
        failed(cudaStreamWaitEvent(other, event, 0), "wait") ||
        failed(program_launch(entry_unknown, 32, 0, other, parameters), "launch"))
        return 1;
    if (is_right && (failed(cudaEventRecord(event, other), "record") ||
                     failed(cudaStreamWaitEvent(one, event, 0), "wait")))
        return 1;
    return failed(cudaFreeAsync(block, one), "free") ||
           failed(cudaFreeAsync(second, one), "free") ||
           failed(cudaDeviceSynchronize(), "synchronise") ||
           failed(cudaEventDestroy(event), "event") || failed(cudaStreamDestroy(one), "stream") ||
           failed(cudaStreamDestroy(other), "stream");
}

/* Nothing was said of the second block, which Tenure has given the first one's address. */
static int again(void)
{
    const struct cudaMemLocation here = {.type = cudaMemLocationTypeDevice, .id = 0};
    int number = 0;
    void *block = NULL, *other = NULL;
    if (failed(cudaMallocManaged(&block, 1 << 20, cudaMemAttachGlobal), "memory") ||
        failed(cudaMemPrefetchAsync(block, 1 << 20, here, 0, NULL), "prefetch") ||
        failed(cudaFree(block), "free"))
        return 1;
    for (int i = 0; other != block && i < 100; i++)
        if (failed(cudaFree(other), "free") ||
            failed(cudaMallocManaged(&other, 1 << 20, cudaMemAttachGlobal), "memory"))
            return 1;
    if (failed(cudaMemRangeGetAttribute(&number, sizeof(number),
                                        cudaMemRangeAttributeLastPrefetchLocation, other, 1 << 20),
               "asking"))
        return 1;
    printf("%s address, prefetched to %d\n", block == other ? "the same" : "another", number);
    return failed(cudaFree(other), "free");
}

int main(int argc, char **argv)
{
    program_register();
    const char *what = argc > 1 ? argv[1] : "";
    int result = strcmp(what, "again") == 0
                     ? again()
                     : use(strcmp(what, "right") == 0, strcmp(what, "texture") == 0);
    program_unregister();
    return result;
}
