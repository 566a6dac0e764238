/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing what an executable graph does, but not its shape: single nodes, or all nodes from a
 * graph of the same shape.
 *
 * Launches that are queued go on doing what they did: they have copies.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

/* ---- what may change ------------------------------------------------------------------------ */

static struct sim_operand operand_of(uintptr_t at)
{
    const struct sim_region *region = sim_region_find(at);
    if (region == NULL)
        return (struct sim_operand){0};
    struct sim_operand operand = {.kind = (int)region->kind + 1};
    if (region->kind == SIM_RESERVED) { /* mapped memory has no context */
        const struct sim_mapping *mapping = sim_mapping_find(region, at);
        operand.device = mapping != NULL ? mapping->memory->device->ordinal : 0;
    } else {
        operand.device = region->device->ordinal;
        operand.context_id = region->context->id;
    }
    return operand;
}

void sim_operands_find(const struct sim_op *op, struct sim_operand operand[2])
{
    operand[0] = operand[1] = (struct sim_operand){0};
    if (op->kind == SIM_OP_SET) {
        operand[0] = operand_of(op->access[0].address);
    } else if (op->kind == SIM_OP_COPY) {
        operand[0] = operand_of(op->copy.to);
        operand[1] = operand_of(op->copy.from);
    }
}

static int operands_match(const struct sim_operand *have, const struct sim_operand *want)
{
    int same = 1;
    for (int i = 0; i < 2; i++)
        same = same && have[i].kind == want[i].kind && have[i].device == want[i].device &&
               have[i].context_id == want[i].context_id;
    return same;
}

/* Whether a node of an executable graph may do the other work: the driver's documented limits, and
 * where it promises nothing ("may fail"), nothing. Memory must be of the kind, the device and the
 * context that it was; a copy may change in length, a set in its address and value alone. */
static int work_may_replace(const struct sim_node *node, const struct sim_op *op,
                            const struct sim_operand *operand, const struct sim_context *context)
{
    const struct sim_op *old = &node->op;
    if (old->kind != op->kind || node->context != context ||
        !operands_match(node->operand, operand))
        return 0;
    if (op->kind == SIM_OP_SET)
        return old->set.width == op->set.width && old->set.rows == op->set.rows &&
               old->access[0].bytes == op->access[0].bytes;
    return op->kind != SIM_OP_COPY ||
           (old->copy.to_type == op->copy.to_type && old->copy.from_type == op->copy.from_type);
}

/* ---- single nodes --------------------------------------------------------------------------- */

/* The node of an executable graph that stands for a node of the graph it was made from, or null. */
static struct sim_node *node_find(const struct sim_graph *graph, const struct sim_node *original)
{
    for (struct sim_node *node = graph->first; node != NULL; node = node->next) {
        if (node->origin == original->id)
            return node;
        struct sim_node *inner = node->child == NULL ? NULL : node_find(node->child, original);
        if (inner != NULL)
            return inner;
    }
    return NULL;
}

static struct sim_node *exec_node(CUgraphExec exec_handle, CUgraphNode handle)
{
    const struct sim_exec *exec = sim_exec_get(exec_handle);
    const struct sim_node *original = sim_node_get(handle, "node");
    return exec == NULL || original == NULL ? NULL : node_find(exec->graph, original);
}

/* Paths have a context, so a node cannot move to another either. */
static CUresult exec_change(CUgraphExec exec, CUgraphNode handle, CUresult made,
                            struct sim_work *work)
{
    if (made != CUDA_SUCCESS)
        return made;
    struct sim_node *node = exec_node(exec, handle);
    struct sim_operand operand[2];
    sim_operands_find(&work->op, operand);
    if (node != NULL && !work_may_replace(node, &work->op, operand, work->context))
        node = NULL;
    return sim_work_change(node, work);
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    SIM_ENTER(cuGraphExecKernelNodeSetParams, SIM_NEEDS_INIT);
    struct sim_work work;
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUresult made = sim_params_upgrade(nodeParams, &params);
    made = made == CUDA_SUCCESS ? sim_work_kernel(&params, &work) : made;
    return sim_leave(exec_change(hGraphExec, hNode, made, &work));
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    SIM_ENTER(cuGraphExecKernelNodeSetParams_v2, SIM_NEEDS_INIT);
    struct sim_work work;
    return sim_leave(exec_change(hGraphExec, hNode, sim_work_kernel(nodeParams, &work), &work));
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    SIM_ENTER(cuGraphExecMemcpyNodeSetParams, SIM_NEEDS_INIT);
    struct sim_work work;
    CUresult made = sim_work_memcpy(copyParams, ctx, &work);
    return sim_leave(exec_change(hGraphExec, hNode, made, &work));
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                                                CUcontext ctx)
{
    SIM_ENTER(cuGraphExecMemsetNodeSetParams, SIM_NEEDS_INIT);
    struct sim_work work;
    if (memsetParams == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const CUDA_MEMSET_NODE_PARAMS *ask = memsetParams;
    const CUDA_MEMSET_NODE_PARAMS_v2 params = {
        ask->dst, ask->pitch, ask->value, ask->elementSize, ask->width, ask->height, ctx};
    return sim_leave(exec_change(hGraphExec, hNode, sim_work_memset(&params, &work), &work));
}

CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphExecHostNodeSetParams, SIM_NEEDS_INIT);
    struct sim_work work;
    return sim_leave(exec_change(hGraphExec, hNode, sim_work_host(nodeParams, &work), &work));
}

CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    CUevent event)
{
    SIM_ENTER(cuGraphExecEventRecordNodeSetEvent, SIM_NEEDS_INIT);
    struct sim_work work;
    CUresult made = sim_work_event(event, SIM_OP_RECORD, &work);
    return sim_leave(exec_change(hGraphExec, hNode, made, &work));
}

CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  CUevent event)
{
    SIM_ENTER(cuGraphExecEventWaitNodeSetEvent, SIM_NEEDS_INIT);
    struct sim_work work;
    CUresult made = sim_work_event(event, SIM_OP_WAIT_EVENT, &work);
    return sim_leave(exec_change(hGraphExec, hNode, made, &work));
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                          CUgraphNodeParams *nodeParams)
{
    SIM_ENTER(cuGraphExecNodeSetParams, SIM_NEEDS_INIT);
    struct sim_work work;
    if (nodeParams == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(exec_change(hGraphExec, hNode, sim_work_any(nodeParams, &work), &work));
}

/* ---- enabling ------------------------------------------------------------------------------- */

static struct sim_node *switchable(CUgraphExec exec, CUgraphNode handle)
{
    struct sim_node *node = exec_node(exec, handle);
    int kind = node != NULL && (node->op.kind == SIM_OP_KERNEL || node->op.kind == SIM_OP_SET ||
                                node->op.kind == SIM_OP_COPY);
    return kind ? node : NULL;
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                       unsigned int isEnabled)
{
    SIM_ENTER(cuGraphNodeSetEnabled, SIM_NEEDS_INIT);
    struct sim_node *node = switchable(hGraphExec, hNode);
    if (node == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    node->is_disabled = isEnabled == 0;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                       unsigned int *isEnabled)
{
    SIM_ENTER(cuGraphNodeGetEnabled, SIM_NEEDS_INIT);
    const struct sim_node *node = switchable(hGraphExec, hNode);
    if (node == NULL || isEnabled == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *isEnabled = node->is_disabled ? 0 : 1;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- whole graphs --------------------------------------------------------------------------- */

static void mismatch(CUgraphExecUpdateResultInfo *info, CUgraphExecUpdateResult why,
                     const struct sim_node *node)
{
    info->result = why;
    info->errorNode = node == NULL ? NULL : sim_node_handle(node);
}

static int edges_match(const struct sim_node *have, const struct sim_node *want)
{
    int same = have->before.count == want->before.count;
    for (size_t i = 0; same && i < have->before.count; i++)
        same = have->before.node[i]->number == want->before.node[i]->number &&
               memcmp(&have->before.data[i], &want->before.data[i], sizeof(CUgraphEdgeData)) == 0;
    return same;
}

/* Whether the graph's nodes, in the order in which they were added, are those of the other. */
static int graphs_match(const struct sim_graph *have, const struct sim_graph *want,
                        CUgraphExecUpdateResultInfo *info)
{
    if (have->node_count != want->node_count) {
        mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL);
        return 0;
    }
    sim_graph_number(have);
    sim_graph_number(want);
    const struct sim_node *old = have->first;
    for (const struct sim_node *node = want->first; node != NULL; node = node->next) {
        if (!edges_match(old, node)) {
            mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node);
            return 0;
        }
        if (sim_node_type(old) != sim_node_type(node)) {
            mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node);
            return 0;
        }
        if (!work_may_replace(old, &node->op, node->operand, node->context)) {
            mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node);
            return 0;
        }
        if (node->child != NULL && !graphs_match(old->child, node->child, info))
            return 0;
        old = old->next;
    }
    return 1;
}

/* Exchanges what two graphs of one shape do, and the user objects that they hold. */
static void graphs_swap(struct sim_graph *a, struct sim_graph *b)
{
    struct sim_node *other = b->first;
    for (struct sim_node *node = a->first; node != NULL; node = node->next) {
        struct sim_op op = node->op;
        node->op = other->op;
        other->op = op;
        if (node->child != NULL)
            graphs_swap(node->child, other->child);
        other = other->next;
    }
    struct sim_graph held = *a;
    a->hold = b->hold;
    a->hold_count = b->hold_count;
    a->hold_room = b->hold_room;
    b->hold = held.hold;
    b->hold_count = held.hold_count;
    b->hold_room = held.hold_room;
}

/* One graph inside an executable graph does what another does from now on. */
static CUresult graph_adopt(struct sim_exec *exec, struct sim_graph *have,
                            const struct sim_graph *want)
{
    struct sim_graph **larger =
        sim_grow(exec->stale, &exec->stale_room, exec->stale_count + 1, sizeof(*larger));
    struct sim_graph *copy = larger == NULL ? NULL : sim_graph_copy(want, 0);
    exec->stale = larger == NULL ? exec->stale : larger;
    if (copy == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graphs_swap(have, copy);
    if (exec->references > 1) /* user objects are kept for the launches that have not ended */
        exec->stale[exec->stale_count++] = copy;
    else
        sim_exec_release(exec, copy);
    sim_schedule_dropped();
    return CUDA_SUCCESS;
}

static CUresult exec_update(CUgraphExec exec_handle, CUgraph handle,
                            CUgraphExecUpdateResultInfo *info)
{
    struct sim_exec *exec = sim_exec_get(exec_handle);
    const struct sim_graph *graph = sim_graph_get(handle, "graph");
    memset(info, 0, sizeof(*info));
    if (exec == NULL || graph == NULL) {
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* Legal while a capture is under way, unlike instantiating: so an H200 says. */
    if (!graphs_match(exec->graph, graph, info))
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    CUresult result = graph_adopt(exec, exec->graph, graph);
    info->result =
        result == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR;
    return result;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                   CUgraphNode *hErrorNode_out,
                                   CUgraphExecUpdateResult *updateResult_out)
{
    SIM_ENTER(cuGraphExecUpdate, SIM_NEEDS_INIT);
    CUgraphExecUpdateResultInfo info;
    if (updateResult_out == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUresult result = exec_update(hGraphExec, hGraph, &info);
    *updateResult_out = info.result;
    if (hErrorNode_out != NULL)
        *hErrorNode_out = info.errorNode;
    return sim_leave(result);
}

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                      CUgraphExecUpdateResultInfo *resultInfo)
{
    SIM_ENTER(cuGraphExecUpdate_v2, SIM_NEEDS_INIT);
    if (resultInfo == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(exec_update(hGraphExec, hGraph, resultInfo));
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    CUgraph childGraph)
{
    SIM_ENTER(cuGraphExecChildGraphNodeSetParams, SIM_NEEDS_INIT);
    const struct sim_node *node = exec_node(hGraphExec, hNode);
    const struct sim_graph *child = sim_graph_get(childGraph, "graph");
    CUgraphExecUpdateResultInfo info;
    memset(&info, 0, sizeof(info));
    if (node == NULL || child == NULL || node->child == NULL ||
        !graphs_match(node->child, child, &info))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(graph_adopt(sim_exec_get(hGraphExec), node->child, child));
}
