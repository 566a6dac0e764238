/* SPDX-License-Identifier: Apache-2.0 */
/* What the paths of bench_paths have in common: see paths.c. */
#ifndef TENURE_TESTS_BENCH_PATHS_H
#define TENURE_TESTS_BENCH_PATHS_H

#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#include <tenure/capture.h>

enum { STREAMS = 16, BATCH = 64 };

/* Programs that know nothing of Tenure have it preloaded: tests/bench/callgrind.py knows how. */
enum path_under { UNDER_NOTHING, UNDER_RUN, UNDER_CHECK, UNDER_RECORD };

typedef struct path path;

/* What the functions of a path share. Only the thread that has the turn touches it. */
typedef struct path_run {
    const path *what;
    CUstream streams[STREAMS];
    uint64_t operations; /* of the next call of path_measure */
    uint64_t checksum;   /* of sizes and places of all that was counted */
    uint64_t random;
    uint32_t *gate;  /* pinned: the last stream waits until it is 1 */
    void *block;     /* live, for uses */
    void **blocks;   /* what->live of them, or a batch */
    CUevent *events; /* what->live of them, recorded and announced */
    int device;      /* of the pairs */
    tnr_graph graph; /* that is launched, as this: */
    CUgraphExec exec;
    sem_t turn_of_helper, turn_of_main;
    int helper_ends;
} path_run;

typedef void (*path_body)(path_run *run);

struct path {
    const char *name;
    uint64_t operations; /* counted */
    path_body prepare;   /* may be null */
    path_body run;       /* calls path_measure */
    size_t bytes_min, bytes_max;
    size_t live;
    const char *settings; /* for TENURE_CONF */
    const char *text;
    int under; /* of path_under */
};

/* Inline: it is part of what is counted. */
static inline void tenure_check(tnr_status status)
{
    if (__builtin_expect(status != TNR_OK, 0)) {
        fprintf(stderr, "bench_paths: %s\n", tnr_last_error());
        exit(1);
    }
}

void driver_check(CUresult result, const char *what);
uint64_t mixed(uint64_t sum, uint64_t value);

/* To be called before each handle of the driver's is made: see LAYOUT in paths.c. */
void path_apart(void);

/* Everything inside is counted, nothing outside. */
void path_measure(path_run *run, path_body body);

/* Runs a path's body to warm up, and then counted. */
void path_counted(path_run *run, path_body body);

/* ---- cached pairs: paths.c ------------------------------------------------------------------ */

void pairs(path_run *run);
void run_pairs(path_run *run);

/* ---- two threads: two_threads.c ------------------------------------------------------------- */

void run_handover(path_run *run);
void run_shared(path_run *run);

/* ---- the driver's functions under tenure run: under_run.c ----------------------------------- */

void preloaded_prepare(path_run *run);
void run_records(path_run *run);
void run_records_default(path_run *run);
void run_waits(path_run *run);
void run_waits_asked(path_run *run);
void run_records_asked(path_run *run);
void run_ring(path_run *run);
void run_kernels(path_run *run);

/* ---- what the checker looks at: checked.c --------------------------------------------------- */

void checked_prepare(path_run *run);
void sole_prepare(path_run *run);
void stale_prepare(path_run *run);
void script_prepare(path_run *run);
void run_checked(path_run *run);
void forks_prepare(path_run *run);
void run_forks(path_run *run);
void run_fresh(path_run *run);
void replaced_prepare(path_run *run);
void sole_replaced_prepare(path_run *run);
void run_replaced(path_run *run);

#endif
