/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program is told about memory. Of a block of ours it hears what the driver would tell of
 * one from cuMemAlloc, and nothing of the large mapping that the block is a piece of. An address of
 * ours in no live block is unknown, as after a cuMemFree.
 */
#include <string.h>

#include <tenure/host.h>

#include "handles.h"
#include "ipc.h"
#include "memory.h"
#include "pinned.h"
#include "service.h"

/* Numbers of blocks whose number was asked for: block -> number. */
static handles buffer_ids = HANDLES_INIT;
static _Atomic uint64_t buffer_id_last = UINT64_C(1) << 62; /* far from the driver's own */

/* 1 if the address is ours; then 1 in *is_live and the block, if there is one. */
static int block_find(CUdeviceptr address, tnr_block_info *block, int *is_live)
{
    int is_device = service_of_address(address) != NULL;
    if ((!is_device && !pinned_may_have(address)) || !service_enter())
        return 0;
    tnr_status status = tnr_block_get(block, (const void *)(uintptr_t)address);
    service_leave();
    *is_live = status == TNR_OK;
    return is_device || *is_live || status == TNR_ERR_NOT_LIVE;
}

static int is_pinned(const tnr_block_info *block)
{
    return block->device >= TNR_HOST(0);
}

/* The GPU whose memory it is, or that it is near. */
static int device_of(const tnr_block_info *block)
{
    return is_pinned(block) ? block->device - TNR_HOST(0) : block->device;
}

void memory_forget(CUdeviceptr address)
{
    if (atomic_load_explicit(&buffer_id_last, memory_order_relaxed) != UINT64_C(1) << 62)
        (void)handles_take(&buffer_ids, (const void *)(uintptr_t)address, NULL);
}

/* ---- how much there is ---------------------------------------------------------------------- */

/* Of a device that shares the host's memory the driver does not know what the kernel would give up.
 * Tenure goes by the host, so this does. */
static void shared_free(int device, size_t *free_bytes, const size_t *total_bytes)
{
    CUdevice handle;
    int is_integrated = 0;
    tnr_host_info host = {.struct_bytes = sizeof(host)};
    if (REAL(cuDeviceGet, (&handle, device)) != CUDA_SUCCESS ||
        REAL(cuDeviceGetAttribute, (&is_integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, handle)) !=
            CUDA_SUCCESS ||
        !is_integrated || tnr_host_get(&host) != TNR_OK || host.left_bytes == UINT64_MAX)
        return;
    uint64_t rest = host.untouched_bytes, left = host.left_bytes;
    *free_bytes = left > rest ? (size_t)(left - rest) : 0;
    if (total_bytes != NULL && *free_bytes > *total_bytes)
        *free_bytes = *total_bytes;
}

CUresult CUDAAPI replace_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUresult result = REAL(cuMemGetInfo_v2, (free_bytes, total_bytes));
    if (result != CUDA_SUCCESS || free_bytes == NULL || !service_enter())
        return result;
    service_device *device = service_here_started();
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (device != NULL && tnr_stats_get(&stats, NULL, device->index) == TNR_OK) {
        shared_free(device->index, free_bytes, total_bytes);
        /* What Tenure keeps for the next allocation is as good as free. */
        uint64_t used = stats.bytes_live + stats.bytes_slack;
        uint64_t held = stats.reserved_bytes.current;
        *free_bytes += held > used ? (size_t)(held - used) : 0;
        size_t left = stats.limit_bytes > used ? (size_t)(stats.limit_bytes - used) : 0;
        if (stats.limit_bytes != SIZE_MAX && *free_bytes > left)
            *free_bytes = left;
    }
    service_leave();
    return result;
}

CUresult CUDAAPI replace_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes,
                                                 CUdeviceptr address)
{
    tnr_block_info block;
    int is_live;
    if (!block_find(address, &block, &is_live)) {
        CUdeviceptr opened;
        size_t length;
        if (!ipc_imported(address, &opened, &length))
            return REAL(cuMemGetAddressRange_v2, (base, bytes, address));
        is_live = 1;
        block.base = (void *)(uintptr_t)opened;
        block.bytes_requested = length;
    }
    if (!is_live)
        return CUDA_ERROR_NOT_FOUND;
    if (base != NULL)
        *base = (CUdeviceptr)(uintptr_t)block.base;
    if (bytes != NULL)
        *bytes = block.bytes_requested;
    return CUDA_SUCCESS;
}

/* The handle under it holds other blocks too. Memory of cuMemAlloc has none. */
CUresult CUDAAPI replace_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
                                                     void *address)
{
    tnr_block_info block;
    int is_live;
    if (block_find((CUdeviceptr)(uintptr_t)address, &block, &is_live))
        return CUDA_ERROR_INVALID_VALUE;
    return REAL(cuMemRetainAllocationHandle, (handle, address));
}

/* ---- registrations -------------------------------------------------------------------------- */

/* Whoever asks for one of these is about to register the memory, and nobody will say when that
 * ends. 1 if it is a live block of ours. */
static int registered(CUdeviceptr address)
{
    if (service_of_address(address) == NULL || !service_enter())
        return 0;
    int is_live = tnr_memory_registered((const void *)(uintptr_t)address) == TNR_OK;
    if (is_live)
        service_count_one(COUNT_REGISTERED);
    service_leave();
    return is_live;
}

/* Of mapped memory the driver has no such attribute. Of cuMemAlloc's, which this stands for, it is
 * set from the start. */
CUresult CUDAAPI replace_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                               CUdeviceptr address)
{
    if (value != NULL && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && registered(address))
        return CUDA_SUCCESS;
    return REAL(cuPointerSetAttribute, (value, attribute, address));
}

CUresult CUDAAPI replace_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address,
                                                       size_t bytes, CUmemRangeHandleType type,
                                                       unsigned long long flags)
{
    (void)registered(address);
    return REAL(cuMemGetHandleForAddressRange, (handle, address, bytes, type, flags));
}

/* ---- attributes ----------------------------------------------------------------------------- */

static uint64_t buffer_id_of(const tnr_block_info *block)
{
    uint64_t number;
    if (handles_get(&buffer_ids, block->base, &number))
        return number;
    number = atomic_fetch_add(&buffer_id_last, 1) + 1;
    handles_set(&buffer_ids, block->base, number);
    return number;
}

/* What the device of the current context may do with a block. */
static unsigned access_of(const tnr_block_info *block)
{
    CUdevice here = -1;
    tnr_access access = TNR_ACCESS_NONE;
    if (is_pinned(block))
        return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    if (REAL(cuCtxGetDevice, (&here)) != CUDA_SUCCESS || here == block->device)
        return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    if (!service_enter())
        return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
    tnr_status status = tnr_pool_access_get(&access, block->pool, block->device, here);
    service_leave();
    return status == TNR_OK && access != TNR_ACCESS_NONE
               ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
               : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

/* CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, the last that is known; older headers lack it. */
enum { ATTRIBUTE_HW_DECOMPRESS = 21 };

/* The driver writes four bytes for what its header calls a boolean, in both forms of the call. */
static void flag_put(void *data, unsigned value)
{
    *(unsigned *)data = value;
}

/* The tokens are 12 bytes; the structure that holds them has room for 16. */
static void tokens_put(void *data)
{
    memset(data, 0, sizeof(unsigned long long) + sizeof(unsigned));
}

/* One attribute of a block, into `data`. What Tenure has no part in is the driver's to say. */
static CUresult attribute_get(const tnr_block_info *block, CUdeviceptr address,
                              CUpointer_attribute attribute, void *data)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return service_primary_context(device_of(block), (CUcontext *)data);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = is_pinned(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = is_pinned(block) ? (void *)(uintptr_t)address : NULL;
        return is_pinned(block) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; /* though written */
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        tokens_put(data);
        return is_pinned(block) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; /* though written */
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = buffer_id_of(block);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        flag_put(data, 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = device_of(block);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        flag_put(data, !is_pinned(block)); /* by our own means: see ipc.h */
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = (CUdeviceptr)(uintptr_t)block->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = block->bytes_requested;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        flag_put(data, 1);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data = CU_MEM_HANDLE_TYPE_NONE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)data = access_of(block);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = NULL;
        return CUDA_SUCCESS;
    default:
        return REAL(cuPointerGetAttribute, (data, attribute, address));
    }
}

CUresult CUDAAPI replace_cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                               CUdeviceptr address)
{
    tnr_block_info block;
    int is_live;
    if (data == NULL || !block_find(address, &block, &is_live))
        return REAL(cuPointerGetAttribute, (data, attribute, address));
    if (!is_live)
        return CUDA_ERROR_INVALID_VALUE;
    return attribute_get(&block, address, attribute, data);
}

/* The bytes of what an attribute is, for those that are zero where they do not apply. */
static size_t attribute_bytes(CUpointer_attribute attribute)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case ATTRIBUTE_HW_DECOMPRESS:
        return sizeof(unsigned);
    default:
        return sizeof(uint64_t);
    }
}

/* Whether the form for several attributes takes this one, for which the driver has nothing to be
 * asked: it refuses the tokens, and those that a driver may know after this library was written
 * have a size that only it knows. */
static int attribute_is_listed(CUpointer_attribute attribute)
{
    return (int)attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
           (int)attribute <= ATTRIBUTE_HW_DECOMPRESS &&
           attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS;
}

/* One attribute in the form for several: what does not apply is zero, and no error. */
static CUresult listed_get(const tnr_block_info *block, int is_live, CUdeviceptr address,
                           CUpointer_attribute attribute, void *data)
{
    if (!attribute_is_listed(attribute)) {
        if (!is_live || attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
            return CUDA_ERROR_INVALID_VALUE;
        return REAL(cuPointerGetAttributes, (1, &attribute, &data, address));
    }
    if (is_live && attribute_get(block, address, attribute, data) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    memset(data, 0, attribute_bytes(attribute));
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        *(int *)data = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI replace_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes,
                                                void **data, CUdeviceptr address)
{
    tnr_block_info block;
    int is_live;
    CUresult result = CUDA_SUCCESS;
    if (count == 0 || attributes == NULL || data == NULL || !block_find(address, &block, &is_live))
        return REAL(cuPointerGetAttributes, (count, attributes, data, address));
    /* What the driver refuses it refuses before it writes anything. */
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        if (data[i] == NULL || attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
            return CUDA_ERROR_INVALID_VALUE;
        else if (!attribute_is_listed(attributes[i]))
            result = listed_get(&block, is_live, address, attributes[i], data[i]);
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        if (attribute_is_listed(attributes[i]))
            result = listed_get(&block, is_live, address, attributes[i], data[i]);
    return result;
}
