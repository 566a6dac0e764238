/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a block free when its last use is over, and not only when the stream that used it is?
 *
 * A block is allocated on stream S. Stream T uses it (it copies the block away), the use is
 * recorded, and then T is given other work, which the host holds back. The block is freed and
 * memory of its size is asked for on S, all while T is held:
 *
 *   tnr_record_use      the block comes back at once, S works on it, and T is still held
 *   tnr_keep_until      the same, with an event of the program
 *   tnr_record_stream   it does not: that use ends with what T has been given before the free
 *
 * With reuse:wait the use itself is held back too, by a gate of its own, so that the block can come
 * back only because S is made to wait for the use. At the end all gates are open, and what the use
 * has read, what S has written and what T has done are compared with what they must be.
 */
#include "program.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

enum { GATE_USE, GATE_AFTER }; /* before the use; between the use and the unrelated work */
enum { SEED_BLOCK = 11, SEED_UNRELATED = 22, SEED_NEXT = 33 };
enum { ON_S, ON_T };

typedef enum mark { MARK_USE, MARK_EVENT, MARK_STREAM } mark;

typedef struct precision_case {
    const char *call;
    mark how;
    const char *reuse; /* the policy */
    int is_reused;     /* what must happen while T is held */
    tnr_reuse reason;  /* why the block must have become free, then or at the end */
} precision_case;

static const precision_case cases[] = {
    {"tnr_record_use", MARK_USE, "poll", 1, TNR_REUSE_EVENT_DONE},
    {"tnr_record_use", MARK_USE, "follow", 1, TNR_REUSE_EVENT_DONE},
    {"tnr_record_use", MARK_USE, "wait", 1, TNR_REUSE_WAITED_ON_DEVICE},
    {"tnr_keep_until", MARK_EVENT, "poll", 1, TNR_REUSE_EVENT_DONE},
    {"tnr_record_stream", MARK_STREAM, "poll", 0, TNR_REUSE_EVENT_DONE},
};
enum { CASES_COUNT = sizeof(cases) / sizeof(cases[0]) };

static const char *const reason_names[TNR_REUSE_COUNT] = {
#define REASON_NAME(name, text) [TNR_REUSE_##name] = text,
    TNR_REUSE_LIST(REASON_NAME)
#undef REASON_NAME
};

/* One case under way. */
typedef struct trial {
    program *self;
    const precision_case *one;
    size_t bytes;
    tnr_pool pool;
    CUstream s, t;
    CUevent event;
    CUdeviceptr block, next; /* the block, and what S got after its free */
    CUdeviceptr result, unrelated;
    int was_reused, was_held;
    tnr_reuse reason;
    uint64_t errors;
} trial;

/* What is seen to have made memory free: the reasons that are not about one stream alone. */
static tnr_reuse reason_seen(trial *self)
{
    tnr_stats stats = program_stats(self->self, self->pool);
    for (int reason = TNR_REUSE_SAME_STREAM + 1; reason < TNR_REUSE_COUNT; reason++)
        if (stats.freed_because[reason] > 0)
            return (tnr_reuse)reason;
    return TNR_REUSE_SAME_STREAM;
}

/* S writes the block, T reads it, and the use is recorded the way that the case says. */
static void block_use(trial *self)
{
    program *top = self->self;
    const gpu_driver *gpu = top->gpu;
    tnr_moment before = tnr_moment_now();
    must_cu(top, pattern_fill(&top->checks, self->block, self->bytes, SEED_BLOCK, self->s), "fill");
    must_cu(top, gpu->cuEventRecord(self->event, self->s), "recording an event");
    must_cu(top, gpu->cuStreamWaitEvent(self->t, self->event, 0), "ordering T after S");
    if (self->one->reason == TNR_REUSE_WAITED_ON_DEVICE)
        program_gate_hold(top, GATE_USE, self->t);
    must_cu(top, gpu->cuMemcpyDtoDAsync(self->result, self->block, self->bytes, self->t), "use");

    void *block = program_pointer(self->block);
    if (self->one->how == MARK_USE)
        must(top, tnr_record_use(block, self->t), "tnr_record_use");
    if (self->one->how == MARK_STREAM)
        must(top, tnr_record_stream(block, self->t), "tnr_record_stream");
    if (self->one->how == MARK_EVENT) {
        must_cu(top, gpu->cuEventRecord(self->event, self->t), "recording an event");
        must(top, tnr_event_recorded(self->event, top->active.device, self->t, before),
             "tnr_event_recorded");
        must(top, tnr_keep_until(block, self->event), "tnr_keep_until");
    }
    /* The host waits for the use and its mark, which Tenure is not told: it has to find out. */
    if (self->one->reason != TNR_REUSE_WAITED_ON_DEVICE)
        must_cu(top, gpu->cuCtxSynchronize(), "waiting for the use");
}

/* The block is freed, and memory of its size asked for, with T held. */
static void block_reuse(trial *self)
{
    program *top = self->self;
    const gpu_driver *gpu = top->gpu;
    program_gate_hold(top, GATE_AFTER, self->t);
    must_cu(top, pattern_fill(&top->checks, self->unrelated, self->bytes, SEED_UNRELATED, self->t),
            "unrelated work");
    must(top, tnr_free(program_pointer(self->block)), "tnr_free");
    self->next = program_malloc(top, self->pool, self->bytes, self->s);
    self->was_reused = self->next == self->block;
    must_cu(top, pattern_fill(&top->checks, self->next, self->bytes, SEED_NEXT, self->s), "reuse");
    self->reason = reason_seen(self);
    if (self->one->reason == TNR_REUSE_WAITED_ON_DEVICE)
        program_gate_open(top, GATE_USE);
    /* S can be waited for although T is held: nothing of S waits for the unrelated work. */
    if (self->was_reused == self->one->is_reused)
        must_cu(top, gpu->cuStreamSynchronize(self->s), "waiting for S");
    self->was_held = gpu->cuStreamQuery(self->t) == CUDA_ERROR_NOT_READY;
}

/* All gates are open: compares what is in memory. */
static void data_check(trial *self)
{
    program *top = self->self;
    pattern *checks = &top->checks;
    size_t bytes = self->bytes;
    program_gate_open(top, GATE_USE);
    program_gate_open(top, GATE_AFTER);
    must_cu(top, top->gpu->cuStreamSynchronize(self->t), "waiting for T");
    must_cu(top, top->gpu->cuStreamSynchronize(self->s), "waiting for S");
    must_cu(top, pattern_check(checks, self->result, bytes, SEED_BLOCK, self->t, ON_T), "check");
    must_cu(top, pattern_check(checks, self->unrelated, bytes, SEED_UNRELATED, self->t, ON_T),
            "check");
    must_cu(top, pattern_check(checks, self->next, bytes, SEED_NEXT, self->s, ON_S), "check");
    must_cu(top, top->gpu->cuStreamSynchronize(self->t), "waiting for T");
    must_cu(top, top->gpu->cuStreamSynchronize(self->s), "waiting for S");
    self->errors = program_pattern_errors(top);
    must_cu(top, pattern_reset(checks), "resetting the checks");
}

/* With record_stream the block comes back once T is done, so it was only late. */
static void late_reuse(trial *self)
{
    program *top = self->self;
    CUdeviceptr late = program_malloc(top, self->pool, self->bytes, self->s);
    self->reason = reason_seen(self);
    if (late != self->block)
        program_fail(top, "%s: the block did not come back after T had ended", self->one->call);
    must(top, tnr_free(program_pointer(late)), "tnr_free");
}

/* Runs one case in a pool of its own, so that only the block itself has the size that is asked
 * for. The other buffers are the driver's. */
static void trial_run(trial *self)
{
    program *top = self->self;
    const gpu_driver *gpu = top->gpu;
    char settings[32];
    snprintf(settings, sizeof(settings), "reuse:%s", self->one->reuse);
    must(top, tnr_configure(settings), "tnr_configure");
    must(top, tnr_pool_create(&self->pool, top->active.device, NULL), "tnr_pool_create");
    must_cu(top, gpu->cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(top, gpu->cuStreamCreate(&self->t, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must_cu(top, gpu->cuEventCreate(&self->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    must_cu(top, gpu->cuMemAlloc(&self->result, self->bytes), "cuMemAlloc");
    must_cu(top, gpu->cuMemAlloc(&self->unrelated, self->bytes), "cuMemAlloc");
    program_gates_close(top);

    self->block = program_malloc(top, self->pool, self->bytes, self->s);
    block_use(self);
    block_reuse(self);
    data_check(self);
    if (!self->one->is_reused)
        late_reuse(self);

    must(top, tnr_free(program_pointer(self->next)), "tnr_free");
    must(top, tnr_pool_destroy(self->pool), "tnr_pool_destroy");
    must(top, tnr_stream_destroying(top->active.device, self->s), "tnr_stream_destroying");
    must(top, tnr_stream_destroying(top->active.device, self->t), "tnr_stream_destroying");
    tnr_event_destroyed(self->event);
    must_cu(top, gpu->cuEventDestroy(self->event), "cuEventDestroy");
    must_cu(top, gpu->cuStreamDestroy(self->s), "cuStreamDestroy");
    must_cu(top, gpu->cuStreamDestroy(self->t), "cuStreamDestroy");
    must_cu(top, gpu->cuMemFree(self->result), "cuMemFree");
    must_cu(top, gpu->cuMemFree(self->unrelated), "cuMemFree");
}

static int trial_is_right(const trial *self)
{
    return self->was_reused == self->one->is_reused && self->was_held && self->errors == 0 &&
           self->reason == self->one->reason;
}

static void table_headings(table *out)
{
    static const char *const headings[] = {
        "call", "policy", "reused while T is held", "T held", "free because", "wrong data", ""};
    table_start(out, sizeof(headings) / sizeof(headings[0]));
    table_row(out);
    for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
        table_cell(out, "%s", headings[i]);
}

static void trial_report(const trial *self, table *out)
{
    int late = !self->was_reused;
    table_row(out);
    table_cell(out, "%s", self->one->call);
    table_cell(out, "reuse:%s", self->one->reuse);
    table_cell(out, "%s", self->was_reused ? "yes" : "no");
    table_cell(out, "%s", self->was_held ? "yes" : "no");
    table_cell(out, "%s%s", reason_names[self->reason], late ? ", after T" : "");
    table_cell(out, "%llu", (unsigned long long)self->errors);
    table_cell(out, "%s", trial_is_right(self) ? "as it must be" : "WRONG");
    if (!trial_is_right(self))
        table_cell_bad(out);
}

static int options_read(int argc, char **argv, size_t *bytes)
{
    static const struct option options[] = {{"mib", required_argument, NULL, 'm'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static const char usage[] =
        "Usage: lifetime_precision [--mib N]\n\n"
        "Shows that a block with a recorded use is reused while later work of that stream is\n"
        "still held back, and that with tnr_record_stream it is not.\n\n"
        "  --mib N   size of the block (default 32)\n\n"
        "TENURE_DRIVER=sim uses the simulated device.\n"
        "Exit codes: 0 as it must be; 1 not; 2 bad options; 77 no device.\n";
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            exit(PROGRAM_OK);
        }
        char *end = NULL;
        long mib = option == 'm' ? strtol(optarg, &end, 10) : 0;
        if (option != 'm' || *end != '\0' || mib < 2 || mib > 4096) {
            fputs(usage, stderr);
            return PROGRAM_BAD_INPUT;
        }
        *bytes = (size_t)mib << 20;
    }
    if (optind == argc)
        return PROGRAM_OK;
    fputs(usage, stderr);
    return PROGRAM_BAD_INPUT;
}

int main(int argc, char **argv)
{
    static program self;
    char text[2 * PATH_MAX];
    size_t bytes = (size_t)32 << 20;
    int code = options_read(argc, argv, &bytes);
    if (code != PROGRAM_OK)
        return code;
    program_open(&self, "lifetime_precision", 2);
    printf("lifetime_precision on %s\n\n", session_describe(&self.active, text, sizeof(text)));
    table out;
    table_headings(&out);
    for (size_t i = 0; i < CASES_COUNT; i++) {
        trial one = {.self = &self, .one = &cases[i], .bytes = bytes};
        trial_run(&one);
        trial_report(&one, &out);
        if (!trial_is_right(&one))
            code = PROGRAM_WRONG;
    }
    table_print(&out, stdout);
    table_release(&out);
    puts("\nThe block is freed and asked for again while its other stream, T, is held back by the\n"
         "host, behind the recorded use. tnr_record_stream waits for T to end, as it says.");
    if (self.sim_races && self.sim_races() > 0) {
        printf("the simulated device saw %llu races\n", (unsigned long long)self.sim_races());
        code = PROGRAM_WRONG;
    }
    program_close(&self);
    return code;
}
