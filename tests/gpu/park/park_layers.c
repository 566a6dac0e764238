/* SPDX-License-Identifier: Apache-2.0 */
/*
 * park_layers: a model of some layers, each with a graph of its own, whose activations are parked
 * between the launches, beside the same without graphs and the same with nothing parked.
 *
 * A step computes each layer's activations on the way forward, and again on the way back, where
 * they are used (activation checkpointing). The work is writing: `--writes` times over a layer's
 * activations, and once over a workspace, an ordinary block that is allocated and freed each time.
 *
 *     plain    no graphs: activations are blocks that are allocated and freed
 *     kept     no graphs, nothing is computed again: all activations live until they were used
 *     parked   a graph for each layer, forward and back; activations are unparked before and parked
 *              after each use
 *     graphs   the same graphs, nothing is parked
 *
 * What must be: parked reserves no more than plain and less than kept; the host never waits
 * (tnr_stats.park_waits); in a step after the first nothing is asked of the driver about memory;
 * every output is right; and, on a GPU, a parked step takes at most 1.02 of one of graphs.
 */
#include "program.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tenure/capture.h>
#include <tenure/park.h>

enum { LAYERS_MAX = 256, STEPS_MAX = 1000, OUT_BYTES = 4096, MIB_SHIFT = 20 };

typedef enum mode { PLAIN, KEPT, PARKED, GRAPHS, MODES } mode;
static const char *const mode_names[MODES] = {"plain", "kept", "parked", "graphs"};

typedef struct captured {
    tnr_graph number;
    CUgraph cuda;
    CUgraphExec exec;
} captured;

typedef struct layer {
    CUdeviceptr activations; /* for the graphs; else of the step */
    CUdeviceptr out;
    captured forward, back;
} layer;

typedef struct model {
    program *self;
    int layers_count, steps, writes;
    size_t bytes; /* of a layer's activations */
    int is_limited;
    CUstream stream;
    layer layers[LAYERS_MAX];
    uint64_t reserved[MODES];
    double step_seconds[MODES]; /* the median */
    tnr_stats first, last;      /* of parked: after the first step, and the last */
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

static void compute(const model *run, int index)
{
    const gpu_driver *gpu = run->self->gpu;
    for (int i = 0; i < run->writes; i++)
        must_cu(run->self,
                gpu->cuMemsetD32Async(run->layers[index].activations,
                                      i + 1 < run->writes ? 0 : word_of(index), run->bytes / 4,
                                      run->stream),
                "writing activations");
}

/* The last bytes of the activations are what is used of them. */
static void use(const model *run, int index)
{
    const layer *one = &run->layers[index];
    must_cu(run->self,
            run->self->gpu->cuMemcpyDtoDAsync(one->out, one->activations + run->bytes - OUT_BYTES,
                                              OUT_BYTES, run->stream),
            "using activations");
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

static void step(model *run, mode how)
{
    for (int i = 0; i < run->layers_count; i++) {
        begin(run, how, i);
        if (how != KEPT)
            end(run, how, i);
    }
    for (int i = run->layers_count; i-- > 0;) {
        if (how != KEPT)
            begin(run, how, i);
        if (how == PLAIN || how == KEPT)
            use(run, i);
        else
            launch(run, &run->layers[i].back);
        end(run, how, i);
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

/* Steps of one kind: how long they take, what is reserved for them, and what comes out. All but the
 * first are given to the device without a wait in between. */
static void steps_measure(model *run, mode how)
{
    double seconds[STEPS_MAX];
    program *self = run->self;
    step(run, how);
    run->first = program_stats(self, NULL);
    for (int i = 0; i < run->steps; i++) {
        double began = clock_seconds();
        step(run, how);
        if (run->is_limited)
            must_cu(self, self->gpu->cuStreamSynchronize(run->stream), "waiting for a step");
        seconds[i] = clock_seconds() - began;
    }
    run->last = program_stats(self, NULL);
    must_cu(self, self->gpu->cuStreamSynchronize(run->stream), "waiting for the steps");
    qsort(seconds, (size_t)run->steps, sizeof(seconds[0]), compare);
    run->step_seconds[how] = seconds[run->steps / 2];
    run->reserved[how] = run->last.reserved_bytes.peak;
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

/* Activations with their graphs; each layer's are parked before the next one gets memory. */
static void graphs_make(model *run)
{
    for (int i = 0; i < run->layers_count; i++) {
        layer *one = &run->layers[i];
        one->activations = program_malloc(run->self, NULL, run->bytes, run->stream);
        capture(run, &one->forward, i, compute);
        capture(run, &one->back, i, use);
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

static void fresh(const model *run)
{
    must(run->self, tnr_trim(NULL, 0, run->self->active.device), "tnr_trim");
    must(run->self, tnr_stats_reset_peaks(run->self->active.device), "tnr_stats_reset_peaks");
}

static int expect(int holds, const char *what)
{
    printf("%s: %s\n", holds ? "yes" : "NO", what);
    return !holds;
}

static int report(const model *run)
{
    double ratio = run->step_seconds[PARKED] / run->step_seconds[GRAPHS];
    for (int m = 0; m < MODES; m++)
        printf("%-7s %6.1f MiB reserved, %.3f ms a step\n", mode_names[m],
               (double)run->reserved[m] / (1 << MIB_SHIFT), run->step_seconds[m] * 1e3);
    printf("parked / graphs %.3f of the time\n", ratio);
    int wrong =
        expect(run->reserved[PARKED] <= run->reserved[PLAIN], "parked reserves no more than plain");
    wrong += expect(run->reserved[PARKED] < run->reserved[KEPT], "and less than kept");
    wrong += expect(run->last.park_waits == 0, "the host never waited");
    wrong += expect(run->last.num_device_alloc == run->first.num_device_alloc &&
                        run->last.num_device_free == run->first.num_device_free,
                    "nothing was mapped or unmapped after the first step");
    if (run->is_limited)
        wrong += expect(ratio <= 1.02, "a parked step takes at most 1.02 of one of graphs");
    return wrong == 0 ? PROGRAM_OK : PROGRAM_WRONG;
}

static int measure(model *run)
{
    program *self = run->self;
    must_cu(self, self->gpu->cuStreamCreate(&run->stream, CU_STREAM_NON_BLOCKING),
            "cuStreamCreate");
    for (int i = 0; i < run->layers_count; i++)
        run->layers[i].out = program_malloc(self, NULL, OUT_BYTES, run->stream);
    fresh(run);
    steps_measure(run, PLAIN);
    fresh(run);
    steps_measure(run, KEPT);
    fresh(run);
    graphs_make(run);
    steps_measure(run, PARKED);
    tnr_stats first = run->first, last = run->last;
    for (int i = 0; i < run->layers_count; i++)
        must(self, tnr_unpark(program_pointer(run->layers[i].activations), run->stream),
             "tnr_unpark");
    steps_measure(run, GRAPHS);
    run->first = first;
    run->last = last;
    int code = report(run);
    graphs_end(run);
    for (int i = 0; i < run->layers_count; i++)
        must(self, tnr_free(program_pointer(run->layers[i].out)), "freeing an output");
    must(self, tnr_stream_destroying(self->active.device, run->stream), "ending a stream");
    must_cu(self, self->gpu->cuStreamDestroy(run->stream), "cuStreamDestroy");
    return code;
}

static const char usage[] =
    "usage: park_layers [--layers N] [--mib N] [--steps N] [--writes N]\n"
    "A model whose layers have graphs, with their activations parked between launches.\n"
    "  --layers N  how many; 24 unless given\n"
    "  --mib N     of a layer's activations, a multiple of 4; 512 unless given\n"
    "  --steps N   timed; 20 unless given\n"
    "  --writes N  over a layer's activations, each time that they are computed; 8 unless given\n";

static int options_read(int argc, char **argv, model *run)
{
    static const struct option options[] = {
        {"layers", required_argument, NULL, 'l'}, {"mib", required_argument, NULL, 'm'},
        {"steps", required_argument, NULL, 's'},  {"writes", required_argument, NULL, 'w'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    long values[128] = {['l'] = 24, ['m'] = 512, ['s'] = 20, ['w'] = 8};
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
    if (optind == argc && values['l'] > 0 && values['l'] <= LAYERS_MAX && values['m'] % 4 == 0 &&
        values['m'] <= 65536 && values['s'] <= STEPS_MAX && values['w'] <= 1000)
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
    code = measure(&run);
    if (self.sim_races && self.sim_races() > 0) {
        printf("the simulated device saw %llu races\n", (unsigned long long)self.sim_races());
        code = PROGRAM_WRONG;
    }
    program_close(&self);
    return code;
}
