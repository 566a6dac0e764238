/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of the offload program (offload_run.h).
 *
 * Sizes and order are those of the recorded trace offload_streams: 24 layers with 16 MiB of weights
 * each, activations of 8 to 32 MiB by step, of which every third stays on the device until the end
 * of the step and the others go to the host at half their size. A layer is
 *
 *   fetch stream    copies the weights of a later layer from pinned host memory
 *   compute stream  waits for its weights, checks them and its input (every byte), computes
 *                   (copies between its input and a private buffer stand for that), and writes its
 *                   output
 *   offload stream  waits for the layer's input, halves it, checks it and copies it to the host
 *
 * and after the last use of each block has been enqueued, the block is given back. Streams wait for
 * each other only where data goes from one to the other. That a block's memory is used again by
 * its own stream needs no such wait in the program: that is the memory source's business.
 *
 * Every buffer has a pattern of its own seed, so whoever writes to memory that is still needed is
 * found by a check.
 */
#include "offload_run.h"

#include <string.h>

#include "clock.h"

enum { WEIGHT_UNITS = 16, KEPT_EVERY = 3 };

/* Units of an activation, by step, repeating: the order in the trace. */
static const int activation_units[] = {32, 32, 8,  24, 32, 32, 24, 32,
                                       24, 16, 16, 24, 16, 8,  24, 16};
enum { ACTIVATIONS_COUNT = sizeof(activation_units) / sizeof(activation_units[0]) };

static size_t weight_bytes(const offload_plan *plan)
{
    return WEIGHT_UNITS * plan->unit_bytes;
}

static size_t activation_bytes(const offload_plan *plan, int step)
{
    return (size_t)activation_units[step % ACTIVATIONS_COUNT] * plan->unit_bytes;
}

size_t offload_private_bytes(const offload_plan *plan)
{
    return 32 * plan->unit_bytes;
}

uint64_t offload_shared_bytes(const offload_plan *plan)
{
    uint64_t sum = 0;
    for (int step = 0; step < plan->steps; step++)
        sum += (uint64_t)(plan->layers + 1) * activation_bytes(plan, step) +
               (uint64_t)plan->layers * weight_bytes(plan);
    return sum;
}

static int is_kept(int layer)
{
    return layer % KEPT_EVERY == 0;
}

offload_need offload_need_of(const offload_plan *plan)
{
    offload_need need = {.weight_bytes = weight_bytes(plan)};
    int fetches = plan->steps * plan->layers;
    need.weights = plan->prefetch + 1 < fetches ? plan->prefetch + 1 : fetches;
    need.activations = 2; /* input and output of the last layer, and those kept before it */
    for (int layer = 0; layer < plan->layers - 1; layer++)
        need.activations += is_kept(layer);
    /* The same layer at which the most are held; its private buffer is there too. */
    for (int step = 0; step < plan->steps; step++) {
        size_t bytes = activation_bytes(plan, step);
        if (bytes > need.activation_bytes)
            need.activation_bytes = bytes;
    }
    need.in_use_bytes = (uint64_t)need.weights * need.weight_bytes +
                        (uint64_t)(need.activations + 1) * need.activation_bytes;
    return need;
}

/* Seeds: weights are the same in all runs, activations in none. */
static uint64_t weight_seed(int layer)
{
    return 1 + (uint64_t)layer;
}

static uint64_t activation_seed(uint64_t run, int step, int layer)
{
    return (run + 1) << 32 | (uint64_t)(step + 1) << 12 | (uint64_t)(layer + 1);
}

/* ---- the rig -------------------------------------------------------------------------------- */

static unsigned char *pinned_alloc(program *top, size_t bytes)
{
    void *memory = NULL;
    must_cu(top, top->gpu->cuMemHostAlloc(&memory, bytes, 0), "allocating pinned memory");
    return memory;
}

void offload_rig_open(offload_rig *rig, program *top, const offload_plan *plan)
{
    const gpu_driver *gpu = top->gpu;
    memset(rig, 0, sizeof(*rig));
    rig->top = top;
    rig->plan = *plan;
    for (int i = 0; i < STREAMS_COUNT; i++)
        must_cu(top, gpu->cuStreamCreate(&rig->streams[i], CU_STREAM_NON_BLOCKING),
                "cuStreamCreate");
    for (int i = 0; i <= plan->prefetch; i++)
        must_cu(top, gpu->cuEventCreate(&rig->fetched[i], CU_EVENT_DISABLE_TIMING),
                "cuEventCreate");
    must_cu(top, gpu->cuEventCreate(&rig->produced, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    must_cu(top, gpu->cuMemAlloc(&rig->scratch, offload_private_bytes(plan)), "cuMemAlloc");
    CUstream stream = rig->streams[STREAM_COMPUTE];
    for (int layer = 0; layer < plan->layers; layer++) {
        size_t bytes = weight_bytes(plan);
        rig->weights[layer] = pinned_alloc(top, bytes);
        must_cu(top, pattern_fill(&top->checks, rig->scratch, bytes, weight_seed(layer), stream),
                "making weights");
        must_cu(top, gpu->cuMemcpyDtoHAsync(rig->weights[layer], rig->scratch, bytes, stream),
                "making weights");
        if (!is_kept(layer))
            rig->saved[layer] = pinned_alloc(top, offload_private_bytes(plan) / 2);
    }
    must_cu(top, gpu->cuStreamSynchronize(stream), "making weights");
}

void offload_rig_close(offload_rig *rig)
{
    program *top = rig->top;
    const gpu_driver *gpu = top->gpu;
    for (int layer = 0; layer < rig->plan.layers; layer++) {
        must_cu(top, gpu->cuMemFreeHost(rig->weights[layer]), "cuMemFreeHost");
        if (rig->saved[layer])
            must_cu(top, gpu->cuMemFreeHost(rig->saved[layer]), "cuMemFreeHost");
    }
    must_cu(top, gpu->cuMemFree(rig->scratch), "cuMemFree");
    must_cu(top, gpu->cuEventDestroy(rig->produced), "cuEventDestroy");
    for (int i = 0; i <= rig->plan.prefetch; i++)
        must_cu(top, gpu->cuEventDestroy(rig->fetched[i]), "cuEventDestroy");
    for (int i = 0; i < STREAMS_COUNT; i++) {
        must(top, tnr_stream_destroying(top->active.device, rig->streams[i]),
             "tnr_stream_destroying");
        must_cu(top, gpu->cuStreamDestroy(rig->streams[i]), "cuStreamDestroy");
    }
}

/* ---- one run -------------------------------------------------------------------------------- */

/* A block of the program. */
typedef struct buffer {
    CUdeviceptr at;
    size_t bytes;
    uint64_t seed; /* of its pattern */
    int is_private;
} buffer;

typedef struct run_state {
    offload_rig *rig;
    memory_source *source;
    uint64_t run;
    uint64_t live_bytes, live_bytes_max;
    buffer weights[OFFLOAD_PREFETCH_MAX + 1]; /* fetched, by weight modulo their number */
    int fetches;                              /* weights that have been fetched so far */
    buffer kept[OFFLOAD_LAYERS_MAX];          /* this step's activations that stay */
    int kept_count;
    uint64_t waits;
} run_state;

static buffer buffer_take(run_state *self, size_t bytes, int stream, int is_private)
{
    buffer taken = {.bytes = bytes, .is_private = is_private};
    taken.at = self->source->take(self->source, bytes, stream, is_private);
    self->live_bytes += bytes;
    if (self->live_bytes > self->live_bytes_max)
        self->live_bytes_max = self->live_bytes;
    return taken;
}

static void buffer_give(run_state *self, const buffer *given)
{
    self->live_bytes -= given->bytes;
    self->source->give(self->source, given->at, given->is_private);
}

static void buffer_fill(run_state *self, buffer *filled, uint64_t seed, int stream)
{
    program *top = self->rig->top;
    filled->seed = seed;
    must_cu(top,
            pattern_fill(&top->checks, filled->at, filled->bytes, seed, self->rig->streams[stream]),
            "filling a buffer");
}

static void buffer_check(run_state *self, const buffer *checked, int stream)
{
    program *top = self->rig->top;
    must_cu(top,
            pattern_check(&top->checks, checked->at, checked->bytes, checked->seed,
                          self->rig->streams[stream], (size_t)stream),
            "checking a buffer");
}

static void buffer_copy(run_state *self, const buffer *to, const buffer *from, size_t bytes,
                        int stream)
{
    program *top = self->rig->top;
    must_cu(top, top->gpu->cuMemcpyDtoDAsync(to->at, from->at, bytes, self->rig->streams[stream]),
            "copying on the device");
}

/* `waiter` waits for what has been enqueued on the event's stream before it was recorded. */
static void stream_wait(run_state *self, int waiter, CUevent event)
{
    program *top = self->rig->top;
    must_cu(top, top->gpu->cuStreamWaitEvent(self->rig->streams[waiter], event, 0),
            "cuStreamWaitEvent");
    self->waits++;
}

static void event_record(run_state *self, CUevent event, int stream)
{
    program *top = self->rig->top;
    must_cu(top, top->gpu->cuEventRecord(event, self->rig->streams[stream]), "cuEventRecord");
}

/* Fetches weights until `wanted` of the run's have been fetched. */
static void weights_fetch(run_state *self, int wanted)
{
    offload_rig *rig = self->rig;
    program *top = rig->top;
    int total = rig->plan.steps * rig->plan.layers;
    for (; self->fetches < wanted && self->fetches < total; self->fetches++) {
        int slot = self->fetches % (rig->plan.prefetch + 1);
        int layer = self->fetches % rig->plan.layers;
        buffer *weights = &self->weights[slot];
        *weights = buffer_take(self, weight_bytes(&rig->plan), STREAM_FETCH, 0);
        weights->seed = weight_seed(layer);
        must_cu(top,
                top->gpu->cuMemcpyHtoDAsync(weights->at, rig->weights[layer], weights->bytes,
                                            rig->streams[STREAM_FETCH]),
                "fetching weights");
        event_record(self, rig->fetched[slot], STREAM_FETCH);
    }
}

/* Sends an activation to the host, or keeps it for the end of the step. */
static void activation_leave(run_state *self, const buffer *activation, int layer)
{
    offload_rig *rig = self->rig;
    program *top = rig->top;
    if (is_kept(layer)) {
        self->kept[self->kept_count++] = *activation;
        return;
    }
    buffer half = buffer_take(self, activation->bytes / 2, STREAM_OFFLOAD, 1);
    half.seed = activation->seed;
    buffer_copy(self, &half, activation, half.bytes, STREAM_OFFLOAD);
    self->source->use_ended(self->source, activation->at, STREAM_OFFLOAD);
    buffer_give(self, activation);
    buffer_check(self, &half, STREAM_OFFLOAD);
    must_cu(top,
            top->gpu->cuMemcpyDtoHAsync(rig->saved[layer], half.at, half.bytes,
                                        rig->streams[STREAM_OFFLOAD]),
            "offloading");
    buffer_give(self, &half);
}

/* One layer: `input` becomes `input` of the next one. */
static void layer_run(run_state *self, int step, int layer, buffer *input)
{
    offload_rig *rig = self->rig;
    int index = step * rig->plan.layers + layer;
    int slot = index % (rig->plan.prefetch + 1);
    weights_fetch(self, index + rig->plan.prefetch + 1);
    stream_wait(self, STREAM_COMPUTE, rig->fetched[slot]);
    /* The input was produced by the layer before: the offload stream may start on it now. */
    stream_wait(self, STREAM_OFFLOAD, rig->produced);

    buffer hidden = buffer_take(self, input->bytes, STREAM_COMPUTE, 1);
    buffer_check(self, &self->weights[slot], STREAM_COMPUTE);
    buffer_check(self, input, STREAM_COMPUTE);
    for (int i = 0; i < rig->plan.work; i++)
        buffer_copy(self, &hidden, input, input->bytes, STREAM_COMPUTE);
    buffer output = buffer_take(self, input->bytes, STREAM_COMPUTE, 0);
    buffer_fill(self, &output, activation_seed(self->run, step, layer + 1), STREAM_COMPUTE);
    event_record(self, rig->produced, STREAM_COMPUTE);

    self->source->use_ended(self->source, self->weights[slot].at, STREAM_COMPUTE);
    buffer_give(self, &self->weights[slot]);
    buffer_give(self, &hidden);
    activation_leave(self, input, layer);
    *input = output;
}

static void step_run(run_state *self, int step)
{
    offload_rig *rig = self->rig;
    buffer input = buffer_take(self, activation_bytes(&rig->plan, step), STREAM_COMPUTE, 0);
    buffer_fill(self, &input, activation_seed(self->run, step, 0), STREAM_COMPUTE);
    event_record(self, rig->produced, STREAM_COMPUTE);
    self->kept_count = 0;
    for (int layer = 0; layer < rig->plan.layers; layer++)
        layer_run(self, step, layer, &input);
    self->kept[self->kept_count++] = input;
    for (int i = self->kept_count - 1; i >= 0; i--) {
        buffer_check(self, &self->kept[i], STREAM_COMPUTE);
        buffer_give(self, &self->kept[i]);
    }
}

static void streams_synchronize(offload_rig *rig)
{
    for (int i = 0; i < STREAMS_COUNT; i++)
        must_cu(rig->top, rig->top->gpu->cuStreamSynchronize(rig->streams[i]),
                "waiting for the end of the run");
}

/* Checks what the last step has left on the host. */
static void saved_check(run_state *self)
{
    offload_rig *rig = self->rig;
    program *top = rig->top;
    int step = rig->plan.steps - 1;
    size_t bytes = activation_bytes(&rig->plan, step) / 2;
    for (int layer = 0; layer < rig->plan.layers; layer++) {
        buffer back = {.at = rig->scratch, .bytes = bytes};
        back.seed = activation_seed(self->run, step, layer);
        if (!rig->saved[layer])
            continue;
        must_cu(top,
                top->gpu->cuMemcpyHtoDAsync(back.at, rig->saved[layer], bytes,
                                            rig->streams[STREAM_COMPUTE]),
                "reading back");
        buffer_check(self, &back, STREAM_COMPUTE);
    }
    streams_synchronize(rig);
}

void offload_run(offload_rig *rig, memory_source *source, uint64_t run, offload_result *result)
{
    run_state self = {.rig = rig, .source = source, .run = run};
    memset(result, 0, sizeof(*result));
    uint64_t before = clock_now_ns();
    for (int step = 0; step < rig->plan.steps; step++)
        step_run(&self, step);
    uint64_t enqueued = clock_now_ns();
    streams_synchronize(rig);
    result->total_ns = clock_now_ns() - before;
    result->enqueue_ns = enqueued - before;
    result->in_use_bytes = self.live_bytes_max;
    result->waits = self.waits;
    saved_check(&self);
    result->errors = program_pattern_errors(rig->top);
    must_cu(rig->top, pattern_reset(&rig->top->checks), "resetting the checks");
}
