/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_bandwidth: what a sleep and a wake cost beside the pinned link itself, under a live graph.
 *
 * In one run, over the same memory: the link's bandwidth (large copies between the blocks and
 * pinned memory, both directions), then rounds of sleep and wake with everything kept, then with
 * everything discarded. Each round checks that the device has its memory back while the pool
 * sleeps, that every byte is there after the wake, and that a graph captured before the first
 * sleep writes what it wrote before.
 *
 * The graph copies the first block into the second; the second is spoilt before each replay.
 */
#include "program.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tenure/sleep.h>

enum { BLOCKS_MAX = 4096, ROUNDS_MAX = 64, MIB_SHIFT = 20 };

typedef struct bandwidth {
    program *self;
    size_t bytes, block_bytes;
    int rounds;
    int is_limited; /* 1: less than 80 % of the link is a failure */
    FILE *csv;      /* null: none */
    CUstream stream;
    CUdeviceptr blocks[BLOCKS_MAX];
    size_t blocks_count;
    void *pinned; /* of block_bytes */
    CUgraph graph;
    CUgraphExec exec;
} bandwidth;

static double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double median(double *values, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && values[j] < values[j - 1]; j--) {
            double swap = values[j];
            values[j] = values[j - 1];
            values[j - 1] = swap;
        }
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void csv_line(const bandwidth *run, const char *what, int round, double seconds)
{
    if (run->csv)
        fprintf(run->csv, "%s,%d,%zu,%.9f,%.3f\n", what, round, run->bytes, seconds,
                (double)run->bytes / seconds / 1e9);
}

/* ---- memory and the graph ------------------------------------------------------------------- */

/* The graph copies the first block over the second, so they have the same pattern. */
static uint64_t block_seed(size_t i)
{
    return i == 0 ? 2 : i + 1;
}

static void blocks_make(bandwidth *run)
{
    program *self = run->self;
    run->blocks_count = run->bytes / run->block_bytes;
    run->bytes = run->blocks_count * run->block_bytes;
    for (size_t i = 0; i < run->blocks_count; i++) {
        run->blocks[i] = program_malloc(self, NULL, run->block_bytes, run->stream);
        must_cu(self,
                pattern_fill(&self->checks, run->blocks[i], run->block_bytes, block_seed(i),
                             run->stream),
                "filling a block");
    }
    must_cu(self, self->gpu->cuStreamSynchronize(run->stream), "waiting for the fills");
}

static void blocks_check(bandwidth *run, const char *when)
{
    program *self = run->self;
    for (size_t i = 0; i < run->blocks_count; i++)
        must_cu(self,
                pattern_check(&self->checks, run->blocks[i], run->block_bytes, block_seed(i),
                              run->stream, 0),
                "checking a block");
    must_cu(self, self->gpu->cuStreamSynchronize(run->stream), "waiting for the checks");
    uint64_t errors = program_pattern_errors(self);
    if (errors != 0)
        program_fail(self, "%llu wrong words %s", (unsigned long long)errors, when);
}

static void graph_make(bandwidth *run)
{
    program *self = run->self;
    const gpu_driver *gpu = self->gpu;
    if (!gpu->cuStreamBeginCapture || !gpu->cuGraphInstantiateWithFlags || !gpu->cuGraphLaunch)
        program_fail(self, "the driver has no graphs");
    must_cu(self, gpu->cuStreamBeginCapture(run->stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
            "cuStreamBeginCapture");
    must_cu(self,
            gpu->cuMemcpyDtoDAsync(run->blocks[1], run->blocks[0], run->block_bytes, run->stream),
            "capturing a copy");
    must_cu(self, gpu->cuStreamEndCapture(run->stream, &run->graph), "cuStreamEndCapture");
    must_cu(self, gpu->cuGraphInstantiateWithFlags(&run->exec, run->graph, 0),
            "cuGraphInstantiateWithFlags");
}

/* Spoils the second block and lets the graph put it right. */
static void graph_replay(bandwidth *run)
{
    program *self = run->self;
    must_cu(self, self->gpu->cuMemsetD8Async(run->blocks[1], 0xee, run->block_bytes, run->stream),
            "spoiling a block");
    must_cu(self, self->gpu->cuGraphLaunch(run->exec, run->stream), "cuGraphLaunch");
}

/* ---- measuring ------------------------------------------------------------------------------ */

/* The link: as many bytes as the blocks have, through one pinned buffer. */
static double link_measure(bandwidth *run, int is_out)
{
    program *self = run->self;
    double seconds[ROUNDS_MAX];
    for (int round = 0; round < run->rounds; round++) {
        double begin = clock_seconds();
        for (size_t i = 0; i < run->blocks_count; i++)
            must_cu(self,
                    is_out ? self->gpu->cuMemcpyDtoHAsync(run->pinned, run->blocks[i],
                                                          run->block_bytes, run->stream)
                           : self->gpu->cuMemcpyHtoDAsync(run->blocks[i], run->pinned,
                                                          run->block_bytes, run->stream),
                    "copying");
        must_cu(self, self->gpu->cuStreamSynchronize(run->stream), "waiting for copies");
        seconds[round] = clock_seconds() - begin;
        csv_line(run, is_out ? "link_out" : "link_in", round, seconds[round]);
    }
    return median(seconds, run->rounds);
}

static size_t device_free(bandwidth *run)
{
    size_t available = 0, total = 0;
    must_cu(run->self, run->self->gpu->cuMemGetInfo(&available, &total), "cuMemGetInfo");
    return available;
}

/* Rounds of sleep and wake. The medians of both. */
static void sleeps_measure(bandwidth *run, tnr_content content, double *sleep_s, double *wake_s)
{
    program *self = run->self;
    int device = self->active.device;
    const char *names[2] = {content == TNR_CONTENT_KEEP ? "sleep_keep" : "sleep_discard",
                            content == TNR_CONTENT_KEEP ? "wake_keep" : "wake_discard"};
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    options.content = content;
    options.keep_backing = 1;
    double sleeps[ROUNDS_MAX], wakes[ROUNDS_MAX];
    for (int round = 0; round < run->rounds; round++) {
        size_t before = device_free(run);
        double begin = clock_seconds();
        must(self, tnr_pool_sleep(NULL, device, &options), "tnr_pool_sleep");
        sleeps[round] = clock_seconds() - begin;
        if (device_free(run) < before + run->bytes)
            program_fail(self, "only %zu bytes came back of %zu", device_free(run) - before,
                         run->bytes);
        begin = clock_seconds();
        must(self, tnr_pool_wake(NULL, device), "tnr_pool_wake");
        wakes[round] = clock_seconds() - begin;
        csv_line(run, names[0], round, sleeps[round]);
        csv_line(run, names[1], round, wakes[round]);
        if (content == TNR_CONTENT_KEEP) {
            blocks_check(run, "after a wake");
            graph_replay(run);
            blocks_check(run, "after a replay");
        }
    }
    *sleep_s = median(sleeps, run->rounds);
    *wake_s = median(wakes, run->rounds);
}

/* After contents were discarded the addresses work as before. */
static void refill(bandwidth *run)
{
    for (size_t i = 0; i < run->blocks_count; i++)
        must_cu(run->self,
                pattern_fill(&run->self->checks, run->blocks[i], run->block_bytes, block_seed(i),
                             run->stream),
                "filling a block");
    graph_replay(run);
    blocks_check(run, "after contents were discarded and written again");
}

static int report(const bandwidth *run, const double link[2], const double keep[2],
                  const double discard[2])
{
    static const char *const ways[2] = {"sleep", "wake"};
    int code = PROGRAM_OK;
    double gb = (double)run->bytes / 1e9;
    printf("%.3f GB in blocks of %zu MiB, medians of %d rounds\n\n", gb,
           run->block_bytes >> MIB_SHIFT, run->rounds);
    for (int i = 0; i < 2; i++) {
        double share = link[i] / keep[i];
        int is_bad = run->is_limited && share < 0.8;
        printf("%-5s kept       %8.2f ms  %6.2f GB/s  %5.1f %% of the link's %.2f GB/s%s\n",
               ways[i], keep[i] * 1e3, gb / keep[i], share * 100, gb / link[i],
               is_bad ? "  (below 80 %)" : "");
        printf("%-5s discarded  %8.2f ms\n", ways[i], discard[i] * 1e3);
        if (is_bad)
            code = PROGRAM_WRONG;
    }
    puts("\nEvery byte was there after each wake, and the graph wrote what it wrote before.");
    return code;
}

/* ---- options -------------------------------------------------------------------------------- */

static const char usage[] =
    "Usage: sleep_bandwidth [--mb N] [--block-mib N] [--rounds N] [--csv FILE] [--no-limit]\n\n"
    "Measures sleep and wake of a pool beside the pinned link, and checks all contents.\n\n"
    "  --mb N         million bytes that sleep (default 8000)\n"
    "  --block-mib N  size of a block (default 256)\n"
    "  --rounds N     measurements of each kind (default 5)\n"
    "  --csv FILE     every measurement: what,round,bytes,seconds,gb_per_s\n"
    "  --no-limit     report only: less than 80 % of the link is no failure\n\n"
    "TENURE_DRIVER=sim uses the simulated device, whose times mean nothing.\n"
    "Exit codes: 0 as it must be; 1 not; 2 bad options; 77 no device.\n";

static int options_read(int argc, char **argv, bandwidth *run)
{
    static const struct option options[] = {{"mb", required_argument, NULL, 'm'},
                                            {"block-mib", required_argument, NULL, 'b'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {"csv", required_argument, NULL, 'c'},
                                            {"no-limit", no_argument, NULL, 'n'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    *run = (bandwidth){.bytes = 8000000000u,
                       .block_bytes = (size_t)256 << MIB_SHIFT,
                       .rounds = 5,
                       .is_limited = 1};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        char *end = NULL;
        long number = optarg && option != 'c' ? strtol(optarg, &end, 10) : 1;
        int is_bad = option == '?' || (end && (*end != '\0' || end == optarg)) || number < 1;
        if (option == 'h') {
            fputs(usage, stdout);
            exit(PROGRAM_OK);
        }
        if (option == 'm')
            run->bytes = (size_t)number * 1000000;
        else if (option == 'b')
            run->block_bytes = (size_t)number << MIB_SHIFT;
        else if (option == 'r')
            run->rounds = (int)number;
        else if (option == 'n')
            run->is_limited = 0;
        else if (option == 'c' && !(run->csv = fopen(optarg, "w")))
            is_bad = 1;
        if (is_bad || number > 1000000 || run->rounds > ROUNDS_MAX) {
            fputs(usage, stderr);
            return PROGRAM_BAD_INPUT;
        }
    }
    size_t count = run->bytes / run->block_bytes;
    if (optind == argc && count >= 2 && count <= BLOCKS_MAX)
        return PROGRAM_OK;
    fputs(usage, stderr);
    return PROGRAM_BAD_INPUT;
}

/* Everything between the program's start and its end. */
static int measure(bandwidth *run)
{
    program *self = run->self;
    const gpu_driver *gpu = self->gpu;
    double link[2], keep[2], discard[2];
    if (run->csv)
        fputs("what,round,bytes,seconds,gb_per_s\n", run->csv);
    must_cu(self, gpu->cuStreamCreate(&run->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(self, gpu->cuMemHostAlloc(&run->pinned, run->block_bytes, 0), "cuMemHostAlloc");
    memset(run->pinned, 0, run->block_bytes);
    blocks_make(run);
    graph_make(run);
    double begin = clock_seconds();
    must(self, tnr_sleep_prepare(self->active.device, run->bytes), "tnr_sleep_prepare");
    csv_line(run, "prepare", 0, clock_seconds() - begin);
    link[0] = link_measure(run, 1);
    blocks_check(run, "before the first sleep");
    sleeps_measure(run, TNR_CONTENT_KEEP, &keep[0], &keep[1]);
    sleeps_measure(run, TNR_CONTENT_DISCARD, &discard[0], &discard[1]);
    link[1] = link_measure(run, 0);
    refill(run);
    int code = report(run, link, keep, discard);

    must_cu(self, gpu->cuGraphExecDestroy(run->exec), "cuGraphExecDestroy");
    must_cu(self, gpu->cuGraphDestroy(run->graph), "cuGraphDestroy");
    for (size_t i = 0; i < run->blocks_count; i++)
        must(self, tnr_free((void *)(uintptr_t)run->blocks[i]), "freeing a block");
    must_cu(self, gpu->cuMemFreeHost(run->pinned), "cuMemFreeHost");
    must(self, tnr_stream_destroying(self->active.device, run->stream), "ending a stream");
    must_cu(self, gpu->cuStreamDestroy(run->stream), "cuStreamDestroy");
    return code;
}

int main(int argc, char **argv)
{
    static program self;
    static bandwidth run;
    char text[2 * PATH_MAX];
    int code = options_read(argc, argv, &run);
    if (code != PROGRAM_OK)
        return code;
    run.self = &self;
    program_open(&self, "sleep_bandwidth", 1);
    printf("sleep_bandwidth on %s\n", session_describe(&self.active, text, sizeof(text)));
    if (self.sim_races)
        run.is_limited = 0;
    code = measure(&run);
    if (self.sim_races && self.sim_races() > 0) {
        printf("the simulated device saw %llu races\n", (unsigned long long)self.sim_races());
        code = PROGRAM_WRONG;
    }
    program_close(&self);
    if (run.csv && fclose(run.csv) != 0)
        code = PROGRAM_WRONG;
    return code;
}
