/* SPDX-License-Identifier: Apache-2.0 */
/*
 * park_layers: a model of some layers, each with a graph of its own, whose activations are parked
 * between the launches, beside the same without graphs and the same with nothing parked.
 *
 * A step works through the layers forward, and then back, where it uses their activations. The
 * work is writing: `--writes` times over a layer's activations, and once over a workspace, an
 * ordinary block that is allocated and freed each time. Two ways of living with little memory:
 *
 * The way back computes the activations again (activation checkpointing), so that one layer's are
 * needed at a time:
 *
 *     plain    no graphs: activations are blocks that are allocated and freed
 *     parked   a graph for each layer, forward and back; activations are unparked before and parked
 *              after each use, their contents dropped
 *     graphs   the same graphs, nothing is parked
 *
 * The way back has them still, and writes gradients in their place, which takes as long. All layers
 * are needed at the end of the way forward, but for those that are in host memory then:
 *
 *     kept     no graphs: activations are blocks that live until they were used
 *     host     a graph for each layer, forward and back. Of N layers, each of the first
 *              K (`--to-host`) is parked with its contents as soon as it was computed. The layer
 *              that comes N - K later gets its memory, and hands it back after its way back. So the
 *              copies have the time of N - K layers to be over, in both directions
 *     held     the same graphs, nothing is parked
 *
 * Activations of host and held are blocks of a stream for copies: what parks and unparks them is
 * ordered there, and the stream that computes waits for that by events, N - K layers later.
 *
 * What must be: parked reserves no more than plain, and host less than kept by all of the layers in
 * host memory; the host never waits (tnr_stats.park_waits); in a step after the first nothing is
 * asked of the driver about memory; every output is right; and, on a GPU, a step of parked takes at
 * most 1.02 of one of graphs, and one of host 1.02 of one of held.
 */
#include "program.h"

#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tenure/capture.h>
#include <tenure/park.h>

enum { LAYERS_MAX = 256, STEPS_MAX = 1000, OUT_BYTES = 4096, MIB_SHIFT = 20 };

typedef enum mode { PLAIN, PARKED, GRAPHS, KEPT, HOST, HELD, MODES } mode;
static const char *const mode_names[MODES] = {"plain", "parked", "graphs", "kept", "host", "held"};

typedef struct captured {
    tnr_graph number;
    CUgraph cuda;
    CUgraphExec exec;
} captured;

typedef struct layer {
    CUdeviceptr activations; /* for the graphs; else of the step */
    CUdeviceptr out;
    captured forward, back;
    CUevent ready; /* of host and held: the activations have memory, and what was kept of them */
} layer;

typedef struct model {
    program *self;
    uint64_t (*sim_run)(uint64_t); /* of the simulated device; null on a GPU */
    int layers_count, steps, writes;
    int to_host;  /* layers, the first ones, that host has in host memory */
    int rooms;    /* layers that have memory at the same time, in the steps of host and held */
    size_t bytes; /* of a layer's activations */
    int is_limited;
    CUstream stream, copies;
    layer layers[LAYERS_MAX];
    uint64_t reserved[MODES];
    double step_seconds[MODES];          /* the median */
    tnr_stats first[MODES], last[MODES]; /* after the first step, and after all */
} model;

static double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* ---- the work ------------------------------------------------------------------------------- */

static unsigned word_of(int index)
{
    return 0x01010101u * (unsigned)(index + 1);
}

/* Writes over a layer's activations, so often as computing them takes, and `word` last. */
static void writes(const model *run, int index, unsigned word)
{
    const gpu_driver *gpu = run->self->gpu;
    for (int i = 0; i < run->writes; i++)
        must_cu(run->self,
                gpu->cuMemsetD32Async(run->layers[index].activations,
                                      i + 1 < run->writes ? 0 : word, run->bytes / 4, run->stream),
                "writing activations");
}

static void compute(const model *run, int index)
{
    writes(run, index, word_of(index));
}

/* The first and the last bytes of the activations are what is used of them. */
static void use(const model *run, int index)
{
    const layer *one = &run->layers[index];
    enum { HALF = OUT_BYTES / 2 };
    must_cu(run->self,
            run->self->gpu->cuMemcpyDtoDAsync(one->out, one->activations, HALF, run->stream),
            "using activations");
    must_cu(run->self,
            run->self->gpu->cuMemcpyDtoDAsync(one->out + HALF, one->activations + run->bytes - HALF,
                                              HALF, run->stream),
            "using activations");
}

/* The way back where nothing is computed again. */
static void use_up(const model *run, int index)
{
    use(run, index);
    writes(run, index, ~word_of(index));
}

static void workspace(const model *run)
{
    CUdeviceptr memory = program_malloc(run->self, NULL, run->bytes / 2, run->stream);
    must_cu(run->self,
            run->self->gpu->cuMemsetD32Async(memory, 0xdeadbeef, run->bytes / 8, run->stream),
            "writing to a workspace");
    must(run->self, tnr_free(program_pointer(memory)), "freeing a workspace");
}

static void launch(const model *run, const captured *graph)
{
    must(run->self, tnr_graph_launch(graph->number, graph->exec, run->stream), "tnr_graph_launch");
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void begin(model *run, mode how, int index)
{
    layer *one = &run->layers[index];
    if (how == PLAIN || how == KEPT)
        one->activations = program_malloc(run->self, NULL, run->bytes, run->stream);
    if (how == PARKED)
        must(run->self, tnr_unpark(program_pointer(one->activations), run->stream), "tnr_unpark");
    if (how == PLAIN || how == KEPT)
        compute(run, index);
    else
        launch(run, &one->forward);
    workspace(run);
}

static void end(const model *run, mode how, int index)
{
    void *ptr = program_pointer(run->layers[index].activations);
    if (how == PARKED)
        must(run->self, tnr_park(NULL, ptr, run->stream, TNR_CONTENT_DISCARD), "tnr_park");
    else if (how != GRAPHS)
        must(run->self, tnr_free(ptr), "freeing activations");
}

static void step_again(model *run, mode how)
{
    for (int i = 0; i < run->layers_count; i++) {
        begin(run, how, i);
        if (how != KEPT)
            end(run, how, i);
    }
    for (int i = run->layers_count; i-- > 0;) {
        if (how != KEPT)
            begin(run, how, i);
        if (how == KEPT) {
            use_up(run, i);
            workspace(run);
        } else if (how == PLAIN) {
            use(run, i);
        } else {
            launch(run, &run->layers[i].back);
        }
        end(run, how, i);
    }
}

/* ---- steps with layers in host memory ------------------------------------------------------- */

/* Brings a layer's activations back, on the stream for copies. */
static void bring(const model *run, int index)
{
    const layer *one = &run->layers[index];
    must(run->self, tnr_unpark(program_pointer(one->activations), run->copies), "tnr_unpark");
    must_cu(run->self, run->self->gpu->cuEventRecord(one->ready, run->copies), "cuEventRecord");
}

/* Parks the activations of one layer, after all that this stream was given, and has another get
 * their memory. */
static void hand_over(const model *run, int from, int to, tnr_content content)
{
    void *ptr = program_pointer(run->layers[from].activations);
    must(run->self, tnr_record_use(ptr, run->stream), "tnr_record_use");
    must(run->self, tnr_park(NULL, ptr, run->copies, content), "tnr_park");
    bring(run, to);
}

static void launch_ready(const model *run, int index, const captured *graph)
{
    must_cu(run->self, run->self->gpu->cuStreamWaitEvent(run->stream, run->layers[index].ready, 0),
            "waiting for activations");
    launch(run, graph);
    workspace(run);
}

/* The first `rooms` layers have memory when it begins and when it ends. */
static void step_whole(const model *run)
{
    for (int i = 0; i < run->layers_count; i++) {
        launch_ready(run, i, &run->layers[i].forward);
        if (i + run->rooms < run->layers_count)
            hand_over(run, i, i + run->rooms, TNR_CONTENT_KEEP);
    }
    for (int i = run->layers_count; i-- > 0;) {
        launch_ready(run, i, &run->layers[i].back);
        if (i - run->rooms >= 0)
            hand_over(run, i, i - run->rooms, TNR_CONTENT_DISCARD);
    }
}

static void outputs_check(const model *run, mode how)
{
    static unsigned words[OUT_BYTES / 4];
    for (int i = 0; i < run->layers_count; i++) {
        must_cu(
            run->self,
            run->self->gpu->cuMemcpyDtoHAsync(words, run->layers[i].out, OUT_BYTES, run->stream),
            "reading an output");
        must_cu(run->self, run->self->gpu->cuStreamSynchronize(run->stream), "waiting");
        for (size_t w = 0; w < OUT_BYTES / 4; w++)
            if (words[w] != word_of(i))
                program_fail(run->self, "%s: layer %d gave %#x, not %#x", mode_names[how], i,
                             words[w], word_of(i));
        must_cu(run->self,
                run->self->gpu->cuMemsetD32Async(run->layers[i].out, 0, OUT_BYTES / 4, run->stream),
                "spoiling an output");
    }
}

static void step(model *run, mode how)
{
    if (how == HOST || how == HELD)
        step_whole(run);
    else
        step_again(run, how);
}

/* Steps of one kind: how long they take, what is reserved for them, and what comes out. All but the
 * first are given to the device without a wait in between. */
static void steps_measure(model *run, mode how)
{
    double seconds[STEPS_MAX];
    program *self = run->self;
    step(run, how);
    run->first[how] = program_stats(self, NULL);
    for (int i = 0; i < run->steps; i++) {
        double began = clock_seconds();
        step(run, how);
        if (run->is_limited)
            must_cu(self, self->gpu->cuStreamSynchronize(run->stream), "waiting for a step");
        seconds[i] = clock_seconds() - began;
    }
    run->last[how] = program_stats(self, NULL);
    must_cu(self, self->gpu->cuStreamSynchronize(run->stream), "waiting for the steps");
    qsort(seconds, (size_t)run->steps, sizeof(seconds[0]), compare);
    run->step_seconds[how] = seconds[run->steps / 2];
    run->reserved[how] = run->last[how].reserved_bytes.peak;
    outputs_check(run, how);
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void capture(model *run, captured *graph, int index,
                    void (*work)(const model *run, int index))
{
    program *self = run->self;
    must(self, tnr_capture_begin(self->active.device, run->stream, NULL), "tnr_capture_begin");
    work(run, index);
    must(self, tnr_capture_end(&graph->cuda, &graph->number, self->active.device, run->stream),
         "tnr_capture_end");
    must_cu(self, self->gpu->cuGraphInstantiateWithFlags(&graph->exec, graph->cuda, 0),
            "cuGraphInstantiateWithFlags");
}

/* Activations of a stream with their graphs; each layer's are parked before the next one gets
 * memory. */
static void graphs_make(model *run, CUstream stream, void (*back)(const model *run, int index))
{
    for (int i = 0; i < run->layers_count; i++) {
        layer *one = &run->layers[i];
        one->activations = program_malloc(run->self, NULL, run->bytes, stream);
        capture(run, &one->forward, i, compute);
        capture(run, &one->back, i, back);
        end(run, PARKED, i);
    }
}

static void graph_end(const model *run, const captured *graph)
{
    must_cu(run->self, run->self->gpu->cuGraphExecDestroy(graph->exec), "cuGraphExecDestroy");
    must_cu(run->self, run->self->gpu->cuGraphDestroy(graph->cuda), "cuGraphDestroy");
}

static void graphs_end(const model *run)
{
    for (int i = 0; i < run->layers_count; i++) {
        graph_end(run, &run->layers[i].forward);
        graph_end(run, &run->layers[i].back);
        must(run->self, tnr_free(program_pointer(run->layers[i].activations)), "freeing");
    }
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Begins with nothing reserved but for the outputs. The driver says that graphs have ended when it
 * likes, by a thread of its own. */
static void fresh(const model *run)
{
    enum { TRIES = 1000, NAP_NS = 10 * 1000 * 1000 };
    program *self = run->self;
    for (int i = 0;; i++) {
        must_cu(self, self->gpu->cuCtxSynchronize(), "waiting");
        if (run->sim_run != NULL)
            (void)run->sim_run(UINT64_MAX); /* whose time stands still */
        must(self, tnr_trim(NULL, 0, self->active.device), "tnr_trim");
        if (program_stats(self, NULL).reserved_bytes.current < run->bytes)
            break;
        if (i == TRIES)
            program_fail(self, "memory of the steps before is still reserved after 10 s");
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    must(self, tnr_stats_reset_peaks(self->active.device), "tnr_stats_reset_peaks");
}

static int expect(int holds, const char *what)
{
    printf("%s: %s\n", holds ? "yes" : "NO", what);
    return !holds;
}

/* What is said of one kind beside the same with nothing parked. */
static int expect_steps(const model *run, mode how, mode beside)
{
    double ratio = run->step_seconds[how] / run->step_seconds[beside];
    const tnr_stats *first = &run->first[how], *last = &run->last[how];
    printf("%s / %s %.3f of the time\n", mode_names[how], mode_names[beside], ratio);
    int wrong = expect(last->park_waits == 0, "the host never waited");
    wrong += expect(last->num_device_alloc == first->num_device_alloc &&
                        last->num_device_free == first->num_device_free,
                    "nothing was mapped or unmapped after the first step");
    if (run->is_limited)
        wrong += expect(ratio <= 1.02, "a step takes at most 1.02 of the time");
    return wrong;
}

static int report(const model *run)
{
    size_t away = (size_t)run->to_host * run->bytes;
    for (int m = 0; m < MODES; m++)
        printf("%-7s %7.1f MiB reserved, %.3f ms a step\n", mode_names[m],
               (double)run->reserved[m] / (1 << MIB_SHIFT), run->step_seconds[m] * 1e3);
    int wrong = expect_steps(run, PARKED, GRAPHS);
    wrong +=
        expect(run->reserved[PARKED] <= run->reserved[PLAIN], "parked reserves no more than plain");
    wrong += expect_steps(run, HOST, HELD);
    printf("%d of %d layers in host memory: kept - host %.1f MiB reserved\n", run->to_host,
           run->layers_count,
           ((double)run->reserved[KEPT] - (double)run->reserved[HOST]) / (1 << MIB_SHIFT));
    wrong += expect(run->reserved[HOST] + away <= run->reserved[KEPT],
                    "host reserves less than kept, by those layers");
    return wrong == 0 ? PROGRAM_OK : PROGRAM_WRONG;
}

/* Where the way back computes again. */
static void again_measure(model *run)
{
    fresh(run);
    steps_measure(run, PLAIN);
    fresh(run);
    graphs_make(run, run->stream, use);
    steps_measure(run, PARKED);
    for (int i = 0; i < run->layers_count; i++)
        must(run->self, tnr_unpark(program_pointer(run->layers[i].activations), run->stream),
             "tnr_unpark");
    steps_measure(run, GRAPHS);
    graphs_end(run);
}

/* Where it does not. */
static void whole_measure(model *run)
{
    program *self = run->self;
    fresh(run);
    steps_measure(run, KEPT);
    fresh(run);
    graphs_make(run, run->copies, use_up);
    must_cu(self, self->gpu->cuStreamSynchronize(run->copies), "waiting for the graphs' making");
    run->rooms = run->layers_count - run->to_host;
    for (int i = 0; i < run->rooms; i++)
        bring(run, i);
    steps_measure(run, HOST);
    for (int i = run->rooms; i < run->layers_count; i++)
        bring(run, i);
    run->rooms = run->layers_count;
    steps_measure(run, HELD);
    graphs_end(run);
}

static int measure(model *run)
{
    program *self = run->self;
    const gpu_driver *gpu = self->gpu;
    must_cu(self, gpu->cuStreamCreate(&run->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(self, gpu->cuStreamCreate(&run->copies, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (int i = 0; i < run->layers_count; i++) {
        layer *one = &run->layers[i];
        one->out = program_malloc(self, NULL, OUT_BYTES, run->stream);
        must_cu(self, gpu->cuEventCreate(&one->ready, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    }
    again_measure(run);
    whole_measure(run);
    int code = report(run);
    for (int i = 0; i < run->layers_count; i++) {
        must(self, tnr_free(program_pointer(run->layers[i].out)), "freeing an output");
        must_cu(self, gpu->cuEventDestroy(run->layers[i].ready), "cuEventDestroy");
    }
    CUstream streams[] = {run->stream, run->copies};
    for (int i = 0; i < 2; i++) {
        must(self, tnr_stream_destroying(self->active.device, streams[i]), "ending a stream");
        must_cu(self, gpu->cuStreamDestroy(streams[i]), "cuStreamDestroy");
    }
    return code;
}

static const char usage[] =
    "usage: park_layers [--layers N] [--mib N] [--steps N] [--writes N] [--to-host N]\n"
    "A model whose layers have graphs, with their activations parked between launches.\n"
    "  --layers N  how many; 24 unless given\n"
    "  --mib N     of a layer's activations, a multiple of 4; 512 unless given\n"
    "  --steps N   timed; 20 unless given\n"
    "  --writes N  over a layer's activations, each time that they are computed; 64 unless given\n"
    "  --to-host N layers whose activations lie in host memory where they are not computed again;\n"
    "              a sixth of all unless given\n";

static int options_read(int argc, char **argv, model *run)
{
    static const struct option options[] = {{"layers", required_argument, NULL, 'l'},
                                            {"mib", required_argument, NULL, 'm'},
                                            {"steps", required_argument, NULL, 's'},
                                            {"writes", required_argument, NULL, 'w'},
                                            {"to-host", required_argument, NULL, 't'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    long values[128] = {['l'] = 24, ['m'] = 512, ['s'] = 20, ['w'] = 64};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        char *rest = NULL;
        if (option == 'h') {
            fputs(usage, stdout);
            exit(PROGRAM_OK);
        }
        if (option != '?')
            values[option] = strtol(optarg, &rest, 10);
        if (option == '?' || *rest != '\0' || rest == optarg || values[option] < 1)
            values['l'] = 0; /* bad */
    }
    run->layers_count = (int)values['l'];
    run->bytes = (size_t)values['m'] << MIB_SHIFT;
    run->steps = (int)values['s'];
    run->writes = (int)values['w'];
    run->to_host = (int)(values['t'] > 0 ? values['t'] : (values['l'] + 5) / 6);
    if (optind == argc && values['l'] > 0 && values['l'] <= LAYERS_MAX && values['m'] % 4 == 0 &&
        values['m'] <= 65536 && values['s'] <= STEPS_MAX && values['w'] <= 1000 &&
        run->to_host < run->layers_count)
        return PROGRAM_OK;
    fputs(usage, stderr);
    return PROGRAM_BAD_INPUT;
}

int main(int argc, char **argv)
{
    static program self;
    static model run;
    char text[2 * 4096];
    int code = options_read(argc, argv, &run);
    if (code != PROGRAM_OK)
        return code;
    run.self = &self;
    program_open(&self, "park_layers", 1);
    printf("park_layers on %s\n", session_describe(&self.active, text, sizeof(text)));
    run.is_limited = self.sim_races == NULL;
    void *symbol = dlsym(self.gpu->library, "simcuda_run");
    memcpy(&run.sim_run, &symbol, sizeof(symbol));
    code = measure(&run);
    if (self.sim_races && self.sim_races() > 0) {
        printf("the simulated device saw %llu races\n", (unsigned long long)self.sim_races());
        code = PROGRAM_WRONG;
    }
    program_close(&self);
    return code;
}
