/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the nodes of a CUDA graph: every aligned word of kernel parameters, in both forms in
 * which a kernel can be launched, and the addresses of copies, sets and batched memory operations.
 * Child graphs, and the bodies of conditional nodes, are read in place.
 *
 * The driver tells a kernel's parameters as an array of pointers, whose sizes it tells one by one.
 * If the kernel was launched with one packed buffer, the driver tells that buffer and its size,
 * with the keys in either order. If the driver does not tell a node, or a part of it, the node is
 * counted as unread; it is never passed over in silence. A node of a kind that is newer than this
 * file is unread, too.
 *
 * Words are taken where they are aligned to 8 bytes as the kernel sees them. Pointers lie nowhere
 * else, because the ABI aligns a parameter, and a pointer inside of a structure, to its own size.
 * Words at multiples of 4 would bring no more pointers, but wrong finds: two 32-bit sizes whose
 * upper one looks like the upper half of an address.
 *
 * The reader does not see addresses that a kernel finds only when it runs: those that lie in memory
 * (arrays of pointers), and those that parameters have in another form than as plain addresses.
 *
 * Any thread, no lock but the graph lock; calls the driver.
 */
#ifndef TNRI_GRAPH_NODES_H
#define TNRI_GRAPH_NODES_H

#include <tenure/capture.h>

#include "gpu/backend.h"

typedef struct tnri_node_address {
    uint64_t node; /* number in the walk, a parent's before its children's */
    unsigned depth;
    const char *kernel; /* its name, if it is wanted, the node is a kernel and the driver tells */
    tnr_audit_place place;
    size_t offset;     /* as in tnr_audit_finding */
    uintptr_t address; /* a word that may be one; of copies and sets the first byte touched */
    size_t bytes;      /* of copies and sets: from `address` to the last byte touched; else 1 */
} tnri_node_address;

enum { TNRI_UNREAD_MAX = 16 };

/* A node that was not read, or not all of it. */
typedef struct tnri_unread {
    uint64_t node;
    unsigned depth;
    int type;           /* CUgraphNodeType, or one that is newer */
    const char *kernel; /* as above */
} tnri_unread;

typedef struct tnri_nodes_sums {
    uint64_t nodes, kernels, copies, sets, others, children, unread;
    tnri_unread first[TNRI_UNREAD_MAX]; /* of the unread ones */
} tnri_nodes_sums;

/* Called for each word that could be an address. */
typedef tnr_status (*tnri_node_visit)(void *user, const tnri_node_address *found);

/* Walks a graph. Stops at the first error of the visitor, of host memory, or of the driver; that
 * the driver does not tell something is no such error. A name costs a call for each kernel. */
tnr_status tnri_nodes_walk(CUgraph graph, int wants_names, tnri_node_visit visit, void *user,
                           tnri_nodes_sums *sums);

#endif
