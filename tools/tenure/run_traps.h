/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What traps find in a program under `tenure run`. The program's processes write their reports to a
 * file in the folder of the run (the setting trap_file). A thread of this process follows the file,
 * and prints what comes with names, files and lines. So the program does nothing for that, and a
 * report that was written is printed and counted however its process ends.
 */
#ifndef TENURE_TOOLS_RUN_TRAPS_H
#define TENURE_TOOLS_RUN_TRAPS_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "exit_code.h"
#include "run_follow.h"

enum { RUN_TRAPS_PATH_MAX = 255 }; /* what the setting trap_file takes */

typedef struct run_traps {
    int is_wanted;                          /* poison or canary is on */
    char told_file[RUN_TRAPS_PATH_MAX + 1]; /* where the user wants reports; empty: stderr */
    char reports[RUN_TRAPS_PATH_MAX + 1];   /* that file in the folder; empty: none */
    /* The thread's, until it is over. */
    FILE *from, *to;
    int is_first;            /* no frame of this stack has been printed */
    uint64_t findings, sums; /* how many of each; sums are told at a process's end */
    run_follower follower;
} run_traps;

/* What the settings that were just checked say. */
void run_traps_choose(run_traps *traps);

/* Makes the file in a folder, and names it in TENURE_CONF. */
exit_code run_traps_begin(run_traps *traps, const char *folder);

/* Once the program has been started: follows the file. */
void run_traps_follow(run_traps *traps);

/* After the program: prints the rest, and removes the file. Returns how many findings there
 * were. */
uint64_t run_traps_end(run_traps *traps);

#endif
