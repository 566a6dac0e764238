/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations for other tools, by NVTX. They say which addresses are blocks, so that
 * compute-sanitizer sees them inside of Tenure's memory, and which streams are Tenure's own.
 *
 *   heap     all addresses of a device, or a segment of cuMemAlloc (memory/device/allocated.h), a
 *            sub-allocator's: what is in no region has no owner. Its name is its address.
 *   region   a block, from the moment when it is handed out until it is freed; named by its pool
 *   name     of a stream of Tenure's own
 *
 * A tool is there if NVTX_INJECTION64_PATH names its library. Tenure loads that library when it
 * starts. NVTX consists of headers alone, which hand tables of functions to that library. nvtx.c
 * has that part of the interface, which cannot change. So the build needs nothing of NVTX.
 *
 * While a tool listens the gate says NVTX; while none does, nothing of this is reached. A tool that
 * refuses a heap (compute-sanitizer takes allocations only) is told nothing more. The caller
 * must hold no lock, because the tool may do anything.
 */
#ifndef TNRI_ANNOTATE_NVTX_H
#define TNRI_ANNOTATE_NVTX_H

#include <stddef.h>
#include <stdint.h>

#include "base/gate.h"

/* Looks for a tool. Under the library lock; the tool must cope with that. */
void tnri_nvtx_start(void);
/* From now on tells the tool nothing; the tool's library stays loaded. */
void tnri_nvtx_end(void);

/* The first says that a heap exists, the second that it exists no more. */
void tnri_nvtx_heap(uintptr_t base, size_t bytes);
void tnri_nvtx_heap_end(uintptr_t base);

/* A block of a heap is handed out, has grown, or is about to be freed. */
void tnri_nvtx_block(uintptr_t heap, const char *pool, uintptr_t base, size_t bytes);
void tnri_nvtx_block_grown(uintptr_t base, size_t bytes);
void tnri_nvtx_block_gone(uintptr_t base);

/* A stream of Tenure's own has been made. */
void tnri_nvtx_stream(const void *stream, const char *name);

static inline int tnri_nvtx_listens(void)
{
    return (tnri_gate() & TNRI_GATE_NVTX) != 0;
}

#endif
