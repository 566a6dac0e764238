/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps: 128 bytes that lead to memory. Only the device can read them. So they do not contain
 * the address as it is. Nothing else in them means anything here.
 */
#include <string.h>

#include "sim.h"

enum { WORDS = sizeof(CUtensorMap) / sizeof(uint64_t), ALIGNMENT = 64, ADDRESS_ALIGNMENT = 16 };

static const uint64_t tensor_mask = UINT64_C(0x9e3779b97f4a7c15);

static CUresult tensor_encode(CUtensorMap *map, uint64_t what, cuuint32_t rank, const void *address,
                              const cuuint64_t *dimensions)
{
    uint64_t words[WORDS] = {what};
    if (map == NULL || (uintptr_t)map % ALIGNMENT != 0 || address == NULL ||
        (uintptr_t)address % ADDRESS_ALIGNMENT != 0 || rank < 1 || rank > 5 || dimensions == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    words[1] = (uintptr_t)address ^ tensor_mask;
    words[2] = rank;
    memcpy(&words[3], dimensions, rank * sizeof(*dimensions));
    memcpy(map, words, sizeof(*map));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *dimensions, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    SIM_ENTER(cuTensorMapEncodeTiled, SIM_NEEDS_INIT);
    (void)strides;
    (void)interleave;
    (void)swizzle;
    (void)promotion;
    (void)fill;
    if (box == NULL || element_strides == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(tensor_encode(map, (uint64_t)type << 8 | 1, rank, address, dimensions));
}

CUresult CUDAAPI cuTensorMapEncodeIm2col(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *dimensions, const cuuint64_t *strides, const int *lower, const int *upper,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_strides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill)
{
    SIM_ENTER(cuTensorMapEncodeIm2col, SIM_NEEDS_INIT);
    (void)strides;
    (void)channels;
    (void)pixels;
    (void)interleave;
    (void)swizzle;
    (void)promotion;
    (void)fill;
    if (lower == NULL || upper == NULL || element_strides == NULL || rank < 3)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(tensor_encode(map, (uint64_t)type << 8 | 2, rank, address, dimensions));
}

CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    SIM_ENTER(cuTensorMapReplaceAddress, SIM_NEEDS_INIT);
    uint64_t word = (uintptr_t)address ^ tensor_mask;
    if (map == NULL || (uintptr_t)map % ALIGNMENT != 0 || address == NULL ||
        (uintptr_t)address % ADDRESS_ALIGNMENT != 0)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy((char *)map + sizeof(word), &word, sizeof(word));
    return sim_leave(CUDA_SUCCESS);
}

CUdeviceptr simcuda_tensor_address(const void *map)
{
    uint64_t word;
    memcpy(&word, (const char *)map + sizeof(word), sizeof(word));
    return word ^ tensor_mask;
}
