/* SPDX-License-Identifier: Apache-2.0 */
/* How often a test does something that memcheck, thirty times as slow, and the sanitizers need not
 * see so often. */
#ifndef TNRI_TESTS_FEW_H
#define TNRI_TESTS_FEW_H

#include <stdlib.h>

/* `many`, or `few` in the short run of those rows (TENURE_TEST_FEW, set by TenureTest.cmake). */
static inline int few_or(int many, int few)
{
    return getenv("TENURE_TEST_FEW") == NULL ? many : few;
}

#endif
