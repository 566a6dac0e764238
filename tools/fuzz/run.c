/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beginning and dispatch of a run: see run.h. What each operation does is in run_memory.c (blocks),
 * run_order.c (streams, events), run_control.c (pools, limits, settings, sleep) and run_graph.c.
 */
#include "run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "owner.h"
#include "verdict.h"

const char *fuzz_verdict_name(fuzz_verdict verdict)
{
    static const char *const names[] = {
#define FUZZ_VERDICT_NAME(name, text) text,
        FUZZ_VERDICT_LIST(FUZZ_VERDICT_NAME)
#undef FUZZ_VERDICT_NAME
    };
    return (unsigned)verdict < FUZZ_VERDICTS ? names[verdict] : "?";
}

/* ---- for all operations --------------------------------------------------------------------- */

void run_fail(fuzz_run *run, fuzz_verdict verdict, const char *check, const char *format, ...)
{
    fuzz_result *result = run->result;
    va_list arguments;
    if (run->is_over)
        return;
    run->is_over = 1;
    if (run->illegal_ran && verdict == FUZZ_VERDICT_SAFETY)
        verdict = FUZZ_VERDICT_CAUGHT;
    va_start(arguments, format);
    vsnprintf(result->text, sizeof(result->text), format, arguments);
    va_end(arguments);
    snprintf(result->check, sizeof(result->check), "%s", check);
    result->step = run->step;
    result->verdict = verdict;
}

int run_was_sabotaged(const fuzz_run *run)
{
    return run->device->fail_hits() != run->hits;
}

int run_succeeded(fuzz_run *run, tnr_status status, const char *call)
{
    run_hash(run, (uint64_t)status);
    if (status == TNR_OK)
        return 1;
    if (run_was_sabotaged(run))
        return 0;
    char check[48];
    snprintf(check, sizeof(check), "status of %s", call);
    run_fail(run, FUZZ_VERDICT_SAFETY, check, "%s gave %s: %s", call, tnr_status_name(status),
             tnr_last_error());
    return 0;
}

void run_hash(fuzz_run *run, uint64_t value)
{
    run->result->hash = (run->result->hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    run->result->hash ^= run->result->hash >> 29;
}

int run_device_of(const fuzz_run *run, int stream)
{
    return run->model.order.device[run->model.streams[stream].component];
}

int run_place(int place)
{
    return place < FUZZ_DEVICES ? place : TNR_HOST(place - FUZZ_DEVICES);
}

/* ---- beginning ------------------------------------------------------------------------------ */

static void environment_set(const fuzz_setup *setup, int is_gated)
{
    char text[64];
    snprintf(text, sizeof(text), "%d", setup->devices);
    setenv("TENURE_SIM_DEVICES", text, 1);
    snprintf(text, sizeof(text), "%" PRIu64, setup->memory_bytes);
    setenv("TENURE_SIM_MEMORY", text, 1);
    setenv("TENURE_SIM_SCHEDULE", setup->schedule, 1);
    snprintf(text, sizeof(text), "%" PRIu64, setup->schedule_seed);
    setenv("TENURE_SIM_SEED", text, 1);
    setenv("TENURE_SIM_RACES", "1", 1);
    setenv("TENURE_SIM_STRICT", "report", 1);
    setenv("TENURE_SIM_RESERVE", "16T", 1);
    /* Contents are looked at by operations only; what gates do is done by the host. */
    setenv("TENURE_SIM_VIEW", is_gated ? "0" : "1", 1);
    setenv("TENURE_SIM_KEEP_PAGES", "1", 1); /* a program touches few of them */
    if (is_gated)
        gate_environment();
    unsetenv("TENURE_SIM_FAIL");
    unsetenv("TENURE_CONF");
}

/* The detector's report goes into the result; it is called with the device locked. */
static void race_reported(const simcuda_report *report, void *data)
{
    run_fail(data, FUZZ_VERDICT_SAFETY, report->kind == SIMCUDA_RACE ? "race" : "ownership", "%s",
             report->text);
}

/* A real device has other memory than the program was drawn for. */
static int gated_begin(fuzz_run *run)
{
    for (int d = 0; d < run->setup->devices; d++)
        if (tnr_limit_set((size_t)run->setup->memory_bytes, d) != TNR_OK) {
            run_fail(run, FUZZ_VERDICT_SETUP, "setup", "%s", tnr_last_error());
            return -1;
        }
    return gate_begin(run);
}

int fuzz_run_start(fuzz_run *run, fuzz_device *device, const fuzz_setup *setup, fuzz_result *result,
                   uint64_t check_every)
{
    char error[256];
    memset(run, 0, sizeof(*run));
    run->device = device;
    run->result = result;
    run->setup = setup;
    run->check_every = check_every;
    run->check_next = check_every;
    environment_set(setup, device->is_gated);
    /* Whoever has asked for its functions before has had the device read its settings. */
    if (!device->is_gated)
        (void)device->reset();
    model_begin(&run->model, setup);
    memset(&fuzz_mismatches, 0, sizeof(fuzz_mismatches));
    run->streams[1] = CU_STREAM_PER_THREAD;
    fuzz_owner_begin(run);
    for (int i = 0; i < FUZZ_BLOCKS; i++)
        snprintf(run->labels[i], sizeof(run->labels[i]), "b%d", i);
    tnr_status status = tnr_configure("address_space_gb:1024,graph_end_ms:0");
    if (status == TNR_OK && setup->conf[0] != '\0')
        status = tnr_configure(setup->conf);
    if (status == TNR_OK)
        status = tnr_init();
    if (status != TNR_OK) {
        run_fail(run, FUZZ_VERDICT_SETUP, "setup", "%s", tnr_last_error());
        return -1;
    }
    if (fuzz_device_start(device, setup->devices, error, sizeof(error)) != 0) {
        run_fail(run, FUZZ_VERDICT_SETUP, "setup", "%s", error);
        return -1;
    }
    if (device->is_gated && gated_begin(run) != 0)
        return -1;
    device->races_callback(race_reported, run);
    run->has_traps = strstr(setup->conf, "guard:") != NULL ||
                     strstr(setup->conf, "poison:") != NULL ||
                     strstr(setup->conf, "canary:") != NULL;
    run->traps_findings = verdict_traps();
    run->model.has_slabs = strstr(setup->conf, "host:mapped") == NULL;
    run->model.has_wide_chunks = strstr(setup->conf, "chunk_share") != NULL ||
                                 strstr(setup->conf, "chunk_mb") != NULL ||
                                 strstr(setup->conf, "fraction") != NULL;
    return 0;
}

/* ---- operations ----------------------------------------------------------------------------- */

static int op_run(fuzz_run *run, const fuzz_op *op)
{
    switch ((fuzz_kind)op->kind) {
    case FUZZ_MALLOC:
    case FUZZ_ROUTED:
    case FUZZ_ALIGNED:
    case FUZZ_RESERVE:
    case FUZZ_COMMIT:
    case FUZZ_FREE:
    case FUZZ_FREE_ON:
    case FUZZ_FREE_SYNC:
    case FUZZ_FREE_HOST:
    case FUZZ_FREE_WRONG:
    case FUZZ_REGISTER:
    case FUZZ_LOOK:
    case FUZZ_PARK:
    case FUZZ_UNPARK:
    case FUZZ_MISS:
        return run_memory(run, op);
    case FUZZ_COMMIT_RANGE:
    case FUZZ_DECOMMIT_RANGE:
    case FUZZ_LOOK_RANGE:
        return run_range(run, op);
    case FUZZ_HOST_POOL:
    case FUZZ_HOST_MALLOC:
    case FUZZ_HOST_WRITE:
    case FUZZ_HOST_READ:
    case FUZZ_HOST_TRIM:
    case FUZZ_HOST_LIMIT:
        return run_host(run, op);
    case FUZZ_WRITE:
    case FUZZ_READ:
    case FUZZ_COPY:
    case FUZZ_FILL:
        return run_access(run, op);
    case FUZZ_USE:
    case FUZZ_USE_STREAM:
    case FUZZ_KEEP:
    case FUZZ_RECORD:
    case FUZZ_TELL:
    case FUZZ_WAIT:
    case FUZZ_SYNC_EVENT:
    case FUZZ_SYNC_STREAM:
    case FUZZ_SYNC_DEVICE:
    case FUZZ_QUERY:
    case FUZZ_EVENT_DESTROY:
    case FUZZ_STREAM_CREATE:
    case FUZZ_STREAM_DESTROY:
    case FUZZ_RUN:
    case FUZZ_RUN_STREAM:
        return run_order(run, op);
    case FUZZ_CAPTURE_BEGIN:
    case FUZZ_REDIRECT:
    case FUZZ_CAPTURE_END:
    case FUZZ_CAPTURE_ABORT:
    case FUZZ_CAPTURE_BREAK:
    case FUZZ_LAUNCH:
    case FUZZ_AUDIT:
    case FUZZ_GRAPH_DESTROY:
        return run_graph(run, op);
    case FUZZ_BESIDE:
    case FUZZ_BESIDE_END:
        return run_beside(run, op);
    default:
        return run_control(run, op);
    }
}

/* A planted error needs its block, or what it is about, and is none if the steps before it did not
 * take place. A stream's end is legal as such; not telling it is the error. So is the end of
 * another thread's capture; that this thread tries to is the error. */
static int planted_can_run(const fuzz_run *run, const fuzz_op *op, const char *why)
{
    switch ((fuzz_kind)op->kind) {
    case FUZZ_OWNER:
        return 1;
    case FUZZ_BESIDE_END:
        return why == NULL;
    case FUZZ_MISS:
        return why != NULL && run->model.pools[op->pool].is_there &&
               run->model.blocks[op->block].base == 0;
    case FUZZ_FREE_WRONG:
    case FUZZ_STREAM_DESTROY:
        return run->last[op->block].is_fresh;
    default:
        return run->last[op->block].is_fresh && why != NULL;
    }
}

int fuzz_run_op(fuzz_run *run, const fuzz_op *op)
{
    const char *why = model_allows(&run->model, op);
    int is_planted = op->is_illegal && planted_can_run(run, op, why);
    if (why == NULL && op->is_illegal && op->kind == FUZZ_STREAM_DESTROY && !is_planted)
        why = "the steps before the planted error did not take place";
    if (why == NULL && run->device->is_gated && (why = gate_refuses(op)) != NULL)
        run->result->unavailable[op->kind]++;
    if (why != NULL && !is_planted) {
        run->result->skipped++;
        if (run->is_verbose) {
            char line[256];
            fprintf(stderr, "%6" PRIu64 "  %s  -- skipped: %s\n", run->step,
                    fuzz_op_text(op, line, sizeof(line)), why);
        }
        run->step++;
        return 0;
    }
    run->hits = run->model.has_faults ? run->device->fail_hits() : 0;
    run->illegal_ran |= is_planted;
    run->op = op;
    run->owner_failures = fuzz_owner_failures();
    if (run->device->is_gated && is_planted)
        run->is_harmless = gate_is_harmless(run, op);
    if (run->device->is_gated && gate_before(run, op) != 0)
        return 0;
    /* What traps fill and copy is no access of a block's owner. */
    int is_access = op->kind == FUZZ_WRITE || op->kind == FUZZ_READ || op->kind == FUZZ_COPY ||
                    op->kind == FUZZ_FILL;
    if (run->has_traps && !is_access)
        run->device->owner_pause(1);
    int took_place = op_run(run, op);
    if (run->has_traps)
        run->device->owner_pause(0);
    fuzz_owner_tell(&run->model);
    if (run->device->is_gated)
        gate_after(run, op, took_place);
    run->result->ran++;
    run->result->calls[op->kind]++;
    run->result->refused[op->kind] += !took_place;
    if (run->is_verbose) {
        char line[256];
        fprintf(stderr, "%6" PRIu64 "  %s%s\n", run->step, fuzz_op_text(op, line, sizeof(line)),
                took_place ? "" : "  -- refused");
    }
    verdict_step(run);
    run->step++;
    return 1;
}
