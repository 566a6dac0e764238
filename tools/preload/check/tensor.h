/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps: opaque bytes in parameters that lead to memory. What the program had encoded is
 * remembered by its bytes, the oldest forgotten where there are too many. Between check_enter and
 * check_leave.
 */
#ifndef TENURE_PRELOAD_CHECK_TENSOR_H
#define TENURE_PRELOAD_CHECK_TENSOR_H

#include "check/check.h"

enum { CHECK_TENSOR_BYTES = 128, CHECK_TENSOR_ALIGNMENT = 64 };

/* The address that these bytes lead to; 0: they are no tensor map that is known. */
CUdeviceptr check_tensor_find(const void *bytes);

/* 0: the program has had none encoded, and nobody need look. */
int check_tensors_are_there(void);

#endif
