/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted errors that contents alone must show. In plant.c a race detector shows the same errors.
 * Here the harm has to happen. So everything that came before runs first, and the memory gets a new
 * owner. The operation whose contents must suffer stays behind its gate until the other side is
 * over. Planted programs have the schedule "lazy". Then every operation has a gate, and only RUN
 * and RUN_STREAM open gates.
 *
 * Three errors of plant.c are missing. One is a stream that ends without a word: it shows only if
 * the driver gives a new stream the old handle; otherwise the driver would get a handle that is
 * invalid. The other two are those of peers, which need a second device.
 */
#include <string.h>

#include "draw.h"
#include "random.h"

enum { NEW_OWNERS = 6, PLANTED_KINDS = 10 };

typedef struct place {
    fuzz_draw *draw;
    uint8_t own, user, third; /* stream slots */
    uint8_t block;
    uint8_t owners[NEW_OWNERS];
    uint8_t event;
    uint64_t bytes;
} place;

int gate_planted_kind(int kind)
{
    return kind % PLANTED_KINDS;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void step(const place *s, fuzz_kind kind, int block, int stream, int is_illegal)
{
    draw_push(s->draw, (fuzz_op){.kind = (uint8_t)kind,
                                 .is_illegal = (uint8_t)is_illegal,
                                 .block = (uint8_t)block,
                                 .stream = (uint8_t)stream,
                                 .event = s->event,
                                 .n = kind == FUZZ_MALLOC ? s->bytes : 0});
}

/* Everything that is queued runs. */
static void steps_run_all(const place *s)
{
    draw_push(s->draw, (fuzz_op){.kind = FUZZ_RUN, .n = UINT64_MAX});
}

/* What is queued on the stream runs, and nothing else that has a gate. */
static void steps_run_stream(const place *s, uint8_t stream)
{
    draw_push(s->draw, (fuzz_op){.kind = FUZZ_RUN_STREAM, .stream = stream, .n = UINT64_MAX});
}

/* See steps_eager of plant.c. Nothing that is free already is in the way either. */
static void steps_eager(place *s)
{
    draw_push(s->draw, (fuzz_op){.kind = FUZZ_TRIM});
    s->bytes = (5 << 20) + 512 * random_below(&s->draw->random, 1000);
    for (uint8_t i = 0; i < fuzz_settings_count; i++)
        if (strcmp(fuzz_settings[i], "reuse:wait") == 0 ||
            strcmp(fuzz_settings[i], "reuse_mark_percent:0") == 0)
            draw_push(s->draw, (fuzz_op){.kind = FUZZ_CONFIGURE, .name = i});
}

/* A block with data that is there, and that the user may read. */
static void steps_begin(const place *s)
{
    step(s, FUZZ_MALLOC, s->block, s->own, 0);
    step(s, FUZZ_WRITE, s->block, s->own, 0);
    step(s, FUZZ_RECORD, 0, s->own, 0);
    step(s, FUZZ_WAIT, 0, s->user, 0);
    steps_run_all(s);
}

static void steps_owners(const place *s)
{
    for (int i = 0; i < NEW_OWNERS; i++) {
        step(s, FUZZ_MALLOC, s->owners[i], s->own, 0);
        step(s, FUZZ_WRITE, s->owners[i], s->own, 0);
    }
}

/* The new owners write; then whoever still reads the old block does. */
static void steps_reuse(const place *s)
{
    steps_owners(s);
    steps_run_stream(s, s->own);
    steps_run_all(s);
}

static void steps_use(place *s, int kind)
{
    if (kind != 0)
        steps_eager(s);
    steps_begin(s);
    if (kind == 1)
        step(s, FUZZ_USE, s->block, s->user, 0);
    if (kind == 9)
        draw_push(s->draw,
                  (fuzz_op){.kind = FUZZ_RECORD, .stream = s->user, .event = s->event, .n = 1});
    step(s, FUZZ_READ, s->block, s->user, 0);
    if (kind == 9)
        step(s, FUZZ_KEEP, s->block, 0, 0);
    step(s, kind == 8 ? FUZZ_FREE_ON : FUZZ_FREE, s->block, kind == 8 ? s->third : 0, 1);
    steps_reuse(s);
}

static void steps_after_free(const place *s, int is_write)
{
    step(s, FUZZ_MALLOC, s->block, s->own, 0);
    step(s, FUZZ_WRITE, s->block, s->own, 0);
    step(s, FUZZ_FREE, s->block, 0, 0);
    steps_owners(s);
    step(s, is_write ? FUZZ_WRITE : FUZZ_READ, s->block, s->own, 1);
    for (int i = 0; is_write && i < NEW_OWNERS; i++)
        step(s, FUZZ_READ, s->owners[i], s->own, 0);
    steps_run_all(s);
}

static void steps_free_wrong(const place *s, uint64_t offset)
{
    step(s, FUZZ_MALLOC, s->block, s->own, 0);
    draw_push(s->draw,
              (fuzz_op){.kind = FUZZ_FREE_WRONG, .is_illegal = 1, .block = s->block, .n = offset});
}

static void steps_push(place *s, int kind)
{
    steps_run_all(s);
    switch (kind) {
    case 2: /* the reader comes before the writer that it did not wait for */
        step(s, FUZZ_MALLOC, s->block, s->own, 0);
        step(s, FUZZ_WRITE, s->block, s->own, 0);
        step(s, FUZZ_READ, s->block, s->user, 1);
        steps_run_stream(s, s->user);
        steps_run_all(s);
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
    default:
        steps_use(s, kind);
    }
}

/* ---- where ---------------------------------------------------------------------------------- */

/* Three non-blocking streams of device 0. Returns 0 if there are none. */
static int place_streams(place *s, const model *m)
{
    uint8_t *slots[] = {&s->own, &s->user, &s->third};
    int found = 0;
    for (int i = 2; i < FUZZ_STREAMS && found < 3; i++) {
        const model_stream *stream = &m->streams[i];
        if (stream->is_there && !m->order.is_blocking[stream->component] &&
            m->order.device[stream->component] == 0)
            *slots[found++] = (uint8_t)i;
    }
    return found == 3;
}

int gate_plant(fuzz_draw *draw, const model *m)
{
    place s = {.draw = draw, .event = (uint8_t)random_below(&draw->random, FUZZ_EVENTS)};
    if (m->capturing || m->default_asleep[0] || !place_streams(&s, m))
        return 0;
    uint8_t slots[1 + NEW_OWNERS];
    if (!draw_blocks_free(m, slots, 1 + NEW_OWNERS))
        return 0;
    s.block = slots[0];
    memcpy(s.owners, slots + 1, NEW_OWNERS);
    s.bytes = 512 * (1 + random_below(&draw->random, 64));
    steps_push(&s, draw->illegal_kind);
    return 1;
}
