/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms of the graph calls, for the tests of graphs. All of them must succeed. */
#ifndef TENURE_TESTS_SIMCUDA_GRAPHS_H
#define TENURE_TESTS_SIMCUDA_GRAPHS_H

#include "fixture.h"

CUgraph graph_new(void);
CUgraphExec exec_new(CUgraph graph);
size_t node_count(CUgraph graph);
size_t edge_count(CUgraph graph);

/* Nodes that come after up to two others; null is none. */
CUgraphNode empty_node(CUgraph graph, CUgraphNode a, CUgraphNode b);
CUgraphNode set_node(CUgraph graph, CUdeviceptr at, unsigned value, size_t bytes, CUgraphNode a,
                     CUgraphNode b);
CUgraphNode copy_node(CUgraph graph, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUgraphNode a,
                      CUgraphNode b);
CUgraphNode host_node(CUgraph graph, CUhostFn function, void *data, CUgraphNode a, CUgraphNode b);
CUgraphNode child_node(CUgraph graph, CUgraph child, CUgraphNode a, CUgraphNode b);
CUgraphNode record_node(CUgraph graph, CUevent event, CUgraphNode a, CUgraphNode b);
CUgraphNode wait_node(CUgraph graph, CUevent event, CUgraphNode a, CUgraphNode b);

#endif
