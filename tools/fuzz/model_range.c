/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges in the model: blocks of tnr_reserve whose pages have memory by themselves. See model.h.
 *
 * A slot stands for some pages next to each other, from their first commit until the range is
 * freed. Their decommit is to them what a free is to a block, with one difference: a graph that
 * refers to them keeps the range and not its pages. So its launches must be recorded, and it must
 * not be launched while pages that it refers to have no memory.
 */
#include "model.h"

#include "model_graph.h"

int range_next(const model *self, int range, int slot)
{
    for (int i = slot + 1; i < FUZZ_BLOCKS; i++)
        if (self->blocks[i].base != 0 && self->blocks[i].part_of == range + 1)
            return i;
    return -1;
}

/* How many blocks the library counts for pages with memory. */
static uint64_t pages_of(const model *self, size_t bytes)
{
    return (bytes + self->page_bytes - 1) / self->page_bytes;
}

size_t range_bytes(const model *self, int range)
{
    size_t bytes = 0;
    for (int i = range_next(self, range, -1); i >= 0; i = range_next(self, range, i))
        bytes += pages_of(self, self->blocks[i].bytes) * self->page_bytes;
    return bytes;
}

int range_is_lacking(const model *self, const model_graph *graph)
{
    for (int i = 0; i < self->live_count; i++) {
        int slot = self->live[i];
        if (self->blocks[slot].part_of != 0 && self->blocks[slot].bytes == 0 &&
            (graph->reads[slot] || graph->writes[slot]))
            return 1;
    }
    return graph->is_lacking;
}

/* The addresses that an operation names: of whole pages, up to the end of the range. */
static model_range window_of(const model *self, const fuzz_op *op)
{
    const model_block *range = &self->blocks[op->other];
    model_range window = {range->base + op->n * self->page_bytes, op->m * self->page_bytes, 0};
    size_t most = range->base + range->reserved - window.base;
    window.bytes = window.bytes < most ? window.bytes : most;
    return window;
}

/* ---- what is legal -------------------------------------------------------------------------- */

static const char *commit_allows(const model *self, const fuzz_op *op)
{
    const model_block *range = &self->blocks[op->other], *part = &self->blocks[op->block];
    if (range->base == 0 || range->reserved == 0 || range->part_of != 0 || range->bytes > 0 ||
        op->other == op->block)
        return "no such range";
    uint64_t pages = pages_of(self, range->reserved);
    if (op->m == 0 || op->n >= pages || op->m > pages - op->n)
        return "no such pages";
    for (int i = 0; i < FUZZ_STREAMS; i++)
        if (self->streams[i].is_there && self->streams[i].component == range->home &&
            self->streams[i].graph != 0)
            return "its stream is being captured, and may have to wait";
    model_range window = window_of(self, op);
    if (part->base != 0)
        return part->part_of == op->other + 1 && part->base == window.base &&
                       part->reserved == window.bytes
                   ? NULL
                   : "the slot holds another block";
    for (int i = range_next(self, op->other, -1); i >= 0; i = range_next(self, op->other, i))
        if (self->blocks[i].base < window.base + window.bytes &&
            window.base < self->blocks[i].base + self->blocks[i].reserved)
            return "other slots have some of the pages";
    return NULL;
}

static const char *decommit_allows(model *self, const fuzz_op *op)
{
    const model_block *part = &self->blocks[op->block];
    int component;
    if (part->base == 0 || part->part_of == 0)
        return "no pages of a range";
    if (op->n >= self->page_bytes)
        return "that reaches another page";
    return model_is_covered(self, part, &component) ? NULL : "a use is not recorded";
}

/* Work that is over, as the host knows, holds no page back: after a call that looks, the addresses
 * without memory fault. What is not known to be over may hold it, and so do graphs and failures. */
static const char *look_allows(const model *self, const fuzz_op *op)
{
    const model_block *range = &self->blocks[op->block];
    if (range->base == 0 || !range->is_range)
        return "no such range";
    if (self->capturing || self->beside != 0 || self->has_faults || self->captures > 0)
        return "a capture or a failure may hold pages back";
    if (model_is_registered(self, range->device, 0) || model_is_asleep(self, range->device, 0))
        return "its pool keeps its memory, or sleeps";
    for (int i = 0; i < ORDER_COMPONENTS; i++)
        if (self->order.host.at[i] < self->order.tickets[i])
            return "the host has not waited for everything";
    return NULL;
}

const char *range_allows(model *self, const fuzz_op *op)
{
    return op->kind == FUZZ_COMMIT_RANGE     ? commit_allows(self, op)
           : op->kind == FUZZ_DECOMMIT_RANGE ? decommit_allows(self, op)
                                             : look_allows(self, op);
}

const char *range_free_allows(model *self, const fuzz_op *op)
{
    int component;
    if (op->kind != FUZZ_FREE && op->kind != FUZZ_FREE_HOST)
        return "a range is freed whole";
    for (int i = range_next(self, op->block, -1); i >= 0; i = range_next(self, op->block, i)) {
        if (graph_references(self, i) > 1)
            return "two graphs refer to it: nothing would order their launches";
        if (!model_is_covered(self, &self->blocks[i], &component))
            return "a use is not recorded";
    }
    return NULL;
}

/* ---- what happens --------------------------------------------------------------------------- */

/* Whole pages, of which each is a block. */
static void part_count(model *self, const model_block *part, int is_more)
{
    uint64_t pages = pages_of(self, part->reserved), bytes = pages * self->page_bytes;
    self->live_blocks[part->device] += is_more ? pages : -pages;
    self->requested_bytes[part->device] += is_more ? bytes : -bytes;
}

/* Memory comes and goes with all that was said of it. */
static void part_set(model *self, model_block *part, size_t bytes)
{
    part_count(self, part, bytes > 0);
    part->bytes = bytes;
    part->is_tagged = 0;
    part->marked = 0;
    part->written = 0;
    memset(&part->reads, 0, sizeof(part->reads));
    memset(&part->open, 0, sizeof(part->open));
    memset(&part->launches, 0, sizeof(part->launches));
}

void range_did_commit(model *self, const fuzz_op *op)
{
    model_block *range = &self->blocks[op->other], *part = &self->blocks[op->block];
    if (part->base == 0) {
        model_range window = window_of(self, op);
        part = model_block_begin(self, op->block, window.base);
        part->reserved = window.bytes;
        part->part_of = op->other + 1;
        part->device = range->device;
        part->pool = range->pool;
        part->home = part->writer = part->ready_on = range->home;
    }
    range->is_range = 1;
    if (part->bytes > 0)
        return; /* it keeps what it has */
    part_set(self, part, part->reserved);
    part->ready = order_point(&self->order, part->home); /* Tenure's waits may have come before */
}

void range_did_decommit(model *self, const fuzz_op *op)
{
    if (self->blocks[op->block].bytes > 0)
        part_set(self, &self->blocks[op->block], 0);
}

void range_did_free(model *self, int slot)
{
    for (int i = range_next(self, slot, -1); i >= 0; i = range_next(self, slot, i)) {
        model_block *part = &self->blocks[i];
        for (int g = 0; g < FUZZ_GRAPHS && part->bytes == 0; g++)
            self->graphs[g].is_lacking |= self->graphs[g].reads[i] | self->graphs[g].writes[i];
        if (part->bytes > 0)
            part_count(self, part, 0);
        model_block_end(self, i);
    }
}
