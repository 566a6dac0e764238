/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes do, as the runtime describes it, in the driver's words: graph_node.c.
 */
#ifndef TENURE_SIMCUDART_GRAPH_PARAMS_H
#define TENURE_SIMCUDART_GRAPH_PARAMS_H

#include "rt.h"

cudaError_t rt_node_kernel(const struct cudaKernelNodeParams *from, CUDA_KERNEL_NODE_PARAMS *to);
cudaError_t rt_node_memset(const struct cudaMemsetParams *from, CUDA_MEMSET_NODE_PARAMS *to);
cudaError_t rt_node_host(const struct cudaHostNodeParams *from, CUDA_HOST_NODE_PARAMS *to);
/* Of a copy of `bytes` in one piece. */
cudaError_t rt_node_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                         CUDA_MEMCPY3D *box);
CUcontext rt_node_context(void); /* the current one */

#endif
