/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks of streams and of the host.
 *
 * A stream has a slot, its index in all clocks. Its time there is the ticket of the last operation
 * that it ran. A clock is copied only if it is shared and must change. So an event record, a query
 * or a submission costs a reference, not a copy.
 *
 * The host has one clock for all its threads. Threads tell each other what they have waited for by
 * mutexes and condition variables, and the simulation cannot see those. So what one thread knows
 * all know.
 *
 * When a stream is gone, another stream gets its slot as soon as the host knows all the old
 * stream's work to be finished. Everything that the new stream is given is then ordered after that
 * work.
 */
#include "race.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLOT_STEP = 16, /* clocks grow by so many entries */
    GONE_LOOKS = 8  /* slots of gone streams looked at for a new one */
};

struct slot {
    const struct sim_context *context;
    struct sim_clock *clock; /* without the stream's own entry, which is time */
    uint64_t time;           /* ticket of the last operation that ran */
    int is_blocking;         /* ordered against the legacy stream */
};

static struct slot *slots; /* [0] is nobody's */
static size_t slot_count;
static size_t slot_room;
static uint32_t *gone; /* slots whose stream is no more */
static size_t gone_count;
static size_t gone_room;
static struct sim_clock *host;
static uint64_t host_version = 1; /* rises when host changes */
static struct sim_release *release_free_list;

/* ---- clocks --------------------------------------------------------------------------------- */

uint64_t sim_clock_time(const struct sim_clock *clock, uint32_t slot)
{
    return clock != NULL && slot < clock->count ? clock->time[slot] : 0;
}

static struct sim_clock *clock_hold(struct sim_clock *clock)
{
    if (clock != NULL)
        clock->references++;
    return clock;
}

static void clock_drop(struct sim_clock *clock)
{
    if (clock != NULL && --clock->references == 0)
        free(clock);
}

/* Makes *clock one that only its owner refers to, with room for a slot. */
static int clock_own(struct sim_clock **clock, uint32_t slot)
{
    struct sim_clock *old = *clock;
    uint32_t count = old == NULL ? 0 : old->count;
    if (old != NULL && old->references == 1 && slot < count)
        return 1;
    uint32_t wanted = slot < count ? count : (slot / SLOT_STEP + 1) * SLOT_STEP;
    struct sim_clock *own = malloc(sizeof(*own) + wanted * sizeof(own->time[0]));
    if (own == NULL) {
        sim_races_give_up();
        return 0;
    }
    own->references = 1;
    own->count = wanted;
    memset(own->time, 0, wanted * sizeof(own->time[0]));
    if (old != NULL)
        memcpy(own->time, old->time, count * sizeof(own->time[0]));
    clock_drop(old);
    *clock = own;
    return 1;
}

/* Whether a knows everything that b knows. */
static int clock_covers(const struct sim_clock *a, const struct sim_clock *b)
{
    for (uint32_t i = 0; b != NULL && a != b && i < b->count; i++)
        if (b->time[i] > sim_clock_time(a, i))
            return 0;
    return 1;
}

static void clock_merge(struct sim_clock **into, struct sim_clock *other)
{
    if (other == NULL || clock_covers(*into, other))
        return;
    if (clock_covers(other, *into)) {
        clock_drop(*into);
        *into = clock_hold(other);
        return;
    }
    if (!clock_own(into, other->count - 1))
        return;
    for (uint32_t i = 0; i < other->count; i++)
        if (other->time[i] > (*into)->time[i])
            (*into)->time[i] = other->time[i];
}

/* Orders the clock's owner after the point. Who knows a point's ticket knows its clock already. */
void sim_clock_join(struct sim_clock **into, const struct sim_release *release)
{
    int known = release->slot != 0 && sim_clock_time(*into, release->slot) >= release->ticket;
    if (known)
        return;
    clock_merge(into, release->clock);
    if (release->slot != 0 && sim_clock_time(*into, release->slot) < release->ticket &&
        clock_own(into, release->slot))
        (*into)->time[release->slot] = release->ticket;
}

/* ---- points --------------------------------------------------------------------------------- */

/* Refers to the clock too. Null, with the detector given up, when memory is short. */
struct sim_release *sim_release_new(struct sim_clock *clock, uint32_t slot, uint64_t ticket)
{
    struct sim_release *release = release_free_list;
    if (release != NULL) {
        release_free_list = release->next_free;
    } else {
        release = malloc(sizeof(*release));
        if (release == NULL) {
            sim_races_give_up();
            return NULL;
        }
    }
    *release = (struct sim_release){1, slot, ticket, clock_hold(clock), NULL};
    return release;
}

struct sim_release *sim_release_hold(struct sim_release *release)
{
    if (release != NULL)
        release->references++;
    return release;
}

void sim_release_drop(struct sim_release *release)
{
    if (release != NULL && --release->references == 0) {
        clock_drop(release->clock);
        release->next_free = release_free_list;
        release_free_list = release;
    }
}

void sim_race_point_hold(struct sim_point point)
{
    (void)sim_release_hold(point.release);
}

void sim_race_point_drop(struct sim_point point)
{
    sim_release_drop(point.release);
}

struct sim_release *sim_release_host(void)
{
    return sim_release_new(host, 0, 0);
}

const struct sim_clock *sim_clock_host(void)
{
    return host;
}

/* ---- slots ---------------------------------------------------------------------------------- */

/* A slot whose stream is gone and whose work the host knows to be finished, or 0. */
static uint32_t slot_inherit(void)
{
    for (size_t i = 0; i < gone_count && i < GONE_LOOKS; i++) {
        uint32_t slot = gone[gone_count - 1 - i];
        if (sim_clock_time(host, slot) >= slots[slot].time) {
            gone_count--;
            gone[gone_count - i] = gone[gone_count];
            clock_drop(slots[slot].clock);
            return slot;
        }
    }
    return 0;
}

static uint32_t slot_append(void)
{
    size_t first = slot_count == 0 ? 1 : slot_count;
    struct slot *larger = sim_grow(slots, &slot_room, first + 1, sizeof(*larger));
    if (larger == NULL) {
        sim_races_give_up();
        return 0;
    }
    slots = larger;
    memset(&slots[first], 0, sizeof(slots[first]));
    slot_count = first + 1;
    return (uint32_t)first;
}

uint32_t sim_clock_slot(struct sim_stream *stream)
{
    if (stream->race_slot == 0) {
        uint32_t slot = slot_inherit();
        slot = slot != 0 ? slot : slot_append();
        if (slot == 0)
            return 0;
        slots[slot].context = stream->context;
        slots[slot].clock = NULL;
        slots[slot].is_blocking = stream->is_blocking;
        stream->race_slot = slot;
        stream->race_host = 0;
    }
    return stream->race_slot;
}

void sim_race_stream_gone(struct sim_stream *stream)
{
    if (stream->race_slot == 0)
        return;
    uint32_t *larger = sim_grow(gone, &gone_room, gone_count + 1, sizeof(*larger));
    if (larger != NULL) { /* else the slot is lost, which costs an entry in clocks */
        gone = larger;
        gone[gone_count++] = stream->race_slot;
    }
    stream->race_slot = 0;
}

const struct sim_clock *sim_clock_stream(const struct sim_stream *stream)
{
    return stream->race_slot == 0 ? NULL : slots[stream->race_slot].clock;
}

void sim_clock_stream_join(struct sim_stream *stream, const struct sim_release *release)
{
    if (stream->race_slot != 0 && release != NULL && release->slot != stream->race_slot)
        sim_clock_join(&slots[stream->race_slot].clock, release);
}

/* A point in a stream by its slot; what the stream learnt after it counts too. */
struct sim_release *sim_clock_of_slot(uint32_t slot, uint64_t ticket)
{
    return sim_release_new(slots[slot].clock, slot, ticket);
}

/* Whether an operation that has begun is still running. */
int sim_clock_runs(uint32_t slot, uint64_t ticket)
{
    return slots[slot].time < ticket;
}

/* ---- operations ----------------------------------------------------------------------------- */

/* What the host knows at the call; nothing to do unless it has learnt something since the last. */
void sim_clock_submitted(struct sim_stream *stream, struct sim_op *op)
{
    uint32_t slot = sim_clock_slot(stream);
    if (slot == 0)
        return;
    if (stream->race_host != host_version) {
        stream->race_host = host_version;
        op->acquire = sim_release_host();
    }
    if (sim_op_records(op))
        op->record.release = sim_release_new(NULL, slot, op->ticket);
}

static void join_slot(struct sim_clock **into, uint32_t slot)
{
    struct sim_release last = {1, slot, slots[slot].time, slots[slot].clock, NULL};
    sim_clock_join(into, &last);
}

/* The legacy stream after all blocking streams of its context, and they after it. */
static void join_legacy(const struct sim_stream *stream)
{
    struct sim_clock **clock = &slots[stream->race_slot].clock;
    const struct sim_stream *legacy = stream->context->legacy;
    if (stream->is_blocking && legacy->race_slot != 0)
        join_slot(clock, legacy->race_slot);
    for (uint32_t i = 1; stream->kind == SIM_LEGACY && i < slot_count; i++)
        if (slots[i].is_blocking && slots[i].context == stream->context)
            join_slot(clock, i);
}

/* An operation's turn has come: makes the stream's clock the operation's. */
void sim_clock_begin(struct sim_stream *stream, struct sim_op *op)
{
    sim_clock_stream_join(stream, op->acquire);
    if (stream->race_slot == 0)
        return;
    join_legacy(stream);
    if (op->kind == SIM_OP_WAIT)
        sim_clock_stream_join(stream, op->wait.release);
    struct sim_clock **own = &slots[stream->race_slot].clock;
    if (op->forks && clock_own(own, stream->race_slot)) {
        /* With its own time in it, those who join it can share it; else each makes a copy. */
        (*own)->time[stream->race_slot] = op->ticket;
    }
    if (sim_op_records(op) && op->record.release != NULL) {
        struct sim_release *release = op->record.release;
        clock_drop(release->clock);
        release->clock = clock_hold(slots[stream->race_slot].clock);
    }
}

void sim_clock_end(const struct sim_stream *stream, const struct sim_op *op)
{
    if (stream->race_slot != 0)
        slots[stream->race_slot].time = op->ticket;
}

/* ---- the host ------------------------------------------------------------------------------- */

/* If nothing is queued and all that ever ran is known, no earlier access can race any more. */
static void forget_known(void)
{
    if (sim.pending != 0)
        return;
    for (uint32_t i = 1; i < slot_count; i++)
        if (slots[i].time > sim_clock_time(host, i))
            return;
    sim_shadow_forget_all();
}

void sim_clock_host_join(const struct sim_release *release)
{
    if (release == NULL ||
        (release->slot != 0 && sim_clock_time(host, release->slot) >= release->ticket))
        return;
    sim_gate_host();
    sim_clock_join(&host, release);
    host_version++;
    forget_known();
}

/* The host knows that the stream's work up to a ticket is finished. */
static void host_join_slot(uint32_t slot, uint64_t ticket)
{
    uint64_t time = slots[slot].time < ticket ? slots[slot].time : ticket;
    struct sim_release point = {1, slot, time, slots[slot].clock, NULL};
    sim_clock_host_join(&point);
}

void sim_race_waited(struct sim_point point)
{
    if (!sim.races_on)
        return;
    if (point.release != NULL)
        sim_clock_host_join(point.release);
    else if (point.stream->race_slot != 0)
        host_join_slot(point.stream->race_slot, point.ticket);
}

/* A query said that the stream is idle; the legacy stream speaks for the blocking ones too. */
void sim_race_idle(const struct sim_stream *stream)
{
    if (!sim.races_on)
        return;
    if (stream->race_slot != 0)
        host_join_slot(stream->race_slot, UINT64_MAX);
    for (uint32_t i = 1; stream->kind == SIM_LEGACY && i < slot_count; i++)
        if (slots[i].is_blocking && slots[i].context == stream->context)
            host_join_slot(i, UINT64_MAX);
}

/* Everything of a context, or of a device, up to a ticket was waited for. */
void sim_race_waited_all(const struct sim_context *context, const struct sim_device *device,
                         uint64_t ticket)
{
    for (uint32_t i = 1; sim.races_on && i < slot_count; i++)
        if (context != NULL ? slots[i].context == context : slots[i].context->device == device)
            host_join_slot(i, ticket);
}

void sim_clock_reset(void)
{
    for (size_t i = 1; i < slot_count; i++)
        clock_drop(slots[i].clock);
    free(slots);
    free(gone);
    clock_drop(host);
    slots = NULL;
    slot_count = slot_room = 0;
    gone = NULL;
    gone_count = gone_room = 0;
    host = NULL;
    host_version++;
    while (release_free_list != NULL) {
        struct sim_release *release = release_free_list;
        release_free_list = release->next_free;
        free(release);
    }
}
