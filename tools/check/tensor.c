/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps: see tensor.h; and the calls that make them. Of those only the result is noted. */
#include "check/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "check/streams.h"
#include "driver.h"

enum { SETS = 1024, WAYS = 4 };

typedef struct tensor {
    unsigned char bytes[CHECK_TENSOR_BYTES];
    CUdeviceptr address; /* 0: there is none */
} tensor;

_Static_assert(sizeof(CUtensorMap) == CHECK_TENSOR_BYTES, "as CUDA has it");

/* Under the lock of check_enter. A set by the bytes; in each the newest first. */
static tensor (*tensors)[WAYS]; /* null: none was ever made */
int check_has_tensors;

static tensor *set_of(const void *bytes)
{
    uint64_t mixed = 0, word;
    for (size_t i = 0; i < CHECK_TENSOR_BYTES; i += sizeof(word)) {
        memcpy(&word, (const char *)bytes + i, sizeof(word));
        mixed = (mixed ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        mixed ^= mixed >> 32;
    }
    return tensors[mixed % SETS];
}

CUdeviceptr check_tensor_find(const void *bytes)
{
    tensor *set = tensors == NULL ? NULL : set_of(bytes);
    for (int i = 0; set != NULL && i < WAYS; i++)
        if (set[i].address != 0 && memcmp(set[i].bytes, bytes, CHECK_TENSOR_BYTES) == 0)
            return set[i].address;
    return 0;
}

static void tensor_note(const CUtensorMap *map, const void *address)
{
    if (!check_enter())
        return;
    if (tensors == NULL)
        tensors = calloc(SETS, sizeof(*tensors));
    check_has_tensors = tensors != NULL;
    if (tensors != NULL && check_tensor_find(map) == 0) {
        tensor *set = set_of(map);
        memmove(&set[1], &set[0], (WAYS - 1) * sizeof(set[0]));
        memcpy(set[0].bytes, map, CHECK_TENSOR_BYTES);
        set[0].address = (CUdeviceptr)(uintptr_t)address;
    }
    check_leave();
}

static CUresult noted(CUresult result, const CUtensorMap *map, const void *address)
{
    if (result == CUDA_SUCCESS)
        CHECK_TELL(tensor_note(map, address));
    return result;
}

CUresult CUDAAPI replace_cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *dimensions, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    return noted(
        REAL(cuTensorMapEncodeTiled, (map, type, rank, address, dimensions, strides, box,
                                      element_strides, interleave, swizzle, promotion, fill)),
        map, address);
}

CUresult CUDAAPI replace_cuTensorMapEncodeIm2col(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *dimensions, const cuuint64_t *strides, const int *lower, const int *upper,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_strides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill)
{
    return noted(REAL(cuTensorMapEncodeIm2col,
                      (map, type, rank, address, dimensions, strides, lower, upper, channels,
                       pixels, element_strides, interleave, swizzle, promotion, fill)),
                 map, address);
}

CUresult CUDAAPI replace_cuTensorMapEncodeIm2colWide(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *dimensions, const cuuint64_t *strides, int lower, int upper,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_strides,
    CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    return noted(REAL(cuTensorMapEncodeIm2colWide,
                      (map, type, rank, address, dimensions, strides, lower, upper, channels,
                       pixels, element_strides, interleave, mode, swizzle, promotion, fill)),
                 map, address);
}

CUresult CUDAAPI replace_cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    return noted(REAL(cuTensorMapReplaceAddress, (map, address)), map, address);
}
