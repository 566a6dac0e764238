/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drawing what concerns pools, limits, settings, sleep, injected failures and the schedule.
 */
#include <string.h>

#include "draw.h"

#define MIB ((uint64_t)1 << 20)

static int draw_pool(fuzz_draw *draw, model *m)
{
    fuzz_op op = {.pool = (uint8_t)(1 + draw_below(draw, FUZZ_POOLS - 1))};
    op.device = (uint8_t)draw_below(draw, (uint64_t)draw->devices);
    if (m->pools[op.pool].is_there) {
        op.kind = FUZZ_POOL_DESTROY;
        return draw_push_allowed(draw, m, op);
    }
    if ((int)draw_below(draw, 100) < draw->foreign_percent) {
        op.kind = draw_below(draw, 3) == 0 ? FUZZ_POOL_SEGMENT_GRAPHS : FUZZ_POOL_SEGMENTS;
        if (op.kind == FUZZ_POOL_SEGMENTS && draw_below(draw, 4) == 0)
            op.n = (24 + draw_below(draw, 64)) * MIB;
        if (draw_below(draw, 2) == 0)
            op.m = (2 * MIB) << draw_below(draw, 5);
        return draw_push_allowed(draw, m, op);
    }
    op.kind = draw_below(draw, 3) == 0 ? FUZZ_POOL_GRAPHS : FUZZ_POOL_CREATE;
    if (op.kind == FUZZ_POOL_CREATE && draw_below(draw, 3) == 0)
        op.n = (8 + draw_below(draw, 64)) * MIB;
    if (op.kind == FUZZ_POOL_CREATE && draw_below(draw, 3) == 0)
        op.m = (1 + draw_below(draw, 16)) * MIB;
    return draw_push_allowed(draw, m, op);
}

/* A growable block is made, grown step by step, and freed as any other. */
static int draw_growable(fuzz_draw *draw, model *m)
{
    int slot = -1;
    for (int i = 0; i < m->live_count; i++)
        if (m->blocks[m->live[i]].reserved > 0 && !m->blocks[m->live[i]].is_range &&
            m->blocks[m->live[i]].part_of == 0)
            slot = m->live[i];
    fuzz_op op = {.kind = FUZZ_COMMIT, .block = (uint8_t)slot};
    if (slot >= 0 && draw_below(draw, 4) > 0) {
        const model_block *block = &m->blocks[slot];
        op.n = block->bytes + 1 + draw_below(draw, 4 * MIB);
        if (op.n > block->reserved)
            op.n = block->reserved;
        int home = draw_stream_of(m, block->home);
        if (!draw_push_allowed(draw, m, op))
            return 0;
        if (home >= 0)
            draw_push(
                draw,
                (fuzz_op){.kind = FUZZ_WRITE, .block = (uint8_t)slot, .stream = (uint8_t)home});
        return 1;
    }
    int stream = draw_stream(draw, m, -1);
    slot = draw_block_free(draw, m);
    if (stream < 0 || slot < 0 || m->live_count >= draw->live_target)
        return 0;
    op = (fuzz_op){.kind = FUZZ_RESERVE, .block = (uint8_t)slot, .stream = (uint8_t)stream};
    op.n = 1 + draw_below(draw, 32 * MIB);
    return draw_push_allowed(draw, m, op);
}

static int draw_sleep(fuzz_draw *draw, model *m)
{
    fuzz_op op = {.kind = FUZZ_SLEEP, .pool = (uint8_t)draw_below(draw, FUZZ_POOLS)};
    op.device = (uint8_t)draw_below(draw, (uint64_t)draw->devices);
    if (op.pool > 0)
        op.device = m->pools[op.pool].device;
    op.n = draw_below(draw, 3);
    if (m->pools[op.pool].is_graph && op.n == 2)
        op.n = 0; /* its graphs read what they have not written */
    int slot = draw_block(draw, m);
    if (slot >= 0 && draw_below(draw, 2)) {
        fuzz_op content = {.kind = FUZZ_CONTENT, .block = (uint8_t)slot, .n = draw_below(draw, 3)};
        (void)draw_push_allowed(draw, m, content);
    }
    if (draw->devices == 2 && !m->capturing) { /* a sleep does not wait for the other device */
        draw_push(draw, (fuzz_op){.kind = FUZZ_SYNC_DEVICE, .device = 1 - op.device});
        draw_push(draw, op);
        if (draw_below(draw, 2))
            draw_push(draw, (fuzz_op){.kind = FUZZ_ACCESS,
                                      .pool = op.pool,
                                      .device = op.device,
                                      .n = !model_is_open(m, op.device, op.pool)});
    } else if (!draw_push_allowed(draw, m, op)) {
        return draw->queue_count > 0;
    }
    op.kind = FUZZ_WAKE;
    if (draw_below(draw, 2)) { /* a free while it sleeps */
        slot = draw_block(draw, m);
        if (slot >= 0)
            draw_push(draw, (fuzz_op){.kind = FUZZ_FREE, .block = (uint8_t)slot});
    }
    draw_push(draw, op);
    return 1;
}

/* As a sleep, it does not wait for the other device's work. */
static int draw_compact(fuzz_draw *draw, model *m)
{
    fuzz_op op = {.kind = FUZZ_COMPACT, .pool = (uint8_t)draw_below(draw, FUZZ_POOLS)};
    op.device =
        op.pool > 0 ? m->pools[op.pool].device : (uint8_t)draw_below(draw, (uint64_t)draw->devices);
    if (draw->devices < 2 || m->capturing)
        return draw_push_allowed(draw, m, op);
    draw_push(draw, (fuzz_op){.kind = FUZZ_SYNC_DEVICE, .device = 1 - op.device});
    draw_push(draw, op);
    return 1;
}

/* A call of the entry point in what comes next may fail. */
static void draw_one_fault(fuzz_draw *draw, const char *entry, uint64_t nth)
{
    if (!draw->draws_faults || draw->faults_left > 0 || draw_below(draw, 4) > 0)
        return;
    for (uint8_t i = 0; i < fuzz_entries_count; i++)
        if (strcmp(fuzz_entries[i], entry) == 0)
            draw_push(draw,
                      (fuzz_op){.kind = FUZZ_FAULT, .name = i, .n = 1 + draw_below(draw, nth)});
    draw->faults_left = 2;
}

/* A pool is named. One over segments cannot wait for the work on them, now and then: it is to keep
 * them then, also when the next request comes by. */
static int draw_pool_trim(fuzz_draw *draw, model *m)
{
    fuzz_op op = {.kind = FUZZ_POOL_TRIM, .pool = (uint8_t)draw_below(draw, FUZZ_POOLS)};
    op.device =
        op.pool > 0 ? m->pools[op.pool].device : (uint8_t)draw_below(draw, (uint64_t)draw->devices);
    op.n = draw_below(draw, 4) * 4 * MIB;
    if (model_allows(m, &op) != NULL)
        return 0;
    if (m->pools[op.pool].is_foreign)
        draw_one_fault(draw, "cuEventSynchronize", 2);
    draw_push(draw, op);
    int stream = draw_stream(draw, m, op.device), slot = draw_block_free(draw, m);
    if (m->pools[op.pool].is_foreign && !m->pools[op.pool].is_graph && stream >= 0 && slot >= 0)
        draw_push(draw, (fuzz_op){.kind = FUZZ_MALLOC,
                                  .block = (uint8_t)slot,
                                  .stream = (uint8_t)stream,
                                  .pool = op.pool,
                                  .n = draw_bytes(draw)});
    return 1;
}

/* What is closed is opened, what is open most often closed; now and then nothing changes. */
static int draw_access_change(fuzz_draw *draw, model *m)
{
    fuzz_op op = {.kind = draw_below(draw, 8) == 0 ? FUZZ_ACCESS_ALL : FUZZ_ACCESS};
    op.device = (uint8_t)draw_below(draw, (uint64_t)draw->devices);
    if (op.kind == FUZZ_ACCESS)
        op.pool = (uint8_t)draw_below(draw, FUZZ_POOLS);
    if (op.pool > 0)
        op.device = m->pools[op.pool].device;
    int is_open = model_is_open(m, op.device, op.kind == FUZZ_ACCESS ? op.pool : FUZZ_POOLS);
    op.n = (uint64_t)(is_open ? draw_below(draw, 3) == 0 : draw_below(draw, 8) > 0);
    if (model_allows(m, &op) != NULL)
        return 0;
    /* At one of its chunks: it is to be taken back then. */
    draw_one_fault(draw, "cuMemSetAccess", 6);
    draw_push(draw, op);
    return 1;
}

static int draw_fault(fuzz_draw *draw, model *m)
{
    (void)m;
    size_t entries = fuzz_entries_count - (draw->devices < 2 ? fuzz_entries_peers : 0);
    if (draw->faults_left > 0)
        return 0;
    for (uint64_t i = 1 + draw_below(draw, 3); i > 0; i--) {
        fuzz_op op = {.kind = FUZZ_FAULT, .name = (uint8_t)draw_below(draw, entries)};
        op.n = 1 + draw_below(draw, 4);
        op.m = draw_below(draw, 4) == 0;
        draw_push(draw, op);
    }
    draw->faults_left = 2 + (int)draw_below(draw, 30);
    return 1;
}

/* The stream goes on with the block; or nobody does, so that only the library knows of its copy. */
static int draw_unpark(fuzz_draw *draw, model *m, fuzz_op op)
{
    static const uint8_t next[] = {FUZZ_READ, FUZZ_WRITE, FUZZ_FREE};
    op.kind = FUZZ_UNPARK;
    if (!draw_push_allowed(draw, m, op))
        return 0;
    op.kind = next[draw_below(draw, sizeof(next))];
    draw_push(draw, op);
    return 1;
}

/* Large ones more often: of small ones nothing serves others. */
int draw_park(fuzz_draw *draw, model *m)
{
    fuzz_op op = {.kind = FUZZ_PARK};
    int slot = -1;
    for (int tries = 0; tries < 8; tries++) {
        slot = draw_block(draw, m);
        if (slot >= 0 && (m->blocks[slot].is_parked || m->blocks[slot].bytes >= 2 * MIB))
            break;
    }
    if (slot < 0)
        return 0;
    int home = draw_stream_of(m, m->blocks[slot].home);
    int stream =
        home < 0 || draw_below(draw, 3) == 0 ? draw_stream(draw, m, m->blocks[slot].device) : home;
    if (stream < 0)
        return 0;
    op.block = (uint8_t)slot;
    op.stream = (uint8_t)stream;
    if (m->blocks[slot].is_parked)
        return draw_unpark(draw, m, op);
    op.n = draw_below(draw, 3);
    if (!draw_push_allowed(draw, m, op))
        return 0;
    int other = draw_block_free(draw, m);
    if (other < 0 || draw_below(draw, 2) == 0)
        return 1;
    fuzz_op taker = {.kind = FUZZ_MALLOC, .block = (uint8_t)other, .n = m->blocks[slot].bytes};
    int by = draw_below(draw, 2) ? stream : draw_stream(draw, m, m->blocks[slot].device);
    taker.pool = m->blocks[slot].pool;
    taker.stream = (uint8_t)(by < 0 ? stream : by);
    draw_push(draw, taker);
    taker.kind = FUZZ_WRITE;
    draw_push(draw, taker);
    return 1;
}

/* Most blocks at once, as the end of an iteration does. */
static int draw_storm(fuzz_draw *draw, model *m)
{
    for (int i = 0; i < m->live_count && draw->queue_count < DRAW_QUEUE - 2; i++) {
        fuzz_op op = {.kind = FUZZ_FREE, .block = m->live[i]};
        (void)draw_push_allowed(draw, m, op);
    }
    return draw->queue_count > 0;
}

static int draw_look(fuzz_draw *draw, model *m, int is_wrong)
{
    int slot = draw_block(draw, m);
    if (slot < 0 || m->blocks[slot].bytes < 2)
        return 0;
    fuzz_op op = {.kind = is_wrong ? FUZZ_FREE_WRONG : FUZZ_LOOK, .block = (uint8_t)slot};
    uint64_t reach = m->blocks[slot].bytes > MIB ? MIB : m->blocks[slot].bytes;
    op.n = is_wrong && draw_below(draw, 4) == 0 ? 0 : draw_below(draw, reach);
    return draw_push_allowed(draw, m, op);
}

/* Memory of the default pool less often: once it is registered, nothing moves there any more. */
static int draw_register(fuzz_draw *draw, model *m)
{
    int slot = draw_block(draw, m);
    if (slot < 0 || (m->blocks[slot].pool == 0 && draw_below(draw, 16) > 0))
        return 0;
    return draw_push_allowed(draw, m, (fuzz_op){.kind = FUZZ_REGISTER, .block = (uint8_t)slot});
}

int draw_control_action(fuzz_draw *draw, model *m, int action)
{
    fuzz_op op = {.device = (uint8_t)draw_below(draw, (uint64_t)draw->devices)};
    int stream;
    switch (action) {
    case DRAW_EVENT:
        op.kind = FUZZ_EVENT_DESTROY;
        op.event = (uint8_t)draw_below(draw, FUZZ_EVENTS);
        return draw_push_allowed(draw, m, op);
    case DRAW_POOL:
        return draw_pool(draw, m);
    case DRAW_GROWABLE:
        return draw_growable(draw, m);
    case DRAW_TRIM:
        op.kind = FUZZ_TRIM;
        op.n = draw_below(draw, 4) * 4 * MIB;
        if (draw_below(draw, 2) == 0)
            return draw_pool_trim(draw, m);
        return draw_push_allowed(draw, m, op);
    case DRAW_LIMIT:
        op.kind = FUZZ_LIMIT;
        op.n = draw_below(draw, 2) ? UINT64_MAX : (16 + draw_below(draw, 128)) * MIB;
        return draw_push_allowed(draw, m, op);
    case DRAW_CONFIGURE:
        op = (fuzz_op){.kind = FUZZ_CONFIGURE,
                       .name = (uint8_t)draw_below(draw, fuzz_settings_count)};
        return draw_push_allowed(draw, m, op);
    case DRAW_LOOK:
    case DRAW_WRONG:
        return draw_look(draw, m, action == DRAW_WRONG);
    case DRAW_STATS:
        op.kind = FUZZ_STATS;
        return draw_push_allowed(draw, m, op);
    case DRAW_SNAPSHOT:
        op = (fuzz_op){.kind = draw_below(draw, 4) ? FUZZ_SNAPSHOT : FUZZ_HISTORY,
                       .n = draw_below(draw, 2)};
        if (draw_below(draw, 8) > 0)
            return 0; /* a snapshot costs as much as thousands of other operations */
        return draw_push_allowed(draw, m, op);
    case DRAW_SLEEP:
        /* It copies all of its memory. Of two devices one sleeps more often. */
        if (draw_below(draw, 2) == 0)
            return draw_compact(draw, m);
        return draw_below(draw, draw->devices == 2 ? 8 : 32) == 0 && draw_sleep(draw, m);
    case DRAW_RUN:
        stream = draw_stream(draw, m, -1);
        op = (fuzz_op){.kind = FUZZ_RUN, .n = 1 + draw_below(draw, 16)};
        if (stream >= 0 && draw_below(draw, 4) == 0) {
            op.kind = FUZZ_RUN_STREAM;
            op.stream = (uint8_t)stream;
        }
        return draw_push_allowed(draw, m, op);
    case DRAW_FAULT:
        return draw_fault(draw, m);
    case DRAW_ACCESS:
        return draw_access_change(draw, m);
    case DRAW_REGISTER:
        return draw_register(draw, m);
    case DRAW_OWNER:
        op = (fuzz_op){.kind = FUZZ_OWNER, .n = draw_below(draw, 4), .m = 1 + draw_below(draw, 6)};
        return draw_push_allowed(draw, m, op);
    default:
        return draw_storm(draw, m);
    }
}
