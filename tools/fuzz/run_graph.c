/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on captures and graphs.
 */
#include "run.h"

#include <pthread.h>

#include "model_graph.h"

static CUstream origin_of(const fuzz_run *run, int graph)
{
    return run->streams[run->model.graphs[graph].origin];
}

static int run_begin(fuzz_run *run, const fuzz_op *op)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    options.pool = op->pool > 0 ? run->pools[op->pool] : NULL;
    options.mode = (tnr_capture_mode)op->n;
    tnr_status status =
        tnr_capture_begin(run_device_of(run, op->stream), run->streams[op->stream], &options);
    if (!run_succeeded(run, status, "tnr_capture_begin"))
        return 0;
    graph_did_begin(&run->model, op);
    memset(run->graph_tags[op->graph], 0, sizeof(run->graph_tags[0]));
    return 1;
}

/* Sets or adds dependencies of a stream by hand. Tenure is not told, as no program could tell it.
 * */
static int run_redirect(fuzz_run *run, const fuzz_op *op)
{
    enum { FRONTIER = 256 };
    CUgraphNode after[FRONTIER];
    const CUgraphNode *nodes = NULL;
    CUstreamCaptureStatus status;
    CUgraph graph;
    cuuint64_t id;
    size_t count = 0;
    CUresult result = CUDA_SUCCESS;
    unsigned how = op->n == REDIRECT_ADD ? CU_STREAM_ADD_CAPTURE_DEPENDENCIES
                                         : CU_STREAM_SET_CAPTURE_DEPENDENCIES;
    if (op->n != REDIRECT_NONE)
        result = run->device->capture_info(run->streams[op->other], &status, &id, &graph, &nodes,
                                           &count);
    if (result == CUDA_SUCCESS && count > FRONTIER)
        return 0;
    if (count > 0) /* the driver's list lives until the next call about the capture */
        memcpy(after, nodes, count * sizeof(after[0]));
    if (result == CUDA_SUCCESS)
        result = run->device->capture_update(run->streams[op->stream], after, NULL, count, how);
    run_hash(run, (uint64_t)result);
    if (result == CUDA_SUCCESS) {
        graph_did_redirect(&run->model, op);
        return 1;
    }
    if (!run_was_sabotaged(run))
        run_fail(run, FUZZ_VERDICT_SAFETY, "driver",
                 "cuStreamUpdateCaptureDependencies gave error %d", (int)result);
    return 0;
}

typedef struct wrong_end {
    fuzz_device *device;
    CUstream stream;
    CUresult result;
} wrong_end;

static void *end_wrongly(void *data)
{
    wrong_end *self = data;
    CUgraph made = NULL;
    self->result = self->device->capture_end(self->stream, &made);
    return NULL;
}

/* The driver takes the capture for broken, or for ended, before Tenure hears of it. Then Tenure
 * ends it, and no graph may come of it. */
static int run_break(fuzz_run *run, const fuzz_op *op)
{
    int device = run->model.graphs[op->graph].device;
    CUstream origin = origin_of(run, op->graph);
    wrong_end other = {run->device, origin, CUDA_SUCCESS};
    pthread_t thread;
    tnr_cuda_graph made = NULL;
    CUresult result = CUDA_ERROR_UNKNOWN;
    if (op->n == BREAK_INVALID)
        result = run->device->stream_synchronize(origin);
    if (op->n == BREAK_THREAD && pthread_create(&thread, NULL, end_wrongly, &other) == 0) {
        (void)pthread_join(thread, NULL);
        result = other.result;
    }
    run_hash(run, (uint64_t)result);
    if (result == CUDA_SUCCESS)
        run_fail(run, FUZZ_VERDICT_SAFETY, "driver", "the driver lets a capture be broken");
    tnr_status status = tnr_capture_end(&made, &run->graphs[op->graph], device, origin);
    run_hash(run, (uint64_t)status);
    /* What the driver has ended is not under way any more: Tenure may have noticed that. A stream
     * that only waited has captured nothing, and the model does not know which ones those are. */
    int is_right = status == TNR_ERR_CAPTURE_INVALIDATED ||
                   (op->n == BREAK_THREAD && status == TNR_ERR_CAPTURE) ||
                   (op->n == BREAK_UNJOINED && status == TNR_OK);
    if (made != NULL && run->device->graph_destroy(made) != CUDA_SUCCESS)
        run_fail(run, FUZZ_VERDICT_SAFETY, "driver", "cuGraphDestroy failed");
    if (!is_right && !run_was_sabotaged(run))
        run_fail(run, FUZZ_VERDICT_SAFETY, "status",
                 "tnr_capture_end of a capture that is broken gave %s (%s)",
                 tnr_status_name(status), tnr_last_error());
    run->cuda_graphs[op->graph] = NULL;
    run->execs[op->graph] = NULL;
    graph_did_end(&run->model, op, 0);
    return 1;
}

/* However it ends, the capture is over. */
static int run_finish(fuzz_run *run, const fuzz_op *op)
{
    int device = run->model.graphs[op->graph].device;
    tnr_cuda_graph made = NULL;
    tnr_status status =
        op->kind == FUZZ_CAPTURE_END
            ? tnr_capture_end(&made, &run->graphs[op->graph], device, origin_of(run, op->graph))
            : tnr_capture_abort(device, origin_of(run, op->graph));
    int is_made = run_succeeded(run, status, fuzz_kind_verb((fuzz_kind)op->kind)) && made != NULL;
    run->cuda_graphs[op->graph] = made;
    run->execs[op->graph] = NULL;
    if (is_made) {
        fuzz_device_use(run->device, device);
        CUresult result = run->device->graph_instantiate(&run->execs[op->graph], made, 0);
        fuzz_device_use(run->device, 0);
        if (result != CUDA_SUCCESS)
            run_fail(run, FUZZ_VERDICT_SAFETY, "driver", "cuGraphInstantiate gave error %d",
                     (int)result);
    }
    graph_did_end(&run->model, op, is_made);
    return 1;
}

/* 1 if the graph refers to a block that is parked. */
static int refers_to_parked(const model *m, const model_graph *graph)
{
    for (int i = 0; i < m->live_count; i++) {
        int slot = m->live[i];
        if (m->blocks[slot].is_parked && (graph->reads[slot] || graph->writes[slot]))
            return 1;
    }
    return 0;
}

/* Refused exactly if a live block of another capture lies in the graph's memory, or one that it
 * refers to is parked. */
static int run_launch(fuzz_run *run, const fuzz_op *op)
{
    int threatened = graph_is_threatened(&run->model, op->graph);
    int is_parked = refers_to_parked(&run->model, &run->model.graphs[op->graph]);
    run->device->owner_pause(1);
    tnr_status status =
        tnr_graph_launch(run->graphs[op->graph], run->execs[op->graph], run->streams[op->stream]);
    run->device->owner_pause(0);
    if (status == TNR_ERR_OVERWRITE && threatened != 0) {
        run->result->launches_refused++;
        return 0;
    }
    if (status == TNR_ERR_PARKED && is_parked) {
        run->result->launches_refused++;
        return 0;
    }
    if (!run_succeeded(run, status, "tnr_graph_launch"))
        return 0;
    if (is_parked)
        run_fail(run, FUZZ_VERDICT_SAFETY, "parked",
                 "g%d was launched though a block that it refers to is parked", op->graph);
    if (threatened == 1)
        run_fail(run, FUZZ_VERDICT_SAFETY, "overwrite",
                 "g%d was launched though a live block lies in its memory", op->graph);
    graph_did_launch(&run->model, op);
    for (int i = 0; i < run->model.live_count; i++) {
        int slot = run->model.live[i];
        model_block *block = &run->model.blocks[slot];
        if (!run->model.graphs[op->graph].writes[slot] || run->graph_tags[op->graph][slot] == 0)
            continue;
        block->tag = run->graph_tags[op->graph][slot];
        block->is_tagged = 1;
    }
    return 1;
}

static int run_audit(fuzz_run *run, const fuzz_op *op)
{
    tnr_audit audit = {.struct_bytes = sizeof(audit)};
    tnr_status status =
        tnr_graph_audit(&audit, run->cuda_graphs[op->graph], run->graphs[op->graph], NULL, NULL);
    if (!run_succeeded(run, status, "tnr_graph_audit"))
        return 0;
    if (audit.proved + audit.unproved != audit.found || audit.unproved != 0)
        run_fail(run, FUZZ_VERDICT_SAFETY, "audit",
                 "of %llu addresses in g%d %llu are safe and %llu are not",
                 (unsigned long long)audit.found, op->graph, (unsigned long long)audit.proved,
                 (unsigned long long)audit.unproved);
    return 1;
}

int run_graph(fuzz_run *run, const fuzz_op *op)
{
    switch ((fuzz_kind)op->kind) {
    case FUZZ_CAPTURE_BEGIN:
        return run_begin(run, op);
    case FUZZ_REDIRECT:
        return run_redirect(run, op);
    case FUZZ_CAPTURE_END:
    case FUZZ_CAPTURE_ABORT:
        return run_finish(run, op);
    case FUZZ_CAPTURE_BREAK:
        return run_break(run, op);
    case FUZZ_LAUNCH:
        return run_launch(run, op);
    case FUZZ_AUDIT:
        return run_audit(run, op);
    default:
        if (run->execs[op->graph] != NULL)
            (void)run->device->graph_exec_destroy(run->execs[op->graph]);
        if (run->device->graph_destroy(run->cuda_graphs[op->graph]) != CUDA_SUCCESS)
            run_fail(run, FUZZ_VERDICT_SAFETY, "driver", "cuGraphDestroy failed");
        run->execs[op->graph] = NULL;
        graph_did_destroy(&run->model, op);
        return 1;
    }
}
