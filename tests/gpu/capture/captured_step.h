/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of work that can be captured, or run as it is: fork and join of four streams, each of
 * which allocates, writes by kernels, sets and copies, checks, and frees, all the time.
 *
 * What it leaves in its output depends on its input and its seed alone. So running it without a
 * capture, in ordinary memory, gives the reference that every replay is compared with, bit by bit.
 *
 * Used by one thread.
 */
#ifndef TENURE_TESTS_GPU_CAPTURED_STEP_H
#define TENURE_TESTS_GPU_CAPTURED_STEP_H

#include <tenure/capture.h>

#include "program.h"

enum { STEP_STREAMS = 4, STEP_ROUNDS = 3 };

typedef struct step_run {
    program *self;
    CUstream streams[STEP_STREAMS]; /* the first is the one that captures */
    CUevent event;
    size_t bytes;        /* of the input, the output and every temporary block */
    unsigned char *host; /* pinned, of so many bytes */
} step_run;

typedef struct step_graph {
    tnr_cuda_graph cuda;
    CUgraphExec exec;
    tnr_graph number;
} step_graph;

/* Streams, event and pinned memory, and their end. */
void step_open(step_run *run, program *self, size_t bytes);
void step_close(step_run *run);

/* Allocates on a stream, which may capture. */
CUdeviceptr step_malloc(step_run *run, size_t bytes, CUstream stream);

/* Enqueues the step on the streams, whether they capture or not. */
void step_enqueue(step_run *run, CUdeviceptr input, CUdeviceptr output, uint64_t seed);

/* Runs it once without a capture; the checksum of what it must give. */
uint64_t step_reference(step_run *run, CUdeviceptr input, CUdeviceptr output, uint64_t seed);

/* Captures it into a pool (null: the graph's own), and instantiates. */
step_graph step_capture(step_run *run, tnr_pool pool, CUdeviceptr input, CUdeviceptr output,
                        uint64_t seed);
/* Spoils the output and launches, on a stream. */
void step_launch(step_run *run, const step_graph *graph, CUdeviceptr output, CUstream stream);
/* Destroys the CUDA objects. */
void step_graph_destroy(step_run *run, step_graph *graph);

/* Reads memory on a stream, waits, and hashes it. */
uint64_t step_checksum(step_run *run, CUdeviceptr from, CUstream stream);
/* Writes the input. */
void step_input_fill(step_run *run, CUdeviceptr input, CUstream stream);
/* Makes one stream wait for another. */
void step_order(step_run *run, CUstream to, CUstream from);
/* What Tenure knows of the graph. */
tnr_graph_info step_graph_info(step_run *run, const step_graph *graph);

#endif
