/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns in device memory: written into a block after its allocation and checked before its
 * free, both as work on the block's stream. If the allocator ever hands out memory that somebody
 * else still uses, one of the two finds the other's bytes and the check counts it.
 *
 * A pattern is a function of a seed, unique to each allocation, and the offset inside the block. A
 * real device runs kernels (pattern_ptx.h) over the whole block. The simulated device runs the same
 * in C. Its memory is host memory. So there the pattern normally covers only both ends of the block
 * and the surroundings of each 2 MiB border inside it, where chunks meet.
 *
 * One pattern object serves one device and one thread.
 */
#ifndef TENURE_TOOLS_PATTERN_H
#define TENURE_TOOLS_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "gpu.h"

typedef enum pattern_extent {
    PATTERN_NONE, /* nothing is written or checked */
    PATTERN_ENDS, /* both ends, and around each 2 MiB border */
    PATTERN_FULL, /* every byte */
} pattern_extent;

typedef struct pattern {
    const gpu_driver *gpu;
    pattern_extent extent;
    CUmodule module;
    CUfunction fill, check;
    CUdeviceptr counters; /* one pattern_counter per stream, on the device */
    size_t streams_count;
    unsigned blocks_max; /* thread blocks of a launch that fills the device */
} pattern;

/* What went wrong so far. */
typedef struct pattern_result {
    uint64_t errors;       /* wrong words (16 bytes), or single bytes at a block's end */
    uint64_t first_seed;   /* of one of the first blocks that was wrong; 0 if none was */
    uint64_t first_offset; /* in that block */
} pattern_result;

/* Loads the kernels on the device of the current context. Streams are numbered below
 * `streams_count` by the caller. Returns 0, or -1 with a sentence in `error`. */
int pattern_open(pattern *checks, const gpu_driver *gpu, CUdevice device, pattern_extent extent,
                 size_t streams_count, char *error, size_t error_bytes);
void pattern_close(pattern *checks);

/* Enqueue the writing, or the checking, of a block, which starts at a multiple of 16 bytes. `seed`
 * is not 0. */
CUresult pattern_fill(pattern *checks, CUdeviceptr block, size_t bytes, uint64_t seed,
                      CUstream stream);
CUresult pattern_check(pattern *checks, CUdeviceptr block, size_t bytes, uint64_t seed,
                       CUstream stream, size_t stream_number);

/* Reads the counters. All checks must have run: the caller has synchronised the streams. */
CUresult pattern_read(pattern *checks, pattern_result *result);
/* Sets them to zero. */
CUresult pattern_reset(pattern *checks);

/* Shows on the current device that the check can fail. Fills `block`, checks it with the right seed
 * and with a wrong one, and compares the counts. Leaves the counters at zero. Returns 0, or -1 with
 * a sentence. */
int pattern_self_test(pattern *checks, CUdeviceptr block, size_t bytes, CUstream stream,
                      char *error, size_t error_bytes);

#endif
