/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The harness, as libFuzzer calls it.
 */
#ifndef TENURE_TESTS_FUZZ_H
#define TENURE_TESTS_FUZZ_H

#include <stddef.h>

/* Returns 0; aborts if something that must hold does not. */
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t count);

#endif
