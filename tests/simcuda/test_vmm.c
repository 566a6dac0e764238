/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management of the simulated device: the measured facts, and its own strictness.
 *
 * Seen to fail: memory_known (share.c) that takes memory of another process for its own, since it
 * lies at the same place of that one's file: test_share_of_two_processes.
 */
#include "fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int start(void **state)
{
    (void)state;
    fixture_start("RESERVE=64G", NULL);
    return 0;
}

static void test_granularity(void **state)
{
    (void)state;
    CUmemAllocationProp property = device_property(0);
    size_t bytes = 0;
    assert_ok(cuMemGetAllocationGranularity(&bytes, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(bytes, CHUNK);
    bytes = 0;
    assert_ok(
        cuMemGetAllocationGranularity(&bytes, &property, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    assert_int_equal(bytes, CHUNK);
    assert_result(cuMemGetAllocationGranularity(NULL, &property, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemGetAllocationGranularity(&bytes, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    property.location.id = 7; /* not looked at, on real devices too */
    assert_ok(cuMemGetAllocationGranularity(&bytes, &property, 0));
}

static void test_create_refuses(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp property = device_property(0);
    assert_result(cuMemCreate(NULL, CHUNK, &property, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemCreate(&handle, CHUNK, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemCreate(&handle, 0, &property, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemCreate(&handle, MIB, &property, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemCreate(&handle, CHUNK, &property, 1), CUDA_ERROR_INVALID_VALUE);
    property.type = 0;
    assert_result(cuMemCreate(&handle, CHUNK, &property, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(handle, 0);
}

static void test_memory_limit(void **state)
{
    (void)state;
    fixture_start("MEMORY=8M", NULL);
    CUmemAllocationProp property = device_property(0);
    CUmemGenericAllocationHandle handle[4];
    CUmemGenericAllocationHandle more = 0;
    size_t room = 0;
    size_t total = 0;
    for (int i = 0; i < 4; i++)
        handle[i] = chunk_create(CHUNK);
    assert_result(cuMemCreate(&more, CHUNK, &property, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemGetInfo(&room, &total));
    assert_int_equal(room, 0);
    assert_int_equal(total, 8 * MIB);
    assert_ok(cuMemRelease(handle[0]));
    assert_ok(cuMemCreate(&more, CHUNK, &property, 0));
    assert_result(cuMemCreate(&handle[0], CHUNK, &property, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_reserve(void **state)
{
    (void)state;
    CUdeviceptr at = 0;
    assert_result(cuMemAddressReserve(NULL, CHUNK, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemAddressReserve(&at, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemAddressReserve(&at, MIB, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemAddressReserve(&at, CHUNK, 3 * MIB, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemAddressReserve(&at, CHUNK, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemAddressReserve(&at, 4 * CHUNK, 64 * MIB, 0, 0));
    assert_int_equal(at % (64 * MIB), 0);
    assert_result(cuMemAddressFree(at, CHUNK), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemAddressFree(at + CHUNK, 3 * CHUNK), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemAddressFree(at, 4 * CHUNK));
    assert_result(cuMemAddressFree(at, 4 * CHUNK), CUDA_ERROR_INVALID_VALUE);
    /* The limit of 64 GiB is on all reservations together. */
    CUdeviceptr half = reserve((size_t)40 << 30);
    assert_result(cuMemAddressReserve(&at, (size_t)40 << 30, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemAddressFree(half, (size_t)40 << 30));
}

/* Eight devices of 8 TiB each: the address plan of a large host. */
static void test_reserve_eight_devices(void **state)
{
    (void)state;
    fixture_start("DEVICES=8", NULL);
    size_t each = (size_t)8 << 40;
    CUdeviceptr at[8];
    CUresult result = cuMemAddressReserve(&at[0], each, 0, 0, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        skip(); /* Valgrind and ThreadSanitizer leave too little address space */
    assert_ok(result);
    for (int i = 1; i < 8; i++) {
        assert_ok(cuMemAddressReserve(&at[i], each, 0, 0, 0));
        for (int j = 0; j < i; j++)
            assert_true(at[i] >= at[j] + each || at[j] >= at[i] + each);
        assert_true(at[i] + each <= (CUdeviceptr)1 << 47);
    }
    for (int i = 0; i < 8; i++)
        assert_ok(cuMemAddressFree(at[i], each));
}

static void test_map_whole_only(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = chunk_create(2 * CHUNK);
    CUdeviceptr at = reserve(4 * CHUNK);
    assert_result(cuMemMap(at, CHUNK, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_result(cuMemMap(at, CHUNK, CHUNK, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_result(cuMemMap(at, 2 * CHUNK, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemMap(at + MIB, 2 * CHUNK, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemMap(at + 3 * CHUNK, 2 * CHUNK, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemMap(at, 2 * CHUNK, 0, 12345, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemMap(0, 2 * CHUNK, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemMap(at, 2 * CHUNK, 0, handle, 0));
    assert_result(cuMemMap(at, 2 * CHUNK, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemMap(at + CHUNK, 2 * CHUNK, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemMap(at + 2 * CHUNK, 2 * CHUNK, 0, handle, 0));
    assert_ok(cuMemUnmap(at, 4 * CHUNK));
}

static void test_unmap_whole_only(void **state)
{
    (void)state;
    CUdeviceptr at = reserve(4 * CHUNK);
    CUmemGenericAllocationHandle large = chunk_create(2 * CHUNK);
    CUmemGenericAllocationHandle small = chunk_create(CHUNK);
    assert_ok(cuMemMap(at, 2 * CHUNK, 0, large, 0));
    assert_ok(cuMemMap(at + 2 * CHUNK, CHUNK, 0, small, 0));
    assert_result(cuMemUnmap(at, CHUNK), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemUnmap(at + CHUNK, CHUNK), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemUnmap(at + CHUNK, 2 * CHUNK), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemUnmap(at, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemUnmap(at, 5 * CHUNK), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_violations(), 0);
    /* One call over several whole mappings. */
    assert_ok(cuMemUnmap(at, 3 * CHUNK));
    assert_int_equal(simcuda_violations(), 0);
    /* Where nothing is mapped the driver says nothing; the simulation does. */
    assert_ok(cuMemUnmap(at, 3 * CHUNK));
    assert_int_equal(simcuda_violations(), 1);
    assert_non_null(strstr(simcuda_violation_last(), "3 granules of it are not mapped"));
    assert_ok(cuMemMap(at + CHUNK, CHUNK, 0, small, 0));
    assert_ok(cuMemUnmap(at, 4 * CHUNK));
    assert_int_equal(simcuda_violations(), 2);
    assert_ok(cuMemAddressFree(at, 4 * CHUNK));
}

static void test_set_access_needs_mappings(void **state)
{
    (void)state;
    CUdeviceptr at = reserve(4 * CHUNK);
    CUmemAccessDesc access;
    memset(&access, 0, sizeof(access));
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (int i = 0; i < 3; i++) {
        CUmemGenericAllocationHandle handle = chunk_create(CHUNK);
        assert_ok(cuMemMap(at + (size_t)i * CHUNK, CHUNK, 0, handle, 0));
        assert_ok(cuMemRelease(handle));
    }
    assert_result(cuMemSetAccess(at, 4 * CHUNK, &access, 1), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemSetAccess(at, CHUNK, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemSetAccess(at, CHUNK, &access, 0), CUDA_ERROR_INVALID_VALUE);
    unsigned long long flags = 99;
    assert_ok(cuMemGetAccess(&flags, &access.location, at));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    assert_ok(cuMemSetAccess(at, 3 * CHUNK, &access, 1));
    assert_ok(cuMemGetAccess(&flags, &access.location, at + 2 * CHUNK));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    access.location.id = 3;
    assert_result(cuMemSetAccess(at, CHUNK, &access, 1), CUDA_ERROR_INVALID_VALUE);
}

static void test_alias(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr first = chunk_mapped(CHUNK, &handle);
    CUdeviceptr second = reserve(CHUNK);
    assert_ok(cuMemMap(second, CHUNK, 0, handle, 0));
    chunk_access(second, CHUNK);
    unsigned char byte = 0;
    assert_ok(cuMemsetD8(first, 0x5a, CHUNK));
    assert_ok(cuMemcpyDtoH(&byte, second + CHUNK - 1, 1));
    assert_int_equal(byte, 0x5a);
    /* The memory lives through the release and the end of its first mapping. */
    assert_ok(cuMemRelease(handle));
    chunk_unmapped(first, CHUNK);
    byte = 0;
    assert_ok(cuMemcpyDtoH(&byte, second, 1));
    assert_int_equal(byte, 0x5a);
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 1);
    chunk_unmapped(second, CHUNK);
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 0);
    assert_int_equal(live.used_bytes, 0);
    assert_int_equal(simcuda_violations(), 0);
}

static void touch(void *data)
{
    volatile unsigned char *byte = data;
    *byte = (unsigned char)(*byte + 1);
}

static void test_faults(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = chunk_create(CHUNK);
    CUdeviceptr at = reserve(CHUNK);
    void *byte = (void *)(uintptr_t)at;
    assert_false(survives(touch, byte)); /* reserved */
    assert_ok(cuMemMap(at, CHUNK, 0, handle, 0));
    assert_false(survives(touch, byte)); /* mapped, no access */
    chunk_access(at, CHUNK);
    assert_true(survives(touch, byte));
    assert_ok(cuMemUnmap(at, CHUNK));
    assert_false(survives(touch, byte)); /* unmapped */
}

static void test_double_release(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = chunk_create(CHUNK);
    assert_ok(cuMemRelease(handle));
    assert_int_equal(simcuda_violations(), 0);
    assert_result(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_violations(), 1);
    assert_non_null(strstr(simcuda_violation_last(), "released before"));
    /* Not even when the place in the table has a new handle. */
    CUmemGenericAllocationHandle next = chunk_create(CHUNK);
    assert_int_not_equal(next, handle);
    assert_result(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_violations(), 2);
}

static void test_retain(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = 0;
    CUmemGenericAllocationHandle again = 0;
    CUdeviceptr at = chunk_mapped(CHUNK, &handle);
    assert_ok(cuMemRelease(handle));
    assert_ok(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 5)));
    CUmemAllocationProp property;
    assert_ok(cuMemGetAllocationPropertiesFromHandle(&property, again));
    assert_int_equal(property.location.id, 0);
    assert_int_equal(property.type, CU_MEM_ALLOCATION_TYPE_PINNED);
    assert_ok(cuMemRelease(again));
    assert_ok(cuMemUnmap(at, CHUNK));
    assert_result(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at),
                  CUDA_ERROR_INVALID_VALUE);
}

static void test_free_of_mapped_reservation(void **state)
{
    (void)state;
    CUdeviceptr at = chunk_mapped(CHUNK, NULL);
    assert_result(cuMemAddressFree(at, CHUNK), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_violations(), 1);
    chunk_unmapped(at, CHUNK);
    assert_int_equal(simcuda_violations(), 1);
}

/* Blocks that the simulation's memory file really has, in bytes. */
static uint64_t file_bytes(void)
{
    uint64_t bytes = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        char path[300];
        char target[300];
        struct stat info;
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        if (strstr(target, "memfd:simcuda") != NULL && stat(path, &info) == 0)
            bytes += (uint64_t)info.st_blocks * 512;
    }
    closedir(directory);
    return bytes;
}

static void test_pages_are_given_back(void **state)
{
    (void)state;
    CUdeviceptr at = chunk_mapped(8 * CHUNK, NULL);
    assert_ok(cuMemsetD8(at, 1, 8 * CHUNK));
    assert_ok(cuCtxSynchronize());
    assert_true(file_bytes() >= 8 * CHUNK);
    chunk_unmapped(at, 8 * CHUNK);
    assert_true(file_bytes() < CHUNK);
}

/* Handles mapped in the order of their creation are one mapping to the kernel. */
static void test_kernel_mappings(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    CUdeviceptr at = reserve(COUNT * CHUNK);
    uint64_t before = simcuda_linux_mappings();
    for (size_t i = 0; i < COUNT; i++) {
        CUmemGenericAllocationHandle handle = chunk_create(CHUNK);
        assert_ok(cuMemMap(at + i * CHUNK, CHUNK, 0, handle, 0));
        chunk_access(at + i * CHUNK, CHUNK);
        assert_ok(cuMemRelease(handle));
    }
    assert_true(simcuda_linux_mappings() < before + 20);
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.mappings, COUNT);
    assert_int_equal(live.mapped_bytes, COUNT * CHUNK);
    assert_ok(cuMemUnmap(at, COUNT * CHUNK));
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.mappings, 0);
}

/* One cuMemSetAccess and one read over handles that are mapped out of order. */
static void test_access_over_shuffled_handles(void **state)
{
    (void)state;
    enum { COUNT = 7 };
    CUmemGenericAllocationHandle handle[COUNT];
    CUdeviceptr at = reserve(COUNT * CHUNK);
    for (int i = 0; i < COUNT; i++)
        handle[i] = chunk_create(CHUNK);
    for (size_t i = 0; i < COUNT; i++)
        assert_ok(cuMemMap(at + i * CHUNK, CHUNK, 0, handle[i * 3 % COUNT], 0));
    chunk_access(at, COUNT * CHUNK);
    for (size_t i = 0; i < COUNT; i++)
        assert_ok(cuMemsetD32(at + i * CHUNK, 1000 + (unsigned)i, CHUNK / 4));
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t word = 0;
        assert_ok(cuMemcpyDtoH(&word, at + (i + 1) * CHUNK - 4, 4));
        assert_int_equal(word, 1000 + i);
    }
    assert_int_equal(simcuda_violations(), 0);
}

struct import {
    int descriptor;
    int expected;
};

/* In a child: another process's simulation, which sees the memory only through the descriptor. */
static void import_and_read(void *data)
{
    const struct import *import = data;
    (void)simcuda_reset();
    fixture_start("RESERVE=64G", NULL);
    CUmemGenericAllocationHandle handle = 0;
    assert_ok(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)import->descriptor,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CUdeviceptr at = reserve(CHUNK);
    assert_ok(cuMemMap(at, CHUNK, 0, handle, 0));
    chunk_access(at, CHUNK);
    unsigned char byte = 0;
    assert_ok(cuMemcpyDtoH(&byte, at + 77, 1));
    if (byte != import->expected)
        _exit(1);
    assert_ok(cuMemsetD8(at, (unsigned char)(import->expected + 1), CHUNK));
    assert_ok(cuCtxSynchronize());
    chunk_unmapped(at, CHUNK);
    assert_ok(cuMemRelease(handle));
}

static void test_share(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = chunk_mapped(CHUNK, &handle);
    struct import import = {-1, 0x21};
    assert_ok(cuMemsetD8(at, 0x21, CHUNK));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemExportToShareableHandle(&import.descriptor, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_true(import.descriptor >= 0);
    assert_true(survives(import_and_read, &import));
    unsigned char byte = 0;
    assert_ok(cuMemcpyDtoH(&byte, at, 1));
    assert_int_equal(byte, 0x22);
    /* An exported descriptor alone keeps the memory alive. */
    chunk_unmapped(at, CHUNK);
    assert_ok(cuMemRelease(handle));
    import.expected = 0x22;
    assert_true(survives(import_and_read, &import));
    close(import.descriptor);
}

/* In a child: it has memory of its parent, and then exports memory of its own, which lies at the
 * same place of another file. What it imports again is its own. */
static void import_beside_own(void *data)
{
    const struct import *import = data;
    (void)simcuda_reset();
    fixture_start("RESERVE=64G", NULL);
    CUmemGenericAllocationHandle theirs = 0, own = 0, again = 0;
    int exported = -1;
    assert_ok(cuMemImportFromShareableHandle(&theirs, (void *)(intptr_t)import->descriptor,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CUdeviceptr at = chunk_mapped(CHUNK, &own);
    assert_ok(cuMemsetD8(at, 0x43, CHUNK));
    assert_ok(
        cuMemExportToShareableHandle(&exported, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_ok(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)exported,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(exported);
    CUdeviceptr there = reserve(CHUNK);
    assert_ok(cuMemMap(there, CHUNK, 0, again, 0));
    chunk_access(there, CHUNK);
    unsigned char byte = 0;
    assert_ok(cuMemcpyDtoH(&byte, there, 1));
    if (byte != 0x43)
        _exit(1);
}

static void test_share_of_two_processes(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = chunk_mapped(CHUNK, &handle);
    struct import import = {-1, 0};
    assert_ok(cuMemsetD8(at, 0x21, CHUNK));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemExportToShareableHandle(&import.descriptor, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    assert_true(survives(import_beside_own, &import));
    close(import.descriptor);
    chunk_unmapped(at, CHUNK);
    assert_ok(cuMemRelease(handle));
}

static void test_share_refuses(void **state)
{
    (void)state;
    CUmemGenericAllocationHandle handle = chunk_create(CHUNK);
    CUmemGenericAllocationHandle imported = 0;
    int descriptor = -1;
    assert_result(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_WIN32, 0),
                  CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)1234,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                  CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemExportToShareableHandle(&descriptor, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    /* Importing one's own memory gives another handle of the same memory. */
    assert_ok(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    assert_true(imported != handle);
    simcuda_live live;
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 1);
    assert_int_equal(live.handle_references, 2);
    assert_int_equal(live.handle_bytes, CHUNK);
    assert_int_equal(live.used_bytes, CHUNK);
    assert_ok(cuMemRelease(handle));
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 1);
    assert_int_equal(live.used_bytes, CHUNK);
    assert_result(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_violations(), 1);
    assert_ok(cuMemRelease(imported));
    assert_int_equal(simcuda_live_get(0, &live), 0);
    assert_int_equal(live.handles, 0);
    assert_int_equal(live.used_bytes, 0);
}

static void test_same_calls_same_addresses(void **state)
{
    (void)state;
    CUdeviceptr seen[2][3];
    for (int round = 0; round < 2; round++) {
        fixture_start("RESERVE=64G", "SEED=5", NULL);
        seen[round][0] = reserve(64 * CHUNK);
        seen[round][1] = reserve(CHUNK);
        assert_ok(cuMemAlloc(&seen[round][2], 1000));
    }
#if !defined(__SANITIZE_THREAD__)
    assert_memory_equal(seen[0], seen[1], sizeof(seen[0]));
#endif
}

static void test_device_without_vmm(void **state)
{
    (void)state;
    fixture_start("VMM=0", NULL);
    int supported = 1;
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp property = device_property(0);
    assert_ok(cuDeviceGetAttribute(&supported,
                                   CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    assert_int_equal(supported, 0);
    assert_result(cuMemAddressReserve(&at, CHUNK, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_result(cuMemCreate(&handle, CHUNK, &property, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuMemAlloc(&at, CHUNK));
    assert_ok(cuMemFree(at));
}

/* What is modelled is by the mapping and its size, whatever the number of calls: the rows of
 * cost.def as they are, and a size between two of them. */
static void test_modelled_costs(void **state)
{
    (void)state;
    CUmemAllocationProp property = device_property(0);
    CUmemGenericAllocationHandle two, five;
    CUdeviceptr at;
    assert_ok(cuMemAddressReserve(&at, 16 * MIB, 0, 0, 0));
    simcuda_calls_reset();
    assert_ok(cuMemCreate(&two, 2 * MIB, &property, 0));
    assert_int_equal(simcuda_modelled_ns("cuMemCreate"), 7400);
    assert_result(cuMemCreate(&five, MIB, &property, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(simcuda_modelled_ns("cuMemCreate"), 7400);
    assert_ok(cuMemMap(at, 2 * MIB, 0, two, 0));
    assert_ok(cuMemMap(at + 2 * MIB, 2 * MIB, 0, two, 0));
    assert_int_equal(simcuda_modelled_ns("cuMemMap"), 2 * 600);
    CUmemAccessDesc access = {0};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    assert_ok(cuMemSetAccess(at, 4 * MIB, &access, 1));
    assert_int_equal(simcuda_modelled_ns("cuMemSetAccess"), 2 * 19700);
    assert_ok(cuMemUnmap(at, 4 * MIB));
    assert_int_equal(simcuda_modelled_ns("cuMemUnmap"), 2 * 13400);
    assert_ok(cuMemCreate(&five, 5 * 1024 * MIB, &property, 0));
    assert_int_equal(simcuda_modelled_ns("cuMemCreate"), 7400 + 61800 + 140114);
    assert_ok(cuMemRelease(two));
    assert_ok(cuMemRelease(five));
    assert_int_equal(simcuda_modelled_ns("*"), simcuda_modelled_ns("cuMemCreate") +
                                                   simcuda_modelled_ns("cuMemRelease") + 2 * 600 +
                                                   2 * 19700 + 2 * 13400);
    simcuda_calls_reset();
    assert_int_equal(simcuda_modelled_ns("*"), 0);
    assert_int_equal(simcuda_modelled_ns("no such call"), 0);
    assert_ok(cuMemAddressFree(at, 16 * MIB));
}

/* Memory at the host's node takes none of the device's, and is the host's, too, whatever the view.
 * Each of these made it fail: sim_is_device without the test of is_host; memory_end that gives its
 * bytes to the device; range_protect and access_of without is_host. */
static void test_host_memory(void **state)
{
    (void)state;
    static const char *const views[] = {"VIEW=0", "VIEW=1", "VIEW=beside"};
    for (int view = 0; view < 3; view++) {
        fixture_start("RESERVE=64G", "MEMORY=8M", "PEERS=0", "DEVICES=2", "SCHEDULE=lazy",
                      views[view], NULL);
        CUmemAllocationProp property = device_property(0);
        CUmemGenericAllocationHandle handle = 0;
        CUmemAccessDesc access[2] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, 3},
                                     {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, 3}};
        CUdeviceptr at = 0, there = 0;
        unsigned type = 0;
        unsigned long long flags = 0;
        simcuda_live live;
        property.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        property.location.id = 1; /* there is one node */
        assert_result(cuMemCreate(&handle, CHUNK, &property, 0), CUDA_ERROR_INVALID_VALUE);
        property.location.id = 0;
        assert_ok(cuMemCreate(&handle, 8 * CHUNK, &property, 0)); /* more than the device has */
        assert_int_equal(simcuda_live_get(0, &live), 0);
        assert_int_equal(live.used_bytes, 0);
        assert_ok(cuMemAddressReserve(&at, 8 * CHUNK, 0, 0, 0));
        assert_ok(cuMemMap(at, 8 * CHUNK, 0, handle, 0));
        assert_ok(cuMemSetAccess(at, 8 * CHUNK, access, 2));
        assert_ok(cuMemGetAccess(&flags, &access[0].location, at));
        assert_int_equal(flags, 3);
        access[0].location.id = 0;
        assert_ok(cuMemGetAccess(&flags, &access[0].location, at));
        assert_int_equal(flags, 0);
        assert_ok(cuMemSetAccess(at, 8 * CHUNK, access, 1));
        assert_ok(cuMemGetAccess(&flags, &access[1].location, at));
        assert_int_equal(flags, 3);
        assert_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 5));
        assert_int_equal(type, CU_MEMORYTYPE_HOST);
        unsigned char *bytes = (unsigned char *)(uintptr_t)at;
        bytes[0] = 11;
        bytes[8 * CHUNK - 1] = 12;
        assert_ok(cuMemAlloc(&there, CHUNK));
        assert_ok(cuMemcpyHtoDAsync(there, bytes, CHUNK, NULL));
        assert_int_equal(simcuda_live_get(0, &live), 0);
        assert_int_equal(live.pending, 1); /* as from pinned memory */
        bytes[0] = 13;                     /* before it runs */
        assert_ok(cuMemcpyDtoHAsync(bytes + CHUNK, there, CHUNK, NULL));
        assert_ok(cuCtxSynchronize());
        assert_int_equal(bytes[CHUNK], 13);
        assert_int_equal(bytes[8 * CHUNK - 1], 12);
        assert_ok(cuMemcpyDtoH(bytes, there, 16)); /* waits, as every copy to the host */
        assert_int_equal(simcuda_live_get(0, &live), 0);
        assert_int_equal(live.pending, 0);
        assert_ok(cuMemFree(there));
        /* A device's memory is not opened to the host. */
        CUmemAllocationProp own = device_property(0);
        CUmemGenericAllocationHandle chunk = 0;
        assert_ok(cuMemUnmap(at, 8 * CHUNK));
        assert_ok(cuMemCreate(&chunk, CHUNK, &own, 0));
        assert_ok(cuMemMap(at, CHUNK, 0, chunk, 0));
        assert_result(cuMemSetAccess(at, CHUNK, &access[1], 1), CUDA_ERROR_NOT_SUPPORTED);
        assert_ok(cuMemUnmap(at, CHUNK));
        assert_ok(cuMemRelease(chunk));
        assert_ok(cuMemRelease(handle));
        assert_ok(cuMemAddressFree(at, 8 * CHUNK));
        assert_int_equal(simcuda_live_get(0, &live), 0);
        assert_int_equal(live.used_bytes + live.handles, 0);
        (void)simcuda_reset();
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, start, fixture_stop)
    const struct CMUnitTest tests[] = {
        CASE(test_granularity),
        CASE(test_create_refuses),
        CASE(test_memory_limit),
        CASE(test_reserve),
        CASE(test_reserve_eight_devices),
        CASE(test_map_whole_only),
        CASE(test_unmap_whole_only),
        CASE(test_set_access_needs_mappings),
        CASE(test_alias),
        CASE(test_faults),
        CASE(test_double_release),
        CASE(test_retain),
        CASE(test_free_of_mapped_reservation),
        CASE(test_pages_are_given_back),
        CASE(test_kernel_mappings),
        CASE(test_access_over_shuffled_handles),
        CASE(test_share),
        CASE(test_share_of_two_processes),
        CASE(test_share_refuses),
        CASE(test_same_calls_same_addresses),
        CASE(test_device_without_vmm),
        CASE(test_modelled_costs),
        cmocka_unit_test_teardown(test_host_memory, fixture_stop),
    };
    return cmocka_run_group_tests_name("simcuda_vmm", tests, NULL, NULL);
}
