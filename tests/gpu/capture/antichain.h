/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least memory that any allocator needs for blocks of a graph.
 *
 * Two blocks may share memory only if all uses of one come before the first use of the other, by
 * the graph's edges. That is a partial order, since a block's end is never before its beginning. A
 * set of blocks of which no two may share is an antichain, and its bytes together are needed at
 * once. The heaviest of them is the bound; by Dilworth's theorem, with weights, it is the sum of
 * all bytes minus the most that can be handed on from blocks to later ones: a maximum flow, which
 * Dinic's algorithm finds.
 */
#ifndef TENURE_TESTS_GPU_ANTICHAIN_H
#define TENURE_TESTS_GPU_ANTICHAIN_H

#include <stddef.h>
#include <stdint.h>

enum { ANTICHAIN_STREAMS = 4 };

/* Where a block begins and ends: for each stream how many of its operations come before the first
 * use, and how many have to be over before the memory is free. */
typedef struct antichain_block {
    uint64_t bytes;
    uint32_t begin[ANTICHAIN_STREAMS], end[ANTICHAIN_STREAMS];
} antichain_block;

/* The bytes of the heaviest antichain; 0 without host memory. */
uint64_t antichain_bytes(const antichain_block *blocks, size_t count);

#endif
