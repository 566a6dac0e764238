/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written of each attribute of memory: how many bytes, and what a program sees that has not
 * set its variable before, as the CUDA runtime does not. The same with any allocator.
 */
#include <string.h>

#include "engine.h"
#include "scenarios.h"

/* The newest that driver 580 knows, and one that it does not. */
enum { HW_DECOMPRESS_CAPABLE = 21, LAST = 22 };

enum { ROOM = 32, GARBAGE = 0xAB, OTHER_GARBAGE = 0x54 };

typedef struct written {
    CUresult result;
    unsigned bytes;
    unsigned value; /* the first four bytes, if there are as many */
} written;

static CUresult ask(int listed, CUpointer_attribute attribute, void *data, CUdeviceptr address)
{
    return listed ? cu.cuPointerGetAttributes(1, &attribute, &data, address)
                  : cu.cuPointerGetAttribute(data, attribute, address);
}

/* What is written over either garbage is what changes: no value is both. */
static written measure(int listed, int attribute, CUdeviceptr address)
{
    _Alignas(16) unsigned char first[ROOM], second[ROOM];
    written told = {0, 0, 0};
    memset(first, GARBAGE, sizeof(first));
    memset(second, OTHER_GARBAGE, sizeof(second));
    told.result = ask(listed, (CUpointer_attribute)attribute, first, address);
    CHECK(ask(listed, (CUpointer_attribute)attribute, second, address) == told.result);
    for (unsigned i = 0; i < ROOM; i++)
        if (first[i] != GARBAGE || second[i] != OTHER_GARBAGE)
            told.bytes = i + 1;
    if (told.bytes >= sizeof(told.value))
        memcpy(&told.value, first, sizeof(told.value));
    return told;
}

/* Addresses, numbers, and what the memory under a block can do, differ between allocators. */
static int is_small_number(int attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return 1;
    default:
        return 0;
    }
}

/* Of these the single form says what the memory under the block can do, and may refuse. */
static int is_of_the_memory_below(int attribute)
{
    return attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
           attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE ||
           attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID || attribute == HW_DECOMPRESS_CAPABLE;
}

/* Several at once, into variables that hold garbage: what the runtime's own question is. */
static void ask_as_the_runtime(CUdeviceptr address)
{
    CUcontext context;
    CUdeviceptr device;
    void *host;
    unsigned type, managed;
    int ordinal;
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[] = {&context, &type, &device, &host, &managed, &ordinal};
    memset(&context, GARBAGE, sizeof(context));
    memset(&device, GARBAGE, sizeof(device));
    memset(&host, GARBAGE, sizeof(host));
    memset(&type, GARBAGE, sizeof(type));
    memset(&managed, GARBAGE, sizeof(managed));
    memset(&ordinal, GARBAGE, sizeof(ordinal));
    MUST(cu.cuPointerGetAttributes(6, wanted, data, address));
    CHECK(context != NULL && type == CU_MEMORYTYPE_DEVICE && device == address && host == NULL);
    CHECK(managed == 0 && ordinal == 0);
    wanted[3] = CU_POINTER_ATTRIBUTE_P2P_TOKENS;
    CHECK(cu.cuPointerGetAttributes(6, wanted, data, address) == CUDA_ERROR_INVALID_VALUE);
}

/* Memory that a network library registers: it stays where it is, and what a card writes there after
 * the block has been freed is nobody else's. Under a device of 256 MiB. */
void scenario_registered(void)
{
    CUdeviceptr block, other;
    unsigned on = 1;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    engine_start(0);
    MUST(cu.cuMemAlloc(&block, 64 << 20));
    printf("set: %d\n", (int)cu.cuPointerSetAttribute(&on, attribute, block + 4096));
    printf("nothing: %d\n", (int)cu.cuPointerSetAttribute(NULL, attribute, block));
    printf("another: %d\n",
           (int)cu.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    printf("nowhere: %d\n", (int)cu.cuPointerSetAttribute(&on, attribute, 4096));
    fill(block, 9, 64 << 20, NULL);
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuMemFree(block));
    for (int i = 1; i < 12; i++) { /* sizes that would make chunks move together */
        MUST(cu.cuMemAlloc(&other, (size_t)(i * 9) << 20));
        MUST(cu.cuMemFree(other));
    }
}

void attributes_print(CUdeviceptr address)
{
    for (int listed = 0; listed < 2; listed++)
        for (int attribute = CU_POINTER_ATTRIBUTE_CONTEXT; attribute <= LAST; attribute++) {
            if (!listed && is_of_the_memory_below(attribute))
                continue;
            written told = measure(listed, attribute, address);
            printf("%s %d: result %d, %u bytes", listed ? "listed" : "single", attribute,
                   told.result, told.bytes);
            if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
                printf(", %s", told.value == 0 ? "null" : "an address");
            else if (is_small_number(attribute))
                printf(", %u", told.value);
            printf("\n");
        }
}

void scenario_attributes(void)
{
    CUdeviceptr block, freed;
    engine_start(0);
    MUST(cu.cuMemAlloc(&block, 1000));
    attributes_print(block + 999);
    ask_as_the_runtime(block + 999);
    MUST(cu.cuMemAlloc(&freed, 1000));
    MUST(cu.cuMemFree(freed));
    if (freed != block) {
        written told = measure(1, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, freed);
        printf("freed: result %d, device %d\n", told.result, (int)told.value);
        told = measure(1, CU_POINTER_ATTRIBUTE_IS_MANAGED, freed);
        printf("freed: result %d, %u bytes, %u\n", told.result, told.bytes, told.value);
    }
    MUST(cu.cuMemFree(block));
}
