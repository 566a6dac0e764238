/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the nodes of a CUDA graph: see nodes.h. */
#include "graph/nodes.h"

#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/table.h"

enum { DEPTH_MAX = 32, WORD = sizeof(uintptr_t) };

/* Where a kernel's parameters lie, as the driver has told it. Each takes a question of its own, and
 * a graph has many nodes of few kernels. Known until the end of the walk and no longer: the graph's
 * code is loaded meanwhile, and later the handle may be another kernel's. */
typedef struct layout {
    tnri_link link; /* the key is the handle */
    int is_whole;   /* the driver has told all of them */
    size_t first, count;
} layout;

typedef struct parameter {
    size_t offset, bytes;
} parameter;

typedef struct walk {
    tnri_node_visit visit;
    void *user;
    tnri_nodes_sums *sums;
    int wants_names;
    tnri_node_address at; /* of the node that is read */
    tnri_table layouts;
    parameter *parameters; /* of all layouts */
    size_t parameters_count, parameters_room;
} walk;

static tnr_status walk_graph(walk *self, CUgraph graph, unsigned depth);

/* ---- asking --------------------------------------------------------------------------------- */

/* What an answer about a node means: that it was told, that the driver does not tell it, which is
 * for the caller to count, or that something is wrong with the driver. */
static tnr_status told(CUresult result, tnri_gpu_verb verb, int *is_read)
{
    switch (result) {
    case CUDA_SUCCESS:
        return TNR_OK;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_NOT_FOUND:
        *is_read = 0;
        return TNR_OK;
    default:
        return tnri_driver_error(result, verb, "reading a graph");
    }
}

/* ---- words ---------------------------------------------------------------------------------- */

static tnr_status visit_word(walk *self, tnr_audit_place place, size_t offset, uintptr_t address,
                             size_t bytes)
{
    if (address == 0)
        return TNR_OK;
    self->at.place = place;
    self->at.offset = offset;
    self->at.address = address;
    self->at.bytes = bytes > 0 ? bytes : 1;
    return self->visit(self->user, &self->at);
}

/* Every word of the bytes that is aligned as it lies in the parameters, from `offset` on. */
static tnr_status visit_bytes(walk *self, const void *from, size_t offset, size_t bytes)
{
    tnr_status status = TNR_OK;
    size_t skip = (0 - offset) & (WORD - 1);
    for (size_t i = skip; status == TNR_OK && i + WORD <= bytes; i += WORD) {
        uintptr_t word;
        memcpy(&word, (const char *)from + i, sizeof(word));
        status = visit_word(self, TNR_AUDIT_KERNEL, offset + i, word, 1);
    }
    return status;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static const char *kernel_name(const CUDA_KERNEL_NODE_PARAMS *params)
{
    const char *name = NULL;
    return tnri_gpu_kernel_name(params, &name) == CUDA_SUCCESS ? name : NULL;
}

/* 1 if the answer means that there are no more parameters. A handle that the driver takes for wrong
 * gives the same answer, so an empty list is believed only if the driver knows the kernel by
 * name. */
static int is_list_end(const walk *self, const CUDA_KERNEL_NODE_PARAMS *params, size_t index,
                       CUresult result)
{
    return result == CUDA_ERROR_INVALID_VALUE &&
           (index > 0 || self->at.kernel != NULL ||
            (!self->wants_names && kernel_name(params) != NULL));
}

static tnr_status layout_ask(walk *self, const CUDA_KERNEL_NODE_PARAMS *params, layout *to)
{
    to->first = self->parameters_count;
    for (to->is_whole = 1;; to->count++) {
        parameter one = {0, 0};
        CUresult result = tnri_gpu_kernel_param(params, to->count, &one.offset, &one.bytes);
        if (is_list_end(self, params, to->count, result))
            return TNR_OK;
        tnr_status status = told(result, TNRI_GPU_KERNEL_PARAM, &to->is_whole);
        if (status != TNR_OK || !to->is_whole)
            return status;
        if (!TNRI_ARRAY_GROW(self->parameters, self->parameters_room, self->parameters_count + 1))
            return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a kernel's parameters.");
        self->parameters[self->parameters_count++] = one;
    }
}

static tnr_status layout_get(walk *self, const CUDA_KERNEL_NODE_PARAMS *params, const layout **of)
{
    const void *handle = params->func != NULL ? (const void *)params->func : params->kern;
    tnri_link **at = tnri_table_at(&self->layouts, (uintptr_t)handle);
    *of = (const layout *)*at;
    if (*of != NULL)
        return TNR_OK;
    layout *fresh = tnri_host_alloc(sizeof(*fresh));
    if (fresh == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for a kernel's parameters.");
    fresh->link.key = (uintptr_t)handle;
    tnr_status status = layout_ask(self, params, fresh);
    if (status != TNR_OK) {
        tnri_host_free(fresh, sizeof(*fresh));
        return status;
    }
    tnri_table_add(&self->layouts, &fresh->link);
    *of = fresh;
    return TNR_OK;
}

static int is_any(const tnri_link *link, void *user)
{
    (void)link;
    (void)user;
    return 1;
}

static void layouts_end(walk *self)
{
    tnri_link *next;
    for (tnri_link *link = tnri_table_take(&self->layouts, is_any, NULL); link != NULL;
         link = next) {
        next = link->next;
        tnri_host_free(link, sizeof(layout));
    }
    tnri_host_free(self->parameters, self->parameters_room * sizeof(self->parameters[0]));
}

/* The array of pointers, which is null if the kernel has no parameters. */
static tnr_status read_pointers(walk *self, const CUDA_KERNEL_NODE_PARAMS *params, int *is_read)
{
    const layout *of;
    tnr_status status = layout_get(self, params, &of);
    for (size_t i = 0; status == TNR_OK && i < of->count; i++) {
        parameter one = self->parameters[of->first + i];
        *is_read = params->kernelParams != NULL && params->kernelParams[i] != NULL;
        if (!*is_read)
            return TNR_OK;
        status = visit_bytes(self, params->kernelParams[i], one.offset, one.bytes);
    }
    if (status == TNR_OK)
        *is_read = of->is_whole;
    return status;
}

/* The packed buffer. */
static tnr_status read_packed(walk *self, void *const *extra, int *is_read)
{
    const void *buffer = NULL;
    const void *size = NULL;
    size_t bytes = 0;
    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = extra[i + 1];
        } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
            size = extra[i + 1];
        } else {
            *is_read = 0; /* a key that this file does not know */
            return TNR_OK;
        }
    }
    if (size != NULL)
        memcpy(&bytes, size, sizeof(bytes));
    *is_read = size != NULL && (buffer != NULL || bytes == 0);
    return *is_read ? visit_bytes(self, buffer, 0, bytes) : TNR_OK;
}

static tnr_status read_kernel(walk *self, CUgraphNode node, int *is_read)
{
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    self->sums->kernels++;
    CUresult result = tnri_gpu_node_read(node, TNRI_GPU_NODE_KERNEL, &params);
    tnr_status status = told(result, TNRI_GPU_NODE_KERNEL, is_read);
    if (status != TNR_OK || !*is_read)
        return status;
    if (self->wants_names)
        self->at.kernel = kernel_name(&params);
    if (params.extra != NULL && params.extra[0] != CU_LAUNCH_PARAM_END)
        return read_packed(self, params.extra, is_read);
    return read_pointers(self, &params, is_read);
}

/* ---- copies and sets ------------------------------------------------------------------------ */

/* One side of a copy. */
typedef struct side {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t x, y, z, pitch, height;
} side;

/* From the first to the last byte of rows in layers, each `pitch` apart. A pitch means nothing
 * where there is one row. */
static size_t extent_bytes(size_t width, size_t rows, size_t layers, size_t pitch, size_t height)
{
    if (width == 0 || rows == 0 || layers == 0)
        return 0;
    return ((layers - 1) * height + (rows - 1)) * pitch + width;
}

static tnr_status visit_side(walk *self, const side *of, size_t offset, const CUDA_MEMCPY3D *copy,
                             int *is_read)
{
    uintptr_t at;
    switch (of->type) {
    case CU_MEMORYTYPE_HOST:
        at = (uintptr_t)of->host;
        break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        at = (uintptr_t)of->device;
        break;
    case CU_MEMORYTYPE_ARRAY:
        return TNR_OK; /* the driver's own memory */
    default:
        *is_read = 0;
        return TNR_OK;
    }
    if (at == 0)
        return TNR_OK;
    at += of->x + (of->y + of->z * of->height) * of->pitch;
    return visit_word(
        self, TNR_AUDIT_COPY, offset, at,
        extent_bytes(copy->WidthInBytes, copy->Height, copy->Depth, of->pitch, of->height));
}

static tnr_status read_copy(walk *self, CUgraphNode node, int *is_read)
{
    CUDA_MEMCPY3D copy;
    memset(&copy, 0, sizeof(copy));
    self->sums->copies++;
    CUresult result = tnri_gpu_node_read(node, TNRI_GPU_NODE_COPY, &copy);
    tnr_status status = told(result, TNRI_GPU_NODE_COPY, is_read);
    if (status != TNR_OK || !*is_read)
        return status;
    side to = {.type = copy.dstMemoryType,
               .host = copy.dstHost,
               .device = copy.dstDevice,
               .x = copy.dstXInBytes,
               .y = copy.dstY,
               .z = copy.dstZ,
               .pitch = copy.dstPitch,
               .height = copy.dstHeight};
    side from = {.type = copy.srcMemoryType,
                 .host = copy.srcHost,
                 .device = copy.srcDevice,
                 .x = copy.srcXInBytes,
                 .y = copy.srcY,
                 .z = copy.srcZ,
                 .pitch = copy.srcPitch,
                 .height = copy.srcHeight};
    status = visit_side(self, &to, 0, &copy, is_read);
    return status != TNR_OK ? status : visit_side(self, &from, 1, &copy, is_read);
}

static tnr_status read_set(walk *self, CUgraphNode node, int *is_read)
{
    CUDA_MEMSET_NODE_PARAMS set;
    memset(&set, 0, sizeof(set));
    self->sums->sets++;
    CUresult result = tnri_gpu_node_read(node, TNRI_GPU_NODE_FILL, &set);
    tnr_status status = told(result, TNRI_GPU_NODE_FILL, is_read);
    if (status != TNR_OK || !*is_read)
        return status;
    return visit_word(self, TNR_AUDIT_SET, 0, (uintptr_t)set.dst,
                      extent_bytes(set.width * set.elementSize, set.height, 1, set.pitch, 1));
}

/* Words that the device writes or waits for, several to a node. */
static tnr_status read_batch(walk *self, CUgraphNode node, int *is_read)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
    memset(&batch, 0, sizeof(batch));
    self->sums->others++;
    CUresult result = tnri_gpu_node_read(node, TNRI_GPU_NODE_BATCH, &batch);
    tnr_status status = told(result, TNRI_GPU_NODE_BATCH, is_read);
    if (*is_read && batch.count > 0 && batch.paramArray == NULL)
        *is_read = 0;
    if (status != TNR_OK || !*is_read)
        return status;
    for (unsigned i = 0; status == TNR_OK && i < batch.count; i++) {
        const CUstreamBatchMemOpParams *op = &batch.paramArray[i];
        switch (op->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            status = visit_word(self, TNR_AUDIT_SET, i, (uintptr_t)op->writeValue.address, 4);
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            status = visit_word(self, TNR_AUDIT_SET, i, (uintptr_t)op->writeValue.address, 8);
            break;
        case CU_STREAM_MEM_OP_BARRIER:
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            break; /* no address */
        default:
            *is_read = 0;
            break;
        }
    }
    return status;
}

/* ---- graphs in graphs ----------------------------------------------------------------------- */

static tnr_status walk_child(walk *self, CUgraph child, unsigned depth, int *is_read)
{
    if (child == NULL || depth >= DEPTH_MAX) {
        *is_read = 0;
        return TNR_OK;
    }
    self->sums->children++;
    return walk_graph(self, child, depth + 1);
}

static tnr_status read_child(walk *self, CUgraphNode node, unsigned depth, int *is_read)
{
    CUgraph child = NULL;
    CUresult result = tnri_gpu_node_read(node, TNRI_GPU_NODE_CHILD, &child);
    tnr_status status = told(result, TNRI_GPU_NODE_CHILD, is_read);
    if (status != TNR_OK || !*is_read)
        return status;
    return walk_child(self, child, depth, is_read);
}

/* The bodies, of which drivers before CUDA 13.2 say nothing once the node has been made. */
static tnr_status read_conditional(walk *self, CUgraphNode node, unsigned depth, int *is_read)
{
    CUgraphNodeParams params;
    memset(&params, 0, sizeof(params));
    self->sums->others++;
    CUresult result = tnri_gpu_node_read(node, TNRI_GPU_NODE_PARAMS, &params);
    tnr_status status = told(result, TNRI_GPU_NODE_PARAMS, is_read);
    if (*is_read && (params.type != CU_GRAPH_NODE_TYPE_CONDITIONAL ||
                     params.conditional.size == 0 || params.conditional.phGraph_out == NULL))
        *is_read = 0;
    if (status != TNR_OK || !*is_read)
        return status;
    for (unsigned i = 0; status == TNR_OK && i < params.conditional.size; i++)
        status = walk_child(self, params.conditional.phGraph_out[i], depth, is_read);
    return status;
}

/* ---- the walk ------------------------------------------------------------------------------- */

static tnr_status read_by_type(walk *self, CUgraphNode node, int type, unsigned depth, int *is_read)
{
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return read_kernel(self, node, is_read);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return read_copy(self, node, is_read);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return read_set(self, node, is_read);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return read_batch(self, node, is_read);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        self->sums->others++;
        return read_child(self, node, depth, is_read);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return read_conditional(self, node, depth, is_read);
    case CU_GRAPH_NODE_TYPE_HOST: /* what its function does on the host is the program's business */
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: /* these two: of memory that the driver manages itself */
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        self->sums->others++;
        return TNR_OK;
    default:
        self->sums->others++;
        *is_read = 0;
        return TNR_OK;
    }
}

static tnr_status read_node(walk *self, CUgraphNode node, unsigned depth)
{
    CUgraphNodeType type;
    int is_read = 1;
    CUresult result = tnri_gpu_node_type(node, &type);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_NODE_TYPE, "reading a graph");
    uint64_t number = self->sums->nodes++;
    self->at.node = number;
    self->at.depth = depth;
    self->at.kernel = NULL;
    tnr_status status = read_by_type(self, node, (int)type, depth, &is_read);
    if (!is_read) {
        const char *kernel = type == CU_GRAPH_NODE_TYPE_KERNEL ? self->at.kernel : NULL;
        if (self->sums->unread < TNRI_UNREAD_MAX)
            self->sums->first[self->sums->unread] = (tnri_unread){number, depth, (int)type, kernel};
        self->sums->unread++;
    }
    return status;
}

static tnr_status walk_graph(walk *self, CUgraph graph, unsigned depth)
{
    size_t count = 0;
    CUresult result = tnri_gpu_graph_nodes(graph, NULL, &count);
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, TNRI_GPU_GRAPH_NODES, "reading a graph");
    if (count == 0)
        return TNR_OK;
    size_t room = count;
    CUgraphNode *nodes = tnri_host_alloc(room * sizeof(nodes[0]));
    if (nodes == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for %zu nodes of a graph.", room);
    result = tnri_gpu_graph_nodes(graph, nodes, &count);
    tnr_status status = TNR_OK;
    if (result != CUDA_SUCCESS)
        status = tnri_driver_error(result, TNRI_GPU_GRAPH_NODES, "reading a graph");
    for (size_t i = 0; status == TNR_OK && i < count; i++)
        status = read_node(self, nodes[i], depth);
    tnri_host_free(nodes, room * sizeof(nodes[0]));
    return status;
}

tnr_status tnri_nodes_walk(CUgraph graph, int wants_names, tnri_node_visit visit, void *user,
                           tnri_nodes_sums *sums)
{
    walk self = {.visit = visit, .user = user, .sums = sums, .wants_names = wants_names};
    tnr_status status = walk_graph(&self, graph, 0);
    layouts_end(&self);
    return status;
}
