/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run an allocator over all rounds of a configuration: bench_crew.c.
 */
#ifndef TENURE_TOOLS_BENCH_CREW_H
#define TENURE_TOOLS_BENCH_CREW_H

#include <stdatomic.h>

#include "bench.h"

typedef struct bench_worker bench_worker;

/* What the threads of a crew do; written before they start, and then only read. Functions return
 * 0, or -1 after bench_worker_fail. */
typedef struct bench_job {
    const bench_setup *setup;
    const bench_row *row;
    const bench_allocator *allocator;
    int is_shared; /* all threads work on the first stream, not each on its own */
    const void *data;
    int (*prepare)(bench_worker *self); /* once, before all else; may be null */
    int (*warm)(bench_worker *self);    /* a step of warming up, again and again; may be null */
    int (*settle)(bench_worker *self);  /* before each round, untimed; may be null */
    int (*run)(bench_worker *self);     /* a round: what is timed */
    void (*finish)(bench_worker *self); /* once, always; may be null */
} bench_job;

/* One thread. Written by it alone while it has an order, by the crew's owner between orders. */
struct bench_worker {
    const bench_job *job;
    const bench_allocator *allocator;
    int index;
    int is_sampled; /* in this round single operations are timed */
    uint64_t ops;   /* of this round, at most */
    uint64_t done;  /* of them, where the round was over before: see bench_round_is_over */
    atomic_int *is_over;
    CUstream stream;
    void **blocks; /* row->live of them, all null at first */
    uint64_t random;
    uint64_t checksum;
    uint64_t started_ns, ended_ns;
    histogram batches, samples;
    int failed;
    char error[256];
};

/* Notes that the allocator failed. Returns -1. */
int bench_worker_fail(bench_worker *self);

/* Call this after each batch. A timed round is over for all threads as soon as one thread has done
 * all of its operations. So only time with all threads at work is measured. Otherwise the
 * throughput might be that of a few threads which had been interrupted and work on alone. */
static inline int bench_round_is_over(bench_worker *self, uint64_t done)
{
    if (atomic_load_explicit(self->is_over, memory_order_relaxed) == 0)
        return 0;
    self->done = done;
    return 1;
}

/* One allocator in a row, or what stands in its column instead. */
typedef struct bench_contestant {
    bench_job job;
    bench_cell *cell;
} bench_contestant;

/* How the rounds of a row are run. */
typedef struct bench_plan {
    int rounds;       /* at most */
    int is_exclusive; /* they do not fit in memory together: all rounds of one, then of the next */
    int is_fresh;     /* each round has threads of its own, which have never allocated */
} bench_plan;

/* Runs all rounds of a row in turns, then a sampled round of each contestant. Ends the program if
 * the host gives no more threads. */
exit_code bench_crews_compete(const bench_setup *setup, const bench_contestant *list, size_t count,
                              const bench_plan *plan);

/* The same for all allocators of the setup. `job` says what to do, without row and allocator. */
exit_code bench_crews_run(const bench_setup *setup, bench_row *row, const bench_job *job,
                          const bench_plan *plan);

#endif
