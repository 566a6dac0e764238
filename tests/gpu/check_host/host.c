/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory that the host touches during a copy, on a GPU: see check_host.sh.
 *
 *   host NAME wrong|right      one error, or the same program with its wait
 *   host cross wrong|right     copied out on one stream, and in again on another, with or without a
 *                              wait: little, which the driver may copy with the processor, and much
 *   host cost ROUNDS           prints the nanoseconds of a copy of 1 MiB that is waited for
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

enum { PAGE = 4096, BYTES = 32 << 20 };

#define MUST(call)                                                                                 \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != CUDA_SUCCESS) {                                                             \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, (int)result_);       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int is_wrong;
static CUstream stream;
static CUdeviceptr block;

/* Memory of each kind. `whole`: what is to be given back. */
static unsigned char *buffer_make(const char *way, void **whole)
{
    static const struct {
        const char *name;
        unsigned flags;
    } kinds[] = {{"pinned", 0},
                 {"portable", CU_MEMHOSTALLOC_PORTABLE},
                 {"mapped", CU_MEMHOSTALLOC_DEVICEMAP},
                 {"combined", CU_MEMHOSTALLOC_WRITECOMBINED}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(way, kinds[i].name) == 0) {
            MUST(cuMemHostAlloc(whole, BYTES, kinds[i].flags));
            return *whole;
        }
    if (strcmp(way, "heap") == 0) {
        *whole = malloc(BYTES + PAGE);
    } else {
        *whole =
            mmap(NULL, BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (strcmp(way, "huge") == 0)
            (void)madvise(*whole, BYTES + PAGE, MADV_HUGEPAGE);
    }
    unsigned char *buffer = (unsigned char *)*whole + (strcmp(way, "heap") == 0 ? 16 : 0);
    memset(buffer, 0, BYTES);
    MUST(cuMemHostRegister(buffer, BYTES, 0));
    return buffer;
}

static void buffer_end(const char *way, unsigned char *buffer, void *whole)
{
    if (buffer == whole && strcmp(way, "registered") != 0 && strcmp(way, "huge") != 0) {
        MUST(cuMemFreeHost(whole));
        return;
    }
    MUST(cuMemHostUnregister(buffer));
    if (buffer != whole)
        free(whole);
    else
        munmap(whole, BYTES + PAGE);
}

/* Reads what a copy is writing, then writes what a copy is reading. What arrives must be whole. */
static void touch(const char *way)
{
    void *whole;
    volatile unsigned char seen;
    unsigned char *buffer = buffer_make(way, &whole);
    MUST(cuMemsetD8Async(block, 7, BYTES, stream));
    MUST(cuMemcpyDtoHAsync(buffer, block, BYTES, stream));
    if (!is_wrong)
        MUST(cuStreamSynchronize(stream));
    seen = buffer[BYTES / 2];
    MUST(cuStreamSynchronize(stream));
    for (size_t i = 0; i < BYTES; i++)
        if (buffer[i] != 7) {
            fprintf(stderr, "%s: byte %zu is %d\n", way, i, buffer[i]);
            exit(1);
        }
    memset(buffer, 5, BYTES);
    MUST(cuMemcpyHtoDAsync(block, buffer, BYTES, stream));
    seen = buffer[9]; /* which is right */
    if (!is_wrong)
        MUST(cuStreamSynchronize(stream));
    buffer[BYTES - 1] = (unsigned char)(seen + 1);
    MUST(cuStreamSynchronize(stream));
    buffer_end(way, buffer, whole);
}

static void cross(void)
{
    static const size_t sizes[] = {64, PAGE, 2 * PAGE, 16 * PAGE, BYTES};
    CUstream other;
    CUevent event;
    void *buffer;
    MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuMemHostAlloc(&buffer, BYTES, 0));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int is_idle = 0; is_idle < 2; is_idle++) {
            if (!is_idle)
                MUST(cuMemsetD8Async(block, 7, BYTES, stream));
            MUST(cuMemcpyDtoHAsync(buffer, block, sizes[i], stream));
            if (!is_wrong) {
                MUST(cuEventRecord(event, stream));
                MUST(cuStreamWaitEvent(other, event, 0));
            }
            if (is_idle) /* over, though the program has not waited */
                (void)usleep(10000);
            MUST(cuMemcpyHtoDAsync(block, buffer, sizes[i], other));
            MUST(cuStreamSynchronize(other));
            MUST(cuStreamSynchronize(stream));
        }
    MUST(cuMemFreeHost(buffer));
}

static void cost(int rounds)
{
    enum { LITTLE = 1 << 20 };
    struct timespec begin, end;
    void *buffer;
    MUST(cuMemHostAlloc(&buffer, LITTLE, 0));
    for (int i = -10; i < rounds; i++) {
        if (i == 0)
            clock_gettime(CLOCK_MONOTONIC, &begin);
        MUST(cuMemcpyHtoDAsync(block, buffer, LITTLE, stream));
        MUST(cuStreamSynchronize(stream));
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.0f\n",
           ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
               rounds);
    MUST(cuMemFreeHost(buffer));
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    if (argc != 3)
        return 2;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc(&block, BYTES));
    is_wrong = strcmp(argv[2], "wrong") == 0;
    if (strcmp(argv[1], "cost") == 0)
        cost(atoi(argv[2]));
    else if (strcmp(argv[1], "cross") == 0)
        cross();
    else
        touch(argv[1]);
    MUST(cuMemFree(block));
    return 0;
}
