/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory does the offload program (offload_run.c) tie up, and what does bounding it cost?
 *
 * The same program runs in four or five ways, turn and turn about in one process, each Tenure way
 * in a pool of its own that keeps its memory from run to run:
 *
 *   use, wait      tnr_record_use, reuse:wait
 *   stream, wait   tnr_record_stream, reuse:wait
 *   use, poll      tnr_record_use, reuse:poll
 *   unbounded      memory allocated beforehand and never used twice by two streams, so that nothing
 *                  ever waits for memory
 *   by hand        with --by-hand: rings of buffers made beforehand, in at most 1.25 times what is
 *                  in use at once (offload_hand.c). What it loses beside the unbounded pool, the
 *                  bound itself costs on this device; what the first way loses beside it, Tenure
 *
 * What is in use at once is the most bytes that the program holds at any point of its own order,
 * between allocation and free: what it would need if the host waited for the device after every
 * call. Peak is the most physical memory that the pool had mapped in any run, the first included.
 * Times are medians over rounds, from the first call to the end of the device's work, without the
 * first round.
 *
 * On a GPU the first way must stay within 1.25 times what is in use at once and within 1.05 times
 * the time of the unbounded one. On the simulated device only the data, the bound of memory and
 * races are judged: its time means nothing.
 */
#include "offload_hand.h"
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
    int by_stream;
    enum { FROM_TENURE, FROM_UNBOUNDED, FROM_HAND } source;
    tnr_pool pool; /* stays empty if the memory is not from Tenure */
    int rounds;    /* timed so far */
    double total_ms[ROUNDS_MAX], enqueue_ms[ROUNDS_MAX];
    double first_ms;
    uint64_t peak_bytes, in_use_bytes, errors;
    uint64_t waits, host_waits, events;      /* for memory: driver calls of the latest run */
    uint64_t program_waits;                  /* for data, likewise */
    uint64_t freed_because[TNR_REUSE_COUNT]; /* blocks of the latest run */
} way;

enum { WAY_BOUNDED = 0, WAY_UNBOUNDED = 3, WAY_BY_HAND = 4, WAYS_MAX = 5 };

static way ways[WAYS_MAX] = {
    {.name = "use, wait", .key = "use_wait", .settings = "reuse:wait"},
    {.name = "stream, wait", .key = "stream_wait", .settings = "reuse:wait", .by_stream = 1},
    {.name = "use, poll", .key = "use_poll", .settings = "reuse:poll"},
    {.name = "unbounded", .key = "unbounded", .settings = "reuse:wait", .source = FROM_UNBOUNDED},
    {.name = "by hand", .key = "by_hand", .settings = "reuse:wait", .source = FROM_HAND},
};

/* How many of them run: the last one only with --by-hand. */
static int ways_count = WAYS_MAX - 1;

static int is_by_hand_measured(void)
{
    return ways_count > WAY_BY_HAND;
}

/* Memory that is not from Tenure. */
typedef struct other_sources {
    unbounded_source unbounded;
    hand_source hand; /* only with --by-hand */
} other_sources;

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
static void way_run(way *self, offload_rig *rig, other_sources *others, int round)
{
    program *top = rig->top;
    offload_result result;
    tenure_source tenure = {
        {tenure_take, tenure_use_ended, tenure_give}, rig, self->pool, self->by_stream};
    memory_source *source = self->source == FROM_UNBOUNDED ? &others->unbounded.functions
                            : self->source == FROM_HAND    ? &others->hand.functions
                                                           : &tenure.functions;
    others->unbounded.next = 0;
    others->hand.waits = others->hand.events = 0;
    must(top, tnr_configure(self->settings), "tnr_configure");
    tnr_stats device_before = program_stats(top, NULL);
    tnr_stats pool_before = program_stats(top, self->pool);
    offload_run(rig, source, (uint64_t)round * WAYS_MAX + (uint64_t)(self - ways), &result);
    tnr_stats device = program_stats(top, NULL);
    tnr_stats pool = program_stats(top, self->pool);
    way_count(self, &device_before, &device, &pool_before, &pool);
    if (self->source == FROM_UNBOUNDED)
        self->peak_bytes = others->unbounded.bytes;
    if (self->source == FROM_HAND) {
        self->peak_bytes = others->hand.bytes;
        self->waits = others->hand.waits;
        self->events = others->hand.events;
    }
    self->program_waits = result.waits;
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

/* Beside the same memory managed by hand; only if that was measured. */
static double way_by_hand_ratio(const way *self)
{
    return way_total_ms(self) / way_total_ms(&ways[WAY_BY_HAND]);
}

/* ---- reports -------------------------------------------------------------------------------- */

static void report_table(int simulated)
{
    static const char *const headings[] = {
        "",        "in use", "peak",       "ratio", "ms",    "enqueued", "first",     "time",
        "by hand", "waits",  "host waits", "same",  "event", "clock",    "waited on", "wrong"};
    enum { COLUMNS = sizeof(headings) / sizeof(headings[0]) };
    char text[32];
    table out;
    table_start(&out, COLUMNS);
    table_row(&out);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(&out, "%s", headings[i]);
    for (const way *one = ways; one < ways + ways_count; one++) {
        int is_judged = one == &ways[WAY_BOUNDED];
        table_row(&out);
        table_cell(&out, "%s", one->name);
        table_cell(&out, "%s", format_bytes_binary(one->in_use_bytes, text));
        table_cell(&out, "%s", format_bytes_binary(one->peak_bytes, text));
        table_cell(&out, "%.3f", way_peak_ratio(one));
        if (is_judged && way_peak_ratio(one) > peak_ratio_max)
            table_cell_bad(&out);
        table_cell(&out, "%.2f", way_total_ms(one));
        table_cell(&out, "%.2f", way_enqueue_ms(one));
        table_cell(&out, "%.2f", one->first_ms);
        table_cell(&out, "%.3f", way_time_ratio(one));
        if (is_judged && !simulated && way_time_ratio(one) > time_ratio_max)
            table_cell_bad(&out);
        if (is_by_hand_measured())
            table_cell(&out, "%.3f", way_by_hand_ratio(one));
        else
            table_cell(&out, "-");
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
         "host was done; first: the run that mapped the memory; time: beside unbounded; by hand:\n"
         "beside the same memory managed by hand; waits: cuStreamWaitEvent for memory; same, "
         "event,\n"
         "clock, waited on: why memory was free again (blocks of the last run: same stream, event\n"
         "done, ordered by clock, waited on device).");
}

/* What each way asked of the driver for the sake of order, in one run. */
static void report_waits(const offload_rig *rig, FILE *stream)
{
    static const char *const headings[] = {"",        "waits for data", "for memory",
                                           "a layer", "events",         "host waits"};
    enum { COLUMNS = sizeof(headings) / sizeof(headings[0]) };
    int layers = rig->plan.steps * rig->plan.layers;
    table out;
    table_start(&out, COLUMNS);
    table_row(&out);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(&out, "%s", headings[i]);
    for (const way *one = ways; one < ways + ways_count; one++) {
        table_row(&out);
        table_cell(&out, "%s", one->name);
        table_cell(&out, "%llu", (unsigned long long)one->program_waits);
        table_cell(&out, "%llu", (unsigned long long)one->waits);
        table_cell(&out, "%.2f", (double)one->waits / (double)layers);
        table_cell(&out, "%llu", (unsigned long long)one->events);
        table_cell(&out, "%llu", (unsigned long long)one->host_waits);
    }
    table_print(&out, stream);
    table_release(&out);
    fputs("\nDriver calls of the last run of each way. waits: cuStreamWaitEvent, by the program "
          "because\ndata goes from stream to stream, and by whoever manages the memory; a layer: "
          "the latter,\nper layer; events: those recorded and asked about for memory.\n",
          stream);
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
    if (is_by_hand_measured())
        json_real(&json, "by_hand_ratio", way_by_hand_ratio(one), 4);
    json_unsigned(&json, "waits_of_program", one->program_waits);
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
    for (const way *one = ways; one < ways + ways_count; one++) {
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
    int hand_weights; /* slots for weights by hand; 0: as many as there is room for */
    int is_json, is_by_hand, is_waits;
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
    "  --by-hand      also with rings of buffers managed by hand, in 1.25 times what is in use\n"
    "  --hand-weights N\n"
    "                 slots of the ring for weights (default: what the activations leave)\n"
    "  --waits        also print how many waits each way made; with --json on stderr\n"
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
    static const struct option options[] = {
        {"steps", required_argument, NULL, 's'},    {"layers", required_argument, NULL, 'l'},
        {"prefetch", required_argument, NULL, 'p'}, {"work", required_argument, NULL, 'w'},
        {"rounds", required_argument, NULL, 'r'},   {"scale", required_argument, NULL, 'c'},
        {"by-hand", no_argument, NULL, 'b'},        {"hand-weights", required_argument, NULL, 'H'},
        {"waits", no_argument, NULL, 'W'},          {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    long steps = 16, layers = 24, prefetch = 2, work = 24, scale = 1, hand_weights = 0;
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
        case 'b':
            self->is_by_hand = 1;
            break;
        case 'H':
            hand_weights = number_read(optarg, 1, HAND_SLOTS_MAX);
            break;
        case 'W':
            self->is_waits = 1;
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
        self->rounds < 0 || scale < 0 || hand_weights < 0 || (scale & (scale - 1)) != 0) {
        fputs(usage, stderr);
        return PROGRAM_BAD_INPUT;
    }
    self->hand_weights = (int)hand_weights;
    self->plan = (offload_plan){(int)steps, (int)layers, (int)prefetch, (int)work,
                                ((size_t)1 << 20) / (size_t)scale};
    return PROGRAM_OK;
}

/* All rounds; in each the ways take turns, in an order that rotates. */
static void rounds_run(offload_rig *rig, other_sources *others, long rounds)
{
    for (int round = 0; round <= rounds; round++) {
        for (int i = 0; i < ways_count; i++)
            way_run(&ways[(i + round) % ways_count], rig, others, round);
        fprintf(stderr, "round %d of %ld\n", round, rounds);
    }
}

/* Everything between the start of the device and its end. Returns the exit code. */
static int measure(program *top, offload_rig *rig, other_sources *others, const arguments *given)
{
    if (given->is_by_hand) {
        int code = hand_open(&others->hand, rig, peak_ratio_max, given->hand_weights);
        if (code != PROGRAM_OK)
            return code;
        fprintf(stderr, "by hand: %d slots for weights, %d for activations\n",
                others->hand.weights.count, others->hand.activations.count);
        ways_count = WAYS_MAX;
    }
    for (way *one = ways; one < ways + ways_count; one++)
        must(top, tnr_pool_create(&one->pool, top->active.device, NULL), "tnr_pool_create");
    rounds_run(rig, others, given->rounds);
    for (way *one = ways; given->is_json && one < ways + ways_count; one++)
        report_json(rig, one);
    if (!given->is_json)
        report_table(top->active.simulated);
    if (given->is_waits) {
        fputc('\n', given->is_json ? stderr : stdout);
        report_waits(rig, given->is_json ? stderr : stdout);
    }
    int code = judge(top);
    for (way *one = ways; one < ways + ways_count; one++)
        must(top, tnr_pool_destroy(one->pool), "tnr_pool_destroy");
    if (given->is_by_hand)
        hand_close(&others->hand);
    return code;
}

int main(int argc, char **argv)
{
    static program top;
    static offload_rig rig;
    static other_sources others;
    char text[2 * PATH_MAX];
    arguments given = {.rounds = 0};
    int code = arguments_read(argc, argv, &given);
    if (code != PROGRAM_OK)
        return code;
    program_open(&top, "lifetime_offload", STREAMS_COUNT);
    fprintf(given.is_json ? stderr : stdout, "lifetime_offload on %s\n\n",
            session_describe(&top.active, text, sizeof(text)));
    code = unbounded_open(&others.unbounded, &top, &given.plan);
    if (code != PROGRAM_OK)
        return code;
    offload_rig_open(&rig, &top, &given.plan);
    code = measure(&top, &rig, &others, &given);
    offload_rig_close(&rig);
    must_cu(&top, top.gpu->cuMemFree(others.unbounded.memory), "cuMemFree");
    program_close(&top);
    return code;
}
