/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of gpu/backend.h, each of them one call of CUDA's driver or a few. */
#include "gpu/cuda/driver.h"

#include <string.h>

/* Makes the call `name` with the argument list `arguments` (in its own parentheses), counts it, and
 * returns from the verb with its result. */
#define DRIVE(name, arguments)                                                                     \
    uint64_t began_ns = tnri_clock_ns();                                                           \
    return tnri_drive_end((tnr_driver_kind)TNRI_KIND_##name, tnri_driver.name arguments, began_ns)

/* The same for an optional entry point. */
#define DRIVE_IF(name, arguments)                                                                  \
    if (tnri_driver.name == NULL)                                                                  \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    uint64_t began_ns = tnri_clock_ns();                                                           \
    return tnri_drive_end((tnr_driver_kind)TNRI_KIND_##name, tnri_driver.name arguments, began_ns)

/* ---- devices and contexts ------------------------------------------------------------------- */

CUresult tnri_gpu_devices(int *count)
{
    DRIVE(cuDeviceGetCount, (count));
}

static CUresult device_handle(CUdevice *device, int index)
{
    DRIVE(cuDeviceGet, (device, index));
}

static CUresult device_name(char *name, size_t room, CUdevice device)
{
    DRIVE(cuDeviceGetName, (name, (int)room, device));
}

static CUresult device_bytes(size_t *bytes, CUdevice device)
{
    DRIVE(cuDeviceTotalMem, (bytes, device));
}

CUresult tnri_gpu_device_find(int index, CUdevice *device, char *name, size_t room, size_t *bytes)
{
    CUresult result = device_handle(device, index);
    if (result == CUDA_SUCCESS)
        result = device_name(name, room, *device);
    return result == CUDA_SUCCESS ? device_bytes(bytes, *device) : result;
}

CUresult tnri_gpu_device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    DRIVE(cuDeviceGetAttribute, (value, attribute, device));
}

CUresult tnri_gpu_device_uuid(CUuuid *uuid, CUdevice device)
{
    DRIVE_IF(cuDeviceGetUuid, (uuid, device));
}

CUresult tnri_gpu_reaches(int *reaches, CUdevice device, CUdevice peer)
{
    DRIVE(cuDeviceCanAccessPeer, (reaches, device, peer));
}

CUresult tnri_gpu_context_is_active(CUdevice device, unsigned *flags, int *is_active)
{
    DRIVE(cuDevicePrimaryCtxGetState, (device, flags, is_active));
}

CUresult tnri_gpu_context_retain(CUcontext *context, CUdevice device)
{
    DRIVE(cuDevicePrimaryCtxRetain, (context, device));
}

CUresult tnri_gpu_context_release(CUdevice device)
{
    DRIVE(cuDevicePrimaryCtxRelease, (device));
}

CUresult tnri_gpu_context_push(CUcontext context)
{
    DRIVE(cuCtxPushCurrent, (context));
}

CUresult tnri_gpu_context_pop(CUcontext *context)
{
    DRIVE(cuCtxPopCurrent, (context));
}

/* The driver permits no call there, but this one only says so. */
int tnri_gpu_in_host_function(void)
{
    CUcontext context;
    return tnri_driver.cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_PERMITTED;
}

CUresult tnri_gpu_context_await(void)
{
    DRIVE(cuCtxSynchronize, ());
}

/* ---- memory --------------------------------------------------------------------------------- */

CUresult tnri_gpu_memory_left(size_t *left, size_t *total)
{
    DRIVE(cuMemGetInfo, (left, total));
}

CUresult tnri_gpu_granularity(size_t *bytes, CUmemLocation where)
{
    CUmemAllocationProp properties = {0};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = where;
    DRIVE(cuMemGetAllocationGranularity, (bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

CUresult tnri_gpu_reserve(CUdeviceptr *base, size_t bytes, size_t alignment, CUdeviceptr wanted)
{
    DRIVE(cuMemAddressReserve, (base, bytes, alignment, wanted, 0));
}

CUresult tnri_gpu_unreserve(CUdeviceptr base, size_t bytes)
{
    DRIVE(cuMemAddressFree, (base, bytes));
}

CUresult tnri_gpu_create(CUmemGenericAllocationHandle *memory, size_t bytes,
                         const CUmemAllocationProp *what)
{
    DRIVE(cuMemCreate, (memory, bytes, what, 0));
}

CUresult tnri_gpu_release(CUmemGenericAllocationHandle memory)
{
    DRIVE(cuMemRelease, (memory));
}

CUresult tnri_gpu_map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle memory)
{
    DRIVE(cuMemMap, (address, bytes, 0, memory, 0));
}

CUresult tnri_gpu_unmap(CUdeviceptr address, size_t bytes)
{
    DRIVE(cuMemUnmap, (address, bytes));
}

CUresult tnri_gpu_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *whom,
                         size_t count)
{
    DRIVE(cuMemSetAccess, (address, bytes, whom, count));
}

CUresult tnri_gpu_export(void *shared, CUmemGenericAllocationHandle memory,
                         CUmemAllocationHandleType type)
{
    DRIVE_IF(cuMemExportToShareableHandle, (shared, memory, type, 0));
}

CUresult tnri_gpu_import(CUmemGenericAllocationHandle *memory, void *shared,
                         CUmemAllocationHandleType type)
{
    DRIVE_IF(cuMemImportFromShareableHandle, (memory, shared, type));
}

CUresult tnri_gpu_alloc(CUdeviceptr *address, size_t bytes)
{
    DRIVE_IF(cuMemAlloc, (address, bytes));
}

CUresult tnri_gpu_free(CUdeviceptr address)
{
    DRIVE_IF(cuMemFree, (address));
}

CUresult tnri_gpu_pointer_ask(void *answer, CUpointer_attribute attribute, CUdeviceptr address)
{
    DRIVE_IF(cuPointerGetAttribute, (answer, attribute, address));
}

CUresult tnri_gpu_host_alloc(void **memory, size_t bytes)
{
    DRIVE_IF(cuMemHostAlloc, (memory, bytes, 0));
}

CUresult tnri_gpu_host_free(void *memory)
{
    DRIVE_IF(cuMemFreeHost, (memory));
}

CUresult tnri_gpu_copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    DRIVE_IF(cuMemcpyDtoHAsync, (to, from, bytes, stream));
}

CUresult tnri_gpu_copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    DRIVE_IF(cuMemcpyHtoDAsync, (to, from, bytes, stream));
}

CUresult tnri_gpu_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    DRIVE_IF(cuMemcpyDtoDAsync, (to, from, bytes, stream));
}

CUresult tnri_gpu_fill(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream)
{
    DRIVE_IF(cuMemsetD8Async, (address, value, bytes, stream));
}

/* ---- events and streams --------------------------------------------------------------------- */

CUresult tnri_gpu_event_make(CUevent *event)
{
    DRIVE(cuEventCreate, (event, CU_EVENT_DISABLE_TIMING));
}

CUresult tnri_gpu_event_end(CUevent event)
{
    DRIVE(cuEventDestroy, (event));
}

CUresult tnri_gpu_event_record(CUevent event, CUstream stream)
{
    DRIVE(cuEventRecord, (event, stream));
}

CUresult tnri_gpu_event_query(CUevent event)
{
    DRIVE(cuEventQuery, (event));
}

CUresult tnri_gpu_event_await(CUevent event)
{
    DRIVE(cuEventSynchronize, (event));
}

CUresult tnri_gpu_stream_follow(CUstream stream, CUevent event)
{
    DRIVE(cuStreamWaitEvent, (stream, event, CU_EVENT_WAIT_DEFAULT));
}

CUresult tnri_gpu_stream_make(CUstream *stream)
{
    DRIVE(cuStreamCreate, (stream, CU_STREAM_NON_BLOCKING));
}

CUresult tnri_gpu_stream_end(CUstream stream)
{
    DRIVE(cuStreamDestroy, (stream));
}

CUresult tnri_gpu_stream_await(CUstream stream)
{
    DRIVE_IF(cuStreamSynchronize, (stream));
}

CUresult tnri_gpu_stream_id(CUstream stream, unsigned long long *id)
{
    DRIVE(cuStreamGetId, (stream, id));
}

CUresult tnri_gpu_stream_flags(CUstream stream, unsigned *flags)
{
    DRIVE(cuStreamGetFlags, (stream, flags));
}

CUresult tnri_gpu_stream_context(CUstream stream, CUcontext *context)
{
    DRIVE(cuStreamGetCtx, (stream, context));
}

/* ---- captures and graphs -------------------------------------------------------------------- */

CUresult tnri_gpu_capture_begin(CUstream stream, CUstreamCaptureMode mode)
{
    DRIVE_IF(cuStreamBeginCapture, (stream, mode));
}

CUresult tnri_gpu_capture_end(CUstream stream, CUgraph *graph)
{
    DRIVE_IF(cuStreamEndCapture, (stream, graph));
}

CUresult tnri_gpu_is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    DRIVE_IF(cuStreamIsCapturing, (stream, status));
}

CUresult tnri_gpu_capture_ask(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                              CUgraph *graph, const CUgraphNode **frontier,
                              const CUgraphEdgeData **edges, size_t *count)
{
    DRIVE_IF(cuStreamGetCaptureInfo, (stream, status, id, graph, frontier, edges, count));
}

CUresult tnri_gpu_capture_mode(CUstreamCaptureMode *mode)
{
    DRIVE_IF(cuThreadExchangeStreamCaptureMode, (mode));
}

CUresult tnri_gpu_graph_end(CUgraph graph)
{
    DRIVE_IF(cuGraphDestroy, (graph));
}

CUresult tnri_gpu_graph_launch(CUgraphExec exec, CUstream stream)
{
    DRIVE_IF(cuGraphLaunch, (exec, stream));
}

CUresult tnri_gpu_graph_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    DRIVE_IF(cuGraphGetNodes, (graph, nodes, count));
}

CUresult tnri_gpu_node_type(CUgraphNode node, CUgraphNodeType *type)
{
    DRIVE_IF(cuGraphNodeGetType, (node, type));
}

CUresult tnri_gpu_node_follows(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges,
                               size_t *count)
{
    DRIVE_IF(cuGraphNodeGetDependencies, (node, nodes, edges, count));
}

static CUresult node_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    DRIVE_IF(cuGraphKernelNodeGetParams, (node, params));
}

static CUresult node_copy(CUgraphNode node, CUDA_MEMCPY3D *params)
{
    DRIVE_IF(cuGraphMemcpyNodeGetParams, (node, params));
}

static CUresult node_fill(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params)
{
    DRIVE_IF(cuGraphMemsetNodeGetParams, (node, params));
}

static CUresult node_batch(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    DRIVE_IF(cuGraphBatchMemOpNodeGetParams, (node, params));
}

static CUresult node_child(CUgraphNode node, CUgraph *child)
{
    DRIVE_IF(cuGraphChildGraphNodeGetGraph, (node, child));
}

static CUresult node_params(CUgraphNode node, CUgraphNodeParams *params)
{
    DRIVE_IF(cuGraphNodeGetParams, (node, params));
}

CUresult tnri_gpu_node_read(CUgraphNode node, tnri_gpu_verb verb, void *params)
{
    switch (verb) {
    case TNRI_GPU_NODE_KERNEL:
        return node_kernel(node, params);
    case TNRI_GPU_NODE_COPY:
        return node_copy(node, params);
    case TNRI_GPU_NODE_FILL:
        return node_fill(node, params);
    case TNRI_GPU_NODE_BATCH:
        return node_batch(node, params);
    case TNRI_GPU_NODE_CHILD:
        return node_child(node, params);
    default:
        return node_params(node, params);
    }
}

static CUresult function_param(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    DRIVE_IF(cuFuncGetParamInfo, (function, index, offset, bytes));
}

static CUresult kernel_param(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    DRIVE_IF(cuKernelGetParamInfo, (kernel, index, offset, bytes));
}

CUresult tnri_gpu_kernel_param(const CUDA_KERNEL_NODE_PARAMS *kernel, size_t index, size_t *offset,
                               size_t *bytes)
{
    if (kernel->func != NULL)
        return function_param(kernel->func, index, offset, bytes);
    if (kernel->kern != NULL)
        return kernel_param(kernel->kern, index, offset, bytes);
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult function_name(const char **name, CUfunction function)
{
    DRIVE_IF(cuFuncGetName, (name, function));
}

static CUresult kernel_name(const char **name, CUkernel kernel)
{
    DRIVE_IF(cuKernelGetName, (name, kernel));
}

CUresult tnri_gpu_kernel_name(const CUDA_KERNEL_NODE_PARAMS *kernel, const char **name)
{
    if (kernel->func != NULL)
        return function_name(name, kernel->func);
    if (kernel->kern != NULL)
        return kernel_name(name, kernel->kern);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult tnri_gpu_tether_make(CUuserObject *tether, void *object, void (*let_go)(void *object))
{
    DRIVE_IF(cuUserObjectCreate, (tether, object, let_go, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
}

CUresult tnri_gpu_tether_give(CUgraph graph, CUuserObject tether)
{
    DRIVE_IF(cuGraphRetainUserObject, (graph, tether, 1, CU_GRAPH_USER_OBJECT_MOVE));
}

CUresult tnri_gpu_tether_drop(CUuserObject tether)
{
    DRIVE_IF(cuUserObjectRelease, (tether, 1));
}

/* ---- names of verbs ------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset; /* in the table */
} verbs[TNRI_GPU_VERBS] = {
#define VERB(verb, name) [TNRI_GPU_##verb] = {#name, offsetof(tnri_driver_table, name)}
    VERB(DEVICES, cuDeviceGetCount),
    VERB(DEVICE_FIND, cuDeviceGet),
    VERB(DEVICE_ATTRIBUTE, cuDeviceGetAttribute),
    VERB(DEVICE_UUID, cuDeviceGetUuid),
    VERB(REACHES, cuDeviceCanAccessPeer),
    VERB(CONTEXT_IS_ACTIVE, cuDevicePrimaryCtxGetState),
    VERB(CONTEXT_RETAIN, cuDevicePrimaryCtxRetain),
    VERB(CONTEXT_RELEASE, cuDevicePrimaryCtxRelease),
    VERB(CONTEXT_PUSH, cuCtxPushCurrent),
    VERB(CONTEXT_POP, cuCtxPopCurrent),
    VERB(CONTEXT_AWAIT, cuCtxSynchronize),
    VERB(MEMORY_LEFT, cuMemGetInfo),
    VERB(GRANULARITY, cuMemGetAllocationGranularity),
    VERB(RESERVE, cuMemAddressReserve),
    VERB(UNRESERVE, cuMemAddressFree),
    VERB(CREATE, cuMemCreate),
    VERB(RELEASE, cuMemRelease),
    VERB(MAP, cuMemMap),
    VERB(UNMAP, cuMemUnmap),
    VERB(ACCESS, cuMemSetAccess),
    VERB(EXPORT, cuMemExportToShareableHandle),
    VERB(IMPORT, cuMemImportFromShareableHandle),
    VERB(ALLOC, cuMemAlloc),
    VERB(FREE, cuMemFree),
    VERB(POINTER_ASK, cuPointerGetAttribute),
    VERB(HOST_ALLOC, cuMemHostAlloc),
    VERB(HOST_FREE, cuMemFreeHost),
    VERB(COPY_OUT, cuMemcpyDtoHAsync),
    VERB(COPY_IN, cuMemcpyHtoDAsync),
    VERB(COPY, cuMemcpyDtoDAsync),
    VERB(FILL, cuMemsetD8Async),
    VERB(EVENT_MAKE, cuEventCreate),
    VERB(EVENT_END, cuEventDestroy),
    VERB(EVENT_RECORD, cuEventRecord),
    VERB(EVENT_QUERY, cuEventQuery),
    VERB(EVENT_AWAIT, cuEventSynchronize),
    VERB(STREAM_FOLLOW, cuStreamWaitEvent),
    VERB(STREAM_MAKE, cuStreamCreate),
    VERB(STREAM_END, cuStreamDestroy),
    VERB(STREAM_AWAIT, cuStreamSynchronize),
    VERB(STREAM_ID, cuStreamGetId),
    VERB(STREAM_FLAGS, cuStreamGetFlags),
    VERB(STREAM_CONTEXT, cuStreamGetCtx),
    VERB(CAPTURE_BEGIN, cuStreamBeginCapture),
    VERB(CAPTURE_END, cuStreamEndCapture),
    VERB(IS_CAPTURING, cuStreamIsCapturing),
    VERB(CAPTURE_ASK, cuStreamGetCaptureInfo),
    VERB(CAPTURE_MODE, cuThreadExchangeStreamCaptureMode),
    VERB(GRAPH_END, cuGraphDestroy),
    VERB(GRAPH_LAUNCH, cuGraphLaunch),
    VERB(GRAPH_NODES, cuGraphGetNodes),
    VERB(NODE_TYPE, cuGraphNodeGetType),
    VERB(NODE_FOLLOWS, cuGraphNodeGetDependencies),
    VERB(NODE_KERNEL, cuGraphKernelNodeGetParams),
    VERB(NODE_COPY, cuGraphMemcpyNodeGetParams),
    VERB(NODE_FILL, cuGraphMemsetNodeGetParams),
    VERB(NODE_BATCH, cuGraphBatchMemOpNodeGetParams),
    VERB(NODE_CHILD, cuGraphChildGraphNodeGetGraph),
    VERB(NODE_PARAMS, cuGraphNodeGetParams),
    VERB(KERNEL_PARAM, cuFuncGetParamInfo),
    VERB(KERNEL_NAME, cuFuncGetName),
    VERB(TETHER_MAKE, cuUserObjectCreate),
    VERB(TETHER_GIVE, cuGraphRetainUserObject),
    VERB(TETHER_DROP, cuUserObjectRelease),
#undef VERB
};

int tnri_gpu_has(tnri_gpu_verb verb)
{
    void *function;
    memcpy(&function, (const char *)&tnri_driver + verbs[verb].offset, sizeof(function));
    return function != NULL;
}

const char *tnri_gpu_name(tnri_gpu_verb verb)
{
    return verbs[verb].name;
}
