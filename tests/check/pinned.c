/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the host with pinned memory, which --check=host finds. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zoo.h"

enum { PAGE = 4096, BUFFER = 16 * PAGE };

static volatile unsigned sum;

static unsigned char *buffer_make(size_t bytes)
{
    void *memory;
    MUST(cuMemHostAlloc(&memory, bytes, 0));
    memset(memory, 1, bytes);
    return memory;
}

/* Read before it is there. */
void animal_host_reads_early(void)
{
    unsigned char *buffer = buffer_make(BUFFER);
    CUdeviceptr block = make(the.a);
    MUST(cuMemsetD8Async(block, 7, BUFFER, the.a));
    MUST(cuMemcpyDtoHAsync(buffer, block, BUFFER, the.a));
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(the.a));
    sum = buffer[5 * PAGE];
    MUST(cuStreamSynchronize(the.a));
    if (buffer[5 * PAGE] != 7)
        exit(1); /* the program goes on, and the copy arrives */
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemFreeHost(buffer));
}

/* Filled for the next step while the last one's is still being read: loaders do it. */
void animal_host_writes_early(void)
{
    unsigned char *buffer = buffer_make(BUFFER);
    CUdeviceptr block = make(the.a);
    for (int step = 0; step < 3; step++) {
        memset(buffer, step, BUFFER);
        sum = buffer[0]; /* which the copy does not mind */
        MUST(cuMemcpyHtoDAsync(block, buffer, BUFFER, the.a));
        sum += buffer[1];
        MUST(cuEventRecord(the.event, the.a));
        if (!the.is_wrong)
            MUST(cuEventSynchronize(the.event));
    }
    MUST(cuStreamSynchronize(the.a));
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemFreeHost(buffer));
}

/* Copied out on one stream and back in on another, which does not wait for the first: caches that
 * put layers off to the host do it. Two that only read need no order. */
void animal_host_copies_cross(void)
{
    unsigned char *buffer = buffer_make(BUFFER);
    CUdeviceptr from = make(the.a), to = make(the.b);
    for (int step = 0; step < 3; step++) {
        MUST(cuMemcpyDtoHAsync(buffer, from, BUFFER, the.a));
        if (!the.is_wrong) {
            MUST(cuEventRecord(the.event, the.a));
            MUST(cuStreamWaitEvent(the.b, the.event, 0));
        }
        MUST(cuMemcpyHtoDAsync(to, buffer + PAGE, BUFFER - PAGE, the.b));
        MUST(cuStreamSynchronize(the.b));
        MUST(cuStreamSynchronize(the.a));
    }
    MUST(cuMemcpyHtoDAsync(to, buffer, BUFFER, the.b));
    MUST(cuMemcpyHtoDAsync(from, buffer, BUFFER, the.a));
    MUST(cuMemFreeAsync(from, the.a));
    MUST(cuMemFreeAsync(to, the.b));
    MUST(cuStreamSynchronize(the.b));
    MUST(cuStreamSynchronize(the.a));
    MUST(cuMemFreeHost(buffer));
}

/* The same with a copy that the call itself waits for, and that waits for no stream but the legacy
 * one and those that block with it. */
void animal_host_copies_at_once(void)
{
    unsigned char *buffer = buffer_make(BUFFER);
    CUdeviceptr block = make(the.a), to;
    MUST(cuMemAlloc(&to, BUFFER));
    for (int step = 0; step < 3; step++) {
        MUST(cuMemcpyDtoHAsync(buffer + PAGE, block, BUFFER - PAGE, the.a));
        if (!the.is_wrong)
            MUST(cuStreamSynchronize(the.a));
        MUST(cuMemcpyHtoD(to, buffer, BUFFER));
        MUST(cuStreamSynchronize(the.a));
    }
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemFree(to));
    MUST(cuStreamSynchronize(the.a));
    MUST(cuMemFreeHost(buffer));
}

/* More copies than are watched, half of them of one page, half of pages that lie side by side. */
void animal_host_many_copies(void)
{
    enum { COPIES = 4100, PAGES = 1024 };
    unsigned char *buffer = buffer_make((size_t)PAGES * PAGE), last = 0;
    CUdeviceptr block;
    MUST(cuMemAlloc(&block, (size_t)PAGES * PAGE));
    for (size_t i = 0; i < COPIES; i++) {
        size_t at = i % 2 == 0 ? 0 : i % PAGES * PAGE;
        MUST(cuMemcpyHtoDAsync(block + at, buffer + at, PAGE, the.a));
    }
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(the.a));
    buffer[5 * PAGE] = 3;
    MUST(cuStreamSynchronize(the.a));
    memset(buffer, 2, (size_t)PAGES * PAGE);
    MUST(cuMemcpyDtoH(&last, block + (CUdeviceptr)(PAGES - 1) * PAGE, 1));
    if (last != 1)
        exit(1);
    MUST(cuMemFreeHost(buffer));
    MUST(cuMemFree(block));
}

/* Other bytes lie in the first and the last page of what is copied. */
void animal_host_shares_pages(void)
{
    unsigned char *pages = buffer_make(BUFFER);
    CUdeviceptr block = make(the.a);
    MUST(cuMemcpyDtoHAsync(pages + 100, block, 3 * PAGE, the.a));
    pages[0]++;                /* beside it, in its first page, */
    pages[100 + 3 * PAGE] = 1; /* and in its last */
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(the.a));
    sum = pages[2 * PAGE];
    MUST(cuCtxSynchronize());
    MUST(cuMemFreeHost(pages));
    MUST(cuMemFreeAsync(block, the.a));
}

/* Two copies of one buffer: the host has waited for the first alone. */
void animal_host_second_copy(void)
{
    unsigned char *buffer = buffer_make(BUFFER);
    CUdeviceptr block = make(the.a);
    MUST(cuMemcpyHtoDAsync(block, buffer, BUFFER, the.a));
    MUST(cuEventRecord(the.event, the.a));
    MUST(cuMemcpyDtoHAsync(buffer + PAGE, block, PAGE, the.a));
    MUST(cuEventSynchronize(the.event));
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(the.a));
    buffer[PAGE + 9] = 3;
    buffer[3 * PAGE] = 3;
    MUST(cuStreamSynchronize(the.a));
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemFreeHost(buffer));
}

/* The memory is given back while the copy is under way, for which cuMemFreeHost waits. */
void animal_host_frees(void)
{
    CUdeviceptr block = make(the.a);
    for (int i = 0; i < 3; i++) {
        unsigned char *buffer = buffer_make(BUFFER);
        MUST(cuMemcpyDtoHAsync(buffer, block, BUFFER, the.a));
        if (the.is_wrong)
            sum += buffer[i];
        MUST(cuMemFreeHost(buffer));
    }
    MUST(cuMemFreeAsync(block, the.a));
}

/* A word is polled until the copy has written it; and a kernel has written what tells of one. */
void animal_host_polls(void)
{
    unsigned char *buffer = buffer_make(BUFFER), *flag = buffer_make(PAGE);
    CUdeviceptr block = make(the.a);
    MUST(cuMemsetD8Async(block, 7, BUFFER, the.a));
    MUST(cuMemcpyDtoHAsync(flag, block, 8, the.a));
    sum = flag[0];
    MUST(cuMemcpyDtoHAsync(buffer, block, BUFFER, the.a));
    if (!the.is_wrong)
        MUST(cuStreamWriteValue32(the.a, (CUdeviceptr)(uintptr_t)flag, 9, 0));
    sum = buffer[0];
    MUST(cuStreamSynchronize(the.a));
    MUST(cuMemFreeAsync(block, the.a));
}

/* A fault of the program's own, which no copy is in the way of: in its twin it has a handler. */
static sigjmp_buf after_fault;

static void fault_handle(int number)
{
    siglongjmp(after_fault, number);
}

void animal_host_handler(void)
{
    unsigned char *buffer = buffer_make(BUFFER);
    unsigned char *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr block = make(the.a);
    if (!the.is_wrong)
        (void)signal(SIGSEGV, fault_handle);
    MUST(cuMemcpyDtoHAsync(buffer, block, BUFFER, the.a));
    if (sigsetjmp(after_fault, 1) == 0)
        sum = none[5];
    puts("the program's handler");
    MUST(cuStreamSynchronize(the.a));
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemFreeHost(buffer));
}

/* A thread's stack runs into its guard page, as protected memory is; the program's handler runs on
 * a stack of its own. */
static void overflow_handle(int number)
{
    (void)number;
    static const char said[] = "the program's handler\n";
    (void)!write(STDOUT_FILENO, said, sizeof(said) - 1);
    _exit(0);
}

static int overflow(volatile int *depth)
{
    volatile char room[2048];
    room[0] = (char)++*depth; /* the lowest: where the stack pointer is */
    return *depth > 0 ? overflow(depth) + room[0] : 0;
}

static void *overflow_run(void *unused)
{
    static char other[1 << 16];
    struct sigaction own = {.sa_handler = overflow_handle, .sa_flags = SA_ONSTACK};
    volatile int depth = 0;
    (void)sigaltstack(&(stack_t){.ss_sp = other, .ss_size = sizeof(other)}, NULL);
    (void)sigaction(SIGSEGV, &own, NULL);
    MUST(cuCtxSetCurrent(the.context));
    MUST(cuMemcpyDtoHAsync(buffer_make(BUFFER), make(the.a), BUFFER, the.a));
    (void)overflow(&depth);
    return unused;
}

void animal_host_overflow(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, overflow_run, NULL) != 0)
        exit(1);
    (void)pthread_join(thread, NULL);
    exit(1);
}

/* ---- registered memory, and rows ------------------------------------------------------------- */

enum { ROWS = 8, ROW = PAGE, PITCH = 2 * PAGE };

/* Rows of a block, from a column on, to or from rows of the host's. */
static CUDA_MEMCPY2D rows_of(CUdeviceptr block, size_t column, size_t width, void *host)
{
    return (CUDA_MEMCPY2D){.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = block,
                           .dstXInBytes = column,
                           .dstPitch = PITCH,
                           .srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = host,
                           .srcPitch = width,
                           .WidthInBytes = width,
                           .Height = ROWS};
}

/* Memory of the program's own, as PyTorch's and NumPy's are pinned. Its rows follow each other. */
void animal_host_registered(void)
{
    static _Alignas(PAGE) unsigned char own[ROWS * ROW];
    CUdeviceptr block = make(the.a);
    MUST(cuMemHostRegister(own, sizeof(own), CU_MEMHOSTREGISTER_PORTABLE));
    CUDA_MEMCPY2D rows = rows_of(block, ROW, ROW, own);
    MUST(cuMemcpy2DAsync(&rows, the.a));
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(the.a));
    own[3 * ROW] = 1;
    MUST(cuStreamSynchronize(the.a));
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemHostUnregister(own));
}

/* A column of an image is copied there, while the host works at the others. */
void animal_host_between_rows(void)
{
    unsigned char *image = buffer_make((size_t)ROWS * PITCH);
    CUdeviceptr block = make(the.a);
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = block,
                          .srcPitch = ROW,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = image,
                          .dstPitch = PITCH,
                          .WidthInBytes = ROW,
                          .Height = ROWS};
    MUST(cuMemsetD8Async(block, 7, (size_t)ROWS * ROW, the.a));
    MUST(cuMemcpy2DAsync(&rows, the.a));
    image[PITCH + ROW] = 3;
    MUST(cuStreamSynchronize(the.a));
    if (image[PITCH] != 7 || image[PITCH + ROW] != 3)
        exit(1);
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemFreeHost(image));
}

/* Two streams write columns of one block, which overlap by a byte. */
void animal_race_of_columns(void)
{
    unsigned char *host = buffer_make((size_t)ROWS * PITCH);
    CUdeviceptr block;
    MUST(cuMemAlloc(&block, (size_t)ROWS * PITCH));
    CUDA_MEMCPY2D left = rows_of(block, 0, ROW + (size_t)the.is_wrong, host);
    CUDA_MEMCPY2D right = rows_of(block, ROW, ROW, host);
    MUST(cuMemcpy2DAsync(&left, the.a));
    MUST(cuMemcpy2DAsync(&right, the.b));
    MUST(cuCtxSynchronize());
    MUST(cuMemFree(block));
    MUST(cuMemFreeHost(host));
}

/* The last row of a box ends behind the block. */
void animal_box_runs_over(void)
{
    unsigned char *host = buffer_make((size_t)ROWS * ROW);
    CUdeviceptr block;
    MUST(cuMemAlloc(&block, (size_t)ROWS * ROW));
    CUDA_MEMCPY3D box = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = block,
                         .dstXInBytes = (size_t)the.is_wrong,
                         .dstPitch = ROW + (size_t)the.is_wrong,
                         .dstHeight = ROWS / 2,
                         .srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = host,
                         .srcPitch = ROW,
                         .srcHeight = ROWS / 2,
                         .WidthInBytes = ROW,
                         .Height = ROWS / 2,
                         .Depth = 2};
    MUST(cuMemcpy3DAsync(&box, the.a));
    MUST(cuCtxSynchronize());
    MUST(cuMemFree(block));
    MUST(cuMemFreeHost(host));
}
