/* SPDX-License-Identifier: Apache-2.0 */
/* See antichain.h. */
#include "antichain.h"

#include <stdlib.h>
#include <string.h>

/* The flow network: source -> giver i (its bytes) -> taker j, wherever i is before j -> sink (the
 * taker's bytes). */
typedef struct network {
    const antichain_block *blocks;
    size_t count;
    unsigned char *before; /* count * count: i is before j */
    uint64_t *flow;        /* count * count: handed on from i to j */
    uint64_t *given, *taken;
    int *depth;           /* of givers, then of takers; -1: not reached */
    size_t *queue, *next; /* breadth first; where each node's search goes on */
} network;

static int is_before(const antichain_block *first, const antichain_block *second)
{
    for (int s = 0; s < ANTICHAIN_STREAMS; s++)
        if (first->end[s] > second->begin[s])
            return 0;
    return 1;
}

static int network_open(network *self, const antichain_block *blocks, size_t count)
{
    memset(self, 0, sizeof(*self));
    self->blocks = blocks;
    self->count = count;
    self->before = calloc(count * count, 1);
    self->flow = calloc(count * count, sizeof(self->flow[0]));
    self->given = calloc(count, sizeof(self->given[0]));
    self->taken = calloc(count, sizeof(self->taken[0]));
    self->depth = calloc(2 * count, sizeof(self->depth[0]));
    self->queue = calloc(2 * count, sizeof(self->queue[0]));
    self->next = calloc(2 * count, sizeof(self->next[0]));
    if (!self->before || !self->flow || !self->given || !self->taken || !self->depth ||
        !self->queue || !self->next)
        return 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            self->before[i * count + j] = i != j && is_before(&blocks[i], &blocks[j]);
    return 1;
}

static void network_close(network *self)
{
    free(self->before);
    free(self->flow);
    free(self->given);
    free(self->taken);
    free(self->depth);
    free(self->queue);
    free(self->next);
}

/* 1 if the edge from node a to node b, a giver and a taker or the reverse, can carry more. */
static int edge_is_open(const network *self, size_t a, size_t b)
{
    size_t n = self->count;
    return a < n ? self->before[a * n + b - n] : self->flow[b * n + a - n] > 0;
}

/* Finds how far each node is from the source. 1 if the sink can be reached. */
static int network_level(network *self)
{
    size_t n = self->count, head = 0, tail = 0;
    int reached = 0;
    for (size_t i = 0; i < 2 * n; i++)
        self->depth[i] = -1;
    for (size_t i = 0; i < n; i++)
        if (self->given[i] < self->blocks[i].bytes) {
            self->depth[i] = 0;
            self->queue[tail++] = i;
        }
    while (head < tail) {
        size_t a = self->queue[head++];
        if (a >= n && self->taken[a - n] < self->blocks[a - n].bytes)
            reached = 1;
        for (size_t b = a < n ? n : 0, end = b + n; b < end; b++)
            if (self->depth[b] < 0 && edge_is_open(self, a, b)) {
                self->depth[b] = self->depth[a] + 1;
                self->queue[tail++] = b;
            }
    }
    return reached;
}

/* Pushes up to `bytes` from a node to the sink, along growing depths. Returns what went. The depth
 * of the recursion is that of the levels. */
static uint64_t node_push(network *self, size_t a, uint64_t bytes)
{
    size_t n = self->count;
    if (a >= n) {
        uint64_t room = self->blocks[a - n].bytes - self->taken[a - n];
        if (room > 0) {
            uint64_t went = room < bytes ? room : bytes;
            self->taken[a - n] += went;
            return went;
        }
    }
    size_t first = a < n ? n : 0;
    for (; self->next[a] < n; self->next[a]++) {
        size_t b = first + self->next[a];
        if (self->depth[b] != self->depth[a] + 1 || !edge_is_open(self, a, b))
            continue;
        uint64_t *edge = a < n ? &self->flow[a * n + b - n] : &self->flow[b * n + a - n];
        uint64_t went = node_push(self, b, a < n || *edge > bytes ? bytes : *edge);
        if (went == 0)
            continue;
        *edge += a < n ? went : (uint64_t)0 - went;
        return went;
    }
    return 0;
}

uint64_t antichain_bytes(const antichain_block *blocks, size_t count)
{
    network self;
    uint64_t sum = 0, flow = 0;
    if (!network_open(&self, blocks, count)) {
        network_close(&self);
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        sum += blocks[i].bytes;
    while (network_level(&self)) {
        memset(self.next, 0, 2 * count * sizeof(self.next[0]));
        for (size_t i = 0; i < count; i++) {
            uint64_t went = 1;
            while (self.given[i] < blocks[i].bytes && went > 0) {
                went = node_push(&self, i, blocks[i].bytes - self.given[i]);
                self.given[i] += went;
                flow += went;
            }
        }
    }
    network_close(&self);
    return sum - flow;
}
