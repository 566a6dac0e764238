/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory does the offload program (offload_run.c) tie up, and what does bounding it cost?
 *
 * The same program runs in four ways, turn and turn about in one process, each Tenure way in a
 * pool of its own that keeps its memory from run to run:
 *
 *   use, wait      tnr_record_use, reuse:wait
 *   stream, wait   tnr_record_stream, reuse:wait
 *   use, poll      tnr_record_use, reuse:poll
 *   unbounded      memory allocated beforehand and never used twice by two streams, so that nothing
 *                  ever waits for memory
 *
 * What is in use at once is the most bytes that the program holds at any point of its own order,
 * between allocation and free: what it would need if the host waited for the device after every
 * call. Peak is the most physical memory that the pool had mapped in any run, the first included.
 * Times are medians over rounds, from the first call to the end of the device's work, without the
 * first round.
 *
 * On a GPU the first way must stay within 1.25 times what is in use at once and within 1.05 times
 * the time of the last. On the simulated device only the data, the bound of memory and races are
 * judged: its time means nothing.
 */
#include "offload_run.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "samples.h"
#include "table.h"

static const double peak_ratio_max = 1.25, time_ratio_max = 1.05;
enum { ROUNDS_MAX = 64 };

/* ---- memory from Tenure --------------------------------------------------------------------- */

typedef struct tenure_source {
    memory_source functions; /* first: the run knows no more of us */
    offload_rig *rig;
    tnr_pool pool;
    int by_stream; /* tnr_record_stream instead of tnr_record_use */
} tenure_source;

static CUdeviceptr tenure_take(memory_source *source, size_t bytes, int stream, int is_private)
{
    tenure_source *self = (tenure_source *)source;
    (void)is_private;
    return program_malloc(self->rig->top, self->pool, bytes, self->rig->streams[stream]);
}

static void tenure_use_ended(memory_source *source, CUdeviceptr block, int stream)
{
    tenure_source *self = (tenure_source *)source;
    CUstream handle = self->rig->streams[stream];
    if (self->by_stream)
        must(self->rig->top, tnr_record_stream(program_pointer(block), handle),
             "tnr_record_stream");
    else
        must(self->rig->top, tnr_record_use(program_pointer(block), handle), "tnr_record_use");
}

static void tenure_give(memory_source *source, CUdeviceptr block, int is_private)
{
    tenure_source *self = (tenure_source *)source;
    (void)is_private;
    must(self->rig->top, tnr_free(program_pointer(block)), "tnr_free");
}

/* ---- memory that is never used twice -------------------------------------------------------- */

typedef struct unbounded_source {
    memory_source functions;
    CUdeviceptr memory;  /* one piece for all shared blocks of a run, and the private ones behind */
    uint64_t bytes;      /* of the piece */
    uint64_t next;       /* where the next shared block starts */
    uint64_t private_at; /* of stream 0; those of the others follow */
    size_t private_bytes;
} unbounded_source;

static CUdeviceptr unbounded_take(memory_source *source, size_t bytes, int stream, int is_private)
{
    unbounded_source *self = (unbounded_source *)source;
    if (is_private)
        return self->memory + self->private_at + (uint64_t)stream * self->private_bytes;
    CUdeviceptr at = self->memory + self->next;
    self->next += bytes;
    return at;
}

static void unbounded_use_ended(memory_source *source, CUdeviceptr block, int stream)
{
    (void)source;
    (void)block;
    (void)stream;
}

static void unbounded_give(memory_source *source, CUdeviceptr block, int is_private)
{
    (void)source;
    (void)block;
    (void)is_private;
}

static int unbounded_open(unbounded_source *self, program *top, const offload_plan *plan)
{
    memset(self, 0, sizeof(*self));
    self->functions = (memory_source){unbounded_take, unbounded_use_ended, unbounded_give};
    self->private_at = offload_shared_bytes(plan);
    self->private_bytes = offload_private_bytes(plan);
    self->bytes = self->private_at + STREAMS_COUNT * (uint64_t)self->private_bytes;
    CUresult result = top->gpu->cuMemAlloc(&self->memory, self->bytes);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) {
        must_cu(top, result, "allocating the unbounded pool");
        return PROGRAM_OK;
    }
    fprintf(stderr, "lifetime_offload: the unbounded pool needs %.1f GB: take fewer --steps\n",
            (double)self->bytes / 1e9);
    return PROGRAM_BAD_INPUT;
}

/* ---- ways ----------------------------------------------------------------------------------- */

typedef struct way {
    const char *name, *key;
    const char *settings; /* for tnr_configure */
    int by_stream, is_unbounded;
    tnr_pool pool; /* stays empty if it is unbounded */
    int rounds;    /* timed so far */
    double total_ms[ROUNDS_MAX], enqueue_ms[ROUNDS_MAX];
    double first_ms;
    uint64_t peak_bytes, in_use_bytes, errors;
    uint64_t waits, host_waits, events;      /* driver calls of the latest run */
    uint64_t freed_because[TNR_REUSE_COUNT]; /* blocks of the latest run */
} way;

enum { WAY_BOUNDED = 0, WAY_UNBOUNDED = 3, WAYS_COUNT = 4 };

static way ways[WAYS_COUNT] = {
    {.name = "use, wait", .key = "use_wait", .settings = "reuse:wait"},
    {.name = "stream, wait", .key = "stream_wait", .settings = "reuse:wait", .by_stream = 1},
    {.name = "use, poll", .key = "use_poll", .settings = "reuse:poll"},
    {.name = "unbounded", .key = "unbounded", .settings = "reuse:wait", .is_unbounded = 1},
};

/* What differs between two pictures of the statistics. */
static void way_count(way *self, const tnr_stats *device_before, const tnr_stats *device,
                      const tnr_stats *pool_before, const tnr_stats *pool)
{
    self->waits =
        device->driver_calls[TNR_DRIVER_ORDER] - device_before->driver_calls[TNR_DRIVER_ORDER];
    self->host_waits =
        device->driver_calls[TNR_DRIVER_WAIT] - device_before->driver_calls[TNR_DRIVER_WAIT];
    self->events =
        device->driver_calls[TNR_DRIVER_EVENT] - device_before->driver_calls[TNR_DRIVER_EVENT];
    for (int i = 0; i < TNR_REUSE_COUNT; i++)
        self->freed_because[i] = pool->freed_because[i] - pool_before->freed_because[i];
    self->peak_bytes = pool->reserved_bytes.peak;
}

/* One run of one way. Round 0 is the warm-up, whose peak and data count, but not its time. */
static void way_run(way *self, offload_rig *rig, unbounded_source *unbounded, int round)
{
    program *top = rig->top;
    offload_result result;
    tenure_source tenure = {
        {tenure_take, tenure_use_ended, tenure_give}, rig, self->pool, self->by_stream};
    memory_source *source = self->is_unbounded ? &unbounded->functions : &tenure.functions;
    unbounded->next = 0;
    must(top, tnr_configure(self->settings), "tnr_configure");
    tnr_stats device_before = program_stats(top, NULL);
    tnr_stats pool_before = program_stats(top, self->pool);
    offload_run(rig, source, (uint64_t)round * WAYS_COUNT + (uint64_t)(self - ways), &result);
    tnr_stats device = program_stats(top, NULL);
    tnr_stats pool = program_stats(top, self->pool);
    way_count(self, &device_before, &device, &pool_before, &pool);
    if (self->is_unbounded)
        self->peak_bytes = unbounded->bytes;
    self->in_use_bytes = result.in_use_bytes;
    self->errors += result.errors;
    if (round == 0) {
        self->first_ms = (double)result.total_ns / 1e6;
        return;
    }
    self->total_ms[self->rounds] = (double)result.total_ns / 1e6;
    self->enqueue_ms[self->rounds] = (double)result.enqueue_ns / 1e6;
    self->rounds++;
}

static double way_total_ms(const way *self)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, self->total_ms, sizeof(sorted));
    return samples_quantile(sorted, (size_t)self->rounds, 0.5);
}

static double way_enqueue_ms(const way *self)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, self->enqueue_ms, sizeof(sorted));
    return samples_quantile(sorted, (size_t)self->rounds, 0.5);
}

static double way_peak_ratio(const way *self)
{
    return (double)self->peak_bytes / (double)self->in_use_bytes;
}

static double way_time_ratio(const way *self)
{
    return way_total_ms(self) / way_total_ms(&ways[WAY_UNBOUNDED]);
}

/* ---- reports -------------------------------------------------------------------------------- */

static void report_table(int simulated)
{
    static const char *const headings[] = {"",         "in use", "peak",  "ratio",     "ms",
                                           "enqueued", "first",  "time",  "waits",     "host waits",
                                           "same",     "event",  "clock", "waited on", "wrong"};
    enum { COLUMNS = sizeof(headings) / sizeof(headings[0]) };
    char text[32];
    table out;
    table_start(&out, COLUMNS);
    table_row(&out);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(&out, "%s", headings[i]);
    for (const way *one = ways; one < ways + WAYS_COUNT; one++) {
        int is_judged = one == &ways[WAY_BOUNDED];
        table_row(&out);
        table_cell(&out, "%s", one->name);
        table_cell(&out, "%s", format_bytes(one->in_use_bytes, text));
        table_cell(&out, "%s", format_bytes(one->peak_bytes, text));
        table_cell(&out, "%.3f", way_peak_ratio(one));
        if (is_judged && way_peak_ratio(one) > peak_ratio_max)
            table_cell_bad(&out);
        table_cell(&out, "%.2f", way_total_ms(one));
        table_cell(&out, "%.2f", way_enqueue_ms(one));
        table_cell(&out, "%.2f", one->first_ms);
        table_cell(&out, "%.3f", way_time_ratio(one));
        if (is_judged && !simulated && way_time_ratio(one) > time_ratio_max)
            table_cell_bad(&out);
        table_cell(&out, "%llu", (unsigned long long)one->waits);
        table_cell(&out, "%llu", (unsigned long long)one->host_waits);
        for (int i = 0; i < TNR_REUSE_COUNT; i++)
            table_cell(&out, "%llu", (unsigned long long)one->freed_because[i]);
        table_cell(&out, "%llu", (unsigned long long)one->errors);
        if (one->errors)
            table_cell_bad(&out);
    }
    table_print(&out, stdout);
    table_release(&out);
    puts("\nin use: the most bytes between allocation and free in the program's own order; peak: "
         "the\n"
         "most memory mapped in any run; ms: median of a run, host and device; enqueued: when the\n"
         "host was done; first: the run that mapped the memory; time: beside unbounded; waits:\n"
         "cuStreamWaitEvent by Tenure; same, event, clock, waited on: why memory was free again\n"
         "(blocks of the last run: same stream, event done, ordered by clock, waited on device).");
}

static void report_json(const offload_rig *rig, const way *one)
{
    static const char *const reasons[TNR_REUSE_COUNT] = {
#define REASON_NAME(name, text) text,
        TNR_REUSE_LIST(REASON_NAME)
#undef REASON_NAME
    };
    const session *active = &rig->top->active;
    json_writer json;
    json_start(&json, stdout);
    json_object_begin(&json, NULL);
    json_text(&json, "way", one->key);
    json_text(&json, "device", active->device_info.name);
    json_boolean(&json, "simulated", active->simulated);
    json_unsigned(&json, "steps", (uint64_t)rig->plan.steps);
    json_unsigned(&json, "layers", (uint64_t)rig->plan.layers);
    json_unsigned(&json, "prefetch", (uint64_t)rig->plan.prefetch);
    json_unsigned(&json, "work", (uint64_t)rig->plan.work);
    json_unsigned(&json, "unit_bytes", rig->plan.unit_bytes);
    json_unsigned(&json, "rounds", (uint64_t)one->rounds);
    json_unsigned(&json, "in_use_bytes", one->in_use_bytes);
    json_unsigned(&json, "peak_bytes", one->peak_bytes);
    json_real(&json, "peak_ratio", way_peak_ratio(one), 4);
    json_real(&json, "total_ms", way_total_ms(one), 3);
    json_real(&json, "enqueue_ms", way_enqueue_ms(one), 3);
    json_real(&json, "first_ms", one->first_ms, 3);
    json_real(&json, "time_ratio", way_time_ratio(one), 4);
    json_unsigned(&json, "waits_on_device", one->waits);
    json_unsigned(&json, "waits_on_host", one->host_waits);
    json_unsigned(&json, "event_calls", one->events);
    json_object_begin(&json, "freed_because");
    for (int i = 0; i < TNR_REUSE_COUNT; i++)
        json_unsigned(&json, reasons[i], one->freed_because[i]);
    json_object_end(&json);
    json_unsigned(&json, "wrong_words", one->errors);
    json_object_end(&json);
    json_end(&json);
}

/* Compares with what must be. Returns the exit code. */
static int judge(const program *top)
{
    const way *bounded = &ways[WAY_BOUNDED];
    int code = PROGRAM_OK;
    for (const way *one = ways; one < ways + WAYS_COUNT; one++) {
        if (one->errors > 0) {
            fprintf(stderr, "%s: %llu wrong words: memory was used while it was needed\n",
                    one->name, (unsigned long long)one->errors);
            code = PROGRAM_WRONG;
        }
    }
    if (way_peak_ratio(bounded) > peak_ratio_max) {
        fprintf(stderr, "%s: peak is %.3f times what is in use at once; the limit is %.2f\n",
                bounded->name, way_peak_ratio(bounded), peak_ratio_max);
        code = PROGRAM_WRONG;
    }
    if (!top->active.simulated && way_time_ratio(bounded) > time_ratio_max) {
        fprintf(stderr, "%s: took %.3f times as long as the unbounded pool; the limit is %.2f\n",
                bounded->name, way_time_ratio(bounded), time_ratio_max);
        code = PROGRAM_WRONG;
    }
    if (top->sim_races && top->sim_races() > 0) {
        fprintf(stderr, "the simulated device saw %llu races\n",
                (unsigned long long)top->sim_races());
        code = PROGRAM_WRONG;
    }
    return code;
}

/* ---- command line --------------------------------------------------------------------------- */

typedef struct arguments {
    offload_plan plan;
    long rounds;
    int is_json;
} arguments;

static const char usage[] =
    "Usage: lifetime_offload [options]\n\n"
    "Runs a program that brings weights to the device and activations to the host, on three\n"
    "streams, with a host that never waits, and reports how much memory it ties up.\n\n"
    "  --steps N      steps of a run (default 16)\n"
    "  --layers N     layers of a step (default 24, at most 64)\n"
    "  --prefetch N   weights fetched ahead (default 2, at most 8)\n"
    "  --work N       copies of the activations that stand for a layer's work (default 24)\n"
    "  --rounds N     timed runs of each way, after one that is not (default 7)\n"
    "  --scale N      sizes are divided by N, a power of two (default 1)\n"
    "  --json         one object per way on stdout\n\n"
    "TENURE_DRIVER=sim uses the simulated device.\n"
    "Exit codes: 0 within the limits; 1 not, or data was wrong; 2 bad options, or too little\n"
    "memory for them; 77 no device.\n";

/* Reads a number, or leaves -1. */
static long number_read(const char *text, long min, long max)
{
    char *end;
    long number = strtol(text, &end, 10);
    return *text == '\0' || *end != '\0' || number < min || number > max ? -1 : number;
}

static int arguments_read(int argc, char **argv, arguments *self)
{
    static const struct option options[] = {{"steps", required_argument, NULL, 's'},
                                            {"layers", required_argument, NULL, 'l'},
                                            {"prefetch", required_argument, NULL, 'p'},
                                            {"work", required_argument, NULL, 'w'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {"scale", required_argument, NULL, 'c'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    long steps = 16, layers = 24, prefetch = 2, work = 24, scale = 1;
    int option, is_wrong = 0;
    self->rounds = 7;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 's':
            steps = number_read(optarg, 1, OFFLOAD_STEPS_MAX);
            break;
        case 'l':
            layers = number_read(optarg, 1, OFFLOAD_LAYERS_MAX);
            break;
        case 'p':
            prefetch = number_read(optarg, 0, OFFLOAD_PREFETCH_MAX);
            break;
        case 'w':
            work = number_read(optarg, 0, 100000);
            break;
        case 'r':
            self->rounds = number_read(optarg, 1, ROUNDS_MAX);
            break;
        case 'c':
            scale = number_read(optarg, 1, 1024);
            break;
        case 'j':
            self->is_json = 1;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(PROGRAM_OK);
        default:
            is_wrong = 1;
        }
    }
    if (is_wrong || optind != argc || steps < 0 || layers < 0 || prefetch < 0 || work < 0 ||
        self->rounds < 0 || scale < 0 || (scale & (scale - 1)) != 0) {
        fputs(usage, stderr);
        return PROGRAM_BAD_INPUT;
    }
    self->plan = (offload_plan){(int)steps, (int)layers, (int)prefetch, (int)work,
                                ((size_t)1 << 20) / (size_t)scale};
    return PROGRAM_OK;
}

/* All rounds; in each the ways take turns, in an order that rotates. */
static void rounds_run(offload_rig *rig, unbounded_source *unbounded, long rounds)
{
    for (int round = 0; round <= rounds; round++) {
        for (int i = 0; i < WAYS_COUNT; i++)
            way_run(&ways[(i + round) % WAYS_COUNT], rig, unbounded, round);
        fprintf(stderr, "round %d of %ld\n", round, rounds);
    }
}

int main(int argc, char **argv)
{
    static program top;
    static offload_rig rig;
    char text[2 * PATH_MAX];
    arguments given = {.rounds = 0};
    unbounded_source unbounded;
    int code = arguments_read(argc, argv, &given);
    if (code != PROGRAM_OK)
        return code;
    program_open(&top, "lifetime_offload", STREAMS_COUNT);
    fprintf(given.is_json ? stderr : stdout, "lifetime_offload on %s\n\n",
            session_describe(&top.active, text, sizeof(text)));
    code = unbounded_open(&unbounded, &top, &given.plan);
    if (code != PROGRAM_OK)
        return code;
    offload_rig_open(&rig, &top, &given.plan);
    for (way *one = ways; one < ways + WAYS_COUNT; one++)
        must(&top, tnr_pool_create(&one->pool, top.active.device, NULL), "tnr_pool_create");
    rounds_run(&rig, &unbounded, given.rounds);
    for (way *one = ways; given.is_json && one < ways + WAYS_COUNT; one++)
        report_json(&rig, one);
    if (!given.is_json)
        report_table(top.active.simulated);
    code = judge(&top);
    for (way *one = ways; one < ways + WAYS_COUNT; one++)
        must(&top, tnr_pool_destroy(one->pool), "tnr_pool_destroy");
    offload_rig_close(&rig);
    must_cu(&top, top.gpu->cuMemFree(unbounded.memory), "cuMemFree");
    program_close(&top);
    return code;
}
