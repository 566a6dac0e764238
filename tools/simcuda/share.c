/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing physical memory with other processes through file descriptors.
 *
 * An exported descriptor is a new open description of the device's file. High up in the file lies a
 * record that says which part is meant. The descriptor's file position tells the importer where the
 * record lies.
 *
 * Memory must live until the last process lets go. Each description holds a shared lock on the
 * record's first byte (an open-description lock: it goes when the last copy of the descriptor is
 * closed, however its process ends). A process that gives the memory up tries to lock the byte
 * exclusively. The pages are given back only if that works.
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_FIRST (INT64_C(1) << 61) /* handles' offsets stay far below */
#define RECORD_MAGIC UINT64_C(0x74656e757265314d)

struct record {
    uint64_t magic;
    uint64_t offset;
    uint64_t bytes;
    int32_t device;
    int32_t reserved;
};

/* One record per handle, found from its offset: granularity is at least a page. */
static off_t record_position(uint64_t offset)
{
    return (off_t)(RECORD_FIRST + (int64_t)(offset / 4096 * sizeof(struct record)));
}

static int record_lock(int description, off_t position, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = position, .l_len = 1};
    return fcntl(description, F_OFD_SETLK, &lock) == 0;
}

/* A new description of the same file, positioned at the record and holding a shared lock. */
static int description_open(int file, off_t position)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    int description = open(path, O_RDWR | O_CLOEXEC);
    if (description >= 0 && (lseek(description, position, SEEK_SET) != position ||
                             !record_lock(description, position, F_RDLCK))) {
        close(description);
        description = -1;
    }
    return description;
}

/* 1 if no other process, and no descriptor under way to one, holds the memory. */
int sim_lease_last(const struct sim_memory *memory)
{
    if (memory->lease < 0)
        return 1;
    return !sim.is_forked && record_lock(memory->lease, record_position(memory->offset), F_WRLCK);
}

static CUresult memory_export(struct sim_memory *memory, int *out)
{
    off_t position = record_position(memory->offset);
    struct record record = {RECORD_MAGIC, memory->offset, memory->bytes, memory->device->ordinal,
                            0};
    if (memory->lease < 0) {
        if (pwrite(memory->file, &record, sizeof(record), position) != sizeof(record))
            return CUDA_ERROR_OUT_OF_MEMORY;
        memory->lease = description_open(memory->file, position);
    }
    int exported = memory->lease < 0 ? -1 : description_open(memory->file, position);
    if (exported < 0) {
        sim_note("cuMemExportToShareableHandle: %s", strerror(errno));
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *out = exported;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *shareableHandle,
                                              CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType handleType,
                                              unsigned long long flags)
{
    SIM_ENTER(cuMemExportToShareableHandle, SIM_NEEDS_VMM);
    struct sim_memory *memory = sim_memory_get(handle, "cuMemExportToShareableHandle");
    if (shareableHandle == NULL || memory == NULL || flags != 0 ||
        handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        memory->properties.requestedHandleTypes != handleType)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sim.has_access)
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    int exported = -1;
    CUresult result = memory_export(memory->origin != NULL ? memory->origin : memory, &exported);
    if (result == CUDA_SUCCESS)
        memcpy(shareableHandle, &exported, sizeof(exported));
    return sim_leave(result);
}

/* The handle in this process that the record speaks of, or null: then another process made it. */
static struct sim_memory *memory_known(const struct sim_device *device, int description,
                                       uint64_t offset, const struct sim_memory *other)
{
    struct stat theirs;
    struct stat ours;
    if (fstat(description, &theirs) != 0 || fstat(device->file, &ours) != 0 ||
        theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev)
        return NULL;
    for (size_t i = 0; i < sim.memory_count; i++) {
        struct sim_memory *memory = sim.memories[i];
        /* What was imported from another process is at a place of its file, not of ours. */
        if (memory != NULL && memory != other && memory->origin == NULL && !memory->is_imported &&
            memory->device == device && memory->offset == offset)
            return memory;
    }
    return NULL;
}

/* A handle of its own, for memory of another process or of this one. */
static CUresult memory_import(CUmemGenericAllocationHandle *out, int description)
{
    struct record record;
    off_t position = lseek(description, 0, SEEK_CUR);
    if (position < RECORD_FIRST ||
        pread(description, &record, sizeof(record), position) != sizeof(record) ||
        record.magic != RECORD_MAGIC || record_position(record.offset) != position)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_device *device = sim_device(record.device);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    CUmemAllocationProp properties;
    memset(&properties, 0, sizeof(properties));
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = record.device;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    struct sim_memory *memory = sim_memory_new(device, &properties);
    if (memory == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->offset = record.offset;
    memory->bytes = record.bytes;
    *out = memory->id;
    memory->origin = memory_known(device, description, record.offset, memory);
    if (memory->origin != NULL) {
        memory->origin->imports++;
        memory->file = memory->origin->file;
        return CUDA_SUCCESS;
    }
    memory->is_imported = 1;
    /* A description of its own: the caller closes the one it received when it likes. */
    memory->lease = description_open(description, position);
    memory->file = memory->lease;
    if (memory->lease < 0) {
        memory->references = 0;
        sim_memory_put(memory);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                                void *osHandle,
                                                CUmemAllocationHandleType shHandleType)
{
    SIM_ENTER(cuMemImportFromShareableHandle, SIM_NEEDS_VMM);
    if (handle == NULL || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sim.has_access)
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    return sim_leave(memory_import(handle, (int)(intptr_t)osHandle));
}

/* ---- memory that has no handle -------------------------------------------------------------- */

/* cuMemAlloc's memory stays in its process here. Programs find these calls all the same: under
 * `tenure run` it is Tenure that serves them, with memory that has handles. */
CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    SIM_ENTER(cuIpcGetMemHandle, SIM_NEEDS_CONTEXT);
    (void)dptr;
    return sim_leave(pHandle == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED);
}

CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle,
                                       unsigned int Flags)
{
    SIM_ENTER(cuIpcOpenMemHandle_v2, SIM_NEEDS_CONTEXT);
    (void)handle, (void)Flags;
    return sim_leave(pdptr == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED);
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    SIM_ENTER(cuIpcCloseMemHandle, SIM_NEEDS_CONTEXT);
    (void)dptr;
    return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
}
