/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations for other tools, by NVTX: which addresses are blocks, so that compute-sanitizer sees
 * them inside of Tenure's memory, and what Tenure's streams are.
 *
 *   heap     all addresses of a device, a sub-allocator's: what is in no region is nobody's
 *   region   a block, from the moment when it is handed out until it is freed; named by its pool
 *   name     of a stream of Tenure's own
 *
 * A tool is there if NVTX_INJECTION64_PATH names its library, which is loaded when Tenure starts.
 * NVTX is headers alone; what they do is to hand tables of functions to that library. That part of
 * the interface, which cannot change, is written down in nvtx.c: so nothing is needed to build.
 *
 * While a tool listens the gate says NVTX; while none does, nothing of this is reached. No lock may
 * be held by who calls: the tool may do anything.
 */
#ifndef TNRI_ANNOTATE_NVTX_H
#define TNRI_ANNOTATE_NVTX_H

#include <stddef.h>
#include <stdint.h>

#include "base/gate.h"

/* Looks for a tool. Under the library lock, which the tool must bear. */
void tnri_nvtx_start(void);
/* Nothing is told any more; the library stays loaded. */
void tnri_nvtx_end(void);

/* The addresses of a device are there; or are there no more. */
void tnri_nvtx_heap(int device, uintptr_t base, size_t bytes);
void tnri_nvtx_heap_end(int device);

/* A block is handed out, has grown, or is about to be freed. */
void tnri_nvtx_block(int device, const char *pool, uintptr_t base, size_t bytes);
void tnri_nvtx_block_grown(uintptr_t base, size_t bytes);
void tnri_nvtx_block_gone(uintptr_t base);

/* A stream of Tenure's own has been made. */
void tnri_nvtx_stream(const void *stream, const char *name);

static inline int tnri_nvtx_listens(void)
{
    return (tnri_gate() & TNRI_GATE_NVTX) != 0;
}

#endif
