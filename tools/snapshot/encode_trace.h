/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a snapshot's history to a trace that `tenure replay` runs: see tests/traces/README.md.
 */
#ifndef TENURE_TOOLS_ENCODE_TRACE_H
#define TENURE_TOOLS_ENCODE_TRACE_H

#include "encode.h"

typedef struct trace_counts {
    uint64_t allocations, frees;
    uint64_t early; /* blocks that were there before the history begins */
    uint64_t live_at_end;
    uint64_t peak_live_bytes; /* by what was asked for */
    uint64_t streams;
} trace_counts;

/* Writes the trace of one device. Blocks from before the first record come first, as allocations at
 * time 0. Returns 0, or -1 without memory. */
int encode_trace(const model *snapshot, size_t device_at, output *out, trace_counts *counts,
                 losses *lost);

#endif
