/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes are asked to do: from the driver's parameter structures to operations, and back.
 *
 * A node keeps only an operation. All answers about a node are made from its operation, so captured
 * nodes and nodes added by hand answer alike.
 */
#include "graph.h"

#include <string.h>

/* ---- kernels -------------------------------------------------------------------------------- */

CUresult sim_params_upgrade(const CUDA_KERNEL_NODE_PARAMS_v1 *old,
                            CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    if (old == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memset(params, 0, sizeof(*params));
    memcpy(params, old, sizeof(*old)); /* the newer structure begins with the older one */
    return CUDA_SUCCESS;
}

CUresult sim_work_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct sim_work *work)
{
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_function *function = sim_slot_get(params->func, SIM_FUNCTION, "function");
    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct sim_call call = {
        .function = params->func,
        .grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
        .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
        .shared_bytes = params->sharedMemBytes,
        .parameters = params->kernelParams,
        .extra = params->extra};
    work->context = function->context;
    return sim_kernel_op(&call, &work->op);
}

static void kernel_say(const struct sim_call *call, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    params->func = call->function;
    params->gridDimX = call->grid[0];
    params->gridDimY = call->grid[1];
    params->gridDimZ = call->grid[2];
    params->blockDimX = call->block[0];
    params->blockDimY = call->block[1];
    params->blockDimZ = call->block[2];
    params->sharedMemBytes = call->shared_bytes;
    params->kernelParams = call->parameters;
    params->extra = call->extra;
}

/* The context that a call names; the current one if it names none. */
static struct sim_context *context_of(CUcontext handle)
{
    return handle == NULL ? sim_current() : sim_context_get(handle);
}

/* ---- copies --------------------------------------------------------------------------------- */

/* One side of a copy: where its first byte is, and whether the caller says it is the device's. */
static CUresult copy_side(CUmemorytype type, const void *host, CUdeviceptr device, size_t skip,
                          uintptr_t *at)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        *at = (uintptr_t)host;
        break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        *at = (uintptr_t)device;
        break;
    default: /* arrays */
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (*at == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *at += skip;
    return CUDA_SUCCESS;
}

/* Memory that the simulation knows must be there; other memory must be the host's. */
static CUresult side_check(const struct sim_context *context, CUmemorytype type, uintptr_t at,
                           size_t bytes, int write, struct sim_op *op)
{
    int known = sim_region_find(at) != NULL;
    if (!known && type != CU_MEMORYTYPE_DEVICE)
        return CUDA_SUCCESS; /* pageable: read or written when the node runs */
    CUresult result = sim_check_call(context, at, bytes);
    if (result == CUDA_SUCCESS)
        sim_op_touch(op, at, bytes, write);
    return result;
}

CUresult sim_work_memcpy(const CUDA_MEMCPY3D *params, CUcontext context, struct sim_work *work)
{
    if (params == NULL || params->reserved0 != NULL || params->reserved1 != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    work->context = context_of(context);
    if (work->context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (params->Height > 1 || params->Depth > 1)
        return CUDA_ERROR_NOT_SUPPORTED;
    size_t bytes = params->WidthInBytes;
    if (bytes == 0 || params->Height == 0 || params->Depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = SIM_OP_COPY};
    size_t from_skip =
        params->srcXInBytes + (params->srcY + params->srcZ * params->srcHeight) * params->srcPitch;
    size_t to_skip =
        params->dstXInBytes + (params->dstY + params->dstZ * params->dstHeight) * params->dstPitch;
    op.copy.bytes = bytes;
    op.copy.from_type = (uint8_t)params->srcMemoryType;
    op.copy.to_type = (uint8_t)params->dstMemoryType;
    CUresult result = copy_side(params->srcMemoryType, params->srcHost, params->srcDevice,
                                from_skip, &op.copy.from);
    if (result == CUDA_SUCCESS)
        result = copy_side(params->dstMemoryType, params->dstHost, params->dstDevice, to_skip,
                           &op.copy.to);
    if (result == CUDA_SUCCESS)
        result = side_check(work->context, params->dstMemoryType, op.copy.to, bytes, 1, &op);
    if (result == CUDA_SUCCESS)
        result = side_check(work->context, params->srcMemoryType, op.copy.from, bytes, 0, &op);
    work->op = op;
    return result;
}

/* What the program said that the memory is; for captured copies, what it is. */
static CUmemorytype type_said(uint8_t said, uintptr_t at)
{
    if (said != 0)
        return (CUmemorytype)said;
    return sim_is_device(at) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

/* As one row of a copy in three dimensions, which is how the driver puts it. */
static void memcpy_say(const struct sim_op *op, CUDA_MEMCPY3D *params)
{
    memset(params, 0, sizeof(*params));
    params->srcMemoryType = type_said(op->copy.from_type, op->copy.from);
    if (params->srcMemoryType == CU_MEMORYTYPE_HOST)
        params->srcHost = (const void *)op->copy.from;
    else
        params->srcDevice = op->copy.from;
    params->dstMemoryType = type_said(op->copy.to_type, op->copy.to);
    if (params->dstMemoryType == CU_MEMORYTYPE_HOST)
        params->dstHost = (void *)op->copy.to;
    else
        params->dstDevice = op->copy.to;
    params->WidthInBytes = op->copy.bytes;
    params->Height = 1;
    params->Depth = 1;
}

/* ---- memsets, host functions, events -------------------------------------------------------- */

CUresult sim_work_memset(const CUDA_MEMSET_NODE_PARAMS_v2 *params, struct sim_work *work)
{
    unsigned element = params->elementSize;
    size_t rows = params->height;
    if ((element != 1 && element != 2 && element != 4) || params->dst % element != 0 ||
        params->width == 0 || rows == 0 || params->width > SIZE_MAX / element / rows)
        return CUDA_ERROR_INVALID_VALUE;
    work->context = context_of(params->ctx);
    if (work->context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (rows != 1 && params->pitch != params->width * element)
        return CUDA_ERROR_NOT_SUPPORTED; /* rows with gaps between them */
    uint64_t bytes = (uint64_t)params->width * element * rows;
    CUresult result = sim_check_call(work->context, params->dst, bytes);
    work->op = (struct sim_op){.kind = SIM_OP_SET};
    work->op.set.pattern = params->value;
    work->op.set.width = element;
    work->op.set.rows = rows == 1 ? 0 : rows;
    sim_op_touch(&work->op, params->dst, bytes, 1);
    return result;
}

static void memset_say(const struct sim_op *op, CUDA_MEMSET_NODE_PARAMS *params)
{
    memset(params, 0, sizeof(*params));
    params->dst = op->access[0].address;
    params->value = op->set.pattern;
    params->elementSize = op->set.width;
    params->width = op->access[0].bytes / op->set.width;
    params->height = 1;
}

CUresult sim_work_host(const CUDA_HOST_NODE_PARAMS *params, struct sim_work *work)
{
    if (params == NULL || params->fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    work->context = NULL;
    work->op = (struct sim_op){.kind = SIM_OP_HOST};
    work->op.host.function = params->fn;
    work->op.host.data = params->userData;
    return CUDA_SUCCESS;
}

CUresult sim_work_event(CUevent handle, enum sim_op_kind kind, struct sim_work *work)
{
    struct sim_event *event = sim_slot_get(handle, SIM_EVENT, "event");
    if (event == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    event->references++;
    work->context = event->context;
    work->op = (struct sim_op){.kind = kind};
    work->op.record.event = event;
    return CUDA_SUCCESS;
}

CUresult sim_work_any(const CUgraphNodeParams *params, struct sim_work *work)
{
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS_v2 kernel;
        _Static_assert(sizeof(kernel) == sizeof(params->kernel), "the two forms are the same");
        memcpy(&kernel, &params->kernel, sizeof(kernel));
        return sim_work_kernel(&kernel, work);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sim_work_memcpy(&params->memcpy.copyParams, params->memcpy.copyCtx, work);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return sim_work_memset(&params->memset, work);
    case CU_GRAPH_NODE_TYPE_HOST:
        return sim_work_host(&(CUDA_HOST_NODE_PARAMS){params->host.fn, params->host.userData},
                             work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *work = (struct sim_work){.op = {.kind = SIM_OP_EMPTY}, .context = NULL};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return sim_work_event(params->eventRecord.event, SIM_OP_RECORD, work);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return sim_work_event(params->eventWait.event, SIM_OP_WAIT_EVENT, work);
    case CU_GRAPH_NODE_TYPE_GRAPH: /* no operation: a child is never changed by parameters */
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- changing ------------------------------------------------------------------------------- */

/* The node does the work from now on; it must be work of the node's kind. */
CUresult sim_work_change(struct sim_node *node, struct sim_work *work)
{
    if (node == NULL || node->op.kind != work->op.kind || node->child != NULL) {
        sim_op_dispose(&work->op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_op_dispose(&node->op);
    node->op = work->op;
    node->context = work->context;
    sim_operands_find(&node->op, node->operand);
    return CUDA_SUCCESS;
}

/* The same for a call's node, with what making the work gave. */
static CUresult change(CUgraphNode handle, CUresult made, struct sim_work *work)
{
    return made == CUDA_SUCCESS ? sim_work_change(sim_node_get(handle, "node"), work) : made;
}

/* ---- calls: kernels ------------------------------------------------------------------------- */

/* The node behind a handle, if it does what the call is about. */
static const struct sim_node *node_of(CUgraphNode handle, enum sim_op_kind kind)
{
    const struct sim_node *node = sim_node_get(handle, "node");
    return node != NULL && node->op.kind == kind ? node : NULL;
}

CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode hNode,
                                            CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    SIM_ENTER(cuGraphKernelNodeGetParams, SIM_NEEDS_INIT);
    const struct sim_node *node = node_of(hNode, SIM_OP_KERNEL);
    if (node == NULL || nodeParams == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    kernel_say(&node->op.launch->call, nodeParams);
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
                                               CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    SIM_ENTER(cuGraphKernelNodeGetParams_v2, SIM_NEEDS_INIT);
    const struct sim_node *node = node_of(hNode, SIM_OP_KERNEL);
    if (node == NULL || nodeParams == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUDA_KERNEL_NODE_PARAMS_v1 said;
    kernel_say(&node->op.launch->call, &said);
    (void)sim_params_upgrade(&said, nodeParams);
    nodeParams->ctx = (CUcontext)node->context->slot;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode hNode,
                                            const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    SIM_ENTER(cuGraphKernelNodeSetParams, SIM_NEEDS_INIT);
    struct sim_work work;
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUresult made = sim_params_upgrade(nodeParams, &params);
    made = made == CUDA_SUCCESS ? sim_work_kernel(&params, &work) : made;
    return sim_leave(change(hNode, made, &work));
}

CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
                                               const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    SIM_ENTER(cuGraphKernelNodeSetParams_v2, SIM_NEEDS_INIT);
    struct sim_work work;
    return sim_leave(change(hNode, sim_work_kernel(nodeParams, &work), &work));
}

/* ---- calls: the others ---------------------------------------------------------------------- */

CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    SIM_ENTER(cuGraphMemcpyNodeGetParams, SIM_NEEDS_INIT);
    const struct sim_node *node = node_of(hNode, SIM_OP_COPY);
    if (node == NULL || nodeParams == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy_say(&node->op, nodeParams);
    return sim_leave(CUDA_SUCCESS);
}

/* The context stays the one that the node was given. */
CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    SIM_ENTER(cuGraphMemcpyNodeSetParams, SIM_NEEDS_INIT);
    const struct sim_node *node = node_of(hNode, SIM_OP_COPY);
    struct sim_work work;
    if (node == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUcontext context = (CUcontext)node->context->slot;
    return sim_leave(change(hNode, sim_work_memcpy(nodeParams, context, &work), &work));
}

CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphMemsetNodeGetParams, SIM_NEEDS_INIT);
    const struct sim_node *node = node_of(hNode, SIM_OP_SET);
    if (node == NULL || nodeParams == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    memset_say(&node->op, nodeParams);
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode hNode,
                                            const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphMemsetNodeSetParams, SIM_NEEDS_INIT);
    const struct sim_node *node = node_of(hNode, SIM_OP_SET);
    struct sim_work work;
    if (node == NULL || nodeParams == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const CUDA_MEMSET_NODE_PARAMS_v2 params = {nodeParams->dst,
                                               nodeParams->pitch,
                                               nodeParams->value,
                                               nodeParams->elementSize,
                                               nodeParams->width,
                                               nodeParams->height,
                                               (CUcontext)node->context->slot};
    return sim_leave(change(hNode, sim_work_memset(&params, &work), &work));
}

CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphHostNodeGetParams, SIM_NEEDS_INIT);
    const struct sim_node *node = node_of(hNode, SIM_OP_HOST);
    if (node == NULL || nodeParams == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    nodeParams->fn = node->op.host.function;
    nodeParams->userData = node->op.host.data;
    return sim_leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode hNode,
                                          const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphHostNodeSetParams, SIM_NEEDS_INIT);
    struct sim_work work;
    return sim_leave(change(hNode, sim_work_host(nodeParams, &work), &work));
}

static CUresult event_say(CUgraphNode handle, enum sim_op_kind kind, CUevent *event)
{
    const struct sim_node *node = node_of(handle, kind);
    if (node == NULL || event == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *event = (CUevent)node->op.record.event->slot;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    SIM_ENTER(cuGraphEventRecordNodeGetEvent, SIM_NEEDS_INIT);
    return sim_leave(event_say(hNode, SIM_OP_RECORD, event_out));
}

CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    SIM_ENTER(cuGraphEventWaitNodeGetEvent, SIM_NEEDS_INIT);
    return sim_leave(event_say(hNode, SIM_OP_WAIT_EVENT, event_out));
}

CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    SIM_ENTER(cuGraphEventRecordNodeSetEvent, SIM_NEEDS_INIT);
    struct sim_work work;
    return sim_leave(change(hNode, sim_work_event(event, SIM_OP_RECORD, &work), &work));
}

CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    SIM_ENTER(cuGraphEventWaitNodeSetEvent, SIM_NEEDS_INIT);
    struct sim_work work;
    return sim_leave(change(hNode, sim_work_event(event, SIM_OP_WAIT_EVENT, &work), &work));
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    SIM_ENTER(cuGraphNodeSetParams, SIM_NEEDS_INIT);
    struct sim_work work;
    if (nodeParams == NULL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(change(hNode, sim_work_any(nodeParams, &work), &work));
}
