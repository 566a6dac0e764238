/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Effects of operations on the model, and the questions about blocks: see model.h. Which operations
 * are legal is in model_legal.c, captures are in model_graph.c.
 */
#include "model.h"

#include <stdlib.h>

#include "model_graph.h"

#define MIB ((size_t)1 << 20)

void model_begin(model *self, const fuzz_setup *setup)
{
    static const uint8_t nothing[ORDER_COMPONENTS];
    memset(self, 0, sizeof(*self));
    self->devices = setup->devices;
    self->has_peer_graphs = setup->peer_graphs;
    self->memory_bytes = setup->memory_bytes;
    const char *pages = strstr(setup->conf, "chunk_mb:");
    self->page_bytes = pages == NULL ? 2 * MIB : strtoull(pages + 9, NULL, 10) * MIB;
    self->pools[0].is_there = 1;
    self->pools[MODEL_HOST_POOL] =
        (model_pool){.is_there = 1, .is_host = 1, .is_open = setup->devices == 2};
    for (int d = 0; d < FUZZ_DEVICES; d++) {
        self->limit_bytes[d] = setup->memory_bytes;
        self->limit_bytes[FUZZ_DEVICES + d] = UINT64_MAX;
        self->order.legacy[d] = -1;
    }
    /* The default streams, of device 0: its context is the current one. */
    for (int i = 0; i < 2; i++) {
        self->streams[i].is_there = 1;
        self->streams[i].is_known = 1; /* free_sync covers them in any case */
        self->streams[i].component = (int8_t)order_open(&self->order, 0, 1, nothing);
    }
    self->order.legacy[0] = self->streams[0].component;
    self->order.is_blocking[self->streams[0].component] = 0;
}

/* ---- questions ------------------------------------------------------------------------------ */

int model_overlap(const model *self, uintptr_t base, size_t bytes)
{
    for (int i = 0; i < self->live_count; i++) {
        const model_block *block = &self->blocks[self->live[i]];
        size_t held = block->reserved > 0 ? block->reserved : block->bytes;
        if (block->base < base + bytes && base < block->base + held)
            return self->live[i];
    }
    return -1;
}

int model_is_ordered(model *self, const model_block *block, const model_stream *stream,
                     int is_write)
{
    order_clock now = order_now(&self->order, stream->component);
    if (now.at[block->ready_on] < block->ready && stream->component != block->ready_on)
        return 0;
    if (now.at[block->writer] < block->written)
        return 0;
    return !is_write || order_covers(&now, &block->reads);
}

int model_is_covered(model *self, const model_block *block, int *component)
{
    order_clock home = order_now(&self->order, block->home);
    for (int i = 0; i < ORDER_COMPONENTS; i++)
        if (block->open.at[i] > home.at[i] && (block->marked >> i & 1) == 0) {
            *component = i;
            return 0;
        }
    return 1;
}

int model_is_asleep(const model *self, int device, int pool)
{
    return pool == 0 ? self->default_asleep[device] : self->pools[pool].is_asleep;
}

int model_is_registered(const model *self, int device, int pool)
{
    return pool == 0 ? self->default_registered[device] : self->pools[pool].is_registered;
}

int model_is_open(const model *self, int device, int pool)
{
    if (pool == FUZZ_POOLS)
        return self->device_open[device];
    return pool == 0 ? self->default_open[device] : self->pools[pool].is_open;
}

int model_must_fit(const model *self, int device, int pool, size_t bytes)
{
    /* Nobody but their pool gets what lies idle in segments. */
    size_t most = bytes + 4 * MIB + self->owned_bytes[device] - self->pools[pool].idle_bytes;
    /* What graphs keep, and until when, is not known here; a graph that is gone may keep something
     * until its last launch has ended and its end was noticed. */
    if (self->has_faults || self->has_wide_chunks || self->captures > 0 ||
        self->memory_bytes < self->headroom_bytes)
        return 0;
    /* Pools of graphs of another thread: that of an open capture, and those whose ends the driver
     * has not told of yet. */
    most += self->besides * 24 * MIB;
    for (int p = 0; p < FUZZ_POOLS;
         p++) /* what such a pool has is nobody else's, and is not moved */
        if (model_is_registered(self, device, p))
            return 0;
    for (int i = 0; i < self->live_count; i++) {
        const model_block *block = &self->blocks[self->live[i]];
        if (model_place(block) == device && !self->pools[block->pool].is_foreign)
            most += block->bytes + 4 * MIB;
    }
    size_t limit = self->limit_bytes[device];
    if (pool > 0 && self->pools[pool].limit > 0 && self->pools[pool].limit < limit)
        limit = self->pools[pool].limit;
    if (limit > self->memory_bytes - self->headroom_bytes)
        limit = self->memory_bytes - self->headroom_bytes;
    return most <= limit;
}

/* ---- blocks --------------------------------------------------------------------------------- */

model_block *model_block_begin(model *self, int slot, uintptr_t base)
{
    model_block *block = &self->blocks[slot];
    memset(block, 0, sizeof(*block));
    block->base = base;
    self->live_at[slot] = (uint8_t)self->live_count;
    self->live[self->live_count++] = (uint8_t)slot;
    return block;
}

void model_block_end(model *self, int slot)
{
    uint8_t last = self->live[--self->live_count];
    self->live[self->live_at[slot]] = last;
    self->live_at[last] = self->live_at[slot];
    self->blocks[slot].base = 0;
    graph_forget(self, slot);
}

void model_did_malloc(model *self, const fuzz_op *op, uintptr_t base, size_t bytes, size_t reserved)
{
    model_block *block = model_block_begin(self, op->block, base);
    const model_stream *stream = &self->streams[op->stream];
    int component = stream->component;
    block->bytes = bytes;
    block->reserved = reserved;
    block->device = (uint8_t)self->order.device[component];
    block->pool = op->pool;
    block->home = (uint8_t)component;
    block->ready_on = (uint8_t)component;
    block->writer = (uint8_t)component;
    if (stream->graph != 0 && reserved == 0)
        graph_did_malloc(self, op->block, op->stream);
    else
        block->ready = order_point(&self->order, component); /* Tenure's own waits come before it */
    self->live_blocks[block->device]++;
    self->requested_bytes[block->device] += bytes;
    self->is_used[block->device] = 1;
    self->streams[op->stream].is_known = 1;
}

void model_did_free(model *self, const fuzz_op *op)
{
    model_block *block = &self->blocks[op->block];
    if (block->is_range)
        range_did_free(self, op->block);
    self->live_blocks[model_place(block)]--;
    self->requested_bytes[model_place(block)] -= block->bytes;
    model_block_end(self, op->block);
    if (op->kind == FUZZ_FREE_ON)
        self->streams[op->stream].is_known = 1;
}

void model_did_access(model *self, int slot, int stream_slot, int is_write)
{
    model_block *block = &self->blocks[slot];
    const model_stream *stream = &self->streams[stream_slot];
    if (stream->graph != 0) {
        graph_did_access(self, slot, stream_slot, is_write);
        return;
    }
    int component = stream->component;
    uint32_t ticket = order_queue(&self->order, component);
    if (is_write) {
        memset(&block->reads, 0, sizeof(block->reads));
        block->writer = (uint8_t)component;
        block->written = ticket;
    } else {
        block->reads.at[component] = ticket;
    }
    if (component != block->home)
        block->open.at[component] = ticket;
    if (self->order.device[component] != block->device)
        block->peers.at[component] = ticket;
}

/* Contents stay, unless they are to be dropped. What comes back is ordered after all that came
 * before, in the stream that it comes back in and nowhere else. */
void model_did_park(model *self, const fuzz_op *op)
{
    model_block *block = &self->blocks[op->block];
    int component = self->streams[op->stream].component;
    self->streams[op->stream].is_known = 1;
    block->is_parked = op->kind == FUZZ_PARK;
    if (op->kind == FUZZ_PARK) {
        if (op->n == 2 || (op->n == 0 && block->content == 2))
            block->is_tagged = 0;
        return;
    }
    memset(&block->reads, 0, sizeof(block->reads));
    memset(&block->open, 0, sizeof(block->open));
    memset(&block->launches, 0, sizeof(block->launches));
    block->written = 0;
    block->ready_on = (uint8_t)component;
    block->ready = order_point(&self->order, component); /* the library may queue nothing there */
}

static void clock_cover(order_clock *open, const order_clock *clock)
{
    for (int i = 0; i < ORDER_COMPONENTS; i++)
        if (open->at[i] <= clock->at[i])
            open->at[i] = 0;
}

/* Tenure keeps the block until everything that has this clock is over. */
static void block_cover(model_block *block, const order_clock *clock)
{
    clock_cover(&block->open, clock);
    clock_cover(&block->launches, clock);
}

/* The same, until everything that is queued on the component so far is over. */
static void block_cover_stream(model *self, model_block *block, int component)
{
    order_clock now = order_now(&self->order, component);
    block_cover(block, &now);
}

void model_did_mark(model *self, const fuzz_op *op)
{
    model_block *block = &self->blocks[op->block];
    model_stream *stream = &self->streams[op->stream];
    if (op->kind == FUZZ_KEEP) {
        block_cover(block, &self->events[op->event].clock);
        return;
    }
    stream->is_known = 1;
    if (stream->graph != 0)
        graph_did_mark(self, op);
    else if (op->kind == FUZZ_USE && stream->component != block->home)
        block_cover_stream(self, block, stream->component);
    else if (op->kind == FUZZ_USE_STREAM && stream->component != block->home)
        block->marked |= 1u << stream->component;
}

/* ---- streams and events --------------------------------------------------------------------- */

void model_did_record(model *self, const fuzz_op *op)
{
    model_event *event = &self->events[op->event];
    const model_stream *stream = &self->streams[op->stream];
    event->is_there = 1;
    event->is_recorded = 1;
    event->is_told = op->n == 1;
    event->is_late = op->n == 2;
    event->component = stream->component;
    event->device = (uint8_t)self->order.device[stream->component];
    event->graph = stream->graph;
    event->capture_stream = op->stream;
    if (stream->graph != 0) {
        graph_did_record(self, op);
        return;
    }
    (void)order_queue(&self->order, stream->component);
    event->clock = self->order.clocks[stream->component];
    if (event->is_told)
        self->streams[op->stream].is_known = 1;
}

void model_did_wait(model *self, const fuzz_op *op)
{
    const model_event *event = &self->events[op->event];
    model_stream *stream = &self->streams[op->stream];
    if (event->graph != 0) {
        graph_did_wait(self, op);
        return;
    }
    order_join(&self->order.clocks[stream->component], &event->clock);
    (void)order_queue(&self->order, stream->component);
    if (op->n != 0)
        stream->is_known = 1;
}

/* All of a device's work is over. */
static void device_synced(model *self, int device)
{
    for (int i = 0; i < ORDER_COMPONENTS; i++)
        if (self->order.device[i] == device)
            self->order.host.at[i] = self->order.tickets[i];
}

void model_did_sync(model *self, const fuzz_op *op)
{
    if (op->kind == FUZZ_SYNC_EVENT || op->kind == FUZZ_QUERY) {
        order_join(&self->order.host, &self->events[op->event].clock);
    } else if (op->kind == FUZZ_SYNC_STREAM) {
        const model_stream *stream = &self->streams[op->stream];
        order_join(&self->order.host, &self->order.clocks[stream->component]);
    } else {
        device_synced(self, op->device);
    }
}

/* Closing waits for everything that the peer has been given. */
void model_did_change_access(model *self, const fuzz_op *op)
{
    uint8_t is_open = op->n != 0;
    if (op->kind == FUZZ_ACCESS_ALL)
        self->device_open[op->device] = is_open;
    if (op->kind == FUZZ_ACCESS_ALL || op->pool == 0)
        self->default_open[op->device] = is_open;
    for (int i = 1; i < FUZZ_POOLS; i++)
        if (op->kind == FUZZ_ACCESS_ALL ? self->pools[i].device == op->device : i == op->pool)
            self->pools[i].is_open =
                self->pools[i].is_host ? self->devices == 2 : is_open && !self->pools[i].is_foreign;
    if (!is_open)
        device_synced(self, 1 - op->device);
}

int model_did_create_stream(model *self, const fuzz_op *op)
{
    uint8_t needed[ORDER_COMPONENTS] = {0};
    model_stream *stream = &self->streams[op->stream];
    for (int i = 0; i < self->live_count; i++)
        needed[self->blocks[self->live[i]].home] = 1;
    int component = order_open(&self->order, op->device, op->n != 0, needed);
    if (component < 0)
        return -1;
    stream->is_there = 1;
    stream->is_known = op->m != 0;
    self->ended_known &= ~(1u << component); /* that was said of the stream before */
    stream->graph = 0;
    stream->component = (int8_t)component;
    return 0;
}

void model_did_destroy_stream(model *self, const fuzz_op *op)
{
    model_stream *stream = &self->streams[op->stream];
    int component = stream->component;
    for (int i = 0; i < self->live_count; i++) {
        model_block *block = &self->blocks[self->live[i]];
        if ((block->marked >> component & 1) == 0)
            continue;
        block->marked &= ~(1u << component); /* the use ended with the stream */
        block_cover_stream(self, block, component);
    }
    if (stream->graph != 0)
        graph_did_destroy_stream(self, op->stream);
    self->order.is_open[component] = 0;
    for (int i = 0; i < FUZZ_EVENTS; i++)
        if (self->events[i].component == component)
            self->events[i].is_late = 0; /* its handle, and its component, may be another's soon */
    self->ended_known &= ~(1u << component);
    self->ended_known |= (uint32_t)stream->is_known << component;
    stream->is_there = 0;
}
