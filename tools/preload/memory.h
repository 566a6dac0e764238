/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the description of memory and the allocation of it share.
 */
#ifndef TENURE_PRELOAD_MEMORY_H
#define TENURE_PRELOAD_MEMORY_H

#include "entries.h"

/* A block is about to be freed: what the program was told about it is no longer true. */
void memory_forget(CUdeviceptr address);

#endif
