/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of streams (tools/check/streams.c, clock.c), by itself.
 *
 * Compared with clocks that are whole arrays: random programs of blocking and other streams,
 * default streams of two devices, events, and a host that waits. After each step each stream is
 * asked for all work of all others. And the work is counted: nodes of clocks that are looked at or
 * made. With four times as many streams it is at most six times as much, whichever way the streams
 * wait for each other.
 *
 * Taken out, each by itself, and seen to fail. Order: a stream takes any clock for its own
 * (is_after_all), or is told nothing of itself by others (is_own); it knows only of a work that
 * came before what it was told (known_only); a work counts before it is there (work_of); a node
 * that others hold is changed (node_own, check_clock_raise); a dead stream's clock stays for the
 * next one of its index; what changed is not listed for the legacy stream, or not for the host; a
 * part stays in the list of the device that it was on, or does not begin after what its launch
 * comes after; a moment that covers a part is believed to be of one stream (check_moment_cover).
 * Work: a stream never knows of one work only (fork), the host looks at each clock (chain, fork).
 * No memory: any line that says so (check_order_lost in clock.c and streams.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check/findings.h"
#include "check/pinned.h"
#include "check/race.h"
#include "check/sole.h"
#include "check/streams.h"
#include "driver.h"
#include "service.h"

/* ---- what the checker has around it ---------------------------------------------------------- */

driver_functions driver;
_Atomic int driver_is_found = 1;
_Atomic int check_state = CHECK_REPORTS;
_Atomic size_t check_findings_count, check_findings_said;
_Atomic int check_races_wait;

int driver_look(void)
{
    return 1;
}

CUresult driver_absent(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

int check_begin(void)
{
    return CHECK_REPORTS;
}

int service_enter(void)
{
    return 1;
}

void service_leave(void)
{
}

void check_findings_say_new(void)
{
}

void check_races_find(void)
{
}

void check_pinned_settle(void)
{
}

void check_sole_ends(void)
{
}

void check_sole_stream_ends(CUstream stream)
{
    (void)stream;
}

const char *check_text_keep(const char *text)
{
    return text;
}

/* ---- whole clocks ---------------------------------------------------------------------------- */

enum { LOWER = 24, MOST = 80, EVENTS = 8, DEVICES = 2, PARTS = 4, ROUNDS = 60000 };
enum kind { LEGACY, BLOCKING, FREE_RUNNING };

typedef struct whole {
    uint64_t at[MOST]; /* by the checker's index */
} whole;

typedef struct modelled {
    uintptr_t handle; /* 0: of a default stream */
    enum kind kind;
    int device;
    size_t index;
    uint64_t done;
    whole known;
} modelled;

static modelled list[LOWER];
static size_t list_count;
static modelled ended[MOST]; /* by index, until the index is another's */
static int has_ended[MOST];
static modelled parts[PARTS]; /* of launches, the same for many streams */
static check_stream *part_streams[PARTS];
static whole host, marks[EVENTS];
static int has_mark[EVENTS];
static uintptr_t handles_made;
static uint64_t random_state;

static size_t random_below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state >> 11) % limit;
}

static void whole_join(whole *to, const whole *from)
{
    for (size_t i = 0; i < MOST; i++)
        if (to->at[i] < from->at[i])
            to->at[i] = from->at[i];
}

static void whole_follow(whole *to, const modelled *stream, uint64_t number)
{
    whole_join(to, &stream->known);
    if (to->at[stream->index] < number)
        to->at[stream->index] = number;
}

/* The streams that there are, parts, and those that have ended. */
static const modelled *modelled_at(size_t i)
{
    if (i < list_count)
        return &list[i];
    i -= list_count;
    return i < PARTS ? &parts[i] : &ended[i - PARTS];
}

static int is_there(size_t i, int device)
{
    return (i < list_count + PARTS || has_ended[i - list_count - PARTS]) &&
           (device < 0 || modelled_at(i)->device == device);
}

static void modelled_settle(modelled *self)
{
    for (size_t i = 0; i < list_count + PARTS + MOST; i++) {
        const modelled *other = modelled_at(i);
        int pair = self->kind == LEGACY ? other->kind == BLOCKING
                                        : self->kind == BLOCKING && other->kind == LEGACY;
        if (pair && is_there(i, self->device))
            whole_follow(&self->known, other, other->done);
    }
}

/* ---- both ------------------------------------------------------------------------------------ */

static CUstream handle_of(const modelled *self)
{
    return (CUstream)self->handle; /* NOLINT: a handle is a number here */
}

static check_name name_of(const modelled *self)
{
    return (check_name){handle_of(self), check_stream_key(handle_of(self), self->device),
                        self->device, 0};
}

static check_stream *stream_of(modelled *self)
{
    check_name name = name_of(self);
    check_stream *stream = check_stream_find(&name);
    assert_non_null(stream);
    self->index = stream->index;
    assert_true(self->index < MOST);
    modelled_settle(self);
    return stream;
}

static modelled *stream_make(enum kind kind, int device)
{
    modelled *self = &list[list_count++];
    *self = (modelled){.kind = kind, .device = device};
    if (kind != LEGACY)
        self->handle = ++handles_made * 64 + 4096;
    if (kind == FREE_RUNNING)
        check_stream_made(handle_of(self), CU_STREAM_NON_BLOCKING);
    check_name name = name_of(self);
    check_stream *stream = check_stream_find(&name);
    assert_non_null(stream);
    self->index = stream->index;
    self->done = stream->done;
    has_ended[self->index] = 0;
    modelled_settle(self);
    return self;
}

static void stream_work(modelled *self)
{
    self->done = check_stream_work(stream_of(self));
}

static void host_waits(modelled *self, uint64_t number)
{
    check_stream *stream = stream_of(self);
    check_host_saw(stream, number);
    whole_follow(&host, self, number < self->done ? number : self->done);
}

static void host_waits_for_device(int device)
{
    check_host_saw_device(device);
    for (size_t i = 0; i < list_count + PARTS + MOST; i++)
        if (is_there(i, device))
            whole_follow(&host, modelled_at(i), modelled_at(i)->done);
}

static void event_records(size_t event, modelled *self)
{
    check_stream *stream = stream_of(self);
    check_event_set((CUevent)(event + 1), check_moment_of(stream)); /* NOLINT */
    marks[event] = (whole){{0}};
    whole_follow(&marks[event], self, self->done);
    has_mark[event] = 1;
}

static void event_is_waited_for(size_t event, modelled *self)
{
    check_stream *stream = stream_of(self);
    check_stream_follow(stream, check_event_get((CUevent)(event + 1))); /* NOLINT */
    if (has_mark[event])
        whole_join(&self->known, &marks[event]);
}

static void all_are_followed(modelled *self)
{
    check_stream_follow_all(stream_of(self));
    for (size_t i = 0; i < list_count + PARTS + MOST; i++)
        if (modelled_at(i) != self && is_there(i, -1))
            whole_follow(&self->known, modelled_at(i), modelled_at(i)->done);
}

/* The next one may get its index, even if it has waited for something since its last work. */
static void stream_ends(modelled *self)
{
    check_name name = name_of(self);
    if (self->kind == LEGACY)
        return;
    host_waits(self, self->done);
    if (random_below(2) == 0) {
        event_is_waited_for(random_below(EVENTS), self);
        event_records(random_below(EVENTS), self);
    }
    check_stream_ends(name.stream);
    ended[self->index] = *self;
    has_ended[self->index] = 1;
    *self = list[--list_count];
}

/* An index that a stream had, or had not. */
static void part_make(size_t i)
{
    part_streams[i] = check_stream_part_make();
    assert_non_null(part_streams[i]);
    parts[i] = (modelled){
        .kind = FREE_RUNNING, .index = part_streams[i]->index, .done = part_streams[i]->done};
    assert_true(parts[i].index < MOST);
    has_ended[parts[i].index] = 0;
}

static void part_is_made_again(size_t i)
{
    check_stream_part_end(part_streams[i]);
    ended[parts[i].index] = parts[i];
    has_ended[parts[i].index] = 1;
    part_make(i);
}

/* Two parts, of which the second may wait for an event; a third event stands for one of them, or
 * for both. */
static void parts_are_launched(modelled *self)
{
    check_stream *stream = stream_of(self);
    size_t first = random_below(PARTS), second = (first + 1) % PARTS, mark = random_below(EVENTS);
    size_t which[] = {first, second}, waited = random_below(EVENTS);
    for (int i = 0; i < 2; i++) {
        modelled *part = &parts[which[i]];
        check_stream_part_begin(part_streams[which[i]], stream);
        whole_follow(&part->known, self, self->done);
        part->device = self->device;
        if (i == 1 && has_mark[waited]) {
            check_stream_follow(part_streams[second],
                                check_event_get((CUevent)(waited + 1))); /* NOLINT */
            whole_join(&part->known, &marks[waited]);
        }
        uint64_t before = part->done > self->done ? part->done : self->done;
        check_stream_part_work(part_streams[which[i]], stream);
        part->done = part_streams[which[i]]->done;
        assert_int_equal(part->done, before + 1);
    }
    check_moment *moment = check_moment_of(part_streams[first]);
    marks[mark] = (whole){{0}};
    has_mark[mark] = 1;
    whole_follow(&marks[mark], &parts[first], parts[first].done);
    if (random_below(2) == 0) {
        check_moment_cover(moment, part_streams[second]);
        whole_follow(&marks[mark], &parts[second], parts[second].done);
    }
    check_event_set((CUevent)(mark + 1), moment); /* NOLINT */
    for (int i = 0; i < 2; i++) {
        check_stream_follow_stream(stream, part_streams[which[i]]);
        whole_follow(&self->known, &parts[which[i]], parts[which[i]].done);
    }
    stream_work(self);
}

static void compare(void)
{
    for (size_t i = 0; i < list_count; i++) {
        const check_stream *stream = stream_of(&list[i]);
        for (size_t j = 0; j < list_count + PARTS; j++) {
            size_t index = modelled_at(j)->index;
            uint64_t known = list[i].known.at[index];
            uint64_t until = known > host.at[index] ? known : host.at[index];
            if (i == j)
                continue;
            assert_true(until == 0 || check_is_after(stream, index, until));
            assert_false(check_is_after(stream, index, until + 1));
            assert_true(check_host_is_after(index, host.at[index]));
            assert_false(check_host_is_after(index, host.at[index] + 1));
        }
    }
}

static void step(void)
{
    modelled *self = &list[random_below(list_count)];
    size_t event = random_below(EVENTS);
    switch (random_below(40)) {
    case 0:
        if (list_count < LOWER)
            (void)stream_make(random_below(2) ? BLOCKING : FREE_RUNNING, 0);
        break;
    case 1:
        if (list_count < LOWER)
            (void)stream_make(BLOCKING, 1);
        break;
    case 2:
        stream_ends(self);
        break;
    case 3:
        host_waits_for_device((int)random_below(DEVICES + 1) - 1);
        break;
    case 4:
        host_waits(self, random_below((size_t)self->done + 1));
        break;
    case 5:
        all_are_followed(self);
        break;
    case 6:
        part_is_made_again(random_below(PARTS));
        break;
    case 7:
    case 8:
        parts_are_launched(self);
        break;
    default:
        if (random_below(3) == 0)
            event_records(event, self);
        else if (random_below(2) == 0)
            event_is_waited_for(event, self);
        else
            stream_work(self);
    }
}

static check_stream *plain_make(unsigned flags)
{
    CUstream handle = (CUstream)(++handles_made * 64 + 4096); /* NOLINT */
    check_stream_made(handle, flags);
    check_stream *stream = check_stream_keyed(handle);
    assert_non_null(stream);
    return stream;
}

static void follow(check_stream *stream, const check_stream *other)
{
    check_moment *moment = check_moment_of(other);
    assert_non_null(moment);
    check_stream_follow(stream, moment);
    check_moment_drop(moment);
}

/* The next stream of its index has the next number, and knows nothing of what the first one had
 * waited for by then. */
static void an_event_outlives_its_stream(void **state)
{
    check_stream *other = plain_make(CU_STREAM_NON_BLOCKING);
    check_stream *first = plain_make(CU_STREAM_NON_BLOCKING);
    check_stream *last = plain_make(CU_STREAM_NON_BLOCKING);
    size_t index = first->index;
    (void)state;
    (void)check_stream_work(first);
    check_host_saw(first, first->done);
    (void)check_stream_work(other);
    follow(first, other);
    check_moment *moment = check_moment_of(first);
    check_stream_ends((CUstream)first->handle); /* NOLINT */
    check_stream *next = plain_make(CU_STREAM_NON_BLOCKING);
    assert_int_equal(next->index, index);
    (void)check_stream_work(next);
    follow(last, next);
    assert_false(check_is_after(last, other->index, other->done));
    check_stream_follow(last, moment);
    assert_true(check_is_after(last, other->index, other->done));
    check_moment_drop(moment);
}

static void order_is_that_of_whole_clocks(void **state)
{
    (void)state;
    random_state = 20260101;
    for (int i = 0; i < DEVICES; i++)
        (void)stream_make(LEGACY, i);
    for (size_t i = 0; i < PARTS; i++)
        part_make(i);
    while (list_count < LOWER / 2)
        (void)stream_make(list_count % 2 ? BLOCKING : FREE_RUNNING, 0);
    for (int i = 0; i < ROUNDS; i++) {
        step();
        if (i % 4 == 0)
            compare();
    }
}

/* ---- work ------------------------------------------------------------------------------------ */

enum { FEW = 500, MANY = 4 * FEW };
static check_stream *crowd[MANY];

static void crowd_make(size_t count, unsigned flags)
{
    for (size_t i = 0; i < count; i++)
        crowd[i] = plain_make(flags);
}

static void crowd_end(size_t count)
{
    check_host_saw_device(-1);
    for (size_t i = 0; i < count; i++)
        check_stream_ends((CUstream)crowd[i]->handle); /* NOLINT */
}

static void apart(size_t count)
{
    for (size_t i = 0; i < 4 * count; i++)
        (void)check_stream_work(crowd[i % count]);
    for (size_t i = 0; i < count; i++)
        check_host_saw(crowd[i], crowd[i]->done);
}

static void chain(size_t count)
{
    for (size_t i = 1; i < count; i++) {
        (void)check_stream_work(crowd[i - 1]);
        follow(crowd[i], crowd[i - 1]);
    }
    for (size_t i = 0; i < count; i++)
        check_host_saw(crowd[i], crowd[i]->done);
}

static void ring(size_t count)
{
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < count; i++) {
            (void)check_stream_work(crowd[i]);
            follow(crowd[(i + 1) % count], crowd[i]);
        }
}

static void fork_and_join(size_t count)
{
    for (int round = 0; round < 4; round++) {
        (void)check_stream_work(crowd[0]);
        check_moment *moment = check_moment_of(crowd[0]);
        assert_non_null(moment);
        for (size_t i = 1; i < count; i++) {
            check_stream_follow(crowd[i], moment);
            (void)check_stream_work(crowd[i]);
        }
        check_moment_drop(moment);
        for (size_t i = 1; i < count; i++)
            follow(crowd[0], crowd[i]);
    }
    for (size_t i = 0; i < count; i++)
        check_host_saw(crowd[i], crowd[i]->done);
}

static void with_the_legacy_stream(size_t count)
{
    check_name name = {NULL, check_stream_key(NULL, 0), 0, 0};
    for (size_t i = 0; i < 2 * count; i++) {
        check_name own = {(CUstream)crowd[i % count]->handle, crowd[i % count]->handle, 0, 0};
        (void)check_stream_work(check_stream_find(&own));
        (void)check_stream_work(check_stream_find(&name));
    }
}

static void with_the_device(size_t count)
{
    for (size_t i = 0; i < 4 * count; i++) {
        (void)check_stream_work(crowd[i % count]);
        check_host_saw_device(0);
    }
}

static uint64_t steps_of(void (*shape)(size_t), size_t count, unsigned flags)
{
    crowd_make(count, flags);
    uint64_t before = check_clock_steps;
    shape(count);
    uint64_t steps = check_clock_steps - before;
    crowd_end(count);
    return steps;
}

static void work_grows_with_the_streams(void **state)
{
    static const struct {
        const char *name;
        void (*shape)(size_t);
        unsigned flags;
    } shapes[] = {{"apart", apart, CU_STREAM_NON_BLOCKING},
                  {"chain", chain, CU_STREAM_NON_BLOCKING},
                  {"ring", ring, CU_STREAM_NON_BLOCKING},
                  {"fork", fork_and_join, CU_STREAM_NON_BLOCKING},
                  {"legacy", with_the_legacy_stream, CU_STREAM_DEFAULT},
                  {"device", with_the_device, CU_STREAM_NON_BLOCKING}};
    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        uint64_t few = steps_of(shapes[i].shape, FEW, shapes[i].flags);
        uint64_t many = steps_of(shapes[i].shape, MANY, shapes[i].flags);
        print_message("%s: %llu steps, %llu with four times the streams\n", shapes[i].name,
                      (unsigned long long)few, (unsigned long long)many);
        assert_true(few > FEW);
        assert_true(many < 6 * few);
    }
}

/* ---- no memory ------------------------------------------------------------------------------- */

enum allocator { MALLOC, CALLOC, REALLOC, ALLOCATORS };
static enum allocator failing; /* which, at which call; 0: at none */
static size_t fails_at, asked;

static int fails(enum allocator which)
{
    return fails_at > 0 && which == failing && ++asked == fails_at;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return fails(MALLOC) ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails(CALLOC) ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails(REALLOC) ? NULL : __real_realloc(old, bytes);
}

/* A work of a stream; number 0: no memory. */
static check_point work_on(CUstream stream)
{
    check_name name = check_name_of(stream);
    check_stream *one = check_stream_find(&name);
    return one == NULL ? (check_point){0, 0} : (check_point){one->index, check_stream_work(one)};
}

/* The stream, or the host (null), comes after the work, or that is doubted. */
static int is_after_or_doubted(CUstream stream, check_point work)
{
    check_name name = check_name_of(stream);
    const check_stream *one = stream == NULL ? NULL : check_stream_find(&name);
    int is_after = one == NULL ? check_host_is_after(work.index, work.number)
                               : check_is_after(one, work.index, work.number);
    return work.number == 0 || is_after || check_doubt(one, work.index, work.number) != NULL;
}

/* Streams wait for each other in a row, and the host for the last one. */
static void row_run(void)
{
    enum { ROW = 12 };
    check_point works[ROW];
    CUstream last = NULL;
    CUevent event = (CUevent)&asked;
    asked = 0;
    check_order_is_lost = 0;
    for (int i = 0; i < ROW; i++) {
        CUstream stream = (CUstream)(++handles_made * 64 + 4096); /* NOLINT */
        check_stream_made(stream, CU_STREAM_NON_BLOCKING);
        if (last != NULL)
            check_event_waited(stream, event);
        works[i] = work_on(stream);
        check_event_recorded(event, stream);
        last = stream;
    }
    for (int i = 0; i < ROW; i++)
        assert_true(is_after_or_doubted(last, works[i]));
    check_event_seen(check_event_moment(event), 1);
    for (int i = 0; i < ROW; i++)
        assert_true(is_after_or_doubted(NULL, works[i]));
    assert_int_equal(check_order_is_lost, asked >= fails_at);
    check_event_ends(event);
}

/* Each call of an allocator fails, one in each row, until there are no more in a row. */
static void without_memory_all_order_is_doubted(void **state)
{
    (void)state;
    for (failing = MALLOC; failing < ALLOCATORS; failing++) {
        int has_failed = 1;
        for (fails_at = 1; has_failed || fails_at == 1; fails_at += has_failed != 0) {
            row_run();
            has_failed = asked >= fails_at;
        }
    }
    fails_at = 0;
}

static void a_clock_that_cannot_grow_says_so(void **state)
{
    check_clock clock = {.root = NULL};
    (void)state;
    assert_true(check_clock_raise(&clock, 0, 1));
    check_order_is_lost = 0;
    failing = CALLOC;
    fails_at = 1;
    asked = 0;
    assert_false(check_clock_raise(&clock, CHECK_CLOCK_PLACES, 1));
    fails_at = 0;
    assert_true(check_order_is_lost);
    check_clock_clear(&clock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_event_outlives_its_stream),
                                       cmocka_unit_test(order_is_that_of_whole_clocks),
                                       cmocka_unit_test(without_memory_all_order_is_doubted),
                                       cmocka_unit_test(a_clock_that_cannot_grow_says_so),
                                       cmocka_unit_test(work_grows_with_the_streams)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
