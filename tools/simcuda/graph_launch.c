/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: their life, and launches.
 *
 * A launch queues all its operations at the call. The first path's operations go into the stream
 * launched in. Each other path's go into a stream of the executable graph's own: that stream begins
 * by waiting for the launch stream, and the launch stream waits for it at the end. The schedule
 * chooses when they run. Parameters and events are taken at the launch, and kernels are asked then
 * what they will touch.
 *
 * The operation that ends a launch holds the executable graph. So destroying the graph while
 * launches have not ended only takes its handle away. If a launch goes into another stream than the
 * launch before, it waits for the end of that launch: launches of one executable graph never
 * overlap.
 */
#include "capture.h"
#include "race.h"

#include <stdlib.h>
#include <string.h>

#define INSTANTIATE_FLAGS                                                                          \
    (uint64_t)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |                                   \
               CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

enum { MANY = 4 }; /* successors that make it worth while to prepare a clock for them */

/* ---- life ----------------------------------------------------------------------------------- */

struct sim_exec *sim_exec_get(CUgraphExec handle)
{
    return sim_slot_get(handle, SIM_GRAPH_EXEC, "executable graph");
}

/* Lets a graph go that launches may have used; they have ended. */
void sim_exec_release(const struct sim_exec *exec, struct sim_graph *graph)
{
    sim_holds_ended(graph, exec->last);
    sim_graph_free(graph);
}

static void exec_free(struct sim_exec *exec)
{
    for (size_t i = 0; exec->lane != NULL && i < exec->plan.path_count; i++)
        if (exec->lane[i] != NULL)
            sim_stream_drop(exec->lane[i]);
    while (exec->stale_count != 0)
        sim_exec_release(exec, exec->stale[--exec->stale_count]);
    if (exec->graph != NULL)
        sim_exec_release(exec, exec->graph);
    if (exec->uploaded != NULL)
        sim_overhead_give(exec->uploaded, SIM_OVERHEAD_GRAPH);
    sim_point_drop(exec->last);
    sim_plan_free(&exec->plan);
    free(exec->stale);
    free(exec->lane);
    free(exec->op);
    free(exec->point);
    free(exec);
}

/* A launch has ended, or the handle is gone. */
void sim_exec_drop(struct sim_exec *exec)
{
    exec->references--;
    int idle = exec->references == (exec->slot != NULL ? 1 : 0);
    while (idle && exec->stale_count != 0)
        sim_exec_release(exec, exec->stale[--exec->stale_count]);
    if (exec->references == 0)
        exec_free(exec);
}

static int exec_room(struct sim_exec *exec)
{
    size_t steps = exec->plan.step_count + 1;
    exec->lane = calloc(exec->plan.path_count + 1, sizeof(struct sim_stream *));
    exec->op = calloc(steps, sizeof(*exec->op));
    exec->point = calloc(steps, sizeof(*exec->point));
    return exec->lane != NULL && exec->op != NULL && exec->point != NULL;
}

static CUresult exec_new(const struct sim_graph *graph, uint64_t flags, struct sim_exec **out)
{
    struct sim_exec *exec = calloc(1, sizeof(*exec));
    if (exec == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->references = 1;
    exec->flags = flags;
    exec->graph = sim_graph_copy(graph, 0);
    CUresult result =
        exec->graph == NULL ? CUDA_ERROR_OUT_OF_MEMORY : sim_plan_make(exec->graph, &exec->plan);
    if (result == CUDA_SUCCESS && !exec_room(exec))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        exec->slot = sim_slot_new(SIM_GRAPH_EXEC, exec);
        result = exec->slot == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    }
    if (result != CUDA_SUCCESS) {
        exec_free(exec);
        return result;
    }
    *out = exec;
    return CUDA_SUCCESS;
}

/* ---- getting ready -------------------------------------------------------------------------- */

/* What a node refers to by handle must still be there. */
static CUresult node_check(const struct sim_node *node)
{
    if (node->context != NULL && node->context->slot == NULL)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    switch (node->op.kind) {
    case SIM_OP_KERNEL:
        return sim_slot_get(node->op.launch->call.function, SIM_FUNCTION, "function") != NULL
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_HANDLE;
    case SIM_OP_RECORD:
    case SIM_OP_WAIT_EVENT:
        if (node->op.record.event->slot == NULL) {
            sim_violation("launch of a graph with a node of a destroyed event");
            return CUDA_ERROR_INVALID_HANDLE;
        }
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

/* A copy of what the step does, which knows its accesses. */
static CUresult step_prepare(const struct sim_step *step, uint64_t stream_id, uint32_t tag,
                             struct sim_op *op)
{
    *op = (struct sim_op){.kind = SIM_OP_EMPTY};
    if (step->node != NULL && !step->node->is_disabled) {
        CUresult result = node_check(step->node);
        if (result != CUDA_SUCCESS)
            return result;
        if (!sim_op_copy(&step->node->op, op)) {
            *op = (struct sim_op){.kind = SIM_OP_EMPTY};
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (op->kind == SIM_OP_KERNEL && !sim_kernel_ask(op->launch))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->node = step->number;
    op->launched_in = stream_id;
    op->tag = tag;
    return CUDA_SUCCESS;
}

static CUresult steps_prepare(struct sim_exec *exec, const struct sim_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    size_t made = 0;
    uint32_t tag = sim.races_on ? sim_observe_call(stream, NULL) : 0;
    while (made < exec->plan.step_count && result == CUDA_SUCCESS) {
        result = step_prepare(&exec->plan.step[made], stream->id, tag, &exec->op[made]);
        made++;
    }
    while (result != CUDA_SUCCESS && made-- > 0)
        sim_op_dispose(&exec->op[made]);
    return result;
}

static void steps_dispose(struct sim_exec *exec)
{
    for (size_t i = 0; i < exec->plan.step_count; i++)
        sim_op_dispose(&exec->op[i]);
}

/* The stream that a path runs in: null when memory is short. */
static struct sim_stream *lane_of(struct sim_exec *exec, size_t path, struct sim_stream *stream)
{
    struct sim_context *context = exec->plan.path[path].context;
    if (path == 0 && (context == NULL || context == stream->context))
        return stream;
    if (exec->lane[path] == NULL)
        exec->lane[path] = sim_stream_new(context != NULL ? context : stream->context, SIM_CREATED,
                                          CU_STREAM_NON_BLOCKING, stream->priority);
    return exec->lane[path];
}

/* Streams, with room for all that a launch queues; what it queues then cannot fail. */
static int lanes_prepare(struct sim_exec *exec, struct sim_stream *stream)
{
    /* A wait for the launch before, the beginning, waits for the paths' ends, and the end. */
    size_t others = 3 + exec->plan.end_count;
    for (size_t i = 0; i < exec->plan.path_count; i++) {
        struct sim_stream *lane = lane_of(exec, i, stream);
        if (lane == NULL || (lane != stream && !sim_queue_reserve(lane, exec->plan.path[i].room)))
            return 0;
        others += lane == stream ? exec->plan.path[i].room : 0;
    }
    return sim_queue_reserve(stream, others) && sim_busy_reserve(exec->plan.path_count + 1);
}

/* ---- queueing ------------------------------------------------------------------------------- */

static struct sim_point mark_queue(struct sim_stream *stream, int forks, struct sim_exec *ended)
{
    const struct sim_op op = {
        .kind = SIM_OP_EMPTY, .forks = (uint8_t)forks, .record = {NULL, NULL, ended}};
    const struct sim_op *queued = sim_queue(stream, &op);
    return (struct sim_point){stream, queued->ticket, queued->record.release};
}

static void wait_queue(struct sim_stream *stream, struct sim_point point)
{
    const struct sim_op op = {.kind = SIM_OP_WAIT, .wait = point};
    sim_point_hold(point);
    (void)sim_queue(stream, &op);
}

/* An event wait is for what the event stands for at the launch. */
static void event_resolve(struct sim_op *op)
{
    struct sim_event *event = op->record.event;
    if (event->point.stream == NULL) {
        op->kind = SIM_OP_EMPTY;
        op->record.event = NULL;
    } else {
        op->kind = SIM_OP_WAIT;
        op->wait = event->point;
        sim_point_hold(op->wait);
    }
    sim_event_drop(event);
}

static void step_queue(struct sim_exec *exec, size_t at, struct sim_stream *stream,
                       struct sim_point begin)
{
    const struct sim_plan *plan = &exec->plan;
    const struct sim_step *step = &plan->step[at];
    struct sim_stream *lane = lane_of(exec, step->path, stream);
    struct sim_op *op = &exec->op[at];
    if (step->position == 1 && step->before == 0 && lane != stream)
        wait_queue(lane, begin);
    /* The first wait is the first to be followed when nothing runs before it has to. */
    size_t drawn = step->waits > 1 ? (size_t)sim_schedule_draw(step->waits) : 0;
    for (size_t i = 0; i < step->waits; i++) {
        size_t nth = (drawn + i) % step->waits;
        wait_queue(lane, exec->point[plan->wait[step->first_wait + nth]]);
    }
    if (op->kind == SIM_OP_WAIT_EVENT)
        event_resolve(op);
    const struct sim_op *queued = sim_queue(lane, op);
    if (step->is_marked)
        exec->point[at] = op->kind == SIM_OP_EMPTY
                              ? (struct sim_point){lane, queued->ticket, queued->record.release}
                              : mark_queue(lane, step->after > MANY, NULL);
}

/* The stream waits for what nothing in the graph comes after. */
static void ends_await(const struct sim_exec *exec, struct sim_stream *stream)
{
    size_t steps = exec->plan.step_count;
    size_t drawn = exec->plan.end_count > 1 ? (size_t)sim_schedule_draw(steps) : 0;
    for (size_t i = 0; i < steps; i++) {
        size_t at = (drawn + i) % steps;
        if (exec->plan.step[at].after == 0 && exec->point[at].stream != stream)
            wait_queue(stream, exec->point[at]);
    }
}

static CUresult exec_launch(struct sim_exec *exec, struct sim_stream *stream)
{
    struct sim_point begin = {NULL, 0, NULL};
    CUresult result = steps_prepare(exec, stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!lanes_prepare(exec, stream)) {
        steps_dispose(exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (exec->last.stream != NULL && exec->last.stream != stream)
        wait_queue(stream, exec->last);
    if (exec->plan.path_count != 0 &&
        (exec->plan.path_count > 1 || lane_of(exec, 0, stream) != stream))
        begin = mark_queue(stream, 1, NULL);
    for (size_t i = 0; i < exec->plan.step_count; i++)
        step_queue(exec, exec->plan.order[i], stream, begin);
    ends_await(exec, stream);
    exec->references++;
    struct sim_point end = mark_queue(stream, 0, exec);
    sim_point_hold(end);
    sim_point_drop(exec->last);
    exec->last = end;
    sim_schedule_submitted();
    return CUDA_SUCCESS;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static CUresult instantiate(CUgraphExec *out, CUgraph handle, uint64_t flags)
{
    const struct sim_graph *graph = sim_graph_get(handle, "graph");
    struct sim_exec *exec = NULL;
    if (out == NULL || graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if ((flags & ~INSTANTIATE_FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_unsafe();
    if (result == CUDA_SUCCESS)
        result = exec_new(graph, flags, &exec);
    if (result == CUDA_SUCCESS)
        *out = (CUgraphExec)exec->slot;
    return result;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                             unsigned long long flags)
{
    SIM_ENTER(cuGraphInstantiateWithFlags, SIM_NEEDS_CONTEXT);
    return sim_leave(instantiate(phGraphExec, hGraph, flags));
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    SIM_ENTER(cuGraphInstantiateWithParams, SIM_NEEDS_CONTEXT);
    if (instantiateParams == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    /* Uploading is nothing here: the stream only has to be one. */
    const uint64_t upload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    CUresult result = CUDA_SUCCESS;
    if ((instantiateParams->flags & upload) != 0)
        (void)sim_stream_sound(instantiateParams->hUploadStream, &result);
    if (result == CUDA_SUCCESS)
        result = instantiate(phGraphExec, hGraph, instantiateParams->flags & ~upload);
    instantiateParams->hErrNode_out = NULL;
    instantiateParams->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return sim_leave(result);
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    SIM_ENTER(cuGraphExecGetFlags, SIM_NEEDS_INIT);
    const struct sim_exec *exec = sim_exec_get(hGraphExec);
    if (exec == NULL || flags == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = exec->flags;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    SIM_ENTER(cuGraphExecDestroy, SIM_NEEDS_INIT);
    struct sim_exec *exec = sim_exec_get(hGraphExec);
    if (exec == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    sim_slot_free(exec->slot);
    exec->slot = NULL;
    sim_exec_drop(exec);
    sim_schedule_dropped();
    return sim_leave(CUDA_SUCCESS);
}

/* Before the first launch. */
static CUresult exec_upload(struct sim_exec *exec, const struct sim_stream *stream)
{
    struct sim_device *device = stream->context->device;
    if (exec->uploaded != NULL)
        return CUDA_SUCCESS;
    if (!sim_overhead_take(device, SIM_OVERHEAD_GRAPH))
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->uploaded = device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    SIM_ENTER(cuGraphUpload, SIM_NEEDS_INIT);
    CUresult result = CUDA_SUCCESS;
    struct sim_exec *exec = sim_exec_get(hGraphExec);
    if (exec == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const struct sim_stream *stream = sim_stream_sound(hStream, &result);
    return sim_leave(stream != NULL ? exec_upload(exec, stream) : result);
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    SIM_ENTER(cuGraphLaunch, SIM_NEEDS_INIT);
    CUresult result = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_sound(hStream, &result);
    if (stream != NULL)
        result = sim_capture_check_outside(stream); /* launches cannot be captured */
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    struct sim_exec *exec = sim_exec_get(hGraphExec);
    if (exec == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    result = exec_upload(exec, stream);
    return sim_leave(result == CUDA_SUCCESS ? exec_launch(exec, stream) : result);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void exec_forget(void *object)
{
    struct sim_exec *exec = object;
    sim_slot_free(exec->slot);
    exec->slot = NULL;
    sim_exec_drop(exec);
}

static void graph_forget(void *object)
{
    struct sim_graph *graph = object;
    if (graph->parent == NULL)
        sim_graph_free(graph);
}

/* Frees everything of graphs; nothing is queued by then. */
void sim_graph_reset(void)
{
    sim_slot_each(SIM_GRAPH_EXEC, NULL, exec_forget);
    sim_slot_each(SIM_GRAPH, NULL, graph_forget);
    sim_user_object_reset();
}
