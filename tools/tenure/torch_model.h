/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's allocator, played: what it would have reserved for the same requests.
 *
 * It follows the rules of PyTorch 2.1 to 2.12 (c10/cuda/CUDACachingAllocator.cpp): sizes in steps
 * of 512 bytes; small requests (1 MiB at most) in segments of 2 MiB; others in segments of 20 MiB,
 * from 10 MiB on in segments of their own, in steps of 2 MiB; the smallest free block of the stream
 * that fits; with expandable segments one growing range for each stream, mapped in pages of 2 and
 * 20 MiB. Where the device is full, everything that lies free is given back, and the request is
 * made once more. For traces whose recording says what PyTorch reserved, it gives the same bytes
 * (tests/cli/test_predict.py).
 *
 * Played are the default settings: no max_split_size_mb, no roundup_power2_divisions, no graph
 * pools. It needs no device. Not for use from several threads.
 */
#ifndef TENURE_TOOLS_TORCH_MODEL_H
#define TENURE_TOOLS_TORCH_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "trace.h"

typedef struct torch_outcome {
    uint64_t peak_reserved_bytes;
    size_t
        refused_op; /* index of the allocation that did not fit; the trace's ops_count: all did */
} torch_outcome;

/* Carries the trace out, with at most `limit_bytes` reserved. Returns 0, or -1 without host
 * memory. */
int torch_model_run(const trace *source, int expandable, uint64_t limit_bytes,
                    torch_outcome *outcome);

#endif
