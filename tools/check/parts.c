/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of graphs: see parts.h. */
#include "check/parts.h"

#include <stdlib.h>

#include "service.h"

enum {
    EVENTS_MAX = 64, /* a bit each */
    PARTS_MAX = 256,
    DEPTH_MAX = 32,
    /* Edges come in the order in which they were made, or in the reverse one: then two rounds
     * carry everything through a graph. One in which they do not is not known. */
    ROUNDS_MAX = 256
};
static const size_t NONE = SIZE_MAX;

/* A node. A child graph has two steps: it begins, and it ends. */
typedef struct step {
    CUgraphNode node; /* null: an end */
    size_t end;       /* the step of its end, or its own */
    uint64_t waits, records;
} step;

typedef struct edge {
    size_t from, to; /* steps */
} edge;

/* A graph and its child graphs, as one. */
typedef struct order {
    step *steps;
    edge *edges;
    size_t count, room, edges_count, edges_room;
    int is_whole; /* 0: something could not be read, or there was no memory */
} order;

CUgraphNode *check_graph_nodes(CUgraph graph, size_t *count)
{
    CUgraphNode *nodes = NULL;
    CUresult result = REAL(cuGraphGetNodes, (graph, NULL, count));
    if (result == CUDA_SUCCESS && *count > 0)
        nodes = malloc(*count * sizeof(CUgraphNode));
    if (nodes != NULL)
        result = REAL(cuGraphGetNodes, (graph, nodes, count));
    if (result == CUDA_SUCCESS)
        return nodes;
    free(nodes);
    *count = 1;
    return NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* 1: there is room for one more. */
static int order_grow(order *self, void **list, size_t count, size_t *room, size_t bytes)
{
    if (count < *room)
        return 1;
    size_t more = *room * 2 + 64;
    void *grown = realloc(*list, more * bytes);
    if (grown == NULL) {
        self->is_whole = 0;
        return 0;
    }
    *list = grown;
    *room = more;
    return 1;
}

static void step_add(order *self, CUgraphNode node)
{
    void *list = self->steps;
    int has_room = order_grow(self, &list, self->count, &self->room, sizeof(step));
    self->steps = list;
    if (has_room) {
        self->steps[self->count] = (step){node, self->count, 0, 0};
        self->count++;
    }
}

static void edge_add(order *self, size_t from, size_t to)
{
    void *list = self->edges;
    int has_room = order_grow(self, &list, self->edges_count, &self->edges_room, sizeof(edge));
    self->edges = list;
    if (has_room)
        self->edges[self->edges_count++] = (edge){from, to};
}

/* Of what begins with a node. */
static int by_address(const void *a, const void *b)
{
    uintptr_t first = (uintptr_t) * (const CUgraphNode *)a;
    uintptr_t second = (uintptr_t) * (const CUgraphNode *)b;
    return (first > second) - (first < second);
}

/* Of those of one graph, which lie in a row. */
static size_t step_find(const order *self, size_t first, size_t count, CUgraphNode node)
{
    const step key = {.node = node};
    const step *found = bsearch(&key, &self->steps[first], count, sizeof(*found), by_address);
    return found == NULL ? NONE : (size_t)(found - self->steps);
}

static void edges_read(order *self, CUgraph graph, size_t first, size_t nodes)
{
    size_t count = 0;
    CUresult result = REAL(cuGraphGetEdges_v2, (graph, NULL, NULL, NULL, &count));
    size_t room = count + 1;
    CUgraphNode *from = malloc(room * sizeof(CUgraphNode)), *to = malloc(room * sizeof(*to));
    CUgraphEdgeData *data = calloc(room, sizeof(*data));
    if (from == NULL || to == NULL || data == NULL)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS && count > 0)
        result = REAL(cuGraphGetEdges_v2, (graph, from, to, data, &count));
    self->is_whole &= result == CUDA_SUCCESS;
    for (size_t i = 0; i < count && self->is_whole; i++) {
        size_t before = step_find(self, first, nodes, from[i]);
        size_t after = step_find(self, first, nodes, to[i]);
        if (before == NONE || after == NONE)
            self->is_whole = 0;
        else
            edge_add(self, self->steps[before].end, after);
    }
    free(from);
    free(to);
    free(data);
}

static void graph_read(order *self, CUgraph graph, size_t around, unsigned depth);

static void child_read(order *self, size_t at, unsigned depth)
{
    CUgraph child = NULL;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraphNode node = self->steps[at].node;
    self->is_whole &= REAL(cuGraphNodeGetType, (node, &type)) == CUDA_SUCCESS;
    if (type != CU_GRAPH_NODE_TYPE_GRAPH)
        return;
    self->steps[at].end = self->count;
    step_add(self, NULL);
    if (REAL(cuGraphChildGraphNodeGetGraph, (node, &child)) == CUDA_SUCCESS && self->is_whole)
        graph_read(self, child, at, depth + 1);
    else
        self->is_whole = 0;
}

/* `around`: the node whose child the graph is, which begins before all of its nodes and ends after
 * them. */
static void graph_read(order *self, CUgraph graph, size_t around, unsigned depth)
{
    size_t count = 0, first = self->count;
    CUgraphNode *nodes = check_graph_nodes(graph, &count);
    self->is_whole &= (nodes != NULL || count == 0) && depth < DEPTH_MAX;
    for (size_t i = 0; i < count && self->is_whole; i++)
        step_add(self, nodes[i]);
    free(nodes);
    if (!self->is_whole || count == 0)
        return;
    qsort(&self->steps[first], count, sizeof(step), by_address);
    for (size_t i = 0; i < count && self->is_whole; i++) {
        self->steps[first + i].end = first + i;
        child_read(self, first + i, depth);
    }
    if (self->is_whole)
        edges_read(self, graph, first, count);
    for (size_t i = first; i < first + count && around != NONE && self->is_whole; i++) {
        edge_add(self, around, i);
        edge_add(self, self->steps[i].end, self->steps[around].end);
    }
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Each event has a bit at its node. A wait for an event that the graph itself records comes after
 * that record, whichever of the two comes first. */
static void events_mark(order *self, const check_parts *parts)
{
    size_t at[EVENTS_MAX];
    for (size_t k = 0; k < parts->events_count; k++)
        at[k] = NONE;
    for (size_t i = 0; i < self->count; i++)
        for (size_t k = 0; k < parts->events_count; k++) {
            if (parts->events[k].node != self->steps[i].node)
                continue;
            at[k] = i;
            *(parts->events[k].is_wait ? &self->steps[i].waits : &self->steps[i].records) |=
                UINT64_C(1) << k;
        }
    for (size_t k = 0; k < parts->events_count; k++)
        for (size_t i = 0; i < parts->events_count; i++)
            if (parts->events[k].event == parts->events[i].event && !parts->events[k].is_wait &&
                parts->events[i].is_wait && at[k] != NONE && at[i] != NONE)
                edge_add(self, at[k], at[i]);
}

/* 1 if something was not known at the other end. */
static int edge_carry(const order *self, edge one)
{
    step *from = &self->steps[one.from], *to = &self->steps[one.to];
    uint64_t waits = to->waits | from->waits, records = from->records | to->records;
    int has_grown = waits != to->waits || records != from->records;
    to->waits = waits;
    from->records = records;
    return has_grown;
}

/* Carries the bits of waits forwards and those of records back. 0: it takes too long. */
static int order_settle(const order *self)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        int has_grown = 0;
        for (size_t i = 0; i < self->edges_count; i++)
            has_grown |=
                edge_carry(self, self->edges[round % 2 == 0 ? i : self->edges_count - 1 - i]);
        if (!has_grown)
            return 1;
    }
    return 0;
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* The part that has these bits, or a new one. NONE: there are too many. */
static size_t part_of(check_parts *self, const step *one)
{
    size_t i = 0;
    while (i < self->count &&
           (self->list[i].waits != one->waits || self->list[i].records != one->records))
        i++;
    if (i == PARTS_MAX)
        return NONE;
    if (i == self->count)
        self->list[self->count++] = (check_part){one->waits, one->records, NULL};
    return i;
}

static void parts_drop(check_parts *self)
{
    free(self->list);
    free(self->nodes);
    self->list = NULL;
    self->nodes = NULL;
    self->count = self->nodes_count = 0;
}

static void parts_fill(check_parts *self, const order *from)
{
    self->list = calloc(PARTS_MAX, sizeof(*self->list));
    self->nodes = calloc(from->count, sizeof(*self->nodes));
    int is_whole = self->list != NULL && self->nodes != NULL;
    for (size_t i = 0; i < from->count && is_whole; i++) {
        size_t part = part_of(self, &from->steps[i]);
        is_whole = part != NONE;
        if (from->steps[i].node != NULL)
            self->nodes[self->nodes_count++] = (check_part_of){from->steps[i].node, part};
    }
    if (!is_whole)
        parts_drop(self);
}

void check_parts_read(check_parts *self, CUgraph graph)
{
    order all = {.is_whole = 1};
    if (self->events_count == 0 || self->events_count > EVENTS_MAX)
        return;
    graph_read(&all, graph, NONE, 0);
    if (all.is_whole)
        events_mark(&all, self);
    if (all.is_whole && order_settle(&all))
        parts_fill(self, &all);
    if (self->list != NULL)
        qsort(self->nodes, self->nodes_count, sizeof(*self->nodes), by_address);
    free(all.steps);
    free(all.edges);
}

const check_part *check_parts_find(const check_parts *self, CUgraphNode node)
{
    const check_part_of key = {.node = node};
    const check_part_of *found =
        self->list == NULL ? NULL
                           : bsearch(&key, self->nodes, self->nodes_count, sizeof(key), by_address);
    return found == NULL ? NULL : &self->list[found->part];
}

int check_parts_event(check_parts *self, CUgraphNode node, CUevent event, int is_wait)
{
    if (self->events_count == self->events_room) {
        size_t room = self->events_room * 2 + 8;
        check_node_event *grown = realloc(self->events, room * sizeof(*grown));
        if (grown == NULL)
            return 0;
        self->events = grown;
        self->events_room = room;
    }
    self->events[self->events_count++] = (check_node_event){node, event, is_wait};
    return 1;
}

void check_parts_event_set(check_parts *self, CUgraphNode node, CUevent event)
{
    for (size_t i = 0; i < self->events_count; i++)
        if (self->events[i].node == node)
            self->events[i].event = event;
}

void check_parts_make(check_parts *self)
{
    size_t made = 0;
    while (made < self->count && (self->list[made].stream = check_stream_part_make()) != NULL)
        made++;
    if (made == self->count)
        return;
    self->count = made;
    check_parts_end(self);
}

void check_parts_end(check_parts *self)
{
    for (size_t i = 0; i < self->count; i++)
        if (self->list[i].stream != NULL)
            check_stream_part_end(self->list[i].stream);
    parts_drop(self);
}

/* ---- launches ------------------------------------------------------------------------------- */

static void waits_follow(const check_parts *self, check_stream *stream, uint64_t which)
{
    for (size_t i = 0; i < self->events_count; i++)
        if (self->events[i].is_wait && (self->list == NULL || (which >> i & 1) != 0))
            check_stream_follow(stream, check_event_get(self->events[i].event));
}

void check_parts_begin(const check_parts *self, check_stream *stream)
{
    if (self->list == NULL)
        waits_follow(self, stream, 0);
    for (size_t i = 0; i < self->count; i++) {
        const check_part *part = &self->list[i];
        check_stream_part_begin(part->stream, stream);
        waits_follow(self, part->stream, part->waits);
        check_stream_part_work(part->stream, stream);
    }
    for (size_t i = 0; i < self->count; i++)
        check_stream_follow_stream(stream, self->list[i].stream);
}

/* Where several nodes record one event, it stands for all of them. */
static uint64_t records_of(const check_parts *self, CUevent event)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < self->events_count; i++)
        if (!self->events[i].is_wait && self->events[i].event == event)
            bits |= UINT64_C(1) << i;
    return bits;
}

/* What comes before any of these records. */
static check_moment *moment_before(const check_parts *self, uint64_t records)
{
    check_moment *moment = NULL;
    for (size_t i = 0; i < self->count; i++) {
        if ((self->list[i].records & records) == 0)
            continue;
        if (moment == NULL)
            moment = check_moment_of(self->list[i].stream);
        else
            check_moment_cover(moment, self->list[i].stream);
    }
    return moment;
}

void check_parts_record(const check_parts *self, const check_stream *stream)
{
    for (size_t i = 0; i < self->events_count; i++) {
        const check_node_event *one = &self->events[i];
        if (!one->is_wait)
            check_event_set(one->event, self->list == NULL
                                            ? check_moment_of(stream)
                                            : moment_before(self, records_of(self, one->event)));
    }
}
