/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a program that did not end by itself, or that could not write its snapshot. The journals that
 * its processes have left (tools/watch/journal.h) become their statistics and snapshots, and a
 * list of the memory that their last launches named.
 */
#ifndef TENURE_TOOLS_RUN_JOURNAL_H
#define TENURE_TOOLS_RUN_JOURNAL_H

#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "exit_code.h"

typedef struct run_journal {
    int is_wanted;
    int has_stacks;       /* 1: of allocations and frees */
    const char *snapshot; /* where one is to be, with %p for the process; empty: nowhere */
    int has_stats, is_json;
    char folder[PATH_MAX]; /* of the journals; empty: none */
    struct stat before;    /* what lay at `snapshot`; all 0: nothing */
} run_journal;

/* Makes the folder, and tells the program of it. */
exit_code run_journal_begin(run_journal *self);

/* The program has ended, with the status of waitpid for the process `pid`. Writes what its
 * processes have not written, and removes the folder. */
void run_journal_end(const run_journal *self, pid_t pid, int status);

#endif
