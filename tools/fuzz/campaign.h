/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many programs: deals seeds out to processes, adds up their results, and keeps the first failure.
 */
#ifndef TENURE_FUZZ_CAMPAIGN_H
#define TENURE_FUZZ_CAMPAIGN_H

#include "child.h"

enum { FUZZ_JOBS_MAX = 64, FUZZ_PLANTED_MAX = 18 };

typedef struct fuzz_campaign_options {
    uint64_t seed_first, seed_last; /* last included */
    unsigned seconds_max;           /* for all programs; 0: until the last seed */
    unsigned program_seconds_max;   /* for one */
    int jobs;
    int keep_going;    /* count failures, and keep the first */
    int keeps_program; /* of one seed, whatever became of it */
    fuzz_limits limits;
} fuzz_campaign_options;

/* Sums over all programs. */
typedef struct fuzz_totals {
    uint64_t programs, operations, skipped, checks, faults_hit, launches_refused;
    uint64_t failed_allocations, by_peers;
    uint64_t calls[FUZZ_KINDS], refused[FUZZ_KINDS];
    uint64_t served[TNR_SERVED_COUNT], reused[TNR_REUSE_COUNT];
    uint64_t policies;
    uint64_t busy_ns; /* of all processes: for the rate of one core */
    uint64_t verdicts[FUZZ_VERDICTS];
    uint64_t unavailable[FUZZ_KINDS];
    gate_counts gates;
    uint64_t mismatches; /* programs in which contents were wrong */
    uint64_t planted[FUZZ_PLANTED_MAX], caught[FUZZ_PLANTED_MAX]; /* by kind of error */
    uint64_t hash; /* of all results, in the order of seeds */
    uint64_t elapsed_ns;
    /* The failure of the smallest seed that failed; with keeps_program, the seed's result. */
    fuzz_result failure;
    fuzz_program program;       /* empty: nothing failed */
    int failure_planted;        /* of --illegal: which error was missed */
    uint64_t operations_before; /* run when it was found */
} fuzz_totals;

/* Told ten times a second. */
typedef void (*fuzz_campaign_progress)(const fuzz_totals *totals, void *data);

/* Runs them. Returns 0, or -1 with a sentence if processes could not be started. The totals'
 * program is the caller's to release. */
int fuzz_campaign(const fuzz_campaign_options *options, fuzz_device *device, fuzz_totals *totals,
                  fuzz_campaign_progress progress, void *data, char *error, size_t error_bytes);

/* 1 if the verdict is one to stop for. */
int fuzz_is_failure(fuzz_verdict verdict);

#endif
