/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts in sentences: "1 block", "2 blocks". The tools include this file, too.
 */
#ifndef TNRI_BASE_PLURAL_H
#define TNRI_BASE_PLURAL_H

#include <stdint.h>

/* What follows a noun that is counted, behind its number: "%zu block%s". */
static inline const char *tnri_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

#endif
