/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the nodes of a CUDA graph: see nodes.h. */
#include "nodes.h"

#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

enum { DEPTH_MAX = 32 };

typedef struct walk {
    tnri_node_visit visit;
    void *user;
    tnri_nodes_sums *sums;
    tnri_node_address at; /* of the node that is read */
} walk;

static tnr_status walk_graph(walk *self, CUgraph graph, unsigned depth);

/* ---- words ---------------------------------------------------------------------------------- */

static tnr_status visit_word(walk *self, tnr_audit_place place, size_t offset, uintptr_t address)
{
    if (address == 0)
        return TNR_OK;
    self->at.place = place;
    self->at.offset = offset;
    self->at.address = address;
    return self->visit(self->user, &self->at);
}

/* Every word of the bytes that is aligned as it lies in the parameters, from `offset` on. */
static tnr_status visit_bytes(walk *self, const void *from, size_t offset, size_t bytes)
{
    tnr_status status = TNR_OK;
    size_t skip = (0 - offset) & (sizeof(uintptr_t) - 1);
    for (size_t i = skip; status == TNR_OK && i + sizeof(uintptr_t) <= bytes;
         i += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)from + i, sizeof(word));
        status = visit_word(self, TNR_AUDIT_KERNEL, offset + i, word);
    }
    return status;
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* Place and size of a parameter. CUDA_ERROR_INVALID_VALUE: there are no more. */
static CUresult param_ask(const CUDA_KERNEL_NODE_PARAMS *params, size_t index, size_t *offset,
                          size_t *bytes)
{
    if (params->func != NULL && tnri_driver.cuFuncGetParamInfo != NULL)
        return tnri_drive(cuFuncGetParamInfo, (params->func, index, offset, bytes));
    if (params->kern != NULL && tnri_driver.cuKernelGetParamInfo != NULL)
        return tnri_drive(cuKernelGetParamInfo, (params->kern, index, offset, bytes));
    return CUDA_ERROR_NOT_SUPPORTED;
}

static const char *kernel_name(const CUDA_KERNEL_NODE_PARAMS *params)
{
    const char *name = NULL;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (params->func != NULL && tnri_driver.cuFuncGetName != NULL)
        result = tnri_drive(cuFuncGetName, (&name, params->func));
    else if (params->kern != NULL && tnri_driver.cuKernelGetName != NULL)
        result = tnri_drive(cuKernelGetName, (&name, params->kern));
    return result == CUDA_SUCCESS ? name : NULL;
}

/* The array of pointers. *is_read is 0 if the driver does not tell the sizes. */
static tnr_status read_pointers(walk *self, const CUDA_KERNEL_NODE_PARAMS *params, int *is_read)
{
    tnr_status status = TNR_OK;
    for (size_t i = 0; status == TNR_OK; i++) {
        size_t offset = 0, bytes = 0;
        CUresult result = param_ask(params, i, &offset, &bytes);
        if (result == CUDA_ERROR_INVALID_VALUE)
            return TNR_OK; /* there are no more */
        if (result != CUDA_SUCCESS || params->kernelParams[i] == NULL) {
            *is_read = 0;
            return TNR_OK;
        }
        status = visit_bytes(self, params->kernelParams[i], offset, bytes);
    }
    return status;
}

/* The packed buffer. */
static tnr_status read_packed(walk *self, void *const *extra, int *is_read)
{
    const void *buffer = NULL;
    const size_t *bytes = NULL;
    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = extra[i + 1];
    }
    *is_read = buffer != NULL && bytes != NULL;
    return *is_read ? visit_bytes(self, buffer, 0, *bytes) : TNR_OK;
}

static tnr_status read_kernel(walk *self, CUgraphNode node, int *is_read)
{
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    self->sums->kernels++;
    CUresult result = tnri_drive(cuGraphKernelNodeGetParams, (node, &params));
    *is_read = result == CUDA_SUCCESS;
    if (!*is_read)
        return TNR_OK;
    self->at.kernel = kernel_name(&params);
    if (params.extra != NULL)
        return read_packed(self, params.extra, is_read);
    if (params.kernelParams != NULL)
        return read_pointers(self, &params, is_read);
    /* Neither: read only if it is a kernel without parameters. */
    size_t offset, bytes;
    *is_read = param_ask(&params, 0, &offset, &bytes) == CUDA_ERROR_INVALID_VALUE;
    return TNR_OK;
}

/* ---- other nodes ---------------------------------------------------------------------------- */

static tnr_status read_copy(walk *self, CUgraphNode node, int *is_read)
{
    CUDA_MEMCPY3D copy;
    memset(&copy, 0, sizeof(copy));
    self->sums->copies++;
    *is_read = tnri_drive(cuGraphMemcpyNodeGetParams, (node, &copy)) == CUDA_SUCCESS;
    if (!*is_read)
        return TNR_OK;
    tnr_status status = TNR_OK;
    if (copy.dstMemoryType != CU_MEMORYTYPE_ARRAY)
        status = visit_word(self, TNR_AUDIT_COPY, 0,
                            copy.dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy.dstHost
                                                                     : (uintptr_t)copy.dstDevice);
    if (status == TNR_OK && copy.srcMemoryType != CU_MEMORYTYPE_ARRAY)
        status = visit_word(self, TNR_AUDIT_COPY, 1,
                            copy.srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy.srcHost
                                                                     : (uintptr_t)copy.srcDevice);
    return status;
}

static tnr_status read_set(walk *self, CUgraphNode node, int *is_read)
{
    CUDA_MEMSET_NODE_PARAMS set;
    memset(&set, 0, sizeof(set));
    self->sums->sets++;
    *is_read = tnri_drive(cuGraphMemsetNodeGetParams, (node, &set)) == CUDA_SUCCESS;
    return *is_read ? visit_word(self, TNR_AUDIT_SET, 0, (uintptr_t)set.dst) : TNR_OK;
}

static tnr_status read_child(walk *self, CUgraphNode node, unsigned depth, int *is_read)
{
    CUgraph child = NULL;
    *is_read = depth < DEPTH_MAX &&
               tnri_drive(cuGraphChildGraphNodeGetGraph, (node, &child)) == CUDA_SUCCESS;
    if (!*is_read)
        return TNR_OK;
    self->sums->children++;
    return walk_graph(self, child, depth + 1);
}

static tnr_status read_node(walk *self, CUgraphNode node, unsigned depth)
{
    CUgraphNodeType type;
    int is_read = 1;
    CUresult result = tnri_drive(cuGraphNodeGetType, (node, &type));
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, "cuGraphNodeGetType", "reading a graph");
    tnr_status status = TNR_OK;
    self->at.node = self->sums->nodes++;
    self->at.depth = depth;
    self->at.kernel = NULL;
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        status = read_kernel(self, node, &is_read);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        status = read_copy(self, node, &is_read);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        status = read_set(self, node, &is_read);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        status = read_child(self, node, depth, &is_read);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        self->sums->others++; /* they refer to no device memory */
        break;
    default:
        self->sums->others++;
        is_read = 0;
        break;
    }
    self->sums->unread += !is_read;
    return status;
}

static tnr_status walk_graph(walk *self, CUgraph graph, unsigned depth)
{
    size_t count = 0;
    CUresult result = tnri_drive(cuGraphGetNodes, (graph, NULL, &count));
    if (result != CUDA_SUCCESS)
        return tnri_driver_error(result, "cuGraphGetNodes", "reading a graph");
    if (count == 0)
        return TNR_OK;
    size_t room = count;
    CUgraphNode *nodes = tnri_host_alloc(room * sizeof(nodes[0]));
    if (nodes == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for %zu nodes of a graph.", room);
    result = tnri_drive(cuGraphGetNodes, (graph, nodes, &count));
    tnr_status status = TNR_OK;
    if (result != CUDA_SUCCESS)
        status = tnri_driver_error(result, "cuGraphGetNodes", "reading a graph");
    for (size_t i = 0; status == TNR_OK && i < count; i++)
        status = read_node(self, nodes[i], depth);
    tnri_host_free(nodes, room * sizeof(nodes[0]));
    return status;
}

tnr_status tnri_nodes_walk(CUgraph graph, tnri_node_visit visit, void *user, tnri_nodes_sums *sums)
{
    walk self = {.visit = visit, .user = user, .sums = sums};
    return walk_graph(&self, graph, 0);
}
