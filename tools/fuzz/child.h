/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One program in a process of its own, so that a crash is a verdict and not the end of the fuzzer,
 * and every run begins with a library that has never been used.
 *
 * The operations are written into shared memory before they run, and so is the result: whatever
 * becomes of the process, its parent has the program that led there.
 */
#ifndef TENURE_FUZZ_CHILD_H
#define TENURE_FUZZ_CHILD_H

#include <sys/types.h>

#include "draw.h"
#include "run.h"

/* Shared between the fuzzer and one child. */
typedef struct fuzz_shared {
    fuzz_result result;
    fuzz_setup setup;
    int planted; /* of --illegal: which error, index into fuzz_planted_names; -1: none */
    size_t count, room;
    fuzz_op ops[];
} fuzz_shared;

typedef struct fuzz_child {
    fuzz_shared *shared;
    size_t shared_bytes;
    pid_t pid;  /* 0: none runs */
    int output; /* what the child says on stderr: an anonymous file */
    uint64_t seed;
    int is_stopped; /* the fuzzer itself has ended it, for lack of time */
} fuzz_child;

/* Room for programs of so many operations. Returns 0, or -1 with a sentence. */
int fuzz_child_open(fuzz_child *child, size_t ops_max, char *error, size_t error_bytes);
void fuzz_child_close(fuzz_child *child);

/* Starts a process that draws the program of the seed and runs it. Returns 0, or -1. */
int fuzz_child_draw(fuzz_child *child, fuzz_device *device, uint64_t seed,
                    const fuzz_limits *limits, unsigned seconds_max);
/* Starts a process that runs a given program; `check_every` as fuzz_run_start has it. */
int fuzz_child_replay(fuzz_child *child, fuzz_device *device, const fuzz_program *program,
                      uint64_t check_every, int is_verbose, unsigned seconds_max);
/* The process has ended with that status: completes the result if it could not. */
void fuzz_child_ended(fuzz_child *child, int status);
/* Waits for the process. */
void fuzz_child_wait(fuzz_child *child);

#endif
