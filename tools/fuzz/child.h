/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in processes of their own, so that a crash is a verdict and not the end of the fuzzer.
 *
 * When a drawn program ends well, its library and its simulated device have been shut down, and the
 * process goes on with the next program. After FUZZ_PROGRAMS_EACH programs at most, a new process
 * starts. So page faults and the start of a process are paid for once. After any other verdict the
 * process ends. A program that failed in a process that was not new is run again in a new one
 * (campaign.c). Replays, planted errors and programs on other drivers have a process each; so have
 * odd ones, which make threads: what a thread finds depends on how many the process had before.
 *
 * Operations are written into shared memory before they run, and the result is written there, too.
 * Whatever becomes of the process, its parent has the program that led there.
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

enum { FUZZ_PROGRAMS_EACH = 256 };

/* 1 if each program has a process of its own. */
int fuzz_child_is_fresh_each(const fuzz_device *device, const fuzz_limits *limits);

/* A process has one seed ahead of the program that it runs, and each of the two programs has a
 * slot. The fuzzer reads one slot while the process writes the other, so the process never waits
 * for the fuzzer. */
typedef struct fuzz_child {
    fuzz_shared *slots[2];
    fuzz_shared *shared; /* that of the program `seed` */
    size_t shared_bytes; /* of each */
    pid_t pid;           /* 0: none runs */
    int output;          /* what the child says on stderr: an anonymous file */
    int link;            /* a socket: seeds there, a byte back for each program that ended well and
                            was not the last; -1: none */
    uint64_t seed;       /* of the program that is run, or was run last */
    uint64_t ahead;      /* the next one's, if has_ahead */
    int has_ahead;
    int programs;        /* that its process had run before this one */
    uint64_t seed_first; /* the first of them */
    int is_stopped;      /* the fuzzer itself has ended it, for lack of time */
} fuzz_child;

typedef enum fuzz_child_news {
    FUZZ_CHILD_RUNS,
    FUZZ_CHILD_DONE, /* the program has ended, and the process is ready for another */
    FUZZ_CHILD_GONE, /* the process has ended, and the program with it */
} fuzz_child_news;

/* Room for programs of so many operations. Returns 0, or -1 with a sentence. */
int fuzz_child_open(fuzz_child *child, size_t ops_max, char *error, size_t error_bytes);
void fuzz_child_close(fuzz_child *child);

/* Has the program of the seed drawn and run by a new process. If a process runs, it does so after
 * its present program; no seed may be ahead then. Returns 0, or -1. */
int fuzz_child_draw(fuzz_child *child, fuzz_device *device, uint64_t seed,
                    const fuzz_limits *limits, unsigned seconds_max);
/* What has become of the child. Call it if the child's link can be read. The result is complete. */
fuzz_child_news fuzz_child_hear(fuzz_child *child);
/* After FUZZ_CHILD_DONE: the child now stands for the program that was ahead. 0 if there is none.
 * */
int fuzz_child_advance(fuzz_child *child);
/* Ends a process that has no program. */
void fuzz_child_dismiss(fuzz_child *child);
/* Starts a process that runs a given program; `check_every` as fuzz_run_start has it. */
int fuzz_child_replay(fuzz_child *child, fuzz_device *device, const fuzz_program *program,
                      uint64_t check_every, int is_verbose, unsigned seconds_max);
/* Waits for the process of a replay. */
void fuzz_child_wait(fuzz_child *child);

#endif
