/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gates: how to run a program on a device whose schedule cannot be chosen.
 *
 * In front of an operation its stream waits for a word of pinned host memory. The host opens these
 * gates one by one, in an order that the program's seed draws, and after each it waits for the
 * operation behind it. So what is queued first need not run first. If nothing orders the work of
 * two streams, either can really happen first. Left to itself, a device would nearly always run
 * work in the order of the calls. Contents tell the outcome (gate_touch): memory that has a new
 * owner too early does not hold what its reader expects.
 *
 * A gate is a number in its stream's line. The stream waits until the line's word `open` has
 * reached the number, and writes the number to the word `done` after the operation. Numbers only
 * rise, so a line can serve one stream after another. Both steps are stream memory operations. On a
 * device without those they are kernels, and the waiting kernel spins.
 *
 * Nothing may hang. The program, or the library on its behalf, may wait for a device, and so for
 * gates that it cannot open itself. A second thread, the watcher, sees that a call does not return,
 * and opens one gate after the other until the call returns. The watcher calls neither the library
 * nor the driver. If every gate is open and the call still does not return, the watcher ends the
 * process with a verdict that says what each stream has done.
 *
 * Gates are not placed while anything is being captured. One program in a process, one thread for
 * everything but the watcher. The mutex owns the lines and the counts.
 */
#ifndef TENURE_FUZZ_GATE_H
#define TENURE_FUZZ_GATE_H

#include <stdint.h>

#include <cuda.h>

struct fuzz_device;
struct fuzz_launch;
struct fuzz_op;
struct fuzz_result;
struct fuzz_run;

/* What gates did in one program, or in all of them. */
typedef struct gate_counts {
    uint64_t placed;
    uint64_t opened_drawn;   /* by the program: its schedule, its RUN operations, before it waits */
    uint64_t opened_waiting; /* because a call waited that need not have */
    uint64_t opened_full;    /* because too many were closed */
    uint64_t overtaking; /* the operation behind it was over while an older gate was still closed */
    uint64_t late;       /* it was not over in time: it waits for something else too */
    uint64_t reads, words_read; /* reads whose contents were checked, and the words of these */
    uint64_t words_written;
    uint64_t kept_bytes; /* of device 0 that was not free again at the end; of all the most */
    uint64_t opening_ns; /* from opening a gate to the end of nothing behind it; of all programs */
} gate_counts;

/* What a device says of itself. A separate process asks for it, because a process that has used a
 * real driver cannot fork any more. */
typedef struct gate_device_facts {
    char name[128];
    char driver[256]; /* its version, in words */
    int devices;
    int has_memory_operations;
    uint64_t memory_bytes;
    char error[512]; /* a sentence if the device cannot be used; else empty */
} gate_device_facts;

/* ---- for the command ------------------------------------------------------------------------ */

/* As fuzz_device_open, for any driver. Programs are then gated. */
int gate_device_open(struct fuzz_device *device, const char *path, char *error, size_t error_bytes);
/* Returns 0, or -1 with a sentence in the facts. */
int gate_device_ask(struct fuzz_device *device, gate_device_facts *facts);

/* ---- for a run: gate.c, gate_watch.c -------------------------------------------------------- */

/* As fuzz_device_start: contexts, kernels, gates and the watcher. The environment has been set by
 * gate_environment. */
int gate_device_start(struct fuzz_device *device, int devices, char *error, size_t error_bytes);
void gate_environment(void);
/* Everything is there: from here on operations are gated. */
int gate_begin(struct fuzz_run *run);
/* Around each operation. `gate_before` returns 0, or -1 after a verdict. */
int gate_before(struct fuzz_run *run, const struct fuzz_op *op);
void gate_after(struct fuzz_run *run, const struct fuzz_op *op, int took_place);
/* Why the operation cannot be run on a device that is not simulated; null if it can. */
const char *gate_refuses(const struct fuzz_op *op);
/* Before a planted error is run: 1 if it will have no effect, because no other block got the
 * memory. */
int gate_is_harmless(const struct fuzz_run *run, const struct fuzz_op *op);
/* The program is over: opens every gate, for good. */
void gate_end(struct fuzz_run *run);
/* The library is shut down: notes what of the device's memory is not free again. */
void gate_note_memory(void);

/* ---- kernels: gate_touch.c ------------------------------------------------------------------ */

CUresult gate_touch(struct fuzz_device *device, int number, CUstream stream,
                    const struct fuzz_launch *launch);

#endif
