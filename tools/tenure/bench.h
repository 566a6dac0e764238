/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Benchmarks: what they have in common. bench.c has the command line, bench_allocator.c the
 * allocators under test, bench_pair.c, bench_mix.c and bench_uses.c one question each,
 * bench_report.c the output.
 *
 * All allocators run in one process, turn and turn about: each round runs every allocator once,
 * in an order that rotates, so that whatever disturbs the machine disturbs all of them. All are
 * called through the same table of function pointers and do the same work, proved by a checksum.
 */
#ifndef TENURE_TOOLS_BENCH_H
#define TENURE_TOOLS_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "samples.h"
#include "session.h"

enum {
    BENCH_ALLOCATORS_MAX = 3,
    BENCH_THREADS_MAX = 64,
    BENCH_BATCH = 64, /* operations between two readings of the clock */
    BENCH_ROUNDS_MAX = 64,
    BENCH_ROWS_MAX = 64,
};

/* An allocator under test. Functions may be called from any thread that has entered. */
typedef struct bench_allocator {
    const char *name;                                 /* for people */
    const char *key;                                  /* for CSV and JSON */
    void *(*allocate)(size_t bytes, CUstream stream); /* null: it failed */
    int (*release)(void *ptr, CUstream stream);       /* 0: done */
    void (*thread_enter)(void);                       /* once per thread, before the first call */
    void (*trim)(void);                               /* give all idle memory back */
    const char *(*error)(void); /* why the calling thread's latest call failed */
} bench_allocator;

typedef struct bench_setup {
    session *active;
    /* One per thread, made once: an allocator remembers the streams that it has seen, so they live
     * until it has been shut down. */
    CUstream streams[BENCH_THREADS_MAX];
    bench_allocator allocators[BENCH_ALLOCATORS_MAX]; /* Tenure is the first */
    size_t allocators_count;
    int rounds;
    int is_quick;
    int threads[16]; /* the thread counts of the random mix, rising */
    size_t threads_count;
} bench_setup;

/* What one allocator did in one configuration. */
typedef struct bench_cell {
    int failed; /* ran out of memory, or worse: the numbers are void */
    char error[512];
    double round_ns[BENCH_ROUNDS_MAX];   /* per operation, one thread's view */
    double round_mops[BENCH_ROUNDS_MAX]; /* million operations per second, all threads together */
    int rounds;
    histogram batches; /* ns of whole batches */
    uint64_t checksum; /* of the sizes and places of all operations of the first round */
} bench_cell;

/* What a cell belongs to where that is not one of the allocators. */
typedef struct bench_column {
    const char *name; /* for people */
    const char *key;  /* for CSV and JSON */
} bench_column;

/* One configuration: a row of the table. A cell that nothing was run for has no rounds and has not
 * failed. */
typedef struct bench_row {
    const char *bench;           /* "pair", "mix", or one of bench_uses.c */
    size_t bytes;                /* of a block; mix: 0 */
    const bench_column *columns; /* BENCH_ALLOCATORS_MAX of them; null: the allocators */
    int threads;
    size_t live;              /* mix: blocks per thread */
    size_t warm_up_per_block; /* the mix: operations per live block before the timing */
    uint64_t ops;             /* per thread and round */
    bench_cell cells[BENCH_ALLOCATORS_MAX];
} bench_row;

/* Fills setup->allocators for the session. `torch_plugin` may be null. Returns 0, or -1 with a
 * sentence. */
int bench_allocators_open(bench_setup *setup, const char *torch_plugin, char *error,
                          size_t error_bytes);

/* A cached allocation and its free, of one size on one stream. */
void bench_pair_run(const bench_setup *setup, size_t bytes, bench_row *row);

/* The random mix on `threads` threads. */
exit_code bench_mix_run(const bench_setup *setup, int threads, bench_row *row);

/* Fills row->live and row->ops for so many threads; prints nothing. */
void bench_mix_plan(const bench_setup *setup, int threads, bench_row *row);

double bench_cell_median_ns(const bench_cell *cell);
double bench_cell_min_ns(const bench_cell *cell);
double bench_cell_p99_ns(const bench_cell *cell);
double bench_cell_median_mops(const bench_cell *cell);

void bench_tables(const bench_setup *setup, const bench_row *rows, size_t count, FILE *file);
void bench_json(const bench_setup *setup, const bench_row *row, FILE *file);
/* `command` is the command line, for the header. Returns 0, or -1 if it could not be written. */
int bench_csv(const bench_setup *setup, const bench_row *rows, size_t count, const char *command,
              const char *path);

/* How many cells a row has, and the name and key of one. */
size_t bench_cells_count(const bench_setup *setup, const bench_row *row);
bench_column bench_cell_column(const bench_setup *setup, const bench_row *row, size_t index);

/* 1 if all allocators that did not fail did the same work. */
int bench_checksums_agree(const bench_setup *setup, const bench_row *row);

/* Mixes a value into a checksum. */
static inline uint64_t bench_mixed(uint64_t sum, uint64_t value)
{
    sum = (sum ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return sum ^ (sum >> 31);
}

#endif
