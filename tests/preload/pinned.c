/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios of pinned host memory. What an allocator may answer otherwise goes to stderr. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"
#include "scenarios.h"

enum { BLOCKS = 40, MOST = 9 };
#define MIB ((size_t)1 << 20)

static CUdeviceptr address_of(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static size_t size_of(int i)
{
    static const size_t sizes[MOST] = {1,     511,     512,         4096,   5000,
                                       65536, 1000000, 3 * MIB + 5, 8 * MIB};
    return sizes[i % MOST];
}

/* ---- a program's use of it ------------------------------------------------------------------ */

static void host_verify(const unsigned char *memory, int value, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += at + 1 < bytes && bytes - at > 4096 ? 4095 : 1)
        CHECK(memory[at] == (unsigned char)value);
}

/* To the device and back, by way of other memory. */
static void round_trip(unsigned char *memory, int value, size_t bytes, CUdeviceptr by,
                       CUstream stream)
{
    memset(memory, value, bytes);
    MUST(cu.cuMemcpyHtoDAsync(by, memory, bytes, stream));
    MUST(cu.cuStreamSynchronize(stream));
    memset(memory, value + 1, bytes);
    MUST(cu.cuMemcpyDtoHAsync(memory, by, bytes, stream));
    MUST(cu.cuStreamSynchronize(stream));
    host_verify(memory, value, bytes);
    fill(address_of(memory), value + 2, bytes, stream); /* the device writes there itself */
    MUST(cu.cuStreamSynchronize(stream));
    host_verify(memory, value + 2, bytes);
}

void scenario_pinned(void)
{
    unsigned char *blocks[BLOCKS];
    CUdeviceptr by;
    CUstream stream;
    int off_pages = 0;
    engine_start(0);
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cu.cuMemAlloc(&by, 8 * MIB));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            void **place = (void **)&blocks[i];
            MUST(i % 4 == 3 ? cu.cuMemAllocHost(place, size_of(i))
                            : cu.cuMemHostAlloc(place, size_of(i), (unsigned)i % 4));
            CHECK((uintptr_t)blocks[i] % 512 == 0);
            off_pages += size_of(i) >= 2 * MIB && (uintptr_t)blocks[i] % 4096 != 0;
            round_trip(blocks[i], round * BLOCKS + i, size_of(i), by, stream);
        }
        for (int i = 0; i < BLOCKS; i++)
            host_verify(blocks[i], round * BLOCKS + i + 2, size_of(i));
        for (int i = 0; i < BLOCKS; i++)
            MUST(cu.cuMemFreeHost(blocks[(i * 7) % BLOCKS]));
    }
    MUST(cu.cuMemFree(by));
    MUST(cu.cuStreamDestroy(stream));
    fprintf(stderr, "%d large blocks begin beside pages\n", off_pages);
}

/* ---- what is said of it --------------------------------------------------------------------- */

static void describe(unsigned char *memory, size_t bytes, int with_attributes)
{
    CUdeviceptr device = 0, base = 0, start = 0;
    size_t range = 0, whole = 0;
    void *host = NULL;
    unsigned flags = 99, type = 0;
    CUresult result = cu.cuMemHostGetFlags(&flags, memory);
    printf("flags: result %d, %u", (int)result, flags);
    flags = 99;
    result = cu.cuMemHostGetFlags(&flags, memory + bytes - 1);
    printf(", inside %d, %u\n", (int)result, flags);
    result = cu.cuMemHostGetDevicePointer(&device, memory, 0);
    printf("device pointer: result %d, %s\n", (int)result,
           device == address_of(memory) ? "the same" : "another");
    device = 0;
    result = cu.cuMemHostGetDevicePointer(&device, memory + bytes - 1, 0);
    printf("device pointer inside: result %d, %s\n", (int)result,
           device == address_of(memory) + bytes - 1 ? "the same" : "another");
    printf("device pointer with flags: result %d\n",
           (int)cu.cuMemHostGetDevicePointer(&device, memory, 1));
    result = cu.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                      address_of(memory) + bytes - 1);
    printf("host pointer: result %d, %s\n", (int)result,
           host == memory + bytes - 1 ? "the same" : "another");
    MUST(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(memory)));
    CHECK(type == CU_MEMORYTYPE_HOST);
    result = cu.cuMemGetAddressRange(&base, &range, address_of(memory) + bytes - 1);
    printf("range: result %d, %s, %s\n", (int)result,
           base == address_of(memory) ? "from its start" : "from elsewhere",
           range >= bytes ? "all of it" : "less");
    (void)cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   address_of(memory));
    (void)cu.cuPointerGetAttribute(&whole, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address_of(memory));
    fprintf(stderr, "%zu bytes at %p: range %+lld, %zu; attributes %+lld, %zu\n", bytes,
            (void *)memory, (long long)(base - address_of(memory)), range,
            (long long)(start - address_of(memory)), whole);
    if (with_attributes)
        attributes_print(address_of(memory) + bytes - 1);
}

void scenario_pinned_answers(void)
{
    void *memory;
    engine_start(0);
    for (unsigned flags = 0; flags < 5; flags++) {
        MUST(flags == 4 ? cu.cuMemAllocHost(&memory, 5000)
                        : cu.cuMemHostAlloc(&memory, 5000, flags));
        printf("flags %u:\n", flags);
        describe(memory, 5000, flags == 0 || flags == 4);
        MUST(cu.cuMemFreeHost(memory));
    }
    for (int i = 0; i < MOST; i++) {
        MUST(cu.cuMemHostAlloc(&memory, size_of(i), 0));
        printf("%zu bytes:\n", size_of(i));
        describe(memory, size_of(i), 0);
        MUST(cu.cuMemFreeHost(memory));
    }
    MUST(cu.cuMemHostAlloc(&memory, 4096, 4));
    printf("write-combined:\n");
    describe(memory, 4096, 0);
    MUST(cu.cuMemFreeHost(memory));
}

/* ---- what is wrong -------------------------------------------------------------------------- */

#define TELL(call) printf("%s: %d\n", #call, (int)(call))

void scenario_pinned_wrong(void)
{
    void *memory = NULL, *other = NULL;
    CUdeviceptr block, there = 0;
    unsigned type = 0, flags = 0;
    char own[64];
    engine_start(0);
    MUST(cu.cuMemAlloc(&block, 100000));
    MUST(cu.cuMemHostAlloc(&other, 100000, 0));
    MUST(cu.cuMemHostAlloc(&memory, 100000, 0));
    char *bytes = memory;
    TELL(cu.cuMemFreeHost(bytes + 4096));
    TELL(cu.cuMemFreeHost(bytes + 1));
    TELL(cu.cuMemFreeHost(own));
    TELL(cu.cuMemFreeHost(NULL));
    TELL(cu.cuMemFreeHost((void *)(uintptr_t)block));
    TELL(cu.cuMemFree(address_of(memory)));
    TELL(cu.cuMemFreeAsync(address_of(memory), NULL));
    TELL(cu.cuMemFreeHost(memory));
    TELL(cu.cuMemFreeHost(memory));
    TELL(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(memory)));
    TELL(cu.cuMemHostGetFlags(&flags, memory));
    TELL(cu.cuMemHostGetDevicePointer(&there, memory, 0));
    TELL(cu.cuMemHostGetFlags(&flags, own));
    TELL(cu.cuMemHostGetFlags(NULL, other));
    TELL(cu.cuMemHostGetDevicePointer(&there, own, 0));
    TELL(cu.cuMemHostGetDevicePointer(NULL, other, 0));
    memory = own;
    TELL(cu.cuMemHostAlloc(&memory, 0, 0));
    printf("%s\n", memory == NULL ? "null" : memory == own ? "as it was" : "an address");
    TELL(cu.cuMemHostAlloc(NULL, 16, 0));
    TELL(cu.cuMemAllocHost(NULL, 16));
    TELL(cu.cuMemHostAlloc(&memory, 16, 1024));
    TELL(cu.cuMemHostAlloc(&memory, (size_t)1 << 50, 0));
    TELL(cu.cuMemAllocHost(&memory, (size_t)1 << 50));
    /* The first one lies where a slab begins; the second lives on. */
    MUST(cu.cuMemHostAlloc(&memory, 100000, 0));
    MUST(cu.cuMemFreeHost(other));
    TELL(cu.cuMemFreeHost(other));
    round_trip(memory, 4, 100000, block, NULL);
    MUST(cu.cuMemFreeHost(memory));
    MUST(cu.cuMemFree(block));
}

/* ---- freed while it is in use --------------------------------------------------------------- */

/* A buffer is filled, copied in and freed at once, again and again, on streams that nothing orders,
 * on the default stream, and by kernels that read it themselves. */
void scenario_pinned_pending(void)
{
    enum { ROUNDS = 60, BYTES = 300000 };
    static CUdeviceptr on_device[ROUNDS];
    CUstream streams[3] = {NULL};
    engine_start(0);
    for (int i = 1; i < 3; i++)
        MUST(cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < ROUNDS; round++) {
        void *buffer;
        MUST(cu.cuMemAlloc(&on_device[round], BYTES));
        MUST(cu.cuMemAllocHost(&buffer, BYTES));
        memset(buffer, round, BYTES);
        MUST(round % 2 ? cu.cuMemcpyHtoDAsync(on_device[round], buffer, BYTES, streams[round % 3])
                       : cu.cuMemcpyAsync(on_device[round], address_of(buffer), BYTES,
                                          streams[round % 3]));
        MUST(cu.cuMemFreeHost(buffer));
    }
    for (int round = 0; round < ROUNDS; round++) {
        verify(on_device[round], round, BYTES, streams[round % 3]);
        MUST(cu.cuMemFree(on_device[round]));
    }
    for (int i = 1; i < 3; i++)
        MUST(cu.cuStreamDestroy(streams[i]));
}

/* ---- several devices and contexts ----------------------------------------------------------- */

/* All devices and contexts reach pinned memory, also those that come after it. */
void scenario_pinned_devices(void)
{
    enum { BYTES = 200000 };
    CUcontext contexts[2], own;
    CUdeviceptr there[2], in_own;
    CUdevice second;
    void *early, *buffer;
    contexts[0] = engine_start(0);
    MUST(cu.cuMemAllocHost(&early, BYTES));
    memset(early, 7, BYTES);
    MUST(cu.cuMemAlloc(&there[0], BYTES));
    contexts[1] = engine_start(1);
    fill(address_of(early), 8, BYTES, NULL);
    MUST(cu.cuCtxSynchronize());
    host_verify(early, 8, BYTES);
    MUST(cu.cuMemAlloc(&there[1], BYTES));
    round_trip(early, 20, BYTES, there[1], NULL);
    MUST(cu.cuDeviceGet(&second, 0)); /* a context of the program's own there */
    MUST(cu.cuCtxCreate(&own, 0, second));
    MUST(cu.cuMemAlloc(&in_own, BYTES));
    round_trip(early, 40, BYTES, in_own, NULL);
    /* Of that context, the driver's: freed under any, and gone with it. */
    MUST(cu.cuMemAllocHost(&buffer, BYTES));
    round_trip(buffer, 60, BYTES, in_own, NULL);
    MUST(cu.cuMemFreeHost(early));
    MUST(cu.cuMemFree(in_own));
    MUST(cu.cuMemFreeHost(buffer));
    MUST(cu.cuCtxDestroy(own));
    for (int i = 0; i < 2; i++) {
        MUST(cu.cuCtxSetCurrent(contexts[i]));
        MUST(cu.cuMemFree(there[i]));
    }
}

/* Under Tenure alone, because what the driver waits for is its own affair: the second device has no
 * memory and no stream, and a context of the program's own has none either. Their default streams
 * read a buffer that is freed meanwhile. As far as the first device knows it is free then. A buffer
 * fills a slab, so that the next one lies where it was. */
void scenario_pinned_far(void)
{
    enum { BYTES = 20 << 20, ROUNDS = 6 };
    CUcontext contexts[3];
    CUdevice first;
    void *kept, *buffer, *next[2];
    contexts[0] = engine_start(0);
    MUST(cu.cuDeviceGet(&first, 0));
    MUST(cu.cuMemAllocHost(&kept, BYTES));
    contexts[1] = engine_start(1);
    MUST(cu.cuCtxCreate(&contexts[2], 0, first));
    for (int round = 0; round < ROUNDS; round++) {
        CUcontext far = contexts[1 + round % 2];
        MUST(cu.cuCtxSetCurrent(contexts[0]));
        MUST(cu.cuMemAllocHost(&buffer, BYTES));
        memset(buffer, round, BYTES);
        MUST(cu.cuCtxSetCurrent(far));
        MUST(cu.cuMemcpyAsync(address_of(kept), address_of(buffer), BYTES, NULL));
        /* A device is waited for from anywhere, a context while it is current. */
        MUST(cu.cuCtxSetCurrent(round % 4 == 0 ? contexts[0] : far));
        MUST(cu.cuMemFreeHost(buffer));
        MUST(cu.cuCtxSetCurrent(contexts[0]));
        for (int i = 0; i < 2;
             i++) { /* the first has the free fenced, the second gets the buffer */
            MUST(cu.cuMemAllocHost(&next[i], BYTES));
            memset(next[i], 99, BYTES);
            MUST(cu.cuCtxSynchronize());
        }
        MUST(cu.cuCtxSetCurrent(far));
        MUST(cu.cuCtxSynchronize());
        host_verify(kept, round, BYTES);
        for (int i = 0; i < 2; i++)
            MUST(cu.cuMemFreeHost(next[i]));
    }
    MUST(cu.cuMemFreeHost(kept));
    MUST(cu.cuCtxDestroy(contexts[2]));
}

/* ---- forks and resets ----------------------------------------------------------------------- */

void scenario_pinned_ends(void)
{
    enum { BYTES = 100000 };
    void *early, *late;
    CUdevice device;
    CUdeviceptr by;
    engine_start(0);
    MUST(cu.cuMemAllocHost(&early, BYTES));
    memset(early, 1, BYTES);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(cu.cuMemFreeHost(early) != CUDA_SUCCESS &&
                      cu.cuMemAllocHost(&late, 16) != CUDA_SUCCESS
                  ? 0
                  : 3);
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    host_verify(early, 1, BYTES);
    MUST(cu.cuDeviceGet(&device, 0));
    for (int round = 0; round < 3; round++) {
        MUST(cu.cuDevicePrimaryCtxReset(device)); /* with a block that lives */
        engine_start(0);
        TELL(cu.cuMemFreeHost(early));
        MUST(cu.cuMemAllocHost(&late, BYTES));
        MUST(cu.cuMemAlloc(&by, BYTES));
        round_trip(late, round, BYTES, by, NULL);
        MUST(cu.cuMemFree(by));
        early = late;
    }
    MUST(cu.cuMemFreeHost(early));
}

/* ---- what is kept --------------------------------------------------------------------------- */

/* 320 MiB, and then nothing any more. The last block is freed after what is idle was looked at. */
void scenario_pinned_idle(void)
{
    void *blocks[5];
    engine_start(0);
    for (int i = 0; i < 5; i++)
        MUST(cu.cuMemAllocHost(&blocks[i], 64 * MIB));
    for (int i = 0; i < 5; i++)
        MUST(cu.cuMemFreeHost(blocks[i]));
}
