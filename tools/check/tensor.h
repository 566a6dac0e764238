/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps: opaque bytes in parameters that lead to memory. The maps that the program had
 * encoded are remembered by their bytes. If there are too many, the oldest are forgotten. Between
 * check_enter and check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_TENSOR_H
#define TENURE_PRELOAD_CHECK_TENSOR_H

#include "check/check.h"

enum { CHECK_TENSOR_BYTES = 128, CHECK_TENSOR_ALIGNMENT = 64 };

/* The address that these bytes lead to; 0: they are no known tensor map. */
CUdeviceptr check_tensor_find(const void *bytes);

/* 0: the program has had none encoded, and the caller need not look. */
extern int check_has_tensors;

#endif
