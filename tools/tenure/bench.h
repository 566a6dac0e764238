/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Benchmarks: what they have in common. bench.c has the command line and the list of sections,
 * bench_allocator.c the allocators under test, bench_crew.c the threads, bench_report.c the output.
 * Each other bench_*.c has one section or a few, and begins with the question that they answer.
 * The sections of tests/bench/bench_*.c only tell those who work on Tenure something: a program of
 * the tests has them and these (tests/bench/bench_sections.c).
 *
 * All allocators run in one process and take turns. Each round runs every allocator once, in an
 * order that rotates, so that whatever disturbs the machine disturbs all of them. All are called
 * through the same table of function pointers and do the same work; a checksum proves that. A slow
 * allocator gets fewer rounds, and fewer operations in each. The checksum covers the operations
 * that all do.
 *
 * Two kinds of time are taken, in separate rounds. *Rounds* give the time of an operation as the
 * mean of thousands, with the clock read once per 64. Medians and minima come from these. In
 * *sampled* rounds each single operation is timed, and the clock's own time is subtracted.
 * Quantiles such as p99.9, and the worst time, come from these.
 */
#ifndef TENURE_TOOLS_BENCH_H
#define TENURE_TOOLS_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "clock.h"
#include "samples.h"
#include "session.h"

enum {
    BENCH_ALLOCATORS_MAX = 4,
    BENCH_THREADS_MAX = 64,
    BENCH_BATCH = 64,         /* operations between two readings of the clock */
    BENCH_WARM_UP_STEPS = 10, /* of a mix, unless it still grows or time is over */
    BENCH_ROUNDS_MAX = 64,
    BENCH_ROWS_MAX = 160,
    BENCH_NAME_BYTES = 48,
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

typedef struct bench_program bench_program;

typedef struct bench_setup {
    const bench_program *program;
    session *active;
    /* One per thread, made once. An allocator remembers the streams that it has seen, so they live
     * until the allocator has been shut down. */
    CUstream streams[BENCH_THREADS_MAX];
    bench_allocator allocators[BENCH_ALLOCATORS_MAX]; /* Tenure is the first */
    size_t allocators_count;
    int has_driver; /* the driver's own calls are timed */
    int has_pool;   /* and its pool */
    int rounds;
    int is_quick;
    size_t mix_live; /* blocks of a thread of the mix, and in all of the shared one; 0: 2,000 */
    int threads[16]; /* the thread counts, rising */
    size_t threads_count;
    uint64_t clock_ns;        /* what two readings of the clock take */
    const char *torch_plugin; /* may be null */
    char **traces;            /* files to replay */
    int traces_count;
} bench_setup;

/* What Tenure counted. */
typedef struct bench_counts {
    int has_calls, has_served; /* measured: the first line of the numbers, and the others */
    uint64_t driver_calls;     /* of all kinds */
    uint64_t moved, lent, shared, grown;
    uint64_t reserved_bytes, live_bytes; /* at the end */
} bench_counts;

/* What one allocator did in one configuration. */
typedef struct bench_cell {
    int failed; /* ran out of memory, or worse: the numbers are void */
    char error[512];
    double round_ns[BENCH_ROUNDS_MAX];   /* per operation, one thread's view */
    double round_mops[BENCH_ROUNDS_MAX]; /* million operations per second, all threads together */
    int rounds;
    uint64_t ops;        /* of a round and thread: the row's, or fewer if that would take long */
    histogram batches;   /* ns of whole batches */
    histogram samples;   /* ns of single operations, the clock taken off */
    uint64_t ops_done;   /* by all threads in all timed rounds */
    uint64_t spent_ns;   /* on rounds of this cell: a slow one gets fewer */
    bench_counts counts; /* of the last round, or, of a crew's rounds, of all */
    uint64_t checksum;   /* of the sizes and places of the operations that all cells did */
} bench_cell;

/* What a cell belongs to, if that is not one of the allocators. */
typedef struct bench_column {
    const char *name; /* for people */
    const char *key;  /* for CSV and JSON */
} bench_column;

/* One configuration: a row of the table. If nothing was run for a cell, it has no rounds and has
 * not failed. */
typedef struct bench_row {
    char bench[BENCH_NAME_BYTES]; /* which benchmark: a word */
    size_t bytes;                 /* of a block; 0: of many sizes */
    const bench_column *columns;  /* BENCH_ALLOCATORS_MAX of them; null: the allocators */
    int threads;
    size_t live;              /* blocks per thread */
    size_t warm_up_per_block; /* mixes: operations per live block before the timing */
    uint64_t ops;             /* per thread and round, at most */
    bench_cell cells[BENCH_ALLOCATORS_MAX];
} bench_row;

/* The rows of a run; each section appends its own. */
typedef struct bench_rows {
    bench_row *rows; /* BENCH_ROWS_MAX */
    size_t count;
} bench_rows;

/* About how many seconds a row of a section takes on an H200 and its host, for each allocator. */
typedef struct bench_cost {
    double rows, rows_per_threads, rows_per_trace; /* how many rows there are */
    double tenure_s, driver_s, torch_s;
} bench_cost;

/* A section of the run. `run` returns an exit code only if the rest of the run would be
 * pointless. */
typedef struct bench_section {
    const char *name; /* for --only */
    const char *text;
    exit_code (*run)(const bench_setup *setup, bench_rows *out);
    bench_cost cost;
} bench_section;

/* How rows are shown as a table. */
typedef struct bench_group {
    const char *prefix; /* of the names of its rows */
    const char *title;
    int has_many; /* threads and live blocks differ: their columns, and the throughput's */
} bench_group;

/* What a program has besides the sections of `tenure bench`. */
struct bench_program {
    const char *name;              /* as it is called, for the header of the CSV */
    const bench_section *sections; /* run before the others */
    size_t sections_count;
    const bench_group *groups;
    size_t groups_count;
    void (*table)(const bench_row *rows, size_t count, FILE *file); /* after all; may be null */
};

/* The command line, and all that it asks for. Returns an exit code. */
int bench_main(const bench_program *program, int argc, char **argv);

exit_code bench_pair_run(const bench_setup *setup, bench_rows *out); /* bench_pair.c */
exit_code bench_threads_run(const bench_setup *setup, bench_rows *out);
exit_code bench_mix_run(const bench_setup *setup, bench_rows *out); /* bench_mix.c */
exit_code bench_live_run(const bench_setup *setup, bench_rows *out);
exit_code bench_cold_run(const bench_setup *setup, bench_rows *out);   /* bench_cold.c */
exit_code bench_growth_run(const bench_setup *setup, bench_rows *out); /* bench_growth.c */
exit_code bench_replay_run(const bench_setup *setup, bench_rows *out); /* bench_replay.c */

/* Appends a row, cleared but for its name; never more than BENCH_ROWS_MAX. */
bench_row *bench_row_add(bench_rows *out, const char *bench);

/* The first: 1 if the cell gets another round. Not if it has failed, nor if its rounds so far took
 * long. The second: which allocator is the k-th of a round. */
int bench_cell_goes_on(const bench_cell *cell, int rounds_max);
size_t bench_turn(const bench_setup *setup, int round, size_t k);

/* Notes a failure of the cell. */
void bench_cell_fail(bench_cell *cell, const char *error);
/* Notes a round: `ops` operations in `ns`. */
void bench_cell_round(bench_cell *cell, double ops, double ns, uint64_t checksum);
/* A row of blocks that are new in each round; its columns are bench_malloc_columns. */
bench_row *bench_growth_row(bench_rows *out, const char *bench, size_t bytes, uint64_t blocks);
/* A round of such a row by cuMemAlloc. */
void bench_driver_round(const bench_setup *setup, const bench_row *row, bench_cell *cell);
/* Gives all memory of all allocators back. */
void bench_trim_all(const bench_setup *setup);

/* Fills setup->allocators for the session. `torch_plugin` may be null. Returns 0, or -1 with a
 * sentence. */
int bench_allocators_open(bench_setup *setup, const char *torch_plugin, char *error,
                          size_t error_bytes);

/* The columns where cuMemAlloc stands between Tenure and the other allocators. */
enum { BENCH_COLUMN_MALLOC = 1 };
extern const bench_column bench_malloc_columns[BENCH_ALLOCATORS_MAX];

/* How many driver calls Tenure has made on the device, of all kinds. */
uint64_t bench_driver_calls(const bench_setup *setup);
/* Notes so many driver calls as the cell's. */
void bench_cell_calls(bench_cell *cell, uint64_t calls);
/* What Tenure has counted so far. Returns 0, or -1 if it does not say. */
int bench_counts_read(const bench_setup *setup, bench_counts *counts);
/* Adds what was counted from one reading to the next. */
void bench_counts_add(bench_counts *sum, const bench_counts *before, const bench_counts *after);

/* `tenure bench --cold-child KEY ...`: bench_cold.c. For this command alone: it stands before the
 * options, and is none that --help tells of. */
#define BENCH_COLD_CHILD "--cold-child"
int bench_cold_child(const char *driver, int device, const char *key, const char *torch_plugin);
/* Loads the plugin and starts PyTorch's allocator. Returns 0, or -1 with a sentence. */
int bench_torch_open(const char *path, int device, bench_allocator *allocator, char *error,
                     size_t error_bytes);
/* Finds a function of the plugin that is open. Returns 0, or -1 with a sentence. */
int bench_torch_symbol(void *function, const char *name, char *error, size_t error_bytes);

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

/* A time between two readings of the clock, less what reading it takes. */
static inline uint64_t bench_net_ns(const bench_setup *setup, uint64_t ns)
{
    return ns > setup->clock_ns ? ns - setup->clock_ns : 0;
}

/* xorshift64*: small, and good enough to pick sizes. */
static inline uint64_t bench_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Uniform below `limit`, which is less than 2^32, by the high half of a product. */
static inline size_t bench_random_below(uint64_t *state, size_t limit)
{
    return (size_t)(((bench_random(state) >> 32) * limit) >> 32);
}

#endif
