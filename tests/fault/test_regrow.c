/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver calls and host memory that fail while a pool gives back what is idle in order to grow anew
 * (ladder/regrow.h). The device is done with all work at once: what may be in use would stay.
 *
 * In cuttings_end, what is not queued thrown away instead of put back: the driver test failed,
 * since the equation of guarantee 2 did not hold.
 */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 3 };

static int regrown_runs; /* in which something was given back */

/* A round of two streams that need more than in the round before. */
static void regrow_round(fault_run *run, int round)
{
    step_malloc(run, 0, (size_t)(12 + 6 * round) * MIB, 0, -1, 0);
    step_malloc(run, 1, (size_t)(3 + round) * MIB, 0, -1, 1);
    step_free(run, 0);
    step_free(run, 1);
}

static uint64_t chunks_released(void)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_int_equal(tnr_stats_get(&stats, NULL, 0), TNR_OK);
    return stats.chunks_released;
}

static void regrow_prepare(fault_run *run)
{
    step_malloc(run, 10, 3 * MIB, 0, -1, 0);
    step_malloc(run, 11, 3 * MIB, 0, -1, 1);
    for (int round = 0; round < ROUNDS; round++)
        regrow_round(run, round);
    assert_int_equal(chunks_released(), 0);
}

/* Each round gives back what is idle. */
static void regrow_body(fault_run *run)
{
    for (int round = ROUNDS; round < 2 * ROUNDS; round++)
        regrow_round(run, round);
    regrown_runs += chunks_released() > 0;
    step_malloc(run, 12, 9 * MIB, 0, -1, 2);
}

static const fault_scenario scenarios[] = {
    {"growing anew", "aliases_from:first,chunk_max_mb:2", "256M", regrow_prepare, regrow_body},
    {"growing anew, with moves", "aliases_from:first,chunk_max_mb:2,lend:off,aliases_max:0", "256M",
     regrow_prepare, regrow_body},
};

/* Arguments: see fault_main. */
int main(int argc, char **argv)
{
    if (setenv("FAULT_SCHEDULE", "eager", 1) != 0)
        return 1;
    int failed = fault_main(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
    if (regrown_runs < 100) {
        fprintf(stderr, "only %d runs gave idle memory back\n", regrown_runs);
        return 1;
    }
    return failed;
}
