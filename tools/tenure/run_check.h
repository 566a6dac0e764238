/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure run` does for --check, --waste and --driver sim around the program: files in a
 * folder of their own, the environment, and the exit code afterwards.
 */
#ifndef TENURE_TOOLS_RUN_CHECK_H
#define TENURE_TOOLS_RUN_CHECK_H

#include <limits.h>

#include "check/suppress.h"
#include "exit_code.h"

/* The exit code if there are certain findings, unless the user asks for another. */
enum { RUN_CHECK_CODE = 99 };

/* For less time it does not pay to park a block: to write 1 GiB to the host and back takes 80 ms
 * at 25 GiB/s. */
enum { RUN_WASTE_MS = 100 };

typedef struct run_check {
    int is_wanted;  /* what is checked is said */
    int is_checked; /* --check, else --waste */
    int has_host, has_leaks, has_possible, is_simulated;
    long idle_ms;         /* --waste: the shortest time that counts; 0: without it */
    int has_traps;        /* 1: the folder is for the reports of traps, too */
    int found_code;       /* where there are findings */
    const char *findings; /* file for machines; null: none */
    const char *suppress; /* file of rules; null: none */
    /* Set by run_check_begin. */
    char folder[PATH_MAX];
    char lines[PATH_MAX]; /* where the findings are: that file, or one in the folder */
    suppress_rules rules;
} run_check;

/* Makes the folder and the environment, before the program is started. */
exit_code run_check_begin(run_check *check);

/* The first right before the program is started. The second when it has been: begins to print what
 * is said. */
void run_check_prepare(const run_check *check);
void run_check_follow(const run_check *check);

/* Waits for processes that the program has left behind, if they use a GPU: what is found in them
 * counts. The second is for signal handlers: it waits no longer. */
void run_check_wait(const run_check *check);
void run_check_hurry(void);

/* After the program: says which rules matched nothing, and removes the folder. 1 if the program has
 * certain findings. */
int run_check_end(run_check *check);

#endif
