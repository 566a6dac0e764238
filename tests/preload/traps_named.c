/* SPDX-License-Identifier: Apache-2.0 */
/* A name as C++ has them: see traps_named.h. */
#include "traps_named.h"

#include <stdio.h>
#include <stdlib.h>

void named_malloc(void **block, size_t bytes, cudaStream_t stream)
{
    if (cudaMallocAsync(block, bytes, stream) != cudaSuccess)
        exit(3);
    printf("named\n"); /* so that the call above is not the last thing done */
}
