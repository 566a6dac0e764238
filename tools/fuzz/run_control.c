/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on pools, limits, settings, history, sleep, and injected failures.
 */
#include "run.h"

#include <inttypes.h>
#include <stdlib.h>

#include "owner.h"
#include "verdict.h"

/* ---- pools ---------------------------------------------------------------------------------- */

static int run_pool_create(fuzz_run *run, const fuzz_op *op)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    model_pool *pool = &run->model.pools[op->pool];
    tnr_status status;
    int is_foreign = op->kind == FUZZ_POOL_SEGMENTS || op->kind == FUZZ_POOL_SEGMENT_GRAPHS;
    int is_graph = op->kind == FUZZ_POOL_GRAPHS || op->kind == FUZZ_POOL_SEGMENT_GRAPHS;
    options.limit_bytes = (size_t)op->n;
    if (is_foreign) {
        options.segment_bytes = (size_t)op->m;
        fuzz_owner_options(&options, op->pool);
    } else {
        options.release_threshold_bytes = (size_t)op->m;
    }
    if (is_graph)
        status =
            tnr_graph_pool_create(&run->pools[op->pool], op->device, is_foreign ? &options : NULL);
    else
        status = tnr_pool_create(&run->pools[op->pool], op->device, &options);
    if (!run_succeeded(run, status, "tnr_pool_create"))
        return 0;
    memset(pool, 0, sizeof(*pool));
    pool->is_there = 1;
    pool->is_graph = (uint8_t)is_graph;
    pool->is_foreign = (uint8_t)is_foreign;
    pool->is_open = !is_foreign && run->model.device_open[op->device];
    pool->device = op->device;
    pool->limit = (size_t)op->n;
    return 1;
}

static int run_pool_destroy(fuzz_run *run, const fuzz_op *op)
{
    tnr_pool pool = run->pools[op->pool];
    run_watch_forget(run, run->model.pools[op->pool].device, op->pool);
    tnr_status status = tnr_pool_destroy(pool);
    if (op->is_illegal && status != TNR_OK)
        run_fail(run, FUZZ_VERDICT_CAUGHT, "status", "%s: %s", tnr_status_name(status),
                 tnr_last_error());
    if (run->is_over)
        return 0;
    if (status == TNR_ERR_BUSY && run->model.captures > 0 && !run->is_draining)
        return 0; /* a graph, or a launch of one that is gone, may still need its freed blocks */
    if (!run_succeeded(run, status, "tnr_pool_destroy"))
        return 0;
    run->model.pools[op->pool].is_there = 0;
    status = tnr_pool_push(pool);
    if (status != TNR_ERR_INVALID_POOL)
        run_fail(run, FUZZ_VERDICT_SAFETY, "status", "a destroyed pool was accepted: %s",
                 tnr_status_name(status));
    run->pools[op->pool] = NULL;
    return 1;
}

/* What gives segments back to their owner. One that has nothing live in it stays only if a graph
 * may need it, or a call has failed. */
static int run_pool_trim(fuzz_run *run, const fuzz_op *op)
{
    size_t released = 0;
    const fuzz_segment *idle;
    run_watch_forget(run, op->device, op->pool);
    int is_host = run->model.pools[op->pool].is_host;
    int place = is_host ? TNR_HOST(op->device) : op->device;
    tnr_status status = tnr_pool_trim(&released, run->pools[op->pool], (size_t)op->n, place);
    if (!run_succeeded(run, status, "tnr_pool_trim"))
        return 0;
    run_hash(run, released);
    if (op->n == 0 && run->model.captures == 0 && !run_was_sabotaged(run) &&
        (idle = fuzz_owner_idle(op->pool)) != NULL)
        run_fail(run, FUZZ_VERDICT_LIVENESS, "segment",
                 "p%d keeps %zu bytes at 0x%" PRIxPTR " without a block", op->pool, idle->bytes,
                 idle->base);
    return 1;
}

/* What a pool refuses whose memory is not the library's to move, or to open. */
static int rightly_refused(fuzz_run *run, tnr_status status, tnr_status expected)
{
    run_hash(run, (uint64_t)status);
    if (status != expected && !run_was_sabotaged(run))
        run_fail(run, FUZZ_VERDICT_SAFETY, "status", "%s gave %s, not %s",
                 fuzz_kind_verb((fuzz_kind)run->op->kind), tnr_status_name(status),
                 tnr_status_name(expected));
    return 0;
}

/* ---- sleep ---------------------------------------------------------------------------------- */

/* What a sleep leaves of the contents of a pool's blocks. */
static void contents_slept(fuzz_run *run, const fuzz_op *op)
{
    model *m = &run->model;
    for (int i = 0; i < m->live_count; i++) {
        model_block *block = &m->blocks[m->live[i]];
        int discarded = block->content == TNR_CONTENT_DISCARD ||
                        (block->content == TNR_CONTENT_DEFAULT && op->n == TNR_CONTENT_DISCARD);
        if (block->device == op->device && block->pool == op->pool && discarded)
            block->is_tagged = 0;
    }
}

/* Sleeping waits for all work of the device, so everything is over for the host. The copies of
 * whole chunks are the library's own, and no access of a block's owner. */
static int run_sleep(fuzz_run *run, const fuzz_op *op)
{
    model *m = &run->model;
    tnr_sleep_options options = TNR_SLEEP_OPTIONS_INIT;
    tnr_pool pool = run->pools[op->pool];
    uint8_t *asleep =
        op->pool == 0 ? &m->default_asleep[op->device] : &m->pools[op->pool].is_asleep;
    options.content = (tnr_content)(op->n % 3);
    run->device->owner_pause(1);
    tnr_status status = op->kind == FUZZ_SLEEP ? tnr_pool_sleep(pool, op->device, &options)
                                               : tnr_pool_wake(pool, op->device);
    run->device->owner_pause(0);
    if (op->kind == FUZZ_SLEEP && m->pools[op->pool].is_foreign)
        return rightly_refused(run, status, TNR_ERR_FOREIGN_SEGMENT);
    if (op->kind == FUZZ_SLEEP && model_is_registered(m, op->device, op->pool) &&
        (!*asleep || status == TNR_ERR_BUSY)) {
        *asleep = 0; /* a compaction that failed had not put it to sleep */
        return rightly_refused(run, status, TNR_ERR_BUSY);
    }
    int is_short = status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT;
    if (op->kind == FUZZ_WAKE && is_short) {
        run_hash(run, (uint64_t)status);
        return 0; /* others have taken the memory meanwhile */
    }
    if (op->kind == FUZZ_SLEEP && status == TNR_ERR_HOST_MEMORY && !*asleep &&
        m->limit_bytes[FUZZ_DEVICES + op->device] != UINT64_MAX && !run_was_sabotaged(run)) {
        run_hash(run, (uint64_t)status);
        return 0; /* its contents have no room under that limit; the pool is awake */
    }
    if (!run_succeeded(run, status, op->kind == FUZZ_SLEEP ? "tnr_pool_sleep" : "tnr_pool_wake")) {
        /* A sleep that failed and could not be taken back says that the pool is asleep: which it
         * is, is asked by waking it without failures. */
        run->device->fail_clear();
        m->has_faults = 0;
        run->hits = run->device->fail_hits();
        if (op->kind == FUZZ_SLEEP && !*asleep)
            contents_slept(run, op);
        *asleep = 1;
        return 0;
    }
    if (op->kind == FUZZ_SLEEP && !*asleep)
        contents_slept(run, op);
    *asleep = op->kind == FUZZ_SLEEP;
    return 1;
}

/* What the model knows of the blocks holds on: they keep addresses and contents. A pool of graphs
 * is refused while one of them lives, which is known to the driver alone. */
static int run_compact(fuzz_run *run, const fuzz_op *op)
{
    model *m = &run->model;
    size_t released = 0;
    const model_pool *pool = &m->pools[op->pool];
    uint8_t *asleep =
        op->pool == 0 ? &m->default_asleep[op->device] : &m->pools[op->pool].is_asleep;
    run->device->owner_pause(1);
    tnr_status status = tnr_compact(&released, run->pools[op->pool], op->device);
    run->device->owner_pause(0);
    run_hash(run, (uint64_t)status);
    run_hash(run, released);
    if (pool->is_foreign)
        return rightly_refused(run, status, TNR_ERR_FOREIGN_SEGMENT);
    if (*asleep && status == TNR_ERR_ASLEEP) /* it may be awake after a sleep that failed */
        return 0;
    if (model_is_registered(m, op->device, op->pool))
        return rightly_refused(run, status, TNR_ERR_BUSY);
    int is_short = status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT ||
                   (status == TNR_ERR_HOST_MEMORY &&
                    m->limit_bytes[FUZZ_DEVICES + op->device] != UINT64_MAX);
    if ((is_short && !run_was_sabotaged(run)) || (status == TNR_ERR_BUSY && pool->is_graph))
        return 0; /* there was no room for a copy */
    if (run_succeeded(run, status, "tnr_compact"))
        return 1;
    /* The pool may be asleep now: a wake tells. */
    run->device->fail_clear();
    m->has_faults = 0;
    run->hits = run->device->fail_hits();
    *asleep = 1;
    return 0;
}

/* ---- access --------------------------------------------------------------------------------- */

static tnr_status access_set(const fuzz_run *run, const fuzz_op *op)
{
    tnr_access access = op->n != 0 ? TNR_ACCESS_READWRITE : TNR_ACCESS_NONE;
    if (op->kind == FUZZ_ACCESS_ALL)
        return tnr_device_access_set(op->device, 1 - op->device, access);
    return tnr_pool_access_set(run->pools[op->pool], op->device, 1 - op->device, access);
}

/* 1 if a pool of those that are closed may be asleep with memory that is still mapped: a sleep and
 * its way back have failed. */
static int may_sleep_in_part(const model *m, const fuzz_op *op)
{
    int is_one = op->kind == FUZZ_ACCESS;
    for (int p = is_one ? op->pool : 0; p <= (is_one ? op->pool : FUZZ_POOLS); p++)
        if (model_is_asleep(m, op->device, p))
            return 1;
    return 0;
}

/* A pool that sleeps in part cannot be closed. Of all pools some may have been closed by then: all
 * are opened, which is served. */
static int close_refused(fuzz_run *run, const fuzz_op *op)
{
    fuzz_op open = *op;
    open.n = 1;
    run_hash(run, TNR_ERR_ASLEEP);
    if (op->kind == FUZZ_ACCESS_ALL && run_succeeded(run, access_set(run, &open), "access"))
        model_did_change_access(&run->model, &open);
    verdict_peers(run);
    return 0;
}

/* A call that met one failure has left the pool as it was, which the next check sees. If there were
 * several the way back may have failed too, and of all pools some may have changed: so it is called
 * once more, without failures. */
static int run_access_change(fuzz_run *run, const fuzz_op *op)
{
    const char *call = fuzz_kind_verb((fuzz_kind)op->kind);
    tnr_status status = access_set(run, op);
    if (status == TNR_ERR_NO_PEER_ACCESS && run->device->is_gated)
        return 0; /* this machine's devices have no way to each other */
    if (op->kind == FUZZ_ACCESS && run->model.pools[op->pool].is_foreign)
        return rightly_refused(run, status, TNR_ERR_FOREIGN_SEGMENT);
    if (status == TNR_ERR_ASLEEP && op->n == 0 && may_sleep_in_part(&run->model, op))
        return close_refused(run, op);
    int took_place = run_succeeded(run, status, call);
    int is_whole = op->kind == FUZZ_ACCESS && run->device->fail_hits() == run->hits + 1;
    if (!took_place && !is_whole && !run->is_over) {
        run->device->fail_clear();
        run->model.has_faults = 0;
        run->hits = run->device->fail_hits();
        took_place = run_succeeded(run, access_set(run, op), call);
    }
    if (took_place)
        model_did_change_access(&run->model, op);
    verdict_peers(run);
    return took_place;
}

/* ---- settings and sight --------------------------------------------------------------------- */

static int run_configure(fuzz_run *run, const fuzz_op *op)
{
    const char *setting = fuzz_settings[op->name];
    if (!run_succeeded(run, tnr_configure(setting), "tnr_configure"))
        return 0;
    run->result->policies |= UINT64_C(1) << op->name;
    if (strncmp(setting, "headroom_mb:", 12) == 0)
        run->model.headroom_bytes = strtoull(setting + 12, NULL, 10) << 20;
    memset(run->limit_seen, 0, sizeof(run->limit_seen)); /* compare anew */
    return 1;
}

static int run_stats(fuzz_run *run, const fuzz_op *op)
{
    static char text[32768];
    if (tnr_stats_json(text, sizeof(text), NULL, op->device) == 0 && !run_was_sabotaged(run))
        run_fail(run, FUZZ_VERDICT_SAFETY, "status", "tnr_stats_json: %s", tnr_last_error());
    return run_succeeded(run, tnr_stats_reset_peaks(op->device), "tnr_stats_reset_peaks");
}

static int run_fault(fuzz_run *run, const fuzz_op *op)
{
    run->device->fail(fuzz_entries[op->name], op->n == 0 ? 1 : op->n, op->m != 0,
                      op->n % 2 ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_OUT_OF_MEMORY);
    run->model.has_faults = 1;
    return 1;
}

static int run_trim(fuzz_run *run, const fuzz_op *op)
{
    size_t released = 0;
    tnr_status status = tnr_trim(&released, (size_t)op->n, op->device);
    if (!run_succeeded(run, status, "tnr_trim"))
        return 0;
    run_hash(run, released);
    return 1;
}

static int run_limit(fuzz_run *run, const fuzz_op *op)
{
    size_t limit = (size_t)op->n;
    if (run->device->is_gated && limit > run->setup->memory_bytes)
        limit = (size_t)run->setup->memory_bytes; /* all that the program was drawn for */
    if (!run_succeeded(run, tnr_limit_set(limit, op->device), "tnr_limit_set") ||
        !run_succeeded(run, tnr_limit_get(&limit, op->device), "tnr_limit_get"))
        return 0;
    run->model.limit_bytes[op->device] = limit;
    run->limit_seen[op->device] = 0; /* what is mapped now may be above it: compare anew */
    return 1;
}

int run_control(fuzz_run *run, const fuzz_op *op)
{
    tnr_status status;
    switch ((fuzz_kind)op->kind) {
    case FUZZ_POOL_CREATE:
    case FUZZ_POOL_GRAPHS:
    case FUZZ_POOL_SEGMENTS:
    case FUZZ_POOL_SEGMENT_GRAPHS:
        return run_pool_create(run, op);
    case FUZZ_POOL_TRIM:
        return run_pool_trim(run, op);
    case FUZZ_OWNER:
        fuzz_owner_plan(op->n, op->m);
        run->is_harmless |= op->is_illegal; /* until somebody asks */
        if (op->is_illegal)
            fuzz_owner_lie();
        return 1;
    case FUZZ_POOL_DESTROY:
        return run_pool_destroy(run, op);
    case FUZZ_TRIM:
        return run_trim(run, op);
    case FUZZ_LIMIT:
        return run_limit(run, op);
    case FUZZ_CONFIGURE:
        return run_configure(run, op);
    case FUZZ_STATS:
        return run_stats(run, op);
    case FUZZ_SNAPSHOT:
        status =
            tnr_snapshot_write("/dev/null", op->n == 0 ? TNR_SNAPSHOT_JSON : TNR_SNAPSHOT_PICKLE);
        return run_succeeded(run, status, "tnr_snapshot_write");
    case FUZZ_HISTORY:
        status = tnr_history_set(4096, op->n == 0 ? TNR_HISTORY_OFF : TNR_HISTORY_LIGHT);
        return run_succeeded(run, status, "tnr_history_set");
    case FUZZ_SLEEP:
    case FUZZ_WAKE:
        return run_sleep(run, op);
    case FUZZ_COMPACT:
        return run_compact(run, op);
    case FUZZ_CONTENT:
        status = tnr_block_content_set((const void *)run->model.blocks[op->block].base,
                                       (tnr_content)(op->n % 3));
        if (!run_succeeded(run, status, "tnr_block_content_set"))
            return 0;
        run->model.blocks[op->block].content = (uint8_t)(op->n % 3);
        return 1;
    case FUZZ_ACCESS:
    case FUZZ_ACCESS_ALL:
        return run_access_change(run, op);
    case FUZZ_FAULT:
        return run_fault(run, op);
    default: /* FAULTS_OFF */
        run->result->faults_hit += run->device->fail_hits();
        run->device->fail_clear();
        run->hits = run->device->fail_hits();
        run->model.has_faults = 0;
        return 1;
    }
}
