/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pointer is: attributes and ranges.
 */
#include "sim.h"

#include <string.h>

/* CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, which older headers lack. */
enum { HW_DECOMPRESS_CAPABLE = 21 };

/* Where a pointer leads: a block, a pinned block, or a mapping inside a reservation. */
struct place {
    const struct sim_region *region;
    const struct sim_mapping *mapping; /* null for blocks */
    CUdeviceptr base;
    uint64_t bytes;
};

static int place_find(CUdeviceptr address, struct place *place)
{
    memset(place, 0, sizeof(*place));
    place->region = sim_region_find(address);
    if (place->region == NULL)
        return 0;
    place->base = place->region->base;
    place->bytes = place->region->bytes;
    if (place->region->kind != SIM_RESERVED)
        return 1;
    place->mapping = sim_mapping_find(place->region, address);
    if (place->mapping == NULL)
        return 0;
    place->base = place->mapping->base;
    place->bytes = place->mapping->memory->bytes;
    return 1;
}

static int place_device(const struct place *place)
{
    return place->mapping != NULL ? place->mapping->memory->device->ordinal
                                  : place->region->device->ordinal;
}

/* Attributes have results of several types; each is written with its own. */
static void put(void *data, const void *value, size_t bytes)
{
    memcpy(data, value, bytes);
}

static void put_unsigned(void *data, unsigned value)
{
    put(data, &value, sizeof(value));
}

/* What the header calls a boolean: the driver writes four bytes, in both forms of the call. */
static void put_flag(void *data, int value)
{
    put_unsigned(data, value ? 1 : 0);
}

static void put_address(void *data, CUdeviceptr value)
{
    put(data, &value, sizeof(value));
}

static unsigned place_access(const struct place *place)
{
    const struct sim_context *here = sim_current();
    if (place->mapping == NULL)
        return here == NULL || sim_reach_block(here, place->region)
                   ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                   : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
    uint32_t bit = UINT32_C(1) << (here == NULL ? 0 : here->device->ordinal);
    return (place->mapping->writable & bit) != 0   ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
           : (place->mapping->readable & bit) != 0 ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                                   : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

static int attribute_known(CUpointer_attribute attribute)
{
    return (int)attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
           (int)attribute <= HW_DECOMPRESS_CAPABLE;
}

static void put_tokens(void *data)
{
    const CUDA_POINTER_ATTRIBUTE_P2P_TOKENS none = {0, 0};
    put(data, &none.p2pToken, sizeof(none.p2pToken));
    put((char *)data + sizeof(none.p2pToken), &none.vaSpaceToken, sizeof(none.vaSpaceToken));
}

/* Of pinned memory, as driver 580 has it. */
static CUresult pinned_attribute(CUpointer_attribute attribute, void *data)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        put_tokens(data); /* written although it is an error */
        return CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        put_flag(data, 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        put_address(data, 0);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* What only memory from cuMemAlloc and pinned memory answer; of other memory nothing is known. */
static CUresult plain_attribute(const struct place *place, CUpointer_attribute attribute,
                                void *data)
{
    if (place->region->kind == SIM_PINNED)
        return pinned_attribute(attribute, data);
    if (place->region->kind != SIM_DEVICE_BLOCK || place->region->pool != NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        put_tokens(data);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case HW_DECOMPRESS_CAPABLE:
        put_flag(data, 1);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        put_address(data, 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        put(data, &place->region->buffer_id, sizeof(place->region->buffer_id));
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult place_attribute(const struct place *place, CUdeviceptr address,
                                CUpointer_attribute attribute, void *data)
{
    int pinned = place->region->kind == SIM_PINNED ||
                 (place->mapping != NULL && place->mapping->memory->is_host);
    CUcontext context = place->mapping != NULL ? NULL : (CUcontext)place->region->context->slot;
    unsigned long long id =
        place->mapping != NULL ? place->mapping->memory->id >> 32 : place->region->buffer_id;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        put(data, &context, sizeof(context));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put_unsigned(data, pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        put_address(data, address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        put_address(data, pinned ? address : 0); /* written although it is an error */
        return pinned ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_unsigned(data, (unsigned)place_device(place));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        put(data, &id, sizeof(id));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        put_flag(data, 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put_flag(data, 1);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: /* unlike the address range: all reserved */
        put_address(data, place->region->base);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        put_address(data, place->base);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        put(data, &place->region->bytes, sizeof(size_t));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        put(data, &place->bytes, sizeof(size_t));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        id = place->mapping != NULL
                 ? (unsigned long long)place->mapping->memory->properties.requestedHandleTypes
                 : 0;
        put(data, &id, sizeof(id));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        put_unsigned(data, place_access(place));
        return CUDA_SUCCESS;
    default:
        return plain_attribute(place, attribute, data);
    }
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    SIM_ENTER(cuPointerGetAttribute, SIM_NEEDS_CONTEXT);
    struct place place;
    if (data == NULL || !attribute_known(attribute) || !place_find(ptr, &place))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(place_attribute(&place, ptr, attribute, data));
}

/* The one attribute that can be set. It is set on plain memory from the start, which is all that
 * this driver can do. */
CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                       CUdeviceptr ptr)
{
    SIM_ENTER(cuPointerSetAttribute, SIM_NEEDS_CONTEXT);
    struct place place;
    if (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !place_find(ptr, &place))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    int is_plain = place.region->kind == SIM_DEVICE_BLOCK && place.region->pool == NULL;
    return sim_leave(is_plain ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
}

/* What the form for several attributes writes of each; 0 for those that it does not know. */
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
    case HW_DECOMPRESS_CAPABLE:
        return sizeof(unsigned);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return 0;
    default:
        return attribute_known(attribute) ? sizeof(uint64_t) : 0;
    }
}

/* Unlike the single form this succeeds for any pointer: what does not apply is null. */
CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                        void **data, CUdeviceptr ptr)
{
    SIM_ENTER(cuPointerGetAttributes, SIM_NEEDS_CONTEXT);
    struct place place;
    if (numAttributes == 0 || attributes == NULL || data == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    int known = place_find(ptr, &place);
    for (unsigned i = 0; i < numAttributes; i++)
        if (attribute_bytes(attributes[i]) == 0)
            return sim_leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < numAttributes; i++) {
        size_t bytes = attribute_bytes(attributes[i]);
        memset(data[i], 0, bytes);
        if (!known && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            put_unsigned(data[i], (unsigned)CU_DEVICE_INVALID);
        if (known && place_attribute(&place, ptr, attributes[i], data[i]) != CUDA_SUCCESS)
            memset(data[i], 0, bytes);
    }
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    SIM_ENTER(cuMemGetAddressRange_v2, SIM_NEEDS_CONTEXT);
    struct place place;
    if (!place_find(dptr, &place))
        return sim_leave(CUDA_ERROR_NOT_FOUND);
    if (pbase != NULL)
        *pbase = place.base;
    if (psize != NULL)
        *psize = place.bytes;
    return sim_leave(CUDA_SUCCESS);
}
