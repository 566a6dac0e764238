/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: virtual memory management. What is expected here was measured on an H200. */
#include "scenario.h"

#include <string.h>
#include <unistd.h>

static void granularity(void)
{
    size_t minimum = 0;
    size_t recommended = 0;
    CUmemAllocationProp property = chunk_property();
    expect("minimum",
           cu.MemGetAllocationGranularity(&minimum, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
           CUDA_SUCCESS);
    expect_number("bytes", minimum, CHUNK);
    expect("recommended",
           cu.MemGetAllocationGranularity(&recommended, &property,
                                          CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
           CUDA_SUCCESS);
    expect_number("bytes", recommended, CHUNK);
    expect("null_property", cu.MemGetAllocationGranularity(&minimum, NULL, 0),
           CUDA_ERROR_INVALID_VALUE);
    expect("null_result", cu.MemGetAllocationGranularity(NULL, &property, 0),
           CUDA_ERROR_INVALID_VALUE);
    expect("bad_option", cu.MemGetAllocationGranularity(&minimum, &property, 77),
           CUDA_ERROR_INVALID_VALUE);
    property.location.id = 1000;
    expect("bad_device", cu.MemGetAllocationGranularity(&minimum, &property, 0), CUDA_SUCCESS);
}

static void create_arguments(void)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp property = chunk_property();
    size_t total = 0;
    need("total", cu.DeviceTotalMem(&total, 0));
    expect("unaligned", cu.MemCreate(&handle, MIB, &property, 0), CUDA_ERROR_INVALID_VALUE);
    expect("empty", cu.MemCreate(&handle, 0, &property, 0), CUDA_ERROR_INVALID_VALUE);
    expect("null_result", cu.MemCreate(NULL, CHUNK, &property, 0), CUDA_ERROR_INVALID_VALUE);
    expect("null_property", cu.MemCreate(&handle, CHUNK, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    expect("flags", cu.MemCreate(&handle, CHUNK, &property, 1), CUDA_ERROR_INVALID_VALUE);
    expect("too_much",
           cu.MemCreate(&handle, (total + CHUNK) / CHUNK * CHUNK + 64 * CHUNK, &property, 0),
           CUDA_ERROR_OUT_OF_MEMORY);
    property.location.id = 1000;
    expect("bad_device", cu.MemCreate(&handle, CHUNK, &property, 0), CUDA_ERROR_INVALID_DEVICE);
    property.location.id = 0;
    property.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    expect("bad_type", cu.MemCreate(&handle, CHUNK, &property, 0), CUDA_ERROR_INVALID_VALUE);
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    expect("bad_location", cu.MemCreate(&handle, CHUNK, &property, 0), CUDA_ERROR_INVALID_VALUE);
}

static void reserve_arguments(void)
{
    CUdeviceptr at = 0;
    CUdeviceptr hint = 0;
    expect("null", cu.MemAddressReserve(NULL, CHUNK, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    expect("empty", cu.MemAddressReserve(&at, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    expect("unaligned", cu.MemAddressReserve(&at, MIB, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    expect("flags", cu.MemAddressReserve(&at, CHUNK, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
    expect("odd_alignment", cu.MemAddressReserve(&at, CHUNK, 3 * MIB, 0, 0),
           CUDA_ERROR_INVALID_VALUE);
    expect("small_alignment", cu.MemAddressReserve(&at, CHUNK, 4096, 0, 0), CUDA_SUCCESS);
    expect("large", cu.MemAddressReserve(&at, (size_t)8 << 40, 0, 0, 0), CUDA_SUCCESS);
    expect_yes("large_aligned", at % CHUNK == 0, 1);
    expect("free_part", cu.MemAddressFree(at, CHUNK), CUDA_ERROR_INVALID_VALUE);
    expect("free", cu.MemAddressFree(at, (size_t)8 << 40), CUDA_SUCCESS);
    expect("free_again", cu.MemAddressFree(at, (size_t)8 << 40), CUDA_ERROR_INVALID_VALUE);
    need("reserve", cu.MemAddressReserve(&hint, 4 * CHUNK, 0, 0, 0));
    need("free", cu.MemAddressFree(hint, 4 * CHUNK));
    expect("hinted", cu.MemAddressReserve(&at, 4 * CHUNK, 0, hint, 0), CUDA_SUCCESS);
    observe_yes("hint_taken", at == hint);
    expect("aligned", cu.MemAddressReserve(&at, CHUNK, (size_t)1 << 30, 0, 0), CUDA_SUCCESS);
    expect_yes("is_aligned", at % ((size_t)1 << 30) == 0, 1);
}

/* A handle is mapped whole. */
static void map_whole_only(void)
{
    CUmemGenericAllocationHandle handle = chunk_create(2 * CHUNK);
    CUdeviceptr at = reserve(8 * CHUNK);
    expect("part", cu.MemMap(at, CHUNK, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    expect("offset", cu.MemMap(at, CHUNK, CHUNK, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    expect("too_large", cu.MemMap(at, 4 * CHUNK, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    expect("flags", cu.MemMap(at, 2 * CHUNK, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
    expect("unaligned_address", cu.MemMap(at + MIB, 2 * CHUNK, 0, handle, 0),
           CUDA_ERROR_INVALID_VALUE);
    expect("unaligned_size", cu.MemMap(at, CHUNK + MIB, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    observe("beyond_reservation", cu.MemMap(at + 7 * CHUNK, 2 * CHUNK, 0, handle, 0));
    expect("whole", cu.MemMap(at, 2 * CHUNK, 0, handle, 0), CUDA_SUCCESS);
    expect("same_place", cu.MemMap(at, 2 * CHUNK, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    expect("overlapping", cu.MemMap(at + CHUNK, 2 * CHUNK, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    expect("second_address", cu.MemMap(at + 4 * CHUNK, 2 * CHUNK, 0, handle, 0), CUDA_SUCCESS);
}

static void unmap_whole_only(void)
{
    CUmemGenericAllocationHandle large = chunk_create(2 * CHUNK);
    CUmemGenericAllocationHandle small = chunk_create(CHUNK);
    CUdeviceptr at = reserve(8 * CHUNK);
    need("map", cu.MemMap(at, 2 * CHUNK, 0, large, 0));
    need("map", cu.MemMap(at + 2 * CHUNK, CHUNK, 0, small, 0));
    need("access", set_access(at, 3 * CHUNK));
    expect("first_half", cu.MemUnmap(at, CHUNK), CUDA_ERROR_INVALID_VALUE);
    expect("second_half", cu.MemUnmap(at + CHUNK, CHUNK), CUDA_ERROR_INVALID_VALUE);
    expect("half_and_whole", cu.MemUnmap(at + CHUNK, 2 * CHUNK), CUDA_ERROR_INVALID_VALUE);
    expect("empty", cu.MemUnmap(at, 0), CUDA_ERROR_INVALID_VALUE);
    expect("unmapped", cu.MemUnmap(at + 4 * CHUNK, CHUNK), CUDA_SUCCESS);
    expect("many", cu.MemUnmap(at, 3 * CHUNK), CUDA_SUCCESS);
    expect("again", cu.MemUnmap(at, 3 * CHUNK), CUDA_SUCCESS);
}

static void unmap_with_holes(void)
{
    CUmemGenericAllocationHandle handle = chunk_create(CHUNK);
    CUdeviceptr at = reserve(4 * CHUNK);
    need("map", cu.MemMap(at, CHUNK, 0, handle, 0));
    need("map", cu.MemMap(at + 2 * CHUNK, CHUNK, 0, handle, 0));
    expect("hole_between", cu.MemUnmap(at, 3 * CHUNK), CUDA_SUCCESS);
    expect("first_is_left", cu.MemUnmap(at, CHUNK), CUDA_SUCCESS);
    expect("hole_after", cu.MemUnmap(at + 2 * CHUNK, 2 * CHUNK), CUDA_SUCCESS);
    expect("second_is_left", cu.MemUnmap(at + 2 * CHUNK, CHUNK), CUDA_SUCCESS);
}

static void set_access_ranges(void)
{
    CUdeviceptr at = reserve(8 * CHUNK);
    CUmemAccessDesc access;
    memset(&access, 0, sizeof(access));
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (size_t i = 0; i < 4; i++)
        need("map", cu.MemMap(at + i * CHUNK, CHUNK, 0, chunk_create(CHUNK), 0));
    need("map", cu.MemMap(at + 5 * CHUNK, 2 * CHUNK, 0, chunk_create(2 * CHUNK), 0));
    unsigned long long flags = 99;
    expect("get_before", cu.MemGetAccess(&flags, &access.location, at), CUDA_SUCCESS);
    expect_number("flags_before", flags, 0);
    expect("several", cu.MemSetAccess(at, 4 * CHUNK, &access, 1), CUDA_SUCCESS);
    expect("get", cu.MemGetAccess(&flags, &access.location, at + 3 * CHUNK), CUDA_SUCCESS);
    expect_number("flags", flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    expect("with_hole", cu.MemSetAccess(at, 8 * CHUNK, &access, 1), CUDA_ERROR_INVALID_VALUE);
    expect("half_of_mapping", cu.MemSetAccess(at + 5 * CHUNK, CHUNK, &access, 1),
           CUDA_ERROR_INVALID_VALUE);
    expect("unmapped", cu.MemSetAccess(at + 4 * CHUNK, CHUNK, &access, 1),
           CUDA_ERROR_INVALID_VALUE);
    expect("get_unmapped", cu.MemGetAccess(&flags, &access.location, at + 4 * CHUNK),
           CUDA_ERROR_INVALID_VALUE);
    expect("null", cu.MemSetAccess(at, CHUNK, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    expect("none", cu.MemSetAccess(at, CHUNK, &access, 0), CUDA_ERROR_INVALID_VALUE);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    expect("take_away", cu.MemSetAccess(at, CHUNK, &access, 1), CUDA_SUCCESS);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    expect("read_only", cu.MemSetAccess(at, CHUNK, &access, 1), CUDA_SUCCESS);
    access.location.id = 1000;
    expect("bad_device", cu.MemSetAccess(at, CHUNK, &access, 1), CUDA_ERROR_INVALID_VALUE);
}

/* One handle at two addresses is one memory. */
static void alias(void)
{
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr first = chunk_mapped(CHUNK, &handle);
    CUdeviceptr second = reserve(CHUNK);
    expect("map_again", cu.MemMap(second, CHUNK, 0, handle, 0), CUDA_SUCCESS);
    expect("access_again", set_access(second, CHUNK), CUDA_SUCCESS);
    expect("set", cu.MemsetD8(first, 0x5a, CHUNK), CUDA_SUCCESS);
    expect_number("byte", byte_at(second + CHUNK - 1), 0x5a);
    expect("unmap_first", cu.MemUnmap(first, CHUNK), CUDA_SUCCESS);
    expect_number("byte_after", byte_at(second), 0x5a);
}

/* A chunk moves to a second address while work on its first one is still held back. */
static void alias_without_wait(void)
{
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr first = chunk_mapped(CHUNK, &handle);
    CUdeviceptr second = reserve(CHUNK);
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event = event_new(CU_EVENT_DISABLE_TIMING);
    struct gate *gate = gate_new();
    gate_close(gate, stream);
    expect("set_first", cu.MemsetD8Async(first, 1, CHUNK, stream), CUDA_SUCCESS);
    watch_start(gate, RETURNS_MS);
    expect("map", cu.MemMap(second, CHUNK, 0, handle, 0), CUDA_SUCCESS);
    expect("access", set_access(second, CHUNK), CUDA_SUCCESS);
    expect("set_second", cu.MemsetD8Async(second, 2, CHUNK / 2, stream), CUDA_SUCCESS);
    expect("record", cu.EventRecord(event, stream), CUDA_SUCCESS);
    expect("query", cu.EventQuery(event), CUDA_ERROR_NOT_READY);
    expect_yes("waited", watch_stop(gate), 0);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
    expect_number("low", byte_at(first), 2);
    expect_number("high", byte_at(second + CHUNK - 1), 1);
    expect("unmap_first", cu.MemUnmap(first, CHUNK), CUDA_SUCCESS);
    expect_number("low_after", byte_at(second), 2);
}

static void release_while_mapped(void)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemGenericAllocationHandle again = 0;
    CUdeviceptr at = chunk_mapped(CHUNK, &handle);
    expect("set", cu.MemsetD8(at, 7, CHUNK), CUDA_SUCCESS);
    expect("release", cu.MemRelease(handle), CUDA_SUCCESS);
    expect_number("byte", byte_at(at), 7);
    expect("retain", cu.MemRetainAllocationHandle(&again, (void *)(uintptr_t)at), CUDA_SUCCESS);
    expect_yes("same_handle", again == handle, 1);
    expect("release_retained", cu.MemRelease(again), CUDA_SUCCESS);
    expect("unmap", cu.MemUnmap(at, CHUNK), CUDA_SUCCESS);
    expect("retain_unmapped", cu.MemRetainAllocationHandle(&again, (void *)(uintptr_t)at),
           CUDA_ERROR_INVALID_VALUE);
}

static void release_twice(void)
{
    CUmemGenericAllocationHandle handle = chunk_create(CHUNK);
    expect("release", cu.MemRelease(handle), CUDA_SUCCESS);
    expect("again", cu.MemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

static void free_mapped_reservation(void)
{
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    expect("free", cu.MemAddressFree(at, CHUNK), CUDA_ERROR_INVALID_VALUE);
}

/* With another stream held back, nothing of this waits. */
static void calls_that_do_not_wait(void)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp property = chunk_property();
    CUdeviceptr spare = chunk_mapped(CHUNK, NULL);
    CUdeviceptr at = reserve(CHUNK);
    CUdeviceptr block = 0;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate *gate = gate_new();
    gate_close(gate, stream);
    need("work", cu.MemsetD8Async(spare, 1, 16, stream));
    watch_start(gate, RETURNS_MS);
    expect("create", cu.MemCreate(&handle, CHUNK, &property, 0), CUDA_SUCCESS);
    expect("map", cu.MemMap(at, CHUNK, 0, handle, 0), CUDA_SUCCESS);
    expect("access", set_access(at, CHUNK), CUDA_SUCCESS);
    expect("unmap", cu.MemUnmap(at, CHUNK), CUDA_SUCCESS);
    expect("release", cu.MemRelease(handle), CUDA_SUCCESS);
    expect("address_free", cu.MemAddressFree(at, CHUNK), CUDA_SUCCESS);
    expect("mem_alloc", cu.MemAlloc(&block, CHUNK), CUDA_SUCCESS);
    expect("alloc_async", cu.MemAllocAsync(&block, CHUNK, other), CUDA_SUCCESS);
    expect("free_async", cu.MemFreeAsync(block, other), CUDA_SUCCESS);
    expect_yes("waited", watch_stop(gate), 0);
    expect("query", cu.StreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    expect("sync", cu.StreamSynchronize(stream), CUDA_SUCCESS);
}

static void share_in_process(void)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemGenericAllocationHandle imported = 0;
    CUdeviceptr at = chunk_mapped(CHUNK, &handle);
    CUdeviceptr second = reserve(CHUNK);
    int descriptor = -1;
    expect("set", cu.MemsetD8(at, 0x33, CHUNK), CUDA_SUCCESS);
    expect("export",
           cu.MemExportToShareableHandle(&descriptor, handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
           CUDA_SUCCESS);
    expect("import",
           cu.MemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
           CUDA_SUCCESS);
    expect_yes("same_handle", imported == handle, 0);
    expect("close", close(descriptor) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM,
           CUDA_SUCCESS);
    expect("map", cu.MemMap(second, CHUNK, 0, imported, 0), CUDA_SUCCESS);
    expect("access", set_access(second, CHUNK), CUDA_SUCCESS);
    expect_number("byte", byte_at(second), 0x33);
    expect("release", cu.MemRelease(handle), CUDA_SUCCESS);
    expect("release_imported", cu.MemRelease(imported), CUDA_SUCCESS);
}

static void memory_accounting(void)
{
    size_t before = 0;
    size_t after = 0;
    size_t total = 0;
    need("info", cu.MemGetInfo(&before, &total));
    CUmemGenericAllocationHandle handle = chunk_create(64 * CHUNK);
    need("info", cu.MemGetInfo(&after, &total));
    expect_yes("charged", before - after >= 64 * CHUNK, 1);
    expect_number("chunks", (before - after) / CHUNK, 64);
    expect("release", cu.MemRelease(handle), CUDA_SUCCESS);
    need("info", cu.MemGetInfo(&after, &total));
    expect_yes("given_back", before == after, 1);
}

/* Work on memory that is mapped without access: where does the error show? */
static void no_access(void)
{
    CUdeviceptr at = reserve(CHUNK);
    need("map", cu.MemMap(at, CHUNK, 0, chunk_create(CHUNK), 0));
    expect("set", cu.MemsetD8Async(at, 1, 16, NULL), CUDA_ERROR_INVALID_VALUE);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS);
    expect("after", cu.CtxSynchronize(), CUDA_SUCCESS);
}

static void not_mapped(void)
{
    CUdeviceptr at = reserve(CHUNK);
    unsigned char byte = 0;
    expect("set", cu.MemsetD8Async(at, 1, 16, NULL), CUDA_ERROR_INVALID_VALUE);
    expect("copy", cu.MemcpyDtoH(&byte, at, 1), CUDA_ERROR_INVALID_VALUE);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS);
}

/* A range that ends beyond its mapping. */
static void overrun(void)
{
    CUdeviceptr at = reserve(2 * CHUNK);
    need("map", cu.MemMap(at, CHUNK, 0, chunk_create(CHUNK), 0));
    need("access", set_access(at, CHUNK));
    expect("set", cu.MemsetD8Async(at + CHUNK - 8, 1, 16, NULL), CUDA_ERROR_INVALID_VALUE);
    expect("sync", cu.CtxSynchronize(), CUDA_SUCCESS);
}

const struct scenario vmm_scenarios[] = {
    {"granularity", granularity, 0},
    {"create_arguments", create_arguments, 0},
    {"reserve_arguments", reserve_arguments, 0},
    {"map_whole_only", map_whole_only, 0},
    {"unmap_whole_only", unmap_whole_only, 0},
    {"unmap_with_holes", unmap_with_holes, 0},
    {"set_access_ranges", set_access_ranges, 0},
    {"alias", alias, 0},
    {"alias_without_wait", alias_without_wait, 0},
    {"release_while_mapped", release_while_mapped, 0},
    {"release_twice", release_twice, 0},
    {"free_mapped_reservation", free_mapped_reservation, 0},
    {"calls_that_do_not_wait", calls_that_do_not_wait, 0},
    {"share_in_process", share_in_process, 0},
    {"memory_accounting", memory_accounting, 0},
    {"no_access", no_access, 0},
    {"not_mapped", not_mapped, 0},
    {"overrun", overrun, 0},
    {NULL, NULL, 0},
};
