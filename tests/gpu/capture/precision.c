/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How tightly does a capture reuse memory, and does that stay cheap as the graph grows?
 *
 * Captures of 1,000 steps on four streams that wait for each other. A step allocates a block, uses
 * it, and frees it, at once or some steps later; now and then another stream uses it too, and that
 * use is recorded. The pool's memory is compared with the least that any allocator needs for these
 * blocks and edges, however clever, all known ahead: see antichain.h. The model follows the waits
 * itself and asks Tenure nothing.
 *
 * Then the same with 10,000 steps: the time for each step must not grow.
 *
 *   rounds   the streams take turns and join after each; 4 to 32 MiB
 *   equal    chains of steps on each stream, joined every 16; all of one size
 *   chains   the same with 4 to 32 MiB
 *   pairs    the streams wait for each other in pairs, at random; all of one size
 *   uses     the same with 4 to 32 MiB, and half of the blocks are used by a second stream
 *   windows  any size from 1 to 17 MiB, second streams, and each stream holds its last four
 *
 * The first two must stay within 5 % of the least. The others are reported: blocks of different
 * sizes that come and go without a common order leave holes, and nothing moves in a graph's pool.
 *
 * Each graph is launched and must leave a mark of every step in its output.
 */
#include "antichain.h"
#include "captured_step.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STREAMS = ANTICHAIN_STREAMS, HELD_MAX = 4, MANY = 1000, EDGE = 4096, MARK = 512 };

typedef struct workload {
    const char *name;
    int holds;        /* steps that a block outlives its own */
    int joins_every;  /* steps; 0: in pairs instead */
    int uses;         /* 1: second streams use blocks */
    int sizes;        /* 0: all the same; MANY; else 4, 8, 16, and one of so many twice that */
    int in_turn;      /* 1: streams take turns */
    int percent_most; /* of the bound that the pool may have; 0: reported only */
} workload;

static const workload workloads[] = {
    {"rounds", 0, 4, 0, 6, 1, 105}, {"equal", 0, 16, 0, 0, 0, 105},
    {"chains", 0, 16, 0, 6, 0, 0},  {"pairs", 0, 0, 0, 0, 0, 0},
    {"uses", 0, 0, 1, 6, 0, 0},     {"windows", HELD_MAX, 16, 1, MANY, 0, 0},
};
enum { WORKLOADS = sizeof(workloads) / sizeof(workloads[0]) };

/* A block that is live, and its number in the model. */
typedef struct held {
    CUdeviceptr address;
    size_t number;
} held;

typedef struct capture {
    step_run *run;
    const workload *load;
    int steps;
    uint64_t random;
    CUdeviceptr marks; /* MARK bytes for each step */
    antichain_block *blocks;
    uint32_t clock[STREAMS][STREAMS]; /* of each stream: what it comes after, of each */
    held held[STREAMS][HELD_MAX];
    uint64_t own_ns, all_ns; /* in Tenure's calls; in all of them */
} capture;

typedef struct outcome {
    uint64_t bound, reserved, checksum;
    double ns_step, ns_own;
} outcome;

/* A capture does not wait for anything, so all of its time is this thread's, whatever else runs. */
static uint64_t clock_own_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t below(capture *self, uint32_t bound)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return (uint32_t)(self->random >> 32) % bound;
}

/* ---- the model and the calls, side by side -------------------------------------------------- */

static void wait_for(capture *self, int to, int from)
{
    step_order(self->run, self->run->streams[to], self->run->streams[from]);
    for (int s = 0; s < STREAMS; s++)
        if (self->clock[from][s] > self->clock[to][s])
            self->clock[to][s] = self->clock[from][s];
}

/* One more operation of the stream. */
static void tick(capture *self, int stream)
{
    self->clock[stream][stream]++;
}

static void block_end_at(capture *self, size_t number, int stream)
{
    uint32_t *end = self->blocks[number].end;
    /* All that the stream has been given, and so all that comes before that. */
    if (self->clock[stream][stream] > end[stream])
        end[stream] = self->clock[stream][stream];
}

static void block_free(capture *self, int stream, held *slot)
{
    if (slot->address == 0)
        return;
    block_end_at(self, slot->number, stream);
    uint64_t began = clock_own_ns();
    must(self->run->self, tnr_free(program_pointer(slot->address)), "freeing in a capture");
    self->own_ns += clock_own_ns() - began;
    slot->address = 0;
}

static size_t block_bytes(capture *self)
{
    if (self->load->sizes == 0)
        return (size_t)8 << 20;
    if (self->load->sizes != MANY)
        return (size_t)4 << 20 << below(self, 3) << (below(self, (uint32_t)self->load->sizes) == 0);
    return ((size_t)1 << 20) + (size_t)below(self, 1u << 15) * 512;
}

/* Both ends of the block get the step's number; the mark is copied from its end. */
static void block_use(capture *self, int step, int stream, CUdeviceptr block, size_t bytes)
{
    program *top = self->run->self;
    const gpu_driver *gpu = top->gpu;
    CUstream on = self->run->streams[stream];
    must_cu(top, gpu->cuMemsetD32Async(block, (unsigned)step, EDGE / 4, on), "a set");
    must_cu(top, gpu->cuMemsetD32Async(block + bytes - EDGE, (unsigned)step, EDGE / 4, on),
            "a set");
    must_cu(top,
            gpu->cuMemcpyDtoDAsync(self->marks + (size_t)step * MARK, block + bytes - MARK,
                                   MARK / 2, on),
            "a copy");
    tick(self, stream);
}

/* A second stream reads the block: the other half of the mark. */
static void block_lend(capture *self, int step, int stream, held *slot, size_t bytes)
{
    program *top = self->run->self;
    int other = (stream + 1 + (int)below(self, STREAMS - 1)) % STREAMS;
    wait_for(self, other, stream);
    must_cu(top,
            top->gpu->cuMemcpyDtoDAsync(self->marks + (size_t)step * MARK + MARK / 2,
                                        slot->address + bytes - MARK, MARK / 2,
                                        self->run->streams[other]),
            "a copy");
    tick(self, other);
    uint64_t began = clock_own_ns();
    must(top, tnr_record_use(program_pointer(slot->address), self->run->streams[other]),
         "recording a use");
    self->own_ns += clock_own_ns() - began;
    block_end_at(self, slot->number, other);
}

static void step_run_one(capture *self, int step)
{
    int stream = self->load->in_turn ? step % STREAMS : (int)below(self, STREAMS);
    held *slot = &self->held[stream][self->load->holds ? step % self->load->holds : 0];
    size_t bytes = block_bytes(self);
    block_free(self, stream, slot);
    antichain_block *model = &self->blocks[step];
    model->bytes = bytes;
    memcpy(model->begin, self->clock[stream], sizeof(model->begin));
    uint64_t began = clock_own_ns();
    slot->address = step_malloc(self->run, bytes, self->run->streams[stream]);
    self->own_ns += clock_own_ns() - began;
    slot->number = (size_t)step;
    block_use(self, step, stream, slot->address, bytes);
    if (self->load->uses && below(self, 2))
        block_lend(self, step, stream, slot, bytes);
    if (self->load->holds == 0)
        block_free(self, stream, slot);
}

static void streams_join(capture *self)
{
    for (int s = 1; s < STREAMS; s++)
        wait_for(self, 0, s);
    for (int s = 1; s < STREAMS; s++)
        wait_for(self, s, 0);
}

/* ---- a capture ------------------------------------------------------------------------------ */

static step_graph steps_capture(capture *self)
{
    program *top = self->run->self;
    step_graph graph = {0};
    uint64_t began = clock_own_ns();
    must(top, tnr_capture_begin(top->active.device, self->run->streams[0], NULL), "beginning");
    for (int s = 1; s < STREAMS; s++)
        wait_for(self, s, 0);
    for (int step = 0; step < self->steps; step++) {
        step_run_one(self, step);
        if (self->load->joins_every != 0 &&
            step % self->load->joins_every == self->load->joins_every - 1)
            streams_join(self);
        if (self->load->joins_every == 0) {
            int to = (int)below(self, STREAMS);
            wait_for(self, to, (to + 1 + (int)below(self, STREAMS - 1)) % STREAMS);
        }
    }
    for (int s = 0; s < STREAMS; s++)
        for (int i = 0; i < HELD_MAX; i++)
            block_free(self, s, &self->held[s][i]);
    for (int s = 1; s < STREAMS; s++)
        wait_for(self, 0, s);
    self->all_ns = clock_own_ns() - began;
    must(top,
         tnr_capture_end(&graph.cuda, &graph.number, top->active.device, self->run->streams[0]),
         "ending");
    must_cu(top, top->gpu->cuGraphInstantiateWithFlags(&graph.exec, graph.cuda, 0),
            "cuGraphInstantiateWithFlags");
    return graph;
}

/* Every step has left its number. */
static uint64_t marks_check(capture *self)
{
    program *top = self->run->self;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    size_t bytes = (size_t)self->steps * MARK;
    must_cu(top,
            top->gpu->cuMemcpyDtoHAsync(self->run->host, self->marks, bytes, self->run->streams[0]),
            "reading back");
    must_cu(top, top->gpu->cuStreamSynchronize(self->run->streams[0]), "waiting");
    for (size_t at = 0; at < bytes; at += 4) {
        uint32_t word;
        memcpy(&word, self->run->host + at, 4);
        int is_lent = at % MARK >= MARK / 2;
        if (word != at / MARK && !(is_lent && word == UINT32_MAX))
            program_fail(top, "step %zu has left %u", at / MARK, word);
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static outcome capture_measure(step_run *run, const workload *load, int steps, int bounded)
{
    program *top = run->self;
    capture self = {
        .run = run, .load = load, .steps = steps, .random = UINT64_C(0x2545f4914f6cdd1d)};
    outcome result = {0};
    self.blocks = calloc((size_t)steps, sizeof(self.blocks[0]));
    if (self.blocks == NULL)
        program_fail(top, "no host memory");
    self.marks = program_malloc(top, NULL, (size_t)steps * MARK, run->streams[0]);
    step_graph graph = steps_capture(&self);
    tnr_graph_info info = step_graph_info(run, &graph);
    result.reserved = program_stats(top, info.pool).reserved_bytes.current;
    result.bound = bounded ? antichain_bytes(self.blocks, (size_t)steps) : 0;
    result.ns_step = (double)self.all_ns / steps;
    result.ns_own = (double)self.own_ns / steps;
    must_cu(top, top->gpu->cuMemsetD8Async(self.marks, 0xff, (size_t)steps * MARK, run->streams[0]),
            "clearing the marks");
    must(top, tnr_graph_launch(graph.number, graph.exec, run->streams[0]), "launching");
    result.checksum = marks_check(&self);
    step_graph_destroy(run, &graph);
    must(top, tnr_free(program_pointer(self.marks)), "freeing the marks");
    must(top, tnr_validate(-1), "validating");
    free(self.blocks);
    return result;
}

/* ---- main ----------------------------------------------------------------------------------- */

/* The bound is compared with what can be found by hand: two at once, then one that both precede. */
static void bound_check(program *self)
{
    const antichain_block blocks[] = {{100, {0, 0, 0, 0}, {1, 0, 0, 0}},
                                      {50, {0, 0, 0, 0}, {0, 1, 0, 0}},
                                      {120, {1, 1, 0, 0}, {2, 0, 0, 0}},
                                      {20, {1, 0, 0, 0}, {0, 0, 1, 0}}};
    /* The third and the fourth together, or the first two, or the second and the fourth. */
    if (antichain_bytes(blocks, 4) != 150 || antichain_bytes(blocks + 2, 2) != 140 ||
        antichain_bytes(blocks, 1) != 100)
        program_fail(self, "the bound is not what it is by hand");
}

static int workload_report(step_run *run, const workload *load, int growth_percent, int steps)
{
    outcome few = capture_measure(run, load, steps, 1);
    outcome many = capture_measure(run, load, steps * 10, 0);
    /* The least of several times is the one that nothing else has disturbed. */
    for (int i = 0; i < 4 && growth_percent != 0; i++) {
        outcome few_again = capture_measure(run, load, steps, 0);
        outcome many_again = capture_measure(run, load, steps * 10, 0);
        if (few_again.ns_step < few.ns_step)
            few.ns_step = few_again.ns_step, few.ns_own = few_again.ns_own;
        if (many_again.ns_step < many.ns_step)
            many.ns_step = many_again.ns_step, many.ns_own = many_again.ns_own;
    }
    double ratio = (double)few.reserved / (double)few.bound;
    double growth = many.ns_step / few.ns_step;
    printf("%s,%d,%llu,%llu,%.4f,%.0f,%.0f,%.0f,%.0f,%.3f,%016llx\n", load->name, steps,
           (unsigned long long)few.bound, (unsigned long long)few.reserved, ratio, few.ns_step,
           few.ns_own, many.ns_step, many.ns_own, growth, (unsigned long long)few.checksum);
    fflush(stdout);
    int is_bad = few.bound == 0 || few.reserved < few.bound;
    if (is_bad)
        fprintf(stderr, "%s: the pool has less than the least: the model is wrong\n", load->name);
    if (load->percent_most != 0 && few.reserved * 100 > few.bound * (uint64_t)load->percent_most) {
        fprintf(stderr, "%s: more than %d %% of the least memory\n", load->name,
                load->percent_most);
        is_bad = 1;
    }
    if (growth_percent != 0 && growth * 100 > growth_percent) {
        fprintf(stderr, "%s: a step takes %.2f times as long in a graph ten times as large\n",
                load->name, growth);
        is_bad = 1;
    }
    return is_bad;
}

static const char usage[] =
    "Usage: capture_precision [--steps N] [--growth PERCENT]\n\n"
    "Memory and time of captures that allocate, use and free on four streams. Prints CSV.\n\n"
    "  --steps N         of the capture whose memory is judged (default 1000); ten times as many\n"
    "                    for the time\n"
    "  --growth PERCENT  most that a step may take then (default 150; 0: reported only)\n\n"
    "TENURE_DRIVER=sim uses the simulated device.\n"
    "Exit codes: 0 as it must be; 1 not; 2 bad options; 77 no device.\n";

static int options_read(int argc, char **argv, int *steps, int *growth)
{
    static const struct option options[] = {{"steps", required_argument, NULL, 's'},
                                            {"growth", required_argument, NULL, 'g'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option, is_bad = 0;
    *steps = 1000;
    *growth = 150;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        char *end = NULL;
        long number = optarg ? strtol(optarg, &end, 10) : 0;
        if (option == 'h') {
            fputs(usage, stdout);
            exit(PROGRAM_OK);
        }
        is_bad |= option == '?' || (end && (*end != '\0' || end == optarg)) || number < 0 ||
                  number > 100000;
        *(option == 's' ? steps : growth) = (int)number;
    }
    if (!is_bad && optind == argc && *steps >= 10)
        return PROGRAM_OK;
    fputs(usage, stderr);
    return PROGRAM_BAD_INPUT;
}

int main(int argc, char **argv)
{
    static program self;
    static step_run run;
    int steps, growth, is_bad = 0;
    int code = options_read(argc, argv, &steps, &growth);
    if (code != PROGRAM_OK)
        return code;
    program_open(&self, "capture_precision", STREAMS);
    program_csv_facts(&self, argc, argv, stdout);
    bound_check(&self);
    step_open(&run, &self, (size_t)steps * 10 * MARK);
    puts("workload,steps,least_bytes,reserved_bytes,ratio,ns_per_step,ns_tenure,"
         "ns_per_step_x10,ns_tenure_x10,growth,checksum");
    for (int i = 0; i < WORKLOADS; i++)
        is_bad |= workload_report(&run, &workloads[i], growth, steps);
    step_close(&run);
    if (self.sim_races && self.sim_races() > 0) {
        fprintf(stderr, "the simulated device saw %llu races\n",
                (unsigned long long)self.sim_races());
        is_bad = 1;
    }
    program_close(&self);
    return is_bad ? PROGRAM_WRONG : PROGRAM_OK;
}
