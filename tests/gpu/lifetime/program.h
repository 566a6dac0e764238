/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of this folder share: starting on a device, ending with a reason, gates that
 * the host opens, and patterns that prove what is in memory.
 *
 * They run on a real GPU and, with TENURE_DRIVER=sim, on the simulated device. Exit codes: 0 all
 * was as it must be; 1 it was not; 2 bad options, or too little memory for them; 77 no device.
 *
 * One thread only. There is one program in a process, and so one static state.
 */
#ifndef TENURE_TESTS_GPU_LIFETIME_PROGRAM_H
#define TENURE_TESTS_GPU_LIFETIME_PROGRAM_H

#include <stdio.h>

#include <tenure/lifetime.h>

#include "pattern.h"
#include "session.h"

enum { PROGRAM_OK = 0, PROGRAM_WRONG = 1, PROGRAM_BAD_INPUT = 2, PROGRAM_SKIPPED = 77 };

/* A word in pinned host memory that streams wait for: see program_gate_hold. */
enum { PROGRAM_GATES = 4 };

typedef struct program {
    session active;
    const gpu_driver *gpu; /* of the session */
    pattern checks;
    volatile uint32_t *gates; /* PROGRAM_GATES words; 1 is open */
    CUdeviceptr gates_device;
    uint64_t (*sim_races)(void); /* of the simulated device; null on a GPU */
} program;

/* Starts the library and the driver on device 0, or ends the process with 77 and a sentence.
 * Patterns are for so many streams. */
void program_open(program *self, const char *name, size_t streams_count);
/* Ends the library and gives everything back. The caller's streams are destroyed already. */
void program_close(program *self);

/* End the process with 1 and a sentence, all gates open, if a call failed. */
void must(program *self, tnr_status status, const char *what);
void must_cu(program *self, CUresult result, const char *what);
/* Ends it because something was seen to be wrong. */
__attribute__((format(printf, 2, 3), noreturn)) void program_fail(program *self, const char *format,
                                                                  ...);

/* Holds what is enqueued on the stream from now on back until the gate is opened. */
void program_gate_hold(program *self, int gate, CUstream stream);
void program_gate_open(program *self, int gate);
void program_gates_close(program *self);

/* Allocates from a pool, ending the process if that fails. */
CUdeviceptr program_malloc(program *self, tnr_pool pool, size_t bytes, CUstream stream);

/* What pattern checks have found since the last reset; all streams must have been synchronised. */
uint64_t program_pattern_errors(program *self);

/* Statistics of a pool, or of the device if it is null. */
tnr_stats program_stats(program *self, tnr_pool pool);

/* The first line of a CSV file: `# ` and what it was measured with and on, as `tenure bench` says
 * it. The command is what main got. */
void program_csv_facts(const program *self, int argc, char **argv, FILE *file);

static inline void *program_pointer(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

#endif
