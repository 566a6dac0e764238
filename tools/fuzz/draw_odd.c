/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing what only --odd has, but for captures that come to nothing (draw_graph.c): frees in host
 * functions, the end of a pool in the middle of a miss, and captures of another thread.
 */
#include "draw.h"

static int draw_free_host(fuzz_draw *draw, model *m)
{
    int slot = draw_block(draw, m);
    if (slot < 0 || m->capturing || m->has_faults || m->blocks[slot].is_range ||
        m->blocks[slot].part_of > 0)
        return 0;
    int home = draw_stream_of(m, m->blocks[slot].home);
    int stream = home < 0 || draw_below(draw, 2) ? draw_stream(draw, m, -1) : home;
    if (stream < 0 || !draw_cover(draw, m, slot))
        return 0;
    draw_push(draw,
              (fuzz_op){.kind = FUZZ_FREE_HOST, .block = (uint8_t)slot, .stream = (uint8_t)stream});
    return 1;
}

/* A pool with memory that is free in it, and a request for most of what the device has. */
static int draw_miss(fuzz_draw *draw, model *m)
{
    int slot = draw_block_free(draw, m), stream = draw_stream(draw, m, -1);
    fuzz_op op = {.kind = FUZZ_POOL_CREATE,
                  .pool = (uint8_t)(1 + draw_below(draw, FUZZ_POOLS - 1))};
    if (slot < 0 || stream < 0 || !draw->misses || m->beside != 0)
        return 0;
    op.device = (uint8_t)m->order.device[m->streams[stream].component];
    op.block = (uint8_t)slot;
    op.stream = (uint8_t)stream;
    if (!m->pools[op.pool].is_there && draw_push_allowed(draw, m, op)) {
        op.kind = FUZZ_MALLOC;
        op.n = m->memory_bytes / 16 * (1 + draw_below(draw, 6));
        draw_push(draw, op);
        op.kind = FUZZ_FREE;
        draw_push(draw, op);
    }
    op.kind = FUZZ_MISS;
    op.n = m->memory_bytes / 16 * (10 + draw_below(draw, 6));
    draw_push(draw, op);
    return 1;
}

int draw_odd(fuzz_draw *draw, model *m)
{
    fuzz_op op = {.kind = FUZZ_BESIDE,
                  .device = (uint8_t)draw_below(draw, (uint64_t)draw->devices)};
    if (m->beside != 0 && draw_below(draw, 2))
        return draw_push_allowed(draw, m, (fuzz_op){.kind = FUZZ_BESIDE_END});
    switch (draw_below(draw, 3)) {
    case 0:
        return draw_free_host(draw, m);
    case 1:
        return draw_miss(draw, m);
    default:
        op.n = 1 + draw_below(draw, MODEL_RELAXED);
        return draw_push_allowed(draw, m, op);
    }
}
