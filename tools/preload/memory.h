/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the description of memory and the allocation of it share.
 */
#ifndef TENURE_PRELOAD_MEMORY_H
#define TENURE_PRELOAD_MEMORY_H

#include "entries.h"

/* A block is about to be freed: what was said of it to the program is said of it no more. */
void memory_forget(CUdeviceptr address);

#endif
