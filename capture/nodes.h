/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the nodes of a CUDA graph: every aligned word of kernel parameters, in both forms in which
 * a kernel can be launched, and the addresses of copies and sets; child graphs in place.
 *
 * The driver tells a kernel's parameters as an array of pointers, whose sizes it tells one by one,
 * or, if it was launched so, as one packed buffer with its size; the keys of the latter come in
 * either order. Any thread; calls the driver.
 */
#ifndef TNRI_CAPTURE_NODES_H
#define TNRI_CAPTURE_NODES_H

#include <tenure/capture.h>

#include "driver/driver.h"

typedef struct tnri_node_address {
    uint64_t node; /* number in the walk */
    unsigned depth;
    const char *kernel;
    tnr_audit_place place;
    size_t offset;
    uintptr_t address; /* a word that may be one */
} tnri_node_address;

typedef struct tnri_nodes_sums {
    uint64_t nodes, kernels, copies, sets, others, children, unread;
} tnri_nodes_sums;

/* Called for each word that could be an address. */
typedef tnr_status (*tnri_node_visit)(void *user, const tnri_node_address *found);

/* Walks a graph; stops at the first error of the visitor, the driver or host memory. */
tnr_status tnri_nodes_walk(CUgraph graph, tnri_node_visit visit, void *user,
                           tnri_nodes_sums *sums);

#endif
