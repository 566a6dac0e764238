/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault injection: runs a scenario again and again, each time with another driver call, or another
 * allocation of host memory, made to fail, until a run has none left to fail.
 *
 * A scenario has two halves. `prepare` runs without faults and leaves the library in some state,
 * usually with work still queued on the memory that it freed. `body` runs with the fault armed, and
 * reaches the library only through the step_ functions below. Each of those checks what guarantee 3
 * says: a call either succeeds, or returns an error with a sentence and changes nothing. When the
 * body is over, faults are switched off and the library must serve, free, hold its data and
 * its equations, and leave nothing behind at shutdown.
 *
 * The simulated device does nothing before somebody waits for it.
 */
#ifndef TENURE_TESTS_FAULT_H
#define TENURE_TESTS_FAULT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tenure/alloc.h>
#include <tenure/simcuda.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { FAULT_STREAMS = 3, FAULT_SLOTS = 64, FAULT_POOLS = 4, FAULT_SCENARIOS_MAX = 32 };

/* A block that the scenario holds. */
typedef struct fault_slot {
    unsigned char *ptr; /* null: none */
    size_t bytes;
    int stream;
    uint32_t pattern; /* 0: not filled yet */
    size_t filled;    /* bytes that it had then */
    size_t pages;     /* of a range: each counts as a block */
} fault_slot;

typedef struct fault_run {
    CUcontext context; /* the device's primary context; not current while the body runs */
    CUstream streams[FAULT_STREAMS];
    fault_slot slots[FAULT_SLOTS];
    tnr_pool pools[FAULT_POOLS];
    CUevent event; /* the scenario's own, or null; destroyed once faults are off */
    uint32_t pattern_last;
    int pools_ended; /* a shutdown was tried: the handles may be invalid */
    int in_body;     /* errors are allowed */
    int starves;     /* for lack of host memory; else a driver call fails */
    int failed_calls;
    void (*settle)(struct fault_run *run); /* the scenario's, or null; called once faults are off */
} fault_run;

typedef struct fault_scenario {
    const char *name;
    const char *conf;   /* TENURE_CONF on top of what the runner needs; may be null */
    const char *memory; /* TENURE_SIM_MEMORY */
    void (*prepare)(fault_run *run);
    void (*body)(fault_run *run);
} fault_scenario;

/* Makes every driver call fail: each once; and each entry point of the table on its own, and all
 * together, from each call on. A failed test names the exact fault. */
void fault_drive(const fault_scenario *scenario);

/* The same for allocations of host memory. */
void fault_starve(const fault_scenario *scenario);

/* Runs it once, with an entry point that the driver lacks. */
void fault_lack(const fault_scenario *scenario);

/* The main function of a program of scenarios: one test for each. Arguments: driver, host or lack,
 * the kind of fault; and the number of a scenario, from 0, to run that alone. */
int fault_main(const fault_scenario *scenarios, size_t count, int argc, char **argv);

/* The library's calls, checked. They return the status. `pool` is an index into run->pools, or -1
 * for the routed or default pool. */
tnr_status step_malloc(fault_run *run, int slot, size_t bytes, size_t alignment, int pool,
                       int stream);
/* Slots whose block is growable: it has no bytes until some are committed. */
tnr_status step_reserve(fault_run *run, int slot, size_t bytes_max, int stream);
tnr_status step_commit(fault_run *run, int slot, size_t bytes);
void step_free(fault_run *run, int slot);
tnr_status step_trim(fault_run *run, size_t keep_bytes);
tnr_status step_pool_create(fault_run *run, int pool, size_t limit_bytes, size_t threshold_bytes);
tnr_status step_pool_destroy(fault_run *run, int pool);
tnr_status step_shutdown(fault_run *run, int force);
/* A call that must succeed unless the body runs. */
tnr_status step_status(fault_run *run, tnr_status status, const char *what);

/* In `prepare` only: queues writes to a block on its stream, so that work is pending on it. */
void prepare_fill(fault_run *run, int slot);

#endif
