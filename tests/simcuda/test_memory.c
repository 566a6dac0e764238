/* SPDX-License-Identifier: Apache-2.0 */
/* Memory without VMM, copies, memsets and pointers of the simulated device. */
#include "fixture.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static int start(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "SCHEDULE=lazy", NULL);
    return 0;
}

static void *open_later(void *gate)
{
    (void)usleep(20000);
    gate_open(gate);
    return NULL;
}

/* Runs the call, which does not wait, while a stream is gated that nothing opens. */
static void comes_back(CUresult (*call)(void *data), void *data)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *gate = gate_new();
    gate_close(stream, gate);
    assert_ok(call(data));
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
}

/* Runs the call while a stream is gated; whether it came back only after the gate was opened. */
static int waits(CUresult (*call)(void *data), void *data)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *gate = gate_new();
    pthread_t opener;
    gate_close(stream, gate);
    assert_int_equal(pthread_create(&opener, NULL, open_later, (void *)(uintptr_t)gate), 0);
    CUresult result = call(data);
    int waited = __atomic_load_n(gate, __ATOMIC_ACQUIRE) != 0;
    pthread_join(opener, NULL);
    assert_ok(result);
    assert_ok(cuStreamSynchronize(stream));
    return waited;
}

static CUresult call_free(void *data)
{
    return cuMemFree(*(CUdeviceptr *)data);
}

static CUresult call_alloc(void *data)
{
    return cuMemAlloc(data, CHUNK);
}

static CUresult call_unmap(void *data)
{
    return cuMemUnmap(*(CUdeviceptr *)data, CHUNK);
}

static void test_who_waits(void **state)
{
    (void)state;
    CUdeviceptr block = 0;
    CUdeviceptr mapped = chunk_mapped(CHUNK, NULL);
    comes_back(call_alloc, &block);
    comes_back(call_unmap, &mapped);
    assert_true(waits(call_free, &block));
}

static void test_alloc(void **state)
{
    (void)state;
    CUdeviceptr at = 0;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    assert_result(cuMemAlloc(&at, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemAlloc(NULL, 8), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemAlloc(&at, (size_t)200 << 30), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemAlloc(&at, 5000));
    assert_ok(cuMemGetAddressRange(&base, &bytes, at + 4000));
    assert_true(base == at && bytes >= 5000);
    assert_result(cuMemFree(at + 8), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree(at));
    assert_result(cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree(0));
}

/* Freed in stream order: usable until then, gone afterwards. */
static void test_alloc_async(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "SCHEDULE=lazy", "MEMORY=4M", NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr first = 0;
    CUdeviceptr second = 0;
    assert_ok(cuMemAllocAsync(&first, 3 * MIB, stream));
    assert_ok(cuMemsetD8Async(first, 1, 3 * MIB, stream));
    assert_ok(cuMemFreeAsync(first, stream));
    assert_result(cuMemFreeAsync(first, stream), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemFree(first), CUDA_ERROR_INVALID_VALUE);
    /* No room until the free has run: the allocation makes it run. */
    assert_ok(cuMemAllocAsync(&second, 3 * MIB, stream));
    assert_int_equal(simcuda_violations(), 0);
    if (second != first) /* where the kernel chooses addresses it may give this one again */
        assert_result(cuMemsetD8Async(first, 1, 1, stream), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemAllocAsync(&first, 2 * MIB, stream), CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_use_after_free_async(void **state)
{
    (void)state;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = 0;
    assert_ok(cuMemAllocAsync(&at, 4096, stream));
    assert_ok(cuMemFreeAsync(at, stream));
    assert_ok(cuMemsetD8Async(at, 1, 16, stream));
    assert_result(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_true(simcuda_violations() >= 1);
}

static void assert_flags_of_pinned(void *at, unsigned expected)
{
    unsigned flags = 99;
    int own;
    assert_ok(cuMemHostGetFlags(&flags, (char *)at + 9));
    assert_int_equal(flags, expected);
    assert_result(cuMemHostGetFlags(NULL, at), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemHostGetFlags(&flags, &own), CUDA_ERROR_INVALID_VALUE);
}

static void test_pinned(void **state)
{
    (void)state;
    void *at = NULL;
    CUdeviceptr device = 0;
    assert_ok(cuMemHostAlloc(&at, 0, 0)); /* nothing, successfully */
    assert_null(at);
    assert_result(cuMemHostAlloc(&at, 8, 512), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemHostAlloc(&at, (size_t)1 << 46, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemAllocHost(&at, 100));
    memset(at, 1, 100);
    assert_ok(cuMemHostGetDevicePointer(&device, at, 0));
    assert_true(device == (uintptr_t)at);
    assert_flags_of_pinned(at, CU_MEMHOSTALLOC_DEVICEMAP);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    assert_ok(cuMemsetD8Async(device, 2, 100, stream));
    assert_ok(cuMemFreeHost(at)); /* waits, but nobody promises that: a violation */
    assert_int_equal(simcuda_pending(), 0);
    assert_int_equal(simcuda_violations(), 1);
    assert_non_null(strstr(simcuda_violation_last(), "cuMemFreeHost"));
    assert_result(cuMemFreeHost(at), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemHostAlloc(&at, 100, CU_MEMHOSTALLOC_PORTABLE));
    assert_flags_of_pinned(at, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    assert_ok(cuMemFreeHost(at));
    assert_ok(cuMemFreeHost(NULL));
}

/* Pageable sources are taken at the call, pinned ones when the copy runs. */
static void test_copy_sources(void **state)
{
    (void)state;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    unsigned char pageable[16];
    unsigned char seen[32];
    void *pinned = NULL;
    assert_ok(cuMemAllocHost(&pinned, 16));
    memset(pageable, 1, 16);
    memset(pinned, 1, 16);
    assert_ok(cuMemcpyHtoDAsync(at, pageable, 16, stream));
    assert_ok(cuMemcpyHtoDAsync(at + 16, pinned, 16, stream));
    memset(pageable, 2, 16);
    memset(pinned, 2, 16);
    assert_ok(cuMemcpyDtoHAsync(seen, at, 32, stream)); /* pageable: complete on return */
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[31], 2);
    assert_int_equal(simcuda_pending(), 0);
}

static void test_copy_forms(void **state)
{
    (void)state;
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    uint32_t words[4] = {1, 2, 3, 4};
    uint32_t seen[4] = {0};
    assert_ok(cuMemcpyHtoD(at, words, sizeof(words)));
    assert_ok(cuMemcpyDtoD(at + 64, at, sizeof(words)));
    assert_ok(cuMemcpy(at + 128, at + 64, sizeof(words)));
    assert_ok(cuMemcpyAsync(at + 192, at + 128, sizeof(words), CU_STREAM_LEGACY));
    assert_ok(cuMemcpyDtoH(seen, at + 192, sizeof(seen)));
    assert_memory_equal(words, seen, sizeof(words));
    assert_ok(cuMemcpyDtoH(seen, at, 0));
    assert_result(cuMemcpyDtoH(NULL, at, 4), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemcpyHtoD(0, words, 4), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemcpyDtoH(seen, (uintptr_t)words, 4), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemcpyDtoD(at, at + CHUNK - 4, 8), CUDA_ERROR_INVALID_VALUE);
}

static void test_memset_widths(void **state)
{
    (void)state;
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    unsigned char seen[16];
    static const unsigned char expected[16] = {7, 7, 7, 7, 2, 1, 2, 1, 4, 3, 2, 1, 4, 3, 2, 1};
    assert_ok(cuMemsetD8(at, 7, 4));
    assert_ok(cuMemsetD16(at + 4, 0x0102, 2));
    assert_ok(cuMemsetD32(at + 8, 0x01020304, 2));
    assert_ok(cuMemcpyDtoH(seen, at, sizeof(seen)));
    assert_memory_equal(seen, expected, sizeof(seen));
    assert_result(cuMemsetD16(at + 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemsetD32(at + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemsetD32(at, 1, SIZE_MAX / 2), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemsetD8(0, 1, 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemsetD8(at, 1, 0));
}

static void test_pointer_attributes(void **state)
{
    (void)state;
    CUdeviceptr at = chunk_mapped(2 * CHUNK, NULL);
    CUdeviceptr start = 0;
    unsigned type = 99;
    int ordinal = -1;
    size_t bytes = 0;
    assert_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 5));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_ok(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at + 5));
    assert_int_equal(ordinal, 0);
    assert_ok(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + 5));
    assert_true(start == at);
    assert_ok(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at + 5));
    assert_int_equal(bytes, 2 * CHUNK);
    assert_result(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&type),
                  CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute wanted[2] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[2] = {&type, &ordinal};
    assert_ok(cuPointerGetAttributes(2, wanted, data, (uintptr_t)&type));
    assert_int_equal(type, 0);
    assert_int_equal(ordinal, CU_DEVICE_INVALID);
    assert_ok(cuPointerGetAttributes(2, wanted, data, at));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
}

static void test_live(void **state)
{
    (void)state;
    simcuda_live live;
    CUdeviceptr block = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = chunk_mapped(CHUNK, &handle);
    CUstream stream = stream_new(0);
    CUevent event = event_new();
    assert_ok(cuMemAlloc(&block, 4096));
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 1);
    assert_int_equal(live.handle_references, 1);
    assert_int_equal(live.handle_bytes, CHUNK);
    assert_int_equal(live.mappings, 1);
    assert_int_equal(live.mapped_bytes, CHUNK);
    assert_int_equal(live.reservations, 1);
    assert_int_equal(live.allocations, 1);
    assert_int_equal(live.streams, 1);
    assert_int_equal(live.events, 1);
    assert_int_equal(live.primary_references, 1);
    assert_int_equal(live.used_bytes, CHUNK + 4096);
    assert_int_equal(simcuda_live_get(5, &live), -1);
    assert_int_equal(simcuda_live_get(0, NULL), -1);
    assert_ok(cuMemFree(block));
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuEventDestroy(event));
    assert_ok(cuMemRelease(handle));
    chunk_unmapped(at, CHUNK);
    assert_ok(cuDevicePrimaryCtxRelease(0));
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    assert_int_equal(live.used_bytes, 0);
    assert_int_equal(simcuda_reset(), 0); /* nothing was left alive */
    fixture_start("RESERVE=64G", NULL);
    (void)chunk_mapped(CHUNK, NULL);
    assert_int_equal(simcuda_reset(), 3); /* mapping, reservation, the retained context */
}

static CUresult pool_let_in(CUmemoryPool pool, int device, CUmemAccess_flags flags)
{
    CUmemAccessDesc wanted = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = flags};
    return cuMemPoolSetAccess(pool, &wanted, 1);
}

static CUmemAccess_flags pool_lets_in(CUmemoryPool pool, int device)
{
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_MAX;
    assert_ok(cuMemPoolGetAccess(&flags, pool, &location));
    return flags;
}

/* The first device's context is current; the second's pools. */
static void test_pools(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", "DEVICES=2", NULL);
    CUmemoryPool usual = NULL, own = NULL, now = NULL;
    CUmemPoolProps wanted = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                             .maxSize = 2 * MIB};
    assert_ok(cuDeviceGetDefaultMemPool(&usual, 1));
    assert_ok(cuMemPoolCreate(&own, &wanted));
    assert_ok(cuDeviceSetMemPool(1, own));
    assert_ok(cuDeviceGetMemPool(&now, 1));
    assert_ptr_equal(now, own);
    assert_result(cuDeviceSetMemPool(0, own), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemPoolDestroy(usual), CUDA_ERROR_INVALID_VALUE);

    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr block = 0, more = 0;
    assert_ok(cuMemAllocFromPoolAsync(&block, MIB, own, stream));
    assert_result(cuMemAllocFromPoolAsync(&more, 3 * MIB / 2, own, stream),
                  CUDA_ERROR_OUT_OF_MEMORY);
    unsigned flags = 9;
    assert_int_equal(pool_lets_in(own, 0), CU_MEM_ACCESS_FLAGS_PROT_NONE);
    assert_ok(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, block));
    assert_int_equal(flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    assert_ok(pool_let_in(own, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    assert_int_equal(pool_lets_in(own, 0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    assert_int_equal(pool_lets_in(usual, 0), CU_MEM_ACCESS_FLAGS_PROT_NONE);
    assert_ok(cuMemsetD8Async(block, 1, MIB, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_result(pool_let_in(own, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_ERROR_INVALID_DEVICE);
    assert_result(pool_let_in(own, 2, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_ERROR_INVALID_DEVICE);
    assert_ok(pool_let_in(own, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));

    /* Blocks outlive their pool, and the device has its first one again. */
    assert_ok(cuMemPoolDestroy(own));
    assert_ok(cuDeviceGetMemPool(&now, 1));
    assert_ptr_equal(now, usual);
    assert_ok(cuMemsetD8Async(block, 2, MIB, stream));
    assert_ok(cuMemFreeAsync(block, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuStreamDestroy(stream));
    assert_int_equal(simcuda_violations(), 0);
}

/* Rows of three slices, with bytes between them that nothing may touch. */
static void test_boxes(void **state)
{
    enum { WIDTH = 3, PITCH = 8, HEIGHT = 2, HIGH = 4, DEPTH = 3, BYTES = PITCH * HIGH * DEPTH };
    static unsigned char from[BYTES], to[BYTES];
    CUdeviceptr block = 0;
    (void)state;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    assert_ok(cuMemAlloc(&block, BYTES));
    for (int i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i + 1);
    CUDA_MEMCPY3D box = {.srcXInBytes = 2,
                         .srcY = 1,
                         .srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = from,
                         .srcPitch = PITCH,
                         .srcHeight = HIGH,
                         .dstXInBytes = 2,
                         .dstY = 1,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = block,
                         .dstPitch = PITCH,
                         .dstHeight = HIGH,
                         .WidthInBytes = WIDTH,
                         .Height = HEIGHT,
                         .Depth = DEPTH};
    assert_ok(cuMemsetD8(block, 0, BYTES));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemcpy3DAsync(&box, stream));
    memset(from, 0, BYTES); /* pageable memory is read during the call */
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuMemcpyDtoH(to, block, BYTES));
    for (int i = 0; i < BYTES; i++) {
        int x = i % PITCH, y = i / PITCH % HIGH;
        int is_inside = x >= 2 && x < 2 + WIDTH && y >= 1 && y < 1 + HEIGHT;
        assert_int_equal(to[i], is_inside ? i + 1 : 0);
    }
    box.srcPitch = 4;
    assert_result(cuMemcpy3D(&box), CUDA_ERROR_INVALID_VALUE);
    box.srcPitch = PITCH;
    box.dstHeight = 2;
    assert_result(cuMemcpy3D(&box), CUDA_ERROR_INVALID_VALUE);
    box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    assert_result(cuMemcpy3D(&box), CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuMemFree(block));
    assert_ok(cuStreamDestroy(stream));
    assert_int_equal(simcuda_violations(), 0);
}

/* A refused copy has touched no row: the last one does not fit. */
static void test_rectangles(void **state)
{
    enum { WIDTH = 16, HEIGHT = 300, BYTES = WIDTH * 256 };
    static unsigned char from[WIDTH * HEIGHT], to[BYTES];
    CUdeviceptr block = 0;
    (void)state;
    assert_ok(cuMemAlloc(&block, BYTES));
    assert_ok(cuMemsetD8(block, 5, BYTES));
    assert_ok(cuCtxSynchronize());
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = from,
                          .srcPitch = WIDTH,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = block,
                          .dstPitch = WIDTH,
                          .WidthInBytes = WIDTH,
                          .Height = HEIGHT};
    assert_result(cuMemcpy2D(&rows), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemcpyDtoH(to, block, BYTES));
    assert_int_equal(to[0], 5);
    rows.Height = 256;
    assert_ok(cuMemcpy2DUnaligned(&rows));
    assert_ok(cuMemcpyDtoH(to, block, BYTES));
    assert_int_equal(to[0], 0);
    assert_int_equal(to[BYTES - 1], 0);
    rows.Height = 0; /* nothing, successfully */
    rows.srcHost = NULL;
    assert_ok(cuMemcpy2D(&rows));
    assert_ok(cuMemFree(block));
}

/* Memory of the program's own is pinned as far as it says, and stays its own. */
static void test_registered(void **state)
{
    static unsigned char own[3 * 4096];
    unsigned char *inside = own + 100;
    void *pinned = NULL;
    CUdeviceptr device = 0, block = 0;
    (void)state;
    assert_result(cuMemHostRegister(NULL, 64, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemHostRegister(inside, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemHostRegister(inside, 64, 64), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemHostRegister(inside, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    assert_result(cuMemHostRegister(own, 101, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_result(cuMemHostRegister(inside + 8, 8, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_result(cuMemFreeHost(inside), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_ok(cuMemHostGetDevicePointer(&device, inside, 0));
    assert_int_equal(device, (uintptr_t)inside);

    /* Pinned: it is read when the copy runs. */
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    assert_ok(cuMemAlloc(&block, 4096));
    assert_ok(cuMemcpyHtoDAsync(block, inside, 4096, stream));
    inside[0] = 9;
    assert_ok(cuStreamSynchronize(stream));
    inside[0] = 0;
    assert_ok(cuMemcpyDtoH(own + 2 * 4096, block, 1));
    assert_int_equal(own[2 * 4096], 9);

    assert_ok(cuMemHostUnregister(inside));
    assert_result(cuMemHostUnregister(inside), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    inside[0] = 1;
    assert_ok(cuMemAllocHost(&pinned, 4096));
    assert_result(cuMemHostUnregister(pinned), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_ok(cuMemFreeHost(pinned));
    assert_ok(cuMemFree(block));
    assert_ok(cuStreamDestroy(stream));
    assert_int_equal(simcuda_violations(), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_who_waits),     CASE(test_alloc),
        CASE(test_alloc_async),   CASE(test_use_after_free_async),
        CASE(test_pinned),        CASE(test_pools),
        CASE(test_copy_sources),  CASE(test_copy_forms),
        CASE(test_memset_widths), CASE(test_pointer_attributes),
        CASE(test_live),          CASE(test_boxes),
        CASE(test_rectangles),    CASE(test_registered),
    };
    return cmocka_run_group_tests_name("simcuda_memory", tests, NULL, NULL);
}
