/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offload program: a model whose weights do not stay on the device and whose activations leave
 * it, on three streams, with a host that never waits inside. See offload_run.c for what it does.
 *
 * Where its memory comes from is a table of functions, so that the same program runs on Tenure and
 * on memory that is never used twice.
 */
#ifndef TENURE_TESTS_GPU_LIFETIME_OFFLOAD_RUN_H
#define TENURE_TESTS_GPU_LIFETIME_OFFLOAD_RUN_H

#include "program.h"

enum {
    STREAM_COMPUTE,
    STREAM_FETCH,   /* weights, from the host to the device */
    STREAM_OFFLOAD, /* activations, from the device to the host */
    STREAMS_COUNT
};
enum { OFFLOAD_LAYERS_MAX = 64, OFFLOAD_PREFETCH_MAX = 8, OFFLOAD_STEPS_MAX = 1000 };

/* The size of a run. */
typedef struct offload_plan {
    int steps, layers;
    int prefetch;      /* weights that are fetched ahead of the layer that runs */
    int work;          /* copies of the activations that stand for a layer's computation */
    size_t unit_bytes; /* what one MiB of the real program is here */
} offload_plan;

/* Where memory comes from. `is_private` says that no other stream will use the block, so that it
 * may be used again by the same stream at once, whoever manages it. */
typedef struct memory_source memory_source;
struct memory_source {
    CUdeviceptr (*take)(memory_source *source, size_t bytes, int stream, int is_private);
    /* The use of the block by a stream that is not its own ends here. */
    void (*use_ended)(memory_source *source, CUdeviceptr block, int stream);
    void (*give)(memory_source *source, CUdeviceptr block, int is_private);
};

/* What the program needs besides device memory; made once, used by all runs. */
typedef struct offload_rig {
    program *top;
    offload_plan plan;
    CUstream streams[STREAMS_COUNT];
    CUevent fetched[OFFLOAD_PREFETCH_MAX + 1];  /* by weight, modulo their number */
    CUevent produced;                           /* the latest activation is there */
    CUdeviceptr scratch;                        /* for filling and checking what is on the host */
    unsigned char *weights[OFFLOAD_LAYERS_MAX]; /* pinned */
    unsigned char *saved[OFFLOAD_LAYERS_MAX];   /* pinned; null: this layer's stays on the device */
} offload_rig;

/* What a run has shown. */
typedef struct offload_result {
    uint64_t in_use_bytes; /* most bytes between take and give at once, in the program's order */
    uint64_t enqueue_ns;   /* until the host had enqueued all */
    uint64_t total_ns;     /* until the device had done all */
    uint64_t errors;       /* wrong words */
    uint64_t waits;        /* cuStreamWaitEvent for the data's sake, by the program itself */
} offload_result;

void offload_rig_open(offload_rig *rig, program *top, const offload_plan *plan);
void offload_rig_close(offload_rig *rig);

/* Runs the program once. `run` makes the data of each run its own. */
void offload_run(offload_rig *rig, memory_source *source, uint64_t run, offload_result *result);

/* The bytes that are taken in a run altogether, private ones apart. */
uint64_t offload_shared_bytes(const offload_plan *plan);

/* The largest private block. */
size_t offload_private_bytes(const offload_plan *plan);

/* What a plan holds at once, in its own order. */
typedef struct offload_need {
    int weights, activations;              /* shared buffers of either kind, the most at once */
    size_t weight_bytes, activation_bytes; /* the largest of each */
    uint64_t in_use_bytes;                 /* the most bytes at once, private buffers included */
} offload_need;

offload_need offload_need_of(const offload_plan *plan);

#endif
