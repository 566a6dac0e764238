/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The experiments of a sceptical user of captured graphs. Each of them compares, bit by bit, what a
 * replay leaves in its output with what the same work leaves without a capture.
 *
 *   replay       many replays while threads allocate and free at full speed; and without them, when
 *                a replay must not create, map or unmap anything
 *   successive   two graphs on one pool, one after the other
 *   interleaved  three graphs on one pool, launched in turn on different streams
 *   fork_join    four streams with frees on each: memory is used again inside, and the joined
 *                capture needs less than its blocks together
 *   failure      captures that fail half-way, in three ways, give everything back; the next works
 *   outside      the input is freed while a graph refers to it: nobody gets it before that ends
 *   destroyed    graph and executable are destroyed while their launch is held back
 *
 * Prints a line for each, with the checksum of the output. Exits with 0 if all is as it must be.
 */
#include "captured_step.h"
#include "workers.h"

#include <dlfcn.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GRAPHS_MAX = 3, TAKEN_MAX = 1 << 16 };

typedef struct experiments {
    program self;
    step_run run;
    size_t bytes;
    int replays, threads;
    uint64_t seed;
    const char *only; /* null: all */
    CUdeviceptr input, outputs[GRAPHS_MAX];
    uint64_t references[GRAPHS_MAX]; /* what each output must become */
    uint64_t pools_before;           /* of the device: the floor */
    uint64_t (*sim_run)(uint64_t);   /* of the simulated device; null on a GPU */
} experiments;

/* ---- checks --------------------------------------------------------------------------------- */

static void check_output(experiments *all, int number, uint64_t sum, const char *when)
{
    if (sum != all->references[number])
        program_fail(&all->self, "output %d is %016llx %s, and must be %016llx", number,
                     (unsigned long long)sum, when, (unsigned long long)all->references[number]);
}

static void check_patterns(experiments *all, const char *when)
{
    uint64_t errors = program_pattern_errors(&all->self);
    if (errors != 0)
        program_fail(&all->self, "the kernels found %llu spoilt words %s",
                     (unsigned long long)errors, when);
}

/* What replays must leave alone. */
typedef struct footprint {
    uint64_t calls, reserved, mapped;
} footprint;

static footprint footprint_of(experiments *all, tnr_pool pool)
{
    tnr_stats stats = program_stats(&all->self, pool);
    footprint found = {0, stats.reserved_bytes.current,
                       stats.num_device_alloc + stats.num_device_free};
    static const tnr_driver_kind kinds[] = {TNR_DRIVER_CREATE, TNR_DRIVER_RELEASE, TNR_DRIVER_MAP,
                                            TNR_DRIVER_ACCESS, TNR_DRIVER_UNMAP};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        found.calls += stats.driver_calls[kinds[i]];
    return found;
}

static void check_footprint(experiments *all, tnr_pool pool, footprint before, const char *whose)
{
    footprint now = footprint_of(all, pool);
    /* Calls are counted for the device: with other threads about only the pool's memory counts. */
    if (now.reserved != before.reserved || now.mapped != before.mapped ||
        (pool == NULL && now.calls != before.calls))
        program_fail(&all->self, "replaying changed the memory of the %s: %llu bytes, then %llu",
                     whose, (unsigned long long)before.reserved, (unsigned long long)now.reserved);
}

/* The driver lets go of a graph in its own time: waits for a moment. */
static void ends_wait(experiments *all)
{
    struct timespec pause = {0, 10000000};
    must_cu(&all->self, all->self.gpu->cuCtxSynchronize(), "cuCtxSynchronize");
    if (all->sim_run != NULL)
        (void)all->sim_run(UINT64_MAX); /* whose time stands still */
    else
        (void)nanosleep(&pause, NULL);
}

/* Graphs that were destroyed end, and with them their pools. */
static void check_pools_end(experiments *all, const char *after)
{
    for (int tries = 0; tries < 500; tries++) {
        must(&all->self, tnr_trim(NULL, SIZE_MAX, all->self.active.device), "looking for ends");
        if (program_stats(&all->self, NULL).pools == all->pools_before)
            return;
        ends_wait(all);
    }
    program_fail(&all->self, "%llu pools are there %s, and %llu before",
                 (unsigned long long)program_stats(&all->self, NULL).pools, after,
                 (unsigned long long)all->pools_before);
}

static void outcome_print(experiments *all, const char *name, int output, const char *detail)
{
    must(&all->self, tnr_validate(-1), "validating");
    printf("%-12s %016llx  %s\n", name, (unsigned long long)all->references[output], detail);
    fflush(stdout);
}

/* ---- 1: replay ------------------------------------------------------------------------------ */

static void replays_run(experiments *all, const step_graph *graph, int count)
{
    CUstream stream = all->run.streams[0];
    for (int i = 0; i < count; i++) {
        step_launch(&all->run, graph, all->outputs[0], stream);
        check_output(all, 0, step_checksum(&all->run, all->outputs[0], stream), "after a replay");
    }
    check_patterns(all, "in replays");
}

static void replay(experiments *all)
{
    char detail[160];
    step_run *run = &all->run;
    workers *busy = workers_start(&all->self, all->threads);
    workers_waits_forbid(1);
    step_graph graph = step_capture(run, NULL, all->input, all->outputs[0], all->seed);
    workers_waits_forbid(0);
    tnr_graph_info info = step_graph_info(run, &graph);
    footprint pool = footprint_of(all, info.pool);
    replays_run(all, &graph, all->replays);
    check_footprint(all, info.pool, pool, "graph's pool");
    uint64_t pairs = workers_stop(busy);
    footprint device = footprint_of(all, NULL);
    replays_run(all, &graph, all->replays / 10 + 1);
    check_footprint(all, NULL, device, "device");
    if (step_graph_info(run, &graph).launches != (uint64_t)(all->replays + all->replays / 10 + 1))
        program_fail(&all->self, "the launches were not counted");
    step_graph_destroy(run, &graph);
    check_pools_end(all, "after replays");
    snprintf(detail, sizeof(detail), "%d replays identical, %d threads made %llu pairs meanwhile",
             all->replays, all->threads, (unsigned long long)pairs);
    outcome_print(all, "replay", 0, detail);
}

/* ---- 2: graphs on one pool ------------------------------------------------------------------ */

static void graphs_share(experiments *all, const char *name, int count, int rounds)
{
    char detail[160];
    step_run *run = &all->run;
    step_graph graphs[GRAPHS_MAX];
    tnr_pool pool = NULL;
    uint64_t first = 0;
    must(&all->self, tnr_graph_pool_create(&pool, all->self.active.device, NULL), "a pool");
    for (int i = 0; i < count; i++) {
        graphs[i] = step_capture(run, pool, all->input, all->outputs[i], all->seed + (uint64_t)i);
        uint64_t reserved = program_stats(&all->self, pool).reserved_bytes.current;
        if (i == 0)
            first = reserved;
        else if (reserved != first)
            program_fail(&all->self, "graph %d made the shared pool grow from %llu to %llu", i,
                         (unsigned long long)first, (unsigned long long)reserved);
    }
    footprint before = footprint_of(all, NULL);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++)
            step_launch(run, &graphs[i], all->outputs[i], run->streams[(round + i) % STEP_STREAMS]);
        for (int i = 0; i < count; i++)
            check_output(
                all, i,
                step_checksum(run, all->outputs[i], run->streams[(round + i) % STEP_STREAMS]),
                "on a shared pool");
    }
    check_footprint(all, NULL, before, "device");
    check_patterns(all, "on a shared pool");
    for (int i = 0; i < count; i++)
        step_graph_destroy(run, &graphs[i]);
    for (int tries = 0; tnr_pool_destroy(pool) == TNR_ERR_BUSY && tries < 500; tries++)
        ends_wait(all);
    check_pools_end(all, "after graphs that shared it");
    snprintf(detail, sizeof(detail), "%d graphs, %d rounds, one pool of %llu bytes", count, rounds,
             (unsigned long long)first);
    outcome_print(all, name, 0, detail);
}

static void successive(experiments *all)
{
    graphs_share(all, "successive", 2, 1);
}

static void interleaved(experiments *all)
{
    graphs_share(all, "interleaved", 3, all->replays / 20 + 2);
}

/* ---- 3: fork and join ----------------------------------------------------------------------- */

static void fork_join(experiments *all)
{
    char detail[160];
    step_run *run = &all->run;
    step_graph graph = step_capture(run, NULL, all->input, all->outputs[0], all->seed);
    tnr_graph_info info = step_graph_info(run, &graph);
    uint64_t together = (uint64_t)run->bytes * (3 + STEP_STREAMS * STEP_ROUNDS) +
                        (uint64_t)run->bytes / STEP_STREAMS * (STEP_STREAMS * STEP_ROUNDS);
    uint64_t reserved = program_stats(&all->self, info.pool).reserved_bytes.current;
    if (info.blocks != 3 + 2 * STEP_STREAMS * STEP_ROUNDS)
        program_fail(&all->self, "%llu blocks were counted", (unsigned long long)info.blocks);
    /* Each lane uses its own memory in every round again, and the last block that of a lane. */
    if (info.reused < 2 * STEP_STREAMS * (STEP_ROUNDS - 1) + 1)
        program_fail(&all->self, "only %llu blocks were of memory freed before",
                     (unsigned long long)info.reused);
    if (info.bytes * 2 > together)
        program_fail(&all->self, "%llu bytes of addresses for blocks of %llu together",
                     (unsigned long long)info.bytes, (unsigned long long)together);
    replays_run(all, &graph, all->replays / 20 + 2);
    step_graph_destroy(run, &graph);
    check_pools_end(all, "after a fork and join");
    snprintf(detail, sizeof(detail), "%llu blocks, %llu reused, %llu bytes for %llu",
             (unsigned long long)info.blocks, (unsigned long long)info.reused,
             (unsigned long long)reserved, (unsigned long long)together);
    outcome_print(all, "fork_join", 0, detail);
}

/* ---- 4: captures that fail ------------------------------------------------------------------ */

/* Half of a step, then something goes wrong. */
static void failure_run(experiments *all, int how)
{
    program *self = &all->self;
    step_run *run = &all->run;
    CUstream origin = run->streams[0];
    tnr_cuda_graph cuda = NULL;
    must(self, tnr_capture_begin(self->active.device, origin, NULL), "beginning a capture");
    CUdeviceptr live = step_malloc(run, run->bytes, origin);
    must_cu(self, self->gpu->cuMemsetD8Async(live, 1, run->bytes, origin), "a set");
    step_order(run, run->streams[1], origin);
    CUdeviceptr branch = step_malloc(run, run->bytes, run->streams[1]);
    must_cu(self, self->gpu->cuMemsetD8Async(branch, 2, run->bytes, run->streams[1]), "a set");
    must(self, tnr_free(program_pointer(branch)), "freeing inside");
    tnr_status status;
    if (how == 0) { /* an illegal call, then the end */
        if (self->gpu->cuStreamSynchronize(origin) == CUDA_SUCCESS)
            program_fail(self, "a stream that captures could be waited for");
        void *late;
        if (tnr_malloc(&late, run->bytes, self->active.device, origin) !=
            TNR_ERR_CAPTURE_INVALIDATED)
            program_fail(self, "an allocation in a spoilt capture: %s", tnr_last_error());
    }
    if (how < 2) { /* 1: a stream has not joined again */
        status = tnr_capture_end(&cuda, NULL, self->active.device, origin);
        if (status != TNR_ERR_CAPTURE_INVALIDATED || cuda != NULL)
            program_fail(self, "a spoilt capture ended with %s", tnr_status_name(status));
    } else {
        must(self, tnr_capture_abort(self->active.device, origin), "aborting");
    }
    must(self, tnr_free(program_pointer(live)), "freeing afterwards");
}

static void failure(experiments *all)
{
    uint64_t live = program_stats(&all->self, NULL).bytes_live;
    for (int how = 0; how < 3; how++) {
        failure_run(all, how);
        check_pools_end(all, "after a capture that failed");
        tnr_stats stats = program_stats(&all->self, NULL);
        if (stats.bytes_live != live || stats.blocks_retired != 0)
            program_fail(&all->self, "a capture that failed has left something");
        step_graph graph = step_capture(&all->run, NULL, all->input, all->outputs[0], all->seed);
        replays_run(all, &graph, 2);
        step_graph_destroy(&all->run, &graph);
        check_pools_end(all, "after the capture that followed a failure");
    }
    outcome_print(all, "failure", 0, "spoilt, unjoined and aborted captures gave everything back");
}

/* ---- 5: freed outside ----------------------------------------------------------------------- */

/* Allocates blocks of the input's size on its stream, writes rubbish to each, and frees them again:
 * until one of them meets the input, or nothing that was free before is left. 1 if one met it. */
static int is_handed_out(experiments *all, CUdeviceptr input)
{
    program *self = &all->self;
    static CUdeviceptr taken[TAKEN_MAX];
    CUstream stream = all->run.streams[0];
    size_t bytes = all->run.bytes;
    uint64_t enough =
        program_stats(self, NULL).reserved_bytes.current + 2 * bytes + ((size_t)8 << 20);
    int met = 0, count = 0;
    while (!met && program_stats(self, NULL).reserved_bytes.current < enough) {
        if (count == TAKEN_MAX)
            program_fail(self, "more than %d blocks were free", count);
        taken[count] = program_malloc(self, NULL, bytes, stream);
        met = taken[count] < input + bytes && input < taken[count] + bytes;
        must_cu(self, self->gpu->cuMemsetD8Async(taken[count++], 0xdd, bytes, stream), "rubbish");
    }
    for (int i = 0; i < count; i++)
        must(self, tnr_free(program_pointer(taken[i])), "freeing");
    return met;
}

static void outside(experiments *all)
{
    program *self = &all->self;
    step_run *run = &all->run;
    CUstream stream = run->streams[0];
    CUdeviceptr input = program_malloc(self, NULL, run->bytes, stream);
    step_input_fill(run, input, stream);
    step_graph graph = step_capture(run, NULL, input, all->outputs[0], all->seed);
    tnr_graph_info info = step_graph_info(run, &graph);
    if (info.kept_blocks != 2 || info.kept_bytes < 2 * run->bytes)
        program_fail(self, "%llu blocks are kept for the graph, not its input and its output",
                     (unsigned long long)info.kept_blocks);
    must(self, tnr_free(program_pointer(input)), "freeing the input");
    for (int i = 0; i < 3; i++) {
        if (is_handed_out(all, input))
            program_fail(self, "what a graph refers to was handed out");
        replays_run(all, &graph, 2);
    }
    step_graph_destroy(run, &graph);
    must_cu(self, self->gpu->cuCtxSynchronize(), "cuCtxSynchronize");
    check_pools_end(all, "after its graph was destroyed");
    if (!is_handed_out(all, input))
        program_fail(self, "what the graph referred to is still not handed out");
    must_cu(self, self->gpu->cuStreamSynchronize(stream), "waiting");
    outcome_print(all, "outside", 0, "the input was freed, kept, and handed out after the end");
}

/* ---- 6: destroyed while it runs ------------------------------------------------------------- */

static void destroyed(experiments *all)
{
    program *self = &all->self;
    step_run *run = &all->run;
    CUstream stream = run->streams[2];
    step_graph graph = step_capture(run, NULL, all->input, all->outputs[0], all->seed);
    must_cu(self, self->gpu->cuCtxSynchronize(), "cuCtxSynchronize");
    program_gates_close(self);
    program_gate_hold(self, 0, stream);
    step_launch(run, &graph, all->outputs[0], stream);
    step_graph_destroy(run, &graph);
    for (int i = 0; i < 3; i++) {
        must(self, tnr_trim(NULL, 0, self->active.device), "giving back what is idle");
        (void)is_handed_out(all, 0); /* rubbish into all that is to be had */
        if (program_stats(self, NULL).pools == all->pools_before)
            program_fail(self, "the pool has ended before the launch");
    }
    int was_held = self->gpu->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
    program_gate_open(self, 0);
    check_output(all, 0, step_checksum(run, all->outputs[0], stream), "after the destruction");
    if (!was_held)
        program_fail(self, "the launch was not held back, so nothing was shown");
    check_patterns(all, "after the destruction");
    check_pools_end(all, "after the launch");
    outcome_print(all, "destroyed", 0, "the launch ran to its end, and then the pool ended");
}

/* ---- main ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(experiments *all);
} list[] = {
    {"replay", replay},       {"successive", successive}, {"interleaved", interleaved},
    {"fork_join", fork_join}, {"failure", failure},       {"outside", outside},
    {"destroyed", destroyed},
};

static const char usage[] =
    "Usage: capture_experiments [--kib N] [--replays N] [--threads N] [--seed N] [--only NAME]\n\n"
    "Captured graphs against the same work without a capture, bit by bit.\n\n"
    "  --kib N      size of input, output and temporary blocks (default 4096)\n"
    "  --replays N  of the first experiment; others do a part of that (default 1000)\n"
    "  --threads N  that allocate and free meanwhile (default 8)\n"
    "  --seed N     of the contents (default 1)\n"
    "  --only NAME  one of: replay successive interleaved fork_join failure outside destroyed\n\n"
    "TENURE_DRIVER=sim uses the simulated device, with its race detector if TENURE_SIM_RACES=1.\n"
    "Exit codes: 0 as it must be; 1 not; 2 bad options; 77 no device.\n";

static int options_read(int argc, char **argv, experiments *all)
{
    static const struct option options[] = {{"kib", required_argument, NULL, 'k'},
                                            {"replays", required_argument, NULL, 'r'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option, is_bad = 0;
    all->bytes = (size_t)4 << 20;
    all->replays = 1000;
    all->threads = 8;
    all->seed = 1;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        char *end = NULL;
        long number = optarg && option != 'o' ? strtol(optarg, &end, 10) : 1;
        is_bad |= option == '?' || (end && (*end != '\0' || end == optarg)) || number < 0;
        if (option == 'h') {
            fputs(usage, stdout);
            exit(PROGRAM_OK);
        }
        if (option == 'k')
            all->bytes = (size_t)number << 10;
        else if (option == 'r')
            all->replays = (int)number;
        else if (option == 't')
            all->threads = (int)number;
        else if (option == 's')
            all->seed = (uint64_t)number;
        else if (option == 'o')
            all->only = optarg;
    }
    int is_known = all->only == NULL;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]) && !is_known; i++)
        is_known = strcmp(all->only, list[i].name) == 0;
    /* Parts of parts must be whole pages. */
    is_bad |= all->bytes < (size_t)64 << 10 || all->bytes % ((size_t)16 << 10) != 0;
    if (!is_bad && is_known && optind == argc && all->threads <= WORKERS_MAX && all->replays > 0)
        return PROGRAM_OK;
    fputs(usage, stderr);
    return PROGRAM_BAD_INPUT;
}

/* Input, outputs, and what these must become, without a capture. */
static void references_make(experiments *all)
{
    step_run *run = &all->run;
    CUstream stream = run->streams[0];
    all->input = program_malloc(&all->self, NULL, run->bytes, stream);
    step_input_fill(run, all->input, stream);
    for (int i = 0; i < GRAPHS_MAX; i++) {
        all->outputs[i] = program_malloc(&all->self, NULL, run->bytes, stream);
        all->references[i] =
            step_reference(run, all->input, all->outputs[i], all->seed + (uint64_t)i);
        for (int j = 0; j < i; j++)
            if (all->references[i] == all->references[j])
                program_fail(&all->self, "the seeds give equal outputs, so nothing could be told");
    }
    must_cu(&all->self, all->self.gpu->cuCtxSynchronize(), "cuCtxSynchronize");
    check_patterns(all, "without a capture");
    all->pools_before = program_stats(&all->self, NULL).pools;
}

int main(int argc, char **argv)
{
    static experiments all;
    char text[2 * PATH_MAX];
    int code = options_read(argc, argv, &all);
    if (code != PROGRAM_OK)
        return code;
    program_open(&all.self, "capture_experiments", STEP_STREAMS);
    printf("capture_experiments on %s\n", session_describe(&all.self.active, text, sizeof(text)));
    void *symbol = dlsym(all.self.gpu->library, "simcuda_run");
    memcpy(&all.sim_run, &symbol, sizeof(symbol));
    step_open(&all.run, &all.self, all.bytes);
    references_make(&all);
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        if (all.only == NULL || strcmp(all.only, list[i].name) == 0)
            list[i].run(&all);
    must_cu(&all.self, all.self.gpu->cuCtxSynchronize(), "cuCtxSynchronize");
    must(&all.self, tnr_free(program_pointer(all.input)), "freeing the input");
    for (int i = 0; i < GRAPHS_MAX; i++)
        must(&all.self, tnr_free(program_pointer(all.outputs[i])), "freeing an output");
    step_close(&all.run);
    if (all.self.sim_races && all.self.sim_races() > 0) {
        fprintf(stderr, "the simulated device saw %llu races\n",
                (unsigned long long)all.self.sim_races());
        code = PROGRAM_WRONG;
    }
    program_close(&all.self);
    puts(code == PROGRAM_OK ? "all as it must be" : "NOT as it must be");
    return code;
}
