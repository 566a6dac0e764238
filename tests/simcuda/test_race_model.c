/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race detector against a naive model: random programs of a few hundred calls. For each
 * operation the model keeps the set of all operations before it. The detector must report no pair
 * that the model knows to be ordered or harmless. For every piece of memory with a race it must
 * report at least one pair that races there. Both must hold under every schedule.
 */
#include "fixture.h"
#include "few.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPS = 256,
    STREAMS = 6, /* 0: legacy; 1, 2: blocking; the others are non-blocking */
    EVENTS = 4,
    PIECES = 32, /* of memory, as the model sees it */
    SEEDS = 150
};
#define PIECE_BYTES ((size_t)512)

struct set {
    uint64_t word[OPS / 64];
};

struct op {
    struct set before;
    unsigned first; /* pieces touched */
    unsigned count;
    int write;
};

struct model {
    struct op ops[OPS];
    unsigned count;
    struct set of_stream[STREAMS]; /* what the stream's next operation is after */
    struct set known;              /* finished, as far as the host knows */
    struct set event[EVENTS];
    int recorded[EVENTS];
    struct set gone; /* work of destroyed streams */
    int reported[OPS][OPS];
    unsigned wild;    /* of a hundred touches that would race, how many are made all the same */
    unsigned strange; /* reports of another kind, or of operations that are none */
};

static struct model model;
static uint32_t random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (unsigned)(((uint64_t)random_state * below) >> 32);
}

/* ---- the model ------------------------------------------------------------------------------ */

static void set_add(struct set *set, unsigned op)
{
    set->word[op / 64] |= UINT64_C(1) << (op % 64);
}

static int set_has(const struct set *set, unsigned op)
{
    return (set->word[op / 64] >> (op % 64) & 1) != 0;
}

static void set_join(struct set *into, const struct set *other)
{
    for (unsigned i = 0; i < OPS / 64; i++)
        into->word[i] |= other->word[i];
}

/* What an operation queued now is after: its stream, the host, the legacy stream's rules. */
static struct set model_before(unsigned stream)
{
    struct set before = model.of_stream[stream];
    set_join(&before, &model.known);
    if (stream == 0) {
        set_join(&before, &model.of_stream[1]);
        set_join(&before, &model.of_stream[2]);
    } else if (stream <= 2) {
        set_join(&before, &model.of_stream[0]);
    }
    return before;
}

/* Something is queued. */
static void model_order(unsigned stream)
{
    model.of_stream[stream] = model_before(stream);
}

static unsigned model_op(unsigned stream, unsigned first, unsigned count, int write)
{
    unsigned number = model.count++;
    model_order(stream);
    model.ops[number] = (struct op){model.of_stream[stream], first, count, write};
    set_add(&model.of_stream[stream], number);
    return number;
}

static int conflict(const struct op *a, const struct op *b)
{
    return (a->write || b->write) && a->first < b->first + b->count &&
           b->first < a->first + a->count;
}

static int races(unsigned i, unsigned j)
{
    return conflict(&model.ops[i], &model.ops[j]) && !set_has(&model.ops[j].before, i) &&
           !set_has(&model.ops[i].before, j);
}

/* Whether an operation queued now would race with an earlier one. */
static int would_race(unsigned stream, unsigned first, unsigned count, int write)
{
    const struct op op = {model_before(stream), first, count, write};
    for (unsigned i = 0; i < model.count; i++)
        if (conflict(&model.ops[i], &op) && !set_has(&op.before, i))
            return 1;
    return 0;
}

/* Comes from workers too, with the simulation locked: it only writes down what it is told. */
static void report_arrived(const simcuda_report *report, void *data)
{
    unsigned i = (unsigned)strtoul(report->earlier.label, NULL, 10);
    unsigned j = (unsigned)strtoul(report->later.label, NULL, 10);
    (void)data;
    if (report->kind != SIMCUDA_RACE || i >= OPS || j >= OPS) {
        model.strange++;
        return;
    }
    model.reported[i][j] = 1;
    model.reported[j][i] = 1;
}

/* Reports that the model does not agree with. */
static unsigned model_false(void)
{
    unsigned wrong = model.strange;
    for (unsigned i = 0; i < OPS; i++)
        for (unsigned j = i; j < OPS; j++)
            wrong += model.reported[i][j] && (j >= model.count || !races(i, j));
    return wrong;
}

static int touches(unsigned op, unsigned piece)
{
    return piece - model.ops[op].first < model.ops[op].count;
}

/* Pieces that are raced on without a report that names two operations racing there. */
static unsigned model_missed(unsigned *raced)
{
    unsigned missed = 0;
    for (unsigned piece = 0; piece < PIECES; piece++) {
        int racy = 0;
        int found = 0;
        for (unsigned i = 0; i < model.count; i++) {
            for (unsigned j = i + 1; touches(i, piece) && j < model.count; j++) {
                int here = touches(j, piece) && races(i, j);
                racy = racy || here;
                found = found || (here && model.reported[i][j]);
            }
        }
        *raced += racy;
        missed += racy && !found;
    }
    return missed;
}

/* ---- programs ------------------------------------------------------------------------------- */

struct run {
    CUstream stream[STREAMS];
    CUevent event[EVENTS];
    CUdeviceptr at[2]; /* two mappings of one chunk */
    CUfunction kernel;
};

struct parameters {
    CUdeviceptr at;
    uint64_t bytes;
    uint64_t write;
};

static void kernel_run(void *const *params)
{
    (void)params;
}

static size_t kernel_accesses(void *const *params, simcuda_access *out, size_t capacity)
{
    struct parameters given;
    memcpy(&given, params[0], sizeof(given));
    if (capacity >= 1)
        out[0] = (simcuda_access){given.at, given.bytes, given.write != 0};
    return 1;
}

static void run_start(struct run *run)
{
    CUmodule module = NULL;
    CUmemGenericAllocationHandle handle = 0;
    for (unsigned i = 1; i < STREAMS; i++)
        run->stream[i] = stream_new(i <= 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    run->stream[0] = NULL;
    for (unsigned i = 0; i < EVENTS; i++)
        run->event[i] = event_new();
    run->at[0] = chunk_mapped(CHUNK, &handle);
    run->at[1] = reserve(CHUNK);
    assert_ok(cuMemMap(run->at[1], CHUNK, 0, handle, 0));
    chunk_access(run->at[1], CHUNK);
    assert_ok(cuModuleLoadData(&module, "image"));
    assert_ok(cuModuleGetFunction(&run->kernel, module, "touch"));
}

static void step_touch(struct run *run, unsigned stream)
{
    char label[16];
    unsigned first = draw(PIECES);
    unsigned count = 1 + draw(draw(4) == 0 ? PIECES - first : 2);
    count = first + count > PIECES ? PIECES - first : count;
    int write = draw(3) == 0;
    CUdeviceptr at = run->at[draw(2)] + first * PIECE_BYTES;
    if (would_race(stream, first, count, write) && draw(100) >= model.wild)
        return;
    struct parameters parameters = {at, count * PIECE_BYTES, write};
    void *list[] = {&parameters};
    (void)snprintf(label, sizeof(label), "%u", model_op(stream, first, count, write));
    simcuda_origin(label);
    assert_ok(cuLaunchKernel(run->kernel, 1, 1, 1, 1, 1, 1, 0, run->stream[stream], list, NULL));
}

static void step_record(struct run *run, unsigned stream, unsigned event)
{
    model_order(stream);
    model.event[event] = model.of_stream[stream];
    model.recorded[event] = 1;
    assert_ok(cuEventRecord(run->event[event], run->stream[stream]));
}

static void step_wait(struct run *run, unsigned stream, unsigned event)
{
    if (model.recorded[event]) /* else nothing is queued */
        model_order(stream);
    set_join(&model.of_stream[stream], &model.event[event]);
    assert_ok(cuStreamWaitEvent(run->stream[stream], run->event[event], 0));
}

/* The host waits for a stream, an event or everything. */
static void step_host(struct run *run, unsigned stream, unsigned event)
{
    switch (draw(5)) {
    case 0:
        if (stream == 0) /* as if something were queued in it; others wait for their own */
            model_order(stream);
        set_join(&model.known, &model.of_stream[stream]);
        assert_ok(cuStreamSynchronize(run->stream[stream]));
        break;
    case 1:
        for (unsigned i = 0; i < STREAMS; i++)
            set_join(&model.known, &model.of_stream[i]);
        set_join(&model.known, &model.gone);
        assert_ok(cuCtxSynchronize());
        break;
    default:
        set_join(&model.known, &model.event[event]);
        assert_ok(cuEventSynchronize(run->event[event]));
        break;
    }
}

/* A stream is destroyed, often with work queued, and another takes its place and handle. */
static void step_replace(struct run *run, unsigned stream)
{
    if (stream <= 2)
        return; /* the model keeps no list of gone blocking streams */
    set_join(&model.gone, &model.of_stream[stream]);
    memset(&model.of_stream[stream], 0, sizeof(model.of_stream[stream]));
    assert_ok(cuStreamDestroy(run->stream[stream]));
    run->stream[stream] = stream_new(CU_STREAM_NON_BLOCKING);
}

static void program(struct run *run, unsigned waits)
{
    while (model.count < OPS - 1) {
        unsigned stream = draw(STREAMS);
        unsigned event = draw(EVENTS);
        unsigned choice = draw(100);
        if (choice < 40) {
            step_touch(run, stream);
        } else if (choice < 40 + waits) {
            step_record(run, stream, event);
            step_wait(run, draw(STREAMS), draw(EVENTS));
        } else if (choice == 98) {
            step_host(run, stream, event);
        } else if (choice == 99) {
            step_replace(run, stream);
        }
    }
}

static void test_random_programs(void **state)
{
    (void)state;
    static const char *const schedules[] = {"SCHEDULE=lazy", "SCHEDULE=eager", "SCHEDULE=random",
                                            "SCHEDULE=threads"};
    const size_t size = sizeof(struct parameters);
    unsigned raced[3] = {0, 0, 0};
    const unsigned seeds = (unsigned)few_or(SEEDS, 12);
    assert_int_equal(simcuda_kernel_register("touch", 1, &size, kernel_run, kernel_accesses), 0);
    for (unsigned seed = 0; seed < seeds; seed++) {
        for (unsigned i = 0; i < 4; i++) {
            struct run run;
            char text[32];
            (void)snprintf(text, sizeof(text), "SEED=%u", seed);
            fixture_start(schedules[i], text, "RACES=1", "RESERVE=64G", NULL);
            memset(&model, 0, sizeof(model));
            random_state = seed * 7919u + 1;
            model.wild = seed % 3 == 0 ? 100 : seed % 3 == 1 ? 2 : 0;
            run_start(&run);
            simcuda_races_callback(report_arrived, NULL);
            program(&run, 5 + seed % 50);
            assert_ok(cuCtxSynchronize());
            unsigned missed = model_missed(&raced[seed % 3]);
            unsigned wrong = model_false();
            if (missed != 0 || wrong != 0)
                print_message("seed %u, %s: %u false, %u missed\n", seed, schedules[i], wrong,
                              missed);
            assert_int_equal(wrong, 0);
            assert_int_equal(missed, 0);
        }
    }
    /* Of raced-on pieces: nearly all, some, and none in programs without a race. */
    assert_true(raced[0] > seeds * PIECES);
    assert_true(raced[1] > seeds && raced[1] < raced[0] / 2);
    assert_int_equal(raced[2], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_random_programs, fixture_stop),
    };
    return cmocka_run_group_tests_name("race_model", tests, NULL, NULL);
}
