/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing what only --ranges has: pages of blocks of tnr_reserve get memory and lose it, between
 * accesses of their neighbours and launches of graphs that know them.
 */
#include "draw.h"

/* A range, or a block that may become one; -1: none. */
static int draw_range_block(fuzz_draw *draw, const model *m)
{
    int found = -1;
    uint64_t count = 0;
    for (int i = 0; i < m->live_count; i++) {
        const model_block *block = &m->blocks[m->live[i]];
        if (block->reserved > 0 && block->part_of == 0 && block->bytes == 0 &&
            draw_below(draw, ++count) == 0)
            found = m->live[i];
    }
    return found;
}

static int draw_part(fuzz_draw *draw, const model *m, int range)
{
    int found = -1;
    uint64_t count = 0;
    for (int i = range_next(m, range, -1); i >= 0; i = range_next(m, range, i))
        if (draw_below(draw, ++count) == 0)
            found = i;
    return found;
}

static int draw_reserve(fuzz_draw *draw, model *m)
{
    int stream = draw_stream(draw, m, -1), slot = draw_block_free(draw, m);
    if (stream < 0 || slot < 0 || m->live_count >= draw->live_target)
        return 0;
    fuzz_op op = {.kind = FUZZ_RESERVE, .block = (uint8_t)slot, .stream = (uint8_t)stream};
    op.n = m->page_bytes * (2 + draw_below(draw, 14));
    if (draw_below(draw, 4) == 0)
        op.n -= 1 + draw_below(draw, m->page_bytes - 1); /* the last page is short */
    return draw_push_allowed(draw, m, op);
}

/* Pages that had memory once, or others. Most often the range's stream goes on with them. */
static int draw_commit(fuzz_draw *draw, model *m, int range)
{
    const model_block *whole = &m->blocks[range];
    int slot = draw_part(draw, m, range);
    uint64_t pages = (whole->reserved + m->page_bytes - 1) / m->page_bytes;
    fuzz_op op = {.kind = FUZZ_COMMIT_RANGE, .other = (uint8_t)range};
    if (slot >= 0 && draw_below(draw, 3) > 0) {
        const model_block *part = &m->blocks[slot];
        op.n = (part->base - whole->base) / m->page_bytes;
        op.m = (part->reserved + m->page_bytes - 1) / m->page_bytes;
    } else {
        slot = draw_block_free(draw, m);
        op.n = draw_below(draw, pages);
        op.m = 1 + draw_below(draw, 3);
    }
    op.block = (uint8_t)slot;
    int home = draw_stream_of(m, whole->home);
    if (slot < 0 || !draw_push_allowed(draw, m, op))
        return 0;
    op = (fuzz_op){.kind = FUZZ_WRITE, .block = (uint8_t)slot, .stream = (uint8_t)home};
    if (home >= 0 && draw_below(draw, 4) > 0)
        draw_push(draw, op);
    return 1;
}

static int draw_decommit(fuzz_draw *draw, model *m, int slot)
{
    fuzz_op op = {.kind = FUZZ_DECOMMIT_RANGE, .block = (uint8_t)slot};
    if (m->blocks[slot].bytes == 0 || !draw_cover(draw, m, slot))
        return draw->queue_count > 0;
    if (draw_below(draw, 2))
        op.n = draw_below(draw, m->page_bytes);
    draw_push(draw, op);
    return 1;
}

int draw_range_free(fuzz_draw *draw, model *m, int slot)
{
    int range = m->blocks[slot].part_of > 0 ? m->blocks[slot].part_of - 1 : slot;
    if (draw_below(draw, 8) > 0)
        return slot != range && draw_decommit(draw, m, slot);
    for (int i = range_next(m, range, -1); i >= 0; i = range_next(m, range, i))
        if (!draw_cover(draw, m, i) || draw->queue_count > DRAW_QUEUE / 2)
            return draw->queue_count > 0;
    draw_push(draw, (fuzz_op){.kind = FUZZ_FREE, .block = (uint8_t)range});
    return 1;
}

/* Everything is over, and then addresses without memory must fault. */
static int draw_look(fuzz_draw *draw, model *m, int range)
{
    if (m->capturing || m->beside != 0 || draw_below(draw, 8) > 0)
        return 0;
    for (int d = 0; d < draw->devices; d++)
        draw_push(draw, (fuzz_op){.kind = FUZZ_SYNC_DEVICE, .device = (uint8_t)d});
    draw_push(draw, (fuzz_op){.kind = FUZZ_LOOK_RANGE, .block = (uint8_t)range});
    return 1;
}

int draw_range(fuzz_draw *draw, model *m)
{
    int range = draw_range_block(draw, m);
    if (range < 0 || draw_below(draw, 24) == 0)
        return draw_reserve(draw, m);
    int slot = draw_part(draw, m, range);
    uint64_t way = draw_below(draw, 16);
    if (slot < 0 || way < 6)
        return draw_commit(draw, m, range);
    if (way < 10)
        return draw_decommit(draw, m, slot);
    if (way == 10)
        return draw_look(draw, m, range);
    int stream = draw_stream(draw, m, m->blocks[slot].device);
    return stream >= 0 && m->blocks[slot].bytes > 0 && draw_access(draw, m, slot, stream);
}
