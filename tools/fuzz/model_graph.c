/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures in the model: see model_graph.h.
 */
#include "model_graph.h"

static model_graph *capturing(model *self)
{
    return &self->graphs[self->capturing - 1];
}

/* What is known of a block inside this capture; of one from outside nothing yet. */
static model_inside *inside_of(model *self, int slot)
{
    model_inside *inside = &self->inside[slot];
    if (inside->capture != self->captures) {
        memset(inside, 0, sizeof(*inside));
        inside->capture = self->captures;
        inside->home = FUZZ_STREAMS; /* no stream of the capture */
    }
    return inside;
}

static uint32_t node_add(model_graph *graph, int stream)
{
    int branch = graph->branch[stream];
    graph->clocks[stream].at[branch] = ++graph->tickets[branch];
    return graph->tickets[branch];
}

static void range_add(model_graph *graph, const model_block *block, int is_outside)
{
    for (int i = 0; i < graph->ranges_count; i++)
        if (graph->ranges[i].base == block->base && graph->ranges[i].bytes >= block->bytes)
            return;
    if (graph->ranges_count < MODEL_RANGES)
        graph->ranges[graph->ranges_count++] = (model_range){block->base, block->bytes, is_outside};
}

/* ---- inside --------------------------------------------------------------------------------- */

void graph_did_malloc(model *self, int slot, int stream)
{
    model_inside *inside = inside_of(self, slot);
    model_block *block = &self->blocks[slot];
    memset(inside, 0, sizeof(*inside));
    inside->capture = self->captures;
    inside->home = (uint8_t)stream;
    inside->begin = inside->writer = capturing(self)->branch[stream];
    inside->ready = node_add(capturing(self), stream);
    block->graph = (uint8_t)self->capturing;
    block->is_captured = 1;
    block->pool = capturing(self)->pool == 0 ? FUZZ_POOLS : capturing(self)->pool;
    /* Its memory may have been another block's before, which the graph wrote. */
    capturing(self)->writes[slot] = 1;
    range_add(capturing(self), block, 0);
}

int graph_is_ordered(model *self, int slot, int stream, int is_write)
{
    const model_inside *inside = inside_of(self, slot);
    const order_clock *clock = &capturing(self)->clocks[stream];
    int is_own = self->blocks[slot].graph == self->capturing;
    if (is_own && clock->at[inside->begin] < inside->ready)
        return 0;
    if (clock->at[inside->writer] < inside->written)
        return 0;
    return !is_write || order_covers(clock, &inside->reads);
}

void graph_did_access(model *self, int slot, int stream, int is_write)
{
    model_graph *graph = capturing(self);
    model_inside *inside = inside_of(self, slot);
    uint32_t ticket = node_add(graph, stream);
    if (is_write) {
        memset(&inside->reads, 0, sizeof(inside->reads));
        inside->writer = graph->branch[stream];
        inside->written = ticket;
        graph->writes[slot] = 1;
    } else {
        inside->reads.at[graph->branch[stream]] = ticket;
        graph->reads[slot] = 1;
    }
    /* One of its own stream too: that may be redirected before the free. */
    inside->open.at[graph->branch[stream]] = ticket;
    if (self->blocks[slot].graph != self->capturing)
        range_add(graph, &self->blocks[slot], 1);
    if (self->blocks[slot].device != graph->device)
        graph->peer_pools |= (uint8_t)(1u << self->blocks[slot].pool);
}

void graph_did_mark(model *self, const fuzz_op *op)
{
    model_inside *inside = inside_of(self, op->block);
    const order_clock *clock = &capturing(self)->clocks[op->stream];
    if (op->kind == FUZZ_USE_STREAM)
        inside->marked |= 1u << op->stream;
    for (int i = 0; op->kind == FUZZ_USE && i < ORDER_COMPONENTS; i++)
        if (inside->open.at[i] <= clock->at[i])
            inside->open.at[i] = 0;
}

/* The free is ordered on the block's stream, or on the one of free_on as well. */
int graph_is_covered(model *self, const fuzz_op *op)
{
    const model_inside *inside = inside_of(self, op->block);
    const model_graph *graph = capturing(self);
    order_clock known = graph->clocks[inside->home];
    if (op->kind == FUZZ_FREE_ON)
        order_join(&known, &graph->clocks[op->stream]);
    for (int i = 0; i < FUZZ_STREAMS; i++)
        if (inside->marked >> i & 1)
            order_join(&known, &graph->clocks[i]);
    return order_covers(&known, &inside->open);
}

void graph_did_record(model *self, const fuzz_op *op)
{
    model_graph *graph = capturing(self);
    (void)node_add(graph, op->stream);
    self->events[op->event].clock = graph->clocks[op->stream];
}

void graph_did_wait(model *self, const fuzz_op *op)
{
    model_graph *graph = capturing(self);
    self->streams[op->stream].graph = (uint8_t)self->capturing;
    order_join(&graph->clocks[op->stream], &self->events[op->event].clock);
    (void)node_add(graph, op->stream);
}

/* The stream captures what comes next on a branch of its own, after what the other stands for (or
 * after nothing); or it joins the other. */
void graph_did_redirect(model *self, const fuzz_op *op)
{
    model_graph *graph = capturing(self);
    order_clock *clock = &graph->clocks[op->stream];
    if (op->n == REDIRECT_ADD) {
        order_join(clock, &graph->clocks[op->other]);
        return;
    }
    graph->branch[op->stream] = (uint8_t)graph->branches++;
    if (op->n == REDIRECT_SET)
        *clock = graph->clocks[op->other];
    else
        memset(clock, 0, sizeof(*clock));
}

int graph_is_dispensable(const model *self, int stream)
{
    const model_graph *graph = &self->graphs[self->capturing - 1];
    for (int i = 0; i < self->live_count; i++) {
        const model_inside *inside = &self->inside[self->live[i]];
        if (inside->capture == self->captures &&
            (inside->home == stream || (inside->marked >> stream & 1)))
            return 0;
    }
    return stream != graph->origin && graph->branches < ORDER_COMPONENTS &&
           graph_is_behind(graph, stream);
}

/* Who has the slot next begins anew. */
void graph_did_destroy_stream(model *self, int stream)
{
    model_graph *graph = capturing(self);
    memset(&graph->clocks[stream], 0, sizeof(graph->clocks[stream]));
    graph->branch[stream] = (uint8_t)graph->branches++;
    graph->has_ended = 1;
    self->streams[stream].graph = 0;
}

/* ---- beginning and end ---------------------------------------------------------------------- */

void graph_did_begin(model *self, const fuzz_op *op)
{
    model_graph *graph = &self->graphs[op->graph];
    memset(graph, 0, sizeof(*graph));
    graph->state = GRAPH_CAPTURING;
    graph->branches = FUZZ_STREAMS;
    for (uint8_t i = 0; i < FUZZ_STREAMS; i++)
        graph->branch[i] = i;
    graph->pool = op->pool;
    graph->mode = (uint8_t)op->n;
    graph->origin = op->stream;
    graph->device = (uint8_t)self->order.device[self->streams[op->stream].component];
    self->captures++;
    self->capturing = op->graph + 1;
    self->streams[op->stream].graph = (uint8_t)self->capturing;
    self->streams[op->stream].is_known = 1;
}

int graph_is_behind(const model_graph *graph, int stream)
{
    return order_covers(&graph->clocks[graph->origin], &graph->clocks[stream]);
}

/* What a redirected stream captured before need not be joined. */
int graph_is_joined(const model *self, const model_graph *graph)
{
    int number = (int)(graph - self->graphs) + 1;
    for (int i = 0; i < FUZZ_STREAMS; i++)
        if (self->streams[i].graph == number && !graph_is_behind(graph, i))
            return 0;
    return 1;
}

void graph_did_end(model *self, const fuzz_op *op, int is_made)
{
    model_graph *graph = &self->graphs[op->graph];
    for (int i = 0; i < FUZZ_STREAMS; i++)
        if (self->streams[i].graph == op->graph + 1)
            self->streams[i].graph = 0;
    for (int i = 0; i < FUZZ_EVENTS; i++)
        if (self->events[i].graph == op->graph + 1) {
            self->events[i].graph = 0;
            self->events[i].is_recorded = 0; /* a place in a graph, and no time */
        }
    for (int i = 0; !is_made && i < self->live_count; i++)
        if (self->blocks[self->live[i]].graph == op->graph + 1)
            self->blocks[self->live[i]].graph = MODEL_UNWRITTEN;
    self->capturing = 0;
    graph->state = is_made ? GRAPH_READY : GRAPH_NONE;
}

/* ---- launches ------------------------------------------------------------------------------- */

static int ranges_meet(const model_range *range, uintptr_t base, size_t bytes)
{
    return range->base < base + bytes && base < range->base + range->bytes;
}

/* 1 if the graph's own memory holds any of the range. */
static int graph_holds(const model_graph *graph, uintptr_t base, size_t bytes)
{
    for (int r = 0; r < graph->ranges_count; r++)
        if (!graph->ranges[r].is_outside && ranges_meet(&graph->ranges[r], base, bytes))
            return 1;
    return 0;
}

int graph_is_threatened(const model *self, int number)
{
    const model_graph *graph = &self->graphs[number];
    for (int i = 0; i < self->live_count; i++) {
        const model_block *block = &self->blocks[self->live[i]];
        if (block->is_captured && block->graph != number + 1 &&
            graph_holds(graph, block->base, block->bytes))
            return 1;
    }
    /* What another graph refers to is kept for it, freed or not, unless the block was this graph's
     * own; that may have been long ago, so either answer is right. */
    for (int i = 0; i < FUZZ_GRAPHS; i++) {
        const model_graph *other = &self->graphs[i];
        for (int r = 0; i != number && other->state == GRAPH_READY && r < other->ranges_count; r++)
            if (other->ranges[r].is_outside &&
                graph_holds(graph, other->ranges[r].base, other->ranges[r].bytes))
                return 2;
    }
    return self->has_ghosts && graph->pool != 0 ? 2 : 0;
}

/* 1 if no launch has written the block yet: it is of another graph, or of a capture that came to
 * nothing. Until then its memory may still be what an earlier graph of the pool works with. */
static int block_is_unwritten(const model *self, const model_block *block, const model_graph *graph)
{
    if (block->graph == MODEL_UNWRITTEN)
        return 1;
    const model_graph *of = block->graph == 0 ? graph : &self->graphs[block->graph - 1];
    return of != graph && !of->is_launched;
}

int graph_is_launchable(model *self, const model_graph *graph, const model_stream *stream)
{
    if (graph->pool > 0 && self->pools[graph->pool].is_asleep)
        return 0;
    if (self->default_asleep[graph->device])
        return 0; /* a block that it refers to may sleep */
    for (int pool = 0; pool <= FUZZ_POOLS; pool++)
        if ((graph->peer_pools >> pool & 1) != 0 && (self->default_asleep[1 - graph->device] ||
                                                     !model_is_open(self, 1 - graph->device, pool)))
            return 0;
    for (int i = 1; i < FUZZ_POOLS; i++)
        if (self->pools[i].is_there && self->pools[i].is_asleep)
            return 0;
    order_clock now = order_now(&self->order, stream->component);
    if (!order_covers(&now, &graph->debts))
        return 0;
    if (range_is_lacking(self, graph))
        return 0;
    for (int i = 0; i < self->live_count; i++) {
        int slot = self->live[i];
        if ((graph->reads[slot] || graph->writes[slot]) &&
            (block_is_unwritten(self, &self->blocks[slot], graph) ||
             !model_is_ordered(self, &self->blocks[slot], stream, graph->writes[slot])))
            return 0;
    }
    return 1;
}

void graph_did_launch(model *self, const fuzz_op *op)
{
    model_graph *graph = &self->graphs[op->graph];
    int component = self->streams[op->stream].component;
    uint32_t ticket = order_queue(&self->order, component);
    graph->is_launched = 1;
    self->streams[op->stream].is_known = 1;
    for (int i = 0; i < self->live_count; i++) {
        model_block *block = &self->blocks[self->live[i]];
        if (graph->writes[self->live[i]]) {
            memset(&block->reads, 0, sizeof(block->reads));
            block->writer = (uint8_t)component;
            block->written = ticket;
            block->is_tagged = 0;
        } else if (graph->reads[self->live[i]]) {
            block->reads.at[component] = ticket;
        }
        if (graph->reads[self->live[i]] || graph->writes[self->live[i]])
            block->launches.at[component] = ticket;
        /* A graph keeps a range, and not its pages. */
        if ((graph->reads[self->live[i]] || graph->writes[self->live[i]]) && block->part_of != 0 &&
            component != block->home)
            block->open.at[component] = ticket;
        if ((graph->reads[self->live[i]] || graph->writes[self->live[i]]) &&
            block->device != graph->device)
            block->peers.at[component] = ticket;
        if (block->graph == op->graph + 1)
            block->ready = 0; /* from now on the launch is what uses must be after */
    }
}

void graph_did_destroy(model *self, const fuzz_op *op)
{
    model_graph *graph = &self->graphs[op->graph];
    for (int i = 0; i < self->live_count; i++) {
        model_block *block = &self->blocks[self->live[i]];
        if (block->graph == op->graph + 1)
            block->graph = graph->is_launched ? 0 : MODEL_UNWRITTEN;
    }
    for (int r = 0; r < graph->ranges_count; r++)
        self->has_ghosts |= graph->ranges[r].is_outside;
    graph->state = GRAPH_NONE;
}

/* Blocks of the graph's own are its pool's business from here on; for others it is the program that
 * must not let launches and its own accesses collide. */
void graph_forget(model *self, int slot)
{
    const model_block *block = &self->blocks[slot];
    for (int i = 0; i < FUZZ_GRAPHS; i++) {
        model_graph *graph = &self->graphs[i];
        int touches = graph->reads[slot] || graph->writes[slot];
        if (touches && graph->state != GRAPH_NONE && block->graph != i + 1) {
            if (graph->debts.at[block->ready_on] < block->ready)
                graph->debts.at[block->ready_on] = block->ready;
            if (graph->debts.at[block->writer] < block->written)
                graph->debts.at[block->writer] = block->written;
            if (graph->writes[slot])
                order_join(&graph->debts, &block->reads);
        }
        graph->reads[slot] = graph->writes[slot] = 0;
    }
    self->inside[slot].capture = 0;
}

int graph_references(const model *self, int slot)
{
    int count = 0;
    for (int i = 0; i < FUZZ_GRAPHS; i++)
        count += self->graphs[i].state != GRAPH_NONE &&
                 (self->graphs[i].reads[slot] || self->graphs[i].writes[slot]);
    return count;
}

int graph_owns(const model *self, uintptr_t base, size_t bytes, int except)
{
    for (int i = 0; i < FUZZ_GRAPHS; i++) {
        const model_graph *graph = &self->graphs[i];
        if (graph->state == GRAPH_NONE || i + 1 == except)
            continue;
        for (int r = 0; r < graph->ranges_count; r++)
            if (ranges_meet(&graph->ranges[r], base, bytes))
                return 1;
    }
    return 0;
}
