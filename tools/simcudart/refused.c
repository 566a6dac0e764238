/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls for which the simulated device has nothing: each fails with a sentence, once for each
 * subject. They take no parameters, as none is looked at, so each has a name of its own in C.
 */
#include "rt.h"

#define REFUSED(name, what)                                                                        \
    cudaError_t refused_##name(void) __asm__(#name);                                               \
    cudaError_t refused_##name(void)                                                               \
    {                                                                                              \
        return rt_unserved(what);                                                                  \
    }
#include "refused.def"

/* This one only fills in a description, and has no error to give. */
struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}
