/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threats: live blocks of a shared pool that the launch of some other graph would overwrite.
 *
 * Graphs that share a pool share the memory that each of them had freed. A block that outlives its
 * capture may lie where an earlier graph of the pool had memory of its own. Until the block is
 * freed, that graph must not be launched. Such blocks are few, so they stand in one list, under a
 * lock of its own. That lock is a leaf, because blocks end under their arena's lock.
 */
#ifndef TNRI_GRAPH_THREAT_H
#define TNRI_GRAPH_THREAT_H

#include "graph/place.h"

/* `graph` would overwrite the block. 0 if there is no host memory. */
int tnri_threats_add(const tnri_captured *captured, tnr_graph graph);

/* A block has ended, or a graph. */
void tnri_threats_remove(const tnri_captured *captured);
void tnri_threats_forget(tnr_graph graph);

/* The base of a block that the graph would overwrite, with the block's size and the graph that it
 * was handed out for; 0 if there is none. `arena` is that of the graph's place. A block that was
 * freed counts only while another graph keeps it. */
uintptr_t tnri_threats_find(tnri_arena *arena, tnr_graph graph, size_t *bytes, tnr_graph *owner);

#endif
