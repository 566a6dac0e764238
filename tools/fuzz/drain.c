/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drain phase: everything that a program leaves is ended in order, without failures, and then
 * nothing may be left. This checks a separate guarantee: what is asked for comes in the end. A
 * block that is never given back breaks no safety, so only this phase finds it.
 */
#include "run.h"

#include <time.h>

#include "model_graph.h"
#include "owner.h"
#include "verdict.h"

static void drain_op(fuzz_run *run, fuzz_op op)
{
    if (run->is_over)
        return;
    const char *why = model_allows(&run->model, &op);
    char line[256];
    if (why != NULL)
        run_fail(run, FUZZ_VERDICT_SETUP, "drain", "\"%s\" is not allowed: %s",
                 fuzz_op_text(&op, line, sizeof(line)), why);
    else
        (void)fuzz_run_op(run, &op);
}

static void drain_graphs(fuzz_run *run)
{
    model *m = &run->model;
    if (m->beside != 0)
        drain_op(run, (fuzz_op){.kind = FUZZ_BESIDE_END});
    if (m->capturing)
        drain_op(run, (fuzz_op){.kind = FUZZ_CAPTURE_ABORT, .graph = (uint8_t)(m->capturing - 1)});
    for (uint8_t g = 0; g < FUZZ_GRAPHS; g++)
        if (m->graphs[g].state == GRAPH_READY)
            drain_op(run, (fuzz_op){.kind = FUZZ_GRAPH_DESTROY, .graph = g});
}

static void drain_wake(fuzz_run *run)
{
    for (uint8_t d = 0; d < run->model.devices; d++)
        if (run->model.default_asleep[d])
            drain_op(run, (fuzz_op){.kind = FUZZ_WAKE, .device = d});
}

/* Everything completes; the host knows. */
static void drain_work(fuzz_run *run)
{
    for (uint8_t d = 0; d < run->model.devices; d++) {
        drain_op(run, (fuzz_op){.kind = FUZZ_SYNC_DEVICE, .device = d, .n = 1});
        drain_op(run, (fuzz_op){.kind = FUZZ_LIMIT, .device = d, .n = UINT64_MAX});
    }
    drain_op(run, (fuzz_op){.kind = FUZZ_RUN, .n = UINT64_MAX});
}

/* Whether blocks of the device still wait for something, or memory for the end of its graph. */
static int waits_for_end(int device, int is_trimmed)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    return tnr_stats_get(&stats, NULL, device) == TNR_OK &&
           (stats.bytes_retired != 0 || (is_trimmed && stats.reserved_bytes.current != 0));
}

/* A real driver lets go of graphs on a thread of its own, and that may be late. */
static void drain_graph_ends(fuzz_run *run, int is_trimmed)
{
    enum { MOST_MS = 20000 };
    const struct timespec nap = {0, 1000000};
    for (uint8_t d = 0; d < run->model.devices; d++)
        for (int ms = 0; ms < MOST_MS && !run->is_over && waits_for_end(d, is_trimmed); ms++) {
            nanosleep(&nap, NULL);
            drain_op(run, (fuzz_op){.kind = FUZZ_TRIM, .device = d});
        }
}

static void drain_objects(fuzz_run *run)
{
    model *m = &run->model;
    for (uint8_t dev = 0; dev < m->devices && m->has_ghosts; dev++) /* to notice their ends */
        drain_op(run, (fuzz_op){.kind = FUZZ_TRIM, .device = dev});
    while (m->live_count > 0 && !run->is_over) {
        uint8_t slot = m->live[0];
        if (m->blocks[slot].part_of > 0)
            slot = m->blocks[slot].part_of - 1;
        drain_op(run, (fuzz_op){.kind = FUZZ_FREE, .block = slot});
        if (m->blocks[slot].base != 0)
            run_fail(run, FUZZ_VERDICT_LIVENESS, "drain", "b%d cannot be freed: %s", slot,
                     tnr_last_error());
    }
    drain_op(run, (fuzz_op){.kind = FUZZ_RUN, .n = UINT64_MAX});
    for (uint8_t p = 1; p < FUZZ_POOLS; p++)
        if (m->pools[p].is_there)
            drain_op(run, (fuzz_op){.kind = FUZZ_POOL_DESTROY, .pool = p});
    for (uint8_t e = 0; e < FUZZ_EVENTS; e++)
        if (m->events[e].is_there)
            drain_op(run, (fuzz_op){.kind = FUZZ_EVENT_DESTROY, .event = e});
    for (uint8_t s = 2; s < FUZZ_STREAMS; s++)
        if (m->streams[s].is_there)
            drain_op(run, (fuzz_op){.kind = FUZZ_STREAM_DESTROY, .stream = s});
    for (uint8_t d = 0; d < m->devices; d++) {
        drain_op(run, (fuzz_op){.kind = FUZZ_TRIM, .device = d});
        if (m->default_registered[d])
            drain_op(run, (fuzz_op){.kind = FUZZ_POOL_TRIM, .device = d});
    }
    for (uint8_t d = 0; d < m->devices; d++)
        if (m->is_used[FUZZ_DEVICES + d])
            drain_op(run, (fuzz_op){.kind = FUZZ_HOST_TRIM, .device = d});
    if (run->device->is_gated)
        drain_graph_ends(run, 0);
    drain_wake(run); /* now that there is room */
    for (uint8_t d = 0; d < m->devices; d++)
        drain_op(run, (fuzz_op){.kind = FUZZ_TRIM, .device = d});
    if (run->device->is_gated)
        drain_graph_ends(run, 1);
}

void fuzz_run_end(fuzz_run *run)
{
    uint64_t check_every = run->check_every;
    if (!run->is_over) {
        run->check_every = UINT64_MAX / 2; /* at the end, not after each of these */
        run->check_next = UINT64_MAX;
        run->is_draining = 1;
        drain_op(run, (fuzz_op){.kind = FUZZ_FAULTS_OFF});
        drain_op(run, (fuzz_op){.kind = FUZZ_OWNER});
        if (run->model.headroom_bytes > 0) /* what sleeps needs room */
            (void)run_succeeded(run, tnr_configure("headroom_mb:0"), "tnr_configure");
        if (run->device->is_gated) /* see drain_graph_ends */
            (void)run_succeeded(run, tnr_configure("graph_end_ms:10000"), "tnr_configure");
        drain_graphs(run);
        drain_work(run);
        drain_objects(run);
    }
    if (run->device->is_gated)
        gate_end(run);
    run->check_every = check_every;
    int had_effect = (run->freed_base == 0 || run->freed_again) && !run->is_harmless;
    if (run->illegal_ran && had_effect && !run->is_over)
        run_fail(run, FUZZ_VERDICT_MISSED, "planted error", "nothing was reported");
    if (!run->is_over)
        verdict_drained(run);
    run->device->races_callback(NULL, NULL);
    if (run->is_over)
        return; /* the process ends; what state the library is in is not known */
    if (tnr_shutdown(0) != TNR_OK)
        run_fail(run, FUZZ_VERDICT_LIVENESS, "shutdown", "%s", tnr_last_error());
    fuzz_owner_end(run);
    if (run->device->is_gated)
        gate_note_memory();
    verdict_shut_down(run);
}
