/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory without VMM: cuMemAlloc, cuMemAllocAsync, pinned host memory.
 *
 * Each block is a mapping of its own with unmapped space after it. cuMemFree and cuMemFreeHost wait
 * for all work of the device, as the driver does; nothing else here waits. That cuMemFreeHost waits
 * is documented nowhere. So calling it while queued work touches the block is a violation.
 */
#include "capture.h"

#include <unistd.h>

#define BLOCK_ALIGNMENT UINT64_C(4096)
#define LARGE_BLOCK (UINT64_C(2) << 20)

static uint64_t block_bytes(uint64_t bytes)
{
    return (bytes + BLOCK_ALIGNMENT - 1) & ~(BLOCK_ALIGNMENT - 1);
}

/* ---- device memory -------------------------------------------------------------------------- */

/* Runs queued work until the device has room, so that frees in stream order take effect. */
static int block_room(struct sim_device *device, uint64_t bytes)
{
    while (bytes > sim_memory_left(device))
        if (sim_schedule_run(1) == 0)
            return 0;
    return 1;
}

static struct sim_region *block_new(uint64_t bytes, enum sim_region_kind kind)
{
    uint64_t large = kind == SIM_PINNED ? sim.settings.pinned_align_bytes : LARGE_BLOCK;
    uint64_t alignment = bytes >= LARGE_BLOCK ? large : BLOCK_ALIGNMENT;
    return sim_region_new(block_bytes(bytes), alignment, 0, kind, sim_current());
}

/* `pool`: null for cuMemAlloc. */
static CUresult block_alloc(CUdeviceptr *dptr, size_t bytesize, struct sim_pool *pool)
{
    struct sim_device *device = pool != NULL ? pool->device : sim_current()->device;
    if (dptr == NULL || (bytesize == 0 && pool == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (bytesize == 0) { /* nothing, successfully */
        *dptr = 0;
        return CUDA_SUCCESS;
    }
    if (bytesize > device->capacity_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (pool != NULL && !block_room(device, block_bytes(bytesize)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (pool != NULL && pool->bytes_max != 0 &&
        pool->used_bytes + block_bytes(bytesize) > pool->bytes_max)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!sim_memory_take(device, block_bytes(bytesize)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_region *region = block_new(bytesize, SIM_DEVICE_BLOCK);
    if (region == NULL) {
        sim_memory_give(device, block_bytes(bytesize));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    region->device = device;
    region->pool = pool;
    if (pool != NULL) {
        pool->used_bytes += region->bytes;
        if (pool->used_bytes > pool->peak_bytes)
            pool->peak_bytes = pool->used_bytes;
    } else {
        sim_cost_add(SIM_cuMemAlloc_v2, SIM_COST_ALLOC, bytesize);
    }
    *dptr = region->base;
    return CUDA_SUCCESS;
}

/* In the current context, as cuMemAlloc does. */
CUresult sim_block_alloc(CUdeviceptr *address, size_t bytes)
{
    return block_alloc(address, bytes, NULL);
}

void sim_block_free(struct sim_region *region)
{
    sim_memory_give(region->device, region->bytes);
    if (region->pool != NULL)
        region->pool->used_bytes -= region->bytes;
    sim_region_free(region);
}

/* The block that begins at the address, or null. */
static struct sim_region *block_at(CUdeviceptr address, enum sim_region_kind kind)
{
    struct sim_region *region = sim_region_find(address);
    if (region == NULL || region->kind != kind || region->base != address)
        return NULL;
    return region;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    SIM_ENTER(cuMemAlloc_v2, SIM_NEEDS_SAFETY);
    return sim_leave(block_alloc(dptr, bytesize, NULL));
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr)
{
    SIM_ENTER(cuMemFree_v2, SIM_NEEDS_SAFETY);
    if (dptr == 0)
        return sim_leave(CUDA_SUCCESS);
    struct sim_region *region = block_at(dptr, SIM_DEVICE_BLOCK);
    if (region == NULL || region->is_free_queued)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    region->is_free_queued = 1; /* other threads must not free it while this one waits */
    CUresult result = sim_wait_device(region->device, "cuMemFree");
    region->is_free_queued = 0;
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS) {
        sim_cost_add(SIM_cuMemFree_v2, SIM_COST_FREE, region->bytes);
        sim_block_free(region);
    }
    return sim_leave(result);
}

/* The driver makes nodes of these calls; the simulation has none for them, so that they break the
 * stream's capture. On other streams they are forbidden as cuMemAlloc is. */
static CUresult stream_ordered_check(struct sim_stream *stream)
{
    CUresult result = sim_capture_check(stream);
    if (result == CUDA_SUCCESS && stream->capture != NULL) {
        stream->capture->is_invalid = 1;
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return result != CUDA_SUCCESS ? result : sim_capture_unsafe();
}

CUresult sim_block_alloc_async(CUdeviceptr *dptr, size_t bytesize, struct sim_pool *pool,
                               CUstream handle)
{
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_get(handle, &result);
    if (stream != NULL)
        result = stream_ordered_check(stream);
    if (result != CUDA_SUCCESS)
        return result;
    return block_alloc(dptr, bytesize, pool == NULL ? stream->context->device->pool : pool);
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    SIM_ENTER(cuMemAllocAsync, SIM_NEEDS_CLEAN);
    return sim_leave(sim_block_alloc_async(dptr, bytesize, NULL, hStream));
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    SIM_ENTER(cuMemFreeAsync, SIM_NEEDS_CLEAN);
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_get(hStream, &result);
    if (stream == NULL || dptr == 0)
        return sim_leave(result);
    struct sim_region *region = block_at(dptr, SIM_DEVICE_BLOCK);
    if (region == NULL || region->is_free_queued || stream->capture != NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE); /* a graph frees only what it allocated */
    result = stream_ordered_check(stream);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    struct sim_op op = {.kind = SIM_OP_FREE, .free = region};
    region->is_free_queued = 1;
    result = sim_submit(stream, &op);
    if (result != CUDA_SUCCESS)
        region->is_free_queued = 0;
    return sim_leave(result);
}

/* ---- pinned host memory --------------------------------------------------------------------- */

static CUresult pinned_alloc(void **out, size_t bytesize, unsigned flags)
{
    const unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (out == NULL || (flags & ~known) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytesize == 0) { /* nothing, successfully */
        *out = NULL;
        return CUDA_SUCCESS;
    }
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (bytesize > machine)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_region *region = block_new(bytesize, SIM_PINNED);
    if (region == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    region->flags = flags;
    *out = (void *)(uintptr_t)region->base;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    SIM_ENTER(cuMemAllocHost_v2, SIM_NEEDS_SAFETY);
    return sim_leave(pinned_alloc(pp, bytesize, 0));
}

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    SIM_ENTER(cuMemHostAlloc, SIM_NEEDS_SAFETY);
    return sim_leave(pinned_alloc(pp, bytesize, Flags));
}

static CUresult pinned_end(struct sim_region *region, const char *call)
{
    sim_check_unused(region->base, region->bytes, call);
    region->is_free_queued = 1; /* other threads must not free it while this one waits */
    CUresult result = sim_wait_device(region->device, call);
    region->is_free_queued = 0;
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS)
        sim_region_free(region);
    return result;
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
    SIM_ENTER(cuMemFreeHost, SIM_NEEDS_CONTEXT);
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    if (p == NULL)
        return sim_leave(CUDA_SUCCESS);
    struct sim_region *region = block_at((uintptr_t)p, SIM_PINNED);
    if (region == NULL || region->is_free_queued || region->is_registered)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(pinned_end(region, "cuMemFreeHost"));
}

/* Of the memory itself nothing is asked: pages of the program's, however they came to be. */
CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    const unsigned known =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
    SIM_ENTER(cuMemHostRegister_v2, SIM_NEEDS_SAFETY);
    if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0)
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (p == NULL || bytesize == 0 || (Flags & ~known) != 0 ||
        bytesize > UINTPTR_MAX - (uintptr_t)p)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(sim_region_register((uintptr_t)p, bytesize, Flags, sim_current()));
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
    SIM_ENTER(cuMemHostUnregister, SIM_NEEDS_CONTEXT);
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    struct sim_region *region = block_at((uintptr_t)p, SIM_PINNED);
    if (p == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (region == NULL || region->is_free_queued || !region->is_registered)
        return sim_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    return sim_leave(pinned_end(region, "cuMemHostUnregister"));
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    SIM_ENTER(cuMemHostGetDevicePointer_v2, SIM_NEEDS_CONTEXT);
    const struct sim_region *region = sim_region_find((uintptr_t)p);
    if (pdptr == NULL || Flags != 0 || region == NULL || region->kind != SIM_PINNED)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *pdptr = (uintptr_t)p;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    SIM_ENTER(cuMemHostGetFlags, SIM_NEEDS_CONTEXT);
    const struct sim_region *region = sim_region_find((uintptr_t)p);
    if (pFlags == NULL || region == NULL || region->kind != SIM_PINNED)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *pFlags = region->flags | CU_MEMHOSTALLOC_DEVICEMAP; /* which unified addresses imply */
    return sim_leave(CUDA_SUCCESS);
}

/* ---- the end of a context ------------------------------------------------------------------- */

/* Frees what its program left behind in it: such memory ends with its context. */
void sim_block_end(const struct sim_context *context)
{
    for (size_t i = sim.region_count; i-- > 0;) {
        struct sim_region *region = sim.regions[i];
        if (region->context == context && region->kind == SIM_DEVICE_BLOCK)
            sim_block_free(region);
        else if (region->context == context && region->kind == SIM_PINNED)
            sim_region_free(region);
    }
}
