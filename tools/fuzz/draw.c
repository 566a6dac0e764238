/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing: the setup, the choice of what comes next, and what concerns blocks and order. The rest
 * is in draw_control.c, draw_graph.c and plant.c. See draw.h.
 */
#include "draw.h"

#include <stdio.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

static int percent(fuzz_draw *draw, int of)
{
    return (int)draw_below(draw, 100) < of;
}

/* ---- the setup ------------------------------------------------------------------------------ */

static void conf_add(fuzz_setup *setup, const char *text)
{
    size_t length = strlen(setup->conf);
    snprintf(setup->conf + length, sizeof(setup->conf) - length, "%s%s", length > 0 ? "," : "",
             text);
}

static void setup_draw(fuzz_draw *draw, fuzz_setup *setup)
{
    static const char *const schedules[] = {"lazy", "random", "random", "eager"};
    static const char *const reuse[] = {"reuse:poll", "reuse:follow", "reuse:wait"};
    static const char *const marks[] = {"reuse_mark_percent:0", "reuse_mark_percent:100"};
    static const char *const cross[] = {"cross_stream:off", "cross_stream:idle"};
    static const char *const others[] = {"bin_blocks:0",
                                         "bin_blocks:2",
                                         "lend:off",
                                         "stale_mappings_max:0",
                                         "stale_mappings_max:2",
                                         "move_percent:100",
                                         "move_percent:0,move_burst_ms:0",
                                         "release_threshold_mb:4",
                                         "garbage_collection_threshold:0.3",
                                         "max_split_size_mb:4",
                                         "lanes_forced:2",
                                         "lanes_forced:5",
                                         "chunk_share:1,chunk_max_mb:16",
                                         "chunk_mb:4",
                                         "small_limit_kb:64",
                                         "history:light",
                                         "roundup_power2_divisions:4"};
    snprintf(setup->schedule, sizeof(setup->schedule), "%s", schedules[draw_below(draw, 4)]);
    setup->schedule_seed = draw_below(draw, UINT64_C(1) << 31);
    setup->devices = draw_below(draw, 4) == 0 ? 2 : 1;
    setup->memory_bytes = (32 * MIB) << draw_below(draw, 5);
    if (draw_below(draw, 4) > 0)
        conf_add(setup, reuse[draw_below(draw, 3)]);
    if (draw_below(draw, 3) == 0)
        conf_add(setup, marks[draw_below(draw, 2)]);
    if (draw_below(draw, 2) == 0)
        conf_add(setup, cross[draw_below(draw, 2)]);
    for (uint64_t i = draw_below(draw, 3); i > 0; i--) {
        const char *one = others[draw_below(draw, sizeof(others) / sizeof(others[0]))];
        if (strstr(setup->conf, one) == NULL)
            conf_add(setup, one);
    }
    if (setup->schedule_seed % 2 == 0) /* most programs are too short to reach their trough often */
        conf_add(setup, "aliases_from:first");
}

/* What every program needs to say anything at all. */
static int action_is_needed(int action)
{
    return action == DRAW_MALLOC || action == DRAW_FREE || action == DRAW_TOUCH;
}

static int action_is_dear(int action)
{
    return action == DRAW_POOL || action == DRAW_TRIM || action == DRAW_SLEEP ||
           action == DRAW_SNAPSHOT || action == DRAW_STATS || action == DRAW_GROWABLE ||
           action == DRAW_STORM;
}

static void weights_draw(fuzz_draw *draw, const fuzz_limits *limits)
{
    static const uint32_t usual[] = {
#define DRAW_ACTION_WEIGHT(name, weight) weight,
        DRAW_ACTION_LIST(DRAW_ACTION_WEIGHT)
#undef DRAW_ACTION_WEIGHT
    };
    uint32_t sum = 0;
    /* What a graph keeps is not known to the model, so without graphs it can say more. */
    int has_no_graphs = draw_below(draw, 3) == 0;
    for (int i = 0; i < DRAW_ACTIONS; i++) {
        if ((i == DRAW_ACCESS && draw->devices < 2) || (i == DRAW_REGISTER && !draw->registers) ||
            (i == DRAW_OWNER && (draw->foreign_percent == 0 || limits->no_faults)))
            continue;
        uint32_t weight = usual[i] * 4;
        /* What costs as much as hundreds of others is in few programs, and often there. */
        int chances = action_is_dear(i) ? 12 : 4;
        switch (draw_below(draw, (uint64_t)chances)) {
        case 0:
            weight *= 3;
            break;
        case 1:
        case 2:
            break;
        default:
            weight = action_is_needed(i) ? weight / 2 : 0;
        }
        if ((i == DRAW_POOL || i == DRAW_TRIM) && (draw->foreign_percent > 0 || draw->registers) &&
            weight < usual[i] * 4)
            weight = usual[i] * 4;
        if ((i == DRAW_CAPTURE || i == DRAW_LAUNCH) && has_no_graphs)
            weight = 0;
        if ((i == DRAW_FAULT && limits->no_faults) || (i == DRAW_SLEEP && limits->no_sleep) ||
            ((i == DRAW_CAPTURE || i == DRAW_LAUNCH) && limits->no_graphs))
            weight = 0;
        if (i == DRAW_FAULT)
            draw->draws_faults = weight > 0;
        for (; weight > 0 && sum < DRAW_WEIGHTS_MAX; weight--)
            draw->actions[sum++] = (uint8_t)i;
    }
    draw->weights_sum = sum;
}

void fuzz_draw_start(fuzz_draw *draw, fuzz_setup *setup, uint64_t seed, const fuzz_limits *limits)
{
    memset(draw, 0, sizeof(*draw));
    memset(setup, 0, sizeof(*setup));
    draw->random = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
    setup->seed = seed;
    setup_draw(draw, setup);
    if (limits->traps != NULL)
        conf_add(setup, limits->traps);
    if (limits->devices_max > 0 && setup->devices > limits->devices_max)
        setup->devices = limits->devices_max;
    draw->devices = setup->devices;
    fuzz_limits drawn = *limits;
    drawn.no_faults |= limits->illegal != 0; /* a failed call could hide the error */
    draw->foreign_percent = draw_below(draw, 4) == 0 ? 30 + 35 * (int)draw_below(draw, 3) : 0;
    draw->registers = draw_below(draw, 8) == 0;
    draw->pool_one_in = draw->registers             ? 2
                        : draw->foreign_percent > 0 ? 1 + (int)draw_below(draw, 2)
                                                    : 4;
    weights_draw(draw, &drawn);
    draw->live_target = 4 + (int)draw_below(draw, 120);
    draw->streams_target = 1 + (int)draw_below(draw, FUZZ_STREAMS - 3);
    draw->told_percent = 50 * (int)draw_below(draw, 3);
    draw->write_percent = 60 + (int)draw_below(draw, 41);
    draw->size_shift_max = 20 + (int)draw_below(draw, 4);
    draw->small_percent = 30 + (int)draw_below(draw, 70);
    draw->uses_default_streams = draw_below(draw, 3) == 0;
    draw->uses_blocking_streams = draw_below(draw, 3) == 0;
    draw->sync_percent = draw_below(draw, 4) == 0 ? 40 : 6;
    draw->illegal_after = UINT64_MAX;
    draw->parks = limits->parks && !limits->illegal;
    draw->odd = limits->odd && !limits->illegal;
    draw->hosts = limits->hosts && !limits->illegal;
    draw->ranges = limits->ranges && !limits->illegal;
    if (draw->hosts && draw_below(draw, 4) > 0)
        conf_add(setup, draw_below(draw, 2) ? "host:mapped" : "host:allocated");
    draw->misses =
        draw->odd && draw_below(draw, 2); /* not in all: less can be said of memory then */
    setup->peer_graphs = draw->odd && setup->devices == 2;
    if (limits->illegal) {
        draw->streams_target = FUZZ_STREAMS - 3;
        if (setup->memory_bytes < 256 * MIB)
            setup->memory_bytes = 256 * MIB; /* to reclaim is to wait, and to wait is to order */
        int first, end;
        draw_planted_range(limits, &first, &end);
        draw->illegal_kind = first + (int)draw_below(draw, (uint64_t)(end - first));
        draw->illegal_after = 20 + draw_below(draw, limits->ops > 2000 ? 2000 : limits->ops);
        setup->devices = draw->devices = draw_planted_devices(draw->illegal_kind);
    }
    if (limits->illegal && limits->gated) {
        draw->is_gated = 1;
        snprintf(setup->schedule, sizeof(setup->schedule), "lazy");
    }
}

/* ---- helpers -------------------------------------------------------------------------------- */

void draw_push(fuzz_draw *draw, fuzz_op op)
{
    if (draw->queue_count < DRAW_QUEUE)
        draw->queue[(draw->queue_first + draw->queue_count++) % DRAW_QUEUE] = op;
}

int draw_blocks_free(const model *m, uint8_t *slots, int wanted)
{
    int found = 0;
    for (int i = 0; i < FUZZ_BLOCKS && found < wanted; i++)
        if (m->blocks[i].base == 0)
            slots[found++] = (uint8_t)i;
    return found == wanted;
}

int draw_stream(fuzz_draw *draw, const model *m, int device)
{
    int first = draw->uses_default_streams ? 0 : 2;
    for (int tries = 0; tries < 12; tries++) {
        int slot = first + (int)draw_below(draw, (uint64_t)(FUZZ_STREAMS - first));
        if (m->streams[slot].is_there &&
            (device < 0 || m->order.device[m->streams[slot].component] == device))
            return slot;
    }
    return -1;
}

int draw_stream_of(const model *m, int component)
{
    for (int i = 0; i < FUZZ_STREAMS; i++)
        if (m->streams[i].is_there && m->streams[i].component == component)
            return i;
    return -1;
}

int draw_block(fuzz_draw *draw, const model *m)
{
    return m->live_count == 0 ? -1 : m->live[draw_below(draw, (uint64_t)m->live_count)];
}

int draw_block_free(fuzz_draw *draw, const model *m)
{
    for (int tries = 0; tries < 8; tries++) {
        int slot = (int)draw_below(draw, FUZZ_BLOCKS);
        if (m->blocks[slot].base == 0)
            return slot;
    }
    return -1;
}

/* Mostly small, some large, a few around the borders that the allocator knows, and a few sizes
 * again and again, so that bins are hit. */
uint64_t draw_bytes(fuzz_draw *draw)
{
    static const uint64_t borders[] = {1,       511,     512,         513,     MIB - 1, MIB,
                                       MIB + 1, 2 * MIB, 2 * MIB + 1, 4 * MIB, 6 * MIB};
    if (draw_below(draw, 16) == 0)
        return borders[draw_below(draw, sizeof(borders) / sizeof(borders[0]))];
    if (!percent(draw, draw->small_percent))
        return 1 + draw_below(draw,
                              UINT64_C(1)
                                  << (16 + draw_below(draw, (uint64_t)draw->size_shift_max - 15)));
    if (draw_below(draw, 2))
        return 512 * (1 + draw_below(draw, 20));
    return 1 + draw_below(draw, UINT64_C(1) << (6 + draw_below(draw, 12)));
}

static fuzz_op op_of(fuzz_kind kind, int block, int stream)
{
    return (fuzz_op){.kind = (uint8_t)kind, .block = (uint8_t)block, .stream = (uint8_t)stream};
}

void draw_wait(fuzz_draw *draw, const model *m, int from, int to)
{
    fuzz_op op = op_of(FUZZ_RECORD, 0, from);
    (void)m;
    op.event = (uint8_t)draw_below(draw, FUZZ_EVENTS);
    op.n = percent(draw, draw->told_percent);
    if (op.n == 1 && draw_below(draw, 4) == 0)
        op.n = 2; /* told of later */
    draw_push(draw, op);
    int told = percent(draw, draw->told_percent);
    op = op_of(FUZZ_WAIT, 0, to);
    op.event = draw->queue[(draw->queue_first + draw->queue_count - 1) % DRAW_QUEUE].event;
    op.n = (uint64_t)told;
    draw_push(draw, op);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static int draw_malloc(fuzz_draw *draw, model *m)
{
    if (m->live_count >= draw->live_target)
        return 0;
    int slot = draw_block_free(draw, m);
    int stream = draw_stream(draw, m, -1);
    if (slot < 0 || stream < 0)
        return 0;
    fuzz_op op = op_of(FUZZ_MALLOC, slot, stream);
    op.n = draw_bytes(draw);
    int device = m->order.device[m->streams[stream].component];
    if (m->streams[stream].graph == 0 && draw_below(draw, (uint64_t)draw->pool_one_in) == 0) {
        op.pool = (uint8_t)draw_below(draw, FUZZ_POOLS);
        if (op.pool > 0 && (!m->pools[op.pool].is_there || m->pools[op.pool].is_graph ||
                            m->pools[op.pool].device != device))
            op.pool = 0;
        if (op.pool > 0 && draw_below(draw, 2))
            op.kind = FUZZ_ROUTED;
    }
    if (draw_below(draw, 24) == 0) {
        op.kind = FUZZ_ALIGNED;
        op.m = UINT64_C(1) << draw_below(draw, 22);
    }
    draw_push(draw, op);
    if (percent(draw, draw->write_percent))
        draw_push(draw, op_of(draw_below(draw, 8) == 0 ? FUZZ_FILL : FUZZ_WRITE, slot, stream));
    return 1;
}

/* The block is kept until the stream's work so far is over, by an event of the program's own. */
static void draw_keep(fuzz_draw *draw, int slot, int stream)
{
    fuzz_op op = op_of(FUZZ_RECORD, 0, stream);
    op.event = (uint8_t)draw_below(draw, FUZZ_EVENTS);
    op.n = 1;
    draw_push(draw, op);
    fuzz_op keep = op_of(FUZZ_KEEP, slot, 0);
    keep.event = op.event;
    draw_push(draw, keep);
}

/* A peer's use is marked where it ends, or the block's stream waits for it, or the host does. */
static void draw_cover_peer(fuzz_draw *draw, const model *m, int slot, int user, int home)
{
    fuzz_op op = op_of(FUZZ_SYNC_STREAM, 0, user);
    op.n = (uint64_t)percent(draw, draw->told_percent);
    if (user >= 2 && !m->capturing && draw_below(draw, 2) == 0)
        draw_push(draw, op_of(FUZZ_USE, slot, user));
    else if (user >= 2 && !m->capturing && draw_below(draw, 4) == 0)
        draw_keep(draw, slot, user);
    else if (home >= 0 && draw_below(draw, 8) > 0)
        draw_wait(draw, m, user, home);
    else
        draw_push(draw, op);
}

/* A mark on the stream whose use Tenure was not told of, or the block's stream is made to wait for
 * it. */
int draw_cover(fuzz_draw *draw, model *m, int slot)
{
    model_block *block = &m->blocks[slot];
    int component = 0;
    int marks = 0;
    for (int i = 0; i < ORDER_COMPONENTS; i++) {
        const order_clock *home = &m->order.clocks[block->home];
        if (block->open.at[i] <= home->at[i] || block->open.at[i] <= m->order.host.at[i] ||
            (block->marked >> i & 1))
            continue;
        component = i;
        int user = draw_stream_of(m, component);
        int home_slot = draw_stream_of(m, block->home);
        if (user < 0 || marks++ > 8)
            return 0;
        if (m->order.device[i] != block->device) {
            draw_cover_peer(draw, m, slot, user, home_slot);
            continue;
        }
        fuzz_op op = op_of(draw_below(draw, 3) == 0 ? FUZZ_USE_STREAM : FUZZ_USE, slot, user);
        op.n = draw_below(draw, block->bytes > 1 << 20 ? 1 << 20 : block->bytes);
        uint64_t way = draw_below(draw, 6);
        if (way == 0 && home_slot >= 0)
            draw_wait(draw, m, user, home_slot);
        else if (way == 1)
            draw_keep(draw, slot, user);
        else
            draw_push(draw, op);
    }
    return 1;
}

/* Inside a capture everything that used the block is recorded once more. */
static int draw_free_inside(fuzz_draw *draw, model *m, int slot)
{
    const model_inside *inside = &m->inside[slot];
    const model_graph *graph = &m->graphs[m->capturing - 1];
    for (int i = 0; i < FUZZ_STREAMS; i++)
        if (i != inside->home && m->streams[i].graph == m->capturing &&
            inside->open.at[graph->branch[i]] > 0) {
            fuzz_op op = op_of(draw_below(draw, 2) ? FUZZ_USE : FUZZ_USE_STREAM, slot, i);
            draw_push(draw, op);
        }
    draw_push(draw, op_of(FUZZ_FREE, slot, 0));
    return 1;
}

int draw_free(fuzz_draw *draw, model *m, int slot)
{
    if (slot < 0)
        return 0;
    const model_block *block = &m->blocks[slot];
    if (block->is_range || block->part_of > 0)
        return draw_range_free(draw, m, slot);
    if (m->capturing && block->graph == m->capturing)
        return draw_free_inside(draw, m, slot);
    if (percent(draw, draw->sync_percent)) {
        fuzz_op op = op_of(FUZZ_FREE_SYNC, slot, 0);
        if (model_allows(m, &op) == NULL)
            draw_push(draw, op);
        return model_allows(m, &op) == NULL;
    }
    if (draw_below(draw, 5) == 0) {
        int stream = draw_stream(draw, m, block->device);
        fuzz_op op = op_of(FUZZ_FREE_ON, slot, stream < 0 ? 0 : stream);
        if (stream >= 0 && model_allows(m, &op) == NULL) {
            draw_push(draw, op);
            return 1;
        }
    }
    if (!draw_cover(draw, m, slot)) {
        fuzz_op op = op_of(FUZZ_FREE_SYNC, slot, 0);
        if (model_allows(m, &op) != NULL)
            return 0;
        draw_push(draw, op);
        return 1;
    }
    draw_push(draw, op_of(FUZZ_FREE, slot, 0));
    return 1;
}

int draw_access(fuzz_draw *draw, model *m, int slot, int stream)
{
    model_block *block = &m->blocks[slot];
    uint64_t way = draw_below(draw, 8);
    fuzz_kind kind = way < 4 ? FUZZ_READ : way < 7 ? FUZZ_WRITE : FUZZ_FILL;
    fuzz_op op = op_of(kind, slot, stream);
    if (way == 3) {
        int other = draw_block(draw, m);
        op.kind = FUZZ_COPY;
        op.other = (uint8_t)other;
        if (other == slot || model_allows(m, &op) != NULL)
            op.kind = FUZZ_READ;
    }
    if (model_allows(m, &op) != NULL) {
        if (m->streams[stream].graph != 0)
            return 0;
        order_clock now = order_now(&m->order, m->streams[stream].component);
        int waits = 0;
        for (int i = 0; i < ORDER_COMPONENTS; i++) {
            uint32_t needed = i == block->ready_on ? block->ready : 0;
            if (i == block->writer && block->written > needed)
                needed = block->written;
            if (op.kind != FUZZ_READ && block->reads.at[i] > needed)
                needed = block->reads.at[i];
            if (needed <= now.at[i])
                continue;
            int from = draw_stream_of(m, i);
            if (from < 0 || from == stream || waits++ > 4)
                return 0;
            draw_wait(draw, m, from, stream);
        }
        if (waits == 0)
            return 0;
    }
    draw_push(draw, op);
    int is_peer = m->order.device[m->streams[stream].component] != block->device;
    if (m->streams[stream].component != block->home && !is_peer && draw_below(draw, 3) == 0) {
        op = op_of(draw_below(draw, 4) == 0 ? FUZZ_USE_STREAM : FUZZ_USE, slot, stream);
        op.n = draw_below(draw, block->bytes > 1 << 20 ? 1 << 20 : block->bytes);
        draw_push(draw, op);
    }
    return 1;
}

static int draw_touch(fuzz_draw *draw, model *m, int on_other)
{
    int slot = draw_block(draw, m);
    if (slot < 0 || m->blocks[slot].bytes == 0)
        return 0;
    const model_block *block = &m->blocks[slot];
    int device = block->device;
    if (on_other && model_is_open(m, device, block->pool) && draw_below(draw, 3) > 0)
        device = 1 - device;
    int stream = on_other ? draw_stream(draw, m, device) : draw_stream_of(m, block->writer);
    return stream < 0 ? 0 : draw_access(draw, m, slot, stream);
}

static int draw_mark(fuzz_draw *draw, model *m)
{
    int slot = draw_block(draw, m);
    if (slot < 0 || m->blocks[slot].bytes == 0)
        return 0;
    int stream = draw_stream(draw, m, m->blocks[slot].device);
    fuzz_op op = op_of(draw_below(draw, 3) == 0 ? FUZZ_USE_STREAM : FUZZ_USE, slot, stream);
    if (stream < 0)
        return 0;
    if (draw_below(draw, 4) == 0) {
        op.kind = FUZZ_KEEP;
        op.event = (uint8_t)draw_below(draw, FUZZ_EVENTS);
    }
    if (model_allows(m, &op) != NULL)
        return 0;
    draw_push(draw, op);
    return 1;
}

/* ---- order ---------------------------------------------------------------------------------- */

static int draw_order(fuzz_draw *draw, model *m)
{
    int from = draw_stream(draw, m, -1), to = draw_stream(draw, m, -1);
    fuzz_op tell = {.kind = FUZZ_TELL, .event = (uint8_t)draw_below(draw, FUZZ_EVENTS)};
    if (model_allows(m, &tell) == NULL) {
        draw_push(draw, tell);
        /* Who waits from here on is after it, as far as Tenure knows too. */
        fuzz_op wait = op_of(FUZZ_WAIT, 0, to < 0 ? 0 : to);
        wait.event = tell.event;
        wait.n = 1;
        if (to >= 0 && draw_below(draw, 2))
            draw_push(draw, wait);
        return 1;
    }
    if (from < 0 || to < 0 || from == to)
        return 0;
    draw_wait(draw, m, from, to);
    return 1;
}

static int draw_sync(fuzz_draw *draw, model *m, int is_query)
{
    static const fuzz_kind kinds[] = {FUZZ_SYNC_EVENT, FUZZ_SYNC_STREAM, FUZZ_SYNC_EVENT,
                                      FUZZ_SYNC_DEVICE};
    int stream = draw_stream(draw, m, -1);
    fuzz_op op =
        op_of(is_query ? FUZZ_QUERY : kinds[draw_below(draw, 4)], 0, stream < 0 ? 0 : stream);
    op.event = (uint8_t)draw_below(draw, FUZZ_EVENTS);
    op.device = (uint8_t)draw_below(draw, (uint64_t)draw->devices);
    op.n = is_query ? 0 : percent(draw, draw->told_percent);
    if (model_allows(m, &op) != NULL)
        return 0;
    draw_push(draw, op);
    return 1;
}

static int draw_stream_life(fuzz_draw *draw, model *m)
{
    int slot = 2 + (int)draw_below(draw, FUZZ_STREAMS - 2);
    fuzz_op op =
        op_of(m->streams[slot].is_there ? FUZZ_STREAM_DESTROY : FUZZ_STREAM_CREATE, 0, slot);
    op.device = (uint8_t)draw_below(draw, (uint64_t)draw->devices);
    op.n = draw->uses_blocking_streams && draw_below(draw, 2);
    op.m = draw_below(draw, 2);
    if (op.kind == FUZZ_STREAM_CREATE && slot - 2 >= draw->streams_target)
        return 0;
    if (model_allows(m, &op) != NULL)
        return 0;
    draw_push(draw, op);
    return 1;
}

/* ---- what comes next ------------------------------------------------------------------------ */

static int action_run(fuzz_draw *draw, model *m, int action)
{
    if (m->capturing && draw_below(draw, 6) == 0)
        switch (draw_below(draw, 7)) {
        case 0:
        case 1:
            return draw_redirect(draw, m);
        case 2:
            return draw_brief(draw, m);
        default:
            return draw_reuse_inside(draw, m);
        }
    switch (action) {
    case DRAW_MALLOC:
        return draw_malloc(draw, m);
    case DRAW_FREE:
        return draw_free(draw, m, draw_block(draw, m));
    case DRAW_TOUCH:
    case DRAW_TOUCH_OTHER:
        return draw_touch(draw, m, action == DRAW_TOUCH_OTHER);
    case DRAW_MARK:
        return draw_mark(draw, m);
    case DRAW_ORDER:
        return draw_order(draw, m);
    case DRAW_SYNC:
    case DRAW_QUERY:
        return draw_sync(draw, m, action == DRAW_QUERY);
    case DRAW_STREAM:
        return draw_stream_life(draw, m);
    case DRAW_CHAIN:
        return draw_chain(draw, m);
    case DRAW_CAPTURE:
    case DRAW_LAUNCH:
        return draw_graph_action(draw, m, action);
    default:
        return draw_control_action(draw, m, action);
    }
}

/* The first streams of a program. */
static void draw_first_streams(fuzz_draw *draw)
{
    for (int i = 0; i < draw->streams_target && i < 6; i++) {
        fuzz_op op = op_of(FUZZ_STREAM_CREATE, 0, 2 + i);
        op.device = (uint8_t)(i % draw->devices);
        op.n = draw->uses_blocking_streams && i >= 3 && draw_below(draw, 2);
        op.m = draw_below(draw, 2);
        draw_push(draw, op);
    }
    if (draw->devices == 2 && draw_below(draw, 2))
        draw_push(draw,
                  (fuzz_op){.kind = FUZZ_ACCESS, .device = (uint8_t)draw_below(draw, 2), .n = 1});
}

/* What has been under way for long enough ends. */
static void draw_ends(fuzz_draw *draw, model *m)
{
    if (draw->faults_left > 0 && --draw->faults_left == 0)
        draw_push(draw, (fuzz_op){.kind = FUZZ_FAULTS_OFF});
    if (m->capturing && draw->odd && draw_below(draw, 60) == 0)
        draw_capture_break(draw, m);
    else if (m->capturing && --draw->capture_left <= 0)
        draw_capture_end(draw, m);
}

fuzz_op fuzz_draw_next(fuzz_draw *draw, model *m)
{
    if (draw->given++ == 0)
        draw_first_streams(draw);
    if (draw->queue_count == 0)
        draw_ends(draw, m);
    if (draw->queue_count == 0 && draw->given > draw->illegal_after && !draw->illegal_done)
        draw->illegal_done = draw_plant(draw, m);
    if (draw->parks && draw->queue_count == 0 && draw_below(draw, 12) == 0)
        (void)draw_park(draw, m);
    if (draw->odd && draw->devices == 2 && m->capturing && draw->queue_count == 0 &&
        draw_below(draw, 4) == 0)
        (void)draw_peer_inside(draw, m);
    if (draw->odd && draw->queue_count == 0 && draw_below(draw, m->beside != 0 ? 12 : 40) == 0)
        (void)draw_odd(draw, m);
    if (draw->hosts && draw->queue_count == 0 && draw_below(draw, 4) == 0)
        (void)draw_host(draw, m);
    if (draw->ranges && draw->queue_count == 0 && draw_below(draw, 4) == 0)
        (void)draw_range(draw, m);
    for (int tries = 0; draw->queue_count == 0 && tries < 200; tries++)
        (void)action_run(draw, m, draw->actions[draw_below(draw, draw->weights_sum)]);
    if (draw->queue_count == 0)
        return (fuzz_op){.kind = FUZZ_RUN, .n = 1};
    fuzz_op op = draw->queue[draw->queue_first];
    draw->queue_first = (draw->queue_first + 1) % DRAW_QUEUE;
    draw->queue_count--;
    return op;
}
