/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that scenarios about graphs share. A step that fails ends the scenario with the reason. */
#ifndef TENURE_TESTS_CONFORMANCE_GRAPH_H
#define TENURE_TESTS_CONFORMANCE_GRAPH_H

#include "scenario.h"

CUgraph graph_new(void);
void chunk_clear(CUdeviceptr at); /* and waits until it is done */
CUgraphNodeType type_of(CUgraphNode node);
CUgraphNode node_empty(CUgraph graph, const CUgraphNode *after, size_t count);
CUgraphNode node_set(CUgraph graph, CUdeviceptr at, unsigned char value, size_t bytes,
                     const CUgraphNode *after, size_t count);
CUgraphNode node_copy(CUgraph graph, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                      const CUgraphNode *after, size_t count);
CUgraphNode node_host(CUgraph graph, CUhostFn function, void *data, const CUgraphNode *after,
                      size_t count);
CUDA_MEMCPY3D copy_params(CUdeviceptr to, CUdeviceptr from, size_t bytes);

/* A kernel, on real devices from PTX: *at = value, for a 64-bit address and a 32-bit value. */
struct store_packed {
    CUdeviceptr at;
    uint32_t value;
};
#define STORE_PACKED_BYTES (offsetof(struct store_packed, value) + sizeof(uint32_t))
CUDA_KERNEL_NODE_PARAMS store_params(void); /* one thread, no parameters yet */
CUgraphNode node_store(CUgraph graph, CUdeviceptr at, uint32_t value, const CUgraphNode *after,
                       size_t count);

CUgraphExec exec_new(CUgraph graph);
void graph_run(CUgraph graph, CUstream stream); /* instantiates, launches, waits, destroys */

/* Waits until a flag that another thread sets is up; 0 if it is not after ms. */
int flag_awaited(const int *flag, unsigned ms);

#endif
