/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted errors: exactly one step that a program must not take, with legal steps around it that
 * make it matter. Some errors show only once the memory has a new owner. Then blocks of the same
 * size are allocated and written until one of them must have got it.
 *
 * Each error is drawn between two otherwise unrelated non-blocking streams, so that only the step
 * in question could order them. In the last errors the two streams are of two devices.
 *
 * In gated programs (gate.h) no race detector shows the error: the harm has to happen, and contents
 * show it. So everything that came before runs first, the memory always gets a new owner, and the
 * operation whose contents must suffer stays behind its gate until the other side is over. Such
 * programs have the schedule "lazy". Then every operation has a gate, and only RUN and RUN_STREAM
 * open gates. Errors from GATED_END on are not planted in them: of a stream that ends without a
 * word, the driver may get a handle that is invalid; the others need a second device, or segments.
 */
#include <string.h>

#include "draw.h"

const char *const fuzz_planted_names[] = {
    "use not recorded",
    "use recorded too early",
    "wait omitted",
    "write after free",
    "read after free",
    "double free",
    "foreign free",
    "interior free",
    "free on the wrong stream",
    "kept until too early an event",
    "stream's end not told",
    "peer's use not waited for",
    "peer's access of what is closed",
    "use in a segment not recorded",
    "owner gives a segment twice",
    "free in a host function, use not recorded",
    "pool with a block ended in a miss",
    "another thread's capture ended",
};

/* Two kinds for two devices, then those of a pool over segments, and those of odd programs. */
enum {
    NEW_OWNERS = 8,
    GATED_END = 10,
    PLANTED_PEERS = 11,
    PLANTED_SEGMENTS = 13,
    PLANTED_ODD = 15,
    PLANTED_END = 18
};

void draw_planted_range(const fuzz_limits *limits, int *first, int *end)
{
    int is_odd = limits->odd && !limits->gated;
    *first = is_odd ? PLANTED_ODD : 0;
    *end = is_odd ? PLANTED_END : limits->gated ? GATED_END : PLANTED_ODD;
}

/* Where the error is planted. */
typedef struct site {
    fuzz_draw *draw;
    uint8_t own, user, third; /* stream slots */
    uint8_t block;
    uint8_t owners[NEW_OWNERS];
    uint8_t event, stream_new;
    uint8_t pool;
    uint64_t bytes;
} site;

static void step(const site *s, fuzz_kind kind, int block, int stream, int is_illegal)
{
    fuzz_op op = {.kind = (uint8_t)kind,
                  .is_illegal = (uint8_t)is_illegal,
                  .block = (uint8_t)block,
                  .stream = (uint8_t)stream,
                  .event = s->event};
    if (kind == FUZZ_MALLOC) {
        op.n = s->bytes;
        op.pool = s->pool;
    }
    draw_push(s->draw, op);
}

/* If gated: all that is queued runs. */
static void steps_run_all(const site *s)
{
    if (s->draw->is_gated)
        draw_push(s->draw, (fuzz_op){.kind = FUZZ_RUN, .n = UINT64_MAX});
}

/* If gated: what is queued on the stream runs, and nothing else that has a gate; then the rest. */
static void steps_run_first(const site *s, uint8_t stream)
{
    if (s->draw->is_gated)
        draw_push(s->draw, (fuzz_op){.kind = FUZZ_RUN_STREAM, .stream = stream, .n = UINT64_MAX});
    steps_run_all(s);
}

/* A free that waits for a use comes back only when memory is missed, so the sizes are such that
 * nothing else fits, and then at once, behind a wait for the use that Tenure knows of: too early a
 * one. What was pending before is over and given back: otherwise the memory of a block that
 * tnr_free_sync had freed, or of another stream, may be taken first, behind a wait that happens to
 * order what the error leaves without order. */
static void steps_eager(site *s)
{
    s->bytes = (5 << 20) + 512 * draw_below(s->draw, 1000);
    for (uint8_t i = 0; i < fuzz_settings_count; i++)
        if (strcmp(fuzz_settings[i], "reuse:wait") == 0 ||
            strcmp(fuzz_settings[i], "reuse_mark_percent:0") == 0)
            draw_push(s->draw, (fuzz_op){.kind = FUZZ_CONFIGURE, .name = i});
    draw_push(s->draw, (fuzz_op){.kind = FUZZ_SYNC_DEVICE, .n = 1});
    draw_push(s->draw, (fuzz_op){.kind = FUZZ_TRIM});
}

/* A block with data that the user may read. */
static void steps_begin(const site *s)
{
    step(s, FUZZ_MALLOC, s->block, s->own, 0);
    step(s, FUZZ_WRITE, s->block, s->own, 0);
    step(s, FUZZ_RECORD, 0, s->own, 0);
    step(s, FUZZ_WAIT, 0, s->user, 0);
    steps_run_all(s);
}

/* The next owners of the memory. */
static void steps_owners(const site *s, int stream)
{
    for (int i = 0; i < NEW_OWNERS; i++) {
        step(s, FUZZ_MALLOC, s->owners[i], stream, 0);
        step(s, FUZZ_WRITE, s->owners[i], stream, 0);
    }
}

/* They write; then what still reads the old block does. */
static void steps_reuse(const site *s, uint8_t stream)
{
    steps_owners(s, stream);
    steps_run_first(s, stream);
}

/* If gated, the memory has new owners before the block is touched, and they read. */
static void steps_after_free(const site *s, int is_write)
{
    step(s, FUZZ_MALLOC, s->block, s->own, 0);
    step(s, FUZZ_WRITE, s->block, s->own, 0);
    step(s, FUZZ_FREE, s->block, 0, 0);
    if (s->draw->is_gated)
        steps_owners(s, s->own);
    step(s, is_write ? FUZZ_WRITE : FUZZ_READ, s->block, s->own, 1);
    for (int i = 0; is_write && s->draw->is_gated && i < NEW_OWNERS; i++)
        step(s, FUZZ_READ, s->owners[i], s->own, 0);
    steps_run_all(s);
}

static void steps_free_wrong(const site *s, uint64_t offset)
{
    step(s, FUZZ_MALLOC, s->block, s->own, 0);
    draw_push(s->draw,
              (fuzz_op){.kind = FUZZ_FREE_WRONG, .is_illegal = 1, .block = s->block, .n = offset});
}

/* Uses by a stream of device 1. */
static void steps_push_peers(const site *s, int kind)
{
    int is_open = kind == PLANTED_PEERS;
    draw_push(s->draw, (fuzz_op){.kind = FUZZ_ACCESS, .n = (uint64_t)is_open});
    steps_begin(s);
    step(s, FUZZ_READ, s->block, s->user, !is_open);
    if (!is_open) {
        step(s, FUZZ_SYNC_STREAM, 0, s->user, 0); /* it runs before the pool may be opened */
    } else {
        step(s, FUZZ_FREE, s->block, 0, 1);
        steps_reuse(s, s->own);
    }
}

/* The pool is made for it. */
static void steps_push_segments(site *s, int kind)
{
    draw_push(s->draw, (fuzz_op){.kind = FUZZ_POOL_SEGMENTS, .pool = s->pool});
    steps_begin(s);
    if (kind == PLANTED_SEGMENTS) {
        step(s, FUZZ_READ, s->block, s->user, 0);
        step(s, FUZZ_FREE, s->block, 0, 1);
        steps_reuse(s, s->own);
        return;
    }
    step(s, FUZZ_OWNER, 0, 0, 1);
    s->bytes = 30 << 20; /* more than its first segment has */
    step(s, FUZZ_MALLOC, s->owners[0], s->own, 0);
}

/* The errors of what draw_odd.c draws. */
static void steps_push_odd(site *s, const model *m, int kind)
{
    if (kind == PLANTED_ODD) {
        steps_begin(s);
        step(s, FUZZ_READ, s->block, s->user, 0);
        step(s, FUZZ_FREE_HOST, s->block, s->own, 1);
        steps_reuse(s, s->own);
    } else if (kind == PLANTED_ODD + 1) {
        draw_push(s->draw, (fuzz_op){.kind = FUZZ_LIMIT, .n = UINT64_MAX});
        draw_push(s->draw, (fuzz_op){.kind = FUZZ_POOL_CREATE, .pool = s->pool});
        step(s, FUZZ_MALLOC, s->block, s->own, 0);
        draw_push(s->draw, (fuzz_op){.kind = FUZZ_MISS,
                                     .is_illegal = 1,
                                     .block = s->owners[0],
                                     .stream = s->own,
                                     .pool = s->pool,
                                     .n = m->memory_bytes - m->headroom_bytes - (1 << 20)});
    } else {
        draw_push(s->draw, (fuzz_op){.kind = FUZZ_BESIDE, .n = 1});
        draw_push(s->draw, (fuzz_op){.kind = FUZZ_BESIDE_END, .is_illegal = 1});
    }
}

static void steps_push(site *s, int kind)
{
    steps_run_all(s);
    if (kind == 1 || kind == 8 || kind == 9)
        steps_eager(s);
    switch (kind) {
    case 0:
        steps_begin(s);
        step(s, FUZZ_READ, s->block, s->user, 0);
        step(s, FUZZ_FREE, s->block, 0, 1);
        steps_reuse(s, s->own);
        break;
    case 1:
        steps_begin(s);
        step(s, FUZZ_USE, s->block, s->user, 0);
        step(s, FUZZ_READ, s->block, s->user, 0);
        step(s, FUZZ_FREE, s->block, 0, 1);
        steps_reuse(s, s->own);
        break;
    case 2:
        step(s, FUZZ_MALLOC, s->block, s->own, 0);
        step(s, FUZZ_WRITE, s->block, s->own, 0);
        step(s, FUZZ_READ, s->block, s->user, 1);
        steps_run_first(s, s->user); /* before the writer that it did not wait for */
        break;
    case 3:
    case 4:
        steps_after_free(s, kind == 3);
        break;
    case 5:
        step(s, FUZZ_MALLOC, s->block, s->own, 0);
        step(s, FUZZ_FREE, s->block, 0, 0);
        step(s, FUZZ_FREE, s->block, 0, 1);
        break;
    case 6:
        steps_free_wrong(s, 0);
        break;
    case 7:
        steps_free_wrong(s, 1 + s->bytes / 2);
        break;
    case 8:
        steps_begin(s);
        step(s, FUZZ_READ, s->block, s->user, 0);
        step(s, FUZZ_FREE_ON, s->block, s->third, 1);
        steps_reuse(s, s->own);
        break;
    case 9:
        steps_begin(s);
        draw_push(s->draw,
                  (fuzz_op){.kind = FUZZ_RECORD, .stream = s->user, .event = s->event, .n = 1});
        step(s, FUZZ_READ, s->block, s->user, 0);
        step(s, FUZZ_KEEP, s->block, 0, 0);
        step(s, FUZZ_FREE, s->block, 0, 1);
        steps_reuse(s, s->own);
        break;
    default: {
        fuzz_op create = {.kind = FUZZ_STREAM_CREATE, .stream = s->stream_new};
        draw_push(s->draw, create);
        step(s, FUZZ_MALLOC, s->block, s->stream_new, 0);
        step(s, FUZZ_WRITE, s->block, s->stream_new, 0);
        step(s, FUZZ_FREE, s->block, 0, 0);
        step(s, FUZZ_STREAM_DESTROY, s->block, s->stream_new, 1);
        draw_push(s->draw, create); /* the driver gives it the same handle */
        steps_reuse(s, s->stream_new);
    }
    }
}

/* Three non-blocking streams of device 0, and a slot for another. Returns 0 if there are none. */
static int site_streams(site *s, model *m)
{
    int found = 0;
    s->stream_new = 0;
    for (int i = 2; i < FUZZ_STREAMS; i++) {
        const model_stream *stream = &m->streams[i];
        if (!stream->is_there) {
            s->stream_new = (uint8_t)i;
            continue;
        }
        if (m->order.is_blocking[stream->component] || m->order.device[stream->component] != 0)
            continue;
        *(found == 0 ? &s->own : found == 1 ? &s->user : &s->third) = (uint8_t)i;
        found++;
    }
    return found >= 3 && s->stream_new != 0;
}

/* One of each device. */
static int site_peers(site *s, const model *m)
{
    uint8_t *slots[FUZZ_DEVICES] = {&s->own, &s->user};
    for (uint8_t i = 2; i < FUZZ_STREAMS; i++) {
        const model_stream *stream = &m->streams[i];
        if (stream->is_there && !m->order.is_blocking[stream->component])
            *slots[m->order.device[stream->component]] = i;
    }
    return s->own != 0 && s->user != 0;
}

static int is_of_peers(int kind)
{
    return kind >= PLANTED_PEERS && kind < PLANTED_SEGMENTS;
}

int draw_planted_devices(int kind)
{
    return is_of_peers(kind) ? 2 : 1;
}

int draw_plant(fuzz_draw *draw, model *m)
{
    site s = {.draw = draw, .event = (uint8_t)draw_below(draw, FUZZ_EVENTS)};
    int is_peers = is_of_peers(draw->illegal_kind);
    int is_odd = draw->illegal_kind >= PLANTED_ODD;
    int is_segments = draw->illegal_kind >= PLANTED_SEGMENTS && !is_odd;
    int has_pool = is_segments || draw->illegal_kind == PLANTED_ODD + 1;
    for (uint8_t p = 1; p < FUZZ_POOLS && has_pool; p++)
        if (!m->pools[p].is_there)
            s.pool = p;
    int is_site = is_peers ? site_peers(&s, m) : site_streams(&s, m);
    if (m->capturing || m->default_asleep[0] || !is_site || (has_pool && s.pool == 0))
        return 0;
    uint8_t slots[1 + NEW_OWNERS];
    if (!draw_blocks_free(m, slots, 1 + NEW_OWNERS))
        return 0;
    s.block = slots[0];
    memcpy(s.owners, slots + 1, NEW_OWNERS);
    s.bytes = 512 * (1 + draw_below(draw, 64));
    if (is_peers)
        steps_push_peers(&s, draw->illegal_kind);
    else if (is_odd)
        steps_push_odd(&s, m, draw->illegal_kind);
    else if (is_segments)
        steps_push_segments(&s, draw->illegal_kind);
    else
        steps_push(&s, draw->illegal_kind);
    return 1;
}
