/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a program: makes of each operation calls of the public API and of the simulated device,
 * and judges the result after it (verdict.h).
 *
 * The library is started, used and shut down once for each program. What a run leaves for its
 * parent (fuzz_result, the operations it ran) lies in shared memory, so it is still there if the
 * process crashes.
 */
#ifndef TENURE_FUZZ_RUN_H
#define TENURE_FUZZ_RUN_H

#include <tenure/history.h>
#include <tenure/host.h>
#include <tenure/park.h>
#include <tenure/range.h>
#include <tenure/tenure.h>

#include "device.h"
#include "gate.h"
#include "model.h"
#include "program.h"

/* What was found, in rising order of gravity for the exit code. */
#define FUZZ_VERDICT_LIST(X)                                                                       \
    X(OK, "ok")                                                                                    \
    X(CAUGHT, "caught")     /* of --illegal: the planted error was seen */                         \
    X(MISSED, "missed")     /* it was not */                                                       \
    X(LIVENESS, "liveness") /* something that had to come did not: memory, an end */               \
    X(SAFETY, "safety")     /* something happened that must not */                                 \
    X(CRASH, "crash")       /* the process died */                                                 \
    X(SETUP, "setup")       /* the program could not be begun */

typedef enum fuzz_verdict {
#define FUZZ_VERDICT_ENUMERATOR(name, text) FUZZ_VERDICT_##name,
    FUZZ_VERDICT_LIST(FUZZ_VERDICT_ENUMERATOR)
#undef FUZZ_VERDICT_ENUMERATOR
        FUZZ_VERDICTS
} fuzz_verdict;

const char *fuzz_verdict_name(fuzz_verdict verdict);

enum { FUZZ_TEXT = 1600 };

/* A place in registered memory, and the simulated device's memory behind it. */
enum { FUZZ_WATCHED = 64 };
typedef struct fuzz_watched {
    uintptr_t address; /* 0: none */
    const void *memory;
    int device, pool;
} fuzz_watched;

/* What a run has to say. */
typedef struct fuzz_result {
    fuzz_verdict verdict;
    char check[48];               /* which guarantee: "race", "overlap", "statistics", ... */
    char text[FUZZ_TEXT];         /* what was seen, in sentences */
    uint64_t step;                /* number of the operation after which it was seen, from 0 */
    uint64_t ran, skipped;        /* operations */
    uint64_t calls[FUZZ_KINDS];   /* operations that ran, by kind */
    uint64_t refused[FUZZ_KINDS]; /* of these, those that were refused as the model allows */
    uint64_t served[TNR_SERVED_COUNT], reused[TNR_REUSE_COUNT];
    uint64_t checks, faults_hit, launches_refused, failed_allocations;
    uint64_t by_peers; /* accesses of a block by a stream of the other device */
    uint64_t policies; /* bits of fuzz_settings that were in force */
    uint64_t hash;     /* of every address and status, for determinism */
    uint64_t ns;
    uint64_t unavailable[FUZZ_KINDS]; /* operations that a real device cannot be made to do */
    gate_counts gates;
} fuzz_result;

typedef struct fuzz_run {
    model model;
    fuzz_device *device;
    fuzz_result *result;
    int has_traps;           /* 1: the library fills and copies memory of blocks itself */
    uint64_t traps_findings; /* of the process, when the program began */
    const fuzz_setup *setup;
    CUstream streams[FUZZ_STREAMS];
    CUevent events[FUZZ_EVENTS];
    tnr_moment moments[FUZZ_EVENTS];     /* before the latest record of each */
    uint32_t stream_lives[FUZZ_STREAMS]; /* streams that each slot has held */
    tnr_pool pools[FUZZ_POOLS];
    tnr_cuda_graph cuda_graphs[FUZZ_GRAPHS];
    tnr_cuda_graph_exec execs[FUZZ_GRAPHS];
    tnr_graph graphs[FUZZ_GRAPHS];
    /* What a launch of each graph leaves in each block: the tag of the last write in its capture.
     * 0: not known. */
    uint64_t graph_tags[FUZZ_GRAPHS][FUZZ_BLOCKS];
    char labels[FUZZ_BLOCKS][8];
    /* What each slot last held: what a planted error touches after the free. */
    struct {
        uintptr_t base;
        size_t bytes;
        uint8_t device;
        uint8_t is_fresh; /* the latest allocation for the slot succeeded */
        uint8_t is_owned; /* the detector knows who owns it; not of memory of graphs */
    } last[FUZZ_BLOCKS];
    uint64_t step;
    const fuzz_op *op; /* that runs now */
    fuzz_watched watched[FUZZ_WATCHED];
    unsigned watched_next;
    uint64_t owner_failures; /* of the owner of segments, before this operation */
    uint64_t hits;           /* injected failures so far, before this operation */
    uint64_t check_every;    /* operations between two complete checks */
    uint64_t check_next;
    uint64_t limit_seen[MODEL_PLACES], reserved_seen[MODEL_PLACES]; /* at the last check */
    int is_verbose;
    int illegal_ran;      /* a planted error has been run */
    uintptr_t freed_base; /* of the block whose early reuse is the planted error; 0: none */
    size_t freed_bytes;
    order_clock freed_uses; /* what nothing but the omitted step would order */
    uint64_t names_asked;   /* 1 + calls of cuStreamGetId before an end that is not told; or 0 */
    int freed_again;        /* its next owner wrote there unordered, so the error can show */
    int is_harmless;        /* nobody has the memory that the planted error touches */
    int is_draining;        /* the program is over, nothing may be refused any more */
    int is_over;            /* a verdict has been reached */
} fuzz_run;

/* Starts the device and the library as the setup says. Returns 0; else the result has the verdict.
 * `check_every`: 1 when replaying. */
int fuzz_run_start(fuzz_run *run, fuzz_device *device, const fuzz_setup *setup, fuzz_result *result,
                   uint64_t check_every);
/* Runs one operation, or skips it if the model does not allow it. Returns 1 if it ran. */
int fuzz_run_op(fuzz_run *run, const fuzz_op *op);
/* The drain phase: faults off, everything completes, everything is freed, nothing is left. */
void fuzz_run_end(fuzz_run *run);

/* ---- for the run_*.c files ------------------------------------------------------------------ */

/* Reaches a verdict; only the first counts. */
__attribute__((format(printf, 4, 5))) void run_fail(fuzz_run *run, fuzz_verdict verdict,
                                                    const char *check, const char *format, ...);
/* 1 if the call succeeded. A failure is a verdict, unless a driver call was made to fail in it. */
int run_succeeded(fuzz_run *run, tnr_status status, const char *call);
int run_was_sabotaged(const fuzz_run *run);
void run_hash(fuzz_run *run, uint64_t value);
/* Notes what is behind the block's addresses, if its pool's memory is registered; forgets what is
 * known of a pool that is named to give memory back. */
void run_watch(fuzz_run *run, int slot);
void run_watch_forget(fuzz_run *run, int device, int pool);
/* Forgets what graphs leave in the slot's block. */
void run_graph_tags_forget(fuzz_run *run, int slot);
int run_device_of(const fuzz_run *run, int stream);
/* The number that the library gives a model_place. */
int run_place(int place);
/* What is true of each block that is handed out. */
void run_malloc_check(fuzz_run *run, const fuzz_op *op, uintptr_t base);
/* The slot has a block from now on that the detector knows. */
void run_block_begin(fuzz_run *run, int slot, uintptr_t base, size_t bytes);
/* Pages of the range with memory have owners from now on, or none any more. */
void run_range_own(fuzz_run *run, int range, int begins);

/* Each returns 1 if the operation took place, 0 if it was refused and the model allows that. */
int run_memory(fuzz_run *run, const fuzz_op *op);
int run_access(fuzz_run *run, const fuzz_op *op);
int run_order(fuzz_run *run, const fuzz_op *op);
int run_range(fuzz_run *run, const fuzz_op *op);
int run_host(fuzz_run *run, const fuzz_op *op);
int run_control(fuzz_run *run, const fuzz_op *op);
int run_graph(fuzz_run *run, const fuzz_op *op);
int run_beside(fuzz_run *run, const fuzz_op *op);

#endif
