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
    {"pointer_of_vmm", pointer_of_vmm, 0},
    {"pointer_of_reservation", pointer_of_reservation, 0},
    {"pointer_of_block", pointer_of_block, 0},
    {"pointer_attribute_sizes", pointer_attribute_sizes, 0},
    {"pointer_flag_sizes_of_vmm", pointer_flag_sizes_of_vmm, 0},
    {"pointer_of_pinned", pointer_of_pinned, 0},
    {"pointer_of_pageable", pointer_of_pageable, 0},
    {NULL, NULL, 0},
};
