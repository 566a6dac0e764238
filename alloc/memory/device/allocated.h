/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of cuMemAlloc instead of mapped chunks, for tools that know only allocations.
 *
 * compute-sanitizer takes each mapped chunk for an allocation. A bulk copy (cp.async.bulk) over the
 * border of two chunks is an error for it, and it takes no such memory for a heap. So while it is
 * in the process, or the setting `memory` says so, pools are over foreign segments whose
 * owner is Tenure: each is one cuMemAlloc, and a block lies in one segment
 * (memory/device/segment.h). Host memory is made of segments, of cuMemHostAlloc, too, where the
 * driver cannot map any (memory/device/host.h).
 */
#ifndef TNRI_DEVICE_ALLOCATED_H
#define TNRI_DEVICE_ALLOCATED_H

#include <tenure/alloc.h>

#include "gpu/backend.h"

/* 1: pools are made of allocations. The driver is loaded, and cuInit was called: tools that the
 * driver brings along are there. */
int tnri_memory_is_allocated(void);

/* 1 if segments come from here. */
int tnri_memory_is_own(tnr_segment_alloc alloc);

/* The error for an allocation of this thread that got no segment of so many bytes from here:
 * TNR_ERR_OUT_OF_MEMORY if there is none, else TNR_ERR_DRIVER. */
tnr_status tnri_memory_refused(size_t bytes, int is_host);

/* Makes a pool's options those of a pool over segments of cuMemAlloc, or of cuMemHostAlloc for host
 * memory, unless they ask for something that only mapped memory has. */
void tnri_memory_options(tnr_pool_options *options, int is_host);

/* Tries again to give back what the driver refused to take of host memory. In a context, no lock
 * held. Returns its first refusal. */
CUresult tnri_memory_release_refused(void);

#endif
