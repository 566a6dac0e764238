/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host memory in the model: see model.h. A block is the host's at once, so its memory may
 * have been another block's only if all that used that one is over, as the host has seen. Streams
 * use it as they use any block, after what the host did when they were given the work.
 */
#include "model.h"

#define MIB ((size_t)1 << 20)

/* A place in the clocks that no stream has had. */
static int has_home(const model *self)
{
    int is_taken = self->is_used[FUZZ_DEVICES] || self->is_used[FUZZ_DEVICES + 1];
    return is_taken || (!self->order.is_open[ORDER_HOST] && self->order.tickets[ORDER_HOST] == 0);
}

static const char *malloc_allows(const model *self, const fuzz_op *op)
{
    const model_pool *pool = &self->pools[op->pool];
    if (self->blocks[op->block].base != 0)
        return "the slot holds a block";
    if (op->pool > 0 && (!pool->is_there || !pool->is_host || pool->device != op->device))
        return "no such pool of host memory";
    return op->n == 0 || op->n > UINT64_C(1) << 30 ? "no size" : NULL;
}

/* The host comes after what it has waited for. */
static const char *access_allows(const model *self, const fuzz_op *op)
{
    const model_block *block = &self->blocks[op->block];
    const order_clock *host = &self->order.host;
    if (block->base == 0 || !block->is_host)
        return "no such block of host memory";
    if (block->written > host->at[block->writer])
        return "not ordered";
    return op->kind == FUZZ_HOST_READ || order_covers(host, &block->reads) ? NULL : "not ordered";
}

const char *host_allows(model *self, const fuzz_op *op)
{
    if (op->kind == FUZZ_HOST_WRITE || op->kind == FUZZ_HOST_READ)
        return access_allows(self, op);
    if (op->device >= self->devices)
        return "no such device";
    if (!has_home(self))
        return "the model has no place for it";
    if (op->kind == FUZZ_HOST_MALLOC)
        return malloc_allows(self, op);
    if (self->capturing)
        return "a capture is under way";
    if (op->kind == FUZZ_HOST_POOL && (op->pool == 0 || self->pools[op->pool].is_there))
        return "the default pool, or the slot holds a pool";
    return NULL;
}

void host_did_malloc(model *self, const fuzz_op *op, uintptr_t base)
{
    model_block *block = model_block_begin(self, op->block, base);
    block->is_host = 1;
    block->bytes = (size_t)op->n;
    block->device = op->device;
    block->pool = op->pool == 0 ? MODEL_HOST_POOL : op->pool;
    block->home = block->writer = block->ready_on = ORDER_HOST;
    self->order.is_open[ORDER_HOST] = 1;
    self->live_blocks[model_place(block)]++;
    self->requested_bytes[model_place(block)] += block->bytes;
    self->is_used[model_place(block)] = self->is_used[block->device] = 1;
}

/* Whatever is queued from now on comes after it. */
void host_did_write(model *self, const fuzz_op *op)
{
    model_block *block = &self->blocks[op->block];
    memset(&block->reads, 0, sizeof(block->reads));
    block->writer = ORDER_HOST;
    block->written = 0;
}

int host_must_fit(const model *self, const fuzz_op *op, size_t contents)
{
    size_t most = contents + (size_t)op->n + 4 * MIB;
    size_t limit = self->limit_bytes[FUZZ_DEVICES + op->device];
    if (self->has_faults || self->has_wide_chunks || self->has_slabs || self->captures > 0)
        return 0;
    for (int i = 0; i < self->live_count; i++) {
        const model_block *block = &self->blocks[self->live[i]];
        if (block->is_host && block->device == op->device)
            most += block->bytes + 4 * MIB;
    }
    if (op->pool > 0 && self->pools[op->pool].limit > 0 && self->pools[op->pool].limit < limit)
        limit = self->pools[op->pool].limit;
    return most <= limit;
}
