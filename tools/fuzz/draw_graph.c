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

int draw_reuse_inside(fuzz_draw *draw, const model *m)
{
    const model_graph *graph = &m->graphs[m->capturing - 1];
    int user = draw_stream(draw, m, graph->device);
    int block = draw_block_free(draw, m), next = draw_block_free(draw, m);
    if (user < 2 || user == graph->origin || block < 0 || next < 0 || block == next)
        return 0;
    fuzz_op op = {.kind = FUZZ_MALLOC, .block = (uint8_t)block, .stream = graph->origin};
    op.n = draw_bytes(draw);
    fuzz_op again = op;
    draw_push(draw, op);
    op.kind = FUZZ_WRITE;
    draw_push(draw, op);
    draw_wait(draw, m, graph->origin, user);
    op.kind = FUZZ_READ;
    op.stream = (uint8_t)user;
    op.n = 0;
    draw_push(draw, op);
    op.kind = below(draw, 2) ? FUZZ_USE : FUZZ_USE_STREAM;
    draw_push(draw, op);
    op.kind = FUZZ_FREE;
    draw_push(draw, op);
    again.block = (uint8_t)next;
    draw_push(draw, again);
    again.kind = FUZZ_WRITE;
    again.n = 0;
    draw_push(draw, again);
    return 1;
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

/* An output of the graph is used on another stream and freed, and the graph launched again: it must
 * wait for that use, which only Tenure knows of. */
static void draw_relaunch(fuzz_draw *draw, const model *m, fuzz_op launch)
{
    int stream = draw_stream(draw, m, m->graphs[launch.graph].device);
    for (int i = 0; i < m->live_count && stream >= 0 && stream != launch.stream; i++) {
        uint8_t slot = m->live[i];
        if (m->blocks[slot].graph != launch.graph + 1)
            continue;
        draw_wait(draw, m, launch.stream, stream);
        fuzz_op op = {.kind = FUZZ_READ, .block = slot, .stream = (uint8_t)stream};
        draw_push(draw, op);
        op.kind = below(draw, 2) ? FUZZ_USE : FUZZ_USE_STREAM;
        draw_push(draw, op);
        op.kind = FUZZ_FREE;
        draw_push(draw, op);
        draw_push(draw, launch);
        return;
    }
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
    if (below(draw, 4) == 0)
        draw_relaunch(draw, m, op);
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
