/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing captures and launches.
 */
#include "draw.h"
#include "random.h"

static uint64_t below(fuzz_draw *draw, uint64_t bound)
{
    return random_below(&draw->random, bound);
}

/* Every stream of the capture joins its origin again; then it ends. */
void draw_capture_end(fuzz_draw *draw, const model *m)
{
    uint8_t graph = (uint8_t)(m->capturing - 1);
    const model_graph *open = &m->graphs[graph];
    for (int i = 0; i < FUZZ_STREAMS; i++)
        if (i != open->origin && open->tickets[i] > open->clocks[open->origin].at[i])
            draw_wait(draw, m, i, open->origin);
    fuzz_op op = {.kind = FUZZ_CAPTURE_END, .graph = graph};
    if (below(draw, 16) == 0)
        op.kind = FUZZ_CAPTURE_ABORT;
    draw_push(draw, op);
}

static int draw_capture(fuzz_draw *draw, model *m)
{
    int stream = draw_stream(draw, m, -1);
    fuzz_op op = {.kind = FUZZ_CAPTURE_BEGIN, .graph = (uint8_t)below(draw, FUZZ_GRAPHS)};
    if (stream < 0)
        return 0;
    if (m->graphs[op.graph].state == GRAPH_READY && !m->capturing && below(draw, 2)) {
        op.kind = FUZZ_GRAPH_DESTROY;
        draw_push(draw, op);
        return 1;
    }
    op.stream = (uint8_t)stream;
    op.n = below(draw, 3);
    op.pool = (uint8_t)below(draw, FUZZ_POOLS);
    if (op.pool > 0 && (!m->pools[op.pool].is_there || !m->pools[op.pool].is_graph))
        op.pool = 0;
    if (model_allows(m, &op) != NULL)
        return 0;
    draw_push(draw, op);
    draw->capture_left = 5 + (int)below(draw, 80);
    return 1;
}

/* A launch, after whatever it must be ordered after. */
static int draw_launch(fuzz_draw *draw, model *m)
{
    fuzz_op op = {.kind = FUZZ_LAUNCH, .graph = (uint8_t)below(draw, FUZZ_GRAPHS)};
    const model_graph *graph = &m->graphs[op.graph];
    if (graph->state != GRAPH_READY || m->capturing)
        return 0;
    int stream = draw_stream(draw, m, graph->device);
    if (stream < 0)
        return 0;
    op.stream = (uint8_t)stream;
    if (model_allows(m, &op) != NULL) {
        for (int i = 0; i < FUZZ_STREAMS; i++)
            if (i != stream && m->streams[i].is_there &&
                m->order.device[m->streams[i].component] == graph->device)
                draw_wait(draw, m, i, stream);
    }
    draw_push(draw, op);
    if (below(draw, 8) == 0) {
        op.kind = FUZZ_AUDIT;
        draw_push(draw, op);
    }
    return 1;
}

int draw_graph_action(fuzz_draw *draw, model *m, int action)
{
    return action == DRAW_CAPTURE ? draw_capture(draw, m) : draw_launch(draw, m);
}
