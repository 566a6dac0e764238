/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: memory without VMM, copies, pointers, and which of these calls wait. */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void alloc_and_free(void)
{
    CUdeviceptr at = 0;
    expect("alloc", cu.MemAlloc(&at, 1000), CUDA_SUCCESS);
    expect_yes("aligned", at % 256 == 0, 1);
    expect("free_inside", cu.MemFree(at + 256), CUDA_ERROR_INVALID_VALUE);
    expect("free", cu.MemFree(at), CUDA_SUCCESS);
    expect("free_again", cu.MemFree(at), CUDA_ERROR_INVALID_VALUE);
    expect("free_null", cu.MemFree(0), CUDA_SUCCESS);
    expect("alloc_empty", cu.MemAlloc(&at, 0), CUDA_ERROR_INVALID_VALUE);
    expect("alloc_null", cu.MemAlloc(NULL, 1000), CUDA_ERROR_INVALID_VALUE);
    expect("alloc_too_much", cu.MemAlloc(&at, (size_t)1 << 46), CUDA_ERROR_OUT_OF_MEMORY);
    CUdeviceptr mapped = chunk_mapped(CHUNK, NULL);
    expect("free_vmm", cu.MemFree(mapped), CUDA_ERROR_INVALID_VALUE);
}

/* cuMemFree is the one memory call that waits for work everywhere. */
static void mem_free_waits(void)
{
    CUdeviceptr unrelated = 0;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate *gate = gate_new();
    need("alloc", cu.MemAlloc(&unrelated, CHUNK));
    gate_close(gate, stream);
    watch_start(gate, WAITS_MS);
    expect("free", cu.MemFree(unrelated), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 1);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
}

static void free_host_waits(void)
{
    void *unrelated = NULL;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate *gate = gate_new();
    need("alloc", cu.MemHostAlloc(&unrelated, CHUNK, 0));
    gate_close(gate, stream);
    watch_start(gate, WAITS_MS);
    expect("free", cu.MemFreeHost(unrelated), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 1);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
}

static void host_alloc_waits(void)
{
    void *unrelated = NULL;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate *gate = gate_new();
    gate_close(gate, stream);
    watch_start(gate, RETURNS_MS);
    expect("alloc", cu.MemHostAlloc(&unrelated, CHUNK, 0), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 0);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect("flags", cu.MemHostAlloc(&unrelated, CHUNK, 1024), CUDA_ERROR_INVALID_VALUE);
    expect("empty", cu.MemHostAlloc(&unrelated, 0, 0), CUDA_SUCCESS);
    expect("free_foreign", cu.MemFreeHost(&unrelated), CUDA_ERROR_INVALID_VALUE);
}

/* Stream-ordered memory is usable in its stream, before and after host and device meet. */
static void alloc_async(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = 0;
    unsigned char *byte = NULL;
    struct gate *gate = gate_new();
    void *pinned = NULL;
    need("pinned", cu.MemHostAlloc(&pinned, 1, 0));
    byte = pinned;
    *byte = 0;
    gate_close(gate, stream);
    expect("alloc", cu.MemAllocAsync(&at, 1000, stream), CUDA_SUCCESS);
    expect("set", cu.MemsetD8Async(at, 6, 1000, stream), CUDA_SUCCESS);
    expect("copy", cu.MemcpyDtoHAsync(byte, at + 999, 1, stream), CUDA_SUCCESS);
    expect("free", cu.MemFreeAsync(at, stream), CUDA_SUCCESS);
    expect("free_again", cu.MemFreeAsync(at, stream), CUDA_ERROR_INVALID_VALUE);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", *byte, 6);
    expect("empty", cu.MemAllocAsync(&at, 0, stream), CUDA_SUCCESS);
}

/* ---- copies --------------------------------------------------------------------------------- */

/* Bytes in pageable memory that change after the call: which ones arrive? */
static void pageable_source(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    unsigned char *source = malloc(1024);
    if (source == NULL) {
        need("memory", CUDA_ERROR_OUT_OF_MEMORY);
        return;
    }
    memset(source, 1, 1024);
    gate_close(gate, stream);
    watch_start(gate, RETURNS_MS);
    expect("copy", cu.MemcpyHtoDAsync(at, source, 1024, stream), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 0);
    memset(source, 2, 1024);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", byte_at(at), 1);
    free(source);
}

/* Pinned memory is read when the copy runs. */
static void pinned_source(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    void *source = NULL;
    need("pinned", cu.MemHostAlloc(&source, 1024, 0));
    memset(source, 1, 1024);
    gate_close(gate, stream);
    watch_start(gate, RETURNS_MS);
    expect("copy", cu.MemcpyHtoDAsync(at, source, 1024, stream), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 0);
    memset(source, 2, 1024);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", byte_at(at), 2);
}

static void pageable_target(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    unsigned char target[64] = {0};
    need("set", cu.MemsetD8Async(at, 4, 64, stream));
    gate_close(gate, stream);
    watch_start(gate, WAITS_MS);
    expect("copy", cu.MemcpyDtoHAsync(target, at, 64, stream), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 1);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", target[63], 4);
}

/* Synchronous calls while the legacy stream is held back: which of them wait? */
static void synchronous_calls(void)
{
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    unsigned char byte = 1;
    gate_close(gate, NULL);
    watch_start(gate, RETURNS_MS);
    expect("set", cu.MemsetD8(at, 1, 64), CUDA_SUCCESS);
    expect_yes("set_waited", watch_stop(gate), 0);
    watch_start(gate, RETURNS_MS);
    expect("device_copy", cu.MemcpyDtoD(at + 64, at, 64), CUDA_SUCCESS);
    expect_yes("device_copy_waited", watch_stop(gate), 0);
    watch_start(gate, WAITS_MS);
    expect("upload", cu.MemcpyHtoD(at, &byte, 1), CUDA_SUCCESS);
    expect_yes("upload_waited", watch_stop(gate), 1);
    gate_open(gate);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS);
    expect_number("byte", byte_at(at + 64), 1);
}

/* A synchronous copy does not wait for non-blocking streams. */
static void synchronous_copy_and_other_streams(void)
{
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate *gate = gate_new();
    unsigned char byte = 0;
    need("set", cu.MemsetD8(at, 8, 64));
    gate_close(gate, stream);
    watch_start(gate, RETURNS_MS);
    expect("copy", cu.MemcpyDtoH(&byte, at, 1), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 0);
    expect_number("byte", byte, 8);
    gate_open(gate);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS);
}

static void copy_arguments(void)
{
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    unsigned char byte = 0;
    expect("nothing", cu.MemcpyDtoH(&byte, at, 0), CUDA_SUCCESS);
    expect("null_host", cu.MemcpyDtoH(NULL, at, 1), CUDA_ERROR_INVALID_VALUE);
    expect("null_device", cu.MemcpyDtoH(&byte, 0, 1), CUDA_ERROR_INVALID_VALUE);
    expect("set_null", cu.MemsetD8(0, 1, 1), CUDA_ERROR_INVALID_VALUE);
    expect("set_nothing", cu.MemsetD8(at, 1, 0), CUDA_SUCCESS);
    expect("set_misaligned", cu.MemsetD32Async(at + 1, 1, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    expect("end", cu.CtxSynchronize(), CUDA_SUCCESS);
}

/* ---- rows ----------------------------------------------------------------------------------- */

enum { ROW = 48, PITCH = 128, ROWS = 5 };

/* From the host's rows, which lie one behind the other, to the device's. */
static CUDA_MEMCPY2D rows_up(CUdeviceptr to, const void *from)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = from,
                           .srcPitch = ROW,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .dstPitch = PITCH,
                           .WidthInBytes = ROW,
                           .Height = ROWS};
}

/* Rows that lie apart: what lies between them stays, and where the last one ends the copy ends. */
static void rows_apart(void)
{
    unsigned char rows[ROWS * ROW], back[ROWS * PITCH];
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (size_t i = 0; i < sizeof(rows); i++)
        rows[i] = (unsigned char)(1 + i / ROW);
    need("set", cu.MemsetD8(at, 99, sizeof(back)));
    CUDA_MEMCPY2D copy = rows_up(at, rows);
    expect("up", cu.Memcpy2D(&copy), CUDA_SUCCESS);
    expect("down", cu.MemcpyDtoH(back, at, sizeof(back)), CUDA_SUCCESS);
    size_t right = 0;
    for (size_t i = 0; i < sizeof(back); i++)
        right += back[i] == (i % PITCH < ROW ? 1 + i / PITCH : 99);
    expect_number("right", right, sizeof(back));
    copy.dstXInBytes = 8;
    copy.dstY = 1;
    copy.WidthInBytes = 4;
    copy.Height = 2;
    expect("into_the_middle", cu.Memcpy2D(&copy), CUDA_SUCCESS);
    expect_number("there", byte_at(at + PITCH + 8), 1);
    expect_number("next", byte_at(at + 2 * PITCH + 11), 2);
    expect_number("behind", byte_at(at + PITCH + 12), 2);
}

static void rows_arguments(void)
{
    unsigned char rows[ROWS * ROW] = {0};
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    CUDA_MEMCPY2D copy = rows_up(at, rows);
    copy.Height = 0;
    expect("no_rows", cu.Memcpy2D(&copy), CUDA_SUCCESS);
    copy = rows_up(at, rows);
    copy.WidthInBytes = 0;
    expect("no_bytes", cu.Memcpy2D(&copy), CUDA_SUCCESS);
    copy = rows_up(at, rows);
    copy.dstPitch = ROW - 1;
    expect("pitch", cu.Memcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
    copy = rows_up(0, rows);
    expect("null", cu.Memcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
    expect("end", cu.CtxSynchronize(), CUDA_SUCCESS);
}

/* In the order of the stream: pinned rows are read when the copy runs. */
static void rows_async(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    struct gate *gate = gate_new();
    void *source = NULL;
    need("pinned", cu.MemHostAlloc(&source, ROWS * ROW, 0));
    memset(source, 1, ROWS * ROW);
    CUDA_MEMCPY2D copy = rows_up(at, source);
    gate_close(gate, stream);
    watch_start(gate, RETURNS_MS);
    expect("copy", cu.Memcpy2DAsync(&copy, stream), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 0);
    memset(source, 2, ROWS * ROW);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", byte_at(at + (ROWS - 1) * PITCH + ROW - 1), 2);
}

/* ---- memory of the program's own ------------------------------------------------------------ */

static unsigned char *pages_new(size_t bytes)
{
    unsigned char *pages = aligned_alloc(4096, bytes);
    need("memory", pages == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
    memset(pages, 1, bytes);
    return pages;
}

static void register_arguments(void)
{
    unsigned char *pages = pages_new(CHUNK);
    expect("null", cu.MemHostRegister(NULL, CHUNK, 0), CUDA_ERROR_INVALID_VALUE);
    expect("empty", cu.MemHostRegister(pages, 0, 0), CUDA_ERROR_INVALID_VALUE);
    expect("flags", cu.MemHostRegister(pages, CHUNK, 1024), CUDA_ERROR_INVALID_VALUE);
    expect("register", cu.MemHostRegister(pages, CHUNK, 0), CUDA_SUCCESS);
    expect("again", cu.MemHostRegister(pages, CHUNK, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    observe("inside", cu.MemHostRegister(pages + 4096, 4096, 0));
    observe("free", cu.MemFreeHost(pages));
    observe("end_inside", cu.MemHostUnregister(pages + 4096));
    expect("end", cu.MemHostUnregister(pages), CUDA_SUCCESS);
    expect("end_again", cu.MemHostUnregister(pages), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    expect("once_more", cu.MemHostRegister(pages, 4096, CU_MEMHOSTREGISTER_PORTABLE), CUDA_SUCCESS);
    expect("its_end", cu.MemHostUnregister(pages), CUDA_SUCCESS);
    free(pages);
}

/* It is pinned: read when the copy runs, and the device has its address. */
static void registered_source(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = chunk_mapped(CHUNK, NULL), mapped = 0;
    struct gate *gate = gate_new();
    unsigned char *pages = pages_new(CHUNK);
    unsigned type = 99;
    need("register", cu.MemHostRegister(pages, CHUNK, CU_MEMHOSTREGISTER_DEVICEMAP));
    expect("device", cu.MemHostGetDevicePointer(&mapped, pages, 0), CUDA_SUCCESS);
    observe_yes("same", mapped == (CUdeviceptr)(uintptr_t)pages);
    expect("type",
           cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  (CUdeviceptr)(uintptr_t)pages),
           CUDA_SUCCESS);
    expect_number("is", type, CU_MEMORYTYPE_HOST);
    gate_close(gate, stream);
    watch_start(gate, RETURNS_MS);
    expect("copy", cu.MemcpyHtoDAsync(at, pages, 1024, stream), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 0);
    memset(pages, 2, 1024);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("byte", byte_at(at + 1023), 2);
    expect("end", cu.MemHostUnregister(pages), CUDA_SUCCESS);
    expect("no_device", cu.MemHostGetDevicePointer(&mapped, pages, 0), CUDA_ERROR_INVALID_VALUE);
    free(pages);
}

/* Does the end wait for work that has nothing to do with it? */
static void unregister_and_work(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate *gate = gate_new();
    unsigned char *pages = pages_new(CHUNK);
    need("register", cu.MemHostRegister(pages, CHUNK, 0));
    gate_close(gate, stream);
    watch_start(gate, WAITS_MS);
    expect("end", cu.MemHostUnregister(pages), CUDA_SUCCESS);
    observe_yes("waited", watch_stop(gate));
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    free(pages);
}

/* ---- pointers ------------------------------------------------------------------------------- */

static void pointer_report(CUdeviceptr at)
{
    unsigned type = 99;
    int ordinal = -9;
    CUdeviceptr start = 0;
    size_t bytes = 0;
    CUcontext context = NULL;
    unsigned char managed[8] = {9};
    unsigned char mapped[8] = {9};
    unsigned access = 99;
    CUresult result = cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
    observe("type", result);
    observe_number("is", type);
    observe("ordinal", cu.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
    observe_number("is", (unsigned)(ordinal + 10));
    observe("context", cu.PointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
    observe_yes("null", context == NULL);
    observe("start", cu.PointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
    observe_number("before", start == 0 ? 0 : (unsigned long long)(at - start));
    observe("size", cu.PointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
    observe_number("is", bytes);
    observe("managed", cu.PointerGetAttribute(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
    observe_number("is", managed[0]);
    observe("mapped", cu.PointerGetAttribute(mapped, CU_POINTER_ATTRIBUTE_MAPPED, at));
    observe_number("is", mapped[0]);
    observe("access", cu.PointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at));
    observe_number("is", access);
    start = 0;
    bytes = 0;
    observe("range", cu.MemGetAddressRange(&start, &bytes, at));
    observe_number("before", start == 0 ? 0 : (unsigned long long)(at - start));
    observe_number("bytes", bytes);
}

static void pointer_of_vmm(void)
{
    CUdeviceptr at = reserve(4 * CHUNK);
    unsigned type = 99;
    need("map", cu.MemMap(at + CHUNK, CHUNK, 0, chunk_create(CHUNK), 0));
    need("map", cu.MemMap(at + 2 * CHUNK, CHUNK, 0, chunk_create(CHUNK), 0));
    need("access", set_access(at + CHUNK, 2 * CHUNK));
    expect("type",
           cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 2 * CHUNK + 100),
           CUDA_SUCCESS);
    expect_number("is", type, CU_MEMORYTYPE_DEVICE);
    pointer_report(at + 2 * CHUNK + 100);
}

static void pointer_of_reservation(void)
{
    pointer_report(reserve(4 * CHUNK) + 100);
}

static void pointer_of_block(void)
{
    CUdeviceptr at = 0;
    need("alloc", cu.MemAlloc(&at, 3 * CHUNK));
    pointer_report(at + 100);
}

/* How many bytes are written over two kinds of garbage, of which no answer can be both. */
static CUresult attribute_measured(int listed, CUpointer_attribute attribute, CUdeviceptr at,
                                   unsigned *bytes)
{
    _Alignas(16) unsigned char data[2][32];
    CUresult result = CUDA_SUCCESS;
    *bytes = 0;
    for (int i = 0; i < 2; i++) {
        void *to = data[i];
        memset(to, i == 0 ? 0xAB : 0x54, sizeof(data[i]));
        result = listed ? cu.PointerGetAttributes(1, &attribute, &to, at)
                        : cu.PointerGetAttribute(to, attribute, at);
    }
    for (unsigned i = 0; i < sizeof(data[0]); i++)
        *bytes = data[0][i] != 0xAB || data[1][i] != 0x54 ? i + 1 : *bytes;
    return result;
}

/* The size of each attribute of memory from cuMemAlloc, and which the two forms refuse. */
static void pointer_attribute_sizes(void)
{
    static const unsigned char sizes[] = {8, 4, 8, 8, 12, 4, 8, 4, 4, 4, 8,
                                          8, 4, 8, 4, 4,  8, 8, 8, 8, 4, 0};
    CUdeviceptr at = 0;
    need("alloc", cu.MemAlloc(&at, 1000));
    for (int listed = 0; listed < 2; listed++) {
        for (unsigned number = 1; number <= sizeof(sizes); number++) {
            char label[32];
            unsigned bytes;
            CUpointer_attribute attribute = (CUpointer_attribute)number;
            int refused = number == sizeof(sizes) ||
                          attribute == (listed ? CU_POINTER_ATTRIBUTE_P2P_TOKENS
                                               : CU_POINTER_ATTRIBUTE_HOST_POINTER);
            CUresult result = attribute_measured(listed != 0, attribute, at + 999, &bytes);
            snprintf(label, sizeof(label), "%s%u", listed ? "listed" : "single", number);
            if (listed && attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
                observe(label, result); /* of the one form only what it writes is known */
            else
                expect(label, result, refused ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
            expect_number("bytes", bytes, listed && refused ? 0 : sizes[number - 1]);
        }
    }
}

/* The same for mapped memory, as far as it is known: flags that programs read as four bytes. */
static void pointer_flag_sizes_of_vmm(void)
{
    static const CUpointer_attribute flags[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                                CU_POINTER_ATTRIBUTE_MAPPED};
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    for (int listed = 0; listed < 2; listed++) {
        for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
            unsigned bytes;
            CUresult result = attribute_measured(listed != 0, flags[i], at, &bytes);
            expect(i == 0 ? "managed" : "mapped", result, CUDA_SUCCESS);
            expect_number("bytes", bytes, 4);
        }
    }
}

static void pointer_of_pinned(void)
{
    void *at = NULL;
    need("alloc", cu.MemHostAlloc(&at, 3 * CHUNK, 0));
    pointer_report((uintptr_t)at + 100);
}

static void pointer_of_pageable(void)
{
    static int word;
    pointer_report((uintptr_t)&word);
}

const struct scenario memory_scenarios[] = {
    {"alloc_and_free", alloc_and_free, 0},
    {"mem_free_waits", mem_free_waits, 0},
    {"free_host_waits", free_host_waits, 0},
    {"host_alloc_waits", host_alloc_waits, 0},
    {"alloc_async", alloc_async, 0},
    {"pageable_source", pageable_source, 0},
    {"pinned_source", pinned_source, 0},
    {"pageable_target", pageable_target, 0},
    {"synchronous_calls", synchronous_calls, 0},
    {"synchronous_copy_and_others", synchronous_copy_and_other_streams, 0},
    {"copy_arguments", copy_arguments, 0},
    {"rows_apart", rows_apart, 0},
    {"rows_arguments", rows_arguments, 0},
    {"rows_async", rows_async, 0},
    {"register_arguments", register_arguments, 0},
    {"registered_source", registered_source, 0},
    {"unregister_and_work", unregister_and_work, 0},
    {"pointer_of_vmm", pointer_of_vmm, 0},
    {"pointer_of_reservation", pointer_of_reservation, 0},
    {"pointer_of_block", pointer_of_block, 0},
    {"pointer_attribute_sizes", pointer_attribute_sizes, 0},
    {"pointer_flag_sizes_of_vmm", pointer_flag_sizes_of_vmm, 0},
    {"pointer_of_pinned", pointer_of_pinned, 0},
    {"pointer_of_pageable", pointer_of_pageable, 0},
    {NULL, NULL, 0},
};
