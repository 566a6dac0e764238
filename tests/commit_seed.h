/* SPDX-License-Identifier: Apache-2.0 */
/* A number made from the commit's name, for tests that cannot try everything in a short run: each
 * commit tries something else, and each run of one commit the same. With TENURE_TEST_COMMIT in
 * the environment it is made from that: of another commit, or of many (tests/README.md). */
#ifndef TNRI_TESTS_COMMIT_SEED_H
#define TNRI_TESTS_COMMIT_SEED_H

#include <stdint.h>
#include <stdlib.h>

#include <tenure_commit.h>

/* FNV-1a. */
static inline uint64_t commit_seed(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const char *other = getenv("TENURE_TEST_COMMIT");
    for (const char *c = other == NULL ? TNR_COMMIT : other; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
