/* SPDX-License-Identifier: Apache-2.0 */
/* A function with a name as C++ has them, of which no debug information tells: engine::take. */
#ifndef TENURE_TESTS_PRELOAD_TRAPS_NAMED_H
#define TENURE_TESTS_PRELOAD_TRAPS_NAMED_H

#include "mock_runtime.h"

void named_malloc(void **block, size_t bytes,
                  cudaStream_t stream) __asm__("_ZN6engine4takeEPPvmP11CUstream_st");

#endif
