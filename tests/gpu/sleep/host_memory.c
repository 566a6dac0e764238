/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory for the library's crew where it works by itself, in sleep_bandwidth: the crew is
 * compiled into that program, which has no other part of the library's inside. */
#include "base/host_memory.h"

#include <stdlib.h>

void *tnri_host_alloc(size_t bytes)
{
    return calloc(1, bytes);
}

void tnri_host_free(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}
