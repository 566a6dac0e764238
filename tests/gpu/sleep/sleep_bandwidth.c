/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_bandwidth: what a sleep and a wake cost beside the pinned link itself, under a live graph.
 *
 * In one run, over the same memory: the link's bandwidth (large copies between the blocks and
 * pinned memory, both directions), then rounds of sleep and wake with everything kept, in pinned
 * memory and with a bound on that, then with everything discarded. The first sleep with a bound is
 * one of its own, "cold": it is the first to touch the ordinary memory that the others find there.
 * How fast this host's processors copy between ordinary and pinned memory, as many as the library
 * has at work, says what a bound could reach if there were no link. Each round checks that the
 * device has its memory back while the pool sleeps, that every byte is there after the wake, and
 * that a graph captured before the first sleep writes what it wrote before.
 *
 * While the pool sleeps with everything discarded, the mapping calls of a sleep and a wake are made
 * by hand, for as many chunks of the same size: that is what discarding should cost. The link's
 * time and theirs together are what keeping would cost if nothing ran beside the copies.
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

#include <tenure/capture.h>
#include <tenure/sleep.h>

#include "away/crew.h"

enum { BLOCKS_MAX = 4096, ROUNDS_MAX = 64, MIB_SHIFT = 20, CHUNKS_MAX = 1 << 16 };

/* What is measured, each going down and up. */
typedef enum kind { LINK, HOST, KEEP, BOUNDED, COLD, DISCARD, BY_HAND, KINDS } kind;

static const char *const kind_names[KINDS][2] = {{"link_out", "link_in"},
                                                 {"host_out", "host_in"},
                                                 {"sleep_keep", "wake_keep"},
                                                 {"sleep_bounded", "wake_bounded"},
                                                 {"sleep_bounded_cold", "wake_bounded_cold"},
                                                 {"sleep_discard", "wake_discard"},
                                                 {"unmap_by_hand", "map_by_hand"}};

typedef struct bandwidth {
    program *self;
    size_t bytes, block_bytes;
    int rounds;
    size_t bound_bytes; /* of pinned memory */
    int is_limited;     /* 1: less of the link than `least` is a failure */
    FILE *csv;          /* null: none */
    CUstream stream;
    CUdeviceptr blocks[BLOCKS_MAX];
    size_t blocks_count;
    void *pinned; /* of block_bytes */
    CUgraph graph;
    CUgraphExec exec;
    tnr_graph number;
    /* By round, and then by way: 0 down, 1 up. */
    double seconds[KINDS][2][ROUNDS_MAX];
    uint64_t calls[KINDS][2]; /* of the driver, in the last round */
    CUdeviceptr hand_base;    /* addresses for the mapping calls by hand */
    CUmemGenericAllocationHandle hand_chunks[CHUNKS_MAX];
    size_t hand_count, hand_chunk_bytes;
} bandwidth;

/* What must be reached of the link, sleeping and waking; 0: nothing. */
static const double least[KINDS][2] = {[KEEP] = {0.9, 0.9}, [BOUNDED] = {0, 0.9}};

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

/* There is one first sleep. */
static int kind_rounds(const bandwidth *run, kind which)
{
    return which == COLD ? 1 : run->rounds;
}

/* The median of all rounds of a kind, one way. */
static double kind_median(const bandwidth *run, kind which, int way)
{
    double values[ROUNDS_MAX];
    int rounds = kind_rounds(run, which);
    memcpy(values, run->seconds[which][way], (size_t)rounds * sizeof(values[0]));
    return median(values, rounds);
}

/* `round` is a number or "median". */
static void csv_line(const bandwidth *run, kind which, int way, const char *round, double seconds)
{
    double rate = (double)run->bytes / seconds / 1e9;
    fprintf(run->csv, "%s,%s,%zu,%.0f,%.3f,%.4f,%llu\n", kind_names[which][way], round, run->bytes,
            seconds * 1e9, rate, kind_median(run, LINK, way) / seconds,
            (unsigned long long)run->calls[which][way]);
}

static void csv_write(const bandwidth *run)
{
    char round[16];
    fputs("what,round,bytes,ns,gb_per_s,of_link,driver_calls\n", run->csv);
    for (int which = 0; which < KINDS; which++)
        for (int way = 0; way < 2; way++) {
            for (int i = 0; i < kind_rounds(run, (kind)which); i++) {
                snprintf(round, sizeof(round), "%d", i);
                csv_line(run, (kind)which, way, round, run->seconds[which][way][i]);
            }
            csv_line(run, (kind)which, way, "median", kind_median(run, (kind)which, way));
        }
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
    if (!gpu->cuGraphInstantiateWithFlags)
        program_fail(self, "the driver has no graphs");
    must(self, tnr_capture_begin(self->active.device, run->stream, NULL), "tnr_capture_begin");
    must_cu(self,
            gpu->cuMemcpyDtoDAsync(run->blocks[1], run->blocks[0], run->block_bytes, run->stream),
            "capturing a copy");
    must(self, tnr_capture_end(&run->graph, &run->number, self->active.device, run->stream),
         "tnr_capture_end");
    must_cu(self, gpu->cuGraphInstantiateWithFlags(&run->exec, run->graph, 0),
            "cuGraphInstantiateWithFlags");
}

/* Spoils the second block and lets the graph put it right. */
static void graph_replay(bandwidth *run)
{
    program *self = run->self;
    must_cu(self, self->gpu->cuMemsetD8Async(run->blocks[1], 0xee, run->block_bytes, run->stream),
            "spoiling a block");
    must(self, tnr_graph_launch(run->number, run->exec, run->stream), "tnr_graph_launch");
}

/* ---- measuring ------------------------------------------------------------------------------ */

/* The link: as many bytes as the blocks have, through one pinned buffer. */
static void link_measure(bandwidth *run, int way)
{
    program *self = run->self;
    for (int round = 0; round < run->rounds; round++) {
        double begin = clock_seconds();
        for (size_t i = 0; i < run->blocks_count; i++)
            must_cu(self,
                    way == 0 ? self->gpu->cuMemcpyDtoHAsync(run->pinned, run->blocks[i],
                                                            run->block_bytes, run->stream)
                             : self->gpu->cuMemcpyHtoDAsync(run->blocks[i], run->pinned,
                                                            run->block_bytes, run->stream),
                    "copying");
        must_cu(self, self->gpu->cuStreamSynchronize(run->stream), "waiting for copies");
        run->seconds[LINK][way][round] = clock_seconds() - begin;
    }
    run->calls[LINK][way] = run->blocks_count + 1;
}

/* The host alone, with a crew as the library has one: as many bytes as the blocks have, from or to
 * one pinned buffer, to or from ordinary memory that has been touched. */
static void host_measure(bandwidth *run)
{
    program *self = run->self;
    unsigned char *ordinary = malloc(run->block_bytes);
    if (!ordinary)
        program_fail(self, "no host memory");
    memset(ordinary, 1, run->block_bytes);
    for (int way = 0; way < 2; way++)
        for (int round = 0; round < run->rounds; round++) {
            double begin = clock_seconds();
            tnri_crew *crew = tnri_crew_hire(run->block_bytes, way);
            for (size_t i = 0; i < run->blocks_count; i++) {
                tnri_crew_give(crew, way == 0 ? ordinary : run->pinned,
                               way == 0 ? run->pinned : ordinary, run->block_bytes);
                tnri_crew_wait(crew, 0);
            }
            tnri_crew_dismiss(crew);
            run->seconds[HOST][way][round] = clock_seconds() - begin;
        }
    free(ordinary);
}

static size_t device_free(bandwidth *run)
{
    size_t available = 0, total = 0;
    must_cu(run->self, run->self->gpu->cuMemGetInfo(&available, &total), "cuMemGetInfo");
    return available;
}

/* Driver calls that the library has made on the device. */
static uint64_t library_calls(bandwidth *run)
{
    tnr_stats stats = program_stats(run->self, NULL);
    uint64_t calls = 0;
    for (int i = 0; i < TNR_DRIVER_KIND_COUNT; i++)
        calls += stats.driver_calls[i];
    return calls;
}

/* ---- by hand -------------------------------------------------------------------------------- */

static void hand_prepare(bandwidth *run)
{
    tnr_stats stats = program_stats(run->self, NULL);
    const size_t page = (size_t)2 << MIB_SHIFT;
    run->hand_count = stats.segment.current;
    if (run->hand_count == 0 || run->hand_count > CHUNKS_MAX)
        program_fail(run->self, "%zu chunks are not what this program is for", run->hand_count);
    run->hand_chunk_bytes =
        ((size_t)stats.reserved_bytes.current / run->hand_count + page - 1) / page * page;
    must_cu(run->self,
            run->self->gpu->cuMemAddressReserve(&run->hand_base,
                                                run->hand_count * run->hand_chunk_bytes, 0, 0, 0),
            "cuMemAddressReserve");
}

static void hand_map(bandwidth *run)
{
    const gpu_driver *gpu = run->self->gpu;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = run->self->active.device;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (size_t i = 0; i < run->hand_count; i++) {
        CUdeviceptr at = run->hand_base + i * run->hand_chunk_bytes;
        must_cu(run->self,
                gpu->cuMemCreate(&run->hand_chunks[i], run->hand_chunk_bytes, &properties, 0),
                "cuMemCreate");
        must_cu(run->self, gpu->cuMemMap(at, run->hand_chunk_bytes, 0, run->hand_chunks[i], 0),
                "cuMemMap");
        must_cu(run->self, gpu->cuMemSetAccess(at, run->hand_chunk_bytes, &access, 1),
                "cuMemSetAccess");
    }
}

static void hand_unmap(bandwidth *run)
{
    const gpu_driver *gpu = run->self->gpu;
    must_cu(run->self, gpu->cuCtxSynchronize(), "cuCtxSynchronize"); /* as a sleep must */
    for (size_t i = 0; i < run->hand_count; i++)
        must_cu(run->self,
                gpu->cuMemUnmap(run->hand_base + i * run->hand_chunk_bytes, run->hand_chunk_bytes),
                "cuMemUnmap");
    for (size_t i = 0; i < run->hand_count; i++)
        must_cu(run->self, gpu->cuMemRelease(run->hand_chunks[i]), "cuMemRelease");
}

/* One round, while the pool sleeps: there is room. */
static void hand_measure(bandwidth *run, int round)
{
    double begin = clock_seconds();
    hand_map(run);
    run->seconds[BY_HAND][1][round] = clock_seconds() - begin;
    begin = clock_seconds();
    hand_unmap(run);
    run->seconds[BY_HAND][0][round] = clock_seconds() - begin;
    run->calls[BY_HAND][1] = 3 * run->hand_count;
    run->calls[BY_HAND][0] = 2 * run->hand_count + 1;
}

/* ---- sleeps --------------------------------------------------------------------------------- */

static void sleep_once(bandwidth *run, kind which, int round)
{
    program *self = run->self;
    int device = self->active.device;
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    options.content = which == DISCARD ? TNR_CONTENT_DISCARD : TNR_CONTENT_KEEP;
    options.keep_backing = 1;
    options.pinned_bytes_max = which == BOUNDED || which == COLD ? run->bound_bytes : 0;
    size_t before = device_free(run);
    uint64_t calls = library_calls(run);
    double begin = clock_seconds();
    must(self, tnr_pool_sleep(NULL, device, &options), "tnr_pool_sleep");
    run->seconds[which][0][round] = clock_seconds() - begin;
    run->calls[which][0] = library_calls(run) - calls;
    if (device_free(run) < before + run->bytes)
        program_fail(self, "only %zu bytes came back of %zu", device_free(run) - before,
                     run->bytes);
    if (which == DISCARD)
        hand_measure(run, round);
    calls = library_calls(run);
    begin = clock_seconds();
    must(self, tnr_pool_wake(NULL, device), "tnr_pool_wake");
    run->seconds[which][1][round] = clock_seconds() - begin;
    run->calls[which][1] = library_calls(run) - calls;
    if (which == DISCARD)
        return;
    blocks_check(run, "after a wake");
    graph_replay(run);
    blocks_check(run, "after a replay");
}

static void sleeps_measure(bandwidth *run, kind which)
{
    for (int round = 0; round < kind_rounds(run, which); round++)
        sleep_once(run, which, round);
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

/* A line of the report. PROGRAM_WRONG if it is less than it must be. */
static int report_line(const bandwidth *run, kind which, int way, const char *what)
{
    static const char *const ways[2] = {"sleep", "wake"};
    double gb = (double)run->bytes / 1e9, seconds = kind_median(run, which, way);
    double share = kind_median(run, LINK, way) / seconds;
    int is_bad = run->is_limited && share < least[which][way];
    printf("%-5s %-10s %9.2f ms  %6.2f GB/s  %5.1f %%", ways[way], what, seconds * 1e3,
           gb / seconds, share * 100);
    if (is_bad)
        printf("  (below %.0f %%)", least[which][way] * 100);
    puts("");
    return is_bad ? PROGRAM_WRONG : PROGRAM_OK;
}

static int report(const bandwidth *run)
{
    int code = PROGRAM_OK;
    double gb = (double)run->bytes / 1e9;
    printf("%.3f GB in blocks of %zu MiB, %zu chunks, medians of %d rounds; the bound is %zu MiB\n"
           "of pinned memory; %% of the link\n\n",
           gb, run->block_bytes >> MIB_SHIFT, run->hand_count, run->rounds,
           run->bound_bytes >> MIB_SHIFT);
    for (int way = 0; way < 2; way++) {
        double link = kind_median(run, LINK, way), hand = kind_median(run, BY_HAND, way);
        (void)report_line(run, LINK, way, "the link");
        (void)report_line(run, HOST, way, "the host");
        code |= report_line(run, KEEP, way, "kept");
        code |= report_line(run, BOUNDED, way, "bounded");
        (void)report_line(run, COLD, way, "first");
        printf("      discarded  %9.2f ms  %llu driver calls; by hand %.2f ms, %llu calls\n",
               kind_median(run, DISCARD, way) * 1e3, (unsigned long long)run->calls[DISCARD][way],
               hand * 1e3, (unsigned long long)run->calls[BY_HAND][way]);
        printf("      apart      %9.2f ms  %6.2f GB/s  %5.1f %%: the link and the calls by hand, "
               "one after the other\n\n",
               (link + hand) * 1e3, gb / (link + hand), link / (link + hand) * 100);
    }
    puts("Every byte was there after each wake, and the graph wrote what it wrote before.");
    return code;
}

/* ---- options -------------------------------------------------------------------------------- */

static const char usage[] =
    "Usage: sleep_bandwidth [--mb N] [--block-mib N] [--rounds N] [--csv FILE] [--no-limit]\n\n"
    "Measures sleep and wake of a pool beside the pinned link, and checks all contents.\n\n"
    "  --mb N         million bytes that sleep (default 8000)\n"
    "  --block-mib N  size of a block (default 256)\n"
    "  --rounds N     measurements of each kind (default 5)\n"
    "  --bound-mib N  pinned memory where it is bounded (default 64)\n"
    "  --csv FILE     every measurement, and medians; - is the standard output:\n"
    "                 what,round,bytes,ns,gb_per_s,of_link,driver_calls\n"
    "  --no-limit     report only. Without it, less than 90 % of the link is a failure\n"
    "                 for what is kept, and for the wake with a bound\n\n"
    "TENURE_DRIVER=sim uses the simulated device, whose times mean nothing.\n"
    "Exit codes: 0 as it must be; 1 not; 2 bad options; 77 no device.\n";

static int options_read(int argc, char **argv, bandwidth *run)
{
    static const struct option options[] = {
        {"mb", required_argument, NULL, 'm'},     {"block-mib", required_argument, NULL, 'b'},
        {"rounds", required_argument, NULL, 'r'}, {"bound-mib", required_argument, NULL, 'p'},
        {"csv", required_argument, NULL, 'c'},    {"no-limit", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    run->bytes = 8000000000u;
    run->block_bytes = (size_t)256 << MIB_SHIFT;
    run->bound_bytes = (size_t)64 << MIB_SHIFT;
    run->rounds = 5;
    run->is_limited = 1;
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
        else if (option == 'p')
            run->bound_bytes = (size_t)number << MIB_SHIFT;
        else if (option == 'r')
            run->rounds = (int)number;
        else if (option == 'n')
            run->is_limited = 0;
        else if (option == 'c' &&
                 !(run->csv = strcmp(optarg, "-") == 0 ? stdout : fopen(optarg, "w")))
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
    must_cu(self, gpu->cuStreamCreate(&run->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(self, gpu->cuMemHostAlloc(&run->pinned, run->block_bytes, 0), "cuMemHostAlloc");
    memset(run->pinned, 0, run->block_bytes);
    blocks_make(run);
    graph_make(run);
    hand_prepare(run);
    must(self, tnr_sleep_prepare(run->bytes, self->active.device), "tnr_sleep_prepare");
    host_measure(run);
    link_measure(run, 0);
    blocks_check(run, "before the first sleep");
    sleeps_measure(run, KEEP);
    must(self, tnr_sleep_prepare(0, self->active.device), "tnr_sleep_prepare");
    sleeps_measure(run, COLD);
    sleeps_measure(run, BOUNDED);
    sleeps_measure(run, DISCARD);
    link_measure(run, 1);
    refill(run);
    int code = report(run);
    if (run->csv)
        csv_write(run);

    must_cu(self, gpu->cuMemAddressFree(run->hand_base, run->hand_count * run->hand_chunk_bytes),
            "cuMemAddressFree");
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
    if (run.csv)
        program_csv_facts(&self, argc, argv, run.csv);
    code = measure(&run);
    if (self.sim_races && self.sim_races() > 0) {
        printf("the simulated device saw %llu races\n", (unsigned long long)self.sim_races());
        code = PROGRAM_WRONG;
    }
    program_close(&self);
    if (run.csv && (fflush(run.csv) != 0 || ferror(run.csv)))
        code = PROGRAM_WRONG;
    return code;
}
