/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing captures and launches.
 */
#include "draw.h"
#include "model_graph.h"

/* Every stream of the capture joins its origin again; then it ends. */
void draw_capture_end(fuzz_draw *draw, const model *m)
{
    uint8_t graph = (uint8_t)(m->capturing - 1);
    const model_graph *open = &m->graphs[graph];
    for (int i = 0; i < FUZZ_STREAMS; i++)
        if (m->streams[i].graph == m->capturing && !graph_is_behind(open, i))
            draw_wait(draw, m, i, open->origin);
    fuzz_op op = {.kind = FUZZ_CAPTURE_END, .graph = graph};
    if (draw_below(draw, 16) == 0)
        op.kind = FUZZ_CAPTURE_ABORT;
    draw_push(draw, op);
}

void draw_capture_break(fuzz_draw *draw, model *m)
{
    fuzz_op op = {.kind = FUZZ_CAPTURE_BREAK, .graph = (uint8_t)(m->capturing - 1)};
    uint64_t first = draw_below(draw, BREAK_WAYS);
    for (uint64_t i = 0; i < BREAK_WAYS; i++) {
        op.n = (first + i) % BREAK_WAYS;
        if (model_allows(m, &op) == NULL) {
            draw_push(draw, op);
            return;
        }
    }
}

int draw_peer_inside(fuzz_draw *draw, model *m)
{
    const model_graph *graph = &m->graphs[m->capturing - 1];
    for (int tries = 0; tries < 8; tries++) {
        int block = draw_block(draw, m);
        fuzz_op op = {.kind = draw_below(draw, 4) == 0 ? FUZZ_WRITE : FUZZ_READ,
                      .stream = graph->origin};
        if (block < 0 || m->blocks[block].device == graph->device)
            continue;
        op.block = (uint8_t)block;
        if (model_allows(m, &op) != NULL)
            continue;
        draw_push(draw, op);
        return 1;
    }
    return 0;
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
    op.kind = draw_below(draw, 2) ? FUZZ_USE : FUZZ_USE_STREAM;
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

/* A stream of the capture that is under way, or -1. */
static int stream_inside(fuzz_draw *draw, const model *m)
{
    int stream = draw_stream(draw, m, m->graphs[m->capturing - 1].device);
    return stream >= 0 && m->streams[stream].graph == m->capturing ? stream : -1;
}

/* Before a stream loses what it was after, its uses so far are recorded: else the blocks that it
 * used cannot be freed inside. */
static void draw_uses_before(fuzz_draw *draw, const model *m, int stream)
{
    uint8_t branch = m->graphs[m->capturing - 1].branch[stream];
    int count = 0;
    for (int i = 0; i < m->live_count && count < 8; i++) {
        uint8_t slot = m->live[i];
        if (m->blocks[slot].graph != m->capturing || m->inside[slot].open.at[branch] == 0)
            continue;
        draw_push(draw, (fuzz_op){.kind = FUZZ_USE, .block = slot, .stream = (uint8_t)stream});
        count++;
    }
}

int draw_redirect(fuzz_draw *draw, model *m)
{
    int stream = stream_inside(draw, m), other = stream_inside(draw, m);
    if (stream < 0 || other < 0)
        return 0;
    fuzz_op op = {.kind = FUZZ_REDIRECT, .stream = (uint8_t)stream, .other = (uint8_t)other};
    op.n = draw_below(draw, REDIRECT_NONE + 1);
    if (model_allows(m, &op) != NULL)
        return 0;
    if (op.n != REDIRECT_ADD && draw_below(draw, 4) > 0)
        draw_uses_before(draw, m, stream);
    if (op.n == REDIRECT_ADD || draw_below(draw, 2)) {
        draw_push(draw, op);
        return 1;
    }
    /* What it was after, it is no longer: memory that it could have had before. */
    int block = draw_block_free(draw, m), small = draw_block_free(draw, m);
    int next = draw_block_free(draw, m);
    if (block < 0 || small < 0 || next < 0 || block == next || block == small || small == next)
        return 0;
    fuzz_op first = {.kind = FUZZ_MALLOC, .block = (uint8_t)block, .stream = (uint8_t)other};
    first.n = draw_bytes(draw);
    fuzz_op last = first;
    draw_push(draw, first);
    draw_push(draw, (fuzz_op){.kind = FUZZ_WRITE, .block = first.block, .stream = first.stream});
    draw_push(draw, (fuzz_op){.kind = FUZZ_FREE, .block = first.block});
    draw_wait(draw, m, other, stream);
    fuzz_op look = {.kind = FUZZ_MALLOC, .block = (uint8_t)small, .stream = op.stream, .n = 512};
    draw_push(draw, look);
    op.n = REDIRECT_NONE;
    draw_push(draw, op);
    last.block = (uint8_t)next;
    last.stream = op.stream;
    draw_push(draw, last);
    draw_push(draw, (fuzz_op){.kind = FUZZ_WRITE, .block = last.block, .stream = last.stream});
    return 1;
}

int draw_brief(fuzz_draw *draw, model *m)
{
    const model_graph *graph = &m->graphs[m->capturing - 1];
    int user = draw_stream(draw, m, graph->device), next = draw_block_free(draw, m);
    int block = draw_block(draw, m);
    if (user < 2 || user == graph->origin || next < 0)
        return 0;
    fuzz_op op = {.stream = (uint8_t)user, .device = graph->device};
    draw_wait(draw, m, graph->origin, user);
    if (block >= 0 && m->blocks[block].graph == m->capturing) {
        op.block = (uint8_t)block;
        op.kind = FUZZ_READ;
        draw_push(draw, op);
        op.kind = FUZZ_USE;
        draw_push(draw, op);
        op.block = 0;
    }
    if (m->streams[user].graph == m->capturing)
        draw_uses_before(draw, m, user);
    draw_wait(draw, m, user, graph->origin);
    op.kind = FUZZ_STREAM_DESTROY;
    draw_push(draw, op);
    if (draw_below(draw, 4) == 0)
        return 1;
    op.kind = FUZZ_STREAM_CREATE;
    op.m = draw_below(draw, 2);
    draw_push(draw, op);
    op = (fuzz_op){.kind = FUZZ_MALLOC, .block = (uint8_t)next, .stream = (uint8_t)user};
    op.n = draw_bytes(draw);
    draw_push(draw, op);
    op.kind = FUZZ_WRITE;
    draw_push(draw, op);
    op.kind = FUZZ_FREE;
    if (draw_below(draw, 2))
        draw_push(draw, op);
    return 1;
}

static int draw_capture(fuzz_draw *draw, model *m)
{
    int stream = draw_stream(draw, m, -1);
    fuzz_op op = {.kind = FUZZ_CAPTURE_BEGIN, .graph = (uint8_t)draw_below(draw, FUZZ_GRAPHS)};
    if (stream < 0)
        return 0;
    if (m->graphs[op.graph].state == GRAPH_READY && !m->capturing && draw_below(draw, 2)) {
        op.kind = FUZZ_GRAPH_DESTROY;
        draw_push(draw, op);
        return 1;
    }
    op.stream = (uint8_t)stream;
    op.n = draw_below(draw, 3);
    op.pool = (uint8_t)draw_below(draw, FUZZ_POOLS);
    if (op.pool > 0 && (!m->pools[op.pool].is_there || !m->pools[op.pool].is_graph))
        op.pool = 0;
    if (model_allows(m, &op) != NULL)
        return 0;
    draw_push(draw, op);
    draw->capture_left = 5 + (int)draw_below(draw, 80);
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
        op.kind = draw_below(draw, 2) ? FUZZ_USE : FUZZ_USE_STREAM;
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
    fuzz_op op = {.kind = FUZZ_LAUNCH, .graph = (uint8_t)draw_below(draw, FUZZ_GRAPHS)};
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
    if (draw_below(draw, 4) == 0)
        draw_relaunch(draw, m, op);
    if (draw_below(draw, 8) == 0) {
        op.kind = FUZZ_AUDIT;
        draw_push(draw, op);
    }
    return 1;
}

int draw_graph_action(fuzz_draw *draw, model *m, int action)
{
    return action == DRAW_CAPTURE ? draw_capture(draw, m) : draw_launch(draw, m);
}
