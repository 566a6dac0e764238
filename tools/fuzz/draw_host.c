/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing what only --host has: pinned host memory, which streams and the host use in turn.
 */
#include "draw.h"

#define MIB ((uint64_t)1 << 20)

static int draw_host_block(fuzz_draw *draw, const model *m)
{
    for (int tries = 0; tries < 12; tries++) {
        int slot = draw_block(draw, m);
        if (slot >= 0 && m->blocks[slot].is_host)
            return slot;
    }
    return -1;
}

static int draw_malloc(fuzz_draw *draw, model *m)
{
    int slot = draw_block_free(draw, m);
    if (slot < 0 || m->live_count >= draw->live_target)
        return 0;
    fuzz_op op = {.kind = FUZZ_HOST_MALLOC,
                  .block = (uint8_t)slot,
                  .device = (uint8_t)draw_below(draw, (uint64_t)draw->devices),
                  .n = draw_bytes(draw)};
    if (draw_below(draw, 4) == 0)
        op.pool = (uint8_t)(1 + draw_below(draw, FUZZ_POOLS - 1));
    if (model_allows(m, &op) != NULL)
        op.pool = 0;
    if (!draw_push_allowed(draw, m, op))
        return 0;
    op.kind = FUZZ_HOST_WRITE;
    if (draw_below(draw, 8) > 0)
        draw_push(draw, op);
    return 1;
}

/* The host waits for whoever uses the block. */
static int draw_touch(fuzz_draw *draw, model *m, int slot)
{
    fuzz_op op = {.kind = draw_below(draw, 2) ? FUZZ_HOST_WRITE : FUZZ_HOST_READ,
                  .block = (uint8_t)slot};
    const model_block *block = &m->blocks[slot];
    for (int i = 0; i < ORDER_COMPONENTS && model_allows(m, &op) != NULL; i++) {
        uint32_t needed = block->reads.at[i];
        if (i == block->writer && block->written > needed)
            needed = block->written;
        if (needed <= m->order.host.at[i])
            continue;
        fuzz_op wait = {.kind = FUZZ_SYNC_STREAM, .stream = (uint8_t)draw_stream_of(m, i)};
        if (draw_stream_of(m, i) < 0 || draw->queue_count > 4 || draw_below(draw, 4) > 0 ||
            !draw_push_allowed(draw, m, wait))
            return draw->queue_count > 0;
    }
    draw_push(draw, op);
    return 1;
}

static int draw_rest(fuzz_draw *draw, model *m)
{
    fuzz_op op = {.device = (uint8_t)draw_below(draw, (uint64_t)draw->devices)};
    switch (draw_below(draw, 4)) {
    case 0:
        op.kind = FUZZ_HOST_TRIM;
        op.n = draw_below(draw, 4) * 4 * MIB;
        break;
    case 1:
        op.kind = FUZZ_HOST_LIMIT;
        op.n = draw_below(draw, 2) ? UINT64_MAX : (24 + draw_below(draw, 128)) * MIB;
        break;
    default:
        op.pool = (uint8_t)(1 + draw_below(draw, FUZZ_POOLS - 1));
        op.kind = m->pools[op.pool].is_there ? FUZZ_POOL_DESTROY : FUZZ_HOST_POOL;
        if (op.kind == FUZZ_POOL_DESTROY && !m->pools[op.pool].is_host)
            return 0;
        if (op.kind == FUZZ_HOST_POOL && draw_below(draw, 3) == 0)
            op.n = (24 + draw_below(draw, 64)) * MIB;
        if (op.kind == FUZZ_HOST_POOL && draw_below(draw, 3) == 0)
            op.m = (1 + draw_below(draw, 16)) * MIB;
    }
    return draw_push_allowed(draw, m, op);
}

int draw_host(fuzz_draw *draw, model *m)
{
    int slot = draw_host_block(draw, m);
    uint64_t way = draw_below(draw, 32);
    if (slot < 0 || way < 9)
        return draw_malloc(draw, m);
    if (way == 31)
        return draw_rest(draw, m);
    if (way < 16)
        return draw_free(draw, m, slot);
    if (way < 20)
        return draw_touch(draw, m, slot);
    int stream = draw_stream(draw, m, draw_below(draw, 4) ? m->blocks[slot].device : -1);
    return stream >= 0 && draw_access(draw, m, slot, stream);
}
