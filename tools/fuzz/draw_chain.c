/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains: sequences that a random walk seldom takes, each around one thing that Tenure could get
 * wrong about order. All of them are legal. A block of one stream is used by another stream, the
 * block is freed, and its memory is allocated again. Between the use and the free comes something
 * that could be mistaken for order:
 *
 *   an event that is told of late, after its stream has waited for the user
 *   an event that the user had recorded before it was recorded elsewhere
 *   the end of the user's stream, when only tnr_free_sync knows that it was one
 *
 * And one about where blocks are: a mosaic.
 */
#include "draw.h"

/* The streams of a chain, by slot, and its two blocks. */
typedef struct chain {
    fuzz_draw *draw;
    uint8_t own, user, middle;
    uint8_t block, next;
    uint8_t first, second; /* events */
    uint64_t bytes;
} chain;

static void step(const chain *c, fuzz_kind kind, int block, int stream, uint64_t n)
{
    draw_push(c->draw, (fuzz_op){.kind = (uint8_t)kind,
                                 .block = (uint8_t)block,
                                 .stream = (uint8_t)stream,
                                 .n = n});
}

static void event_step(const chain *c, fuzz_kind kind, int event, int stream, uint64_t told)
{
    draw_push(c->draw, (fuzz_op){.kind = (uint8_t)kind,
                                 .event = (uint8_t)event,
                                 .stream = (uint8_t)stream,
                                 .n = told});
}

static void chain_begin(const chain *c)
{
    step(c, FUZZ_MALLOC, c->block, c->own, c->bytes);
    step(c, FUZZ_WRITE, c->block, c->own, 0);
    event_step(c, FUZZ_RECORD, c->first, c->own, 0);
    event_step(c, FUZZ_WAIT, c->first, c->user, 0);
    step(c, FUZZ_READ, c->block, c->user, 0);
}

static void chain_end(const chain *c, fuzz_kind free)
{
    step(c, free, c->block, 0, 0);
    step(c, FUZZ_MALLOC, c->next, c->own, c->bytes);
    step(c, FUZZ_WRITE, c->next, c->own, 0);
}

static void chain_push(const chain *c, uint64_t which)
{
    chain_begin(c);
    switch (which) {
    case 0: /* `second` is before what `middle` waits for only afterwards */
        step(c, FUZZ_USE, c->block, c->user, 0);
        event_step(c, FUZZ_RECORD, c->second, c->middle, 2);
        event_step(c, FUZZ_RECORD, c->first, c->user, 1);
        event_step(c, FUZZ_WAIT, c->first, c->middle, 1);
        event_step(c, FUZZ_TELL, c->second, 0, 0);
        event_step(c, FUZZ_WAIT, c->second, c->own, 1);
        chain_end(c, FUZZ_FREE);
        break;
    case 1: /* the wait is for the second record, of which Tenure is not told */
        step(c, FUZZ_USE, c->block, c->user, 0);
        event_step(c, FUZZ_RECORD, c->second, c->user, 1);
        event_step(c, FUZZ_RECORD, c->second, c->middle, 0);
        event_step(c, FUZZ_WAIT, c->second, c->own, 1);
        chain_end(c, FUZZ_FREE);
        break;
    default:
        step(c, FUZZ_STREAM_DESTROY, 0, c->user, 0);
        chain_end(c, FUZZ_FREE_SYNC);
    }
}

/* Three streams of a device, none of them a default stream. */
static int chain_streams(chain *c, const model *m)
{
    int own = draw_stream(c->draw, m, -1);
    if (own < 2)
        return 0;
    int device = m->order.device[m->streams[own].component];
    int user = draw_stream(c->draw, m, device), middle = draw_stream(c->draw, m, device);
    if (user < 2 || middle < 2 || user == own || middle == own || user == middle)
        return 0;
    c->own = (uint8_t)own;
    c->user = (uint8_t)user;
    c->middle = (uint8_t)middle;
    return 1;
}

/* Blocks of less than a granule of the block map (1 MiB) side by side, and aligned ones in the
 * holes between them, which begin in another granule than the hole: each must still be found. The
 * large world has such blocks where small_limit_kb is low. */
static int draw_mosaic(fuzz_draw *draw, const model *m)
{
    enum { PIECES = 8, ALIGNED = 4 };
    uint8_t slots[PIECES + ALIGNED];
    int found = 0;
    int stream = draw_stream(draw, m, -1);
    for (int i = 0; i < FUZZ_BLOCKS && found < PIECES + ALIGNED; i++)
        if (m->blocks[i].base == 0)
            slots[found++] = (uint8_t)i;
    if (stream < 0 || m->streams[stream].graph != 0 || found < PIECES + ALIGNED)
        return 0;
    chain c = {.draw = draw};
    for (int i = 0; i < PIECES; i++)
        step(&c, FUZZ_MALLOC, slots[i], stream, (64 << 10) + draw_below(draw, 960 << 10));
    for (int i = 1; i < PIECES; i += 2)
        step(&c, FUZZ_FREE, slots[i], 0, 0);
    for (int i = PIECES; i < PIECES + ALIGNED; i++)
        draw_push(draw, (fuzz_op){.kind = FUZZ_ALIGNED,
                                  .block = slots[i],
                                  .stream = (uint8_t)stream,
                                  .n = (65 << 10) + draw_below(draw, 256 << 10),
                                  .m = UINT64_C(1) << (16 + draw_below(draw, 5))});
    for (int i = 0; i < PIECES + ALIGNED; i++) {
        step(&c, FUZZ_LOOK, slots[i], 0, draw_below(draw, 64 << 10));
        step(&c, FUZZ_FREE, slots[i], 0, 0);
    }
    return 1;
}

int draw_chain(fuzz_draw *draw, const model *m)
{
    if (draw_below(draw, 4) == 0)
        return draw_mosaic(draw, m);
    chain c = {.draw = draw};
    int block = draw_block_free(draw, m), next = draw_block_free(draw, m);
    if (m->capturing || block < 0 || next < 0 || block == next || !chain_streams(&c, m))
        return 0;
    c.block = (uint8_t)block;
    c.next = (uint8_t)next;
    c.first = (uint8_t)draw_below(draw, FUZZ_EVENTS);
    c.second = (uint8_t)((c.first + 1) % FUZZ_EVENTS);
    c.bytes = draw_bytes(draw);
    chain_push(&c, draw_below(draw, 3));
    return 1;
}
