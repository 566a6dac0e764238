/* SPDX-License-Identifier: Apache-2.0 */
/* A number made from the commit's name, for tests that cannot try everything in a short run: each
 * commit tries something else, and each run of one commit the same. */
#ifndef TNRI_TESTS_COMMIT_SEED_H
#define TNRI_TESTS_COMMIT_SEED_H

#include <stdint.h>

#include <tenure_commit.h>

/* FNV-1a. */
static inline uint64_t commit_seed(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = TNR_COMMIT; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
