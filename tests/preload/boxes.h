/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of boxes as cuMemcpy3DBatchAsync takes them, for headers that lack its types. */
#ifndef TNRI_TESTS_PRELOAD_BOXES_H
#define TNRI_TESTS_PRELOAD_BOXES_H

#include <cuda.h>
#include <stddef.h>

typedef struct box_side {
    int type; /* 1: a pointer */
    CUdeviceptr address;
    size_t row, layer, location;
} box_side;
typedef struct box {
    box_side from, to;
    size_t width, height, depth;
    int order;
    unsigned flags;
} box;

#endif
