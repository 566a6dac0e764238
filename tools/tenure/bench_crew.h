/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round of an allocator on several threads: bench_crew.c.
 */
#ifndef TENURE_TOOLS_BENCH_CREW_H
#define TENURE_TOOLS_BENCH_CREW_H

#include "bench.h"

typedef struct bench_worker bench_worker;

/* What the threads of a round do; shared, and only read by them. */
typedef struct bench_job {
    const bench_setup *setup;
    const bench_row *row;
    const bench_allocator *allocator;
    int is_shared;  /* all threads work on the first stream, not each on its own */
    int is_sampled; /* a round whose single operations are timed */
    const void *data;
    /* Before the timing; may be null. 0, or -1 after bench_worker_fail. */
    int (*prepare)(bench_worker *self);
    int (*run)(bench_worker *self);     /* what is timed */
    void (*finish)(bench_worker *self); /* always, if prepare was called; may be null */
} bench_job;

/* One thread. Written by it alone until it has been joined. */
struct bench_worker {
    const bench_job *job;
    const bench_allocator *allocator;
    int index;
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

/* The seed that a thread's random numbers start from. */
uint64_t bench_worker_seed(int index);

/* One round. Adds it to the cell: the time of an operation is the mean of the threads' times, in
 * a sampled round only samples. Operations of the row are per thread. Returns 0, or -1 if the host
 * lacks memory. Ends the program if the host gives no more threads. */
int bench_crew_round(const bench_job *job, bench_cell *cell);

/* All rounds of all allocators of a row, turn and turn about, then one sampled round of each if
 * `has_samples`. `job` says what, without row and allocator. */
exit_code bench_crew_run(const bench_setup *setup, bench_row *row, const bench_job *job, int rounds,
                         int has_samples, int must_trim);

#endif
